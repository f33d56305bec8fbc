// Loss scaling for float16, whose smallest gradients would be 0: the loss is multiplied before
// backward(), the gradients are divided before the step, and a step whose gradients overflowed is
// left out.
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
//     scaler.step(optimizer);      // unscales, unless unscale(optimizer) did, to clip
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
  double growth_factor = 2;     // of the scale, after growth_interval steps without an overflow
  double backoff_factor = 0.5;  // of the scale, after an overflow
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // otherwise all of it does nothing but step
};

class GradScaler {
 public:
  // ValueError for an option outside its range.
  explicit GradScaler(const GradScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;  // loss · scale
  double scale() const { return scale_; }

  // Divides the gradients of the optimizer's parameters by the scale, once before each step.
  // ValueError the second time.
  void unscale(Optimizer& optimizer);
  // Steps the optimizer unless one of its gradients is not finite; tells whether it did. Waits once
  // for a device other than the CPU.
  bool step(Optimizer& optimizer);
  // After the steps of all optimizers: moves the scale.
  void update();

  // "scale" and "growth_tracker".
  StateDict state_dict() const;
  void load_state_dict(const StateDict& saved);  // ValueError for another state

 private:
  struct Unscaled {
    const Optimizer* optimizer;
    Tensor largest;  // magnitude of a gradient
  };
  Unscaled* find(const Optimizer& optimizer);

  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;
  bool overflowed_ = false;
  std::vector<Unscaled> unscaled_;  // since the last update
};

}  // namespace extensor::optim

EXTENSOR_END_API
