// JPEG files of every kind, written by libjpeg's encoder.
#pragma once

#include <cstdio>
// jpeglib.h requires <cstdio> before it.
#include <jpeglib.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace test_support {

struct JpegFile {
  unsigned width = 0, height = 0;
  J_COLOR_SPACE samples = JCS_RGB;        // of `pixels`
  J_COLOR_SPACE stored = JCS_YCbCr;       // in the file
  std::vector<std::uint8_t> pixels = {};  // interleaved, width · height · components
  int quality = 100;
  int sampling = 1;  // 2: halve the resolution of colors
  bool progressive = false, arithmetic = false, adobe = false;
  unsigned restart_interval = 0;           // in MCUs
  std::string exif = {};                   // the data of an APP1 segment
  std::vector<jpeg_scan_info> scans = {};  // if any, the file is progressive with these scans

  int components() const { return samples == JCS_GRAYSCALE ? 1 : samples == JCS_CMYK ? 4 : 3; }

  std::string file() const {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors{};
    info.err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr) { std::abort(); };
    jpeg_create_compress(&info);
    unsigned char* bytes = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&info, &bytes, &size);
    info.image_width = width;
    info.image_height = height;
    info.input_components = components();
    info.in_color_space = samples;
    jpeg_set_defaults(&info);
    jpeg_set_colorspace(&info, stored);
    jpeg_set_quality(&info, quality, TRUE);
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = sampling;
    info.write_Adobe_marker = adobe ? TRUE : FALSE;
    info.restart_interval = restart_interval;
    info.arith_code = arithmetic ? TRUE : FALSE;
    if (progressive) jpeg_simple_progression(&info);
    if (!scans.empty()) {
      info.scan_info = scans.data();
      info.num_scans = static_cast<int>(scans.size());
    }
    jpeg_start_compress(&info, TRUE);
    if (!exif.empty()) {
      jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                        static_cast<unsigned>(exif.size()));
    }
    while (info.next_scanline < height) {
      auto* row = const_cast<JSAMPROW>(pixels.data() + std::size_t{info.next_scanline} * width *
                                                           static_cast<unsigned>(components()));
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    std::string file(reinterpret_cast<const char*>(bytes), size);
    jpeg_destroy_compress(&info);
    std::free(bytes);
    return file;
  }
};

// An image whose sample (c, y, x) is value(c, y, x).
inline JpegFile jpeg_of(unsigned width, unsigned height, J_COLOR_SPACE samples,
                        const std::function<int(int c, int y, int x)>& value) {
  JpegFile jpeg{.width = width, .height = height, .samples = samples, .stored = samples};
  if (samples == JCS_RGB) jpeg.stored = JCS_YCbCr;
  for (unsigned y = 0; y < height; ++y) {
    for (unsigned x = 0; x < width; ++x) {
      for (int c = 0; c < jpeg.components(); ++c) {
        jpeg.pixels.push_back(
            static_cast<std::uint8_t>(value(c, static_cast<int>(y), static_cast<int>(x))));
      }
    }
  }
  return jpeg;
}

// EXIF data with this orientation, in the byte order 'I' (little-endian) or 'M'.
inline std::string exif_data(int orientation, char order = 'I') {
  const auto number = [&](unsigned value, int bytes) {
    std::string text;
    for (int k = 0; k < bytes; ++k) text += static_cast<char>(value >> (8 * k) & 0xff);
    return order == 'I' ? text : std::string(text.rbegin(), text.rend());
  };
  // Two tags: the width (0x0100) and the orientation (0x0112), each one number of two bytes.
  return std::string("Exif\0\0", 6) + order + order + number(42, 2) + number(8, 4) + number(2, 2) +
         number(0x0100, 2) + number(3, 2) + number(1, 4) + number(7, 2) + number(0, 2) +
         number(0x0112, 2) + number(3, 2) + number(1, 4) +
         number(static_cast<unsigned>(orientation), 2) + number(0, 2) + number(0, 4);
}

}  // namespace test_support
