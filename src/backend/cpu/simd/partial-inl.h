// Loads and stores of vectors of which only the first lanes are in memory.
#if defined(EXTENSOR_PARTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_PARTIAL_INL_H_
#undef EXTENSOR_PARTIAL_INL_H_
#else
#define EXTENSOR_PARTIAL_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Lanes from `count` on are 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* from, std::size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(d))) return hn::LoadU(d, from);
  alignas(64) T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return hn::Load(d, lanes);
}

// Lanes from `count` on are not written.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* to, std::size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(d))) return hn::StoreU(v, d, to);
  alignas(64) T lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// Lanes from `count` on become 0.
template <class D>
HWY_INLINE hn::Vec<D> KeepFirst(D d, hn::Vec<D> v, std::size_t count) {
  return count >= hn::Lanes(d) ? v : hn::IfThenElseZero(hn::FirstN(d, count), v);
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_PARTIAL_INL_H_
