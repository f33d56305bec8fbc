// Recurrent layers of files; export_recurrent.cpp explains the order of the gates.
#include <algorithm>

#include "extensor/manipulation.h"
#include "extensor/recurrent.h"
#include "onnx/program.h"

namespace extensor::onnx {

using detail::message;

namespace {

using Order = std::vector<std::int64_t>;

// The gates of a weight [gates · hidden, …] in another order.
Tensor reordered(const Tensor& weight, const Order& order) {
  if (order.size() == 1) return weight;
  const auto count = static_cast<std::int64_t>(order.size());
  const std::int64_t hidden = weight.size(0) / count;
  std::vector<Tensor> gates;
  for (const std::int64_t gate : order) {
    gates.push_back(weight.slice(0, gate * hidden, (gate + 1) * hidden));
  }
  return concatenate(gates, 0);
}

struct Layer {
  Order order;  // of ExTensor's gates among ONNX's
  std::int64_t hidden = 0;
  bool forward = true, backward = false;
  RecurrentActivation activations[2] = {};  // of an RNN
};

// The weights of one direction: W, R and B of the node.
RecurrentWeights weights_of(const Layer& layer, Arguments x, std::int64_t direction) {
  const auto part = [&](const Tensor& of) {
    return of.slice(0, direction, direction + 1).squeeze(0);
  };
  const auto rows = static_cast<std::int64_t>(layer.order.size()) * layer.hidden;
  RecurrentWeights weights{reordered(part(x[1]), layer.order), reordered(part(x[2]), layer.order)};
  if (x.size() > 3 && x[3].defined()) {
    const Tensor both = part(x[3]);
    if (both.shape() != Shape{2 * rows}) {
      throw ShapeError(message("its biases are ", x[3].shape(), ", must have ", 2 * rows,
                               " for each direction"));
    }
    weights.bias_ih = reordered(both.slice(0, 0, rows), layer.order);
    weights.bias_hh = reordered(both.slice(0, rows), layer.order);
  }
  return weights;
}

RecurrentResult run_one(const Layer& layer, Arguments x, std::int64_t direction, bool reverse) {
  const RecurrentWeights weights = weights_of(layer, x, direction);
  const auto state = [&](std::size_t k) {
    return k < x.size() && x[k].defined() ? x[k].slice(0, direction, direction + 1).squeeze(0)
                                          : Tensor();
  };
  if (layer.order.size() == 4) return lstm_layer(x[0], weights, state(5), state(6), reverse);
  if (layer.order.size() == 3) return gru_layer(x[0], weights, state(5), reverse);
  return rnn_layer(x[0], weights, state(5), layer.activations[direction], reverse);
}

Kernel kernel_of(const Layer& layer) {
  return [layer](Arguments x) {
    const std::int64_t directions = layer.forward && layer.backward ? 2 : 1,
                       gates = static_cast<std::int64_t>(layer.order.size());
    for (const std::size_t k : {std::size_t{1}, std::size_t{2}}) {
      if (x[k].ndim() == 3 && x[k].size(0) == directions && x[k].size(1) % gates == 0 &&
          x[k].size(1) / gates == layer.hidden) {
        continue;
      }
      throw ShapeError(message("its weights are ", x[k].shape(), " for ", directions,
                               " directions of ", gates, " gates with hidden_size ", layer.hidden));
    }
    std::vector<Tensor> outputs, hidden, cells;
    for (std::int64_t d = 0; d < directions; ++d) {
      RecurrentResult result = run_one(layer, x, d, !layer.forward || d == 1);
      outputs.push_back(result.output.unsqueeze(1));
      hidden.push_back(result.hidden);
      if (result.cell.defined()) cells.push_back(result.cell);
    }
    Results results{outputs.size() == 1 ? outputs[0] : concatenate(outputs, 1), stack(hidden)};
    if (!cells.empty()) results.push_back(stack(cells));
    return results;
  };
}

// The attributes of all three. `standard` are the activations of one direction.
Layer layer_of(NodeReader& node, Order order, const std::vector<std::string>& standard) {
  Layer layer{std::move(order)};
  layer.hidden = node.integer("hidden_size", 0);
  if (layer.hidden < 1) node.refuse("attribute hidden_size is ", layer.hidden);
  const std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node.refuse("attribute direction is '", direction, "'");
  }
  layer.forward = direction != "reverse";
  layer.backward = direction != "forward";
  if (node.integer("layout", 0) != 0) node.refuse("attribute layout must be 0");
  if (node.has("clip") || node.has("activation_alpha") || node.has("activation_beta") ||
      node.flag("input_forget", false)) {
    node.refuse("clip, input_forget and parameters of activations are not supported");
  }
  if (node.has_input(4)) node.refuse("sequence lengths are not supported");
  if (const auto names = node.texts("activations")) {
    const std::size_t count = layer.forward && layer.backward ? 2 : 1;
    if (names->size() != count * standard.size()) node.refuse("its activations are too few");
    for (std::size_t k = 0; k < names->size(); ++k) {
      const std::string& name = (*names)[k];
      if (standard.size() == 1 && name == "Relu") {
        layer.activations[k] = RecurrentActivation::relu;
      } else if (name != standard[k % standard.size()]) {
        node.refuse("activation ", name, " is not supported");
      }
    }
  }
  return layer;
}

Kernel translate_lstm(NodeReader& node) {
  if (node.has_input(7)) node.refuse("peepholes are not supported");
  return kernel_of(layer_of(node, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}));
}

Kernel translate_gru(NodeReader& node) {
  if (!node.flag("linear_before_reset", false)) {
    node.refuse("linear_before_reset must be 1");
  }
  return kernel_of(layer_of(node, {1, 0, 2}, {"Sigmoid", "Tanh"}));
}

Kernel translate_rnn(NodeReader& node) { return kernel_of(layer_of(node, {0}, {"Tanh"})); }

constexpr ImportRule rules[] = {
    {"LSTM", 3, 8, translate_lstm},
    {"GRU", 3, 6, translate_gru},
    {"RNN", 3, 6, translate_rnn},
};

}  // namespace

const std::span<const ImportRule> recurrent_import_rules = rules;

}  // namespace extensor::onnx
