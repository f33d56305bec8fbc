// The terms that the tile and dot kernels multiply: computed values, or pairs of bfloat16 where the
// processor has an instruction for their products.

#if defined(EXTENSOR_GEMM_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_TERMS_INL_H_
#undef EXTENSOR_GEMM_TERMS_INL_H_
#else
#define EXTENSOR_GEMM_TERMS_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "backend/cpu/gemm/elements-inl.h"
#include "backend/cpu/gemm/kernels.h"

#undef EXTENSOR_BFLOAT16_PAIRS
#if HWY_ARCH_X86 && HWY_MAX_BYTES == 64
#define EXTENSOR_BFLOAT16_PAIRS
#endif

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

// A vector with `term` in every lane.
template <class D, class Term>
HWY_INLINE hn::Vec<D> Broadcast(D d, const Term& term) {
  static_assert(sizeof(Term) == sizeof(hn::TFromD<D>));
  hn::TFromD<D> bits;
  std::memcpy(&bits, &term, sizeof(bits));
  return hn::Set(d, bits);
}

// sum + a · b for vectors of terms.
template <class Term, class V>
HWY_INLINE V AddProducts(V a, V b, V sum) {
#ifdef EXTENSOR_BFLOAT16_PAIRS
  if constexpr (std::is_same_v<Term, BFloat16Pair>) {
    // Two fused multiply-adds to each lane, rounded to nearest even whatever the mode. Subnormal
    // operands count as 0, and subnormal sums become 0. As assembly, because Highway's AVX-512
    // target does not enable the instruction; has_bfloat16_products() guards its use.
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
#endif
  return hn::MulAdd(a, b, sum);
}

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_TERMS_INL_H_
