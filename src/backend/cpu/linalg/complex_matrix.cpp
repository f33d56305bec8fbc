// One matrix of complex numbers, computed in double precision: complex64 results are therefore
// rounded once.
#include <complex>
#include <numeric>
#include <vector>

#include "backend/cpu/linalg/paths.h"
#include "backend/cpu/linalg/results.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::MatrixCall;
using backend::MatrixOp;
using detail::Scratch;
using Complex = std::complex<double>;
using Numbers = Scratch<Complex>;

std::size_t as_size(std::int64_t count) { return static_cast<std::size_t>(count); }

// The larger part of a number: as large as it, within a factor of √2, and without overflow.
double magnitude(Complex z) { return std::max(std::fabs(z.real()), std::fabs(z.imag())); }

// z / |z|, and 1 for 0.
Complex direction(Complex z) {
  const double size = magnitude(z);
  if (size == 0) return 1;
  z /= size;  // |z| itself may overflow
  return z / std::abs(z);
}

// Makes two vectors orthogonal: p becomes cosine · p − sine · phase · q, and q becomes
// sine · p + cosine · phase · q.
struct Rotation {
  double cosine, sine;
  Complex phase;

  // Of vectors whose squares are p and q. `phase` makes their product, of this length, positive.
  Rotation(double p, double q, double length_of_product, Complex phase_of_q) : phase(phase_of_q) {
    const double theta = (q - p) / (2 * length_of_product);
    const double tangent = std::copysign(1, theta) / (std::fabs(theta) + std::hypot(theta, 1));
    cosine = 1 / std::hypot(tangent, 1);
    sine = cosine * tangent;
  }
  void turn(Complex& p, Complex& q) const {
    const Complex first = p, second = phase * q;
    p = cosine * first - sine * second;
    q = sine * first + cosine * second;
  }
};

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr int most_sweeps = 60;  // of Jacobi rotations; about ten are usual

class Matrix {
 public:
  Matrix(const MatrixCall& call, std::int64_t matrix, FirstFailure& failure)
      : call_(call), matrix_(matrix), failure_(failure), m_(call.rows), n_(call.columns) {
    load(call.x, m_ * n_, a_);
  }

  void cholesky() {
    make_hermitian();
    for (std::int64_t j = 0; j < n_; ++j) {
      double square = at(j, j).real();
      for (std::int64_t k = 0; k < j; ++k) square -= std::norm(at(j, k));
      if (!(square > 0)) return failure_.note(matrix_);
      const double pivot = std::sqrt(square);
      at(j, j) = pivot;
      for (std::int64_t i = j + 1; i < n_; ++i) {
        Complex sum = at(i, j);
        for (std::int64_t k = 0; k < j; ++k) sum -= at(i, k) * std::conj(at(j, k));
        at(i, j) = sum / pivot;
      }
    }
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = i + 1; j < n_; ++j) {
        if (call_.upper) {
          at(i, j) = std::conj(at(j, i));
          at(j, i) = 0;
        } else {
          at(i, j) = 0;
        }
      }
    }
    store(a_, 0);
  }

  // Householder's reflections 1 − τ v vᴴ, whose first element of v is 1.
  void qr() {
    const std::int64_t k = std::min(m_, n_), width = call_.full ? m_ : k;
    const double scale = make_moderate();
    std::vector<Complex> factors(as_size(k));
    for (std::int64_t j = 0; j < k; ++j) {
      // Divided by its largest element, a column of tiny elements has a length above 0.
      double size = std::fabs(at(j, j).imag());
      for (std::int64_t i = j + 1; i < m_; ++i) size = std::max(size, magnitude(at(i, j)));
      if (size == 0) continue;
      size = std::max(size, magnitude(at(j, j)));
      const Complex first = at(j, j) / size;
      double square = std::norm(first);
      for (std::int64_t i = j + 1; i < m_; ++i) square += std::norm(at(i, j) /= size);
      const double length = -std::copysign(std::sqrt(square), first.real());
      const Complex factor = (length - first) / length;
      for (std::int64_t i = j + 1; i < m_; ++i) at(i, j) /= first - length;
      at(j, j) = length * size;
      for (std::int64_t c = j + 1; c < n_; ++c) {
        Complex along = at(j, c);
        for (std::int64_t i = j + 1; i < m_; ++i) along += std::conj(at(i, j)) * at(i, c);
        along *= std::conj(factor);
        at(j, c) -= along;
        for (std::int64_t i = j + 1; i < m_; ++i) at(i, c) -= along * at(i, j);
      }
      factors[as_size(j)] = factor;
    }
    Numbers q(as_size(m_ * width));
    std::fill(q.begin(), q.end(), 0);
    for (std::int64_t i = 0; i < width; ++i) q[as_size(i * width + i)] = 1;
    for (std::int64_t j = k - 1; j >= 0; --j) {
      for (std::int64_t c = 0; c < width; ++c) {
        Complex along = q[as_size(j * width + c)];
        for (std::int64_t i = j + 1; i < m_; ++i) {
          along += std::conj(at(i, j)) * q[as_size(i * width + c)];
        }
        along *= factors[as_size(j)];
        q[as_size(j * width + c)] -= along;
        for (std::int64_t i = j + 1; i < m_; ++i) q[as_size(i * width + c)] -= along * at(i, j);
      }
    }
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) at(i, j) = j < i ? 0 : at(i, j) * scale;
    }
    store(q, 0);
    a_.resize(as_size(width * n_));
    store(a_, 1);
  }

  // Jacobi's rotations of rows and columns.
  void eigh() {
    make_hermitian();
    const bool wants_vectors = call_.out[1] != nullptr;
    if (!is_finite()) {
      store_nan(n_, 0, true);
      return store_nan(n_ * n_, 1, false);
    }
    const double scale = make_moderate();
    Numbers vectors(as_size(wants_vectors ? n_ * n_ : 0));  // as rows, not conjugated
    set_identity(vectors, wants_vectors ? n_ : 0);
    double total = 0;
    for (const Complex& z : a_) total += std::norm(z);
    for (int sweep = 0; sweep < most_sweeps; ++sweep) {
      double outside = 0;
      for (std::int64_t p = 0; p < n_; ++p) {
        for (std::int64_t q = p + 1; q < n_; ++q) outside += std::norm(at(p, q));
      }
      if (outside <= epsilon * epsilon * 1e-4 * total) break;
      for (std::int64_t p = 0; p < n_; ++p) {
        for (std::int64_t q = p + 1; q < n_; ++q) {
          const Complex product = at(p, q);
          if (product == 0.0) continue;
          const Rotation columns(at(p, p).real(), at(q, q).real(), std::abs(product),
                                 std::conj(direction(product)));
          Rotation rows = columns;
          rows.phase = std::conj(columns.phase);
          for (std::int64_t i = 0; i < n_; ++i) columns.turn(at(i, p), at(i, q));
          for (std::int64_t i = 0; i < n_; ++i) rows.turn(at(p, i), at(q, i));
          at(p, q) = at(q, p) = 0;
          at(p, p) = at(p, p).real();
          at(q, q) = at(q, q).real();
          if (!wants_vectors) continue;
          Complex *first = &vectors[as_size(p * n_)], *second = &vectors[as_size(q * n_)];
          for (std::int64_t i = 0; i < n_; ++i) columns.turn(first[i], second[i]);
        }
      }
    }
    const auto value = [&](std::int64_t i) { return at(i, i).real(); };
    const std::vector<std::int64_t> order =
        sorted(n_, [&](std::int64_t i, std::int64_t j) { return value(i) < value(j); });
    Scratch<double> values(as_size(n_));
    for (std::int64_t j = 0; j < n_; ++j) values[as_size(j)] = value(order[as_size(j)]) * scale;
    store_real(values, 0);
    if (!wants_vectors) return;
    Numbers columns(as_size(n_ * n_));
    for (std::int64_t j = 0; j < n_; ++j) {
      const Complex* vector = &vectors[as_size(order[as_size(j)] * n_)];
      const Complex turn = std::conj(orientation(vector, n_, 1));
      for (std::int64_t i = 0; i < n_; ++i) columns[as_size(i * n_ + j)] = turn * vector[i];
    }
    store(columns, 1);
  }

  // One-sided rotations of the rows of w, which is x, or xᵀ if x is tall: j·w = s·b with
  // orthonormal rows of b, so that w = jᴴ·s·b.
  void svd() {
    const std::int64_t k = std::min(m_, n_);
    const std::int64_t u_width = call_.full ? m_ : k, vh_rows = call_.full ? n_ : k;
    const bool wants_vectors = backend::wants_singular_vectors(call_);
    if (!is_finite()) {
      store_nan(m_ * u_width, 0, false);
      store_nan(k, 1, true);
      return store_nan(vh_rows * n_, 2, false);
    }
    const double scale = make_moderate();
    Scratch<double> values(as_size(k));
    Numbers u(as_size(wants_vectors ? m_ * u_width : 0));
    Numbers vh(as_size(wants_vectors ? vh_rows * n_ : 0));
    singular_values(values, wants_vectors ? &u : nullptr, vh);
    for (double& value : values) value *= scale;
    store_real(values, 1);
    if (!wants_vectors) return;
    store(u, 0);
    store(vh, 2);
  }

  void inverse() {
    Numbers identity(as_size(n_ * n_));
    set_identity(identity, n_);
    if (!solve_by_lu(identity, n_)) return failure_.note(matrix_);
    store(identity, 0);
  }

  void determinant() {
    Numbers none;
    solve_by_lu(none, 0);
    Complex product = sign_, sign = sign_;
    double logarithm = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const Complex pivot = at(i, i);
      product *= pivot;
      sign *= pivot == 0.0 ? pivot : direction(pivot);
      logarithm += std::log(std::abs(pivot));
    }
    Numbers one(1);
    one[0] = product;
    store(one, 0);
    one[0] = sign;
    store(one, 1);
    Scratch<double> number(1);
    number[0] = logarithm;
    store_real(number, 2);
  }

  void cofactor() {
    Numbers cofactors(as_size(n_ * n_));
    set_identity(cofactors, n_);
    if (solve_by_lu(cofactors, n_)) {
      Complex product = sign_;
      for (std::int64_t i = 0; i < n_; ++i) product *= at(i, i);
      for (std::int64_t i = 0; i < n_; ++i) {
        for (std::int64_t j = i; j < n_; ++j) {
          Complex &above = cofactors[as_size(i * n_ + j)], &below = cofactors[as_size(j * n_ + i)];
          const Complex kept = above * product;
          above = below * product;
          below = kept;
        }
      }
    } else {
      load(call_.x, n_ * n_, a_);
      singular_cofactors(cofactors);
    }
    store(cofactors, 0);
  }

  void solve() {
    Numbers b;
    load(call_.b, n_ * call_.right, b);
    if (!solve_by_lu(b, call_.right)) return failure_.note(matrix_);
    store(b, 0);
  }

 private:
  bool is_single() const { return call_.dtype == DType::complex64; }
  Complex& at(std::int64_t i, std::int64_t j) { return a_[as_size(i * n_ + j)]; }

  void load(const std::byte* from, std::int64_t count, Numbers& to) const {
    to.resize(as_size(count));
    if (count == 0) return;  // `from` may be null then
    if (is_single()) {
      const auto* numbers = reinterpret_cast<const std::complex<float>*>(from) + matrix_ * count;
      std::copy_n(numbers, count, to.begin());
    } else {
      std::copy_n(reinterpret_cast<const Complex*>(from) + matrix_ * count, count, to.begin());
    }
  }
  // Result k of this matrix, unless it is not wanted.
  void store(const Numbers& from, int k) const {
    const auto count = static_cast<std::int64_t>(from.size());
    std::byte* to = call_.out[k];
    if (to == nullptr) return;
    for (std::int64_t i = 0; i < count; ++i) {
      if (is_single()) {
        const Complex z = from[as_size(i)];
        reinterpret_cast<std::complex<float>*>(to)[matrix_ * count + i] = {
            static_cast<float>(z.real()), static_cast<float>(z.imag())};
      } else {
        reinterpret_cast<Complex*>(to)[matrix_ * count + i] = from[as_size(i)];
      }
    }
  }
  void store_real(const Scratch<double>& from, int k) const {
    const auto count = static_cast<std::int64_t>(from.size());
    std::byte* to = call_.out[k];
    if (to == nullptr) return;
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = from[as_size(i)];
      if (is_single()) {
        reinterpret_cast<float*>(to)[matrix_ * count + i] = static_cast<float>(x);
      } else {
        reinterpret_cast<double*>(to)[matrix_ * count + i] = x;
      }
    }
  }
  void store_nan(std::int64_t count, int k, bool real) const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (real) return store_real(Scratch<double>(as_size(count), nan), k);
    store(Numbers(as_size(count), Complex(nan, nan)), k);
  }

  bool is_finite() const {
    return std::all_of(a_.begin(), a_.end(), [](const Complex& z) {
      return std::isfinite(z.real()) && std::isfinite(z.imag());
    });
  }
  // Divides a matrix whose squares would overflow or underflow by the number that it returns.
  double make_moderate() {
    double largest = 0;
    for (const Complex& z : a_) largest = std::max(largest, magnitude(z));
    const bool is_moderate = largest > smallest_safe && largest < largest_safe;
    if (is_moderate || largest == 0 || !is_finite()) return 1;
    for (Complex& z : a_) z /= largest;
    return largest;
  }
  void make_hermitian() {
    for (std::int64_t i = 0; i < n_; ++i) {
      at(i, i) = at(i, i).real();
      for (std::int64_t j = i + 1; j < n_; ++j) {
        const Complex above = at(i, j), below = std::conj(at(j, i));
        at(i, j) = above == below ? above : above / 2.0 + below / 2.0;
        at(j, i) = std::conj(at(i, j));
      }
    }
  }
  static void set_identity(Numbers& matrix, std::int64_t n) {
    std::fill(matrix.begin(), matrix.end(), 0);
    for (std::int64_t i = 0; i < n; ++i) matrix[as_size(i * (n + 1))] = 1;
  }
  template <class Before>
  static std::vector<std::int64_t> sorted(std::int64_t count, const Before& before) {
    std::vector<std::int64_t> order(as_size(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    return order;
  }

  // Replaces x by its factors L and U, and b by the solution of x·y = b. False if a pivot is 0.
  bool solve_by_lu(Numbers& b, std::int64_t right) {
    bool found = true;
    sign_ = 1;
    const auto row_of_b = [&](std::int64_t i) { return b.data() + i * right; };
    for (std::int64_t k = 0; k < n_; ++k) {
      std::int64_t chosen = k;
      for (std::int64_t i = k + 1; i < n_; ++i) {
        if (magnitude(at(i, k)) > magnitude(at(chosen, k))) chosen = i;
      }
      if (at(chosen, k) == 0.0) {
        found = false;
        continue;
      }
      if (chosen != k) {
        sign_ = -sign_;
        std::swap_ranges(&at(k, 0), &at(k, 0) + n_, &at(chosen, 0));
        std::swap_ranges(row_of_b(k), row_of_b(k) + right, row_of_b(chosen));
      }
      for (std::int64_t i = k + 1; i < n_; ++i) {
        const Complex factor = at(i, k) /= at(k, k);
        if (factor == 0.0) continue;
        for (std::int64_t j = k + 1; j < n_; ++j) at(i, j) -= factor * at(k, j);
        for (std::int64_t j = 0; j < right; ++j) row_of_b(i)[j] -= factor * row_of_b(k)[j];
      }
    }
    if (!found || right == 0) return found;
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      for (std::int64_t k = i + 1; k < n_; ++k) {
        for (std::int64_t j = 0; j < right; ++j) row_of_b(i)[j] -= at(i, k) * row_of_b(k)[j];
      }
      for (std::int64_t j = 0; j < right; ++j) row_of_b(i)[j] /= at(i, i);
    }
    return true;
  }

  // The singular values of x, and with `u` the vectors, as many as u and vh have room for.
  void singular_values(Scratch<double>& values, Numbers* u, Numbers& vh) {
    const bool tall = m_ > n_;
    const std::int64_t k = std::min(m_, n_), length = std::max(m_, n_);
    Numbers w(as_size(k * length)), turns(as_size(u != nullptr ? k * k : 0));
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t j = 0; j < length; ++j) {
        w[as_size(i * length + j)] = tall ? at(j, i) : at(i, j);
      }
    }
    set_identity(turns, u != nullptr ? k : 0);
    const auto row = [&](std::int64_t i) { return w.data() + i * length; };
    bool turned = true;
    for (int sweep = 0; turned && sweep < most_sweeps; ++sweep) {
      turned = false;
      for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t q = p + 1; q < k; ++q) {
          double first = 0, second = 0;
          Complex product = 0;
          for (std::int64_t i = 0; i < length; ++i) {
            first += std::norm(row(p)[i]);
            second += std::norm(row(q)[i]);
            product += row(p)[i] * std::conj(row(q)[i]);
          }
          if (std::abs(product) <= epsilon * std::sqrt(first) * std::sqrt(second)) continue;
          turned = true;
          const Rotation rotation(first, second, std::abs(product), direction(product));
          for (std::int64_t i = 0; i < length; ++i) rotation.turn(row(p)[i], row(q)[i]);
          if (u == nullptr) continue;
          for (std::int64_t i = 0; i < k; ++i) {
            rotation.turn(turns[as_size(p * k + i)], turns[as_size(q * k + i)]);
          }
        }
      }
    }
    std::vector<double> lengths(as_size(k));
    for (std::int64_t i = 0; i < k; ++i) {
      double square = 0;
      for (std::int64_t j = 0; j < length; ++j) square += std::norm(row(i)[j]);
      lengths[as_size(i)] = std::sqrt(square);
    }
    const std::vector<std::int64_t> order = sorted(k, [&](std::int64_t i, std::int64_t j) {
      return lengths[as_size(i)] > lengths[as_size(j)];
    });
    for (std::int64_t j = 0; j < k; ++j) {
      values[as_size(j)] = lengths[as_size(order[as_size(j)])];
    }
    if (u == nullptr) return;
    const std::int64_t total = call_.full ? length : k;
    Numbers basis(as_size(total * length));
    std::int64_t rank = 0;
    for (; rank < k && values[as_size(rank)] > 0; ++rank) {
      for (std::int64_t i = 0; i < length; ++i) {
        basis[as_size(rank * length + i)] = row(order[as_size(rank)])[i] / values[as_size(rank)];
      }
    }
    complete_basis(basis.data(), rank, total, length);
    const std::int64_t u_width = u->empty() ? 0 : static_cast<std::int64_t>(u->size()) / m_;
    for (std::int64_t j = 0; j < total; ++j) {
      const Complex* long_vector = basis.data() + j * length;
      const Complex* short_vector = j < k ? &turns[as_size(order[as_size(j)] * k)] : nullptr;
      // Conjugated, the short vectors are columns of u for a wide x, and rows of vh for a tall one.
      const Complex turn =
          std::conj(tall || short_vector == nullptr ? orientation(long_vector, length, 1)
                                                    : orientation(short_vector, k, 1));
      for (std::int64_t i = 0; i < length; ++i) {
        if (tall) {
          (*u)[as_size(i * u_width + j)] = turn * long_vector[i];
        } else {
          vh[as_size(j * n_ + i)] = turn * long_vector[i];
        }
      }
      if (short_vector == nullptr) continue;
      for (std::int64_t i = 0; i < k; ++i) {
        const Complex element = std::conj(turn * short_vector[i]);
        (tall ? vh[as_size(j * n_ + i)] : (*u)[as_size(i * u_width + j)]) = element;
      }
    }
  }

  // x = u s vᴴ has the cofactors det(u) det(vᴴ) ū diag(Π sⱼ, j ≠ i) vᵀ, also where some s are 0.
  void singular_cofactors(Numbers& cofactors) {
    Scratch<double> s(as_size(n_));
    Numbers u(as_size(n_ * n_)), vh(as_size(n_ * n_));
    const double scale = make_moderate();
    singular_values(s, &u, vh);
    Complex signs = 1;
    for (const Numbers* unitary : {&u, &vh}) {
      a_ = *unitary;
      Numbers none;
      solve_by_lu(none, 0);
      signs *= sign_;
      for (std::int64_t i = 0; i < n_; ++i) signs *= direction(at(i, i));
    }
    // A value below the rounding errors of the largest is that of a singular matrix: 0.
    const double negligible = static_cast<double>(n_) * epsilon * s[0];
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) {
        Complex sum = 0;
        for (std::int64_t k = 0; k < n_; ++k) {
          double others = 1;
          for (std::int64_t l = 0; l < n_; ++l) {
            if (l != k) others *= s[as_size(l)] <= negligible ? 0 : s[as_size(l)] * scale;
          }
          sum += u[as_size(i * n_ + k)] * others * vh[as_size(k * n_ + j)];
        }
        cofactors[as_size(i * n_ + j)] = std::conj(sum) * signs;
      }
    }
  }

  const MatrixCall& call_;
  const std::int64_t matrix_;
  FirstFailure& failure_;
  const std::int64_t m_, n_;
  Numbers a_;
  double sign_ = 1;  // of the permutation of solve_by_lu()
};

}  // namespace

void compute_complex(const MatrixCall& call, std::int64_t index, FirstFailure& failure) {
  Matrix matrix(call, index, failure);
  switch (call.op) {
    case MatrixOp::cholesky:
      return matrix.cholesky();
    case MatrixOp::qr:
      return matrix.qr();
    case MatrixOp::eigh:
      return matrix.eigh();
    case MatrixOp::svd:
      return matrix.svd();
    case MatrixOp::inverse:
      return matrix.inverse();
    case MatrixOp::determinant:
      return matrix.determinant();
    case MatrixOp::cofactor:
      return matrix.cofactor();
    case MatrixOp::solve:
      return matrix.solve();
    case MatrixOp::solve_triangular:
      break;  // see linalg.cpp
  }
}

}  // namespace extensor::cpu
