// Entry points: rely on checked arguments, normalise strides and choose the algorithm.
#include "backend/cpu/gemm/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>

#include "backend/cpu/gemm/parallel.h"
#include "backend/cpu/gemm/routes.h"

namespace extensor::cpu {
namespace {

// A smaller product does not justify a second thread.
constexpr double kSmallWork = 64.0 * 64 * 64;
constexpr std::int64_t kTinyWork = 48 * 48 * 48;

template <class Element>
void fill_without_terms(const Product<Element>& product) {
  const ComputeOf<Element> zeros[64] = {};
  for (std::int64_t j = 0; j < product.n; j += 64) {
    Epilogue<Element> part = product.finish;
    part.c += j;
    if (part.bias != nullptr) part.bias += j;
    kernels<Element>().finish(part, zeros, 0, product.m, std::min<std::int64_t>(64, product.n - j));
  }
}

// Both operands contiguous along k, and so few rows or columns that packing the other operand
// would cost as much as the product.
template <class Element>
bool prefers_dots(const Product<Element>& product) {
  return product.a_k_stride == 1 && product.b_k_stride == 1 &&
         std::min(product.m, product.n) <= 12 && product.k >= 32;
}

// Products that finish sooner than a plan would: read in place on the calling thread.
bool is_tiny(const GemmCall& call) {
  // The bound on each dimension keeps the product of all three from overflowing.
  const auto fits = [](std::int64_t size) { return 2 <= size && size <= 4096; };
  return !call.accumulate && call.b.column_stride == 1 && fits(call.m) && fits(call.n) &&
         fits(call.k) && call.m * call.n * call.k <= kTinyWork &&
         call.activation <= Activation::relu;
}

template <class Element>
__attribute__((noinline)) void run_any(const GemmCall& call) {
  Product<Element> product{call.m,
                           call.n,
                           call.k,
                           static_cast<const Element*>(call.a.data),
                           call.a.row_stride,
                           call.a.column_stride,
                           static_cast<const Element*>(call.b.data),
                           call.b.row_stride,
                           call.b.column_stride,
                           {static_cast<Element*>(call.c), call.c_row_stride,
                            static_cast<const Element*>(call.bias), call.activation},
                           call.accumulate};
  if (product.m == 0 || product.n == 0) return;
  if (product.accumulate) {
    if (product.k != 0) run_tiled(product);
    return;
  }
  if (product.k == 0) return fill_without_terms(product);
  // A stride that is never used may have the value that suits the kernels.
  if (product.k == 1) product.a_k_stride = product.b_k_stride = 1;
  if (product.m == 1) product.a_row_stride = product.k;
  if (product.n == 1) product.b_column_stride = product.k;
  if ((product.m == 1 || product.n == 1) && run_matrix_vector(product)) return;
  if (prefers_dots(product)) return run_dots(product);
  run_tiled(product);
}

template <class Element>
void run(const GemmCall& call) {
  if constexpr (std::is_same_v<Element, ComputeOf<Element>>) {
    if (is_tiny(call)) return kernels<Element>().tiny(call);
  }
  run_any<Element>(call);
}

}  // namespace

void gemm(const GemmCall& call) {
  switch (call.dtype) {
    case DType::float32:
      return run<float>(call);
    case DType::float64:
      return run<double>(call);
    case DType::float16:
      return run<Float16>(call);
    case DType::bfloat16:
      return run<BFloat16>(call);
    default:
      return;
  }
}

void gemm_batched(const GemmCall& call, std::int64_t batch, const backend::BatchOffsets& a_offsets,
                  const backend::BatchOffsets& b_offsets, const backend::BatchOffsets& c_offsets) {
  const std::int64_t size = static_cast<std::int64_t>(itemsize(call.dtype));
  const auto run_one = [&](std::int64_t i) {
    GemmCall one = call;
    one.a.data = static_cast<const std::byte*>(call.a.data) + a_offsets[i] * size;
    one.b.data = static_cast<const std::byte*>(call.b.data) + b_offsets[i] * size;
    one.c = static_cast<std::byte*>(call.c) + c_offsets[i] * size;
    gemm(one);
  };
  const double work =
      static_cast<double>(call.m) * static_cast<double>(call.n) * static_cast<double>(call.k);
  const int threads = work > 8 * kSmallWork && batch < 4 * detail::max_threads()
                          ? 1
                          : gemm_threads(work * static_cast<double>(batch), kSmallWork);
  run_tasks(threads, batch, run_one);
}

}  // namespace extensor::cpu
