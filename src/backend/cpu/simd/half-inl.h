// Converts float16 and bfloat16 to and from float lanes: round to nearest even, NaN kept, the same
// bits on every target.
#if defined(EXTENSOR_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_HALF_INL_H_
#undef EXTENSOR_HALF_INL_H_
#else
#define EXTENSOR_HALF_INL_H_
#endif

#include <cstring>

#include "extensor/float16.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Loads Lanes(d) halves and widens them.
template <class D>
HWY_INLINE hn::Vec<D> LoadHalf([[maybe_unused]] D d, const Float16* from) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  alignas(64) float lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<float>(from[i]);
  return hn::Load(d, lanes);
#else
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> LoadHalf([[maybe_unused]] D d, const BFloat16* from) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  alignas(64) float lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<float>(from[i]);
  return hn::Load(d, lanes);
#else
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
#endif
}

// Rounds once and stores Lanes(d) halves.
template <class D>
HWY_INLINE void StoreHalf(hn::Vec<D> v, [[maybe_unused]] D d, Float16* to) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  alignas(64) float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = Float16(lanes[i]);
#else
  const hn::Rebind<hwy::float16_t, D> d16;  // F16C, which rounds to nearest even
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(to));
#endif
}

template <class D>
HWY_INLINE void StoreHalf(hn::Vec<D> v, [[maybe_unused]] D d, BFloat16* to) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  alignas(64) float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = BFloat16(lanes[i]);
#else
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> d32_signed;
  const auto bits = hn::BitCast(d32, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto last = hn::And(high, hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(last, hn::Set(d32, 0x7fffu))));
  const auto quiet = hn::Or(high, hn::Set(d32, 0x40u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto result = hn::BitCast(d32_signed, hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, result), d16, reinterpret_cast<std::uint16_t*>(to));
#endif
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_HALF_INL_H_
