#include <cmath>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

enum class Cell { tanh, relu, lstm, gru };

struct Setting {
  Cell cell;
  bool bias = true, states = true, reverse = false;

  std::int64_t gates() const { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
  RecurrentActivation activation() const {
    return cell == Cell::relu ? RecurrentActivation::relu : RecurrentActivation::tanh;
  }
};

// Inputs: x, weight_ih, weight_hh, then the biases, then the initial states, if any.
RecurrentWeights weights_of(const Setting& s, const Tensors& in) {
  return {in[1], in[2], s.bias ? in[3] : Tensor(), s.bias ? in[4] : Tensor()};
}
Tensor hidden_of(const Setting& s, const Tensors& in) {
  return s.states ? in[s.bias ? 5 : 3] : Tensor();
}
Tensor cell_of(const Setting& s, const Tensors& in) {
  return s.states ? in[s.bias ? 6 : 4] : Tensor();
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// By the definition, one unit of one sample at a time.
Tensors reference(const Setting& s, const Tensors& in) {
  const PlainArray x(in[0]), w(in[1]), u(in[2]);
  const std::int64_t steps = x.shape[0], batch = x.shape[1], width = x.shape[2];
  const std::int64_t hidden = u.shape[1], gates = s.gates();
  const PlainArray b = s.bias ? PlainArray(in[3]) : PlainArray(Shape{gates * hidden});
  const PlainArray v = s.bias ? PlainArray(in[4]) : PlainArray(Shape{gates * hidden});
  const Shape state{batch, hidden};
  const bool is_lstm = s.cell == Cell::lstm;
  PlainArray h = s.states ? PlainArray(hidden_of(s, in)) : PlainArray(state);
  PlainArray c = s.states && is_lstm ? PlainArray(cell_of(s, in)) : PlainArray(state);
  PlainArray output(Shape{steps, batch, hidden});
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t t = s.reverse ? steps - 1 - step : step;
    const PlainArray before = h;
    for_each_position(state, [&](const Dims& at) {
      const auto of_input = [&](std::int64_t gate) {
        const std::int64_t row = gate * hidden + at[1];
        double total = b.at({row});
        for (std::int64_t k = 0; k < width; ++k) total += w.at({row, k}) * x.at({t, at[0], k});
        return total;
      };
      const auto of_state = [&](std::int64_t gate) {
        const std::int64_t row = gate * hidden + at[1];
        double total = v.at({row});
        for (std::int64_t k = 0; k < hidden; ++k) total += u.at({row, k}) * before.at({at[0], k});
        return total;
      };
      const auto both = [&](std::int64_t gate) { return of_input(gate) + of_state(gate); };
      switch (s.cell) {
        case Cell::tanh:
          h.at(at) = std::tanh(both(0));
          break;
        case Cell::relu:
          h.at(at) = std::max(0.0, both(0));
          break;
        case Cell::lstm:
          c.at(at) = sigmoid_of(both(1)) * c.at(at) + sigmoid_of(both(0)) * std::tanh(both(2));
          h.at(at) = sigmoid_of(both(3)) * std::tanh(c.at(at));
          break;
        case Cell::gru: {
          const double z = sigmoid_of(both(1));
          const double n = std::tanh(of_input(2) + sigmoid_of(both(0)) * of_state(2));
          h.at(at) = (1 - z) * n + z * before.at(at);
          break;
        }
      }
      output.at({t, at[0], at[1]}) = h.at(at);
    });
  }
  Tensors results{output.to_tensor(), h.to_tensor()};
  if (is_lstm) results.push_back(c.to_tensor());
  return results;
}

Tensors forward(const Setting& s, const Tensors& in) {
  const RecurrentWeights weights = weights_of(s, in);
  const Tensor hidden = hidden_of(s, in);
  if (s.cell == Cell::lstm) {
    const RecurrentResult result = lstm_layer(in[0], weights, hidden, cell_of(s, in), s.reverse);
    return {result.output, result.hidden, result.cell};
  }
  const RecurrentResult result = s.cell == Cell::gru
                                     ? gru_layer(in[0], weights, hidden, s.reverse)
                                     : rnn_layer(in[0], weights, hidden, s.activation(), s.reverse);
  return {result.output, result.hidden};
}

Tensors backward(const Setting& s, const Tensors& g, const Tensors& in) {
  const RecurrentWeights weights = weights_of(s, in);
  const Tensor hidden = hidden_of(s, in);
  const RecurrentResultGradients given{g[0], g[1], s.cell == Cell::lstm ? g[2] : Tensor()};
  RecurrentGradients gradients;
  if (s.cell == Cell::lstm) {
    gradients = lstm_layer_backward(given, in[0], weights, hidden, cell_of(s, in), s.reverse);
  } else if (s.cell == Cell::gru) {
    gradients = gru_layer_backward(given, in[0], weights, hidden, s.reverse);
  } else {
    gradients = rnn_layer_backward(given, in[0], weights, hidden, s.activation(), s.reverse);
  }
  Tensors list{gradients.x, gradients.weights.weight_ih, gradients.weights.weight_hh};
  if (s.bias) {
    list.push_back(gradients.weights.bias_ih);
    list.push_back(gradients.weights.bias_hh);
  }
  if (s.states) list.push_back(gradients.hidden);
  if (s.states && s.cell == Cell::lstm) list.push_back(gradients.cell);
  return list;
}

struct Extent {
  std::int64_t steps, batch, in, hidden;
};

Sample sample(const std::string& label, const Setting& s, const Extent& extent, std::uint64_t seed,
              double range = 0.8) {
  const std::int64_t rows = s.gates() * extent.hidden;
  Sample result;
  result.label = label;
  result.inputs = {
      sample_uniform({extent.steps, extent.batch, extent.in}, -1.5, 1.5, seed),
      sample_uniform({rows, extent.in}, -range, range, seed + 1),
      sample_uniform({rows, extent.hidden}, -range, range, seed + 2),
  };
  if (s.bias) {
    result.inputs.push_back(sample_uniform({rows}, -1, 1, seed + 3));
    result.inputs.push_back(sample_uniform({rows}, -1, 1, seed + 4));
  }
  if (s.states) {
    result.inputs.push_back(sample_uniform({extent.batch, extent.hidden}, -1, 1, seed + 5));
    if (s.cell == Cell::lstm) {
      result.inputs.push_back(sample_uniform({extent.batch, extent.hidden}, -1, 1, seed + 6));
    }
  }
  result.forward = [s](const Tensors& in) { return forward(s, in); };
  result.reference = [s](const Tensors& in) { return reference(s, in); };
  result.backward = [s](const Tensors& g, const Tensors& in) { return backward(s, g, in); };
  return result;
}

std::vector<Sample> samples(Cell cell) {
  return {
      sample("time 3, batch 2, 3 → 4", {cell}, {3, 2, 3, 4}, 1),
      sample("reverse", {.cell = cell, .reverse = true}, {3, 2, 3, 4}, 11),
      sample("no bias", {.cell = cell, .bias = false}, {2, 3, 2, 3}, 21),
      sample("no states", {.cell = cell, .states = false}, {3, 2, 2, 3}, 31),
      sample("no bias, no states, reverse",
             {.cell = cell, .bias = false, .states = false, .reverse = true}, {3, 1, 2, 3}, 41),
      cell == Cell::tanh ? sample("one step, 17 units", {cell}, {1, 2, 2, 17}, 51, 0.3)
                         : sample("one step, 9 units", {cell}, {1, 2, 2, 9}, 51, 0.5),
      sample("batch 9", {cell}, {2, 9, 2, 2}, 61),
      sample("no batch", {cell}, {2, 0, 3, 2}, 71),
      sample("no time", {cell}, {0, 2, 3, 2}, 81),
  };
}

}  // namespace

void add_recurrent(std::vector<Op>& ops) {
  Op rnn;
  rnn.name = "rnn_layer";
  rnn.family = "recurrent";
  rnn.formula = "h' = tanh or relu of W_ih·x + b_ih + W_hh·h + b_hh, for all steps";
  rnn.gradient =
      "da = (g + dh) · slope and dh = W_hhᵀ·da from the last step to the first; dW_ih = daᵀ·x, "
      "dW_hh = daᵀ·h, db = Σ da, dx = da·W_ih over all steps";
  rnn.backward = {"rnn_layer_backward"};
  rnn.samples = [] {
    std::vector<Sample> list = samples(Cell::tanh);
    // Only positive terms, far from the kink.
    Sample relu = sample("relu", {.cell = Cell::relu}, {3, 2, 3, 4}, 91);
    for (std::size_t k = 0; k < relu.inputs.size(); ++k) {
      relu.inputs[k] = abs(relu.inputs[k]) + 0.1;
    }
    // One unit is always off.
    relu.inputs[3][1].fill(-30);
    list.push_back(std::move(relu));
    return list;
  };
  ops.push_back(std::move(rnn));

  Op lstm;
  lstm.name = "lstm_layer";
  lstm.family = "recurrent";
  lstm.formula =
      "i, f, o = sigmoid and g = tanh of W_ih·x + b_ih + W_hh·h + b_hh; c' = f · c + i · g, "
      "h' = o · tanh(c'), for all steps";
  lstm.gradient =
      "dc += (g + dh) · o · (1 − tanh²(c')), from it those of the gates, dh = W_hhᵀ·da and "
      "dc = f · dc, from the last step to the first; the weights' over all steps as of rnn_layer";
  lstm.backward = {"lstm_layer_backward"};
  lstm.samples = [] { return samples(Cell::lstm); };
  ops.push_back(std::move(lstm));

  Op gru;
  gru.name = "gru_layer";
  gru.family = "recurrent";
  gru.formula =
      "r, z = sigmoid of W_ih·x + b_ih + W_hh·h + b_hh, n = tanh(W_in·x + b_in + r · (W_hn·h + "
      "b_hn)); h' = (1 − z) · n + z · h, for all steps";
  gru.gradient =
      "dn = (g + dh) · (1 − z) · (1 − n²), dz = (g + dh) · (h − n) · z (1 − z), dr = dn · (W_hn·h "
      "+ b_hn) · r (1 − r), dh = z · (g + dh) + W_hhᵀ·[dr, dz, r · dn]; the weights' over all "
      "steps";
  gru.backward = {"gru_layer_backward"};
  gru.samples = [] { return samples(Cell::gru); };
  ops.push_back(std::move(gru));
}

}  // namespace extensor::op_database
