// Recurrent layers: for every step the state's product with the weights, then one kernel that
// applies the cell to all units.
#include "backend/cuda/activations.cuh"
#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/product.h"

namespace extensor::backend::cuda {

namespace {

constexpr int cell_threads = 128;

// The derivatives of the activations, computed from their results.
template <class T>
__device__ __forceinline__ T sigmoid_slope(T y) {
  return y - y * y;
}
template <class T>
__device__ __forceinline__ T tanh_slope(T y) {
  return T(1) - y * y;
}

// One step. Unit i of [batch, hidden] has its gates at gates[row · gates · hidden + unit + …].
template <class T>
struct StepCall {
  RecurrentCell cell;
  std::int64_t batch, hidden;
  T* gates;
  const T* h_before;
  T* h;
  const T* c_before;  // LSTM
  T* c;               // LSTM; GRU: the state's part of the new gate
};

template <class T>
__global__ void __launch_bounds__(cell_threads) run_cell(const StepCall<T> call) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < call.batch * call.hidden; i += threads) {
    const std::int64_t row = i / call.hidden, unit = i % call.hidden, hidden = call.hidden;
    switch (call.cell) {
      case RecurrentCell::tanh:
        call.h[i] = tanh(call.gates[i]);
        break;
      case RecurrentCell::relu:
        call.h[i] = relu_of(call.gates[i]);
        break;
      case RecurrentCell::lstm: {
        T* gates = call.gates + row * 4 * hidden + unit;
        const T input = sigmoid_of(gates[0]), forget = sigmoid_of(gates[hidden]);
        const T fresh = tanh(gates[2 * hidden]), output = sigmoid_of(gates[3 * hidden]);
        const T state = forget * call.c_before[i] + input * fresh;
        gates[0] = input;
        gates[hidden] = forget;
        gates[2 * hidden] = fresh;
        gates[3 * hidden] = output;
        call.c[i] = state;
        call.h[i] = output * tanh(state);
        break;
      }
      case RecurrentCell::gru: {
        T* gates = call.gates + row * 3 * hidden + unit;
        const T reset = sigmoid_of(gates[0]), update = sigmoid_of(gates[hidden]);
        const T fresh = tanh(reset * call.c[i] + gates[2 * hidden]);
        gates[0] = reset;
        gates[hidden] = update;
        gates[2 * hidden] = fresh;
        call.h[i] = update * (call.h_before[i] - fresh) + fresh;
        break;
      }
    }
  }
}

template <class T>
struct StepBackwardCall {
  RecurrentCell cell;
  std::int64_t batch, hidden;
  const T *gates, *h_before, *h, *c_before, *c;  // as in StepCall
  const T* grad_output;
  T* grad_h;  // from later steps. GRU: replaced by that of the step before, but for the gates' part
  T* grad_c;  // LSTM: replaced by that of the step before
  T *grad_gates, *grad_recurrent_gates;
};

template <class T>
__global__ void __launch_bounds__(cell_threads) run_cell_backward(const StepBackwardCall<T> call) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < call.batch * call.hidden; i += threads) {
    const std::int64_t row = i / call.hidden, unit = i % call.hidden, hidden = call.hidden;
    const T g = call.grad_output[i] + call.grad_h[i];
    switch (call.cell) {
      case RecurrentCell::tanh:
        call.grad_gates[i] = g * tanh_slope(call.h[i]);
        break;
      case RecurrentCell::relu:
        call.grad_gates[i] = call.h[i] > T(0) ? g : T(0);
        break;
      case RecurrentCell::lstm: {
        const T* gates = call.gates + row * 4 * hidden + unit;
        const T input = gates[0], forget = gates[hidden];
        const T fresh = gates[2 * hidden], output = gates[3 * hidden];
        const T seen = tanh(call.c[i]);
        const T of_c = g * output * tanh_slope(seen) + call.grad_c[i];
        T* to = call.grad_gates + row * 4 * hidden + unit;
        to[0] = of_c * fresh * sigmoid_slope(input);
        to[hidden] = of_c * call.c_before[i] * sigmoid_slope(forget);
        to[2 * hidden] = of_c * input * tanh_slope(fresh);
        to[3 * hidden] = g * seen * sigmoid_slope(output);
        call.grad_c[i] = of_c * forget;
        break;
      }
      case RecurrentCell::gru: {
        const T* gates = call.gates + row * 3 * hidden + unit;
        const T reset = gates[0], update = gates[hidden], fresh = gates[2 * hidden];
        const T of_fresh = (g - g * update) * tanh_slope(fresh);
        const T of_update = g * (call.h_before[i] - fresh) * sigmoid_slope(update);
        const T of_reset = of_fresh * call.c[i] * sigmoid_slope(reset);
        T* to = call.grad_gates + row * 3 * hidden + unit;
        to[0] = of_reset;
        to[hidden] = of_update;
        to[2 * hidden] = of_fresh;
        T* through_state = call.grad_recurrent_gates + row * 3 * hidden + unit;
        through_state[0] = of_reset;
        through_state[hidden] = of_update;
        through_state[2 * hidden] = of_fresh * reset;
        call.grad_h[i] = g * update;
        break;
      }
    }
  }
}

template <class T>
class Layer {
 public:
  explicit Layer(const RecurrentCall& call)
      : call_(call),
        all_(gates_of(call.cell) * call.hidden),
        state_size_(call.batch * call.hidden),
        blocks_(blocks_for(state_size_, cell_threads)) {}

  void forward() const {
    for (std::int64_t step = 0; step < call_.steps; ++step) {
      const std::int64_t t = call_.reverse ? call_.steps - 1 - step : step;
      const bool is_gru = call_.cell == RecurrentCell::gru;
      // A GRU's reset gate multiplies only the state's part of the new gate, which is kept apart.
      const std::int64_t joint = is_gru ? 2 * call_.hidden : all_;
      add_state(t, 0, joint, call_.gates, t * call_.batch * all_, all_, true, nullptr);
      if (is_gru) {
        add_state(t, joint, call_.hidden, call_.cells, t * state_size_, call_.hidden, false,
                  call_.bias);
      }
      StepCall<T> cell{};
      cell.cell = call_.cell;
      cell.batch = call_.batch;
      cell.hidden = call_.hidden;
      cell.gates = gates(t);
      cell.h_before = at(call_.states, slot_before(t) * state_size_);
      cell.h = at(call_.states, slot_after(t) * state_size_);
      if (call_.cell == RecurrentCell::lstm) {
        cell.c_before = at(call_.cells, slot_before(t) * state_size_);
        cell.c = at(call_.cells, slot_after(t) * state_size_);
      } else if (is_gru) {
        cell.c = at(call_.cells, t * state_size_);
      }
      run_cell<<<blocks_, cell_threads, 0, stream()>>>(cell);
      launched("recurrent");
    }
  }

  void backward(const RecurrentBackwardCall& gradients) const {
    for (std::int64_t step = 0; step < call_.steps; ++step) {
      const std::int64_t t = call_.reverse ? step : call_.steps - 1 - step;
      const bool is_gru = call_.cell == RecurrentCell::gru;
      StepBackwardCall<T> cell{};
      cell.cell = call_.cell;
      cell.batch = call_.batch;
      cell.hidden = call_.hidden;
      if (call_.gates != nullptr) cell.gates = gates(t);
      cell.h_before = at(call_.states, slot_before(t) * state_size_);
      cell.h = at(call_.states, slot_after(t) * state_size_);
      if (call_.cell == RecurrentCell::lstm) {
        cell.c_before = at(call_.cells, slot_before(t) * state_size_);
        cell.c = at(call_.cells, slot_after(t) * state_size_);
        cell.grad_c = at(gradients.grad_cell, 0);
      } else if (is_gru) {
        cell.c = at(call_.cells, t * state_size_);
        cell.grad_recurrent_gates = at(gradients.grad_recurrent_gates, t * call_.batch * all_);
      }
      cell.grad_output = reinterpret_cast<const T*>(gradients.grad_output) + t * state_size_;
      cell.grad_h = at(gradients.grad_hidden, 0);
      cell.grad_gates = at(gradients.grad_gates, t * call_.batch * all_);
      run_cell_backward<<<blocks_, cell_threads, 0, stream()>>>(cell);
      launched("recurrent_backward");

      // The gradient that the gates of this step contribute to the state before it.
      Product product = step_product();
      product.n = call_.hidden;
      product.k = all_;
      product.a = {bytes(is_gru ? cell.grad_recurrent_gates : cell.grad_gates), all_, 1};
      product.b = {call_.weight, call_.hidden, 1};
      product.c = gradients.grad_hidden;
      product.c_row_stride = call_.hidden;
      product.accumulate = is_gru;
      multiply(product, "recurrent_backward");
    }
  }

 private:
  static T* at(std::byte* base, std::int64_t offset) { return reinterpret_cast<T*>(base) + offset; }
  static const std::byte* bytes(const T* data) { return reinterpret_cast<const std::byte*>(data); }
  T* gates(std::int64_t t) const { return at(call_.gates, t * call_.batch * all_); }
  std::int64_t slot_before(std::int64_t t) const { return call_.reverse ? t + 1 : t; }
  std::int64_t slot_after(std::int64_t t) const { return call_.reverse ? t : t + 1; }

  Product step_product() const {
    Product product{};
    product.dtype = product.result = call_.dtype;
    product.m = call_.batch;
    return product;
  }

  // to (+)= the state before step t · the transposed weights of `count` gate units from `first` on.
  void add_state(std::int64_t t, std::int64_t first, std::int64_t count, std::byte* to,
                 std::int64_t offset, std::int64_t row_stride, bool accumulate,
                 const std::byte* bias) const {
    Product product = step_product();
    product.n = count;
    product.k = call_.hidden;
    product.a = {bytes(at(call_.states, slot_before(t) * state_size_)), call_.hidden, 1};
    product.b = {bytes(reinterpret_cast<const T*>(call_.weight) + first * call_.hidden), 1,
                 call_.hidden};
    product.c = reinterpret_cast<std::byte*>(at(to, offset));
    product.c_row_stride = row_stride;
    product.accumulate = accumulate;
    product.bias = bias;
    multiply(product, "recurrent");
  }

  const RecurrentCall& call_;
  const std::int64_t all_;         // gates · hidden
  const std::int64_t state_size_;  // batch · hidden
  const int blocks_;
};

bool is_empty(const RecurrentCall& call) {
  return call.steps == 0 || call.batch == 0 || call.hidden == 0;
}

template <class Function>
void with_wide_type(DType dtype, const Function& function) {
  if (dtype == DType::float64) return function.template operator()<double>();
  if (dtype == DType::float32) return function.template operator()<float>();
  throw_unexpected_dtype(dtype);
}

}  // namespace

void recurrent(const RecurrentCall& call) {
  if (is_empty(call)) return;
  with_wide_type(call.dtype, [&]<class T>() { Layer<T>(call).forward(); });
}

void recurrent_backward(const RecurrentBackwardCall& call) {
  if (is_empty(call.forward)) return;
  with_wide_type(call.forward.dtype, [&]<class T>() { Layer<T>(call.forward).backward(call); });
}

}  // namespace extensor::backend::cuda
