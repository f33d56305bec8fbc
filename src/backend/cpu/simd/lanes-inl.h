// The abstract value of the op tables as a SIMD vector: operators, literals and the vocabulary of
// the rows.
#if defined(EXTENSOR_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_LANES_INL_H_
#undef EXTENSOR_LANES_INL_H_
#else
#define EXTENSOR_LANES_INL_H_
#endif

#include <type_traits>

#include "backend/cpu/simd/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct LanesMask {
  hn::Mask<hn::ScalableTag<T>> m;

  friend HWY_INLINE LanesMask operator&&(LanesMask a, LanesMask b) { return {hn::And(a.m, b.m)}; }
  friend HWY_INLINE LanesMask operator||(LanesMask a, LanesMask b) { return {hn::Or(a.m, b.m)}; }
  friend HWY_INLINE LanesMask operator!(LanesMask a) { return {hn::Not(a.m)}; }
};

// One vector of float or double; T is the lane type.
template <class T>
struct Lanes {
  using D = hn::ScalableTag<T>;
  using Vector = hn::Vec<D>;
  Vector v;

  Lanes() = default;
  HWY_INLINE Lanes(Vector vector) : v(vector) {}  // NOLINT: implicit, rows mix both
  template <class Literal>
  requires std::is_arithmetic_v<Literal> HWY_INLINE Lanes(Literal literal)
      : v(hn::Set(D(), static_cast<T>(literal))) {}  // NOLINT

  friend HWY_INLINE Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE Lanes operator/(Lanes a, Lanes b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a) { return hn::Neg(a.v); }
  friend HWY_INLINE LanesMask<T> operator<(Lanes a, Lanes b) { return {hn::Lt(a.v, b.v)}; }
  friend HWY_INLINE LanesMask<T> operator<=(Lanes a, Lanes b) { return {hn::Le(a.v, b.v)}; }
  friend HWY_INLINE LanesMask<T> operator>(Lanes a, Lanes b) { return {hn::Gt(a.v, b.v)}; }
  friend HWY_INLINE LanesMask<T> operator>=(Lanes a, Lanes b) { return {hn::Ge(a.v, b.v)}; }
  friend HWY_INLINE LanesMask<T> operator==(Lanes a, Lanes b) { return {hn::Eq(a.v, b.v)}; }
};

template <class T>
HWY_INLINE Lanes<T> select(LanesMask<T> condition, std::type_identity_t<Lanes<T>> yes,
                           std::type_identity_t<Lanes<T>> no) {
  return hn::IfThenElse(condition.m, yes.v, no.v);
}

#define EXTENSOR_VOCABULARY_1(word, Function)   \
  template <class T>                            \
  HWY_INLINE Lanes<T> word(Lanes<T> x) {        \
    return Function(hn::ScalableTag<T>(), x.v); \
  }
EXTENSOR_VOCABULARY_1(exp, Exp)
EXTENSOR_VOCABULARY_1(exp2, Exp2)
EXTENSOR_VOCABULARY_1(expm1, Expm1)
EXTENSOR_VOCABULARY_1(log, Log)
EXTENSOR_VOCABULARY_1(log2, Log2)
EXTENSOR_VOCABULARY_1(log10, Log10)
EXTENSOR_VOCABULARY_1(log1p, Log1p)
EXTENSOR_VOCABULARY_1(cbrt, Cbrt)
EXTENSOR_VOCABULARY_1(rsqrt, Rsqrt)
EXTENSOR_VOCABULARY_1(sin, Sin)
EXTENSOR_VOCABULARY_1(cos, Cos)
EXTENSOR_VOCABULARY_1(tan, Tan)
EXTENSOR_VOCABULARY_1(asin, Asin)
EXTENSOR_VOCABULARY_1(acos, Acos)
EXTENSOR_VOCABULARY_1(atan, Atan)
EXTENSOR_VOCABULARY_1(sinh, Sinh)
EXTENSOR_VOCABULARY_1(cosh, Cosh)
EXTENSOR_VOCABULARY_1(tanh, Tanh)
EXTENSOR_VOCABULARY_1(asinh, Asinh)
EXTENSOR_VOCABULARY_1(acosh, Acosh)
EXTENSOR_VOCABULARY_1(atanh, Atanh)
EXTENSOR_VOCABULARY_1(erf, Erf)
EXTENSOR_VOCABULARY_1(erfinv, Erfinv)
EXTENSOR_VOCABULARY_1(lgamma, LogGamma)
EXTENSOR_VOCABULARY_1(digamma, Digamma)
EXTENSOR_VOCABULARY_1(sigmoid, Sigmoid)
EXTENSOR_VOCABULARY_1(log_sigmoid, LogSigmoid)
EXTENSOR_VOCABULARY_1(softplus, Softplus)
EXTENSOR_VOCABULARY_1(gelu, Gelu)
EXTENSOR_VOCABULARY_1(gelu_tanh, GeluTanh)
EXTENSOR_VOCABULARY_1(silu, Silu)
EXTENSOR_VOCABULARY_1(mish, Mish)
EXTENSOR_VOCABULARY_1(normal_cdf, NormalCdf)
EXTENSOR_VOCABULARY_1(normal_pdf, NormalPdf)
EXTENSOR_VOCABULARY_1(floor, Floor)
EXTENSOR_VOCABULARY_1(ceil, Ceil)
EXTENSOR_VOCABULARY_1(round, Round)
EXTENSOR_VOCABULARY_1(trunc, Trunc)
#undef EXTENSOR_VOCABULARY_1

#define EXTENSOR_VOCABULARY_2(word, Function)                              \
  template <class T>                                                       \
  HWY_INLINE Lanes<T> word(Lanes<T> a, std::type_identity_t<Lanes<T>> b) { \
    return Function(hn::ScalableTag<T>(), a.v, b.v);                       \
  }
EXTENSOR_VOCABULARY_2(atan2, Atan2)
EXTENSOR_VOCABULARY_2(hypot, Hypot)
EXTENSOR_VOCABULARY_2(polygamma, Polygamma)
EXTENSOR_VOCABULARY_2(power, Pow)
EXTENSOR_VOCABULARY_2(logaddexp, LogAddExp)
EXTENSOR_VOCABULARY_2(floor_divide, FloorDivide)
EXTENSOR_VOCABULARY_2(floor_modulo, FloorMod)
#undef EXTENSOR_VOCABULARY_2

template <class T>
HWY_INLINE Lanes<T> sqrt(Lanes<T> x) {
  return hn::Sqrt(x.v);
}
// a · b + c, rounded once if the target has the instruction.
template <class T>
HWY_INLINE Lanes<T> multiply_add(Lanes<T> a, std::type_identity_t<Lanes<T>> b,
                                 std::type_identity_t<Lanes<T>> c) {
  return hn::MulAdd(a.v, b.v, c.v);
}
// a − b · c, likewise.
template <class T>
HWY_INLINE Lanes<T> subtract_product(Lanes<T> a, std::type_identity_t<Lanes<T>> b,
                                     std::type_identity_t<Lanes<T>> c) {
  return hn::NegMulAdd(b.v, c.v, a.v);
}
template <class T>
HWY_INLINE Lanes<T> abs(Lanes<T> x) {
  return hn::Abs(x.v);
}
template <class T>
HWY_INLINE LanesMask<T> isnan(Lanes<T> x) {
  return {hn::IsNaN(x.v)};
}
template <class T>
HWY_INLINE Lanes<T> copysign(std::type_identity_t<Lanes<T>> magnitude, Lanes<T> sign) {
  return hn::CopySign(magnitude.v, sign.v);
}
template <class T>
HWY_INLINE Lanes<T> sign(Lanes<T> x) {  // NaN stays NaN
  const Lanes<T> one = hn::CopySign(hn::Set(hn::ScalableTag<T>(), T(1)), x.v);
  return select(x < 0 || x > 0, one, select(isnan(x), x, 0));
}
// NaN in either operand yields NaN.
template <class T>
HWY_INLINE Lanes<T> max(Lanes<T> a, std::type_identity_t<Lanes<T>> b) {
  return select(a > b || isnan(a), a, b);
}
template <class T>
HWY_INLINE Lanes<T> min(Lanes<T> a, std::type_identity_t<Lanes<T>> b) {
  return select(a < b || isnan(a), a, b);
}
template <class T>
HWY_INLINE Lanes<T> clamp(Lanes<T> x, std::type_identity_t<Lanes<T>> lo,
                          std::type_identity_t<Lanes<T>> hi) {
  return select(x < lo, lo, select(x > hi, hi, x));
}

// softplus(beta · x) / beta. The rounding errors of the product and the quotient are added back at
// the end, because the lower tail magnifies the former. The derivative for that is softplus itself
// or 1.
template <class T>
HWY_INLINE Lanes<T> softplus_of_product(Lanes<T> beta, Lanes<T> x) {
  const hn::ScalableTag<T> d;
  const Lanes<T> product = beta * x, value = softplus(product), quotient = value / beta;
  const Lanes<T> lost = ProductError(d, beta.v, x.v, product.v);
  const Lanes<T> rest = FusedNegMulAdd(d, quotient.v, beta.v, value.v);
  const Lanes<T> correction = (rest + select(product < 0, value, 1) * lost) / beta;
  return quotient + select(abs(product) < 1e4, correction, 0);
}

// Words whose formula for values has no accurate derivative: row_gradients.cpp defines them
// differently for dual numbers.

// sigmoid(x)
template <class T>
HWY_INLINE Lanes<T> logistic(Lanes<T> x) {
  return sigmoid(x);
}
// sigmoid(twice_z), which is gelu_tanh(x) / x. The tail of sigmoid magnifies the rounding of
// twice_z; gelu_tanh corrects for that.
template <class T>
HWY_INLINE Lanes<T> gelu_tanh_gate(Lanes<T> x, Lanes<T>) {
  return select(abs(x) < 1e-20, 0.5, gelu_tanh(x) / x);
}
// e^a / (e^a + e^b). Equal infinities yield one half each.
template <class T>
HWY_INLINE Lanes<T> logaddexp_share(Lanes<T> a, Lanes<T> b) {
  return select(a == b, 0.5, sigmoid(a - b));
}
// exp(x) for the x ≤ 0 of a select.
template <class T>
HWY_INLINE Lanes<T> exp_of_negative(Lanes<T> x) {
  return exp(x);
}
// a / hypot(a, b); 0 at the origin.
template <class T>
HWY_INLINE Lanes<T> over_hypot(Lanes<T> a, Lanes<T> b) {
  const Lanes<T> h = hypot(a, b);
  return select(h == 0, 0, a / h);
}
// numerator / (a² + b²); 0 at the origin.
template <class T>
HWY_INLINE Lanes<T> over_square_of_hypot(Lanes<T> numerator, Lanes<T> a, Lanes<T> b) {
  const Lanes<T> h = hypot(a, b);
  return select(h == 0, 0, numerator / h / h);
}

#define EXTENSOR_WORD HWY_INLINE
#include "backend/row_words.h"
#undef EXTENSOR_WORD

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_LANES_INL_H_
