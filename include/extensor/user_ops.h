// Ops of your own. From a formula, its gradient found by itself:
//
//   auto swish = extensor::elementwise("swish", [](auto x) { return x * sigmoid(x); });
//   Tensor y = swish(x);
//   Tensor grad_x = swish.backward(grad_y, x);
//
// or from a forward and a backward that you write: custom_function. docs/user-defined-ops.md tells
// more.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/dual.h"
#include "extensor/gradcheck.h"
#include "extensor/tensor.h"

namespace extensor {

namespace detail {

using ValueFunction = std::function<expression::Value(const expression::Value* inputs)>;
using DualFunction = std::function<expression::Dual(const expression::Dual* inputs)>;

Tensor evaluate_user_op(const char* name, std::span<const Tensor> inputs,
                        const ValueFunction& function);
std::vector<Tensor> differentiate_user_op(const char* name, const Tensor& grad_output,
                                          std::span<const Tensor> inputs,
                                          const DualFunction& function);

}  // namespace detail

// An elementwise op of one to four inputs, which broadcast. Floats keep their promoted dtype,
// others become float32; halves are computed in float32 and rounded once.
// Errors: ShapeError where shapes do not broadcast, DTypeError for a backward of integers.
template <class Function>
class ElementwiseFunction {
 public:
  ElementwiseFunction(std::string name, Function function)
      : name_(std::move(name)), function_(std::move(function)) {}

  const std::string& name() const { return name_; }

  template <std::same_as<Tensor>... Tensors>
  Tensor operator()(const Tensors&... inputs) const {
    check_count<sizeof...(inputs)>();
    const std::array<Tensor, sizeof...(inputs)> all{inputs...};
    return detail::evaluate_user_op(name_.c_str(), all,
                                    call<expression::Value, sizeof...(inputs)>());
  }

  // The gradient of one input, or of all as a std::array, each in its input's shape and dtype.
  template <std::same_as<Tensor>... Tensors>
  auto backward(const Tensor& grad_output, const Tensors&... inputs) const {
    check_count<sizeof...(inputs)>();
    const std::array<Tensor, sizeof...(inputs)> all{inputs...};
    std::vector<Tensor> gradients = detail::differentiate_user_op(
        name_.c_str(), grad_output, all, call<expression::Dual, sizeof...(inputs)>());
    if constexpr (sizeof...(inputs) == 1) {
      return std::move(gradients[0]);
    } else {
      std::array<Tensor, sizeof...(inputs)> result;
      std::move(gradients.begin(), gradients.end(), result.begin());
      return result;
    }
  }

  // Compares the backward with finite differences at these float64 inputs.
  template <std::same_as<Tensor>... Tensors>
  GradcheckResult gradcheck(const Tensors&... inputs) const {
    constexpr std::size_t count = sizeof...(inputs);
    check_count<count>();
    return extensor::gradcheck(
        [this](const std::vector<Tensor>& in) {
          return detail::evaluate_user_op(name_.c_str(), in, call<expression::Value, count>());
        },
        [this](const Tensor& grad_output, const std::vector<Tensor>& in) {
          return detail::differentiate_user_op(name_.c_str(), grad_output, in,
                                               call<expression::Dual, count>());
        },
        {inputs...});
  }

 private:
  template <std::size_t count>
  static void check_count() {
    static_assert(count >= 1 && count <= 4, "an elementwise op has one to four inputs");
  }

  template <class V, std::size_t count>
  auto call() const {
    return [this](const V* inputs) {
      return [&]<std::size_t... k>(std::index_sequence<k...>)->V {
        static_assert(std::is_invocable_v<const Function&, decltype(inputs[k])...>,
                      "the function takes another number of inputs");
        return function_(inputs[k]...);
      }
      (std::make_index_sequence<count>());
    };
  }

  std::string name_;
  Function function_;
};

// An op of a function of `auto` values, see extensor/dual.h. It is called from several threads at
// once, on chunks of elements: it must not change what it captures.
template <class Function>
ElementwiseFunction<Function> elementwise(std::string name, Function function) {
  return {std::move(name), std::move(function)};
}

// ---- with a backward of your own
// -------------------------------------------------------------------

// A function of several tensors with several results, and its gradient.
class CustomFunction {
 public:
  using Tensors = std::vector<Tensor>;
  using Forward = std::function<Tensors(const Tensors& inputs)>;
  // The gradients of all inputs, in order, undefined where there is none.
  using Backward = std::function<Tensors(const Tensors& grad_outputs, const Tensors& inputs,
                                         const Tensors& outputs)>;

  // ValueError when either function is empty.
  CustomFunction(std::string name, Forward forward, Backward backward);

  const std::string& name() const { return name_; }

  // ValueError, naming the function, when it gives an undefined tensor.
  Tensors operator()(const Tensors& inputs) const;

  // Checks grad_outputs against the outputs, and what the backward gives against the inputs:
  // ShapeError for another number or shape of gradients, DTypeError for another dtype.
  Tensors backward(const Tensors& grad_outputs, const Tensors& inputs,
                   const Tensors& outputs) const;
  // Computes the outputs again.
  Tensors backward(const Tensors& grad_outputs, const Tensors& inputs) const;

  // Compares the backward with finite differences at these float64 inputs.
  GradcheckResult gradcheck(const Tensors& inputs, const GradcheckOptions& options = {}) const;

 private:
  std::string name_;
  Forward forward_;
  Backward backward_;
};

inline CustomFunction custom_function(std::string name, CustomFunction::Forward forward,
                                      CustomFunction::Backward backward) {
  return {std::move(name), std::move(forward), std::move(backward)};
}

}  // namespace extensor
