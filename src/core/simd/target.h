// The SIMD instruction set that the kernels use, decided once at first use.
#pragma once

namespace extensor::detail {

enum class SimdTarget { scalar, avx2, avx512 };

// The best target that was compiled in and that this machine supports; the environment variable
// EXTENSOR_SIMD (scalar, avx2 or avx512) requests a lower one.
SimdTarget simd_target();

// "scalar", "avx2", "avx512"
const char* name(SimdTarget target);

}  // namespace extensor::detail
