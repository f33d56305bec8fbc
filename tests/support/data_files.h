// Data files, made by code that shares nothing with the readers.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "support/archive.h"

namespace test_support {

// The result refers to the bytes, which must outlive it.
inline extensor::io::MemorySource source_of(const std::string& label, const std::string& file) {
  return {label, std::as_bytes(std::span(file))};
}

// A directory of real data in $EXTENSOR_TEST_DATA, which contains mnist/ and text/; empty if the
// variable is not set. A test then skips with missing_data.
inline std::filesystem::path data_directory(const std::string& name) {
  const char* given = std::getenv("EXTENSOR_TEST_DATA");
  if (given == nullptr || *given == '\0') return {};
  const std::filesystem::path path = std::filesystem::path(given) / name;
  if (!std::filesystem::is_directory(path)) {
    throw std::runtime_error("EXTENSOR_TEST_DATA: no directory " + path.string());
  }
  return path;
}
inline constexpr const char* missing_data =
    "EXTENSOR_TEST_DATA does not name a directory of real data (mnist/, text/tinyshakespeare.txt)";

// Big-endian.
inline std::string big_endian(std::uint64_t value, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

inline std::string little_endian(std::uint32_t value) {
  const std::string text = big_endian(value);
  return {text.rbegin(), text.rend()};
}

inline std::uint32_t crc_of(const std::string& text) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

// ---- IDX and gzip -------------------------------------------------------------------------------

inline std::string idx_file(int kind, const std::vector<std::uint32_t>& dimensions,
                            const std::string& elements) {
  std::string file("\0\0", 2);
  file += static_cast<char>(kind);
  file += static_cast<char>(dimensions.size());
  for (const std::uint32_t size : dimensions) file += big_endian(size);
  return file + elements;
}

// One gzip member with the fields of its flags: 1 text, 2 CRC of the header, 4 extra, 8 name, 16
// comment.
inline std::string gzip_of(const std::string& text, int flags = 0) {
  std::string file("\x1f\x8b\x08", 3);
  file += static_cast<char>(flags);
  file += std::string("\1\2\3\4\0\3", 6);
  if ((flags & 4) != 0) file += std::string("\5\0ab\1\0x", 7);
  if ((flags & 8) != 0) file += std::string("name\0", 5);
  if ((flags & 16) != 0) file += std::string("a comment\0", 10);
  if ((flags & 2) != 0) file += little_endian(crc_of(file)).substr(0, 2);
  return file + deflated(text) + little_endian(crc_of(text)) +
         little_endian(static_cast<std::uint32_t>(text.size()));
}

// ---- PNG ----------------------------------------------------------------------------------------

inline std::string png_chunk(const std::string& type, const std::string& data) {
  return big_endian(data.size()) + type + data + big_endian(crc_of(type + data));
}

inline const std::string png_start("\x89PNG\r\n\x1a\n");

// An image of raw samples, and its PNG encoding options.
struct PngFile {
  std::uint32_t width = 0, height = 0;
  int depth = 8, colour = 0;
  bool interlaced = false;
  std::vector<int> samples = {};  // by line, pixel, sample
  std::string before = {};        // chunks before the pixels
  int filters = 5;                // lines alternate between this many filters
  std::size_t chunk = 1000;       // the maximum length of an IDAT chunk

  int per_pixel() const { return std::array<int, 7>{1, 0, 3, 1, 2, 0, 4}.at(colour); }

  std::string header() const {
    return png_chunk("IHDR", big_endian(width) + big_endian(height) + static_cast<char>(depth) +
                                 static_cast<char>(colour) + std::string(2, '\0') +
                                 static_cast<char>(interlaced));
  }

  // The samples of these pixels of a line, the first in the highest bits.
  std::string packed(std::uint32_t y, const std::vector<std::uint32_t>& columns) const {
    std::string row;
    int bits = 0, filled = 0;
    for (const std::uint32_t x : columns) {
      for (int s = 0; s < per_pixel(); ++s) {
        const int sample = samples.at((y * width + x) * per_pixel() + s);
        if (depth == 16) {
          row += big_endian(sample, 2);
          continue;
        }
        bits = bits << depth | sample;
        filled += depth;
        if (filled == 8) {
          row += static_cast<char>(bits);
          bits = filled = 0;
        }
      }
    }
    if (filled != 0) row += static_cast<char>(bits << (8 - filled));
    return row;
  }

  static int predicted(int filter, int left, int up, int corner) {
    if (filter == 1) return left;
    if (filter == 2) return up;
    if (filter == 3) return (left + up) / 2;
    if (filter != 4) return 0;
    const int a = std::abs(up - corner), b = std::abs(left - corner);
    const int c = std::abs(left + up - 2 * corner);
    return a <= b && a <= c ? left : b <= c ? up : corner;
  }

  // The filtered lines of one pass or of the whole image.
  std::string lines(const std::vector<std::vector<std::uint32_t>>& columns_of) const {
    std::string all, above;
    const int step = std::max(1, per_pixel() * depth / 8);
    int number = 0;
    for (std::uint32_t y = 0; y < height; ++y) {
      if (columns_of[y].empty()) continue;
      const std::string row = packed(y, columns_of[y]);
      if (above.empty()) above.assign(row.size(), '\0');
      const int filter = number++ % filters;
      all += static_cast<char>(filter);
      for (std::size_t i = 0; i < row.size(); ++i) {
        const bool first = i < static_cast<std::size_t>(step);
        const auto byte = [](char c) { return static_cast<int>(static_cast<unsigned char>(c)); };
        const int guess = predicted(filter, first ? 0 : byte(row[i - step]), byte(above[i]),
                                    first ? 0 : byte(above[i - step]));
        all += static_cast<char>(byte(row[i]) - guess);
      }
      above = row;
    }
    return all;
  }

  std::string all_lines() const {
    // Which of the seven passes a pixel belongs to.
    constexpr std::array<const char*, 8> pattern = {"16462646", "77777777", "56565656", "77777777",
                                                    "36463646", "77777777", "56565656", "77777777"};
    std::string all;
    for (char pass = '1'; pass <= (interlaced ? '7' : '1'); ++pass) {
      std::vector<std::vector<std::uint32_t>> columns(height);
      for (std::uint32_t y = 0; y < height; ++y) {
        for (std::uint32_t x = 0; x < width; ++x) {
          if (!interlaced || pattern.at(y % 8)[x % 8] == pass) columns[y].push_back(x);
        }
      }
      all += lines(columns);
    }
    return all;
  }

  static std::string zlib_of(const std::string& text) {
    uLongf size = compressBound(text.size());
    std::string compressed(size, '\0');
    if (compress(reinterpret_cast<Bytef*>(compressed.data()), &size,
                 reinterpret_cast<const Bytef*>(text.data()), text.size()) != Z_OK) {
      throw std::runtime_error("compress failed");
    }
    compressed.resize(size);
    return compressed;
  }

  std::string with_data(const std::string& compressed) const {
    std::string file = png_start + header() + before;
    for (std::size_t at = 0; at < compressed.size(); at += chunk) {
      file += png_chunk("IDAT", compressed.substr(at, chunk));
    }
    return file + png_chunk("IEND", "");
  }
  std::string file() const { return with_data(zlib_of(all_lines())); }
};

}  // namespace test_support
