#include "backend/cuda/parameter_sums.h"

#include "backend/cuda/group.cuh"

namespace extensor::backend::cuda {

namespace {

// A block adds 32 columns: each of its warps every 32nd list, then the first warp their sums.
template <class C>
__global__ void __launch_bounds__(1024)
    add_lists(const C* partials, std::int64_t shares, std::int64_t count, C* first, C* second) {
  __shared__ double sums[32][33];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t width = 2 * count;
  for (std::int64_t start = blockIdx.x * std::int64_t{32}; start < width;
       start += gridDim.x * std::int64_t{32}) {
    const std::int64_t column = start + lane;
    double sum = 0;
    if (column < width) {
#pragma unroll 4
      for (std::int64_t share = warp; share < shares; share += 32) {
        sum += static_cast<double>(partials[share * width + column]);
      }
    }
    __syncthreads();
    sums[warp][lane] = sum;
    __syncthreads();
    // Warp w reduces column w.
    const double total = reduce_warp(sums[lane][warp], Plus());
    const std::int64_t own = start + warp;
    if (lane == 0 && own < width) {
      (own < count ? first[own] : second[own - count]) = static_cast<C>(total);
    }
  }
}

}  // namespace

template <class C>
void add_partials(const C* partials, std::int64_t shares, std::int64_t count, C* first, C* second,
                  const char* family) {
  add_lists<<<grid_for(divide_up(2 * count, 32)), 1024, 0, stream()>>>(partials, shares, count,
                                                                       first, second);
  launched(family);
}
template void add_partials(const float*, std::int64_t, std::int64_t, float*, float*, const char*);
template void add_partials(const double*, std::int64_t, std::int64_t, double*, double*,
                           const char*);

}  // namespace extensor::backend::cuda
