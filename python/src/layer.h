// The layers of extensor::nn and the models for Python. A Python class holds each of them as a
// Layer: its parameters, its state and its call, without its C++ type.
#pragma once

#include <nanobind/nanobind.h>

#include <typeinfo>

#include "extensor/nn/walker.h"
#include "reflected.h"

namespace extensor::python {

using Inputs = std::vector<Tensor>;

inline PyObject* to_python(nn::RecurrentOutput output) {
  return python::to_python(std::pair(std::move(output.output), std::move(output.hidden)));
}
template <class Output>
requires requires(Output o) { o.cell; }
PyObject* to_python(Output output) {
  const Owned hidden(checked(wrap(output.hidden))), cell(checked(wrap(output.cell)));
  if constexpr (requires { output.output; }) {
    const Owned first(checked(wrap(output.output)));
    return PyTuple_Pack(3, first.get(), hidden.get(), cell.get());
  } else {
    return PyTuple_Pack(2, hidden.get(), cell.get());
  }
}

class Layer {
 public:
  virtual ~Layer() = default;
  virtual PyObject* call(const Inputs& inputs, const nn::AttentionMasks* masks) = 0;
  virtual NamedTensors parameters() const = 0;
  virtual NamedTensors buffers() const = 0;
  virtual NamedTensors state() const = 0;
  virtual void load(const NamedTensors& state) = 0;
  virtual void train(bool on) = 0;
  virtual void to(DType dtype) = 0;
  virtual void to(Device device) = 0;
  virtual void to(MemoryFormat format) = 0;
  virtual std::string describe() const = 0;
  virtual Layer* copy() const = 0;
  // Visits the members, like nn::detail::walk.
  virtual void walk(nn::Walker& walker) = 0;
  // The layer itself if it is an L, else null.
  template <class L>
  L* as() {
    return static_cast<L*>(pointer_to(typeid(L)));
  }

 private:
  virtual void* pointer_to(const std::type_info& type) = 0;
};

template <class L>
class LayerOf final : public Layer {
 public:
  template <class... Arguments>
  explicit LayerOf(Arguments&&... arguments) : layer_(std::forward<Arguments>(arguments)...) {}

  PyObject* call(const Inputs& in, const nn::AttentionMasks* masks) override {
    L& l = layer_;
    if constexpr (requires { l.run(in); }) {  // a loaded model, with any number of inputs
      if (masks == nullptr) {
        std::vector<Tensor> results = [&] {
          const WithoutGil released;
          return l.run(in);
        }();
        return results.size() == 1 ? wrap(std::move(results[0])) : python::to_python(results);
      }
    }
    constexpr bool has_masks = requires { l.forward(in[0], *masks); };
    constexpr bool three_masks = requires { l.forward(in[0], in[0], in[0], *masks); };
    if (masks != nullptr && !has_masks) {
      throw ArgumentError(name() + ": the arguments mask, key_padding and causal are not known");
    }
    if constexpr (has_masks) {
      if (in.size() == 1 && masks != nullptr) return run([&] { return l(in[0], *masks); });
    }
    if constexpr (three_masks) {
      if (in.size() == 3 && masks != nullptr) {
        return run([&] { return l(in[0], in[1], in[2], *masks); });
      }
    }
    if constexpr (requires { l.forward(in[0]); }) {
      if (in.size() == 1) return run([&] { return l(in[0]); });
    }
    if constexpr (requires { l.forward(in[0], in[0]); }) {
      if (in.size() == 2) return run([&] { return l(in[0], in[1]); });
    }
    if constexpr (requires { l.forward(in[0], in[0], in[0]); }) {
      if (in.size() == 3) return run([&] { return l(in[0], in[1], in[2]); });
    }
    throw ArgumentError(name() + ": " + std::to_string(in.size()) +
                        " inputs were passed, which is not their number");
  }
  NamedTensors parameters() const override { return layer_.named_parameters(); }
  NamedTensors buffers() const override { return layer_.named_buffers(); }
  NamedTensors state() const override { return layer_.state_dict(); }
  void load(const NamedTensors& state) override { layer_.load_state_dict(state); }
  void train(bool on) override { layer_.train(on); }
  void to(DType dtype) override { layer_.to(dtype); }
  void to(Device device) override { layer_.to(device); }
  void to(MemoryFormat format) override { layer_.to(format); }
  std::string describe() const override {
    if constexpr (requires { layer_.describe(); }) return layer_.describe();
    return {};
  }
  Layer* copy() const override { return new LayerOf(layer_); }
  void walk(nn::Walker& walker) override { nn::detail::walk(layer_, walker); }

 private:
  void* pointer_to(const std::type_info& type) override {
    return type == typeid(L) ? &layer_ : nullptr;
  }
  static std::string name() { return std::string(reflect::type_name<L>()); }
  template <class F>
  static PyObject* run(F&& function) {
    auto result = [&] {
      const WithoutGil released;
      return function();
    }();
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      return wrap(std::move(result));
    } else {
      return to_python(std::move(result));
    }
  }
  L layer_;
};

// ---- constructors

template <class L, class Options, class... Positional, std::size_t... k>
Layer* construct(Call& call, std::index_sequence<k...>) {
  constexpr int count = sizeof...(Positional);
  if constexpr (std::is_same_v<Options, NoOptions>) {
    return new LayerOf<L>(Argument<Positional>::read(call, static_cast<int>(k))...);
  } else {
    const auto options = read_fields<Options>(call, count);
    return new LayerOf<L>(Argument<Positional>::read(call, static_cast<int>(k))..., options);
  }
}

// Evaluates the default text of positional arguments that were omitted.
class Defaults {
 public:
  Defaults(Call& call, int count) {
    for (int i = 0; i < count; ++i) {
      if (call.has(i)) continue;
      const Owned globals(checked(PyDict_New()));
      values_.emplace_back(checked(PyRun_String(call.parameters[i].default_text, Py_eval_input,
                                                globals.get(), globals.get())));
      call.values[i] = values_.back().get();
    }
  }

 private:
  std::vector<Owned> values_;
};

template <class L, class Options, class... Positional>
PyObject* make_layer(Call& call) {
  const Defaults defaults(call, sizeof...(Positional));
  Layer* made =
      construct<L, Options, Positional...>(call, std::make_index_sequence<sizeof...(Positional)>());
  return nanobind::cast(made, nanobind::rv_policy::take_ownership).release().ptr();
}

struct Named {
  const char* name;
  const char* standard = nullptr;  // the default, as Python text
};

// Positional are the types of the constructor's leading parameters, in the order of `names`.
template <class L, class Options, class... Positional>
void add_layer(PyObject* module, const char* documentation, std::initializer_list<Named> names) {
  constexpr std::array<const ArgumentType*, sizeof...(Positional)> all{
      Argument<Positional>::type...};
  std::vector<Parameter> parameters;
  for (std::size_t k = 0; k < all.size(); ++k) {
    parameters.push_back({names.begin()[k].name, all[k], names.begin()[k].standard});
  }
  append_fields<Options>(parameters);
  add_function(module, keep(reflect::type_name<L>()), documentation, std::move(parameters),
               "_Layer", make_layer<L, Options, Positional...>);
}

}  // namespace extensor::python
