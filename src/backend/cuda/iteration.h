// The elements over which a kernel iterates. Compiled by nvcc, and by NVRTC for formulas.
#pragma once

#include <cstdint>

namespace extensor::backend::cuda {

// Divides numbers below 2³¹ by a fixed size, at least 1, by a multiplication.
struct Divider {
  std::uint32_t size = 1, magic = 1, shift = 0;

  Divider() = default;
  explicit Divider(std::uint32_t divisor) : size(divisor) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    magic = static_cast<std::uint32_t>(
        ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
};

inline constexpr int max_kernel_dims = 12;

// The elements of an iteration shape, outermost dimension first, of which the kernels compute
// `count`. Strides are in elements.
template <int operands>
struct IterationOf {
  std::int64_t count;
  int dims;
  bool short_count;  // count < 2³¹: positions are divided in 32 bits
  Divider dividers[max_kernel_dims];
  std::int64_t sizes[max_kernel_dims];
  std::int64_t strides[operands][max_kernel_dims];
};

#ifdef __CUDACC__

// The offsets of element i in the first operands of the iteration.
template <int operands, int most>
__device__ __forceinline__ void find_offsets(const IterationOf<most>& over, std::int64_t i,
                                             std::int64_t (&offsets)[operands]) {
#pragma unroll
  for (int k = 0; k < operands; ++k) offsets[k] = 0;
  if (over.short_count) {
    auto rest = static_cast<std::uint32_t>(i);
    for (int d = over.dims - 1; d > 0; --d) {
      const Divider& by = over.dividers[d];
      const std::uint32_t quotient = (__umulhi(rest, by.magic) + rest) >> by.shift;
      const std::uint32_t digit = rest - quotient * by.size;
      rest = quotient;
#pragma unroll
      for (int k = 0; k < operands; ++k) offsets[k] += digit * over.strides[k][d];
    }
#pragma unroll
    for (int k = 0; k < operands; ++k) offsets[k] += rest * over.strides[k][0];
  } else {
    std::int64_t rest = i;
    for (int d = over.dims - 1; d > 0; --d) {
      const std::int64_t quotient = rest / over.sizes[d], digit = rest - quotient * over.sizes[d];
      rest = quotient;
#pragma unroll
      for (int k = 0; k < operands; ++k) offsets[k] += digit * over.strides[k][d];
    }
#pragma unroll
    for (int k = 0; k < operands; ++k) offsets[k] += rest * over.strides[k][0];
  }
}

__device__ __forceinline__ std::int64_t first_index() {
  return blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
}
__device__ __forceinline__ std::int64_t index_step() {
  return gridDim.x * std::int64_t{blockDim.x};
}

#endif

}  // namespace extensor::backend::cuda
