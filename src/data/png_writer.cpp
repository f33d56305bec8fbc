#include <zlib.h>

#include <algorithm>
#include <limits>

#include "data/png.h"
#include "extensor/data/readers.h"
#include "io/atomic_file.h"
#include "io/check_tensors.h"

namespace extensor {

namespace io {

using detail::message;

namespace {

void append_big_endian(std::vector<std::uint8_t>& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

void write_chunk(ByteSink& sink, std::string_view type, std::span<const std::uint8_t> data) {
  std::vector<std::uint8_t> start, end;
  append_big_endian(start, static_cast<std::uint32_t>(data.size()));
  start.insert(start.end(), type.begin(), type.end());
  uLong crc = crc32_z(0, start.data() + 4, 4);
  if (!data.empty()) crc = crc32_z(crc, data.data(), data.size());
  append_big_endian(end, static_cast<std::uint32_t>(crc));
  sink.write(std::as_bytes(std::span(start)));
  sink.write(std::as_bytes(data));
  sink.write(std::as_bytes(std::span(end)));
}

// Compresses the lines of pixels, each preceded by filter byte 0.
std::vector<std::uint8_t> compressed_lines(const std::string& label, const Tensor& image,
                                           std::size_t channels) {
  const auto height = static_cast<std::size_t>(image.size(-2));
  const auto width = static_cast<std::size_t>(image.size(-1));
  std::vector<std::uint8_t> lines(height * (1 + width * channels));
  const auto* from = image.data<std::uint8_t>();
  auto to = lines.begin();
  for (std::size_t y = 0; y < height; ++y) {
    *to++ = 0;
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) *to++ = from[(c * height + y) * width + x];
    }
  }
  uLongf size = compressBound(lines.size());
  std::vector<std::uint8_t> compressed(size);
  if (compress(compressed.data(), &size, lines.data(), lines.size()) != Z_OK) {
    throw OutOfMemoryError(message(label, ": no memory to compress ", lines.size(), " bytes"));
  }
  compressed.resize(size);
  return compressed;
}

}  // namespace

void check_picture(const std::string& label, const Tensor& image) {
  check_tensors(message(label, ": the image"), image);
  if (image.dtype() != DType::uint8) {
    throw DTypeError(message(label, ": the image is ", image.dtype(), " (allowed: uint8)"));
  }
  const std::int64_t rank = image.ndim(), most = std::numeric_limits<std::int32_t>::max();
  const bool right = (rank == 2 || (rank == 3 && (image.size(0) == 1 || image.size(0) == 3))) &&
                     image.size(-1) >= 1 && image.size(-2) >= 1 && image.size(-1) <= most &&
                     image.size(-2) <= most;
  if (!right) {
    throw ShapeError(message(label, ": the image has shape ", image.shape(),
                             " (allowed: [height, width], or 1 or 3 of them)"));
  }
}

void write_png(ByteSink& sink, const std::string& label, const Tensor& image) {
  check_picture(label, image);
  const Tensor pixels = dense(image);
  const bool colour = image.ndim() == 3 && image.size(0) == 3;
  const std::vector<std::uint8_t> data = compressed_lines(label, pixels, colour ? 3 : 1);
  std::vector<std::uint8_t> header;
  append_big_endian(header, static_cast<std::uint32_t>(image.size(-1)));
  append_big_endian(header, static_cast<std::uint32_t>(image.size(-2)));
  header.insert(header.end(),
                {8, static_cast<std::uint8_t>(colour ? Png::rgb : Png::gray), 0, 0, 0});
  sink.write(std::as_bytes(std::span(png_signature)));
  write_chunk(sink, "IHDR", header);
  constexpr std::size_t longest = 1 << 30;
  for (std::size_t at = 0; at < data.size(); at += longest) {
    write_chunk(sink, "IDAT", std::span(data).subspan(at, std::min(longest, data.size() - at)));
  }
  write_chunk(sink, "IEND", {});
}

}  // namespace io

namespace data {

void save_png(const std::filesystem::path& path, const Tensor& image) {
  // Check before a file is touched.
  io::check_picture("save_png", image);
  io::AtomicFile file("save_png", path);
  io::write_png(file, file.label(), image);
  file.commit();
}

}  // namespace data

}  // namespace extensor
