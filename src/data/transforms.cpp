#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numbers>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "data/pixels.h"
#include "extensor/data/images.h"

namespace extensor::data {

using detail::message;

namespace {

void check_image(const char* transform, const Image& image) {
  const auto [channels, height, width] = std::tuple(image.channels, image.height, image.width);
  std::int64_t plane = 0, all = 0;
  if (channels < 1 || height < 1 || width < 1 || __builtin_mul_overflow(height, width, &plane) ||
      __builtin_mul_overflow(plane, channels, &all) ||
      static_cast<std::size_t>(all) != image.pixels.size()) {
    throw ShapeError(message(transform, ": an image of ", channels, " × ", height, " × ", width,
                             " has ", image.pixels.size(), " pixels"));
  }
}

// Moves the pixels into memory of the thread and resizes the image's buffer for the result. The
// memory is reused, so that images of one size need no allocation.
const float* take_pixels(Image& image, std::int64_t channels, std::int64_t height,
                         std::int64_t width) {
  thread_local std::vector<float> before;
  before.swap(image.pixels);
  image.channels = channels;
  image.height = height;
  image.width = width;
  image.pixels.resize(static_cast<std::size_t>(channels * height * width));
  return before.data();
}

// ---- normalize ----------------------------------------------------------------------------------

struct Normalize {
  std::vector<double> mean, deviation;

  void operator()(Image& image, Draws& /*draws*/) const {
    check_image("normalize", image);
    const auto channels = static_cast<std::size_t>(image.channels);
    for (const auto* list : {&mean, &deviation}) {
      if (list->size() != 1 && list->size() != channels) {
        throw ShapeError(message("normalize: ", list == &mean ? "mean" : "deviation", " has ",
                                 list->size(), " numbers, the image ", channels,
                                 " channels (allowed: 1 number or one for each channel)"));
      }
    }
    const std::size_t plane = image.pixels.size() / channels;
    float* pixel = image.pixels.data();
    for (std::size_t c = 0; c < channels; ++c, pixel += plane) {
      const auto less = static_cast<float>(mean[mean.size() == 1 ? 0 : c]);
      const auto part = static_cast<float>(deviation[deviation.size() == 1 ? 0 : c]);
      pixel_kernels().normalize(pixel, plane, less, part);
    }
  }
};

// ---- random_crop --------------------------------------------------------------------------------

// Shifts a row by `by` pixels to the left; `to` may equal `from`.
void move_row(float* to, const float* from, std::int64_t width, std::int64_t by) {
  const std::int64_t kept = std::max<std::int64_t>(0, width - std::abs(by));
  const std::int64_t before = by < 0 ? width - kept : 0;
  const float* first = from + (by > 0 ? width - kept : 0);
  std::memmove(to + before, first, static_cast<std::size_t>(kept) * sizeof(float));
  std::fill(to, to + before, 0.F);
  std::fill(to + before + kept, to + width, 0.F);
}

struct RandomCrop {
  std::int64_t padding;

  void operator()(Image& image, Draws& draws) const {
    check_image("random_crop", image);
    const std::int64_t down = draws.below(2 * padding + 1) - padding;
    const std::int64_t right = draws.below(2 * padding + 1) - padding;
    const std::int64_t height = image.height, width = image.width;
    for (std::int64_t c = 0; c < image.channels; ++c) {
      float* plane = image.pixels.data() + c * height * width;
      // Iterate in the direction that reads every row before it is overwritten.
      for (std::int64_t k = 0; k < height; ++k) {
        const std::int64_t y = down >= 0 ? k : height - 1 - k;
        float* row = plane + y * width;
        if (y + down < 0 || y + down >= height) {
          std::fill(row, row + width, 0.F);
        } else {
          move_row(row, plane + (y + down) * width, width, right);
        }
      }
    }
  }
};

// ---- random_horizontal_flip ---------------------------------------------------------------------

struct RandomHorizontalFlip {
  double probability;

  void operator()(Image& image, Draws& draws) const {
    check_image("random_horizontal_flip", image);
    if (!draws.chance(probability)) return;
    float* row = image.pixels.data();
    for (std::int64_t y = 0; y < image.channels * image.height; ++y, row += image.width) {
      std::reverse(row, row + image.width);
    }
  }
};

// ---- random_affine ------------------------------------------------------------------------------

// Maps a point of the result, relative to its centre, to a point of the source.
struct Affine {
  double xx, xy, yx, yy;  // inverse of scale · rotation · shear
  double dx, dy;

  Affine(const AffineOptions& options, const Image& image, Draws& draws) {
    constexpr double degree = std::numbers::pi / 180;
    const double angle = draws.uniform(-options.degrees, options.degrees) * degree;
    dx = draws.uniform(-options.translate, options.translate) * static_cast<double>(image.width);
    dy = draws.uniform(-options.translate, options.translate) * static_cast<double>(image.height);
    const double scale = draws.uniform(1 - options.scale, 1 + options.scale);
    const double shear = std::tan(draws.uniform(-options.shear, options.shear) * degree);
    const double cosine = std::cos(angle) / scale, sine = std::sin(angle) / scale;
    xx = cosine + shear * sine;
    xy = sine - shear * cosine;
    yx = -sine;
    yy = cosine;
  }
};

struct RandomAffine {
  AffineOptions options;

  void operator()(Image& image, Draws& draws) const {
    check_image("random_affine", image);
    const Affine affine(options, image, draws);
    const std::int64_t height = image.height, width = image.width;
    const float* source = take_pixels(image, image.channels, height, width);
    const double middle_x = static_cast<double>(width - 1) / 2;
    const double middle_y = static_cast<double>(height - 1) / 2;
    float* to = image.pixels.data();
    for (std::int64_t y = 0; y < height; ++y) {
      const double from_y = static_cast<double>(y) - middle_y - affine.dy;
      for (std::int64_t x = 0; x < width; ++x, ++to) {
        const double from_x = static_cast<double>(x) - middle_x - affine.dx;
        read_between(source, image, affine.xx * from_x + affine.xy * from_y + middle_x,
                     affine.yx * from_x + affine.yy * from_y + middle_y, to);
      }
    }
  }

  // Interpolates the pixel at (x, y) of every channel bilinearly; pixels outside the image are 0.
  static void read_between(const float* source, const Image& image, double x, double y, float* to) {
    const std::int64_t height = image.height, width = image.width, plane = height * width;
    const bool inside =
        x > -1 && y > -1 && x < static_cast<double>(width) && y < static_cast<double>(height);
    if (!inside) {
      for (std::int64_t c = 0; c < image.channels; ++c) to[c * plane] = 0;
      return;
    }
    const std::int64_t left = static_cast<std::int64_t>(x + 1) - 1;
    const std::int64_t top = static_cast<std::int64_t>(y + 1) - 1;
    const auto u = static_cast<float>(x - static_cast<double>(left));
    const auto v = static_cast<float>(y - static_cast<double>(top));
    // A neighbour outside the image has weight 0; the nearest pixel inside is read instead.
    const float w = left >= 0 ? 1 - u : 0, e = left + 1 < width ? u : 0;
    const float n = top >= 0 ? 1 - v : 0, s = top + 1 < height ? v : 0;
    const std::int64_t x0 = std::max<std::int64_t>(left, 0), x1 = std::min(left + 1, width - 1);
    const std::int64_t y0 = std::max<std::int64_t>(top, 0), y1 = std::min(top + 1, height - 1);
    for (std::int64_t c = 0; c < image.channels; ++c, source += plane, to += plane) {
      const float *upper = source + y0 * width, *lower = source + y1 * width;
      *to = n * (w * upper[x0] + e * upper[x1]) + s * (w * lower[x0] + e * lower[x1]);
    }
  }
};

// ---- resize -------------------------------------------------------------------------------------

// The two source pixels around pixel `to` of a line of another length.
struct Between {
  std::int64_t first, second;
  float part;  // weight of the second

  Between(std::int64_t to, std::int64_t to_length, std::int64_t from_length) {
    const double ratio = static_cast<double>(from_length) / static_cast<double>(to_length);
    const double at = std::max(0., (static_cast<double>(to) + .5) * ratio - .5);
    first = std::min(static_cast<std::int64_t>(at), from_length - 1);
    second = std::min(first + 1, from_length - 1);
    part = static_cast<float>(at - static_cast<double>(first));
  }
};

struct Resize {
  std::int64_t height, width;

  void operator()(Image& image, Draws& /*draws*/) const {
    check_image("resize", image);
    const std::int64_t old_height = image.height, old_width = image.width;
    if (old_height == height && old_width == width) return;
    const float* source = take_pixels(image, image.channels, height, width);
    float* to = image.pixels.data();
    for (std::int64_t c = 0; c < image.channels; ++c, source += old_height * old_width) {
      for (std::int64_t y = 0; y < height; ++y) {
        const Between rows(y, height, old_height);
        const float *upper = source + rows.first * old_width,
                    *lower = source + rows.second * old_width;
        for (std::int64_t x = 0; x < width; ++x, ++to) {
          const Between columns(x, width, old_width);
          const auto blend = [&](const float* row) {
            return (1 - columns.part) * row[columns.first] + columns.part * row[columns.second];
          };
          *to = (1 - rows.part) * blend(upper) + rows.part * blend(lower);
        }
      }
    }
  }
};

// ---- grayscale ----------------------------------------------------------------------------------

void to_gray(Image& image, Draws& /*draws*/) {
  check_image("grayscale", image);
  if (image.channels == 1) return;
  if (image.channels != 3) {
    throw ShapeError(
        message("grayscale: an image of ", image.channels, " channels (allowed: 1, 3)"));
  }
  const std::size_t plane = image.pixels.size() / 3;
  float* red = image.pixels.data();
  const float *green = red + plane, *blue = green + plane;
  for (std::size_t i = 0; i < plane; ++i) {
    red[i] = .299F * red[i] + .587F * green[i] + .114F * blue[i];
  }
  image.channels = 1;
  image.pixels.resize(plane);
}

// Throws ValueError unless low ≤ value ≤ high.
void check_between(const char* transform, const char* option, double value, double low,
                   double high) {
  if (!(value >= low && value <= high)) {
    throw ValueError(
        message(transform, ": ", option, " is ", value, " (allowed: ", low, " … ", high, ")"));
  }
}

}  // namespace

Transform normalize(std::vector<double> mean, std::vector<double> deviation) {
  if (mean.empty() || deviation.empty()) {
    throw ValueError(message("normalize: mean has ", mean.size(), " numbers and deviation ",
                             deviation.size(), " (allowed: 1 or one for each channel)"));
  }
  constexpr double most = std::numeric_limits<float>::max();
  for (const double value : mean) {
    if (!(std::abs(value) <= most)) {
      throw ValueError(message("normalize: mean is ", value, " (allowed: finite in float32)"));
    }
  }
  for (const double value : deviation) {
    if (!(value <= most && value >= std::numeric_limits<float>::min())) {
      throw ValueError(message("normalize: deviation is ", value,
                               " (allowed: more than 0 and finite in float32)"));
    }
  }
  return Normalize{std::move(mean), std::move(deviation)};
}

Transform random_crop(std::int64_t padding) {
  check_between("random_crop", "padding", static_cast<double>(padding), 0, 1 << 20);
  return RandomCrop{padding};
}

Transform random_horizontal_flip(double probability) {
  check_between("random_horizontal_flip", "probability", probability, 0, 1);
  return RandomHorizontalFlip{probability};
}

Transform random_affine(const AffineOptions& options) {
  check_between("random_affine", "degrees", options.degrees, 0, 180);
  check_between("random_affine", "translate", options.translate, 0, 1);
  check_between("random_affine", "scale", options.scale, 0, .99);
  check_between("random_affine", "shear", options.shear, 0, 89);
  return RandomAffine{options};
}

Transform resize(std::int64_t height, std::int64_t width) {
  check_between("resize", "height", static_cast<double>(height), 1, 1 << 16);
  check_between("resize", "width", static_cast<double>(width), 1, 1 << 16);
  return Resize{height, width};
}

Transform grayscale() { return to_gray; }

}  // namespace extensor::data
