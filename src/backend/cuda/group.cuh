// Vector access to dense memory, and reductions over the threads that share a row.
#pragma once

#include <cstring>
#include <limits>

#include "backend/cuda/context.h"

namespace extensor::backend::cuda {

// ---- vector access

// n neighbouring elements in one access.
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

inline constexpr int pack_bytes = 16;
template <class T>
inline constexpr int pack_width = pack_bytes / static_cast<int>(sizeof(T));

// Whether all of these addresses, of which some may be null, allow access by packs.
template <class... Pointers>
bool are_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) | ...) % pack_bytes) == 0;
}

template <class T>
inline const T* elements(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}
template <class T>
inline T* elements(std::byte* data) {
  return reinterpret_cast<T*>(data);
}

// An element of 16 bytes, aligned to its halves: a complex128 in memory of others need not be
// aligned to more.
struct SixteenBytes {
  std::uint64_t words[2];
};
// Calls function.template operator()<T>() with a type of the size of an element, for kernels that
// only move elements, also complex ones.
template <class Function>
decltype(auto) with_moved_type(DType dtype, Function&& function) {
  if (itemsize(dtype) == sizeof(SixteenBytes)) {
    return std::forward<Function>(function).template operator()<SixteenBytes>();
  }
  return with_bits_type(dtype, std::forward<Function>(function));
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The blocks of a grid whose blocks loop over `count` units.
inline unsigned grid_for(std::int64_t count, std::int64_t most = std::int64_t{1} << 24) {
  return static_cast<unsigned>(count < 1 ? 1 : count > most ? most : count);
}

// Calls function.template operator()<value>() with a constant of this value.
template <class Function>
decltype(auto) with_bool(bool value, Function&& function) {
  if (value) return std::forward<Function>(function).template operator()<true>();
  return std::forward<Function>(function).template operator()<false>();
}

#ifdef __CUDACC__

// Elements at first … first + width − 1 in the compute type; those from `end` on are `filler`.
template <int width, class S>
__device__ __forceinline__ void load_pack(const S* from, std::int64_t first, std::int64_t end,
                                          Compute<S> filler, Compute<S>* to) {
  if constexpr (width > 1) {  // `end` is a multiple of the width
    if (first < end) {
      const Pack<S, width> pack = *reinterpret_cast<const Pack<S, width>*>(from + first);
#pragma unroll
      for (int k = 0; k < width; ++k) to[k] = load_as_compute(pack.at[k]);
    } else {
#pragma unroll
      for (int k = 0; k < width; ++k) to[k] = filler;
    }
  } else {
    to[0] = first < end ? load_as_compute(from[first]) : filler;
  }
}

template <int width, class S>
__device__ __forceinline__ void store_pack(const Compute<S>* from, S* to, std::int64_t first,
                                           std::int64_t end) {
  if (first >= end) return;
  if constexpr (width > 1) {
    Pack<S, width> pack;
#pragma unroll
    for (int k = 0; k < width; ++k) pack.at[k] = store_from_compute<S>(from[k]);
    *reinterpret_cast<Pack<S, width>*>(to + first) = pack;
  } else {
    to[first] = store_from_compute<S>(from[0]);
  }
}

// ---- numbers

template <class C>
__device__ __forceinline__ C infinity() {
  if constexpr (std::is_same_v<C, float>) {
    return __int_as_float(0x7f800000);
  } else {
    return __longlong_as_double(0x7ff0000000000000);
  }
}
template <class C>
__device__ __forceinline__ C not_a_number() {
  if constexpr (std::is_same_v<C, float>) {
    return __int_as_float(0x7fc00000);
  } else {
    return __longlong_as_double(0x7ff8000000000000);
  }
}

// e^x for elements of type S: with the hardware's function if the result is rounded to a half. It
// returns 0 below 2⁻¹²⁶.
template <class S, class C>
__device__ __forceinline__ C exponential(C x) {
  if constexpr (is_half_type<S>) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
    return result;
  } else if constexpr (std::is_same_v<C, float>) {
    return expf(x);
  } else {
    return exp(x);
  }
}

struct Plus {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
// Ignores NaN.
struct Largest {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ __forceinline__ double operator()(double a, double b) const { return fmax(a, b); }
};

// ---- threads that share a row

// `value` of the lane whose number differs in the bits of `mask`.
template <class T>
__device__ __forceinline__ T exchange(T value, int mask) {
  static_assert(sizeof(T) % sizeof(int) == 0);
  constexpr int words = sizeof(T) / sizeof(int);
  int parts[words];
  memcpy(parts, &value, sizeof(T));
#pragma unroll
  for (int k = 0; k < words; ++k) parts[k] = __shfl_xor_sync(0xffffffffu, parts[k], mask);
  memcpy(&value, parts, sizeof(T));
  return value;
}

template <class T, class Operation>
__device__ __forceinline__ T reduce_warp(T value, Operation operation) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value = operation(value, exchange(value, mask));
  return value;
}

// A warp, or a block of whole warps, that works on one row. All threads of a block call the same
// functions in the same order.
template <bool is_block>
class Group {
 public:
  static constexpr int rows_per_block = is_block ? 1 : 8;  // of a block of 256 threads
  static constexpr std::size_t largest_value = 32;         // bytes

  __device__ int rank() const {
    return static_cast<int>(is_block ? threadIdx.x : threadIdx.x % 32);
  }
  __device__ int size() const { return static_cast<int>(is_block ? blockDim.x : 32); }
  // The number of this group in the grid, and the groups of the grid.
  __device__ std::int64_t number() const {
    return is_block ? static_cast<std::int64_t>(blockIdx.x)
                    : static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  }
  __device__ std::int64_t count() const {
    return is_block ? static_cast<std::int64_t>(gridDim.x)
                    : static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  }

  // Combines the values of all threads in a fixed order; every thread gets the result.
  template <class T, class Operation>
  __device__ __forceinline__ T reduce(T value, T identity, Operation operation) {
    static_assert(sizeof(T) <= largest_value);
    value = reduce_warp(value, operation);
    if constexpr (is_block) {
      __shared__ __align__(16) unsigned char memory[2][32 * largest_value];
      // The other half may still be read by threads that are behind.
      T* warps = reinterpret_cast<T*>(memory[parity_]);
      parity_ ^= 1;
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
      __syncthreads();
      // Groups of `power` lanes do the same.
      const unsigned count = blockDim.x / 32,
                     power = 1u << (32 - __clz(static_cast<int>(count - 1)));
      const unsigned from = threadIdx.x % power;
      value = from < count ? warps[from] : identity;
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) {
        if (static_cast<unsigned>(mask) < power) value = operation(value, exchange(value, mask));
      }
    }
    return value;
  }

 private:
  int parity_ = 0;
};

#endif

}  // namespace extensor::backend::cuda
