#include "extensor/recurrent.h"

#include <array>
#include <limits>

#include "core/check.h"
#include "extensor/autocast.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/linear.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::RecurrentCell;
using detail::message;
using namespace ops;

// The attributes of a layer.
struct Recurrent {
  RecurrentCell cell;
  bool reverse;

  std::int64_t gates() const { return backend::gates_of(cell); }
  bool is_lstm() const { return cell == RecurrentCell::lstm; }
  bool is_gru() const { return cell == RecurrentCell::gru; }
};

// The inputs of a layer, in order; biases, initial states and cells may be undefined.
enum : std::size_t { x_, weight_ih_, weight_hh_, bias_ih_, bias_hh_, hidden_, cell_, input_count };
using LayerInputs = std::array<Tensor, input_count>;
using Wanted = std::array<bool, input_count>;
// The output, the last hidden state and the last cell.
constexpr std::size_t result_count = 3;
using LayerResults = std::array<Tensor, result_count>;

struct Sizes {
  std::int64_t steps, batch, in, hidden;
  DType dtype, compute;

  Shape state() const { return {batch, hidden}; }
  Shape output() const { return {steps, batch, hidden}; }
};

void check_shape(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected, const char* meaning) {
  if (x.shape() == expected) return;
  throw ShapeError(message(operation, ": ", argument, " is ", x.shape(), ", must be ", expected,
                           " (", meaning, ")"));
}

Sizes checked(const char* operation, const Recurrent& layer, const LayerInputs& in) {
  constexpr const char* names[] = {"x",       "weight_ih", "weight_hh", "bias_ih",
                                   "bias_hh", "hidden",    "cell"};
  Sizes sizes{};
  sizes.dtype = in[x_].dtype();
  for (std::size_t k = 0; k < input_count; ++k) {
    if (k > weight_hh_ && !in[k].defined()) continue;
    check_float(operation, names[k], in[k]);
    sizes.dtype = promote_types(sizes.dtype, in[k].dtype(), operation);
  }
  sizes.compute = compute_dtype(sizes.dtype);
  const std::int64_t gates = layer.gates();
  const Tensor& weight = in[weight_hh_];
  if (weight.ndim() != 2 || weight.size(0) % gates != 0 ||
      weight.size(0) / gates != weight.size(1)) {
    throw ShapeError(message(operation, ": weight_hh is ", weight.shape(), ", must be [", gates,
                             " · hidden, hidden]"));
  }
  sizes.hidden = weight.size(1);
  const std::int64_t rows = weight.size(0);
  if (in[weight_ih_].ndim() != 2 || in[weight_ih_].size(0) != rows) {
    throw ShapeError(message(operation, ": weight_ih is ", in[weight_ih_].shape(), ", must be [",
                             rows, ", in] beside a weight_hh of ", weight.shape()));
  }
  sizes.in = in[weight_ih_].size(1);
  if (in[x_].ndim() != 3 || in[x_].size(2) != sizes.in) {
    throw ShapeError(message(operation, ": x is ", in[x_].shape(), ", must be [time, batch, ",
                             sizes.in, "] for a weight_ih of ", in[weight_ih_].shape()));
  }
  sizes.steps = in[x_].size(0);
  sizes.batch = in[x_].size(1);
  for (std::size_t k : {bias_ih_, bias_hh_}) {
    if (in[k].defined()) check_shape(operation, names[k], in[k], {rows}, "gates · hidden");
  }
  for (std::size_t k : {hidden_, cell_}) {
    if (in[k].defined()) check_shape(operation, names[k], in[k], sizes.state(), "batch, hidden");
  }
  if (sizes.steps == std::numeric_limits<std::int64_t>::max()) {
    throw ShapeError(message(operation, ": x is ", in[x_].shape(), ", too many steps"));
  }
  return sizes;
}

LayerInputs widened(const LayerInputs& in, DType dtype) {
  LayerInputs wide;
  for (std::size_t k = 0; k < input_count; ++k) {
    if (in[k].defined()) wide[k] = in[k].to(dtype);
  }
  return wide;
}

// ---- forward

// Allocates [time + 1, batch, hidden] and stores the initial state in its slot.
Tensor slots(const Run& run, const Recurrent& layer, const Sizes& sizes, const Tensor& first) {
  Tensor all = run.empty({sizes.steps + 1, sizes.batch, sizes.hidden}, sizes.compute);
  Tensor slot = all[layer.reverse ? sizes.steps : 0];
  if (first.defined()) {
    slot.copy_from(first);
  } else {
    slot.fill(0);
  }
  return all;
}
// Views of the states before and after each step.
Tensor before_steps(const Recurrent& layer, const Tensor& all) {
  return layer.reverse ? all.slice(0, 1) : all.slice(0, 0, all.size(0) - 1);
}
Tensor after_steps(const Recurrent& layer, const Tensor& all) {
  return layer.reverse ? all.slice(0, 0, all.size(0) - 1) : all.slice(0, 1);
}
Tensor after_all(const Recurrent& layer, const Sizes& sizes, const Tensor& all) {
  const Tensor last = all[layer.reverse ? 0 : sizes.steps];
  return sizes.dtype == sizes.compute ? last.clone() : last.to(sizes.dtype);
}

// The bias of the input's part of the gates. The reset gate of a GRU scales W_hn·h + b_hn, so b_hn
// is not included.
Tensor joint_bias(const Recurrent& layer, const Sizes& sizes, const LayerInputs& wide) {
  Tensor of_state = wide[bias_hh_];
  if (layer.is_gru() && of_state.defined()) {
    of_state = of_state.clone();
    of_state.slice(0, 2 * sizes.hidden).fill(0);
  }
  if (!wide[bias_ih_].defined()) return of_state;
  return of_state.defined() ? wide[bias_ih_] + of_state : wide[bias_ih_];
}

// Fills the fields that both backend calls share.
backend::RecurrentCall call_of(const Recurrent& layer, const Sizes& sizes, const Tensor& weight,
                               const RecurrentSaved& saved) {
  backend::RecurrentCall call{};
  call.cell = layer.cell;
  call.dtype = sizes.compute;
  call.reverse = layer.reverse;
  call.steps = sizes.steps;
  call.batch = sizes.batch;
  call.hidden = sizes.hidden;
  call.weight = detail::dense_data(weight);
  call.gates = saved.gates.defined() ? detail::dense_data(saved.gates) : nullptr;
  call.states = detail::dense_data(saved.states);
  call.cells = saved.cells.defined() ? detail::dense_data(saved.cells) : nullptr;
  return call;
}

// The kernels expect products in the dtype of the layer, so recurrent layers disable Autocast.
class FullPrecision {
  Autocast off_{DType::bfloat16, false};
};

RecurrentResult run_forward(const Run& run, const Recurrent& layer, const Sizes& sizes,
                            const LayerInputs& wide) {
  const FullPrecision full;
  RecurrentResult result;
  RecurrentSaved& saved = result.saved;
  saved.states = slots(run, layer, sizes, wide[hidden_]);
  if (layer.is_lstm()) saved.cells = slots(run, layer, sizes, wide[cell_]);
  if (layer.is_gru()) {
    saved.cells = run.empty(sizes.output(), sizes.compute);
  }
  saved.gates = linear(wide[x_], wide[weight_ih_], joint_bias(layer, sizes, wide));
  const Tensor weight = wide[weight_hh_].contiguous();
  const Tensor bias = layer.is_gru() && wide[bias_hh_].defined()
                          ? wide[bias_hh_].slice(0, 2 * sizes.hidden).contiguous()
                          : Tensor();
  backend::RecurrentCall call = call_of(layer, sizes, weight, saved);
  call.bias = bias.defined() ? detail::dense_data(bias) : nullptr;
  run.kernels().recurrent(call);
  if (layer.gates() == 1) saved.gates = Tensor();
  result.output = after_steps(layer, saved.states).to(sizes.dtype);
  result.hidden = after_all(layer, sizes, saved.states);
  if (layer.is_lstm()) result.cell = after_all(layer, sizes, saved.cells);
  return result;
}

// Results: the output, the last states, and the tensors that the gradient reads.
Results layer_forward(const Run& run, const Recurrent& layer, const Tensor& x,
                      const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih,
                      const Tensor& bias_hh, const Tensor& hidden, const Tensor& cell) {
  const LayerInputs in{x, weight_ih, weight_hh, bias_ih, bias_hh, hidden, cell};
  const Sizes sizes = checked(run.name(), layer, in);
  const auto [output, last, last_cell, saved] =
      run_forward(run, layer, sizes, widened(in, sizes.compute));
  return {output, last, last_cell, saved.states, saved.gates, saved.cells};
}

// ---- backward

void check_saved(const char* operation, const Recurrent& layer, const Sizes& sizes,
                 const RecurrentSaved& saved) {
  const auto check = [&](const char* argument, const Tensor& x, bool expected, const Shape& shape) {
    if (!expected) return;
    if (x.defined() && x.dtype() == sizes.compute && x.shape() == shape && x.is_contiguous()) {
      return;
    }
    throw ShapeError(message(operation, ": ", argument, " must be what the forward gave, ", shape,
                             " of ", sizes.compute));
  };
  const Shape slots{sizes.steps + 1, sizes.batch, sizes.hidden};
  check("saved.states", saved.states, true, slots);
  check("saved.cells", saved.cells, layer.is_lstm(), slots);
  check("saved.cells", saved.cells, layer.is_gru(), sizes.output());
  check("saved.gates", saved.gates, layer.gates() > 1,
        {sizes.steps, sizes.batch, layer.gates() * sizes.hidden});
}

void check_gradients(const char* operation, const Sizes& sizes, const LayerResults& gradients) {
  constexpr const char* names[] = {"gradients.output", "gradients.hidden", "gradients.cell"};
  for (std::size_t k = 0; k < std::size(names) && k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    check_gradient(operation, names[k], gradients[k], k == 0 ? sizes.output() : sizes.state());
  }
}

// Copies a gradient, or creates zeros, as the start of an accumulation.
Tensor begun(const Tensor& gradient, const Shape& shape, DType dtype, Device device) {
  if (!gradient.defined()) return zeros(shape, {dtype, device});
  return gradient.dtype() == dtype ? gradient.clone(MemoryFormat::contiguous)
                                   : gradient.to(dtype).contiguous();
}

// The attributes of a backward op: those of the layer, and the gradients to compute.
struct RecurrentBackward {
  Recurrent layer;
  Wanted wanted;
};

// Runs the forward again if its saved results are undefined.
Results layer_backward(const Run& run, const RecurrentBackward& attributes, const Tensor& x,
                       const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih,
                       const Tensor& bias_hh, const Tensor& hidden, const Tensor& cell,
                       const Tensor& grad_output, const Tensor& grad_hidden,
                       const Tensor& grad_cell, const Tensor& states, const Tensor& gates,
                       const Tensor& cells) {
  const auto& [layer, wanted] = attributes;
  const LayerInputs in{x, weight_ih, weight_hh, bias_ih, bias_hh, hidden, cell};
  const Sizes sizes = checked(run.name(), layer, in);
  check_gradients(run.name(), sizes, {grad_output, grad_hidden, grad_cell});
  const FullPrecision full;
  const LayerInputs wide = widened(in, sizes.compute);
  RecurrentSaved saved{states, gates, cells};
  if (states.defined()) {
    check_saved(run.name(), layer, sizes, saved);
  } else {
    saved = run_forward(run, layer, sizes, wide).saved;
  }
  const Tensor g_output = grad_output.defined()
                              ? grad_output.to(sizes.compute).contiguous()
                              : zeros(sizes.output(), {sizes.compute, run.device});
  Results result(input_count);
  result[hidden_] = begun(grad_hidden, sizes.state(), sizes.compute, run.device);
  if (layer.is_lstm()) result[cell_] = begun(grad_cell, sizes.state(), sizes.compute, run.device);
  const Shape gates_shape{sizes.steps, sizes.batch, layer.gates() * sizes.hidden};
  const Tensor grad_gates = run.empty(gates_shape, sizes.compute);
  const Tensor grad_recurrent = layer.is_gru() ? run.empty(gates_shape, sizes.compute) : grad_gates;

  const Tensor weight = wide[weight_hh_].contiguous();
  backend::RecurrentBackwardCall call{};
  call.forward = call_of(layer, sizes, weight, saved);
  call.grad_output = detail::dense_data(g_output);
  call.grad_hidden = detail::dense_data(result[hidden_]);
  call.grad_cell = layer.is_lstm() ? detail::dense_data(result[cell_]) : nullptr;
  call.grad_gates = grad_gates.impl().data;
  call.grad_recurrent_gates = layer.is_gru() ? grad_recurrent.impl().data : nullptr;
  run.kernels().recurrent_backward(call);

  // Process all steps at once.
  const auto rows = [&](const Tensor& x) {
    return x.reshape({sizes.steps * sizes.batch, x.size(2)});
  };
  const Tensor g = rows(grad_gates), of_state = rows(grad_recurrent);
  if (wanted[x_]) result[x_] = matmul(g, wide[weight_ih_]).reshape(in[x_].shape());
  if (wanted[weight_ih_]) result[weight_ih_] = matmul(g.transpose(), rows(wide[x_]));
  if (wanted[weight_hh_]) {
    result[weight_hh_] = matmul(of_state.transpose(), rows(before_steps(layer, saved.states)));
  }
  if (wanted[bias_ih_]) result[bias_ih_] = sum(g, 0);
  if (wanted[bias_hh_]) {
    const bool known = wanted[bias_ih_] && !layer.is_gru();
    result[bias_hh_] = known ? result[bias_ih_].clone() : sum(of_state, 0);
  }
  for (std::size_t k = 0; k < input_count; ++k) {
    if (!wanted[k]) {
      result[k] = Tensor();
    } else if (result[k].defined()) {
      result[k] = result[k].to(in[k].defined() ? in[k].dtype() : sizes.dtype);
    }
  }
  return result;
}

// ---- the gradient of the backward

// The layer composed of recorded operations, step by step.
LayerResults composed(const Recurrent& layer, const Sizes& sizes, const LayerInputs& in) {
  const FullPrecision full;
  const LayerInputs wide = widened(in, sizes.compute);
  const std::vector<Tensor> of_x =
      sizes.steps == 0 ? std::vector<Tensor>()
                       : unstack(linear(wide[x_], wide[weight_ih_], wide[bias_ih_]), 0);
  Tensor h = wide[hidden_], c = wide[cell_];
  std::vector<Tensor> states(of_x.size());
  for (std::size_t step = 0; step < of_x.size(); ++step) {
    const std::size_t t = layer.reverse ? of_x.size() - 1 - step : step;
    const Tensor of_h = linear(h, wide[weight_hh_], wide[bias_hh_]);
    const auto part = [&](const Tensor& x, std::int64_t gate) {
      return x.slice(1, gate * sizes.hidden, (gate + 1) * sizes.hidden);
    };
    switch (layer.cell) {
      case RecurrentCell::tanh:
        h = tanh(of_x[t] + of_h);
        break;
      case RecurrentCell::relu:
        h = relu(of_x[t] + of_h);
        break;
      case RecurrentCell::lstm: {
        const Tensor gates = of_x[t] + of_h;
        c = sigmoid(part(gates, 1)) * c + sigmoid(part(gates, 0)) * tanh(part(gates, 2));
        h = sigmoid(part(gates, 3)) * tanh(c);
        break;
      }
      case RecurrentCell::gru: {
        const Tensor reset = sigmoid(part(of_x[t], 0) + part(of_h, 0));
        const Tensor update = sigmoid(part(of_x[t], 1) + part(of_h, 1));
        const Tensor fresh = tanh(part(of_x[t], 2) + reset * part(of_h, 2));
        h = fresh + update * (h - fresh);
        break;
      }
    }
    states[t] = h;
  }
  const Tensor output =
      states.empty() ? zeros(sizes.output(), {sizes.compute, h.device()}) : stack(states);
  return {output.to(sizes.dtype), h.to(sizes.dtype),
          layer.is_lstm() ? c.to(sizes.dtype) : Tensor()};
}

// Differentiates the composed layer twice. Its operands are separate tensors, so that the gradient
// of one that was computed from another does not propagate into it.
Gradients backward_gradient(const GradientCall& call, const RecurrentBackward& attributes) {
  const bool create_graph = detail::recording_enabled();
  const EnableGrad recording;
  const auto own = [&](std::size_t k) {
    const Tensor& x = call.input(k);
    if (!x.defined()) return x;
    return detail::tracked(x) ? x.slice(0, 0) : x.detach().requires_grad_();
  };
  std::array<Tensor, input_count + result_count> operands;
  for (std::size_t k = 0; k < operands.size(); ++k) operands[k] = own(k);
  LayerInputs in;
  std::copy_n(operands.begin(), input_count, in.begin());
  const Sizes sizes = checked(call.name(), attributes.layer, in);
  for (std::size_t k : {hidden_, cell_}) {
    if (in[k].defined() || (k == cell_ && !attributes.layer.is_lstm())) continue;
    in[k] = zeros(sizes.state(), {sizes.dtype, in[x_].device()}).requires_grad_();
  }
  const LayerResults results = composed(attributes.layer, sizes, in);

  std::vector<Tensor> outputs, grad_outputs, moved, asked, first, along;
  for (std::size_t k = 0; k < result_count; ++k) {
    const Tensor& gradient = operands[input_count + k];
    if (!gradient.defined() || !results[k].requires_grad()) continue;
    outputs.push_back(results[k]);
    grad_outputs.push_back(gradient.to(results[k].dtype()));
  }
  for (std::size_t k = 0; k < input_count; ++k) {
    if (call.grad(k).defined()) moved.push_back(in[k]);
  }
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (call.needs(k)) asked.push_back(operands[k]);
  }
  Gradients gradients(operands.size());
  if (outputs.empty()) return gradients;
  const std::vector<Tensor> found = grad(
      outputs, moved, {.create_graph = true, .allow_unused = true, .grad_outputs = grad_outputs});
  for (std::size_t k = 0, next = 0; k < input_count; ++k) {
    if (!call.grad(k).defined()) continue;
    const Tensor& gradient = found[next++];
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    first.push_back(gradient);
    along.push_back(call.grad(k));
  }
  if (first.empty()) return gradients;
  const std::vector<Tensor> second = grad(
      first, asked, {.create_graph = create_graph, .allow_unused = true, .grad_outputs = along});
  for (std::size_t k = 0, next = 0; k < operands.size(); ++k) {
    if (call.needs(k)) gradients[k] = second[next++];
  }
  return gradients;
}

// ---- the ops

constexpr std::uint32_t all_but_x_and_weights = ~0U << bias_ih_;
constexpr Reads first_inputs(unsigned count) { return {(std::uint64_t{1} << count) - 1}; }

Reads backward_reads(const RecurrentBackward&, std::size_t k) {
  constexpr unsigned operands = input_count + result_count;
  return k < operands ? first_inputs(operands) : no_gradient;
}
consteval auto layer_backward_op(const char* name) {
  return define<layer_backward, backward_gradient, backward_reads>(
      {.name = name,
       .inputs = {"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "hidden", "cell",
                  "grad_output", "grad_hidden", "grad_cell", "states", "gates", "cells"},
       .optional = all_but_x_and_weights});
}
constexpr auto rnn_backward_op = layer_backward_op("rnn_layer_backward");
constexpr auto lstm_backward_op = layer_backward_op("lstm_layer_backward");
constexpr auto gru_backward_op = layer_backward_op("gru_layer_backward");

template <const auto& backward_op>
Gradients layer_gradient(const GradientCall& call, const Recurrent& layer) {
  Wanted wanted;
  for (std::size_t k = 0; k < input_count; ++k) wanted[k] = call.needs(k);
  return dispatch(backward_op, {layer, wanted}, call.input(x_), call.input(weight_ih_),
                  call.input(weight_hh_), call.input(bias_ih_), call.input(bias_hh_),
                  call.input(hidden_), call.input(cell_), call.grad(0), call.grad(1), call.grad(2),
                  call.result(3), call.result(4), call.result(5));
}

Reads layer_reads(const Recurrent&, std::size_t) {
  return first_inputs(input_count) | result(3) | result(4) | result(5);
}
// Only an LSTM has a cell.
template <const auto& backward_op>
consteval auto layer_op(const char* name) {
  return define<layer_forward, layer_gradient<backward_op>, layer_reads>(
      {.name = name,
       .inputs = {"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "hidden", "cell"},
       .optional = all_but_x_and_weights});
}
constexpr auto rnn_op = layer_op<rnn_backward_op>("rnn_layer");
constexpr auto lstm_op = layer_op<lstm_backward_op>("lstm_layer");
constexpr auto gru_op = layer_op<gru_backward_op>("gru_layer");

template <class Op>
RecurrentResult forward(const Op& op, const Recurrent& layer, const Tensor& x,
                        const RecurrentWeights& weights, const Tensor& hidden,
                        const Tensor& cell = {}) {
  const Results results = dispatch(op, layer, x, weights.weight_ih, weights.weight_hh,
                                   weights.bias_ih, weights.bias_hh, hidden, cell);
  const auto saved = [&](std::size_t k) {
    return detail::tracked(results[k]) ? results[k].detach() : results[k];
  };
  return {results[0], results[1], results[2], {saved(3), saved(4), saved(5)}};
}

template <class Op>
RecurrentGradients backward(const Op& op, const Recurrent& layer,
                            const RecurrentResultGradients& given, const Tensor& x,
                            const RecurrentWeights& weights, const Tensor& hidden,
                            const Tensor& cell, const RecurrentSaved& saved) {
  const Wanted wanted{
      true, true,           true, weights.bias_ih.defined(), weights.bias_hh.defined(),
      true, layer.is_lstm()};
  const Results found =
      dispatch(op, {layer, wanted}, x, weights.weight_ih, weights.weight_hh, weights.bias_ih,
               weights.bias_hh, hidden, cell, given.output, given.hidden,
               layer.is_lstm() ? given.cell : Tensor(), saved.states, saved.gates, saved.cells);
  return {found[x_],
          {found[weight_ih_], found[weight_hh_], found[bias_ih_], found[bias_hh_]},
          found[hidden_],
          found[cell_]};
}

RecurrentCell cell_of(const char* operation, RecurrentActivation activation) {
  detail::check_option(operation, "activation", activation, RecurrentActivation::relu);
  return activation == RecurrentActivation::relu ? RecurrentCell::relu : RecurrentCell::tanh;
}

}  // namespace

RecurrentResult rnn_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                          RecurrentActivation activation, StrictBool reverse) {
  return forward(rnn_op, {cell_of(rnn_op.name, activation), reverse}, x, weights, hidden);
}
RecurrentGradients rnn_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                      const RecurrentWeights& weights, const Tensor& hidden,
                                      RecurrentActivation activation, StrictBool reverse,
                                      const RecurrentSaved& saved) {
  return backward(rnn_backward_op, {cell_of(rnn_backward_op.name, activation), reverse}, gradients,
                  x, weights, hidden, {}, saved);
}

RecurrentResult lstm_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                           const Tensor& cell, StrictBool reverse) {
  return forward(lstm_op, {RecurrentCell::lstm, reverse}, x, weights, hidden, cell);
}
RecurrentGradients lstm_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                       const RecurrentWeights& weights, const Tensor& hidden,
                                       const Tensor& cell, StrictBool reverse,
                                       const RecurrentSaved& saved) {
  return backward(lstm_backward_op, {RecurrentCell::lstm, reverse}, gradients, x, weights, hidden,
                  cell, saved);
}

RecurrentResult gru_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                          StrictBool reverse) {
  return forward(gru_op, {RecurrentCell::gru, reverse}, x, weights, hidden);
}
RecurrentGradients gru_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                      const RecurrentWeights& weights, const Tensor& hidden,
                                      StrictBool reverse, const RecurrentSaved& saved) {
  return backward(gru_backward_op, {RecurrentCell::gru, reverse}, gradients, x, weights, hidden, {},
                  saved);
}

constinit const OpList ops::recurrent_ops =
    listed<rnn_op, rnn_backward_op, lstm_op, lstm_backward_op, gru_op, gru_backward_op>;

}  // namespace extensor
