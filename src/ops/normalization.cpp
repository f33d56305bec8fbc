// Layer, RMS, group and instance norm, which normalize rows by their own statistics. The first two
// also normalize a sum.
#include "extensor/normalization.h"

#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/normalization_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::RowNormalizationCall;
using detail::message;
using namespace ops;
using namespace ops::normalization;

struct LayerNorm {
  Shape normalized_shape;
  double eps;
};
struct RmsNorm {
  Shape normalized_shape;
  double eps;
};
struct GroupNorm {
  std::int64_t groups;
  double eps;
};
struct InstanceNorm {
  double eps;
};

// The division of x into rows of channels; see RowNormalizationCall.
struct RowPlan {
  std::int64_t rows, groups, channels, run;
  Shape parameter_shape;
  bool centred = true;
};

RowPlan plan_of(const char* operation, const Tensor& x, const LayerNorm& norm) {
  const Shape& normalized_shape = norm.normalized_shape;
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

RowPlan plan_of(const char* operation, const Tensor& x, const RmsNorm& norm) {
  RowPlan plan = plan_of(operation, x, LayerNorm{norm.normalized_shape, norm.eps});
  plan.centred = false;
  return plan;
}

RowPlan plan_of(const char* operation, const Tensor& x, const GroupNorm& norm) {
  check_channels(operation, x);
  const std::int64_t channels = x.size(1), groups = norm.groups;
  if (groups < 1 || channels % groups != 0) {
    throw ValueError(message(operation, ": groups is ", groups, ", must divide the ", channels,
                             " channels of x ", x.shape()));
  }
  return {x.size(0) * groups, groups, channels / groups, elements_behind(x, 2), {channels}};
}

RowPlan plan_of(const char* operation, const Tensor& x, const InstanceNorm&) {
  check_channels(operation, x);
  const std::int64_t channels = x.size(1), run = elements_behind(x, 2);
  if (run == 1) {
    throw ValueError(message(operation, ": x is ", x.shape(),
                             ", has one value per channel, which has no variance"));
  }
  return {x.size(0) * channels, channels, 1, run, {channels}};
}

// The parameters in the form that kernels read.
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
  // Converts the gradient of prepared(parameter) to the gradient of the parameter.
  Tensor gradient(const Tensor& prepared, const Shape& shape) const {
    const Tensor gathered =
        spread_ == 1 ? prepared : sum(prepared.reshape({prepared.numel() / spread_, spread_}), 1);
    return gathered.reshape(shape);
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

// The norm of x, or of x + residual, which is stored in `sum` if that is not null.
template <class Norm>
Tensor normalized_rows(const Run& run, const Norm& norm, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& residual = {}, Tensor* sum = nullptr) {
  RowPlan plan = plan_of(run.name(), x, norm);
  check_eps(run.name(), norm.eps);
  check_parameter(run.name(), "weight", weight, plan.parameter_shape, x);
  check_parameter(run.name(), "bias", bias, plan.parameter_shape, x);
  const Tensor dense = floats(x).contiguous();
  const RowParameters parameters(plan, compute_dtype(dense.dtype()));
  const Tensor prepared_weight = parameters.prepared(weight),
               prepared_bias = parameters.prepared(bias);
  Tensor result = run.empty(x.shape(), dense.dtype());
  RowNormalizationCall call = row_call(plan, dense, norm.eps);
  call.weight = data_of(prepared_weight);
  call.bias = data_of(prepared_bias);
  call.out = result.impl().data;
  if (sum != nullptr) {
    *sum = run.empty(x.shape(), dense.dtype());
    call.residual = data_of(residual);
    call.sum = sum->impl().data;
  }
  run.kernels().normalize_rows(call);
  return result;
}

template <class Norm>
Tensor row_forward(const Run& run, const Norm& norm, const Tensor& x, const Tensor& weight,
                   const Tensor& bias) {
  return normalized_rows(run, norm, x, weight, bias);
}

// The attributes of a backward op.
template <class Norm>
struct RowBackward {
  Norm norm;
  bool of_weight, of_bias;
};

// grad_sum is an additional gradient of x, or undefined.
template <class Norm>
Results row_gradients(const Run& run, const RowBackward<Norm>& attributes,
                      const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                      const Tensor& grad_sum) {
  RowPlan plan = plan_of(run.name(), x, attributes.norm);
  check_float(run.name(), "x", x);
  check_grad_output(run.name(), grad_output, x.shape());
  check_eps(run.name(), attributes.norm.eps);
  check_parameter(run.name(), "weight", weight, plan.parameter_shape, x);
  DType wide = promote_types(grad_output.dtype(), x.dtype());
  if (grad_sum.defined()) {
    check_gradient(run.name(), "grad_sum", grad_sum, x.shape());
    wide = promote_types(wide, grad_sum.dtype());
  }
  const DType compute = compute_dtype(wide);
  const Tensor g = grad_output.to(wide).contiguous(), dense = x.to(wide).contiguous();
  const Tensor added = grad_sum.defined() ? grad_sum.to(wide).contiguous() : grad_sum;
  const RowParameters parameters(plan, compute);
  const Tensor prepared_weight = parameters.prepared(weight);
  Tensor result = run.empty(x.shape(), wide), grad_weight, grad_bias;
  RowNormalizationCall call = row_call(plan, dense, attributes.norm.eps);
  call.weight = data_of(prepared_weight);
  call.grad_output = data_of(g);
  call.grad_sum = data_of(added);
  call.out = result.impl().data;
  if (attributes.of_weight || attributes.of_bias) {
    grad_weight = run.empty({plan.groups * plan.channels}, compute);
    grad_bias = run.empty({plan.groups * plan.channels}, compute);
    call.grad_weight = grad_weight.impl().data;
    call.grad_bias = grad_bias.impl().data;
  }
  run.kernels().normalize_rows(call);
  const auto gradient = [&](bool wanted, const Tensor& prepared) {
    return wanted ? parameters.gradient(prepared, plan.parameter_shape) : Tensor();
  };
  return {result.to(x.dtype()), gradient(attributes.of_weight, grad_weight),
          gradient(attributes.of_bias, grad_bias)};
}

template <class Norm>
Results row_backward(const Run& run, const RowBackward<Norm>& attributes, const Tensor& grad_output,
                     const Tensor& x, const Tensor& weight) {
  return row_gradients(run, attributes, grad_output, x, weight, {});
}

template <class Norm>
Gradients row_backward_gradient(const GradientCall& call, const RowBackward<Norm>& attributes) {
  const RowPlan plan = plan_of(call.name(), call.input(1), attributes.norm);
  const std::int64_t samples = plan.groups == 0 ? 0 : plan.rows / plan.groups;
  const NormView view{{samples, plan.groups, plan.channels, plan.run},
                      {2, 3},
                      {1, plan.groups, plan.channels, 1},
                      plan.centred};
  return backward_gradient(view, call, {view, call, call.input(0)}, attributes.norm.eps);
}

// x may be an integer tensor if only a parameter has a gradient.
template <class Norm, const auto& backward_op>
Gradients row_gradient(const GradientCall& call, const Norm& norm) {
  const bool has_bias = call.inputs() > 2;
  Results found =
      dispatch(backward_op, {norm, call.needs(1), has_bias && call.needs(2)}, call.grad(),
               floats(call.input(0)), call.needs(0) ? call.input(1) : Tensor());
  if (has_bias) return found;
  return {found[0], found[1]};
}

// ---- the ops

template <class Norm>
consteval auto row_backward_op(const char* name) {
  constexpr Reads all = input(0) | input(1) | input(2);
  return define<row_backward<Norm>, row_backward_gradient<Norm>>(
      {.name = name,
       .inputs = {"grad_output", "x", "weight"},
       .reads = {all, all, all},
       .optional = 1 << 2});
}
template <class Norm, const auto& backward_op>
consteval auto row_op(const char* name) {
  return define<row_forward<Norm>, row_gradient<Norm, backward_op>>(
      {.name = name,
       .inputs = {"x", "weight", "bias"},
       .reads = {input(0) | input(1), input(0), input(0)},
       .optional = 1 << 1 | 1 << 2});
}

constexpr auto layer_norm_backward_op = row_backward_op<LayerNorm>("layer_norm_backward");
constexpr auto layer_norm_op = row_op<LayerNorm, layer_norm_backward_op>("layer_norm");
constexpr auto group_norm_backward_op = row_backward_op<GroupNorm>("group_norm_backward");
constexpr auto group_norm_op = row_op<GroupNorm, group_norm_backward_op>("group_norm");
constexpr auto instance_norm_backward_op = row_backward_op<InstanceNorm>("instance_norm_backward");
constexpr auto instance_norm_op = row_op<InstanceNorm, instance_norm_backward_op>("instance_norm");

Tensor rms_norm_forward(const Run& run, const RmsNorm& norm, const Tensor& x,
                        const Tensor& weight) {
  return row_forward(run, norm, x, weight, {});
}
constexpr auto rms_norm_backward_op = row_backward_op<RmsNorm>("rms_norm_backward");
constexpr auto rms_norm_op = define<rms_norm_forward, row_gradient<RmsNorm, rms_norm_backward_op>>(
    {.name = "rms_norm",
     .inputs = {"x", "weight"},
     .reads = {input(0) | input(1), input(0)},
     .optional = 1 << 1});

// ---- the norm of a sum

template <class Norm>
Results add_row_forward(const Run& run, const Norm& norm, const Tensor& x, const Tensor& residual,
                        const Tensor& weight, const Tensor& bias) {
  check_float(run.name(), "x", x);
  check_float(run.name(), "residual", residual);
  if (!(residual.shape() == x.shape())) {
    throw ShapeError(
        message(run.name(), ": residual is ", residual.shape(), ", must be ", x.shape(), ", as x"));
  }
  const DType wide = promote_types(x.dtype(), residual.dtype());
  Tensor sum;
  const Tensor output =
      normalized_rows(run, norm, x.to(wide), weight, bias, residual.to(wide).contiguous(), &sum);
  return {sum, output};
}
Results add_rms_norm_forward(const Run& run, const RmsNorm& norm, const Tensor& x,
                             const Tensor& residual, const Tensor& weight) {
  return add_row_forward(run, norm, x, residual, weight, {});
}

// The gradient of the norm's backward with one more input, grad_sum, which is a term of its first
// result.
template <class Norm>
Gradients add_row_backward_gradient(const GradientCall& call, const RowBackward<Norm>& attributes) {
  if (!call.needs(0) && !call.needs(1) && !call.needs(2)) return {{}, {}, {}, call.grad(0)};
  const Gradients found = row_backward_gradient(call, attributes);
  return {found[0], found[1], found[2], call.grad(0)};
}

template <class Norm, const auto& backward_op>
Gradients add_row_gradient(const GradientCall& call, const Norm& norm) {
  const bool has_bias = call.inputs() > 3, of_sum = call.needs(0) || call.needs(1);
  Gradients gradients(call.inputs());
  gradients[0] = gradients[1] = call.grad(0);
  if (!call.grad(1).defined()) return gradients;
  const Results found =
      dispatch(backward_op, {norm, call.needs(2), has_bias && call.needs(3)}, call.grad(1),
               call.result(0), of_sum ? call.input(2) : Tensor(), call.grad(0));
  gradients[0] = gradients[1] = found[0];
  gradients[2] = found[1];
  if (has_bias) gradients[3] = found[2];
  return gradients;
}

template <class Norm>
consteval auto add_row_backward_op(const char* name) {
  constexpr Reads all = input(0) | input(1) | input(2);
  return define<row_gradients<Norm>, add_row_backward_gradient<Norm>>(
      {.name = name,
       .inputs = {"grad_output", "sum", "weight", "grad_sum"},
       .reads = {all, all, all, nothing},
       .optional = 1 << 2 | 1 << 3});
}
constexpr Reads sum_read = result(0), sum_and_weight_read = result(0) | input(2);

constexpr auto add_layer_norm_backward_op =
    add_row_backward_op<LayerNorm>("add_layer_norm_backward");
constexpr auto add_layer_norm_op =
    define<add_row_forward<LayerNorm>, add_row_gradient<LayerNorm, add_layer_norm_backward_op>>(
        {.name = "add_layer_norm",
         .inputs = {"x", "residual", "weight", "bias"},
         .reads = {sum_and_weight_read, sum_and_weight_read, sum_read, sum_read},
         .optional = 1 << 2 | 1 << 3});
constexpr auto add_rms_norm_backward_op = add_row_backward_op<RmsNorm>("add_rms_norm_backward");
constexpr auto add_rms_norm_op =
    define<add_rms_norm_forward, add_row_gradient<RmsNorm, add_rms_norm_backward_op>>(
        {.name = "add_rms_norm",
         .inputs = {"x", "residual", "weight"},
         .reads = {sum_and_weight_read, sum_and_weight_read, sum_read},
         .optional = 1 << 2});

// ---- the public functions

double rms_eps(DType dtype, std::optional<double> eps) {
  if (eps) return *eps;
  switch (dtype) {
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

// The public backward of a norm.
template <class Op, class Norm>
NormGradients gradients_of(const Op& op, const Norm& norm, const Tensor& grad_output,
                           const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
  check_parameter(op.name, "bias", bias, plan_of(op.name, x, norm).parameter_shape, x);
  return as_gradients(
      dispatch(op, {norm, weight.defined(), bias.defined()}, grad_output, x, weight), weight, bias);
}
template <class Op, class Norm>
NormGradients sum_gradients_of(const Op& op, const Norm& norm, const Tensor& grad_sum,
                               const Tensor& grad_output, const Tensor& sum, const Tensor& weight,
                               const Tensor& bias = {}) {
  const Shape parameters = plan_of(op.name, sum, norm).parameter_shape;
  check_float(op.name, "sum", sum);
  check_parameter(op.name, "bias", bias, parameters, sum);
  if (grad_output.defined()) {
    return as_gradients(
        dispatch(op, {norm, weight.defined(), bias.defined()}, grad_output, sum, weight, grad_sum),
        weight, bias);
  }
  if (!grad_sum.defined()) {
    throw ValueError(
        message(op.name, ": grad_sum and grad_output are both undefined (allowed: one of them)"));
  }
  check_gradient(op.name, "grad_sum", grad_sum, sum.shape());
  check_parameter(op.name, "weight", weight, parameters, sum);
  check_eps(op.name, norm.eps);
  const auto zeros_of = [](const Tensor& x) { return x.defined() ? zeros_like(x) : x; };
  return {grad_sum.to(sum.dtype()), zeros_of(weight), zeros_of(bias)};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, StrictDouble eps) {
  return dispatch(layer_norm_op, {normalized_shape, eps}, x, weight, bias);
}
NormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Shape& normalized_shape, const Tensor& weight,
                                  const Tensor& bias, StrictDouble eps) {
  const LayerNorm norm{normalized_shape, eps};
  return gradients_of(layer_norm_backward_op, norm, grad_output, x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<StrictDouble> eps) {
  return dispatch(rms_norm_op, {normalized_shape, rms_eps(x.dtype(), eps)}, x, weight);
}
std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad_output, const Tensor& x,
                                            const Shape& normalized_shape, const Tensor& weight,
                                            std::optional<StrictDouble> eps) {
  const RmsNorm norm{normalized_shape, rms_eps(x.dtype(), eps)};
  NormGradients gradients = gradients_of(rms_norm_backward_op, norm, grad_output, x, weight);
  return {std::move(gradients.x), std::move(gradients.weight)};
}

AddNormResult add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                             const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  Results found = dispatch(add_layer_norm_op, {normalized_shape, eps}, x, residual, weight, bias);
  return {std::move(found[0]), std::move(found[1])};
}
NormGradients add_layer_norm_backward(const Tensor& grad_sum, const Tensor& grad_output,
                                      const Tensor& sum, const Shape& normalized_shape,
                                      const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  const LayerNorm norm{normalized_shape, eps};
  return sum_gradients_of(add_layer_norm_backward_op, norm, grad_sum, grad_output, sum, weight,
                          bias);
}

AddNormResult add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                           const Tensor& weight, std::optional<StrictDouble> eps) {
  // dispatch() throws for an undefined residual.
  const double used =
      rms_eps(residual.defined() ? promote_types(x.dtype(), residual.dtype()) : x.dtype(), eps);
  Results found = dispatch(add_rms_norm_op, {normalized_shape, used}, x, residual, weight);
  return {std::move(found[0]), std::move(found[1])};
}
std::pair<Tensor, Tensor> add_rms_norm_backward(const Tensor& grad_sum, const Tensor& grad_output,
                                                const Tensor& sum, const Shape& normalized_shape,
                                                const Tensor& weight,
                                                std::optional<StrictDouble> eps) {
  const RmsNorm norm{normalized_shape, rms_eps(sum.dtype(), eps)};
  NormGradients gradients =
      sum_gradients_of(add_rms_norm_backward_op, norm, grad_sum, grad_output, sum, weight);
  return {std::move(gradients.x), std::move(gradients.weight)};
}

Tensor group_norm(const Tensor& x, StrictInt groups, const Tensor& weight, const Tensor& bias,
                  StrictDouble eps) {
  return dispatch(group_norm_op, {groups, eps}, x, weight, bias);
}
NormGradients group_norm_backward(const Tensor& grad_output, const Tensor& x, StrictInt groups,
                                  const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  const GroupNorm norm{groups, eps};
  return gradients_of(group_norm_backward_op, norm, grad_output, x, weight, bias);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  return dispatch(instance_norm_op, {eps}, x, weight, bias);
}
NormGradients instance_norm_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Tensor& bias, StrictDouble eps) {
  const InstanceNorm norm{eps};
  return gradients_of(instance_norm_backward_op, norm, grad_output, x, weight, bias);
}

constinit const OpList ops::normalization_ops =
    listed<layer_norm_op, layer_norm_backward_op, rms_norm_op, rms_norm_backward_op, group_norm_op,
           group_norm_backward_op, instance_norm_op, instance_norm_backward_op, add_layer_norm_op,
           add_layer_norm_backward_op, add_rms_norm_op, add_rms_norm_backward_op>;

}  // namespace extensor
