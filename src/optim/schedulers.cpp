// Schedules given by a formula of the epoch. The recursive forms follow PyTorch term by term.
#include "extensor/optim/schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "optim/scheduler_checks.h"
#include "optim/state_reader.h"

namespace extensor::optim {

using detail::message;

// ---- common functions

LRScheduler::LRScheduler(const char* name, Optimizer& optimizer)
    : name_(name), optimizer_(&optimizer) {}
LRScheduler::~LRScheduler() = default;

void LRScheduler::adopt_initial_lrs() {
  base_lrs_.clear();
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) {
    base_lrs_.push_back(optimizer_->initial_lr(g).value_or(optimizer_->lr(g)));
    optimizer_->set_initial_lr(g, base_lrs_.back());
  }
}

void LRScheduler::start() {
  adopt_initial_lrs();
  LRScheduler::step();
}

void LRScheduler::set_rates(Form form) {
  // Groups added later do not belong to this schedule.
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    optimizer_->set_lr(g, form == Form::next ? next_lr(g) : closed_form(g));
  }
}

void LRScheduler::step() {
  ++last_epoch_;
  set_rates(Form::next);
}

void LRScheduler::restart() {
  last_epoch_ = 0;
  set_rates(Form::closed);
}

std::vector<double> LRScheduler::last_lr() const {
  std::vector<double> rates;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}

void LRScheduler::save(const std::string& prefix, StateDict& saved) const {
  saved.numbers[prefix + "last_epoch"] = static_cast<double>(last_epoch_);
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    saved.numbers[prefix + "base_lrs." + std::to_string(g)] = base_lrs_[g];
  }
  for (const auto& [name, value] : more_state()) saved.numbers[prefix + name] = value;
  std::size_t index = 0;
  for (const LRScheduler* part : parts()) {
    part->save(prefix + "_schedulers." + std::to_string(index++) + ".", saved);
  }
}

void LRScheduler::load(StateReader& reader, const std::string& prefix, bool keep) {
  const std::int64_t epoch = reader.count(prefix + "last_epoch", -1);
  std::vector<double> rates;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    rates.push_back(reader.number(prefix + "base_lrs." + std::to_string(g)));
    check_not_negative(reader.operation().c_str(), "base_lrs", rates.back());
  }
  Numbers numbers = more_state();
  for (auto& [name, value] : numbers) value = reader.number(prefix + name);
  if (!is_state(numbers)) {
    throw ValueError(message(reader.operation(), ": the state of '", prefix, "' cannot be"));
  }
  if (keep) {
    last_epoch_ = epoch;
    base_lrs_ = rates;
    set_more_state(numbers);
  }
  std::size_t index = 0;
  for (LRScheduler* part : parts()) {
    part->load(reader, prefix + "_schedulers." + std::to_string(index++) + ".", keep);
  }
}

StateDict LRScheduler::state_dict() const {
  StateDict saved;
  save("", saved);
  return saved;
}

void LRScheduler::load_state_dict(const StateDict& saved) {
  StateReader reader(message(name_, ".load_state_dict"), saved);
  load(reader, "", false);
  reader.finish();
  load(reader, "", true);
}

// ---- decay by gamma

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : LRScheduler("StepLR", optimizer), options_(options) {
  check_at_least(name(), "step_size", options.step_size, 1);
  check_not_negative(name(), "gamma", options.gamma);
  start();
}
double StepLR::next_lr(std::size_t group) const {
  const double rate = optimizer().lr(group);
  return last_epoch() == 0 || last_epoch() % options_.step_size != 0 ? rate : rate * options_.gamma;
}
double StepLR::closed_form(std::size_t group) const {
  const std::int64_t times = last_epoch() / options_.step_size;
  return base_lr(group) * std::pow(options_.gamma, static_cast<double>(times));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options)
    : LRScheduler("MultiStepLR", optimizer), options_(options) {
  check_not_negative(name(), "gamma", options.gamma);
  if (!std::is_sorted(options.milestones.begin(), options.milestones.end())) {
    throw ValueError(message(name(), ": milestones do not ascend"));
  }
  start();
}
double MultiStepLR::next_lr(std::size_t group) const {
  const auto times =
      std::count(options_.milestones.begin(), options_.milestones.end(), last_epoch());
  return optimizer().lr(group) * std::pow(options_.gamma, static_cast<double>(times));
}
double MultiStepLR::closed_form(std::size_t group) const {
  const auto& milestones = options_.milestones;
  const auto passed =
      std::upper_bound(milestones.begin(), milestones.end(), last_epoch()) - milestones.begin();
  return base_lr(group) * std::pow(options_.gamma, static_cast<double>(passed));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options)
    : LRScheduler("ExponentialLR", optimizer), options_(options) {
  check_not_negative(name(), "gamma", options.gamma);
  start();
}
double ExponentialLR::next_lr(std::size_t group) const {
  return last_epoch() == 0 ? optimizer().lr(group) : optimizer().lr(group) * options_.gamma;
}
double ExponentialLR::closed_form(std::size_t group) const {
  return base_lr(group) * std::pow(options_.gamma, static_cast<double>(last_epoch()));
}

// ---- curves

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : LRScheduler("LinearLR", optimizer), options_(options) {
  check_within(name(), "start_factor", options.start_factor, 0, 1);
  check_positive(name(), "start_factor", options.start_factor);
  check_within(name(), "end_factor", options.end_factor, 0, 1);
  check_at_least(name(), "total_iters", options.total_iters, 1);
  start();
}
double LinearLR::next_lr(std::size_t group) const {
  const double rate = optimizer().lr(group);
  const double start = options_.start_factor, change = options_.end_factor - start;
  if (last_epoch() == 0) return rate * start;
  if (last_epoch() > options_.total_iters) return rate;
  const auto total = static_cast<double>(options_.total_iters);
  return rate * (1 + change / (total * start + static_cast<double>(last_epoch() - 1) * change));
}
double LinearLR::closed_form(std::size_t group) const {
  const auto done = static_cast<double>(std::min(options_.total_iters, last_epoch()));
  return base_lr(group) *
         (options_.start_factor + (options_.end_factor - options_.start_factor) * done /
                                      static_cast<double>(options_.total_iters));
}

WarmupScheduler::WarmupScheduler(Optimizer& optimizer, const WarmupOptions& options)
    : LRScheduler("WarmupScheduler", optimizer), options_(options) {
  check_at_least(name(), "warmup_steps", options.warmup_steps, 1);
  check_within(name(), "start_factor", options.start_factor, 0, 1);
  start();
}
// Leaves the rate alone after the warm-up, for other schedules of the same optimizer.
double WarmupScheduler::next_lr(std::size_t group) const {
  return last_epoch() > options_.warmup_steps ? optimizer().lr(group) : closed_form(group);
}
double WarmupScheduler::closed_form(std::size_t group) const {
  const double done = static_cast<double>(std::min(options_.warmup_steps, last_epoch())) /
                      static_cast<double>(options_.warmup_steps);
  return base_lr(group) * (options_.start_factor + (1 - options_.start_factor) * done);
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options)
    : LRScheduler("PolynomialLR", optimizer), options_(options) {
  check_at_least(name(), "total_iters", options.total_iters, 1);
  check_not_negative(name(), "power", options.power);
  start();
}
double PolynomialLR::next_lr(std::size_t group) const {
  const double rate = optimizer().lr(group);
  if (last_epoch() == 0 || last_epoch() > options_.total_iters) return rate;
  const auto total = static_cast<double>(options_.total_iters);
  const auto epoch = static_cast<double>(last_epoch());
  return rate * std::pow((1 - epoch / total) / (1 - (epoch - 1) / total), options_.power);
}
double PolynomialLR::closed_form(std::size_t group) const {
  const auto done = static_cast<double>(std::min(options_.total_iters, last_epoch()));
  return base_lr(group) *
         std::pow(1 - done / static_cast<double>(options_.total_iters), options_.power);
}

namespace {

// Half a cosine from `top` at part = 0 to `bottom` at part = 1.
double half_cosine(double top, double bottom, double part) {
  return bottom + (top - bottom) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler("CosineAnnealingLR", optimizer), options_(options) {
  check_at_least(name(), "t_max", options.t_max, 1);
  check_not_negative(name(), "eta_min", options.eta_min);
  start();
}
double CosineAnnealingLR::next_lr(std::size_t group) const {
  const double rate = optimizer().lr(group), pi = std::numbers::pi, low = options_.eta_min;
  const auto period = static_cast<double>(options_.t_max);
  const auto epoch = static_cast<double>(last_epoch());
  if (last_epoch() == 0) return rate;
  if ((last_epoch() - 1 - options_.t_max) % (2 * options_.t_max) == 0) {
    return rate + (base_lr(group) - low) * (1 - std::cos(pi / period)) / 2;
  }
  const double change =
      (1 + std::cos(pi * epoch / period)) / (1 + std::cos(pi * (epoch - 1) / period));
  return change * (rate - low) + low;
}
double CosineAnnealingLR::closed_form(std::size_t group) const {
  return half_cosine(base_lr(group), options_.eta_min,
                     static_cast<double>(last_epoch()) / static_cast<double>(options_.t_max));
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(
    Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler("CosineAnnealingWarmRestarts", optimizer),
      options_(options),
      period_(static_cast<double>(options.t_0)) {
  check_at_least(name(), "t_0", options.t_0, 1);
  check_at_least(name(), "t_mult", options.t_mult, 1);
  check_not_negative(name(), "eta_min", options.eta_min);
  adopt_initial_lrs();
  step(0);
}
double CosineAnnealingWarmRestarts::next_lr(std::size_t group) const {
  return half_cosine(base_lr(group), options_.eta_min, since_restart_ / period_);
}
void CosineAnnealingWarmRestarts::step() {
  if (last_epoch() < 0) return step(0);
  set_epoch(last_epoch() + 1);
  since_restart_ += 1;
  if (since_restart_ >= period_) {
    since_restart_ -= period_;
    period_ *= static_cast<double>(options_.t_mult);
  }
  set_rates(Form::next);
}
void CosineAnnealingWarmRestarts::step(double epoch) {
  check_within(name(), "epoch", epoch, 0, 9007199254740992);
  since_restart_ = epoch;
  period_ = static_cast<double>(options_.t_0);
  if (options_.t_mult == 1) {
    since_restart_ = std::fmod(epoch, period_);
  } else {
    while (since_restart_ >= period_) {
      since_restart_ -= period_;
      period_ *= static_cast<double>(options_.t_mult);
    }
  }
  set_epoch(static_cast<std::int64_t>(epoch));
  set_rates(Form::next);
}
void CosineAnnealingWarmRestarts::restart() { step(0); }
LRScheduler::Numbers CosineAnnealingWarmRestarts::more_state() const {
  return {{"T_cur", since_restart_}, {"T_i", period_}};
}
bool CosineAnnealingWarmRestarts::is_state(const Numbers& numbers) const {
  return numbers[0].second >= -1 && numbers[0].second < numbers[1].second &&
         std::isfinite(numbers[1].second);
}
void CosineAnnealingWarmRestarts::set_more_state(const Numbers& numbers) {
  since_restart_ = numbers[0].second;
  period_ = numbers[1].second;
}

// ---- sequences

SequentialLR::SequentialLR(Optimizer& optimizer,
                           const std::vector<std::reference_wrapper<LRScheduler>>& schedulers,
                           const std::vector<std::int64_t>& milestones)
    : LRScheduler("SequentialLR", optimizer), milestones_(milestones) {
  if (schedulers.size() != milestones.size() + 1) {
    throw ValueError(message(name(), ": ", schedulers.size(), " schedulers and ", milestones.size(),
                             " milestones, must be one less"));
  }
  if (!std::is_sorted(milestones.begin(), milestones.end())) {
    throw ValueError(message(name(), ": milestones do not ascend"));
  }
  for (std::size_t k = 0; k < schedulers.size(); ++k) {
    if (&schedulers[k].get().optimizer() != &optimizer) {
      throw ValueError(message(name(), ": scheduler ", k, " is of another optimizer"));
    }
    schedulers_.push_back(&schedulers[k].get());
  }
  adopt_initial_lrs();
  begin();
}
void SequentialLR::begin() {
  for (std::size_t g = 0; g < optimizer().group_count(); ++g) {
    if (const auto initial = optimizer().initial_lr(g)) optimizer().set_lr(g, *initial);
  }
  for (LRScheduler* scheduler : schedulers_) scheduler->set_epoch(-1);
  schedulers_[0]->step();
  set_epoch(0);
}
void SequentialLR::step() {
  if (last_epoch() < 0) return begin();
  set_epoch(last_epoch() + 1);
  const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch());
  LRScheduler& scheduler = *schedulers_[static_cast<std::size_t>(next - milestones_.begin())];
  if (next != milestones_.begin() && *(next - 1) == last_epoch()) {
    scheduler.restart();
  } else {
    scheduler.step();
  }
}
void SequentialLR::restart() { begin(); }

}  // namespace extensor::optim
