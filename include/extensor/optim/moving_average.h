// The exponential moving average of a model's weights, which often performs better than the
// weights.
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
  // The averages start as copies of the parameters; for float16 and bfloat16 they are float32.
  // Throws ValueError without parameters or for a decay outside [0, 1], and DTypeError unless the
  // parameters are floats.
  explicit ExponentialMovingAverage(const std::vector<Tensor>& parameters, double decay = 0.999);

  // average ← decay · average + (1 − decay) · parameter. Throws ValueError between apply() and
  // restore().
  void update();

  // apply() replaces the parameters by the averages; restore() reverts that. Either throws
  // ValueError if called twice.
  void apply();
  void restore();
  bool applied() const { return !originals_.empty(); }

  // Copies the averages into other tensors of the same shapes. Throws ValueError or ShapeError.
  void apply_to(const std::vector<Tensor>& others) const;

  double decay() const { return decay_; }
  const std::vector<Tensor>& averages() const { return averages_; }

  // Contains "shadow_params.0" …, "decay" and "num_updates".
  StateDict state_dict() const;
  // Checks everything before any change; throws the errors of Optimizer::load_state_dict().
  void load_state_dict(const StateDict& saved);

 private:
  std::vector<Tensor> parameters_;
  std::vector<Tensor> averages_;   // dense
  std::vector<Tensor> originals_;  // values of the parameters while the averages are applied
  double decay_;
  std::int64_t updates_ = 0;
};

}  // namespace extensor::optim

EXTENSOR_END_API
