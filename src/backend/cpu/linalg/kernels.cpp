#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/linalg/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <cmath>
#include <limits>

#include "backend/cpu/linalg/kernels.h"
#include "backend/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace {

// ---- the vocabulary of Lanes for one number

HWY_INLINE double select(bool condition, double yes, double no) { return condition ? yes : no; }
HWY_INLINE double sqrt(double x) { return std::sqrt(x); }
HWY_INLINE double abs(double x) { return std::fabs(x); }
HWY_INLINE double copysign(double magnitude, double sign) { return std::copysign(magnitude, sign); }
HWY_INLINE double multiply_add(double a, double b, double c) { return a * b + c; }
HWY_INLINE double subtract_product(double a, double b, double c) { return a - b * c; }
HWY_INLINE bool any(bool condition) { return condition; }
HWY_INLINE bool any(LanesMask<double> condition) {
  return !hn::AllFalse(hn::ScalableTag<double>(), condition.m);
}

template <class V>
struct Memory;
template <>
struct Memory<double> {
  static constexpr std::int64_t lanes = 1;
  static HWY_INLINE double load(const double* from) { return *from; }
  static HWY_INLINE void store(double x, double* to) { *to = x; }
};
template <>
struct Memory<Lanes<double>> {
  static constexpr std::int64_t lanes = hn::MaxLanes(hn::ScalableTag<double>());
  static HWY_INLINE Lanes<double> load(const double* from) {
    return hn::LoadU(hn::ScalableTag<double>(), from);
  }
  static HWY_INLINE void store(Lanes<double> x, double* to) {
    hn::StoreU(x.v, hn::ScalableTag<double>(), to);
  }
};

// A row-major matrix whose elements are values of type V.
template <class V>
struct Matrix {
  static constexpr std::int64_t lanes = Memory<V>::lanes;
  double* data;
  std::int64_t columns;

  double* row(std::int64_t i) const { return data + i * columns * lanes; }
  HWY_INLINE V get(std::int64_t i, std::int64_t j) const {
    return Memory<V>::load(data + (i * columns + j) * lanes);
  }
  HWY_INLINE void set(std::int64_t i, std::int64_t j, V x) const {
    Memory<V>::store(x, data + (i * columns + j) * lanes);
  }
};

template <class V>
void note_failed(V failed, double* to) {
  Memory<V>::store(failed, to);
}

template <class V>
void set_identity(const Matrix<V>& x, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) x.set(i, j, V(i == j ? 1.0 : 0.0));
  }
}

// (x, y) = (c x − s y, s x + c y) for two rows.
template <class V>
HWY_INLINE void rotate(double* x, double* y, std::int64_t count, V c, V s) {
  constexpr std::int64_t lanes = Memory<V>::lanes;
  for (std::int64_t i = 0; i < count; ++i) {
    const V a = Memory<V>::load(x + i * lanes), b = Memory<V>::load(y + i * lanes);
    Memory<V>::store(subtract_product(c * a, s, b), x + i * lanes);
    Memory<V>::store(multiply_add(s, a, c * b), y + i * lanes);
  }
}

// A rotation of two rows.
template <class V>
struct Rotation {
  std::int64_t p, q;
  V c, s, t;
};

// The rotation whose tangent is the smaller root t of t² + (difference / beside) t − 1 = 0, or
// none.
template <class V, class Mask>
HWY_INLINE Rotation<V> rotation_of(std::int64_t p, std::int64_t q, Mask rotates, V difference,
                                   V beside) {
  const V half = difference * V(0.5);
  const V length = abs(half) + sqrt(multiply_add(half, half, beside * beside));
  // The magnitudes are at most about 1e240, and a quotient of two that are too small to square is
  // that of a negligible rotation.
  const auto is_zero = length == V(0.0);
  const V t =
      select(rotates, copysign(V(1.0), half) * beside / select(is_zero, V(1.0), length), V(0.0));
  const V c = V(1.0) / sqrt(multiply_add(t, t, V(1.0)));
  return {p, q, c, t * c, t};
}

// Calls visit(pairs, count) with lists of disjoint pairs (p, q), p < q < n, that together are all
// pairs: the rounds of a tournament. The rotations of a list are independent, so that the processor
// computes several at a time.
constexpr std::int64_t most_pairs = 8;
template <class Visit>
HWY_INLINE void for_each_round(std::int64_t n, const Visit& visit) {
  const std::int64_t players = n + n % 2, others = players - 1;
  std::int64_t pairs[most_pairs][2], count = 0;
  for (std::int64_t round = 0; round < others; ++round) {
    for (std::int64_t k = 0; k < players / 2; ++k) {
      const std::int64_t a = (round + k) % others;
      const std::int64_t b = k == 0 ? others : (round + others - k) % others;
      if (a < n && b < n) {
        pairs[count][0] = a < b ? a : b;
        pairs[count++][1] = a < b ? b : a;
      }
      if (count == most_pairs || (k + 1 == players / 2 && count > 0)) {
        visit(pairs, count);
        count = 0;
      }
    }
  }
}

constexpr double epsilon = std::numeric_limits<double>::epsilon();
// Jacobi's method converges quadratically: about eight sweeps reach rounding errors.
constexpr int most_sweeps = 60;

template <class V>
void cholesky(double* data, std::int64_t n, double* failed) {
  const Matrix<V> a{data, n};
  V bad(0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    V square = a.get(j, j);
    for (std::int64_t k = 0; k < j; ++k) {
      const V x = a.get(j, k);
      square = subtract_product(square, x, x);
    }
    bad = select(square > V(0.0), bad, V(1.0));  // also for NaN
    const V pivot = sqrt(square), reciprocal = V(1.0) / pivot;
    a.set(j, j, pivot);
    for (std::int64_t i = j + 1; i < n; ++i) {
      V x = a.get(i, j);
      for (std::int64_t k = 0; k < j; ++k) x = subtract_product(x, a.get(i, k), a.get(j, k));
      a.set(i, j, x * reciprocal);
    }
  }
  note_failed(bad, failed);
}

// Swaps the rows k and `other` of x; `other` may differ between the lanes.
template <class V>
HWY_INLINE void swap_rows(const Matrix<V>& x, std::int64_t k, std::int64_t first, V other,
                          std::int64_t rows) {
  for (std::int64_t i = k + 1; i < rows; ++i) {
    const auto chosen = other == V(static_cast<double>(i));
    if (!any(chosen)) continue;
    for (std::int64_t j = first; j < x.columns; ++j) {
      const V a = x.get(k, j), b = x.get(i, j);
      x.set(k, j, select(chosen, b, a));
      x.set(i, j, select(chosen, a, b));
    }
  }
}

template <class V>
void lu(double* data, double* right_side, std::int64_t n, std::int64_t right, double* sign,
        double* failed) {
  const Matrix<V> a{data, n}, b{right_side, right};
  V bad(0.0), parity(1.0);
  for (std::int64_t k = 0; k < n; ++k) {
    V largest = abs(a.get(k, k)), from(static_cast<double>(k));
    for (std::int64_t i = k + 1; i < n; ++i) {
      const V magnitude = abs(a.get(i, k));
      const auto larger = magnitude > largest;
      largest = select(larger, magnitude, largest);
      from = select(larger, V(static_cast<double>(i)), from);
    }
    swap_rows(a, k, 0, from, n);
    swap_rows(b, k, 0, from, n);
    parity = select(from == V(static_cast<double>(k)), parity, V(0.0) - parity);
    const V pivot = a.get(k, k);
    const auto is_zero = pivot == V(0.0);
    bad = select(is_zero, V(1.0), bad);
    // The rest of the column is 0, too: nothing to eliminate.
    const V divisor = select(is_zero, V(1.0), pivot);
    for (std::int64_t i = k + 1; i < n; ++i) {
      const V factor = a.get(i, k) / divisor;
      a.set(i, k, factor);
      for (std::int64_t j = k + 1; j < n; ++j) {
        a.set(i, j, subtract_product(a.get(i, j), factor, a.get(k, j)));
      }
      for (std::int64_t j = 0; j < right; ++j) {
        b.set(i, j, subtract_product(b.get(i, j), factor, b.get(k, j)));
      }
    }
  }
  if (right > 0) {
    for (std::int64_t i = n - 1; i >= 0; --i) {
      for (std::int64_t k = i + 1; k < n; ++k) {
        const V factor = a.get(i, k);
        for (std::int64_t j = 0; j < right; ++j) {
          b.set(i, j, subtract_product(b.get(i, j), factor, b.get(k, j)));
        }
      }
      const V pivot = a.get(i, i);
      for (std::int64_t j = 0; j < right; ++j) b.set(i, j, b.get(i, j) / pivot);
    }
  }
  Memory<V>::store(parity, sign);
  note_failed(bad, failed);
}

// Applies the reflection 1 − tau v vᵀ to the columns first … of rows k … of x, where v is 1
// followed by column k of `reflector`.
template <class V>
HWY_INLINE void reflect(const Matrix<V>& x, std::int64_t first, const Matrix<V>& reflector,
                        std::int64_t k, std::int64_t m, V tau) {
  for (std::int64_t j = first; j < x.columns; ++j) {
    V along = x.get(k, j);
    for (std::int64_t i = k + 1; i < m; ++i) {
      along = multiply_add(reflector.get(i, k), x.get(i, j), along);
    }
    along = along * tau;
    x.set(k, j, x.get(k, j) - along);
    for (std::int64_t i = k + 1; i < m; ++i) {
      x.set(i, j, subtract_product(x.get(i, j), along, reflector.get(i, k)));
    }
  }
}

template <class V>
void qr(double* data, std::int64_t m, std::int64_t n, double* q_data, std::int64_t width) {
  const Matrix<V> a{data, n}, q{q_data, width};
  const std::int64_t count = m < n ? m : n;
  constexpr std::int64_t lanes = Memory<V>::lanes;
  // The diagonal of r replaces that of a at the end: tau is kept there until then.
  const auto reflection = [&](std::int64_t k) HWY_ATTR {
    V square(0.0);
    for (std::int64_t i = k + 1; i < m; ++i) {
      const V x = a.get(i, k);
      square = multiply_add(x, x, square);
    }
    const V alpha = a.get(k, k);
    const auto is_zero = square == V(0.0);  // nothing to reflect: the identity
    const V length = sqrt(multiply_add(alpha, alpha, square));
    const V beta = select(is_zero, alpha, V(0.0) - copysign(length, alpha));
    const V tau = select(is_zero, V(0.0), (beta - alpha) / select(is_zero, V(1.0), beta));
    const V divisor = select(is_zero, V(1.0), alpha - beta);
    for (std::int64_t i = k + 1; i < m; ++i) a.set(i, k, a.get(i, k) / divisor);
    reflect(a, k + 1, a, k, m, tau);
    a.set(k, k, tau);
    return beta;
  };
  double* diagonal = data + m * n * lanes;  // `count` more values
  for (std::int64_t k = 0; k < count; ++k) Memory<V>::store(reflection(k), diagonal + k * lanes);
  if (q_data != nullptr) {
    set_identity(q, m);
    for (std::int64_t k = count - 1; k >= 0; --k) reflect(q, k, a, k, m, a.get(k, k));
  }
  for (std::int64_t k = 0; k < count; ++k) {
    a.set(k, k, Memory<V>::load(diagonal + k * lanes));
    for (std::int64_t i = k + 1; i < m; ++i) a.set(i, k, V(0.0));
  }
}

template <class V>
void eigh(double* data, std::int64_t n, double* v_data) {
  constexpr std::int64_t lanes = Memory<V>::lanes;
  const Matrix<V> a{data, n}, v{v_data, n};
  if (v_data != nullptr) set_identity(v, n);
  V square(0.0);
  for (std::int64_t i = 0; i < n * n; ++i) {
    const V x = Memory<V>::load(data + i * lanes);
    square = multiply_add(x, x, square);
  }
  // The elements beside the diagonal then have at most the norm epsilon ‖a‖ / 4.
  const V tolerance = sqrt(square) * V(epsilon / (4.0 * static_cast<double>(n)));
  bool changed = true;
  for (int sweep = 0; sweep < most_sweeps && changed; ++sweep) {
    changed = false;
    for_each_round(n, [&](const auto& pairs, std::int64_t count) HWY_ATTR {
      Rotation<V> rotations[most_pairs];
      std::int64_t used = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const auto [p, q] = pairs[k];
        const V beside = a.get(p, q);
        const auto rotates = abs(beside) > tolerance;
        if (!any(rotates)) continue;
        const V app = a.get(p, p), aqq = a.get(q, q);
        const Rotation<V> r = rotation_of(p, q, rotates, aqq - app, beside);
        a.set(p, p, subtract_product(app, r.t, beside));
        a.set(q, q, multiply_add(r.t, beside, aqq));
        const V kept = select(rotates, V(0.0), beside);
        a.set(p, q, kept);
        a.set(q, p, kept);
        rotations[used++] = r;
      }
      changed |= used > 0;
      for (std::int64_t k = 0; k < used; ++k) {
        const auto& [p, q, c, s, t] = rotations[k];
        for (std::int64_t i = 0; i < n; ++i) {
          if (i == p || i == q) continue;
          const V x = a.get(p, i), y = a.get(q, i);
          const V new_x = subtract_product(c * x, s, y), new_y = multiply_add(s, x, c * y);
          a.set(p, i, new_x);
          a.set(i, p, new_x);
          a.set(q, i, new_y);
          a.set(i, q, new_y);
        }
        if (v_data != nullptr) rotate(v.row(p), v.row(q), n, c, s);
      }
    });
  }
}

template <class V>
void svd(double* data, std::int64_t n, std::int64_t m, double* v_data) {
  constexpr std::int64_t lanes = Memory<V>::lanes;
  const Matrix<V> w{data, m}, v{v_data, n};
  if (v_data != nullptr) set_identity(v, n);
  const V tolerance(epsilon * std::sqrt(static_cast<double>(m)));
  bool changed = true;
  for (int sweep = 0; sweep < most_sweeps && changed; ++sweep) {
    changed = false;
    for_each_round(n, [&](const auto& pairs, std::int64_t count) HWY_ATTR {
      Rotation<V> rotations[most_pairs];
      std::int64_t used = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const auto [p, q] = pairs[k];
        V alpha(0.0), beta(0.0), gamma(0.0);
        const double *x = w.row(p), *y = w.row(q);
        for (std::int64_t i = 0; i < m; ++i) {
          const V a = Memory<V>::load(x + i * lanes), b = Memory<V>::load(y + i * lanes);
          alpha = multiply_add(a, a, alpha);
          beta = multiply_add(b, b, beta);
          gamma = multiply_add(a, b, gamma);
        }
        // |gamma| > tolerance √(alpha beta), whose squares neither overflow nor underflow early.
        const auto rotates = abs(gamma) > tolerance * (sqrt(alpha) * sqrt(beta));
        if (any(rotates)) rotations[used++] = rotation_of(p, q, rotates, beta - alpha, gamma);
      }
      changed |= used > 0;
      for (std::int64_t k = 0; k < used; ++k) {
        const auto& [p, q, c, s, t] = rotations[k];
        rotate(w.row(p), w.row(q), m, c, s);
        if (v_data != nullptr) rotate(v.row(p), v.row(q), n, c, s);
      }
    });
  }
}

}  // namespace

void fill_wide_kernels(MatrixKernels* kernels) {
  using V = Lanes<double>;
  *kernels = {Memory<V>::lanes, &cholesky<V>, &lu<V>, &qr<V>, &eigh<V>, &svd<V>};
}
void fill_single_kernels(MatrixKernels* kernels) {
  using V = double;
  *kernels = {Memory<V>::lanes, &cholesky<V>, &lu<V>, &qr<V>, &eigh<V>, &svd<V>};
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

const MatrixKernels& wide_matrix_kernels() {
  static const MatrixKernels kernels = [] {
    MatrixKernels filled;
    EXTENSOR_DISPATCH(fill_wide_kernels)(&filled);
    return filled;
  }();
  return kernels;
}

const MatrixKernels& single_matrix_kernels() {
  static const MatrixKernels kernels = [] {
    MatrixKernels filled;
    EXTENSOR_DISPATCH(fill_single_kernels)(&filled);
    return filled;
  }();
  return kernels;
}

}  // namespace extensor::cpu
#endif  // HWY_ONCE
