// Whether the kernels use the processor's bfloat16 instructions, decided once at first use.
#pragma once

namespace extensor::detail {

// AVX-512 BF16: VDPBF16PS adds two bfloat16 products to each lane of float32. False where the
// processor lacks it, and where EXTENSOR_SIMD requests a target (avx512 or lower) without it.
bool has_bfloat16_products();

}  // namespace extensor::detail
