// The exponential moving average of a model's weights, which often does better than the weights.
//
//   optim::ExponentialMovingAverage average(model.parameters(), 0.999);
//   for (…) {
//     …
//     optimizer.step();
//     average.update();
//   }
//   average.apply();     // the model computes with the averages …
//   evaluate(model);
//   average.restore();   // … and has its own weights back
#pragma once

#include <cstdint>
#include <vector>

#include "extensor/export.h"
#include "extensor/optim/state_dict.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

class ExponentialMovingAverage {
 public:
  // The averages begin as the parameters are now; beside float16 and bfloat16 they are float32.
  // ValueError without parameters or for a decay outside [0, 1]; DTypeError.
  explicit ExponentialMovingAverage(const std::vector<Tensor>& parameters, double decay = 0.999);

  // average ← decay · average + (1 − decay) · parameter. ValueError between apply and restore.
  void update();

  // The parameters take the averages, and their own values back. ValueError the second time.
  void apply();
  void restore();
  bool applied() const { return !originals_.empty(); }

  // The averages for other tensors of these shapes. ValueError, ShapeError.
  void apply_to(const std::vector<Tensor>& others) const;

  double decay() const { return decay_; }
  const std::vector<Tensor>& averages() const { return averages_; }

  // "shadow_params.0" …, "decay", "num_updates".
  StateDict state_dict() const;
  // Everything is checked before anything changes; errors as those of an optimizer.
  void load_state_dict(const StateDict& saved);

 private:
  std::vector<Tensor> parameters_;
  std::vector<Tensor> averages_;   // dense
  std::vector<Tensor> originals_;  // while the averages are applied
  double decay_;
  std::int64_t updates_ = 0;
};

}  // namespace extensor::optim

EXTENSOR_END_API
