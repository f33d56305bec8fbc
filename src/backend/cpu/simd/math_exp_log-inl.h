// Exponentials and logarithms.

#if defined(EXTENSOR_SIMD_MATH_EXP_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_EXP_LOG_INL_H_
#undef EXTENSOR_SIMD_MATH_EXP_LOG_INL_H_
#else
#define EXTENSOR_SIMD_MATH_EXP_LOG_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// e^x = 2^n (1 + r + r_error + r^2 q): |r| <= ln(2)/2.
template <class V>
struct ReducedExp {
  V n, r, r_error, square, q;
};

// kExact: accurate to the last bit of r^2 q itself, for e^x - 1; otherwise to that of e^x.
template <bool kExact, class D, class V>
HWY_INLINE V ExpPolynomial(D d, V r, V square) {
  if constexpr (kIsFloat<D> && kExact) {
    return PolynomialWithSquare(d, r, square, 0.5f, 0.166666672f, 0.0416665114f, 0.00833317731f,
                                0.00139305019f, 0.00019972329f);
  } else if constexpr (kIsFloat<D>) {
    return PolynomialWithSquare(d, r, square, 0.5f, 0.166665763f, 0.0416664667f, 0.00836324878f,
                                0.00139349676f);
  } else {
    return PolynomialWithSquare(d, r, square, 0.5, 0.16666666666666671, 0.041666666666666678,
                                0.0083333333333258965, 0.0013888888888876985,
                                0.00019841269875410617, 2.4801587342422164e-05,
                                2.7557254823865368e-06, 2.7557257005698655e-07,
                                2.510541135511907e-08, 2.0920349971431765e-09);
  }
}

// x must be finite, and its power of two n representable.
template <bool kExact, class D, class V>
HWY_INLINE ReducedExp<V> ReduceExp(D d, V x) {
  ReducedExp<V> e;
  e.n = hn::Round(hn::Mul(x, Pick(d, 1.44269502f, 1.4426950408889634)));
  // The first difference is exact: it cancels to a multiple of the last bit of ln2.
  const V high = FusedNegMulAdd(d, e.n, Pick(d, 0.693147182f, 0.69314718055994529), x);
  const V low = Pick(d, -1.90465421e-09f, 2.3190468138462996e-17);
  e.r = hn::NegMulAdd(e.n, low, high);
  e.r_error = hn::NegMulAdd(e.n, low, hn::Sub(high, e.r));
  e.square = hn::Mul(e.r, e.r);
  e.q = ExpPolynomial<kExact>(d, e.r, e.square);
  return e;
}

// The same for 2^x.
template <class D, class V>
HWY_INLINE ReducedExp<V> ReduceExp2(D d, V x) {
  ReducedExp<V> e;
  e.n = hn::Round(x);
  const V fraction = hn::Sub(x, e.n);
  const V ln2 = Pick(d, 0.693147182f, 0.69314718055994529);
  e.r = hn::Mul(fraction, ln2);
  e.r_error = hn::MulAdd(fraction, Pick(d, -1.90465421e-09f, 2.3190468138462996e-17),
                         ProductError(d, fraction, ln2, e.r));
  e.square = hn::Mul(e.r, e.r);
  e.q = ExpPolynomial<false>(d, e.r, e.square);
  return e;
}

// e^x - 1 before the scaling by 2^n, as a sum whose head is rounded last.
template <class V>
HWY_INLINE Sum<V> ReducedExpm1(const ReducedExp<V>& e) {
  const Sum<V> y = FastTwoSum(e.r, hn::Mul(e.square, e.q));
  return {y.sum, hn::Add(y.error, e.r_error)};
}

// 2^-n e^x; omits r_error, at most a quarter of an ULP, if `kExact` is false.
template <bool kExact, class D, class V>
HWY_INLINE Sum<V> ReducedExpSum(D d, const ReducedExp<V>& e) {
  const Sum<V> head = FastTwoSum(hn::Set(d, hn::TFromD<D>(1)), e.r);
  const V rest = kExact ? hn::Add(head.error, e.r_error) : head.error;
  const V tail = hn::MulAdd(e.square, e.q, rest);
  return {head.sum, tail};
}

// Beyond these bounds e^x is 0 or infinity.
template <class D, class V>
HWY_INLINE V ClampExponent(D d, V x) {
  if constexpr (kIsFloat<D>)
    return ClampKeepingNaN(d, x, -104.0f, 89.0f);
  else
    return ClampKeepingNaN(d, x, -746.0, 710.0);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Exp(dd, v); });
  } else {
    const ReducedExp<V> e = ReduceExp<false>(d, ClampExponent(d, x));
    const Sum<V> value = ReducedExpSum<false>(d, e);
    return ScaleByPowerOfTwo(d, hn::Add(value.sum, value.error), e.n);
  }
}

// e^x for x <= 0 or NaN, to 1.5 ULP with a fifth less work: for softmax, which rounds elsewhere,
// too.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfNegative(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return Exp(d, x);
  } else {
    using T = hn::TFromD<D>;
    const ReducedExp<V> e =
        ReduceExp<false>(d, MaxKeepingNaN(d, x, kIsFloat<D> ? T(-104) : T(-746)));
    const V value = hn::Add(hn::Set(d, T(1)), hn::MulAdd(e.square, e.q, e.r));
    return ScaleByPowerOfTwo(d, value, e.n);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Exp2(dd, v); });
  } else {
    using T = hn::TFromD<D>;
    const ReducedExp<V> e = ReduceExp2(d, kIsFloat<D> ? ClampKeepingNaN(d, x, T(-151), T(129))
                                                      : ClampKeepingNaN(d, x, T(-1076), T(1025)));
    const Sum<V> value = ReducedExpSum<false>(d, e);
    return ScaleByPowerOfTwo(d, hn::Add(value.sum, value.error), e.n);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Expm1(dd, v); });
  } else {
    using T = hn::TFromD<D>;
    const V half = hn::Set(d, T(0.5));
    const V bounded =
        kIsFloat<D> ? ClampKeepingNaN(d, x, T(-40), T(89)) : ClampKeepingNaN(d, x, T(-80), T(710));
    const ReducedExp<V> e = ReduceExp<true>(d, bounded);
    const Sum<V> y = ReducedExpm1(e);
    // Half of 2^n keeps the largest results in range until the end.
    const V scale = PowerOfTwo(d, hn::Sub(e.n, hn::Set(d, T(1))));
    const Sum<V> whole = FastTwoSum(scale, hn::Neg(half));
    const Sum<V> result = FastTwoSum(whole.sum, hn::Mul(scale, y.sum));
    const V value =
        hn::Add(result.sum, hn::MulAdd(scale, y.error, hn::Add(whole.error, result.error)));
    // Keeps -0 and the subnormals, whose half may not exist.
    const V tiny = hn::Set(d, std::numeric_limits<T>::epsilon() / 4);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), tiny), x, hn::Add(value, value));
  }
}

// x = 2^n (1 + f), 0.75 <= 1 + f < 1.5, for a positive finite x.
template <class V>
struct SplitFloat {
  V n, f;
};

template <class D, class V>
HWY_INLINE SplitFloat<V> SplitExponent(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
#if EXTENSOR_AVX512
  constexpr auto kRange = _MM_MANT_NORM_p75_1p5;
  constexpr auto kSign = _MM_MANT_SIGN_src;
  V mantissa, exponent, adjustment;
  if constexpr (sizeof(V) == 64) {
    if constexpr (kIsFloat<D>) {
      mantissa = V{_mm512_getmant_ps(x.raw, kRange, kSign)};
      exponent = V{_mm512_getexp_ps(x.raw)};
      adjustment = V{_mm512_getexp_ps(mantissa.raw)};
    } else {
      mantissa = V{_mm512_getmant_pd(x.raw, kRange, kSign)};
      exponent = V{_mm512_getexp_pd(x.raw)};
      adjustment = V{_mm512_getexp_pd(mantissa.raw)};
    }
  } else if constexpr (sizeof(V) == 32) {
    if constexpr (kIsFloat<D>) {
      mantissa = V{_mm256_getmant_ps(x.raw, kRange, kSign)};
      exponent = V{_mm256_getexp_ps(x.raw)};
      adjustment = V{_mm256_getexp_ps(mantissa.raw)};
    } else {
      mantissa = V{_mm256_getmant_pd(x.raw, kRange, kSign)};
      exponent = V{_mm256_getexp_pd(x.raw)};
      adjustment = V{_mm256_getexp_pd(mantissa.raw)};
    }
  } else {
    if constexpr (kIsFloat<D>) {
      mantissa = V{_mm_getmant_ps(x.raw, kRange, kSign)};
      exponent = V{_mm_getexp_ps(x.raw)};
      adjustment = V{_mm_getexp_ps(mantissa.raw)};
    } else {
      mantissa = V{_mm_getmant_pd(x.raw, kRange, kSign)};
      exponent = V{_mm_getexp_pd(x.raw)};
      adjustment = V{_mm_getexp_pd(mantissa.raw)};
    }
  }
  return {hn::Sub(exponent, adjustment), hn::Sub(mantissa, one)};
#else
  using Bits = hwy::MakeUnsigned<T>;
  constexpr int kMantissaBits = std::numeric_limits<T>::digits - 1;
  constexpr Bits kBias = std::numeric_limits<T>::max_exponent - 1;
  constexpr Bits kThreeQuarters = (kBias << kMantissaBits) - (Bits{1} << (kMantissaBits - 1));
  constexpr T kInteger = T(uint64_t{1} << kMantissaBits);
  const hn::RebindToUnsigned<D> du;
  const auto subnormal = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, kInteger)), x);
  // The exponent, biased so that it stays positive, in the low bits of 2^mantissa_bits.
  const auto bits = hn::BitCast(du, scaled);
  const auto biased = hn::ShiftRight<kMantissaBits>(
      hn::Add(bits, hn::Set(du, (kBias << kMantissaBits) - kThreeQuarters)));
  const V integer = hn::BitCast(d, hn::Or(biased, hn::BitCast(du, hn::Set(d, kInteger))));
  const V offset = hn::IfThenElse(subnormal, hn::Set(d, kInteger + T(kBias) + T(kMantissaBits)),
                                  hn::Set(d, kInteger + T(kBias)));
  const auto mantissa =
      hn::Sub(bits, hn::ShiftLeft<kMantissaBits>(hn::Sub(biased, hn::Set(du, kBias))));
  return {hn::Sub(integer, offset), hn::Sub(hn::BitCast(d, mantissa), one)};
#endif
}

// log(1 + f) - f for -0.25 <= f <= 0.5.
template <class D, class V>
HWY_INLINE V LogTail(D d, V f) {
  const V square = hn::Mul(f, f);
  if constexpr (kIsFloat<D>) {
    const V p = PolynomialWithSquare(d, f, square, 0.333333313f, -0.250000507f, 0.20000425f,
                                     -0.166616514f, 0.142594621f, -0.126086682f, 0.117389299f,
                                     -0.098751463f, 0.0458654948f);
    const V half_square = hn::Mul(hn::Set(d, 0.5f), square);
    return hn::MulSub(hn::Mul(f, square), p, half_square);
  } else {
    const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0)));
    const V z = hn::Mul(s, s);
    const V p = Polynomial(d, z, 0.66666666666666663, 0.40000000000009139, 0.28571428566938484,
                           0.22222223089826973, 0.18181735027891213, 0.15388954543253452,
                           0.13208239307887221, 0.13618952280139049);
    const V half_square = hn::Mul(hn::Set(d, 0.5), square);
    return hn::MulSub(s, hn::MulAdd(z, p, half_square), half_square);
  }
}

// Replaces the result of a logarithm for x <= 0, infinity or NaN.
template <class D, class V>
HWY_INLINE V LogSpecial(D d, V x, V result) {
  const V zero = hn::Zero(d);
  const auto ordinary = hn::And(hn::Gt(x, zero), hn::Lt(x, Infinity(d)));
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return result;
  const V special = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(Infinity(d)),
                                   hn::IfThenElse(hn::Gt(x, zero), x, NotANumber(d)));
  return hn::IfThenElse(ordinary, result, special);
}

// n ln2 + f + w as a sum: the product with the short head of ln2 is exact.
template <class D, class V>
HWY_INLINE Sum<V> LogParts(D d, V n, V f, V w) {
  const Sum<V> head = FastTwoSum(hn::Mul(n, Pick(d, 0.693145752f, 0.69314718055989033)), f);
  const V rest = hn::MulAdd(n, Pick(d, 1.42860677e-06f, 5.4979230187083712e-14), w);
  return {head.sum, hn::Add(head.error, rest)};
}
template <class D, class V>
HWY_INLINE V LogSum(D d, V n, V f, V w) {
  const Sum<V> parts = LogParts(d, n, f, w);
  return hn::Add(parts.sum, parts.error);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Log(dd, v); });
  } else {
    const SplitFloat<V> split = SplitExponent(d, x);
    return LogSpecial(d, x, LogSum(d, split.n, split.f, LogTail(d, split.f)));
  }
}

// log(x) times a constant stored as head + rest, plus n times another whose head is short.
template <class D, class V>
HWY_INLINE V ScaledLog(D d, V x, V scale, V scale_rest, V step, V step_rest) {
  const SplitFloat<V> split = SplitExponent(d, x);
  const Sum<V> log = FastTwoSum(split.f, LogTail(d, split.f));
  const V product = hn::Mul(log.sum, scale);
  const V product_rest = hn::MulAdd(
      log.error, scale, hn::MulAdd(log.sum, scale_rest, ProductError(d, log.sum, scale, product)));
  const Sum<V> head = FastTwoSum(hn::Mul(split.n, step), product);
  const V rest = hn::MulAdd(split.n, step_rest, product_rest);
  return LogSpecial(d, x, hn::Add(head.sum, hn::Add(head.error, rest)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log2(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Log2(dd, v); });
  } else {
    return ScaledLog(d, x, Pick(d, 1.44269502f, 1.4426950408889634),
                     Pick(d, 1.92596303e-08f, 2.0355273740931033e-17), Pick(d, 1, 1), hn::Zero(d));
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log10(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Log10(dd, v); });
  } else {
    return ScaledLog(d, x, Pick(d, 0.434294492f, 0.43429448190325182),
                     Pick(d, -1.010305e-08f, 1.0983196502167651e-17),
                     Pick(d, 0.301025391f, 0.30102999566395283),
                     Pick(d, 4.60503907e-06f, 2.8363394551044964e-14));
  }
}

// log(1 + x + x_error) for x > -1 finite, as n ln2 + f + f_error + w.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log1pFinite(D d, V x, V x_error) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  const Sum<V> u = TwoSum(one, x);
  const SplitFloat<V> split = SplitExponent(d, u.sum);
  // The rounding error of the sum, scaled like the mantissa; 0 once that scale is not normal.
  const V lost = hn::Mul(hn::Add(u.error, x_error),
                         PowerOfTwo(d, hn::Neg(hn::Min(split.n, Pick(d, 126, 1022)))));
  const Sum<V> f = TwoSum(split.f, lost);
  const V w = LogTail(d, f.sum);
  return LogSum(d, split.n, f.sum, hn::Add(w, f.error));
}

// e^x for x <= 0 as a sum.
template <class D, class V>
HWY_INLINE Sum<V> ExpSum(D d, V x) {
  const ReducedExp<V> e = ReduceExp<false>(d, ClampExponent(d, x));
  const Sum<V> value = ReducedExpSum<true>(d, e);
  const Sum<V> normalized = FastTwoSum(value.sum, value.error);
  return {ScaleByPowerOfTwo(d, normalized.sum, e.n), ScaleByPowerOfTwo(d, normalized.error, e.n)};
}

// log(1 + e) for 0 <= e <= 1, as a sum: 1 + e is 2^n (1 + f) with n = 0 or 1.
template <class D, class V>
HWY_INLINE Sum<V> Log1pOfUnit(D d, Sum<V> e) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1));
  const V half = hn::Set(d, T(0.5));
  const auto large = hn::Ge(e.sum, half);
  // (1 + e) / 2 - 1 = e/2 - 1/2, exactly.
  const V f = hn::IfThenElse(large, hn::MulSub(e.sum, half, half), e.sum);
  const V n = hn::IfThenElseZero(large, one);
  // The error's weight is 1 / (1 + e), for which a line is accurate enough.
  const V slope = hn::NegMulAdd(e.sum, half, one);
  return LogParts(d, n, f, hn::MulAdd(e.error, slope, LogTail(d, f)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log1p(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Log1p(dd, v); });
  } else {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1));
    V result = LogSpecial(d, hn::Add(one, x), Log1pFinite(d, x, hn::Zero(d)));
    // Keeps -0; the sums above turn it into +0.
    const V tiny = hn::Set(d, std::numeric_limits<T>::epsilon() / 4);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), tiny), x, result);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_EXP_LOG_INL_H_
