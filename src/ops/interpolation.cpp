#include "extensor/interpolation.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/memory_layout.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::InterpolationAxis;
using backend::InterpolationRule;
using detail::message;
using namespace ops;

// Indices within a row are 32 bits wide in the kernels.
constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();

void check_options(const char* operation, const InterpolateOptions& options) {
  detail::check_option(operation, "mode", options.mode, InterpolateMode::bicubic);
  if (options.size.has_value() == options.scale_factor.has_value()) {
    throw ValueError(message(operation,
                             options.size ? ": both size and scale_factor are given"
                                          : ": neither size nor scale_factor is given",
                             " (give one of them)"));
  }
  if (options.size && (std::min(options.size->height, options.size->width) < 1 ||
                       std::max(options.size->height, options.size->width) > longest)) {
    throw ValueError(message(operation, ": size is ",
                             Dims{options.size->height, options.size->width}, ", must be 1 to ",
                             longest));
  }
  const bool smooth =
      options.mode == InterpolateMode::bilinear || options.mode == InterpolateMode::bicubic;
  if (options.align_corners && !smooth) {
    throw ValueError(
        message(operation, ": align_corners is set, needs the mode bilinear or bicubic"));
  }
}

// The length of the result along one side.
std::int64_t result_length(const char* operation, std::int64_t length, double factor) {
  const double product = std::floor(static_cast<double>(length) * factor);
  if (std::isfinite(factor) && factor > 0 && product >= 1 &&
      product <= static_cast<double>(longest)) {
    return static_cast<std::int64_t>(product);
  }
  throw ValueError(message(operation, ": scale_factor is ", factor, ", makes ", length,
                           " pixels to ", product, " (must be 1 to ", longest, ")"));
}

// Checks options and shape, and returns the shape of the result.
Shape result_shape(const char* operation, const char* argument, const InterpolateOptions& options,
                   const Shape& x) {
  check_options(operation, options);
  if (x.size() != 4) {
    throw ShapeError(message(operation, ": ", argument, " is ", x,
                             ", must have 4 dimensions [batch, channels, height, width]"));
  }
  if (x[2] < 1 || x[3] < 1) {
    throw ShapeError(message(operation, ": ", argument, " is ", x, ", has no pixels"));
  }
  if (std::max(x[2], x[3]) > longest) {
    throw ShapeError(message(operation, ": ", argument, " is ", x,
                             ", height and width must be at most ", longest));
  }
  if (options.size) return {x[0], x[1], options.size->height, options.size->width};
  const Scale2d factor = options.scale_factor.value_or(Scale2d(1));
  return {x[0], x[1], result_length(operation, x[2], factor.height),
          result_length(operation, x[3], factor.width)};
}

InterpolationAxis axis_of(const InterpolateOptions& options, std::int64_t in, std::int64_t out,
                          std::optional<double> factor) {
  constexpr InterpolationRule rules[] = {InterpolationRule::nearest,
                                         InterpolationRule::nearest_exact,
                                         InterpolationRule::linear, InterpolationRule::cubic};
  InterpolationAxis axis{in, out, 0, rules[static_cast<std::size_t>(options.mode)],
                         options.align_corners};
  if (options.align_corners) {
    axis.scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  } else {
    axis.scale = factor ? 1 / *factor : static_cast<double>(in) / static_cast<double>(out);
  }
  return axis;
}

// Resamples x, or with `gradient` distributes x, the gradient of the result.
Tensor resampled(const Run& run, const InterpolateOptions& options, const Shape& in,
                 const Shape& out, bool gradient, const Tensor& x) {
  const auto kernel = run.kernels().interpolate;
  if (kernel == nullptr) {
    throw DeviceError(message(run.name(), ": is not available on ", run.device));
  }
  const DType compute = compute_dtype(x.dtype());
  const MemoryFormat format = detail::format_of(x);
  Tensor result = detail::make_empty(run.name(), gradient ? in : out, format, compute, run.device);
  if (result.numel() == 0) return result.to(x.dtype());
  const Tensor dense = x.to(compute).contiguous(format);
  const auto factor = [&](double Scale2d::*side) -> std::optional<double> {
    if (!options.scale_factor) return {};
    return (*options.scale_factor).*side;
  };
  kernel({gradient, compute, in[0] * in[1], format == MemoryFormat::channels_last ? in[1] : 1,
          axis_of(options, in[2], out[2], factor(&Scale2d::height)),
          axis_of(options, in[3], out[3], factor(&Scale2d::width)), dense.impl().data,
          result.impl().data});
  return result.to(x.dtype());
}

struct InterpolateBackward {
  Shape input_shape;
  InterpolateOptions options;
};

Tensor interpolate_forward(const Run& run, const InterpolateOptions& options, const Tensor& x) {
  const Shape out = result_shape(run.name(), "x", options, x.shape());
  check_float(run.name(), "x", x);
  return resampled(run, options, x.shape(), out, false, x);
}
Tensor interpolate_backward_forward(const Run& run, const InterpolateBackward& attributes,
                                    const Tensor& grad_output) {
  const Shape& in = attributes.input_shape;
  const Shape out = result_shape(run.name(), "input_shape", attributes.options, in);
  check_grad_output(run.name(), grad_output, out);
  return resampled(run, attributes.options, in, out, true, grad_output);
}

Gradients interpolate_gradient(const GradientCall& call, const InterpolateOptions& options) {
  return interpolate_backward(call.grad(), call.shape(), options);
}
Gradients interpolate_backward_gradient(const GradientCall& call,
                                        const InterpolateBackward& attributes) {
  return interpolate(call.grad(), attributes.options);
}

constexpr auto interpolate_op = define<interpolate_forward, interpolate_gradient>(
    {.name = "interpolate", .inputs = {"x"}, .reads = {shape()}});
constexpr auto interpolate_backward_op =
    define<interpolate_backward_forward, interpolate_backward_gradient>(
        {.name = "interpolate_backward", .inputs = {"grad_output"}});

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  return dispatch(interpolate_op, options, x);
}
Tensor interpolate_backward(const Tensor& grad_output, const Shape& input_shape,
                            const InterpolateOptions& options) {
  return dispatch(interpolate_backward_op, {input_shape, options}, grad_output);
}

// ---- pixel shuffle

namespace {

// The sizes of x around its last three axes, after checking rank and factor.
struct ShuffledAxes {
  Shape leading;
  std::int64_t channels, height, width;
  Dims axes;  // the first axes, in place

  ShuffledAxes(const char* operation, const Tensor& x, std::int64_t factor) {
    if (factor < 1 || factor > longest) {
      throw ValueError(message(operation, ": factor is ", factor, ", must be 1 to ", longest));
    }
    if (x.ndim() < 3) {
      throw ShapeError(message(operation, ": x is ", x.shape(),
                               ", must have 3 or more dimensions [..., channels, height, width]"));
    }
    for (std::int64_t d = 0; d < x.ndim() - 3; ++d) {
      leading.push_back(x.size(d));
      axes.push_back(d);
    }
    channels = x.size(-3);
    height = x.size(-2);
    width = x.size(-1);
  }

  Shape shape(std::initializer_list<std::int64_t> last) const {
    Shape result = leading;
    for (std::int64_t size : last) result.push_back(size);
    return result;
  }
  Dims order(std::initializer_list<std::int64_t> last) const {
    Dims result = axes;
    for (std::int64_t axis : last) result.push_back(static_cast<std::int64_t>(axes.size()) + axis);
    return result;
  }
};

}  // namespace

Tensor pixel_shuffle(const Tensor& x, StrictInt factor) {
  const ShuffledAxes s("pixel_shuffle", x, factor);
  const std::int64_t square = factor * factor;
  if (s.channels % square != 0) {
    throw ShapeError(message("pixel_shuffle: x is ", x.shape(), ", factor² = ", square,
                             " must divide the ", s.channels, " channels"));
  }
  const std::int64_t channels = s.channels / square;
  return x.reshape(s.shape({channels, factor, factor, s.height, s.width}))
      .transpose(s.order({0, 3, 1, 4, 2}))
      .reshape(s.shape({channels, s.height * factor, s.width * factor}));
}

Tensor pixel_unshuffle(const Tensor& x, StrictInt factor) {
  const ShuffledAxes s("pixel_unshuffle", x, factor);
  if (s.height % factor != 0 || s.width % factor != 0) {
    throw ShapeError(message("pixel_unshuffle: x is ", x.shape(), ", factor ", factor,
                             " must divide height and width"));
  }
  const std::int64_t height = s.height / factor, width = s.width / factor;
  return x.reshape(s.shape({s.channels, height, factor, width, factor}))
      .transpose(s.order({0, 2, 4, 1, 3}))
      .reshape(s.shape({s.channels * factor * factor, height, width}));
}

constinit const OpList ops::interpolation_ops = listed<interpolate_op, interpolate_backward_op>;

}  // namespace extensor
