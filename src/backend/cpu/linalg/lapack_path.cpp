// One matrix by LAPACK, whose matrices are column-major: a row-major matrix is its transpose there.
#include "backend/cpu/linalg/paths.h"
#include "backend/cpu/linalg/results.h"
#include "core/check.h"
#include "core/scratch.h"
#include "extensor/error.h"

namespace extensor::cpu {

namespace {

using backend::MatrixCall;
using backend::MatrixOp;
using detail::Scratch;
using Int = LapackInt;

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
std::complex<double> sign_of(std::complex<double> z) {
  return z == 0.0 ? z : orientation(&z, 1, 1);
}

template <class T>
class Matrix {
 public:
  using Real = decltype(std::abs(T(0)));
  static constexpr bool is_real = std::is_same_v<Real, T>;

  Matrix(const MatrixCall& call, const Lapack& library, std::int64_t matrix, FirstFailure& failure)
      : call_(call),
        library_(library),
        routines_(library.routines<T>()),
        matrix_(matrix),
        failure_(failure),
        m_(call.rows),
        n_(call.columns),
        x_(reinterpret_cast<const T*>(call.x) + matrix * m_ * n_) {}

  // OpenBLAS computes its lower factor, the upper one here, in a fifth less time than the other
  // one. The lower one here is its adjoint.
  void cholesky() {
    T* factor = out(0, n_ * n_);
    copy_upper_part(factor);
    Int info = 0;
    routines_.potrf("L", &n_, factor, &n_, &info, 1);
    if (library_.value(&info) != 0) return failure_.note(matrix_);
    for (std::int64_t i = 0; i < n_; ++i) {
      if (std::isnan(std::abs(factor[i * (n_ + 1)])))
        return failure_.note(matrix_);  // LAPACK may miss it
    }
    if (call_.upper) {
      for (std::int64_t i = 0; i < n_; ++i) std::fill_n(factor + i * n_, i, T(0));
    } else {
      reflect_upper_part(factor);
    }
  }

  void qr() {
    const Int k = std::min(m_, n_), width = call_.full ? m_ : k;
    const std::int64_t columns = std::max(n_, width);
    Scratch<T> a(size(m_ * columns)), tau(size(k));
    for (std::int64_t i = 0; i < m_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) a[size(j * m_ + i)] = x_[i * n_ + j];
    }
    T wanted = 0;
    Int info = 0, query = -1;
    routines_.geqrf(&m_, &n_, a.data(), &m_, tau.data(), &wanted, &query, &info);
    T more = 0;
    routines_.orgqr(&m_, &width, &k, a.data(), &m_, tau.data(), &more, &query, &info);
    const Int work_size = std::max(size_of_work(wanted), size_of_work(more));
    Scratch<T> work(size(work_size));
    routines_.geqrf(&m_, &n_, a.data(), &m_, tau.data(), work.data(), &work_size, &info);
    T* r = out(1, width * n_);
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) r[i * n_ + j] = j < i ? T(0) : a[size(j * m_ + i)];
    }
    routines_.orgqr(&m_, &width, &k, a.data(), &m_, tau.data(), work.data(), &work_size, &info);
    T* q = out(0, m_ * width);
    for (std::int64_t i = 0; i < m_; ++i) {
      for (std::int64_t j = 0; j < width; ++j) q[i * width + j] = a[size(j * m_ + i)];
    }
  }

  // A complex matrix is its conjugate in LAPACK, whose eigenvectors are the conjugates.
  void eigh() {
    Real* values = out<Real>(0, n_);
    T* vectors = out(1, n_ * n_);
    Scratch<T> a(size(n_ * n_));
    copy_symmetric(a.data());
    const char* job = vectors == nullptr ? "N" : "V";
    if (!all_finite(a.data(), n_ * n_)) {
      fill_nan(values, n_);
      return fill_nan(vectors, n_ * n_);
    }
    T wanted = 0;
    Real wanted_reals = 0;
    Int wanted_integers = 0, info = 0, query = -1;
    const auto run = [&](T* work, const Int* work_size, Real* reals, const Int* reals_size,
                         Int* integers, const Int* integers_size) {
      if constexpr (is_real) {
        routines_.syevd(job, "L", &n_, a.data(), &n_, values, work, work_size, integers,
                        integers_size, &info, 1, 1);
      } else {
        routines_.syevd(job, "L", &n_, a.data(), &n_, values, work, work_size, reals, reals_size,
                        integers, integers_size, &info, 1, 1);
      }
    };
    run(&wanted, &query, &wanted_reals, &query, &wanted_integers, &query);
    const Int work_size = size_of_work(wanted), reals_size = size_of_work(wanted_reals);
    const Int integers_size = library_.value(&wanted_integers);
    Scratch<T> work(size(work_size));
    Scratch<Real> reals(size(reals_size));
    Scratch<Int> integers(size(integers_size));
    run(work.data(), &work_size, reals.data(), &reals_size, integers.data(), &integers_size);
    check_converged("eigh", info);
    if (vectors == nullptr) return;
    for (std::int64_t j = 0; j < n_; ++j) {
      T* vector = a.data() + j * n_;
      scale_vector(vector, n_, 1, static_cast<T>(conjugate(orientation(vector, n_, 1))));
    }
    for_each_block([&](std::int64_t r, std::int64_t c) {
      vectors[r * n_ + c] = static_cast<T>(conjugate(a[size(c * n_ + r)]));
    });
  }

  // xᵀ = vhᵀ s uᵀ: LAPACK's u is vh, and its vᵀ is u.
  void svd() {
    const Int k = std::min(m_, n_), u_width = call_.full ? m_ : k, vh_rows = call_.full ? n_ : k;
    T *u = out(0, m_ * u_width), *vh = out(2, vh_rows * n_);
    Real* s = out<Real>(1, k);
    if (!all_finite(x_, m_ * n_)) {
      fill_nan(u, m_ * u_width);
      fill_nan(s, k);
      return fill_nan(vh, vh_rows * n_);
    }
    Scratch<T> a(x_, x_ + m_ * n_);
    Scratch<Int> integers(size(8 * k));
    const char* job = u == nullptr ? "N" : call_.full ? "A" : "S";
    T wanted = 0, none = 0;
    const Int ldu = n_, ldvt = u == nullptr ? 1 : u_width;
    T *first = u == nullptr ? &none : vh, *second = u == nullptr ? &none : u;
    Int info = 0, query = -1;
    const Int longer = std::max(m_, n_);
    Scratch<Real> reals(size(is_real ? 0 : k * std::max(5 * k + 7, 2 * longer + 2 * k + 1)));
    const auto run = [&](T* work, const Int* work_size) {
      if constexpr (is_real) {
        routines_.gesdd(job, &n_, &m_, a.data(), &n_, s, first, &ldu, second, &ldvt, work,
                        work_size, integers.data(), &info, 1);
      } else {
        routines_.gesdd(job, &n_, &m_, a.data(), &n_, s, first, &ldu, second, &ldvt, work,
                        work_size, reals.data(), integers.data(), &info, 1);
      }
    };
    run(&wanted, &query);
    const Int work_size = size_of_work(wanted);
    Scratch<T> work(size(work_size));
    run(work.data(), &work_size);
    check_converged("svd", info);
    if (u == nullptr) return;
    for (std::int64_t j = 0; j < u_width; ++j) {
      const T turn = orientation(u + j, m_, u_width);
      scale_vector(u + j, m_, u_width, static_cast<T>(conjugate(turn)));
      if (j < k) scale_vector(vh + j * n_, n_, 1, turn);
    }
    for (std::int64_t j = k; j < vh_rows; ++j) {
      T* row = vh + j * n_;
      scale_vector(row, n_, 1, static_cast<T>(conjugate(orientation(row, n_, 1))));
    }
  }

  void inverse() {
    T* inverse = out(0, n_ * n_);
    std::copy_n(x_, n_ * n_, inverse);
    Scratch<Int> pivots(size(n_), 0);
    if (!factor(inverse, pivots)) return failure_.note(matrix_);
    invert(inverse, pivots);
  }

  void determinant() {
    Scratch<T> a(x_, x_ + n_ * n_);
    Scratch<Int> pivots(size(n_), 0);
    factor(a.data(), pivots);
    Wide product = parity(pivots), sign = product;
    double logarithm = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const Wide pivot = static_cast<Wide>(a[size(i * (n_ + 1))]);
      product *= pivot;
      sign *= sign_of(pivot);
      logarithm += std::log(std::abs(pivot));
    }
    if (T* to = out(0, 1)) *to = static_cast<T>(product);
    if (T* to = out(1, 1)) *to = static_cast<T>(sign);
    if (Real* to = out<Real>(2, 1)) *to = static_cast<Real>(logarithm);
  }

  void cofactor() {
    T* cofactors = out(0, n_ * n_);
    Scratch<T> a(x_, x_ + n_ * n_);
    Scratch<Int> pivots(size(n_), 0);
    if (!factor(a.data(), pivots)) {
      if constexpr (is_real) {
        return singular_cofactors(x_, n_, cofactors);
      } else {
        return compute_complex(call_, matrix_, failure_);
      }
    }
    Wide product = parity(pivots);
    for (std::int64_t i = 0; i < n_; ++i) product *= static_cast<Wide>(a[size(i * (n_ + 1))]);
    invert(a.data(), pivots);
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) {
        cofactors[i * n_ + j] = static_cast<T>(product * static_cast<Wide>(a[size(j * n_ + i)]));
      }
    }
  }

  void solve() {
    Scratch<T> a(x_, x_ + n_ * n_);
    Scratch<Int> pivots(size(n_), 0);
    if (!factor(a.data(), pivots)) return failure_.note(matrix_);
    const Int right = call_.right;
    const T* b = reinterpret_cast<const T*>(call_.b) + matrix_ * n_ * right;
    T* solution = out(0, n_ * right);
    Scratch<T> columns(size(n_ * right));
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < right; ++j) columns[size(j * n_ + i)] = b[i * right + j];
    }
    Int info = 0;
    routines_.getrs("T", &n_, &right, a.data(), &n_, pivots.data(), columns.data(), &n_, &info, 1);
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < right; ++j) solution[i * right + j] = columns[size(j * n_ + i)];
    }
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  // In which determinants are multiplied.
  using Wide = std::conditional_t<is_real, double, std::complex<double>>;

  // The answer to a query, an integer that was perhaps rounded down to a float.
  static Int size_of_work(T wanted) {
    const Real size = std::real(wanted);
    return static_cast<Int>(std::nextafter(size, std::numeric_limits<Real>::infinity()));
  }

  template <class Element = T>
  Element* out(int k, std::int64_t elements) const {
    auto* first = reinterpret_cast<Element*>(call_.out[k]);
    return first == nullptr ? nullptr : first + matrix_ * elements;
  }

  // Blocks of this size fit into the first-level cache.
  static constexpr std::int64_t block = 32;
  template <class Function>
  void for_each_block(const Function& f) const {
    for (std::int64_t i = 0; i < n_; i += block) {
      for (std::int64_t j = 0; j < n_; j += block) {
        for (std::int64_t r = i; r < std::min(i + block, n_); ++r) {
          for (std::int64_t c = j; c < std::min(j + block, n_); ++c) f(r, c);
        }
      }
    }
  }
  // Calls f(i, j) with the first row and column of the blocks on and above the diagonal. Eight rows
  // of any length fit into the sets of the first-level cache.
  static constexpr std::int64_t small_block = 8;
  template <class Function>
  void for_each_upper_block(const Function& f) const {
    for (std::int64_t i = 0; i < n_; i += small_block) {
      for (std::int64_t j = i; j < n_; j += small_block) f(i, j);
    }
  }
  // The upper triangle of (x + xᴴ) / 2. Below the diagonal, only elements next to it are written.
  void copy_upper_part(T* to) const {
    for_each_upper_block([&](std::int64_t i, std::int64_t j) {
      const std::int64_t columns = std::min(small_block, n_ - j);
      for (std::int64_t r = i; r < std::min(i + small_block, n_); ++r) {
        const T *own = x_ + r * n_ + j, *mirrored = x_ + j * n_ + r;
        T* mean = to + r * n_ + j;
        for (std::int64_t c = 0; c < columns; ++c) {
          const T a = own[c], b = static_cast<T>(conjugate(mirrored[c * n_]));
          mean[c] = a == b ? a : a / Real(2) + b / Real(2);
        }
      }
    });
  }
  // Turns an upper triangular matrix into its adjoint, whatever is below the diagonal.
  void reflect_upper_part(T* a) const {
    for_each_upper_block([&](std::int64_t i, std::int64_t j) {
      const std::int64_t rows = std::min(small_block, n_ - i);
      for (std::int64_t c = j; c < std::min(j + small_block, n_); ++c) {
        T* row = a + c * n_ + i;
        const T* column = a + i * n_ + c;
        const std::int64_t end = i == j ? c - j : rows;
        for (std::int64_t r = 0; r < end; ++r) row[r] = static_cast<T>(conjugate(column[r * n_]));
      }
    });
    for (std::int64_t i = 0; i < n_; ++i) std::fill_n(a + i * n_ + i + 1, n_ - i - 1, T(0));
  }
  void copy_symmetric(T* to) const {
    for_each_block([&](std::int64_t r, std::int64_t c) {
      const T a = x_[r * n_ + c], b = static_cast<T>(conjugate(x_[c * n_ + r]));
      to[r * n_ + c] = a == b ? a : a / Real(2) + b / Real(2);
    });
  }

  // False if a pivot is 0.
  bool factor(T* a, Scratch<Int>& pivots) const {
    Int info = 0;
    routines_.getrf(&n_, &n_, a, &n_, pivots.data(), &info);
    return library_.value(&info) == 0;
  }
  double parity(const Scratch<Int>& pivots) const {
    double sign = 1;
    for (std::int64_t i = 0; i < n_; ++i) {
      if (library_.value(pivots.data(), i) != i + 1) sign = -sign;
    }
    return sign;
  }
  void invert(T* a, const Scratch<Int>& pivots) const {
    T wanted = 0;
    Int info = 0, query = -1;
    routines_.getri(&n_, a, &n_, pivots.data(), &wanted, &query, &info);
    const Int work_size = size_of_work(wanted);
    Scratch<T> work(size(work_size));
    routines_.getri(&n_, a, &n_, pivots.data(), work.data(), &work_size, &info);
  }

  void check_converged(const char* operation, const Int& info) const {
    if (library_.value(&info) == 0) return;
    throw ValueError(detail::message(operation, ": LAPACK's iteration did not converge for matrix ",
                                     matrix_, " of the batch"));
  }

  const MatrixCall& call_;
  const Lapack& library_;
  const LapackRoutines<T>& routines_;
  const std::int64_t matrix_;
  FirstFailure& failure_;
  const Int m_, n_;
  const T* x_;
};

}  // namespace

template <class T>
void compute_by_lapack(const MatrixCall& call, const Lapack& library, std::int64_t index,
                       FirstFailure& failure) {
  Matrix<T> matrix(call, library, index, failure);
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
template void compute_by_lapack<float>(const MatrixCall&, const Lapack&, std::int64_t,
                                       FirstFailure&);
template void compute_by_lapack<double>(const MatrixCall&, const Lapack&, std::int64_t,
                                        FirstFailure&);
template void compute_by_lapack<std::complex<float>>(const MatrixCall&, const Lapack&, std::int64_t,
                                                     FirstFailure&);
template void compute_by_lapack<std::complex<double>>(const MatrixCall&, const Lapack&,
                                                      std::int64_t, FirstFailure&);

}  // namespace extensor::cpu
