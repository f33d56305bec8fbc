// OpenBLAS: gemm and gemv in float32 and float64, and LAPACK.
#include <cblas.h>
#include <omp.h>

#include <memory>

#include "openblas_linalg.h"
#include "task.h"

namespace extensor::bench {
namespace {

template <class T>
Work make_typed(const Task& task) {
  const Gemm gemm(task);
  struct Buffers {
    std::vector<T> a, b, c;
  };
  auto buffers = std::make_shared<Buffers>();
  std::vector<float> values(static_cast<std::size_t>(gemm.m * gemm.k));
  fill(values.data(), gemm.m * gemm.k, task.lo, task.hi, 1);
  buffers->a.assign(values.begin(), values.end());
  values.resize(static_cast<std::size_t>(gemm.k * gemm.n));
  fill(values.data(), gemm.k * gemm.n, task.lo, task.hi, 2);
  buffers->b.assign(values.begin(), values.end());
  buffers->c.resize(static_cast<std::size_t>(gemm.m * gemm.n));
  const auto transpose_a = gemm.a_transposed ? CblasTrans : CblasNoTrans;
  const auto transpose_b = gemm.b_transposed ? CblasTrans : CblasNoTrans;
  const int m = static_cast<int>(gemm.m), n = static_cast<int>(gemm.n),
            k = static_cast<int>(gemm.k);
  const int lda = static_cast<int>(gemm.lda()), ldb = static_cast<int>(gemm.ldb());
  if (n == 1 && !gemm.a_transposed) {
    return [=] {
      if constexpr (sizeof(T) == 4) {
        cblas_sgemv(CblasRowMajor, CblasNoTrans, m, k, 1, buffers->a.data(), lda, buffers->b.data(),
                    1, 0, buffers->c.data(), 1);
      } else {
        cblas_dgemv(CblasRowMajor, CblasNoTrans, m, k, 1, buffers->a.data(), lda, buffers->b.data(),
                    1, 0, buffers->c.data(), 1);
      }
    };
  }
  return [=] {
    if constexpr (sizeof(T) == 4) {
      cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, m, n, k, 1, buffers->a.data(), lda,
                  buffers->b.data(), ldb, 0, buffers->c.data(), n);
    } else {
      cblas_dgemm(CblasRowMajor, transpose_a, transpose_b, m, n, k, 1, buffers->a.data(), lda,
                  buffers->b.data(), ldb, 0, buffers->c.data(), n);
    }
  };
}

Work make(const Task& task) {
  if (Work work = linalg_peer_work(task)) return work;
  if (task.op != "matmul") return {};
  if (task.dtype == DType::float32) return make_typed<float>(task);
  if (task.dtype == DType::float64) return make_typed<double>(task);
  return {};
}

// "OpenBLAS 0.3.21 NO_AFFINITY …" → "0.3.21"
std::string version() {
  const std::string config = openblas_get_config();
  const auto first = config.find_first_of("0123456789");
  return config.substr(first, config.find(' ', first) - first);
}

}  // namespace
}  // namespace extensor::bench

extern "C" extensor::bench::Peer* extensor_bench_peer() {
  static extensor::bench::Peer peer{"OpenBLAS", extensor::bench::version(),
                                    [](int threads) {
                                      omp_set_num_threads(threads);
                                      openblas_set_num_threads(threads);
                                    },
                                    extensor::bench::make};
  return &peer;
}
