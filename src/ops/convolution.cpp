// Convolutions. y = x ∗ weight is linear in both x and weight, so one plan of sizes serves three
// products: y from x and weight, the gradient of x from grad_y and weight, and the gradient of
// weight from x and grad_y. Each is an op whose gradients are the other two. conv_transpose2d is
// the second product.
#include "extensor/convolution.h"

#include "core/check.h"
#include "core/memory_layout.h"
#include "extensor/reduction.h"
#include "ops/convolution_support.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::ConvolutionOp;
using backend::ConvolutionShape;
using detail::message;
using namespace ops;

// The options of all convolutions over signals and images in a common form.
struct Options {
  const char* operation;
  Size2d stride, padding, dilation;
  std::int64_t groups;
  Size2d output_padding = 0;
  bool one_axis = false;  // conv1d: only the width comes from the caller
  bool transposed = false;
};

// The attributes of the recorded ops: the options that matter to a convolution.
struct Conv1dAttributes {
  std::int64_t stride, padding, dilation, groups;
};
struct Conv2dAttributes {
  Size2d stride, padding, dilation;
  std::int64_t groups;
};
struct ConvTranspose1dAttributes {
  std::int64_t stride, padding, output_padding, dilation, groups;
};
struct ConvTranspose2dAttributes {
  Size2d stride, padding, output_padding, dilation;
  std::int64_t groups;
};

Conv1dAttributes attributes_of(const Conv1dOptions& given) {
  return {given.stride, given.padding, given.dilation, given.groups};
}
Conv2dAttributes attributes_of(const Conv2dOptions& given) {
  return {given.stride, given.padding, given.dilation, given.groups};
}
ConvTranspose1dAttributes attributes_of(const ConvTranspose1dOptions& given) {
  return {given.stride, given.padding, given.output_padding, given.dilation, given.groups};
}
ConvTranspose2dAttributes attributes_of(const ConvTranspose2dOptions& given) {
  return {given.stride, given.padding, given.output_padding, given.dilation, given.groups};
}

Options options_of(const char* operation, const Conv2dAttributes& given) {
  return {operation, given.stride, given.padding, given.dilation, given.groups};
}
Options options_of(const char* operation, const Conv1dAttributes& given) {
  return {operation, {1, given.stride}, {0, given.padding}, {1, given.dilation}, given.groups, 0,
          true};
}
Options options_of(const char* operation, const ConvTranspose2dAttributes& given) {
  return {operation,    given.stride,         given.padding, given.dilation,
          given.groups, given.output_padding, false,         true};
}

Options options_of(const char* operation, const ConvTranspose1dAttributes& given) {
  return {operation,
          {1, given.stride},
          {0, given.padding},
          {1, given.dilation},
          given.groups,
          {0, given.output_padding},
          true,
          true};
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
  const auto at_least_0 = [&](std::int64_t side, std::int64_t stride) {
    if (side != same_padding) return side;
    if (!options.transposed && stride == 1) return std::int64_t{0};
    throw ValueError(
        message(options.operation, ": padding is same_padding, needs ",
                options.transposed ? "a convolution that is not transposed" : "a stride of 1"));
  };
  check_at_least(options, "padding",
                 {at_least_0(options.padding.height, options.stride.height),
                  at_least_0(options.padding.width, options.stride.width)},
                 0);
  check_at_least(options, "output_padding", options.output_padding, 0);
  if (options.groups < 1) {
    throw ValueError(
        message(options.operation, ": groups is ", options.groups, ", must be 1 or more"));
  }
}

// dilation · (kernel − 1) + 1, or −1 if that overflows int64.
std::int64_t kernel_extent(std::int64_t kernel, std::int64_t dilation) {
  std::int64_t extent;
  if (__builtin_mul_overflow(kernel - 1, dilation, &extent) ||
      __builtin_add_overflow(extent, 1, &extent)) {
    return -1;
  }
  return extent;
}

// Checks the ranks and channels of the operands. The weight of conv2d is [out, in / groups, …];
// that of conv_transpose2d is [in, out / groups, …].
void check_operands(const Options& options, const Shape& x, const Shape& weight) {
  const char* operation = options.operation;
  const std::size_t rank = options.one_axis ? 3 : 4;
  if (x.size() != rank) {
    throw ShapeError(message(operation, ": x is ", x, ", must have ", rank,
                             options.one_axis ? " dimensions [batch, channels, length]"
                                              : " dimensions [batch, channels, height, width]"));
  }
  if (weight.size() != rank) {
    throw ShapeError(
        message(operation, ": weight is ", weight, ", must have ", rank, " dimensions"));
  }
  if (weight[2] == 0 || weight[rank - 1] == 0) {
    throw ShapeError(message(operation, ": weight is ", weight, ", has no taps"));
  }
  const std::int64_t channels = x[1], filters = weight[0], groups = options.groups;
  if (channels % groups != 0) {
    throw ValueError(message(operation, ": groups is ", groups, ", must divide the ", channels,
                             " channels of x ", x));
  }
  if (!options.transposed && filters % groups != 0) {
    throw ValueError(message(operation, ": groups is ", groups, ", must divide the ", filters,
                             " filters of weight ", weight));
  }
  if (options.transposed ? filters != channels : weight[1] != channels / groups) {
    throw ShapeError(message(operation, ": channels differ: x is ", x, ", weight is ", weight,
                             ", groups is ", groups));
  }
}

// The length of the result along one side, for `length` elements of x and `kernel` taps.
std::int64_t result_length(const Options& options, const Shape& x, const Shape& weight,
                           std::int64_t length, std::int64_t kernel, std::int64_t Size2d::*side) {
  const std::int64_t stride = options.stride.*side, dilation = options.dilation.*side;
  const std::int64_t extent = kernel_extent(kernel, dilation);
  const bool same = options.padding.*side == same_padding;
  const std::int64_t padding = same ? (extent - 1) / 2 : options.padding.*side;
  std::int64_t padded = length == 0 ? 0 : extent - 1;  // the zeros of same_padding
  if ((!same && __builtin_mul_overflow(padding, 2, &padded)) ||
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

// The zeros before x.
std::int64_t padding_before(const Options& options, std::int64_t kernel,
                            std::int64_t Size2d::*side) {
  if (options.padding.*side != same_padding) return options.padding.*side;
  return (kernel_extent(kernel, options.dilation.*side) - 1) / 2;
}

std::int64_t transposed_length(const Options& options, const Shape& x, const Shape& weight,
                               std::int64_t length, std::int64_t kernel,
                               std::int64_t Size2d::*side) {
  const std::int64_t stride = options.stride.*side, padding = options.padding.*side,
                     dilation = options.dilation.*side,
                     output_padding = options.output_padding.*side;
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

// The sizes of y = x ∗ weight: the attributes of all three products.
struct Plan {
  ConvolutionShape sizes;
  bool one_axis;

  Shape shape(std::int64_t first, std::int64_t second, std::int64_t height,
              std::int64_t width) const {
    return one_axis ? Shape{first, second, width} : Shape{first, second, height, width};
  }
  Shape x() const {
    return shape(sizes.batch, sizes.groups * sizes.in_channels, sizes.in_height, sizes.in_width);
  }
  Shape y() const {
    return shape(sizes.batch, sizes.groups * sizes.out_channels, sizes.out_height, sizes.out_width);
  }
  Shape weight() const {
    return shape(sizes.groups * sizes.out_channels, sizes.in_channels, sizes.kernel_height,
                 sizes.kernel_width);
  }
};

// Checks options and shapes. In the plan of conv_transpose2d, the caller's x is y.
Plan plan_of(const Options& options, const Shape& x, const Shape& weight) {
  check_options(options);
  check_operands(options, x, weight);
  ConvolutionShape sizes{};
  sizes.batch = x[0];
  sizes.groups = options.groups;
  sizes.stride_height = options.stride.height;
  sizes.stride_width = options.stride.width;
  sizes.dilation_height = options.dilation.height;
  sizes.dilation_width = options.dilation.width;
  sizes.kernel_height = options.one_axis ? 1 : weight[2];
  sizes.kernel_width = weight.back();
  sizes.padding_height = padding_before(options, sizes.kernel_height, &Size2d::height);
  sizes.padding_width = padding_before(options, sizes.kernel_width, &Size2d::width);
  sizes.in_channels = weight[1];
  sizes.out_channels = weight[0] / options.groups;
  const std::int64_t height = options.one_axis ? 1 : x[2], width = x.back();
  const auto length = options.transposed ? transposed_length : result_length;
  const std::int64_t result_height =
      length(options, x, weight, height, sizes.kernel_height, &Size2d::height);
  const std::int64_t result_width =
      length(options, x, weight, width, sizes.kernel_width, &Size2d::width);
  sizes.in_height = options.transposed ? result_height : height;
  sizes.in_width = options.transposed ? result_width : width;
  sizes.out_height = options.transposed ? height : result_height;
  sizes.out_width = options.transposed ? width : result_width;
  return {sizes, options.one_axis};
}

// ---- the three products

// Computes the tensor that `op` writes, which must be undefined among x, weight and y, and returns
// it in the dtype that the kernel computes.
Tensor product(const Run& run, const Plan& plan, ConvolutionOp op, const Tensor& x,
               const Tensor& weight, const Tensor& y, const Tensor& bias = {}) {
  std::optional<DType> wide;
  for (const Tensor* operand : {&x, &weight, &y, &bias}) {
    if (!operand->defined()) continue;
    wide = wide ? promote_types(*wide, operand->dtype(), run.name()) : operand->dtype();
  }
  const DType compute = run.kernels().product_dtype(*wide);
  // Images are channels_last if one operand is.
  const MemoryFormat format = op == ConvolutionOp::forward ? detail::common_format(x, weight)
                              : op == ConvolutionOp::input_gradient
                                  ? detail::common_format(y, weight)
                                  : detail::common_format(x, y);
  const auto made = [&](const Shape& shape, MemoryFormat as) {
    return detail::make_empty(run.name(), shape, as, compute, run.device);
  };
  Tensor result = op == ConvolutionOp::forward ? made(plan.y(), format)
                  : op == ConvolutionOp::input_gradient
                      ? made(plan.x(), format)
                      : made(plan.weight(), MemoryFormat::contiguous);
  if (result.numel() == 0) return result;
  const auto dense = [&](const Tensor& operand, MemoryFormat as) {
    return operand.defined() ? operand.to(compute).contiguous(as) : result;
  };
  const Tensor operands[] = {dense(x, format), dense(weight, MemoryFormat::contiguous),
                             dense(y, format), dense(bias, MemoryFormat::contiguous)};
  run.kernels().convolution({op, compute, plan.sizes, format == MemoryFormat::channels_last,
                             operands[0].impl().data, operands[1].impl().data,
                             operands[2].impl().data,
                             bias.defined() ? operands[3].impl().data : nullptr});
  return result;
}

Tensor y_product(const Run& run, const Plan& plan, const Tensor& x, const Tensor& weight) {
  return product(run, plan, ConvolutionOp::forward, x, weight, {});
}
Tensor x_product(const Run& run, const Plan& plan, const Tensor& y, const Tensor& weight) {
  return product(run, plan, ConvolutionOp::input_gradient, {}, weight, y);
}
Tensor weight_product(const Run& run, const Plan& plan, const Tensor& x, const Tensor& y) {
  return product(run, plan, ConvolutionOp::weight_gradient, x, {}, y);
}

Gradients y_product_gradient(const GradientCall& call, const Plan& plan);
Gradients x_product_gradient(const GradientCall& call, const Plan& plan);
Gradients weight_product_gradient(const GradientCall& call, const Plan& plan);

constexpr auto y_product_op = define<y_product, y_product_gradient>(
    {.name = "convolution", .inputs = {"x", "weight"}, .reads = {input(1), input(0)}});
constexpr auto x_product_op =
    define<x_product, x_product_gradient>({.name = "convolution_input_gradient",
                                           .inputs = {"y", "weight"},
                                           .reads = {input(1), input(0)}});
constexpr auto weight_product_op = define<weight_product, weight_product_gradient>(
    {.name = "convolution_weight_gradient", .inputs = {"x", "y"}, .reads = {input(1), input(0)}});

Gradients y_product_gradient(const GradientCall& call, const Plan& plan) {
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = dispatch(x_product_op, plan, call.grad(), call.input(1));
  if (call.needs(1)) gradients[1] = dispatch(weight_product_op, plan, call.input(0), call.grad());
  return gradients;
}
Gradients x_product_gradient(const GradientCall& call, const Plan& plan) {
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = dispatch(y_product_op, plan, call.grad(), call.input(1));
  if (call.needs(1)) gradients[1] = dispatch(weight_product_op, plan, call.grad(), call.input(0));
  return gradients;
}
Gradients weight_product_gradient(const GradientCall& call, const Plan& plan) {
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = dispatch(x_product_op, plan, call.input(1), call.grad());
  if (call.needs(1)) gradients[1] = dispatch(y_product_op, plan, call.input(0), call.grad());
  return gradients;
}

// ---- conv1d, conv2d, conv_transpose1d and conv_transpose2d

template <class Given>
Tensor convolution_forward(const Run& run, const Given& given, const Tensor& x,
                           const Tensor& weight, const Tensor& bias) {
  check_float(run.name(), "x", x);
  check_float(run.name(), "weight", weight);
  const Options options = options_of(run.name(), given);
  const Plan plan = plan_of(options, x.shape(), weight.shape());
  DType dtype = promote_types(x.dtype(), weight.dtype(), run.name());
  if (bias.defined()) {
    check_float(run.name(), "bias", bias);
    const std::int64_t channels = options.transposed ? plan.x()[1] : plan.y()[1];
    if (bias.ndim() != 1 || bias.size(0) != channels) {
      throw ShapeError(
          message(run.name(), ": bias is ", bias.shape(), ", must be [", channels, "]"));
    }
    dtype = promote_types(dtype, bias.dtype(), run.name());
  }
  const Tensor result = options.transposed
                            ? product(run, plan, ConvolutionOp::input_gradient, {}, weight, x, bias)
                            : product(run, plan, ConvolutionOp::forward, x, weight, {}, bias);
  return result.to(dtype);
}

// The requested gradients, in the dtypes that the kernels compute. x is read only for the gradient
// of weight, and weight only for that of x.
Gradients gradients_of(const Options& options, const Plan& plan, const Tensor& grad_output,
                       const Tensor& x, const Tensor& weight, const WantedGradients& wanted) {
  const backend::Backend& kernels = backend::backend_for(grad_output.device());
  const Tensor wide = grad_output.to(kernels.product_dtype(grad_output.dtype()));
  const Tensor g = wide.ndim() == 4 ? wide.contiguous(detail::format_of(wide)) : wide.contiguous();
  Gradients gradients(3);
  if (wanted[0]) {
    gradients[0] = options.transposed ? dispatch(y_product_op, plan, g, weight)
                                      : dispatch(x_product_op, plan, g, weight);
  }
  if (wanted[1]) {
    gradients[1] = options.transposed ? dispatch(weight_product_op, plan, g, x)
                                      : dispatch(weight_product_op, plan, x, g);
  }
  if (wanted[2]) gradients[2] = options.one_axis ? sum(g, {0, 2}) : sum(g, {0, 2, 3});
  return gradients;
}

template <class Given>
Gradients convolution_gradient(const GradientCall& call, const Given& given) {
  const WantedGradients wanted{call.needs(0), call.needs(1), call.needs(2)};
  const Options options = options_of(call.name(), given);
  return gradients_of(options, plan_of(options, call.shape(0), call.shape(1)), call.grad(),
                      wanted[1] ? call.input(0) : Tensor(), wanted[0] ? call.input(1) : Tensor(),
                      wanted);
}

template <class Given>
consteval auto convolution_op(const char* name) {
  constexpr Reads shapes = shape(0) | shape(1);
  return define<convolution_forward<Given>, convolution_gradient<Given>>(
      {.name = name,
       .inputs = {"x", "weight", "bias"},
       .reads = {shapes | input(1), shapes | input(0), shapes},
       .cast = Cast::down,
       .optional = 1 << 2});
}
constexpr auto conv1d_op = convolution_op<Conv1dAttributes>("conv1d");
constexpr auto conv2d_op = convolution_op<Conv2dAttributes>("conv2d");
constexpr auto conv_transpose1d_op = convolution_op<ConvTranspose1dAttributes>("conv_transpose1d");
constexpr auto conv_transpose2d_op = convolution_op<ConvTranspose2dAttributes>("conv_transpose2d");

template <class Given>
ConvolutionGradients backward(const char* operation, const Tensor& grad_output, const Tensor& x,
                              const Tensor& weight, const Given& given,
                              const WantedGradients& wanted) {
  check_layer_options(operation, given, weight, {});
  if (is_single(x, weight)) {
    return without_batch(
        backward(operation, grad_output.unsqueeze(0), x.unsqueeze(0), weight, given, wanted));
  }
  check_float(operation, "x", x);
  check_float(operation, "weight", weight);
  const Options options = options_of(operation, attributes_of(given));
  const Plan plan = plan_of(options, x.shape(), weight.shape());
  check_grad_output(operation, grad_output, options.transposed ? plan.x() : plan.y());
  const Source operands[] = {x, weight, grad_output};
  common_device(operation, operands);
  const Tensor g = grad_output.to(promote_types(grad_output.dtype(), weight.dtype(), operation));
  const Gradients gradients = gradients_of(options, plan, g, x, weight, wanted);
  const auto as = [](const Tensor& gradient, DType dtype) {
    return gradient.defined() ? gradient.to(dtype) : gradient;
  };
  return {as(gradients[0], x.dtype()), as(gradients[1], weight.dtype()),
          as(gradients[2], weight.dtype())};
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  return convolved(conv1d_op, attributes_of(options), x, weight, bias, options);
}
ConvolutionGradients conv1d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv1dOptions& options,
                                     const WantedGradients& wanted) {
  return backward("conv1d_backward", grad_output, x, weight, options, wanted);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  return convolved(conv2d_op, attributes_of(options), x, weight, bias, options);
}
ConvolutionGradients conv2d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv2dOptions& options,
                                     const WantedGradients& wanted) {
  return backward("conv2d_backward", grad_output, x, weight, options, wanted);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return convolved(conv_transpose2d_op, attributes_of(options), x, weight, bias, options);
}
ConvolutionGradients conv_transpose2d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose2dOptions& options,
                                               const WantedGradients& wanted) {
  return backward("conv_transpose2d_backward", grad_output, x, weight, options, wanted);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  return convolved(conv_transpose1d_op, attributes_of(options), x, weight, bias, options);
}
ConvolutionGradients conv_transpose1d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose1dOptions& options,
                                               const WantedGradients& wanted) {
  return backward("conv_transpose1d_backward", grad_output, x, weight, options, wanted);
}

constinit const OpList ops::convolution_ops =
    listed<conv1d_op, conv2d_op, conv_transpose1d_op, conv_transpose2d_op, y_product_op,
           x_product_op, weight_product_op>;

}  // namespace extensor
