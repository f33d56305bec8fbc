// The last step of a sum over all elements: partial sums to one number.
#pragma once

#include "backend/cuda/group.cuh"

namespace extensor::backend::cuda {

#ifdef __CUDACC__

// Rounds once to the dtype, which is a float's.
__device__ inline void write_number(double value, DType dtype, void* out, std::int64_t at = 0) {
  switch (dtype) {
    case DType::float16:
      static_cast<__half*>(out)[at] = store_from_compute<__half>(value);
      return;
    case DType::bfloat16:
      static_cast<__nv_bfloat16*>(out)[at] = store_from_compute<__nv_bfloat16>(value);
      return;
    case DType::float32:
      static_cast<float*>(out)[at] = static_cast<float>(value);
      return;
    default:
      static_cast<double*>(out)[at] = value;
  }
}

// One block.
static __global__ void __launch_bounds__(256)
    sum_partials(const double* partials, std::int64_t count, double divisor, DType dtype,
                 void* out) {
  Group<true> group;
  double sum = 0;
  for (std::int64_t k = threadIdx.x; k < count; k += blockDim.x) sum += partials[k];
  sum = group.reduce(sum, 0.0, Plus());
  if (threadIdx.x == 0) write_number(sum / divisor, dtype, out);
}

// out = Σ partials / divisor
inline void write_total(const double* partials, std::int64_t count, double divisor, DType dtype,
                        void* out, const char* family) {
  sum_partials<<<1, 256, 0, stream()>>>(partials, count, divisor, dtype, out);
  launched(family);
}

#endif

}  // namespace extensor::backend::cuda
