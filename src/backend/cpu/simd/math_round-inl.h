// Rounding to integers and the corresponding remainders.

#if defined(EXTENSOR_SIMD_MATH_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_ROUND_INL_H_
#undef EXTENSOR_SIMD_MATH_ROUND_INL_H_
#else
#define EXTENSOR_SIMD_MATH_ROUND_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// Highway's emulated targets lose the sign of zero in Floor and Ceil and round 0.49999997f to 1.
#if EXTENSOR_EMULATED
#define EXTENSOR_ROUNDING(Name, function)                                         \
  template <class D, class V = hn::Vec<D>>                                        \
  HWY_INLINE V Name(D d, V x) {                                                   \
    return PerLane(d, x, [](hn::TFromD<D> lane) { return std::function(lane); }); \
  }
#else
#define EXTENSOR_ROUNDING(Name, function)  \
  template <class D, class V = hn::Vec<D>> \
  HWY_INLINE V Name(D /*d*/, V x) {        \
    return hn::Name(x);                    \
  }
#endif
EXTENSOR_ROUNDING(Round, nearbyint)  // Half to even.
EXTENSOR_ROUNDING(Floor, floor)
EXTENSOR_ROUNDING(Ceil, ceil)
EXTENSOR_ROUNDING(Trunc, trunc)
#undef EXTENSOR_ROUNDING

template <class D, class V = hn::Vec<D>>
HWY_INLINE V CopySign(D /*d*/, V magnitude, V sign) {
  return hn::CopySign(magnitude, sign);
}

// The remainder with the sign of the divisor, as in Python and NumPy, also for a remainder of zero.
template <class T>
HWY_INLINE T FloorModLane(T a, T b) {
  T remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(T(0), b);
  if ((b < 0) != (remainder < 0)) remainder += b;
  return remainder;
}

// floor(a / b) of the exact quotient, consistent with FloorMod where both are finite; NumPy's is
// off by one where its subtraction rounds. Infinite operands as in the Array API: inf // 2 is inf
// and 1 // -inf is -0, where NumPy has NaN and -1.
template <class T>
HWY_INLINE T FloorDivideLane(T a, T b) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (b == 0 || std::abs(a) == infinity || std::abs(b) == infinity) return a / b;
  const T remainder = std::fmod(a, b);
  Wide<T> quotient = (static_cast<Wide<T>>(a) - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  quotient = std::nearbyint(quotient);
  return quotient == 0 ? std::copysign(T(0), a / b) : static_cast<T>(quotient);
}

// With |quotient| below this, floor(a / b) is off by at most one and the fused a - quotient * b is
// exact wherever NumPy's fmod is, so one correction step makes both results exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE auto FloorQuotientIsSafe(D d, V quotient, V b) {
  using T = hn::TFromD<D>;
  return hn::And(hn::Lt(hn::Abs(quotient), hn::Set(d, T(1) / std::numeric_limits<T>::epsilon())),
                 hn::IsFinite(b));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V FloorMod(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const auto slow = [&]() HWY_ATTR {
    return PerLane(d, a, b, [](T x, T y) { return FloorModLane(x, y); });
  };
  if constexpr (!kHasFma) return slow();
  const V quotient = hn::Floor(hn::Div(a, b));
  if (HWY_UNLIKELY(!hn::AllTrue(d, FloorQuotientIsSafe(d, quotient, b)))) return slow();
  const V zero = hn::Zero(d);
  V remainder = hn::NegMulAdd(quotient, b, a);
  // The quotient was rounded up to an integer: the remainder then has the wrong sign.
  const auto wrong = hn::Lt(hn::Mul(remainder, hn::CopySign(hn::Set(d, T(1)), b)), zero);
  remainder = hn::IfThenElse(wrong, hn::Add(remainder, b), remainder);
  return hn::IfThenElse(hn::Eq(remainder, zero), hn::CopySign(zero, b), remainder);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V FloorDivide(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const auto slow = [&]() HWY_ATTR {
    return PerLane(d, a, b, [](T x, T y) { return FloorDivideLane(x, y); });
  };
  if constexpr (!kHasFma) return slow();
  const V one = hn::Set(d, T(1));
  const V quotient = hn::Floor(hn::Div(a, b));
  if (HWY_UNLIKELY(!hn::AllTrue(d, FloorQuotientIsSafe(d, quotient, b)))) return slow();
  const V remainder = hn::NegMulAdd(quotient, b, a);
  const auto wrong = hn::Lt(hn::Mul(remainder, hn::CopySign(one, b)), hn::Zero(d));
  return hn::IfThenElse(wrong, hn::Sub(quotient, one), quotient);
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_ROUND_INL_H_
