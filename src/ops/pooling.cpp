#include "extensor/pooling.h"

#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::PoolingCall;
using backend::PoolingOp;
using backend::PoolingWindow;
using detail::message;

struct Options {
  const char* operation;
  Size2d kernel, stride, padding, dilation;
  bool ceil_mode, count_include_pad;
};

Options options_of(const char* operation, const Size2d& kernel, const MaxPool2dOptions& given) {
  return {operation,       kernel, given.stride.value_or(kernel), given.padding, given.dilation,
          given.ceil_mode, true};
}
Options options_of(const char* operation, const Size2d& kernel, const AvgPool2dOptions& given) {
  return {operation, kernel,          given.stride.value_or(kernel), given.padding,
          1,         given.ceil_mode, given.count_include_pad};
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

using Windows = std::vector<PoolingWindow>;

// The number of windows along one axis. `length` and the padding, at most half the kernel's int64,
// do not overflow together.
std::int64_t window_count(const Options& options, const Shape& x, std::int64_t length,
                          std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                          std::int64_t dilation) {
  std::int64_t extent, padded;
  if (__builtin_mul_overflow(kernel - 1, dilation, &extent) ||
      __builtin_add_overflow(length, 2 * padding, &padded) || extent >= padded) {
    throw ShapeError(message(options.operation, ": the window is larger than the padded input: x ",
                             x, ", kernel ", kernel, ", padding ", padding, ", dilation ",
                             dilation));
  }
  const std::int64_t room = padded - extent - 1;
  std::int64_t count = room / stride + 1;
  // A window that hangs over the end must still begin inside of x or its leading padding.
  if (options.ceil_mode && room % stride != 0 && room / stride < (length + padding - 1) / stride) {
    ++count;
  }
  return count;
}

Windows windows_of(const Options& options, std::int64_t count, std::int64_t length,
                   std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                   std::int64_t dilation) {
  Windows windows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = i * stride - padding;
    const std::int64_t last = start + (kernel - 1) * dilation;
    PoolingWindow& window = windows[static_cast<std::size_t>(i)];
    window.begin = start >= 0 ? start : start + ((-start - 1) / dilation + 1) * dilation;
    window.end = std::max(window.begin, std::min(length, last + 1));
    window.size = options.count_include_pad ? std::min(start + kernel, length + padding) - start
                                            : window.end - window.begin;
  }
  return windows;
}

struct Plan {
  Shape in, out;
  Windows rows, columns;
  Size2d step = 1;
  bool pairs = false;
};

// The shape of the result, everything checked; the windows only once they are needed.
Shape result_shape(const Options& options, const Shape& x) {
  check_options(options);
  check_image(options.operation, "x", x);
  return {x[0], x[1],
          window_count(options, x, x[2], options.kernel.height, options.stride.height,
                       options.padding.height, options.dilation.height),
          window_count(options, x, x[3], options.kernel.width, options.stride.width,
                       options.padding.width, options.dilation.width)};
}

Plan plan(const Options& options, const Shape& x, const Shape& result) {
  const Size2d pair(2);
  return {x,
          result,
          windows_of(options, result[2], x[2], options.kernel.height, options.stride.height,
                     options.padding.height, options.dilation.height),
          windows_of(options, result[3], x[3], options.kernel.width, options.stride.width,
                     options.padding.width, options.dilation.width),
          options.dilation,
          options.kernel == pair && options.stride == pair && options.padding == Size2d(0) &&
              options.dilation == Size2d(1) && 2 * result[2] <= x[2] && 2 * result[3] <= x[3]};
}

Windows adaptive_windows(std::int64_t count, std::int64_t length) {
  Windows windows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    // i · length / count without the product, which may not fit.
    const std::int64_t whole = length / count, rest = length % count;
    const auto bound = [&](std::int64_t k, std::int64_t more) {
      return k * whole +
             static_cast<std::int64_t>((static_cast<__int128>(k) * rest + more) / count);
    };
    PoolingWindow& window = windows[static_cast<std::size_t>(i)];
    window.begin = bound(i, 0);
    window.end = bound(i + 1, count - 1);
    window.size = window.end - window.begin;
  }
  return windows;
}

Tensor run(const char* operation, PoolingOp op, const Plan& plan, const Tensor& x, const Tensor& y,
           DType dtype) {
  const Tensor& given = x.defined() ? x : y;
  DType wide = given.dtype();
  if (x.defined() && y.defined()) wide = promote_types(x.dtype(), y.dtype(), operation);
  const DType compute = ops::compute_dtype(wide);
  const auto dense = [&](const Tensor& operand) {
    return operand.defined() ? operand.to(compute).contiguous() : Tensor();
  };
  const Tensor dense_x = dense(x), dense_y = dense(y);
  const bool gradient = op == PoolingOp::largest_gradient || op == PoolingOp::average_gradient;
  Tensor result =
      detail::make_empty(operation, gradient ? plan.in : plan.out, compute, given.device());
  if (result.numel() == 0) return result.to(dtype);
  PoolingCall call{op,
                   compute,
                   plan.in[0] * plan.in[1],
                   plan.in[2],
                   plan.in[3],
                   plan.out[2],
                   plan.out[3],
                   plan.rows.data(),
                   plan.columns.data(),
                   plan.step.height,
                   plan.step.width,
                   plan.pairs,
                   x.defined() ? dense_x.impl().data : nullptr,
                   y.defined() ? dense_y.impl().data : nullptr,
                   result.impl().data};
  backend::backend_for(given.device()).pooling(call);
  return result.to(dtype);
}

// The windows are as many as the result is long along an axis, so a result that has no room must
// fail before they are made.
void check_room(const char* operation, const Shape& result, DType dtype) {
  detail::checked_bytes(operation, detail::checked_numel(operation, result), dtype);
}

Tensor forward(PoolingOp op, const Options& options, const Tensor& x) {
  const Shape result = result_shape(options, x.shape());
  ops::check_float(options.operation, "x", x);
  check_room(options.operation, result, x.dtype());
  if (x.numel() == 0) return detail::make_empty(options.operation, result, x.dtype(), x.device());
  return run(options.operation, op, plan(options, x.shape(), result), x, {}, x.dtype());
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Size2d& kernel, const MaxPool2dOptions& options) {
  if (detail::records(x)) {
    return detail::recorded(
        "max_pool2d", [&] { return max_pool2d(x, kernel, options); },
        [kernel, options](const Tensor& g, const Tensor& x) {
          return max_pool2d_backward(g, x, kernel, options);
        },
        x);
  }
  return forward(PoolingOp::largest, options_of("max_pool2d", kernel, options), x);
}

Tensor max_pool2d_backward(const Tensor& grad_output, const Tensor& x, const Size2d& kernel,
                           const MaxPool2dOptions& given) {
  if (detail::records(grad_output, x)) {
    // Which element is the largest does not move with x.
    return detail::recorded(
        "max_pool2d_backward", [&] { return max_pool2d_backward(grad_output, x, kernel, given); },
        [kernel, given](const Tensor& v, const Tensor& g, const Tensor& x) -> detail::Gradients {
          return {max_pool2d_double_backward(v, g, x, kernel, given).first, Tensor()};
        },
        grad_output, x);
  }
  const Options options = options_of("max_pool2d_backward", kernel, given);
  const Shape result = result_shape(options, x.shape());
  ops::check_float(options.operation, "x", x);
  ops::check_grad_output(options.operation, grad_output, result);
  const ops::Source operands[] = {grad_output, x};
  ops::common_device(options.operation, operands);
  if (x.numel() == 0) {
    return detail::make_empty(options.operation, x.shape(), x.dtype(), x.device());
  }
  return run(options.operation, PoolingOp::largest_gradient, plan(options, x.shape(), result), x,
             grad_output, x.dtype());
}

// What each window's winner was given, found as the kernels find it: tap after tap of all windows
// at once, a later one winning if it is larger or NaN.
std::pair<Tensor, Tensor> max_pool2d_double_backward(const Tensor& grad_grad_x,
                                                     const Tensor& grad_output, const Tensor& x,
                                                     const Size2d& kernel,
                                                     const MaxPool2dOptions& given) {
  const Options options = options_of("max_pool2d_double_backward", kernel, given);
  const Shape result = result_shape(options, x.shape());
  ops::check_float(options.operation, "x", x);
  ops::check_grad_output(options.operation, grad_output, result);
  ops::check_gradient(options.operation, "grad_grad_x", grad_grad_x, x.shape());
  if (grad_output.numel() == 0) return {zeros_like(grad_output), zeros_like(x)};
  const auto span = [](std::int64_t count, std::int64_t stride) {
    return (count - 1) * stride + 1;
  };
  const Size2d spans{span(result[2], options.stride.height), span(result[3], options.stride.width)};
  // Behind x as far as the last window reaches, in ceil_mode beyond the padding.
  const auto behind = [](std::int64_t padding, std::int64_t length, std::int64_t reach) {
    return std::max<std::int64_t>(0, reach - length - padding);
  };
  const Padding widths{
      {0, 0},
      {0, 0},
      {options.padding.height,
       behind(options.padding.height, x.size(2),
              spans.height + (kernel.height - 1) * options.dilation.height)},
      {options.padding.width, behind(options.padding.width, x.size(3),
                                     spans.width + (kernel.width - 1) * options.dilation.width)}};
  const Tensor padded = pad(x, widths), gradients = pad(grad_grad_x, widths);
  const Tensor inside = pad(ones({1, 1, x.size(2), x.size(3)}, DType::bool_), widths);
  Tensor best, found, won;
  for (std::int64_t r = 0; r < kernel.height; ++r) {
    for (std::int64_t s = 0; s < kernel.width; ++s) {
      const auto tap = [&](const Tensor& of) {
        const std::int64_t row = r * options.dilation.height, column = s * options.dilation.width;
        return of.slice(2, row, row + spans.height, options.stride.height)
            .slice(3, column, column + spans.width, options.stride.width);
      };
      const Tensor value = tap(padded), gradient = tap(gradients), is_inside = tap(inside);
      if (!best.defined()) {
        best = value;
        found = is_inside;
        won = where(is_inside, gradient, zeros_like(gradient));
        continue;
      }
      const Tensor wins = is_inside & (logical_not(found) | greater(value, best) | isnan(value));
      best = where(wins, value, best);
      won = where(wins, gradient, won);
      found = found | is_inside;
    }
  }
  return {won.to(grad_output.dtype()), zeros_like(x)};
}

Tensor avg_pool2d(const Tensor& x, const Size2d& kernel, const AvgPool2dOptions& options) {
  if (detail::records(x)) {
    return detail::recorded_linear(
        "avg_pool2d", [&] { return avg_pool2d(x, kernel, options); },
        [shape = x.shape(), kernel, options](const Tensor& g) {
          return avg_pool2d_backward(g, shape, kernel, options);
        },
        x);
  }
  return forward(PoolingOp::average, options_of("avg_pool2d", kernel, options), x);
}

Tensor avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Size2d& kernel, const AvgPool2dOptions& given) {
  if (detail::records(grad_output)) {
    return detail::recorded_linear(
        "avg_pool2d_backward",
        [&] { return avg_pool2d_backward(grad_output, input_shape, kernel, given); },
        [kernel, given](const Tensor& v) { return avg_pool2d(v, kernel, given); }, grad_output);
  }
  const Options options = options_of("avg_pool2d_backward", kernel, given);
  const Shape result = result_shape(options, input_shape);
  ops::check_grad_output(options.operation, grad_output, result);
  if (grad_output.numel() == 0) {
    return detail::make_empty(options.operation, input_shape, grad_output.dtype(),
                              grad_output.device());
  }
  return run(options.operation, PoolingOp::average_gradient, plan(options, input_shape, result), {},
             grad_output, grad_output.dtype());
}

namespace {

Plan adaptive_plan(const Shape& x, const Shape& result) {
  return {x, result, adaptive_windows(result[2], x[2]), adaptive_windows(result[3], x[3])};
}

// An image without pixels has no means.
void check_pixels(const char* operation, const Shape& x, const Shape& result) {
  if ((x[2] > 0 && x[3] > 0) || result[2] == 0 || result[3] == 0) return;
  throw ShapeError(message(operation, ": x is ", x, ", has no pixels to average"));
}

}  // namespace

Tensor adaptive_avg_pool2d(const Tensor& x, const Size2d& output) {
  if (detail::records(x)) {
    return detail::recorded_linear(
        "adaptive_avg_pool2d", [&] { return adaptive_avg_pool2d(x, output); },
        [shape = x.shape()](const Tensor& g) { return adaptive_avg_pool2d_backward(g, shape); }, x);
  }
  constexpr const char* operation = "adaptive_avg_pool2d";
  check_at_least(operation, "output", output, 0);
  check_image(operation, "x", x.shape());
  ops::check_float(operation, "x", x);
  const Shape result{x.size(0), x.size(1), output.height, output.width};
  check_pixels(operation, x.shape(), result);
  check_room(operation, result, x.dtype());
  if (x.numel() == 0) return detail::make_empty(operation, result, x.dtype(), x.device());
  return run(operation, PoolingOp::average, adaptive_plan(x.shape(), result), x, {}, x.dtype());
}

Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape) {
  if (detail::records(grad_output)) {
    return detail::recorded_linear(
        "adaptive_avg_pool2d_backward",
        [&] { return adaptive_avg_pool2d_backward(grad_output, input_shape); },
        [shape = grad_output.shape()](const Tensor& v) {
          return adaptive_avg_pool2d(v, {shape[2], shape[3]});
        },
        grad_output);
  }
  constexpr const char* operation = "adaptive_avg_pool2d_backward";
  check_image(operation, "input_shape", input_shape);
  check_image(operation, "grad_output", grad_output.shape());
  const Shape& result = grad_output.shape();
  ops::check_grad_output(operation, grad_output,
                         {input_shape[0], input_shape[1], result[2], result[3]});
  check_pixels(operation, input_shape, result);
  return run(operation, PoolingOp::average_gradient, adaptive_plan(input_shape, result), {},
             grad_output, grad_output.dtype());
}

}  // namespace extensor
