// Words of the op tables for which the GPU has a function that is as accurate as the rules ask
// (2 ULP) and shorter, or for which the CPU uses long double, which a GPU lacks. Overloads for one
// lane are preferred to the templates of backend/cpu/simd, which they stand beside by the namespace
// of their arguments.
#pragma once

#include "backend/cpu/simd/lanes-inl.h"

namespace hwy::N_CUDA {

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
#undef EXTENSOR_DEVICE_WORD

// In float these have more than 2 ULP; double arithmetic has half the speed of float.
#define EXTENSOR_DOUBLE_WORD(Word, function)                           \
  HWY_API Vec1<float> Word(Tag<float>, Vec1<float> x) {                \
    return {static_cast<float>(function(static_cast<double>(x.raw)))}; \
  }
EXTENSOR_DOUBLE_WORD(Asinh, ::asinh)
EXTENSOR_DOUBLE_WORD(Acosh, ::acosh)
#undef EXTENSOR_DOUBLE_WORD

HWY_API Vec1<double> Cbrt(Tag<double>, Vec1<double> x) { return {::cbrt(x.raw)}; }

// Where the terms cancel, their compensated sum has an error of an ULP of the larger one.
HWY_API Vec1<double> LogAddExp(Tag<double> d, Vec1<double> a, Vec1<double> b) {
  return extensor::cpu::N_CUDA::LogAddExpTerms(d, a, b);
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

}  // namespace extensor::cpu::N_CUDA
