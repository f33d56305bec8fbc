// The gradients of products along an axis, computed in float64 and rounded once. In a file of their
// own, which is compiled with -O2: vectorising them saves no time and takes 60 KB.
#include <algorithm>

#include "backend/cpu/indexing/scan_blocks.h"
#include "backend/cpu/width.h"
#include "core/convert.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::ScanCall;
using backend::ScanOp;

// The product of the elements before k, times Σ over j ≥ k of g[j] · Π over k < i ≤ j of x[i],
// which is g[k] + x[k + 1] · the same at k + 1. It does not divide, so zeros need no special
// case.
template <class T>
void run_prod_backward(const ScanCall& call) {
  const T* x = reinterpret_cast<const T*>(call.x);
  const T* g = reinterpret_cast<const T*>(call.grad_output);
  T* out = reinterpret_cast<T*>(call.out);
  const std::int64_t grain = block_grain(call);
  const int threads = detail::threads_for(block_count(call), grain);
  const std::int64_t size = call.length * std::min(call.inner, columns_together);
  detail::Scratch<double> memory(static_cast<std::size_t>(threads * size));
  for_each_block(call, threads, grain, [&](std::int64_t first, std::int64_t columns, int slot) {
    double* before = memory.data() + slot * size;
    double running[columns_together];
    std::fill(running, running + columns, 1.0);
    for (std::int64_t k = 0; k < call.length; ++k) {
      for (std::int64_t i = 0; i < columns; ++i) {
        before[k * columns + i] = running[i];
        running[i] *= detail::convert<double>(x[first + k * call.inner + i]);
      }
    }
    std::fill(running, running + columns, 0.0);
    for (std::int64_t k = call.length; k-- > 0;) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t at = first + k * call.inner + i;
        const double sum = detail::convert<double>(g[at]) + running[i];
        out[at] = detail::convert<T>(before[k * columns + i] * sum);
        running[i] = sum * detail::convert<double>(x[at]);
      }
    }
  });
}

// prod_backward is linear in g with the weights t[j] = Σ over k ≤ j of v[k] · Π over i ≤ j, i ≠ k
// of x[i] for the gradient v of its result. t[j] = t[j − 1] · x[j] + p[j − 1] · v[j], together with
// the product p[j] = p[j − 1] · x[j]. The gradient of x runs back through these two.
template <class T>
void run_prod_double_backward(const ScanCall& call) {
  const T* x = reinterpret_cast<const T*>(call.x);
  const T* g = reinterpret_cast<const T*>(call.grad_output);
  const T* v = reinterpret_cast<const T*>(call.grad_gradient);
  T* grad_x = reinterpret_cast<T*>(call.out);
  T* grad_g = reinterpret_cast<T*>(call.grad_grad_output);
  const std::int64_t grain = block_grain(call);
  const int threads = detail::threads_for(block_count(call), grain);
  const std::int64_t size = call.length * std::min(call.inner, columns_together);
  struct Pair {
    double product, weight;
  };
  detail::Scratch<Pair> memory(static_cast<std::size_t>(threads * size));
  for_each_block(call, threads, grain, [&](std::int64_t first, std::int64_t columns, int slot) {
    Pair* before = memory.data() + slot * size;
    Pair running[columns_together];
    std::fill(running, running + columns, Pair{1, 0});
    for (std::int64_t k = 0; k < call.length; ++k) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t at = first + k * call.inner + i;
        const auto element = detail::convert<double>(x[at]);
        const Pair last = running[i];
        before[k * columns + i] = last;
        running[i] = {last.product * element,
                      last.weight * element + last.product * detail::convert<double>(v[at])};
        grad_g[at] = detail::convert<T>(running[i].weight);
      }
    }
    std::fill(running, running + columns, Pair{0, 0});  // now the gradients of the two
    for (std::int64_t k = call.length; k-- > 0;) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t at = first + k * call.inner + i;
        const auto element = detail::convert<double>(x[at]);
        const Pair last = before[k * columns + i];
        const double of_product = running[i].product;
        const double of_weight = running[i].weight + detail::convert<double>(g[at]);
        grad_x[at] = detail::convert<T>(of_weight * last.weight + of_product * last.product);
        running[i] = {of_product * element + of_weight * detail::convert<double>(v[at]),
                      of_weight * element};
      }
    }
  });
}

}  // namespace

void scan_product_gradients(const ScanCall& call) {
  visit_float(call.dtype, [&]<class T>() {
    if (call.op == ScanOp::prod_backward) return run_prod_backward<T>(call);
    run_prod_double_backward<T>(call);
  });
}

}  // namespace extensor::cpu
