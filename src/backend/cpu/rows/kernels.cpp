#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rows/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <cmath>

#include "backend/cpu/rows/kernels.h"
#include "backend/cpu/rows/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

// Rows of at least this length leave the first-level cache before they are written.
constexpr std::size_t shortest_long_row = std::size_t{16} << 10;

template <class T>
struct Row : RowBase<T> {
  using typename RowBase<T>::D;
  using typename RowBase<T>::V;
  using RowBase<T>::load;
  using RowBase<T>::store;
  using RowBase<T>::sum;
  using RowBase<T>::maximum;
  using RowBase<T>::sum_of_exp;
  using RowBase<T>::for_each_vector;

  static void softmax(const T* x, T* out, std::size_t n) {
    const double total = sum_of_exp(x, maximum(x, n), out, n);
    const V scale = hn::Set(D(), static_cast<T>(1 / total));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::Mul(load(out + i, count, T(0)), scale), out + i, count);
    });
  }

  static void log_softmax(const T* x, T* out, std::size_t n) {
    const D d;
    const T m = maximum(x, n);
    const V largest = hn::Set(d, m);
    const V log_total = hn::Set(d, static_cast<T>(std::log(sum_of_exp(x, m, nullptr, n))));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::Sub(hn::Sub(load(x + i, count, T(0)), largest), log_total), out + i, count);
    });
  }

  static T logsumexp(const T* x, std::size_t n) {
    const T m = maximum(x, n);
    if (std::isinf(m)) {  // ∞ − ∞ would be NaN; a NaN in the row stays NaN
      for (std::size_t i = 0; i < n; ++i) {
        if (x[i] != x[i]) return x[i];
      }
      return m;
    }
    return static_cast<T>(static_cast<double>(m) + std::log(sum_of_exp(x, m, nullptr, n)));
  }

  struct Product {
    const T* a;
    const T* b;
    const T* out;  // the destination, prefetched meanwhile; or null
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      if (out != nullptr) RowBase<T>::template prefetch<1>(out, i);
      return hn::Mul(load(a + i, count, T(0)), load(b + i, count, T(0)));
    }
  };
  struct Value {
    const T* a;
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      return load(a + i, count, T(0));
    }
  };

  static void softmax_backward(const T* g, const T* y, T* out, std::size_t n) {
    const bool is_long = n * sizeof(T) >= shortest_long_row;
    // In two parts: g − Σ g·y cancels, and would magnify the rounding error of the sum.
    const double total = sum(n, Product{g, y, is_long ? out : nullptr});
    const V inner = hn::Set(D(), static_cast<T>(total));
    const V rest = hn::Set(D(), static_cast<T>(total - static_cast<double>(static_cast<T>(total))));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const V gradient = load(g + i, count, T(0));
      const V difference = hn::Sub(hn::Sub(gradient, inner), rest);
      store(hn::Mul(load(y + i, count, T(0)), difference), out + i, count);
    });
  }

  static void log_softmax_backward(const T* g, const T* y, T* out, std::size_t n) {
    const D d;
    const V total = hn::Set(d, static_cast<T>(sum(n, Value{g})));
    for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
      const V probability = Exp(d, load(y + i, count, T(0)));
      store(hn::NegMulAdd(probability, total, load(g + i, count, T(0))), out + i, count);
    });
  }
};

template <class T>
void fill_row_kernels(RowKernels<T>* kernels) {
  *kernels = {&Row<T>::softmax, &Row<T>::log_softmax, &Row<T>::logsumexp, &Row<T>::softmax_backward,
              &Row<T>::log_softmax_backward};
}
template void fill_row_kernels(RowKernels<float>*);
template void fill_row_kernels(RowKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const RowKernels<T>& row_kernels() {
  static const RowKernels<T> kernels = [] {
    RowKernels<T> filled;
    EXTENSOR_DISPATCH(fill_row_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const RowKernels<float>& row_kernels();
template const RowKernels<double>& row_kernels();

}  // namespace extensor::cpu
#endif
