#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/losses/class_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "backend/cpu/losses/kernels.h"
#include "backend/cpu/rows/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

template <class T>
struct ClassRow : RowBase<T> {
  using typename RowBase<T>::D;
  using typename RowBase<T>::V;
  using RowBase<T>::load;
  using RowBase<T>::store;

  // A ClassSpread's vectors; 0 beyond the row's end.
  struct Spread {
    const ClassSpread<T>& spread;
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      const D d;
      V part = hn::Set(d, spread.share);
      if (spread.probabilities != nullptr) {
        part =
            hn::MulAdd(load(spread.probabilities + i, count, T(0)), hn::Set(d, spread.kept), part);
      }
      if (spread.weight != nullptr) part = hn::Mul(part, load(spread.weight + i, count, T(0)));
      return count >= hn::Lanes(d) ? part : hn::IfThenElseZero(hn::FirstN(d, count), part);
    }
  };
  // Spread · (m − x); a class that takes no part adds nothing, though its logit be −∞.
  struct Gap {
    Spread spread;
    const T* x;
    V m;
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      const V part = spread(i, count);
      const V gap = hn::Mul(part, hn::Sub(m, load(x + i, count, T(0))));
      return hn::IfThenZeroElse(hn::Eq(part, hn::Zero(D())), gap);
    }
  };
  static SpreadSums spread_sums(const T* x, T m, const ClassSpread<T>& spread, std::size_t n) {
    return {RowBase<T>::sum(n, Gap{{spread}, x, hn::Set(D(), m)}),
            RowBase<T>::sum(n, Spread{spread})};
  }

  static void scale(T* exponentials, T scale, std::size_t n) {
    const D d;
    const V factor = hn::Set(d, scale);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      store(hn::Mul(load(exponentials + i, n - i, T(0)), factor), exponentials + i, n - i);
    }
  }

  static void scale_minus_spread(T* exponentials, T scale, const ClassSpread<T>& spread, T factor,
                                 std::size_t n) {
    const D d;
    const Spread target{spread};
    const V softmax_factor = hn::Set(d, scale), target_factor = hn::Set(d, factor);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      const V probability = hn::Mul(load(exponentials + i, n - i, T(0)), softmax_factor);
      store(hn::NegMulAdd(target(i, n - i), target_factor, probability), exponentials + i, n - i);
    }
  }

  static void gradient_of_target(const T* x, T m, T log_sum, const T* weight, T factor, T* out,
                                 std::size_t n) {
    const D d;
    const V largest = hn::Set(d, m), logarithm = hn::Set(d, log_sum), scale = hn::Set(d, factor);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      V value = hn::Add(hn::Sub(largest, load(x + i, n - i, T(0))), logarithm);
      if (weight != nullptr) value = hn::Mul(value, load(weight + i, n - i, T(0)));
      store(hn::Mul(value, scale), out + i, n - i);
    }
  }
};

template <class T>
void fill_class_kernels(ClassKernels<T>* kernels) {
  using Row = ClassRow<T>;
  *kernels = {&Row::maximum, &Row::sum_of_exp,         &Row::spread_sums,
              &Row::scale,   &Row::scale_minus_spread, &Row::gradient_of_target};
}
template void fill_class_kernels(ClassKernels<float>*);
template void fill_class_kernels(ClassKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/simd/dispatch_table.h"

namespace extensor::cpu {

template <class T>
const ClassKernels<T>& class_kernels() {
  static const ClassKernels<T> kernels = [] {
    ClassKernels<T> filled;
    EXTENSOR_DISPATCH(fill_class_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const ClassKernels<float>& class_kernels();
template const ClassKernels<double>& class_kernels();

}  // namespace extensor::cpu
#endif
