#include <zlib.h>

#include <algorithm>

#include "data/png.h"
#include "io/byte_order.h"
#include "io/text.h"

namespace extensor::io {

namespace {

using Bytes = std::span<const std::byte>;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Critical chunks begin with an upper-case letter; readers may skip the others.
bool is_needed(const std::string& type) { return type[0] >= 'A' && type[0] <= 'Z'; }

unsigned byte_at(Bytes bytes, std::size_t at) { return std::to_integer<unsigned>(bytes[at]); }

void check_size(const std::string& label, const PngChunk& chunk, bool right, const char* allowed) {
  if (!right) {
    damaged(label, "its ", chunk.type, " chunk has ", chunk.data.size(),
            " bytes (allowed: ", allowed, ")");
  }
}

bool is_depth_of(Png::Colour colour, unsigned depth) {
  const bool whole = depth == 8 || depth == 16;
  if (colour == Png::gray) return whole || depth == 1 || depth == 2 || depth == 4;
  if (colour == Png::indexed) return depth == 1 || depth == 2 || depth == 4 || depth == 8;
  return whole;
}

void parse_header(const std::string& label, const PngChunk& chunk, Png& png) {
  check_size(label, chunk, chunk.data.size() == 13, "13");
  constexpr std::uint32_t most = 0x7fffffff;
  png.width = big_endian<std::uint32_t>(chunk.data);
  png.height = big_endian<std::uint32_t>(chunk.data.subspan(4));
  if (png.width == 0 || png.height == 0 || png.width > most || png.height > most) {
    damaged(label, "is ", png.width, " wide and ", png.height, " high (allowed: 1 … ", most, ")");
  }
  png.depth = byte_at(chunk.data, 8);
  const unsigned colour = byte_at(chunk.data, 9);
  png.colour = static_cast<Png::Colour>(colour);
  if (colour > 6 || colour == 1 || colour == 5 || !is_depth_of(png.colour, png.depth)) {
    damaged(label, "is of colour type ", colour, " with ", png.depth,
            " bits (allowed: 0 with 1, 2, 4, 8, 16; 3 with 1, 2, 4, 8; 2, 4, 6 with 8, 16)");
  }
  const unsigned compression = byte_at(chunk.data, 10), filter = byte_at(chunk.data, 11),
                 interlace = byte_at(chunk.data, 12);
  if (compression != 0 || filter != 0 || interlace > 1) {
    damaged(label, "has compression ", compression, ", filter ", filter, " and interlace ",
            interlace, " (allowed: 0, 0 and 0 or 1)");
  }
  png.interlaced = interlace == 1;
}

void parse_palette(const std::string& label, const PngChunk& chunk, Png& png) {
  if (!png.palette.empty()) damaged(label, "has two PLTE chunks");
  if (png.channels() == 1) damaged(label, "is gray and has a PLTE chunk");
  const std::size_t most = png.colour == Png::indexed ? std::size_t{1} << png.depth : 256;
  const std::size_t count = chunk.data.size() / 3;
  if (chunk.data.size() % 3 != 0 || count == 0 || count > most) {
    damaged(label, "its PLTE chunk has ", chunk.data.size(), " bytes (allowed: 3 for each of 1 … ",
            most, " colours)");
  }
  png.palette.reserve(count);
  for (std::size_t i = 0; i < chunk.data.size(); i += 3) {
    png.palette.push_back({std::to_integer<std::uint8_t>(chunk.data[i]),
                           std::to_integer<std::uint8_t>(chunk.data[i + 1]),
                           std::to_integer<std::uint8_t>(chunk.data[i + 2])});
  }
}

void parse_transparency(const std::string& label, const PngChunk& chunk, Png& png) {
  if (!png.palette_alpha.empty() || png.transparent) damaged(label, "has two tRNS chunks");
  if (png.colour == Png::indexed) {
    check_size(label, chunk, !chunk.data.empty() && chunk.data.size() <= png.palette.size(),
               "1 or more, as many as its palette has colours before it");
    png.palette_alpha.reserve(chunk.data.size());
    for (const std::byte alpha : chunk.data) {
      png.palette_alpha.push_back(std::to_integer<std::uint8_t>(alpha));
    }
    return;
  }
  if (png.colour != Png::gray && png.colour != Png::rgb) {
    damaged(label, "has a tRNS chunk beside transparency of its own");
  }
  check_size(label, chunk, chunk.data.size() == 2 * png.samples(), "2 for each sample");
  std::array<std::uint16_t, 3> key{};
  for (std::size_t i = 0; i < png.samples(); ++i) {
    key[i] = big_endian<std::uint16_t>(chunk.data.subspan(2 * i));
  }
  png.transparent = key;
}

}  // namespace

unsigned Png::samples() const {
  constexpr std::array<unsigned, 7> list = {1, 0, 3, 1, 2, 0, 4};
  return list[colour];
}

bool is_png(Bytes file) {
  return file.size() >= png_signature.size() &&
         std::ranges::equal(file.first(png_signature.size()),
                            std::as_bytes(std::span(png_signature)));
}

PngChunk next_png_chunk(const std::string& label, Bytes& bytes) {
  constexpr std::size_t around = 12;  // length, type, CRC
  if (bytes.size() < around) damaged(label, "ends within a chunk, or has no IEND chunk");
  const auto length = big_endian<std::uint32_t>(bytes);
  PngChunk chunk;
  for (std::size_t i = 4; i < 8; ++i) chunk.type += static_cast<char>(byte_at(bytes, i));
  if (!std::ranges::all_of(chunk.type, is_letter)) {
    damaged(label, "has a chunk of type ", in_quotes(chunk.type), " (allowed: four letters)");
  }
  if (length > bytes.size() - around) {
    damaged(label, "its ", chunk.type, " chunk has ", length, " bytes, ", bytes.size() - around,
            " are left");
  }
  chunk.data = bytes.subspan(8, length);
  const Bytes checked = bytes.subspan(4, std::size_t{length} + 4);
  const auto crc = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size()));
  const auto said = big_endian<std::uint32_t>(bytes.subspan(std::size_t{length} + 8));
  if (crc != said) damaged(label, "its ", chunk.type, " chunk has CRC ", crc, ", it says ", said);
  bytes = bytes.subspan(length + around);
  return chunk;
}

Png parse_png(const std::string& label, Bytes file) {
  Bytes left = file.subspan(png_signature.size());
  Png png;
  std::string last;
  bool begun = false;     // whether an IDAT chunk occurred
  std::size_t first = 0;  // position of the first IDAT chunk
  while (last != "IEND") {
    const Bytes from = left;
    const PngChunk chunk = next_png_chunk(label, left);
    const std::string& type = chunk.type;
    if (last.empty() != (type == "IHDR")) {
      damaged(label, "has an ", type, " chunk where ",
              last.empty() ? "IHDR is first" : "IHDR was already");
    }
    const bool before_data = type == "PLTE" || type == "tRNS";
    if ((before_data && begun) || (type == "IDAT" && begun && last != "IDAT")) {
      damaged(label, "has a ", type, " chunk behind its pixels");
    }
    if (type == "IHDR") {
      parse_header(label, chunk, png);
    } else if (type == "PLTE") {
      parse_palette(label, chunk, png);
    } else if (type == "tRNS") {
      parse_transparency(label, chunk, png);
    } else if (type == "IDAT") {
      if (!begun) first = file.size() - from.size();
      begun = true;
      png.data_size += chunk.data.size();
      png.data = file.subspan(first, file.size() - left.size() - first);
    } else if (type == "IEND") {
      check_size(label, chunk, chunk.data.empty(), "0");
    } else if (is_needed(type)) {
      damaged(label, "has a ", type, " chunk (allowed: IHDR, PLTE, IDAT, IEND, and small letters)");
    }
    last = type;
  }
  if (!left.empty()) damaged(label, "has ", left.size(), " bytes behind its IEND chunk");
  if (!begun) damaged(label, "has no IDAT chunk");
  if (png.colour == Png::indexed && png.palette.empty()) damaged(label, "has no PLTE chunk");
  return png;
}

}  // namespace extensor::io
