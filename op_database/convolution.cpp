// Convolutions, against the definition written out as seven nested loops.
#include <string>

#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

using Values = std::vector<double>;

Values values_of(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// x [N, C, H, W] with weight [O, C / groups, kh, kw], and an optional bias.
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& options) {
  const Values image = values_of(x), filter = values_of(weight);
  const Values offset = bias.defined() ? values_of(bias) : Values(at(weight.size(0)), 0.0);
  const std::int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t filters = weight.size(0), per_group = weight.size(1);
  const std::int64_t kh = weight.size(2), kw = weight.size(3);
  const auto length = [](std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
    if (padding == same_padding) return in;
    return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  };
  const std::int64_t rows =
      length(height, kh, options.stride.height, options.padding.height, options.dilation.height);
  const std::int64_t columns =
      length(width, kw, options.stride.width, options.padding.width, options.dilation.width);
  // The zeros before x: same_padding puts the odd one after it.
  const auto before = [](std::int64_t padding, std::int64_t kernel, std::int64_t dilation) {
    return padding == same_padding ? dilation * (kernel - 1) / 2 : padding;
  };
  const std::int64_t above = before(options.padding.height, kh, options.dilation.height);
  const std::int64_t left = before(options.padding.width, kw, options.dilation.width);
  Values result;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t o = 0; o < filters; ++o) {
      const std::int64_t group = o / (filters / options.groups);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = offset[at(o)];
          for (std::int64_t c = 0; c < per_group; ++c) {
            for (std::int64_t r = 0; r < kh; ++r) {
              for (std::int64_t s = 0; s < kw; ++s) {
                const std::int64_t row =
                    i * options.stride.height - above + r * options.dilation.height;
                const std::int64_t column =
                    j * options.stride.width - left + s * options.dilation.width;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                sum += image[at(((n * channels + group * per_group + c) * height + row) * width +
                                column)] *
                       filter[at(((o * per_group + c) * kh + r) * kw + s)];
              }
            }
          }
          result.push_back(sum);
        }
      }
    }
  }
  return from_data(result, {batch, filters, rows, columns});
}

// Every element of x adds its multiple of the filter to the result.
Tensor spread(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvTranspose2dOptions& options) {
  const Values image = values_of(x), filter = values_of(weight);
  const std::int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t per_group = weight.size(1), kh = weight.size(2), kw = weight.size(3);
  const std::int64_t outputs = per_group * options.groups;
  const std::int64_t rows = (height - 1) * options.stride.height - 2 * options.padding.height +
                            options.dilation.height * (kh - 1) + options.output_padding.height + 1;
  const std::int64_t columns = (width - 1) * options.stride.width - 2 * options.padding.width +
                               options.dilation.width * (kw - 1) + options.output_padding.width + 1;
  Values result(at(batch * outputs * rows * columns), 0.0);
  if (bias.defined()) {
    const Values offset = values_of(bias);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = offset[i / at(rows * columns) % at(outputs)];
    }
  }
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t group = c / (channels / options.groups);
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          const double value = image[at(((n * channels + c) * height + i) * width + j)];
          for (std::int64_t o = 0; o < per_group; ++o) {
            for (std::int64_t r = 0; r < kh; ++r) {
              for (std::int64_t s = 0; s < kw; ++s) {
                const std::int64_t row = i * options.stride.height - options.padding.height +
                                         r * options.dilation.height;
                const std::int64_t column =
                    j * options.stride.width - options.padding.width + s * options.dilation.width;
                if (row < 0 || row >= rows || column < 0 || column >= columns) continue;
                result[at(((n * outputs + group * per_group + o) * rows + row) * columns +
                          column)] += value * filter[at(((c * per_group + o) * kh + r) * kw + s)];
              }
            }
          }
        }
      }
    }
  }
  return from_data(result, {batch, outputs, rows, columns});
}

Tensors inputs_of(const Shape& x, const Shape& weight, std::int64_t biases, std::uint64_t seed) {
  Tensors inputs = {sample_uniform(x, -2, 2, seed), sample_uniform(weight, -1, 1, seed + 1)};
  if (biases > 0) inputs.push_back(sample_uniform({biases}, -1, 1, seed + 2));
  return inputs;
}

Tensor bias_of(const Tensors& inputs) { return inputs.size() > 2 ? inputs[2] : Tensor(); }

WantedGradients wanted_for(const Tensors& inputs) { return {true, true, inputs.size() > 2}; }

// Calls of the ops of this family; their arguments have the same order.
template <class Options>
struct Convolution {
  Tensor (*forward)(const Tensor& x, const Tensor& weight, const Tensor& bias, const Options&);
  Tensor (*reference)(const Tensor& x, const Tensor& weight, const Tensor& bias, const Options&);
  ConvolutionGradients (*backward)(const Tensor& g, const Tensor& x, const Tensor& weight,
                                   const Options&, const WantedGradients&);
};

template <class Options>
Sample sample_of(const Convolution<Options>& op, std::string label, const Shape& x,
                 const Shape& weight, std::int64_t biases, const Options& options,
                 std::uint64_t seed) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = inputs_of(x, weight, biases, seed);
  sample.forward = [=](const Tensors& in) {
    return Tensors{op.forward(in[0], in[1], bias_of(in), options)};
  };
  sample.reference = [=](const Tensors& in) {
    return Tensors{op.reference(in[0], in[1], bias_of(in), options)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const auto [of_x, of_weight, of_bias] =
        op.backward(g[0], in[0], in[1], options, wanted_for(in));
    Tensors list = {of_x, of_weight, of_bias};
    list.resize(in.size());
    return list;
  };
  return sample;
}

// The sample of a batch of one, without the batch.
Sample one_image(Sample sample) {
  const auto without_batch = [](const Tensor& x) {
    Shape shape = x.shape();
    shape.erase(0);
    return x.reshape(shape);
  };
  sample.label = "without a batch";
  sample.inputs[0] = without_batch(sample.inputs[0]);
  sample.reference = [=, batch = sample.reference](const Tensors& in) {
    Tensors inputs = in;
    Shape shape = in[0].shape();
    shape.insert(0, 1);
    inputs[0] = in[0].reshape(shape);
    return Tensors{without_batch(batch(inputs)[0])};
  };
  return sample;
}

std::vector<Sample> conv2d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 100;
  const Convolution<Conv2dOptions> op{conv2d, convolved, conv2d_backward};
  const auto add = [&](std::string label, const Shape& x, const Shape& weight, bool bias,
                       const Conv2dOptions& options) {
    list.push_back(
        sample_of(op, std::move(label), x, weight, bias ? weight[0] : 0, options, seed += 10));
  };
  add("3x3", {1, 2, 5, 5}, {3, 2, 3, 3}, true, {});
  add("3x3, padding 1", {2, 3, 6, 7}, {4, 3, 3, 3}, true, {.padding = 1});
  add("3x3, padding 2, odd sizes", {1, 2, 5, 7}, {2, 2, 3, 3}, false, {.padding = 2});
  add("3x3, padding (0, 2)", {2, 1, 4, 5}, {2, 1, 3, 3}, true, {.padding = {0, 2}});
  add("1x1", {2, 5, 3, 4}, {4, 5, 1, 1}, true, {});
  add("1x1, no bias", {1, 3, 5, 7}, {2, 3, 1, 1}, false, {});
  add("1x1, stride 2", {1, 3, 5, 5}, {2, 3, 1, 1}, true, {.stride = 2});
  add("1x1, padding 1", {1, 2, 3, 3}, {3, 2, 1, 1}, true, {.padding = 1});
  add("1x1, groups 2", {2, 4, 3, 3}, {6, 2, 1, 1}, true, {.groups = 2});
  add("2x2, stride 2", {2, 2, 6, 6}, {3, 2, 2, 2}, true, {.stride = 2});
  add("3x3, stride 2, padding 1", {1, 3, 7, 8}, {2, 3, 3, 3}, true, {.stride = 2, .padding = 1});
  add("3x2, stride (1, 3), padding (1, 0)", {1, 2, 6, 9}, {3, 2, 3, 2}, true,
      {.stride = {1, 3}, .padding = {1, 0}});
  add("2x3, stride (3, 1), padding (1, 1)", {1, 2, 9, 6}, {2, 2, 2, 3}, false,
      {.stride = {3, 1}, .padding = 1});
  add("5x5", {1, 1, 9, 10}, {6, 1, 5, 5}, true, {});
  add("5x5, padding 2", {1, 1, 6, 17}, {2, 1, 5, 5}, true, {.padding = 2});
  add("4x4, stride 2, padding 1", {1, 2, 8, 8}, {3, 2, 4, 4}, true, {.stride = 2, .padding = 1});
  add("1x5, padding (0, 2)", {1, 2, 3, 17}, {2, 2, 1, 5}, true, {.padding = {0, 2}});
  add("5x1, padding (2, 0)", {1, 2, 9, 3}, {2, 2, 5, 1}, true, {.padding = {2, 0}});
  add("1x33 row", {1, 1, 1, 35}, {2, 1, 1, 3}, true, {});
  add("3x3, dilation 2", {1, 2, 7, 8}, {2, 2, 3, 3}, true, {.dilation = 2});
  add("3x2, dilation (2, 3), padding (2, 1)", {1, 2, 6, 8}, {3, 2, 3, 2}, true,
      {.padding = {2, 1}, .dilation = {2, 3}});
  add("3x3, stride 2, dilation 2, padding 2", {1, 2, 9, 8}, {2, 2, 3, 3}, false,
      {.stride = 2, .padding = 2, .dilation = 2});
  add("3x3, stride 3, dilation 2, padding 1, groups 2", {1, 4, 8, 9}, {2, 2, 3, 3}, true,
      {.stride = 3, .padding = 1, .dilation = 2, .groups = 2});
  add("3x3, padding 1, groups 2", {1, 4, 5, 6}, {6, 2, 3, 3}, true, {.padding = 1, .groups = 2});
  add("depthwise 3x3, padding 1", {2, 5, 5, 6}, {5, 1, 3, 3}, true, {.padding = 1, .groups = 5});
  add("depthwise 3x3, width 17", {1, 3, 4, 17}, {3, 1, 3, 3}, true, {.padding = 1, .groups = 3});
  add("depthwise 3x3, width 35", {1, 2, 3, 35}, {2, 1, 3, 3}, false, {.padding = 1, .groups = 2});
  add("depthwise 5x5, padding 2, stride 2", {1, 3, 7, 9}, {3, 1, 5, 5}, true,
      {.stride = 2, .padding = 2, .groups = 3});
  add("depthwise, 2 filters a channel", {1, 3, 6, 5}, {6, 1, 3, 3}, true,
      {.padding = 1, .groups = 3});
  add("depthwise 3x3, dilation 2", {1, 3, 7, 7}, {3, 1, 3, 3}, true,
      {.padding = 2, .dilation = 2, .groups = 3});
  add("13 filters of 3x3", {1, 1, 5, 6}, {13, 1, 3, 3}, true, {.padding = 1});
  add("16 channels of 3x3", {1, 16, 4, 4}, {2, 16, 3, 3}, true, {.padding = 1});
  add("kernel as large as x", {2, 2, 3, 4}, {3, 2, 3, 4}, true, {});
  add("padding beyond the kernel", {1, 1, 2, 3}, {2, 1, 2, 2}, true, {.padding = {3, 2}});
  add("one pixel", {3, 2, 1, 1}, {2, 2, 3, 3}, true, {.padding = 1});
  add("empty batch", {0, 2, 4, 4}, {3, 2, 3, 3}, true, {.padding = 1});
  add("3x3, same padding", {2, 3, 5, 6}, {4, 3, 3, 3}, true, {.padding = same_padding});
  add("2x4, same padding", {1, 2, 5, 7}, {3, 2, 2, 4}, true, {.padding = same_padding});
  add("4x4, same padding, dilation (3, 2), groups 2", {1, 4, 6, 9}, {2, 2, 4, 4}, false,
      {.padding = same_padding, .dilation = {3, 2}, .groups = 2});
  add("6x3, same padding of the height", {1, 1, 3, 8}, {2, 1, 6, 3}, true,
      {.padding = {same_padding, 0}});
  add("depthwise 4x4, same padding, width 17", {1, 3, 5, 17}, {3, 1, 4, 4}, true,
      {.padding = same_padding, .groups = 3});
  add("16 channels of 4x4, same padding", {1, 16, 6, 5}, {4, 16, 4, 4}, true,
      {.padding = same_padding});
  list.push_back(
      one_image(sample_of(op, "", {1, 2, 5, 6}, {3, 2, 3, 3}, 3, Conv2dOptions{.padding = 1}, 7)));
  return list;
}

// As conv2d, with a height of 1.
Tensor convolved_rows(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv1dOptions& options) {
  const Conv2dOptions flat{.stride = {1, options.stride},
                           .padding = {0, options.padding},
                           .dilation = {1, options.dilation},
                           .groups = options.groups};
  const Tensor y = convolved(x.unsqueeze(2), weight.unsqueeze(2), bias, flat);
  return y.reshape({y.size(0), y.size(1), y.size(3)});
}

std::vector<Sample> conv1d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 1000;
  const Convolution<Conv1dOptions> op{conv1d, convolved_rows, conv1d_backward};
  const auto add = [&](std::string label, const Shape& x, const Shape& weight, bool bias,
                       const Conv1dOptions& options) {
    list.push_back(
        sample_of(op, std::move(label), x, weight, bias ? weight[0] : 0, options, seed += 10));
  };
  add("kernel 3", {2, 3, 9}, {4, 3, 3}, true, {});
  add("kernel 3, padding 1, length 33", {1, 2, 33}, {3, 2, 3}, true, {.padding = 1});
  add("kernel 1", {2, 3, 17}, {2, 3, 1}, false, {});
  add("kernel 4, stride 2, padding 2", {1, 3, 12}, {2, 3, 4}, true, {.stride = 2, .padding = 2});
  add("kernel 5, dilation 2", {2, 2, 14}, {3, 2, 5}, true, {.dilation = 2});
  add("kernel 2, stride 3, dilation 3, groups 2", {1, 4, 17}, {6, 2, 2}, true,
      {.stride = 3, .dilation = 3, .groups = 2});
  add("depthwise", {2, 5, 20}, {5, 1, 3}, true, {.padding = 1, .groups = 5});
  add("length 1", {2, 3, 1}, {2, 3, 1}, true, {});
  add("kernel 4, same padding", {2, 3, 10}, {2, 3, 4}, true, {.padding = same_padding});
  return list;
}

std::vector<Sample> conv_transpose2d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 2000;
  const Convolution<ConvTranspose2dOptions> op{conv_transpose2d, spread, conv_transpose2d_backward};
  const auto add = [&](std::string label, const Shape& x, const Shape& weight, bool bias,
                       const ConvTranspose2dOptions& options) {
    list.push_back(sample_of(op, std::move(label), x, weight, bias ? weight[1] * options.groups : 0,
                             options, seed += 10));
  };
  add("3x3", {1, 2, 4, 5}, {2, 3, 3, 3}, true, {});
  add("3x3, padding 1", {2, 3, 5, 4}, {3, 2, 3, 3}, true, {.padding = 1});
  add("3x3, padding beyond the kernel", {1, 2, 7, 7}, {2, 2, 3, 3}, true, {.padding = 3});
  add("2x2, stride 2", {2, 3, 3, 4}, {3, 2, 2, 2}, true, {.stride = 2});
  add("4x4, stride 2, padding 1", {1, 3, 4, 5}, {3, 2, 4, 4}, true, {.stride = 2, .padding = 1});
  add("3x3, stride 2, padding 1, output padding 1", {1, 2, 4, 3}, {2, 3, 3, 3}, true,
      {.stride = 2, .padding = 1, .output_padding = 1});
  add("2x3, stride (3, 1), output padding (2, 0)", {1, 2, 3, 5}, {2, 2, 2, 3}, false,
      {.stride = {3, 1}, .output_padding = {2, 0}});
  add("3x3, dilation 2, output padding 1", {1, 2, 4, 4}, {2, 2, 3, 3}, true,
      {.output_padding = 1, .dilation = 2});
  add("3x2, stride 2, dilation 3, padding (1, 2), groups 2", {1, 4, 4, 5}, {4, 2, 3, 2}, true,
      {.stride = 2, .padding = {1, 2}, .dilation = 3, .groups = 2});
  add("depthwise", {2, 3, 4, 4}, {3, 1, 3, 3}, true, {.stride = 2, .padding = 1, .groups = 3});
  add("1x1", {2, 3, 3, 5}, {3, 4, 1, 1}, true, {});
  add("empty batch", {0, 2, 3, 3}, {2, 2, 3, 3}, true, {.stride = 2});
  return list;
}

}  // namespace

void add_convolution(std::vector<Op>& ops) {
  ops.push_back(
      {"conv2d",
       "convolution",
       "y[n, o, i, j] = bias[o] + Σ x[n, c, i·stride + r·dilation − padding, …] · w[o, c, r, s]",
       "of x: the same sum read the other way; of w: Σ x · grad; of bias: Σ grad",
       {"conv2d_backward"},
       DTypes::floats,
       conv2d_samples});
  ops.push_back({"conv1d",
                 "convolution",
                 "y[n, o, i] = bias[o] + Σ x[n, c, i·stride + r·dilation − padding] · w[o, c, r]",
                 "as conv2d's, with a height of 1",
                 {"conv1d_backward"},
                 DTypes::floats,
                 conv1d_samples});
  ops.push_back(
      {"conv_transpose2d",
       "convolution",
       "y[n, o, i·stride + r·dilation − padding, …] = bias[o] + Σ x[n, c, i, j] · w[c, o, r, s]",
       "of x: conv2d(grad, w); of w: Σ grad · x; of bias: Σ grad",
       {"conv_transpose2d_backward"},
       DTypes::floats,
       conv_transpose2d_samples});
}

}  // namespace extensor::op_database
