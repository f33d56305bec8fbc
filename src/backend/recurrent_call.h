// The recurrent family: all time steps of one layer in one direction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class RecurrentCell : std::uint8_t { tanh, relu, lstm, gru };

// Gates of a cell: LSTM input, forget, cell, output; GRU reset, update, new.
constexpr std::int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}

// Dense memory. Step t reads the state of slot t and writes slot t + 1; in reverse, from the last
// step to the first, it reads slot t + 1 and writes slot t.
struct RecurrentCall {
  RecurrentCell cell;
  DType dtype;  // float32 or float64
  bool reverse = false;
  std::int64_t steps, batch, hidden;
  const std::byte* weight;          // [gates · hidden, hidden], of the state
  const std::byte* bias = nullptr;  // GRU: [hidden], added to the state's part of the new gate
  // [steps, batch, gates · hidden]: on entry the sum of the input's part and the biases, on return
  // the gates. With tanh and relu, whose derivative follows from the state, the returned contents
  // are unspecified.
  std::byte* gates;
  std::byte* states;           // [steps + 1, batch, hidden]; the caller fills the first slot
  std::byte* cells = nullptr;  // LSTM: as states. GRU: [steps, batch, hidden], the state's part of
                               // the new gate
};

// `forward` as the forward left it; with tanh and relu its gates are not read.
struct RecurrentBackwardCall {
  RecurrentCall forward;
  const std::byte* grad_output;    // [steps, batch, hidden]
  std::byte* grad_hidden;          // [batch, hidden], of the last state; becomes that of the first
  std::byte* grad_cell = nullptr;  // LSTM: likewise
  std::byte* grad_gates;           // [steps, batch, gates · hidden], before activations
  std::byte* grad_recurrent_gates = nullptr;  // GRU: the same for the state's part of them
};

}  // namespace extensor::backend
