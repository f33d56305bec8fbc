// The error function, the normal distribution and GELU.

#if defined(EXTENSOR_SIMD_MATH_ERF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_ERF_INL_H_
#undef EXTENSOR_SIMD_MATH_ERF_INL_H_
#else
#define EXTENSOR_SIMD_MATH_ERF_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"
#include "backend/cpu/simd/math_exp_log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// exp(-x^2 / 2), or exp(-x^2) where kHalf is false; the square's rounding would cost many ULP in
// the tail, so it is kept.
template <bool kHalf, class D, class V>
HWY_INLINE Scaled<V> ExpOfMinusSquare(D d, V x) {
  const V factor = hn::Set(d, hn::TFromD<D>(kHalf ? -0.5 : -1));
  const V square = hn::Mul(x, x);
  const V lost = hn::Mul(factor, ProductError(d, x, x, square));
  const ReducedExp<V> e = ReduceExp<false>(d, hn::Mul(factor, square));
  const Sum<V> value = ReducedExpSum<true>(d, e);
  const V whole = hn::Add(value.sum, value.error);
  return {{value.sum, hn::MulAdd(lost, whole, value.error)}, e.n};
}

// Phi(-t) exp(t^2 / 2) / 2 for t >= 0: a polynomial in u = (t - 4) / (t + 4), over t + 4.
template <bool kWithError, class D, class V>
HWY_INLINE Sum<V> NormalTailRatio(D d, V t, V t_error) {
  using T = hn::TFromD<D>;
  const V four = hn::Set(d, T(4));
  const V one = hn::Set(d, T(1));
  const Sum<V> denominator = FastTwoSum(four, t);  // Exact: 4 is a multiple of the last bit of t.
  const V reciprocal = NearReciprocal(d, denominator.sum);
  const V rough = hn::Mul(hn::Sub(t, four), reciprocal);
  const V partial = hn::NegMulAdd(four, hn::Add(rough, one), t);
  const V u = hn::MulAdd(reciprocal, hn::NegMulAdd(t, rough, partial), rough);
  V p;
  if constexpr (kIsFloat<D>) {
    p = Polynomial(d, u, 0.193568677f, -0.0932604298f, 0.0301989242f, -0.00377362501f,
                   -0.00174564077f, 0.000824096613f, 8.74227189e-05f, -0.000116035451f,
                   -2.62846406e-05f);
  } else {
    p = PolynomialWithSquare(
        d, u, hn::Mul(u, u), 0.19356870037110735, -0.093260928979829807, 0.03019828744546376,
        -0.0037700944833289874, -0.001739846183594574, 0.00081540922832975301,
        6.6672155003179469e-05, -0.00011554746415076743, -9.5412090586237464e-07,
        1.7572328054480046e-05, 3.5829680966274234e-07, -2.960047460324831e-06,
        -3.1474578442869559e-07, 5.1071852994919478e-07, 1.3571577859563247e-07,
        -7.7444950034841304e-08, -4.2492882502546094e-08, 6.6559496731476294e-09,
        9.6742165265533454e-09, 9.2098572310215353e-10, -1.2234420469038604e-09,
        -3.4653821223166749e-10);
  }
  // The first terms nearly cancel in the far tail: their rounding is kept.
  const Sum<V> first = FastTwoSum(Pick(d, -0.303948343f, -0.30394832098594604), hn::Mul(u, p));
  const V product = hn::Mul(u, first.sum);
  const V constant_rest = Pick(d, -6.52762022e-09f, -1.1365858410856507e-17);
  const V product_error =
      hn::MulAdd(u, first.error, hn::Add(ProductError(d, u, first.sum, product), constant_rest));
  const Sum<V> numerator = FastTwoSum(Pick(d, 0.377642572f, 0.37764256520787576), product);
  const V quotient = hn::Mul(numerator.sum, reciprocal);
  const V remainder = hn::Add(hn::Add(numerator.error, product_error),
                              hn::NegMulAdd(quotient, denominator.sum, numerator.sum));
  const V rest = hn::NegMulAdd(quotient, denominator.error, remainder);
  if constexpr (!kWithError) return {quotient, hn::Mul(rest, reciprocal)};
  // The logarithm has a slope of about -1 / (t + 1.25), here in terms of 1 / (t + 4).
  const V slope = hn::Mul(quotient, hn::MulAdd(four, reciprocal, one));
  return {quotient, hn::Mul(hn::NegMulAdd(slope, t_error, rest), reciprocal)};
}

// The same for float on AVX-512, where a table of 16 entries is one instruction: a polynomial
// around the middle of each interval of t + 1, four to the octave. Rows: the middle, the constant
// and its rounding, then the coefficients of the powers 1 to 6. Columns: the low bits of the
// exponent and the high ones of the mantissa, so that t = 0 is column 12. t < 15.
#if EXTENSOR_AVX512
alignas(64) inline constexpr float kNormalTailTable[9][16] = {
    {1.25f, 1.75f, 2.25f, 2.75f, 3.5f, 4.5f, 5.5f, 6.5f, 8.0f, 10.0f, 12.0f, 14.0f, 0.125f, 0.375f,
     0.625f, 0.875f},
    {0.115380161f, 0.0926158354f, 0.0768259689f, 0.0653623641f, 0.0531725772f, 0.0424016975f,
     0.0351713486f, 0.0300078373f, 0.0245612729f, 0.0197533462f, 0.0165094864f, 0.0141763305f,
     0.226896614f, 0.189802215f, 0.161678091f, 0.139885291f},
    {1.42275872e-10f, -3.02951375e-09f, -2.09263717e-10f, 2.99664737e-09f, -3.55665053e-10f,
     -1.43273882e-09f, -1.5890157e-09f, 3.31350197e-10f, 1.72133294e-10f, 8.3103413e-10f,
     -8.23730806e-10f, -2.65481886e-10f, -2.81584223e-09f, -5.68858627e-10f, -6.33373531e-09f,
     -6.32097752e-09f},
    {-0.0552459434f, -0.0373934358f, -0.0266127102f, -0.0197246317f, -0.0133671239f,
     -0.00866350811f, -0.00602873182f, -0.00442019524f, -0.00298095611f, -0.00193766982f,
     -0.00135731383f, -0.00100251648f, -0.171109065f, -0.128295317f, -0.098422341f, -0.0770715177f},
    {0.0231613684f, 0.0135886623f, 0.00847368501f, 0.00555981603f, 0.00319382641f, 0.00170795526f,
     0.00100666157f, 0.000638284022f, 0.000356815231f, 0.000188325066f, 0.000110860346f,
     7.05495695e-05f, 0.102753989f, 0.0708457381f, 0.0500820614f, 0.0362238549f},
    {-0.00876444206f, -0.00453765411f, -0.00251560053f, -0.00147836271f, -0.000729500432f,
     -0.000325885252f, -0.000164025958f, -9.04480985e-05f, -4.21382538e-05f, -1.81384385e-05f,
     -8.99620954e-06f, -4.94075903e-06f, -0.052754648f, -0.0339092351f, -0.0223736018f,
     -0.0151251704f},
    {0.00305127678f, 0.00141186966f, 0.000703364611f, 0.000373565155f, 0.000160062205f,
     6.03445405e-05f, 2.61218738e-05f, 1.25898732e-05f, 4.91362925e-06f, 1.73187198e-06f,
     7.25459984e-07f, 3.44378833e-07f, 0.0240398087f, 0.0145323807f, 0.00902460236f,
     0.00574730989f},
    {-0.000999729731f, -0.000416725816f, -0.000187869562f, -9.07257636e-05f, -3.4469449e-05f,
     -1.10119745e-05f, -4.11233987e-06f, -1.73635658e-06f, -5.78862512e-07f, -1.66498353e-07f,
     -5.87881992e-08f, -2.40915288e-08f, -0.00998707954f, -0.00571118901f, -0.00335692801f,
     -0.00202489062f},
    {0.000304939284f, 0.000115590447f, 4.75445813e-05f, 2.10244671e-05f, 7.04402919e-06f,
     1.93115125e-06f, 6.2775149e-07f, 2.33709045e-07f, 6.5840517e-08f, 1.56271209e-08f,
     4.68212047e-09f, 1.66351832e-09f, 0.00381179061f, 0.00207249797f, 0.00115864794f,
     0.000665066822f},
};

template <class D, class V>
HWY_INLINE Sum<V> NormalTailRatioByTable(D d, V t) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, hn::Add(t, hn::Set(d, 1.0f)));
  const auto index = hn::IndicesFromVec(d, hn::And(hn::ShiftRight<21>(bits), hn::Set(di, 15)));
  const auto entry = [&](int row) HWY_ATTR {
    return hn::TableLookupLanes(hn::Load(d, kNormalTailTable[row]), index);
  };
  const V v = hn::Sub(t, entry(0));
  V p = entry(8);
  for (int row = 7; row >= 3; --row) p = hn::MulAdd(p, v, entry(row));
  const Sum<V> ratio = FastTwoSum(entry(1), hn::Mul(v, p));
  return {ratio.sum, hn::Add(ratio.error, entry(2))};
}
#endif

// Multiplies the ratio by the exponential.
template <class D, class V>
HWY_INLINE Sum<V> TailProduct(D d, Sum<V> ratio, Sum<V> exponential) {
  const V product = hn::Mul(ratio.sum, exponential.sum);
  const V rest = hn::MulAdd(ratio.error, exponential.sum,
                            ProductError(d, ratio.sum, exponential.sum, product));
  return {product, hn::MulAdd(ratio.sum, exponential.error, rest)};
}

// Without FMA the tails would lose too much: one lane at a time, in a wider type.
template <class W>
HWY_INLINE W ErfcLane(W x) {
  return std::erfc(x);
}
template <class W>
HWY_INLINE W NormalCdfLane(W x) {
  return W(0.5) * std::erfc(x * W(-0.707106781186547524400844362104849039L));
}
template <class W>
HWY_INLINE W GeluLane(W x) {
  return x < -45 ? W(-0.0) : x * NormalCdfLane(x);
}

// Phi(-t), 0 <= t; beyond the bound it is zero.
template <class D, class V>
HWY_INLINE V BoundNormal(D d, V t) {
  return MinKeepingNaN(d, t, hn::TFromD<D>(kIsFloat<D> ? 14.99 : 39.25));
}

template <class D, class V>
HWY_INLINE Sum<V> NormalTailRatioOf(D d, V t) {
#if EXTENSOR_AVX512
  if constexpr (kIsFloat<D> && hn::MaxLanes(D()) == 16) return NormalTailRatioByTable(d, t);
#endif
  return NormalTailRatio<false>(d, t, t);
}

template <class D, class V>
HWY_INLINE Scaled<V> NormalTail(D d, V t) {
  const Scaled<V> exponential = ExpOfMinusSquare<true>(d, t);
  const Sum<V> ratio = NormalTailRatioOf(d, t);
  return {TailProduct(d, ratio, exponential.value),
          hn::Add(exponential.n, hn::Set(d, hn::TFromD<D>(1)))};
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V NormalCdf(D d, V x) {
  if constexpr (!kHasFma) {
    return PerLane(d, x,
                   [](hn::TFromD<D> lane) { return NormalCdfLane<Wide<hn::TFromD<D>>>(lane); });
  } else {
    const V tail = Finish(d, NormalTail(d, BoundNormal(d, hn::Abs(x))));
    const V one = hn::Set(d, hn::TFromD<D>(1));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V NormalPdf(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return NormalPdf(dd, v); });
  } else {
    const Scaled<V> e = ExpOfMinusSquare<true>(d, BoundNormal(d, hn::Abs(x)));
    Sum<V> value = Product(d, Pick(d, 0.398942292f, 0.3989422804014327), e.value);
    value.error =
        hn::MulAdd(Pick(d, -1.13351701e-08f, -2.4923272022777301e-17), e.value.sum, value.error);
    return Finish(d, Scaled<V>{value, e.n});
  }
}

// x Phi(x): in the center directly; outside for a negative x its tail, otherwise x less that.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  if constexpr (!kHasFma) {
    return PerLane(d, x, [](hn::TFromD<D> lane) { return GeluLane<Wide<hn::TFromD<D>>>(lane); });
  } else {
    const V t = BoundNormal(d, hn::Abs(x));
    const Scaled<V> tail = NormalTail(d, t);
    const V missing = Finish(d, Scaled<V>{Product(d, t, tail.value), tail.n});
    return hn::CopySign(hn::Sub(hn::Max(x, hn::Zero(d)), missing), x);
  }
}

// erfc(z) for z >= 0.
template <class D, class V>
HWY_INLINE V ErfcTail(D d, V z) {
  using T = hn::TFromD<D>;
  const V bounded = MinKeepingNaN(d, z, T(kIsFloat<D> ? 10.6 : 27.7));
  const Scaled<V> e = ExpOfMinusSquare<false>(d, bounded);
  const V sqrt2 = Pick(d, 1.41421354f, 1.4142135623730951);
  const V t = hn::Mul(bounded, sqrt2);
  const V t_error = hn::MulAdd(bounded, Pick(d, 2.42032342e-08f, -9.6672933134529135e-17),
                               ProductError(d, bounded, sqrt2, t));
  const Sum<V> product = TailProduct(d, NormalTailRatio<true>(d, t, t_error), e.value);
  return Finish(d, Scaled<V>{product, hn::Add(e.n, hn::Set(d, T(2)))});
}

// erf(x) where |x| <= 1, as a sum.
template <class D, class V>
HWY_INLINE Sum<V> ErfCenter(D d, V x) {
  const V square = hn::Mul(x, x);
  V p;
  if constexpr (kIsFloat<D>) {
    p = Polynomial(d, square, -5.8752029e-08f, -0.376126379f, 0.112837747f, -0.0268650185f,
                   0.00521996152f, -0.000846950046f, 0.000111659931f, -9.39487472e-06f);
  } else {
    p = PolynomialWithSquare(d, square, hn::Mul(square, square), 1.5212521523301083e-17,
                             -0.37612638903183748, 0.11283791670954887, -0.026866170645078364,
                             0.0052239776248327006, -0.00085483269816498386, 0.0001205533114052946,
                             -1.4925595942300955e-05, 1.6461011047724278e-06,
                             -1.6350422030648266e-07, 1.4660493931253907e-08,
                             -1.1375565858979982e-09, 5.9616746025086855e-11);
  }
  const V slope = Pick(d, 1.12837923f, 1.1283791670955126);
  const V product = hn::Mul(x, slope);
  return {product, hn::MulAdd(x, p, ProductError(d, x, slope, product))};
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erfc(D d, V x) {
  if constexpr (!kHasFma) {
    return PerLane(d, x, [](hn::TFromD<D> lane) { return ErfcLane<Wide<hn::TFromD<D>>>(lane); });
  } else {
    const V tail = ErfcTail(d, hn::Abs(x));
    const V two = hn::Set(d, hn::TFromD<D>(2));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(two, tail), tail);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  if constexpr (kIsFloat<D> && !kHasFma) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return Erf(dd, v); });
  } else {
    const V one = hn::Set(d, hn::TFromD<D>(1));
    const V magnitude = hn::Abs(x);
    const Sum<V> center = ErfCenter(d, magnitude);
    const V small = hn::Add(center.sum, center.error);
    // Outside, erfc is small and needs no more than a few ULP: the exponential of a polynomial.
    const V bounded = MinKeepingNaN(d, magnitude, hn::TFromD<D>(kIsFloat<D> ? 4.1 : 6));
    V q;
    if constexpr (kIsFloat<D>) {
      q = Polynomial(d, bounded, 0.000105393512f, -1.12913036f, -0.634262025f, -0.10706155f,
                     0.0241269823f, -0.00366507447f, 0.000276826177f, 6.33341915e-06f,
                     -2.04035859e-06f);
    } else {
      q = PolynomialWithSquare(
          d, bounded, hn::Mul(bounded, bounded), 1.1183951199037763e-08, -1.1283793248121803,
          -0.63661872712242007, -0.10277693389487101, 0.019141033008929845, 0.0001819066779003964,
          -0.0016503927504297456, 0.00052912910798853742, 3.9498251580115342e-05,
          -0.00012136029761809073, 6.9919095510412072e-05, -2.6308667859993501e-05,
          7.4247148667988848e-06, -1.6307260838506927e-06, 2.7988784046245955e-07,
          -3.6993112967636405e-08, 3.6442353482048493e-09, -2.5219036840291026e-10,
          1.0938535169272099e-11, -2.236534781548481e-13);
    }
    const ReducedExp<V> e = ReduceExp<false>(d, q);
    const V complement = hn::Mul(hn::Add(one, hn::MulAdd(e.square, e.q, e.r)), PowerOfTwo(d, e.n));
    const auto is_small = hn::Lt(magnitude, Pick(d, 0.875f, 0.875));
    return hn::CopySign(hn::IfThenElse(is_small, small, hn::Sub(one, complement)), x);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_ERF_INL_H_
