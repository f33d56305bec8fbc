// Words of the op tables that are made of other words, the same for every value type V. Included
// inside the namespace of a value type, behind its vocabulary, with EXTENSOR_WORD defined as what a
// function there needs: no include guard, it is included once for every value type.

inline constexpr double selu_scale = 1.0507009873554804934193349852946;
inline constexpr double selu_scale_alpha = 1.7580993408473768599402175208123;  // scale · alpha

// A denominator kept away from zero: d itself, or eps with d's sign (+ at 0) where |d| < eps.
template <class V>
struct Safe {
  V eps;
  EXTENSOR_WORD V operator()(V d) const {
    return select(abs(d) < eps, select(d < 0, -eps, eps), d);
  }
};

// Derivatives whose parts are shared. The bound on x keeps ∞ · 0 out of the far tails, where the
// factor beside x is 0 or 1 already.
template <class V>
EXTENSOR_WORD V gelu_derivative(V x) {
  return normal_cdf(x) + clamp(x, -64, 64) * normal_pdf(x);
}
template <class V>
EXTENSOR_WORD V gelu_tanh_derivative(V x) {
  const V bounded = clamp(x, -64, 64);
  const V square = bounded * bounded;
  // gelu_tanh(x) = x · s, s = sigmoid(2z), 2z = x · (slope + cubic · x²), and sigmoid' = s · (1 −
  // s). Its tail magnifies the rounding of 2z, so s is taken from the forward, which sees to that.
  constexpr double slope = 1.5957691216057307117598, cubic = 0.0713548162726002487763;
  const V s = select(abs(bounded) < 1e-20, 0.5, gelu_tanh(bounded) / bounded);
  const V complement = sigmoid(-bounded * (slope + cubic * square));
  return s + bounded * (s * complement) * (slope + 3 * cubic * square);
}
template <class V>
EXTENSOR_WORD V silu_derivative(V x) {
  const V s = sigmoid(x);
  return s * (1 + clamp(x, -1e4, 1e4) * sigmoid(-x));
}
template <class V>
EXTENSOR_WORD V mish_derivative(V x) {
  const V t = tanh(softplus(x));
  return t + clamp(x, -1e4, 1e4) * sigmoid(x) * ((1 - t) * (1 + t));
}
template <class V, class Safe>
EXTENSOR_WORD V power_gradient_base(V a, V b, Safe safe) {
  const V power_of_distance = power(a, abs(b - 1));
  // A constant has no gradient, not even where its formula is 0 / 0.
  const V below_one = select(b == 0, 0, b / safe(power_of_distance));
  return select(b >= 1, b * power_of_distance, below_one);
}
template <class V, class Safe>
EXTENSOR_WORD V power_gradient_exponent(V a, V b, Safe safe) {
  const V magnitude = power(a, abs(b));
  return select(b >= 0, magnitude, 1 / safe(magnitude)) * log(select(a == 0, 1, a));
}
template <class V>
EXTENSOR_WORD V over_hypot(V numerator, V a, V b) {
  const V h = hypot(a, b);
  return select(h == 0, 0, numerator / h);
}
template <class V>
EXTENSOR_WORD V over_square_of_hypot(V numerator, V a, V b) {
  const V h = hypot(a, b);
  return select(h == 0, 0, numerator / h / h);
}
