// Matrices in groups, one per SIMD lane, computed in double precision. float32 results are
// therefore rounded once.
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

// Computes a call group by group, with the same memory for each.
template <class T>
class Group {
 public:
  Group(const MatrixCall& call, const MatrixKernels& kernels, FirstFailure& failure)
      : call_(call),
        kernels_(kernels),
        lanes_(kernels.lanes),
        failure_(failure),
        failed_(as_size(lanes_)),
        sign_(as_size(lanes_)),
        scale_(as_size(lanes_)),
        is_finite_(as_size(lanes_)) {}

  // The matrices first … first + count − 1.
  void compute(std::int64_t first, std::int64_t count) {
    first_ = first;
    count_ = count;
    std::fill(failed_.begin(), failed_.end(), 0);
    std::fill(scale_.begin(), scale_.end(), 1);
    switch (call_.op) {
      case MatrixOp::cholesky:
        return cholesky();
      case MatrixOp::qr:
        return qr();
      case MatrixOp::eigh:
        return eigh();
      case MatrixOp::svd:
        return svd();
      case MatrixOp::inverse:
        return inverse();
      case MatrixOp::determinant:
        return determinant();
      case MatrixOp::cofactor:
        return cofactor();
      case MatrixOp::solve:
        return solve();
      case MatrixOp::solve_triangular:
        break;  // see linalg.cpp
    }
  }

 private:
  void cholesky() {
    const std::int64_t n = call_.columns;
    gather_lower();
    kernels_.cholesky(a_.data(), n, failed_.data());
    report_failures();
    for_each_matrix([&](std::int64_t l) {
      T* factor = out(0, l, n * n);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const std::int64_t from = call_.upper ? j * n + i : i * n + j;
          factor[i * n + j] = (call_.upper ? j >= i : j <= i) ? at(a_, from, l) : T(0);
        }
      }
    });
  }

  void qr() {
    const std::int64_t m = call_.rows, n = call_.columns, k = std::min(m, n);
    const std::int64_t width = call_.full ? m : k;
    gather(a_, call_.x, m * n, k);
    b_.resize(as_size(m * width * lanes_));
    scale(m * n);
    kernels_.qr(a_.data(), m, n, b_.data(), width);
    for_each_matrix([&](std::int64_t l) {
      scatter(b_, out(0, l, m * width), m * width, l);
      T* r = out(1, l, width * n);
      for (std::int64_t e = 0; e < width * n; ++e)
        r[e] = static_cast<T>(at_double(a_, e, l) * scale_[as_size(l)]);
    });
  }

  void eigh() {
    const std::int64_t n = call_.columns;
    const bool wants_vectors = call_.out[1] != nullptr;
    gather_symmetric();
    b_.resize(as_size(wants_vectors ? n * n * lanes_ : 0));
    scale(n * n);
    kernels_.eigh(a_.data(), n, wants_vectors ? b_.data() : nullptr);
    order_.resize(as_size(n));
    for_each_matrix([&](std::int64_t l) {
      T *values = out(0, l, n), *vectors = out(1, l, n * n);
      if (!is_finite_[as_size(l)]) {
        fill_nan(values, n);
        fill_nan(vectors, n * n);
        return;
      }
      const auto value = [&](std::int64_t i) { return at_double(a_, i * n + i, l); };
      sort(order_, [&](std::int64_t i, std::int64_t j) { return value(i) < value(j); });
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t from = order_[as_size(j)];
        values[j] = static_cast<T>(value(from) * scale_[as_size(l)]);
        if (!wants_vectors) continue;
        const double* vector = b_.data() + from * n * lanes_ + l;
        const double sign = orientation(vector, n, lanes_);
        for (std::int64_t i = 0; i < n; ++i) {
          vectors[i * n + j] = static_cast<T>(sign * vector[i * lanes_]);
        }
      }
    });
  }

  void svd() {
    const std::int64_t m = call_.rows, n = call_.columns, k = std::min(m, n),
                       length = std::max(m, n);
    const bool wants_vectors = wants_singular_vectors(call_), tall = m > n;
    // The rows of w are the columns of a tall matrix, or the rows of any other.
    if (tall) {
      gather_transposed();
    } else {
      gather(a_, call_.x, m * n);
    }
    b_.resize(as_size(wants_vectors ? k * k * lanes_ : 0));
    scale(m * n);
    kernels_.svd(a_.data(), k, length, wants_vectors ? b_.data() : nullptr);
    const std::int64_t total = call_.full ? length : k;  // vectors of the longer side
    const std::int64_t u_width = call_.full ? m : k, vh_rows = call_.full ? n : k;
    order_.resize(as_size(k));
    lengths_.resize(as_size(k));
    basis_.resize(as_size(wants_vectors ? total * length : 0));
    for_each_matrix([&](std::int64_t l) {
      T *u = out(0, l, m * u_width), *s = out(1, l, k), *vh = out(2, l, vh_rows * n);
      if (!is_finite_[as_size(l)]) {
        fill_nan(u, m * u_width);
        fill_nan(s, k);
        fill_nan(vh, vh_rows * n);
        return;
      }
      for (std::int64_t j = 0; j < k; ++j) {
        double square = 0;
        for (std::int64_t i = 0; i < length; ++i) {
          const double x = at_double(a_, j * length + i, l);
          square += x * x;
        }
        lengths_[as_size(j)] = std::sqrt(square);
      }
      sort(order_, [&](std::int64_t i, std::int64_t j) {
        return lengths_[as_size(i)] > lengths_[as_size(j)];
      });
      std::int64_t rank = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t from = order_[as_size(j)];
        const double value = lengths_[as_size(from)];
        s[j] = static_cast<T>(value * scale_[as_size(l)]);
        if (!wants_vectors || value == 0) continue;
        rank = j + 1;
        for (std::int64_t i = 0; i < length; ++i) {
          basis_[as_size(j * length + i)] = at_double(a_, from * length + i, l) / value;
        }
      }
      if (!wants_vectors) return;
      complete_basis(basis_.data(), rank, total, length);
      // Long vectors are in `basis`, short ones in v. The sign is that of the column of u.
      for (std::int64_t j = 0; j < total; ++j) {
        const double* long_vector = basis_.data() + j * length;
        const double* short_vector =
            j < k ? b_.data() + order_[as_size(j)] * k * lanes_ + l : nullptr;
        const bool u_is_long = tall;
        const double sign = u_is_long || short_vector == nullptr
                                ? orientation(long_vector, length, 1)
                                : orientation(short_vector, k, lanes_);
        for (std::int64_t i = 0; i < length; ++i) {
          const T x = static_cast<T>(sign * long_vector[i]);
          (u_is_long ? u[i * u_width + j] : vh[j * n + i]) = x;
        }
        if (short_vector == nullptr) continue;
        for (std::int64_t i = 0; i < k; ++i) {
          const T x = static_cast<T>(sign * short_vector[i * lanes_]);
          (u_is_long ? vh[j * n + i] : u[i * u_width + j]) = x;
        }
      }
    });
  }

  void inverse() {
    const std::int64_t n = call_.columns;
    gather(a_, call_.x, n * n);
    set_identity();
    kernels_.lu(a_.data(), b_.data(), n, n, sign_.data(), failed_.data());
    report_failures();
    for_each_matrix([&](std::int64_t l) { scatter(b_, out(0, l, n * n), n * n, l); });
  }

  void determinant() {
    const std::int64_t n = call_.columns;
    gather(a_, call_.x, n * n);
    kernels_.lu(a_.data(), nullptr, n, 0, sign_.data(), failed_.data());
    for_each_matrix([&](std::int64_t l) {
      double product = sign_[as_size(l)], sign = product, logarithm = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double pivot = at_double(a_, i * n + i, l);
        product *= pivot;
        sign *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;
        logarithm += std::log(std::fabs(pivot));
      }
      if (T* to = out(0, l, 1)) *to = static_cast<T>(product);
      if (T* to = out(1, l, 1)) *to = static_cast<T>(sign);
      if (T* to = out(2, l, 1)) *to = static_cast<T>(logarithm);
    });
  }

  void cofactor() {
    const std::int64_t n = call_.columns;
    gather(a_, call_.x, n * n);
    set_identity();
    kernels_.lu(a_.data(), b_.data(), n, n, sign_.data(), failed_.data());
    for_each_matrix([&](std::int64_t l) {
      T* cofactors = out(0, l, n * n);
      if (failed_[as_size(l)] != 0) {
        const T* x = reinterpret_cast<const T*>(call_.x) + (first_ + l) * n * n;
        return singular_cofactors(x, n, cofactors);
      }
      double product = sign_[as_size(l)];
      for (std::int64_t i = 0; i < n; ++i) product *= at_double(a_, i * n + i, l);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          cofactors[i * n + j] = static_cast<T>(product * at_double(b_, j * n + i, l));
        }
      }
    });
  }

  void solve() {
    const std::int64_t n = call_.columns, right = call_.right;
    gather(a_, call_.x, n * n);
    gather(b_, call_.b, n * right);
    kernels_.lu(a_.data(), b_.data(), n, right, sign_.data(), failed_.data());
    report_failures();
    for_each_matrix([&](std::int64_t l) { scatter(b_, out(0, l, n * right), n * right, l); });
  }

  static std::size_t as_size(std::int64_t x) { return static_cast<std::size_t>(x); }

  template <class Function>
  void for_each_matrix(const Function& f) const {
    for (std::int64_t l = 0; l < count_; ++l) f(l);
  }

  T* out(int k, std::int64_t lane, std::int64_t elements) const {
    T* first = reinterpret_cast<T*>(call_.out[k]);
    return first == nullptr ? nullptr : first + (first_ + lane) * elements;
  }
  double at_double(const Scratch<double>& a, std::int64_t element, std::int64_t lane) const {
    return a[as_size(element * lanes_ + lane)];
  }
  T at(const Scratch<double>& a, std::int64_t element, std::int64_t lane) const {
    return static_cast<T>(at_double(a, element, lane));
  }
  void scatter(const Scratch<double>& a, T* to, std::int64_t elements, std::int64_t lane) const {
    for (std::int64_t e = 0; e < elements; ++e) to[e] = at(a, e, lane);
  }

  // Lane l of each element is that of matrix l; element(from, i, j) reads it. Lanes beyond the last
  // matrix repeat it. There is room for `more` elements behind them.
  template <class Element>
  void gather_elements(Scratch<double>& to, const std::byte* data, std::int64_t rows,
                       std::int64_t columns, std::int64_t more, const Element& element) {
    const std::int64_t elements = rows * columns;
    to.resize(as_size((elements + more) * lanes_));
    if (elements == 0) return;  // `to` and `data` may be null then
    for (std::int64_t l = 0; l < lanes_; ++l) {
      const T* from =
          reinterpret_cast<const T*>(data) + (first_ + std::min(l, count_ - 1)) * elements;
      double* next = to.data() + l;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j, next += lanes_) *next = element(from, i, j);
      }
    }
  }
  void gather(Scratch<double>& to, const std::byte* data, std::int64_t elements,
              std::int64_t more = 0) {
    gather_elements(to, data, 1, elements, more, [](const T* from, std::int64_t, std::int64_t j) {
      return static_cast<double>(from[j]);
    });
  }
  void gather_transposed() {
    const std::int64_t m = call_.rows, n = call_.columns;
    gather_elements(a_, call_.x, n, m, 0, [n](const T* from, std::int64_t i, std::int64_t j) {
      return static_cast<double>(from[j * n + i]);
    });
  }
  static double symmetric(const T* from, std::int64_t n, std::int64_t i, std::int64_t j) {
    const double a = static_cast<double>(from[i * n + j]);
    const double b = static_cast<double>(from[j * n + i]);
    return a == b ? a : a / 2 + b / 2;
  }
  void gather_symmetric() {
    const std::int64_t n = call_.columns;
    gather_elements(a_, call_.x, n, n, 0, [n](const T* from, std::int64_t i, std::int64_t j) {
      return symmetric(from, n, i, j);
    });
  }
  void gather_lower() {
    const std::int64_t n = call_.columns;
    gather_elements(a_, call_.x, n, n, 0, [n](const T* from, std::int64_t i, std::int64_t j) {
      return j <= i ? symmetric(from, n, i, j) : 0;
    });
  }
  void set_identity() {
    const std::int64_t n = call_.columns;
    b_.assign(as_size(n * n * lanes_), 0);
    for (std::int64_t i = 0; i < n; ++i) std::fill_n(&b_[as_size(i * (n + 1) * lanes_)], lanes_, 1);
  }

  // Divides every matrix whose squares would overflow or underflow by its largest element. Replaces
  // a matrix that is not finite by zeros, except for qr, in which NaN spreads by itself.
  void scale(std::int64_t elements) {
    for (std::int64_t l = 0; l < lanes_; ++l) {
      double largest = 0;
      bool finite = true;
      for (std::int64_t e = 0; e < elements; ++e) {
        const double x = at_double(a_, e, l);
        finite &= std::isfinite(x);
        largest = std::max(largest, std::fabs(x));
      }
      is_finite_[as_size(l)] = finite;
      const bool is_zeroed = !finite && call_.op != MatrixOp::qr;
      if (!is_zeroed &&
          (!finite || largest == 0 || (largest > smallest_safe && largest < largest_safe))) {
        continue;
      }
      scale_[as_size(l)] = is_zeroed ? 1 : largest;
      for (std::int64_t e = 0; e < elements; ++e) {
        double& x = a_[as_size(e * lanes_ + l)];
        x = is_zeroed ? 0 : x / largest;
      }
    }
  }

  void report_failures() const {
    for_each_matrix([&](std::int64_t l) {
      if (failed_[as_size(l)] != 0) failure_.note(first_ + l);
    });
  }

  template <class Compare>
  static void sort(std::vector<std::int64_t>& order, const Compare& before) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
  }

  const MatrixCall& call_;
  const MatrixKernels& kernels_;
  const std::int64_t lanes_;
  FirstFailure& failure_;
  std::int64_t first_ = 0, count_ = 0;
  Scratch<double> a_, b_;  // the matrices, and the second operand or result
  std::vector<double> failed_, sign_, scale_, lengths_, basis_;
  std::vector<char> is_finite_;
  std::vector<std::int64_t> order_;
};

}  // namespace

template <class T>
void compute_groups(const MatrixCall& call, const MatrixKernels& kernels, std::int64_t first,
                    std::int64_t count, FirstFailure& failure) {
  Group<T> group(call, kernels, failure);
  for (std::int64_t done = 0; done < count; done += kernels.lanes) {
    group.compute(first + done, std::min(kernels.lanes, count - done));
  }
}
template void compute_groups<float>(const MatrixCall&, const MatrixKernels&, std::int64_t,
                                    std::int64_t, FirstFailure&);
template void compute_groups<double>(const MatrixCall&, const MatrixKernels&, std::int64_t,
                                     std::int64_t, FirstFailure&);

// x = u s vᵀ has the cofactors det(u) det(v) u diag(Π sⱼ, j ≠ i) vᵀ, also where some s are 0.
template <class T>
void singular_cofactors(const T* x, std::int64_t n, T* out) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> wide(x, x + n * n), u(size * size), s(size), vh(size * size);
  FirstFailure ignored(1);
  const MatrixKernels& kernels = single_matrix_kernels();
  MatrixCall call{};
  call.op = MatrixOp::svd;
  call.batch = 1;
  call.rows = call.columns = n;
  call.x = reinterpret_cast<const std::byte*>(wide.data());
  call.out[0] = reinterpret_cast<std::byte*>(u.data());
  call.out[1] = reinterpret_cast<std::byte*>(s.data());
  call.out[2] = reinterpret_cast<std::byte*>(vh.data());
  compute_groups<double>(call, kernels, 0, 1, ignored);
  double signs = 1;
  for (const std::vector<double>& orthogonal : {u, vh}) {
    double determinant = 1;
    MatrixCall of{};
    of.op = MatrixOp::determinant;
    of.batch = 1;
    of.rows = of.columns = n;
    of.x = reinterpret_cast<const std::byte*>(orthogonal.data());
    of.out[0] = reinterpret_cast<std::byte*>(&determinant);
    compute_groups<double>(of, kernels, 0, 1, ignored);
    signs *= determinant < 0 ? -1 : 1;
  }
  // A value below the rounding errors of the largest is that of a singular matrix: 0.
  const double negligible = static_cast<double>(n) * std::numeric_limits<double>::epsilon() * s[0];
  for (double& value : s) value = value <= negligible ? 0 : value;
  std::vector<double> others(size, signs);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) others[i] *= i == j ? 1 : s[j];
  }
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < size; ++k) sum += u[i * size + k] * others[k] * vh[k * size + j];
      out[i * size + j] = static_cast<T>(sum);
    }
  }
}
template void singular_cofactors(const float*, std::int64_t, float*);
template void singular_cofactors(const double*, std::int64_t, double*);

}  // namespace extensor::cpu
