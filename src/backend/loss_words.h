// The longer expressions of losses.def, the same for every value type V. Included inside the
// namespace of a value type, after its vocabulary, with EXTENSOR_WORD defined as the specifiers of
// a function there. The file has no include guard: each value type includes it once.
//
// Derivatives are also evaluated on dual numbers, and those are recorded for higher orders. A value
// that select does not choose should therefore be finite too: its gradient is 0 times its
// derivative.

// A factor of 0 makes a product 0, whatever the other factor is.
template <class V>
EXTENSOR_WORD V unless_zero(V factor, V value) {
  return select(factor == 0, 0, value);
}
template <class V>
EXTENSOR_WORD V nonzero(V x) {
  return select(x == 0, 1, x);
}
// |x|, with a derivative of −1 at 0, as the expressions that select by x > 0 need.
template <class V>
EXTENSOR_WORD V magnitude(V x) {
  return select(x > 0, x, -x);
}

// ---- binary cross-entropy of probabilities

using backend::probability_margin;

// p and 1 − p, clamped separately: in float32, 1 − (1 − 1e-7) is 20 % off 1e-7.
template <class V>
EXTENSOR_WORD V probability(V p) {
  return clamp(p, probability_margin, 1 - probability_margin);
}
template <class V>
EXTENSOR_WORD V complement(V p) {
  return probability(1 - p);
}
template <class V>
EXTENSOR_WORD V log_complement(V p) {
  return select(p < 0.5, log1p(-probability(p)), log(complement(p)));
}
template <class V>
EXTENSOR_WORD V binary_cross_entropy_value(V p, V y) {
  return -(y * log(probability(p)) + (1 - y) * log_complement(p));
}
// The difference from the side where it is exact.
template <class V>
EXTENSOR_WORD V binary_cross_entropy_derivative(V p, V y) {
  const V inside = probability(p), rest = complement(p);
  return select(p > 0.5, (1 - y) - rest, inside - y) / (inside * rest);
}

// ---- binary cross-entropy of logits

// softplus(x) − x y in parts that do not cancel.
template <class V>
EXTENSOR_WORD V logits_value(V x, V y) {
  return softplus(-magnitude(x)) + magnitude(x) * select(x > 0, 1 - y, y);
}
// sigmoid(x) − y, likewise.
template <class V>
EXTENSOR_WORD V logits_derivative(V x, V y) {
  const V tail = sigmoid(-magnitude(x));
  return select(x > 0, (1 - y) - tail, tail - y);
}

// ---- focal loss: alpha_t · miss^gamma · cross-entropy, miss being the probability of the other
// class

template <class V>
struct Focal {
  V p, q, miss, entropy, weight, modulation;

  EXTENSOR_WORD Focal(V x, V y, V alpha, V gamma) {
    const V tail = sigmoid(-magnitude(x));
    p = select(x > 0, 1 - tail, tail);
    q = select(x > 0, tail, 1 - tail);
    miss = y * q + (1 - y) * p;
    entropy = logits_value(x, y);
    weight = select(alpha < 0, 1, alpha * y + (1 - alpha) * (1 - y));
    modulation = select(miss == 0, select(gamma == 0, V(1), V(0)), power(nonzero(miss), gamma));
  }
  // A quotient whose numerator tends to 0 no slower than miss does.
  EXTENSOR_WORD V over_miss(V numerator) const {
    return unless_zero(miss, numerator / nonzero(miss));
  }
};
template <class V>
EXTENSOR_WORD V focal_value(V x, V y, V alpha, V gamma) {
  const Focal<V> f(x, y, alpha, gamma);
  return f.weight * f.modulation * f.entropy;
}
template <class V>
EXTENSOR_WORD V focal_derivative(V x, V y, V alpha, V gamma) {
  const Focal<V> f(x, y, alpha, gamma);
  const V slope = gamma * (2 * y - 1) * f.over_miss(f.p * f.q) * f.entropy;
  return f.weight * f.modulation * (logits_derivative(x, y) - slope);
}
template <class V>
EXTENSOR_WORD V focal_target_derivative(V x, V y, V alpha, V gamma) {
  const Focal<V> f(x, y, alpha, gamma);
  const V weight_slope = select(alpha < 0, 0, 2 * alpha - 1);
  const V slope = gamma * (f.q - f.p) * f.over_miss(f.entropy);
  return f.modulation * (weight_slope * f.entropy + f.weight * (slope - x));
}
