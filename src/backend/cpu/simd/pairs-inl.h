// Loads rows of pairs: the even elements in one vector, the odd ones in another.
#if defined(EXTENSOR_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_PAIRS_INL_H_
#undef EXTENSOR_PAIRS_INL_H_
#else
#define EXTENSOR_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two vectors' worth of elements.
template <class D>
HWY_INLINE void LoadPairs(D d, const hn::TFromD<D>* from, hn::Vec<D>& even, hn::Vec<D>& odd) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if constexpr (kLanes == 1) {
    even = hn::Set(d, from[0]);
    odd = hn::Set(d, from[1]);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const auto low = hn::LoadU(d, from), high = hn::LoadU(d, from + kLanes);
    even = hn::ConcatEven(d, high, low);
    odd = hn::ConcatOdd(d, high, low);
#endif
  }
}

template <class D>
HWY_INLINE void StorePairs(hn::Vec<D> even, hn::Vec<D> odd, D d, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    to[0] = hn::GetLane(even);
    to[1] = hn::GetLane(odd);
  } else {
    hn::StoreInterleaved2(even, odd, d, to);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_PAIRS_INL_H_
