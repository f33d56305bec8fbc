// Linear algebra: factorizations, solutions, determinants and norms of matrices, with their
// explicit gradients. The functions and the shapes of their results are those of the Python Array
// API.
//
//   auto [U, S, Vh] = extensor::linalg::svd(x, false);
//   Tensor y = extensor::linalg::solve(a, b);
//
// Matrices are the last two axes of a tensor; all others are a batch, of which every matrix is
// computed on its own. Matrices and batches may be empty. The dtype is float32, float64, complex64
// or complex128, except where another is named: all others, also float16 and bfloat16, are a
// DTypeError, as in PyTorch. Eigenvalues, singular values, norms and log |det| are real.
// Fewer than two dimensions, and matrices that are not square where they must be, are a ShapeError.
// A singular matrix that has to be inverted is a ValueError that names its position in the batch.
//
// LAPACK computes matrices beyond a few dozen rows if the machine has it (docs/linear-algebra.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "extensor/export.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::linalg {

using extensor::matmul;
using extensor::matmul_backward;
using extensor::matrix_transpose;
using extensor::outer;
using extensor::outer_backward;
using extensor::tensordot;
using extensor::tensordot_backward;
using extensor::vecdot;
using extensor::vecdot_backward;

// ---- solving

// The solution y of a·y = b. b is a vector [n] if it has one dimension, otherwise matrices [..., n,
// k]; the batches of a and b broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
// `y` is the solution.
std::pair<Tensor, Tensor> solve_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b, const Tensor& y);

// The solution y of a·y = b for a lower or upper triangular a, whose other triangle is not read. b
// and the batches as for solve.
Tensor solve_triangular(const Tensor& a, const Tensor& b, StrictBool upper = false);
std::pair<Tensor, Tensor> solve_triangular_backward(const Tensor& grad_output, const Tensor& a,
                                                    const Tensor& b, const Tensor& y,
                                                    StrictBool upper = false);

// The inverse.
Tensor inv(const Tensor& x);
// `y` is the inverse.
Tensor inv_backward(const Tensor& grad_output, const Tensor& y);

// The pseudo-inverse of Moore and Penrose, [..., n, m] of [..., m, n]. Singular values up to rtol
// times the largest count as 0; rtol is a number or one for each matrix of the batch, by default
// max(m, n) times the epsilon of the dtype.
Tensor pinv(const Tensor& x, std::optional<StrictDouble> rtol = {});
Tensor pinv(const Tensor& x, const Tensor& rtol);
// `y` is the pseudo-inverse; its rank counts as constant.
Tensor pinv_backward(const Tensor& grad_output, const Tensor& x, const Tensor& y);

// The n-th power of square matrices; a negative one is a power of the inverse.
Tensor matrix_power(const Tensor& x, StrictInt n);
Tensor matrix_power_backward(const Tensor& grad_output, const Tensor& x, StrictInt n);

// ---- determinants

// The determinant. Its gradient exists for singular matrices, too.
Tensor det(const Tensor& x);
Tensor det_backward(const Tensor& grad_output, const Tensor& x);

struct SlogdetResult {
  Tensor sign;       // −1, 0 or 1; of length 1, or 0, for a complex matrix
  Tensor logabsdet;  // −infinity for a singular matrix
};
// The sign of the determinant and the logarithm of its magnitude, which does not overflow. The sign
// of a complex determinant is det / |det|. Only logabsdet has an explicit gradient; the sign is
// constant for real matrices, and autograd differentiates that of complex ones.
SlogdetResult slogdet(const Tensor& x);
Tensor slogdet_backward(const Tensor& grad_logabsdet, const Tensor& x);

// ---- factorizations

// The triangular factor L of a positive-definite matrix x = L·Lᴴ, or with `upper` U of x = Uᴴ·U.
// The factor of the Hermitian part (x + xᴴ) / 2, so the gradient is Hermitian; ᴴ is ᵀ for real
// matrices. ValueError for a matrix that is not positive-definite.
Tensor cholesky(const Tensor& x, StrictBool upper = false);
// `y` is the factor.
Tensor cholesky_backward(const Tensor& grad_output, const Tensor& y, StrictBool upper = false);

enum class QrMode : std::uint8_t {
  reduced,   // Q is [m, k] and R is [k, n], with k = min(m, n)
  complete,  // Q is [m, m] and R is [m, n]
};
struct QrResult {
  Tensor Q;  // orthonormal columns
  Tensor R;  // upper triangular; its diagonal is real and may be negative
};
// x = Q·R, by Householder's reflections with the signs of LAPACK.
QrResult qr(const Tensor& x, QrMode mode = QrMode::reduced);
// An undefined gradient stands for 0. ValueError for the complete factors of matrices with m > n,
// whose last columns are arbitrary.
Tensor qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r);

struct EighResult {
  Tensor eigenvalues;   // [..., n], ascending
  Tensor eigenvectors;  // [..., n, n], orthonormal columns
};
// The eigenvalues and eigenvectors of symmetric or Hermitian matrices: those of (x + xᴴ) / 2, so
// the gradient is Hermitian. The first entry of an eigenvector that is not small (at least 0.618 of
// its largest) is positive. A matrix with NaN or infinity has NaN results.
EighResult eigh(const Tensor& x);
// An undefined gradient stands for 0. Pairs of equal eigenvalues contribute 0: the gradient is
// right for functions that do not depend on the choice of their eigenvectors. ValueError for
// complex vectors if the result depends on their phases.
Tensor eigh_backward(const Tensor& grad_eigenvalues, const Tensor& grad_eigenvectors,
                     const Tensor& eigenvalues, const Tensor& eigenvectors);
// The eigenvalues alone.
Tensor eigvalsh(const Tensor& x);
Tensor eigvalsh_backward(const Tensor& grad_output, const Tensor& x);

struct SvdResult {
  Tensor U;   // [..., m, k], orthonormal columns; [..., m, m] with full_matrices
  Tensor S;   // [..., k], descending
  Tensor Vh;  // [..., k, n], orthonormal rows; [..., n, n] with full_matrices
};
// The singular value decomposition x = U·diag(S)·Vh, with k = min(m, n). The first entry of a
// column of U that is not small (at least 0.618 of its largest) is positive. A matrix with NaN or
// infinity has NaN results.
SvdResult svd(const Tensor& x, StrictBool full_matrices = true);
// An undefined gradient stands for 0. Pairs of equal singular values, and divisions by a singular
// value of 0, contribute 0. The gradients of the columns of U and the rows of Vh beyond k, which
// are arbitrary, are ignored. ValueError for complex vectors if the result depends on their phases.
Tensor svd_backward(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh,
                    const Tensor& u, const Tensor& s, const Tensor& vh);
// The singular values alone.
Tensor svdvals(const Tensor& x);
Tensor svdvals_backward(const Tensor& grad_output, const Tensor& x);

// ---- ranks and norms

// The number of singular values above rtol times the largest, as int64; rtol as for pinv.
Tensor matrix_rank(const Tensor& x, std::optional<StrictDouble> rtol = {});
Tensor matrix_rank(const Tensor& x, const Tensor& rtol);

// The norm of matrices: "fro", the root of the sum of squares, or "nuc", the sum of the singular
// values; 1 and −1, the largest and smallest sum of magnitudes of a column; ±infinity, of a row; 2
// and −2, the largest and smallest singular value.
Tensor matrix_norm(const Tensor& x, std::string_view ord = "fro", StrictBool keepdims = false);
Tensor matrix_norm(const Tensor& x, StrictDouble ord, StrictBool keepdims = false);
Tensor matrix_norm_backward(const Tensor& grad_output, const Tensor& x,
                            std::string_view ord = "fro");
Tensor matrix_norm_backward(const Tensor& grad_output, const Tensor& x, StrictDouble ord);

// extensor::norm, for any dtype.
inline Tensor vector_norm(const Tensor& x, StrictDouble ord = 2, const Axes& axes = {},
                          StrictBool keepdims = false) {
  return norm(x, ord, axes, keepdims);
}
inline Tensor vector_norm_backward(const Tensor& grad_output, const Tensor& x, StrictDouble ord = 2,
                                   const Axes& axes = {}, StrictDouble eps = default_eps) {
  return norm_backward(grad_output, x, ord, axes, eps);
}

// ---- diagonals and products, for any dtype

// The elements [..., i, i + offset] of matrices, as [..., k]; a view if x is contiguous.
Tensor diagonal(const Tensor& x, StrictInt offset = 0);
Tensor diagonal_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt offset = 0);
// The sum of a diagonal; integers and bool sum to int64, unsigned integers to uint64.
Tensor trace(const Tensor& x, StrictInt offset = 0);
Tensor trace_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt offset = 0);
// The vector product along an axis of length 3 of both; the other axes broadcast.
Tensor cross(const Tensor& a, const Tensor& b, StrictInt axis = -1);
std::pair<Tensor, Tensor> cross_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b, StrictInt axis = -1);

}  // namespace extensor::linalg

EXTENSOR_END_API
