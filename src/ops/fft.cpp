// Fourier transforms. Every function is a series of transforms along one axis, which are four ops.
// Each is linear, and its gradient is another one of them: the opposite direction with the opposite
// norm, fitted to the axis of the input.
#include "extensor/fft.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "extensor/complex.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/registry.h"

namespace extensor {

namespace fft {

namespace {

using backend::FftCall;
using backend::FftKind;
using detail::message;
using namespace ops;

struct FftAttributes {
  std::int64_t n;
  std::int64_t axis;  // counted from 0
  FftNorm norm;
};

std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

// ---- one axis

double scale_of(const FftAttributes& attributes, bool inverse) {
  const auto n = static_cast<double>(attributes.n);
  if (attributes.norm == FftNorm::ortho) return 1 / std::sqrt(n);
  return inverse == (attributes.norm == FftNorm::backward) ? 1 / n : 1;
}

Tensor transformed(const Run& run, FftKind kind, bool inverse, const FftAttributes& attributes,
                   const Tensor& x) {
  if (run.kernels().fft == nullptr) {
    throw DeviceError(message(run.name(), ": x is on ", run.device,
                              ", which has no Fourier transforms (allowed: on the CPU; copy x "
                              "there)"));
  }
  const auto axis = at(attributes.axis);
  Shape shape = x.shape();
  shape[axis] = kind == FftKind::real_to_complex ? attributes.n / 2 + 1 : attributes.n;
  const DType part = real_dtype(x.dtype());
  Tensor y = run.empty(shape, kind == FftKind::complex_to_real ? part : complex_dtype(part));
  if (y.numel() == 0) return y;
  const Tensor dense = x.contiguous();
  FftCall call{.kind = kind,
               .is_double = part == DType::float64,
               .inverse = inverse,
               .outer = 1,
               .inner = 1,
               .n = attributes.n,
               .in_length = x.shape()[axis],
               .scale = scale_of(attributes, inverse),
               .in = detail::dense_data(dense),
               .out = y.impl().data};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < axis) call.outer *= shape[d];
    if (d > axis) call.inner *= shape[d];
  }
  try {
    run.kernels().fft(call);
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(
        message(run.name(), ": no memory for the factors of transforms of length ", call.n));
  }
  return y;
}

template <bool inverse>
Tensor complex_forward(const Run& run, const FftAttributes& attributes, const Tensor& x) {
  return transformed(run, FftKind::complex_to_complex, inverse, attributes, x);
}
Tensor rfft_forward(const Run& run, const FftAttributes& attributes, const Tensor& x) {
  return transformed(run, FftKind::real_to_complex, false, attributes, x);
}
Tensor irfft_forward(const Run& run, const FftAttributes& attributes, const Tensor& x) {
  return transformed(run, FftKind::complex_to_real, true, attributes, x);
}

Gradients fft_gradient(const GradientCall& call, const FftAttributes& attributes) {
  return fft_backward(call.grad(), call.shape(), attributes.n, attributes.axis, attributes.norm);
}
Gradients ifft_gradient(const GradientCall& call, const FftAttributes& attributes) {
  return ifft_backward(call.grad(), call.shape(), attributes.n, attributes.axis, attributes.norm);
}
Gradients rfft_gradient(const GradientCall& call, const FftAttributes& attributes) {
  return rfft_backward(call.grad(), call.shape(), attributes.n, attributes.axis, attributes.norm);
}
Gradients irfft_gradient(const GradientCall& call, const FftAttributes& attributes) {
  return irfft_backward(call.grad(), call.shape(), attributes.n, attributes.axis, attributes.norm);
}

constexpr auto fft_op = define<complex_forward<false>, fft_gradient>(
    {.name = "fft", .inputs = {"x"}, .reads = {shape()}, .complex = true});
constexpr auto ifft_op = define<complex_forward<true>, ifft_gradient>(
    {.name = "ifft", .inputs = {"x"}, .reads = {shape()}, .complex = true});
constexpr auto rfft_op =
    define<rfft_forward, rfft_gradient>({.name = "rfft", .inputs = {"x"}, .reads = {shape()}});
constexpr auto irfft_op = define<irfft_forward, irfft_gradient>(
    {.name = "irfft", .inputs = {"x"}, .reads = {shape()}, .complex = true});

// ---- series of axes

enum class Kind : std::uint8_t { fft, ifft, rfft, irfft };

struct Step {
  Kind kind;
  FftAttributes attributes;
};

Tensor apply(const Step& step, const Tensor& x) {
  switch (step.kind) {
    case Kind::fft:
      return dispatch(fft_op, step.attributes, x);
    case Kind::ifft:
      return dispatch(ifft_op, step.attributes, x);
    case Kind::rfft:
      return dispatch(rfft_op, step.attributes, x);
    default:
      return dispatch(irfft_op, step.attributes, x);
  }
}

FftNorm opposite(FftNorm norm) {
  switch (norm) {
    case FftNorm::backward:
      return FftNorm::forward;
    case FftNorm::forward:
      return FftNorm::backward;
    default:
      return norm;
  }
}

// Numbers beyond `size` are cut off, and missing ones are 0.
Tensor fitted(const Tensor& x, std::int64_t axis, std::int64_t size) {
  const std::int64_t missing = size - x.shape()[at(axis)];
  if (missing == 0) return x;
  if (missing < 0) return x.slice(axis, 0, size);
  Padding widths(x.shape().size(), {0, 0});
  widths[at(axis)].second = missing;
  return pad(x, widths);
}

// Multiplies the numbers of half a spectrum that stand for two, which are all but those at 0 and at
// n / 2 of an even n.
Tensor weighted_pairs(const Tensor& spectrum, const FftAttributes& attributes, double weight) {
  const std::int64_t count = attributes.n / 2 + 1;
  std::vector<double> weights(at(count), weight);
  weights.front() = 1;
  if (attributes.n % 2 == 0) weights.back() = 1;
  Shape shape(spectrum.shape().size(), 1);
  shape[at(attributes.axis)] = count;
  return multiply(spectrum,
                  from_data(weights, shape).to(real_dtype(spectrum.dtype())).to(spectrum.device()));
}

// The gradient of the input of a step. <g, F x> = <F* g, x> for real parts of products: F* is the
// other direction without the norm's factor or with it, as F. A number of half a spectrum that
// stands for two counts once in the result of rfft, but twice in that of irfft.
Tensor adjoint(const Step& step, const Tensor& grad_output, std::int64_t input_size) {
  FftAttributes attributes = step.attributes;
  attributes.norm = opposite(attributes.norm);
  Tensor grad;
  switch (step.kind) {
    case Kind::fft:
      grad = apply({Kind::ifft, attributes}, grad_output);
      break;
    case Kind::ifft:
      grad = apply({Kind::fft, attributes}, grad_output);
      break;
    case Kind::rfft:
      grad = apply({Kind::irfft, attributes}, weighted_pairs(grad_output, attributes, 0.5));
      break;
    case Kind::irfft:
      grad = weighted_pairs(apply({Kind::rfft, attributes}, grad_output), attributes, 2);
      break;
  }
  return fitted(grad, attributes.axis, input_size);
}

bool is_result_real(Kind kind) { return kind == Kind::irfft; }

// ---- checks

void check_input(const char* operation, const char* argument, const Tensor& x, bool real) {
  const DType dtype = x.dtype();
  if (dtype == DType::float32 || dtype == DType::float64 || (!real && is_complex(dtype))) return;
  throw DTypeError(message(operation, ": ", argument, " has dtype ", dtype,
                           real ? " (allowed: float32, float64)"
                                : " (allowed: float32, float64, complex64, complex128)"));
}

Tensor as_complex(const Tensor& x) { return x.to(complex_dtype(x.dtype())); }

// x as the input of the first of the steps.
Tensor as_input(Kind kind, const Tensor& x) { return kind == Kind::rfft ? x : as_complex(x); }

void check_rank(const char* operation, const Shape& shape) {
  if (!shape.empty()) return;
  throw ShapeError(message(operation, ": x is [], must have at least one dimension"));
}

void check_length(const char* operation, const char* argument, std::int64_t n, std::int64_t axis,
                  const Shape& shape) {
  if (n >= 1) return;
  throw ValueError(message(operation, ": ", argument, " is ", n, " for axis ", axis, " of ", shape,
                           " (allowed: at least 1)"));
}

// The length of a transform for which none was named.
std::int64_t default_length(Kind kind, std::int64_t size) {
  return kind == Kind::irfft ? 2 * (size - 1) : size;
}

Step checked_step(const char* operation, Kind kind, const Shape& shape, std::optional<StrictInt> n,
                  std::int64_t axis, FftNorm norm) {
  detail::check_option(operation, "norm", norm, FftNorm::forward);
  check_rank(operation, shape);
  const std::int64_t place =
      detail::normalize_axis(operation, axis, static_cast<std::int64_t>(shape.size()));
  const std::int64_t length = n ? std::int64_t{*n} : default_length(kind, shape[at(place)]);
  check_length(operation, "n", length, axis, shape);
  return {kind, {length, place, norm}};
}

// The steps in the order in which they run; `kind` is that of the last of the axes.
std::vector<Step> checked_steps(const char* operation, Kind kind, const Shape& shape,
                                const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  detail::check_option(operation, "norm", norm, FftNorm::forward);
  check_rank(operation, shape);
  const auto rank = static_cast<std::int64_t>(shape.size());
  std::vector<std::int64_t> places;
  if (axes.all()) {
    const std::int64_t count = s ? static_cast<std::int64_t>(s->size()) : rank;
    for (std::int64_t axis = rank - count; axis < rank; ++axis) places.push_back(axis);
  } else {
    for (const std::int64_t axis : axes.list()) {
      places.push_back(detail::normalize_axis(operation, axis, rank));
    }
  }
  const bool too_many = axes.all() && static_cast<std::int64_t>(places.size()) > rank;
  if (too_many || (s && s->size() != places.size())) {
    throw ValueError(message(operation, ": s is ", *s, " for ",
                             too_many ? rank : static_cast<std::int64_t>(places.size()),
                             " axes (allowed: one length for each axis)"));
  }
  const bool halves = kind == Kind::rfft || kind == Kind::irfft;
  if (halves && places.empty()) {
    throw ValueError(message(operation, ": axes is [] (allowed: at least one axis)"));
  }
  std::vector<Step> steps;
  for (std::size_t i = 0; i < places.size(); ++i) {
    Kind own = kind;
    if (halves && i + 1 < places.size()) own = kind == Kind::rfft ? Kind::fft : Kind::ifft;
    const std::int64_t length = s ? (*s)[i] : default_length(own, shape[at(places[i])]);
    check_length(operation, s ? "s" : "n", length, places[i], shape);
    steps.push_back({own, {length, places[i], norm}});
  }
  if (kind != Kind::irfft) std::reverse(steps.begin(), steps.end());
  return steps;
}

Tensor transform(const char* operation, const std::vector<Step>& steps, const Tensor& x) {
  if (steps.empty()) return as_complex(x);
  check_input(operation, "x", x, steps[0].kind == Kind::rfft);
  Tensor y = as_input(steps[0].kind, x);
  for (const Step& step : steps) y = apply(step, y);
  return y;
}

Tensor transform_backward(const char* operation, const std::vector<Step>& steps,
                          const Tensor& grad_output, const Shape& input_shape) {
  Shape shape = input_shape;
  std::vector<std::int64_t> sizes;  // of the axis of each step, before it
  for (const Step& step : steps) {
    std::int64_t& size = shape[at(step.attributes.axis)];
    sizes.push_back(size);
    size = step.kind == Kind::rfft ? step.attributes.n / 2 + 1 : step.attributes.n;
  }
  const bool real = !steps.empty() && is_result_real(steps.back().kind);
  check_input(operation, "grad_output", grad_output, real);
  if (grad_output.shape() != shape) {
    throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(), ", must be ",
                             shape, " for x of ", input_shape));
  }
  Tensor grad = real ? grad_output : as_complex(grad_output);
  for (std::size_t i = steps.size(); i-- > 0;) grad = adjoint(steps[i], grad, sizes[i]);
  return grad;
}

Tensor along_axis(const char* operation, Kind kind, const Tensor& x, std::optional<StrictInt> n,
                  StrictInt axis, FftNorm norm) {
  check_input(operation, "x", x, kind == Kind::rfft);
  return transform(operation, {checked_step(operation, kind, x.shape(), n, axis, norm)}, x);
}
Tensor along_axis_backward(const char* operation, Kind kind, const Tensor& grad_output,
                           const Shape& shape, std::optional<StrictInt> n, StrictInt axis,
                           FftNorm norm) {
  return transform_backward(operation, {checked_step(operation, kind, shape, n, axis, norm)},
                            grad_output, shape);
}
Tensor along_axes(const char* operation, Kind kind, const Tensor& x, const std::optional<Shape>& s,
                  const Axes& axes, FftNorm norm) {
  check_input(operation, "x", x, kind == Kind::rfft);
  return transform(operation, checked_steps(operation, kind, x.shape(), s, axes, norm), x);
}
Tensor along_axes_backward(const char* operation, Kind kind, const Tensor& grad_output,
                           const Shape& shape, const std::optional<Shape>& s, const Axes& axes,
                           FftNorm norm) {
  return transform_backward(operation, checked_steps(operation, kind, shape, s, axes, norm),
                            grad_output, shape);
}

}  // namespace

// ---- complex numbers

Tensor fft(const Tensor& x, std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis("fft", Kind::fft, x, n, axis, norm);
}
Tensor fft_backward(const Tensor& grad_output, const Shape& input_shape, std::optional<StrictInt> n,
                    StrictInt axis, FftNorm norm) {
  return along_axis_backward("fft_backward", Kind::fft, grad_output, input_shape, n, axis, norm);
}

Tensor ifft(const Tensor& x, std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis("ifft", Kind::ifft, x, n, axis, norm);
}
Tensor ifft_backward(const Tensor& grad_output, const Shape& input_shape,
                     std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis_backward("ifft_backward", Kind::ifft, grad_output, input_shape, n, axis, norm);
}

Tensor fftn(const Tensor& x, const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes("fftn", Kind::fft, x, s, axes, norm);
}
Tensor fftn_backward(const Tensor& grad_output, const Shape& input_shape,
                     const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes_backward("fftn_backward", Kind::fft, grad_output, input_shape, s, axes, norm);
}

Tensor ifftn(const Tensor& x, const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes("ifftn", Kind::ifft, x, s, axes, norm);
}
Tensor ifftn_backward(const Tensor& grad_output, const Shape& input_shape,
                      const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes_backward("ifftn_backward", Kind::ifft, grad_output, input_shape, s, axes, norm);
}

// ---- real numbers

Tensor rfft(const Tensor& x, std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis("rfft", Kind::rfft, x, n, axis, norm);
}
Tensor rfft_backward(const Tensor& grad_output, const Shape& input_shape,
                     std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis_backward("rfft_backward", Kind::rfft, grad_output, input_shape, n, axis, norm);
}

Tensor irfft(const Tensor& x, std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis("irfft", Kind::irfft, x, n, axis, norm);
}
Tensor irfft_backward(const Tensor& grad_output, const Shape& input_shape,
                      std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  return along_axis_backward("irfft_backward", Kind::irfft, grad_output, input_shape, n, axis,
                             norm);
}

Tensor rfftn(const Tensor& x, const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes("rfftn", Kind::rfft, x, s, axes, norm);
}
Tensor rfftn_backward(const Tensor& grad_output, const Shape& input_shape,
                      const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes_backward("rfftn_backward", Kind::rfft, grad_output, input_shape, s, axes, norm);
}

Tensor irfftn(const Tensor& x, const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes("irfftn", Kind::irfft, x, s, axes, norm);
}
Tensor irfftn_backward(const Tensor& grad_output, const Shape& input_shape,
                       const std::optional<Shape>& s, const Axes& axes, FftNorm norm) {
  return along_axes_backward("irfftn_backward", Kind::irfft, grad_output, input_shape, s, axes,
                             norm);
}

// hfft(x) = irfft(conj(x)) and ihfft(x) = conj(rfft(x)), with the opposite norm.

Tensor hfft(const Tensor& x, std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  check_input("hfft", "x", x, false);
  const Step step = checked_step("hfft", Kind::irfft, x.shape(), n, axis, norm);
  return apply({step.kind, {step.attributes.n, step.attributes.axis, opposite(norm)}},
               conj(as_complex(x)));
}
Tensor hfft_backward(const Tensor& grad_output, const Shape& input_shape,
                     std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  detail::check_option("hfft_backward", "norm", norm, FftNorm::forward);
  return conj(along_axis_backward("hfft_backward", Kind::irfft, grad_output, input_shape, n, axis,
                                  opposite(norm)));
}

Tensor ihfft(const Tensor& x, std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  detail::check_option("ihfft", "norm", norm, FftNorm::forward);
  return conj(along_axis("ihfft", Kind::rfft, x, n, axis, opposite(norm)));
}
Tensor ihfft_backward(const Tensor& grad_output, const Shape& input_shape,
                      std::optional<StrictInt> n, StrictInt axis, FftNorm norm) {
  detail::check_option("ihfft_backward", "norm", norm, FftNorm::forward);
  check_input("ihfft_backward", "grad_output", grad_output, false);
  return along_axis_backward("ihfft_backward", Kind::rfft, conj(as_complex(grad_output)),
                             input_shape, n, axis, opposite(norm));
}

// ---- frequencies

namespace {

// 0, 1 … divided by n · d: all n of them, of which the second half is negative, or those up to n
// / 2.
Tensor frequencies(const char* operation, std::int64_t n, double d, bool both_signs,
                   const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_float);
  detail::check_dtype(operation, dtype);
  if (dtype != DType::float32 && dtype != DType::float64) {
    throw DTypeError(message(operation, ": dtype is ", dtype, " (allowed: float32, float64)"));
  }
  if (n < 1) throw ValueError(message(operation, ": n is ", n, " (allowed: at least 1)"));
  if (!std::isfinite(d) || d == 0) {
    throw ValueError(message(operation, ": d is ", d, " (allowed: finite numbers but 0)"));
  }
  const std::int64_t count = both_signs ? n : n / 2 + 1;
  const Tensor y = empty({count}, {.dtype = dtype, .device = options.device});
  std::vector<double> values(at(count));
  const double whole = static_cast<double>(n) * d;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t signed_k = both_signs && k > (n - 1) / 2 ? k - n : k;
    values[at(k)] = static_cast<double>(signed_k) / whole;
  }
  return from_data(values).to(dtype).to(y.device());
}

Tensor shifted(const char* operation, const Tensor& x, const Axes& axes, bool back) {
  const std::int64_t rank = x.ndim();
  Dims shifts, places;
  const auto add = [&](std::int64_t axis) {
    const std::int64_t half = x.shape()[at(axis)] / 2;
    places.push_back(axis);
    shifts.push_back(back ? -half : half);
  };
  if (axes.all()) {
    for (std::int64_t axis = 0; axis < rank; ++axis) add(axis);
  } else {
    for (const std::int64_t axis : axes.list()) {
      add(detail::normalize_axis(operation, axis, rank));
    }
  }
  return places.empty() ? x : roll(x, shifts, places);
}

void check_gradient(const char* operation, const Tensor& grad_output) {
  if (is_differentiable(grad_output.dtype())) return;
  throw DTypeError(message(operation, ": grad_output has dtype ", grad_output.dtype(),
                           " (allowed: float and complex dtypes)"));
}

}  // namespace

Tensor fftfreq(StrictInt n, StrictDouble d, const TensorOptions& options) {
  return frequencies("fftfreq", n, d, true, options);
}
Tensor rfftfreq(StrictInt n, StrictDouble d, const TensorOptions& options) {
  return frequencies("rfftfreq", n, d, false, options);
}

Tensor fftshift(const Tensor& x, const Axes& axes) { return shifted("fftshift", x, axes, false); }
Tensor fftshift_backward(const Tensor& grad_output, const Axes& axes) {
  check_gradient("fftshift_backward", grad_output);
  return shifted("fftshift_backward", grad_output, axes, true);
}
Tensor ifftshift(const Tensor& x, const Axes& axes) { return shifted("ifftshift", x, axes, true); }
Tensor ifftshift_backward(const Tensor& grad_output, const Axes& axes) {
  check_gradient("ifftshift_backward", grad_output);
  return shifted("ifftshift_backward", grad_output, axes, false);
}

}  // namespace fft

constinit const ops::OpList ops::fft_ops =
    ops::listed<fft::fft_op, fft::ifft_op, fft::rfft_op, fft::irfft_op>;

}  // namespace extensor
