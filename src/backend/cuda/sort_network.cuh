// A stable sort in shared memory.
#pragma once

#include "backend/cuda/group.cuh"

namespace extensor::backend::cuda {

// The most entries that a block sorts.
inline constexpr int longest_sorted_by_block = 2048;

#ifdef __CUDACC__

template <class Key>
struct Entry {
  Key key;
  std::uint32_t position;
  friend __device__ __forceinline__ bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

// Sorts `size` entries in lists of `padded` entries, a power of two. Call it with all threads of
// the block. Positions differ, so no two entries are equal and the sort is stable.
template <class Key>
__device__ void sort_entries(Entry<Key>* entries, int padded, int size) {
  for (int run = 2; run <= padded; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < size / 2;
           pair += static_cast<int>(blockDim.x)) {
        const int low = pair / distance * 2 * distance + pair % distance;
        const int high = low + distance;
        const bool ascends = (low & (padded - 1) & run) == 0;
        const Entry<Key> a = entries[low], b = entries[high];
        if ((b < a) == ascends) {
          entries[low] = b;
          entries[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

#endif

}  // namespace extensor::backend::cuda
