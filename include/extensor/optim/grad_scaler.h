// Loss scaling for float16, in which small gradients would underflow to 0. The loss is multiplied
// before backward(), the gradients are divided before the step, and a step with overflowed
// gradients is skipped.
//
//   optim::GradScaler scaler;
//   for (…) {
//     optimizer.zero_grad();
//     Tensor loss;
//     {
//       Autocast half(float16);
//       loss = loss_of(batch);
//     }
//     scaler.scale(loss).backward();
//     scaler.step(optimizer);      // unscales, unless unscale(optimizer) was called before
//     scaler.update();
//   }
//
// On a device other than the CPU the device decides whether a step is skipped, and chooses the next
// scale. The host reads the decision when the next step is in progress.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "extensor/export.h"
#include "extensor/optim/optimizer.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // applied after growth_interval steps without an overflow
  double backoff_factor = 0.5;  // applied after an overflow
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // if false, only step() has an effect
};

// Whether GradScaler::step made a step.
class ScaledStep {
 public:
  explicit ScaledStep(bool made) : made_(made) {}
  explicit ScaledStep(std::shared_ptr<LargestGradient> largest) : largest_(std::move(largest)) {}
  // Waits until the device has computed the gradients, but not for work that was launched later.
  operator bool() const;  // NOLINT: implicit

 private:
  std::shared_ptr<LargestGradient> largest_;  // null if it is known
  bool made_ = false;
};

class GradScaler {
 public:
  // Throws ValueError for an option outside its range.
  explicit GradScaler(const GradScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;  // loss · scale
  double scale() const;                    // waits like the result of step()

  // Divides the gradients of the optimizer's parameters by the scale; at most once before each
  // step. Throws ValueError the second time.
  void unscale(Optimizer& optimizer);
  // Steps the optimizer unless one of its gradients is not finite, and returns whether it did.
  ScaledStep step(Optimizer& optimizer);
  // Updates the scale; call it after the steps of all optimizers.
  void update();

  // Contains "scale" and "growth_tracker". Waits like scale().
  StateDict state_dict() const;
  void load_state_dict(const StateDict& saved);  // ValueError for a state of another kind

 private:
  using Largest = std::shared_ptr<LargestGradient>;
  struct Unscaled {
    const Optimizer* optimizer;
    Largest largest;
  };
  struct State {
    double scale;
    std::int64_t good_steps;
  };
  Unscaled* find(const Optimizer& optimizer);
  State updated(bool overflowed) const;
  void settle() const;
  Tensor choose(double after_step, double after_overflow) const;

  GradScalerOptions options_;
  std::vector<Unscaled> unscaled_;  // since the last update()
  std::vector<Largest> stepped_;    // likewise, those on devices other than the CPU
  bool overflowed_ = false;         // likewise, on the CPU
  // The state before the last update(), if it depends on numbers that the host has not read.
  mutable State state_;
  mutable std::vector<Largest> unread_;
  mutable Tensor finite_;  // whether these are finite; on the device of the first
};

}  // namespace extensor::optim

EXTENSOR_END_API
