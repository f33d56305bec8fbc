// Cumulative sums and products along an axis: float32 and halves in float64, float64 sums with a
// compensation for rounding errors, each result rounded once.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/width.h"
#include "core/convert.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace extensor::cpu {

namespace {

using backend::ScanCall;
using backend::ScanOp;

constexpr std::int64_t columns_together = 32;

// The sum so far and the accumulated rounding errors.
struct ExactSum {
  double sum = 0, lost = 0;
  void add(double value) {
    const double next = sum + value;
    const double added = next - sum;
    lost += (sum - (next - added)) + (value - added);
    sum = next;
  }
  double get() const { return std::isfinite(sum) ? sum + lost : sum; }
};
struct WideSum {
  double sum = 0;
  void add(double value) { sum += value; }
  double get() const { return sum; }
};
struct IntegerSum {
  std::uint64_t sum = 0;
  void add(std::uint64_t value) { sum += value; }
  std::uint64_t get() const { return sum; }
};
template <class Number>
struct Product {
  Number product = 1;
  void add(Number value) { product *= value; }
  Number get() const { return product; }
};

template <class T>
using WideOf = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

// Calls body(first element, columns, slot) for every block of neighbouring columns.
template <class Body>
void for_each_block(const ScanCall& call, int threads, std::int64_t grain, Body&& body) {
  const std::int64_t blocks = (call.inner + columns_together - 1) / columns_together;
  detail::parallel_for(threads, call.outer * blocks, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         for (std::int64_t unit = begin; unit < end; ++unit) {
                           const std::int64_t column = unit % blocks * columns_together;
                           body(unit / blocks * call.length * call.inner + column,
                                std::min(columns_together, call.inner - column), slot);
                         }
                       });
}

std::int64_t block_count(const ScanCall& call) {
  return call.outer * ((call.inner + columns_together - 1) / columns_together);
}
std::int64_t block_grain(const ScanCall& call) {
  return std::max<std::int64_t>(1, 8192 / (call.length * std::min(call.inner, columns_together)));
}

template <class T, class Accumulator>
void run(const ScanCall& call) {
  const T* x = reinterpret_cast<const T*>(call.x);
  T* out = reinterpret_cast<T*>(call.out);
  const std::int64_t step = call.reverse ? -call.inner : call.inner;
  const std::int64_t start = call.reverse ? (call.length - 1) * call.inner : 0;
  const std::int64_t grain = block_grain(call);
  for_each_block(call, detail::threads_for(block_count(call), grain), grain,
                 [&](std::int64_t first, std::int64_t columns, int) {
                   std::int64_t at = first + start;
                   if (columns == 1) {  // the total stays in a register
                     Accumulator total;
                     for (std::int64_t k = 0; k < call.length; ++k, at += step) {
                       total.add(detail::convert<WideOf<T>>(x[at]));
                       out[at] = detail::convert<T>(total.get());
                     }
                     return;
                   }
                   Accumulator totals[columns_together];
                   for (std::int64_t k = 0; k < call.length; ++k, at += step) {
                     for (std::int64_t i = 0; i < columns; ++i) {
                       totals[i].add(detail::convert<WideOf<T>>(x[at + i]));
                       out[at + i] = detail::convert<T>(totals[i].get());
                     }
                   }
                 });
}

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

void scan(const ScanCall& call) {
  if (call.outer == 0 || call.length == 0 || call.inner == 0) return;
  visit_unsigned(call.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (sizeof(T) == 8) {
        if (call.op == ScanOp::sum) return run<T, IntegerSum>(call);
        return run<T, Product<std::uint64_t>>(call);
      }
    } else {
      using Sum = std::conditional_t<std::is_same_v<T, double>, ExactSum, WideSum>;
      if (call.op == ScanOp::sum) return run<T, Sum>(call);
      if (call.op == ScanOp::prod) return run<T, Product<double>>(call);
      if (call.op == ScanOp::prod_backward) return run_prod_backward<T>(call);
      return run_prod_double_backward<T>(call);
    }
  });
}

}  // namespace extensor::cpu
