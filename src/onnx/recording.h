// The calls of ops that a function makes, as data, and what they depend on: the inputs, the state
// of a module, constants, and results of other calls.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "extensor/named_tensors.h"
#include "extensor/nn/walker.h"
#include "onnx/attribute_tree.h"
#include "ops/record_elementwise.h"

namespace extensor::onnx {

constexpr int no_value = -1;  // an optional input that is not given, or a number

struct RecordedValue {
  enum class Kind : std::uint8_t { input, state, constant, result };

  Kind kind = Kind::constant;
  std::string name;  // of state
  Tensor tensor;
  std::vector<Size> shape;
  std::uint64_t version = 0;  // of its storage, when it was computed
};

struct RecordedCall {
  const ops::Op* op = nullptr;
  AttributeTree attributes;
  std::optional<ops::RowAttributes> row;  // of an elementwise op
  std::vector<int> inputs, results;       // values
  std::string module;                     // "Net.layers.0"; empty outside of modules
};

struct Recording {
  std::vector<RecordedValue> values;
  std::vector<RecordedCall> calls;
  std::vector<int> inputs, outputs;
  std::int64_t batch = 0;  // if sizes may depend on it
};

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// The module that is recorded; without one, a function.
struct RecordedModule {
  const nn::detail::Walk* walk = nullptr;
  nn::ModuleDescription description;
};

// Calls the function in evaluation mode, without gradients and without Autocast, with the inputs
// and with others, and returns the calls that it makes for all of them. With `dynamic_batch`, the
// sizes that depend on axis 0 of the inputs have a slope. ValueError if the calls, or values that
// they get from elsewhere, depend on the inputs: a graph of calls cannot represent that.
Recording record(const char* operation, const Function& function, const RecordedModule& module,
                 const NamedTensors& state, std::span<const Tensor> inputs, bool dynamic_batch);

}  // namespace extensor::onnx
