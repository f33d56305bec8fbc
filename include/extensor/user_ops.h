// User-defined ops. From a formula, with its gradient derived automatically:
//
//   auto swish = extensor::elementwise("swish", [](auto x) { return x * sigmoid(x); });
//   Tensor y = swish(x);
//   Tensor grad_x = swish.backward(grad_y, x);
//
// or from a forward and a backward that you write: custom_function. docs/user-defined-ops.md has
// more.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/dual.h"
#include "extensor/export.h"
#include "extensor/gradcheck.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

namespace detail {

using ValueFunction = std::function<expression::Value(const expression::Value* inputs)>;
using DualFunction = std::function<expression::Dual(const expression::Dual* inputs)>;

Tensor evaluate_user_op(const char* name, std::span<const Tensor> inputs,
                        const ValueFunction& function);
std::vector<Tensor> differentiate_user_op(const char* name, const Tensor& grad_output,
                                          std::span<const Tensor> inputs,
                                          const DualFunction& function);
// Whether autograd must record a call with these inputs, and the function that records it.
// Everything that the functions refer to must live as long as they do: the record keeps them.
bool records_user_op(std::span<const Tensor> inputs);
Tensor record_user_op(const std::string& name, std::span<const Tensor> inputs,
                      const ValueFunction& function, DualFunction dual);

}  // namespace detail

// An elementwise op of one to four inputs, which broadcast. Floats keep their promoted dtype,
// others become float32; halves are computed in float32 and rounded once. Recorded for autograd,
// with gradients of every order.
// Errors: ShapeError where shapes do not broadcast, DTypeError for a backward of integers.
template <class Function>
class ElementwiseFunction {
 public:
  ElementwiseFunction(std::string name, Function function)
      : name_(std::move(name)), function_(std::make_shared<Function>(std::move(function))) {}
  // Copied, not moved: a copy is cheap, and the source stays usable.
  ElementwiseFunction(const ElementwiseFunction&) = default;
  ElementwiseFunction& operator=(const ElementwiseFunction&) = default;

  const std::string& name() const { return name_; }

  template <std::derived_from<Tensor>... Tensors>
  Tensor operator()(const Tensors&... inputs) const {
    constexpr std::size_t count = sizeof...(inputs);
    check_count<count>();
    const std::array<Tensor, count> all{inputs...};
    const auto value = call<expression::Value, count>(function_.get());
    // A function of plain values only is recorded as the operations it consists of.
    if constexpr (takes<expression::Dual, Tensors...>()) {
      if (detail::records_user_op(all)) {
        return detail::record_user_op(name_, all, value, call<expression::Dual, count>(function_));
      }
    }
    return detail::evaluate_user_op(name_.c_str(), all, value);
  }

  // The gradient of one input, or of all as a std::array, each in its input's shape and dtype.
  template <std::derived_from<Tensor>... Tensors>
  auto backward(const Tensor& grad_output, const Tensors&... inputs) const {
    check_count<sizeof...(inputs)>();
    const std::array<Tensor, sizeof...(inputs)> all{inputs...};
    std::vector<Tensor> gradients =
        detail::differentiate_user_op(name_.c_str(), grad_output, all,
                                      call<expression::Dual, sizeof...(inputs)>(function_.get()));
    if constexpr (sizeof...(inputs) == 1) {
      return std::move(gradients[0]);
    } else {
      std::array<Tensor, sizeof...(inputs)> result;
      std::move(gradients.begin(), gradients.end(), result.begin());
      return result;
    }
  }

  // Compares the backward with finite differences at these float64 inputs.
  template <std::derived_from<Tensor>... Tensors>
  GradcheckResult gradcheck(const Tensors&... inputs) const {
    constexpr std::size_t count = sizeof...(inputs);
    check_count<count>();
    return extensor::gradcheck(
        [this](const std::vector<Tensor>& in) {
          return detail::evaluate_user_op(name_.c_str(), in,
                                          call<expression::Value, count>(function_.get()));
        },
        [this](const Tensor& grad_output, const std::vector<Tensor>& in) {
          return detail::differentiate_user_op(name_.c_str(), grad_output, in,
                                               call<expression::Dual, count>(function_.get()));
        },
        {inputs...});
  }

 private:
  template <std::size_t count>
  static void check_count() {
    static_assert(count >= 1 && count <= 4, "an elementwise op has one to four inputs");
  }

  template <class V, class... PerInput>
  static constexpr bool takes() {
    return std::is_invocable_v<const Function&, std::conditional_t<true, const V&, PerInput>...>;
  }

  // `held` is a pointer to the function, owning or not.
  template <class V, std::size_t count, class Pointer>
  static auto call(Pointer held) {
    return [held](const V* inputs) {
      return [&]<std::size_t... k>(std::index_sequence<k...>)->V {
        static_assert(std::is_invocable_v<const Function&, decltype(inputs[k])...>,
                      "the function takes another number of inputs");
        return (*held)(inputs[k]...);
      }
      (std::make_index_sequence<count>());
    };
  }

  std::string name_;
  std::shared_ptr<const Function> function_;  // shared with the records of its calls
};

// Makes an op from a function of `auto` values; see extensor/dual.h. The op calls it from several
// threads at once, on chunks of elements: it must not change what it captures.
template <class Function>
ElementwiseFunction<Function> elementwise(std::string name, Function function) {
  return {std::move(name), std::move(function)};
}

// ---- custom backward functions

// A function of several tensors with several results, and its gradient. Autograd treats it as one
// function: its forward is not recorded, and its backward is called with zeros for results that
// nothing depends on. A backward built from the library's functions has gradients itself.
class CustomFunction {
 public:
  using Tensors = std::vector<Tensor>;
  using Forward = std::function<Tensors(const Tensors& inputs)>;
  // The gradients of all inputs, in order, undefined for inputs without one.
  using Backward = std::function<Tensors(const Tensors& grad_outputs, const Tensors& inputs,
                                         const Tensors& outputs)>;

  // ValueError if either function is empty.
  CustomFunction(std::string name, Forward forward, Backward backward);
  CustomFunction(const CustomFunction&) = default;  // not moved, for the same reason
  CustomFunction& operator=(const CustomFunction&) = default;

  const std::string& name() const { return functions_->name; }

  // ValueError, naming the function, if it returns an undefined tensor. When autograd records, a
  // result that is an input, or is held elsewhere, is returned as a separate tensor on the same
  // memory.
  Tensors operator()(const Tensors& inputs) const;

  // Checks grad_outputs against the outputs, and the result of the backward against the inputs:
  // ShapeError for another number or shape of gradients, DTypeError for another dtype.
  Tensors backward(const Tensors& grad_outputs, const Tensors& inputs,
                   const Tensors& outputs) const;
  // Computes the outputs again.
  Tensors backward(const Tensors& grad_outputs, const Tensors& inputs) const;

  // Compares the backward with finite differences at these float64 inputs.
  GradcheckResult gradcheck(const Tensors& inputs, const GradcheckOptions& options = {}) const;

 private:
  struct Functions {
    std::string name;
    Forward forward;
    Backward backward;
  };

  static Tensors run_backward(const Functions& functions, const Tensors& grad_outputs,
                              const Tensors& inputs, const Tensors& outputs);

  std::shared_ptr<const Functions> functions_;  // shared with the records of its calls
};

inline CustomFunction custom_function(std::string name, CustomFunction::Forward forward,
                                      CustomFunction::Backward backward) {
  return {std::move(name), std::move(forward), std::move(backward)};
}

}  // namespace extensor

EXTENSOR_END_API
