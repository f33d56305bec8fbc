#include "extensor/optim/grad_scaler.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/elementwise.h"
#include "ops/optimizer_rule.h"
#include "optim/state_reader.h"

namespace extensor::optim {

using extensor::detail::message;

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.init_scale) {
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

Tensor GradScaler::scale(const Tensor& loss) const {
  return options_.enabled ? loss * scale_ : loss;
}

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
  std::vector<Tensor> grads;
  for (const Tensor& parameter : optimizer.parameters()) {
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    grad *= 1 / scale_;
    grads.push_back(std::move(grad));
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  unscaled_.push_back({&optimizer, ops::gradient_norm("GradScaler", grads, infinity)});
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (find(optimizer) == nullptr) unscale(optimizer);
  if (!std::isfinite(find(optimizer)->largest.item<double>())) {
    overflowed_ = true;
    return false;
  }
  optimizer.step();
  return true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  unscaled_.clear();
  if (overflowed_) {
    scale_ *= options_.backoff_factor;
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    // A larger scale would overflow float32 for a loss of 1.
    if (scale_ * options_.growth_factor < 3e38) scale_ *= options_.growth_factor;
    good_steps_ = 0;
  }
  overflowed_ = false;
}

StateDict GradScaler::state_dict() const {
  StateDict saved;
  saved.numbers = {{"scale", scale_}, {"growth_tracker", static_cast<double>(good_steps_)}};
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
  scale_ = scale;
  good_steps_ = good_steps;
}

}  // namespace extensor::optim
