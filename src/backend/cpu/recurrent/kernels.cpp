#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/recurrent/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/recurrent/kernels.h"
#include "backend/cpu/simd/math_activation-inl.h"
#include "backend/cpu/simd/math_hyperbolic-inl.h"
#include "backend/cpu/simd/partial-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Recurrent {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  static HWY_INLINE V load(const T* from, std::size_t count) { return LoadFirst(D(), from, count); }
  static HWY_INLINE void store(V v, T* to, std::size_t count) { StoreFirst(v, D(), to, count); }
  static HWY_INLINE V one() { return hn::Set(D(), T(1)); }
  // The derivatives of the activations, computed from their results.
  static HWY_INLINE V sigmoid_slope(V y) { return hn::NegMulAdd(y, y, y); }
  static HWY_INLINE V tanh_slope(V y) { return hn::NegMulAdd(y, y, one()); }

  template <class Body>
  static HWY_INLINE void for_vectors(std::size_t n, const Body& body) {
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) body(i, lanes);
    if (i < n) body(i, n - i);
  }

  // ---- forward

  struct TanhForward {
    const T* gate;
    T* h;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      store(Tanh(D(), load(gate + i, count)), h + i, count);
    }
  };
  static void tanh(const T* gate, T* h, std::size_t n) { for_vectors(n, TanhForward{gate, h}); }

  struct Relu {
    const T* gate;
    T* h;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      store(MaxKeepingNaN(D(), load(gate + i, count), T(0)), h + i, count);
    }
  };
  static void relu(const T* gate, T* h, std::size_t n) { for_vectors(n, Relu{gate, h}); }

  struct Lstm {
    T* gates;
    std::size_t hidden;
    const T* c_before;
    T *c, *h;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const D d;
      T* at = gates + i;
      const V input = Sigmoid(d, load(at, count));
      const V forget = Sigmoid(d, load(at + hidden, count));
      const V cell = Tanh(d, load(at + 2 * hidden, count));
      const V output = Sigmoid(d, load(at + 3 * hidden, count));
      const V state = hn::MulAdd(forget, load(c_before + i, count), hn::Mul(input, cell));
      store(input, at, count);
      store(forget, at + hidden, count);
      store(cell, at + 2 * hidden, count);
      store(output, at + 3 * hidden, count);
      store(state, c + i, count);
      store(hn::Mul(output, Tanh(d, state)), h + i, count);
    }
  };
  static void lstm(T* gates, std::size_t hidden, const T* c_before, T* c, T* h, std::size_t n) {
    for_vectors(n, Lstm{gates, hidden, c_before, c, h});
  }

  struct Gru {
    T* gates;
    std::size_t hidden;
    const T *recurrent, *h_before;
    T* h;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const D d;
      T* at = gates + i;
      const V reset = Sigmoid(d, load(at, count));
      const V update = Sigmoid(d, load(at + hidden, count));
      const V fresh =
          Tanh(d, hn::MulAdd(reset, load(recurrent + i, count), load(at + 2 * hidden, count)));
      store(reset, at, count);
      store(update, at + hidden, count);
      store(fresh, at + 2 * hidden, count);
      store(hn::MulAdd(update, hn::Sub(load(h_before + i, count), fresh), fresh), h + i, count);
    }
  };
  static void gru(T* gates, std::size_t hidden, const T* recurrent, const T* h_before, T* h,
                  std::size_t n) {
    for_vectors(n, Gru{gates, hidden, recurrent, h_before, h});
  }

  // ---- backward

  struct TanhBackward {
    const T *h, *grad_output, *grad_h;
    T* grad_gate;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const V g = hn::Add(load(grad_output + i, count), load(grad_h + i, count));
      store(hn::Mul(g, tanh_slope(load(h + i, count))), grad_gate + i, count);
    }
  };
  static void tanh_backward(const T* h, const T* grad_output, const T* grad_h, T* grad_gate,
                            std::size_t n) {
    for_vectors(n, TanhBackward{h, grad_output, grad_h, grad_gate});
  }

  struct ReluBackward {
    const T *h, *grad_output, *grad_h;
    T* grad_gate;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const V g = hn::Add(load(grad_output + i, count), load(grad_h + i, count));
      const auto open = hn::Gt(load(h + i, count), hn::Zero(D()));
      store(hn::IfThenElseZero(open, g), grad_gate + i, count);
    }
  };
  static void relu_backward(const T* h, const T* grad_output, const T* grad_h, T* grad_gate,
                            std::size_t n) {
    for_vectors(n, ReluBackward{h, grad_output, grad_h, grad_gate});
  }

  struct LstmBackward {
    const T* gates;
    std::size_t hidden;
    const T *c_before, *c, *grad_output, *grad_h;
    T *grad_c, *grad_gates;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const T* at = gates + i;
      const V input = load(at, count), forget = load(at + hidden, count);
      const V cell = load(at + 2 * hidden, count), output = load(at + 3 * hidden, count);
      const V g = hn::Add(load(grad_output + i, count), load(grad_h + i, count));
      const V seen = Tanh(D(), load(c + i, count));
      const V of_c = hn::MulAdd(hn::Mul(g, output), tanh_slope(seen), load(grad_c + i, count));
      T* to = grad_gates + i;
      store(hn::Mul(hn::Mul(of_c, cell), sigmoid_slope(input)), to, count);
      store(hn::Mul(hn::Mul(of_c, load(c_before + i, count)), sigmoid_slope(forget)), to + hidden,
            count);
      store(hn::Mul(hn::Mul(of_c, input), tanh_slope(cell)), to + 2 * hidden, count);
      store(hn::Mul(hn::Mul(g, seen), sigmoid_slope(output)), to + 3 * hidden, count);
      store(hn::Mul(of_c, forget), grad_c + i, count);
    }
  };
  static void lstm_backward(const T* gates, std::size_t hidden, const T* c_before, const T* c,
                            const T* grad_output, const T* grad_h, T* grad_c, T* grad_gates,
                            std::size_t n) {
    for_vectors(n,
                LstmBackward{gates, hidden, c_before, c, grad_output, grad_h, grad_c, grad_gates});
  }

  struct GruBackward {
    const T* gates;
    std::size_t hidden;
    const T *recurrent, *h_before, *grad_output;
    T *grad_h, *grad_gates, *grad_recurrent_gates;
    HWY_INLINE void operator()(std::size_t i, std::size_t count) const {
      const T* at = gates + i;
      const V reset = load(at, count), update = load(at + hidden, count);
      const V fresh = load(at + 2 * hidden, count);
      const V g = hn::Add(load(grad_output + i, count), load(grad_h + i, count));
      const V of_fresh = hn::Mul(hn::NegMulAdd(g, update, g), tanh_slope(fresh));
      const V of_update =
          hn::Mul(hn::Mul(g, hn::Sub(load(h_before + i, count), fresh)), sigmoid_slope(update));
      const V of_reset =
          hn::Mul(hn::Mul(of_fresh, load(recurrent + i, count)), sigmoid_slope(reset));
      T* to = grad_gates + i;
      store(of_reset, to, count);
      store(of_update, to + hidden, count);
      store(of_fresh, to + 2 * hidden, count);
      T* through_state = grad_recurrent_gates + i;
      store(of_reset, through_state, count);
      store(of_update, through_state + hidden, count);
      store(hn::Mul(of_fresh, reset), through_state + 2 * hidden, count);
      store(hn::Mul(g, update), grad_h + i, count);
    }
  };
  static void gru_backward(const T* gates, std::size_t hidden, const T* recurrent,
                           const T* h_before, const T* grad_output, T* grad_h, T* grad_gates,
                           T* grad_recurrent_gates, std::size_t n) {
    for_vectors(n, GruBackward{gates, hidden, recurrent, h_before, grad_output, grad_h, grad_gates,
                               grad_recurrent_gates});
  }
};

template <class T>
void fill_recurrent_kernels(RecurrentKernels<T>* kernels) {
  using R = Recurrent<T>;
  *kernels = {&R::tanh,          &R::relu,          &R::lstm,          &R::gru,
              &R::tanh_backward, &R::relu_backward, &R::lstm_backward, &R::gru_backward};
}
template void fill_recurrent_kernels(RecurrentKernels<float>*);
template void fill_recurrent_kernels(RecurrentKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const RecurrentKernels<T>& recurrent_kernels() {
  static const RecurrentKernels<T> kernels = [] {
    RecurrentKernels<T> filled;
    EXTENSOR_DISPATCH(fill_recurrent_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const RecurrentKernels<float>& recurrent_kernels();
template const RecurrentKernels<double>& recurrent_kernels();

}  // namespace extensor::cpu
#endif
