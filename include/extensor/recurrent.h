// Recurrent layers in one direction, over all time steps at once. nn::RNN, nn::LSTM and nn::GRU use
// them.
#pragma once

#include <cstdint>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Gates are stacked in this order: LSTM input, forget, cell, output; GRU reset, update, new; RNN
// one.
struct RecurrentWeights {
  Tensor weight_ih;     // [gates · hidden, in]
  Tensor weight_hh;     // [gates · hidden, hidden]
  Tensor bias_ih = {};  // [gates · hidden], or none
  Tensor bias_hh = {};
};

// Computed by the forward and read by the backward, in float32 or float64.
struct RecurrentSaved {
  Tensor states;  // [time + 1, batch, hidden]: the first state and those of all steps, in time
  Tensor gates;   // [time, batch, gates · hidden]; undefined for an RNN
  Tensor cells;   // LSTM: like states; GRU: [time, batch, hidden], W_hn·h + b_hn
};

struct RecurrentResult {
  Tensor output;  // [time, batch, hidden]: the state after each step
  Tensor hidden;  // [batch, hidden]: after the last step
  Tensor cell;    // LSTM: likewise
  RecurrentSaved saved;
};

// Gradients of the results; an undefined one stands for zeros.
struct RecurrentResultGradients {
  Tensor output, hidden = {}, cell = {};
};

struct RecurrentGradients {
  Tensor x;
  RecurrentWeights weights;  // undefined for a missing bias
  Tensor hidden, cell;       // of the initial states, whether passed or not; cell: LSTM
};

enum class RecurrentActivation : std::uint8_t { tanh, relu };

// x: [time, batch, in]. Initial states: [batch, hidden], zeros by default. `reverse` runs from the
// last step to the first. Floats; dtypes promote, and halves are computed in float32. Errors:
// ShapeError, DTypeError for integers.

// h' = activation(W_ih·x + b_ih + W_hh·h + b_hh)
RecurrentResult rnn_layer(const Tensor& x, const RecurrentWeights& weights,
                          const Tensor& hidden = {},
                          RecurrentActivation activation = RecurrentActivation::tanh,
                          StrictBool reverse = false);
// i, f, o = sigmoid(W_ih·x + b_ih + W_hh·h + b_hh), g = tanh(likewise)
// c' = f · c + i · g,   h' = o · tanh(c')
RecurrentResult lstm_layer(const Tensor& x, const RecurrentWeights& weights,
                           const Tensor& hidden = {}, const Tensor& cell = {},
                           StrictBool reverse = false);
// r, z = sigmoid(W_ih·x + b_ih + W_hh·h + b_hh), n = tanh(W_in·x + b_in + r · (W_hn·h + b_hn))
// h' = (1 − z) · n + z · h
RecurrentResult gru_layer(const Tensor& x, const RecurrentWeights& weights,
                          const Tensor& hidden = {}, StrictBool reverse = false);

// The backward functions take the arguments of the forward; without `saved` the forward runs again.
RecurrentGradients rnn_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                      const RecurrentWeights& weights, const Tensor& hidden = {},
                                      RecurrentActivation activation = RecurrentActivation::tanh,
                                      StrictBool reverse = false, const RecurrentSaved& saved = {});
RecurrentGradients lstm_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                       const RecurrentWeights& weights, const Tensor& hidden = {},
                                       const Tensor& cell = {}, StrictBool reverse = false,
                                       const RecurrentSaved& saved = {});
RecurrentGradients gru_layer_backward(const RecurrentResultGradients& gradients, const Tensor& x,
                                      const RecurrentWeights& weights, const Tensor& hidden = {},
                                      StrictBool reverse = false, const RecurrentSaved& saved = {});

}  // namespace extensor

EXTENSOR_END_API
