// The data that an optimizer holds for a group of parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/graph.h"
#include "extensor/optim/optimizer.h"
#include "ops/optimizer_rule.h"
#include "optim/largest_gradient.h"
#include "optim/sharding.h"
#include "optim/state_reader.h"

namespace extensor::optim {

// The states of one parameter.
struct Slot {
  Tensor states[ops::max_optimizer_states];
  Sharding::Part part = {};  // that states and steps are for, if the optimizer is sharded
  std::int64_t steps = 0;
  bool fresh = false;      // a state was created for the coming step
  bool was_fresh = false;  // at the last step
};

struct Optimizer::Group {
  std::vector<Tensor> parameters;
  std::vector<Slot> slots;           // one per parameter
  std::vector<std::uint32_t> order;  // parameters grouped by device and dtype
  std::optional<double> initial_lr;
  // The items of the next step. Reserved for all parameters, so that a step allocates nothing.
  std::vector<ops::OptimizerItem> items;
  std::vector<std::uint32_t> item_slots;
  std::vector<std::uint32_t> irregular;  // in other layouts; stepped one by one

  // The condition of the step that is being made: nothing is changed unless it is finite. Null:
  // none.
  std::shared_ptr<LargestGradient> condition;
  // The condition of the last step, if the host has not read it. The step counts as made until
  // then.
  std::shared_ptr<LargestGradient> unread;

  // Reads that condition, and takes a step back that was not made.
  void settle();
};

struct Optimizer::Loading {
  StateReader reader;
  std::vector<ops::StateUses> uses = {};  // of each group
};

inline std::string group_prefix(std::size_t group) {
  return "param_groups." + std::to_string(group) + ".";
}

// The gradient of a leaf, or null if there is none.
inline Tensor* gradient_of(const detail::TensorImpl& parameter) {
  detail::Node* node = parameter.node.get();
  if (node == nullptr || !node->is_leaf()) return nullptr;
  Tensor& grad = static_cast<detail::LeafNode*>(node)->grad;
  return grad.defined() ? &grad : nullptr;
}

// Throws ValueError or DTypeError if the tensor cannot be a parameter of an optimizer or an
// average.
void check_parameter(const char* operation, std::size_t index, const Tensor& parameter);

}  // namespace extensor::optim
