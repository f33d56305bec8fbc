// Dense matrix products on the CPU: c = activation(a · b + bias), one engine for all float dtypes.
#pragma once

#include <cstdint>

#include "backend/batch_offsets.h"
#include "extensor/activation.h"
#include "extensor/dtype.h"

namespace extensor::cpu {

// Applied to each element of the product, after the bias, while it is still in registers.
using extensor::Activation;

// A matrix operand read through strides counted in elements, so a transpose is free.
struct MatrixView {
  const void* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

struct GemmCall {
  DType dtype;                 // float16, bfloat16, float32 or float64, for every operand
  std::int64_t m, n, k;        // any may be 0; for k = 0 the result is activation(bias)
  MatrixView a;                // m × k
  MatrixView b;                // k × n
  void* c;                     // m × n, unit column stride, overlaps neither a nor b
  std::int64_t c_row_stride;   // in elements, ≥ n
  const void* bias = nullptr;  // n elements of the same dtype added to every row, or null
  Activation activation = Activation::none;
  bool accumulate = false;  // c += a · b; float32 and float64, without bias and activation
};

// Halves are widened while packed and accumulated in float32, rounded once at the store.
// The bits of c do not depend on the number of threads.
void gemm(const GemmCall& call);

// `batch` independent products; product i reads a.data + a_offsets[i] elements, and so on. Small
// products are distributed over the threads whole; large ones run in sequence.
void gemm_batched(const GemmCall& call, std::int64_t batch, const backend::BatchOffsets& a_offsets,
                  const backend::BatchOffsets& b_offsets, const backend::BatchOffsets& c_offsets);

}  // namespace extensor::cpu
