// Rules for recurrent layers. ONNX orders the gates differently: an LSTM has input, output, forget,
// cell, where ExTensor has input, forget, cell, output; a GRU has update, reset, new, where
// ExTensor has reset, update, new. Nodes reorder the weights, so that the initializers keep their
// form.
#include "backend/recurrent_call.h"
#include "core/check.h"
#include "extensor/creation.h"
#include "onnx/graph_builder.h"

namespace extensor::onnx {

namespace {

using Order = std::vector<std::size_t>;

// The gates of a weight [gates · hidden, …] in another order.
std::string reordered(CallWriter& call, const std::string& weight, const Order& order,
                      std::int64_t hidden) {
  if (order.size() == 1) return weight;
  const std::vector<std::int64_t> sizes(order.size(), hidden);
  const Names gates = call.graph.nodes("Split", {weight, call.graph.integers(sizes)}, order.size(),
                                       {attribute("axis", 0)});
  Names parts;
  for (const std::size_t gate : order) parts.push_back(gates[gate]);
  return call.node("Concat", parts, {attribute("axis", 0)});
}

void write_layer(CallWriter& call, const char* type, const Order& order, Attributes attributes) {
  const DType dtype = call.result_dtype();
  const std::int64_t hidden = call.fixed(2, 1);
  const auto weight = [&](std::size_t k) {
    return call.unsqueeze(reordered(call, call.input(k, dtype), order, hidden), {0});
  };
  const auto bias = [&](std::size_t k) {
    if (call.has(k)) return reordered(call, call.input(k, dtype), order, hidden);
    return call.graph.constant(
        zeros({static_cast<std::int64_t>(order.size()) * hidden}, {.dtype = dtype}));
  };
  const auto state = [&](std::size_t k) {
    return call.has(k) ? call.unsqueeze(call.input(k, dtype), {0}) : std::string();
  };
  std::string biases;
  if (call.has(3) || call.has(4)) {
    biases = call.unsqueeze(call.node("Concat", {bias(3), bias(4)}, {attribute("axis", 0)}), {0});
  }
  attributes.push_back(attribute("hidden_size", hidden));
  attributes.push_back(attribute("direction", call.flag("reverse") ? "reverse" : "forward"));
  const bool is_lstm = order.size() == 4;
  Names inputs{call.input(0, dtype), weight(1), weight(2), biases, "", state(5)};
  if (is_lstm) inputs.push_back(state(6));
  const Names results = call.graph.nodes(type, inputs, is_lstm ? 3 : 2, attributes);
  call.result(0, call.squeeze(results[0], {1}));
  call.result(1, call.squeeze(results[1], {0}));
  if (is_lstm) call.result(2, call.squeeze(results[2], {0}));
}

void write_lstm(CallWriter& call) { write_layer(call, "LSTM", {0, 3, 1, 2}, {}); }

void write_gru(CallWriter& call) {
  write_layer(call, "GRU", {1, 0, 2}, {attribute("linear_before_reset", 1)});
}

void write_rnn(CallWriter& call) {
  // RecurrentCell numbers tanh and relu.
  const bool relu = call.integer("cell") == static_cast<int>(backend::RecurrentCell::relu);
  write_layer(call, "RNN", {0}, {attribute("activations", Names{relu ? "Relu" : "Tanh"})});
}

constexpr ExportRule rules[] = {
    {"lstm_layer", write_lstm},
    {"gru_layer", write_gru},
    {"rnn_layer", write_rnn},
};

}  // namespace

const std::span<const ExportRule> recurrent_export_rules = rules;

}  // namespace extensor::onnx
