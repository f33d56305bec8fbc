// Recurrent layers and their cells, with PyTorch's parameter names, layouts, gates and initial
// distribution: U(−1/√hidden, 1/√hidden).
//
//   nn::LSTM lstm(64, 128, {.layers = 2, .batch_first = true});
//   auto [output, hidden, cell] = lstm(x);
#pragma once

#include <string>
#include <vector>

#include "extensor/export.h"
#include "extensor/nn/module.h"
#include "extensor/recurrent.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

struct RecurrentOptions {
  std::int64_t layers = 1;
  bool bias = true;
  bool batch_first = false;  // x and output are [batch, time, …]; states are unaffected
  double dropout = 0;        // dropout between layers, during training
  bool bidirectional = false;
  DType dtype = default_float;
};
struct RNNOptions {
  std::int64_t layers = 1;
  RecurrentActivation nonlinearity = RecurrentActivation::tanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  DType dtype = default_float;
};

// The parameters of one layer in one direction; see extensor::RecurrentWeights.
struct RecurrentParameters {
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;
};

struct RecurrentOutput {
  Tensor output;  // [time, batch, directions · hidden], from the last layer
  Tensor hidden;  // [layers · directions, batch, hidden], after the last step
};
struct LSTMOutput {
  Tensor output, hidden, cell;
};

// Common base of RNN, LSTM and GRU. x is [time, batch, in], or [time, in] without a batch; then no
// other tensor has a batch either. Initial states have the shape of the final ones and default to
// zeros.
class RecurrentLayers {
 public:
  // The layers in order, each followed by its reverse direction: weight_ih_l0, …, bias_hh_l0,
  // weight_ih_l0_reverse, …
  std::vector<RecurrentParameters> weights;
  Training training;

 protected:
  RecurrentLayers(const char* name, std::int64_t gates, std::int64_t input_size,
                  std::int64_t hidden_size, const RecurrentOptions& options);

  // One layer in one direction.
  using Layer = RecurrentResult (*)(const Tensor& x, const RecurrentWeights& weights,
                                    const Tensor& hidden, const Tensor& cell, StrictBool reverse);
  LSTMOutput run(const Tensor& x, const Tensor& hidden, const Tensor& cell, Layer layer) const;
  std::string describe_members() const;
  void visit_members(Walker& walk);

 private:
  void check(const Tensor& x, const Tensor& hidden, const Tensor& cell) const;
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  const char* name_;
  std::int64_t in_, hidden_;
  RecurrentOptions options_;
};

class RNN final : public Module<RNN>, public RecurrentLayers {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  RecurrentOutput forward(const Tensor& x, const Tensor& hidden = {}) const;
  std::string describe() const;
  void visit(Walker& walk) { visit_members(walk); }

 private:
  RecurrentActivation nonlinearity_;
};

class LSTM final : public Module<LSTM>, public RecurrentLayers {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : RecurrentLayers("LSTM", 4, input_size, hidden_size, options) {}
  LSTMOutput forward(const Tensor& x, const Tensor& hidden = {}, const Tensor& cell = {}) const;
  std::string describe() const { return describe_members(); }
  void visit(Walker& walk) { visit_members(walk); }
};

class GRU final : public Module<GRU>, public RecurrentLayers {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : RecurrentLayers("GRU", 3, input_size, hidden_size, options) {}
  RecurrentOutput forward(const Tensor& x, const Tensor& hidden = {}) const;
  std::string describe() const { return describe_members(); }
  void visit(Walker& walk) { visit_members(walk); }
};

// ---- cells

struct RecurrentCellOptions {
  bool bias = true;
  DType dtype = default_float;
};
struct RNNCellOptions {
  bool bias = true;
  RecurrentActivation nonlinearity = RecurrentActivation::tanh;
  DType dtype = default_float;
};

struct LSTMState {
  Tensor hidden, cell;
};

// Common base of the cells, which compute one step. x is [batch, in] or [in]; so are the states.
class RecurrentCells : public RecurrentParameters {
 protected:
  RecurrentCells(const char* name, std::int64_t gates, std::int64_t input_size,
                 std::int64_t hidden_size, const RecurrentCellOptions& options);

  using Layer = RecurrentResult (*)(const Tensor& x, const RecurrentWeights& weights,
                                    const Tensor& hidden, const Tensor& cell, StrictBool reverse);
  LSTMState run(const Tensor& x, const Tensor& hidden, const Tensor& cell, Layer layer) const;
  std::string describe_members() const;
  void visit_members(Walker& walk) {
    walk("weight_ih", weight_ih)("weight_hh", weight_hh)("bias_ih", bias_ih)("bias_hh", bias_hh);
  }

 private:
  const char* name_;
};

class RNNCell final : public Module<RNNCell>, public RecurrentCells {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& hidden = {}) const;
  std::string describe() const;
  void visit(Walker& walk) { visit_members(walk); }

 private:
  RecurrentActivation nonlinearity_;
};

class LSTMCell final : public Module<LSTMCell>, public RecurrentCells {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size,
           const RecurrentCellOptions& options = {})
      : RecurrentCells("LSTMCell", 4, input_size, hidden_size, options) {}
  LSTMState forward(const Tensor& x, const Tensor& hidden = {}, const Tensor& cell = {}) const;
  std::string describe() const { return describe_members(); }
  void visit(Walker& walk) { visit_members(walk); }
};

class GRUCell final : public Module<GRUCell>, public RecurrentCells {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size,
          const RecurrentCellOptions& options = {})
      : RecurrentCells("GRUCell", 3, input_size, hidden_size, options) {}
  Tensor forward(const Tensor& x, const Tensor& hidden = {}) const;
  std::string describe() const { return describe_members(); }
  void visit(Walker& walk) { visit_members(walk); }
};

}  // namespace extensor::nn

EXTENSOR_END_API
