// Parts of complex numbers: views of them, conjugates and angles.
#include "extensor/complex.h"

#include <numbers>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "ops/launch.h"
#include "ops/registry.h"
#include "ops/view_op.h"

namespace extensor {

namespace {

using backend::ComplexOp;
using detail::message;
using detail::TensorImpl;
using namespace ops;

void check_complex(const char* operation, const Tensor& x) {
  if (is_complex(x)) return;
  throw DTypeError(
      message(operation, ": x is ", x.dtype(), " (allowed: complex64 and complex128)"));
}

// A view of complex x as real numbers, starting `parts` parts after its first.
Tensor view_of_parts(const Tensor& x, std::size_t parts, const Shape& shape, Strides strides) {
  const TensorImpl& tensor = x.impl();
  const DType part = real_dtype(tensor.dtype);
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) strides[d] *= 2;
  return detail::make_on_storage(tensor.storage, tensor.data + parts * itemsize(part), part, shape,
                                 strides);
}

// ---- parts

Tensor make_real(const Tensor& x, const NoAttributes&) {
  return view_of_parts(x, 0, x.shape(), x.strides());
}
Tensor make_imag(const Tensor& x, const NoAttributes&) {
  return view_of_parts(x, 1, x.shape(), x.strides());
}
Gradients real_gradient(const GradientCall& call, const NoAttributes&) {
  return call.grad().to(complex_dtype(call.grad().dtype()));
}
Gradients imag_gradient(const GradientCall& call, const NoAttributes&) {
  return complex(zeros({}, {call.grad().dtype(), call.grad().device()}), call.grad());
}

Tensor make_pairs(const Tensor& x, const NoAttributes&) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.push_back(2);
  strides.push_back(1);
  detail::checked_numel("view_as_real", shape);
  return view_of_parts(x, 0, shape, strides);
}

Tensor make_whole(const Tensor& x, const NoAttributes&) {
  const TensorImpl& tensor = x.impl();
  Shape shape = tensor.shape;
  Strides strides = tensor.strides;
  shape.resize(shape.size() - 1);
  strides.resize(strides.size() - 1);
  for (std::int64_t& stride : strides) stride /= 2;
  return detail::make_on_storage(tensor.storage, tensor.data, complex_dtype(tensor.dtype), shape,
                                 tensor.numel == 0 ? detail::contiguous_strides(shape) : strides);
}

// The gradient of a pair is that of its complex number, and the reverse.
Gradients pairs_gradient(const GradientCall& call, const NoAttributes&) {
  // A contiguous gradient may start at the second part of a number.
  return view_as_complex(call.grad().clone(MemoryFormat::contiguous));
}
Gradients whole_gradient(const GradientCall& call, const NoAttributes&) {
  return view_as_real(call.grad());
}

constexpr auto real_op = define_view<make_real, real_gradient>("real");
constexpr auto imag_op = define_view<make_imag, imag_gradient>("imag");
constexpr auto view_as_real_op = define_view<make_pairs, pairs_gradient>("view_as_real");
constexpr auto view_as_complex_op = define_view<make_whole, whole_gradient>("view_as_complex");

// ---- conjugates, angles and complex numbers of two parts

Tensor conj_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  const Source inputs[] = {x};
  return evaluate_complex(ComplexOp::conj, run.name(), x.dtype(), x.dtype(), inputs);
}
Gradients conj_gradient(const GradientCall& call, const NoAttributes&) { return conj(call.grad()); }

Tensor angle_forward(const Run& run, const NoAttributes&, const Tensor& x) {
  const Source inputs[] = {x};
  return evaluate_complex(ComplexOp::angle, run.name(), x.dtype(), real_dtype(x.dtype()), inputs);
}
// d angle = Im(dz / z), so the gradient is i g / conj(z), which is i g z / |z|²; 0 at 0.
Gradients angle_gradient(const GradientCall& call, const NoAttributes&) {
  const Tensor& z = call.input(0);
  const Tensor zero = equal(z, 0);
  const Tensor turned =
      complex(zeros({}, {call.grad().dtype(), call.grad().device()}), call.grad());
  return where(zero, 0, divide(turned, conj(where(zero, 1, z))));
}

DType part_dtype(const char* operation, const Tensor& x, const Tensor& y) {
  check_real(operation, "real", x);
  check_real(operation, "imag", y);
  return real_dtype(complex_dtype(promote_types(x.dtype(), y.dtype(), operation)));
}

Tensor complex_forward(const Run& run, const NoAttributes&, const Tensor& x, const Tensor& y) {
  const DType part = part_dtype(run.name(), x, y);
  const Source inputs[] = {x, y};
  const DType dtype = complex_dtype(part);
  return evaluate_complex(ComplexOp::complex, run.name(), dtype, dtype, inputs);
}
Gradients complex_gradients(const GradientCall& call, const NoAttributes&) {
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = reduce_broadcast_dims(real(call.grad()), call.shape(0));
  if (call.needs(1)) gradients[1] = reduce_broadcast_dims(imag(call.grad()), call.shape(1));
  return gradients;
}

constexpr auto conj_op =
    define<conj_forward, conj_gradient>({.name = "conj", .inputs = {"x"}, .complex = true});
constexpr auto angle_op = define<angle_forward, angle_gradient>(
    {.name = "angle", .inputs = {"x"}, .reads = {input(0)}, .complex = true});
constexpr auto complex_op =
    define<complex_forward, complex_gradients>({.name = "complex",
                                                .inputs = {"real", "imag"},
                                                .reads = {shape(0), shape(1)},
                                                .complex = true});

}  // namespace

Tensor complex(const Tensor& real, const Tensor& imag) {
  return dispatch(complex_op, {}, real, imag);
}

Tensor real(const Tensor& x) { return is_complex(x) ? view<make_real>(real_op, x, {}) : x; }

Tensor imag(const Tensor& x) {
  check_complex("imag", x);
  return view<make_imag>(imag_op, x, {});
}

Tensor conj(const Tensor& x) { return is_complex(x) ? dispatch(conj_op, {}, x) : x; }

Tensor angle(const Tensor& x) {
  if (is_complex(x)) return dispatch(angle_op, {}, x);
  const DType dtype = is_floating_point(x.dtype()) ? x.dtype() : default_float;
  // NaN stays NaN; there is no gradient elsewhere.
  const Tensor positive = where(isnan(x), x, 0).to(dtype);
  return where(less(x, 0), full({}, std::numbers::pi, {dtype, cpu_device}), positive);
}

Tensor view_as_real(const Tensor& x) {
  check_complex("view_as_real", x);
  return view<make_pairs>(view_as_real_op, x, {});
}

Tensor view_as_complex(const Tensor& x) {
  constexpr const char* operation = "view_as_complex";
  if (x.dtype() != DType::float32 && x.dtype() != DType::float64) {
    throw DTypeError(message(operation, ": x is ", x.dtype(), " (allowed: float32 and float64)"));
  }
  const TensorImpl& tensor = x.impl();
  if (tensor.shape.empty() || tensor.shape.back() != 2) {
    throw ShapeError(
        message(operation, ": x is ", tensor.shape, " (allowed: a last axis of length 2)"));
  }
  if (tensor.numel != 0) {
    bool whole = tensor.strides.back() == 1;
    for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d) {
      whole = whole && (tensor.shape[d] == 1 || tensor.strides[d] % 2 == 0);
    }
    const auto offset = tensor.data - static_cast<const std::byte*>(tensor.storage->data);
    const auto pair = static_cast<std::ptrdiff_t>(2 * itemsize(tensor.dtype));
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % 8 == 0;
    if (!whole || offset % pair != 0 || !aligned) {
      throw ValueError(message(operation, ": x has the strides ", tensor.strides,
                               " and starts at byte ", offset,
                               " of its memory (allowed: the stride 1 in the last axis, even ones "
                               "elsewhere, and a start at an even element; clone() gives both)"));
    }
  }
  return view<make_whole>(view_as_complex_op, x, {});
}

constinit const OpList ops::complex_ops =
    listed<real_op, imag_op, view_as_real_op, view_as_complex_op, conj_op, angle_op, complex_op>;

Tensor ops::gradient_as(const Tensor& gradient, DType dtype) {
  if (is_complex(gradient) && !is_complex(dtype)) return real(gradient).to(dtype);
  return gradient.to(dtype);
}

}  // namespace extensor
