// A non-owning reference to any model that maps a tensor to a tensor. The model must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "extensor/export.h"
#include "extensor/nn/containers.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

class ModelReference {
 public:
  template <nn::detail::IsModule Model>
  ModelReference(Model& model)  // NOLINT: implicit, a model is given where one is asked for
      : forward_([&model](const Tensor& x) -> Tensor { return model(x); }),
        walk_(nn::detail::walk_of(model)),
        root_(nn::detail::reference_to(model)) {}
  ModelReference(nn::AnyLayer& model)  // NOLINT: implicit
      : forward_([&model](const Tensor& x) { return model(x); }),
        walk_{&model,
              [](void* of, nn::Walker& walker) { static_cast<nn::AnyLayer*>(of)->walk(walker); }},
        root_(model.reference()) {}

  Tensor operator()(const Tensor& x) const { return forward_(x); }
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

 private:
  std::function<Tensor(const Tensor&)> forward_;
  nn::detail::Walk walk_;
  nn::ModuleDescription root_;
};

}  // namespace extensor::train

EXTENSOR_END_API
