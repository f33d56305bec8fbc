// Selects one of the functions that hwy/foreach_target.h compiled, without Highway's run-time
// library. Include it inside #if HWY_ONCE, where HWY_TARGETS is known.
#pragma once

#include "core/simd/target.h"
#include "hwy/highway.h"

// The scalar target exists unless the compiler may assume a better one.
#if HWY_TARGETS & (HWY_SCALAR | HWY_EMU128)
#if HWY_TARGETS & HWY_SCALAR
#define EXTENSOR_SCALAR_NAMESPACE N_SCALAR
#else
#define EXTENSOR_SCALAR_NAMESPACE N_EMU128
#endif
#define EXTENSOR_LOWEST_NAMESPACE EXTENSOR_SCALAR_NAMESPACE
#else
#define EXTENSOR_LOWEST_NAMESPACE EXTENSOR_STATIC_NAMESPACE
#endif

#if HWY_STATIC_TARGET == HWY_AVX3_DL
#define EXTENSOR_STATIC_NAMESPACE N_AVX3_DL
#elif HWY_STATIC_TARGET == HWY_AVX3
#define EXTENSOR_STATIC_NAMESPACE N_AVX3
#elif HWY_STATIC_TARGET == HWY_AVX2
#define EXTENSOR_STATIC_NAMESPACE N_AVX2
#elif HWY_STATIC_TARGET == HWY_NEON
#define EXTENSOR_STATIC_NAMESPACE N_NEON
#else
#define EXTENSOR_STATIC_NAMESPACE EXTENSOR_SCALAR_NAMESPACE
#endif

#if HWY_TARGETS & HWY_AVX3
#define EXTENSOR_AVX512_FUNCTION(function) &N_AVX3::function
#else
#define EXTENSOR_AVX512_FUNCTION(function) &EXTENSOR_LOWEST_NAMESPACE::function
#endif
#if HWY_TARGETS & HWY_AVX2
#define EXTENSOR_AVX2_FUNCTION(function) &N_AVX2::function
#else
#define EXTENSOR_AVX2_FUNCTION(function) &EXTENSOR_LOWEST_NAMESPACE::function
#endif

// The best of `function`'s versions on this machine, as a function pointer.
#define EXTENSOR_DISPATCH(function)                                            \
  (::extensor::detail::simd_target() == ::extensor::detail::SimdTarget::avx512 \
       ? EXTENSOR_AVX512_FUNCTION(function)                                    \
   : ::extensor::detail::simd_target() == ::extensor::detail::SimdTarget::avx2 \
       ? EXTENSOR_AVX2_FUNCTION(function)                                      \
       : &EXTENSOR_LOWEST_NAMESPACE::function)
