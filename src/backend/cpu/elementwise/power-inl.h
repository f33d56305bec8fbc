// Powers of a whole row with one simple exponent, such as x³ or 1 / x².
#if defined(EXTENSOR_POWER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_POWER_INL_H_
#undef EXTENSOR_POWER_INL_H_
#else
#define EXTENSOR_POWER_INL_H_
#endif

#include "backend/cpu/simd/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// Exponents whose powers are a few products or a root.
enum class SimplePower { none, minus_3, minus_2, minus_half, half, one, two, three, four };

inline SimplePower simple_power_of(double exponent) {
  if constexpr (!kHasFma) return SimplePower::none;
  if (exponent == -3) return SimplePower::minus_3;
  if (exponent == -2) return SimplePower::minus_2;
  if (exponent == -0.5) return SimplePower::minus_half;
  if (exponent == 0.5) return SimplePower::half;
  if (exponent == 1) return SimplePower::one;
  if (exponent == 2) return SimplePower::two;
  if (exponent == 3) return SimplePower::three;
  if (exponent == 4) return SimplePower::four;
  return SimplePower::none;
}

// Rounded almost as if once: products carry their rounding errors, except where something overflows
// or is divided by 0. `power` is not `none`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowSimple(D d, V x, SimplePower power) {
  const V infinity = Infinity(d);
  const auto corrected = [=](V value, V uncorrected) HWY_ATTR {
    return hn::IfThenElse(hn::Lt(hn::Abs(uncorrected), infinity), value, uncorrected);
  };
  const V square = hn::Mul(x, x), error = ProductError(d, x, x, square);
  switch (power) {
    case SimplePower::one:
      return x;
    case SimplePower::two:
      return square;
    case SimplePower::three:
      return corrected(hn::MulAdd(x, square, hn::Mul(x, error)), hn::Mul(x, square));
    case SimplePower::four:
      return corrected(hn::MulAdd(square, square, hn::Mul(hn::Add(square, square), error)),
                       hn::Mul(square, square));
    case SimplePower::minus_2:
    case SimplePower::minus_3: {
      const V one = hn::Set(d, hn::TFromD<D>(1)), inverse = hn::Div(one, x);
      const V rest = hn::Mul(inverse, FusedNegMulAdd(d, x, inverse, one));  // of the inverse
      // The powers of 1 / 0 and 1 / ∞ are exact.
      const V inverse_error = hn::IfThenElseZero(hn::Eq(rest, rest), rest);
      const V head = hn::Mul(inverse, inverse);
      const V head_error = hn::MulAdd(hn::Add(inverse, inverse), inverse_error,
                                      ProductError(d, inverse, inverse, head));
      if (power == SimplePower::minus_2) return corrected(hn::Add(head, head_error), head);
      const V cube = hn::Mul(inverse, head);
      const V cube_rest = hn::MulAdd(inverse, head_error, hn::Mul(inverse_error, head));
      // A zero keeps its sign.
      return hn::IfThenElse(hn::Eq(cube, hn::Zero(d)), cube,
                            corrected(hn::MulAdd(inverse, head, cube_rest), cube));
    }
    default: {
      // The power of −0 is that of 0, and that of −∞ is that of ∞.
      const auto negative = hn::Eq(x, hn::Neg(infinity));
      const V base = hn::IfThenElse(negative, infinity, hn::Add(x, hn::Zero(d)));
      return power == SimplePower::half ? hn::Sqrt(base) : Rsqrt(d, base);
    }
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_POWER_INL_H_
