// oneDNN: its sgemm. onednn_convolution.cpp has its convolution.
#include <dnnl.h>
#include <omp.h>

#include <memory>

#include "peers/onednn_work.h"

namespace extensor::bench {
namespace {

Work make(const Task& task) {
  if (Work work = onednn_convolution(task)) return work;
  if (task.op != "matmul" || task.dtype != DType::float32) return {};
  const Gemm gemm(task);
  struct Buffers {
    std::vector<float> a, b, c;
  };
  auto buffers = std::make_shared<Buffers>();
  buffers->a.resize(static_cast<std::size_t>(gemm.m * gemm.k));
  buffers->b.resize(static_cast<std::size_t>(gemm.k * gemm.n));
  buffers->c.resize(static_cast<std::size_t>(gemm.m * gemm.n));
  fill(buffers->a.data(), gemm.m * gemm.k, task.lo, task.hi, 1);
  fill(buffers->b.data(), gemm.k * gemm.n, task.lo, task.hi, 2);
  return [gemm, buffers] {
    dnnl_sgemm(gemm.a_transposed ? 'T' : 'N', gemm.b_transposed ? 'T' : 'N', gemm.m, gemm.n, gemm.k,
               1.0f, buffers->a.data(), gemm.lda(), buffers->b.data(), gemm.ldb(), 0.0f,
               buffers->c.data(), gemm.n);
  };
}

}  // namespace
}  // namespace extensor::bench

extern "C" extensor::bench::Peer* extensor_bench_peer() {
  const dnnl_version_t* v = dnnl_version();
  static extensor::bench::Peer peer{
      "oneDNN",
      std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch),
      [](int threads) { omp_set_num_threads(threads); }, extensor::bench::make};
  return &peer;
}
