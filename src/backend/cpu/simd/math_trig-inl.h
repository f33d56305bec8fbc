// Trigonometric functions and their inverses.

#if defined(EXTENSOR_SIMD_MATH_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_TRIG_INL_H_
#undef EXTENSOR_SIMD_MATH_TRIG_INL_H_
#else
#define EXTENSOR_SIMD_MATH_TRIG_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// x = quadrant pi/2 + r + r_error, |r| <= pi/4; the low bits hold the quadrant.
template <class V, class VU>
struct ReducedAngle {
  V r, r_error;
  VU quadrant;
};

template <class D, class V, class VU = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE ReducedAngle<V, VU> ReduceAngle(D d, V x) {
  using T = hn::TFromD<D>;
  const V magic = hn::Set(d, T(3) * T(uint64_t{1} << (std::numeric_limits<T>::digits - 2)));
  const V shifted = hn::Add(hn::Mul(x, Pick(d, 0.636619772f, 0.63661977236758134)), magic);
  const V n = hn::Sub(shifted, magic);
  // The first difference is exact. It is a multiple of the last bit of the second product, so the
  // rounding of their difference can be recovered.
  const V pi_2 = Pick(d, -4.37113883e-08f, 6.123233995736766e-17);
  const V high = FusedNegMulAdd(d, n, Pick(d, 1.57079637f, 1.5707963267948966), x);
  const V product = hn::Mul(n, pi_2);
  const V r = hn::Sub(high, product);
  const V product_error = hn::MulAdd(n, Pick(d, -1.71512451e-15f, -1.4973849048591699e-33),
                                     ProductError(d, n, pi_2, product));
  const V r_error = hn::Sub(hn::Sub(hn::Sub(high, r), product), product_error);
  return {r, r_error, hn::BitCast(hn::RebindToUnsigned<D>(), shifted)};
}

// Up to this bound n pi/2 keeps enough bits.
template <class D, class V>
HWY_INLINE auto WithinTrigLimit(D d, V x) {
  return hn::Le(hn::Abs(x), Pick(d, 1e5f, 1e6));
}

template <class D, class V>
HWY_INLINE V SinTail(D d, V r, V r_error, V square) {
  V p;
  if constexpr (kIsFloat<D>) {
    p = Polynomial(d, square, -0.166666672f, 0.00833339617f, -0.000198608323f, 2.91643346e-06f);
  } else {
    p = Polynomial(d, square, -0.16666666666666666, 0.0083333333333329134, -0.00019841269840724379,
                   2.7557318919617787e-06, -2.5052025461751143e-08, 1.6048083308132184e-10,
                   -7.0668520689056308e-13);
  }
  return hn::MulAdd(hn::Mul(square, r), p, r_error);
}

// cos(r + r_error) as a sum.
template <class D, class V>
HWY_INLINE Sum<V> CosSum(D d, V r, V r_error, V square) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  V p;
  if constexpr (kIsFloat<D>) {
    p = Polynomial(d, square, 0.0416666642f, -0.00138882711f, 2.45435967e-05f);
  } else {
    p = Polynomial(d, square, 0.041666666666666664, -0.0013888888888887051, 2.4801587298440747e-05,
                   -2.7557317147480436e-07, 2.0876125499284302e-09, -1.1381371034943182e-11);
  }
  const V minus_half_square = hn::Mul(square, hn::Set(d, T(-0.5)));
  const Sum<V> head = FastTwoSum(one, minus_half_square);
  const V small = hn::NegMulAdd(r, r_error, head.error);
  return {head.sum, hn::MulAdd(hn::Mul(square, square), p, small)};
}

// sin(x) for kQuarter = 0, cos(x) = sin(x + pi/2) for kQuarter = 1.
template <int kQuarter, class D, class V>
HWY_INLINE V SinCos(D d, V x) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  using Bits = hn::TFromD<decltype(du)>;
  const auto angle = ReduceAngle(d, x);
  const V square = hn::Mul(angle.r, angle.r);
  const V sin = hn::Add(angle.r, SinTail(d, angle.r, angle.r_error, square));
  const Sum<V> cos_sum = CosSum(d, angle.r, angle.r_error, square);
  const V cos = hn::Add(cos_sum.sum, cos_sum.error);
  auto quadrant = angle.quadrant;
  if constexpr (kQuarter == 1) quadrant = hn::Add(quadrant, hn::Set(du, Bits{1}));
  const auto one = hn::Set(du, Bits{1});
  const auto odd = hn::RebindMask(d, hn::TestBit(quadrant, one));
  // The second bit of the quadrant, moved to the top, is the sign.
  const V sign = hn::BitCast(d, hn::ShiftLeft<sizeof(T) * 8 - 2>(quadrant));
  return hn::Xor(hn::IfThenElse(odd, cos, sin), hn::And(sign, hn::SignBit(d)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sin(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Sin(dd, v); });
  } else {
    const V result = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, SinCos<0>(d, x));  // Keeps -0.
    return SlowWhereNot(d, WithinTrigLimit(d, x), result,
                        [&] { return PerLane(d, x, [](double lane) { return std::sin(lane); }); });
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Cos(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Cos(dd, v); });
  } else {
    return SlowWhereNot(d, WithinTrigLimit(d, x), SinCos<1>(d, x),
                        [&] { return PerLane(d, x, [](double lane) { return std::cos(lane); }); });
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tan(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Tan(dd, v); });
  } else {
    const hn::RebindToUnsigned<D> du;
    const auto angle = ReduceAngle(d, x);
    const V square = hn::Mul(angle.r, angle.r);
    const Sum<V> sin = FastTwoSum(angle.r, SinTail(d, angle.r, angle.r_error, square));
    const Sum<V> cos_sum = CosSum(d, angle.r, angle.r_error, square);
    const Sum<V> cos = FastTwoSum(cos_sum.sum, cos_sum.error);
    // An odd quarter turn: tan = -cos / sin.
    const auto odd = hn::RebindMask(d, hn::TestBit(angle.quadrant, hn::Set(du, 1)));
    const Sum<V> top = {hn::IfThenElse(odd, cos.sum, sin.sum),
                        hn::IfThenElse(odd, cos.error, sin.error)};
    const Sum<V> bottom = {hn::IfThenElse(odd, hn::Neg(sin.sum), cos.sum),
                           hn::IfThenElse(odd, hn::Neg(sin.error), cos.error)};
    const V tiny = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::epsilon() / 64);
    const V result = hn::IfThenElse(hn::Lt(hn::Abs(x), tiny), x, Quotient(d, top, bottom));
    return SlowWhereNot(d, WithinTrigLimit(d, x), result,
                        [&] { return PerLane(d, x, [](double lane) { return std::tan(lane); }); });
  }
}

// (asin(s) - s) / s for s^2 = z <= 1/4.
template <class D, class V>
HWY_INLINE V AsinTail(D d, V z) {
  if constexpr (kIsFloat<D>) {
    return hn::Mul(z, Polynomial(d, z, 0.166666657f, 0.0750015303f, 0.0445854254f, 0.0312345512f,
                                 0.0165943373f, 0.034520898f));
  } else {
    return hn::Mul(z, Polynomial(d, z, 0.16666666666666669, 0.074999999999980166,
                                 0.044642857147007213, 0.030381944094300607, 0.022372174556052844,
                                 0.017352357280154277, 0.013971711915865924, 0.011474521210334192,
                                 0.010351934620332751, 0.0053368314579362577, 0.017718742952493018,
                                 -0.015333688054688738, 0.02907777342826923));
  }
}

// For |x| > 1/2: asin(|x|) = pi/2 - 2 asin(s), s = sqrt((1 - |x|) / 2), here 2 asin(s) as a sum.
template <class V>
struct ReducedAsin {
  V small;  // asin(|x|) - |x| where |x| <= 1/2
  Sum<V> twice;
};

template <class D, class V>
HWY_INLINE ReducedAsin<V> ReduceAsin(D d, V magnitude) {
  using T = hn::TFromD<D>;
  const V half = hn::Set(d, T(0.5));
  const auto is_small = hn::Le(magnitude, half);
  const V z_large = hn::Mul(hn::Sub(hn::Set(d, T(1)), magnitude), half);
  const V z = hn::IfThenElse(is_small, hn::Mul(magnitude, magnitude), z_large);
  const V tail = AsinTail(d, z);
  const V s = hn::Sqrt(z_large);
  const V s_error = hn::Div(FusedNegMulAdd(d, s, s, z_large), hn::Add(s, s));
  const V known = hn::IfThenElseZero(hn::Gt(s, hn::Zero(d)), s_error);
  const V rest = hn::MulAdd(s, tail, known);
  return {hn::Mul(magnitude, tail), {hn::Add(s, s), hn::Add(rest, rest)}};
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Asin(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Asin(dd, v); });
  } else {
    const V magnitude = hn::Abs(x);
    const ReducedAsin<V> reduced = ReduceAsin(d, magnitude);
    const Sum<V> head =
        FastTwoSum(Pick(d, 1.57079637f, 1.5707963267948966), hn::Neg(reduced.twice.sum));
    const V rest = hn::Sub(hn::Add(head.error, Pick(d, -4.37113883e-08f, 6.123233995736766e-17)),
                           reduced.twice.error);
    const auto is_small = hn::Le(magnitude, Pick(d, 0.5f, 0.5));
    const V result =
        hn::IfThenElse(is_small, hn::Add(magnitude, reduced.small), hn::Add(head.sum, rest));
    return hn::CopySign(result, x);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Acos(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Acos(dd, v); });
  } else {
    const V zero = hn::Zero(d);
    const V magnitude = hn::Abs(x);
    const ReducedAsin<V> reduced = ReduceAsin(d, magnitude);
    const auto is_small = hn::Le(magnitude, Pick(d, 0.5f, 0.5));
    const auto negative = hn::Lt(x, zero);
    // pi/2 - x - small; 2 asin(s); pi - 2 asin(s).
    const V offset =
        hn::IfThenElse(is_small, Pick(d, 1.57079637f, 1.5707963267948966),
                       hn::IfThenElseZero(negative, Pick(d, 3.14159274f, 3.1415926535897931)));
    const V offset_error = hn::IfThenElse(
        is_small, Pick(d, -4.37113883e-08f, 6.123233995736766e-17),
        hn::IfThenElseZero(negative, Pick(d, -8.74227766e-08f, 1.2246467991473532e-16)));
    const V term = hn::IfThenElse(is_small, magnitude, reduced.twice.sum);
    const V term_error = hn::IfThenElse(is_small, reduced.small, reduced.twice.error);
    // The term is added only for a large positive x and for a small negative one.
    const auto add = hn::Xor(is_small, hn::Not(negative));
    const V sign = hn::IfThenElseZero(hn::Not(add), hn::SignBit(d));
    const Sum<V> head = FastTwoSum(offset, hn::Xor(term, sign));
    const V rest = hn::Add(hn::Add(head.error, offset_error), hn::Xor(term_error, sign));
    return hn::Add(head.sum, rest);
  }
}

// offset +- atan(smaller / larger) for 0 <= smaller <= larger, 0 < larger, with the given sign;
// offset is a multiple of pi/2 as a sum.
template <class D, class V>
HWY_INLINE V AtanOfQuotient(D d, V smaller, V larger, Sum<V> offset, V sign) {
  const V reciprocal = NearReciprocal(d, larger);
  const V rough = hn::Mul(smaller, reciprocal);
  const V remainder = FusedNegMulAdd(d, rough, larger, smaller);
  const Sum<V> t = FastTwoSum(rough, hn::Mul(remainder, reciprocal));
  const V square = hn::Mul(t.sum, t.sum);
  V p;
  if constexpr (kIsFloat<D>) {
    p = Polynomial(d, square, -0.333333313f, 0.199997514f, -0.14279069f, 0.110385619f,
                   -0.0867736638f, 0.0629596934f, -0.0364290029f, 0.0138577307f, -0.00247573527f);
  } else {
    p = Polynomial(d, square, -0.33333333333333331, 0.19999999999998214, -0.14285714285460466,
                   0.11111111096999607, -0.090909086771434583, 0.076923002719325034,
                   -0.066665777746650903, 0.058815992876288574, -0.052584495690086788,
                   0.047395841749374015, -0.042657270009452054, 0.037615486778469633,
                   -0.031485811752560981, 0.023973936831109318, -0.015815475682418603,
                   0.0085806989320042198, -0.0036115663522709304, 0.0010927502443298235,
                   -0.00020979083033667215, 1.9093319718996227e-05);
  }
  // The error of t weighs 1 / (1 + t^2), about 1 - t^2 / 2.
  const V slope =
      hn::NegMulAdd(square, hn::Set(d, hn::TFromD<D>(0.5)), hn::Set(d, hn::TFromD<D>(1)));
  const V tail = hn::MulAdd(hn::Mul(t.sum, square), p, hn::Mul(t.error, slope));
  const Sum<V> head = FastTwoSum(offset.sum, hn::Xor(t.sum, sign));
  const V rest = hn::Add(hn::Add(head.error, offset.error), hn::Xor(tail, sign));
  return hn::Add(head.sum, rest);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Atan(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Atan(dd, v); });
  } else {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1));
    // Beyond this atan is pi/2, and the reciprocal would leave the normal range.
    const V magnitude = MinKeepingNaN(d, hn::Abs(x), T(1e30));
    const auto inverted = hn::Gt(magnitude, one);
    const V sign = hn::IfThenElseZero(inverted, hn::SignBit(d));
    const Sum<V> offset = {
        hn::IfThenElseZero(inverted, Pick(d, 1.57079637f, 1.5707963267948966)),
        hn::IfThenElseZero(inverted, Pick(d, -4.37113883e-08f, 6.123233995736766e-17))};
    const V smaller = hn::IfThenElse(inverted, one, magnitude);
    const V larger = hn::IfThenElse(inverted, magnitude, one);
    return hn::CopySign(AtanOfQuotient(d, smaller, larger, offset, sign), x);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Atan2(D d, V y, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, y, x, [](auto dd, auto v, auto w) HWY_ATTR { return Atan2(dd, v, w); });
  } else {
    using T = hn::TFromD<D>;
    const V height = hn::Abs(y);
    const V width = hn::Abs(x);
    const V smaller = hn::Min(height, width);
    const V larger = hn::Max(height, width);
    // Zeros, infinities, NaN and quotients near the ends of the range.
    const T low = kIsFloat<D> ? T(1e-15) : T(1e-140);
    const auto bounded =
        hn::And(hn::Ge(smaller, hn::Set(d, low)), hn::Le(larger, hn::Set(d, 1 / low)));
    const auto ordinary = hn::And(bounded, hn::Eq(hn::Add(x, y), hn::Add(x, y)));
    const auto inverted = hn::Gt(height, width);
    const auto left = hn::Lt(x, hn::Zero(d));
    // Right: t or pi/2 - t. Left: pi - t or pi/2 + t.
    const V sign = hn::IfThenElseZero(hn::Xor(inverted, left), hn::SignBit(d));
    const Sum<V> offset = {
        hn::IfThenElse(inverted, Pick(d, 1.57079637f, 1.5707963267948966),
                       hn::IfThenElseZero(left, Pick(d, 3.14159274f, 3.1415926535897931))),
        hn::IfThenElse(
            inverted, Pick(d, -4.37113883e-08f, 6.123233995736766e-17),
            hn::IfThenElseZero(left, Pick(d, -8.74227766e-08f, 1.2246467991473532e-16)))};
    const V result = hn::CopySign(AtanOfQuotient(d, smaller, larger, offset, sign), y);
    return SlowWhereNot(d, ordinary, result, [&] {
      return PerLane(d, y, x,
                     [](double first, double second) { return std::atan2(first, second); });
    });
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_TRIG_INL_H_
