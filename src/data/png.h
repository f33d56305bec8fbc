// Pictures as PNG (ISO/IEC 15948): a signature, and chunks of a length, a type, data and a CRC.
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

// What the chunks say, the compressed pixels as they are.
struct Png {
  enum Colour : std::uint8_t { gray = 0, rgb = 2, indexed = 3, gray_alpha = 4, rgb_alpha = 6 };

  std::uint32_t width = 0, height = 0;
  unsigned depth = 0;  // bits of a sample
  Colour colour = gray;
  bool interlaced = false;
  std::vector<std::array<std::uint8_t, 3>> palette;
  std::vector<std::uint8_t> palette_alpha;                  // of its first entries
  std::optional<std::array<std::uint16_t, 3>> transparent;  // the colour that is
  std::span<const std::byte> data;                          // the IDAT chunks, from first to last
  std::uint64_t data_size = 0;                              // of what is in them

  unsigned samples() const;  // of a pixel
  std::int64_t channels() const { return colour == gray || colour == gray_alpha ? 1 : 3; }
};

bool is_png(std::span<const std::byte> file);

// All chunks, their order and their CRCs. FormatError.
Png parse_png(const std::string& label, std::span<const std::byte> file);

// One chunk, its CRC checked, at the beginning of `bytes`, which moves behind it. FormatError.
struct PngChunk {
  std::string type;
  std::span<const std::byte> data;
};
PngChunk next_png_chunk(const std::string& label, std::span<const std::byte>& bytes);

// uint8 [channels, height, width], 1 channel or 3. FormatError.
Tensor read_png(const std::string& label, std::span<const std::byte> file,
                std::int64_t max_pixels = data::default_max_pixels);

// ShapeError, DTypeError, ValueError unless it is a picture.
void check_picture(const std::string& label, const Tensor& image);
void write_png(ByteSink& sink, const std::string& label, const Tensor& image);

}  // namespace extensor::io
