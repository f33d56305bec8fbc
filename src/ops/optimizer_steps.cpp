#include "extensor/optimizer_steps.h"

#include <cmath>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "extensor/elementwise.h"
#include "ops/launch.h"
#include "ops/optimizer_rule.h"
#include "ops/overlap.h"

namespace extensor {

namespace ops {

namespace {

using backend::max_optimizer_states;
using backend::OptimizerCall;
using backend::OptimizerItem;
using detail::message;

void check_like_param(const char* operation, const char* name, const Tensor& x, const Tensor& param,
                      bool may_be_float32) {
  if (!(x.shape() == param.shape())) {
    throw ShapeError(
        message(operation, ": ", name, " is ", x.shape(), ", param is ", param.shape()));
  }
  if (x.dtype() != param.dtype() && !(may_be_float32 && x.dtype() == DType::float32)) {
    throw DTypeError(message(operation, ": ", name, " is ", x.dtype(), ", param is ", param.dtype(),
                             may_be_float32 ? ": must be that or float32" : ""));
  }
  const Source pair[] = {param, x};
  common_device(operation, pair);
}

void check_states(const char* operation, const Tensor& param, const Tensor& grad,
                  const StateUses& uses, Tensor* const* tensors) {
  for (int i = 0; i < max_optimizer_states; ++i) {
    const auto [name, used] = uses.states[i];
    if (!used) continue;
    if (tensors[i] == nullptr || !tensors[i]->defined()) {
      throw ValueError(
          message(operation, ": the options need ", name, ", which is an undefined tensor"));
    }
    const Tensor& state = *tensors[i];
    check_like_param(operation, name, state, param, is_half(param.dtype()));
    check_writable(operation, state);
    const auto check_apart = [&, mine = name](const char* other_name, const Tensor& other) {
      if (overlap(state, other) == Overlap::none) return;
      throw ValueError(message(operation, ": ", mine, " shares memory with ", other_name));
    };
    check_apart("param", param);
    check_apart("grad", grad);
    for (int k = 0; k < i; ++k) {
      if (!uses.states[k].used) continue;
      check_apart(uses.states[k].name, *tensors[k]);
      if (tensors[k]->dtype() != state.dtype()) {
        throw DTypeError(message(operation, ": ", name, " is ", state.dtype(), ", ",
                                 uses.states[k].name, " is ", tensors[k]->dtype()));
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

}  // namespace

void check_param_and_grad(const char* operation, const Tensor& param, const Tensor& grad) {
  if (!is_floating_point(param.dtype())) {
    throw DTypeError(message(operation, ": param is ", param.dtype(), ", must be a float dtype"));
  }
  check_writable(operation, param);
  check_like_param(operation, "grad", grad, param, false);
  check_no_partial_overlap(operation, param, grad);
}

template <class Options>
void step_one(const char* operation, Tensor& param, const Tensor& grad, Tensor* const* states,
              std::int64_t step, const Options& options) {
  using Rule = OptimizerRule<Options>;
  if (step < 1) {
    throw ValueError(message(operation, ": step is ", step, ", must count from 1"));
  }
  Rule::check(operation, options);
  const StateUses uses = Rule::uses(options);
  check_param_and_grad(operation, param, grad);
  check_states(operation, param, grad, uses, states);
  const Tensor dense_grad = detail::unrecorded([&] { return grad.contiguous(); });
  std::vector<InPlace> written;
  written.reserve(1 + max_optimizer_states);
  OptimizerItem item;
  OptimizerCall call{};
  call.op = Rule::op;
  call.dtype = call.state_dtype = param.dtype();
  call.numel = item.numel = param.numel();
  item.param = written.emplace_back(param).data();
  item.grad = dense_grad.impl().data;
  for (int i = 0; i < max_optimizer_states; ++i) {
    if (states[i] == nullptr || !uses.states[i].used) continue;
    item.states[i] = written.emplace_back(*states[i]).data();
    call.state_dtype = states[i]->dtype();
  }
  call.items = &item;
  call.item_count = 1;
  call.coefficients = Rule::coefficients(options, step);
  backend::backend_for(param.device()).optimizer_step(call);
  for (InPlace& tensor : written) tensor.finish();
}
template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t,
                       const SgdOptions&);
template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t,
                       const AdamOptions&);
template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t,
                       const AdamWOptions&);
template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t,
                       const RmspropOptions&);
template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t,
                       const AdagradOptions&);
template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t,
                       const LionOptions&);

}  // namespace ops

using detail::message;

void sgd_step(Tensor& param, const Tensor& grad, SgdState& state, StrictInt step,
              const SgdOptions& options) {
  Tensor* const states[backend::max_optimizer_states] = {&state.momentum_buffer};
  ops::step_one("sgd_step", param, grad, states, step, options);
}

void adam_step(Tensor& param, const Tensor& grad, AdamState& state, StrictInt step,
               const AdamOptions& options) {
  Tensor* const states[backend::max_optimizer_states] = {&state.exp_avg, &state.exp_avg_sq,
                                                         &state.max_exp_avg_sq};
  ops::step_one("adam_step", param, grad, states, step, options);
}

void adamw_step(Tensor& param, const Tensor& grad, AdamState& state, StrictInt step,
                const AdamWOptions& options) {
  Tensor* const states[backend::max_optimizer_states] = {&state.exp_avg, &state.exp_avg_sq,
                                                         &state.max_exp_avg_sq};
  ops::step_one("adamw_step", param, grad, states, step, options);
}

void rmsprop_step(Tensor& param, const Tensor& grad, RmspropState& state, StrictInt step,
                  const RmspropOptions& options) {
  Tensor* const states[backend::max_optimizer_states] = {&state.square_avg, &state.momentum_buffer,
                                                         &state.grad_avg};
  ops::step_one("rmsprop_step", param, grad, states, step, options);
}

void adagrad_step(Tensor& param, const Tensor& grad, AdagradState& state, StrictInt step,
                  const AdagradOptions& options) {
  Tensor* const states[backend::max_optimizer_states] = {&state.sum};
  ops::step_one("adagrad_step", param, grad, states, step, options);
}

void lion_step(Tensor& param, const Tensor& grad, LionState& state, StrictInt step,
               const LionOptions& options) {
  Tensor* const states[backend::max_optimizer_states] = {&state.exp_avg};
  ops::step_one("lion_step", param, grad, states, step, options);
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

double clip_grad_norm(std::span<Tensor> grads, StrictDouble max_norm, StrictDouble norm_type,
                      StrictBool error_if_nonfinite) {
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

void clip_grad_value(std::span<Tensor> grads, StrictDouble clip_value) {
  check_gradients("clip_grad_value", grads);
  if (!(clip_value >= 0)) {
    throw ValueError(
        message("clip_grad_value: clip_value is ", clip_value, ", must be at least 0"));
  }
  for (Tensor& grad : grads) clip_(grad, -clip_value, clip_value);
}

}  // namespace extensor
