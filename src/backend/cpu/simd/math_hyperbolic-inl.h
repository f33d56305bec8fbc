// Hyperbolic functions and their inverses.

#if defined(EXTENSOR_SIMD_MATH_HYPERBOLIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_HYPERBOLIC_INL_H_
#undef EXTENSOR_SIMD_MATH_HYPERBOLIC_INL_H_
#else
#define EXTENSOR_SIMD_MATH_HYPERBOLIC_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"
#include "backend/cpu/simd/math_exp_log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// 2^-n (e^|x| +- e^-|x|): p +- 4^-n / p, p = 2^-n e^|x|.
template <bool kMinus, class D, class V>
HWY_INLINE V SumOfExponentials(D d, V magnitude) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  const V bounded = MinKeepingNaN(d, magnitude, T(kIsFloat<D> ? 90 : 712));
  const ReducedExp<V> e = ReduceExp<true>(d, bounded);
  const Sum<V> value = ReducedExpSum<true>(d, e);
  const Sum<V> p = FastTwoSum(value.sum, value.error);
  // For n >= 40 the second term is below the last bit.
  const V power = PowerOfTwo(d, hn::Mul(hn::Set(d, T(-2)), hn::Min(e.n, hn::Set(d, T(40)))));
  const V reciprocal = NearReciprocal(d, p.sum);
  const V defect = hn::NegMulAdd(p.error, reciprocal, FusedNegMulAdd(d, p.sum, reciprocal, one));
  const V signed_power = kMinus ? hn::Neg(power) : power;
  const V other = hn::Mul(reciprocal, signed_power);
  const Sum<V> head = TwoSum(p.sum, other);
  const V rest = hn::MulAdd(other, defect, hn::Add(head.error, p.error));
  return ScaleByPowerOfTwo(d, hn::Add(head.sum, rest), hn::Sub(e.n, one));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sinh(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Sinh(dd, v); });
  } else {
    const V magnitude = hn::Abs(x);
    const V square = hn::Mul(x, x);
    V p;
    if constexpr (kIsFloat<D>) {
      p = Polynomial(d, square, 0.166666672f, 0.00833312143f, 0.0001999284f);
    } else {
      p = Polynomial(d, square, 0.16666666666666666, 0.0083333333333339647, 0.00019841269840013145,
                     2.7557320312658116e-06, 2.5051644482458248e-08, 1.6154798318747406e-10);
    }
    const V small = hn::MulAdd(hn::Mul(magnitude, square), p, magnitude);
    const auto is_small = hn::Lt(magnitude, Pick(d, 0.6f, 0.6));
    return hn::CopySign(hn::IfThenElse(is_small, small, SumOfExponentials<true>(d, magnitude)), x);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Cosh(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Cosh(dd, v); });
  } else {
    return SumOfExponentials<false>(d, hn::Abs(x));
  }
}

// tanh(x) = (e - 1) / (e + 1) for e = exp(2|x|) = 2^n (1 + y): divided by 2^n, both are sums of an
// exact number and y.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Tanh(dd, v); });
  } else {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1));
    // Beyond these tanh rounds to one.
    const V bounded = MinKeepingNaN(d, hn::Abs(x), T(kIsFloat<D> ? 10 : 20));
    const ReducedExp<V> e = ReduceExp<true>(d, hn::Add(bounded, bounded));
    const V power = PowerOfTwo(d, hn::Neg(e.n));
    const Sum<V> below_one = FastTwoSum(one, hn::Neg(power));
    const Sum<V> above_one = FastTwoSum(one, power);
    const Sum<V> top = FastTwoSum(below_one.sum, e.r);
    const Sum<V> bottom = FastTwoSum(above_one.sum, e.r);
    const V tail = hn::MulAdd(e.square, e.q, e.r_error);
    const V numerator_tail = hn::Add(hn::Add(top.error, below_one.error), tail);
    const V denominator_tail = hn::Add(hn::Add(bottom.error, above_one.error), tail);
    const V magnitude =
        Quotient(d, FastTwoSum(top.sum, numerator_tail), FastTwoSum(bottom.sum, denominator_tail));
    return hn::CopySign(magnitude, x);
  }
}

// sqrt of a sum, as a sum.
template <class D, class V>
HWY_INLINE Sum<V> SqrtSum(D d, Sum<V> x) {
  const V root = hn::Sqrt(x.sum);
  const V defect = hn::Add(FusedNegMulAdd(d, root, root, x.sum), x.error);
  const V correction = hn::Div(defect, hn::Add(root, root));
  return {root, hn::IfThenElseZero(hn::Gt(root, hn::Zero(d)), correction)};
}

// log(1 + q), or log(2x) if x is so large that q, computed from its square, could overflow.
template <class D, class V>
HWY_INLINE V Log1pOrLogOfTwice(D d, Sum<V> q, V x) {
  const auto large = hn::Gt(x, hn::Set(d, 1e150));
  const V argument = hn::IfThenElse(large, x, q.sum);
  const V log = Log1pFinite(d, argument, hn::IfThenElseZero(hn::Not(large), q.error));
  return hn::Add(log, hn::IfThenElseZero(large, hn::Set(d, 0.69314718055994529)));
}

// log(|x| + sqrt(x^2 + 1)) = log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Asinh(D d, V x) {
  if constexpr (kIsFloat<D>) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Asinh(dd, v); });
  } else {
    const V one = hn::Set(d, 1.0);
    const V magnitude = hn::Abs(x);
    const V square = hn::Mul(magnitude, magnitude);
    const V square_error = ProductError(d, magnitude, magnitude, square);
    const Sum<V> radicand = TwoSum(one, square);
    const Sum<V> root = SqrtSum(d, Sum<V>{radicand.sum, hn::Add(radicand.error, square_error)});
    const Sum<V> bottom = FastTwoSum(root.sum, one);
    const V bottom_error = hn::Add(bottom.error, root.error);
    const V quotient = hn::Div(square, bottom.sum);
    const V remainder = FusedNegMulAdd(d, quotient, bottom.sum, square);
    const V quotient_error = hn::Div(
        hn::Add(hn::NegMulAdd(quotient, bottom_error, remainder), square_error), bottom.sum);
    const Sum<V> q = TwoSum(magnitude, quotient);
    const V result =
        Log1pOrLogOfTwice(d, Sum<V>{q.sum, hn::Add(q.error, quotient_error)}, magnitude);
    // So small that the square's error is not representable; infinity; NaN.
    const auto itself = hn::Or(hn::Lt(magnitude, hn::Set(d, 1e-10)), hn::Not(hn::IsFinite(x)));
    return hn::CopySign(hn::IfThenElse(itself, magnitude, result), x);
  }
}

// log1p(t + sqrt(2 t + t^2)), t = x - 1
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Acosh(D d, V x) {
  if constexpr (kIsFloat<D>) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Acosh(dd, v); });
  } else {
    const V one = hn::Set(d, 1.0);
    const Sum<V> t = FastTwoSum(x, hn::Neg(one));
    const V square = hn::Mul(t.sum, t.sum);
    const V twice = hn::Add(t.sum, t.sum);
    const V square_error = hn::MulAdd(twice, t.error, ProductError(d, t.sum, t.sum, square));
    const Sum<V> radicand = TwoSum(square, twice);
    const V radicand_error =
        hn::Add(hn::Add(t.error, t.error), hn::Add(radicand.error, square_error));
    const Sum<V> root = SqrtSum(d, Sum<V>{radicand.sum, radicand_error});
    const Sum<V> q = TwoSum(t.sum, root.sum);
    const V result =
        Log1pOrLogOfTwice(d, Sum<V>{q.sum, hn::Add(q.error, hn::Add(t.error, root.error))}, x);
    const V bounded = hn::IfThenElse(hn::Lt(x, Infinity(d)), result, x);
    return hn::IfThenElse(hn::Ge(x, one), bounded, NotANumber(d));
  }
}

// log1p(2 |x| / (1 - |x|)) / 2
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Atanh(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Atanh(dd, v); });
  } else {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1));
    const V magnitude = hn::Abs(x);
    const Sum<V> bottom = FastTwoSum(one, hn::Neg(magnitude));
    const V reciprocal = NearReciprocal(d, bottom.sum);
    const V twice = hn::Add(magnitude, magnitude);
    const V quotient = hn::Mul(twice, reciprocal);
    const V remainder =
        hn::NegMulAdd(quotient, bottom.error, FusedNegMulAdd(d, quotient, bottom.sum, twice));
    const V log = Log1pFinite(d, quotient, hn::Mul(remainder, reciprocal));
    V result = hn::Mul(log, hn::Set(d, T(0.5)));
    result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, std::numeric_limits<T>::epsilon() / 4)),
                            magnitude, result);
    result = hn::IfThenElse(hn::Eq(magnitude, one), Infinity(d), result);
    return hn::CopySign(hn::IfThenElse(hn::Le(magnitude, one), result, NotANumber(d)), x);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_HYPERBOLIC_INL_H_
