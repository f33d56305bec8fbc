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

// exp(-x^2 / 2), or exp(-x^2) if kHalf is false. The rounding error of the square is kept, because
// it would cost many ULP in the tail.
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
  // The first terms nearly cancel in the far tail, so their rounding error is kept.
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

// Multiplies the ratio by the exponential.
template <class D, class V>
HWY_INLINE Sum<V> TailProduct(D d, Sum<V> ratio, Sum<V> exponential) {
  const V product = hn::Mul(ratio.sum, exponential.sum);
  const V rest = hn::MulAdd(ratio.error, exponential.sum,
                            ProductError(d, ratio.sum, exponential.sum, product));
  return {product, hn::MulAdd(ratio.sum, exponential.error, rest)};
}

// Without FMA the tails would lose too much: computed one lane at a time, in a wider type.
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

// For float, where a lookup is cheap: Phi(-t) exp(t^2 / 2) as a polynomial on each interval of t +
// 1, four to the octave, around a point at which it is a float to 36 bits. Rows: that point, then
// the coefficients. Columns: the low bits of the exponent and the high ones of the mantissa of t +
// 1, so that t = 0 is column 12. t < 15.
alignas(64) inline constexpr float kNormalTailTable[8][16] = {
    {1.25033855f, 1.7511363f, 2.25113201f, 2.75146937f, 3.50105453f, 4.5029664f, 5.50139904f,
     6.50038862f, 8.0006237f, 10.0055914f, 12.0035629f, 14.00387f, 0.125074968f, 0.375037163f,
     0.626067281f, 0.876249254f},
    {0.230722919f, 0.185146719f, 0.153591707f, 0.130666792f, 0.106316969f, 0.0847520232f,
     0.0703258291f, 0.06001224f, 0.049118828f, 0.0394850373f, 0.0330093019f, 0.0283449031f,
     0.453767568f, 0.379594892f, 0.323146194f, 0.27957812f},
    {-0.110460527f, -0.0747251436f, -0.0531870723f, -0.0394166037f, -0.0267207809f, -0.0173067674f,
     -0.0120518319f, -0.00883939862f, -0.00596102234f, -0.00387113122f, -0.00271304836f,
     -0.00200394145f, -0.342187315f, -0.256580085f, -0.196631014f, -0.153962165f},
    {0.0463049375f, 0.0271464083f, 0.0169302952f, 0.0111066084f, 0.00638303952f, 0.00341011654f,
     0.00201194687f, 0.0012763571f, 0.000713472837f, 0.00037604227f, 0.000221528491f,
     0.00014098447f, 0.205484256f, 0.141683906f, 0.100020975f, 0.072334446f},
    {-0.0175206214f, -0.00906248391f, -0.00502483593f, -0.0029523382f, -0.00145765138f,
     -0.0006503404f, -0.000327759713f, -0.000180857052f, -8.42519948e-05f, -3.61995117e-05f,
     -1.79717554e-05f, -9.87086332e-06f, -0.105494879f, -0.067814149f, -0.0446702279f,
     -0.0301929656f},
    {0.00609917007f, 0.00281900843f, 0.00140460441f, 0.000745798578f, 0.000319761166f,
     0.000120362929f, 5.21862494e-05f, 2.5172998e-05f, 9.82364872e-06f, 3.45444892e-06f,
     1.44882722e-06f, 6.87826059e-07f, 0.0480721295f, 0.0290626399f, 0.0180134177f, 0.0114693549f},
    {-0.00199822057f, -0.000831875484f, -0.000375093281f, -0.000181080817f, -6.88497603e-05f,
     -2.19552057e-05f, -8.21414051e-06f, -3.47162336e-06f, -1.1572323e-06f, -3.31948172e-07f,
     -1.17376217e-07f, -4.81058038e-08f, -0.0199707299f, -0.0114214541f, -0.00669901678f,
     -0.00403981144f},
    {0.000609878567f, 0.000231180893f, 9.50891626e-05f, 4.20489341e-05f, 1.40880584e-05f,
     3.86230249e-06f, 1.25550298e-06f, 4.6741809e-07f, 1.31681034e-07f, 3.12542419e-08f,
     9.36424094e-09f, 3.32703665e-09f, 0.00762358122f, 0.00414499594f, 0.00231729588f,
     0.00133013364f},
};

#if EXTENSOR_AVX512
// ExpOfMinusSquare for float, with the rounding error of the square added to the reduced argument,
// whose own rounding error, at most a quarter of an ULP, is omitted.
template <class D, class V>
HWY_INLINE Scaled<V> QuickExpOfHalfSquare(D d, V t) {
  const V half = hn::Mul(t, hn::Set(d, -0.5f));
  const V square = hn::Mul(half, t);
  const V lost = ProductError(d, half, t, square);
  const V n = hn::Round(hn::Mul(square, hn::Set(d, 1.44269502f)));
  const V high = hn::NegMulAdd(n, hn::Set(d, 0.693147182f), square);
  const V r = hn::Add(high, hn::NegMulAdd(n, hn::Set(d, -1.90465421e-09f), lost));
  const V r_square = hn::Mul(r, r);
  const Sum<V> head = FastTwoSum(hn::Set(d, 1.0f), r);
  const V rest = hn::MulAdd(r_square, ExpPolynomial<false>(d, r, r_square), head.error);
  return {Sum<V>{head.sum, rest}, n};
}

template <class D, class V>
HWY_INLINE Scaled<V> NormalTailByTable(D d, V t) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, hn::Add(t, hn::Set(d, 1.0f)));
  const auto index = hn::IndicesFromVec(d, hn::And(hn::ShiftRight<21>(bits), hn::Set(di, 15)));
  const auto entry = [&](int row) HWY_ATTR {
    return hn::TableLookupLanes(hn::Load(d, kNormalTailTable[row]), index);
  };
  const V v = hn::Sub(t, entry(0));
  V p = entry(7);
  for (int row = 6; row >= 2; --row) p = hn::MulAdd(p, v, entry(row));
  const V constant = entry(1);
  const V ratio = hn::MulAdd(v, p, constant);
  const V ratio_error = hn::MulAdd(v, p, hn::Sub(constant, ratio));
  const Scaled<V> exponential = QuickExpOfHalfSquare(d, t);
  return {TailProduct(d, Sum<V>{ratio, ratio_error}, exponential.value), exponential.n};
}
#endif

// exp(-t^2 / 2), by the same computation as the tail's, so that a gradient that needs both computes
// it once.
template <class D, class V>
HWY_INLINE Scaled<V> ExpOfHalfSquare(D d, V t) {
#if EXTENSOR_AVX512
  if constexpr (kIsFloat<D> && hn::MaxLanes(D()) == 16) return QuickExpOfHalfSquare(d, t);
#endif
  return ExpOfMinusSquare<true>(d, t);
}

template <class D, class V>
HWY_INLINE Scaled<V> NormalTail(D d, V t) {
#if EXTENSOR_AVX512
  if constexpr (kIsFloat<D> && hn::MaxLanes(D()) == 16) return NormalTailByTable(d, t);
#endif
  const Scaled<V> exponential = ExpOfMinusSquare<true>(d, t);
  return {TailProduct(d, NormalTailRatio<false>(d, t, t), exponential.value),
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
    const Scaled<V> e = ExpOfHalfSquare(d, BoundNormal(d, hn::Abs(x)));
    Sum<V> value = Product(d, Pick(d, 0.398942292f, 0.3989422804014327), e.value);
    value.error =
        hn::MulAdd(Pick(d, -1.13351701e-08f, -2.4923272022777301e-17), e.value.sum, value.error);
    return Finish(d, Scaled<V>{value, e.n});
  }
}

// x Phi(x): directly in the center; outside, the tail for a negative x, otherwise x minus the tail.
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
    // Outside, erfc is small and needs an accuracy of only a few ULP: the exponential of a
    // polynomial.
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

// Infinity at -1 and 1, NaN beyond, and the sign of x.
template <class D, class V>
HWY_INLINE V ErfinvAtEnds(D d, V x, V result) {
  const V one = hn::Set(d, 1.0), magnitude = hn::Abs(x);
  result = hn::IfThenElse(hn::Eq(magnitude, one), Infinity(d), result);
  result = hn::IfThenElse(hn::Le(magnitude, one), result, NotANumber(d));
  return hn::CopySign(result, x);
}

// erfinv(x) / x is a polynomial in w = -log(1 - x^2) near 0 and in sqrt(w) beyond. Lower degrees
// serve floats.
template <bool kForFloat, class D, class V>
HWY_INLINE V ErfinvInDouble(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const V magnitude = hn::Abs(x);
  // w and its rounding error, which would cost an ULP in the tail.
  const SplitFloat<V> split =
      SplitExponent(d, hn::Mul(hn::Sub(one, magnitude), hn::Add(one, magnitude)));
  const Sum<V> parts = LogParts(d, split.n, split.f, LogTail(d, split.f));
  const V w = hn::Neg(hn::Add(parts.sum, parts.error));
  const V w_error = hn::Neg(hn::Add(hn::Add(parts.sum, w), parts.error));
  const V u = hn::Sub(w, hn::Set(d, 3.125));
  V q;
  if constexpr (kForFloat) {
    q = PolynomialWithSquare(d, u, hn::Mul(u, u), 0.24557684387636095, -0.0017339716700476245,
                             -0.0013759033632577556, 0.00020326436121427888, -5.290288114241665e-06,
                             -2.749686119741977e-06, 4.433553229048798e-07, -6.2510015273225686e-09,
                             -7.427204043923891e-09, 1.0275459022258828e-09, 2.8070198169562317e-11,
                             -2.1156922283373387e-11, 7.978655908416465e-13,
                             1.8372646797696553e-13);
  } else {
    q = PolynomialWithSquare(d, u, hn::Mul(u, u), 0.24557684391371032, -0.0017339716761991322,
                             -0.0013759037424730274, 0.0002032643866628131, -5.289657164877205e-06,
                             -2.7497171957822526e-06, 4.429593644921831e-07, -6.233772211037662e-09,
                             -7.307716085705841e-09, 1.0224157298629805e-09, 9.21719094271086e-12,
                             -2.02744050934734e-11, 2.335082593005933e-12, 9.431008271448538e-14,
                             -5.613445128457305e-14, 5.197354401741787e-15, 4.44790962883224e-16,
                             -1.5960438725510666e-16, 9.640934075391569e-18, 2.2134184306837332e-18,
                             -3.4984438621983183e-19, -1.2925683331831363e-20, 3.9578297051416e-21);
  }
  if constexpr (kForFloat) {
    // Doubles are so much more precise than floats that no rounding error matters.
    const auto central = hn::And(hn::Lt(w, hn::Set(d, 6.25)), hn::Lt(magnitude, one));
    const V near_0 = hn::Mul(x, hn::MulAdd(w, q, hn::Set(d, 0.886226925452758)));
    if (HWY_LIKELY(hn::AllTrue(d, central))) return near_0;
    const V beyond = hn::Sub(hn::Sqrt(w), hn::Set(d, 3.25));
    const V slope = PolynomialWithSquare(
        d, beyond, hn::Mul(beyond, beyond), 3.0838856060020756, 1.0052589713074196,
        0.005371316667076339, -0.003751342420692884, 0.0024856608358720367, -0.0016868606513735897,
        0.00098256650147565, -0.0003613445092803994, -3.73681958583828e-05, 8.149882521234838e-05);
    return ErfinvAtEnds(d, x, hn::IfThenElse(central, near_0, hn::Mul(x, slope)));
  }
  // x (c + rest + factor slope) for a constant in two parts, rounded about once.
  const auto scaled = [&](double c, V rest, V factor, V slope) HWY_ATTR {
    const Sum<V> sum = TwoSum(hn::Set(d, c), hn::MulAdd(factor, slope, rest));
    return hn::MulAdd(x, sum.sum, hn::Mul(x, sum.error));
  };
  // The constant is sqrt(pi) / 2, the slope at 0.
  V result =
      scaled(0.886226925452758, hn::MulAdd(w_error, q, hn::Set(d, -3.8332932499128993e-17)), w, q);

  const V root = hn::Sqrt(w);
  const V lost = hn::Div(hn::Add(hn::NegMulAdd(root, root, w), w_error), hn::Add(root, root));
  const V v = hn::Add(hn::Sub(root, hn::Set(d, 3.25)), lost);
  const V middle = PolynomialWithSquare(
      d, v, hn::Mul(v, v), 1.0052589676941655, 0.005370914553571544, -0.003751208508224261,
      0.0024914420969882754, -0.0016882755354636595, 0.0009532893636238467, -0.0003550378135746499,
      2.403125811582288e-05, 6.828711576985263e-05, -4.73189897999412e-05, 1.2465035568283125e-05,
      2.925746394013068e-06, -3.985726034382243e-06, 1.498682725581901e-06, -2.758450687635974e-08,
      -2.7131624527580294e-07, 1.3155760748321657e-07, 6.854906430026942e-10,
      -1.5294532436152434e-08);
  const V near = scaled(3.0838856104922208, hn::Set(d, -1.3360573172673369e-16), v, middle);
  const V t = hn::Add(hn::Sub(root, hn::Set(d, 5.005)), lost);
  const V far_slope = PolynomialWithSquare(
      d, t, hn::Mul(t, t), 1.0102990615820389, -0.00014193339541857748, -0.00021351512341413067,
      7.550492604768577e-05, -1.954650888102025e-05, 4.491463421480248e-06, -9.839275631084064e-07,
      2.26007963253635e-07, -6.612620800095632e-08, 2.8298755177668832e-08, -1.4792334853746956e-08,
      7.419969031606735e-09, -3.380299023255283e-09, 1.458590654755406e-09, -4.3201228587017915e-10,
      -1.9456468118832595e-11, 4.1099856248444996e-11);
  const V far = scaled(4.854957900238093, hn::Set(d, -9.433132449227957e-17), t, far_slope);
  const V tail = hn::IfThenElse(hn::Lt(root, hn::Set(d, 4.0)), near, far);
  result = hn::IfThenElse(hn::Lt(w, hn::Set(d, 6.25)), result, tail);
  return ErfinvAtEnds(d, x, result);
}

// Without FMA: a rough value improved by Halley's method, one lane at a time, in a wider type.
template <class W>
HWY_INLINE W ErfinvLane(W x) {
  const W a = std::fabs(x);
  if (!(a < 1)) {
    return a == 1 ? std::copysign(std::numeric_limits<W>::infinity(), x)
                  : std::numeric_limits<W>::quiet_NaN();
  }
  const W l = std::log((1 - a) * (1 + a));
  const W h = W(4.330746750799873L) + l / 2;  // 2 / (0.147 pi)
  W y = std::sqrt(std::sqrt(h * h - l / W(0.147L)) - h);
  for (int k = 0; k < 4; ++k) {
    const W error = a < W(0.5) ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const W step = error * W(0.886226925452758013649083741670572591L) * std::exp(y * y);
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erfinv(D d, V x) {
  if constexpr (!kHasFma) {
    return PerLane(d, x, [](hn::TFromD<D> lane) { return ErfinvLane<Wide<hn::TFromD<D>>>(lane); });
  } else if constexpr (kIsFloat<D>) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return ErfinvInDouble<true>(dd, v); });
  } else {
    return ErfinvInDouble<false>(d, x);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_ERF_INL_H_
