// Words of the op tables for which the GPU has a function that is as accurate as the rules ask
// (2 ULP) and shorter, or for which the CPU uses long double, which a GPU lacks. Overloads for one
// lane are preferred to the templates of backend/cpu/simd, which they stand beside by the namespace
// of their arguments.
#pragma once

#include "backend/cpu/simd/lanes-inl.h"
#include "backend/cuda/float_math.cuh"

namespace hwy::N_CUDA {

namespace float_math = extensor::backend::cuda::float_math;

// At most 2 ULP, by the table of CUDA's programming guide.
#define EXTENSOR_DEVICE_WORD(Word, function) \
  HWY_API Vec1<float> Word(Tag<float>, Vec1<float> x) { return {function(x.raw)}; }
EXTENSOR_DEVICE_WORD(Exp2, ::exp2f)
EXTENSOR_DEVICE_WORD(Log, ::logf)
EXTENSOR_DEVICE_WORD(Log2, ::log2f)
EXTENSOR_DEVICE_WORD(Log10, ::log10f)
EXTENSOR_DEVICE_WORD(Log1p, ::log1pf)
EXTENSOR_DEVICE_WORD(Cbrt, ::cbrtf)
EXTENSOR_DEVICE_WORD(Rsqrt, ::rsqrtf)
EXTENSOR_DEVICE_WORD(Erf, ::erff)
EXTENSOR_DEVICE_WORD(Sin, ::sinf)
EXTENSOR_DEVICE_WORD(Cos, ::cosf)
EXTENSOR_DEVICE_WORD(Asin, ::asinf)
EXTENSOR_DEVICE_WORD(Acos, ::acosf)
EXTENSOR_DEVICE_WORD(Atan, ::atanf)
EXTENSOR_DEVICE_WORD(Tanh, ::tanhf)
EXTENSOR_DEVICE_WORD(Asinh, ::asinhf)
// Of float_math.cuh.
EXTENSOR_DEVICE_WORD(Expm1, float_math::expm1)
EXTENSOR_DEVICE_WORD(Sinh, float_math::sinh)
EXTENSOR_DEVICE_WORD(Cosh, float_math::cosh)
EXTENSOR_DEVICE_WORD(Acosh, float_math::acosh)
EXTENSOR_DEVICE_WORD(Atanh, float_math::atanh)
EXTENSOR_DEVICE_WORD(Tan, float_math::tan)
EXTENSOR_DEVICE_WORD(Sigmoid, float_math::sigmoid)
EXTENSOR_DEVICE_WORD(Silu, float_math::silu)
EXTENSOR_DEVICE_WORD(Mish, float_math::mish)
EXTENSOR_DEVICE_WORD(Softplus, float_math::softplus)
EXTENSOR_DEVICE_WORD(GeluTanh, float_math::gelu_tanh)
#undef EXTENSOR_DEVICE_WORD

#define EXTENSOR_DEVICE_WORD_2(Word, function)                         \
  HWY_API Vec1<float> Word(Tag<float>, Vec1<float> a, Vec1<float> b) { \
    return {function(a.raw, b.raw)};                                   \
  }
EXTENSOR_DEVICE_WORD_2(Hypot, float_math::hypot)
EXTENSOR_DEVICE_WORD_2(Pow, float_math::power)
#undef EXTENSOR_DEVICE_WORD_2

HWY_NOINLINE inline float slow_floor_modulo(float a, float b) {
  return extensor::cpu::N_CUDA::FloorModLane(a, b);
}
HWY_API Vec1<float> FloorMod(Tag<float>, Vec1<float> a, Vec1<float> b) {
  float remainder;
  if (!float_math::small_floor_modulo(a.raw, b.raw, remainder)) {
    remainder = slow_floor_modulo(a.raw, b.raw);
  }
  return {remainder};
}

// kNormalTailTable by columns, so that a thread reads its column by two loads of 16 bytes. In
// global memory, since constant memory reads one address at a time.
struct alignas(16) NormalTailColumn {
  float at[8];
};
struct NormalTailColumns {
  NormalTailColumn columns[16] = {};

  constexpr NormalTailColumns() {
    for (int column = 0; column < 16; ++column) {
      for (int row = 0; row < 8; ++row) {
        columns[column].at[row] = extensor::cpu::N_CUDA::kNormalTailTable[row][column];
      }
    }
  }
};
[[maybe_unused]] static __device__ const NormalTailColumns normal_tail_columns;

// x Phi(x) as on a CPU with AVX-512 (math_erf-inl.h), where the tail is looked up, in half the
// instructions of the rational function. At most 1 ULP.
HWY_API Vec1<float> Gelu(Tag<float> d, Vec1<float> x) {
  float t;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(::fabsf(x.raw)), "f"(14.99f));
  const NormalTailColumn entry =
      normal_tail_columns.columns[__float_as_uint(__fadd_rn(t, 1.0f)) >> 21 & 15];
  const float v = __fsub_rn(t, entry.at[0]);
  float p = entry.at[7];
#pragma unroll
  for (int row = 6; row >= 2; --row) p = __fmaf_rn(p, v, entry.at[row]);
  const float ratio = __fmaf_rn(v, p, entry.at[1]);
  const float ratio_error = __fmaf_rn(v, p, __fsub_rn(entry.at[1], ratio));
  // exp(-t^2 / 2) = 2^n (1 + r + r^2 q), n rounded by adding a number whose last bit is 1.
  const float half = __fmul_rn(t, -0.5f), square = __fmul_rn(half, t);
  const float lost = __fmaf_rn(half, t, -square);
  constexpr float rounder = 0x1.8p23f;
  const float shifted = __fmaf_rn(square, 1.44269502f, rounder), n = __fsub_rn(shifted, rounder);
  const float high = __fmaf_rn(n, -0.693147182f, square);
  const float r = __fadd_rn(high, __fmaf_rn(n, 1.90465421e-09f, lost));
  const float r_square = __fmul_rn(r, r);
  const float q =
      extensor::cpu::N_CUDA::ExpPolynomial<false>(d, Vec1<float>{r}, Vec1<float>{r_square}).raw;
  const float head = __fadd_rn(1.0f, r);
  const float rest = __fmaf_rn(r_square, q, __fsub_rn(r, __fsub_rn(head, 1.0f)));
  // t · ratio · exponential, with the rounding errors of the products.
  const float tail = __fmul_rn(ratio, head);
  const float tail_error =
      __fmaf_rn(ratio, rest, __fmaf_rn(ratio_error, head, __fmaf_rn(ratio, head, -tail)));
  const float product = __fmul_rn(t, tail);
  const float missing = __fadd_rn(product, __fmaf_rn(t, tail_error, __fmaf_rn(t, tail, -product)));
  // 2^n in two factors, of which the first is exact, so that a subnormal result is rounded once.
  const float scale = __uint_as_float((__float_as_uint(shifted) << 23) + (191u << 23));
  const float scaled = __fmul_rn(__fmul_rn(missing, scale), 0x1p-64f);
  return {::copysignf(__fsub_rn(::fmaxf(x.raw, 0.0f), scaled), x.raw)};
}

HWY_API Vec1<double> Cbrt(Tag<double>, Vec1<double> x) { return {::cbrt(x.raw)}; }

// Where the terms cancel, their compensated sum has an error of an ULP of the larger one.
HWY_API Vec1<double> LogAddExp(Tag<double> d, Vec1<double> a, Vec1<double> b) {
  return extensor::cpu::N_CUDA::LogAddExpTerms(d, a, b);
}

HWY_NOINLINE inline float slow_log_add_exp(float a, float b) {
  const Tag<double> d;
  return static_cast<float>(
      extensor::cpu::N_CUDA::LogAddExpTerms(d, Vec1<double>{a}, Vec1<double>{b}).raw);
}
HWY_API Vec1<float> LogAddExp(Tag<float>, Vec1<float> a, Vec1<float> b) {
  const auto sum = static_cast<float>(float_math::log_add_exp(a.raw, b.raw));
  // Infinities, NaN and numbers near the ends of the range; terms that nearly cancel.
  const bool ordinary = ::fabsf(a.raw + b.raw) < float_math::infinity;
  const bool cancelled = ::fmaxf(a.raw, b.raw) < 0 && ::fabsf(sum) < 0.25f;
  if (!ordinary || cancelled) return {slow_log_add_exp(a.raw, b.raw)};
  return {sum};
}

HWY_API Vec1<double> FloorDivide(Tag<double>, Vec1<double> a, Vec1<double> b) {
  const double x = a.raw, y = b.raw;
  double quotient = ::floor(__ddiv_rn(x, y));
  if (::fabs(quotient) < 0x1p52 && ::isfinite(y)) {
    const double remainder = __fma_rn(-quotient, y, x);
    return {remainder * ::copysign(1.0, y) < 0 ? quotient - 1 : quotient};
  }
  if (y == 0) return {__ddiv_rn(x, y)};
  const double remainder = ::fmod(x, y);
  quotient = __ddiv_rn(x - remainder, y);
  if (remainder != 0 && (y < 0) != (remainder < 0)) quotient -= 1;
  quotient = ::rint(quotient);
  return {quotient == 0 ? ::copysign(0.0, __ddiv_rn(x, y)) : quotient};
}

}  // namespace hwy::N_CUDA

namespace extensor::cpu::N_CUDA {

// With the usual beta of 1 nothing is rounded. The branch is the same for all threads.
HWY_INLINE Lanes<float> softplus_of_product(Lanes<float> beta, Lanes<float> x) {
  return beta.v.raw == 1 ? softplus(x) : softplus_of_product<float>(beta, x);
}

HWY_INLINE Lanes<float> gelu_derivative(Lanes<float> x) {
  return hn::Vec1<float>{backend::cuda::float_math::gelu_derivative(x.v.raw)};
}

}  // namespace extensor::cpu::N_CUDA
