// The arguments of the elementwise kernels, and the tables of the kernels of each dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/iteration.h"

namespace extensor::backend::cuda {

using Iteration = IterationOf<max_inputs + 1>;  // the result's strides first

// A number in the type in which the kernel computes.
union Number {
  double real;
  float single;  // in calls of dense operands that compute in float
  std::int64_t integer;
  std::uint64_t natural;
};

// Operands of any dtype and layout, the result first; an input without data is a number.
struct StridedCall {
  Iteration over;
  std::byte* data[max_inputs + 1];
  DType dtype[max_inputs + 1];
  Number number[max_inputs + 1];
  int integer_shift;  // 64 − the width of the integers that are computed
  Parameter parameters[2];
};

// How an input of a call by packs lies along the innermost dimension.
enum class Form : std::uint8_t { dense, single, number };

// Operands of one dtype whose innermost dimension is dense, or one element repeated, and numbers.
// `over` counts packs of 16 bytes of the result; dense operands are 16-byte aligned there. With
// more than one dimension, the innermost has whole packs only.
struct ContiguousCall {
  std::int64_t count;  // of elements
  Iteration over;
  const void* inputs[max_inputs];
  void* out;
  Number number[max_inputs];
  DType dtype[max_inputs];
  Form form[max_inputs];
  Parameter parameters[2];
};

// Dense, 16-byte aligned operands of one dtype, and numbers, which have no data: most calls.
struct DenseCall {
  std::int64_t count;
  const void* inputs[max_inputs];
  void* out;
  Number number[max_inputs];
  Parameter parameters[2];
  bool streams;  // the operands exceed the cache: none of them should stay in it
};

using StridedKernel = void (*)(StridedCall);
struct DenseKernel {
  void (*run)(DenseCall) = nullptr;
  int threads = 0, packs = 0;  // of a block, of a thread
  bool overlaps = false;       // it may start while the kernel before it ends
};
// The same row for each kind of operands; null if it has no kernel for them.
struct ContiguousKernel {
  DenseKernel dense, with_numbers;
  void (*packs)(ContiguousCall) = nullptr;
};

// By op; null if an op has no kernel. Computed in float, double, int64 and uint64.
const StridedKernel* strided_float32();
const StridedKernel* strided_float64();
const StridedKernel* strided_int64();
const StridedKernel* strided_uint64();
// By op; the tables of halves, which compute in float, have few functions of one tensor.
const ContiguousKernel* contiguous_float32();
const ContiguousKernel* contiguous_float64();
const ContiguousKernel* contiguous_float16();
const ContiguousKernel* contiguous_bfloat16();

inline constexpr int elementwise_threads = 256;

}  // namespace extensor::backend::cuda
