#include "extensor/recurrent.h"

#include <array>
#include <limits>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/autocast.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/linear.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::RecurrentCell;
using detail::message;

struct Layer {
  const char* operation;
  RecurrentCell cell;
  bool reverse;

  std::int64_t gates() const { return backend::gates_of(cell); }
  bool is_lstm() const { return cell == RecurrentCell::lstm; }
  bool is_gru() const { return cell == RecurrentCell::gru; }
};

// What a layer is a function of, in one order; those that are not there are undefined.
enum : std::size_t { x_, weight_ih_, weight_hh_, bias_ih_, bias_hh_, hidden_, cell_, input_count };
using LayerInputs = std::array<Tensor, input_count>;
using Wanted = std::array<bool, input_count>;
// Output, hidden, cell.
using LayerResults = std::array<Tensor, 3>;

LayerInputs inputs_of(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                      const Tensor& cell) {
  return {x, weights.weight_ih, weights.weight_hh, weights.bias_ih, weights.bias_hh, hidden, cell};
}

struct Sizes {
  std::int64_t steps, batch, in, hidden;
  DType dtype, compute;
  Device device;

  Shape state() const { return {batch, hidden}; }
  Shape output() const { return {steps, batch, hidden}; }
};

void check_shape(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected, const char* meaning) {
  if (x.shape() == expected) return;
  throw ShapeError(message(operation, ": ", argument, " is ", x.shape(), ", must be ", expected,
                           " (", meaning, ")"));
}

Sizes checked(const Layer& layer, const LayerInputs& in) {
  constexpr const char* names[] = {"x",       "weight_ih", "weight_hh", "bias_ih",
                                   "bias_hh", "hidden",    "cell"};
  const char* operation = layer.operation;
  Sizes sizes{};
  sizes.dtype = in[x_].dtype();
  for (std::size_t k = 0; k < input_count; ++k) {
    if (k > weight_hh_ && !in[k].defined()) continue;
    ops::check_float(operation, names[k], in[k]);
    sizes.dtype = promote_types(sizes.dtype, in[k].dtype(), operation);
    const ops::Source pair[] = {in[x_], in[k]};
    sizes.device = ops::common_device(operation, pair);
  }
  sizes.compute = ops::compute_dtype(sizes.dtype);
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
// ---------------------------------------------------------------------------------------

// [time + 1, batch, hidden] with the first state in its place.
Tensor slots(const Layer& layer, const Sizes& sizes, const Tensor& first) {
  Tensor all = detail::make_empty(layer.operation, {sizes.steps + 1, sizes.batch, sizes.hidden},
                                  sizes.compute, sizes.device);
  Tensor slot = all[layer.reverse ? sizes.steps : 0];
  if (first.defined()) {
    slot.copy_from(first);
  } else {
    slot.fill(0);
  }
  return all;
}
// Of the states before and after each step.
Tensor before_steps(const Layer& layer, const Tensor& all) {
  return layer.reverse ? all.slice(0, 1) : all.slice(0, 0, all.size(0) - 1);
}
Tensor after_steps(const Layer& layer, const Tensor& all) {
  return layer.reverse ? all.slice(0, 0, all.size(0) - 1) : all.slice(0, 1);
}
Tensor after_all(const Layer& layer, const Sizes& sizes, const Tensor& all) {
  const Tensor last = all[layer.reverse ? 0 : sizes.steps];
  return sizes.dtype == sizes.compute ? last.clone() : last.to(sizes.dtype);
}

// What is added to the input's part of the gates. A GRU's reset gate takes hold of W_hn·h + b_hn,
// so that bias stays there.
Tensor joint_bias(const Layer& layer, const Sizes& sizes, const LayerInputs& wide) {
  Tensor of_state = wide[bias_hh_];
  if (layer.is_gru() && of_state.defined()) {
    of_state = of_state.clone();
    of_state.slice(0, 2 * sizes.hidden).fill(0);
  }
  if (!wide[bias_ih_].defined()) return of_state;
  return of_state.defined() ? wide[bias_ih_] + of_state : wide[bias_ih_];
}

// What both calls of the backend share.
backend::RecurrentCall call_of(const Layer& layer, const Sizes& sizes, const Tensor& weight,
                               const RecurrentSaved& saved) {
  backend::RecurrentCall call{};
  call.cell = layer.cell;
  call.dtype = sizes.compute;
  call.reverse = layer.reverse;
  call.steps = sizes.steps;
  call.batch = sizes.batch;
  call.hidden = sizes.hidden;
  call.weight = weight.impl().data;
  call.gates = saved.gates.defined() ? saved.gates.impl().data : nullptr;
  call.states = saved.states.impl().data;
  call.cells = saved.cells.defined() ? saved.cells.impl().data : nullptr;
  return call;
}

// The kernels read products in the layer's own dtype, so that Autocast must not give them in
// another one: recurrent layers compute as they do without it.
class FullPrecision {
  Autocast off_{DType::bfloat16, false};
};

RecurrentResult run_forward(const Layer& layer, const Sizes& sizes, const LayerInputs& wide) {
  const FullPrecision full;
  RecurrentResult result;
  RecurrentSaved& saved = result.saved;
  saved.states = slots(layer, sizes, wide[hidden_]);
  if (layer.is_lstm()) saved.cells = slots(layer, sizes, wide[cell_]);
  if (layer.is_gru()) {
    saved.cells = detail::make_empty(layer.operation, sizes.output(), sizes.compute, sizes.device);
  }
  saved.gates = linear(wide[x_], wide[weight_ih_], joint_bias(layer, sizes, wide));
  const Tensor weight = wide[weight_hh_].contiguous();
  const Tensor bias = layer.is_gru() && wide[bias_hh_].defined()
                          ? wide[bias_hh_].slice(0, 2 * sizes.hidden).contiguous()
                          : Tensor();
  backend::RecurrentCall call = call_of(layer, sizes, weight, saved);
  call.bias = bias.defined() ? bias.impl().data : nullptr;
  backend::backend_for(sizes.device).recurrent(call);
  if (layer.gates() == 1) saved.gates = Tensor();
  result.output = after_steps(layer, saved.states).to(sizes.dtype);
  result.hidden = after_all(layer, sizes, saved.states);
  if (layer.is_lstm()) result.cell = after_all(layer, sizes, saved.cells);
  return result;
}

// ---- backward
// --------------------------------------------------------------------------------------

void check_saved(const Layer& layer, const Sizes& sizes, const RecurrentSaved& saved) {
  const auto check = [&](const char* argument, const Tensor& x, bool expected, const Shape& shape) {
    if (!expected) return;
    if (x.defined() && x.dtype() == sizes.compute && x.shape() == shape && x.is_contiguous()) {
      return;
    }
    throw ShapeError(message(layer.operation, ": ", argument, " must be what the forward gave, ",
                             shape, " of ", sizes.compute));
  };
  const Shape slots{sizes.steps + 1, sizes.batch, sizes.hidden};
  check("saved.states", saved.states, true, slots);
  check("saved.cells", saved.cells, layer.is_lstm(), slots);
  check("saved.cells", saved.cells, layer.is_gru(), sizes.output());
  check("saved.gates", saved.gates, layer.gates() > 1,
        {sizes.steps, sizes.batch, layer.gates() * sizes.hidden});
}

void check_gradients(const Layer& layer, const Sizes& sizes, const LayerResults& gradients) {
  constexpr const char* names[] = {"gradients.output", "gradients.hidden", "gradients.cell"};
  for (std::size_t k = 0; k < std::size(names) && k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    ops::check_gradient(layer.operation, names[k], gradients[k],
                        k == 0 ? sizes.output() : sizes.state());
  }
}

// A gradient to go on from, in memory of its own.
Tensor begun(const Tensor& gradient, const Shape& shape, DType dtype) {
  if (!gradient.defined()) return zeros(shape, dtype);
  return gradient.dtype() == dtype ? gradient.clone() : gradient.to(dtype).contiguous();
}

LayerInputs run_backward(const Layer& layer, const Sizes& sizes, const LayerResults& gradients,
                         const LayerInputs& in, const RecurrentSaved& saved, const Wanted& wanted) {
  const FullPrecision full;
  const LayerInputs wide = widened(in, sizes.compute);
  const Tensor grad_output = gradients[0].defined() ? gradients[0].to(sizes.compute).contiguous()
                                                    : zeros(sizes.output(), sizes.compute);
  LayerInputs result;
  result[hidden_] = begun(gradients[1], sizes.state(), sizes.compute);
  if (layer.is_lstm()) result[cell_] = begun(gradients[2], sizes.state(), sizes.compute);
  const Shape gates{sizes.steps, sizes.batch, layer.gates() * sizes.hidden};
  const auto empty_gates = [&] {
    return detail::make_empty(layer.operation, gates, sizes.compute, sizes.device);
  };
  const Tensor grad_gates = empty_gates();
  const Tensor grad_recurrent = layer.is_gru() ? empty_gates() : grad_gates;

  const Tensor weight = wide[weight_hh_].contiguous();
  backend::RecurrentBackwardCall call{};
  call.forward = call_of(layer, sizes, weight, saved);
  call.grad_output = grad_output.impl().data;
  call.grad_hidden = result[hidden_].impl().data;
  call.grad_cell = layer.is_lstm() ? result[cell_].impl().data : nullptr;
  call.grad_gates = grad_gates.impl().data;
  call.grad_recurrent_gates = layer.is_gru() ? grad_recurrent.impl().data : nullptr;
  backend::backend_for(sizes.device).recurrent_backward(call);

  // All steps at once.
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
    result[bias_hh_] = known ? result[bias_ih_] : sum(of_state, 0);
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

// ---- a backward that is recorded
// -------------------------------------------------------------------

// The layer as recorded operations, step by step.
LayerResults composed(const Layer& layer, const Sizes& sizes, const LayerInputs& in) {
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
  const Tensor output = states.empty() ? zeros(sizes.output(), sizes.compute) : stack(states);
  return {output.to(sizes.dtype), h.to(sizes.dtype),
          layer.is_lstm() ? c.to(sizes.dtype) : Tensor()};
}

LayerInputs recorded_backward(const Layer& layer, const Sizes& sizes, const LayerResults& gradients,
                              const LayerInputs& in, const Wanted& wanted) {
  // Inputs of its own: one that was made of another must not hand its gradient on to it.
  LayerInputs own;
  for (std::size_t k = 0; k < input_count; ++k) {
    const bool is_state = k == hidden_ || (k == cell_ && layer.is_lstm());
    if (in[k].defined()) {
      own[k] = detail::tracked(in[k]) ? in[k].slice(0, 0) : in[k].detach();
    } else if (is_state) {
      own[k] = zeros(sizes.state(), sizes.dtype);
    }
    if (wanted[k] && own[k].defined() && !own[k].requires_grad()) own[k].requires_grad_();
  }
  const LayerResults results = composed(layer, sizes, own);
  std::vector<Tensor> outputs, grad_outputs, asked;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!gradients[k].defined() || !results[k].requires_grad()) continue;
    outputs.push_back(results[k]);
    grad_outputs.push_back(gradients[k].to(results[k].dtype()));
  }
  for (std::size_t k = 0; k < input_count; ++k) {
    if (wanted[k] && own[k].defined()) asked.push_back(own[k]);
  }
  std::vector<Tensor> found(asked.size());
  if (!outputs.empty()) {
    found = grad(outputs, asked,
                 {.create_graph = true, .allow_unused = true, .grad_outputs = grad_outputs});
  }
  LayerInputs result;
  std::size_t next = 0;
  for (std::size_t k = 0; k < input_count; ++k) {
    if (!wanted[k] || !own[k].defined()) continue;
    const Tensor& gradient = found[next++];
    result[k] = gradient.defined() ? gradient : zeros(own[k].shape(), own[k].dtype());
  }
  return result;
}

// ---- both
// ------------------------------------------------------------------------------------------

RecurrentResult forward(const Layer& layer, const LayerInputs& in) {
  if (!detail::records(in)) {
    const Sizes sizes = checked(layer, in);
    return run_forward(layer, sizes, widened(in, sizes.compute));
  }
  RecurrentResult result = detail::unrecorded([&] { return forward(layer, in); });
  std::array<detail::Saved, input_count> inputs;
  for (std::size_t k = 0; k < input_count; ++k) inputs[k] = in[k];
  LayerResults results{result.output, result.hidden, result.cell};
  detail::record_all(
      layer.operation, in, results,
      [layer, inputs = std::move(inputs), states = detail::Saved(result.saved.states),
       gates = detail::Saved(result.saved.gates), cells = detail::Saved(result.saved.cells)](
          detail::Gradients& g, detail::Node& node) -> detail::Gradients {
        LayerInputs in;
        Wanted wanted;
        for (std::size_t k = 0; k < input_count; ++k) {
          in[k] = inputs[k].get(node);
          wanted[k] = node.needs(k);
        }
        const Sizes sizes = checked(layer, in);
        const LayerResults gradients{g[0], g[1], g[2]};
        LayerInputs found =
            detail::recording_enabled()
                ? recorded_backward(layer, sizes, gradients, in, wanted)
                : run_backward(layer, sizes, gradients, in,
                               {states.get(node), gates.get(node), cells.get(node)}, wanted);
        detail::Gradients result{std::size_t{input_count}};
        std::move(found.begin(), found.end(), result.begin());
        return result;
      });
  result.output = results[0];
  result.hidden = results[1];
  result.cell = results[2];
  return result;
}

RecurrentGradients backward(const Layer& layer, const RecurrentResultGradients& given,
                            const LayerInputs& in, const RecurrentSaved& saved) {
  const Sizes sizes = checked(layer, in);
  const LayerResults gradients{given.output, given.hidden, layer.is_lstm() ? given.cell : Tensor()};
  check_gradients(layer, sizes, gradients);
  Wanted wanted;
  for (std::size_t k = 0; k < input_count; ++k) wanted[k] = k >= hidden_ || in[k].defined();
  LayerInputs found;
  if (detail::records(in, gradients)) {
    found = recorded_backward(layer, sizes, gradients, in, wanted);
  } else if (saved.states.defined()) {
    check_saved(layer, sizes, saved);
    found = run_backward(layer, sizes, gradients, in, saved, wanted);
  } else {
    const RecurrentResult again = run_forward(layer, sizes, widened(in, sizes.compute));
    found = run_backward(layer, sizes, gradients, in, again.saved, wanted);
  }
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
  return forward({"rnn_layer", cell_of("rnn_layer", activation), reverse},
                 inputs_of(x, weights, hidden, {}));
}

RecurrentGradients rnn_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                      const RecurrentWeights& weights, const Tensor& hidden,
                                      RecurrentActivation activation, StrictBool reverse,
                                      const RecurrentSaved& saved) {
  return backward({"rnn_layer_backward", cell_of("rnn_layer_backward", activation), reverse},
                  gradients, inputs_of(x, weights, hidden, {}), saved);
}

RecurrentResult lstm_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                           const Tensor& cell, StrictBool reverse) {
  return forward({"lstm_layer", RecurrentCell::lstm, reverse}, inputs_of(x, weights, hidden, cell));
}

RecurrentGradients lstm_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                       const RecurrentWeights& weights, const Tensor& hidden,
                                       const Tensor& cell, StrictBool reverse,
                                       const RecurrentSaved& saved) {
  return backward({"lstm_layer_backward", RecurrentCell::lstm, reverse}, gradients,
                  inputs_of(x, weights, hidden, cell), saved);
}

RecurrentResult gru_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                          StrictBool reverse) {
  return forward({"gru_layer", RecurrentCell::gru, reverse}, inputs_of(x, weights, hidden, {}));
}

RecurrentGradients gru_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                      const RecurrentWeights& weights, const Tensor& hidden,
                                      StrictBool reverse, const RecurrentSaved& saved) {
  return backward({"gru_layer_backward", RecurrentCell::gru, reverse}, gradients,
                  inputs_of(x, weights, hidden, {}), saved);
}

}  // namespace extensor
