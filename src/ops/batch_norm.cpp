// Batch norm: channels by the statistics of a batch, or by running ones.
#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/elementwise.h"
#include "extensor/normalization.h"
#include "ops/launch.h"
#include "ops/normalization_support.h"
#include "ops/overlap.h"

namespace extensor {

using backend::BatchNormalizationCall;
using detail::message;
using namespace ops::normalization;
using ops::check_float;
using ops::compute_dtype;

namespace {

// Checks everything batch_norm and its backward share, and says whether the batch's own statistics
// are to be used.
bool uses_batch_statistics(const char* operation, const Tensor& x, const Tensor& running_mean,
                           const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                           bool training, double eps) {
  check_channels(operation, x);
  check_eps(operation, eps);
  if (running_mean.defined() != running_var.defined()) {
    throw ValueError(message(operation, ": running_mean and running_var must be given together"));
  }
  const Shape shape{x.size(1)};
  check_parameter(operation, "running_mean", running_mean, shape, x);
  check_parameter(operation, "running_var", running_var, shape, x);
  check_parameter(operation, "weight", weight, shape, x);
  check_parameter(operation, "bias", bias, shape, x);
  const bool batch = training || !running_mean.defined();
  if (batch && x.size(0) * elements_behind(x, 2) == 1) {
    throw ValueError(message(operation, ": x is ", x.shape(),
                             ", has one value per channel, which has no variance to train with"));
  }
  return batch;
}

// x as the kernels want it: [outer, channels, inner] dense. Where the channels' elements lie
// scattered or in short runs, the channels go last and the elements of one become a column.
struct BatchLayout {
  bool channels_last, row_major;
  std::int64_t outer, channels, inner;
  Dims order, inverse;

  explicit BatchLayout(const Tensor& x) {
    order.push_back(0);
    for (std::int64_t d = 2; d < x.ndim(); ++d) order.push_back(d);
    order.push_back(1);
    inverse = Dims(order.size(), 0);
    for (std::size_t d = 0; d < order.size(); ++d) {
      inverse[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
    }
    outer = x.size(0);
    channels = x.size(1);
    inner = elements_behind(x, 2);
    row_major = x.is_contiguous();
    channels_last = inner < short_run || (!row_major && x.transpose(order).is_contiguous());
    if (channels_last) {
      outer *= inner;
      inner = inner == 0 ? 0 : 1;
    }
  }
  Tensor dense(const Tensor& x) const {
    return channels_last ? x.transpose(order).contiguous() : x.contiguous();
  }
  // A new tensor like the dense ones, and its way back.
  Tensor empty(const char* operation, const Tensor& dense) const {
    return detail::make_empty(operation, dense.shape(), dense.dtype(), dense.device());
  }
  Tensor restored(const Tensor& result) const {
    if (!channels_last) return result;
    const Tensor view = result.transpose(inverse);
    return row_major ? view.contiguous() : view;
  }
};

BatchNormalizationCall batch_call(const BatchLayout& layout, const Tensor& dense, Tensor& mean,
                                  Tensor& variance, bool training, double eps) {
  BatchNormalizationCall call{};
  call.dtype = dense.dtype();
  call.outer = layout.outer;
  call.channels = layout.channels;
  call.inner = layout.inner;
  call.eps = eps;
  call.training = training;
  call.x = data_of(dense);
  call.mean = mean.data<double>();
  call.variance = variance.data<double>();
  return call;
}

// Given ones are read, so they may be the caller's memory.
Tensor statistics(const char* operation, const Tensor& given, bool batch, const Tensor& x) {
  if (!batch) return given.to(DType::float64).contiguous();
  return detail::make_empty(operation, {x.size(1)}, DType::float64, x.device());
}

Tensor as_parameter(const Tensor& given, DType compute) {
  return given.defined() ? given.to(compute).contiguous() : given;
}

struct BatchResult {
  Tensor out;
  Tensor mean, variance;  // what it was normalised by, float64
  bool batch;             // these are the batch's own
};

BatchResult batch_forward(const Tensor& x, Tensor& running_mean, Tensor& running_var,
                          const Tensor& weight, const Tensor& bias, bool training, double momentum,
                          double eps) {
  const bool batch = uses_batch_statistics("batch_norm", x, running_mean, running_var, weight, bias,
                                           training, eps);
  if (!(momentum >= 0 && momentum <= 1)) {
    throw ValueError(message("batch_norm: momentum is ", momentum, ", must be in [0, 1]"));
  }
  const bool updates = training && running_mean.defined() && x.numel() != 0;
  if (updates) {
    ops::check_writable("batch_norm", running_mean);
    ops::check_writable("batch_norm", running_var);
  }
  const Tensor values = floats(x);
  const BatchLayout layout(values);
  const Tensor dense = layout.dense(values);
  const DType compute = compute_dtype(dense.dtype());
  const Tensor prepared_weight = as_parameter(weight, compute);
  const Tensor prepared_bias = as_parameter(bias, compute);
  Tensor mean = statistics("batch_norm", running_mean, batch, x);
  Tensor variance = statistics("batch_norm", running_var, batch, x);
  Tensor result = layout.empty("batch_norm", dense);
  BatchNormalizationCall call = batch_call(layout, dense, mean, variance, batch, eps);
  call.weight = data_of(prepared_weight);
  call.bias = data_of(prepared_bias);
  call.out = result.impl().data;
  backend::backend_for(x.device()).normalize_batch(call);
  if (updates) {
    const std::int64_t count = x.numel() / x.size(1);
    const auto n = static_cast<double>(count);
    const auto moved = [&](const Tensor& running, const Tensor& now, double scale) {
      return running.to(DType::float64) * (1 - momentum) + now * (momentum * scale);
    };
    const Tensor next_mean = moved(running_mean, mean, 1);
    const Tensor next_var = moved(running_var, variance, n / (n - 1));
    running_mean.copy_from(next_mean);
    running_var.copy_from(next_var);
  }
  return {layout.restored(result), mean, variance, batch};
}

// By the batch's own statistics, which are found again where they are undefined, or by given ones.
NormGradients batch_backward(const Tensor& grad_output, const Tensor& x, const Tensor& given_mean,
                             const Tensor& given_variance, bool batch, const Tensor& weight,
                             const Tensor& bias, double eps) {
  constexpr const char* operation = "batch_norm_backward";
  if (detail::records(grad_output, x, weight)) {
    const Tensor known_mean = batch ? Tensor() : given_mean;
    const Tensor known_variance = batch ? Tensor() : given_variance;
    return recorded_norm_backward(
        operation,
        [&] {
          return batch_backward(grad_output, x, given_mean, given_variance, batch, weight, bias,
                                eps);
        },
        [known_mean, known_variance, batch, eps](const NormGradients& given, const Tensor& g,
                                                 const Tensor& x, const Tensor& weight) {
          return batch_norm_double_backward(given, g, x, known_mean, known_variance, weight, batch,
                                            eps);
        },
        grad_output, x, weight);
  }
  ops::check_grad_output(operation, grad_output, x.shape());
  const ops::Source operands[] = {grad_output, x};
  ops::common_device(operation, operands);
  const DType wide = promote_types(grad_output.dtype(), x.dtype());
  const Tensor values = x.to(wide);
  const BatchLayout layout(values);
  const Tensor dense = layout.dense(values), g = layout.dense(grad_output.to(wide));
  const DType compute = compute_dtype(wide);
  const Tensor prepared_weight = as_parameter(weight, compute);
  const bool known = given_mean.defined();
  Tensor mean = statistics(operation, given_mean, !known, x);
  Tensor variance = statistics(operation, given_variance, !known, x);
  Tensor grad_weight = detail::make_empty(operation, {x.size(1)}, compute, x.device());
  Tensor grad_bias = detail::make_empty(operation, {x.size(1)}, compute, x.device());
  Tensor result = layout.empty(operation, dense);
  BatchNormalizationCall call = batch_call(layout, dense, mean, variance, batch, eps);
  call.statistics_given = known;
  call.weight = data_of(prepared_weight);
  call.grad_output = data_of(g);
  call.grad_weight = grad_weight.impl().data;
  call.grad_bias = grad_bias.impl().data;
  call.out = result.impl().data;
  backend::backend_for(x.device()).normalize_batch(call);
  NormGradients gradients;
  gradients.x = layout.restored(result).to(x.dtype());
  if (weight.defined()) gradients.weight = grad_weight.to(weight.dtype());
  if (bias.defined()) gradients.bias = grad_bias.to(bias.dtype());
  return gradients;
}

}  // namespace

Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                  const Tensor& bias, StrictBool training, StrictDouble momentum,
                  StrictDouble eps) {
  const auto forward = [&] {
    return batch_forward(x, running_mean, running_var, weight, bias, training, momentum, eps);
  };
  if (!detail::records(x, weight, bias)) return forward().out;
  BatchResult result = detail::unrecorded([&] {
    BatchResult made = forward();
    // Given ones may be the caller's memory, which may move on before the backward.
    if (!made.batch) made = {made.out, made.mean.clone(), made.variance.clone(), false};
    return made;
  });
  return recorded_norm("batch_norm", std::move(result.out), x, weight, bias,
                       [mean = result.mean, variance = result.variance, batch = result.batch, eps](
                           const Tensor& g, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, bool /*of_parameters*/) {
                         return batch_backward(g, x, mean, variance, batch, weight, bias, eps);
                       });
}

NormGradients batch_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Tensor& running_mean, const Tensor& running_var,
                                  const Tensor& weight, const Tensor& bias, StrictBool training,
                                  StrictDouble eps) {
  constexpr const char* operation = "batch_norm_backward";
  check_float(operation, "x", x);
  const bool batch =
      uses_batch_statistics(operation, x, running_mean, running_var, weight, bias, training, eps);
  return batch_backward(grad_output, x, batch ? Tensor() : running_mean,
                        batch ? Tensor() : running_var, batch, weight, bias, eps);
}

// With given statistics x̂ is linear in x: grad_x = g · weight · scale.
NormDoubleGradients batch_norm_double_backward(const NormGradients& grad_gradients,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Tensor& running_mean,
                                               const Tensor& running_var, const Tensor& weight,
                                               StrictBool training, StrictDouble eps) {
  constexpr const char* operation = "batch_norm_double_backward";
  const bool batch =
      uses_batch_statistics(operation, x, running_mean, running_var, weight, {}, training, eps);
  check_double_backward(operation, grad_gradients, grad_output, x, {x.size(1)});
  const NormView view{{x.size(0), x.size(1), elements_behind(x, 2)}, {0, 2}, {1, x.size(1), 1}};
  if (batch) return double_backward(view, grad_gradients, grad_output, x, weight, eps);
  const NormOperands o(view, grad_gradients, grad_output, x, weight);
  const auto as_channels = [&](const Tensor& statistic) {
    return statistic.to(o.x.dtype()).reshape(view.parameters);
  };
  const Tensor scale = rsqrt(as_channels(running_var) + eps);
  const Tensor standard = (o.x - as_channels(running_mean)) * scale;
  return restored(view, o.of_x * o.w * scale + standard * o.of_weight + o.of_bias,
                  o.g * o.of_weight * scale, o.g * o.of_x * scale, grad_output, x, weight);
}

}  // namespace extensor
