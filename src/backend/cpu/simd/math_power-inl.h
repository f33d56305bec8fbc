// Powers and roots.

#if defined(EXTENSOR_SIMD_MATH_POWER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_POWER_INL_H_
#undef EXTENSOR_SIMD_MATH_POWER_INL_H_
#else
#define EXTENSOR_SIMD_MATH_POWER_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"
#include "backend/cpu/simd/math_exp_log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Cbrt(D d, V x) {
  // Uses a wider type: glibc's double cbrt is off by up to 3 ULP.
  return PerLane(
      d, x, [](hn::TFromD<D> lane) { return std::cbrt(static_cast<Wide<hn::TFromD<D>>>(lane)); });
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Rsqrt(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  V y;
#if EXTENSOR_AVX512
  if constexpr (!kIsFloat<D>) {
    if constexpr (sizeof(V) == 64)
      y = V{_mm512_rsqrt14_pd(x.raw)};
    else if constexpr (sizeof(V) == 32)
      y = V{_mm256_rsqrt14_pd(x.raw)};
    else
      y = V{_mm_rsqrt14_pd(x.raw)};
    // A first step to 28 bits; at 0 and infinity it is NaN and discarded.
    const V step = hn::Mul(hn::Mul(y, hn::Set(d, T(0.5))), hn::NegMulAdd(hn::Mul(x, y), y, one));
    y = hn::IfThenElse(hn::IsNaN(step), y, hn::Add(y, step));
  } else if constexpr (sizeof(V) == 64)
    y = V{_mm512_rsqrt14_ps(x.raw)};
  else if constexpr (sizeof(V) == 32)
    y = V{_mm256_rsqrt14_ps(x.raw)};
  else
    y = V{_mm_rsqrt14_ps(x.raw)};
#else
  y = hn::Div(one, hn::Sqrt(x));
#endif
  if constexpr (!kHasFma) return y;
  // One Newton step with the exact 1 - x y^2; at 0 and infinity, where that is NaN, y is the
  // result.
  const V product = hn::Mul(x, y);
  const V defect = hn::NegMulAdd(ProductError(d, x, y, product), y, hn::NegMulAdd(product, y, one));
  const V step = hn::Mul(hn::Mul(y, hn::Set(d, T(0.5))), defect);
  return hn::IfThenElse(hn::IsNaN(step), y, hn::Add(y, step));
}

// Scaled by the larger operand's power of two, so that nothing overflows or underflows.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Hypot(D d, V a, V b) {
  using T = hn::TFromD<D>;
  if constexpr (kIsFloat<D>) {
    const V result = InDouble(d, a, b, [](auto, auto v, auto w) HWY_ATTR {
      return hn::Sqrt(hn::MulAdd(v, v, hn::Mul(w, w)));
    });
    const auto infinite = hn::Or(hn::IsInf(a), hn::IsInf(b));
    return hn::IfThenElse(infinite, Infinity(d), result);
  } else {
    const V larger = hn::Max(hn::Abs(a), hn::Abs(b));
    const V smaller = hn::Min(hn::Abs(a), hn::Abs(b));
    const hn::RebindToUnsigned<D> du;
    // Both ends of the range, infinity and NaN use the slow path.
    const V limit = hn::Set(d, T(1e300));
    const auto bounded = hn::And(hn::Le(hn::Abs(a), limit), hn::Le(hn::Abs(b), limit));
    const auto normal = hn::And(bounded, hn::Ge(larger, hn::Set(d, T(1e-290))));
    const auto exponent = hn::And(hn::BitCast(du, larger), hn::Set(du, uint64_t{0x7FF} << 52));
    const V scale = hn::BitCast(d, hn::Sub(hn::Set(du, uint64_t{2046} << 52), exponent));
    const V unscale = hn::BitCast(d, exponent);
    const V x = hn::Mul(larger, scale);
    const V y = hn::Mul(smaller, scale);
    // sqrt of x^2 + y^2 including the squares' rounding errors, by one correction of the root.
    const V square = hn::Mul(x, x);
    const V other = hn::Mul(y, y);
    const Sum<V> sum = FastTwoSum(square, other);
    const V rest =
        hn::Add(sum.error, hn::Add(ProductError(d, x, x, square), ProductError(d, y, y, other)));
    const V root = hn::Sqrt(sum.sum);
    const V defect = hn::Add(FusedNegMulAdd(d, root, root, sum.sum), rest);
    const V result = hn::Mul(hn::Add(root, hn::Div(defect, hn::Add(root, root))), unscale);
    return SlowWhereNot(d, normal, result, [&] {
      return PerLane(d, a, b, [](T x, T y) { return std::hypot(x, y); });
    });
  }
}

// log2(x) = n + log + log_error to about 2^-68, for positive finite double x.
template <class V>
struct Log2Parts {
  V n, log, log_error;
};

template <class D, class V>
HWY_INLINE Log2Parts<V> Log2Extended(D d, V x) {
  const SplitFloat<V> split = SplitExponent(d, x);
  const V f = split.f;
  const V two = hn::Set(d, 2.0);
  // log((1 + s) / (1 - s)) for s = f / (2 + f), in twice the precision up to the cubic term.
  const V bottom = hn::Add(f, two);
  const V bottom_error = hn::Add(hn::Sub(two, bottom), f);
  const V reciprocal = hn::Div(hn::Set(d, 1.0), bottom);
  const V s = hn::Mul(f, reciprocal);
  const V remainder = hn::NegMulAdd(s, bottom_error, FusedNegMulAdd(d, s, bottom, f));
  const V s_error = hn::Mul(remainder, reciprocal);
  const V z = hn::Mul(s, s);
  const V z_error = hn::MulAdd(hn::Add(s, s), s_error, ProductError(d, s, s, z));
  const V p = Polynomial(d, z, 0.39999999999999997, 0.2857142857143683, 0.2222222221816022,
                         0.18181818967123517, 0.15384540097160504, 0.13337262565553357,
                         0.11651426551689162, 0.1220519526278393);
  // (2/3 + z p) as a sum.
  const V third2 = hn::Set(d, 0.66666666666666663);
  const V zp = hn::Mul(z, p);
  const Sum<V> cubic = FastTwoSum(third2, zp);
  const V cubic_error = hn::Add(hn::Add(cubic.error, hn::Set(d, 3.7007434154171886e-17)),
                                hn::MulAdd(z_error, p, ProductError(d, z, p, zp)));
  // w = s^3 (2/3 + ...) = s z cubic.
  const V zc = hn::Mul(z, cubic.sum);
  const V zc_error =
      hn::MulAdd(z, cubic_error, hn::MulAdd(z_error, cubic.sum, ProductError(d, z, cubic.sum, zc)));
  const V w = hn::Mul(s, zc);
  const V w_error = hn::MulAdd(s, zc_error, hn::MulAdd(s_error, zc, ProductError(d, s, zc, w)));
  // 2 s + w
  const Sum<V> log = FastTwoSum(hn::Add(s, s), w);
  const V log_error = hn::Add(hn::MulAdd(two, s_error, log.error), w_error);
  // times log2(e)
  const V scale = hn::Set(d, 1.4426950408889634);
  const V product = hn::Mul(log.sum, scale);
  const V product_error = hn::MulAdd(log_error, scale,
                                     hn::MulAdd(log.sum, hn::Set(d, 2.0355273740931033e-17),
                                                ProductError(d, log.sum, scale, product)));
  const Sum<V> head = FastTwoSum(split.n, product);
  return {head.sum, head.error, product_error};
}

// |a|^b for finite positive |a|: 2^(b log2 a).
template <class D, class V>
HWY_INLINE V PowerOfPositive(D d, V a, V b) {
  const Log2Parts<V> log = Log2Extended(d, a);
  const V product = hn::Mul(b, log.n);
  V error = hn::MulAdd(b, hn::Add(log.log, log.log_error), ProductError(d, b, log.n, product));
  // Beyond the range the result is 0 or infinity, and the error may not be finite.
  const V bounded = ClampKeepingNaN(d, product, -1080.0, 1030.0);
  error = hn::IfThenElseZero(hn::Eq(bounded, product), error);
  const V n = hn::Round(bounded);
  const Sum<V> fraction = FastTwoSum(hn::Sub(bounded, n), error);
  const V ln2 = hn::Set(d, 0.69314718055994529);
  ReducedExp<V> e;
  e.n = n;
  e.r = hn::Mul(fraction.sum, ln2);
  e.r_error = hn::MulAdd(fraction.error, ln2,
                         hn::MulAdd(fraction.sum, hn::Set(d, 2.3190468138462996e-17),
                                    ProductError(d, fraction.sum, ln2, e.r)));
  e.square = hn::Mul(e.r, e.r);
  e.q = ExpPolynomial<false>(d, e.r, e.square);
  const Sum<V> value = ReducedExpSum<true>(d, e);
  return ScaleByPowerOfTwo(d, hn::Add(value.sum, value.error), n);
}

// For float lanes: the same in plain double arithmetic, to about 2^-34.
template <class D, class V>
HWY_INLINE V PowerOfPositiveForFloat(D d, V a, V b) {
  const SplitFloat<V> split = SplitExponent(d, a);
  const V s = hn::Div(split.f, hn::Add(split.f, hn::Set(d, 2.0)));
  const V z = hn::Mul(s, s);
  const V log = hn::MulAdd(
      s,
      Polynomial(d, z, 2.8853900817779312, 0.9617966939150685, 0.57707802070053238,
                 0.4121979361393629, 0.32064463565965995, 0.26065693936992057, 0.25114058591699018),
      split.n);
  const V product = ClampKeepingNaN(d, hn::Mul(b, log), -200.0, 200.0);
  const V n = hn::Round(product);
  const V value = Polynomial(d, hn::Sub(product, n), 0.99999999995948496, 0.69314718053498303,
                             0.24022651214206481, 0.055504109762509274, 0.0096180255211807397,
                             0.0013333422528985577, 0.00015469758202223688, 1.5316489021742846e-05);
  return hn::Mul(value, PowerOfTwo(d, n));
}

// C99 pow: the common case first, a positive finite base and a finite exponent.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Pow(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, T(1));
  if constexpr (!kHasFma) {
    return PerLane(d, a, b, [](double x, double y) { return std::pow(x, y); });
  } else {
    const V magnitude = hn::Abs(a);
    V result;
    if constexpr (kIsFloat<D>) {
      result = InDouble(d, magnitude, b, [](auto dd, auto v, auto w) HWY_ATTR {
        return PowerOfPositiveForFloat(dd, v, w);
      });
    } else {
      result = PowerOfPositive(d, magnitude, b);
    }
    const V infinity = Infinity(d);
    const auto ordinary =
        hn::And(hn::And(hn::Gt(a, zero), hn::Lt(a, infinity)), hn::Lt(hn::Abs(b), infinity));
    if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return result;

    // Half of an odd integer is not an integer; all numbers beyond 2^digits are even.
    const V half_exponent = hn::Mul(b, hn::Set(d, T(0.5)));
    const auto integer = hn::Eq(hn::Trunc(b), b);
    const auto odd = hn::And(integer, hn::Ne(hn::Trunc(half_exponent), half_exponent));
    const V sign = hn::IfThenElseZero(odd, hn::And(a, hn::SignBit(d)));
    const auto base_is_extreme = hn::Or(hn::Eq(magnitude, zero), hn::Eq(magnitude, infinity));
    // 0^positive and infinity^negative are 0, the opposite infinity.
    const V extreme =
        hn::IfThenElse(hn::Xor(hn::Lt(b, zero), hn::Eq(magnitude, zero)), zero, infinity);
    result = hn::IfThenElse(base_is_extreme, extreme, result);
    // A finite negative base has a real power only for an integral exponent.
    const auto no_real =
        hn::And(hn::And(hn::Lt(a, zero), hn::Lt(magnitude, infinity)), hn::Not(integer));
    result = hn::IfThenElse(no_real, NotANumber(d), hn::Or(result, sign));
    const V to_infinity = hn::IfThenElse(
        hn::Eq(magnitude, one), one,
        hn::IfThenElse(hn::Xor(hn::Gt(magnitude, one), hn::Lt(b, zero)), infinity, zero));
    result = hn::IfThenElse(hn::Eq(hn::Abs(b), infinity), to_infinity, result);
    result = hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), NotANumber(d), result);
    return hn::IfThenElse(hn::Or(hn::Eq(b, zero), hn::Eq(a, one)), one, result);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_POWER_INL_H_
