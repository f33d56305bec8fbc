// Cumulative sums and products along an axis: float32 and halves in float64, float64 sums with a
// compensation for rounding errors, each result rounded once.
#include <cmath>
#include <type_traits>

#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/indexing/scan_blocks.h"
#include "backend/cpu/width.h"
#include "core/convert.h"

namespace extensor::cpu {

namespace {

using backend::ScanCall;
using backend::ScanOp;

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

}  // namespace

void scan(const ScanCall& call) {
  if (call.outer == 0 || call.length == 0 || call.inner == 0) return;
  if (call.op == ScanOp::prod_backward || call.op == ScanOp::prod_double_backward) {
    return scan_product_gradients(call);
  }
  visit_unsigned(call.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (sizeof(T) == 8) {
        if (call.op == ScanOp::sum) return run<T, IntegerSum>(call);
        return run<T, Product<std::uint64_t>>(call);
      }
    } else {
      using Sum = std::conditional_t<std::is_same_v<T, double>, ExactSum, WideSum>;
      if (call.op == ScanOp::sum) return run<T, Sum>(call);
      return run<T, Product<double>>(call);
    }
  });
}

}  // namespace extensor::cpu
