// RNN, LSTM and GRU against plain loops over doubles: values, gradients by finite differences,
// directions, layers, layouts, states, dropout; and their parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using Values = std::vector<double>;

enum class Kind { tanh, relu, lstm, gru };

std::int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

// ---- the reference

struct Matrix {
  std::int64_t rows, columns;
  Values values;

  explicit Matrix(std::int64_t r = 0, std::int64_t c = 0)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  explicit Matrix(const Tensor& x)
      : rows(x.ndim() == 1 ? 1 : x.size(0)),
        columns(x.size(-1)),
        values(x.to(float64).to_vector<double>()) {}
  double& operator()(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

struct State {
  Values h, c;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One sample, one step.
State step(Kind kind, const Values& x, const State& before, const Matrix& w, const Matrix& u,
           const Matrix& b, const Matrix& v) {
  const auto hidden = static_cast<std::int64_t>(before.h.size());
  State after = before;
  for (std::int64_t j = 0; j < hidden; ++j) {
    double of_x[4] = {}, of_h[4] = {};
    for (std::int64_t gate = 0; gate < gates_of(kind); ++gate) {
      const std::int64_t row = gate * hidden + j;
      for (std::size_t k = 0; k < x.size(); ++k) {
        of_x[gate] += w(row, static_cast<std::int64_t>(k)) * x[k];
      }
      for (std::int64_t k = 0; k < hidden; ++k) {
        of_h[gate] += u(row, k) * before.h[static_cast<std::size_t>(k)];
      }
      if (b.columns > 0) of_x[gate] += b(0, row), of_h[gate] += v(0, row);
    }
    const auto at = static_cast<std::size_t>(j);
    const auto both = [&](int gate) { return of_x[gate] + of_h[gate]; };
    if (kind == Kind::tanh) after.h[at] = std::tanh(both(0));
    if (kind == Kind::relu) after.h[at] = std::max(0.0, both(0));
    if (kind == Kind::lstm) {
      after.c[at] = logistic(both(1)) * before.c[at] + logistic(both(0)) * std::tanh(both(2));
      after.h[at] = logistic(both(3)) * std::tanh(after.c[at]);
    }
    if (kind == Kind::gru) {
      const double z = logistic(both(1));
      const double n = std::tanh(of_x[2] + logistic(both(0)) * of_h[2]);
      after.h[at] = (1 - z) * n + z * before.h[at];
    }
  }
  return after;
}

struct Expected {
  Tensor output, hidden, cell;
};

// The named parameters of a module; x is [time, batch, in].
Expected reference(Kind kind, const nn::NamedTensors& parameters, const Tensor& x,
                   std::int64_t layers, bool bidirectional, const Tensor& h0, const Tensor& c0) {
  const auto find = [&](const std::string& name) {
    for (const auto& [key, tensor] : parameters) {
      if (key == name) return Matrix(tensor);
    }
    return Matrix();
  };
  const std::int64_t steps = x.size(0), batch = x.size(1);
  const std::int64_t hidden = find("weight_hh_l0").columns, directions = bidirectional ? 2 : 1;
  // sequences[sample][time]
  std::vector<std::vector<Values>> sequences(static_cast<std::size_t>(batch));
  const Values all = x.to(float64).to_vector<double>();
  for (std::int64_t s = 0; s < batch; ++s) {
    for (std::int64_t t = 0; t < steps; ++t) {
      const auto begin = all.begin() + (t * batch + s) * x.size(2);
      sequences[static_cast<std::size_t>(s)].emplace_back(begin, begin + x.size(2));
    }
  }
  Values last_h(static_cast<std::size_t>(layers * directions * batch * hidden));
  Values last_c(last_h.size());
  const Values first_h = h0.defined() ? h0.to(float64).to_vector<double>() : Values();
  const Values first_c = c0.defined() ? c0.to(float64).to_vector<double>() : Values();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t s = 0; s < batch; ++s) {
      auto& sequence = sequences[static_cast<std::size_t>(s)];
      std::vector<Values> next(sequence.size());
      for (std::int64_t direction = 0; direction < directions; ++direction) {
        const std::string end = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
        const Matrix w = find("weight_ih" + end), u = find("weight_hh" + end);
        const Matrix b = find("bias_ih" + end), v = find("bias_hh" + end);
        const std::int64_t at = ((layer * directions + direction) * batch + s) * hidden;
        State state{Values(static_cast<std::size_t>(hidden)),
                    Values(static_cast<std::size_t>(hidden))};
        for (std::int64_t j = 0; j < hidden; ++j) {
          const auto from = static_cast<std::size_t>(at + j), to = static_cast<std::size_t>(j);
          if (!first_h.empty()) state.h[to] = first_h[from];
          if (!first_c.empty()) state.c[to] = first_c[from];
        }
        for (std::size_t k = 0; k < sequence.size(); ++k) {
          const std::size_t t = direction == 1 ? sequence.size() - 1 - k : k;
          state = step(kind, sequence[t], state, w, u, b, v);
          next[t].insert(next[t].end(), state.h.begin(), state.h.end());
        }
        std::copy(state.h.begin(), state.h.end(), last_h.begin() + at);
        std::copy(state.c.begin(), state.c.end(), last_c.begin() + at);
      }
      sequence = std::move(next);
    }
  }
  Values output;
  for (std::int64_t t = 0; t < steps; ++t) {
    for (std::int64_t s = 0; s < batch; ++s) {
      const Values& row = sequences[static_cast<std::size_t>(s)][static_cast<std::size_t>(t)];
      output.insert(output.end(), row.begin(), row.end());
    }
  }
  const Shape states{layers * directions, batch, hidden};
  return {from_data(output, {steps, batch, directions * hidden}), from_data(last_h, states),
          from_data(last_c, states)};
}

// ---- modules of all kinds

struct Setting {
  std::int64_t layers = 1;
  bool bias = true, batch_first = false, bidirectional = false;
  double dropout = 0;
  DType dtype = float64;
};

// The three modules with a common interface.
struct Any {
  nn::NamedTensors parameters;
  std::function<nn::LSTMOutput(const Tensor& x, const Tensor& h, const Tensor& c)> run;
};

template <class Module>
Any any_of(std::shared_ptr<Module> module) {
  return {module->named_parameters(),
          [module](const Tensor& x, const Tensor& h, const Tensor& c) -> nn::LSTMOutput {
            if constexpr (std::is_same_v<Module, nn::LSTM>) {
              return (*module)(x, h, c);
            } else {
              const nn::RecurrentOutput result = (*module)(x, h);
              return {result.output, result.hidden, {}};
            }
          }};
}

Any make(Kind kind, std::int64_t in, std::int64_t hidden, const Setting& s) {
  const nn::RecurrentOptions options{s.layers,  s.bias,          s.batch_first,
                                     s.dropout, s.bidirectional, s.dtype};
  if (kind == Kind::lstm) return any_of(std::make_shared<nn::LSTM>(in, hidden, options));
  if (kind == Kind::gru) return any_of(std::make_shared<nn::GRU>(in, hidden, options));
  const auto activation =
      kind == Kind::relu ? RecurrentActivation::relu : RecurrentActivation::tanh;
  return any_of(
      std::make_shared<nn::RNN>(in, hidden,
                                nn::RNNOptions{s.layers, activation, s.bias, s.batch_first,
                                               s.dropout, s.bidirectional, s.dtype}));
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  if (got.numel() == 0) return;
  const double error = max_reduce(abs(got.to(float64) - expected)).item<double>();
  EXPECT_LE(error, tolerance) << what;
}

constexpr Kind kinds[] = {Kind::tanh, Kind::relu, Kind::lstm, Kind::gru};

void expect_values(Kind kind, const Setting& s, std::int64_t steps, std::int64_t batch,
                   std::int64_t in, std::int64_t hidden, bool states, double tolerance) {
  manual_seed(static_cast<std::uint64_t>(steps * 1000 + hidden));
  const Any module = make(kind, in, hidden, s);
  const std::int64_t count = s.layers * (s.bidirectional ? 2 : 1);
  const Tensor x = uniform({steps, batch, in}, -1, 1, s.dtype);
  const Tensor h0 = states ? uniform({count, batch, hidden}, -1, 1, s.dtype) : Tensor();
  const Tensor c0 =
      states && kind == Kind::lstm ? uniform({count, batch, hidden}, -1, 1, s.dtype) : Tensor();
  const Expected expected =
      reference(kind, module.parameters, x, s.layers, s.bidirectional, h0, c0);
  const auto check = [&](const nn::LSTMOutput& got, const char* mode) {
    const std::string what = std::string(mode) + ", kind " + std::to_string(int(kind));
    const Tensor output = s.batch_first ? got.output.transpose({1, 0, 2}) : got.output;
    EXPECT_EQ(output.dtype(), s.dtype);
    expect_close(output, expected.output, tolerance, what + ": output");
    expect_close(got.hidden, expected.hidden, tolerance, what + ": hidden");
    if (kind == Kind::lstm) expect_close(got.cell, expected.cell, tolerance, what + ": cell");
  };
  const Tensor given = s.batch_first ? x.transpose({1, 0, 2}) : x;
  check(module.run(given, h0, c0), "recorded");
  const NoGrad off;
  check(module.run(given, h0, c0), "not recorded");
}

TEST(NnRecurrent, ValuesAgreeWithPlainLoops) {
  for (const Kind kind : kinds) {
    expect_values(kind, {}, 5, 3, 4, 6, false, 1e-13);
    expect_values(kind, {}, 5, 3, 4, 6, true, 1e-13);
    expect_values(kind, {.layers = 3}, 4, 2, 3, 5, true, 1e-13);
    expect_values(kind, {.bidirectional = true}, 4, 2, 3, 5, true, 1e-13);
    expect_values(kind, {.layers = 2, .bidirectional = true}, 4, 2, 3, 5, false, 1e-13);
    expect_values(kind, {.layers = 2, .bias = false}, 4, 2, 3, 5, true, 1e-13);
    expect_values(kind, {.layers = 2, .batch_first = true, .bidirectional = true}, 4, 3, 2, 5, true,
                  1e-13);
    expect_values(kind, {}, 1, 1, 1, 1, true, 1e-13);
    expect_values(kind, {}, 3, 0, 2, 4, true, 1e-13);
  }
}

// Sizes that are split into parts and end in the middle of a vector.
TEST(NnRecurrent, ValuesOfLargerSizes) {
  for (const Kind kind : kinds) {
    expect_values(kind, {}, 3, 37, 20, 131, true, 1e-12);
    expect_values(kind, {.dtype = float32}, 3, 37, 20, 131, true, 5e-6);
    expect_values(kind, {.dtype = float32}, 2, 3, 5, 300, true, 5e-6);
    expect_values(kind, {.dtype = float16}, 6, 5, 4, 9, true, 2e-3);
    expect_values(kind, {.dtype = bfloat16}, 6, 5, 4, 9, true, 2e-2);
  }
}

// Sums of more terms than one block holds.
TEST(NnRecurrent, ValuesOfManyUnits) {
  expect_values(Kind::gru, {.dtype = float32}, 2, 2, 2, 1100, true, 2e-5);
  expect_values(Kind::tanh, {.dtype = float32}, 2, 9, 2, 1100, true, 2e-5);
}

// ---- gradients

// Σ of the results times fixed numbers.
Tensor loss_of(const nn::LSTMOutput& result) {
  Tensor loss = full({}, 0.0, float64);
  double phase = 0.3;
  for (const Tensor& y : {result.output, result.hidden, result.cell}) {
    if (!y.defined()) continue;
    Values factors(static_cast<std::size_t>(y.numel()));
    for (double& factor : factors) factor = std::sin(phase += 1.7);
    loss = loss + sum(y * from_data(factors, y.shape()));
  }
  return loss;
}

void expect_gradients(Kind kind, const Setting& s, bool states) {
  manual_seed(5);
  const std::int64_t steps = 3, batch = 2, in = 3, hidden = 4;
  const Any module = make(kind, in, hidden, s);
  const std::int64_t count = s.layers * (s.bidirectional ? 2 : 1);
  std::vector<std::pair<std::string, Tensor>> inputs = module.parameters;
  const Shape shape = s.batch_first ? Shape{batch, steps, in} : Shape{steps, batch, in};
  const Tensor x = uniform(shape, -1, 1, float64).requires_grad_();
  inputs.emplace_back("x", x);
  Tensor h0, c0;
  if (states) {
    h0 = uniform({count, batch, hidden}, -1, 1, float64).requires_grad_();
    inputs.emplace_back("h0", h0);
    if (kind == Kind::lstm) {
      c0 = uniform({count, batch, hidden}, -1, 1, float64).requires_grad_();
      inputs.emplace_back("c0", c0);
    }
  }
  loss_of(module.run(x, h0, c0)).backward();
  // The reference's loss, with the values varied one by one.
  const auto plain_loss = [&] {
    const NoGrad off;
    const Tensor time_first = s.batch_first ? x.detach().transpose({1, 0, 2}) : x.detach();
    const Expected y =
        reference(kind, module.parameters, time_first, s.layers, s.bidirectional, h0, c0);
    const Tensor output = s.batch_first ? y.output.transpose({1, 0, 2}).contiguous() : y.output;
    return loss_of({output, y.hidden, kind == Kind::lstm ? y.cell : Tensor()}).item<double>();
  };
  for (auto& [name, tensor] : inputs) {
    ASSERT_TRUE(tensor.grad().defined()) << name;
    const Values gradient = tensor.grad().to_vector<double>();
    const Tensor values = tensor.detach().flatten();
    for (std::int64_t i = 0; i < tensor.numel(); i += 1 + tensor.numel() / 6) {
      Tensor value = values[i];
      const double before = value.item<double>(), width = 1e-4;
      const auto moved = [&](double by) {
        value.fill(before + by * width);
        const double loss = plain_loss();
        value.fill(before);
        return loss;
      };
      const double slope = (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * width);
      EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], slope, 1e-8)
          << "kind " << int(kind) << ", " << name << " " << i;
    }
  }
}

TEST(NnRecurrent, GradientsAgreeWithFiniteDifferences) {
  for (const Kind kind : kinds) {
    expect_gradients(kind, {}, true);
    expect_gradients(kind, {.layers = 2, .bidirectional = true}, true);
    expect_gradients(kind, {.layers = 2, .bias = false, .batch_first = true}, false);
  }
}

// The gradient of a single result, and of a single input.
TEST(NnRecurrent, GradientsOfSomeResultsAndInputs) {
  manual_seed(6);
  const nn::LSTM lstm(3, 4, {.dtype = float64});
  const RecurrentWeights weights{lstm.weights[0].weight_ih, lstm.weights[0].weight_hh,
                                 lstm.weights[0].bias_ih, lstm.weights[0].bias_hh};
  const Tensor x = uniform({3, 2, 3}, -1, 1, float64).requires_grad_();
  const Tensor ones_of_state = ones({2, 4}, float64);
  const Tensor of_cell = grad({sum(lstm(x).cell)}, {x})[0];
  const RecurrentGradients expected =
      lstm_layer_backward({{}, {}, ones_of_state}, x.detach(),
                          {weights.weight_ih.detach(), weights.weight_hh.detach(),
                           weights.bias_ih.detach(), weights.bias_hh.detach()});
  EXPECT_TRUE(allclose(of_cell, expected.x, 1e-12, 1e-14));
  const Tensor of_bias =
      grad({sum(lstm(x.detach()).hidden)}, {lstm.weights[0].bias_hh.tensor()})[0];
  const RecurrentGradients of_hidden =
      lstm_layer_backward({{}, ones_of_state, {}}, x.detach(),
                          {weights.weight_ih.detach(), weights.weight_hh.detach(),
                           weights.bias_ih.detach(), weights.bias_hh.detach()});
  EXPECT_TRUE(allclose(of_bias, of_hidden.weights.bias_hh, 1e-12, 1e-14));
}

// A layer whose input depends on its own weights: the gradient's graph must not count them twice.
TEST(NnRecurrent, SecondGradientWhereInputsDependOnEachOther) {
  manual_seed(7);
  const Tensor w = uniform({8, 2}, -1, 1, float64), u = uniform({8, 2}, -1, 1, float64);
  const auto first = [&](const std::vector<Tensor>& in, bool create_graph) {
    const Tensor x = tanh(in[0].slice(0, 0, 6)).reshape({3, 2, 2});
    const Tensor loss = sum(square(lstm_layer(x, {in[0], in[1]}).output));
    const auto g = grad({loss}, in, {.create_graph = create_graph});
    return concatenate({flatten(g[0]), flatten(g[1])});
  };
  const auto leaves = [](const std::vector<Tensor>& in) {
    return std::vector{in[0].clone().requires_grad_(), in[1].clone().requires_grad_()};
  };
  const auto result =
      gradcheck([&](const std::vector<Tensor>& in) { return first(leaves(in), false); },
                [&](const Tensor& v, const std::vector<Tensor>& in) {
                  const auto own = leaves(in);
                  return grad({first(own, true)}, own, {.grad_outputs = {v}});
                },
                {w, u});
  EXPECT_TRUE(result) << result.message;
}

TEST(NnRecurrent, WritingToAnOutputThatWasSavedIsNoticed) {
  const nn::LSTM lstm(3, 4);
  Tensor output = lstm(rand({3, 2, 3})).output;
  output += 1.0;
  EXPECT_THROW(sum(output).backward(), ValueError) << "the states it saved were written to";
}

TEST(NnRecurrent, ResultsDoNotDependOnTheNumberOfThreads) {
  manual_seed(8);
  const int before = get_num_threads();
  for (const Kind kind : kinds) {
    for (const std::int64_t batch : {1, 7, 33}) {
      const Any module = make(kind, 17, 150, {.dtype = float32});
      const Tensor x = uniform({4, batch, 17}, -1, 1);
      std::vector<Tensor> first;
      for (const int threads : {1, 2, 3, 5}) {
        set_num_threads(threads);
        const Tensor leaf = x.clone().requires_grad_();
        const nn::LSTMOutput y = module.run(leaf, {}, {});
        std::vector<Tensor> asked{leaf};
        for (const auto& [name, tensor] : module.parameters) asked.push_back(tensor);
        std::vector<Tensor> all = grad({sum(square(y.output))}, asked);
        all.push_back(y.output.detach());
        if (first.empty()) first = all;
        for (std::size_t k = 0; k < all.size(); ++k) {
          EXPECT_TRUE(::extensor::all(equal(all[k], first[k])).item<bool>())
              << "kind " << int(kind) << ", batch " << batch << ", threads " << threads;
        }
      }
    }
  }
  set_num_threads(before);
}

// ---- modules

TEST(NnRecurrent, ParametersHavePyTorchsNamesAndShapes) {
  const nn::LSTM lstm(3, 5, {.layers = 2, .bidirectional = true});
  const std::vector<std::pair<std::string, Shape>> expected = {{"weight_ih_l0", {20, 3}},
                                                               {"weight_hh_l0", {20, 5}},
                                                               {"bias_ih_l0", {20}},
                                                               {"bias_hh_l0", {20}},
                                                               {"weight_ih_l0_reverse", {20, 3}},
                                                               {"weight_hh_l0_reverse", {20, 5}},
                                                               {"bias_ih_l0_reverse", {20}},
                                                               {"bias_hh_l0_reverse", {20}},
                                                               {"weight_ih_l1", {20, 10}},
                                                               {"weight_hh_l1", {20, 5}},
                                                               {"bias_ih_l1", {20}},
                                                               {"bias_hh_l1", {20}},
                                                               {"weight_ih_l1_reverse", {20, 10}},
                                                               {"weight_hh_l1_reverse", {20, 5}},
                                                               {"bias_ih_l1_reverse", {20}},
                                                               {"bias_hh_l1_reverse", {20}}};
  const nn::NamedTensors got = lstm.named_parameters();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_EQ(got[k].first, expected[k].first);
    EXPECT_EQ(got[k].second.shape(), expected[k].second) << got[k].first;
  }
  EXPECT_EQ(nn::GRU(3, 5, {.bias = false}).named_parameters().size(), 2U);
  EXPECT_EQ(nn::GRU(3, 5).parameters()[0].shape(), (Shape{15, 3}));
  EXPECT_EQ(nn::RNN(3, 5).parameters()[1].shape(), (Shape{5, 5}));
  const nn::NamedTensors cell = nn::GRUCell(3, 5).named_parameters();
  ASSERT_EQ(cell.size(), 4U);
  EXPECT_EQ(cell[0].first, "weight_ih");
  EXPECT_EQ(cell[3].first, "bias_hh");
  EXPECT_EQ(cell[3].second.shape(), (Shape{15}));
}

TEST(NnRecurrent, ParametersBeginUniform) {
  manual_seed(9);
  const nn::LSTM lstm(30, 64);
  for (const auto& [name, tensor] : lstm.named_parameters()) {
    const double largest = max_reduce(abs(tensor)).item<double>();
    EXPECT_LE(largest, 0.125) << name;
    EXPECT_GT(largest, 0.12) << name;
    EXPECT_NEAR(mean(tensor).item<double>(), 0, 0.02) << name;
  }
}

TEST(NnRecurrent, Descriptions) {
  EXPECT_EQ(nn::LSTM(3, 5).describe(), "3 → 5");
  EXPECT_EQ(
      nn::GRU(
          3, 5,
          {.layers = 2, .bias = false, .batch_first = true, .dropout = 0.5, .bidirectional = true})
          .describe(),
      "3 → 5, layers 2, bidirectional, batch first, dropout 0.5, no bias");
  EXPECT_EQ(nn::RNN(3, 5, {.nonlinearity = RecurrentActivation::relu}).describe(), "3 → 5, relu");
  EXPECT_EQ(nn::LSTMCell(3, 5, {.bias = false}).describe(), "3 → 5, no bias");
  EXPECT_NE(nn::LSTM(3, 5).summary().find("weight_ih_l0"), std::string::npos);
}

TEST(NnRecurrent, DropoutIsDrawnBetweenLayersWhileTraining) {
  manual_seed(10);
  nn::LSTM lstm(4, 8, {.layers = 2, .dropout = 0.5, .dtype = float64});
  const Tensor x = uniform({3, 2, 4}, -1, 1, float64);
  const auto drawn = [&](std::uint64_t seed) {
    manual_seed(seed);
    return lstm(x).output.detach();
  };
  EXPECT_TRUE(allclose(drawn(1), drawn(1), 0, 0));
  EXPECT_FALSE(allclose(drawn(1), drawn(2)));
  lstm.eval();
  const Expected expected = reference(Kind::lstm, lstm.named_parameters(), x, 2, false, {}, {});
  expect_close(drawn(3), expected.output, 1e-13, "eval");
  // Everything is dropped: the second layer sees zeros, but the state of the first layer is
  // unaffected.
  nn::LSTM none(4, 8, {.layers = 2, .dropout = 1, .dtype = float64});
  const nn::LSTMOutput got = none(x);
  const Expected whole = reference(Kind::lstm, none.named_parameters(), x, 2, false, {}, {});
  expect_close(got.hidden[0].detach(), whole.hidden[0], 1e-13, "first layer");
  const nn::LSTMOutput other = none(x * 2.0);
  EXPECT_TRUE(allclose(got.output, other.output, 0, 0));
  EXPECT_FALSE(allclose(got.output, whole.output));
}

TEST(NnRecurrent, WithoutABatch) {
  manual_seed(11);
  for (const bool batch_first : {false, true}) {
    const nn::LSTM lstm(4, 3, {.layers = 2, .batch_first = batch_first, .dtype = float64});
    const Tensor x = uniform({5, 4}, -1, 1, float64), h = uniform({2, 3}, -1, 1, float64);
    const auto [output, hidden, cell] = lstm(x, h);
    const nn::LSTMOutput batched = lstm(unsqueeze(x, batch_first ? 0 : 1), unsqueeze(h, 1));
    EXPECT_EQ(output.shape(), (Shape{5, 3}));
    EXPECT_EQ(hidden.shape(), (Shape{2, 3}));
    EXPECT_EQ(cell.shape(), (Shape{2, 3}));
    EXPECT_TRUE(allclose(output, batched.output.reshape({5, 3}), 0, 0));
    EXPECT_TRUE(allclose(hidden, batched.hidden.reshape({2, 3}), 0, 0));
  }
}

TEST(NnRecurrent, CellsAreOneStep) {
  manual_seed(12);
  const auto as_layer = [](const nn::NamedTensors& parameters) {
    nn::NamedTensors renamed;
    for (const auto& [name, tensor] : parameters) renamed.emplace_back(name + "_l0", tensor);
    return renamed;
  };
  const Tensor x = uniform({3, 4}, -1, 1, float64), h = uniform({3, 5}, -1, 1, float64);
  const Tensor c = uniform({3, 5}, -1, 1, float64);
  const auto expected = [&](Kind kind, const auto& cell, bool states) {
    return reference(kind, as_layer(cell.named_parameters()), unsqueeze(x, 0), 1, false,
                     states ? unsqueeze(h, 0) : Tensor(), states ? unsqueeze(c, 0) : Tensor());
  };
  const nn::RNNCell tanh_cell(4, 5, {.dtype = float64});
  const nn::RNNCell relu_cell(4, 5, {.nonlinearity = RecurrentActivation::relu, .dtype = float64});
  const nn::GRUCell gru(4, 5, {.dtype = float64});
  const nn::LSTMCell lstm(4, 5, {.dtype = float64});
  const auto same = [](const Tensor& got, const Tensor& wanted, const char* what) {
    expect_close(unsqueeze(got, 0).detach(), wanted, 1e-13, what);
  };
  same(tanh_cell(x, h), expected(Kind::tanh, tanh_cell, true).hidden, "tanh");
  same(relu_cell(x, h), expected(Kind::relu, relu_cell, true).hidden, "relu");
  same(gru(x, h), expected(Kind::gru, gru, true).hidden, "gru");
  same(gru(x), expected(Kind::gru, gru, false).hidden, "gru without a state");
  const auto [hidden, cell] = lstm(x, h, c);
  same(hidden, expected(Kind::lstm, lstm, true).hidden, "lstm");
  same(cell, expected(Kind::lstm, lstm, true).cell, "lstm's cell");
  EXPECT_EQ(lstm(x[0], h[0]).hidden.shape(), (Shape{5}));
  EXPECT_TRUE(allclose(gru(x[1], h[1]), gru(x, h)[1], 1e-12, 1e-14));
}

// A sequence whose first number must be remembered to the end.
TEST(NnRecurrent, AnLstmLearnsToRemember) {
  manual_seed(13);
  nn::LSTM lstm(1, 8);
  nn::Linear head(8, 1);
  std::vector<Tensor> parameters = lstm.parameters();
  for (const Tensor& each : head.parameters()) parameters.push_back(each);
  std::vector<AdamState> states;
  for (const Tensor& each : parameters) states.push_back({zeros_like(each), zeros_like(each)});
  double first = 0, last = 0;
  for (int round = 0; round < 150; ++round) {
    const Tensor bits = floor(rand({16, 1}) * 2.0);
    Tensor x = uniform({8, 16, 1}, -0.1, 0.1);
    x[0].copy_from(bits);
    const Tensor loss = binary_cross_entropy_with_logits(head(lstm(x).hidden[0]), bits);
    lstm.zero_grad(), head.zero_grad();
    loss.backward();
    const NoGrad off;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      adam_step(parameters[k], parameters[k].grad(), states[k], round + 1, {.lr = 0.03});
    }
    (round == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 4);
}

}  // namespace
}  // namespace extensor
