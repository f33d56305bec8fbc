// Norms of rows by their own statistics: layer, root mean square, group and instance norm.
#include "extensor/normalization.h"

#include <limits>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/normalization_support.h"

namespace extensor {

namespace {

using backend::RowNormalizationCall;
using detail::message;
using namespace ops::normalization;
using ops::check_float;
using ops::compute_dtype;

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

// What a norm of rows and its derivatives are called.
struct RowNames {
  const char *forward, *backward, *double_backward;
};
constexpr RowNames layer_norm_names{"layer_norm", "layer_norm_backward",
                                    "layer_norm_double_backward"};
constexpr RowNames rms_norm_names{"rms_norm", "rms_norm_backward", "rms_norm_double_backward"};
constexpr RowNames group_norm_names{"group_norm", "group_norm_backward",
                                    "group_norm_double_backward"};
constexpr RowNames instance_norm_names{"instance_norm", "instance_norm_backward",
                                       "instance_norm_double_backward"};

NormGradients row_backward(const RowNames& names, RowPlan plan, const Tensor& grad_output,
                           const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                           bool of_parameters = true);
NormDoubleGradients row_double_backward(const RowNames& names, const RowPlan& plan,
                                        const NormGradients& given, const Tensor& grad_output,
                                        const Tensor& x, const Tensor& weight, double eps);

Tensor row_forward(const RowNames& names, RowPlan plan, const Tensor& x, const Tensor& weight,
                   const Tensor& bias, double eps) {
  if (detail::records(x, weight, bias)) {
    return recorded_norm(names.forward, detail::unrecorded([&] {
                           return row_forward(names, plan, x, weight, bias, eps);
                         }),
                         x, weight, bias,
                         [&names, plan, eps](const Tensor& g, const Tensor& x, const Tensor& weight,
                                             const Tensor& bias, bool of_parameters) {
                           return row_backward(names, plan, g, x, weight, bias, eps, of_parameters);
                         });
  }
  const char* operation = names.forward;
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

NormGradients row_backward(const RowNames& names, RowPlan plan, const Tensor& grad_output,
                           const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                           bool of_parameters) {
  if (detail::records(grad_output, x, weight)) {
    return recorded_norm_backward(
        names.backward,
        [&] { return row_backward(names, plan, grad_output, x, weight, bias, eps, of_parameters); },
        [&names, plan, eps](const NormGradients& given, const Tensor& g, const Tensor& x,
                            const Tensor& weight) {
          return row_double_backward(names, plan, given, g, x, weight, eps);
        },
        grad_output, x, weight);
  }
  const char* operation = names.backward;
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
  if (!of_parameters || (!weight.defined() && !bias.defined())) {
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

NormDoubleGradients row_double_backward(const RowNames& names, const RowPlan& plan,
                                        const NormGradients& given, const Tensor& grad_output,
                                        const Tensor& x, const Tensor& weight, double eps) {
  const char* operation = names.double_backward;
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
                  const Tensor& bias, StrictDouble eps) {
  const RowPlan plan = plan_trailing("layer_norm", x, normalized_shape);
  return row_forward(layer_norm_names, plan, x, weight, bias, eps);
}

NormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Shape& normalized_shape, const Tensor& weight,
                                  const Tensor& bias, StrictDouble eps) {
  const RowPlan plan = plan_trailing("layer_norm_backward", x, normalized_shape);
  return row_backward(layer_norm_names, plan, grad_output, x, weight, bias, eps);
}

NormDoubleGradients layer_norm_double_backward(const NormGradients& grad_gradients,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Shape& normalized_shape, const Tensor& weight,
                                               StrictDouble eps) {
  const RowPlan plan = plan_trailing("layer_norm_double_backward", x, normalized_shape);
  return row_double_backward(layer_norm_names, plan, grad_gradients, grad_output, x, weight, eps);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<StrictDouble> eps) {
  const RowPlan plan = plan_rms("rms_norm", x, normalized_shape);
  return row_forward(rms_norm_names, plan, x, weight, {}, rms_eps(x, eps));
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad_output, const Tensor& x,
                                            const Shape& normalized_shape, const Tensor& weight,
                                            std::optional<StrictDouble> eps) {
  const RowPlan plan = plan_rms("rms_norm_backward", x, normalized_shape);
  NormGradients gradients =
      row_backward(rms_norm_names, plan, grad_output, x, weight, {}, rms_eps(x, eps));
  return {std::move(gradients.x), std::move(gradients.weight)};
}

NormDoubleGradients rms_norm_double_backward(const Tensor& grad_grad_x,
                                             const Tensor& grad_grad_weight,
                                             const Tensor& grad_output, const Tensor& x,
                                             const Shape& normalized_shape, const Tensor& weight,
                                             std::optional<StrictDouble> eps) {
  const RowPlan plan = plan_rms("rms_norm_double_backward", x, normalized_shape);
  return row_double_backward(rms_norm_names, plan, {grad_grad_x, grad_grad_weight, {}}, grad_output,
                             x, weight, rms_eps(x, eps));
}

Tensor group_norm(const Tensor& x, StrictInt groups, const Tensor& weight, const Tensor& bias,
                  StrictDouble eps) {
  return row_forward(group_norm_names, plan_groups("group_norm", x, groups), x, weight, bias, eps);
}

NormGradients group_norm_backward(const Tensor& grad_output, const Tensor& x, StrictInt groups,
                                  const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  const RowPlan plan = plan_groups("group_norm_backward", x, groups);
  return row_backward(group_norm_names, plan, grad_output, x, weight, bias, eps);
}

NormDoubleGradients group_norm_double_backward(const NormGradients& grad_gradients,
                                               const Tensor& grad_output, const Tensor& x,
                                               StrictInt groups, const Tensor& weight,
                                               StrictDouble eps) {
  const RowPlan plan = plan_groups("group_norm_double_backward", x, groups);
  return row_double_backward(group_norm_names, plan, grad_gradients, grad_output, x, weight, eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  return row_forward(instance_norm_names, plan_instances("instance_norm", x), x, weight, bias, eps);
}

NormGradients instance_norm_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  const RowPlan plan = plan_instances("instance_norm_backward", x);
  return row_backward(instance_norm_names, plan, grad_output, x, weight, bias, eps);
}

NormDoubleGradients instance_norm_double_backward(const NormGradients& grad_gradients,
                                                  const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& weight, StrictDouble eps) {
  const RowPlan plan = plan_instances("instance_norm_double_backward", x);
  return row_double_backward(instance_norm_names, plan, grad_gradients, grad_output, x, weight,
                             eps);
}

}  // namespace extensor
