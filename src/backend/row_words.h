// Words of the op tables that are built from other words, the same for every value type V. Included
// inside the namespace of a value type, after its vocabulary, with EXTENSOR_WORD defined as the
// specifiers of a function there. The file has no include guard: each value type includes it once.

inline constexpr double selu_scale = 1.0507009873554804934193349852946;
inline constexpr double selu_scale_alpha = 1.7580993408473768599402175208123;  // scale · alpha

// The op's argument kept away from zero: d itself, or eps with d's sign (+ at 0) where |d| < eps.
// On dual numbers its derivative is 1 where |d| ≥ eps and 0 below.
template <class V>
struct Safe {
  V eps;
  EXTENSOR_WORD V operator()(V d) const {
    return select(abs(d) < eps, select(d < 0, -eps, eps), d);
  }
};

// Every word below is also evaluated on dual numbers, and those are recorded for higher orders. A
// value that select does not choose must therefore be finite too: its gradient is 0 times its
// derivative.

// Derivatives whose parts are shared. The bound on x avoids ∞ · 0 in the far tails, where the other
// factor is already 0 or 1.
template <class V>
EXTENSOR_WORD V gelu_derivative(V x) {
  return normal_cdf(x) + clamp(x, -64, 64) * normal_pdf(x);
}
template <class V>
EXTENSOR_WORD V gelu_tanh_derivative(V x) {
  const V bounded = clamp(x, -64, 64);
  const V square = bounded * bounded;
  // gelu_tanh(x) = x · s, s = sigmoid(2z), 2z = x · (slope + cubic · x²), and sigmoid' = s · (1 −
  // s).
  constexpr double slope = 1.5957691216057307117598, cubic = 0.0713548162726002487763;
  const V twice_z = bounded * (slope + cubic * square);
  const V s = gelu_tanh_gate(bounded, twice_z);
  const V complement = logistic(-twice_z);
  return s + bounded * (s * complement) * (slope + 3 * cubic * square);
}
template <class V>
EXTENSOR_WORD V silu_derivative(V x) {
  return logistic(x) * (1 + clamp(x, -1e4, 1e4) * logistic(-x));
}
// With s = sigmoid(x) and c = 1 − s, tanh(softplus(x)) = (1 − c²) / (1 + c²), whose derivative is
// s · (2c / (1 + c²))². Neither tail cancels: on the left 1 − c² is s · (1 + c), on the right the
// quotient is 1 − 2c² / (1 + c²).
template <class V>
EXTENSOR_WORD V mish_derivative(V x) {
  const V s = logistic(x), c = logistic(-x);
  const V scale = 1 / (1 + c * c);
  const V root = 2 * c * scale;
  const V value = select(x < 0, s * (1 + c) * scale, 1 - c * root);
  return value + clamp(x, -1e4, 1e4) * s * root * root;
}
// b · a^(b − 1). The base is floored where b < 1. A constant has no gradient, not even where its
// formula is 0 · ∞.
template <class V, class Safe>
EXTENSOR_WORD V power_gradient_base(V a, V b, Safe safe) {
  const V base = select(b < 1, safe(a), a);
  return b * power(select(b == 0 && (base == 0 || isnan(base)), 1, base), b - 1);
}
// a^b · ln a. The base is floored where b < 0; where b ≥ 0 a base of 0 yields 0.
template <class V, class Safe>
EXTENSOR_WORD V power_gradient_exponent(V a, V b, Safe safe) {
  const V base = select(b >= 0, select(a == 0, 1, a), safe(a));
  return power(base, b) * log(base);
}
