// Pooling, compared with windows written as nested loops.
#include <algorithm>
#include <limits>
#include <string>

#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

using Values = std::vector<double>;

Values values_of(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The length that PyTorch documents: rounded down, or up unless the last window would start in the
// padding after x.
std::int64_t pooled_length(std::int64_t length, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  const std::int64_t room = length + 2 * padding - dilation * (kernel - 1) - 1;
  std::int64_t count = room / stride + 1;
  if (ceil_mode) {
    count = (room + stride - 1) / stride + 1;
    if ((count - 1) * stride >= length + padding) --count;
  }
  return count;
}

Tensor largest(const Tensor& x, const Size2d& kernel, const MaxPool2dOptions& options) {
  const Size2d stride = options.stride.value_or(kernel);
  const std::int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t rows =
      pooled_length(height, kernel.height, stride.height, options.padding.height,
                    options.dilation.height, options.ceil_mode);
  const std::int64_t columns =
      pooled_length(width, kernel.width, stride.width, options.padding.width,
                    options.dilation.width, options.ceil_mode);
  const Values image = values_of(x);
  Values result;
  for (std::int64_t p = 0; p < planes; ++p) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double best = -std::numeric_limits<double>::infinity();
        for (std::int64_t r = 0; r < kernel.height; ++r) {
          for (std::int64_t s = 0; s < kernel.width; ++s) {
            const std::int64_t row =
                i * stride.height - options.padding.height + r * options.dilation.height;
            const std::int64_t column =
                j * stride.width - options.padding.width + s * options.dilation.width;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            best = std::max(best, image[at((p * height + row) * width + column)]);
          }
        }
        result.push_back(best);
      }
    }
  }
  return from_data(result, {x.size(0), x.size(1), rows, columns});
}

Tensor averaged(const Tensor& x, const Size2d& kernel, const AvgPool2dOptions& options) {
  const Size2d stride = options.stride.value_or(kernel);
  const std::int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t rows = pooled_length(height, kernel.height, stride.height,
                                          options.padding.height, 1, options.ceil_mode);
  const std::int64_t columns =
      pooled_length(width, kernel.width, stride.width, options.padding.width, 1, options.ceil_mode);
  const Values image = values_of(x);
  Values result;
  for (std::int64_t p = 0; p < planes; ++p) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0, inside = 0, padded = 0;
        for (std::int64_t r = 0; r < kernel.height; ++r) {
          for (std::int64_t s = 0; s < kernel.width; ++s) {
            const std::int64_t row = i * stride.height - options.padding.height + r;
            const std::int64_t column = j * stride.width - options.padding.width + s;
            if (row >= height + options.padding.height) continue;
            if (column >= width + options.padding.width) continue;
            padded += 1;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            inside += 1;
            sum += image[at((p * height + row) * width + column)];
          }
        }
        result.push_back(sum / (options.count_include_pad ? padded : inside));
      }
    }
  }
  return from_data(result, {x.size(0), x.size(1), rows, columns});
}

Tensor averaged_to(const Tensor& x, const Size2d& output) {
  const std::int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
  const Values image = values_of(x);
  Values result;
  for (std::int64_t p = 0; p < planes; ++p) {
    for (std::int64_t i = 0; i < output.height; ++i) {
      for (std::int64_t j = 0; j < output.width; ++j) {
        double sum = 0, count = 0;
        for (std::int64_t row = 0; row < height; ++row) {
          for (std::int64_t column = 0; column < width; ++column) {
            // Inside where [row, row + 1) and [i, i + 1) · height / output overlap.
            if ((row + 1) * output.height <= i * height) continue;
            if (row * output.height >= (i + 1) * height) continue;
            if ((column + 1) * output.width <= j * width) continue;
            if (column * output.width >= (j + 1) * width) continue;
            sum += image[at((p * height + row) * width + column)];
            count += 1;
          }
        }
        result.push_back(sum / count);
      }
    }
  }
  return from_data(result, {x.size(0), x.size(1), output.height, output.width});
}

std::vector<Sample> max_pool2d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 3000;
  const auto add = [&](std::string label, const Shape& x, const Size2d& kernel,
                       const MaxPool2dOptions& options) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {sample_distinct(x, ++seed)};
    sample.forward = [=](const Tensors& in) { return Tensors{max_pool2d(in[0], kernel, options)}; };
    sample.reference = [=](const Tensors& in) { return Tensors{largest(in[0], kernel, options)}; };
    sample.backward = [=](const Tensors& g, const Tensors& in) {
      return Tensors{max_pool2d_backward(g[0], in[0], kernel, options)};
    };
    list.push_back(std::move(sample));
  };
  add("2x2", {2, 3, 6, 6}, 2, {});
  add("2x2 of 7x9", {1, 2, 7, 9}, 2, {});
  add("2x2 of 4x34", {1, 1, 4, 34}, 2, {});
  add("2x2, ceil mode", {1, 2, 5, 7}, 2, {.ceil_mode = true});
  add("3x3, stride 2, padding 1", {1, 3, 7, 8}, 3, {.stride = 2, .padding = 1});
  add("3x3, stride 1", {1, 2, 6, 7}, 3, {.stride = 1});
  add("3x2, stride (1, 2), padding (1, 0)", {1, 2, 6, 9}, {3, 2},
      {.stride = Size2d{1, 2}, .padding = {1, 0}});
  add("2x3, dilation (3, 2), padding (1, 1)", {1, 2, 7, 8}, {2, 3},
      {.stride = 1, .padding = 1, .dilation = {3, 2}});
  add("3x3, stride 2, padding 1, ceil mode", {1, 2, 6, 8}, 3,
      {.stride = 2, .padding = 1, .ceil_mode = true});
  add("stride 4 beyond the kernel, ceil mode", {1, 2, 9, 10}, 2, {.stride = 4, .ceil_mode = true});
  add("1x1", {1, 2, 3, 4}, 1, {});
  add("whole image", {2, 2, 4, 5}, {4, 5}, {});
  add("empty batch", {0, 2, 4, 4}, 2, {});
  return list;
}

std::vector<Sample> avg_pool2d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 4000;
  const auto add = [&](std::string label, const Shape& x, const Size2d& kernel,
                       const AvgPool2dOptions& options) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {sample_uniform(x, -2, 2, ++seed)};
    sample.forward = [=](const Tensors& in) { return Tensors{avg_pool2d(in[0], kernel, options)}; };
    sample.reference = [=](const Tensors& in) { return Tensors{averaged(in[0], kernel, options)}; };
    sample.backward = [=](const Tensors& g, const Tensors& in) {
      return Tensors{avg_pool2d_backward(g[0], in[0].shape(), kernel, options)};
    };
    list.push_back(std::move(sample));
  };
  add("2x2", {2, 3, 6, 6}, 2, {});
  add("2x2 of 7x17", {1, 2, 7, 17}, 2, {});
  add("3x3, stride 1, padding 1", {1, 2, 5, 6}, 3, {.stride = 1, .padding = 1});
  add("3x3, stride 2, padding 1, inside only", {1, 2, 6, 7}, 3,
      {.stride = 2, .padding = 1, .count_include_pad = false});
  add("3x2, stride (2, 1), padding (1, 0)", {1, 3, 7, 5}, {3, 2},
      {.stride = Size2d{2, 1}, .padding = {1, 0}});
  add("2x2, ceil mode", {1, 2, 5, 7}, 2, {.ceil_mode = true});
  add("3x3, stride 2, padding 1, ceil mode", {1, 2, 6, 8}, 3,
      {.stride = 2, .padding = 1, .ceil_mode = true});
  add("3x3, stride 2, padding 1, ceil mode, inside only", {1, 2, 6, 8}, 3,
      {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  add("whole image", {2, 2, 4, 5}, {4, 5}, {});
  add("empty batch", {0, 2, 4, 4}, 2, {});
  return list;
}

std::vector<Sample> adaptive_avg_pool2d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 5000;
  const auto add = [&](std::string label, const Shape& x, const Size2d& output) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {sample_uniform(x, -2, 2, ++seed)};
    sample.forward = [=](const Tensors& in) { return Tensors{adaptive_avg_pool2d(in[0], output)}; };
    sample.reference = [=](const Tensors& in) { return Tensors{averaged_to(in[0], output)}; };
    sample.backward = [=](const Tensors& g, const Tensors& in) {
      return Tensors{adaptive_avg_pool2d_backward(g[0], in[0].shape())};
    };
    list.push_back(std::move(sample));
  };
  add("to 1x1", {2, 3, 5, 6}, 1);
  add("7x9 to 3x4", {1, 2, 7, 9}, {3, 4});
  add("6x6 to 2x3", {2, 2, 6, 6}, {2, 3});
  add("3x4 to 5x7, upwards", {1, 2, 3, 4}, {5, 7});
  add("to itself", {1, 2, 4, 5}, {4, 5});
  add("1x17 to 1x5", {1, 3, 1, 17}, {1, 5});
  add("empty batch", {0, 2, 4, 4}, 2);
  return list;
}

}  // namespace

void add_pooling(std::vector<Op>& ops) {
  ops.push_back({"max_pool2d",
                 "pooling",
                 "the largest element of each window",
                 "to the first largest element of each window",
                 {"max_pool2d_backward"},
                 DTypes::floats,
                 max_pool2d_samples});
  ops.push_back({"avg_pool2d",
                 "pooling",
                 "the mean of each window",
                 "grad / count to every element of the window",
                 {"avg_pool2d_backward"},
                 DTypes::floats,
                 avg_pool2d_samples});
  ops.push_back({"adaptive_avg_pool2d",
                 "pooling",
                 "the mean of rows ⌊i·H / n⌋ … ⌈(i + 1)·H / n⌉ − 1, and columns likewise",
                 "grad / count to every element of the window",
                 {"adaptive_avg_pool2d_backward"},
                 DTypes::floats,
                 adaptive_avg_pool2d_samples});
}

}  // namespace extensor::op_database
