#include "optim/sharding.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/check.h"
#include "core/graph.h"
#include "ops/optimizer_rule.h"
#include "optim/group.h"

namespace extensor::optim {

using detail::message;

Sharding::~Sharding() = default;

Tensor part_of(const Tensor& x, const Sharding::Part& part) {
  const detail::RecordingScope off(false);
  return x.detach().reshape({-1}).slice(0, part.begin, part.end);
}

// ---- the shardings that live

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Sharding>> all;
};

Registry& registry() {
  static auto* made = new Registry();
  return *made;
}

// A program without shardings pays one load.
std::atomic<std::size_t> registered{0};

}  // namespace

void register_sharding(const std::shared_ptr<Sharding>& sharding) {
  const std::lock_guard lock(registry().mutex);
  registry().all.push_back(sharding);
  registered = registry().all.size();
}

void unregister_sharding(const Sharding& sharding) {
  std::shared_ptr<Sharding> removed;  // outlives the lock
  const std::lock_guard lock(registry().mutex);
  const auto found = std::ranges::find(registry().all, &sharding, &std::shared_ptr<Sharding>::get);
  if (found == registry().all.end()) return;
  removed = std::move(*found);
  registry().all.erase(found);
  registered = registry().all.size();
}

std::shared_ptr<Sharding> find_sharding(const Tensor& parameter) {
  if (registered.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(registry().mutex);
  for (const auto& each : registry().all) {
    if (each->contains(parameter)) return each;
  }
  return nullptr;
}

Tensor joint_gradient_norm(const char* operation, const std::vector<Tensor>& parameters,
                           double norm_type) {
  const auto sharding = parameters.empty() ? nullptr : find_sharding(parameters.front());
  std::vector<Tensor> grads;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Tensor& parameter = parameters[k];
    if (find_sharding(parameter) != sharding) {
      throw ValueError(message(operation, ": parameter ", k, ", of shape ", parameter.shape(),
                               sharding == nullptr ? ", is" : ", is not",
                               " of those whose gradients are divided between ranks, parameter 0 ",
                               sharding == nullptr ? "is not" : "is",
                               " (allowed: the parameters of one sharded optimizer, or others)"));
    }
    const Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    grads.push_back(sharding == nullptr ? grad : part_of(grad, sharding->part(parameter)));
  }
  Tensor norm = ops::gradient_norm(operation, grads, norm_type);
  if (sharding == nullptr) return norm;
  // The norm of the norms of all ranks is that of all gradients.
  const Tensor norms[] = {sharding->gather_number(norm)};
  return ops::gradient_norm(operation, norms, norm_type);
}

// ---- optimizers

void divide_states(Optimizer& optimizer, std::shared_ptr<Sharding> sharding) {
  optimizer.divide_states(std::move(sharding));
}

void Optimizer::divide_states(std::shared_ptr<Sharding> sharding) {
  std::size_t index = 0;
  for (const auto& group : groups_) {
    for (const Tensor& parameter : group->parameters) {
      if (!sharding->contains(parameter)) {
        throw ValueError(message(name(), ": parameter ", index, ", of shape ", parameter.shape(),
                                 ", is not one of the parameters that are divided between ranks "
                                 "(allowed: those of the DistributedDataParallel that require a "
                                 "gradient)"));
      }
      ++index;
    }
  }
  for (const auto& group : groups_) {
    group->settle();
    for (std::size_t k = 0; k < group->slots.size(); ++k) {
      Slot& slot = group->slots[k];
      const Tensor& parameter = group->parameters[k];
      for (Tensor& state : slot.states) {
        if (!state.defined()) continue;
        const Tensor whole =
            sharding_ == nullptr ? state : sharding_->gather_state(parameter, state);
        state = part_of(whole, sharding->part(parameter)).clone();
      }
      slot.part = sharding->part(parameter);
    }
  }
  sharding_ = std::move(sharding);
}

void Optimizer::check_sharding() const {
  if (sharding_ != nullptr) sharding_->check_active(name());
}

}  // namespace extensor::optim
