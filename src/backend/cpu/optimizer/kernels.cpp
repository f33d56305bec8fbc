#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/optimizer/kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include <cmath>

#include "backend/cpu/optimizer/kernels.h"
#include "backend/cpu/simd/partial-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Optimizer {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Coefficients = backend::OptimizerCoefficients;

  static HWY_INLINE V set(double value) { return hn::Set(D(), static_cast<T>(value)); }

  // Runs step(p, g, states) on every vector, which gives the new p and changes the states.
  template <int state_count, class Step>
  struct OneVector {
    T* param;
    const T* grad;
    T* const* states;
    V sign, decay;
    bool decays;
    const Step& step;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const D d;
      const V p = LoadFirst(d, param + i, count);
      V g = hn::Mul(LoadFirst(d, grad + i, count), sign);
      if (decays) g = hn::MulAdd(p, decay, g);
      V state[state_count == 0 ? 1 : state_count];
      for (int k = 0; k < state_count; ++k) state[k] = LoadFirst(d, states[k] + i, count);
      StoreFirst(step(p, g, state), d, param + i, count);
      for (int k = 0; k < state_count; ++k) StoreFirst(state[k], d, states[k] + i, count);
    }
  };
  template <int state_count, class Step>
  static HWY_INLINE void run(T* param, const T* grad, T* const* states, std::size_t n,
                             const Coefficients& c, const Step& step) {
    T* pointers[3] = {};  // a copy that no store can change
    for (int k = 0; k < state_count; ++k) pointers[k] = states[k];
    const OneVector<state_count, Step> body{
        param, grad, pointers, set(c.maximize ? -1 : 1), set(c.decay), c.decay != 0, step};
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) body(i, lanes);
    if (i < n) body(i, n - i);
  }

  // ---- SGD
  // ---------------------------------------------------------------------------------------

  struct PlainSgd {
    V rate;
    HWY_INLINE V operator()(V p, V g, V*) const { return hn::NegMulAdd(g, rate, p); }
  };
  template <bool first, bool nesterov>
  struct Sgd {
    V rate, momentum, gain;
    HWY_INLINE V operator()(V p, V g, V* state) const {
      state[0] = first ? g : hn::MulAdd(state[0], momentum, hn::Mul(g, gain));
      const V direction = nesterov ? hn::MulAdd(state[0], momentum, g) : state[0];
      return hn::NegMulAdd(direction, rate, p);
    }
  };
  template <bool first, bool nesterov>
  static HWY_INLINE void sgd_with_momentum(T* param, const T* grad, T* const* states, std::size_t n,
                                           const Coefficients& c) {
    run<1>(param, grad, states, n, c,
           Sgd<first, nesterov>{set(c.rate), set(c.momentum), set(c.gain)});
  }
  static void sgd(T* param, const T* grad, T* const* states, std::size_t n, const Coefficients& c) {
    if (c.momentum == 0) return run<0>(param, grad, states, n, c, PlainSgd{set(c.rate)});
    if (c.first && c.nesterov) return sgd_with_momentum<true, true>(param, grad, states, n, c);
    if (c.first) return sgd_with_momentum<true, false>(param, grad, states, n, c);
    if (c.nesterov) return sgd_with_momentum<false, true>(param, grad, states, n, c);
    return sgd_with_momentum<false, false>(param, grad, states, n, c);
  }

  // ---- Adam
  // --------------------------------------------------------------------------------------

  // a + weight · (b − a)
  static HWY_INLINE V blend(V a, V b, V weight) { return hn::MulAdd(hn::Sub(b, a), weight, a); }
  static HWY_INLINE V average_of_squares(V average, V g, V beta, V rest) {
    return hn::MulAdd(average, beta, hn::Mul(hn::Mul(g, g), rest));
  }
  // NaN in either operand gives NaN.
  static HWY_INLINE V maximum(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }

  template <bool amsgrad>
  struct Adam {
    V rate, keep, rest1, beta2, rest2, correction, eps;
    HWY_INLINE V operator()(V p, V g, V* state) const {
      state[0] = blend(state[0], g, rest1);
      state[1] = average_of_squares(state[1], g, beta2, rest2);
      if constexpr (amsgrad) state[2] = maximum(state[2], state[1]);
      const V denominator = hn::MulAdd(hn::Sqrt(state[amsgrad ? 2 : 1]), correction, eps);
      return hn::NegMulAdd(hn::Div(state[0], denominator), rate, hn::Mul(p, keep));
    }
  };
  static void adam(T* param, const T* grad, T* const* states, std::size_t n,
                   const Coefficients& c) {
    const V rate = set(c.rate), keep = set(c.keep), rest1 = set(1 - c.beta1), beta2 = set(c.beta2);
    const V rest2 = set(1 - c.beta2), correction = set(c.correction), eps = set(c.eps);
    if (c.third) {
      return run<3>(param, grad, states, n, c,
                    Adam<true>{rate, keep, rest1, beta2, rest2, correction, eps});
    }
    run<2>(param, grad, states, n, c,
           Adam<false>{rate, keep, rest1, beta2, rest2, correction, eps});
  }

  // ---- RMSprop
  // -----------------------------------------------------------------------------------

  // States: the average of squares, then the momentum, then the average, as far as they are there.
  template <bool with_momentum, bool centered>
  struct Rmsprop {
    V rate, momentum, beta, rest, eps;
    HWY_INLINE V operator()(V p, V g, V* state) const {
      state[0] = average_of_squares(state[0], g, beta, rest);
      V square = state[0];
      if constexpr (centered) {
        V& average = state[with_momentum ? 2 : 1];
        average = blend(average, g, rest);
        square = hn::NegMulAdd(average, average, square);
      }
      const V direction = hn::Div(g, hn::Add(hn::Sqrt(square), eps));
      if constexpr (!with_momentum) {
        return hn::NegMulAdd(direction, rate, p);
      } else {
        state[1] = hn::MulAdd(state[1], momentum, direction);
        return hn::NegMulAdd(state[1], rate, p);
      }
    }
  };
  template <bool with_momentum, bool centered>
  static HWY_INLINE void rmsprop_with(T* param, const T* grad, T* const* states, std::size_t n,
                                      const Coefficients& c) {
    T* present[3] = {states[0], with_momentum ? states[1] : states[2], states[2]};
    run<1 + with_momentum + centered>(
        param, grad, present, n, c,
        Rmsprop<with_momentum, centered>{set(c.rate), set(c.momentum), set(c.beta2),
                                         set(1 - c.beta2), set(c.eps)});
  }
  static void rmsprop(T* param, const T* grad, T* const* states, std::size_t n,
                      const Coefficients& c) {
    if (c.momentum != 0 && c.third) return rmsprop_with<true, true>(param, grad, states, n, c);
    if (c.momentum != 0) return rmsprop_with<true, false>(param, grad, states, n, c);
    if (c.third) return rmsprop_with<false, true>(param, grad, states, n, c);
    return rmsprop_with<false, false>(param, grad, states, n, c);
  }

  // ---- Adagrad
  // -----------------------------------------------------------------------------------

  struct Adagrad {
    V rate, eps;
    HWY_INLINE V operator()(V p, V g, V* state) const {
      state[0] = hn::MulAdd(g, g, state[0]);
      return hn::NegMulAdd(hn::Div(g, hn::Add(hn::Sqrt(state[0]), eps)), rate, p);
    }
  };
  static void adagrad(T* param, const T* grad, T* const* states, std::size_t n,
                      const Coefficients& c) {
    run<1>(param, grad, states, n, c, Adagrad{set(c.rate), set(c.eps)});
  }

  // ---- Lion
  // --------------------------------------------------------------------------------------

  struct Lion {
    V rate, keep, rest1, rest2;
    HWY_INLINE V operator()(V p, V g, V* state) const {
      const V direction = blend(state[0], g, rest1);
      state[0] = blend(state[0], g, rest2);
      // 0 and NaN have no sign and stay what they are.
      const V one = hn::CopySignToAbs(set(1), direction);
      const V sign = hn::IfThenElse(hn::Gt(hn::Abs(direction), hn::Zero(D())), one, direction);
      return hn::NegMulAdd(sign, rate, hn::Mul(p, keep));
    }
  };
  static void lion(T* param, const T* grad, T* const* states, std::size_t n,
                   const Coefficients& c) {
    run<1>(param, grad, states, n, c,
           Lion{set(c.rate), set(c.keep), set(1 - c.beta1), set(1 - c.beta2)});
  }

  // ---- the average of something over time
  // --------------------------------------------------------------------------------------

  struct OneAverage {
    const T* x;
    T* average;
    V rate;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const D d;
      const V before = LoadFirst(d, average + i, count);
      StoreFirst(blend(before, LoadFirst(d, x + i, count), rate), d, average + i, count);
    }
  };
  static void average(T*, const T* x, T* const* states, std::size_t n, const Coefficients& c) {
    const OneAverage body{x, states[0], set(c.rate)};
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) body(i, lanes);
    if (i < n) body(i, n - i);
  }
};

// ---- the size of a gradient
// ------------------------------------------------------------------------

// In double, where no square of a float overflows; eight chains, folded by pairs.
template <class T, class Term>
HWY_INLINE double sum_in_double(const T* x, std::size_t n, const Term& term) {
  double chains[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) chains[k] += term(static_cast<double>(x[i + k]));
  }
  for (std::size_t k = 0; i < n; ++i, ++k) chains[k] += term(static_cast<double>(x[i]));
  for (std::size_t width = 4; width >= 1; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) chains[k] += chains[k + width];
  }
  return chains[0];
}
struct Magnitude {
  HWY_INLINE double operator()(double x) const { return std::fabs(x); }
};
struct Square {
  HWY_INLINE double operator()(double x) const { return x * x; }
};
template <class T>
double sum_of_magnitudes(const T* x, std::size_t n) {
  return sum_in_double(x, n, Magnitude());
}
template <class T>
double sum_of_squares(const T* x, std::size_t n) {
  return sum_in_double(x, n, Square());
}
template <class T>
double largest_magnitude(const T* x, std::size_t n) {
  T largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const T magnitude = std::fabs(x[i]);
    largest = magnitude > largest || magnitude != magnitude ? magnitude : largest;
    if (largest != largest) break;
  }
  return static_cast<double>(largest);
}

template <class T>
void fill_optimizer_kernels(OptimizerKernels<T>* kernels) {
  using O = Optimizer<T>;
  *kernels = {&O::sgd,
              &O::adam,
              &O::rmsprop,
              &O::adagrad,
              &O::lion,
              &O::average,
              &sum_of_magnitudes<T>,
              &sum_of_squares<T>,
              &largest_magnitude<T>};
}
template void fill_optimizer_kernels(OptimizerKernels<float>*);
template void fill_optimizer_kernels(OptimizerKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const OptimizerKernels<T>& optimizer_kernels() {
  static const OptimizerKernels<T> kernels = [] {
    OptimizerKernels<T> filled;
    EXTENSOR_DISPATCH(fill_optimizer_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const OptimizerKernels<float>& optimizer_kernels();
template const OptimizerKernels<double>& optimizer_kernels();

}  // namespace extensor::cpu
#endif
