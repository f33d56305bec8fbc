// Schedules for the learning rates of an optimizer's groups.
//
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1});
//   optim::LinearLR warm_up(optimizer, {.start_factor = 0.1, .total_iters = 5});
//   optim::CosineAnnealingLR cosine(optimizer, {.t_max = 95});
//   optim::SequentialLR schedule(optimizer, {warm_up, cosine}, {5});
//   for (int epoch = 0; epoch < 100; ++epoch) {
//     train(model, optimizer);
//     schedule.step();
//   }
//
// Names, defaults and numbers are PyTorch's. A schedule sets the rates of epoch 0 when it is
// created, and step() continues from the current rates, so that several schedules can share one
// optimizer. The optimizer, and the parts of a sequence, must outlive the schedule. Options that
// PyTorch requires must be given. Throws ValueError for an option outside its range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/optim/optimizer.h"
#include "extensor/optim/state_dict.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

class StateReader;

class LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler();

  virtual void step();  // advances to the next epoch (or batch)
  std::int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> last_lr() const;  // one per group

  // The position in the schedule, without the options and the optimizer's rates.
  StateDict state_dict() const;
  // Throws ValueError for the state of another kind of schedule or another number of groups.
  void load_state_dict(const StateDict& saved);

 protected:
  LRScheduler(const char* name, Optimizer& optimizer);
  const char* name() const { return name_; }
  Optimizer& optimizer() const { return *optimizer_; }
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  void set_epoch(std::int64_t epoch) { last_epoch_ = epoch; }
  virtual void restart();  // restarts at epoch 0 from the base rates
  // Called by constructors after checking options: store the base rates, then set those of epoch 0.
  void adopt_initial_lrs();
  void start();

  // The rate of epoch last_epoch(), computed from the group's current rate, that of the epoch
  // before.
  virtual double next_lr(std::size_t group) const { return optimizer_->lr(group); }
  // The rate of epoch last_epoch(), computed from the base rate.
  virtual double closed_form(std::size_t group) const { return next_lr(group); }
  enum class Form { next, closed };
  void set_rates(Form form);

  // Additional state by name; is_state() returns whether loaded numbers are valid.
  using Numbers = std::vector<std::pair<std::string, double>>;
  virtual Numbers more_state() const { return {}; }
  virtual bool is_state(const Numbers&) const { return true; }
  virtual void set_more_state(const Numbers&) {}
  virtual std::vector<LRScheduler*> parts() const { return {}; }

 private:
  friend class SequentialLR;
  void save(const std::string& prefix, StateDict& saved) const;
  void load(StateReader& reader, const std::string& prefix, bool keep);

  const char* name_;
  Optimizer* optimizer_;
  std::int64_t last_epoch_ = -1;
  std::vector<double> base_lrs_;
};

// ---- decay by gamma

struct StepLROptions {
  std::int64_t step_size = 0;  // epochs between two reductions; required
  double gamma = 0.1;
};
class StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;  // ascending; a repeated milestone counts twice
  double gamma = 0.1;
};
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options);

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  MultiStepLROptions options_;
};

struct ExponentialLROptions {
  double gamma = std::numeric_limits<double>::quiet_NaN();  // required
};
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options);

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  ExponentialLROptions options_;
};

// ---- curves

// A factor that changes linearly from start_factor to end_factor: a warm-up.
struct LinearLROptions {
  double start_factor = 1.0 / 3;  // in (0, 1]
  double end_factor = 1;          // in [0, 1]
  std::int64_t total_iters = 5;
};
class LinearLR final : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  LinearLROptions options_;
};

// A rate that rises linearly from start_factor to 1 times the base rate in `warmup_steps` steps and
// stays there: epoch e has start_factor + (1 − start_factor) · min(1, e / warmup_steps). Like
// LinearLR, but may start at 0, and always ends at the base rate.
struct WarmupOptions {
  std::int64_t warmup_steps = 0;  // required
  double start_factor = 0;        // in [0, 1]
};
class WarmupScheduler final : public LRScheduler {
 public:
  WarmupScheduler(Optimizer& optimizer, const WarmupOptions& options);

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  WarmupOptions options_;
};

// The rate times (1 − epoch / total_iters) ^ power.
struct PolynomialLROptions {
  std::int64_t total_iters = 5;
  double power = 1;
};
class PolynomialLR final : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options = {});

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  PolynomialLROptions options_;
};

// Half a cosine from the rate to eta_min in t_max epochs, then back in as many.
struct CosineAnnealingLROptions {
  std::int64_t t_max = 0;  // required
  double eta_min = 0;
};
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);

 private:
  double next_lr(std::size_t group) const override;
  double closed_form(std::size_t group) const override;
  CosineAnnealingLROptions options_;
};

// Half a cosine in t_0 epochs, then a restart from the top over t_mult times as many, and so on.
struct CosineAnnealingWarmRestartsOptions {
  std::int64_t t_0 = 0;  // required
  std::int64_t t_mult = 1;
  double eta_min = 0;
};
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer,
                              const CosineAnnealingWarmRestartsOptions& options);
  void step() override;
  // Sets any epoch, including fractions: step(epoch + batch / batches). Throws ValueError below 0.
  void step(double epoch);

 private:
  void restart() override;
  double next_lr(std::size_t group) const override;
  Numbers more_state() const override;
  bool is_state(const Numbers& numbers) const override;
  void set_more_state(const Numbers& numbers) override;
  CosineAnnealingWarmRestartsOptions options_;
  double since_restart_ = -1, period_;
};

// The initial rate times a function of the epoch, one for all groups or one per group.
class LambdaLR final : public LRScheduler {
 public:
  using Factor = std::function<double(std::int64_t epoch)>;
  // ValueError for an empty function or another number of functions than groups; step() throws it
  // for a factor that is negative or not finite.
  LambdaLR(Optimizer& optimizer, Factor factor);
  LambdaLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  double next_lr(std::size_t group) const override;
  std::vector<Factor> factors_;
};

// ---- one cycle

// One value for all groups, or one per group.
class PerGroup {
 public:
  PerGroup(double value) : values_{value} {}                            // NOLINT: implicit
  PerGroup(std::initializer_list<double> values) : values_(values) {}   // NOLINT: implicit
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}  // NOLINT: implicit
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

enum class AnnealStrategy { cos, linear };

// The rate rises from max_lr / div_factor to max_lr, then falls to the initial rate divided by
// final_div_factor; the momentum moves in the opposite direction. Call step() after every batch, at
// most total_steps times.
struct OneCycleLROptions {
  PerGroup max_lr = std::numeric_limits<double>::quiet_NaN();  // required
  std::int64_t total_steps = 0;                                // required …
  std::int64_t epochs = 0;                                     // … unless these two are given
  std::int64_t steps_per_epoch = 0;
  double pct_start = 0.3;  // fraction of the steps in which the rate rises
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;  // ValueError for an optimizer without momentum
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;  // fall to the initial rate as long as it rose, then to the final rate
};
class OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);
  // Throws ValueError beyond the last step.
  void step() override;

 private:
  void restart() override;
  double next_lr(std::size_t group) const override;
  // The current value of a cycle with these values at its start, top and end.
  double value(double start, double top, double end) const;
  void set_momenta();
  OneCycleLROptions options_;
  std::int64_t total_steps_;
};

// ---- sequences

// Runs the first schedule until the first milestone, then the second from its epoch 0, and so on.
class SequentialLR final : public LRScheduler {
 public:
  // Throws ValueError for schedules of another optimizer, or unless there is one milestone fewer
  // than schedules.
  SequentialLR(Optimizer& optimizer,
               const std::vector<std::reference_wrapper<LRScheduler>>& schedulers,
               const std::vector<std::int64_t>& milestones);
  void step() override;

 private:
  void restart() override;
  std::vector<LRScheduler*> parts() const override { return schedulers_; }
  void begin();  // starts the first schedule only
  std::vector<LRScheduler*> schedulers_;
  std::vector<std::int64_t> milestones_;
};

// ---- on a plateau

enum class PlateauMode { min, max };    // whether lower or higher is better
enum class ThresholdMode { rel, abs };  // how an improvement is measured

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;  // below 1
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;
  PerGroup min_lr = 0.0;
  double eps = 1e-8;  // smaller changes are ignored
};
// Reduces the rates when a metric has not improved for more than `patience` epochs.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  ReduceLROnPlateau(const ReduceLROnPlateau&) = delete;
  ReduceLROnPlateau& operator=(const ReduceLROnPlateau&) = delete;

  void step(double metric);
  std::int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> last_lr() const;
  StateDict state_dict() const;
  void load_state_dict(const StateDict& saved);

 private:
  bool is_better(double metric) const;
  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_epochs_ = 0, cooldown_ = 0, last_epoch_ = 0;
};

}  // namespace extensor::optim

EXTENSOR_END_API
