// Modules that contain other modules.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

template <class T>
concept Layer = !reflect::IsAnything<std::remove_cvref_t<T>>::value &&
                requires(std::decay_t<T> & layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

// Type-erased layer that maps a tensor to a tensor: a module, or a plain function of a tensor. A
// function may capture numbers and references but must not own anything, because parameters that it
// owned could not be found.
//
// As with modules, a copy has separate parameters, and assigning a layer of the same type keeps the
// existing tensors.
class AnyLayer {
 public:
  template <Layer T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, AnyLayer>)
      AnyLayer(T&& layer)  // NOLINT: implicit, a list of layers
      : layer_(std::make_unique<Held<std::decay_t<T>>>(std::forward<T>(layer))) {}
  AnyLayer(const AnyLayer& other) : layer_(other.layer_ ? other.layer_->copy() : nullptr) {}
  AnyLayer(AnyLayer&&) noexcept = default;
  AnyLayer& operator=(const AnyLayer& other) {
    if (this == &other) return *this;
    if (layer_ == nullptr || other.layer_ == nullptr || !layer_->assign(*other.layer_)) {
      layer_ = AnyLayer(other).layer_;
    }
    return *this;
  }
  AnyLayer& operator=(AnyLayer&& other) {  // NOLINT: may copy values
    if (this == &other) return *this;
    if (layer_ == nullptr || other.layer_ == nullptr || !layer_->move(*other.layer_)) {
      layer_ = std::move(other.layer_);
    }
    return *this;
  }
  ~AnyLayer() = default;

  Tensor operator()(const Tensor& x) const { return layer_->forward(x); }
  ModuleDescription reference(bool with_detail = true) const {
    return layer_ == nullptr ? ModuleDescription{} : layer_->reference(with_detail);
  }
  void walk(Walker& walker) const {
    if (layer_ != nullptr) layer_->walk(walker);
  }
  // The layer, or null if it has another type.
  template <class T>
  T* get() {
    auto* held = dynamic_cast<Held<T>*>(layer_.get());
    return held == nullptr ? nullptr : &held->layer;
  }
  template <class T>
  const T* get() const {
    return const_cast<AnyLayer*>(this)->get<T>();
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor forward(const Tensor& x) = 0;
    virtual std::unique_ptr<Base> copy() const = 0;
    // Returns false if the other layer has another type, or a type that cannot be assigned.
    virtual bool assign(const Base& other) = 0;
    virtual bool move(Base& other) = 0;
    virtual ModuleDescription reference(bool with_detail) const = 0;
    virtual void walk(Walker& walker) = 0;
  };
  template <class T>
  struct Held final : Base {
    static constexpr bool is_module = detail::IsModule<T>;
    static_assert(
        is_module || std::is_trivially_copyable_v<T>,
        "this function owns something, perhaps parameters, which would be neither trained "
        "nor saved: make it a module, struct F : nn::Module<F>, with what it owns as "
        "members and forward() as the function");
    template <class From>
    explicit Held(From&& from)  // NOLINT: only make_unique calls it
        : layer(std::forward<From>(from)) {}
    Tensor forward(const Tensor& x) override { return layer(x); }
    std::unique_ptr<Base> copy() const override { return std::make_unique<Held>(layer); }
    bool assign(const Base& other) override {
      if constexpr (std::is_copy_assignable_v<T>) {
        if (const auto* same = dynamic_cast<const Held*>(&other)) {
          layer = same->layer;
          return true;
        }
      }
      return false;
    }
    bool move(Base& other) override {
      if constexpr (std::is_move_assignable_v<T>) {
        if (auto* same = dynamic_cast<Held*>(&other)) {
          layer = std::move(same->layer);
          return true;
        }
      }
      return false;
    }
    ModuleDescription reference(bool with_detail) const override {
      if constexpr (is_module) {
        return detail::reference_to(layer, with_detail);
      } else {
        return {"function", {}};
      }
    }
    void walk(Walker& walker) override {
      if constexpr (is_module) detail::walk(layer, walker);
    }
    T layer;
  };

  std::unique_ptr<Base> layer_;
};

// A layer, or none. Unlike the parameter of a template, it also takes the name of an overloaded
// function, such as extensor::gelu.
class LayerArgument {
 public:
  LayerArgument() = default;
  template <Layer T>
  LayerArgument(T&& layer)  // NOLINT: implicit, an argument
      : layer_(std::in_place, std::forward<T>(layer)) {}
  LayerArgument(Tensor (*function)(const Tensor&))  // NOLINT: implicit, an argument
      : layer_(std::in_place, function) {}

  std::optional<AnyLayer>& layer() { return layer_; }

 private:
  std::optional<AnyLayer> layer_;
};

// Applies layers in order.
//   nn::Sequential model{nn::Linear(784, 128), extensor::relu, nn::Linear(128, 10)};
class Sequential final : public Module<Sequential> {
 public:
  Sequential() = default;
  template <Layer... Layers>
  requires(sizeof...(Layers) > 0 &&
           !(sizeof...(Layers) == 1 &&
             (std::is_same_v<std::remove_cvref_t<Layers>, Sequential> && ...)))
      Sequential(Layers&&... layers) {  // NOLINT: implicit, a list of layers
    layers_.reserve(sizeof...(layers));
    (layers_.emplace_back(std::forward<Layers>(layers)), ...);
  }
  // Up to 12 layers, among them overloaded functions: nn::Sequential{nn::Linear(3, 4), gelu}.
  Sequential(LayerArgument a, LayerArgument b = {}, LayerArgument c = {},  // NOLINT: implicit
             LayerArgument d = {}, LayerArgument e = {}, LayerArgument f = {}, LayerArgument g = {},
             LayerArgument h = {}, LayerArgument i = {}, LayerArgument j = {}, LayerArgument k = {},
             LayerArgument l = {}) {
    for (LayerArgument* each : {&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l}) {
      if (each->layer()) layers_.push_back(*std::move(each->layer()));
    }
  }

  Tensor forward(const Tensor& x) const {
    Tensor y = x;
    for (const AnyLayer& layer : layers_) y = layer(y);
    return y;
  }
  Sequential& push_back(AnyLayer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }
  std::size_t size() const { return layers_.size(); }
  // Throws IndexError beyond the end.
  AnyLayer& operator[](std::size_t position);

  void visit(Walker& walk) {
    for (std::size_t k = 0; k < layers_.size(); ++k) walk(std::to_string(k), layers_[k]);
  }

 private:
  std::vector<AnyLayer> layers_;
};

// Modules of one type, by index. A member std::vector<T> works as well.
template <class T>
class ModuleList final : public Module<ModuleList<T>> {
 public:
  ModuleList() = default;
  ModuleList(std::initializer_list<T> modules) : modules_(modules) {}
  explicit ModuleList(std::vector<T> modules) : modules_(std::move(modules)) {}

  void push_back(T module) { modules_.push_back(std::move(module)); }
  std::size_t size() const { return modules_.size(); }
  T& operator[](std::size_t position) { return modules_.at(position); }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

  void visit(Walker& walk) {
    for (std::size_t k = 0; k < modules_.size(); ++k) walk(std::to_string(k), modules_[k]);
  }

 private:
  std::vector<T> modules_;
};

// Parameters by name, ordered by name.
class ParameterDict final : public Module<ParameterDict> {
 public:
  ParameterDict() = default;
  // Throws ValueError for an unknown name.
  Tensor& operator[](const std::string& name);
  ParameterDict& add(const std::string& name, const Tensor& value) {
    parameters_.insert_or_assign(name, Parameter(value));
    return *this;
  }
  bool contains(const std::string& name) const { return parameters_.contains(name); }
  std::size_t size() const { return parameters_.size(); }

  void visit(Walker& walk) {
    for (auto& [name, parameter] : parameters_) walk(name, parameter);
  }

 private:
  std::map<std::string, Parameter> parameters_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
