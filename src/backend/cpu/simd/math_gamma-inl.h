// The logarithm of the gamma function and its derivatives.
//
// The recurrence moves a positive argument up to where Stirling's series converges. Below 0 the
// reflection formula is written with the values at 1 + f and 1 - f, f = x - round(x), so that it
// needs no trigonometric function. Sums cancel near the zeros: double lanes are computed in pairs
// of doubles, float lanes in double, below 0 also in pairs. A function is not inlined, because the
// rows would repeat its code for every layout.

#if defined(EXTENSOR_SIMD_MATH_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_GAMMA_INL_H_
#undef EXTENSOR_SIMD_MATH_GAMMA_INL_H_
#else
#define EXTENSOR_SIMD_MATH_GAMMA_INL_H_
#endif

#include "backend/cpu/simd/math_core-inl.h"
#include "backend/cpu/simd/math_exp_log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// A number as one double per lane.
template <class D>
struct Plain {
  using V = hn::Vec<D>;
  V high;

  HWY_INLINE explicit Plain(V v) : high(v) {}
  HWY_INLINE Plain(V v, V) : high(v) {}
  HWY_INLINE Plain(double v, double) : high(hn::Set(D(), v)) {}
  HWY_INLINE V value() const { return high; }

  friend HWY_INLINE Plain operator+(Plain a, Plain b) { return Plain(hn::Add(a.high, b.high)); }
  friend HWY_INLINE Plain operator-(Plain a, Plain b) { return Plain(hn::Sub(a.high, b.high)); }
  friend HWY_INLINE Plain operator*(Plain a, Plain b) { return Plain(hn::Mul(a.high, b.high)); }
  friend HWY_INLINE Plain operator/(Plain a, Plain b) { return Plain(hn::Div(a.high, b.high)); }
  template <class M>
  friend HWY_INLINE Plain Choose(M mask, Plain yes, Plain no) {
    return Plain(hn::IfThenElse(mask, yes.high, no.high));
  }
};

// A number as the sum of two doubles per lane, about 104 bits. The series below have 80 correct
// bits, or with kWide, for sums that cancel next to the zeros below 0, about 100.
template <class D, bool kWide = false>
struct Pair {
  using V = hn::Vec<D>;
  V high, low;

  HWY_INLINE explicit Pair(V v) : high(v), low(hn::Zero(D())) {}
  HWY_INLINE explicit Pair(Sum<V> sum) : high(sum.sum), low(sum.error) {}
  HWY_INLINE Pair(V v, V rest) : high(v), low(rest) {}
  HWY_INLINE Pair(double v, double rest) : high(hn::Set(D(), v)), low(hn::Set(D(), rest)) {}
  HWY_INLINE V value() const { return hn::Add(high, low); }

  friend HWY_INLINE Pair operator+(Pair a, Pair b) {
    const Sum<V> s = TwoSum(a.high, b.high);
    return Pair(FastTwoSum(s.sum, hn::Add(s.error, hn::Add(a.low, b.low))));
  }
  friend HWY_INLINE Pair operator-(Pair a, Pair b) {
    return a + Pair(hn::Neg(b.high), hn::Neg(b.low));
  }
  friend HWY_INLINE Pair operator*(Pair a, Pair b) {
    const V product = hn::Mul(a.high, b.high);
    const V cross = hn::MulAdd(a.high, b.low, hn::Mul(a.low, b.high));
    return Pair(FastTwoSum(product, hn::Add(ProductError(D(), a.high, b.high, product), cross)));
  }
  friend HWY_INLINE Pair operator/(Pair a, Pair b) {
    const V quotient = hn::Div(a.high, b.high);
    const V remainder = FusedNegMulAdd(D(), quotient, b.high, a.high);
    const V rest = hn::Add(remainder, hn::NegMulAdd(quotient, b.low, a.low));
    return Pair(FastTwoSum(quotient, hn::Div(rest, b.high)));
  }
  template <class M>
  friend HWY_INLINE Pair Choose(M mask, Pair yes, Pair no) {
    return Pair(hn::IfThenElse(mask, yes.high, no.high), hn::IfThenElse(mask, yes.low, no.low));
  }
};

template <class D>
HWY_INLINE Plain<D> LogOf(Plain<D> x) {
  return Plain<D>(Log(D(), x.high));
}

// n ln2 + 2 atanh(t), t = f / (2 + f), for x = 2^n (1 + f) > 0.
template <class D, bool kWide>
HWY_NOINLINE Pair<D, kWide> LogOf(Pair<D, kWide> x) {
  using V = hn::Vec<D>;
  using Number = Pair<D, kWide>;
  const D d;
  // 2 / (2k + 1). Terms from k = kPairs on are so small that doubles suffice.
  constexpr int kPairs = kWide ? 10 : 5;
  const double coefficients[10][2] = {
      {2.0, 0.0},
      {0.6666666666666666, 3.700743415417188e-17},
      {0.4, -2.2204460492503132e-17},
      {0.2857142857142857, 1.586032892321652e-17},
      {0.2222222222222222, 1.2335811384723961e-17},
      {0.18181818181818182, -5.046468293750712e-18},
      {0.15384615384615385, -8.540177112501205e-18},
      {0.13333333333333333, 1.8503717077085942e-18},
      {0.11764705882352941, 1.6326809185664067e-18},
      {0.10526315789473684, 5.843279076974508e-18},
  };
  const SplitFloat<V> split = SplitExponent(d, x.high);
  const V scale = PowerOfTwo(d, hn::Neg(hn::Min(split.n, hn::Set(d, 1022.0))));
  const Number f(TwoSum(split.f, hn::Mul(x.low, scale)));
  const Number t = f / (f + Number(2, 0));
  const Number square = t * t;
  V rest = Polynomial(d, square.high, 0.09523809523809523, 0.08695652173913043, 0.08,
                      0.07407407407407407, 0.06896551724137931, 0.06451612903225806,
                      0.06060606060606061, 0.05714285714285714, 0.05405405405405406,
                      0.05128205128205128, 0.04878048780487805, 0.046511627906976744);
  for (int k = 9; k >= kPairs; --k) {
    rest = hn::MulAdd(rest, square.high, hn::Set(d, coefficients[k][0]));
  }
  Number sum(rest);
  for (int k = kPairs - 1; k >= 0; --k) {
    sum = sum * square + Number(coefficients[k][0], coefficients[k][1]);
  }
  return Number(split.n) * Number(0.6931471805599453, 2.3190468138462996e-17) + t * sum;
}

// Stirling's series: the argument from which on it has the precision of the number, the number of
// its terms, and how many of them need the precision of the number; for the others doubles suffice.
struct Stirling {
  double start;
  int terms, precise_terms;
};
template <class D>
constexpr Stirling StirlingOf(Plain<D>*) {
  return {10, 8, 3};
}
template <class D, bool kWide>
constexpr Stirling StirlingOf(Pair<D, kWide>*) {
  return kWide ? Stirling{16, 16, 7} : Stirling{12, 16, 3};
}

// The sum over k >= 1 of B_2k / (2k)! (n + 2k - 1)! / n! r^(2k - 1); for n = -1 with (2k - 2)!.
template <class D, class Number>
HWY_INLINE Number StirlingSeries(D d, double n, Number r) {
  constexpr Stirling stirling = StirlingOf(static_cast<Number*>(nullptr));
  // B_2k / (2k)!
  const double coefficients[16] = {
      0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
      -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
      1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
      -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19,
      3.534707039629467e-21,  -8.953517427037546e-23,  2.267952452337683e-24,
      -5.744790668872202e-26};
  const double low_parts[7] = {4.625929269271485e-18,   5.300543954373577e-20,
                               -2.2300719288557665e-21, 3.457597454003665e-23,
                               -1.2073450591132599e-24, 3.517096671929869e-27,
                               -2.828354019907999e-29};
  const Number square = r * r;
  Number factor = n < 0 ? r : r * Number(n + 1, 0);
  Number sum = factor * Number(coefficients[0], low_parts[0]);
  for (int k = 1; k < stirling.precise_terms; ++k) {
    factor = factor * (square * Number((n + 2 * k) * (n + 2 * k + 1), 0));
    sum = sum + factor * Number(coefficients[k], low_parts[k]);
  }
  const auto step = square.value();
  auto power = factor.value(), rest = hn::Zero(d);
  for (int k = stirling.precise_terms; k < stirling.terms; ++k) {
    power = hn::Mul(power, hn::Mul(step, hn::Set(d, (n + 2 * k) * (n + 2 * k + 1))));
    rest = hn::MulAdd(power, hn::Set(d, coefficients[k]), rest);
  }
  return sum + Number(rest);
}

// For y > 0.
template <class D, class Number>
HWY_NOINLINE Number LogGammaAbove0(D d, Number y) {
  const Number one(1, 0), half(0.5, 0);
  const double start = StirlingOf(static_cast<Number*>(nullptr)).start;
  Number product = one;
  for (int k = 0; k < start; ++k) {
    const auto low = hn::Lt(y.high, hn::Set(d, start));
    if (hn::AllTrue(d, hn::Not(low))) break;
    product = Choose(low, product * y, product);
    y = Choose(low, y + one, y);
  }
  const Number series = StirlingSeries(d, -1, one / y);
  // The constant is log(2 pi) / 2 - 1/2.
  const Number head = (y - half) * (LogOf(y) - one);
  return head + (Number(0.4189385332046727, 1.6728209650585413e-17) + series) - LogOf(product);
}

// For float lanes y > 0, with one logarithm: the recurrence moves y below 3.5 to [1.5, 2.5], where
// lgamma(2 + w) / w is a polynomial, so that the zeros at 1 and 2 are exact.
template <class D, class V>
HWY_NOINLINE V LogGammaOfFloatAbove0(D d, V y) {
  const V one = hn::Set(d, 1.0);
  const auto large = hn::Ge(y, hn::Set(d, 3.5));
  const auto above = hn::Gt(y, hn::Set(d, 2.5));
  const auto below = hn::Lt(y, hn::Set(d, 1.5)), far_below = hn::Lt(y, hn::Set(d, 0.5));
  V factor = hn::IfThenElse(above, hn::Sub(y, one), one);
  factor = hn::IfThenElse(below, y, factor);
  factor = hn::IfThenElse(far_below, hn::Mul(y, hn::Add(y, one)), factor);
  const V log = Log(d, hn::IfThenElse(large, y, factor));
  V low = y;
  if (!hn::AllTrue(d, large)) {
    V to_w = hn::IfThenElse(above, hn::Set(d, -3.0), hn::Set(d, -2.0));
    to_w = hn::IfThenElse(below, hn::Set(d, -1.0), to_w);
    to_w = hn::IfThenElse(far_below, hn::Zero(d), to_w);
    const V w = hn::Add(y, to_w);
    const V slope = PolynomialWithSquare(
        d, w, hn::Mul(w, w), 0.42278433509846713, 0.32246703342004873, -0.06735230105130044,
        0.020580808882117916, -0.007385551240791602, 0.0028904958630843014, -0.0011927471573807307,
        0.0005098661348137004, -0.00022324653987287443, 9.816870450896373e-05,
        -4.4324684533065815e-05, 2.4487052975853987e-05, -1.1296499102214296e-05);
    // The logarithm is subtracted where y was moved up, added where it was moved down.
    low = hn::MulAdd(w, slope, hn::IfThenElse(below, hn::Neg(log), log));
    if (hn::AllTrue(d, hn::Not(large))) return low;
  }
  const V r = hn::Div(one, y);
  const V series =
      hn::Mul(r, Polynomial(d, hn::Mul(r, r), 0.08333333333333333, -0.002777777777777778,
                            0.0007936507936507937, -0.0005952380952380953, 0.0008417508417508417,
                            -0.0019175269175269176, 0.00641025641025641));
  const V head = hn::Mul(hn::Sub(y, hn::Set(d, 0.5)), hn::Sub(log, one));
  // The constant is log(2 pi) / 2 - 1/2.
  const V high = hn::Add(head, hn::Add(hn::Set(d, 0.4189385332046727), series));
  return hn::IfThenElse(large, high, low);
}

template <class D, class Number>
HWY_NOINLINE Number DigammaAbove0(D d, Number y) {
  const Number one(1, 0), half(0.5, 0);
  const double start = StirlingOf(static_cast<Number*>(nullptr)).start;
  // top / bottom is the sum of the reciprocals.
  Number top(0, 0), bottom = one;
  for (int k = 0; k < start; ++k) {
    const auto low = hn::Lt(y.high, hn::Set(d, start));
    if (hn::AllTrue(d, hn::Not(low))) break;
    top = Choose(low, top * y + bottom, top);
    bottom = Choose(low, bottom * y, bottom);
    y = Choose(low, y + one, y);
  }
  const Number r = one / y;
  return LogOf(y) - r * (half + StirlingSeries(d, 0, r)) - top / bottom;
}

// (n - 1)! / y^n, n >= 1.
template <class Number>
HWY_INLINE Number FactorialOverPower(int n, Number reciprocal) {
  Number value = reciprocal;
  for (int j = 1; j < n; ++j) value = value * (reciprocal * Number(j, 0));
  return value;
}

// n! times the sum over k >= 0 of 1 / (y + k)^(n + 1), for y > 0 and n >= 1: polygamma without its
// sign.
template <class D, class Number>
HWY_NOINLINE Number PolygammaAbove0(D d, int n, Number y) {
  const Number one(1, 0), half(0.5, 0);
  const double start = StirlingOf(static_cast<Number*>(nullptr)).start + n;
  Number sum(0, 0);
  for (int k = 0; k < start; ++k) {
    const auto low = hn::Lt(y.high, hn::Set(d, start));
    if (hn::AllTrue(d, hn::Not(low))) break;
    sum = Choose(low, sum + FactorialOverPower(n + 1, one / y), sum);
    y = Choose(low, y + one, y);
  }
  const Number r = one / y;
  const Number power = FactorialOverPower(n, r);
  return sum + (power + power * (r * Number(n, 0)) * (half + StirlingSeries(d, n, r)));
}

// above(x) where x > 0, below(x) elsewhere; each is computed only if a lane needs it.
template <class D, class V, class Above, class Below>
HWY_INLINE V BySign(D d, V x, Above above, Below below) {
  const auto positive = hn::Gt(x, hn::Zero(d));
  if (HWY_LIKELY(hn::AllTrue(d, positive))) return above();
  return hn::IfThenElse(positive, above(), below());
}

// x below 0 is a pole of all functions here.
template <class D, class V>
HWY_INLINE auto IsNegativeInteger(D d, V x) {
  return hn::And(hn::Lt(x, hn::Zero(d)), hn::Eq(x, hn::Round(x)));
}

// Below this magnitude only the pole at 0 counts.
template <class D, class V>
HWY_INLINE auto IsNextToZero(D d, V x) {
  return hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-60));
}

// The Taylor series next to those zeros below 0 that are so close to a double that a Pair has too
// few bits for the value there; those of digamma were searched down to -20000. Order -1 is lgamma,
// 0 digamma, n polygamma.
template <class D, class V>
HWY_INLINE V NextToZeros(D d, int order, V x, V result) {
  struct Zero {
    int order;
    double at, rest, slope, half_curvature;
  };
  const Zero zeros[] = {
      {-1, -2.4570247382208006, -3.7075610815513266e-17, 1.5156034480216574, 4.8583209516339965},
      {-1, -2.7476826467274127, 9.055340329338315e-17, -1.9143501856115988, 9.575189475709667},
      {0, -0.5040830082644554, -8.15428206243813e-18, 8.939798558792134, -0.8093454625306507},
      {0, -5.6671624415568855, -3.2153051074948335e-18, 13.021406387509394, -24.0108335669899},
      {0, -87.80536027839507, 1.2758561644425609e-17, 29.93590397378115, -134.18778851297517},
      {0, -2977.8808777877402, -1.7832917556346364e-18, 73.85543110724767, -590.782257597136},
      {4, -0.49977397564859133, 2.034260034315706e-18, 15371.169645746912, 269.92002593965753},
  };
  for (const Zero& zero : zeros) {
    if (zero.order != order) continue;
    const V slope = hn::Set(d, zero.slope);
    const Sum<V> u = TwoSum(hn::Sub(x, hn::Set(d, zero.at)), hn::Set(d, -zero.rest));
    const V bend = hn::Mul(hn::Mul(u.sum, u.sum), hn::Set(d, zero.half_curvature));
    const V value = hn::MulAdd(u.sum, slope, hn::MulAdd(u.error, slope, bend));
    result = hn::IfThenElse(hn::Lt(hn::Abs(u.sum), hn::Set(d, 0x1p-45)), value, result);
  }
  return result;
}

template <bool kForFloat, class D, class V>
HWY_NOINLINE V LogGammaInDouble(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const auto above = [&]() HWY_ATTR {
    if constexpr (kForFloat) {
      return LogGammaOfFloatAbove0(d, x);
    } else {
      return LogGammaAbove0(d, Pair<D>(x)).value();
    }
  };
  const auto below = [&]() HWY_ATTR {
    // log |pi / sin(pi x)| = lgamma(1 + f) + lgamma(1 - f) - log |f|
    using Number = Pair<D, !kForFloat>;
    const V f = hn::Sub(x, hn::Round(x));
    const Number sum = LogGammaAbove0(d, Number(TwoSum(one, f))) +
                       LogGammaAbove0(d, Number(TwoSum(one, hn::Neg(f))));
    const Number rest = LogGammaAbove0(d, Number(TwoSum(one, hn::Neg(x))));
    const V value = (sum - LogOf(Number(hn::Abs(f))) - rest).value();
    if constexpr (kForFloat) {
      return value;
    } else {
      return NextToZeros(d, -1, x, value);
    }
  };
  V result = BySign(d, x, above, below);
  if constexpr (!kForFloat) {
    // Taylor series next to the zeros.
    const V u = hn::Sub(x, one), v = hn::Sub(u, one);
    const V at_1 = Polynomial(d, u, -0.5772156649015329, 0.8224670334241132, -0.40068563438653143,
                              0.27058080842778454);
    const V at_2 = Polynomial(d, v, 0.42278433509846713, 0.3224670334241132, -0.0673523010531981,
                              0.020580808427784546);
    const V near = hn::Set(d, 0x1p-18);
    // Adding 0 makes the value at 1 +0, as in C.
    result =
        hn::IfThenElse(hn::Lt(hn::Abs(u), near), hn::Add(hn::Mul(u, at_1), hn::Zero(d)), result);
    result = hn::IfThenElse(hn::Lt(hn::Abs(v), near), hn::Mul(v, at_2), result);
  }
  const auto tiny = IsNextToZero(d, x);
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Not(tiny)))) {
    result = hn::IfThenElse(tiny, hn::Neg(Log(d, hn::Abs(x))), result);
  }
  // Overflows.
  const auto pole = hn::Or(IsNegativeInteger(d, x), hn::Ge(x, hn::Set(d, 2.5563481638716907e305)));
  return hn::IfThenElse(pole, Infinity(d), hn::IfThenElse(hn::IsNaN(x), x, result));
}

template <bool kForFloat, class D, class V>
HWY_NOINLINE V DigammaInDouble(D d, V x) {
  using Number = std::conditional_t<kForFloat, Plain<D>, Pair<D>>;
  const V one = hn::Set(d, 1.0);
  const auto above = [&]() HWY_ATTR { return DigammaAbove0(d, Number(x)).value(); };
  const auto below = [&]() HWY_ATTR {
    // pi cot(pi x) = 1 / f + digamma(1 - f) - digamma(1 + f)
    using Number = Pair<D, !kForFloat>;
    const V f = hn::Sub(x, hn::Round(x));
    const Number difference = DigammaAbove0(d, Number(TwoSum(one, f))) -
                              DigammaAbove0(d, Number(TwoSum(one, hn::Neg(f))));
    const Number rest = DigammaAbove0(d, Number(TwoSum(one, hn::Neg(x))));
    const V value = (rest + difference - Number(one) / Number(f)).value();
    if constexpr (kForFloat) {
      return value;
    } else {
      return NextToZeros(d, 0, x, value);
    }
  };
  V result = BySign(d, x, above, below);
  // The Taylor series next to the zero above 0.
  const V u =
      hn::Sub(hn::Sub(x, hn::Set(d, 1.4616321449683622)), hn::Set(d, 9.549995429965697e-17));
  const V slope = Polynomial(d, u, 0.9676722454476212, -0.4427631689835921, 0.258499760955651,
                             -0.16394270544240652);
  result = hn::IfThenElse(hn::Lt(hn::Abs(u), hn::Set(d, 0x1p-18)), hn::Mul(u, slope), result);
  result = hn::IfThenElse(IsNextToZero(d, x), hn::Neg(hn::Div(one, x)), result);
  result = hn::IfThenElse(IsNegativeInteger(d, x), NotANumber(d), result);
  return hn::IfThenElse(hn::Lt(x, Infinity(d)), result, x);
}

// The largest order of Polygamma: the rows accept 100, and their derivatives need more.
inline constexpr double kMaxPolygamma = 110;

template <bool kForFloat, class D, class V>
HWY_NOINLINE V PolygammaInDouble(D d, V x, double order) {
  using Number = std::conditional_t<kForFloat, Plain<D>, Pair<D>>;
  if (order == 0) return DigammaInDouble<kForFloat>(d, x);
  if (!(order > 0 && order <= kMaxPolygamma)) return NotANumber(d);
  const int n = static_cast<int>(order);
  if (n != order) return NotANumber(d);
  const V one = hn::Set(d, 1.0);
  const V sign = hn::Set(d, n % 2 != 0 ? 1.0 : -1.0);
  const auto above = [&]() HWY_ATTR { return PolygammaAbove0(d, n, Number(x)).value(); };
  const auto below = [&]() HWY_ATTR {
    // The sum over all integers k of n! / (f + k)^(n + 1), without the terms left of x.
    using Below = Pair<D, !kForFloat>;
    const V f = hn::Sub(x, hn::Round(x));
    const Below reflected = PolygammaAbove0(d, n, Below(TwoSum(one, hn::Neg(x))));
    const Below left = PolygammaAbove0(d, n, Below(TwoSum(one, hn::Neg(f)))) - reflected;
    const Below right = FactorialOverPower(n + 1, Below(one) / Below(f)) +
                        PolygammaAbove0(d, n, Below(TwoSum(one, f)));
    const V sum = (right + Below(sign) * left).value();
    // Between two integers the terms of even order cancel, and their rounding must not remain.
    const auto cancels = hn::Eq(hn::Abs(f), hn::Set(d, n % 2 != 0 ? 2.0 : 0.5));
    return hn::IfThenElse(cancels, reflected.value(), sum);
  };
  V result = BySign(d, x, above, below);
  // The low parts of a pair that overflows are not numbers; next to a pole, its term is the result.
  const V distance = hn::Sub(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Round(x), hn::Zero(d)));
  const V pole = FactorialOverPower(n + 1, Plain<D>(one) / Plain<D>(distance)).high;
  const auto finite = hn::Lt(hn::Abs(result), Infinity(d));
  result = hn::Mul(sign, hn::IfThenElse(finite, result, pole));
  if constexpr (!kForFloat) result = NextToZeros(d, n, x, result);
  const V at_integers = n % 2 != 0 ? Infinity(d) : NotANumber(d);
  result = hn::IfThenElse(IsNegativeInteger(d, x), at_integers, result);
  result = hn::IfThenElse(hn::Eq(hn::Abs(x), Infinity(d)),
                          hn::IfThenElse(hn::Gt(x, one), hn::Mul(sign, hn::Zero(d)), NotANumber(d)),
                          result);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogGamma(D d, V x) {
  if constexpr (kIsFloat<D>) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return LogGammaInDouble<true>(dd, v); });
  } else {
    return LogGammaInDouble<false>(d, x);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Digamma(D d, V x) {
  if constexpr (kIsFloat<D>) {
    return InDouble(d, x, [](auto dd, auto v) HWY_ATTR { return DigammaInDouble<true>(dd, v); });
  } else {
    return DigammaInDouble<false>(d, x);
  }
}

// The derivative of order n of Digamma; every lane of n is the same. NaN if n is not an integer
// from 0 to kMaxPolygamma.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Polygamma(D d, V x, V n) {
  const double order = hn::GetLane(n);
  if constexpr (kIsFloat<D>) {
    return InDouble(
        d, x, [order](auto dd, auto v) HWY_ATTR { return PolygammaInDouble<true>(dd, v, order); });
  } else {
    return PolygammaInDouble<false>(d, x, order);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_GAMMA_INL_H_
