// Decodes JPEG files. libjpeg reports errors by a callback that must not return, which here is a
// longjmp. Every call that may fail is made by a static function that has only trivial locals and
// calls setjmp itself, so no jump passes over a destructor.
#include "data/jpeg.h"

#include <algorithm>
#include <vector>

#include "core/make_tensor.h"
#include "data/image_file.h"
#include "io/byte_source.h"

#ifdef EXTENSOR_JPEG
#include <csetjmp>
#include <cstdio>
// jpeglib.h requires <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

#include "data/pixels.h"
#endif

namespace extensor::io {

bool is_jpeg(std::span<const std::byte> file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} &&
         file[2] == std::byte{0xff};
}

#ifndef EXTENSOR_JPEG

Tensor read_jpeg(const std::string& label, std::span<const std::byte>, std::int64_t) {
  damaged(label,
          "is a JPEG image, and this build of ExTensor reads none (allowed: PNG, PGM and PPM; or "
          "install libjpeg-turbo, on Debian and Ubuntu libjpeg62-turbo-dev or "
          "libjpeg-turbo8-dev, and build again with -DEXTENSOR_JPEG=ON)");
}

#else

namespace {

constexpr int most_scans = 500;

// ---- libjpeg's structures and its errors --------------------------------------------------------

class Decoder {
 public:
  Decoder(const std::string& label, std::span<const std::byte> file) : label_(label) {
    state_.info.err = jpeg_std_error(&state_.errors);
    state_.errors.error_exit = [](j_common_ptr info) { fail(info); };
    state_.errors.emit_message = warn;
    state_.errors.output_message = [](j_common_ptr) {};
    state_.progress.progress_monitor = [](j_common_ptr info) {
      State& state = state_of(info);
      if (state.info.input_scan_number <= most_scans) return;
      std::snprintf(state.message, sizeof state.message, "it has more than %d scans", most_scans);
      std::longjmp(state.jump, 1);
    };
    if (!open(state_, file)) damaged_now();
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  jpeg_decompress_struct& info() { return state_.info; }
  void start() {
    if (!begin(state_)) damaged_now();
  }
  // Reads up to `count` rows and returns how many there are.
  std::size_t read(JSAMPARRAY rows, std::size_t count) {
    const JDIMENSION done = read_rows(state_, rows, static_cast<JDIMENSION>(count));
    if (done == 0) damaged_now();
    return done;
  }
  void finish() {
    if (!end(state_)) damaged_now();
  }

 private:
  struct State {
    jpeg_decompress_struct info{};
    jpeg_error_mgr errors{};
    jpeg_progress_mgr progress{};
    std::jmp_buf jump{};
    bool has_started = false;
    char message[JMSG_LENGTH_MAX] = "";

    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    // Also releases what libjpeg allocated before the constructor of Decoder throws.
    ~State() { jpeg_destroy_decompress(&info); }
  };

  static State& state_of(j_common_ptr info) {
    // The first member of State, which has standard layout.
    return *reinterpret_cast<State*>(info);
  }
  [[noreturn]] static void fail(j_common_ptr info) {
    State& state = state_of(info);
    state.errors.format_message(info, state.message);
    std::longjmp(state.jump, 1);
  }
  // Level −1 is a warning, after which libjpeg invents what is missing. Unknown versions of JFIF
  // and of Adobe's segment lose nothing, nor do surplus bytes before the image or at its end.
  static void warn(j_common_ptr info, int level) {
    if (level >= 0) return;
    const State& state = state_of(info);
    constexpr int end_of_image = 0xd9;
    switch (state.errors.msg_code) {
      case JWRN_JFIF_MAJOR:
      case JWRN_ADOBE_XFORM:
        return;
      case JWRN_EXTRANEOUS_DATA:
        if (!state.has_started || state.errors.msg_parm.i[1] == end_of_image) return;
        break;
      default:
        break;
    }
    fail(info);
  }

  static bool open(State& state, std::span<const std::byte> file) {
    if (setjmp(state.jump) != 0) return false;
    jpeg_create_decompress(&state.info);
    state.info.progress = &state.progress;
    jpeg_mem_src(&state.info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_save_markers(&state.info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&state.info, TRUE);
    return true;
  }
  static bool begin(State& state) {
    if (setjmp(state.jump) != 0) return false;
    state.has_started = true;
    jpeg_start_decompress(&state.info);
    return true;
  }
  static JDIMENSION read_rows(State& state, JSAMPARRAY rows, JDIMENSION count) {
    if (setjmp(state.jump) != 0) return 0;
    return jpeg_read_scanlines(&state.info, rows, count);
  }
  static bool end(State& state) {
    if (setjmp(state.jump) != 0) return false;
    jpeg_finish_decompress(&state.info);
    return true;
  }
  [[noreturn]] void damaged_now() const {
    damaged(label_, "is no complete JPEG image: ", state_.message);
  }

  const std::string& label_;
  State state_;
};

// Throws FormatError for what is not supported, and for sizes that the file cannot hold: a Huffman
// code has at least one bit, and every block of 8 × 8 samples at least one code.
void check(const std::string& label, const jpeg_decompress_struct& info, std::size_t file_size,
           std::int64_t max_pixels) {
  if (info.data_precision != 8) {
    damaged(label, "has ", info.data_precision, " bits per sample (allowed: 8)");
  }
  if (info.arith_code != 0) damaged(label, "has arithmetic coding (allowed: Huffman coding)");
  const int components = info.num_components;
  if (components != 1 && components != 3 && components != 4) {
    damaged(label, "has ", components, " components (allowed: 1, 3, 4)");
  }
  check_pixels(label, info.image_width, info.image_height, max_pixels);
  std::uint64_t blocks = 0;
  for (int k = 0; k < components; ++k) {
    const jpeg_component_info& one = info.comp_info[k];
    blocks += std::uint64_t{one.width_in_blocks} * one.height_in_blocks;
  }
  if (blocks / 8 > file_size) {
    damaged(label, "is ", info.image_width, " wide and ", info.image_height, " high; its ",
            file_size, " bytes cannot hold that");
  }
}

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* one = info.marker_list; one != nullptr; one = one->next) {
    const int found = exif_orientation({one->data, one->data_length});
    if (found != 0) return found;
  }
  return 1;
}

// ---- pixels -------------------------------------------------------------------------------------

// The place of pixel (x, y) of the file in the image: first + x · x_step + y · y_step.
struct Placement {
  std::int64_t height, width;  // of the image
  std::int64_t first = 0, x_step = 1, y_step = 0;

  // EXIF: 2 is mirrored from left to right, 3 turned by 180°, 4 mirrored from top to bottom;
  // 5 … 8 are 1, 4, 3, 2 with the axes exchanged.
  Placement(std::int64_t file_height, std::int64_t file_width, int orientation)
      : height(file_height), width(file_width) {
    const bool is_transposed = orientation >= 5;
    const bool flips_x =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool flips_y =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    if (is_transposed) std::swap(height, width);
    x_step = is_transposed ? width : 1;
    y_step = is_transposed ? 1 : width;
    if (flips_x) {
      first += (file_width - 1) * x_step;
      x_step = -x_step;
    }
    if (flips_y) {
      first += (file_height - 1) * y_step;
      y_step = -y_step;
    }
  }
};

std::uint8_t product(unsigned a, unsigned b) {
  return static_cast<std::uint8_t>((a * b + 127) / 255);
}

// Replaces rows of CMYK by RGB, without a color profile. Adobe's files hold the complements.
void convert_cmyk(std::uint8_t* row, std::size_t width, bool is_inverted) {
  const unsigned flip = is_inverted ? 0 : 255;
  std::uint8_t* to = row;
  for (const std::uint8_t* from = row; from != row + 4 * width; from += 4) {
    const unsigned light = from[3] ^ flip;
    for (std::size_t c = 0; c < 3; ++c) *to++ = product(from[c] ^ flip, light);
  }
}

void place_row(const std::uint8_t* row, const Placement& place, std::size_t width,
               std::int64_t channels, std::uint8_t* to) {
  const std::int64_t plane = place.height * place.width;
  if (place.x_step == 1) {
    if (channels == 1) {
      std::copy_n(row, width, to);
    } else {
      data::pixel_kernels().split(row, to, to + plane, to + 2 * plane, width);
    }
    return;
  }
  for (std::size_t x = 0; x < width; ++x) {
    const std::int64_t at = static_cast<std::int64_t>(x) * place.x_step;
    for (std::int64_t c = 0; c < channels; ++c) to[c * plane + at] = *row++;
  }
}

}  // namespace

Tensor read_jpeg(const std::string& label, std::span<const std::byte> file,
                 std::int64_t max_pixels) {
  Decoder decoder(label, file);
  jpeg_decompress_struct& info = decoder.info();
  check(label, info, file.size(), max_pixels);
  const std::int64_t channels = info.num_components == 1 ? 1 : 3;
  info.out_color_space = channels == 1              ? JCS_GRAYSCALE
                         : info.num_components == 3 ? JCS_RGB
                                                    : JCS_CMYK;
  const Placement place(info.image_height, info.image_width, orientation_of(info));
  decoder.start();
  Tensor image = detail::make_empty(label.c_str(), {channels, place.height, place.width},
                                    DType::uint8, cpu_device);
  const std::size_t width = info.output_width;
  const std::size_t row_bytes = width * static_cast<std::size_t>(info.output_components);
  // libjpeg decodes groups of rows, and is quickest if it can return all of a group.
  const std::size_t group = std::max<std::size_t>(1, info.rec_outbuf_height);
  std::vector<std::uint8_t> bytes(group * row_bytes);
  std::vector<JSAMPROW> rows(group);
  for (std::size_t k = 0; k < group; ++k) rows[k] = bytes.data() + k * row_bytes;
  std::uint8_t* const first = image.data<std::uint8_t>() + place.first;
  std::int64_t y = 0;
  while (info.output_scanline < info.output_height) {
    const std::size_t count = decoder.read(rows.data(), group);
    for (std::size_t k = 0; k < count; ++k, ++y) {
      if (info.num_components == 4) {
        convert_cmyk(rows[k], width, info.saw_Adobe_marker != 0);
      }
      place_row(rows[k], place, width, channels, first + y * place.y_step);
    }
  }
  decoder.finish();
  return image;
}

#endif

}  // namespace extensor::io
