#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "optim/scheduler_checks.h"

namespace extensor::optim {

using detail::message;

namespace {

std::int64_t steps_of(const OneCycleLROptions& options) {
  constexpr const char* name = "OneCycleLR";
  if (options.total_steps != 0 || (options.epochs == 0 && options.steps_per_epoch == 0)) {
    check_at_least(name, "total_steps", options.total_steps, 1);
    return options.total_steps;
  }
  check_at_least(name, "epochs", options.epochs, 1);
  check_at_least(name, "steps_per_epoch", options.steps_per_epoch, 1);
  std::int64_t total = 0;
  if (__builtin_mul_overflow(options.epochs, options.steps_per_epoch, &total)) {
    throw ValueError(message(name, ": ", options.epochs, " epochs of ", options.steps_per_epoch,
                             " steps are more than can be counted"));
  }
  return total;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler("OneCycleLR", optimizer), options_(options), total_steps_(steps_of(options)) {
  check_within(name(), "pct_start", options.pct_start, 0, 1);
  check_positive(name(), "div_factor", options.div_factor);
  check_positive(name(), "final_div_factor", options.final_div_factor);
  check_within(name(), "base_momentum", options.base_momentum, 0, 1);
  check_within(name(), "max_momentum", options.max_momentum, 0, 1);
  options_.max_lr = per_group(name(), "max_lr", options.max_lr, optimizer);
  if (options.cycle_momentum && !optimizer.has_momentum()) {
    throw ValueError(message(name(), ": cycle_momentum is set, but the optimizer has no momentum"));
  }
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    optimizer.set_initial_lr(g, options_.max_lr.values()[g] / options.div_factor);
  }
  adopt_initial_lrs();
  OneCycleLR::step();
}

double OneCycleLR::value(double start, double top, double end) const {
  const auto total = static_cast<double>(total_steps_);
  const auto now = static_cast<double>(last_epoch());
  const double up = options_.pct_start * total - 1;
  const double down = options_.three_phase ? 2 * options_.pct_start * total - 2 : total - 1;
  const auto anneal = [&](double from, double to, double since, double until) {
    const double part = until == since ? 1 : (now - since) / (until - since);
    // The step after the last one lies beyond the end, where linear annealing would leave the
    // range.
    if (options_.anneal_strategy == AnnealStrategy::linear) {
      return (to - from) * std::min(part, 1.0) + from;
    }
    return to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
  };
  if (now <= up) return anneal(start, top, 0, up);
  if (!options_.three_phase) return anneal(top, end, up, down);
  if (now <= down) return anneal(top, start, up, down);
  return anneal(start, end, down, total - 1);
}

double OneCycleLR::next_lr(std::size_t group) const {
  const double top = options_.max_lr.values()[group], start = top / options_.div_factor;
  return value(start, top, start / options_.final_div_factor);
}

void OneCycleLR::set_momenta() {
  if (!options_.cycle_momentum) return;
  const double momentum =
      value(options_.max_momentum, options_.base_momentum, options_.max_momentum);
  for (std::size_t g = 0; g < options_.max_lr.values().size(); ++g) {
    optimizer().set_momentum(g, momentum);
  }
}

void OneCycleLR::step() {
  if (last_epoch() >= total_steps_) {
    throw ValueError(message(name(), ": step ", last_epoch() + 1, " of ", total_steps_));
  }
  LRScheduler::step();
  set_momenta();
}

void OneCycleLR::restart() {
  LRScheduler::restart();
  set_momenta();
}

}  // namespace extensor::optim
