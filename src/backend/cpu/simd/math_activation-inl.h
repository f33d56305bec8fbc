// Activations built from exp, log and tanh.

#if defined(EXTENSOR_SIMD_MATH_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_ACTIVATION_INL_H_
#undef EXTENSOR_SIMD_MATH_ACTIVATION_INL_H_
#else
#define EXTENSOR_SIMD_MATH_ACTIVATION_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"
#include "backend/cpu/simd/math_exp_log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// sigmoid(x) = 2^n / d for d = 2^n + e^(n ln2 - x): in [0.7, 2] 2^n, so that neither end overflows
// and the left tail keeps its precision down to the subnormals.
template <class V>
struct ReducedSigmoid {
  V n;
  Sum<V> denominator;
};

// x_error is the rounding error of x, for computed arguments.
template <bool kWithError, class D, class V>
HWY_INLINE ReducedSigmoid<V> ReduceSigmoid(D d, V x, V x_error) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  const V bounded =
      kIsFloat<D> ? ClampKeepingNaN(d, x, T(-120), T(30)) : ClampKeepingNaN(d, x, T(-760), T(60));
  // Like ReduceExp, for -x.
  const V n = hn::Round(hn::Mul(bounded, Pick(d, 1.44269502f, 1.4426950408889634)));
  const V high = ProductError(d, n, Pick(d, 0.693147182f, 0.69314718055994529), bounded);
  const V low = Pick(d, -1.90465421e-09f, 2.3190468138462996e-17);
  const V r = hn::MulAdd(n, low, high);
  const V square = hn::Mul(r, r);
  V y = hn::MulAdd(square, ExpPolynomial<false>(d, r, square), r);
  if constexpr (kWithError) {
    const V r_error = hn::MulAdd(n, low, hn::Sub(high, r));
    y = hn::Add(y, hn::NegMulAdd(x_error, hn::Add(one, y), r_error));
  }
  const Sum<V> whole = FastTwoSum(one, PowerOfTwoOrZero(d, n));
  const Sum<V> sum = FastTwoSum(whole.sum, y);
  return {n, {sum.sum, hn::Add(sum.error, whole.error)}};
}

// 1 / d: one Newton step from the rough reciprocal, with the whole denominator.
template <class D, class V>
HWY_INLINE V SigmoidMantissa(D d, const ReducedSigmoid<V>& s) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  const V rough = RoughReciprocal(d, s.denominator.sum);
  const V error =
      hn::NegMulAdd(s.denominator.error, rough, FusedNegMulAdd(d, s.denominator.sum, rough, one));
  return hn::MulAdd(rough, error, rough);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Sigmoid(dd, v); });
  } else {
    const ReducedSigmoid<V> s = ReduceSigmoid<false>(d, x, x);
    return ScaleByPowerOfTwo(d, SigmoidMantissa(d, s), s.n);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Silu(dd, v); });
  } else {
    const ReducedSigmoid<V> s = ReduceSigmoid<false>(d, x, x);
    // Far left the result is zero; avoid -infinity times zero.
    const V bounded = MaxKeepingNaN(d, x, hn::TFromD<D>(kIsFloat<D> ? -120 : -760));
    return ScaleByPowerOfTwo(d, hn::Mul(bounded, SigmoidMantissa(d, s)), s.n);
  }
}

// max(x, 0) + log(1 + e^-|x|)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Softplus(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Softplus(dd, v); });
  } else {
    const Sum<V> log = Log1pOfUnit(d, ExpSum(d, hn::Neg(hn::Abs(x))));
    return hn::Add(MaxKeepingNaN(d, x, hn::TFromD<D>(0)), hn::Add(log.sum, log.error));
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogSigmoid(D d, V x) {
  return hn::Neg(Softplus(d, hn::Neg(x)));
}

// log(e^a + e^b) = max + log(1 + e^(min - max)), accurate to about an eighth of an ULP of the
// larger of its terms before the last rounding.
template <class D, class V>
HWY_INLINE V LogAddExpTerms(D d, V a, V b) {
  const V zero = hn::Zero(d);
  const V larger = hn::Max(a, b);
  const Sum<V> difference = TwoSum(hn::Min(a, b), hn::Neg(larger));
  Sum<V> power = ExpSum(d, difference.sum);
  // With an infinite difference its error is NaN and the power zero.
  const V error = hn::IfThenElseZero(hn::Gt(power.sum, zero), difference.error);
  power.error = hn::MulAdd(power.sum, error, power.error);
  const Sum<V> log = Log1pOfUnit(d, power);
  const Sum<V> head = TwoSum(larger, log.sum);
  // An infinite sum has an error of NaN.
  const V rest = hn::IfThenElseZero(hn::Lt(hn::Abs(head.sum), Infinity(d)), head.error);
  const V result = hn::Add(head.sum, hn::Add(rest, log.error));
  // Equal infinities have no difference; Max and Min may have lost a NaN.
  const V ln2 = Pick(d, 0.693147182f, 0.69314718055994529);
  const V twice = hn::IfThenElse(hn::Eq(a, b), hn::Add(a, ln2), result);
  return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), NotANumber(d), twice);
}

// For float lanes: the same in plain double arithmetic, to about 2^-38 of the larger of its terms.
// Wrong for NaN and equal infinities.
template <class D, class V>
HWY_INLINE V LogAddExpForFloat(D d, V a, V b) {
  const V larger = hn::Max(a, b);
  const V difference = hn::Sub(hn::Min(a, b), larger);
  const V scaled =
      ClampKeepingNaN(d, hn::Mul(difference, hn::Set(d, 1.4426950408889634)), -200.0, 0.0);
  const V n = hn::Round(scaled);
  const V fraction =
      Polynomial(d, hn::Sub(scaled, n), 0.99999999995948496, 0.69314718053498303,
                 0.24022651214206481, 0.055504109762509274, 0.0096180255211807397,
                 0.0013333422528985577, 0.00015469758202223688, 1.5316489021742846e-05);
  const V power = hn::Mul(fraction, PowerOfTwo(d, n));
  // log(1 + p) = 2 artanh(p / (2 + p))
  const V s = hn::Div(power, hn::Add(power, hn::Set(d, 2.0)));
  const V log = hn::Mul(s, Polynomial(d, hn::Mul(s, s), 2.000000000004997, 0.6666666622944799,
                                      0.40000062316018997, 0.28568111249546574, 0.22305728378610523,
                                      0.1711771564032673, 0.21875063847054158));
  return hn::Add(larger, log);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogAddExp(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const auto terms = [](auto dd, auto v, auto w) HWY_ATTR { return LogAddExpTerms(dd, v, w); };
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, a, b, terms);
  } else {
    V result;
    if constexpr (kIsFloat<D>) {
      result = InDouble(
          d, a, b, [](auto dd, auto v, auto w) HWY_ATTR { return LogAddExpForFloat(dd, v, w); });
      const auto infinite = hn::And(hn::Eq(a, b), hn::Eq(hn::Abs(a), Infinity(d)));
      result = hn::IfThenElse(infinite, a, result);
      result = hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), NotANumber(d), result);
    } else {
      result = LogAddExpTerms(d, a, b);
    }
    // Terms of opposite sign may cancel; in that rare case the wider type has the remaining bits.
    const V rare = hn::Set(d, T(kIsFloat<D> ? 0x1p-12 : 0.125));
    const auto cancelled =
        hn::And(hn::Lt(hn::Max(a, b), hn::Zero(d)), hn::Lt(hn::Abs(result), rare));
    return SlowWhereNot(d, hn::Not(cancelled), result, [&]() HWY_ATTR {
      if constexpr (kIsFloat<D>) {
        return InDouble(d, a, b, terms);
      } else {
        return PerLane(d, a, b, [](long double x, long double y) {
          return std::fmax(x, y) + std::log1p(std::exp(-std::abs(x - y)));
        });
      }
    });
  }
}

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), 2u = sqrt(8/pi) (x + 0.044715 x^3), which the left tail
// needs in twice the precision.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return GeluTanh(dd, v); });
  } else {
    const T bound = kIsFloat<D> ? 12 : 25;
    const V bounded = ClampKeepingNaN(d, x, -bound, bound);
    const V cubic = Pick(d, 0.0713548139f, 0.071354816272600249);
    const V square = hn::Mul(bounded, bounded);
    const V square_error = ProductError(d, bounded, bounded, square);
    const V scaled = hn::Mul(square, cubic);
    const V scaled_error =
        hn::MulAdd(square_error, cubic,
                   hn::MulAdd(square, Pick(d, 2.3988324e-09f, -6.175149918155315e-19),
                              ProductError(d, square, cubic, scaled)));
    const Sum<V> slope = TwoSum(Pick(d, 1.59576917f, 1.5957691216057308), scaled);
    const V slope_error = hn::Add(
        hn::Add(slope.error, Pick(d, -4.53406804e-08f, -9.9693088091109202e-17)), scaled_error);
    const Sum<V> twice_u = Product(d, bounded, Sum<V>{slope.sum, slope_error});
    const ReducedSigmoid<V> s = ReduceSigmoid<true>(d, twice_u.sum, twice_u.error);
    const V value =
        ScaleByPowerOfTwo(d, Quotient(d, Sum<V>{bounded, hn::Zero(d)}, s.denominator), s.n);
    return hn::IfThenElse(hn::Ge(x, hn::Set(d, bound)), x, hn::CopySign(value, x));
  }
}

// x tanh(softplus(x)) = x e (e + 2) / (e (e + 2) + 2) for e = e^x = 2^n p.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Mish(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Mish(dd, v); });
  } else {
    const V two = hn::Set(d, T(2));
    const V high = Pick(d, 20, 40);
    const V bounded =
        kIsFloat<D> ? ClampKeepingNaN(d, x, T(-120), T(20)) : ClampKeepingNaN(d, x, T(-760), T(40));
    const ReducedExp<V> e = ReduceExp<false>(d, bounded);
    const Sum<V> sum = ReducedExpSum<true>(d, e);
    const Sum<V> p = FastTwoSum(sum.sum, sum.error);
    const V power = PowerOfTwoOrZero(d, e.n);
    // e + 2: the larger term first.
    const V exponential = hn::Mul(p.sum, power);
    const Sum<V> head = TwoSum(two, exponential);
    const V factor_error = hn::MulAdd(p.error, power, head.error);
    // p (e + 2), then times 2^n plus 2.
    const V product = hn::Mul(p.sum, head.sum);
    const V product_error =
        hn::MulAdd(p.sum, factor_error,
                   hn::MulAdd(p.error, head.sum, ProductError(d, p.sum, head.sum, product)));
    const Sum<V> bottom = TwoSum(two, hn::Mul(product, power));
    const Sum<V> top = Product(d, bounded, Sum<V>{product, product_error});
    const V ratio =
        Quotient(d, top, Sum<V>{bottom.sum, hn::MulAdd(product_error, power, bottom.error)});
    const V value = ScaleByPowerOfTwo(d, ratio, e.n);
    return hn::IfThenElse(hn::Gt(x, high), x, hn::CopySign(value, x));
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_ACTIVATION_INL_H_
