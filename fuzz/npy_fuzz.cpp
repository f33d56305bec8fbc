#include "io/npy.h"

#include "fuzz/reader.h"

namespace {

using namespace extensor;

fuzz::File written(const NamedTensors& tensors) {
  io::MemorySink sink;
  io::write_npy(sink, "written", tensors.front().second);
  return sink.bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = [](const io::ByteSource& source) {
    io::SourceStream stream(source);
    return NamedTensors{{"", io::read_npy(stream)}};
  };
  return fuzz::check_reader(data, size, read, written);
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    std::vector<fuzz::File> list;
    for (const auto& named : fuzz::sample_tensors()) list.push_back(written({named}));
    return list;
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
