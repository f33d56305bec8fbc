// Resampling, pixel shuffle, dropout of channels and rotary embedding, against loops that follow
// the definitions.
#include <cmath>
#include <complex>
#include <string>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"
#include "op_database/random_reference.h"

namespace extensor::op_database {

namespace {

// ---- interpolate

// The weight of a neighbour at a distance: a hat, or Keys' cubic with a = −3/4.
double kernel(InterpolateMode mode, double distance) {
  const double d = std::fabs(distance);
  if (mode == InterpolateMode::bilinear) return std::max(0.0, 1 - d);
  if (d < 1) return 1.25 * d * d * d - 2.25 * d * d + 1;
  if (d < 2) return -0.75 * (d * d * d - 5 * d * d + 8 * d - 4);
  return 0;
}

// The weights of the elements of one axis in element i of the result; outside, the edge repeats.
std::vector<double> weights(InterpolateMode mode, bool align_corners, std::int64_t in,
                            std::int64_t out, double factor, std::int64_t i) {
  std::vector<double> result(static_cast<std::size_t>(in), 0.0);
  const auto at = [&](std::int64_t k) -> double& {
    return result[static_cast<std::size_t>(std::min(std::max<std::int64_t>(k, 0), in - 1))];
  };
  const auto n = static_cast<double>(i);
  if (mode == InterpolateMode::nearest) {
    at(static_cast<std::int64_t>(std::floor(n / factor + 1e-9))) = 1;
  } else if (mode == InterpolateMode::nearest_exact) {
    at(static_cast<std::int64_t>(std::floor((n + 0.5) / factor + 1e-9))) = 1;
  } else {
    double place = (n + 0.5) / factor - 0.5;
    if (align_corners) {
      place = out == 1 ? 0 : n * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    }
    const auto near = static_cast<std::int64_t>(std::floor(place));
    for (std::int64_t k = near - 3; k <= near + 3; ++k) {
      at(k) += kernel(mode, place - static_cast<double>(k));
    }
  }
  return result;
}

Tensor resampled(const Tensor& x_tensor, const InterpolateOptions& options) {
  const PlainArray x(x_tensor);
  const std::int64_t height = x.shape[2], width = x.shape[3];
  Shape shape = x.shape;
  double vertical, horizontal;
  if (options.size) {
    shape[2] = options.size->height;
    shape[3] = options.size->width;
    vertical = static_cast<double>(shape[2]) / static_cast<double>(height);
    horizontal = static_cast<double>(shape[3]) / static_cast<double>(width);
  } else {
    vertical = options.scale_factor->height;
    horizontal = options.scale_factor->width;
    shape[2] = static_cast<std::int64_t>(static_cast<double>(height) * vertical);
    shape[3] = static_cast<std::int64_t>(static_cast<double>(width) * horizontal);
  }
  return PlainArray::from(
             shape,
             [&](const Dims& y) {
               const auto rows =
                   weights(options.mode, options.align_corners, height, shape[2], vertical, y[2]);
               const auto columns =
                   weights(options.mode, options.align_corners, width, shape[3], horizontal, y[3]);
               double sum = 0;
               for (std::int64_t r = 0; r < height; ++r) {
                 for (std::int64_t c = 0; c < width; ++c) {
                   sum += rows[static_cast<std::size_t>(r)] * columns[static_cast<std::size_t>(c)] *
                          x.at({y[0], y[1], r, c});
                 }
               }
               return sum;
             })
      .to_tensor();
}

std::vector<Sample> interpolate_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 9000;
  const auto add = [&](const char* label, const Shape& x, const InterpolateOptions& given) {
    for (InterpolateMode mode : {InterpolateMode::nearest, InterpolateMode::nearest_exact,
                                 InterpolateMode::bilinear, InterpolateMode::bicubic}) {
      for (bool align_corners : {false, true}) {
        const bool smooth = mode == InterpolateMode::bilinear || mode == InterpolateMode::bicubic;
        if (align_corners && !smooth) continue;
        InterpolateOptions options = given;
        options.mode = mode;
        options.align_corners = align_corners;
        constexpr const char* modes[] = {"nearest", "nearest_exact", "bilinear", "bicubic"};
        Sample sample;
        sample.label = std::string(label) + ", " + modes[static_cast<std::size_t>(mode)] +
                       (align_corners ? ", align corners" : "");
        sample.inputs = {sample_uniform(x, -2, 2, ++seed)};
        sample.forward = [=](const Tensors& in) { return Tensors{interpolate(in[0], options)}; };
        sample.reference = [=](const Tensors& in) { return Tensors{resampled(in[0], options)}; };
        sample.backward = [=](const Tensors& g, const Tensors& in) {
          return Tensors{interpolate_backward(g[0], in[0].shape(), options)};
        };
        list.push_back(std::move(sample));
      }
    }
  };
  add("3x4 to 6x8", {2, 3, 3, 4}, {.size = Size2d{6, 8}});
  add("5x7 to 8x17", {1, 2, 5, 7}, {.size = Size2d{8, 17}});
  add("6x9 to 4x5", {1, 2, 6, 9}, {.size = Size2d{4, 5}});
  add("4x3 to 3x7", {2, 1, 4, 3}, {.size = Size2d{3, 7}});
  add("2x2 to 1x1", {1, 2, 2, 2}, {.size = 1});
  add("1x1 to 3x4", {1, 2, 1, 1}, {.size = Size2d{3, 4}});
  add("by 2", {1, 3, 3, 5}, {.scale_factor = 2});
  add("by (0.5, 2.6)", {1, 1, 7, 5}, {.scale_factor = Scale2d{0.5, 2.6}});
  add("empty batch", {0, 2, 3, 3}, {.size = 5});
  return list;
}

// ---- pixel shuffle

Sample shuffle_sample(std::string label, const Shape& x, std::int64_t factor, bool inverse) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_uniform(x, -2, 2, 91)};
  sample.forward = [=](const Tensors& in) {
    return Tensors{inverse ? pixel_unshuffle(in[0], factor) : pixel_shuffle(in[0], factor)};
  };
  sample.reference = [=](const Tensors& in) {
    const PlainArray from(in[0]);
    const std::size_t rank = from.shape.size();
    Shape shape = from.shape;
    const std::int64_t r = factor;
    shape[rank - 3] = inverse ? shape[rank - 3] * r * r : shape[rank - 3] / (r * r);
    shape[rank - 2] = inverse ? shape[rank - 2] / r : shape[rank - 2] * r;
    shape[rank - 1] = inverse ? shape[rank - 1] / r : shape[rank - 1] * r;
    PlainArray to(shape);
    for_each_position(inverse ? from.shape : shape, [&](const Dims& large) {
      Dims small = large;  // channel c · r² + (row % r) · r + column % r at (row / r, column / r)
      small[rank - 3] = large[rank - 3] * r * r + large[rank - 2] % r * r + large[rank - 1] % r;
      small[rank - 2] = large[rank - 2] / r;
      small[rank - 1] = large[rank - 1] / r;
      if (inverse) {
        to.at(small) = from.at(large);
      } else {
        to.at(large) = from.at(small);
      }
    });
    return Tensors{to.to_tensor()};
  };
  sample.backward = [=](const Tensors& g, const Tensors&) {
    return Tensors{inverse ? pixel_shuffle(g[0], factor) : pixel_unshuffle(g[0], factor)};
  };
  return sample;
}

std::vector<Sample> pixel_shuffle_samples() {
  return {shuffle_sample("by 2", {2, 8, 3, 2}, 2, false),
          shuffle_sample("by 3, no batch", {9, 2, 4}, 3, false),
          shuffle_sample("by 1", {1, 2, 3, 3}, 1, false),
          shuffle_sample("5 axes", {1, 2, 4, 2, 3}, 2, false),
          shuffle_sample("empty batch", {0, 4, 2, 2}, 2, false)};
}
std::vector<Sample> pixel_unshuffle_samples() {
  return {shuffle_sample("by 2", {2, 3, 4, 6}, 2, true),
          shuffle_sample("by 3, no batch", {2, 3, 6}, 3, true),
          shuffle_sample("empty batch", {0, 4, 2, 2}, 2, true)};
}

// ---- dropout of channels

Sample dropout2d_sample(std::string label, const Shape& shape, double p, bool training = true) {
  constexpr std::uint64_t seed = 0xfedcba987654321, offset = 5;
  const auto run = [=](const Tensor& x) {
    Generator generator(RandomState{seed, 0, offset});
    return dropout2d(x, p, training, generator);
  };
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_uniform(shape, -2, 2, 1)};
  sample.forward = [=](const Tensors& in) { return Tensors{run(in[0]).output}; };
  sample.reference = [=](const Tensors& in) {
    PlainArray x(in[0]);
    std::int64_t pixels = 1;
    for (std::size_t d = 2; d < x.shape.size(); ++d) pixels *= x.shape[d];
    for (std::size_t i = 0; training && i < x.values.size(); ++i) {
      const std::uint64_t channel = i / static_cast<std::size_t>(pixels);
      const bool dropped = random_reference::word(seed, offset + channel) < p * 4294967296.0;
      x.values[i] = dropped ? 0 : x.values[i] / (1 - p);
    }
    return Tensors{x.to_tensor()};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return Tensors{dropout2d_backward(g[0], run(in[0]).mask)};
  };
  return sample;
}

std::vector<Sample> dropout2d_samples() {
  return {dropout2d_sample("p 0.5", {3, 5, 2, 3}, 0.5),
          dropout2d_sample("p 0.2, [n, channels, length]", {4, 7, 5}, 0.2),
          dropout2d_sample("p 0.7, volumes", {2, 3, 2, 2, 2}, 0.7),
          dropout2d_sample("p 0", {2, 3, 2, 2}, 0),
          dropout2d_sample("p 1", {2, 3, 2, 2}, 1),
          dropout2d_sample("not training", {2, 3, 2, 2}, 0.5, false),
          dropout2d_sample("nothing", {0, 3, 2, 2}, 0.5)};
}

// ---- rotary embedding

Sample rotary_sample(std::string label, const Shape& shape, const RotaryOptions& options) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_uniform(shape, -2, 2, 7)};
  sample.forward = [=](const Tensors& in) { return Tensors{rotary_embedding(in[0], options)}; };
  sample.reference = [=](const Tensors& in) {
    const PlainArray x(in[0]);
    const std::size_t rank = x.shape.size();
    const std::int64_t width = x.shape[rank - 1];
    return Tensors{
        PlainArray::from(x.shape, [&](const Dims& position) {
          const std::int64_t feature = position[rank - 1];
          const std::int64_t pair = options.interleaved ? feature / 2 : feature % (width / 2);
          const bool second = options.interleaved ? feature % 2 == 1 : feature >= width / 2;
          const auto axis = static_cast<std::int64_t>(rank - 1);
          const std::complex<double> z(
              x.at(with_entry(position, axis, options.interleaved ? 2 * pair : pair)),
              x.at(with_entry(position, axis,
                              options.interleaved ? 2 * pair + 1 : pair + width / 2)));
          const double angle =
              static_cast<double>(options.offset + position[rank - 2]) *
              std::pow(options.base, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
          const std::complex<double> turned = z * std::polar(1.0, angle);
          return second ? turned.imag() : turned.real();
        }).to_tensor()};
  };
  sample.backward = [=](const Tensors& g, const Tensors&) {
    return Tensors{rotary_embedding_backward(g[0], options)};
  };
  return sample;
}

std::vector<Sample> rotary_samples() {
  return {rotary_sample("[2, 3, 5, 8]", {2, 3, 5, 8}, {}),
          rotary_sample("[2, 3, 5, 8], interleaved", {2, 3, 5, 8}, {.interleaved = true}),
          rotary_sample("[7, 2], base 100, offset 40", {7, 2}, {.base = 100, .offset = 40}),
          rotary_sample("[1, 9, 34], offset 3, interleaved", {1, 9, 34},
                        {.offset = 3, .interleaved = true}),
          rotary_sample("no rows", {2, 0, 4}, {})};
}

}  // namespace

void add_resampling(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* family, const char* formula,
                       const char* gradient, std::vector<std::string> backward,
                       std::vector<Sample> (*samples)(), DTypes dtypes = DTypes::floats) {
    ops.push_back({name, family, formula, gradient, std::move(backward), dtypes, samples});
  };
  add("interpolate", "resampling",
      "y[n, c, i, j] = Σ w(i − r) w(j − s) x[n, c, r, s]: the nearest pixel, a hat or a cubic",
      "x: the same weights, summed over the pixels of grad", {"interpolate_backward"},
      interpolate_samples);
  add("pixel_shuffle", "resampling", "y[n, c, i·r + p, j·r + q] = x[n, c·r² + p·r + q, i, j]",
      "pixel_unshuffle(grad)", {"pixel_unshuffle"}, pixel_shuffle_samples, DTypes::all);
  add("pixel_unshuffle", "resampling", "y[n, c·r² + p·r + q, i, j] = x[n, c, i·r + p, j·r + q]",
      "pixel_shuffle(grad)", {"pixel_shuffle"}, pixel_unshuffle_samples, DTypes::all);
  add("dropout2d", "layers", "x / (1 − p), or 0 for whole channels with probability p",
      "g / (1 − p) in the channels that were kept, else 0", {"dropout2d_backward"},
      dropout2d_samples);
  add("rotary_embedding", "attention",
      "pairs (a, b) turned by position · base^(−2i / width): (a cos − b sin, b cos + a sin)",
      "grad turned by the opposite angles", {"rotary_embedding_backward"}, rotary_samples);
}

}  // namespace extensor::op_database
