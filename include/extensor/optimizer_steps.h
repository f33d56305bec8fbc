// One step of an optimizer on one parameter, in place and in one pass over its elements.
//
//   AdamState state{zeros_like(weight), zeros_like(weight)};
//   for (std::int64_t step = 1; …; ++step) adamw_step(weight, grad, state, step, {.lr = 3e-4});
//
// The formulas, names and defaults are PyTorch's. `param` and `grad` share shape and a float dtype;
// the states have that dtype too, or float32 for halves, whose arithmetic is float32. Any layout is
// allowed. `step` counts from 1. New states are zeros. Memory is written only after all checks.
// Errors: ShapeError, DTypeError, DeviceError; ValueError for a state that is missing or shares
// memory, a step below 1, or an option outside its range (a learning rate that is negative or NaN).
#pragma once

#include <span>
#include <utility>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // requires momentum and no dampening
  bool maximize = false;
};
struct SgdState {
  Tensor momentum_buffer = {};  // used with momentum
};
void sgd_step(Tensor& param, const Tensor& grad, SgdState& state, StrictInt step,
              const SgdOptions& options = {});
// SGD without momentum has no state.
inline void sgd_step(Tensor& param, const Tensor& grad, const SgdOptions& options = {}) {
  SgdState none;
  sgd_step(param, grad, none, 1, options);
}

// The functional form: a new tensor param − lr · grad; param is unchanged.
[[nodiscard]] Tensor sgd_step(const Tensor& param, const Tensor& grad, StrictDouble lr);

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;
  bool maximize = false;
};
struct AdamState {
  Tensor exp_avg = {};
  Tensor exp_avg_sq = {};
  Tensor max_exp_avg_sq = {};  // amsgrad
};
void adam_step(Tensor& param, const Tensor& grad, AdamState& state, StrictInt step,
               const AdamOptions& options = {});

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // shrinks the parameter by lr · weight_decay
  bool amsgrad = false;
  bool maximize = false;
};
void adamw_step(Tensor& param, const Tensor& grad, AdamState& state, StrictInt step,
                const AdamWOptions& options = {});

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
};
struct RmspropState {
  Tensor square_avg = {};
  Tensor momentum_buffer = {};  // used with momentum
  Tensor grad_avg = {};         // centered
};
void rmsprop_step(Tensor& param, const Tensor& grad, RmspropState& state, StrictInt step,
                  const RmspropOptions& options = {});

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double eps = 1e-10;
  bool maximize = false;
  double initial_accumulator_value = 0;  // the initial value of a sum in optim::Adagrad
};
struct AdagradState {
  Tensor sum = {};
};
void adagrad_step(Tensor& param, const Tensor& grad, AdagradState& state, StrictInt step,
                  const AdagradOptions& options = {});

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};
struct AdadeltaState {
  Tensor square_avg = {};
  Tensor acc_delta = {};  // average of the squared changes
};
void adadelta_step(Tensor& param, const Tensor& grad, AdadeltaState& state, StrictInt step,
                   const AdadeltaOptions& options = {});

struct LionOptions {
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};
  double weight_decay = 0;  // shrinks the parameter by lr · weight_decay
  bool maximize = false;
};
struct LionState {
  Tensor exp_avg = {};
};
// The formulas of "Symbolic Discovery of Optimization Algorithms": the parameter moves by lr in the
// direction of the sign.
void lion_step(Tensor& param, const Tensor& grad, LionState& state, StrictInt step,
               const LionOptions& options = {});

// The norm that clip_grad_norm computed. It stays on the gradients' device until it is read:
//   double norm = clip_grad_norm(…);        // waits for the device
//   const auto norm = clip_grad_norm(…);    // does not; read it when the next step is under way
class GradientNorm {
 public:
  explicit GradientNorm(Tensor value) : value_(std::move(value)) {}
  operator double() const { return value_.item<double>(); }  // NOLINT: implicit
  const Tensor& tensor() const { return value_; }            // float64, without dimensions

 private:
  Tensor value_;
};

// Scales all gradients by max_norm / (norm + 1e-6) if their common norm exceeds max_norm, and
// returns that norm, of order norm_type > 0, infinity included. A norm that is not finite makes the
// gradients NaN or 0 or, on request, throws a ValueError and leaves them unchanged. Only that
// request waits for a device other than the CPU.
GradientNorm clip_grad_norm(std::span<Tensor> grads, StrictDouble max_norm,
                            StrictDouble norm_type = 2, StrictBool error_if_nonfinite = false);

// Clips every element to [−clip_value, clip_value].
void clip_grad_value(std::span<Tensor> grads, StrictDouble clip_value);

}  // namespace extensor

EXTENSOR_END_API
