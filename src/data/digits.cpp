#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "core/make_tensor.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "data/digit_strokes.h"
#include "extensor/data/digits.h"

namespace extensor::data {

namespace {

constexpr int side = 28;
constexpr float box = 20;  // side of a digit's unit square in pixels, before distortion

// The random numbers of one image, in order.
class DigitDraws {
 public:
  DigitDraws(std::uint64_t seed, std::uint64_t image) : seed_(seed), image_(image) {}

  float between(float lo, float hi) {
    const auto word = detail::draw<detail::Uniform32>(seed_, image_, uniforms_++);
    return lo + (hi - lo) * detail::uniform_float(word);
  }
  int below(int count) { return std::min(count - 1, static_cast<int>(between(0, 1) * count)); }
  float normal() { return detail::draw<detail::Normal32>(seed_, image_, normals_++); }

 private:
  std::uint64_t seed_, image_, uniforms_ = 0, normals_ = 0;
};

// A smooth random displacement: normal draws on a coarse grid, interpolated.
class Elastic {
 public:
  Elastic(DigitDraws& draws, float strength) {
    for (Point& node : nodes_) node = {strength * draws.normal(), strength * draws.normal()};
  }
  Point at(Point p) const {
    const float x = std::clamp(p.x, 0.f, 1.f) * (count - 1);
    const float y = std::clamp(p.y, 0.f, 1.f) * (count - 1);
    const int column = std::min(count - 2, static_cast<int>(x));
    const int row = std::min(count - 2, static_cast<int>(y));
    const float u = x - static_cast<float>(column), v = y - static_cast<float>(row);
    const auto blend = [&](auto part) {
      const auto node = [&](int r, int c) { return nodes_[r * count + c].*part; };
      return (1 - v) * ((1 - u) * node(row, column) + u * node(row, column + 1)) +
             v * ((1 - u) * node(row + 1, column) + u * node(row + 1, column + 1));
    };
    return {p.x + blend(&Point::x), p.y + blend(&Point::y)};
  }

 private:
  static constexpr int count = 4;
  Point nodes_[count * count];
};

// Rotation, scale, shear and translation, from the unit square to pixels.
class Affine {
 public:
  explicit Affine(DigitDraws& draws) {
    const float angle = draws.between(-.22f, .22f), slant = draws.between(-.2f, .3f);
    const float width = box * draws.between(.72f, 1.05f), height = box * draws.between(.85f, 1.1f);
    const float cosine = std::cos(angle), sine = std::sin(angle);
    xx_ = cosine * width;
    xy_ = (-sine - slant * cosine) * height;
    yx_ = sine * width;
    yy_ = (cosine - slant * sine) * height;
    center_ = {side / 2.f + draws.between(-2, 2), side / 2.f + draws.between(-2, 2)};
  }
  Point operator()(Point p) const {
    const float x = p.x - .5f, y = p.y - .5f;
    return {center_.x + xx_ * x + xy_ * y, center_.y + yx_ * x + yy_ * y};
  }

 private:
  float xx_, xy_, yx_, yy_;
  Point center_;
};

struct Segment {
  Point from, to;
};

// A Catmull-Rom spline through the points, split into short segments.
void append_curve(const Stroke& stroke, const Elastic& elastic, const Affine& affine,
                  std::vector<Segment>& segments) {
  constexpr int pieces = 5;
  const auto point = [&](std::ptrdiff_t i) {
    return stroke[static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(i, 0, static_cast<std::ptrdiff_t>(stroke.size()) - 1))];
  };
  Point last = affine(elastic.at(stroke[0]));
  for (std::ptrdiff_t i = 0; i + 1 < static_cast<std::ptrdiff_t>(stroke.size()); ++i) {
    const Point a = point(i - 1), b = point(i), c = point(i + 1), d = point(i + 2);
    for (int piece = 1; piece <= pieces; ++piece) {
      const float t = static_cast<float>(piece) / pieces;
      const auto blend = [&](auto part) {
        return .5f * (2 * b.*part + t * (c.*part - a.*part) +
                      t * t * (2 * a.*part - 5 * b.*part + 4 * c.*part - d.*part) +
                      t * t * t * (3 * (b.*part - c.*part) + d.*part - a.*part));
      };
      const Point next = affine(elastic.at({blend(&Point::x), blend(&Point::y)}));
      segments.push_back({last, next});
      last = next;
    }
  }
}

// Darkens the pixels that a round pen of this radius touches, with a soft edge.
void draw_segment(const Segment& s, float radius, float* ink) {
  const float reach = radius + 1;
  const auto first = [&](float a, float b) {
    return std::max(0, static_cast<int>(std::floor(std::min(a, b) - reach)));
  };
  const auto last = [&](float a, float b) {
    return std::min(side - 1, static_cast<int>(std::ceil(std::max(a, b) + reach)));
  };
  const float dx = s.to.x - s.from.x, dy = s.to.y - s.from.y;
  const float length = dx * dx + dy * dy;
  for (int y = first(s.from.y, s.to.y); y <= last(s.from.y, s.to.y); ++y) {
    for (int x = first(s.from.x, s.to.x); x <= last(s.from.x, s.to.x); ++x) {
      const float px = static_cast<float>(x) + .5f - s.from.x;
      const float py = static_cast<float>(y) + .5f - s.from.y;
      const float t = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.f, 1.f) : 0.f;
      const float distance = std::hypot(px - t * dx, py - t * dy);
      float& pixel = ink[y * side + x];
      pixel = std::max(pixel, std::clamp(radius + .5f - distance, 0.f, 1.f));
    }
  }
}

void draw_digit(std::uint64_t seed, std::uint64_t image, std::uint8_t* pixels, std::int64_t* label,
                std::vector<Segment>& segments) {
  DigitDraws draws(seed, image);
  const int digit = draws.below(10);
  *label = digit;
  const auto& ways = glyphs_of(digit);
  const Glyph& glyph = ways[static_cast<std::size_t>(draws.below(static_cast<int>(ways.size())))];
  const Elastic elastic(draws, .035f);
  const Affine affine(draws);
  const float radius = draws.between(.8f, 1.7f), darkness = draws.between(.75f, 1);
  const float noise = draws.between(0, .06f);
  segments.clear();
  for (const Stroke& stroke : glyph) append_curve(stroke, elastic, affine, segments);
  float ink[side * side] = {};
  for (const Segment& segment : segments) draw_segment(segment, radius, ink);
  for (int i = 0; i < side * side; ++i) {
    const float value = std::clamp(darkness * ink[i] + noise * draws.normal(), 0.f, 1.f);
    pixels[i] = static_cast<std::uint8_t>(std::lround(255 * value));
  }
}

}  // namespace

LabelledImages digits(std::int64_t count, std::uint64_t seed, std::int64_t first) {
  if (count < 0 || first < 0) {
    throw ValueError(detail::message("digits: count is ", count, " and first is ", first,
                                     ", must be 0 or more"));
  }
  LabelledImages set{detail::make_empty("digits", {count, side, side}, DType::uint8, cpu_device),
                     detail::make_empty("digits", {count}, DType::int64, cpu_device),
                     {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
  auto* pixels = set.images.data<std::uint8_t>();
  auto* labels = set.labels.data<std::int64_t>();
  constexpr std::int64_t together = 64;
  const int threads = detail::threads_for(count, together);
  // Capacity for the longest glyph, reserved once per thread.
  std::vector<std::vector<Segment>> segments(static_cast<std::size_t>(threads));
  for (auto& list : segments) list.reserve(256);
  detail::parallel_for(threads, count, together,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         auto& list = segments[static_cast<std::size_t>(slot)];
                         for (std::int64_t i = begin; i < end; ++i) {
                           draw_digit(seed, static_cast<std::uint64_t>(first + i),
                                      pixels + i * side * side, labels + i, list);
                         }
                       });
  return set;
}

}  // namespace extensor::data
