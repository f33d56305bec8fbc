#include "extensor/optimizer_steps.h"

#include <cmath>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "extensor/elementwise.h"
#include "ops/launch.h"
#include "ops/overlap.h"

namespace extensor {

namespace {

using backend::OptimizerCall;
using backend::OptimizerOp;
using detail::message;

// A state of a step: whether its options ask for it, and what PyTorch calls it.
struct NamedState {
  const char* name;
  Tensor* tensor;
  bool used = true;
};

void check_not_negative(const char* operation, const char* name, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw ValueError(
      message(operation, ": ", name, " is ", value, ", must be finite and at least 0"));
}

void check_fraction(const char* operation, const char* name, double value) {
  if (value >= 0 && value < 1) return;
  throw ValueError(message(operation, ": ", name, " is ", value, ", must be in [0, 1)"));
}

void check_step(const char* operation, std::int64_t step) {
  if (step >= 1) return;
  throw ValueError(message(operation, ": step is ", step, ", must count from 1"));
}

void check_tensors(const char* operation, const Tensor& param, const Tensor& grad,
                   std::span<const NamedState> states) {
  if (!is_floating_point(param.dtype())) {
    throw DTypeError(message(operation, ": param is ", param.dtype(), ", must be a float dtype"));
  }
  const auto check_like_param = [&](const char* name, const Tensor& x, bool may_be_float32) {
    if (!(x.shape() == param.shape())) {
      throw ShapeError(
          message(operation, ": ", name, " is ", x.shape(), ", param is ", param.shape()));
    }
    if (x.dtype() != param.dtype() && !(may_be_float32 && x.dtype() == DType::float32)) {
      throw DTypeError(message(operation, ": ", name, " is ", x.dtype(), ", param is ",
                               param.dtype(), may_be_float32 ? ": must be that or float32" : ""));
    }
    const ops::Source pair[] = {param, x};
    ops::common_device(operation, pair);
  };
  ops::check_writable(operation, param);
  check_like_param("grad", grad, false);
  ops::check_no_partial_overlap(operation, param, grad);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const NamedState& state = states[i];
    if (!state.used) continue;
    if (!state.tensor->defined()) {
      throw ValueError(
          message(operation, ": the options need ", state.name, ", which is an undefined tensor"));
    }
    check_like_param(state.name, *state.tensor, is_half(param.dtype()));
    ops::check_writable(operation, *state.tensor);
    const auto check_apart = [&](const char* name, const Tensor& other) {
      if (ops::overlap(*state.tensor, other) == ops::Overlap::none) return;
      throw ValueError(message(operation, ": ", state.name, " shares memory with ", name));
    };
    check_apart("param", param);
    check_apart("grad", grad);
    for (std::size_t k = 0; k < i; ++k) {
      if (!states[k].used) continue;
      check_apart(states[k].name, *states[k].tensor);
      if (states[k].tensor->dtype() != state.tensor->dtype()) {
        throw DTypeError(message(operation, ": ", state.name, " is ", state.tensor->dtype(), ", ",
                                 states[k].name, " is ", states[k].tensor->dtype()));
      }
    }
  }
}

// Dense memory to work in: the tensor's own, or a copy that goes back.
class InPlace {
 public:
  explicit InPlace(Tensor& target)
      : target_(target), dense_(detail::unrecorded([&] { return target.contiguous(); })) {}
  std::byte* data() { return dense_.impl().data; }
  void finish() {
    if (target_.is_contiguous()) {
      detail::wrote(target_);
    } else {
      detail::unrecorded([&] { return target_.copy_from(dense_); });
    }
  }

 private:
  Tensor& target_;
  Tensor dense_;
};

void run_step(const char* operation, OptimizerOp op, Tensor& param, const Tensor& grad,
              std::span<const NamedState> states,
              const backend::OptimizerCoefficients& coefficients) {
  check_tensors(operation, param, grad, states);
  const Tensor dense_grad = grad.contiguous();
  std::vector<InPlace> written{InPlace(param)};
  written.reserve(1 + states.size());
  OptimizerCall call{};
  call.op = op;
  call.dtype = call.state_dtype = param.dtype();
  call.numel = param.numel();
  call.param = written[0].data();
  call.grad = dense_grad.impl().data;
  call.coefficients = coefficients;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i].used) continue;
    call.states[i] = written.emplace_back(*states[i].tensor).data();
    call.state_dtype = states[i].tensor->dtype();
  }
  backend::backend_for(param.device()).optimizer_step(call);
  for (InPlace& tensor : written) tensor.finish();
}

}  // namespace

void sgd_step(Tensor& param, const Tensor& grad, SgdState& state, std::int64_t step,
              const SgdOptions& options) {
  check_step("sgd_step", step);
  check_not_negative("sgd_step", "lr", options.lr);
  check_not_negative("sgd_step", "momentum", options.momentum);
  check_not_negative("sgd_step", "weight_decay", options.weight_decay);
  if (!std::isfinite(options.dampening)) {
    throw ValueError(message("sgd_step: dampening is ", options.dampening, ", must be finite"));
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw ValueError(message("sgd_step: nesterov needs a momentum and no dampening, momentum is ",
                             options.momentum, " and dampening ", options.dampening));
  }
  backend::OptimizerCoefficients c;
  c.rate = options.lr;
  c.decay = options.weight_decay;
  c.momentum = options.momentum;
  c.gain = 1 - options.dampening;
  c.maximize = options.maximize;
  c.nesterov = options.nesterov;
  c.first = step == 1;
  const NamedState states[] = {{"momentum_buffer", &state.momentum_buffer, options.momentum != 0}};
  run_step("sgd_step", OptimizerOp::sgd, param, grad, states, c);
}

namespace {

// Adam and AdamW differ in where the weight decay goes.
template <class Options>
void adam(const char* operation, Tensor& param, const Tensor& grad, AdamState& state,
          std::int64_t step, const Options& options, bool decoupled) {
  const auto [beta1, beta2] = options.betas;
  check_step(operation, step);
  check_not_negative(operation, "lr", options.lr);
  check_not_negative(operation, "eps", options.eps);
  check_not_negative(operation, "weight_decay", options.weight_decay);
  check_fraction(operation, "betas.first", beta1);
  check_fraction(operation, "betas.second", beta2);
  backend::OptimizerCoefficients c;
  const auto count = static_cast<double>(step);
  c.rate = options.lr / (1 - std::pow(beta1, count));
  c.correction = 1 / std::sqrt(1 - std::pow(beta2, count));
  (decoupled ? c.keep : c.decay) =
      decoupled ? 1 - options.lr * options.weight_decay : options.weight_decay;
  c.beta1 = beta1;
  c.beta2 = beta2;
  c.eps = options.eps;
  c.maximize = options.maximize;
  c.third = options.amsgrad;
  const NamedState states[] = {{"exp_avg", &state.exp_avg},
                               {"exp_avg_sq", &state.exp_avg_sq},
                               {"max_exp_avg_sq", &state.max_exp_avg_sq, options.amsgrad}};
  run_step(operation, OptimizerOp::adam, param, grad, states, c);
}

}  // namespace

void adam_step(Tensor& param, const Tensor& grad, AdamState& state, std::int64_t step,
               const AdamOptions& options) {
  adam("adam_step", param, grad, state, step, options, false);
}

void adamw_step(Tensor& param, const Tensor& grad, AdamState& state, std::int64_t step,
                const AdamWOptions& options) {
  adam("adamw_step", param, grad, state, step, options, true);
}

void rmsprop_step(Tensor& param, const Tensor& grad, RmspropState& state, std::int64_t step,
                  const RmspropOptions& options) {
  check_step("rmsprop_step", step);
  check_not_negative("rmsprop_step", "lr", options.lr);
  check_not_negative("rmsprop_step", "eps", options.eps);
  check_not_negative("rmsprop_step", "weight_decay", options.weight_decay);
  check_not_negative("rmsprop_step", "momentum", options.momentum);
  check_not_negative("rmsprop_step", "alpha", options.alpha);
  backend::OptimizerCoefficients c;
  c.rate = options.lr;
  c.decay = options.weight_decay;
  c.momentum = options.momentum;
  c.beta2 = options.alpha;
  c.eps = options.eps;
  c.maximize = options.maximize;
  c.third = options.centered;
  const NamedState states[] = {{"square_avg", &state.square_avg},
                               {"momentum_buffer", &state.momentum_buffer, options.momentum != 0},
                               {"grad_avg", &state.grad_avg, options.centered}};
  run_step("rmsprop_step", OptimizerOp::rmsprop, param, grad, states, c);
}

void adagrad_step(Tensor& param, const Tensor& grad, AdagradState& state, std::int64_t step,
                  const AdagradOptions& options) {
  check_step("adagrad_step", step);
  check_not_negative("adagrad_step", "lr", options.lr);
  check_not_negative("adagrad_step", "lr_decay", options.lr_decay);
  check_not_negative("adagrad_step", "eps", options.eps);
  check_not_negative("adagrad_step", "weight_decay", options.weight_decay);
  backend::OptimizerCoefficients c;
  c.rate = options.lr / (1 + static_cast<double>(step - 1) * options.lr_decay);
  c.decay = options.weight_decay;
  c.eps = options.eps;
  c.maximize = options.maximize;
  const NamedState states[] = {{"sum", &state.sum}};
  run_step("adagrad_step", OptimizerOp::adagrad, param, grad, states, c);
}

// ---- clipping
// --------------------------------------------------------------------------------------

namespace {

void check_gradients(const char* operation, std::span<const Tensor> grads) {
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!is_floating_point(grads[i].dtype())) {
      throw DTypeError(
          message(operation, ": grads[", i, "] is ", grads[i].dtype(), ", must be a float dtype"));
    }
    ops::check_writable(operation, grads[i]);
  }
}

}  // namespace

double clip_grad_norm(std::span<Tensor> grads, double max_norm, double norm_type,
                      bool error_if_nonfinite) {
  check_gradients("clip_grad_norm", grads);
  if (!(max_norm >= 0)) {
    throw ValueError(message("clip_grad_norm: max_norm is ", max_norm, ", must be at least 0"));
  }
  if (!(norm_type > 0)) {
    throw ValueError(message("clip_grad_norm: norm_type is ", norm_type, ", must be above 0"));
  }
  const bool largest = std::isinf(norm_type);
  double total = 0;
  for (const Tensor& grad : grads) {
    const Tensor dense = grad.contiguous();
    double part = 0;
    backend::backend_for(grad.device())
        .power_sum({dense.dtype(), dense.numel(), dense.impl().data, norm_type, &part});
    if (!largest) {
      total += part;
    } else if (part > total || std::isnan(part)) {
      total = part;
    }
    if (std::isnan(total)) break;
  }
  const double norm = largest          ? total
                      : norm_type == 2 ? std::sqrt(total)
                                       : std::pow(total, 1 / norm_type);
  if (error_if_nonfinite && !std::isfinite(norm)) {
    throw ValueError(message("clip_grad_norm: the norm of the gradients is ", norm,
                             ", and error_if_nonfinite is set"));
  }
  const double scale = max_norm / (norm + 1e-6);
  if (!(scale >= 1)) {  // NaN scales too
    for (Tensor& grad : grads) grad *= scale;
  }
  return norm;
}

void clip_grad_value(std::span<Tensor> grads, double clip_value) {
  check_gradients("clip_grad_value", grads);
  if (!(clip_value >= 0)) {
    throw ValueError(
        message("clip_grad_value: clip_value is ", clip_value, ", must be at least 0"));
  }
  for (Tensor& grad : grads) clip_(grad, -clip_value, clip_value);
}

}  // namespace extensor
