#include "extensor/convolution.h"

#include <functional>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "ops/autocast.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::ConvolutionCall;
using backend::ConvolutionOp;
using backend::ConvolutionShape;
using detail::message;

// What conv1d, conv2d and conv_transpose2d have in common, and how they call their arguments.
struct Options {
  const char* operation;
  Size2d stride, padding, dilation;
  std::int64_t groups;
  Size2d output_padding = 0;
  bool one_axis = false;  // only the width is the caller's
};

Options options_of(const char* operation, const Conv2dOptions& given) {
  return {operation, given.stride, given.padding, given.dilation, given.groups};
}
Options options_of(const char* operation, const Conv1dOptions& given) {
  return {operation, {1, given.stride}, {0, given.padding}, {1, given.dilation}, given.groups, 0,
          true};
}
Options options_of(const char* operation, const ConvTranspose2dOptions& given) {
  return {operation,      given.stride, given.padding,
          given.dilation, given.groups, given.output_padding};
}

void check_at_least(const Options& options, const char* what, const Size2d& given,
                    std::int64_t least) {
  if (given.height >= least && given.width >= least) return;
  if (options.one_axis) {
    throw ValueError(message(options.operation, ": ", what, " is ", given.width, ", must be ",
                             least, " or more"));
  }
  throw ValueError(message(options.operation, ": ", what, " is ", Dims{given.height, given.width},
                           ", must be ", least, " or more"));
}

void check_options(const Options& options) {
  check_at_least(options, "stride", options.stride, 1);
  check_at_least(options, "dilation", options.dilation, 1);
  check_at_least(options, "padding", options.padding, 0);
  check_at_least(options, "output_padding", options.output_padding, 0);
  if (options.groups < 1) {
    throw ValueError(
        message(options.operation, ": groups is ", options.groups, ", must be 1 or more"));
  }
}

// dilation · (kernel − 1) + 1, or −1 where that is beyond int64.
std::int64_t kernel_extent(std::int64_t kernel, std::int64_t dilation) {
  std::int64_t extent;
  if (__builtin_mul_overflow(kernel - 1, dilation, &extent) ||
      __builtin_add_overflow(extent, 1, &extent)) {
    return -1;
  }
  return extent;
}

// Rank, dtype, device and channels of the operands. A weight of conv2d is [out, in / groups, …], of
// conv_transpose2d [in, out / groups, …].
void check_operands(const Options& options, const Tensor& x, const Tensor& weight,
                    bool transposed) {
  const char* operation = options.operation;
  const std::int64_t rank = options.one_axis ? 3 : 4;
  if (x.ndim() != rank) {
    throw ShapeError(message(operation, ": x is ", x.shape(), ", must have ", rank,
                             options.one_axis ? " dimensions [batch, channels, length]"
                                              : " dimensions [batch, channels, height, width]"));
  }
  if (weight.ndim() != rank) {
    throw ShapeError(
        message(operation, ": weight is ", weight.shape(), ", must have ", rank, " dimensions"));
  }
  ops::check_float(operation, "x", x);
  ops::check_float(operation, "weight", weight);
  for (std::int64_t axis = 2; axis < rank; ++axis) {
    if (weight.size(axis) == 0) {
      throw ShapeError(message(operation, ": weight is ", weight.shape(), ", has no taps"));
    }
  }
  const std::int64_t channels = x.size(1), groups = options.groups;
  const std::int64_t filters = weight.size(0);
  if (channels % groups != 0) {
    throw ValueError(message(operation, ": groups is ", groups, ", must divide the ", channels,
                             " channels of x ", x.shape()));
  }
  if (!transposed && filters % groups != 0) {
    throw ValueError(message(operation, ": groups is ", groups, ", must divide the ", filters,
                             " filters of weight ", weight.shape()));
  }
  if (transposed ? filters != channels : weight.size(1) != channels / groups) {
    throw ShapeError(message(operation, ": channels differ: x is ", x.shape(), ", weight is ",
                             weight.shape(), ", groups is ", groups));
  }
}

void check_bias(const char* operation, const Tensor& bias, std::int64_t channels) {
  ops::check_float(operation, "bias", bias);
  if (bias.ndim() != 1 || bias.size(0) != channels) {
    throw ShapeError(message(operation, ": bias is ", bias.shape(), ", must be [", channels, "]"));
  }
}

// The length of the result along one axis.
std::int64_t output_length(const Options& options, const Shape& x, const Shape& weight,
                           std::int64_t length, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding, std::int64_t dilation) {
  const std::int64_t extent = kernel_extent(kernel, dilation);
  std::int64_t padded;
  if (__builtin_mul_overflow(padding, 2, &padded) ||
      __builtin_add_overflow(padded, length, &padded)) {
    throw ShapeError(
        message(options.operation, ": padding ", padding, " of ", x, " goes beyond int64"));
  }
  if (extent < 0 || extent > padded) {
    throw ShapeError(message(options.operation, ": the kernel is larger than the padded input: x ",
                             x, ", weight ", weight, ", padding ", padding, ", dilation ",
                             dilation));
  }
  return (padded - extent) / stride + 1;
}

std::int64_t transposed_length(const Options& options, const Shape& x, const Shape& weight,
                               std::int64_t length, std::int64_t kernel, std::int64_t stride,
                               std::int64_t padding, std::int64_t output_padding,
                               std::int64_t dilation) {
  if (output_padding >= stride && output_padding >= dilation) {
    throw ValueError(message(options.operation, ": output_padding is ", output_padding,
                             ", must be below stride ", stride, " or dilation ", dilation));
  }
  const std::int64_t extent = kernel_extent(kernel, dilation);
  std::int64_t whole, cut;
  if (extent < 0 || __builtin_mul_overflow(length - 1, stride, &whole) ||
      __builtin_add_overflow(whole, extent, &whole) ||
      __builtin_add_overflow(whole, output_padding, &whole) ||
      __builtin_mul_overflow(padding, 2, &cut)) {
    throw ShapeError(message(options.operation, ": the result of x ", x, " goes beyond int64"));
  }
  if (length < 1 || whole - cut < 1) {
    throw ShapeError(message(options.operation, ": nothing is left: x ", x, ", weight ", weight,
                             ", stride ", stride, ", padding ", padding));
  }
  return whole - cut;
}

void set_options(ConvolutionShape& shape, const Options& options) {
  shape.groups = options.groups;
  shape.stride_height = options.stride.height;
  shape.stride_width = options.stride.width;
  shape.padding_height = options.padding.height;
  shape.padding_width = options.padding.width;
  shape.dilation_height = options.dilation.height;
  shape.dilation_width = options.dilation.width;
}

// x [N, C, H, W] and weight as conv2d has them, everything checked.
ConvolutionShape plan(const Options& options, const Tensor& x, const Tensor& weight) {
  check_options(options);
  check_operands(options, x, weight, false);
  ConvolutionShape shape{};
  set_options(shape, options);
  shape.batch = x.size(0);
  shape.in_channels = x.size(1) / options.groups;
  shape.out_channels = weight.size(0) / options.groups;
  shape.in_height = options.one_axis ? 1 : x.size(2);
  shape.in_width = x.size(-1);
  shape.kernel_height = options.one_axis ? 1 : weight.size(2);
  shape.kernel_width = weight.size(-1);
  shape.out_height =
      output_length(options, x.shape(), weight.shape(), shape.in_height, shape.kernel_height,
                    shape.stride_height, shape.padding_height, shape.dilation_height);
  shape.out_width =
      output_length(options, x.shape(), weight.shape(), shape.in_width, shape.kernel_width,
                    shape.stride_width, shape.padding_width, shape.dilation_width);
  return shape;
}

// The convolution whose input gradient the transposed one is: its y is our x.
ConvolutionShape plan_transposed(const Options& options, const Tensor& x, const Tensor& weight) {
  check_options(options);
  check_operands(options, x, weight, true);
  ConvolutionShape shape{};
  set_options(shape, options);
  shape.batch = x.size(0);
  shape.out_channels = x.size(1) / options.groups;
  shape.in_channels = weight.size(1);
  shape.out_height = x.size(2);
  shape.out_width = x.size(3);
  shape.kernel_height = weight.size(2);
  shape.kernel_width = weight.size(3);
  shape.in_height =
      transposed_length(options, x.shape(), weight.shape(), shape.out_height, shape.kernel_height,
                        shape.stride_height, shape.padding_height, options.output_padding.height,
                        shape.dilation_height);
  shape.in_width = transposed_length(options, x.shape(), weight.shape(), shape.out_width,
                                     shape.kernel_width, shape.stride_width, shape.padding_width,
                                     options.output_padding.width, shape.dilation_width);
  return shape;
}

Shape x_shape(const ConvolutionShape& shape, bool one_axis) {
  const std::int64_t channels = shape.groups * shape.in_channels;
  if (one_axis) return {shape.batch, channels, shape.in_width};
  return {shape.batch, channels, shape.in_height, shape.in_width};
}
Shape y_shape(const ConvolutionShape& shape, bool one_axis) {
  const std::int64_t channels = shape.groups * shape.out_channels;
  if (one_axis) return {shape.batch, channels, shape.out_width};
  return {shape.batch, channels, shape.out_height, shape.out_width};
}

// Runs one product of the family: of x, weight and y the one that `op` writes is undefined here and
// returned, in `dtype`.
Tensor run(const Options& options, ConvolutionOp op, const ConvolutionShape& shape, const Tensor& x,
           const Tensor& weight, const Tensor& y, const Tensor& bias, DType dtype) {
  std::optional<DType> wide;
  std::optional<Device> device;
  for (const Tensor* operand : {&x, &weight, &y, &bias}) {
    if (!operand->defined()) continue;
    wide = wide ? promote_types(*wide, operand->dtype(), options.operation) : operand->dtype();
    device = operand->device();
  }
  const DType compute = ops::compute_dtype(*wide);
  const auto dense = [&](const Tensor& operand) {
    return operand.defined() ? operand.to(compute).contiguous() : Tensor();
  };
  const Tensor operands[] = {dense(x), dense(weight), dense(y), dense(bias)};
  Shape result_shape;
  if (op == ConvolutionOp::forward) {
    result_shape = y_shape(shape, options.one_axis);
  } else if (op == ConvolutionOp::input_gradient) {
    result_shape = x_shape(shape, options.one_axis);
  } else {
    result_shape = {shape.groups * shape.out_channels, shape.in_channels};
    if (!options.one_axis) result_shape.push_back(shape.kernel_height);
    result_shape.push_back(shape.kernel_width);
  }
  Tensor result = detail::make_empty(options.operation, result_shape, compute, *device);
  if (result.numel() == 0) return result.to(dtype);
  const auto data = [&](const Tensor& operand) {
    return operand.defined() ? operand.impl().data : result.impl().data;
  };
  ConvolutionCall call{op,
                       compute,
                       shape,
                       data(operands[0]),
                       data(operands[1]),
                       data(operands[2]),
                       operands[3].defined() ? operands[3].impl().data : nullptr};
  backend::backend_for(*device).convolution(call);
  return result.to(dtype);
}

void check_devices(const Options& options, const Tensor& a, const Tensor& b, const Tensor& c) {
  const ops::Source three[] = {a, b, c.defined() ? c : a};
  ops::common_device(options.operation, three);
}

Tensor forward(const Options& options, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const ConvolutionShape shape = plan(options, x, weight);
  if (bias.defined()) check_bias(options.operation, bias, weight.size(0));
  check_devices(options, x, weight, bias);
  DType dtype = promote_types(x.dtype(), weight.dtype(), options.operation);
  if (bias.defined()) dtype = promote_types(dtype, bias.dtype(), options.operation);
  return run(options, ConvolutionOp::forward, shape, x, weight, {}, bias, dtype);
}

// The gradient of a bias: everything but the channels summed up.
Tensor bias_gradient(const Tensor& grad_output, DType dtype) {
  const Tensor wide = grad_output.to(promote_types(grad_output.dtype(), dtype)).contiguous();
  return (wide.ndim() == 3 ? sum(wide, {0, 2}) : sum(wide, {0, 2, 3})).to(dtype);
}

ConvolutionGradients backward(const Options& options, const Tensor& grad_output, const Tensor& x,
                              const Tensor& weight, const WantedGradients& wanted) {
  const ConvolutionShape shape = plan(options, x, weight);
  ops::check_grad_output(options.operation, grad_output, y_shape(shape, options.one_axis));
  check_devices(options, x, weight, grad_output);
  ConvolutionGradients gradients;
  if (wanted[0]) {
    gradients.x =
        run(options, ConvolutionOp::input_gradient, shape, {}, weight, grad_output, {}, x.dtype());
  }
  if (wanted[1]) {
    gradients.weight =
        run(options, ConvolutionOp::weight_gradient, shape, x, {}, grad_output, {}, weight.dtype());
  }
  if (wanted[2]) gradients.bias = bias_gradient(grad_output, weight.dtype());
  return gradients;
}

// An op of the family with its options and grad_output bound.
struct BoundOp {
  Options options;
  Shape result;
  std::function<Tensor(const Tensor& x, const Tensor& weight)> forward;
  std::function<ConvolutionGradients(const Tensor& x, const Tensor& weight, const WantedGradients&)>
      backward;
};

// y = x ∗ w is linear in each: with ẋ, ẇ, ḃ what flows back to the gradients, y's is x ∗ ẇ + ẋ ∗ w
// + ḃ, and x's and w's are those of a convolution with the other operand's tangent.
ConvolutionDoubleGradients double_backward(const BoundOp& op, const ConvolutionGradients& tangents,
                                           const Tensor& grad_output, const Tensor& x,
                                           const Tensor& weight) {
  const char* operation = op.options.operation;
  ops::check_grad_output(operation, grad_output, op.result);
  const auto check = [&](const char* argument, const Tensor& tangent, const Shape& expected) {
    if (tangent.defined()) ops::check_gradient(operation, argument, tangent, expected);
  };
  check("grad_grad_x", tangents.x, x.shape());
  check("grad_grad_weight", tangents.weight, weight.shape());
  check("grad_grad_bias", tangents.bias, {op.result[1]});
  const auto widened = [](const Tensor& t) { return t.to(ops::compute_dtype(t.dtype())); };
  ConvolutionDoubleGradients result{zeros_like(widened(grad_output)), zeros_like(x),
                                    zeros_like(weight)};
  if (tangents.x.defined()) {
    result.grad_output = result.grad_output + op.forward(widened(tangents.x), weight);
    result.weight = op.backward(tangents.x, weight, {false, true, false}).weight;
  }
  if (tangents.weight.defined()) {
    result.grad_output = result.grad_output + op.forward(x, widened(tangents.weight));
    result.x = op.backward(x, tangents.weight, {true, false, false}).x;
  }
  if (tangents.bias.defined()) {
    Shape channels{op.result[1], 1};
    if (!op.options.one_axis) channels.push_back(1);
    result.grad_output = result.grad_output + tangents.bias.reshape(channels);
  }
  result.grad_output = result.grad_output.to(grad_output.dtype());
  return result;
}

// ---- recording
// -------------------------------------------------------------------------------------

// One of the three ops, by its public functions.
template <class Given>
struct RecordedOp {
  const char* name;
  const char* backward_name;
  Tensor (*forward)(const Tensor& x, const Tensor& weight, const Tensor& bias, const Given&);
  ConvolutionGradients (*backward)(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                   const Given&, const WantedGradients&);
  ConvolutionDoubleGradients (*double_backward)(const Tensor& grad_grad_x,
                                                const Tensor& grad_grad_weight,
                                                const Tensor& grad_grad_bias,
                                                const Tensor& grad_output, const Tensor& x,
                                                const Tensor& weight, const Given&);
};

// An operand of which the backward reads the shape alone unless the other's gradient is asked for:
// it need not be kept then.
detail::Saved kept_for(const Tensor& other, const Tensor& operand) {
  if (detail::tracked(other)) return operand;
  Tensor zero = detail::make_empty("convolution", {}, operand.dtype(), operand.device());
  return zero.fill(0).broadcast_to(operand.shape());
}

template <class Given>
Tensor recorded_forward(const RecordedOp<Given>& op, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Given& options) {
  Tensor result = detail::unrecorded([&] { return op.forward(x, weight, bias, options); });
  const DType bias_dtype = bias.defined() ? bias.dtype() : weight.dtype();
  return detail::record(
      op.name, {x, weight, bias}, std::move(result),
      [backward = op.backward, x = kept_for(weight, x), weight = kept_for(x, weight), bias_dtype,
       options](const Tensor& g, detail::Node& node) -> detail::Gradients {
        const WantedGradients wanted{node.needs(0), node.needs(1), node.needs(2)};
        ConvolutionGradients gradients =
            backward(g, x.get(node), weight.get(node), options, wanted);
        if (wanted[2]) gradients.bias = gradients.bias.to(bias_dtype);
        return {gradients.x, gradients.weight, gradients.bias};
      });
}

template <class Given>
ConvolutionGradients recorded_backward(const RecordedOp<Given>& op, const Tensor& grad_output,
                                       const Tensor& x, const Tensor& weight, const Given& options,
                                       const WantedGradients& wanted) {
  std::vector<Tensor> results = detail::recorded_all(
      op.backward_name,
      [&] {
        const ConvolutionGradients gradients = op.backward(grad_output, x, weight, options, wanted);
        return std::vector{gradients.x, gradients.weight, gradients.bias};
      },
      [double_backward = op.double_backward, options](
          const detail::Gradients& v, const detail::Node&, const Tensor& g, const Tensor& x,
          const Tensor& weight) -> detail::Gradients {
        const ConvolutionDoubleGradients second =
            double_backward(v[0], v[1], v[2], g, x, weight, options);
        return {second.grad_output, second.x, second.weight};
      },
      grad_output, x, weight);
  return {results[0], results[1], results[2]};
}

constexpr RecordedOp<Conv2dOptions> recorded_conv2d{"conv2d", "conv2d_backward", conv2d,
                                                    conv2d_backward, conv2d_double_backward};
constexpr RecordedOp<Conv1dOptions> recorded_conv1d{"conv1d", "conv1d_backward", conv1d,
                                                    conv1d_backward, conv1d_double_backward};
constexpr RecordedOp<ConvTranspose2dOptions> recorded_conv_transpose2d{
    "conv_transpose2d", "conv_transpose2d_backward", conv_transpose2d, conv_transpose2d_backward,
    conv_transpose2d_double_backward};

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  if (ops::lowers(x, weight, bias)) {
    return conv2d(ops::lowered(x), ops::lowered(weight), ops::lowered(bias), options);
  }
  if (detail::records(x, weight, bias)) {
    return recorded_forward(recorded_conv2d, x, weight, bias, options);
  }
  return forward(options_of("conv2d", options), x, weight, bias);
}

ConvolutionGradients conv2d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv2dOptions& options,
                                     const WantedGradients& wanted) {
  if (detail::records(grad_output, x, weight)) {
    return recorded_backward(recorded_conv2d, grad_output, x, weight, options, wanted);
  }
  return backward(options_of("conv2d_backward", options), grad_output, x, weight, wanted);
}

ConvolutionDoubleGradients conv2d_double_backward(const Tensor& grad_grad_x,
                                                  const Tensor& grad_grad_weight,
                                                  const Tensor& grad_grad_bias,
                                                  const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& weight,
                                                  const Conv2dOptions& options) {
  const Options named = options_of("conv2d_double_backward", options);
  return double_backward(
      {named, y_shape(plan(named, x, weight), false),
       [&](const Tensor& a, const Tensor& w) { return conv2d(a, w, {}, options); },
       [&](const Tensor& a, const Tensor& w, const WantedGradients& wanted) {
         return conv2d_backward(grad_output, a, w, options, wanted);
       }},
      {grad_grad_x, grad_grad_weight, grad_grad_bias}, grad_output, x, weight);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  if (ops::lowers(x, weight, bias)) {
    return conv1d(ops::lowered(x), ops::lowered(weight), ops::lowered(bias), options);
  }
  if (detail::records(x, weight, bias)) {
    return recorded_forward(recorded_conv1d, x, weight, bias, options);
  }
  return forward(options_of("conv1d", options), x, weight, bias);
}

ConvolutionGradients conv1d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv1dOptions& options,
                                     const WantedGradients& wanted) {
  if (detail::records(grad_output, x, weight)) {
    return recorded_backward(recorded_conv1d, grad_output, x, weight, options, wanted);
  }
  return backward(options_of("conv1d_backward", options), grad_output, x, weight, wanted);
}

ConvolutionDoubleGradients conv1d_double_backward(const Tensor& grad_grad_x,
                                                  const Tensor& grad_grad_weight,
                                                  const Tensor& grad_grad_bias,
                                                  const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& weight,
                                                  const Conv1dOptions& options) {
  const Options named = options_of("conv1d_double_backward", options);
  return double_backward(
      {named, y_shape(plan(named, x, weight), true),
       [&](const Tensor& a, const Tensor& w) { return conv1d(a, w, {}, options); },
       [&](const Tensor& a, const Tensor& w, const WantedGradients& wanted) {
         return conv1d_backward(grad_output, a, w, options, wanted);
       }},
      {grad_grad_x, grad_grad_weight, grad_grad_bias}, grad_output, x, weight);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& given) {
  if (ops::lowers(x, weight, bias)) {
    return conv_transpose2d(ops::lowered(x), ops::lowered(weight), ops::lowered(bias), given);
  }
  if (detail::records(x, weight, bias)) {
    return recorded_forward(recorded_conv_transpose2d, x, weight, bias, given);
  }
  const Options options = options_of("conv_transpose2d", given);
  const ConvolutionShape shape = plan_transposed(options, x, weight);
  if (bias.defined()) check_bias(options.operation, bias, shape.groups * shape.in_channels);
  check_devices(options, x, weight, bias);
  DType dtype = promote_types(x.dtype(), weight.dtype(), options.operation);
  if (bias.defined()) dtype = promote_types(dtype, bias.dtype(), options.operation);
  return run(options, ConvolutionOp::input_gradient, shape, {}, weight, x, bias, dtype);
}

ConvolutionGradients conv_transpose2d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose2dOptions& given,
                                               const WantedGradients& wanted) {
  if (detail::records(grad_output, x, weight)) {
    return recorded_backward(recorded_conv_transpose2d, grad_output, x, weight, given, wanted);
  }
  const Options options = options_of("conv_transpose2d_backward", given);
  const ConvolutionShape shape = plan_transposed(options, x, weight);
  ops::check_grad_output(options.operation, grad_output, x_shape(shape, false));
  check_devices(options, x, weight, grad_output);
  ConvolutionGradients gradients;
  if (wanted[0]) {
    gradients.x =
        run(options, ConvolutionOp::forward, shape, grad_output, weight, {}, {}, x.dtype());
  }
  if (wanted[1]) {
    gradients.weight =
        run(options, ConvolutionOp::weight_gradient, shape, grad_output, {}, x, {}, weight.dtype());
  }
  if (wanted[2]) gradients.bias = bias_gradient(grad_output, weight.dtype());
  return gradients;
}

ConvolutionDoubleGradients conv_transpose2d_double_backward(const Tensor& grad_grad_x,
                                                            const Tensor& grad_grad_weight,
                                                            const Tensor& grad_grad_bias,
                                                            const Tensor& grad_output,
                                                            const Tensor& x, const Tensor& weight,
                                                            const ConvTranspose2dOptions& options) {
  const Options named = options_of("conv_transpose2d_double_backward", options);
  return double_backward(
      {named, x_shape(plan_transposed(named, x, weight), false),
       [&](const Tensor& a, const Tensor& w) { return conv_transpose2d(a, w, {}, options); },
       [&](const Tensor& a, const Tensor& w, const WantedGradients& wanted) {
         return conv_transpose2d_backward(grad_output, a, w, options, wanted);
       }},
      {grad_grad_x, grad_grad_weight, grad_grad_bias}, grad_output, x, weight);
}

}  // namespace extensor
