#include "extensor/nn/recurrent.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/dropout.h"
#include "extensor/manipulation.h"
#include "nn/layer_checks.h"

namespace extensor::nn {

using extensor::detail::message;

namespace {

RecurrentParameters drawn(std::int64_t gates, std::int64_t in, std::int64_t hidden, bool bias,
                          DType dtype) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const auto parameter = [&](const Shape& shape) {
    return detail::uniform_parameter(shape, bound, dtype);
  };
  RecurrentParameters made;
  made.weight_ih = parameter({gates * hidden, in});
  made.weight_hh = parameter({gates * hidden, hidden});
  if (bias) {
    made.bias_ih = parameter({gates * hidden});
    made.bias_hh = parameter({gates * hidden});
  }
  return made;
}

RecurrentWeights tensors_of(const RecurrentParameters& weights) {
  return {weights.weight_ih, weights.weight_hh, weights.bias_ih, weights.bias_hh};
}

void check_sizes(const char* name, std::int64_t input_size, std::int64_t hidden_size) {
  detail::check_positive(name, "input_size", input_size);
  detail::check_positive(name, "hidden_size", hidden_size);
  // There are at most four gates.
  if (hidden_size > std::numeric_limits<std::int64_t>::max() / 4) {
    throw ValueError(message(name, ": hidden_size is ", hidden_size, ", too large"));
  }
}

void check_floats(const char* name, const char* argument, const Tensor& x,
                  const Tensor& parameter) {
  if (!x.defined()) throw ValueError(message(name, ": ", argument, " is undefined"));
  if (is_floating_point(x.dtype())) return detail::check_dtype(name, argument, x, parameter);
  throw DTypeError(message(name, ": ", argument, " is ", x.dtype(), ", must be a float"));
}

void check_state(const char* name, const char* argument, const Tensor& state,
                 const Tensor& parameter, const Shape& expected, const char* meaning) {
  if (!state.defined()) return;
  check_floats(name, argument, state, parameter);
  if (state.shape() == expected) return;
  throw ShapeError(message(name, ": ", argument, " is ", state.shape(), ", must be ", expected,
                           " (", meaning, ")"));
}

RecurrentResult tanh_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                           const Tensor&, StrictBool reverse) {
  return rnn_layer(x, weights, hidden, RecurrentActivation::tanh, reverse);
}
RecurrentResult relu_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                           const Tensor&, StrictBool reverse) {
  return rnn_layer(x, weights, hidden, RecurrentActivation::relu, reverse);
}
RecurrentResult gated_layer(const Tensor& x, const RecurrentWeights& weights, const Tensor& hidden,
                            const Tensor&, StrictBool reverse) {
  return gru_layer(x, weights, hidden, reverse);
}

}  // namespace

// ---- layers

RecurrentLayers::RecurrentLayers(const char* name, std::int64_t gates, std::int64_t input_size,
                                 std::int64_t hidden_size, const RecurrentOptions& options)
    : name_(name), in_(input_size), hidden_(hidden_size), options_(options) {
  check_sizes(name, input_size, hidden_size);
  detail::check_positive(name, "layers", options.layers);
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(message(name, ": dropout is ", options.dropout, ", must be between 0 and 1"));
  }
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      weights.push_back(drawn(gates, layer == 0 ? in_ : directions() * hidden_, hidden_,
                              options.bias, options.dtype));
    }
  }
}

void RecurrentLayers::check(const Tensor& x, const Tensor& hidden, const Tensor& cell) const {
  check_floats(name_, "x", x, weights[0].weight_ih);
  if ((x.ndim() != 2 && x.ndim() != 3) || x.size(-1) != in_) {
    throw ShapeError(message(name_, ": x is ", x.shape(), ", must be ",
                             options_.batch_first ? "[batch, time, " : "[time, batch, ", in_,
                             "] or, without a batch, [time, ", in_, "]"));
  }
  const bool batched = x.ndim() == 3;
  if (x.size(batched && options_.batch_first ? 1 : 0) == 0) {
    throw ShapeError(message(name_, ": x is ", x.shape(), ", must have one time step at least"));
  }
  const std::int64_t count = options_.layers * directions();
  const Shape expected =
      batched ? Shape{count, x.size(options_.batch_first ? 0 : 1), hidden_} : Shape{count, hidden_};
  const char* meaning =
      batched ? "layers · directions, batch, hidden" : "layers · directions, hidden";
  check_state(name_, "hidden", hidden, weights[0].weight_ih, expected, meaning);
  check_state(name_, "cell", cell, weights[0].weight_ih, expected, meaning);
}

LSTMOutput RecurrentLayers::run(const Tensor& x, const Tensor& hidden, const Tensor& cell,
                                Layer layer) const {
  check(x, hidden, cell);
  const bool batched = x.ndim() == 3;
  const auto with_batch = [&](const Tensor& state) {
    return batched || !state.defined() ? state : unsqueeze(state, 1);
  };
  const auto of = [](const Tensor& states, std::size_t at) {
    return states.defined() ? states[static_cast<std::int64_t>(at)] : Tensor();
  };
  const Tensor first_hidden = with_batch(hidden), first_cell = with_batch(cell);
  Tensor y = with_batch(x);
  if (batched && options_.batch_first) y = y.transpose({1, 0, 2});
  std::vector<Tensor> last_hidden, last_cell;
  for (std::size_t at = 0; at < weights.size();) {
    if (at > 0 && training && options_.dropout > 0) y = dropout(y, options_.dropout).output;
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction, ++at) {
      const RecurrentResult result = layer(y, tensors_of(weights[at]), of(first_hidden, at),
                                           of(first_cell, at), direction == 1);
      outputs.push_back(result.output);
      last_hidden.push_back(result.hidden);
      if (result.cell.defined()) last_cell.push_back(result.cell);
    }
    y = outputs.size() == 1 ? outputs[0] : concatenate(outputs, 2);
  }
  const auto joint = [&](const std::vector<Tensor>& states) {
    if (states.empty()) return Tensor();
    const Tensor all = stack(states);
    return batched ? all : squeeze(all, 1);
  };
  if (!batched) y = squeeze(y, 1);
  if (batched && options_.batch_first) y = y.transpose({1, 0, 2});
  return {y, joint(last_hidden), joint(last_cell)};
}

std::string RecurrentLayers::describe_members() const {
  return message(
      in_, " → ", hidden_, options_.layers == 1 ? "" : message(", layers ", options_.layers),
      options_.bidirectional ? ", bidirectional" : "", options_.batch_first ? ", batch first" : "",
      options_.dropout == 0 ? "" : message(", dropout ", options_.dropout),
      options_.bias ? "" : ", no bias");
}

void RecurrentLayers::visit_members(Walker& walk) {
  for (std::size_t at = 0; at < weights.size(); ++at) {
    const auto count = static_cast<std::size_t>(directions());
    const std::string end = message("_l", at / count, at % count == 1 ? "_reverse" : "");
    RecurrentParameters& each = weights[at];
    walk("weight_ih" + end, each.weight_ih)("weight_hh" + end, each.weight_hh)(
        "bias_ih" + end, each.bias_ih)("bias_hh" + end, each.bias_hh);
  }
  walk("training", training);
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : RecurrentLayers("RNN", 1, input_size, hidden_size,
                      {.layers = options.layers,
                       .bias = options.bias,
                       .batch_first = options.batch_first,
                       .dropout = options.dropout,
                       .bidirectional = options.bidirectional,
                       .dtype = options.dtype}),
      nonlinearity_(options.nonlinearity) {}

RecurrentOutput RNN::forward(const Tensor& x, const Tensor& hidden) const {
  const bool is_relu = nonlinearity_ == RecurrentActivation::relu;
  LSTMOutput result = run(x, hidden, {}, is_relu ? &relu_layer : &tanh_layer);
  return {std::move(result.output), std::move(result.hidden)};
}

std::string RNN::describe() const {
  return describe_members() + (nonlinearity_ == RecurrentActivation::relu ? ", relu" : "");
}

LSTMOutput LSTM::forward(const Tensor& x, const Tensor& hidden, const Tensor& cell) const {
  return run(x, hidden, cell, &lstm_layer);
}

RecurrentOutput GRU::forward(const Tensor& x, const Tensor& hidden) const {
  LSTMOutput result = run(x, hidden, {}, &gated_layer);
  return {std::move(result.output), std::move(result.hidden)};
}

// ---- cells

RecurrentCells::RecurrentCells(const char* name, std::int64_t gates, std::int64_t input_size,
                               std::int64_t hidden_size, const RecurrentCellOptions& options)
    : name_(name) {
  check_sizes(name, input_size, hidden_size);
  static_cast<RecurrentParameters&>(*this) =
      drawn(gates, input_size, hidden_size, options.bias, options.dtype);
}

LSTMState RecurrentCells::run(const Tensor& x, const Tensor& hidden, const Tensor& cell,
                              Layer layer) const {
  const std::int64_t in = weight_ih.shape()[1], units = weight_hh.shape()[1];
  check_floats(name_, "x", x, weight_ih);
  if ((x.ndim() != 1 && x.ndim() != 2) || x.size(-1) != in) {
    throw ShapeError(message(name_, ": x is ", x.shape(), ", must be [batch, ", in,
                             "] or, without a batch, [", in, "]"));
  }
  const bool batched = x.ndim() == 2;
  const Shape expected = batched ? Shape{x.size(0), units} : Shape{units};
  const char* meaning = batched ? "batch, hidden" : "hidden";
  check_state(name_, "hidden", hidden, weight_ih, expected, meaning);
  check_state(name_, "cell", cell, weight_ih, expected, meaning);
  const auto with_batch = [&](const Tensor& state) {
    return batched || !state.defined() ? state : unsqueeze(state, 0);
  };
  const auto without = [&](const Tensor& state) {
    return batched || !state.defined() ? state : squeeze(state, 0);
  };
  const RecurrentResult result = layer(unsqueeze(with_batch(x), 0), tensors_of(*this),
                                       with_batch(hidden), with_batch(cell), false);
  return {without(result.hidden), without(result.cell)};
}

std::string RecurrentCells::describe_members() const {
  return message(weight_ih.shape()[1], " → ", weight_hh.shape()[1],
                 bias_ih.defined() ? "" : ", no bias");
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : RecurrentCells("RNNCell", 1, input_size, hidden_size,
                     {.bias = options.bias, .dtype = options.dtype}),
      nonlinearity_(options.nonlinearity) {}

Tensor RNNCell::forward(const Tensor& x, const Tensor& hidden) const {
  const bool is_relu = nonlinearity_ == RecurrentActivation::relu;
  return run(x, hidden, {}, is_relu ? &relu_layer : &tanh_layer).hidden;
}

std::string RNNCell::describe() const {
  return describe_members() + (nonlinearity_ == RecurrentActivation::relu ? ", relu" : "");
}

LSTMState LSTMCell::forward(const Tensor& x, const Tensor& hidden, const Tensor& cell) const {
  return run(x, hidden, cell, &lstm_layer);
}

Tensor GRUCell::forward(const Tensor& x, const Tensor& hidden) const {
  return run(x, hidden, {}, &gated_layer).hidden;
}

}  // namespace extensor::nn
