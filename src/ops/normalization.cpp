#include "extensor/normalization.h"

#include <cmath>
#include <limits>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/normalization_support.h"
#include "ops/overlap.h"

namespace extensor {

namespace {

using backend::BatchNormalizationCall;
using backend::RowNormalizationCall;
using detail::message;
using namespace ops::normalization;
using ops::check_float;
using ops::compute_dtype;

// Below this many elements of a channel side by side, parameters element by element are quicker.
constexpr std::int64_t short_run = 16;

const std::byte* data_of(const Tensor& x) { return x.defined() ? x.impl().data : nullptr; }

Tensor floats(const Tensor& x) { return is_floating_point(x.dtype()) ? x : x.to(default_float); }

// ---- rows
// ------------------------------------------------------------------------------------------

// How x falls into rows of channels; see RowNormalizationCall.
struct RowPlan {
  std::int64_t rows, groups, channels, run;
  Shape parameter_shape;
  bool centred = true;
};

RowPlan plan_trailing(const char* operation, const Tensor& x, const Shape& normalized_shape) {
  const auto rank = static_cast<std::int64_t>(normalized_shape.size());
  bool fits = rank <= x.ndim();
  for (std::int64_t d = 1; fits && d <= rank; ++d) {
    fits = normalized_shape[static_cast<std::size_t>(rank - d)] == x.size(-d);
  }
  if (!fits) {
    throw ShapeError(message(operation, ": normalized_shape is ", normalized_shape,
                             ", must be the last sizes of x, which is ", x.shape()));
  }
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d < x.ndim() - rank; ++d) rows *= x.size(d);
  return {rows, 1, elements_behind(x, x.ndim() - rank), 1, normalized_shape};
}

RowPlan plan_groups(const char* operation, const Tensor& x, std::int64_t groups) {
  check_channels(operation, x);
  const std::int64_t channels = x.size(1);
  if (groups < 1 || channels % groups != 0) {
    throw ValueError(message(operation, ": groups is ", groups, ", must divide the ", channels,
                             " channels of x ", x.shape()));
  }
  return {x.size(0) * groups, groups, channels / groups, elements_behind(x, 2), {channels}};
}

RowPlan plan_instances(const char* operation, const Tensor& x) {
  check_channels(operation, x);
  const std::int64_t channels = x.size(1), run = elements_behind(x, 2);
  if (run == 1) {
    throw ValueError(message(operation, ": x is ", x.shape(),
                             ", has one value per channel, which has no variance"));
  }
  return {x.size(0) * channels, channels, 1, run, {channels}};
}

// Parameters as the kernels read them.
class RowParameters {
 public:
  RowParameters(RowPlan& plan, DType compute) : compute_(compute) {
    if (plan.run <= 1 || plan.run >= short_run) return;
    spread_ = plan.run;
    plan.channels *= plan.run;
    plan.run = 1;
  }
  Tensor prepared(const Tensor& given) const {
    if (!given.defined()) return given;
    const Tensor wide = given.to(compute_);
    if (spread_ == 1) return wide.contiguous();
    return wide.unsqueeze(1).broadcast_to({given.numel(), spread_}).contiguous();
  }
  Tensor empty_gradient(const char* operation, const RowPlan& plan, Device device) const {
    return detail::make_empty(operation, {plan.groups * plan.channels}, compute_, device);
  }
  // The gradient of `given` from that of prepared(given).
  Tensor gradient(const Tensor& prepared, const Tensor& given) const {
    if (!given.defined()) return {};
    const Tensor gathered =
        spread_ == 1 ? prepared : sum(prepared.reshape({given.numel(), spread_}), 1);
    return gathered.reshape(given.shape()).to(given.dtype());
  }

 private:
  DType compute_;
  std::int64_t spread_ = 1;
};

RowNormalizationCall row_call(const RowPlan& plan, const Tensor& x, double eps) {
  RowNormalizationCall call{};
  call.dtype = x.dtype();
  call.centred = plan.centred;
  call.rows = plan.rows;
  call.groups = plan.groups;
  call.channels = plan.channels;
  call.run = plan.run;
  call.eps = eps;
  call.x = data_of(x);
  return call;
}

Tensor row_forward(const char* operation, RowPlan plan, const Tensor& x, const Tensor& weight,
                   const Tensor& bias, double eps) {
  check_eps(operation, eps);
  check_parameter(operation, "weight", weight, plan.parameter_shape, x);
  check_parameter(operation, "bias", bias, plan.parameter_shape, x);
  const Tensor dense = floats(x).contiguous();
  const RowParameters parameters(plan, compute_dtype(dense.dtype()));
  const Tensor prepared_weight = parameters.prepared(weight),
               prepared_bias = parameters.prepared(bias);
  Tensor result = detail::make_empty(operation, x.shape(), dense.dtype(), x.device());
  RowNormalizationCall call = row_call(plan, dense, eps);
  call.weight = data_of(prepared_weight);
  call.bias = data_of(prepared_bias);
  call.out = result.impl().data;
  backend::backend_for(x.device()).normalize_rows(call);
  return result;
}

NormGradients row_backward(const char* operation, RowPlan plan, const Tensor& grad_output,
                           const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_float(operation, "x", x);
  ops::check_grad_output(operation, grad_output, x.shape());
  check_eps(operation, eps);
  check_parameter(operation, "weight", weight, plan.parameter_shape, x);
  check_parameter(operation, "bias", bias, plan.parameter_shape, x);
  const ops::Source operands[] = {grad_output, x};
  ops::common_device(operation, operands);
  const DType wide = promote_types(grad_output.dtype(), x.dtype());
  const Tensor g = grad_output.to(wide).contiguous(), dense = x.to(wide).contiguous();
  const RowParameters parameters(plan, compute_dtype(wide));
  const Tensor prepared_weight = parameters.prepared(weight);
  Tensor result = detail::make_empty(operation, x.shape(), wide, x.device());
  RowNormalizationCall call = row_call(plan, dense, eps);
  call.weight = data_of(prepared_weight);
  call.grad_output = data_of(g);
  call.out = result.impl().data;
  NormGradients gradients;
  if (!weight.defined() && !bias.defined()) {
    backend::backend_for(x.device()).normalize_rows(call);
  } else {
    Tensor grad_weight = parameters.empty_gradient(operation, plan, x.device());
    Tensor grad_bias = parameters.empty_gradient(operation, plan, x.device());
    call.grad_weight = grad_weight.impl().data;
    call.grad_bias = grad_bias.impl().data;
    backend::backend_for(x.device()).normalize_rows(call);
    gradients.weight = parameters.gradient(grad_weight, weight);
    gradients.bias = parameters.gradient(grad_bias, bias);
  }
  gradients.x = result.to(x.dtype());
  return gradients;
}

double rms_eps(const Tensor& x, std::optional<double> eps) {
  if (eps) return *eps;
  switch (x.dtype()) {
    case DType::float64:
      return std::numeric_limits<double>::epsilon();
    case DType::float16:
      return 0x1p-10;
    case DType::bfloat16:
      return 0x1p-7;
    default:
      return static_cast<double>(std::numeric_limits<float>::epsilon());
  }
}

RowPlan plan_rms(const char* operation, const Tensor& x, const Shape& normalized_shape) {
  RowPlan plan = plan_trailing(operation, x, normalized_shape);
  plan.centred = false;
  return plan;
}

NormDoubleGradients row_double_backward(const char* operation, const RowPlan& plan,
                                        const NormGradients& given, const Tensor& grad_output,
                                        const Tensor& x, const Tensor& weight, double eps) {
  check_eps(operation, eps);
  check_parameter(operation, "weight", weight, plan.parameter_shape, x);
  check_double_backward(operation, given, grad_output, x, plan.parameter_shape);
  const std::int64_t samples = plan.groups == 0 ? 0 : plan.rows / plan.groups;
  return double_backward({{samples, plan.groups, plan.channels, plan.run},
                          {2, 3},
                          {1, plan.groups, plan.channels, 1},
                          plan.centred},
                         given, grad_output, x, weight, eps);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const RowPlan plan = plan_trailing("layer_norm", x, normalized_shape);
  return row_forward("layer_norm", plan, x, weight, bias, eps);
}

NormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Shape& normalized_shape, const Tensor& weight,
                                  const Tensor& bias, double eps) {
  const RowPlan plan = plan_trailing("layer_norm_backward", x, normalized_shape);
  return row_backward("layer_norm_backward", plan, grad_output, x, weight, bias, eps);
}

NormDoubleGradients layer_norm_double_backward(const NormGradients& grad_gradients,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Shape& normalized_shape, const Tensor& weight,
                                               double eps) {
  const RowPlan plan = plan_trailing("layer_norm_double_backward", x, normalized_shape);
  return row_double_backward("layer_norm_double_backward", plan, grad_gradients, grad_output, x,
                             weight, eps);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  const RowPlan plan = plan_rms("rms_norm", x, normalized_shape);
  return row_forward("rms_norm", plan, x, weight, {}, rms_eps(x, eps));
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad_output, const Tensor& x,
                                            const Shape& normalized_shape, const Tensor& weight,
                                            std::optional<double> eps) {
  const RowPlan plan = plan_rms("rms_norm_backward", x, normalized_shape);
  NormGradients gradients =
      row_backward("rms_norm_backward", plan, grad_output, x, weight, {}, rms_eps(x, eps));
  return {std::move(gradients.x), std::move(gradients.weight)};
}

NormDoubleGradients rms_norm_double_backward(const Tensor& grad_grad_x,
                                             const Tensor& grad_grad_weight,
                                             const Tensor& grad_output, const Tensor& x,
                                             const Shape& normalized_shape, const Tensor& weight,
                                             std::optional<double> eps) {
  const RowPlan plan = plan_rms("rms_norm_double_backward", x, normalized_shape);
  return row_double_backward("rms_norm_double_backward", plan, {grad_grad_x, grad_grad_weight, {}},
                             grad_output, x, weight, rms_eps(x, eps));
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return row_forward("group_norm", plan_groups("group_norm", x, groups), x, weight, bias, eps);
}

NormGradients group_norm_backward(const Tensor& grad_output, const Tensor& x, std::int64_t groups,
                                  const Tensor& weight, const Tensor& bias, double eps) {
  const RowPlan plan = plan_groups("group_norm_backward", x, groups);
  return row_backward("group_norm_backward", plan, grad_output, x, weight, bias, eps);
}

NormDoubleGradients group_norm_double_backward(const NormGradients& grad_gradients,
                                               const Tensor& grad_output, const Tensor& x,
                                               std::int64_t groups, const Tensor& weight,
                                               double eps) {
  const RowPlan plan = plan_groups("group_norm_double_backward", x, groups);
  return row_double_backward("group_norm_double_backward", plan, grad_gradients, grad_output, x,
                             weight, eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return row_forward("instance_norm", plan_instances("instance_norm", x), x, weight, bias, eps);
}

NormGradients instance_norm_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Tensor& bias, double eps) {
  const RowPlan plan = plan_instances("instance_norm_backward", x);
  return row_backward("instance_norm_backward", plan, grad_output, x, weight, bias, eps);
}

NormDoubleGradients instance_norm_double_backward(const NormGradients& grad_gradients,
                                                  const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& weight, double eps) {
  const RowPlan plan = plan_instances("instance_norm_double_backward", x);
  return row_double_backward("instance_norm_double_backward", plan, grad_gradients, grad_output, x,
                             weight, eps);
}

// ---- batches
// ---------------------------------------------------------------------------------------

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

}  // namespace

Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
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
  return layout.restored(result);
}

NormGradients batch_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Tensor& running_mean, const Tensor& running_var,
                                  const Tensor& weight, const Tensor& bias, bool training,
                                  double eps) {
  constexpr const char* operation = "batch_norm_backward";
  check_float(operation, "x", x);
  const bool batch =
      uses_batch_statistics(operation, x, running_mean, running_var, weight, bias, training, eps);
  ops::check_grad_output(operation, grad_output, x.shape());
  const ops::Source operands[] = {grad_output, x};
  ops::common_device(operation, operands);
  const DType wide = promote_types(grad_output.dtype(), x.dtype());
  const Tensor values = x.to(wide);
  const BatchLayout layout(values);
  const Tensor dense = layout.dense(values), g = layout.dense(grad_output.to(wide));
  const DType compute = compute_dtype(wide);
  const Tensor prepared_weight = as_parameter(weight, compute);
  Tensor mean = statistics(operation, running_mean, batch, x);
  Tensor variance = statistics(operation, running_var, batch, x);
  Tensor grad_weight = detail::make_empty(operation, {x.size(1)}, compute, x.device());
  Tensor grad_bias = detail::make_empty(operation, {x.size(1)}, compute, x.device());
  Tensor result = layout.empty(operation, dense);
  BatchNormalizationCall call = batch_call(layout, dense, mean, variance, batch, eps);
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

// With given statistics x̂ is linear in x: grad_x = g · weight · scale.
NormDoubleGradients batch_norm_double_backward(const NormGradients& grad_gradients,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Tensor& running_mean,
                                               const Tensor& running_var, const Tensor& weight,
                                               bool training, double eps) {
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
