// libxsmm: kernels compiled at run time for small products, one thread.
#include <libxsmm.h>

#include <memory>

#include "task.h"

namespace extensor::bench {
namespace {

Work make(const Task& task) {
  if (task.op != "matmul" || task.dtype != DType::float32) return {};
  const Gemm gemm(task);
  constexpr std::int64_t largest = 128;
  if (gemm.a_transposed || gemm.b_transposed || gemm.n == 1) return {};
  if (gemm.m > largest || gemm.n > largest || gemm.k > largest) return {};

  // Column-major: C' = B'·A'.
  const int m = static_cast<int>(gemm.n), n = static_cast<int>(gemm.m),
            k = static_cast<int>(gemm.k);
  const float alpha = 1, beta = 0;
  const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE;
  const libxsmm_smmfunction kernel =
      libxsmm_smmdispatch(m, n, k, &m, &k, &m, &alpha, &beta, &flags, &prefetch);
  if (kernel == nullptr) return {};

  struct Buffers {
    std::vector<float> a, b, c;
  };
  auto buffers = std::make_shared<Buffers>();
  buffers->a.resize(static_cast<std::size_t>(gemm.m * gemm.k));
  buffers->b.resize(static_cast<std::size_t>(gemm.k * gemm.n));
  buffers->c.resize(static_cast<std::size_t>(gemm.m * gemm.n));
  fill(buffers->a.data(), gemm.m * gemm.k, task.lo, task.hi, 1);
  fill(buffers->b.data(), gemm.k * gemm.n, task.lo, task.hi, 2);
  return [kernel, buffers] { kernel(buffers->b.data(), buffers->a.data(), buffers->c.data()); };
}

}  // namespace
}  // namespace extensor::bench

extern "C" extensor::bench::Peer* extensor_bench_peer() {
  libxsmm_init();
  static extensor::bench::Peer peer{"libxsmm", LIBXSMM_VERSION, [](int) {}, extensor::bench::make};
  return &peer;
}
