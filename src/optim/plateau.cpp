#include <algorithm>
#include <limits>

#include "core/check.h"
#include "optim/scheduler_checks.h"
#include "optim/state_reader.h"

namespace extensor::optim {

using detail::message;

namespace {

constexpr const char* plateau = "ReduceLROnPlateau";

double worst(PlateauMode mode) {
  const double infinity = std::numeric_limits<double>::infinity();
  return mode == PlateauMode::min ? infinity : -infinity;
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(&optimizer), options_(options), best_(worst(options.mode)) {
  check_not_negative(plateau, "factor", options.factor);
  if (options.factor >= 1) {
    throw ValueError(message(plateau, ": factor is ", options.factor, ", must be below 1"));
  }
  check_at_least(plateau, "patience", options.patience, 0);
  check_at_least(plateau, "cooldown", options.cooldown, 0);
  check_not_negative(plateau, "threshold", options.threshold);
  check_not_negative(plateau, "eps", options.eps);
  options_.min_lr = per_group(plateau, "min_lr", options.min_lr, optimizer);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double threshold = options_.threshold;
  const bool relative = options_.threshold_mode == ThresholdMode::rel;
  if (options_.mode == PlateauMode::min) {
    return metric < (relative ? best_ * (1 - threshold) : best_ - threshold);
  }
  return metric > (relative ? best_ * (threshold + 1) : best_ + threshold);
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  for (std::size_t g = 0; g < options_.min_lr.values().size(); ++g) {
    const double before = optimizer_->lr(g);
    const double reduced = std::max(before * options_.factor, options_.min_lr.values()[g]);
    if (before - reduced > options_.eps) optimizer_->set_lr(g, reduced);
  }
  cooldown_ = options_.cooldown;
  bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::last_lr() const {
  std::vector<double> rates;
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict saved;
  saved.numbers = {{"best", best_},
                   {"num_bad_epochs", static_cast<double>(bad_epochs_)},
                   {"cooldown_counter", static_cast<double>(cooldown_)},
                   {"last_epoch", static_cast<double>(last_epoch_)}};
  return saved;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& saved) {
  StateReader reader(message(plateau, ".load_state_dict"), saved);
  const double best = reader.number("best");
  const std::int64_t bad = reader.count("num_bad_epochs");
  const std::int64_t cooldown = reader.count("cooldown_counter");
  const std::int64_t epoch = reader.count("last_epoch");
  reader.finish();
  best_ = best;
  bad_epochs_ = bad;
  cooldown_ = cooldown;
  last_epoch_ = epoch;
}

}  // namespace extensor::optim
