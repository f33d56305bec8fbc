#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/losses/class_kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
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

  // A ClassSpread's vectors; 0 past the row's end.
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
  // Spread · (m − x); a class with a spread of 0 adds nothing, even if its logit is −∞.
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

  // e^x for x ≤ 0. For float it is 2^n 2^f with a polynomial accurate to 1.5 ULP: this function
  // determines the speed of a row, and sums of many terms or differences of two gain nothing from
  // more.
  static HWY_INLINE V exp_of_negative(V x) {
    const D d;
    if constexpr (kIsFloat<D> && kHasFma) {
      const V bounded = MaxKeepingNaN(d, x, -104.0f);  // below, e^x is 0
      const V log2_e = hn::Set(d, 1.44269502f);
      const V n = hn::Round(hn::Mul(bounded, log2_e));
      const V f = hn::MulAdd(bounded, hn::Set(d, 1.92596303e-08f), hn::MulSub(bounded, log2_e, n));
      V value = hn::Set(d, 0.00132647273f);
      for (float c : {0.00967151299f, 0.0555073358f, 0.240222424f, 0.693147004f, 1.0f}) {
        value = hn::MulAdd(value, f, hn::Set(d, c));
      }
      return ScaleByPowerOfTwo(d, value, n);
    } else {
      return Exp(d, x);
    }
  }
  static HWY_INLINE V shifted_exp(const T* x, V m, std::size_t count) {
    return exp_of_negative(hn::Sub(load(x, count, -std::numeric_limits<T>::infinity()), m));
  }
  struct Exponential {
    const T* x;
    V m;
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      const D d;
      const V e = shifted_exp(x + i, m, count);
      return count >= hn::Lanes(d) ? e : hn::IfThenElseZero(hn::FirstN(d, count), e);
    }
  };

  // Reads each element once: earlier sums are scaled down if a block has a new maximum.
  static void add_exponentials(const T* x, std::size_t n, SumOfExp<T>& sum) {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    SumOfExp<T> result = sum;
    for (std::size_t begin = 0; begin < n; begin += sum_block) {
      const std::size_t count = std::min(sum_block, n - begin);
      const T largest = RowBase<T>::maximum(x + begin, count);
      if (largest > result.m) {
        if (result.sum != 0) {
          result.sum *= std::exp(static_cast<double>(result.m) - static_cast<double>(largest));
        }
        result.m = largest;
      }
      // Only −∞ so far, or NaN, which shows in the sum.
      const V m = hn::Set(D(), result.m == lowest ? T(0) : result.m);
      result.sum += RowBase<T>::sum(count, Exponential{x + begin, m});
    }
    sum = result;
  }

  static void scaled_exp(const T* x, T m, T scale, T* out, std::size_t n) {
    const D d;
    const V largest = hn::Set(d, m), factor = hn::Set(d, scale);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      store(hn::Mul(shifted_exp(x + i, largest, n - i), factor), out + i, n - i);
    }
  }

  static void scaled_exp_minus_spread(const T* x, T m, T scale, const ClassSpread<T>& spread,
                                      T factor, T* out, std::size_t n) {
    const D d;
    const Spread target{spread};
    const V largest = hn::Set(d, m);
    const V softmax_factor = hn::Set(d, scale), target_factor = hn::Set(d, factor);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      const V probability = hn::Mul(shifted_exp(x + i, largest, n - i), softmax_factor);
      store(hn::NegMulAdd(target(i, n - i), target_factor, probability), out + i, n - i);
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

  // ---- rows side by side, with one lane each

  // NaN may be lost here; the exponentials restore it.
  static HWY_INLINE V largest_of_column(const ClassColumns<T>& columns, std::size_t i) {
    const std::size_t left = columns.n - i;
    V m = load(columns.x + i, left, T(0));
    for (std::size_t c = 1; c < columns.classes; ++c) {
      m = hn::Max(m, load(columns.x + c * columns.stride + i, left, T(0)));
    }
    return m;
  }

  static void column_losses(const ClassColumns<T>& columns, T* m, T* others, T* loss) {
    const D d;
    const V one = hn::Set(d, T(1));
    for (std::size_t i = 0; i < columns.n; i += hn::Lanes(d)) {
      const std::size_t left = columns.n - i;
      const V named = load(columns.named + i, left, T(-1));
      const V largest = largest_of_column(columns, i);
      V named_logit = hn::Zero(d), named_power = hn::Zero(d), sum = hn::Zero(d);
      for (std::size_t c = 0; c < columns.classes; ++c) {
        const V x = load(columns.x + c * columns.stride + i, left, T(0));
        const V power = exp_of_negative(hn::Sub(x, largest));
        const auto is_named = hn::Eq(named, hn::Set(d, static_cast<T>(c)));
        named_logit = hn::IfThenElse(is_named, x, named_logit);
        named_power = hn::IfThenElse(is_named, power, named_power);
        sum = hn::Add(sum, hn::IfThenZeroElse(is_named, power));
      }
      store(largest, m + i, left);
      store(sum, others + i, left);
      // Unless the named class is the largest, one of the others is: its power is 1.
      const V beyond_one =
          hn::IfThenElse(hn::Eq(named_power, one), sum, hn::Add(hn::Sub(sum, one), named_power));
      store(hn::Add(hn::Sub(largest, named_logit), Log1p(d, beyond_one)), loss + i, left);
    }
  }

  static void column_gradients(const ClassColumns<T>& columns, const T* m, const T* others,
                               const T* factor, T* out) {
    const D d;
    for (std::size_t i = 0; i < columns.n; i += hn::Lanes(d)) {
      const std::size_t left = columns.n - i;
      const V named = load(columns.named + i, left, T(-1));
      const auto is_kept = hn::Ge(named, hn::Zero(d));
      const V largest = load(m + i, left, T(0)), rest = load(others + i, left, T(0));
      V named_logit = hn::Zero(d);
      for (std::size_t c = 0; c < columns.classes; ++c) {
        named_logit =
            hn::IfThenElse(hn::Eq(named, hn::Set(d, static_cast<T>(c))),
                           load(columns.x + c * columns.stride + i, left, T(0)), named_logit);
      }
      const V sum = hn::Add(exp_of_negative(hn::Sub(named_logit, largest)), rest);
      const V scale = hn::Div(load(factor + i, left, T(0)), sum);
      // softmax − 1, computed from the other classes.
      const V of_named = hn::Neg(hn::Mul(scale, rest));
      for (std::size_t c = 0; c < columns.classes; ++c) {
        const V x = load(columns.x + c * columns.stride + i, left, T(0));
        const V softmax = hn::Mul(exp_of_negative(hn::Sub(x, largest)), scale);
        const V gradient =
            hn::IfThenElse(hn::Eq(named, hn::Set(d, static_cast<T>(c))), of_named, softmax);
        store(hn::IfThenElseZero(is_kept, gradient), out + c * columns.stride + i, left);
      }
    }
  }
};

template <class T>
void fill_class_kernels(ClassKernels<T>* kernels) {
  using Row = ClassRow<T>;
  *kernels = {&Row::add_exponentials,        &Row::spread_sums,        &Row::scaled_exp,
              &Row::scaled_exp_minus_spread, &Row::gradient_of_target, &Row::column_losses,
              &Row::column_gradients};
}
template void fill_class_kernels(ClassKernels<float>*);
template void fill_class_kernels(ClassKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

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
