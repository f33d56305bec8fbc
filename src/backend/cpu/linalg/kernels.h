// Factorizations of small matrices in double precision. Each function works on a group of matrices
// at once, one in every lane of a SIMD vector: element e of matrix l is data[e · lanes + l]. A
// second set of the same functions works on one matrix.
#pragma once

#include <cstdint>

namespace extensor::cpu {

struct MatrixKernels {
  std::int64_t lanes;
  // a: [n, n], of which only the lower triangle is used; becomes the lower factor. failed[l]
  // becomes 1 if matrix l has none.
  void (*cholesky)(double* a, std::int64_t n, double* failed);
  // a: [n, n] becomes its factors L (below the diagonal) and U by partial pivoting; b: [n, right]
  // becomes the solution. sign becomes that of the permutation. failed[l] becomes 1 if a pivot is
  // 0.
  void (*lu)(double* a, double* b, std::int64_t n, std::int64_t right, double* sign,
             double* failed);
  // a: [m, n] becomes r, with zeros below the diagonal; q: [m, width], or null.
  void (*qr)(double* a, std::int64_t m, std::int64_t n, double* q, std::int64_t width);
  // a: [n, n], symmetric, gets the eigenvalues on its diagonal; the rows of v: [n, n], or null,
  // become the eigenvectors.
  void (*eigh)(double* a, std::int64_t n, double* v);
  // The rows of w: [n, m], n ≤ m, become orthogonal by rotations; those of v: [n, n], or null, are
  // the product of the rotations. The singular values are the lengths of the rows of w.
  void (*svd)(double* w, std::int64_t n, std::int64_t m, double* v);
};

// Of the widest vectors of the machine, and of a single matrix.
const MatrixKernels& wide_matrix_kernels();
const MatrixKernels& single_matrix_kernels();

}  // namespace extensor::cpu
