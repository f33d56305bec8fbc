// The call of the kernels of linear algebra: factorizations, inverses, determinants and solutions
// of the matrices of a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class MatrixOp : std::uint8_t {
  cholesky,          // out[0]: the triangular factor of the symmetric or Hermitian part of x
  qr,                // out[0]: q, out[1]: r
  eigh,              // out[0]: eigenvalues, ascending; out[1]: eigenvectors, as columns, or null
  svd,               // out[0]: u, out[1]: s, descending, out[2]: vh; u and vh, or null for both
  inverse,           // out[0]
  determinant,       // out[0]: the determinant; out[1]: its sign, out[2]: log |det|; each or null
  cofactor,          // out[0]: the cofactors, det(x) x⁻ᵀ where x has an inverse
  solve,             // out[0]: the solution y of x·y = b
  solve_triangular,  // out[0]: the same, reading one triangle of x
};

// All operands are dense and row-major: x is [batch, rows, columns], b is [batch, rows, right]. The
// batch has no more than one dimension here. Only qr and svd take matrices that are not square. The
// address of an operand or a result without elements may be null.
struct MatrixCall {
  MatrixOp op;
  // float32, float64 or their complex dtypes; eigenvalues, singular values and log |det| are real.
  DType dtype;
  std::int64_t batch, rows, columns, right = 0;
  const std::byte* x;
  const std::byte* b = nullptr;
  std::byte* out[3] = {};
  bool upper = false;  // cholesky: return the upper factor; solve_triangular: x is upper
  bool full = false;   // qr: q is square; svd: u and vh are square
  // The number of the check (backend/checks.h) that a matrix has an inverse, or a Cholesky factor;
  // 0 for ops that need none. The position in the report is that of the matrix in the batch.
  std::uint32_t check = 0;
};

// Of an empty matrix, one of u and vh may have no elements while the other is an identity.
inline bool wants_singular_vectors(const MatrixCall& call) {
  return call.out[0] != nullptr || call.out[2] != nullptr;
}

}  // namespace extensor::backend
