#include "core/check.h"
#include "extensor/optim/schedulers.h"
#include "optim/scheduler_checks.h"

namespace extensor::optim {

namespace {

std::vector<LambdaLR::Factor> repeated(LambdaLR::Factor factor, std::size_t count) {
  std::vector<LambdaLR::Factor> factors(count);
  for (std::size_t k = 1; k < count; ++k) factors[k] = factor;
  if (count > 0) factors[0] = std::move(factor);
  return factors;
}

}  // namespace

LambdaLR::LambdaLR(Optimizer& optimizer, Factor factor)
    : LambdaLR(optimizer, repeated(std::move(factor), optimizer.group_count())) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler("LambdaLR", optimizer), factors_(std::move(factors)) {
  if (factors_.size() != optimizer.group_count()) {
    throw ValueError(detail::message(name(), ": ", factors_.size(), " functions, here are ",
                                     optimizer.group_count(), " parameter groups"));
  }
  for (const Factor& factor : factors_) {
    if (!factor) throw ValueError(detail::message(name(), ": a function is empty"));
  }
  start();
}

double LambdaLR::next_lr(std::size_t group) const {
  const double factor = factors_[group](last_epoch());
  check_not_negative(name(), "the factor", factor);
  return base_lr(group) * factor;
}

}  // namespace extensor::optim
