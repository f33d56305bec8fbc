#include "backend/cpu/linalg/linalg.h"

#include <algorithm>
#include <complex>
#include <mutex>
#include <shared_mutex>
#include <type_traits>

#include "backend/checks.h"
#include "backend/cpu/linalg/paths.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::MatrixCall;
using backend::MatrixOp;

// The number of threads that LAPACK itself uses, a setting of the whole process: 1 where the
// library's threads share a batch. Calls that want different numbers wait for each other.
class LapackThreads {
 public:
  LapackThreads(const Lapack& library, int count) : lock_(state().mutex) {
    if (library.set_threads == nullptr) return;
    while (state().count != count) {
      lock_.unlock();
      {
        const std::unique_lock alone(state().mutex);
        library.set_threads(count);
        state().count = count;
      }
      lock_.lock();
    }
  }

 private:
  struct State {
    std::shared_mutex mutex;
    int count = 0;  // unknown
  };
  static State& state() {
    static auto* made = new State;
    return *made;
  }
  std::shared_lock<std::shared_mutex> lock_;
};

// Matrices with more rows and columns than this go to LAPACK.
std::int64_t most_rows(const MatrixCall& call) { return call.batch >= 4 ? 24 : 8; }

// From this number of rows and columns on, LAPACK's own threads help with a single matrix. They
// wait for each other actively: beside other busy processes each wait may take milliseconds, until
// the scheduler runs the thread that it waits for. OpenBLAS with two threads on two busy cores took
// 4 to 60 times as long as with one for 300 rows and 6 to 9 times for 1000. The LU factorization
// waits rarely: twice as long for 600 rows, and no longer for 1000.
std::int64_t least_threaded_size(MatrixOp op) {
  switch (op) {
    case MatrixOp::cholesky:
    case MatrixOp::qr:
    case MatrixOp::eigh:
    case MatrixOp::svd:
      return 1000;
    default:
      return 600;
  }
}

// The multiplications of one matrix, roughly: decides how many matrices a thread takes at a time.
double work_of(const MatrixCall& call) {
  const auto m = static_cast<double>(call.rows), n = static_cast<double>(call.columns);
  const double iterations = call.op == MatrixOp::svd || call.op == MatrixOp::eigh ? 40 : 2;
  return iterations * (m + 1) * (n + 1) * (std::min(m, n) + 1 + static_cast<double>(call.right));
}

template <class T>
bool solve_triangle(const MatrixCall& call, std::int64_t matrix) {
  const std::int64_t n = call.columns, right = call.right;
  const T* a = reinterpret_cast<const T*>(call.x) + matrix * n * n;
  const T* b = reinterpret_cast<const T*>(call.b) + matrix * n * right;
  T* y = reinterpret_cast<T*>(call.out[0]) + matrix * n * right;
  std::copy_n(b, n * right, y);
  for (std::int64_t i = 0; i < n; ++i) {
    if (a[i * (n + 1)] == T(0)) return false;
  }
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = call.upper ? n - 1 - step : step;
    T* row = y + i * right;
    const std::int64_t begin = call.upper ? i + 1 : 0, end = call.upper ? n : i;
    for (std::int64_t k = begin; k < end; ++k) {
      const T factor = a[i * n + k];
      const T* known = y + k * right;
      for (std::int64_t j = 0; j < right; ++j) row[j] -= factor * known[j];
    }
    const T pivot = a[i * (n + 1)];
    for (std::int64_t j = 0; j < right; ++j) row[j] /= pivot;
  }
  return true;
}

template <class T>
void compute_in_groups(const MatrixCall& call, std::int64_t grain, FirstFailure& failure) {
  const MatrixKernels& kernels = call.batch == 1 ? single_matrix_kernels() : wide_matrix_kernels();
  const std::int64_t lanes = kernels.lanes, groups = (call.batch + lanes - 1) / lanes;
  detail::parallel_for(
      groups, std::max<std::int64_t>(1, grain / lanes), [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = begin * lanes;
        compute_groups<T>(call, kernels, first, std::min(end * lanes, call.batch) - first, failure);
      });
}

template <class T>
void compute(const MatrixCall& call, FirstFailure& failure) {
  constexpr double work_per_chunk = 1 << 17;
  const auto grain = static_cast<std::int64_t>(std::max(1.0, work_per_chunk / work_of(call)));
  if (call.op == MatrixOp::solve_triangular) {
    return detail::parallel_for(call.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (!solve_triangle<T>(call, i)) failure.note(i);
      }
    });
  }
  const std::int64_t larger = std::max(call.rows, call.columns);
  const bool is_empty = call.rows == 0 || call.columns == 0;
  const Lapack* library = larger > most_rows(call) && !is_empty ? lapack() : nullptr;
  if (library != nullptr) {
    const std::int64_t smaller = std::min(call.rows, call.columns);
    const bool is_threaded =
        call.batch == 1 && !detail::in_parallel_loop() && smaller >= least_threaded_size(call.op);
    const LapackThreads threads(*library, is_threaded ? detail::max_threads() : 1);
    return detail::parallel_for(call.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      // OpenMP counts threads for each calling thread.
      if (call.batch > 1 && library->set_threads != nullptr) library->set_threads(1);
      for (std::int64_t i = begin; i < end; ++i) compute_by_lapack<T>(call, *library, i, failure);
    });
  }
  if constexpr (!std::is_floating_point_v<T>) {
    detail::parallel_for(call.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) compute_complex(call, i, failure);
    });
  } else {
    compute_in_groups<T>(call, grain, failure);
  }
}

}  // namespace

void matrices(const MatrixCall& call) {
  if (call.batch == 0) return;
  FirstFailure failure(call.batch);
  switch (call.dtype) {
    case DType::float32:
      compute<float>(call, failure);
      break;
    case DType::float64:
      compute<double>(call, failure);
      break;
    case DType::complex64:
      compute<std::complex<float>>(call, failure);
      break;
    default:
      compute<std::complex<double>>(call, failure);
      break;
  }
  if (failure.first() < call.batch && call.check != 0) {
    backend::note({call.check, failure.first(), 0});
  }
}

}  // namespace extensor::cpu
