// The base class of all optimizers: their parameters, and how options and states are saved and
// loaded.
#include "extensor/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "core/check.h"
#include "extensor/creation.h"
#include "ops/overlap.h"
#include "optim/group.h"

namespace extensor::optim {

using detail::message;

void check_parameter(const char* operation, std::size_t index, const Tensor& parameter) {
  if (!parameter.defined()) {
    throw ValueError(message(operation, ": parameter ", index, " is an undefined tensor"));
  }
  if (!is_floating_point(parameter.dtype())) {
    throw DTypeError(message(operation, ": parameter ", index, " is ", parameter.dtype(),
                             ", must be a float dtype"));
  }
  if (!parameter.is_leaf()) {
    throw ValueError(message(operation, ": parameter ", index, ", of shape ", parameter.shape(),
                             ", was computed by ", parameter.impl().node->name(),
                             "; only leaves can be optimized"));
  }
  ops::check_writable(operation, parameter);
}

// ---- parameters

Optimizer::Optimizer() = default;
Optimizer::~Optimizer() = default;

Optimizer::Group& Optimizer::group(std::size_t index) const {
  if (index < groups_.size()) return *groups_[index];
  throw IndexError(
      message(name(), ": group ", index, " of ", groups_.size(), " (they count from 0)"));
}

namespace {

// The byte range from the first element of a tensor to the last.
struct Extent {
  const std::byte* first;
  const std::byte* end;
  const Tensor* tensor;
};

Extent extent_of(const Tensor& x) {
  const auto item = static_cast<std::int64_t>(x.itemsize());
  std::int64_t low = 0, high = item;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const std::int64_t reach = (x.shape()[d] - 1) * x.strides()[d] * item;
    (reach < 0 ? low : high) += reach;
  }
  return {x.impl().data + low, x.impl().data + high, &x};
}

// Throws ValueError if two different tensors share an element, which would be stepped twice.
void check_apart(const char* operation, const std::vector<const Tensor*>& parameters) {
  std::vector<Extent> extents;
  for (const Tensor* parameter : parameters) {
    if (parameter->numel() != 0) extents.push_back(extent_of(*parameter));
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::less<>()(a.first, b.first); });
  for (std::size_t i = 0; i < extents.size(); ++i) {
    for (std::size_t j = i + 1; j < extents.size() && extents[j].first < extents[i].end; ++j) {
      const Tensor &a = *extents[i].tensor, &b = *extents[j].tensor;
      if (a.impl_or_null() == b.impl_or_null()) continue;
      if (ops::overlap(a, b) == ops::Overlap::none) continue;
      throw ValueError(message(operation, ": two parameters, of shapes ", a.shape(), " and ",
                               b.shape(),
                               ", share memory (allowed: the same tensor, or tensors "
                               "without a common element)"));
    }
  }
}

}  // namespace

void Optimizer::check_new_parameters(const std::vector<Tensor>& parameters) const {
  if (sharding_ != nullptr) {
    throw ValueError(message(name(),
                             ": parameters are added after the states were divided between "
                             "ranks (allowed: before)"));
  }
  std::unordered_set<const detail::TensorImpl*> seen;
  for (const auto& group : groups_) {
    for (const Tensor& parameter : group->parameters) seen.insert(parameter.impl_or_null());
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    check_parameter(name(), k, parameters[k]);
    if (!seen.insert(parameters[k].impl_or_null()).second) {
      throw ValueError(message(name(), ": parameter ", k, ", of shape ", parameters[k].shape(),
                               ", is there twice"));
    }
  }
  std::vector<const Tensor*> all;
  for (const auto& group : groups_) {
    for (const Tensor& parameter : group->parameters) all.push_back(&parameter);
  }
  for (const Tensor& parameter : parameters) all.push_back(&parameter);
  check_apart(name(), all);
}

void Optimizer::append_group(const std::vector<Tensor>& parameters) {
  auto group = std::make_unique<Group>();
  const std::size_t count = parameters.size();
  group->parameters = parameters;
  group->slots.resize(count);
  group->order.resize(count);
  std::iota(group->order.begin(), group->order.end(), 0u);
  const auto kind = [&](std::uint32_t k) {
    const Device device = parameters[k].device();
    return std::tuple(device.type, device.index, parameters[k].dtype());
  };
  std::stable_sort(group->order.begin(), group->order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return kind(a) < kind(b); });
  group->items.reserve(count);
  group->item_slots.reserve(count);
  groups_.push_back(std::move(group));
}

std::size_t Optimizer::group_count() const { return groups_.size(); }

const std::vector<Tensor>& Optimizer::parameters(std::size_t index) const {
  return group(index).parameters;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const auto& group : groups_) {
    all.insert(all.end(), group->parameters.begin(), group->parameters.end());
  }
  return all;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const auto& group : groups_) {
    for (const Tensor& parameter : group->parameters) {
      Tensor* grad = gradient_of(parameter.impl());
      if (grad == nullptr) continue;
      if (set_to_none) {
        *grad = Tensor();
      } else if (grad->requires_grad()) {  // created by a backward that was recorded
        *grad = zeros_like(*grad);
      } else {
        grad->fill(0);
      }
    }
  }
}

namespace {

void check_initial_lr(const std::string& operation, double lr) {
  if (lr >= 0 && std::isfinite(lr)) return;
  throw ValueError(message(operation, ": initial_lr is ", lr, ", must be finite and at least 0"));
}

}  // namespace

std::optional<double> Optimizer::initial_lr(std::size_t index) const {
  return group(index).initial_lr;
}

void Optimizer::set_initial_lr(std::size_t index, double lr) {
  Group& target = group(index);
  check_initial_lr(name(), lr);
  target.initial_lr = lr;
}

// ---- steps on a condition

void Optimizer::step_if_finite(const std::shared_ptr<LargestGradient>& largest) {
  struct Scope {
    Optimizer& optimizer;
    ~Scope() {
      for (const auto& group : optimizer.groups_) group->condition = nullptr;
    }
  } const scope{*this};
  for (const auto& group : groups_) group->condition = largest;
  step();
}

void Optimizer::Group::settle() {
  if (unread == nullptr) return;
  const bool made = unread->is_finite();
  unread = nullptr;
  if (made) return;
  for (const auto* stepped : {&item_slots, &irregular}) {
    for (const std::uint32_t k : *stepped) {
      --slots[k].steps;
      slots[k].fresh = slots[k].was_fresh;
    }
  }
}

// ---- saving and loading

namespace {

std::string slot_prefix(std::size_t parameter) {
  return "state." + std::to_string(parameter) + ".";
}

}  // namespace

StateDict Optimizer::state_dict() const {
  StateDict saved;
  std::size_t index = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = *groups_[g];
    group.settle();
    save_options(g, saved);
    const std::string prefix = group_prefix(g);
    saved.numbers[prefix + "params"] = static_cast<double>(group.slots.size());
    if (group.initial_lr) saved.numbers[prefix + "initial_lr"] = *group.initial_lr;
    const StateNames names = state_names();
    for (std::size_t p = 0; p < group.slots.size(); ++p) {
      const Slot& slot = group.slots[p];
      const std::string of_slot = slot_prefix(index++);
      for (int k = 0; k < ops::max_optimizer_states; ++k) {
        // Skip a state that was created for a step that failed.
        const bool unused = slot.fresh && (slot.steps == 0 || !names.steps);
        if (!slot.states[k].defined() || unused) continue;
        saved.tensors[of_slot + names.names[k]] =
            sharding_ == nullptr ? slot.states[k].clone()
                                 : sharding_->gather_state(group.parameters[p], slot.states[k]);
      }
      if (names.steps && slot.steps != 0) {
        saved.numbers[of_slot + "step"] = static_cast<double>(slot.steps);
      }
    }
  }
  return saved;
}

void Optimizer::load_state_dict(const StateDict& saved) {
  Loading loading{StateReader(message(name(), ".load_state_dict"), saved)};
  StateReader& reader = loading.reader;
  // Check the groups first: the state of another model fails here, before single names are missing.
  std::size_t saved_groups = 0;
  while (reader.has_number(group_prefix(saved_groups) + "params")) ++saved_groups;
  if (saved_groups != groups_.size()) {
    throw ValueError(message(reader.operation(), ": the state is of ", saved_groups,
                             " parameter groups, here are ", groups_.size()));
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    reader.expect(group_prefix(g) + "params", static_cast<std::int64_t>(groups_[g]->slots.size()),
                  "parameters in group " + std::to_string(g));
  }
  load_options(loading);

  std::vector<std::vector<Slot>> slots;
  std::vector<std::optional<double>> initial_lrs;
  const StateNames names = state_names();
  std::size_t index = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string initial = group_prefix(g) + "initial_lr";
    initial_lrs.emplace_back();
    if (reader.has_number(initial)) {
      initial_lrs.back() = reader.number(initial);
      check_initial_lr(reader.operation(), *initial_lrs.back());
    }
    slots.emplace_back(groups_[g]->slots.size());
    for (std::size_t k = 0; k < slots[g].size(); ++k) {
      const std::string prefix = slot_prefix(index++);
      const Tensor& parameter = groups_[g]->parameters[k];
      slots[g][k].part = groups_[g]->slots[k].part;
      bool any = reader.has_number(prefix + "step");
      for (const char* name : names.names)
        any |= name != nullptr && reader.has_tensor(prefix + name);
      if (!any) continue;
      for (int s = 0; s < ops::max_optimizer_states; ++s) {
        if (names.names[s] == nullptr) continue;
        const std::string name = prefix + names.names[s];
        if (!loading.uses[g].states[s].used && !reader.has_tensor(name)) continue;
        Tensor& state = slots[g][k].states[s];
        state = reader.tensor(name, parameter.shape(), ops::state_dtype(parameter.dtype()),
                              parameter.device());
        if (sharding_ != nullptr) state = part_of(state, slots[g][k].part).clone();
      }
      if (names.steps) slots[g][k].steps = reader.count(prefix + "step", 1);
    }
  }
  reader.finish();

  keep_loaded_options();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g]->slots.swap(slots[g]);
    groups_[g]->unread = nullptr;
    groups_[g]->initial_lr = initial_lrs[g];
  }
}

}  // namespace extensor::optim
