#include "io/npz.h"

#include <zlib.h>

#include "fuzz/reader.h"
#include "io/npy.h"
#include "io/zip_format.h"

namespace {

using namespace extensor;

fuzz::File written(const NamedTensors& tensors, const io::ZipLimits& limits) {
  io::MemorySink sink;
  io::write_npz(sink, tensors, limits);
  return sink.bytes;
}

// An archive of one compressed array, which the library does not write itself.
fuzz::File deflated() {
  io::MemorySink array;
  io::write_npy(array, "deflated", zeros({500}));
  std::string data(array.bytes.size() + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(array.bytes.data());
  stream.avail_in = static_cast<uInt>(array.bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(data.data());
  stream.avail_out = static_cast<uInt>(data.size());
  deflate(&stream, Z_FINISH);
  data.resize(stream.total_out);
  deflateEnd(&stream);

  io::MemorySink sink;
  io::ZipWriter archive(sink);
  archive.add("x.npy", data, {});
  archive.finish();
  // Stored so far: sets the compression method and the uncompressed size.
  fuzz::File file = sink.bytes;
  const std::size_t central = io::local_size + 5 + data.size();
  const auto put = [&](std::size_t at, std::uint32_t value, std::size_t size) {
    std::memcpy(file.data() + at, &value, size);
  };
  put(8, io::deflated_method, 2);
  put(central + 10, io::deflated_method, 2);
  put(central + 24, static_cast<std::uint32_t>(array.bytes.size()), 4);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = [](const io::ByteSource& source) { return io::read_npz(source, false); };
  const auto write = [](const NamedTensors& tensors) { return written(tensors, {}); };
  return fuzz::check_reader(data, size, read, write);
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  NamedTensors few = fuzz::sample_tensors();
  few.resize(3);  // more would exceed the length of the fuzzer's inputs
  static const std::vector<fuzz::File> files = {
      written(few, {}), written({{"x", ones({2})}}, {.most_bytes = 0}),
      written({{"x", ones({2})}}, {.most_entries = 0}), deflated()};
  return fuzz::mutate(data, size, most, seed, files);
}
