// Invalid input to recurrent layers, their cells and their ops, and the error messages.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"

namespace extensor {
namespace {

template <class Error, class Function>
void expect_error(const Function& function, const std::vector<std::string>& parts) {
  try {
    function();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' in '" << error.what() << "'";
    }
  }
}

TEST(BadInputRecurrent, RefusesBadOptions) {
  expect_error<ValueError>([] { nn::LSTM(0, 4); }, {"LSTM", "input_size", "0"});
  expect_error<ValueError>([] { nn::GRU(3, -1); }, {"GRU", "hidden_size", "-1"});
  expect_error<ValueError>([] { nn::RNN(3, 4, {.layers = 0}); }, {"RNN", "layers", "0"});
  expect_error<ValueError>([] { nn::LSTM(3, 4, {.dropout = 1.5}); }, {"LSTM", "dropout", "1.5"});
  expect_error<ValueError>([] { nn::LSTM(3, 4, {.dropout = NAN}); }, {"LSTM", "dropout"});
  expect_error<ValueError>([] { nn::GRUCell(3, 0); }, {"GRUCell", "hidden_size", "0"});
  expect_error<ValueError>([] { nn::LSTM(3, std::int64_t{1} << 62); }, {"LSTM", "hidden_size"});
}

TEST(BadInputRecurrent, RefusesBadInput) {
  const nn::LSTM lstm(3, 4, {.layers = 2});
  expect_error<ShapeError>(
      [&] {
        lstm(zeros({5, 2, 4}));
      },
      {"LSTM", "x", "[5, 2, 4]", "[time, batch, 3]"});
  expect_error<ShapeError>([&] { lstm(zeros({3})); }, {"LSTM", "x", "[3]"});
  expect_error<ShapeError>([&] { lstm(zeros({1, 5, 2, 3})); }, {"LSTM", "x", "[1, 5, 2, 3]"});
  expect_error<ShapeError>([&] { lstm(zeros({0, 2, 3})); }, {"LSTM", "[0, 2, 3]", "time step"});
  expect_error<ShapeError>(
      [&] {
        lstm(zeros({5, 2, 3}), zeros({1, 2, 4}));
      },
      {"LSTM", "hidden", "[1, 2, 4]", "[2, 2, 4]"});
  expect_error<ShapeError>(
      [&] {
        lstm(zeros({5, 2, 3}), Tensor(), zeros({2, 3, 4}));
      },
      {"LSTM", "cell", "[2, 3, 4]", "[2, 2, 4]"});
  expect_error<ShapeError>(
      [&] {
        lstm(zeros({5, 3}), zeros({2, 1, 4}));
      },
      {"LSTM", "hidden", "[2, 1, 4]", "[2, 4]"});
  expect_error<DTypeError>([&] { lstm(zeros({5, 2, 3}, int64)); }, {"LSTM", "x", "int64"});
  expect_error<DTypeError>(
      [&] {
        lstm(zeros({5, 2, 3}), zeros({2, 2, 4}, int32));
      },
      {"LSTM", "hidden", "int32"});
  expect_error<ValueError>([&] { lstm(Tensor()); }, {"LSTM", "x", "undefined"});
  const nn::GRU first(3, 4, {.batch_first = true});
  expect_error<ShapeError>([&] { first(zeros({2, 0, 3})); }, {"GRU", "[2, 0, 3]"});
  expect_error<ShapeError>(
      [&] {
        first(zeros({2, 5, 3}), zeros({1, 5, 4}));
      },
      {"GRU", "hidden", "[1, 5, 4]", "[1, 2, 4]"});
  expect_error<ShapeError>(
      [&] {
        nn::LSTMCell(3, 4)(zeros({2, 4}));
      },
      {"LSTMCell", "x", "[2, 4]", "[batch, 3]"});
  expect_error<ShapeError>(
      [&] {
        nn::RNNCell(3, 4)(zeros({2, 3}), zeros({3, 4}));
      },
      {"RNNCell", "hidden", "[3, 4]", "[2, 4]"});
}

TEST(BadInputRecurrent, OpsRefuseBadInput) {
  const Tensor x = zeros({5, 2, 3}), w = zeros({16, 3}), u = zeros({16, 4});
  expect_error<ShapeError>(
      [&] {
        lstm_layer(x, {w, zeros({15, 4})});
      },
      {"lstm_layer", "weight_hh", "[15, 4]"});
  expect_error<ShapeError>(
      [&] {
        lstm_layer(x, {zeros({12, 3}), u});
      },
      {"lstm_layer", "weight_ih", "[12, 3]"});
  expect_error<ShapeError>([&] { lstm_layer(x[0], {w, u}); }, {"lstm_layer", "x", "[2, 3]"});
  expect_error<ShapeError>(
      [&] {
        lstm_layer(x, {w, u, zeros({4})});
      },
      {"lstm_layer", "bias_ih", "[4]", "[16]"});
  expect_error<ShapeError>(
      [&] {
        lstm_layer(x, {w, u}, zeros({4}));
      },
      {"lstm_layer", "hidden", "[4]", "[2, 4]"});
  expect_error<DTypeError>(
      [&] {
        lstm_layer(x, {w, u.to(int64)});
      },
      {"lstm_layer", "weight_hh", "int64"});
  expect_error<ShapeError>([&] { gru_layer(x, {w, u}); }, {"gru_layer", "weight_hh", "[16, 4]"});
  expect_error<ShapeError>(
      [&] {
        lstm_layer_backward({zeros({5, 2, 3})}, x, {w, u});
      },
      {"lstm_layer_backward", "gradients.output", "[5, 2, 3]", "[5, 2, 4]"});
  expect_error<ShapeError>(
      [&] {
        lstm_layer_backward({{}, zeros({2}), {}}, x, {w, u});
      },
      {"lstm_layer_backward", "gradients.hidden", "[2]", "[2, 4]"});
  RecurrentSaved saved = lstm_layer(x, {w, u}).saved;
  saved.gates = Tensor();
  expect_error<ShapeError>(
      [&] {
        lstm_layer_backward({zeros({5, 2, 4})}, x, {w, u}, {}, {}, false, saved);
      },
      {"lstm_layer_backward", "saved.gates", "[5, 2, 16]"});
}

}  // namespace
}  // namespace extensor
