#include "io/safetensors.h"

#include "fuzz/reader.h"

namespace {

using namespace extensor;

Metadata metadata;  // of the file that was read last

fuzz::File written(const NamedTensors& tensors) {
  io::MemorySink sink;
  io::check_safetensors("written", tensors, metadata);
  io::write_safetensors(sink, tensors, metadata);
  return sink.bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = [](const io::ByteSource& source) {
    Safetensors file = io::read_safetensors(source);
    metadata = file.metadata;
    return file.tensors;
  };
  return fuzz::check_reader(data, size, read, written);
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    metadata = {{"format", "pt"}};
    return std::vector<fuzz::File>{written(fuzz::sample_tensors()), written({})};
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
