// The data that an optimizer holds for a group of parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph.h"
#include "extensor/optim/optimizer.h"
#include "ops/optimizer_rule.h"
#include "optim/state_reader.h"

namespace extensor::optim {

// The states of one parameter.
struct Slot {
  Tensor states[ops::max_optimizer_states];
  std::int64_t steps = 0;
  bool fresh = false;  // a state was made for the step to come
};

struct Optimizer::Group {
  std::vector<Tensor> parameters;
  std::vector<Slot> slots;           // one for each
  std::vector<std::uint32_t> order;  // parameters of one device and dtype side by side
  std::optional<double> initial_lr;
  // The items of the next step, with room for all parameters: a step allocates nothing.
  std::vector<ops::OptimizerItem> items;
  std::vector<std::uint32_t> item_slots;
  std::vector<std::uint32_t> irregular;  // in any layout, so one by one
};

struct Optimizer::Loading {
  StateReader reader;
  std::vector<ops::StateUses> uses = {};  // of each group
};

inline std::string group_prefix(std::size_t group) {
  return "param_groups." + std::to_string(group) + ".";
}

// The gradient of a leaf, null where there is none.
inline Tensor* gradient_of(const detail::TensorImpl& parameter) {
  detail::Node* node = parameter.node.get();
  if (node == nullptr || !node->is_leaf()) return nullptr;
  Tensor& grad = static_cast<detail::LeafNode*>(node)->grad;
  return grad.defined() ? &grad : nullptr;
}

// ValueError, DTypeError: an optimizer, or an average, cannot have this as its parameter.
void check_parameter(const char* operation, std::size_t index, const Tensor& parameter);

}  // namespace extensor::optim
