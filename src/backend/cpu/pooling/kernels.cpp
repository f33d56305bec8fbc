#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/pooling/kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "backend/cpu/pooling/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Pooling {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  static bool is_better(T value, T best) { return value > best || value != value; }
  static HWY_INLINE hn::Mask<D> IsBetter(V value, V best) {
    return hn::Or(hn::Gt(value, best), hn::IsNaN(value));
  }
  static HWY_INLINE V Better(V value, V best) {
    return hn::IfThenElse(IsBetter(value, best), value, best);
  }

  static void take_larger(const T* row, T* line, std::size_t n) {
    const D d;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      hn::StoreU(Better(hn::LoadU(d, row + i), hn::LoadU(d, line + i)), d, line + i);
    }
    for (; i < n; ++i) {
      if (is_better(row[i], line[i])) line[i] = row[i];
    }
  }

  static void largest_of_pairs(const T* top, const T* bottom, T* out, std::size_t n) {
    std::size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    for (; j + lanes <= n; j += lanes) {
      const V low = Better(hn::LoadU(d, bottom + 2 * j), hn::LoadU(d, top + 2 * j));
      const V high =
          Better(hn::LoadU(d, bottom + 2 * j + lanes), hn::LoadU(d, top + 2 * j + lanes));
      hn::StoreU(Better(hn::ConcatOdd(d, high, low), hn::ConcatEven(d, high, low)), d, out + j);
    }
#endif
    for (; j < n; ++j) {
      T best = top[2 * j];
      for (T value : {top[2 * j + 1], bottom[2 * j], bottom[2 * j + 1]}) {
        if (is_better(value, best)) best = value;
      }
      out[j] = best;
    }
  }

  static void spread_over_pairs(const T* top, const T* bottom, const T* g, T* top_gradient,
                                T* bottom_gradient, std::size_t n) {
    std::size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    for (; j + lanes <= n; j += lanes) {
      const V top_low = hn::LoadU(d, top + 2 * j), top_high = hn::LoadU(d, top + 2 * j + lanes);
      const V bottom_low = hn::LoadU(d, bottom + 2 * j);
      const V bottom_high = hn::LoadU(d, bottom + 2 * j + lanes);
      const V first = hn::ConcatEven(d, top_high, top_low);
      const V second = hn::ConcatOdd(d, top_high, top_low);
      const V third = hn::ConcatEven(d, bottom_high, bottom_low);
      const V fourth = hn::ConcatOdd(d, bottom_high, bottom_low);
      const auto take_second = IsBetter(second, first);
      const V of_two = hn::IfThenElse(take_second, second, first);
      const auto take_third = IsBetter(third, of_two);
      const V of_three = hn::IfThenElse(take_third, third, of_two);
      const auto take_fourth = IsBetter(fourth, of_three);
      // Each later choice takes the gradient from the earlier ones.
      V rest = hn::LoadU(d, g + j);
      const V fourth_gradient = hn::IfThenElseZero(take_fourth, rest);
      rest = hn::IfThenZeroElse(take_fourth, rest);
      const V third_gradient = hn::IfThenElseZero(take_third, rest);
      rest = hn::IfThenZeroElse(take_third, rest);
      const V second_gradient = hn::IfThenElseZero(take_second, rest);
      rest = hn::IfThenZeroElse(take_second, rest);
      hn::StoreInterleaved2(rest, second_gradient, d, top_gradient + 2 * j);
      hn::StoreInterleaved2(third_gradient, fourth_gradient, d, bottom_gradient + 2 * j);
    }
#endif
    for (; j < n; ++j) {
      const T values[4] = {top[2 * j], top[2 * j + 1], bottom[2 * j], bottom[2 * j + 1]};
      int at = 0;
      for (int i = 1; i < 4; ++i) {
        if (is_better(values[i], values[at])) at = i;
      }
      for (int i = 0; i < 2; ++i) {
        top_gradient[2 * j + static_cast<std::size_t>(i)] = at == i ? g[j] : T(0);
        bottom_gradient[2 * j + static_cast<std::size_t>(i)] = at == i + 2 ? g[j] : T(0);
      }
    }
  }
};

template <class T>
void fill_pooling_kernels(PoolingKernels<T>* kernels) {
  *kernels = {&Pooling<T>::take_larger, &Pooling<T>::largest_of_pairs,
              &Pooling<T>::spread_over_pairs};
}
template void fill_pooling_kernels(PoolingKernels<float>*);
template void fill_pooling_kernels(PoolingKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/simd/dispatch_table.h"

namespace extensor::cpu {

template <class T>
const PoolingKernels<T>& pooling_kernels() {
  static const PoolingKernels<T> kernels = [] {
    PoolingKernels<T> filled;
    EXTENSOR_DISPATCH(fill_pooling_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const PoolingKernels<float>& pooling_kernels();
template const PoolingKernels<double>& pooling_kernels();

}  // namespace extensor::cpu
#endif
