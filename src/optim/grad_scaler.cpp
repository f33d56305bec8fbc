#include "extensor/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "ops/launch.h"
#include "ops/optimizer_rule.h"
#include "optim/largest_gradient.h"
#include "optim/sharding.h"
#include "optim/state_reader.h"

namespace extensor::optim {

using extensor::detail::message;

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), state_{options.init_scale, 0} {
  const auto refuse = [](const char* option, double value, const char* allowed) {
    throw ValueError(message("GradScaler: ", option, " is ", value, ", must be ", allowed));
  };
  if (!(options.init_scale > 0) || std::isinf(options.init_scale)) {
    refuse("init_scale", options.init_scale, "above 0 and finite");
  }
  if (!(options.growth_factor > 1)) refuse("growth_factor", options.growth_factor, "above 1");
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1)) {
    refuse("backoff_factor", options.backoff_factor, "between 0 and 1");
  }
  if (options.growth_interval < 1) {
    refuse("growth_interval", static_cast<double>(options.growth_interval), "1 or more");
  }
}

ScaledStep::operator bool() const { return largest_ == nullptr ? made_ : largest_->is_finite(); }

// ---- the scale

// The state after an update().
GradScaler::State GradScaler::updated(bool overflowed) const {
  if (overflowed) return {state_.scale * options_.backoff_factor, 0};
  if (state_.good_steps + 1 < options_.growth_interval) {
    return {state_.scale, state_.good_steps + 1};
  }
  // A larger scale would overflow float32 for a loss of 1.
  const double larger = state_.scale * options_.growth_factor;
  return {larger < 3e38 ? larger : state_.scale, 0};
}

// Reads what the device decided in the last step.
void GradScaler::settle() const {
  if (unread_.empty()) return;
  const bool overflowed =
      !std::ranges::all_of(unread_, [](const Largest& each) { return each->is_finite(); });
  state_ = updated(overflowed);
  unread_.clear();
  finite_ = Tensor();
}

// One of two numbers, by what the device decided: a 0-d float64 tensor on the device.
Tensor GradScaler::choose(double after_step, double after_overflow) const {
  const auto number = [](double value) { return full({}, value, {DType::float64, cpu_device}); };
  return where(finite_, number(after_step), number(after_overflow));
}

Tensor GradScaler::scale(const Tensor& loss) const {
  if (!options_.enabled) return loss;
  if (unread_.empty()) return loss * state_.scale;
  // As the product with a number, this one is computed in at least float32 and rounded once.
  const DType compute = ops::compute_dtype(loss.dtype());
  const Tensor factor = [&] {
    const NoGrad off;
    return choose(updated(false).scale, updated(true).scale).to(loss.device(), compute);
  }();
  return (loss.to(compute) * factor).to(loss.dtype());
}

double GradScaler::scale() const {
  settle();
  return state_.scale;
}

// ---- steps

GradScaler::Unscaled* GradScaler::find(const Optimizer& optimizer) {
  for (Unscaled& each : unscaled_) {
    if (each.optimizer == &optimizer) return &each;
  }
  return nullptr;
}

void GradScaler::unscale(Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (find(optimizer) != nullptr) {
    throw ValueError("GradScaler: unscale was called twice for an optimizer since the last update");
  }
  const NoGrad off;
  const Tensor inverse = unread_.empty()
                             ? full({}, 1 / state_.scale, {DType::float64, cpu_device})
                             : choose(1 / updated(false).scale, 1 / updated(true).scale);
  std::vector<Tensor> grads;
  for (const Tensor& parameter : optimizer.parameters()) {
    Tensor grad = parameter.grad();
    if (grad.defined()) grads.push_back(std::move(grad));
  }
  ops::scale_in_place("GradScaler", grads, inverse);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  unscaled_.push_back({&optimizer, std::make_shared<LargestGradient>(joint_gradient_norm(
                                       "GradScaler", optimizer.parameters(), infinity))});
}

ScaledStep GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return ScaledStep(true);
  }
  if (find(optimizer) == nullptr) unscale(optimizer);
  const Largest largest = find(optimizer)->largest;
  if (!(largest->device() == cpu_device)) {
    optimizer.step_if_finite(largest);
    stepped_.push_back(largest);
    return ScaledStep(largest);
  }
  if (!largest->is_finite()) {
    overflowed_ = true;
    return ScaledStep(false);
  }
  optimizer.step();
  return ScaledStep(true);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  settle();
  if (overflowed_ || stepped_.empty()) {
    state_ = updated(overflowed_);
  } else {
    const NoGrad off;
    Tensor finite = isfinite(stepped_[0]->tensor());
    for (std::size_t k = 1; k < stepped_.size(); ++k) {
      finite = logical_and(finite, isfinite(stepped_[k]->on(finite.device())));
    }
    finite_ = finite;
    unread_ = stepped_;
  }
  unscaled_.clear();
  stepped_.clear();
  overflowed_ = false;
}

// ---- saving and loading

StateDict GradScaler::state_dict() const {
  settle();
  StateDict saved;
  saved.numbers = {{"scale", state_.scale},
                   {"growth_tracker", static_cast<double>(state_.good_steps)}};
  return saved;
}

void GradScaler::load_state_dict(const StateDict& saved) {
  StateReader reader("GradScaler.load_state_dict", saved);
  const double scale = reader.number("scale");
  const std::int64_t good_steps = reader.count("growth_tracker");
  reader.finish();
  if (!(scale > 0) || std::isinf(scale)) {
    throw ValueError(
        message(reader.operation(), ": scale is ", scale, ", must be above 0 and finite"));
  }
  state_ = {scale, good_steps};
  unread_.clear();
  finite_ = Tensor();
}

}  // namespace extensor::optim
