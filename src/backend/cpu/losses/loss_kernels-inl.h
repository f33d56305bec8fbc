// Compiles losses.def to SIMD loops over float or double.
#if defined(EXTENSOR_LOSS_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_LOSS_KERNELS_INL_H_
#undef EXTENSOR_LOSS_KERNELS_INL_H_
#else
#define EXTENSOR_LOSS_KERNELS_INL_H_
#endif

#include "backend/cpu/losses/kernels.h"
#include "backend/cpu/rows/row-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "backend/loss_call.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

#define EXTENSOR_WORD HWY_INLINE
#include "backend/loss_words.h"
#undef EXTENSOR_WORD

#define EXTENSOR_LOSS_EXPRESSION(function, expression)                                           \
  static HWY_INLINE V function([[maybe_unused]] V x, [[maybe_unused]] V y, [[maybe_unused]] V p, \
                               [[maybe_unused]] V q) {                                           \
    return expression;                                                                           \
  }
#define LOSS(name, forward, derivative_x, derivative_y) \
  template <class V>                                    \
  struct name##_loss_row {                              \
    EXTENSOR_LOSS_EXPRESSION(value, forward)            \
    EXTENSOR_LOSS_EXPRESSION(of_x, derivative_x)        \
    EXTENSOR_LOSS_EXPRESSION(of_y, derivative_y)        \
  };
#include "backend/losses.def"
#undef EXTENSOR_LOSS_EXPRESSION

// The loops of one loss.
template <class T, template <class> class Loss>
struct LossLoops : RowBase<T> {
  using typename RowBase<T>::D;
  using RowBase<T>::load;
  using RowBase<T>::store;
  using Expressions = Loss<Lanes<T>>;

  static void values(const T* x, const T* y, T* out, std::size_t n, const double* parameters) {
    const Lanes<T> p(parameters[0]), q(parameters[1]);
    for (std::size_t i = 0; i < n; i += hn::Lanes(D())) {
      const Lanes<T> value =
          Expressions::value(load(x + i, n - i, T(0)), load(y + i, n - i, T(0)), p, q);
      store(value.v, out + i, n - i);
    }
  }

  struct Term {
    const T* x;
    const T* y;
    Lanes<T> p, q;
    HWY_INLINE hn::Vec<D> operator()(std::size_t i, std::size_t count) const {
      const D d;
      const Lanes<T> value =
          Expressions::value(load(x + i, count, T(0)), load(y + i, count, T(0)), p, q);
      if (count >= hn::Lanes(d)) return value.v;
      return hn::IfThenElseZero(hn::FirstN(d, count), value.v);
    }
  };
  static double sum(const T* x, const T* y, std::size_t n, const double* parameters) {
    return RowBase<T>::sum(n, Term{x, y, Lanes<T>(parameters[0]), Lanes<T>(parameters[1])});
  }

  template <bool of_x>
  static void gradient(const T* x, const T* y, const T* g, std::size_t g_step, T* out,
                       std::size_t n, const double* parameters) {
    const D d;
    const Lanes<T> p(parameters[0]), q(parameters[1]);
    const Lanes<T> one_g(g[0]);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      const Lanes<T> factor = g_step == 0 ? one_g : Lanes<T>(load(g + i, n - i, T(0)));
      const Lanes<T> a = load(x + i, n - i, T(0)), b = load(y + i, n - i, T(0));
      Lanes<T> slope;
      if constexpr (of_x) {
        slope = Expressions::of_x(a, b, p, q);
      } else {
        slope = Expressions::of_y(a, b, p, q);
      }
      store((factor * slope).v, out + i, n - i);
    }
  }
};

template <class T>
struct UnitInterval : RowBase<T> {
  using typename RowBase<T>::D;
  using typename RowBase<T>::V;
  using RowBase<T>::load;

  static HWY_INLINE auto outside(V v) {
    return hn::Or(hn::Lt(v, hn::Zero(D())), hn::Gt(v, hn::Set(D(), T(1))));
  }
  static bool is_outside(const T* x, const T* y, std::size_t n) {
    const D d;
    auto found = hn::FirstN(d, 0);
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
      found = hn::Or(found,
                     hn::Or(outside(load(x + i, n - i, T(0))), outside(load(y + i, n - i, T(0)))));
    }
    return !hn::AllFalse(d, found);
  }
};

template <class T>
const LossKernels<T>* make_loss_kernels() {
  static const LossKernels<T> kernels[] = {
#define LOSS(name, ...)                                                         \
  {&LossLoops<T, name##_loss_row>::values, &LossLoops<T, name##_loss_row>::sum, \
   &LossLoops<T, name##_loss_row>::template gradient<true>,                     \
   &LossLoops<T, name##_loss_row>::template gradient<false>, &UnitInterval<T>::is_outside},
#include "backend/losses.def"
  };
  return kernels;
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_LOSS_KERNELS_INL_H_
