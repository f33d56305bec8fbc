// The inner loops of reductions for one element type and one operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

namespace extensor::cpu {

template <class T>
struct ReduceKernels {
  // Reduces n ≥ 1 dense elements, at most a block.
  T (*block)(const T* values, std::size_t n);
  // accumulator[j] = op(accumulator[j], values[j])
  void (*accumulate)(T* accumulator, const T* values, std::size_t n);
  // accumulator[j] = op(op(a[j], b[j]), op(c[j], d[j])) for four rows, combined with the old
  // accumulator unless `fresh`: a quarter of the accumulator's traffic, four streams to read.
  void (*accumulate_four)(T* accumulator, const T* const* rows, bool fresh, std::size_t n);
  // Like accumulate; where values[j] wins, also sets positions[j] = position.
  void (*accumulate_position)(T* accumulator, std::int64_t* positions, const T* values,
                              std::int64_t position, std::size_t n);
  T identity;
};

// T: float, double, std::int64_t, std::uint64_t, std::uint8_t. argmax and argmin use the kernels of
// max and min.
template <class T>
const ReduceKernels<T>& reduce_kernels(backend::ReduceOp op);

}  // namespace extensor::cpu
