// IDX files, plain and compressed.
#include "data/idx.h"

#include "fuzz/data_reader.h"

namespace {

using namespace extensor;

fuzz::File written(const std::vector<std::uint32_t>& shape, char kind, std::size_t bytes) {
  std::string text("\0\0", 2);
  text += kind;
  text += static_cast<char>(shape.size());
  for (const std::uint32_t size : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(size >> shift);
  }
  return fuzz::file_of(text + std::string(bytes, 'x'));
}

}  // namespace

// A file that can be read must read the same when compressed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (!fuzz::reads(data, size, io::read_idx)) return 0;
  const io::MemorySource source("fuzz", bytes);
  const Tensor tensor = io::read_idx(source);
  const bool plain = size < 2 || data[0] == 0;
  if (!plain || size > 4096) return 0;
  const fuzz::File file = fuzz::compressed(bytes, true);
  if (!fuzz::same({{"", io::read_idx(io::MemorySource("again", file))}}, {{"", tensor}}))
    std::abort();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    std::vector<fuzz::File> list = {written({2, 3, 4}, 8, 24), written({5}, 11, 10),
                                    written({}, 14, 8), written({0, 28, 28}, 13, 0)};
    list.push_back(fuzz::compressed(list[0], true));
    return list;
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
