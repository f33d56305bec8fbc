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
#pragma once

#include <cstdint>
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

class GradScaler {
 public:
  // Throws ValueError for an option outside its range.
  explicit GradScaler(const GradScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;  // loss · scale
  double scale() const { return scale_; }

  // Divides the gradients of the optimizer's parameters by the scale; at most once before each
  // step. Throws ValueError the second time.
  void unscale(Optimizer& optimizer);
  // Steps the optimizer unless one of its gradients is not finite, and returns whether it did.
  // Waits once for a device other than the CPU.
  bool step(Optimizer& optimizer);
  // Updates the scale; call it after the steps of all optimizers.
  void update();

  // Contains "scale" and "growth_tracker".
  StateDict state_dict() const;
  void load_state_dict(const StateDict& saved);  // ValueError for a state of another kind

 private:
  struct Unscaled {
    const Optimizer* optimizer;
    Tensor largest;  // largest magnitude among the gradients
  };
  Unscaled* find(const Optimizer& optimizer);

  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;
  bool overflowed_ = false;
  std::vector<Unscaled> unscaled_;  // since the last update()
};

}  // namespace extensor::optim

EXTENSOR_END_API
