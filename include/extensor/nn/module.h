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
// A module is a value: a copy has parameters of its own.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/named_tensors.h"
#include "extensor/nn/reflect.h"
#include "extensor/tensor.h"

namespace extensor::nn {

// A tensor that is learned. Undefined: there is none, as a bias that was not asked for. A copy is
// memory of its own.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& value);  // its values; DTypeError unless they are floats
  Parameter(const Parameter& other);
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(const Parameter& other);
  Parameter& operator=(Parameter&&) noexcept = default;
  ~Parameter() = default;

  operator const Tensor&() const { return tensor_; }  // NOLINT: implicit, it is used as a tensor
  const Tensor& tensor() const { return tensor_; }
  Tensor& tensor() { return tensor_; }
  bool defined() const { return tensor_.defined(); }
  const Shape& shape() const { return tensor_.shape(); }

 private:
  Tensor tensor_;
};

// A tensor that belongs to the state but is not learned, as running statistics.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Tensor value) : tensor_(std::move(value)) {}
  Buffer(const Buffer& other);
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(const Buffer& other);
  Buffer& operator=(Buffer&&) noexcept = default;
  ~Buffer() = default;

  operator const Tensor&() const { return tensor_; }  // NOLINT: implicit
  const Tensor& tensor() const { return tensor_; }
  Tensor& tensor() { return tensor_; }
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
};

// A module that behaves otherwise in training has one of these; train() and eval() set it.
class Training {
 public:
  Training() = default;
  operator bool() const { return on_; }  // NOLINT: implicit
  void set(bool on) { on_ = on; }

 private:
  bool on_ = true;
};

class Walker;

// What a module says of itself.
struct ModuleReference {
  std::string_view type;  // "Linear"; empty for a list of members
  std::string detail;     // "784 → 128"
};

// Sees all that a module is made of, in order.
class Walker {
 public:
  virtual ~Walker() = default;
  virtual void parameter(std::string_view, Parameter&) {}
  virtual void buffer(std::string_view, Buffer&) {}
  virtual void training(Training&) {}
  // Around the members of a module that is a member.
  virtual void enter(std::string_view, const ModuleReference&) {}
  virtual void leave() {}

  // A member by its name: a Parameter, Buffer, Training or module, a vector or map of those by
  // name; anything else is no concern of a walker.
  template <class Member>
  Walker& operator()(std::string_view name, Member& member);
};

namespace detail {

struct ModuleTag {};

template <class T>
concept IsModule = std::derived_from<T, ModuleTag>;

template <class T>
concept NamesItsMembers = requires(T& module, Walker& walker) {
  module.visit(walker);
};

template <class T>
concept IsMap = requires(T& map) {
  map.begin()->first;
  map.begin()->second;
};

template <class T>
concept IsList = requires(T& list) {
  typename T::value_type;
  list.begin();
  requires IsModule<typename T::value_type> || std::same_as<typename T::value_type, Parameter> ||
      std::same_as<typename T::value_type, Buffer>;
};

// Every member of `module`.
template <class T>
void walk(T& module, Walker& walker) {
  if constexpr (NamesItsMembers<T>) {
    module.visit(walker);
  } else {
    static_assert(std::is_aggregate_v<T>,
                  "a module with constructors names its members: give it a member function "
                  "void visit(nn::Walker& walk) { walk(\"name\", member)(\"other\", other); }");
    with_members(module, [&](auto&... members) {
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        (walker(member_name<T, k>(), members), ...);
      }
      (std::make_index_sequence<sizeof...(members)>());
    });
  }
}

template <class T>
ModuleReference reference_to(const T& module) {
  if constexpr (requires { module.describe(); }) {
    return {type_name<T>(), module.describe()};
  } else {
    return {type_name<T>(), {}};
  }
}

using Walk = std::function<void(Walker&)>;

}  // namespace detail

template <class Member>
Walker& Walker::operator()(std::string_view name, Member& member) {
  if constexpr (std::is_same_v<Member, Parameter>) {
    if (member.defined()) parameter(name, member);
  } else if constexpr (std::is_same_v<Member, Buffer>) {
    if (member.defined()) buffer(name, member);
  } else if constexpr (std::is_same_v<Member, Training>) {
    training(member);
  } else if constexpr (detail::IsModule<Member>) {
    enter(name, detail::reference_to(member));
    detail::walk(member, *this);
    leave();
  } else if constexpr (detail::IsMap<Member>) {
    enter(name, {});
    for (auto& [key, value] : member) (*this)(key, value);
    leave();
  } else if constexpr (detail::IsList<Member>) {
    enter(name, {});
    std::size_t position = 0;
    for (auto& value : member) (*this)(std::to_string(position++), value);
    leave();
  }
  return *this;
}

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
void require_gradients(const Walk& walk, bool required);
void zero_grad(const Walk& walk, bool set_to_none);
void apply(const Walk& walk, const ModuleReference& root,
           const std::function<void(const ModuleView&)>& function);
std::string summary(const Walk& walk, const ModuleReference& root);
}  // namespace detail

// The base of a module, which names itself: struct Net : Module<Net>.
template <class Derived>
struct Module : detail::ModuleTag {
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return self().forward(std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) const {
    return self().forward(std::forward<Arguments>(arguments)...);
  }

  // The tensors themselves, not copies.
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> list;
    for (auto& [name, tensor] : named_parameters()) list.push_back(tensor);
    return list;
  }
  // By PyTorch's names: "layers.0.weight".
  NamedTensors named_parameters() const { return detail::named_parameters(walk()); }
  NamedTensors named_buffers() const { return detail::named_buffers(walk()); }
  // Parameters and buffers, in the order of the members; detached, the same memory.
  NamedTensors state_dict() const { return detail::state_dict(walk()); }
  // Copies values into the module, dtypes converted. ValueError naming what is missing or unknown,
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
    // A walker sees members as they are; what it does with them is up to the function.
    auto* module = const_cast<Derived*>(&self());
    return [module](Walker& walker) { detail::walk(*module, walker); };
  }
};

template <detail::IsModule T>
std::ostream& operator<<(std::ostream& stream, const T& module) {
  return stream << module.summary();
}

}  // namespace extensor::nn
