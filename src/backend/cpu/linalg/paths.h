// The ways to compute a MatrixCall: own kernels on groups of real matrices or on one complex
// matrix, and LAPACK on one matrix.
#pragma once

#include <atomic>
#include <cstdint>

#include "backend/cpu/linalg/kernels.h"
#include "backend/cpu/linalg/lapack.h"
#include "backend/matrix_call.h"

namespace extensor::cpu {

// The first matrix of the batch that has no inverse or no Cholesky factor.
class FirstFailure {
 public:
  explicit FirstFailure(std::int64_t batch) : first_(batch) {}
  void note(std::int64_t matrix) {
    std::int64_t known = first_;
    while (matrix < known && !first_.compare_exchange_weak(known, matrix)) {
    }
  }
  std::int64_t first() const { return first_; }

 private:
  std::atomic<std::int64_t> first_;
};

// Computes the matrices first … first + count − 1.
template <class T>
void compute_groups(const backend::MatrixCall& call, const MatrixKernels& kernels,
                    std::int64_t first, std::int64_t count, FirstFailure& failure);

// Computes one matrix of complex numbers.
void compute_complex(const backend::MatrixCall& call, std::int64_t matrix, FirstFailure& failure);

// Computes one matrix, real or complex.
template <class T>
void compute_by_lapack(const backend::MatrixCall& call, const Lapack& library, std::int64_t matrix,
                       FirstFailure& failure);

// The cofactors of a singular n × n matrix x, by its singular values.
template <class T>
void singular_cofactors(const T* x, std::int64_t n, T* out);

}  // namespace extensor::cpu
