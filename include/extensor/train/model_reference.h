// A non-owning reference to any model that maps tensors to tensors. The model must outlive it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/nn/containers.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::nn::detail {

inline constexpr std::size_t most_model_inputs = 8;

// A class, since nvcc loses the parameter of an alias that does not use it.
template <std::size_t>
struct OneTensor {
  using Type = const Tensor&;
};

// Whether forward takes this many tensors.
template <class Model, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires(Model & model) { model.forward(std::declval<typename OneTensor<I>::Type>()...); };
}
template <class Model>
concept TakesList = requires(Model& model, const std::vector<Tensor>& list) {
  model.forward(list);
};

// The outputs of a model as a list: of a tensor, a list, or a pair, tuple or array of tensors.
template <class Outputs>
std::vector<Tensor> output_list(Outputs&& outputs) {
  using Plain = std::remove_cvref_t<Outputs>;
  if constexpr (std::is_convertible_v<Outputs, Tensor>) {
    return {Tensor(std::forward<Outputs>(outputs))};
  } else if constexpr (std::is_same_v<Plain, std::vector<Tensor>>) {
    return std::forward<Outputs>(outputs);
  } else {
    static_assert(
        requires { std::tuple_size<Plain>::value; },
        "forward must return a tensor, std::vector<Tensor>, or a pair, tuple or array of "
        "tensors");
    return std::apply([](auto&&... each) { return std::vector<Tensor>{each...}; },
                      std::forward<Outputs>(outputs));
  }
}

// Throws ValueError for a number of inputs that no forward of the model takes.
[[noreturn]] void throw_input_count(std::size_t given, const std::vector<std::size_t>& allowed);

template <class Model, std::size_t... Counts>
std::vector<Tensor> call_with(Model& model, const std::vector<Tensor>& inputs,
                              std::index_sequence<Counts...>) {
  std::vector<Tensor> outputs;
  std::vector<std::size_t> allowed;
  const auto try_count = [&]<std::size_t... I>(std::index_sequence<I...> all) {
    if constexpr (takes<Model>(all)) {
      allowed.push_back(sizeof...(I));
      if (inputs.size() != sizeof...(I)) return false;
      outputs = output_list(model(inputs[I]...));
      return true;
    } else {
      return false;
    }
  };
  const bool called = (try_count(std::make_index_sequence<Counts + 1>()) || ...);
  if (!called) throw_input_count(inputs.size(), allowed);
  return outputs;
}

template <class Model>
std::vector<Tensor> call_model(Model& model, const std::vector<Tensor>& inputs) {
  if constexpr (TakesList<Model>) {
    return output_list(model(inputs));
  } else {
    return call_with(model, inputs, std::make_index_sequence<most_model_inputs>());
  }
}

}  // namespace extensor::nn::detail

namespace extensor::train {

class ModelReference {
 public:
  // forward takes one tensor, up to 8 of them, or std::vector<Tensor>, and returns a tensor,
  // std::vector<Tensor>, or a pair, tuple or array of tensors.
  template <nn::detail::IsModule Model>
  ModelReference(Model& model)  // NOLINT: implicit, a model is given where one is asked for
      : forward_([&model](const std::vector<Tensor>& inputs) {
          return nn::detail::call_model(model, inputs);
        }),
        walk_(nn::detail::walk_of(model)),
        root_(nn::detail::reference_to(model)) {}
  template <std::same_as<nn::AnyLayer> Model>
  ModelReference(Model& model)  // NOLINT: implicit
      : forward_([&model](const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
          if (inputs.size() != 1) nn::detail::throw_input_count(inputs.size(), {1});
          return {model(inputs[0])};
        }),
        walk_{&model,
              [](void* of, nn::Walker& walker) { static_cast<nn::AnyLayer*>(of)->walk(walker); }},
        root_(model.reference()) {}

  // Throws ValueError if the model takes another number of inputs or returns several outputs.
  Tensor operator()(const Tensor& x) const;
  // All outputs for all inputs. Throws ValueError if the model takes another number of inputs, or
  // returns none or an undefined tensor.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const;
  NamedTensors named_parameters() const { return nn::detail::named_parameters(walk_); }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> list;
    for (auto& [name, tensor] : named_parameters()) list.push_back(tensor);
    return list;
  }
  // The device of the first parameter; the CPU if there are no parameters.
  Device device() const {
    const std::vector<Tensor> list = parameters();
    return list.empty() ? cpu_device : list.front().device();
  }
  // Like Module::to(Device).
  void to(Device device) const { nn::detail::move(walk_, device); }
  NamedTensors state_dict() const { return nn::detail::state_dict(walk_); }
  void load_state_dict(const NamedTensors& state) const {
    nn::detail::load_state_dict(walk_, state, {});
  }
  void train(bool on = true) const { nn::detail::set_training(walk_, on); }
  std::string summary() const { return nn::detail::summary(walk_, root_); }
  // The same with output shapes and FLOPs, like Module::summary(inputs …).
  std::string summary(const std::vector<Tensor>& inputs) const {
    return nn::detail::summary(walk_, root_, [&] { (*this)(inputs); });
  }

 private:
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> forward_;
  nn::detail::Walk walk_;
  nn::ModuleDescription root_;
};

}  // namespace extensor::train

EXTENSOR_END_API
