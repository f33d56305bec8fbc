// Checks and calls that the ops of linear algebra share.
#pragma once

#include <optional>

#include "backend/checks.h"
#include "extensor/complex.h"
#include "extensor/matrix.h"
#include "ops/op.h"

namespace extensor::ops {

// DTypeError unless `dtype` is float32, float64, complex64 or complex128.
void check_matrix_dtype(const char* operation, const char* argument, DType dtype);
// Also a ShapeError if x has fewer than two dimensions.
void check_matrices(const char* operation, const char* argument, const Tensor& x);
// Also a ShapeError unless the matrices are square.
void check_square_matrices(const char* operation, const char* argument, const Tensor& x);

// The dtype of magnitudes, such as singular values.
inline DType real_type(const Tensor& x) {
  return is_complex(x) ? real_dtype(x.dtype()) : x.dtype();
}

// The shape without its last two dimensions.
Shape batch_shape(const Shape& matrices);
// `batch` followed by the sizes of matrices.
Shape with_matrices(Shape batch, std::int64_t rows, std::int64_t columns);
Shape with_vectors(Shape batch, std::int64_t length);

// A call on the matrices of a dense x, without results.
backend::MatrixCall matrix_call(backend::MatrixOp op, const Tensor& x);

// The property that every matrix of a call must have.
struct MatrixCheck {
  backend::ValueCheck::Kind kind = backend::ValueCheck::Kind::invertible;
  const char* argument = "x";
};
// Runs the kernel. On the CPU, throws the error of the check; other devices throw it later.
void run_matrices(const Run& run, backend::MatrixCall call, const Shape& batch,
                  std::optional<MatrixCheck> check = {});

// xᴴ, the conjugated transpose; xᵀ if x is real.
inline Tensor adjoint(const Tensor& x) { return conj(matrix_transpose(x)); }
// 1 / x, and 0 where x is 0; likewise for its gradient.
Tensor reciprocal_or_zero(const Tensor& x);

}  // namespace extensor::ops
