// Which SIMD instruction set the kernels run on, decided once at first use.
#pragma once

namespace extensor::detail {

enum class SimdTarget { scalar, avx2, avx512 };

// The best target that was compiled in and that this machine has; the environment variable
// EXTENSOR_SIMD (scalar, avx2 or avx512) asks for a lower one.
SimdTarget simd_target();

// "scalar", "avx2", "avx512"
const char* name(SimdTarget target);

}  // namespace extensor::detail
