// A stand-in for Google Highway on a GPU: one lane, device functions. The vector math and the value
// type of the op tables (simd/math*-inl.h, simd/lanes-inl.h) compile against it unchanged. A test
// compiles it for the host, without contraction, where it computes the same bits.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#define HWY_NAMESPACE N_CUDA
#define HWY_BEFORE_NAMESPACE() static_assert(true)
#define HWY_AFTER_NAMESPACE() static_assert(true)
#ifdef __CUDACC__
#define HWY_INLINE __device__ __forceinline__
#define HWY_NOINLINE __device__ __noinline__
#define HWY_UNROLL(n) _Pragma("unroll")
#define EXTENSOR_ON_BOTH __host__ __device__
#define EXTENSOR_MATH(function) ::function
#else
#define HWY_INLINE inline __attribute__((always_inline))
#define HWY_NOINLINE inline __attribute__((noinline))
#define HWY_UNROLL(n) _Pragma("GCC unroll 8")
#define EXTENSOR_ON_BOTH
#define EXTENSOR_MATH(function) std::function
#endif
#define HWY_API HWY_INLINE
#define HWY_ATTR
#define HWY_ALIGN alignas(16)
#define HWY_LIKELY(x) (x)
#define HWY_UNLIKELY(x) (x)
#define HWY_NATIVE_FMA 1
#define HWY_MAX_BYTES 16
#define HWY_SCALAR 1
#define HWY_EMU128 2
#define HWY_AVX3 4
#define HWY_AVX3_DL 8
#define HWY_TARGET 16

#ifndef __CUDACC__
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
#endif

namespace hwy {
template <std::size_t n>
struct UnsignedOf;
template <>
struct UnsignedOf<4> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = std::uint64_t;
};
template <class T>
using MakeUnsigned = typename UnsignedOf<sizeof(T)>::type;
template <class T>
using MakeSigned = std::make_signed_t<MakeUnsigned<T>>;

namespace N_CUDA {

template <class T_>
struct Tag {
  using T = T_;
};
template <class T>
using ScalableTag = Tag<T>;
template <class D>
using TFromD = typename D::T;
template <class T>
struct Vec1 {
  T raw;
};
template <class T>
struct Mask1 {
  bool bits;
};
template <class D>
using Vec = Vec1<TFromD<D>>;
template <class D>
using Mask = Mask1<TFromD<D>>;
template <class T, class D>
using Rebind = Tag<T>;
template <class D>
using RebindToUnsigned = Tag<MakeUnsigned<TFromD<D>>>;
template <class D>
using RebindToSigned = Tag<MakeSigned<TFromD<D>>>;
template <class D>
using Half = D;
template <class D>
EXTENSOR_ON_BOTH constexpr std::size_t MaxLanes(D) {
  return 1;
}
template <class D>
EXTENSOR_ON_BOTH constexpr std::size_t Lanes(D) {
  return 1;
}

template <class D>
HWY_API Vec<D> Set(D, TFromD<D> x) {
  return {x};
}
template <class D>
HWY_API Vec<D> Zero(D) {
  return {TFromD<D>(0)};
}
template <class D>
HWY_API Vec<D> Load(D, const TFromD<D>* p) {
  return {*p};
}
template <class D>
HWY_API Vec<D> LoadU(D, const TFromD<D>* p) {
  return {*p};
}
template <class D>
HWY_API void Store(Vec<D> v, D, TFromD<D>* p) {
  *p = v.raw;
}
template <class D>
HWY_API void StoreU(Vec<D> v, D, TFromD<D>* p) {
  *p = v.raw;
}
template <class T>
HWY_API T GetLane(Vec1<T> v) {
  return v.raw;
}

// Rounded on their own: the compiler fuses none of these.
HWY_API float mul(float a, float b) { return __fmul_rn(a, b); }
HWY_API double mul(double a, double b) { return __dmul_rn(a, b); }
HWY_API float add(float a, float b) { return __fadd_rn(a, b); }
HWY_API double add(double a, double b) { return __dadd_rn(a, b); }
HWY_API float sub(float a, float b) { return __fsub_rn(a, b); }
HWY_API double sub(double a, double b) { return __dsub_rn(a, b); }
template <class T>
requires std::is_integral_v<T> HWY_API T add(T a, T b) { return a + b; }
template <class T>
requires std::is_integral_v<T> HWY_API T sub(T a, T b) { return a - b; }
HWY_API float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
HWY_API double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
HWY_API float quotient(float a, float b) { return __fdiv_rn(a, b); }
HWY_API double quotient(double a, double b) { return __ddiv_rn(a, b); }
HWY_API float root(float a) { return __fsqrt_rn(a); }
HWY_API double root(double a) { return __dsqrt_rn(a); }

template <class T>
HWY_API Vec1<T> Add(Vec1<T> a, Vec1<T> b) {
  return {add(a.raw, b.raw)};
}
template <class T>
HWY_API Vec1<T> Sub(Vec1<T> a, Vec1<T> b) {
  return {sub(a.raw, b.raw)};
}
template <class T>
HWY_API Vec1<T> Mul(Vec1<T> a, Vec1<T> b) {
  return {mul(a.raw, b.raw)};
}
template <class T>
HWY_API Vec1<T> Div(Vec1<T> a, Vec1<T> b) {
  return {quotient(a.raw, b.raw)};
}
template <class T>
HWY_API Vec1<T> Neg(Vec1<T> a) {
  return {-a.raw};
}
template <class T>
HWY_API Vec1<T> MulAdd(Vec1<T> a, Vec1<T> b, Vec1<T> c) {
  return {fused(a.raw, b.raw, c.raw)};
}
template <class T>
HWY_API Vec1<T> NegMulAdd(Vec1<T> a, Vec1<T> b, Vec1<T> c) {
  return {fused(-a.raw, b.raw, c.raw)};
}
template <class T>
HWY_API Vec1<T> MulSub(Vec1<T> a, Vec1<T> b, Vec1<T> c) {
  return {fused(a.raw, b.raw, -c.raw)};
}
template <class T>
HWY_API Vec1<T> Sqrt(Vec1<T> a) {
  return {root(a.raw)};
}
// One instruction, like on CPUs; numbers whose reciprocal is subnormal yield 0.
HWY_API Vec1<float> ApproximateReciprocal(Vec1<float> a) {
#ifdef __CUDACC__
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(a.raw));
  return {reciprocal};
#else
  return {1 / a.raw};
#endif
}

template <class T>
HWY_API Mask1<T> Lt(Vec1<T> a, Vec1<T> b) {
  return {a.raw < b.raw};
}
template <class T>
HWY_API Mask1<T> Le(Vec1<T> a, Vec1<T> b) {
  return {a.raw <= b.raw};
}
template <class T>
HWY_API Mask1<T> Gt(Vec1<T> a, Vec1<T> b) {
  return {a.raw > b.raw};
}
template <class T>
HWY_API Mask1<T> Ge(Vec1<T> a, Vec1<T> b) {
  return {a.raw >= b.raw};
}
template <class T>
HWY_API Mask1<T> Eq(Vec1<T> a, Vec1<T> b) {
  return {a.raw == b.raw};
}
template <class T>
HWY_API Mask1<T> Ne(Vec1<T> a, Vec1<T> b) {
  return {a.raw != b.raw};
}
template <class T>
HWY_API Mask1<T> And(Mask1<T> a, Mask1<T> b) {
  return {a.bits && b.bits};
}
template <class T>
HWY_API Mask1<T> Or(Mask1<T> a, Mask1<T> b) {
  return {a.bits || b.bits};
}
template <class T>
HWY_API Mask1<T> Xor(Mask1<T> a, Mask1<T> b) {
  return {a.bits != b.bits};
}
template <class T>
HWY_API Mask1<T> Not(Mask1<T> a) {
  return {!a.bits};
}
template <class D, class T>
HWY_API bool AllTrue(D, Mask1<T> m) {
  return m.bits;
}
template <class D, class T>
HWY_API Mask<D> RebindMask(D, Mask1<T> m) {
  return {m.bits};
}
template <class T>
HWY_API Mask1<T> IsNaN(Vec1<T> x) {
  return {x.raw != x.raw};
}
template <class T>
HWY_API Mask1<T> IsInf(Vec1<T> x) {
  return {EXTENSOR_MATH(isinf)(x.raw) != 0};
}
template <class T>
HWY_API Mask1<T> IsFinite(Vec1<T> x) {
  return {EXTENSOR_MATH(isfinite)(x.raw) != 0};
}
template <class T>
HWY_API Mask1<T> TestBit(Vec1<T> x, Vec1<T> bit) {
  return {(x.raw & bit.raw) != 0};
}
template <class T>
HWY_API Vec1<T> IfThenElse(Mask1<T> m, Vec1<T> a, Vec1<T> b) {
  return {m.bits ? a.raw : b.raw};
}
template <class T>
HWY_API Vec1<T> IfThenElseZero(Mask1<T> m, Vec1<T> a) {
  return {m.bits ? a.raw : T(0)};
}

template <class T>
HWY_API MakeUnsigned<T> bits_of(T x) {
  return __builtin_bit_cast(MakeUnsigned<T>, x);
}
template <class T>
HWY_API T of_bits(MakeUnsigned<T> x) {
  return __builtin_bit_cast(T, x);
}
template <class T>
HWY_API Vec1<T> And(Vec1<T> a, Vec1<T> b) {
  return {of_bits<T>(bits_of(a.raw) & bits_of(b.raw))};
}
template <class T>
HWY_API Vec1<T> Or(Vec1<T> a, Vec1<T> b) {
  return {of_bits<T>(bits_of(a.raw) | bits_of(b.raw))};
}
template <class T>
HWY_API Vec1<T> Xor(Vec1<T> a, Vec1<T> b) {
  return {of_bits<T>(bits_of(a.raw) ^ bits_of(b.raw))};
}
template <class D, class T>
HWY_API Vec<D> BitCast(D, Vec1<T> x) {
  return {__builtin_bit_cast(TFromD<D>, x.raw)};
}
template <int n, class T>
HWY_API Vec1<T> ShiftLeft(Vec1<T> x) {
  return {T(x.raw << n)};
}
template <int n, class T>
HWY_API Vec1<T> ShiftRight(Vec1<T> x) {
  return {T(x.raw >> n)};
}
template <class D>
HWY_API Vec<D> SignBit(D) {
  return {-TFromD<D>(0)};
}
template <class T>
HWY_API Vec1<T> Abs(Vec1<T> x) {
  return {EXTENSOR_MATH(fabs)(x.raw)};
}
template <class T>
HWY_API Vec1<T> CopySign(Vec1<T> m, Vec1<T> s) {
  return {EXTENSOR_MATH(copysign)(m.raw, s.raw)};
}
template <class T>
HWY_API Vec1<T> Round(Vec1<T> x) {
  return {EXTENSOR_MATH(rint)(x.raw)};
}
template <class T>
HWY_API Vec1<T> Trunc(Vec1<T> x) {
  return {EXTENSOR_MATH(trunc)(x.raw)};
}
template <class T>
HWY_API Vec1<T> Floor(Vec1<T> x) {
  return {EXTENSOR_MATH(floor)(x.raw)};
}
template <class T>
HWY_API Vec1<T> Ceil(Vec1<T> x) {
  return {EXTENSOR_MATH(ceil)(x.raw)};
}
// As x86: the second operand where there is a NaN.
template <class T>
HWY_API Vec1<T> Min(Vec1<T> a, Vec1<T> b) {
  return {a.raw < b.raw ? a.raw : b.raw};
}
template <class T>
HWY_API Vec1<T> Max(Vec1<T> a, Vec1<T> b) {
  return {a.raw > b.raw ? a.raw : b.raw};
}
template <class D, class T>
HWY_API Vec<D> PromoteTo(D, Vec1<T> x) {
  return {TFromD<D>(x.raw)};
}
template <class D, class T>
HWY_API Vec<D> DemoteTo(D, Vec1<T> x) {
  return {TFromD<D>(x.raw)};
}
template <class D, class T>
HWY_API Vec1<T> LowerHalf(D, Vec1<T> x) {
  return x;
}
template <class D, class T>
HWY_API Vec1<T> UpperHalf(D, Vec1<T> x) {
  return x;
}
template <class D, class T>
HWY_API Vec1<T> Combine(D, Vec1<T>, Vec1<T> x) {
  return x;
}
}  // namespace N_CUDA
}  // namespace hwy
