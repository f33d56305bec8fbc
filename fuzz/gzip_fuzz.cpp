// Gzip members: arbitrary bytes, and the same bytes compressed.
#include "data/gzip.h"

#include "fuzz/data_reader.h"

namespace {

using namespace extensor;

// Reads everything in pieces; the size of the pieces must not matter.
fuzz::File inflated(std::span<const std::byte> bytes, std::size_t piece) {
  const io::MemorySource source("fuzz", bytes);
  io::GzipStream stream(source);
  fuzz::File all, buffer(piece);
  // Stops at 1 MiB, so that a decompression bomb takes no time.
  for (std::size_t count = piece; count == piece && all.size() < (1 << 20);) {
    {
      const fuzz::AllocationLimit limit(bytes.size());
      count = stream.read(buffer);
    }
    all.insert(all.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const fuzz::File whole = inflated(bytes, 1 << 12);
    if (whole.size() < (1 << 16) && inflated(bytes, 7) != whole) std::abort();
  } catch (const Error&) {
  }
  const fuzz::File file = fuzz::compressed(bytes, true);
  if (size < (1 << 16) && !std::ranges::equal(inflated(file, 1 << 12), bytes)) std::abort();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    std::vector<fuzz::File> list = {fuzz::compressed(fuzz::file_of("hello, hello"), true),
                                    fuzz::compressed({}, true)};
    fuzz::File both = list[0];
    both.insert(both.end(), list[1].begin(), list[1].end());
    list.push_back(both);
    return list;
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
