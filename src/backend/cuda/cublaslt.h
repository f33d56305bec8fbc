// Products of dense matrices by cuBLASLt.
#pragma once

#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend::cuda {

// A dense matrix of a strided batch. Rows, or columns if transposed, are `leading` elements apart.
struct DenseMatrix {
  const void* data = nullptr;
  bool transposed = false;
  std::int64_t leading = 0;
  std::int64_t step = 0;  // between the matrices of the batch
};

// c = scale · a · b + bias, or c += scale · a · b. The rows of c are dense.
struct DenseProduct {
  DType dtype, result;
  std::int64_t m, n, k, batch;
  DenseMatrix a, b;
  void* c;
  std::int64_t c_leading, c_step;
  const void* bias;  // n elements, or null
  double scale;
  bool accumulate;
};

// Returns false, with nothing written, if cuBLASLt has no algorithm for the product. DeviceError if
// cuBLASLt is missing or fails.
bool multiply_dense(const DenseProduct& product, const char* operation);

}  // namespace extensor::backend::cuda
