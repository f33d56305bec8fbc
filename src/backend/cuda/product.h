// Matrix products of device memory, for the families that are made of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/batch_offsets.h"
#include "extensor/activation.h"
#include "extensor/dtype.h"

namespace extensor::backend::cuda {

// One matrix per product of the batch. Strides and offsets are counted in elements.
struct Matrix {
  const std::byte* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;
  BatchOffsets offsets = {};
};

// c = activation(scale · a · b + bias), or c += scale · a · b, for every product of the batch.
struct Product {
  DType dtype;   // of a, b and bias
  DType result;  // of c: dtype or, for halves, float32
  std::int64_t m, n, k;
  std::int64_t batch = 1;
  Matrix a, b;  // m × k and k × n, any strides
  std::byte* c = nullptr;
  std::int64_t c_row_stride = 0;    // at least n; the columns of c are adjacent
  BatchOffsets c_offsets = {};      // the results do not overlap
  double scale = 1;                 // 1 for integers
  const std::byte* bias = nullptr;  // n elements, or null; floats only, like the activation
  Activation activation = Activation::none;
  bool accumulate = false;  // result float32 or float64, without bias and activation
};

// float32 is computed in float32, or in TF32 where is_tf32_allowed(); halves are accumulated in
// float32 and rounded once, integers wrap. Two calls with the same operands give the same bits.
// `operation` names the caller in errors.
void multiply(const Product& product, const char* operation);

}  // namespace extensor::backend::cuda
