// LAPACK of OpenBLAS as NumPy calls it: for each matrix of a batch, a copy in column-major order,
// the routine, and a copy back.
#include "openblas_linalg.h"

#include <cblas.h>

#include <algorithm>
#include <memory>
#include <vector>

extern "C" {
void dpotrf_(const char*, const int*, double*, const int*, int*);
void dgesv_(const int*, const int*, double*, const int*, int*, double*, const int*, int*);
void dgeqrf_(const int*, const int*, double*, const int*, double*, double*, const int*, int*);
void dorgqr_(const int*, const int*, const int*, double*, const int*, const double*, double*,
             const int*, int*);
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*,
             const int*, int*, const int*, int*);
void dgesdd_(const char*, const int*, const int*, double*, const int*, double*, double*, const int*,
             double*, const int*, double*, const int*, int*, int*);
}

namespace extensor::bench {

namespace {

struct Matrices {
  int n = 0, batch = 0;
  std::vector<double> x;                       // row-major
  std::vector<double> first, second, values;   // results, row-major
  std::vector<double> a, u, vt, s, work, rhs;  // of one matrix
  std::vector<int> integers;

  std::size_t area() const { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n); }
  void copy_in(std::size_t matrix) {
    const double* from = x.data() + matrix * area();
    for (int i = 0; i < n; ++i) cblas_dcopy(n, from + i * n, 1, a.data() + i, n);
  }
  void copy_out(const std::vector<double>& from, std::vector<double>& to, std::size_t matrix) {
    for (int i = 0; i < n; ++i) {
      cblas_dcopy(n, from.data() + i, n, to.data() + matrix * area() + i * n, 1);
    }
  }
};

void make_positive(Matrices& all) {
  std::vector<double> product(all.area());
  for (std::size_t b = 0; b < static_cast<std::size_t>(all.batch); ++b) {
    double* x = all.x.data() + b * all.area();
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, all.n, all.n, all.n, 1, x, all.n, x, all.n,
                0, product.data(), all.n);
    std::copy(product.begin(), product.end(), x);
    for (int i = 0; i < all.n; ++i) x[i * (all.n + 1)] += all.n;
  }
}

using Routine = void (*)(Matrices&, std::size_t);

void svd(Matrices& m, std::size_t i) {
  const int size = static_cast<int>(m.work.size());
  int info = 0;
  m.copy_in(i);
  dgesdd_("A", &m.n, &m.n, m.a.data(), &m.n, m.s.data(), m.u.data(), &m.n, m.vt.data(), &m.n,
          m.work.data(), &size, m.integers.data(), &info);
  m.copy_out(m.u, m.first, i);
  m.copy_out(m.vt, m.second, i);
}
void eigh(Matrices& m, std::size_t i) {
  const int size = static_cast<int>(m.work.size()), integers = static_cast<int>(m.integers.size());
  int info = 0;
  m.copy_in(i);
  dsyevd_("V", "L", &m.n, m.a.data(), &m.n, m.s.data(), m.work.data(), &size, m.integers.data(),
          &integers, &info);
  m.copy_out(m.a, m.first, i);
}
void solve(Matrices& m, std::size_t i) {
  const int one = 1;
  int info = 0;
  m.copy_in(i);
  std::fill(m.rhs.begin(), m.rhs.end(), 1.0);
  dgesv_(&m.n, &one, m.a.data(), &m.n, m.integers.data(), m.rhs.data(), &m.n, &info);
}
void qr(Matrices& m, std::size_t i) {
  const int size = static_cast<int>(m.work.size());
  int info = 0;
  m.copy_in(i);
  dgeqrf_(&m.n, &m.n, m.a.data(), &m.n, m.s.data(), m.work.data(), &size, &info);
  m.copy_out(m.a, m.first, i);
  dorgqr_(&m.n, &m.n, &m.n, m.a.data(), &m.n, m.s.data(), m.work.data(), &size, &info);
  m.copy_out(m.a, m.second, i);
}
void cholesky(Matrices& m, std::size_t i) {
  int info = 0;
  m.copy_in(i);
  dpotrf_("L", &m.n, m.a.data(), &m.n, &info);
  m.copy_out(m.a, m.first, i);
}

}  // namespace

Work linalg_peer_work(const Task& task) {
  if (!task.op.starts_with("linalg::") || task.dtype != DType::float64) return {};
  const std::string op = task.op.substr(8);
  auto all = std::make_shared<Matrices>();
  const auto& shape = task.operands[0].shape;
  all->n = static_cast<int>(shape.back());
  all->batch = shape.size() == 3 ? static_cast<int>(shape[0]) : 1;
  const std::int64_t elements = count(task.operands[0]);
  std::vector<float> values(static_cast<std::size_t>(elements));
  fill(values.data(), elements, task.lo, task.hi, 1);
  all->x.assign(values.begin(), values.end());
  if (op != "svd" && op != "qr") make_positive(*all);
  const std::size_t n = static_cast<std::size_t>(all->n);
  for (auto* list : {&all->first, &all->second}) list->resize(all->x.size());
  for (auto* list : {&all->a, &all->u, &all->vt}) list->resize(all->area());
  all->s.resize(n);
  all->rhs.resize(n);
  all->work.resize(6 * n * n + 64 * n + 1);  // enough for the fastest variant of every routine
  all->integers.resize(8 * n + 3);
  const Routine routine = op == "svd"     ? &svd
                          : op == "eigh"  ? &eigh
                          : op == "solve" ? &solve
                          : op == "qr"    ? &qr
                                          : &cholesky;
  return [all, routine] {
    for (std::size_t i = 0; i < static_cast<std::size_t>(all->batch); ++i) routine(*all, i);
  };
}

}  // namespace extensor::bench
