// The optimizers: their options, and the step over all parameters at once.
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "optim/group.h"
#include "optim/option_fields.h"

namespace extensor::optim {

using detail::message;
using detail::TensorImpl;
using ops::OptimizerItem;
using ops::state_dtype;

namespace {

template <class Options>
constexpr bool counts_steps = ops::OptimizerRule<Options>::counts_steps;

template <class Options>
constexpr bool with_momentum = requires(Options o) {
  o.momentum;
};
template <class Options>
constexpr bool with_betas = requires(Options o) {
  o.betas;
};

// Whether kernels can process both in place; any other parameter is stepped separately.
bool is_regular(const TensorImpl& parameter, const TensorImpl& grad) {
  return parameter.contiguous && grad.contiguous && parameter.dtype == grad.dtype &&
         parameter.storage.get() != grad.storage.get() && parameter.shape == grad.shape &&
         parameter.storage->device == grad.storage->device;
}

}  // namespace

// ---- groups and options

template <class Options>
OptimizerOf<Options>::OptimizerOf(const std::vector<Tensor>& parameters, const Options& options) {
  if (parameters.empty()) throw ValueError(message(name(), ": there are no parameters"));
  add_group(parameters, options);
}

template <class Options>
OptimizerOf<Options>::OptimizerOf(const std::vector<ParameterGroup<Options>>& groups) {
  std::size_t count = 0;
  for (const auto& group : groups) count += group.parameters.size();
  if (count == 0) {
    throw ValueError(message(name(), ": there are no parameters in ", groups.size(), " groups"));
  }
  for (const auto& group : groups) add_group(group.parameters, group.options);
}

template <class Options>
OptimizerOf<Options>::~OptimizerOf() = default;

template <class Options>
void OptimizerOf<Options>::add_group(const std::vector<Tensor>& parameters,
                                     const Options& options) {
  ops::check_options(name(), options);
  check_new_parameters(parameters);
  options_.reserve(options_.size() + 1);
  append_group(parameters);
  options_.push_back(options);
}

template <class Options>
const Options& OptimizerOf<Options>::options(std::size_t index) const {
  group(index);
  return options_[index];
}

template <class Options>
void OptimizerOf<Options>::set_options(std::size_t index, const Options& options) {
  group(index);
  ops::check_options(name(), options);
  options_[index] = options;
}

template <class Options>
double OptimizerOf<Options>::lr(std::size_t index) const {
  return options(index).lr;
}

template <class Options>
void OptimizerOf<Options>::set_lr(std::size_t index, double lr) {
  Options changed = options(index);
  changed.lr = lr;
  set_options(index, changed);
}

template <class Options>
bool OptimizerOf<Options>::has_momentum() const {
  return with_momentum<Options> || with_betas<Options>;
}

template <class Options>
double OptimizerOf<Options>::momentum(std::size_t index) const {
  if constexpr (with_momentum<Options>) {
    return options(index).momentum;
  } else if constexpr (with_betas<Options>) {
    return options(index).betas.first;
  } else {
    throw ValueError(message(name(), ": there is no momentum"));
  }
}

template <class Options>
void OptimizerOf<Options>::set_momentum(std::size_t index, double momentum) {
  Options changed = options(index);
  if constexpr (with_momentum<Options>) {
    changed.momentum = momentum;
  } else if constexpr (with_betas<Options>) {
    changed.betas.first = momentum;
  } else {
    throw ValueError(message(name(), ": there is no momentum to set to ", momentum));
  }
  set_options(index, changed);
}

// ---- stepping

template <class Options>
void OptimizerOf<Options>::step() {
  check_sharding();
  for (std::size_t g = 0; g < groups_.size(); ++g) collect(g);
  for (std::size_t g = 0; g < groups_.size(); ++g) launch(g);
  if (sharding_ != nullptr) sharding_->gather_parameters();
}

// Finds the parameters with a gradient, checks them and creates missing states.
template <class Options>
void OptimizerOf<Options>::collect(std::size_t index) {
  Group& group = *groups_[index];
  const Options& options = options_[index];
  const ops::StateUses uses = ops::state_uses(options);
  group.settle();
  group.items.clear();
  group.item_slots.clear();
  group.irregular.clear();
  for (const std::uint32_t k : group.order) {
    const TensorImpl& parameter = group.parameters[k].impl();
    const Tensor* grad = gradient_of(parameter);
    if (grad == nullptr) continue;
    Slot& slot = group.slots[k];
    const bool regular = is_regular(parameter, grad->impl());
    if (!regular) ops::check_param_and_grad(name(), group.parameters[k], *grad);
    OptimizerItem item;
    for (int s = 0; s < ops::max_optimizer_states; ++s) {
      if (!uses.states[s].used) continue;
      Tensor& state = slot.states[s];
      if (!state.defined()) [[unlikely]] {
        // States are dense in any case, because the parameter's layout may change between steps.
        state =
            full(sharding_ != nullptr ? Shape{slot.part.size()} : parameter.shape,
                 uses.states[s].initial, {state_dtype(parameter.dtype), parameter.storage->device});
        slot.fresh = true;
      } else if (!(state.device() == parameter.storage->device) ||
                 state.dtype() != state_dtype(parameter.dtype)) [[unlikely]] {
        // The module was moved or converted.
        state = state.to(parameter.storage->device, state_dtype(parameter.dtype));
      }
      item.states[s] = detail::dense_data(state);
    }
    if (!regular) {
      group.irregular.push_back(k);
      continue;
    }
    item.numel = parameter.numel;
    item.param = parameter.data;
    item.grad = grad->impl().data;
    if (sharding_ != nullptr) {
      const auto offset = static_cast<std::size_t>(slot.part.begin) * itemsize(parameter.dtype);
      item.numel = slot.part.size();
      item.param += offset;
      item.grad += offset;
    }
    group.items.push_back(item);
    group.item_slots.push_back(k);
  }
}

template <class Options>
void OptimizerOf<Options>::launch(std::size_t index) {
  Group& group = *groups_[index];
  const Options& options = options_[index];
  // If steps are not counted, step 1 is the one that created the states: SGD's momentum may be
  // enabled late.
  const auto step_of = [](const Slot& slot) {
    return counts_steps<Options> ? slot.steps + 1 : slot.fresh ? 1 : 2;
  };
  const auto condition = [&](Device device) {
    return group.condition == nullptr
               ? nullptr
               : detail::kernel_pointer<const double>(group.condition->on(device));
  };
  const std::size_t count = group.items.size();
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    const TensorImpl& first = group.parameters[group.item_slots[begin]].impl();
    const std::int64_t step = step_of(group.slots[group.item_slots[begin]]);
    for (; end < count; ++end) {
      const std::uint32_t k = group.item_slots[end];
      const TensorImpl& other = group.parameters[k].impl();
      if (other.dtype != first.dtype || step_of(group.slots[k]) != step ||
          !(other.storage->device == first.storage->device)) {
        break;
      }
    }
    ops::step_items(ops::OptimizerRule<Options>::op, first.storage->device, first.dtype,
                    state_dtype(first.dtype), std::span(group.items).subspan(begin, end - begin),
                    ops::coefficients_of(options, step), condition(first.storage->device));
  }
  const auto stepped = [&](Slot& slot) {
    ++slot.steps;
    slot.was_fresh = std::exchange(slot.fresh, false);
  };
  for (const std::uint32_t k : group.item_slots) {
    detail::wrote(group.parameters[k]);
    stepped(group.slots[k]);
  }
  for (const std::uint32_t k : group.irregular) {
    Slot& slot = group.slots[k];
    Tensor* const states[] = {&slot.states[0], &slot.states[1], &slot.states[2]};
    Tensor &parameter = group.parameters[k], &grad = *gradient_of(parameter.impl());
    const auto step_one = [&](Tensor& x, const Tensor& gradient) {
      ops::step_one(name(), x, gradient, states, step_of(slot), options, condition(x.device()));
    };
    if (sharding_ == nullptr) {
      step_one(parameter, grad);
    } else {
      Tensor whole = part_of(parameter, {0, parameter.numel()}).clone();
      Tensor part = part_of(whole, slot.part);
      step_one(part, part_of(grad, slot.part));
      const detail::RecordingScope off(false);
      parameter.copy_from(whole.reshape(parameter.shape()));
    }
    stepped(slot);
  }
  group.unread = group.condition;
}

// ---- saving and loading

template <class Options>
const char* OptimizerOf<Options>::name() const {
  return ops::OptimizerRule<Options>::name;
}

template <class Options>
Optimizer::StateNames OptimizerOf<Options>::state_names() const {
  const ops::StateUses uses = ops::state_uses(options_[0]);
  return {{uses.states[0].name, uses.states[1].name, uses.states[2].name}, counts_steps<Options>};
}

template <class Options>
void OptimizerOf<Options>::save_options(std::size_t index, StateDict& saved) const {
  const std::string prefix = group_prefix(index);
  visit_fields(options_[index], [&](const std::string& field, const auto& value) {
    saved.numbers[prefix + field] = static_cast<double>(value);
  });
}

template <class Options>
void OptimizerOf<Options>::load_options(Loading& loading) {
  std::vector<Options> loaded(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string prefix = group_prefix(g);
    visit_fields(loaded[g], [&](const std::string& field, auto& value) {
      if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, bool>) {
        value = loading.reader.flag(prefix + field);
      } else {
        value = loading.reader.number(prefix + field);
      }
    });
    ops::check_options(loading.reader.operation().c_str(), loaded[g]);
    loading.uses.push_back(ops::state_uses(loaded[g]));
  }
  loaded_options_ = std::move(loaded);
}

template <class Options>
void OptimizerOf<Options>::keep_loaded_options() noexcept {
  options_.swap(loaded_options_);
}

#define OPTIMIZER(row, Class, Options, ...) template class OptimizerOf<Options>;
#include "extensor/tables/optimizers.def"

}  // namespace extensor::optim
