// Optimizers hold a model's parameters and their states, and step all of them.
//
//   optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
//   for (…) {
//     optimizer.zero_grad();
//     loss_of(batch).backward();
//     optimizer.step();
//   }
//
//   // Groups of parameters with options of their own:
//   optim::SGD optimizer({{body, {.lr = 1e-3}}, {head, {.lr = 1e-2, .momentum = 0.9}}});
//
// The formulas, options, names and defaults are PyTorch's (extensor/optimizer_steps.h lists them).
// A step updates all parameters of a group in one pass. Parameters without a grad() are skipped.
// States are created when a parameter is first stepped; for float16 and bfloat16 they are float32.
//
// Gradients accumulate until zero_grad(), so a large batch can be split:
//
//   for (int k = 0; k < parts; ++k) (loss_of(part[k]) / parts).backward();
//   optimizer.step();
//   optimizer.zero_grad();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "extensor/export.h"
#include "extensor/optim/state_dict.h"
#include "extensor/optimizer_steps.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

class LargestGradient;
class Sharding;

// The interface of all optimizers, which schedules use. It cannot be copied or moved, because
// schedules keep its address.
class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer();

  // Steps every parameter that has a gradient, after all checks. Nothing is recorded. Throws
  // ValueError for a gradient that shares part of its parameter's memory.
  virtual void step() = 0;

  // Drops the gradients, or sets them to zero. Call it before the next backward().
  void zero_grad(bool set_to_none = true);

  std::size_t group_count() const;
  const std::vector<Tensor>& parameters(std::size_t group) const;
  std::vector<Tensor> parameters() const;  // of all groups, in order

  // Throws IndexError for a group that does not exist and ValueError for a value outside its range.
  virtual double lr(std::size_t group = 0) const = 0;
  virtual void set_lr(std::size_t group, double lr) = 0;
  // The option momentum, or the first of the betas. Throws ValueError for an optimizer with
  // neither.
  virtual bool has_momentum() const = 0;
  virtual double momentum(std::size_t group = 0) const = 0;
  virtual void set_momentum(std::size_t group, double momentum) = 0;

  // The learning rate from which schedules start; empty until a schedule sets it.
  std::optional<double> initial_lr(std::size_t group = 0) const;
  void set_initial_lr(std::size_t group, double lr);

  // After a step of a GradScaler on a device other than the CPU, waits for the decision on it. If
  // the states are divided between ranks (DistributedDataParallel::shard), all ranks must call it,
  // and each gets the whole states.
  StateDict state_dict() const;
  // Loads the options and states of another run, after checking everything. Throws ValueError for
  // another number of groups or parameters, a missing or unknown name, or an option outside its
  // range; ShapeError and DTypeError for a state that does not fit its parameter. Float dtypes are
  // converted. Whole states are loaded by an optimizer whose states are divided, too.
  void load_state_dict(const StateDict& saved);

 protected:
  friend class GradScaler;
  friend void divide_states(Optimizer& optimizer, std::shared_ptr<Sharding> sharding);
  struct Group;
  struct Loading;
  struct StateNames {
    const char* names[3];  // null if unused
    bool steps;            // whether steps are counted
  };

  Optimizer();
  Group& group(std::size_t index) const;  // throws IndexError
  void check_new_parameters(const std::vector<Tensor>& parameters) const;
  void append_group(const std::vector<Tensor>& parameters);
  // Steps unless `largest` is not finite. The device decides; the host reads the decision at the
  // next step.
  void step_if_finite(const std::shared_ptr<LargestGradient>& largest);
  void divide_states(std::shared_ptr<Sharding> sharding);
  void check_sharding() const;

  virtual const char* name() const = 0;
  virtual StateNames state_names() const = 0;
  virtual void save_options(std::size_t group, StateDict& saved) const = 0;
  // load_options() reads and checks the options of all groups; keep_loaded_options() adopts them
  // after everything else has been checked.
  virtual void load_options(Loading& loading) = 0;
  virtual void keep_loaded_options() noexcept = 0;

  std::vector<std::unique_ptr<Group>> groups_;
  std::shared_ptr<Sharding> sharding_;  // null: every state is whole
};

template <class Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options = {};
};

// The optimizer for one type of options. Throws ValueError without parameters, for an option
// outside its range, and for a parameter that is repeated or not a leaf; DTypeError for one that is
// not a float.
template <class Options>
class OptimizerOf final : public Optimizer {
 public:
  explicit OptimizerOf(const std::vector<Tensor>& parameters, const Options& options = {});
  explicit OptimizerOf(const std::vector<ParameterGroup<Options>>& groups);
  ~OptimizerOf() override;

  void add_group(const std::vector<Tensor>& parameters, const Options& options = {});
  const Options& options(std::size_t group = 0) const;
  void set_options(std::size_t group, const Options& options);

  void step() override;
  double lr(std::size_t group = 0) const override;
  void set_lr(std::size_t group, double lr) override;
  bool has_momentum() const override;
  double momentum(std::size_t group = 0) const override;
  void set_momentum(std::size_t group, double momentum) override;

 private:
  const char* name() const override;
  StateNames state_names() const override;
  void save_options(std::size_t group, StateDict& saved) const override;
  void load_options(Loading& loading) override;
  void keep_loaded_options() noexcept override;
  void collect(std::size_t group);
  void launch(std::size_t group);

  std::vector<Options> options_;
  std::vector<Options> loaded_options_;
};

// One class per row of the table: SGD, Adam, AdamW, RMSprop …
#define OPTIMIZER(row, Class, Options, ...)   \
  extern template class OptimizerOf<Options>; \
  using Class = OptimizerOf<Options>;
#include "extensor/tables/optimizers.def"

}  // namespace extensor::optim

EXTENSOR_END_API
