// Batch norm: normalizes channels by batch or running statistics, optionally followed by a residual
// and a relu.
#include "core/check.h"
#include "core/memory_layout.h"
#include "extensor/elementwise.h"
#include "extensor/normalization.h"
#include "ops/launch.h"
#include "ops/normalization_support.h"
#include "ops/overlap.h"
#include "ops/registry.h"

namespace extensor {

using backend::BatchNormalizationCall;
using detail::message;
using namespace ops;
using namespace ops::normalization;

namespace {

// Checks the arguments that batch_norm and its backward share. Returns whether to use the
// statistics of the batch.
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

// Describes x as the kernels read it: dense [outer, channels, inner]. If the elements of a channel
// are scattered or in short runs, channels become the last axis, so that each channel is a column.
struct BatchLayout {
  bool channels_last, follows;  // follows: the results keep the channels_last layout of x
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
    follows = detail::format_of(x) == MemoryFormat::channels_last ||
              (!x.is_contiguous() && x.transpose(order).is_contiguous());
    channels_last = inner < short_run || (follows && channels > 1);
    if (channels_last) {
      outer *= inner;
      inner = inner == 0 ? 0 : 1;
    }
  }
  Tensor dense(const Tensor& x) const {
    return channels_last ? x.transpose(order).contiguous() : x.contiguous();
  }
  // Converts a dense result back to the layout of x.
  Tensor restored(const Tensor& result) const {
    if (!channels_last && !follows) return result;
    const Tensor view = channels_last ? result.transpose(inverse) : result;
    if (!follows && !view.is_contiguous()) return view.contiguous();
    // The memory order is right, but axes of size 1 may still have the strides of the other layout.
    const Shape& shape = view.shape();
    return detail::make_view(result, result.impl().data, shape,
                             !follows        ? detail::contiguous_strides(shape)
                             : channels_last ? view.strides()
                                             : detail::channels_last_strides(shape));
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
  call.mean = detail::kernel_pointer<double>(mean);
  call.variance = detail::kernel_pointer<double>(variance);
  return call;
}

// Known statistics are only read, so they may be the caller's memory.
Tensor statistics(const Run& run, const Tensor& given, bool known, const Tensor& x) {
  return known ? given.to(DType::float64).contiguous() : run.empty({x.size(1)}, DType::float64);
}

Tensor as_parameter(const Tensor& given, DType compute) {
  return given.defined() ? given.to(compute).contiguous() : given;
}

// ---- backward

// The attributes of batch_norm_backward.
struct BatchBackward {
  bool batch;  // statistics of the batch, recomputed if they are undefined
  double eps;
};

// `result` and `of_residual` belong to batch_norm_add_relu; otherwise undefined and false.
Results batch_gradients(const Run& run, const BatchBackward& attributes, const Tensor& grad_output,
                        const Tensor& x, const Tensor& weight, const Tensor& given_mean,
                        const Tensor& given_variance, const Tensor& result, bool of_residual) {
  check_grad_output(run.name(), grad_output, x.shape());
  DType wide = promote_types(grad_output.dtype(), x.dtype());
  if (result.defined()) wide = promote_types(wide, result.dtype());
  const DType compute = compute_dtype(wide);
  const Tensor values = x.to(wide);
  const BatchLayout layout(values);
  const Tensor dense = layout.dense(values), g = layout.dense(grad_output.to(wide));
  const Tensor y = result.defined() ? layout.dense(result.to(wide)) : result;
  const Tensor prepared_weight = as_parameter(weight, compute);
  const bool known = given_mean.defined();
  Tensor mean = statistics(run, given_mean, known, x);
  Tensor variance = statistics(run, given_variance, known, x);
  Tensor grad_weight = run.empty({x.size(1)}, compute), grad_bias = run.empty({x.size(1)}, compute);
  Tensor grad_x = run.empty(dense.shape(), dense.dtype()), grad_residual;
  if (of_residual) grad_residual = run.empty(dense.shape(), dense.dtype());
  BatchNormalizationCall call =
      batch_call(layout, dense, mean, variance, attributes.batch, attributes.eps);
  call.statistics_given = known;
  call.weight = data_of(prepared_weight);
  call.grad_output = data_of(g);
  call.result = data_of(y);
  call.grad_weight = grad_weight.impl().data;
  call.grad_bias = grad_bias.impl().data;
  call.grad_residual = of_residual ? grad_residual.impl().data : nullptr;
  call.out = grad_x.impl().data;
  run.kernels().normalize_batch(call);
  return {layout.restored(grad_x).to(x.dtype()), grad_weight, grad_bias,
          of_residual ? layout.restored(grad_residual) : Tensor()};
}

Results backward_forward(const Run& run, const BatchBackward& attributes, const Tensor& grad_output,
                         const Tensor& x, const Tensor& weight, const Tensor& given_mean,
                         const Tensor& given_variance) {
  Results found = batch_gradients(run, attributes, grad_output, x, weight, given_mean,
                                  given_variance, {}, false);
  return {std::move(found[0]), std::move(found[1]), std::move(found[2])};
}

// Batch statistics are functions of x. Running statistics are constants, so x̂ is linear in x:
// grad_x = g · weight · scale.
Gradients second_gradients(const GradientCall& call, const BatchBackward& attributes,
                           const Tensor& grad_output) {
  const Tensor& x = call.input(1);
  const NormView view{{x.size(0), x.size(1), elements_behind(x, 2)}, {0, 2}, {1, x.size(1), 1}};
  const NormOperands o(view, call, grad_output);
  if (attributes.batch) return backward_gradient(view, call, o, attributes.eps);
  const auto as_channels = [&](const Tensor& statistic) {
    return statistic.detach().to(o.x.dtype()).reshape(view.parameters);
  };
  const Tensor scale = rsqrt(as_channels(call.input(4)) + attributes.eps);
  const Tensor standard = (o.x - as_channels(call.input(3))) * scale;
  return restored(view, call, o.of_x * o.w * scale + standard * o.of_weight + o.of_bias,
                  o.g * o.of_weight * scale, o.g * o.of_x * scale);
}

Gradients backward_op_gradient(const GradientCall& call, const BatchBackward& attributes) {
  return second_gradients(call, attributes, call.input(0));
}

Reads backward_reads(const BatchBackward& attributes, std::size_t k) {
  if (k > 2) return no_gradient;
  const Reads operands = input(0) | input(1) | input(2);
  return attributes.batch ? operands : operands | input(3) | input(4);
}

constexpr auto batch_norm_backward_op =
    define<backward_forward, backward_op_gradient, backward_reads>(
        {.name = "batch_norm_backward",
         .inputs = {"grad_output", "x", "weight", "mean", "variance"},
         .optional = 1 << 2 | 1 << 3 | 1 << 4});

// ---- backward of batch_norm_add_relu

struct AddReluBackward {
  BatchBackward norm;
  bool of_residual;
};

Results add_relu_backward_forward(const Run& run, const AddReluBackward& attributes,
                                  const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                  const Tensor& given_mean, const Tensor& given_variance,
                                  const Tensor& result) {
  check_gradient(run.name(), "result", result, x.shape());
  return batch_gradients(run, attributes.norm, grad_output, x, weight, given_mean, given_variance,
                         result, attributes.of_residual);
}

// The result selects where the gradient passes; it is a constant for further derivatives.
Gradients add_relu_backward_gradient(const GradientCall& call, const AddReluBackward& attributes) {
  const Tensor y = call.input(5).detach();
  if (!call.needs(1) && !call.needs(2) && !call.grad(0).defined() && !call.grad(1).defined() &&
      !call.grad(2).defined()) {
    return {relu_backward(call.grad(3), y), {}, {}, {}, {}, {}};
  }
  const Gradients found = second_gradients(call, attributes.norm, relu_backward(call.input(0), y));
  const Tensor passed = call.grad(3).defined() ? found[0] + call.grad(3) : found[0];
  return {relu_backward(passed, y), found[1], found[2], {}, {}, {}};
}

Reads add_relu_backward_reads(const AddReluBackward& attributes, std::size_t k) {
  const Reads reads = backward_reads(attributes.norm, k);
  return k > 2 ? reads : reads | input(5);
}

constexpr auto batch_norm_add_relu_backward_op =
    define<add_relu_backward_forward, add_relu_backward_gradient, add_relu_backward_reads>(
        {.name = "batch_norm_add_relu_backward",
         .inputs = {"grad_output", "x", "weight", "mean", "variance", "result"},
         .optional = 1 << 2 | 1 << 3 | 1 << 4});

// ---- forward

struct BatchNorm {
  bool training;  // normalize by batch statistics and update the running ones
  double momentum, eps;
};

// Results: y, and for the gradient the float64 mean and variance that normalized x.
Results normalized_batch(const Run& run, const BatchNorm& norm, const Tensor& x,
                         const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                         const Tensor& running_var, const Tensor& residual, bool relu) {
  const bool batch = uses_batch_statistics(run.name(), x, running_mean, running_var, weight, bias,
                                           norm.training, norm.eps);
  const double momentum = norm.momentum;
  if (!(momentum >= 0 && momentum <= 1)) {
    throw ValueError(message(run.name(), ": momentum is ", momentum, ", must be in [0, 1]"));
  }
  const bool updates = norm.training && running_mean.defined() && x.numel() != 0;
  if (updates) {
    check_writable(run.name(), running_mean);
    check_writable(run.name(), running_var);
  }
  const Tensor values = floats(x);
  const BatchLayout layout(values);
  const Tensor dense = layout.dense(values);
  const Tensor added = residual.defined() ? layout.dense(residual) : residual;
  const DType compute = compute_dtype(dense.dtype());
  const Tensor prepared_weight = as_parameter(weight, compute);
  const Tensor prepared_bias = as_parameter(bias, compute);
  Tensor mean = statistics(run, running_mean, !batch, x);
  Tensor variance = statistics(run, running_var, !batch, x);
  Tensor result = run.empty(dense.shape(), dense.dtype());
  BatchNormalizationCall call = batch_call(layout, dense, mean, variance, batch, norm.eps);
  call.weight = data_of(prepared_weight);
  call.bias = data_of(prepared_bias);
  call.relu = relu;
  call.residual = data_of(added);
  call.out = result.impl().data;
  run.kernels().normalize_batch(call);
  if (updates) {
    const std::int64_t per_channel = x.numel() / x.size(1);
    const auto n = static_cast<double>(per_channel);
    const auto moved = [&](const Tensor& running, const Tensor& now, double scale) {
      return running.to(DType::float64) * (1 - momentum) + now * (momentum * scale);
    };
    const Tensor next_mean = moved(running_mean, mean, 1);
    const Tensor next_var = moved(running_var, variance, n / (n - 1));
    Tensor(running_mean).copy_from(next_mean);
    Tensor(running_var).copy_from(next_var);
  }
  if (!run.recorded) return layout.restored(result);
  // Running statistics may be the caller's memory, which can change before the backward.
  return {layout.restored(result), batch ? mean : mean.clone(),
          batch ? variance : variance.clone()};
}

Results batch_norm_forward(const Run& run, const BatchNorm& norm, const Tensor& x,
                           const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                           const Tensor& running_var) {
  return normalized_batch(run, norm, x, weight, bias, running_mean, running_var, {}, false);
}

Gradients batch_norm_gradient(const GradientCall& call, const BatchNorm& norm) {
  return dispatch(batch_norm_backward_op, {norm.training, norm.eps}, call.grad(),
                  floats(call.input(0)), call.needs(0) ? call.input(1) : Tensor(), call.result(1),
                  call.result(2));
}

constexpr Reads statistics_read = result(1) | result(2);
constexpr auto batch_norm_op = define<batch_norm_forward, batch_norm_gradient>(
    {.name = "batch_norm",
     .inputs = {"x", "weight", "bias", "running_mean", "running_var"},
     .reads = {statistics_read | input(0) | input(1), statistics_read | input(0),
               statistics_read | input(0), no_gradient, no_gradient},
     .optional = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4});

// Checks that the residual fits x, and returns the dtype of batch_norm(x) + residual.
DType check_residual(const char* operation, const Tensor& x, const Tensor& residual) {
  check_float(operation, "x", x);
  if (!residual.defined()) return x.dtype();
  check_float(operation, "residual", residual);
  if (!(residual.shape() == x.shape())) {
    throw ShapeError(
        message(operation, ": residual is ", residual.shape(), ", must be ", x.shape(), ", as x"));
  }
  return promote_types(x.dtype(), residual.dtype());
}

Results add_relu_forward(const Run& run, const BatchNorm& norm, const Tensor& x,
                         const Tensor& residual, const Tensor& weight, const Tensor& bias,
                         const Tensor& running_mean, const Tensor& running_var) {
  const DType wide = check_residual(run.name(), x, residual);
  return normalized_batch(run, norm, x.to(wide), weight, bias, running_mean, running_var,
                          residual.defined() ? residual.to(wide) : residual, true);
}

Gradients add_relu_gradient(const GradientCall& call, const BatchNorm& norm) {
  const bool normalizes = call.needs(0) || call.needs(2) || call.needs(3);
  if (!normalizes) return {{}, relu_backward(call.grad(), call.result()), {}, {}, {}, {}};
  const Results found =
      dispatch(batch_norm_add_relu_backward_op, {{norm.training, norm.eps}, call.needs(1)},
               call.grad(), call.input(0), call.needs(0) ? call.input(2) : Tensor(), call.result(1),
               call.result(2), call.result());
  return {found[0], found[3], found[1], found[2], {}, {}};
}

constexpr Reads add_relu_read = statistics_read | result() | input(0);
constexpr auto batch_norm_add_relu_op = define<add_relu_forward, add_relu_gradient>(
    {.name = "batch_norm_add_relu",
     .inputs = {"x", "residual", "weight", "bias", "running_mean", "running_var"},
     .reads = {add_relu_read | input(2), result(), add_relu_read, add_relu_read, no_gradient,
               no_gradient},
     .optional = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5});

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, StrictBool training,
                  StrictDouble momentum, StrictDouble eps) {
  const BatchNorm norm{training || !running_mean.defined(), momentum, eps};
  return std::move(dispatch(batch_norm_op, norm, x, weight, bias, running_mean, running_var)[0]);
}

NormGradients batch_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Tensor& running_mean, const Tensor& running_var,
                                  const Tensor& weight, const Tensor& bias, StrictBool training,
                                  StrictDouble eps) {
  constexpr const char* operation = "batch_norm_backward";
  check_float(operation, "x", x);
  const bool batch =
      uses_batch_statistics(operation, x, running_mean, running_var, weight, bias, training, eps);
  return as_gradients(dispatch(batch_norm_backward_op, {batch, eps}, grad_output, x, weight,
                               batch ? Tensor() : running_mean, batch ? Tensor() : running_var),
                      weight, bias);
}

Tensor batch_norm_add_relu(const Tensor& x, const Tensor& residual, const Tensor& running_mean,
                           const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                           StrictBool training, StrictDouble momentum, StrictDouble eps) {
  const BatchNorm norm{training || !running_mean.defined(), momentum, eps};
  return std::move(dispatch(batch_norm_add_relu_op, norm, x, residual, weight, bias, running_mean,
                            running_var)[0]);
}

BatchNormAddReluGradients batch_norm_add_relu_backward(const Tensor& grad_output, const Tensor& x,
                                                       const Tensor& residual, const Tensor& result,
                                                       const Tensor& running_mean,
                                                       const Tensor& running_var,
                                                       const Tensor& weight, const Tensor& bias,
                                                       StrictBool training, StrictDouble eps) {
  constexpr const char* operation = "batch_norm_add_relu_backward";
  check_residual(operation, x, residual);
  const bool batch =
      uses_batch_statistics(operation, x, running_mean, running_var, weight, bias, training, eps);
  const bool of_residual = residual.defined();
  const Results found =
      dispatch(batch_norm_add_relu_backward_op, {{batch, eps}, of_residual}, grad_output, x, weight,
               batch ? Tensor() : running_mean, batch ? Tensor() : running_var, result);
  NormGradients norm = as_gradients(found, weight, bias);
  return {std::move(norm.x), of_residual ? found[3].to(residual.dtype()) : Tensor(),
          std::move(norm.weight), std::move(norm.bias)};
}

constinit const OpList ops::batch_norm_ops =
    listed<batch_norm_op, batch_norm_backward_op, batch_norm_add_relu_op,
           batch_norm_add_relu_backward_op>;

}  // namespace extensor
