// Convolution and pooling of signals and volumes, against loops over any number of axes.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

// The sizes along all axes of a signal or a volume.
Dims sides(std::int64_t size) { return {size}; }
Dims sides(const Size3d& size) { return {size.depth, size.height, size.width}; }

// ---- convolution

struct Windows {
  Dims stride, padding, dilation, output_padding;
  std::int64_t groups;
};
template <class Options>
Windows windows_of(const Options& options) {
  Windows windows{
      sides(options.stride), sides(options.padding), sides(options.dilation), {}, options.groups};
  if constexpr (requires { options.output_padding; }) {
    windows.output_padding = sides(options.output_padding);
  }
  return windows;
}

double bias_at(const Tensor& bias, std::int64_t channel) {
  return bias.defined() ? PlainArray(bias).at({channel}) : 0;
}

// y[n, o, i…] = bias[o] + Σ x[n, c, i · stride + r · dilation − padding …] · w[o, c, r…]
Tensor convolved(const Tensor& x_tensor, const Tensor& weight_tensor, const Tensor& bias,
                 const Conv3dOptions& options) {
  const PlainArray x(x_tensor), weight(weight_tensor);
  const Windows windows = windows_of(options);
  Shape shape{x.shape[0], weight.shape[0]}, taps{weight.shape[1]};
  Dims before;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t reach = windows.dilation[d] * (weight.shape[d + 2] - 1);
    const bool same = windows.padding[d] == same_padding;
    before.push_back(same ? reach / 2 : windows.padding[d]);
    const std::int64_t zeros = same ? reach : 2 * windows.padding[d];
    shape.push_back((x.shape[d + 2] + zeros - reach - 1) / windows.stride[d] + 1);
    taps.push_back(weight.shape[d + 2]);
  }
  const std::int64_t filters_per_group = weight.shape[0] / windows.groups;
  return PlainArray::from(shape,
                          [&](const Dims& y) {
                            double sum = bias_at(bias, y[1]);
                            for_each_position(taps, [&](const Dims& tap) {
                              Dims from{y[0], y[1] / filters_per_group * taps[0] + tap[0]};
                              Dims of_weight{y[1], tap[0]};
                              for (std::size_t d = 0; d < 3; ++d) {
                                const std::int64_t place = y[d + 2] * windows.stride[d] +
                                                           tap[d + 1] * windows.dilation[d] -
                                                           before[d];
                                if (place < 0 || place >= x.shape[d + 2]) return;
                                from.push_back(place);
                                of_weight.push_back(tap[d + 1]);
                              }
                              sum += x.at(from) * weight.at(of_weight);
                            });
                            return sum;
                          })
      .to_tensor();
}

// Every element of x adds its multiple of the filter to the result.
template <class Options>
Tensor spread(const Tensor& x_tensor, const Tensor& weight_tensor, const Tensor& bias,
              const Options& options) {
  const PlainArray x(x_tensor), weight(weight_tensor);
  const Windows windows = windows_of(options);
  const std::size_t rank = x.shape.size() - 2;
  const std::int64_t outputs = weight.shape[1], channels_per_group = x.shape[1] / windows.groups;
  Shape shape{x.shape[0], outputs * windows.groups}, taps{outputs};
  for (std::size_t d = 0; d < rank; ++d) {
    shape.push_back((x.shape[d + 2] - 1) * windows.stride[d] - 2 * windows.padding[d] +
                    windows.dilation[d] * (weight.shape[d + 2] - 1) + windows.output_padding[d] +
                    1);
    taps.push_back(weight.shape[d + 2]);
  }
  PlainArray y =
      PlainArray::from(shape, [&](const Dims& position) { return bias_at(bias, position[1]); });
  for_each_position(x.shape, [&](const Dims& from) {
    for_each_position(taps, [&](const Dims& tap) {
      Dims to{from[0], from[1] / channels_per_group * outputs + tap[0]};
      Dims of_weight{from[1], tap[0]};
      for (std::size_t d = 0; d < rank; ++d) {
        const std::int64_t place =
            from[d + 2] * windows.stride[d] + tap[d + 1] * windows.dilation[d] - windows.padding[d];
        if (place < 0 || place >= shape[d + 2]) return;
        to.push_back(place);
        of_weight.push_back(tap[d + 1]);
      }
      y.at(to) += x.at(from) * weight.at(of_weight);
    });
  });
  return y.to_tensor();
}

Tensor bias_of(const Tensors& inputs) { return inputs.size() > 2 ? inputs[2] : Tensor(); }

template <class Options, class Forward, class Reference, class Backward>
Sample convolution_sample(std::string label, const Shape& x, const Shape& weight,
                          std::int64_t biases, const Options& options, std::uint64_t seed,
                          Forward forward, Reference reference, Backward backward) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_uniform(x, -2, 2, seed), sample_uniform(weight, -1, 1, seed + 1)};
  if (biases > 0) sample.inputs.push_back(sample_uniform({biases}, -1, 1, seed + 2));
  sample.forward = [=](const Tensors& in) {
    return Tensors{forward(in[0], in[1], bias_of(in), options)};
  };
  sample.reference = [=](const Tensors& in) {
    return Tensors{reference(in[0], in[1], bias_of(in), options)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const auto [of_x, of_weight, of_bias] =
        backward(g[0], in[0], in[1], options, WantedGradients{true, true, in.size() > 2});
    Tensors list = {of_x, of_weight, of_bias};
    list.resize(in.size());
    return list;
  };
  return sample;
}

std::vector<Sample> conv3d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 6000;
  const auto add = [&](std::string label, const Shape& x, const Shape& weight, bool bias,
                       const Conv3dOptions& options) {
    list.push_back(convolution_sample(std::move(label), x, weight, bias ? weight[0] : 0, options,
                                      seed += 10, conv3d, convolved, conv3d_backward));
  };
  add("3x3x3, padding 1", {1, 2, 3, 4, 5}, {2, 2, 3, 3, 3}, true, {.padding = 1});
  add("2x3x1", {2, 1, 3, 4, 3}, {2, 1, 2, 3, 1}, false, {});
  add("1x1x1", {2, 3, 2, 2, 3}, {2, 3, 1, 1, 1}, true, {});
  add("stride (2, 1, 2), padding (1, 0, 1)", {1, 2, 5, 3, 4}, {2, 2, 3, 2, 2}, true,
      {.stride = {2, 1, 2}, .padding = {1, 0, 1}});
  add("dilation (2, 1, 2), groups 2", {1, 4, 4, 2, 4}, {2, 2, 2, 2, 2}, true,
      {.dilation = {2, 1, 2}, .groups = 2});
  add("same padding, 2x3x4", {1, 1, 3, 3, 4}, {2, 1, 2, 3, 4}, true, {.padding = same_padding});
  add("empty batch", {0, 2, 3, 3, 3}, {2, 2, 2, 2, 2}, true, {});
  return list;
}

std::vector<Sample> conv_transpose1d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 6500;
  const auto add = [&](std::string label, const Shape& x, const Shape& weight, bool bias,
                       const ConvTranspose1dOptions& options) {
    list.push_back(convolution_sample(
        std::move(label), x, weight, bias ? weight[1] * options.groups : 0, options, seed += 10,
        conv_transpose1d, spread<ConvTranspose1dOptions>, conv_transpose1d_backward));
  };
  add("kernel 3", {2, 3, 7}, {3, 2, 3}, true, {});
  add("kernel 4, stride 2, padding 1", {1, 2, 9}, {2, 3, 4}, true, {.stride = 2, .padding = 1});
  add("stride 3, output padding 2", {1, 2, 5}, {2, 2, 2}, false,
      {.stride = 3, .output_padding = 2});
  add("dilation 2, groups 2", {2, 4, 6}, {4, 1, 3}, true, {.dilation = 2, .groups = 2});
  add("length 33", {1, 2, 33}, {2, 2, 3}, true, {.padding = 1});
  add("empty batch", {0, 2, 4}, {2, 3, 2}, true, {});
  return list;
}

std::vector<Sample> conv_transpose3d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 7000;
  const auto add = [&](std::string label, const Shape& x, const Shape& weight, bool bias,
                       const ConvTranspose3dOptions& options) {
    list.push_back(convolution_sample(
        std::move(label), x, weight, bias ? weight[1] * options.groups : 0, options, seed += 10,
        conv_transpose3d, spread<ConvTranspose3dOptions>, conv_transpose3d_backward));
  };
  add("2x2x2, stride 2", {1, 2, 2, 2, 3}, {2, 2, 2, 2, 2}, true, {.stride = 2});
  add("3x2x3, padding 1", {1, 1, 3, 3, 2}, {1, 2, 3, 2, 3}, false, {.padding = 1});
  add("stride (2, 1, 3), output padding (1, 0, 2), groups 2", {1, 2, 2, 2, 2}, {2, 1, 2, 2, 2},
      true, {.stride = {2, 1, 3}, .output_padding = {1, 0, 2}, .groups = 2});
  add("dilation 2, padding (1, 2, 1), output padding 1", {1, 1, 3, 3, 3}, {1, 1, 2, 2, 2}, true,
      {.padding = {1, 2, 1}, .output_padding = 1, .dilation = 2});
  add("empty batch", {0, 2, 2, 2, 2}, {2, 2, 2, 2, 2}, true, {});
  return list;
}

// ---- pooling

struct PoolingCase {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode, count_include_pad;
};
template <class Kernel, class Options>
PoolingCase pooling_case(const Kernel& kernel, const Options& options) {
  PoolingCase c{sides(kernel),          sides(options.stride.value_or(kernel)),
                sides(options.padding), Dims(sides(kernel).size(), 1),
                options.ceil_mode,      true};
  if constexpr (requires { options.dilation; }) c.dilation = sides(options.dilation);
  if constexpr (requires { options.count_include_pad; }) {
    c.count_include_pad = options.count_include_pad;
  }
  return c;
}

// PyTorch's length: rounded down, or up unless the last window would start in the padding after x.
std::int64_t pooled_length(const PoolingCase& c, std::size_t d, std::int64_t length) {
  const std::int64_t room = length + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1;
  if (!c.ceil_mode) return room / c.stride[d] + 1;
  const std::int64_t count = (room + c.stride[d] - 1) / c.stride[d] + 1;
  return (count - 1) * c.stride[d] >= length + c.padding[d] ? count - 1 : count;
}

// The largest element of each window, or its mean.
Tensor pooled(const Tensor& x_tensor, const PoolingCase& c, bool largest) {
  const PlainArray x(x_tensor);
  const std::size_t rank = c.kernel.size();
  Shape shape{x.shape[0], x.shape[1]};
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(pooled_length(c, d, x.shape[d + 2]));
  return PlainArray::from(shape,
                          [&](const Dims& y) {
                            double best = -std::numeric_limits<double>::infinity(), sum = 0,
                                   inside = 0, padded = 0;
                            for_each_position(c.kernel, [&](const Dims& tap) {
                              Dims from{y[0], y[1]};
                              bool is_inside = true;
                              for (std::size_t d = 0; d < rank; ++d) {
                                const std::int64_t place =
                                    y[d + 2] * c.stride[d] - c.padding[d] + tap[d] * c.dilation[d];
                                if (place >= x.shape[d + 2] + c.padding[d])
                                  return;  // beyond the padding
                                is_inside = is_inside && place >= 0 && place < x.shape[d + 2];
                                from.push_back(place);
                              }
                              padded += 1;
                              if (!is_inside) return;
                              inside += 1;
                              sum += x.at(from);
                              best = std::max(best, x.at(from));
                            });
                            return largest ? best : sum / (c.count_include_pad ? padded : inside);
                          })
      .to_tensor();
}

template <class Kernel, class Options, class Forward, class Backward>
Sample max_sample(std::string label, const Shape& x, const Kernel& kernel, const Options& options,
                  std::uint64_t seed, Forward forward, Backward backward) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_distinct(x, seed)};
  sample.forward = [=](const Tensors& in) { return Tensors{forward(in[0], kernel, options)}; };
  sample.reference = [=](const Tensors& in) {
    return Tensors{pooled(in[0], pooling_case(kernel, options), true)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return Tensors{backward(g[0], in[0], kernel, options)};
  };
  return sample;
}

template <class Kernel, class Options, class Forward, class Backward>
Sample avg_sample(std::string label, const Shape& x, const Kernel& kernel, const Options& options,
                  std::uint64_t seed, Forward forward, Backward backward) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_uniform(x, -2, 2, seed)};
  sample.forward = [=](const Tensors& in) { return Tensors{forward(in[0], kernel, options)}; };
  sample.reference = [=](const Tensors& in) {
    return Tensors{pooled(in[0], pooling_case(kernel, options), false)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return Tensors{backward(g[0], in[0].shape(), kernel, options)};
  };
  return sample;
}

std::vector<Sample> max_pool1d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 8000;
  const auto add = [&](std::string label, const Shape& x, std::int64_t kernel,
                       const MaxPool1dOptions& options) {
    list.push_back(
        max_sample(std::move(label), x, kernel, options, ++seed, max_pool1d, max_pool1d_backward));
  };
  add("kernel 2", {2, 3, 8}, 2, {});
  add("kernel 3, stride 2, padding 1", {1, 2, 9}, 3, {.stride = 2, .padding = 1});
  add("kernel 2, dilation 3, stride 1", {1, 2, 8}, 2, {.stride = 1, .dilation = 3});
  add("kernel 3, stride 2, ceil mode", {1, 2, 10}, 3, {.stride = 2, .ceil_mode = true});
  add("length 37", {1, 1, 37}, 2, {});
  add("empty batch", {0, 2, 4}, 2, {});
  return list;
}
std::vector<Sample> avg_pool1d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 8100;
  const auto add = [&](std::string label, const Shape& x, std::int64_t kernel,
                       const AvgPool1dOptions& options) {
    list.push_back(
        avg_sample(std::move(label), x, kernel, options, ++seed, avg_pool1d, avg_pool1d_backward));
  };
  add("kernel 2", {2, 3, 8}, 2, {});
  add("kernel 3, stride 2, padding 1", {1, 2, 9}, 3, {.stride = 2, .padding = 1});
  add("kernel 3, padding 1, ceil mode, inside only", {1, 2, 10}, 3,
      {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  add("empty batch", {0, 2, 4}, 2, {});
  return list;
}
std::vector<Sample> max_pool3d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 8200;
  const auto add = [&](std::string label, const Shape& x, const Size3d& kernel,
                       const MaxPool3dOptions& options) {
    list.push_back(
        max_sample(std::move(label), x, kernel, options, ++seed, max_pool3d, max_pool3d_backward));
  };
  add("2x2x2", {1, 2, 4, 4, 4}, 2, {});
  add("3x3x3, stride 2, padding 1", {1, 2, 4, 5, 3}, 3, {.stride = 2, .padding = 1});
  add("2x1x3, stride (1, 2, 2)", {1, 2, 3, 4, 5}, {2, 1, 3}, {.stride = Size3d{1, 2, 2}});
  add("2x2x2, dilation (2, 1, 2), stride 1", {1, 1, 4, 3, 4}, 2,
      {.stride = 1, .dilation = {2, 1, 2}});
  add("2x2x2, ceil mode", {1, 1, 3, 3, 5}, 2, {.ceil_mode = true});
  add("empty batch", {0, 2, 2, 2, 2}, 2, {});
  return list;
}
std::vector<Sample> avg_pool3d_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 8300;
  const auto add = [&](std::string label, const Shape& x, const Size3d& kernel,
                       const AvgPool3dOptions& options) {
    list.push_back(
        avg_sample(std::move(label), x, kernel, options, ++seed, avg_pool3d, avg_pool3d_backward));
  };
  add("2x2x2", {1, 2, 4, 4, 4}, 2, {});
  add("3x3x3, stride 2, padding 1", {1, 2, 4, 5, 3}, 3, {.stride = 2, .padding = 1});
  add("3x2x3, padding (1, 0, 1), ceil mode, inside only", {1, 2, 4, 3, 4}, {3, 2, 3},
      {.stride = 2, .padding = {1, 0, 1}, .ceil_mode = true, .count_include_pad = false});
  add("3x3x3, stride 2, padding 1, ceil mode", {1, 1, 4, 4, 6}, 3,
      {.stride = 2, .padding = 1, .ceil_mode = true});
  add("empty batch", {0, 2, 2, 2, 2}, 2, {});
  return list;
}

}  // namespace

void add_volumes(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* family, const char* formula,
                       const char* gradient, std::vector<Sample> (*samples)()) {
    ops.push_back({name,
                   family,
                   formula,
                   gradient,
                   {std::string(name) + "_backward"},
                   DTypes::floats,
                   samples});
  };
  add("conv3d", "convolution",
      "y[n, o, i, j, k] = bias[o] + Σ x[n, c, i·stride + r·dilation − padding, …] · w[o, c, r, s, "
      "t]",
      "as conv2d's, with a depth", conv3d_samples);
  add("conv_transpose1d", "convolution",
      "y[n, o, i·stride + r·dilation − padding] = bias[o] + Σ x[n, c, i] · w[c, o, r]",
      "as conv_transpose2d's, with a height of 1", conv_transpose1d_samples);
  add("conv_transpose3d", "convolution",
      "y[n, o, i·stride + r·dilation − padding, …] = bias[o] + Σ x[n, c, i, j, k] · w[c, o, r, s, "
      "t]",
      "of x: conv3d(grad, w); of w: Σ grad · x; of bias: Σ grad", conv_transpose3d_samples);
  add("max_pool1d", "pooling", "the largest element of each window of [N, C, L]",
      "to the first largest element of each window", max_pool1d_samples);
  add("avg_pool1d", "pooling", "the mean of each window of [N, C, L]",
      "grad / count to every element of the window", avg_pool1d_samples);
  add("max_pool3d", "pooling", "the largest element of each window of [N, C, D, H, W]",
      "to the first largest element of each window", max_pool3d_samples);
  add("avg_pool3d", "pooling", "the mean of each window of [N, C, D, H, W]",
      "grad / count to every element of the window", avg_pool3d_samples);
}

}  // namespace extensor::op_database
