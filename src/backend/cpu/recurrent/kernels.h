// One step of a recurrent cell for n hidden units of one sample, on dense float or double. The
// gates of a sample are `hidden` elements apart.
#pragma once

#include <cstddef>

namespace extensor::cpu {

template <class T>
struct RecurrentKernels {
  // `gates` holds the gates before their activations, and receives the gates.
  void (*tanh)(const T* gate, T* h, std::size_t n);
  void (*relu)(const T* gate, T* h, std::size_t n);
  void (*lstm)(T* gates, std::size_t hidden, const T* c_before, T* c, T* h, std::size_t n);
  // `recurrent` is the state's part of the new gate.
  void (*gru)(T* gates, std::size_t hidden, const T* recurrent, const T* h_before, T* h,
              std::size_t n);

  // grad_h is the gradient from later steps, to which grad_output is added.
  void (*tanh_backward)(const T* h, const T* grad_output, const T* grad_h, T* grad_gate,
                        std::size_t n);
  void (*relu_backward)(const T* h, const T* grad_output, const T* grad_h, T* grad_gate,
                        std::size_t n);
  // grad_c is replaced by that of the step before.
  void (*lstm_backward)(const T* gates, std::size_t hidden, const T* c_before, const T* c,
                        const T* grad_output, const T* grad_h, T* grad_c, T* grad_gates,
                        std::size_t n);
  // grad_h is replaced by that of the step before, without the part that comes through the gates.
  void (*gru_backward)(const T* gates, std::size_t hidden, const T* recurrent, const T* h_before,
                       const T* grad_output, T* grad_h, T* grad_gates, T* grad_recurrent_gates,
                       std::size_t n);
};

template <class T>
const RecurrentKernels<T>& recurrent_kernels();

}  // namespace extensor::cpu
