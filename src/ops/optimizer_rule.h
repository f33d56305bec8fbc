// The rows of extensor/tables/optimizers.def on the host: option ranges, states, and the
// coefficients of a step. The *_step functions and the optimizers of extensor::optim are built on
// them.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>

#include "backend/optimizer_rows.h"
#include "core/check.h"
#include "extensor/error.h"
#include "extensor/optimizer_steps.h"

namespace extensor::ops {

using backend::max_optimizer_states;
using backend::OptimizerCoefficients;
using backend::OptimizerItem;
using backend::OptimizerOp;

enum class OptionRange : std::uint8_t { not_negative, below_one, finite };
// Throws a ValueError that names the operation if an option is outside its range.
void check_option(const char* operation, const char* name, double value, OptionRange range);

// A state under PyTorch's name, whether the options use it, and its initial value.
struct StateUse {
  const char* name = nullptr;
  bool used = false;
  double initial = 0;
};
struct StateUses {
  StateUse states[max_optimizer_states];
};

// ---- visiting a row

// Ignores every declaration of a row; visitors hide the functions they need.
struct RowVisitor {
  void range(const char*, double, OptionRange) {}
  template <class... Parts>
  void require(bool, const Parts&...) {}
  void variant(bool) {}
  template <class State>
  void state(const char*, Tensor State::*, bool, double) {}
  template <class Value>
  void coefficient(const Value&) {}
};

// OptimizerRule<Options>::visit(visitor, options, step) calls the visitor for each declaration.
template <class Options>
struct OptimizerRule;
#define RANGE(option, allowed) visitor.range(#option, o.option, OptionRange::allowed);
#define REQUIRE(condition, ...) visitor.require(condition, __VA_ARGS__);
#define VARIANT(word, condition)                  \
  [[maybe_unused]] const bool word = (condition); \
  visitor.variant(word);
#define STATE(member, when, value) visitor.state(#member, &State::member, when, value);
#define COEFFICIENT(word, value) visitor.coefficient([&]() -> double { return value; });
#define OPTIMIZER(row, Class, OptionsType, StateType, steps, declarations, ...)               \
  template <>                                                                                 \
  struct OptimizerRule<OptionsType> {                                                         \
    using State = StateType;                                                                  \
    static constexpr const char* name = #Class;                                               \
    static constexpr OptimizerOp op = OptimizerOp::row;                                       \
    static constexpr bool counted = true, uncounted = false, counts_steps = steps;            \
    template <class Visitor>                                                                  \
    static void visit(Visitor& visitor, const OptionsType& o, [[maybe_unused]] double step) { \
      using std::pow, std::sqrt;                                                              \
      [[maybe_unused]] constexpr bool always = true;                                          \
      declarations                                                                            \
    }                                                                                         \
  };
#include "extensor/tables/optimizers.def"
#undef RANGE
#undef REQUIRE
#undef VARIANT
#undef STATE
#undef COEFFICIENT

struct OptionCheck : RowVisitor {
  const char* operation;
  explicit OptionCheck(const char* name) : operation(name) {}
  void range(const char* name, double value, OptionRange allowed) {
    check_option(operation, name, value, allowed);
  }
  template <class... Parts>
  void require(bool condition, const Parts&... parts) {
    if (!condition) throw ValueError(detail::message(operation, ": ", parts...));
  }
};
// `operation` is named in the ValueError for an option outside its range.
template <class Options>
void check_options(const char* operation, const Options& options) {
  OptionCheck visitor(operation);
  OptimizerRule<Options>::visit(visitor, options, 1);
}

struct StateList : RowVisitor {
  StateUses uses;
  int count = 0;
  template <class State>
  void state(const char* name, Tensor State::*, bool used, double initial) {
    uses.states[count++] = {name, used, initial};
  }
};
template <class Options>
StateUses state_uses(const Options& options) {
  StateList visitor;
  OptimizerRule<Options>::visit(visitor, options, 1);
  return visitor.uses;
}

struct CoefficientList : RowVisitor {
  OptimizerCoefficients coefficients;
  int variants = 0, values = 0;
  void variant(bool bit) { coefficients.variants |= std::uint32_t{bit} << variants++; }
  template <class Value>
  void coefficient(const Value& value) {
    coefficients.values[values++] = value();
  }
};
// `step` counts from 1.
template <class Options>
OptimizerCoefficients coefficients_of(const Options& options, std::int64_t step) {
  CoefficientList visitor;
  OptimizerRule<Options>::visit(visitor, options, static_cast<double>(step));
  visitor.coefficients.maximize = options.maximize;
  return visitor.coefficients;
}

// ---- stepping

// One step on one parameter of any layout; states are in the order of the row. `condition` is that
// of OptimizerCall.
template <class Options>
void step_one(const char* operation, Tensor& param, const Tensor& grad, Tensor* const* states,
              std::int64_t step, const Options& options, const double* condition = nullptr);

// One step on dense parameters of one device and dtype. The arguments are already checked.
void step_items(OptimizerOp op, const Device& device, DType dtype, DType state_dtype,
                std::span<const OptimizerItem> items, const OptimizerCoefficients& coefficients,
                const double* condition = nullptr, const double* factor = nullptr);

// tensor *= factor for all tensors, with one call for each run of tensors with one device and
// dtype. The factor is a 0-d float64 tensor of any device; the host does not wait for it.
void scale_in_place(const char* operation, std::span<Tensor> tensors, const Tensor& factor);

// Throws ShapeError, DTypeError, DeviceError or ValueError unless a step may update param from
// grad.
void check_param_and_grad(const char* operation, const Tensor& param, const Tensor& grad);

// averages[k] += rate * (values[k] - averages[k]). The averages are dense and have the dtype of
// their values, or float32 for half dtypes.
void move_averages(std::span<const Tensor> averages, std::span<const Tensor> values, double rate);

// The joint norm of all gradients, of order norm_type > 0 or infinity: a 0-d float64 tensor on the
// device of the first gradient. The host does not wait for it.
Tensor gradient_norm(const char* operation, std::span<const Tensor> grads, double norm_type);

// clip_grad_norm with a norm that `norm` computes, after the arguments have been checked: other
// gradients may count as well.
GradientNorm clip_grad_norm(std::span<Tensor> grads, double max_norm, double norm_type,
                            bool error_if_nonfinite, const std::function<Tensor()>& norm);

// The dtype of the states of a parameter: float32 for half dtypes.
inline DType state_dtype(DType parameter) {
  return is_half(parameter) ? DType::float32 : parameter;
}

}  // namespace extensor::ops
