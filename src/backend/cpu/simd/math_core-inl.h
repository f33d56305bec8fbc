// Building blocks of the vector math functions: per-lane fallback, float lanes computed in double
// lanes, exact products and sums, scaling by powers of two.

#if defined(EXTENSOR_SIMD_MATH_CORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_SIMD_MATH_CORE_INL_H_
#undef EXTENSOR_SIMD_MATH_CORE_INL_H_
#else
#define EXTENSOR_SIMD_MATH_CORE_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Targets without a fused multiply-add compute float functions in double lanes.
#if HWY_NATIVE_FMA
inline constexpr bool kHasFma = true;
#else
inline constexpr bool kHasFma = false;
#endif

template <class D>
inline constexpr bool kIsFloat = std::is_same_v<hn::TFromD<D>, float>;

#undef EXTENSOR_EMULATED
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define EXTENSOR_EMULATED 1
#else
#define EXTENSOR_EMULATED 0
#endif

// The type in which the slow per-lane path of a function is computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class D, class V, class Function>
HWY_NOINLINE V PerLane(D d, V x, Function function) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<T>(function(lanes[i]));
  return hn::Load(d, lanes);
}

template <class D, class V, class Function>
HWY_NOINLINE V PerLane(D d, V a, V b, Function function) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T first[hn::MaxLanes(D())];
  HWY_ALIGN T second[hn::MaxLanes(D())];
  hn::Store(a, d, first);
  hn::Store(b, d, second);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    first[i] = static_cast<T>(function(first[i], second[i]));
  }
  return hn::Load(d, first);
}

// The fast result in ordinary lanes, slow() in the others: the bits of a lane depend only on its
// own value.
template <class D, class M, class V, class Slow>
HWY_INLINE V SlowWhereNot(D d, M ordinary, V fast, Slow slow) {
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return fast;
  return hn::IfThenElse(ordinary, fast, slow());
}

// Highway's emulated DemoteTo turns infinity into the largest finite float.
template <class D, class V>
HWY_INLINE hn::Vec<D> NarrowTo(D d, V x) {
#if EXTENSOR_EMULATED
  const hn::Rebind<double, D> dd;
  HWY_ALIGN double wide[hn::MaxLanes(dd)];
  HWY_ALIGN float narrow[hn::MaxLanes(d)];
  hn::Store(x, dd, wide);
  for (size_t i = 0; i < hn::Lanes(d); ++i) narrow[i] = static_cast<float>(wide[i]);
  return hn::Load(d, narrow);
#else
  return hn::DemoteTo(d, x);
#endif
}

// Computes a function of float lanes in double lanes: half a vector at a time, or at once if the
// doubles fit.
template <class D, class V, class Function>
HWY_INLINE V InDouble(D d, V x, Function function) {
  if constexpr (hn::MaxLanes(d) * sizeof(double) <= HWY_MAX_BYTES) {
    const hn::Rebind<double, D> dd;
    return NarrowTo(d, function(dd, hn::PromoteTo(dd, x)));
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D> half;
    const hn::Rebind<double, decltype(half)> dd;
    const auto low = NarrowTo(half, function(dd, hn::PromoteTo(dd, hn::LowerHalf(half, x))));
    const auto high = NarrowTo(half, function(dd, hn::PromoteTo(dd, hn::UpperHalf(half, x))));
    return hn::Combine(d, high, low);
#else
    return x;  // One double lane always fits.
#endif
  }
}

template <class D, class V, class Function>
HWY_INLINE V InDouble(D d, V a, V b, Function function) {
  if constexpr (hn::MaxLanes(d) * sizeof(double) <= HWY_MAX_BYTES) {
    const hn::Rebind<double, D> dd;
    return NarrowTo(d, function(dd, hn::PromoteTo(dd, a), hn::PromoteTo(dd, b)));
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D> half;
    const hn::Rebind<double, decltype(half)> dd;
    const auto low = NarrowTo(half, function(dd, hn::PromoteTo(dd, hn::LowerHalf(half, a)),
                                             hn::PromoteTo(dd, hn::LowerHalf(half, b))));
    const auto high = NarrowTo(half, function(dd, hn::PromoteTo(dd, hn::UpperHalf(half, a)),
                                              hn::PromoteTo(dd, hn::UpperHalf(half, b))));
    return hn::Combine(d, high, low);
#else
    return a;  // One double lane always fits.
#endif
  }
}

// a * b + c with one rounding on every target; MulAdd may round twice without FMA.
template <class D, class V>
HWY_INLINE V FusedMulAdd(D d, V a, V b, V c) {
  if constexpr (kHasFma) {
    return hn::MulAdd(a, b, c);
  } else {
    using T = hn::TFromD<D>;
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(c, d, lanes);
    size_t i = 0;
    return PerLane(d, a, b, [&](T x, T y) { return std::fma(x, y, lanes[i++]); });
  }
}

// c - a * b with one rounding.
template <class D, class V>
HWY_INLINE V FusedNegMulAdd(D d, V a, V b, V c) {
  if constexpr (kHasFma)
    return hn::NegMulAdd(a, b, c);
  else
    return FusedMulAdd(d, hn::Neg(a), b, c);
}

// The rounding error of product = a * b.
template <class D, class V>
HWY_INLINE V ProductError(D d, V a, V b, V product) {
  if constexpr (kHasFma)
    return hn::MulSub(a, b, product);
  else
    return FusedMulAdd(d, a, b, hn::Neg(product));
}

// sum + error = a + b exactly.
template <class V>
struct Sum {
  V sum, error;
};

// Requires |a| >= |b|, or a == 0.
template <class V>
HWY_INLINE Sum<V> FastTwoSum(V a, V b) {
  const V sum = hn::Add(a, b);
  return {sum, hn::Add(hn::Sub(a, sum), b)};
}

template <class V>
HWY_INLINE Sum<V> TwoSum(V a, V b) {
  const V sum = hn::Add(a, b);
  const V b_part = hn::Sub(sum, a);
  return {sum, hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part))};
}

// The constant for the lane type.
template <class D>
HWY_INLINE hn::Vec<D> Pick(D d, float for_float, double for_double) {
  if constexpr (kIsFloat<D>)
    return hn::Set(d, for_float);
  else
    return hn::Set(d, for_double);
}

#undef EXTENSOR_AVX512
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define EXTENSOR_AVX512 1
#else
#define EXTENSOR_AVX512 0
#endif

// Approximations of 1 / x for quotients that are corrected afterwards: to half the bits of the
// lane, and to an ULP or two.
template <class D, class V>
HWY_INLINE V RoughReciprocal(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
#if EXTENSOR_AVX512
  if constexpr (kIsFloat<D>) {
    if constexpr (sizeof(V) == 64)
      return V{_mm512_rcp14_ps(x.raw)};
    else if constexpr (sizeof(V) == 32)
      return V{_mm256_rcp14_ps(x.raw)};
    else
      return V{_mm_rcp14_ps(x.raw)};
  } else {
    V rough;
    if constexpr (sizeof(V) == 64)
      rough = V{_mm512_rcp14_pd(x.raw)};
    else if constexpr (sizeof(V) == 32)
      rough = V{_mm256_rcp14_pd(x.raw)};
    else
      rough = V{_mm_rcp14_pd(x.raw)};
    return hn::MulAdd(hn::NegMulAdd(x, rough, one), rough, rough);
  }
#else
  if constexpr (!kIsFloat<D>) {
    return hn::Div(one, x);
  } else {
    const V rough = hn::ApproximateReciprocal(x);  // Only 12 bits.
    return hn::MulAdd(hn::NegMulAdd(x, rough, one), rough, rough);
  }
#endif
}

template <class D, class V>
HWY_INLINE V NearReciprocal(D d, V x) {
  const V rough = RoughReciprocal(d, x);
  if constexpr (!EXTENSOR_AVX512) return rough;
  return hn::MulAdd(hn::NegMulAdd(x, rough, hn::Set(d, hn::TFromD<D>(1))), rough, rough);
}

// a / b of two sums, to slightly more than half an ULP. The quotient must be a normal number.
template <class D, class V>
HWY_INLINE V Quotient(D d, Sum<V> a, Sum<V> b) {
  const V reciprocal = kIsFloat<D> ? NearReciprocal(d, b.sum) : RoughReciprocal(d, b.sum);
  const V quotient = hn::Mul(a.sum, reciprocal);
  const V remainder = FusedNegMulAdd(d, quotient, b.sum, a.sum);
  const V rest = hn::NegMulAdd(quotient, b.error, hn::Add(remainder, a.error));
  return hn::MulAdd(rest, reciprocal, quotient);
}

// c0 + x (c1 + x (c2 + ...)): coefficients in ascending order.
template <class D, class V, class T>
HWY_INLINE V Polynomial(D d, V /*x*/, T c0) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(c0));
}
template <class D, class V, class T, class... Rest>
HWY_INLINE V Polynomial(D d, V x, T c0, Rest... rest) {
  return hn::MulAdd(x, Polynomial(d, x, rest...), hn::Set(d, static_cast<hn::TFromD<D>>(c0)));
}

// The same if the square of x is already known: even and odd powers apart, half the latency.
template <size_t kFirst, class D, class V, class T, size_t kCount>
HWY_INLINE V EverySecond(D d, V square, const T (&c)[kCount]) {
  constexpr size_t kLast = kFirst + (kCount - 1 - kFirst) / 2 * 2;
  V sum = hn::Set(d, c[kLast]);
  HWY_UNROLL(16)
  for (size_t i = kLast; i > kFirst; i -= 2) sum = hn::MulAdd(sum, square, hn::Set(d, c[i - 2]));
  return sum;
}

template <class D, class V, class... Coefficients>
HWY_INLINE V PolynomialWithSquare(D d, V x, V square, Coefficients... coefficients) {
  const hn::TFromD<D> c[] = {static_cast<hn::TFromD<D>>(coefficients)...};
  return hn::MulAdd(EverySecond<1>(d, square, c), x, EverySecond<0>(d, square, c));
}

// 2^n for an integral n whose power is a normal number.
template <class D, class V>
HWY_INLINE V PowerOfTwo(D d, V n) {
  using T = hn::TFromD<D>;
  constexpr int kMantissaBits = std::numeric_limits<T>::digits - 1;
  // After adding this, the low bits hold n plus the exponent bias.
  constexpr T kMagic =
      T(3) * (uint64_t{1} << (kMantissaBits - 1)) + T(std::numeric_limits<T>::max_exponent - 1);
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, hn::Add(n, hn::Set(d, kMagic)));
  return hn::BitCast(d, hn::ShiftLeft<kMantissaBits>(bits));
}

// x * 2^n for an integral n, rounded once: overflows, and underflows through the subnormals. x must
// be of moderate size, |n| below four times the exponent range.
template <class D, class V>
HWY_INLINE V ScaleByPowerOfTwo(D d, V x, V n) {
#if EXTENSOR_AVX512
  (void)d;
  if constexpr (sizeof(V) == 64) {
    if constexpr (kIsFloat<D>)
      return V{_mm512_scalef_ps(x.raw, n.raw)};
    else
      return V{_mm512_scalef_pd(x.raw, n.raw)};
  } else if constexpr (sizeof(V) == 32) {
    if constexpr (kIsFloat<D>)
      return V{_mm256_scalef_ps(x.raw, n.raw)};
    else
      return V{_mm256_scalef_pd(x.raw, n.raw)};
  } else {
    if constexpr (kIsFloat<D>)
      return V{_mm_scalef_ps(x.raw, n.raw)};
    else
      return V{_mm_scalef_pd(x.raw, n.raw)};
  }
#else
  const V half = hn::Round(hn::Mul(n, hn::Set(d, hn::TFromD<D>(0.5))));
  return hn::Mul(hn::Mul(x, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
#endif
}

// 2^n, or zero if that is not normal; n must be below the end of the exponent range.
template <class D, class V>
HWY_INLINE V PowerOfTwoOrZero(D d, V n) {
#if EXTENSOR_AVX512
  return ScaleByPowerOfTwo(d, hn::Set(d, hn::TFromD<D>(1)), n);
#else
  return hn::IfThenElseZero(hn::Gt(n, Pick(d, -127, -1023)), PowerOfTwo(d, n));
#endif
}

// value 2^n, where value is an unrounded sum: the last scaling may end in the subnormals.
template <class V>
struct Scaled {
  Sum<V> value;
  V n;
};

template <class D, class V>
HWY_INLINE V Finish(D d, const Scaled<V>& scaled) {
  return ScaleByPowerOfTwo(d, hn::Add(scaled.value.sum, scaled.value.error), scaled.n);
}

// a (b.sum + b.error), where a is exact.
template <class D, class V>
HWY_INLINE Sum<V> Product(D d, V a, Sum<V> b) {
  const V product = hn::Mul(a, b.sum);
  return {product, hn::MulAdd(a, b.error, ProductError(d, a, b.sum, product))};
}

// Min and Max that keep a NaN in x: x86 returns the second operand in that case.
template <class D, class V>
HWY_INLINE V MinKeepingNaN(D d, V x, hn::TFromD<D> high) {
#if EXTENSOR_EMULATED
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, high)), hn::Set(d, high), x);
#else
  return hn::Min(hn::Set(d, high), x);
#endif
}

template <class D, class V>
HWY_INLINE V MaxKeepingNaN(D d, V x, hn::TFromD<D> low) {
#if EXTENSOR_EMULATED
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
#else
  return hn::Max(hn::Set(d, low), x);
#endif
}

template <class D, class V>
HWY_INLINE V ClampKeepingNaN(D d, V x, hn::TFromD<D> low, hn::TFromD<D> high) {
  return MaxKeepingNaN(d, MinKeepingNaN(d, x, high), low);
}

template <class D>
HWY_INLINE hn::Vec<D> NotANumber(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
}

template <class D>
HWY_INLINE hn::Vec<D> Infinity(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::infinity());
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_SIMD_MATH_CORE_INL_H_
