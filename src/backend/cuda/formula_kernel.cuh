// Elements of any dtype as the arguments and results of a compiled formula. Only for NVRTC: the
// kernel itself is generated (formula_source.cpp).
#pragma once

#include "backend/cuda/formula_arguments.h"
#include "backend/cuda/row_functions.cuh"

namespace extensor::backend::cuda {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <class C, class T>
__device__ __forceinline__ C load_as(T x) {
  return static_cast<C>(x);
}
template <class C>
__device__ __forceinline__ C load_as(Half x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return static_cast<C>(result);
}
template <class C>
__device__ __forceinline__ C load_as(BFloat16 x) {
  return static_cast<C>(__uint_as_float(static_cast<std::uint32_t>(x.bits) << 16));
}

// Rounded once, to nearest even.
template <class T>
struct StoreAs {
  template <class C>
  static __device__ __forceinline__ T round(C x) {
    return static_cast<T>(x);
  }
};
template <>
struct StoreAs<Half> {
  static __device__ __forceinline__ Half round(float x) {
    Half result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
  }
  static __device__ __forceinline__ Half round(double x) {
    Half result;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(result.bits) : "d"(x));
    return result;
  }
};
template <>
struct StoreAs<BFloat16> {
  static __device__ __forceinline__ BFloat16 round(float x) {
    BFloat16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
  }
  // First to a float that keeps in its last bit whether anything was cut off, so that the second
  // rounding decides like a single one.
  static __device__ __forceinline__ BFloat16 round(double x) {
    const float cut = __double2float_rz(x);
    const bool exact = static_cast<double>(cut) == x || x != x;
    return round(exact ? cut : __uint_as_float(__float_as_uint(cut) | 1u));
  }
};

template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  T at[count];
};

// `width` consecutive elements, by loads of at most 16 bytes.
template <class T, class C, int width>
__device__ __forceinline__ void load(const void* from, std::int64_t at, C (&x)[width]) {
  constexpr int most = 16 / sizeof(T), together = most < width ? most : width;
  const auto* packs = reinterpret_cast<const Pack<T, together>*>(static_cast<const T*>(from) + at);
#pragma unroll
  for (int part = 0; part < width / together; ++part) {
    const Pack<T, together> read = packs[part];
#pragma unroll
    for (int e = 0; e < together; ++e) x[part * together + e] = load_as<C>(read.at[e]);
  }
}

// One element, repeated.
template <class T, class C, int width>
__device__ __forceinline__ void load_single(const void* from, std::int64_t at, C (&x)[width]) {
  const C value = load_as<C>(static_cast<const T*>(from)[at]);
#pragma unroll
  for (int e = 0; e < width; ++e) x[e] = value;
}

template <class T, class C, int width>
__device__ __forceinline__ void store(void* to, std::int64_t at, const C (&y)[width]) {
  constexpr int most = 16 / sizeof(T), together = most < width ? most : width;
  auto* packs = reinterpret_cast<Pack<T, together>*>(static_cast<T*>(to) + at);
#pragma unroll
  for (int part = 0; part < width / together; ++part) {
    Pack<T, together> written;
#pragma unroll
    for (int e = 0; e < together; ++e) {
      written.at[e] = StoreAs<T>::round(y[part * together + e]);
    }
    packs[part] = written;
  }
}

template <class C, int count>
struct Numbers {
  C at[count];
};

}  // namespace extensor::backend::cuda
