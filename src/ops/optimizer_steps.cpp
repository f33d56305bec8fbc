#include "extensor/optimizer_steps.h"

#include <cmath>
#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/optimizer_rule.h"
#include "ops/overlap.h"
#include "ops/record_elementwise.h"

namespace extensor {

namespace ops {

namespace {

using backend::OptimizerCall;
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
    const char* name = uses.states[i].name;
    if (!uses.states[i].used) continue;
    if (tensors[i] == nullptr || !tensors[i]->defined()) {
      throw ValueError(
          message(operation, ": the options need ", name, ", which is an undefined tensor"));
    }
    const Tensor& state = *tensors[i];
    check_like_param(operation, name, state, param, is_half(param.dtype()));
    check_writable(operation, state);
    const auto check_apart = [&](const char* other_name, const Tensor& other) {
      if (overlap(state, other) == Overlap::none) return;
      throw ValueError(message(operation, ": ", name, " shares memory with ", other_name));
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

// Dense memory to work in: the tensor itself, or a copy that is written back.
class InPlace {
 public:
  explicit InPlace(Tensor& target)
      : target_(target), dense_(detail::unrecorded([&] { return target.contiguous(); })) {}
  std::byte* data() { return detail::dense_data(dense_); }
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

void step_items(OptimizerOp op, const Device& device, DType dtype, DType state_dtype,
                std::span<const OptimizerItem> items, const OptimizerCoefficients& coefficients,
                const double* condition, const double* factor) {
  OptimizerCall call{op,           dtype,     state_dtype, 0, items.data(), std::ssize(items),
                     coefficients, condition, factor};
  for (const OptimizerItem& item : items) call.numel += item.numel;
  backend::backend_for(device).optimizer_step(call);
}

template <class Options>
void step_one(const char* operation, Tensor& param, const Tensor& grad, Tensor* const* states,
              std::int64_t step, const Options& options, const double* condition) {
  if (step < 1) {
    throw ValueError(message(operation, ": step is ", step, ", must count from 1"));
  }
  check_options(operation, options);
  const StateUses uses = state_uses(options);
  check_param_and_grad(operation, param, grad);
  check_states(operation, param, grad, uses, states);
  const Tensor dense_grad = detail::unrecorded([&] { return grad.contiguous(); });
  std::vector<InPlace> written;
  written.reserve(1 + max_optimizer_states);
  OptimizerItem item;
  DType dtype = param.dtype();
  item.numel = param.numel();
  item.param = written.emplace_back(param).data();
  item.grad = detail::dense_data(dense_grad);
  for (int i = 0; i < max_optimizer_states; ++i) {
    if (states[i] == nullptr || !uses.states[i].used) continue;
    item.states[i] = written.emplace_back(*states[i]).data();
    dtype = states[i]->dtype();
  }
  step_items(OptimizerRule<Options>::op, param.device(), param.dtype(), dtype, {&item, 1},
             coefficients_of(options, step), condition);
  for (InPlace& tensor : written) tensor.finish();
}
#define OPTIMIZER(name, Class, Options, ...)                                                \
  template void step_one(const char*, Tensor&, const Tensor&, Tensor* const*, std::int64_t, \
                         const Options&, const double*);
#include "extensor/tables/optimizers.def"

void move_averages(std::span<const Tensor> averages, std::span<const Tensor> values, double rate) {
  const detail::RecordingScope off(false);
  std::vector<OptimizerItem> items(values.size());
  std::vector<Tensor> dense(values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    check_real("move_averages", "a value", values[k]);
    dense[k] = values[k].contiguous();
    items[k].numel = dense[k].numel();
    items[k].grad = detail::dense_data(dense[k]);
    items[k].states[0] = detail::dense_data(averages[k]);
  }
  OptimizerCoefficients coefficients;
  coefficients.values[0] = rate;
  // Process each run of tensors with one device and dtype in one call.
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    const DType dtype = dense[begin].dtype();
    const Device device = dense[begin].device();
    while (end < items.size() && dense[end].dtype() == dtype && dense[end].device() == device) {
      ++end;
    }
    step_items(OptimizerOp::average, device, dtype, state_dtype(dtype),
               std::span(items).subspan(begin, end - begin), coefficients);
  }
  for (const Tensor& average : averages) detail::wrote(average);
}

void scale_in_place(const char* operation, std::span<Tensor> tensors, const Tensor& factor) {
  const detail::RecordingScope off(false);
  for (const Tensor& x : tensors) {
    check_real(operation, "a tensor", x);
    check_writable(operation, x);
  }
  OptimizerCoefficients coefficients;
  const bool is_number = factor.device() == cpu_device;
  if (is_number) coefficients.values[0] = factor.item<double>();
  // Processes each run of tensors with one device and dtype in one call.
  for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    const DType dtype = tensors[begin].dtype();
    const Device device = tensors[begin].device();
    std::vector<InPlace> written;
    std::vector<OptimizerItem> items;
    for (; end < tensors.size() && tensors[end].dtype() == dtype && tensors[end].device() == device;
         ++end) {
      Tensor& x = tensors[end];
      std::byte* data = written.emplace_back(x).data();
      items.push_back({x.numel(), data, data, {}});
    }
    const Tensor here = is_number ? Tensor() : factor.to(device);
    step_items(OptimizerOp::scale, device, dtype, dtype, items, coefficients, nullptr,
               is_number ? nullptr : detail::kernel_pointer<double>(here));
    for (InPlace& tensor : written) tensor.finish();
  }
}

Tensor gradient_norm(const char* operation, std::span<const Tensor> grads, double norm_type) {
  const detail::RecordingScope off(false);
  const Device device = grads.empty() ? cpu_device : grads[0].device();
  std::vector<Tensor> dense, parts;
  for (const Tensor& grad : grads) {
    check_real(operation, "a gradient", grad);
    dense.push_back(grad.contiguous());
  }
  std::vector<backend::PowerSumItem> items(grads.size());
  // Process each run of tensors with one device and dtype in one call.
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    const DType dtype = dense[begin].dtype();
    const Device here = dense[begin].device();
    while (end < items.size() && dense[end].dtype() == dtype && dense[end].device() == here) ++end;
    const auto count = static_cast<std::int64_t>(end - begin);
    parts.push_back(detail::make_empty(operation, {count}, DType::float64, here));
    auto* out = detail::kernel_pointer<double>(parts.back());
    for (std::size_t k = begin; k < end; ++k) {
      items[k] = {dense[k].numel(), dense[k].impl().data, out++};
    }
    backend::backend_for(here).power_sum({dtype, norm_type, items.data() + begin, count});
    parts.back() = parts.back().to(device);
  }
  if (parts.empty()) return zeros({}, {DType::float64, device});
  const Tensor all = parts.size() == 1 ? parts[0] : concatenate(parts, 0);
  if (std::isinf(norm_type)) return max_reduce(all);
  const Tensor total = sum(all);
  return norm_type == 2 ? sqrt(total) : power(total, 1 / norm_type);
}

}  // namespace ops

using detail::message;

namespace {

template <class State>
struct StatePointers : ops::RowVisitor {
  State& from;
  Tensor* pointers[ops::max_optimizer_states] = {};
  int count = 0;
  explicit StatePointers(State& states) : from(states) {}
  void state(const char*, Tensor State::*member, bool, double) {
    pointers[count++] = &(from.*member);
  }
};

template <class Options, class State>
void step_with(const char* operation, Tensor& param, const Tensor& grad, State& state,
               std::int64_t step, const Options& options) {
  StatePointers<State> states(state);
  ops::OptimizerRule<Options>::visit(states, options, 1);
  ops::step_one(operation, param, grad, states.pointers, step, options);
}

}  // namespace

#define OPTIMIZER(name, Class, Options, State, ...)                                 \
  void name##_step(Tensor& param, const Tensor& grad, State& state, StrictInt step, \
                   const Options& options) {                                        \
    step_with(#name "_step", param, grad, state, step, options);                    \
  }
#include "extensor/tables/optimizers.def"

// ---- clipping

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

GradientNorm ops::clip_grad_norm(std::span<Tensor> grads, double max_norm, double norm_type,
                                 bool error_if_nonfinite,
                                 const std::function<Tensor()>& compute_norm) {
  check_gradients("clip_grad_norm", grads);
  if (!(max_norm >= 0)) {
    throw ValueError(message("clip_grad_norm: max_norm is ", max_norm, ", must be at least 0"));
  }
  if (!(norm_type > 0)) {
    throw ValueError(message("clip_grad_norm: norm_type is ", norm_type, ", must be above 0"));
  }
  const Tensor norm = compute_norm();
  if (error_if_nonfinite) {
    const auto value = norm.item<double>();
    if (!std::isfinite(value)) {
      throw ValueError(message("clip_grad_norm: the norm of the gradients is ", value,
                               ", and error_if_nonfinite is set"));
    }
  }
  if (norm.device() == cpu_device) {
    const double scale = max_norm / (norm.item<double>() + 1e-6);
    if (!(scale >= 1)) {  // also true for NaN
      for (Tensor& grad : grads) grad *= scale;
    }
    return GradientNorm(norm);
  }
  // The host does not know the factor, so the device limits it to 1.
  const Tensor scale = divide(max_norm, add(norm, 1e-6));
  const Tensor factor = where(greater_equal(scale, 1), ones({}, {float64, cpu_device}), scale);
  std::vector<Tensor> plain;
  for (Tensor& grad : grads) {
    if (!grad.requires_grad()) {
      plain.push_back(grad);
      continue;
    }
    const Tensor here = factor.to(grad.device());
    const ops::Source inputs[] = {grad, here};
    ops::write_in_place({ops::ElementwiseOp::multiply, "clip_grad_norm",
                         ops::compute_dtype(grad.dtype()), grad.dtype(), inputs},
                        grad);
  }
  ops::scale_in_place("clip_grad_norm", plain, factor);
  return GradientNorm(norm);
}

GradientNorm clip_grad_norm(std::span<Tensor> grads, StrictDouble max_norm, StrictDouble norm_type,
                            StrictBool error_if_nonfinite) {
  return ops::clip_grad_norm(grads, max_norm, norm_type, error_if_nonfinite, [&] {
    return ops::gradient_norm("clip_grad_norm", grads, norm_type);
  });
}

void clip_grad_value(std::span<Tensor> grads, StrictDouble clip_value) {
  check_gradients("clip_grad_value", grads);
  if (!(clip_value >= 0)) {
    throw ValueError(
        message("clip_grad_value: clip_value is ", clip_value, ", must be at least 0"));
  }
  for (Tensor& grad : grads) clip_(grad, -clip_value, clip_value);
}

Tensor sgd_step(const Tensor& param, const Tensor& grad, StrictDouble lr) {
  Tensor stepped = param.detach().clone();
  sgd_step(stepped, grad.detach(), SgdOptions{.lr = lr});
  return stepped;
}

}  // namespace extensor
