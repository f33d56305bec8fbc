// Vector math for float and double lanes on every Highway target: at most 2 ULP from the exact
// value (most at most 1), special values as in C99 Annex F. One function per name, Name(d, x),
// branch-free in the common case.

#if defined(EXTENSOR_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_INL_H_
#undef EXTENSOR_SIMD_MATH_INL_H_
#else
#define EXTENSOR_SIMD_MATH_INL_H_
#endif

#include "backend/cpu/simd/math_activation-inl.h"
#include "backend/cpu/simd/math_core-inl.h"
#include "backend/cpu/simd/math_erf-inl.h"
#include "backend/cpu/simd/math_exp_log-inl.h"
#include "backend/cpu/simd/math_gamma-inl.h"
#include "backend/cpu/simd/math_hyperbolic-inl.h"
#include "backend/cpu/simd/math_power-inl.h"
#include "backend/cpu/simd/math_round-inl.h"
#include "backend/cpu/simd/math_trig-inl.h"

#endif  // EXTENSOR_SIMD_MATH_INL_H_
