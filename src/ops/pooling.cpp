#include "extensor/pooling.h"

#include <vector>

#include "core/check.h"
#include "core/memory_layout.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::PoolingAxis;
using backend::PoolingOp;
using detail::message;
using namespace ops;

// ---- windows

// The attributes of max_pool2d and avg_pool2d.
template <class Given>
struct Pool {
  Size2d kernel;
  Given options;
};
using MaxPool = Pool<MaxPool2dOptions>;
using AvgPool = Pool<AvgPool2dOptions>;

// The options of both in a common form.
struct Options {
  const char* operation;
  Size2d kernel, stride, padding, dilation;
  bool ceil_mode, count_include_pad;
};

Options options_of(const char* operation, const MaxPool& pool) {
  const MaxPool2dOptions& given = pool.options;
  return {operation,     pool.kernel,    given.stride.value_or(pool.kernel),
          given.padding, given.dilation, given.ceil_mode,
          true};
}
Options options_of(const char* operation, const AvgPool& pool) {
  const AvgPool2dOptions& given = pool.options;
  return {operation,
          pool.kernel,
          given.stride.value_or(pool.kernel),
          given.padding,
          1,
          given.ceil_mode,
          given.count_include_pad};
}

void check_at_least(const char* operation, const char* what, const Size2d& given,
                    std::int64_t least) {
  if (given.height >= least && given.width >= least) return;
  throw ValueError(message(operation, ": ", what, " is ", Dims{given.height, given.width},
                           ", must be ", least, " or more"));
}

void check_image(const char* operation, const char* argument, const Shape& shape) {
  if (shape.size() == 4) return;
  throw ShapeError(message(operation, ": ", argument, " is ", shape,
                           ", must have 4 dimensions [batch, channels, height, width]"));
}

void check_options(const Options& options) {
  check_at_least(options.operation, "kernel", options.kernel, 1);
  check_at_least(options.operation, "stride", options.stride, 1);
  check_at_least(options.operation, "dilation", options.dilation, 1);
  check_at_least(options.operation, "padding", options.padding, 0);
  if (options.padding.height > options.kernel.height / 2 ||
      options.padding.width > options.kernel.width / 2) {
    throw ValueError(message(
        options.operation, ": padding is ", Dims{options.padding.height, options.padding.width},
        ", must be at most half the kernel ", Dims{options.kernel.height, options.kernel.width}));
  }
}

// The number of windows along one side. 2 · padding cannot overflow, since the padding is at most
// half the kernel.
std::int64_t window_count(const Options& options, const Shape& x, std::int64_t length,
                          std::int64_t Size2d::*side) {
  const std::int64_t kernel = options.kernel.*side, stride = options.stride.*side,
                     padding = options.padding.*side, dilation = options.dilation.*side;
  std::int64_t extent, padded;
  if (__builtin_mul_overflow(kernel - 1, dilation, &extent) ||
      __builtin_add_overflow(length, 2 * padding, &padded) || extent >= padded) {
    throw ShapeError(message(options.operation, ": the window is larger than the padded input: x ",
                             x, ", kernel ", kernel, ", padding ", padding, ", dilation ",
                             dilation));
  }
  const std::int64_t room = padded - extent - 1;
  std::int64_t count = room / stride + 1;
  // In ceil_mode, the last window must still begin inside x or its leading padding.
  if (options.ceil_mode && room % stride != 0 && room / stride < (length + padding - 1) / stride) {
    ++count;
  }
  return count;
}

// Checks options and shape, and returns the shape of the result.
Shape result_shape(const Options& options, const Shape& x) {
  check_options(options);
  check_image(options.operation, "x", x);
  return {x[0], x[1], window_count(options, x, x[2], &Size2d::height),
          window_count(options, x, x[3], &Size2d::width)};
}

struct Plan {
  PoolingAxis rows, columns;
  Size2d step = 1;
  bool pairs = false;
};

PoolingAxis axis_of(const Options& options, std::int64_t count, std::int64_t length,
                    std::int64_t Size2d::*side) {
  return {.length = length,
          .count = count,
          .kernel = options.kernel.*side,
          .stride = options.stride.*side,
          .padding = options.padding.*side,
          .dilation = options.dilation.*side,
          .count_padding = options.count_include_pad};
}

Plan plan_of(const Options& options, const Shape& x, const Shape& result) {
  const Size2d pair(2);
  return {axis_of(options, result[2], x[2], &Size2d::height),
          axis_of(options, result[3], x[3], &Size2d::width), options.dilation,
          options.kernel == pair && options.stride == pair && options.padding == Size2d(0) &&
              options.dilation == Size2d(1) && 2 * result[2] <= x[2] && 2 * result[3] <= x[3]};
}

Plan adaptive_plan(const Shape& x, const Shape& result) {
  return {{.length = x[2], .count = result[2]}, {.length = x[3], .count = result[3]}};
}

// ---- kernels

// The result in the dtype of x, or of y if x is undefined, and in its memory format unless one is
// given.
template <class MakePlan>
Tensor pooled(const Run& run, PoolingOp op, const Shape& in, const Shape& out,
              const MakePlan& make_plan, const Tensor& x, const Tensor& y = {},
              std::optional<MemoryFormat> given_format = {}) {
  const DType dtype = x.defined() ? x.dtype() : y.dtype();
  const DType compute = run.kernels().product_dtype(
      y.defined() ? promote_types(dtype, y.dtype(), run.name()) : dtype);
  const bool gradient = op == PoolingOp::largest_gradient || op == PoolingOp::average_gradient;
  const MemoryFormat format = given_format ? *given_format : detail::format_of(x.defined() ? x : y);
  Tensor result = detail::make_empty(run.name(), gradient ? in : out, format, compute, run.device);
  if (result.numel() == 0) return result.to(dtype);
  const auto dense = [&](const Tensor& operand) {
    return operand.defined() ? operand.to(compute).contiguous(format) : Tensor();
  };
  const Tensor dense_x = dense(x), dense_y = dense(y);
  const Plan plan = make_plan();
  run.kernels().pooling({op, compute, in[0] * in[1], in[2], in[3], out[2], out[3],
                         format == MemoryFormat::channels_last ? in[1] : 1, plan.rows, plan.columns,
                         plan.step.height, plan.step.width, plan.pairs,
                         x.defined() ? dense_x.impl().data : nullptr,
                         y.defined() ? dense_y.impl().data : nullptr, result.impl().data});
  return result.to(dtype);
}

template <PoolingOp op, class Given>
Tensor pool_forward(const Run& run, const Pool<Given>& pool, const Tensor& x) {
  const Options options = options_of(run.name(), pool);
  const Shape out = result_shape(options, x.shape());
  check_float(run.name(), "x", x);
  return pooled(
      run, op, x.shape(), out, [&] { return plan_of(options, x.shape(), out); }, x);
}

// ---- max_pool2d

Tensor max_pool2d_backward_forward(const Run& run, const MaxPool& pool, const Tensor& grad_output,
                                   const Tensor& x) {
  const Options options = options_of(run.name(), pool);
  const Shape out = result_shape(options, x.shape());
  check_float(run.name(), "x", x);
  check_grad_output(run.name(), grad_output, out);
  return pooled(
      run, PoolingOp::largest_gradient, x.shape(), out,
      [&] { return plan_of(options, x.shape(), out); }, x, grad_output);
}

Gradients max_pool2d_gradient(const GradientCall& call, const MaxPool& pool) {
  return max_pool2d_backward(call.grad(), call.input(0), pool.kernel, pool.options);
}

// The elements of v at the maximum of each window. Finds it in the order of the kernels: one tap of
// all windows at a time, where a later tap wins if it is larger or NaN.
Tensor at_winners(const Options& options, const Tensor& x, const Tensor& v) {
  const Shape out = result_shape(options, x.shape());
  const auto span = [](std::int64_t count, std::int64_t stride) {
    return (count - 1) * stride + 1;
  };
  const Size2d spans{span(out[2], options.stride.height), span(out[3], options.stride.width)};
  // Pads after x up to the end of the last window, which in ceil_mode exceeds the padding.
  const auto padding = [&](std::int64_t length, std::int64_t Size2d::*side) {
    const std::int64_t reach = spans.*side + (options.kernel.*side - 1) * (options.dilation.*side);
    const std::int64_t before = options.padding.*side;
    return std::pair(before, std::max<std::int64_t>(0, reach - length - before));
  };
  const Padding widths{
      {0, 0}, {0, 0}, padding(x.size(2), &Size2d::height), padding(x.size(3), &Size2d::width)};
  const Tensor padded = pad(x, widths), gradients = pad(v, widths);
  const Tensor inside = pad(ones({1, 1, x.size(2), x.size(3)}, {DType::bool_, x.device()}), widths);
  Tensor best = zeros(out, {x.dtype(), x.device()}), won = zeros(out, {v.dtype(), x.device()});
  Tensor found = zeros({1, 1, out[2], out[3]}, {DType::bool_, x.device()});
  for (std::int64_t r = 0; r < options.kernel.height; ++r) {
    for (std::int64_t s = 0; s < options.kernel.width; ++s) {
      const auto tap = [&](const Tensor& of) {
        const std::int64_t row = r * options.dilation.height, column = s * options.dilation.width;
        return of.slice(2, row, row + spans.height, options.stride.height)
            .slice(3, column, column + spans.width, options.stride.width);
      };
      const Tensor value = tap(padded), is_inside = tap(inside);
      const Tensor wins = is_inside & (logical_not(found) | greater(value, best) | isnan(value));
      best = where(wins, value, best);
      won = where(wins, tap(gradients), won);
      found = found | is_inside;
    }
  }
  return won;
}

// The position of the maximum is piecewise constant in x, so only grad_output has a gradient.
Gradients max_pool2d_backward_gradient(const GradientCall& call, const MaxPool& pool) {
  if (!call.needs(0)) return Tensor();
  return at_winners(options_of(call.name(), pool), call.input(1).detach(), call.grad());
}

constexpr auto max_pool2d_op =
    define<pool_forward<PoolingOp::largest, MaxPool2dOptions>, max_pool2d_gradient>(
        {.name = "max_pool2d", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto max_pool2d_backward_op =
    define<max_pool2d_backward_forward, max_pool2d_backward_gradient>(
        {.name = "max_pool2d_backward",
         .inputs = {"grad_output", "x"},
         .reads = {input(1), nothing}});

// ---- avg_pool2d

struct AvgPoolBackward {
  Shape input_shape;
  AvgPool pool;
};

Tensor avg_pool2d_backward_forward(const Run& run, const AvgPoolBackward& attributes,
                                   const Tensor& grad_output) {
  const Options options = options_of(run.name(), attributes.pool);
  const Shape& in = attributes.input_shape;
  const Shape out = result_shape(options, in);
  check_grad_output(run.name(), grad_output, out);
  return pooled(
      run, PoolingOp::average_gradient, in, out, [&] { return plan_of(options, in, out); }, {},
      grad_output);
}

Gradients avg_pool2d_gradient(const GradientCall& call, const AvgPool& pool) {
  return avg_pool2d_backward(call.grad(), call.shape(), pool.kernel, pool.options);
}
Gradients avg_pool2d_backward_gradient(const GradientCall& call, const AvgPoolBackward& backward) {
  return avg_pool2d(call.grad(), backward.pool.kernel, backward.pool.options);
}

constexpr auto avg_pool2d_op =
    define<pool_forward<PoolingOp::average, AvgPool2dOptions>, avg_pool2d_gradient>(
        {.name = "avg_pool2d", .inputs = {"x"}, .reads = {shape()}});
constexpr auto avg_pool2d_backward_op =
    define<avg_pool2d_backward_forward, avg_pool2d_backward_gradient>(
        {.name = "avg_pool2d_backward", .inputs = {"grad_output"}});

// ---- adaptive_avg_pool2d

// The format of x is an attribute for the gradient: if there is one pixel per channel, as after
// pooling over a whole image, strides do not identify it.
struct OutputSize {
  Size2d output;
  MemoryFormat format;
};
struct InputShape {
  Shape input_shape;
  MemoryFormat format;
};

// Throws if an image has no pixels and thus no means.
void check_pixels(const char* operation, const Shape& x, const Shape& result) {
  if ((x[2] > 0 && x[3] > 0) || result[2] == 0 || result[3] == 0) return;
  throw ShapeError(message(operation, ": x is ", x, ", has no pixels to average"));
}

Tensor adaptive_forward(const Run& run, const OutputSize& attributes, const Tensor& x) {
  const Size2d& output = attributes.output;
  check_at_least(run.name(), "output", output, 0);
  check_image(run.name(), "x", x.shape());
  check_float(run.name(), "x", x);
  const Shape out{x.size(0), x.size(1), output.height, output.width};
  check_pixels(run.name(), x.shape(), out);
  return pooled(
      run, PoolingOp::average, x.shape(), out, [&] { return adaptive_plan(x.shape(), out); }, x);
}

Tensor adaptive_backward(const Run& run, const InputShape& attributes, const Tensor& grad_output) {
  const Shape &in = attributes.input_shape, &out = grad_output.shape();
  check_image(run.name(), "input_shape", in);
  check_image(run.name(), "grad_output", out);
  check_grad_output(run.name(), grad_output, {in[0], in[1], out[2], out[3]});
  check_pixels(run.name(), in, out);
  return pooled(
      run, PoolingOp::average_gradient, in, out, [&] { return adaptive_plan(in, out); }, {},
      grad_output, attributes.format);
}

Gradients adaptive_gradient(const GradientCall& call, const OutputSize& attributes);
Gradients adaptive_backward_gradient(const GradientCall& call, const InputShape&) {
  return adaptive_avg_pool2d(call.grad(), {call.shape()[2], call.shape()[3]});
}

constexpr auto adaptive_avg_pool2d_op = define<adaptive_forward, adaptive_gradient>(
    {.name = "adaptive_avg_pool2d", .inputs = {"x"}, .reads = {shape()}});
constexpr auto adaptive_avg_pool2d_backward_op =
    define<adaptive_backward, adaptive_backward_gradient>(
        {.name = "adaptive_avg_pool2d_backward", .inputs = {"grad_output"}, .reads = {shape()}});

Gradients adaptive_gradient(const GradientCall& call, const OutputSize& attributes) {
  return dispatch(adaptive_avg_pool2d_backward_op, {call.shape(), attributes.format}, call.grad());
}

MemoryFormat format_or_contiguous(const Tensor& x) {
  return x.defined() ? detail::format_of(x) : MemoryFormat::contiguous;
}

}  // namespace

namespace {

// Whether the shape is that of one image instead of a batch of them.
bool is_single(const Shape& shape) { return shape.size() == 3; }
bool is_single(const Tensor& x) { return x.defined() && is_single(x.shape()); }
Shape with_batch(Shape shape) {
  shape.insert(0, 1);
  return shape;
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Size2d& kernel, const MaxPool2dOptions& options) {
  if (is_single(x)) return max_pool2d(x.unsqueeze(0), kernel, options).squeeze(0);
  return dispatch(max_pool2d_op, {kernel, options}, x);
}
Tensor max_pool2d_backward(const Tensor& grad_output, const Tensor& x, const Size2d& kernel,
                           const MaxPool2dOptions& options) {
  if (is_single(x)) {
    return max_pool2d_backward(grad_output.unsqueeze(0), x.unsqueeze(0), kernel, options)
        .squeeze(0);
  }
  return dispatch(max_pool2d_backward_op, {kernel, options}, grad_output, x);
}

Tensor avg_pool2d(const Tensor& x, const Size2d& kernel, const AvgPool2dOptions& options) {
  if (is_single(x)) return avg_pool2d(x.unsqueeze(0), kernel, options).squeeze(0);
  return dispatch(avg_pool2d_op, {kernel, options}, x);
}
Tensor avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Size2d& kernel, const AvgPool2dOptions& options) {
  if (is_single(input_shape)) {
    return avg_pool2d_backward(grad_output.unsqueeze(0), with_batch(input_shape), kernel, options)
        .squeeze(0);
  }
  return dispatch(avg_pool2d_backward_op, {input_shape, {kernel, options}}, grad_output);
}

Tensor adaptive_avg_pool2d(const Tensor& x, const Size2d& output) {
  if (is_single(x)) return adaptive_avg_pool2d(x.unsqueeze(0), output).squeeze(0);
  return dispatch(adaptive_avg_pool2d_op, {output, format_or_contiguous(x)}, x);
}
Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape) {
  if (is_single(input_shape)) {
    return adaptive_avg_pool2d_backward(grad_output.unsqueeze(0), with_batch(input_shape))
        .squeeze(0);
  }
  return dispatch(adaptive_avg_pool2d_backward_op, {input_shape, format_or_contiguous(grad_output)},
                  grad_output);
}

constinit const OpList ops::pooling_ops =
    listed<max_pool2d_op, max_pool2d_backward_op, avg_pool2d_op, avg_pool2d_backward_op,
           adaptive_avg_pool2d_op, adaptive_avg_pool2d_backward_op>;

}  // namespace extensor
