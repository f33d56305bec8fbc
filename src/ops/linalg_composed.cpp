// Norms of matrices, diagonals and the vector product, composed of other ops.
#include <cmath>
#include <vector>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/linalg.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"
#include "ops/linalg_support.h"

namespace extensor::linalg {

namespace {

using detail::message;
using namespace ops;

// ---- norms

enum class Norm { frobenius, nuclear, columns, rows, singular };

// A norm: what is summed, and whether the largest or the smallest of the sums counts.
struct NormKind {
  Norm of;
  bool smallest = false;
};

NormKind norm_kind(const char* operation, std::string_view ord) {
  if (ord == "fro") return {Norm::frobenius};
  if (ord == "nuc") return {Norm::nuclear};
  throw ValueError(
      message(operation, ": ord is \"", ord,
              "\" (allowed: fro, nuc, or one of the numbers 1, -1, 2, -2, ±infinity)"));
}
NormKind norm_kind(const char* operation, double ord) {
  if (ord == 1 || ord == -1) return {Norm::columns, ord < 0};
  if (ord == 2 || ord == -2) return {Norm::singular, ord < 0};
  if (std::isinf(ord)) return {Norm::rows, ord < 0};
  throw ValueError(message(operation, ": ord is ", ord,
                           " (allowed: 1, -1, 2, -2, ±infinity, or \"fro\" or \"nuc\")"));
}

Tensor extreme(const Tensor& x, bool smallest, bool keepdims) {
  return smallest ? min_reduce(x, -1, keepdims) : max_reduce(x, -1, keepdims);
}
Tensor extreme_backward(const Tensor& g, const Tensor& x, bool smallest) {
  return smallest ? min_reduce_backward(g, x, -1) : max_reduce_backward(g, x, -1);
}

Tensor norm_of(const char* operation, const Tensor& x, const NormKind& kind, bool keepdims) {
  check_matrices(operation, "x", x);
  if (kind.of == Norm::frobenius) return norm(x, 2, {-2, -1}, keepdims);
  Tensor result;
  if (kind.of == Norm::nuclear) {
    result = sum(svdvals(x), -1);
  } else if (kind.of == Norm::singular) {
    result = extreme(svdvals(x), kind.smallest, false);
  } else {
    result = extreme(sum(abs(x), kind.of == Norm::columns ? -2 : -1), kind.smallest, false);
  }
  return keepdims ? result.unsqueeze(-1).unsqueeze(-1) : result;
}

Tensor norm_backward_of(const char* operation, const Tensor& grad_output, const Tensor& x,
                        const NormKind& kind) {
  check_matrices(operation, "x", x);
  const Shape batch = batch_shape(x.shape());
  const bool keeps = grad_output.shape() == with_matrices(batch, 1, 1);
  if (!keeps) check_grad_output(operation, grad_output, batch);
  const Tensor g = grad_output.reshape(batch);
  switch (kind.of) {
    case Norm::frobenius:
      return norm_backward(g, x, 2, {-2, -1});
    case Norm::nuclear: {
      const auto [u, s, vh] = svd(x, false);
      return svd_backward({}, sum_backward(g, s.shape(), -1), {}, u, s, vh);
    }
    case Norm::singular: {
      const auto [u, s, vh] = svd(x, false);
      return svd_backward({}, extreme_backward(g, s, kind.smallest), {}, u, s, vh);
    }
    case Norm::columns:
    case Norm::rows:
      break;
  }
  const std::int64_t axis = kind.of == Norm::columns ? -2 : -1;
  const Tensor sums = sum(abs(x), axis);
  return multiply(sign(x), extreme_backward(g, sums, kind.smallest).unsqueeze(axis));
}

}  // namespace

Tensor matrix_norm(const Tensor& x, std::string_view ord, StrictBool keepdims) {
  return norm_of("matrix_norm", x, norm_kind("matrix_norm", ord), keepdims);
}
Tensor matrix_norm(const Tensor& x, StrictDouble ord, StrictBool keepdims) {
  return norm_of("matrix_norm", x, norm_kind("matrix_norm", static_cast<double>(ord)), keepdims);
}
Tensor matrix_norm_backward(const Tensor& grad_output, const Tensor& x, std::string_view ord) {
  constexpr const char* operation = "matrix_norm_backward";
  return norm_backward_of(operation, grad_output, x, norm_kind(operation, ord));
}
Tensor matrix_norm_backward(const Tensor& grad_output, const Tensor& x, StrictDouble ord) {
  constexpr const char* operation = "matrix_norm_backward";
  return norm_backward_of(operation, grad_output, x,
                          norm_kind(operation, static_cast<double>(ord)));
}

// ---- diagonals

namespace {

// The elements of a diagonal in the row-major order of an [m, n] matrix: `length` of them, n + 1
// apart.
struct Diagonal {
  std::int64_t begin = 0, end = 0, step = 1, length = 0;

  Diagonal(const char* operation, const Shape& shape, std::int64_t offset) {
    if (shape.size() < 2) {
      throw ShapeError(
          message(operation, ": x is ", shape, ", must be a matrix or a batch of matrices"));
    }
    const std::int64_t m = shape[shape.size() - 2], n = shape[shape.size() - 1];
    if (offset >= n || offset <= -m) return;  // no such elements
    length = offset >= 0 ? std::min(m, n - offset) : std::min(m + offset, n);
    begin = offset >= 0 ? offset : -offset * n;
    step = n + 1;
    end = begin + (length - 1) * step + 1;
  }
};

Shape flat_matrices(const Shape& shape) {
  return with_vectors(batch_shape(shape), shape[shape.size() - 2] * shape[shape.size() - 1]);
}

}  // namespace

Tensor diagonal(const Tensor& x, StrictInt offset) {
  const Diagonal part("diagonal", x.shape(), offset);
  return x.reshape(flat_matrices(x.shape())).slice(-1, part.begin, part.end, part.step);
}

Tensor diagonal_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt offset) {
  constexpr const char* operation = "diagonal_backward";
  const Diagonal part(operation, input_shape, offset);
  check_grad_output(operation, grad_output, with_vectors(batch_shape(input_shape), part.length));
  return slice_backward(grad_output, flat_matrices(input_shape), -1, part.begin, part.end,
                        part.step)
      .reshape(input_shape);
}

Tensor trace(const Tensor& x, StrictInt offset) {
  const Diagonal check("trace", x.shape(), offset);
  return sum(diagonal(x, offset), -1);
}

Tensor trace_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt offset) {
  constexpr const char* operation = "trace_backward";
  const Diagonal part(operation, input_shape, offset);
  const Shape batch = batch_shape(input_shape);
  check_grad_output(operation, grad_output, batch);
  return diagonal_backward(sum_backward(grad_output, with_vectors(batch, part.length), -1),
                           input_shape, offset);
}

// ---- the vector product

namespace {

// The axis counted from the end, which broadcasting keeps.
std::int64_t checked_axis(const char* operation, const Tensor& a, const Tensor& b,
                          std::int64_t axis) {
  const std::int64_t rank = std::max(a.ndim(), b.ndim());
  const std::int64_t from_end = detail::normalize_axis(operation, axis, rank) - rank;
  const auto has_three = [&](const Tensor& x) {
    return from_end >= -x.ndim() && x.size(from_end) == 3;
  };
  if (!has_three(a) || !has_three(b)) {
    throw ShapeError(message(operation, ": a is ", a.shape(), " and b is ", b.shape(),
                             ", both must have length 3 along axis ", axis));
  }
  if (!are_shapes_broadcastable(a.shape(), b.shape())) {
    throw ShapeError(message(operation, ": a is ", a.shape(), " and b is ", b.shape(),
                             ", which do not broadcast"));
  }
  return from_end;
}

Tensor cross_of(const Tensor& a, const Tensor& b, std::int64_t axis) {
  const auto part = [axis](const Tensor& x, std::int64_t i) {
    return x.slice(axis, i % 3, i % 3 + 1);
  };
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    parts.push_back(subtract(multiply(part(a, i + 1), part(b, i + 2)),
                             multiply(part(a, i + 2), part(b, i + 1))));
  }
  return concatenate(parts, axis);
}

// Halves are multiplied and subtracted in float32, and rounded once.
Tensor widened(const Tensor& x) { return x.to(compute_dtype(x.dtype())); }

}  // namespace

Tensor cross(const Tensor& a, const Tensor& b, StrictInt axis) {
  const std::int64_t along = checked_axis("cross", a, b, axis);
  const DType dtype = promote_types(a.dtype(), b.dtype(), "cross");
  if (dtype == DType::bool_) {
    throw DTypeError("cross: a and b are bool (allowed: floats and integers)");
  }
  return cross_of(widened(a), widened(b), along).to(dtype);
}

// ⟨g, da × b⟩ = ⟨b̄ × g, da⟩ and ⟨g, a × db⟩ = ⟨g × ā, db⟩.
std::pair<Tensor, Tensor> cross_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b, StrictInt axis) {
  constexpr const char* operation = "cross_backward";
  const std::int64_t along = checked_axis(operation, a, b, axis);
  check_operands(operation, grad_output, a, b);
  check_grad_output(operation, grad_output, broadcast_shapes(a.shape(), b.shape()));
  const Tensor g = widened(grad_output);
  const Tensor of_a = cross_of(conj(widened(b)), g, along);
  const Tensor of_b = cross_of(g, conj(widened(a)), along);
  return {gradient_as(reduce_broadcast_dims(of_a, a.shape()), a.dtype()),
          gradient_as(reduce_broadcast_dims(of_b, b.shape()), b.dtype())};
}

}  // namespace extensor::linalg
