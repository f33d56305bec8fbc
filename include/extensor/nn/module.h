// Modules: structs of parameters, buffers and other modules.
//
//   struct Net : extensor::nn::Module<Net> {
//     nn::Linear hidden{784, 128}, out{128, 10};
//     Tensor forward(const Tensor& x) { return out(relu(hidden(x))); }
//   };
//
//   Net net;
//   Tensor logits = net(x);
//   net.parameters();        // hidden.weight, hidden.bias, out.weight, out.bias
//   std::cout << net;        // a table of them
//
// A struct without constructors needs no more than that. One that has constructors names its
// members itself: void visit(nn::Walker& walk) { walk("hidden", hidden)("out", out); }.
// extensor/nn/walker.h lists the types of members that are walked; others that may hold parameters
// do not compile.
//
// A module is a value. A copy has parameters of its own, tied ones are tied in the copy as well.
// Assignment copies values: `model = best;` writes into the tensors that `model` has, so that an
// optimizer that was made from model.parameters() goes on with them. What a std::shared_ptr holds
// is shared by copies.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/named_tensors.h"
#include "extensor/nn/walker.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

using extensor::NamedTensors;

struct LoadOptions {
  bool strict = true;  // every name on either side must be on the other
};

// One module among others, with the parameters and buffers that are its own.
struct ModuleView {
  std::string name;  // "layers.0", empty for the outermost
  std::string_view type;
  NamedTensors parameters, buffers;
};

// The functions of every module; what they do is in src/nn/module.cpp.
namespace detail {
NamedTensors named_parameters(const Walk& walk);
NamedTensors named_buffers(const Walk& walk);
NamedTensors state_dict(const Walk& walk);
void load_state_dict(const Walk& walk, const NamedTensors& state, const LoadOptions& options);
void set_training(const Walk& walk, bool on);
void convert(const Walk& walk, DType dtype);
void convert(const Walk& walk, MemoryFormat format);
void move(const Walk& walk, Device device);
void require_gradients(const Walk& walk, bool required);
void zero_grad(const Walk& walk, bool set_to_none);
void apply(const Walk& walk, const ModuleReference& root,
           const std::function<void(const ModuleView&)>& function);
std::string summary(const Walk& walk, const ModuleReference& root);
// Called before the members of a module are copied or assigned one by one; src/nn/copying.cpp.
void begin_copy(const Walk& from);
void begin_assignment(const Walk& to, const Walk& from);
void begin_move_assignment(const Walk& to, const Walk& from);
}  // namespace detail

// The base of a module, which names itself: struct Net : Module<Net>. A module that extends another
// one names both: struct Wider : Module<Wider, Net>; its own members it lists in visit(), and they
// come after those of Net.
template <class Derived, class Base = detail::ModuleTag>
struct Module : Base {
  using ModuleType = Derived;
  using ModuleBase = Base;
  using Base::Base;

  Module() = default;
  Module(const Module& other) : Base((detail::begin_copy(other.walk()), other)) {}
  Module(Module&&) noexcept = default;
  Module& operator=(const Module& other) {
    if (this == &other) return *this;
    detail::begin_assignment(walk(), other.walk());
    Base::operator=(other);
    return *this;
  }
  Module& operator=(Module&& other) {  // NOLINT: copies values
    if (this == &other) return *this;
    detail::begin_move_assignment(walk(), other.walk());
    Base::operator=(std::move(other));
    return *this;
  }
  ~Module() = default;

  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return self().forward(std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) const {
    return self().forward(std::forward<Arguments>(arguments)...);
  }

  // The tensors themselves, not copies; tied ones once.
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> list;
    for (auto& [name, tensor] : named_parameters()) list.push_back(tensor);
    return list;
  }
  // By PyTorch's names: "layers.0.weight".
  NamedTensors named_parameters() const { return detail::named_parameters(walk()); }
  NamedTensors named_buffers() const { return detail::named_buffers(walk()); }
  // Parameters and buffers, in the order of the members; detached, the same memory. Tied parameters
  // are there under each of their names.
  NamedTensors state_dict() const { return detail::state_dict(walk()); }
  // Copies values into the module, dtypes converted. One name of tied parameters is enough.
  // ValueError naming what is missing or unknown, or tied here but different in the state;
  // ShapeError for another shape; nothing is changed then.
  void load_state_dict(const NamedTensors& state, const LoadOptions& options = {}) {
    detail::load_state_dict(walk(), state, options);
  }

  Derived& train(bool on = true) {
    detail::set_training(walk(), on);
    return self();
  }
  Derived& eval() { return train(false); }
  // Parameters and floating buffers in another float dtype; optimizers that hold them go on.
  Derived& to(DType dtype) {
    detail::convert(walk(), dtype);
    return self();
  }
  // Parameters and buffers with 4 axes in another memory format, so that convolutions compute in
  // it; the others stay as they are. ValueError for preserve.
  Derived& to(MemoryFormat format) {
    detail::convert(walk(), format);
    return self();
  }
  // Parameters, buffers and gradients on another device. They stay the tensors that they are, tied
  // ones stay tied, and optimizers that hold them go on: their states follow with the next step.
  // DeviceError for a device that is not available.
  Derived& to(Device device) {
    detail::move(walk(), device);
    return self();
  }
  Derived& requires_grad_(bool required = true) {
    detail::require_gradients(walk(), required);
    return self();
  }
  // No gradients, or, where they are to stay in place, zeros.
  void zero_grad(bool set_to_none = true) { detail::zero_grad(walk(), set_to_none); }

  // Shows the function every module inside, then this one: to initialize by type, say.
  Derived& apply(const std::function<void(const ModuleView&)>& function) {
    detail::apply(walk(), detail::reference_to(self()), function);
    return self();
  }

  std::int64_t parameter_count() const {
    std::int64_t count = 0;
    for (auto& [name, tensor] : named_parameters()) count += tensor.numel();
    return count;
  }
  // The tree of modules with shapes and numbers of parameters, as operator<< prints it.
  std::string summary() const { return detail::summary(walk(), detail::reference_to(self())); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  const Derived& self() const { return static_cast<const Derived&>(*this); }
  detail::Walk walk() const {
    // A walker sees members as they are; each function decides whether it changes them.
    return detail::walk_of(const_cast<Derived&>(self()));
  }
};

template <detail::IsModule T>
std::ostream& operator<<(std::ostream& stream, const T& module) {
  detail::check_derivation<T>();
  return stream << module.summary();
}

}  // namespace extensor::nn

EXTENSOR_END_API
