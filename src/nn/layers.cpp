#include "extensor/nn/layers.h"

#include <cmath>

#include "core/check.h"
#include "extensor/autocast.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/dropout.h"
#include "extensor/elementwise.h"
#include "extensor/embedding.h"
#include "extensor/initializers.h"
#include "extensor/linear.h"
#include "extensor/nn/activations.h"
#include "extensor/nn/containers.h"
#include "extensor/normalization.h"
#include "nn/layer_checks.h"

namespace extensor::nn {

using extensor::detail::message;

namespace {

// Formats as "5", or "5×3" if the sides differ.
std::string sizes(const Size2d& size) {
  if (size == Size2d(same_padding)) return "same";
  return size.height == size.width ? message(size.height) : message(size.height, "×", size.width);
}

// Formats as ", stride 2", or as nothing for the default.
std::string option(const char* name, const Size2d& value, const Size2d& usual) {
  return value == usual ? "" : message(", ", name, " ", sizes(value));
}

std::string option(const char* name, std::int64_t value, std::int64_t usual) {
  if (value == usual) return "";
  return value == same_padding ? message(", ", name, " same") : message(", ", name, " ", value);
}

template <class Options>
std::string pooling_text(const Size2d& kernel, const Options& options) {
  return sizes(kernel) + option("stride", options.stride.value_or(kernel), kernel) +
         option("padding", options.padding, 0);
}

void check_kernel(const char* layer, const Size2d& kernel) {
  if (kernel.height >= 1 && kernel.width >= 1) return;
  throw ValueError(
      message(layer, ": kernel is ", kernel.height, " × ", kernel.width, ", must be 1 or more"));
}

}  // namespace

namespace detail {

void check_positive(const char* layer, const char* argument, std::int64_t value) {
  if (value >= 1) return;
  throw ValueError(message(layer, ": ", argument, " is ", value, ", must be 1 or more"));
}

void check_groups(const char* layer, std::int64_t in, std::int64_t out, std::int64_t groups) {
  check_positive(layer, "in_channels", in);
  check_positive(layer, "out_channels", out);
  check_positive(layer, "groups", groups);
  if (in % groups != 0 || out % groups != 0) {
    throw ValueError(message(layer, ": groups is ", groups, ", must divide in_channels ", in,
                             " and out_channels ", out));
  }
}

void check_mixed_dtypes(const char* layer, const char* argument, DType input, DType parameters) {
  if (!is_floating_point(input)) return;  // integers do not affect the dtype of the result
  if (autocast_dtype() && input != DType::float64 && parameters != DType::float64) return;
  throw DTypeError(message(layer, ": ", argument, " is ", input, ", the layer's parameters are ",
                           parameters, " (convert the input with x.to(ext::", parameters,
                           "), or the layer with layer.to(ext::", input, "))"));
}

double default_bound(const Shape& weight) {
  std::int64_t fan_in = 1;
  for (std::size_t d = 1; d < weight.size(); ++d) fan_in *= weight[d];
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, fan_in)));
}

Parameter uniform_parameter(const Shape& shape, double bound, DType dtype) {
  return Parameter(uniform(shape, -bound, bound, dtype));
}

}  // namespace detail

// ---- linear

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) {
  detail::check_positive("Linear", "in_features", in_features);
  detail::check_positive("Linear", "out_features", out_features);
  const Shape shape{out_features, in_features};
  const double bound = detail::default_bound(shape);
  weight = detail::uniform_parameter(shape, bound, options.dtype);
  if (options.bias) bias = detail::uniform_parameter({out_features}, bound, options.dtype);
}

Tensor Linear::forward(const Tensor& x, Activation activation) const {
  detail::check_dtype("Linear", "x", x, weight);
  return linear(x, weight, bias, activation);
}

std::string Linear::describe() const {
  return message(weight.shape()[1], " → ", weight.shape()[0], bias.defined() ? "" : ", no bias");
}

// ---- convolution

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
               const Conv1dOptions& options)
    : options_(detail::layer_options(options)) {
  detail::check_groups("Conv1d", in_channels, out_channels, options.groups);
  detail::check_positive("Conv1d", "kernel", kernel);
  const Shape shape{out_channels, in_channels / options.groups, kernel};
  weight = detail::uniform_parameter(shape, detail::default_bound(shape),
                                     options.dtype.value_or(default_float));
  if (options.bias) {
    bias = detail::uniform_parameter({out_channels}, detail::default_bound(shape),
                                     options.dtype.value_or(default_float));
  }
}

Tensor Conv1d::forward(const Tensor& x) const {
  detail::check_dtype("Conv1d", "x", x, weight);
  return conv1d(x, weight, bias, options_);
}

std::string Conv1d::describe() const {
  return message(weight.shape()[1] * options_.groups, " → ", weight.shape()[0], ", kernel ",
                 weight.shape()[2], option("stride", options_.stride, 1),
                 option("padding", options_.padding, 0), option("dilation", options_.dilation, 1),
                 option("groups", options_.groups, 1), bias.defined() ? "" : ", no bias");
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Size2d& kernel,
               const Conv2dOptions& options)
    : options_(detail::layer_options(options)) {
  detail::check_groups("Conv2d", in_channels, out_channels, options.groups);
  check_kernel("Conv2d", kernel);
  const Shape shape{out_channels, in_channels / options.groups, kernel.height, kernel.width};
  weight = detail::uniform_parameter(shape, detail::default_bound(shape),
                                     options.dtype.value_or(default_float));
  if (options.bias) {
    bias = detail::uniform_parameter({out_channels}, detail::default_bound(shape),
                                     options.dtype.value_or(default_float));
  }
}

Tensor Conv2d::forward(const Tensor& x) const {
  detail::check_dtype("Conv2d", "x", x, weight);
  return conv2d(x, weight, bias, options_);
}

std::string Conv2d::describe() const {
  const Shape& shape = weight.shape();
  return message(shape[1] * options_.groups, " → ", shape[0], ", kernel ",
                 sizes({shape[2], shape[3]}), option("stride", options_.stride, 1),
                 option("padding", options_.padding, 0), option("dilation", options_.dilation, 1),
                 option("groups", options_.groups, 1), bias.defined() ? "" : ", no bias");
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 const Size2d& kernel, const ConvTranspose2dOptions& options)
    : options_(detail::layer_options(options)) {
  detail::check_groups("ConvTranspose2d", in_channels, out_channels, options.groups);
  check_kernel("ConvTranspose2d", kernel);
  const Shape shape{in_channels, out_channels / options.groups, kernel.height, kernel.width};
  weight = detail::uniform_parameter(shape, detail::default_bound(shape),
                                     options.dtype.value_or(default_float));
  if (options.bias) {
    bias = detail::uniform_parameter({out_channels}, detail::default_bound(shape),
                                     options.dtype.value_or(default_float));
  }
}

Tensor ConvTranspose2d::forward(const Tensor& x) const {
  detail::check_dtype("ConvTranspose2d", "x", x, weight);
  return conv_transpose2d(x, weight, bias, options_);
}

std::string ConvTranspose2d::describe() const {
  const Shape& shape = weight.shape();
  return message(shape[0], " → ", shape[1] * options_.groups, ", kernel ",
                 sizes({shape[2], shape[3]}), option("stride", options_.stride, 1),
                 option("padding", options_.padding, 0), option("dilation", options_.dilation, 1),
                 option("groups", options_.groups, 1), bias.defined() ? "" : ", no bias");
}

// ---- pooling

MaxPool2d::MaxPool2d(const Size2d& kernel, const MaxPool2dOptions& options)
    : kernel_(kernel), options_(options) {
  check_kernel("MaxPool2d", kernel);
}
std::string MaxPool2d::describe() const { return pooling_text(kernel_, options_); }

AvgPool2d::AvgPool2d(const Size2d& kernel, const AvgPool2dOptions& options)
    : kernel_(kernel), options_(options) {
  check_kernel("AvgPool2d", kernel);
}
std::string AvgPool2d::describe() const { return pooling_text(kernel_, options_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(const Size2d& output) : output_(output) {
  check_kernel("AdaptiveAvgPool2d", output);
}
std::string AdaptiveAvgPool2d::describe() const { return "to " + sizes(output_); }

Tensor Flatten::forward(const Tensor& x) const {
  const std::int64_t rank = x.ndim();
  if (rank == 0) return x.reshape({1});
  const std::int64_t first = extensor::detail::normalize_axis("Flatten", first_, rank);
  const std::int64_t last = extensor::detail::normalize_axis("Flatten", last_, rank);
  if (last < first) {
    throw ValueError(message("Flatten: axis ", last, " comes before axis ", first));
  }
  Shape shape;
  std::int64_t together = 1;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d < first || d > last) {
      shape.push_back(x.size(d));
      continue;
    }
    together *= x.size(d);
    if (d == last) shape.push_back(together);
  }
  return x.reshape(shape);
}

// ---- normalization

BatchNorm::BatchNorm(const char* name, std::int64_t features, const BatchNormOptions& options)
    : features_(features), options_(options) {
  detail::check_positive(name, "features", features);
  if (options.affine) {
    weight = Parameter(ones({features}, options.dtype));
    bias = Parameter(zeros({features}, options.dtype));
  }
  if (options.track_running_stats) {
    running_mean = Buffer(zeros({features}, options.dtype));
    running_var = Buffer(ones({features}, options.dtype));
    num_batches_tracked = Buffer(zeros({}, int64));
  }
}

bool BatchNorm::begin(const char* name, const Tensor& x, std::int64_t least_rank,
                      std::int64_t most_rank) const {
  if (x.ndim() < least_rank || x.ndim() > most_rank || x.size(1) != features_) {
    throw ShapeError(message(name, ": x is ", x.shape(), ", must have ", least_rank,
                             least_rank == most_rank ? "" : message(" or ", most_rank),
                             " dimensions, the second of them ", features_));
  }
  detail::check_dtype(name, "x", x, weight.defined() ? weight.tensor() : running_mean.tensor());
  if (training && num_batches_tracked.defined()) {
    const NoGrad off;
    Tensor count = num_batches_tracked.tensor();
    count += 1;
  }
  return training || !running_mean.defined();
}

Tensor BatchNorm::normalize(const char* name, const Tensor& x, std::int64_t least_rank,
                            std::int64_t most_rank) const {
  const bool batch_statistics = begin(name, x, least_rank, most_rank);
  return batch_norm(x, running_mean.tensor(), running_var.tensor(), weight, bias, batch_statistics,
                    options_.momentum, options_.eps);
}

Tensor BatchNorm::normalize_add_relu(const char* name, const Tensor& x, const Tensor& residual,
                                     std::int64_t least_rank, std::int64_t most_rank) const {
  const bool batch_statistics = begin(name, x, least_rank, most_rank);
  return batch_norm_add_relu(x, residual, running_mean.tensor(), running_var.tensor(), weight, bias,
                             batch_statistics, options_.momentum, options_.eps);
}

void BatchNorm::visit_members(Walker& walk) {
  walk("weight", weight)("bias", bias)("running_mean", running_mean)("running_var", running_var)(
      "num_batches_tracked", num_batches_tracked)("training", training);
}

std::string BatchNorm::describe_members() const { return message(features_); }

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  if (!options.affine) return;
  weight = Parameter(ones(normalized_shape, options.dtype));
  if (options.bias) bias = Parameter(zeros(normalized_shape, options.dtype));
}
Tensor LayerNorm::forward(const Tensor& x) const {
  detail::check_dtype("LayerNorm", "x", x, weight);
  return layer_norm(x, shape_, weight, bias, eps_);
}
AddNormResult LayerNorm::forward_add(const Tensor& x, const Tensor& residual) const {
  detail::check_dtype("LayerNorm", "x", x, weight);
  detail::check_dtype("LayerNorm", "residual", residual, weight);
  return add_layer_norm(x, residual, shape_, weight, bias, eps_);
}
std::string LayerNorm::describe() const { return message(shape_); }

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  if (options.affine) weight = Parameter(ones(normalized_shape, options.dtype));
}
Tensor RMSNorm::forward(const Tensor& x) const {
  detail::check_dtype("RMSNorm", "x", x, weight);
  return rms_norm(x, shape_, weight, eps_);
}
AddNormResult RMSNorm::forward_add(const Tensor& x, const Tensor& residual) const {
  detail::check_dtype("RMSNorm", "x", x, weight);
  detail::check_dtype("RMSNorm", "residual", residual, weight);
  return add_rms_norm(x, residual, shape_, weight, eps_);
}
std::string RMSNorm::describe() const { return message(shape_); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options)
    : groups_(groups), channels_(channels), eps_(options.eps) {
  detail::check_positive("GroupNorm", "groups", groups);
  detail::check_positive("GroupNorm", "channels", channels);
  if (channels % groups != 0) {
    throw ValueError(
        message("GroupNorm: groups is ", groups, ", must divide ", channels, " channels"));
  }
  if (!options.affine) return;
  weight = Parameter(ones({channels}, options.dtype));
  bias = Parameter(zeros({channels}, options.dtype));
}
Tensor GroupNorm::forward(const Tensor& x) const {
  detail::check_dtype("GroupNorm", "x", x, weight);
  return group_norm(x, groups_, weight, bias, eps_);
}
std::string GroupNorm::describe() const { return message(groups_, " groups of ", channels_); }

InstanceNorm::InstanceNorm(std::int64_t features, const InstanceNormOptions& options)
    : features_(features), eps_(options.eps) {
  detail::check_positive("InstanceNorm", "features", features);
  if (!options.affine) return;
  weight = Parameter(ones({features}, options.dtype));
  bias = Parameter(zeros({features}, options.dtype));
}
Tensor InstanceNorm::forward(const Tensor& x) const {
  detail::check_dtype("InstanceNorm", "x", x, weight);
  return instance_norm(x, weight, bias, eps_);
}
std::string InstanceNorm::describe() const { return message(features_); }

// ---- others

Dropout::Dropout(StrictDouble p) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(message("Dropout: p is ", p, ", must be between 0 and 1"));
  }
}
Tensor Dropout::forward(const Tensor& x) const {
  return training ? dropout(x, p_, true).output : x;
}
std::string Dropout::describe() const { return message(p_); }

Dropout2d::Dropout2d(StrictDouble p) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(message("Dropout2d: p is ", p, ", must be between 0 and 1"));
  }
}
Tensor Dropout2d::forward(const Tensor& x) const {
  return training ? dropout2d(x, p_, true).output : x;
}
std::string Dropout2d::describe() const { return message(p_); }

Embedding::Embedding(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options)
    : padding_idx_(options.padding_idx) {
  detail::check_positive("Embedding", "rows", rows);
  detail::check_positive("Embedding", "width", width);
  Tensor values = normal({rows, width}, 0, 1, options.dtype);
  if (padding_idx_) {
    const std::int64_t at = *padding_idx_ < 0 ? *padding_idx_ + rows : *padding_idx_;
    if (at < 0 || at >= rows) {
      throw ValueError(message("Embedding: padding_idx is ", *padding_idx_, " of ", rows, " rows"));
    }
    padding_idx_ = at;
    values[at].fill(0);
  }
  weight = Parameter(values);
}
Tensor Embedding::forward(const Tensor& ids) const { return embedding(weight, ids, padding_idx_); }
std::string Embedding::describe() const {
  return message(weight.shape()[0], " × ", weight.shape()[1]);
}

PReLU::PReLU(StrictInt parameters, StrictDouble initial) {
  detail::check_positive("PReLU", "parameters", parameters);
  weight = Parameter(full({parameters}, initial, default_float));
}
Tensor PReLU::forward(const Tensor& x) const {
  detail::check_dtype("PReLU", "x", x, weight);
  const std::int64_t count = weight.shape()[0];
  if (count == 1) return prelu(x, weight);
  if (x.ndim() < 2 || x.size(1) != count) {
    throw ShapeError(message("PReLU: x is ", x.shape(), ", its second dimension must be the ",
                             count, " slopes"));
  }
  Shape shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[1] = count;
  return prelu(x, weight.tensor().reshape(shape));
}

// ---- containers

AnyLayer& Sequential::operator[](std::size_t position) {
  if (position >= layers_.size()) {
    throw IndexError(message("Sequential: layer ", position, " of ", layers_.size()));
  }
  return layers_[position];
}

Tensor& ParameterDict::operator[](const std::string& name) {
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) {
    throw ValueError(message("ParameterDict: there is no '", name, "'"));
  }
  return found->second.tensor();
}

}  // namespace extensor::nn
