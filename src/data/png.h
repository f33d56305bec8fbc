// PNG images (ISO/IEC 15948): a signature, then chunks of length, type, data and CRC.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "extensor/data/readers.h"
#include "extensor/tensor.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"

namespace extensor::io {

inline constexpr std::array<std::uint8_t, 8> png_signature = {0x89, 'P',  'N',  'G',
                                                              '\r', '\n', 0x1a, '\n'};

// The contents of the chunks, with the pixels still compressed.
struct Png {
  enum Colour : std::uint8_t { gray = 0, rgb = 2, indexed = 3, gray_alpha = 4, rgb_alpha = 6 };

  std::uint32_t width = 0, height = 0;
  unsigned depth = 0;  // bits per sample
  Colour colour = gray;
  bool interlaced = false;
  std::vector<std::array<std::uint8_t, 3>> palette;
  std::vector<std::uint8_t> palette_alpha;                  // of the first palette entries
  std::optional<std::array<std::uint16_t, 3>> transparent;  // the colour that is transparent
  std::span<const std::byte> data;                          // the IDAT chunks, from first to last
  std::uint64_t data_size = 0;  // total size of the data in the IDAT chunks

  unsigned samples() const;  // samples per pixel
  std::int64_t channels() const { return colour == gray || colour == gray_alpha ? 1 : 3; }
};

bool is_png(std::span<const std::byte> file);

// Parses all chunks; checks their order and CRCs. Throws FormatError.
Png parse_png(const std::string& label, std::span<const std::byte> file);

// Reads one chunk from the beginning of `bytes`, checks its CRC and advances `bytes` past it.
// Throws FormatError.
struct PngChunk {
  std::string type;
  std::span<const std::byte> data;
};
PngChunk next_png_chunk(const std::string& label, std::span<const std::byte>& bytes);

// Returns uint8 [channels, height, width] with 1 or 3 channels. Throws FormatError.
Tensor read_png(const std::string& label, std::span<const std::byte> file,
                std::int64_t max_pixels = data::default_max_pixels);

// Throws ShapeError, DTypeError or ValueError if the tensor is not an image.
void check_picture(const std::string& label, const Tensor& image);
void write_png(ByteSink& sink, const std::string& label, const Tensor& image);

}  // namespace extensor::io
