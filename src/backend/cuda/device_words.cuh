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
EXTENSOR_DEVICE_WORD(Erfinv, ::erfinvf)
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

// t Phi(-t) exp(t^2 / 2) as a polynomial on each interval of t + 1, four to the octave, around a
// point at which it is close to a float: the point, then the coefficients. The index is the low
// bits of the exponent and the high ones of the mantissa of t + 1, so that t = 0 is column 12. t
// < 15. A thread reads its column by two loads of 16 bytes, from global memory, since constant
// memory reads one address at a time.
struct alignas(16) GeluColumn {
  float at[8];
};
[[maybe_unused]] static __device__ const GeluColumn gelu_columns[16] = {
    {{1.25929999f, 0.289307475f, 0.0916736349f, -0.0519125126f, 0.0240448359f, -0.00973277912f,
      0.00359534146f, -0.00122760248f}},
    {{1.75384998f, 0.324364275f, 0.0541455075f, -0.0270964596f, 0.0112314392f, -0.00410730485f,
      0.00137867988f, -0.000426933868f}},
    {{2.24659991f, 0.345601439f, 0.0339975767f, -0.0151513834f, 0.00565233035f, -0.00187501358f,
      0.000574511942f, -0.000170121566f}},
    {{2.75895f, 0.359691352f, 0.0220812019f, -0.0087904511f, 0.00295640039f, -0.000891407544f,
      0.00024924599f, -6.02967411e-05f}},
    {{3.49009991f, 0.372081131f, 0.0128623592f, -0.00441569323f, 0.00129395421f, -0.000342778774f,
      8.58983185e-05f, -1.96472811e-05f}},
    {{4.51149988f, 0.381693572f, 0.00678703748f, -0.00193885504f, 0.000477783004f, -0.00010730479f,
      2.28879671e-05f, -4.74685521e-06f}},
    {{5.51319981f, 0.386937797f, 0.00400077272f, -0.000975952484f, 0.000206836048f,
      -4.02312871e-05f, 7.44201634e-06f, -1.28037641e-06f}},
    {{6.49679995f, 0.390093714f, 0.00255661248f, -0.000543666887f, 0.000100939265f,
      -1.72711334e-05f, 2.81597772e-06f, -4.38928964e-07f}},
    {{8.00739956f, 0.392990917f, 0.00142352527f, -0.000251997582f, 3.91403046e-05f,
      -5.62993318e-06f, 7.87972795e-07f, -1.03719927e-07f}},
    {{9.96380043f, 0.395039529f, 0.0007612349f, -0.000110356275f, 1.40944176e-05f, -1.67277858e-06f,
      1.92529498e-07f, -2.11716458e-08f}},
    {{12.0128002f, 0.39623332f, 0.000442062359f, -5.37568339e-05f, 5.7739353e-06f, -5.78004745e-07f,
      5.58847013e-08f, -5.06065367e-09f}},
    {{14.0284004f, 0.396945238f, 0.000280521024f, -2.94121019e-05f, 2.7281958e-06f,
      -2.34682929e-07f, 1.95510594e-08f, -2.5511091e-09f}},
    {{0.0f, 0.0f, 0.5f, -0.398941994f, 0.249987125f, -0.132757947f, 0.0607354976f, -0.0199635476f}},
    {{0.37560001f, 0.14252162f, 0.283138931f, -0.203247085f, 0.11612238f, -0.0568600558f,
      0.0248474274f, -0.00920750387f}},
    {{0.625050008f, 0.202107623f, 0.20031482f, -0.134231299f, 0.0721900761f, -0.0334564447f,
      0.0139075266f, -0.00554366922f}},
    {{0.873849988f, 0.244632497f, 0.145104334f, -0.0909100771f, 0.04607144f, -0.020237701f,
      0.00800379366f, -0.00292035984f}},
};

// max(x, 0) - t Phi(-t) with t = |x|. At most 1.7 ULP.
HWY_API Vec1<float> Gelu(Tag<float> d, Vec1<float> x) {
  float t;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(::fabsf(x.raw)), "f"(14.99f));
  const GeluColumn entry = gelu_columns[__float_as_uint(__fadd_rn(t, 1.0f)) >> 21 & 15];
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
  const float minus_one = __fmaf_rn(r_square, q, r);
  const float tail = __fadd_rn(ratio, __fmaf_rn(ratio, minus_one, ratio_error));
  // 2^n in two factors, of which the first is exact, so that a subnormal result is rounded once.
  const float scale = __uint_as_float((__float_as_uint(shifted) << 23) + (191u << 23));
  const float value = __fmaf_rn(-__fmul_rn(tail, scale), 0x1p-64f, ::fmaxf(x.raw, 0.0f));
  return {::copysignf(value, x.raw)};
}

HWY_API Vec1<double> Cbrt(Tag<double>, Vec1<double> x) { return {::cbrt(x.raw)}; }

// Where the terms cancel, their compensated sum has an error of an ULP of the larger one.
HWY_API Vec1<double> LogAddExp(Tag<double> d, Vec1<double> a, Vec1<double> b) {
  return extensor::cpu::N_CUDA::LogAddExpTerms(d, a, b);
}

HWY_NOINLINE inline float slow_log_add_exp(float a, float b) {
  // Infinities, NaN and numbers near the ends of the range; terms that nearly cancel.
  const bool ordinary = ::fabsf(a + b) < float_math::infinity;
  const auto sum = static_cast<float>(float_math::log_add_exp(a, b));
  if (ordinary && (::fmaxf(a, b) >= 0 || ::fabsf(sum) >= 0.25f)) return sum;
  const Tag<double> d;
  return static_cast<float>(
      extensor::cpu::N_CUDA::LogAddExpTerms(d, Vec1<double>{a}, Vec1<double>{b}).raw);
}
HWY_API Vec1<float> LogAddExp(Tag<float>, Vec1<float> a, Vec1<float> b) {
  const float sum = float_math::quick_log_add_exp(a.raw, b.raw);
  const bool ordinary = ::fabsf(a.raw + b.raw) < float_math::infinity;
  const bool cancelled = ::fmaxf(a.raw, b.raw) < 0 && ::fabsf(sum) < 0.5f;
  return {!ordinary || cancelled ? slow_log_add_exp(a.raw, b.raw) : sum};
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
