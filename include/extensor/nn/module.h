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
// A struct without constructors needs nothing else. A struct with constructors lists its members:
// void visit(nn::Walker& walk) { walk("hidden", hidden)("out", out); }. extensor/nn/walker.h
// documents the supported member types; other types that may hold parameters do not compile.
//
// A module is a value. A copy has separate parameters; tied parameters are tied in the copy as
// well. Assignment copies values: `model = best;` writes into the existing tensors of `model`, so
// that an optimizer made from model.parameters() remains valid. Copies share the target of a
// std::shared_ptr.
#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/named_tensors.h"
#include "extensor/nn/walker.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

using extensor::NamedTensors;

struct LoadOptions {
  bool strict = true;  // names must match exactly
};

// One module of a tree, with its direct parameters and buffers.
struct ModuleView {
  std::string name;  // "layers.0"; empty for the outermost module
  std::string_view type;
  NamedTensors parameters, buffers;
};

// The implementations of the functions of Module, in src/nn/module.cpp.
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
void apply(const Walk& walk, const ModuleDescription& root,
           const std::function<void(const ModuleView&)>& function);
std::string summary(const Walk& walk, const ModuleDescription& root);
// The same with the shape of every output and the floating-point operations of a call.
std::string summary(const Walk& walk, const ModuleDescription& root,
                    const std::function<void()>& call);
// Called before the members of a module are copied or assigned one by one; see src/nn/copying.cpp.
void begin_copy(const Walk& from);
void begin_assignment(const Walk& to, const Walk& from);
void begin_move_assignment(const Walk& to, const Walk& from);

// ---- calls of modules

// Adds the path of the module to the message, or extends the path that a module inside it added.
void add_place(Error& error, const Walk& walk, const ModuleDescription& module,
               std::span<const Tensor* const> inputs);

template <class T>
const Tensor* tensor_in(const T& argument) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return &argument;
  } else if constexpr (std::is_same_v<T, Parameter> || std::is_same_v<T, Buffer>) {
    return &argument.tensor();
  } else {
    return nullptr;
  }
}

// Sees the calls of modules in one thread: for summaries and profiles.
class ModuleObserver {
 public:
  virtual void enter(const ModuleDescription& module) = 0;
  virtual void result(const Tensor& output) = 0;  // once for each tensor of the result
  virtual void leave() = 0;

 protected:
  ~ModuleObserver() = default;
};

// The number of threads with an observer: calls look for one only if it is not 0.
extern std::atomic<int> observing_threads;

// Reports a call to the observer of this thread, if it has one.
class ObservedCall {
 public:
  explicit ObservedCall(const ModuleDescription& module);
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  ~ObservedCall();
  void result(const Tensor& output) const;

 private:
  ModuleObserver* observer_;
};

}  // namespace detail

// The base class of modules: struct Net : Module<Net>. A module that extends another one names
// both: struct Wider : Module<Wider, Net>. It lists its own members in visit(); they follow those
// of Net.
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
    return call(self(), std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) const {
    return call(self(), std::forward<Arguments>(arguments)...);
  }

  // The tensors themselves, not copies; tied parameters are listed once.
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> list;
    for (auto& [name, tensor] : named_parameters()) list.push_back(tensor);
    return list;
  }
  // The parameters under PyTorch's names, such as "layers.0.weight".
  NamedTensors named_parameters() const { return detail::named_parameters(walk()); }
  NamedTensors named_buffers() const { return detail::named_buffers(walk()); }
  // Parameters and buffers in the order of the members, detached but sharing memory. Tied
  // parameters appear under each of their names.
  NamedTensors state_dict() const { return detail::state_dict(walk()); }
  // Copies values into the module and converts dtypes. Tied parameters need only one of their
  // names. Throws ValueError for names that are missing or unknown and for tied parameters that
  // differ in the state, and ShapeError for another shape; the module is unchanged then.
  void load_state_dict(const NamedTensors& state, const LoadOptions& options = {}) {
    detail::load_state_dict(walk(), state, options);
  }

  Derived& train(bool on = true) {
    detail::set_training(walk(), on);
    return self();
  }
  Derived& eval() { return train(false); }
  // Converts parameters and floating-point buffers to another float dtype. Optimizers that hold
  // them remain valid.
  Derived& to(DType dtype) {
    detail::convert(walk(), dtype);
    return self();
  }
  // Converts parameters and buffers with 4 axes to another memory format, so that convolutions
  // compute in it. Throws ValueError for preserve.
  Derived& to(MemoryFormat format) {
    detail::convert(walk(), format);
    return self();
  }
  // Moves parameters, buffers and gradients to another device. Tensors keep their identity, tied
  // parameters stay tied, and optimizers that hold them remain valid: their states follow at the
  // next step. Throws DeviceError if the device is not available.
  Derived& to(Device device) {
    detail::move(walk(), device);
    return self();
  }
  Derived& requires_grad_(bool required = true) {
    detail::require_gradients(walk(), required);
    return self();
  }
  // Removes the gradients, or sets them to zero in place.
  void zero_grad(bool set_to_none = true) { detail::zero_grad(walk(), set_to_none); }

  // Calls the function for every module inside, then for this one, for example to initialize by
  // type.
  Derived& apply(const std::function<void(const ModuleView&)>& function) {
    detail::apply(walk(), detail::reference_to(self()), function);
    return self();
  }

  std::int64_t parameter_count() const {
    std::int64_t count = 0;
    for (auto& [name, tensor] : named_parameters()) count += tensor.numel();
    return count;
  }
  // The tree of modules with shapes and parameter counts, as printed by operator<<.
  std::string summary() const { return detail::summary(walk(), detail::reference_to(self())); }
  // The same with the shape of every output and the floating-point operations (FLOPs) of one call
  // with these inputs: a multiplication and an addition of a product are two, other ops count one
  // for each element. Calls the module once, in evaluation mode and without gradients.
  //   std::cout << net.summary(ext::zeros({1, 3, 224, 224}));
  template <class... Inputs>
  requires(sizeof...(Inputs) > 0) std::string summary(const Inputs&... inputs) {
    return detail::summary(walk(), detail::reference_to(self()), [&] { (*this)(inputs...); });
  }

 private:
  template <class Self, class... Arguments>
  static decltype(auto) call(Self& self, Arguments&&... arguments) {
    try {
      if (detail::observing_threads.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        return observed(self, std::forward<Arguments>(arguments)...);
      }
      return self.forward(std::forward<Arguments>(arguments)...);
    } catch (Error& error) {
      const Tensor* const inputs[] = {nullptr, detail::tensor_in(arguments)...};
      const Module& module = self;
      detail::add_place(error, module.walk(), detail::reference_to(self), inputs);
      throw;
    }
  }
  template <class Self, class... Arguments>
  static decltype(auto) observed(Self& self, Arguments&&... arguments) {
    using Result = decltype(self.forward(std::forward<Arguments>(arguments)...));
    const detail::ObservedCall call(detail::reference_to(self, false));
    if constexpr (std::is_same_v<std::remove_cvref_t<Result>, Tensor>) {
      Result output = self.forward(std::forward<Arguments>(arguments)...);
      call.result(output);
      return output;
    } else if constexpr (std::is_same_v<std::remove_cvref_t<Result>, std::vector<Tensor>>) {
      Result outputs = self.forward(std::forward<Arguments>(arguments)...);
      for (const Tensor& output : outputs) call.result(output);
      return outputs;
    } else if constexpr (requires { std::tuple_size<std::remove_cvref_t<Result>>::value; }) {
      Result outputs = self.forward(std::forward<Arguments>(arguments)...);
      std::apply([&](const auto&... output) { (note(call, output), ...); }, outputs);
      return outputs;
    } else {
      return self.forward(std::forward<Arguments>(arguments)...);
    }
  }
  template <class Output>
  static void note(const detail::ObservedCall& call, const Output& output) {
    if constexpr (std::is_same_v<Output, Tensor>) call.result(output);
  }
  Derived& self() { return static_cast<Derived&>(*this); }
  const Derived& self() const { return static_cast<const Derived&>(*this); }
  detail::Walk walk() const {
    // A walker takes mutable members; each function decides whether to modify them.
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
