// Image files: PNG and Netpbm. Some PNG files get correct CRCs and compression before they are
// read, because a fuzzer does not find inputs that pass them.
#include "data/image_file.h"
#include "data/png.h"

#include "fuzz/data_reader.h"

namespace {

using namespace extensor;

fuzz::File written(const Tensor& image) {
  io::MemorySink sink;
  io::write_png(sink, "written", image);
  return sink.bytes;
}

void append(fuzz::File& file, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    file.push_back(static_cast<std::byte>(value >> shift));
}

void append_chunk(fuzz::File& file, const char* type, std::span<const std::byte> data) {
  append(file, static_cast<std::uint32_t>(data.size()));
  const std::size_t from = file.size();
  for (int i = 0; i < 4; ++i) file.push_back(static_cast<std::byte>(type[i]));
  file.insert(file.end(), data.begin(), data.end());
  append(file, static_cast<std::uint32_t>(crc32_z(
                   0, reinterpret_cast<const Bytef*>(file.data() + from), file.size() - from)));
}

// A PNG whose header, palette, transparency and lines are the given bytes.
fuzz::File wrapped(std::span<const std::byte> bytes) {
  fuzz::File file;
  for (const std::uint8_t byte : io::png_signature) file.push_back(std::byte{byte});
  const auto take = [&](std::size_t count) {
    const auto part = bytes.first(std::min(count, bytes.size()));
    bytes = bytes.subspan(part.size());
    return part;
  };
  // Small sides, so that the lines sometimes fill them.
  fuzz::File header(13);
  std::ranges::copy(take(5), header.begin() + 8);
  std::ranges::copy(take(1), header.begin() + 3);
  std::ranges::copy(take(1), header.begin() + 7);
  append_chunk(file, "IHDR", header);
  const auto lengths = take(2);
  if (lengths.size() == 2) {
    const auto colours = std::to_integer<std::size_t>(lengths[0]) % 64;
    if (colours != 0) append_chunk(file, "PLTE", take(3 * colours));
    const auto transparent = std::to_integer<std::size_t>(lengths[1]) % 16;
    if (transparent != 0) append_chunk(file, "tRNS", take(transparent));
  }
  append_chunk(file, "IDAT", fuzz::compressed(bytes, false));
  append_chunk(file, "IEND", {});
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data + 1, size - 1));
  const fuzz::File file =
      data[0] % 2 == 1 ? wrapped(bytes) : fuzz::File(bytes.begin(), bytes.end());
  Tensor image;
  try {
    const fuzz::AllocationLimit limit(file.size());
    image = io::read_image(io::MemorySource("fuzz", file));
  } catch (const Error&) {
    return 0;
  }
  if (image.numel() > (1 << 18)) return 0;
  const Tensor again = io::read_image(io::MemorySource("again", written(image)));
  if (!fuzz::same({{"", again}}, {{"", image}})) std::abort();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    std::vector<fuzz::File> list;
    for (const Shape& shape : {Shape{5, 7}, Shape{3, 4, 4}}) {
      fuzz::File file = written(zeros(shape, uint8));
      file.insert(file.begin(), std::byte{0});
      list.push_back(file);
    }
    // Bits, colour, two of no choice, interlace, sides, palette, transparency; lines.
    const auto png = [](std::string start, std::size_t lines) {
      return fuzz::file_of("\1" + start + std::string(lines, '\0'));
    };
    list.push_back(png(std::string("\10\0\0\0\0\4\3\0\0", 9), 3 * 5));
    list.push_back(png(std::string("\20\6\0\0\0\2\2\0\0", 9), 2 * 17));
    list.push_back(png(std::string("\4\3\0\0\0\4\3\2\1abcdef\x80", 16), 3 * 3));
    list.push_back(png(std::string("\10\2\0\0\1\1\1\0\6rgbrgb", 15), 4));
    list.push_back(fuzz::file_of(std::string("\0P5 2 2 255 abcd", 16)));
    list.push_back(fuzz::file_of(std::string("\0P3 1 2 9 1 2 3 #\n4 5 6", 23)));
    list.push_back(fuzz::file_of(std::string("\0P6 1 1 65535 abcdef", 20)));
    return list;
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
