#include "extensor/nn/module.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/autograd.h"
#include "nn/layer_checks.h"
#include "nn/naming_walker.h"
#include "ops/scalar_range.h"

namespace extensor::nn {

using extensor::detail::message;

void Walker::tensor(std::string_view name, const Tensor& tensor) {
  if (!tensor.requires_grad() || !tensor.is_leaf()) return;
  throw ValueError(message("Module: the member ", name,
                           " is a Tensor that requires a gradient, which would be neither "
                           "trained nor saved (declare it as nn::Parameter to train it, as "
                           "nn::Buffer to save it only, or "
                           "call requires_grad_(false))"));
}

namespace detail {

namespace {

struct Entry {
  std::string name;
  Tensor* tensor;
  bool learned;
};

class Collector final : public NamingWalker {
 public:
  void parameter(std::string_view name, Parameter& parameter) override {
    entries.push_back({named(name), &parameter.tensor(), true});
  }
  void buffer(std::string_view name, Buffer& buffer) override {
    entries.push_back({named(name), &buffer.tensor(), false});
  }

  std::vector<Entry> entries;
};

// Throws ValueError if two members have the same name.
void check_names(const std::vector<Entry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  throw ValueError(message("Module: two members have the name ", *twice,
                           " (in visit(), or as the key of a map)"));
}

std::vector<Entry> entries_of(const Walk& walk) {
  forget_planned_copies();
  Collector collector;
  walk(collector);
  check_names(collector.entries);
  return std::move(collector.entries);
}

// Lists each tensor once, under its first name.
NamedTensors named(const Walk& walk, bool learned) {
  NamedTensors list;
  std::unordered_set<const void*> seen;
  for (const Entry& entry : entries_of(walk)) {
    if (entry.learned == learned && seen.insert(entry.tensor->impl_or_null()).second) {
      list.emplace_back(entry.name, *entry.tensor);
    }
  }
  return list;
}

std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t k = 0; k < std::min(names.size(), most); ++k) {
    text += (k == 0 ? "" : ", ") + names[k];
  }
  if (names.size() > most) text += message(" and ", names.size() - most, " more");
  return text;
}

}  // namespace

NamedTensors named_parameters(const Walk& walk) { return named(walk, true); }
NamedTensors named_buffers(const Walk& walk) { return named(walk, false); }

NamedTensors state_dict(const Walk& walk) {
  NamedTensors state;
  for (const Entry& entry : entries_of(walk)) {
    state.emplace_back(entry.name, entry.tensor->detach());
  }
  return state;
}

namespace {

// The tensor of the state to load into each entry: the one with its name or, if the entry is tied,
// with any of its names. Null if the state has none.
std::vector<const Tensor*> sources_of(const std::vector<Entry>& entries,
                                      const NamedTensors& state) {
  std::unordered_map<std::string_view, const Tensor*> given;
  for (const auto& [name, tensor] : state) given[name] = &tensor;
  std::unordered_map<const void*, const Entry*> first_of;  // first name that the state contains
  for (const Entry& entry : entries) {
    const auto found = given.find(entry.name);
    if (found == given.end()) continue;
    const auto [first, is_new] = first_of.emplace(entry.tensor->impl_or_null(), &entry);
    if (!is_new && !have_same_values(*found->second, *given.at(first->second->name))) {
      throw ValueError(message("load_state_dict: ", first->second->name, " and ", entry.name,
                               " are tied in the module, but differ in the state"));
    }
  }
  std::vector<const Tensor*> sources;
  for (const Entry& entry : entries) {
    const auto first = first_of.find(entry.tensor->impl_or_null());
    sources.push_back(first == first_of.end() ? nullptr : given.at(first->second->name));
  }
  return sources;
}

void check_fits(const Entry& entry, const Tensor& tensor) {
  if (!(tensor.shape() == entry.tensor->shape())) {
    throw ShapeError(message("load_state_dict: ", entry.name, " is ", tensor.shape(),
                             " in the state and ", entry.tensor->shape(), " in the module"));
  }
  if (ops::kind_of(tensor.dtype()) != ops::kind_of(entry.tensor->dtype())) {
    throw DTypeError(message("load_state_dict: ", entry.name, " is ", tensor.dtype(),
                             " in the state and ", entry.tensor->dtype(), " in the module"));
  }
}

}  // namespace

void load_state_dict(const Walk& walk, const NamedTensors& state, const LoadOptions& options) {
  const std::vector<Entry> entries = entries_of(walk);
  const std::vector<const Tensor*> sources = sources_of(entries, state);
  std::vector<std::string> missing, unknown;
  for (std::size_t k = 0; k < entries.size(); ++k) {
    if (sources[k] == nullptr) {
      missing.push_back(entries[k].name);
    } else {
      check_fits(entries[k], *sources[k]);
    }
  }
  if (options.strict) {
    std::unordered_set<std::string_view> known;
    for (const Entry& entry : entries) known.insert(entry.name);
    for (const auto& [name, tensor] : state) {
      if (!known.contains(name)) unknown.push_back(name);
    }
    if (!missing.empty() || !unknown.empty()) {
      throw ValueError(
          message("load_state_dict: ", missing.empty() ? "" : "the state lacks " + joined(missing),
                  !missing.empty() && !unknown.empty() ? "; " : "",
                  unknown.empty() ? "" : "the module has no " + joined(unknown),
                  " (strict = false loads what is in both)"));
    }
  }
  const NoGrad off;
  for (std::size_t k = 0; k < entries.size(); ++k) {
    Tensor& to = *entries[k].tensor;
    if (sources[k] != nullptr) to.copy_from(sources[k]->to(to.dtype()));
  }
}

void set_training(const Walk& walk, bool on) {
  struct Setter final : NamingWalker {
    explicit Setter(bool value) : on(value) {}
    void training(Training& flag) override { flag.set(on); }
    bool on;
  } setter(on);
  forget_planned_copies();
  walk(setter);
}

void convert(const Walk& walk, DType dtype) {
  if (!is_floating_point(dtype)) {
    throw DTypeError(message("to: the dtype of a module is a float's, got ", dtype));
  }
  const NoGrad off;
  for (const Entry& entry : entries_of(walk)) {
    Tensor& tensor = *entry.tensor;
    if (!is_floating_point(tensor.dtype()) || tensor.dtype() == dtype) continue;
    const Tensor grad = tensor.grad();
    extensor::detail::replace_elements(tensor, tensor.detach().to(dtype));
    if (grad.defined()) tensor.set_grad(grad.to(dtype));
  }
}

void convert(const Walk& walk, MemoryFormat format) {
  extensor::detail::check_format("to", Shape(4, 1), format);
  const NoGrad off;
  for (const Entry& entry : entries_of(walk)) {
    Tensor& tensor = *entry.tensor;
    if (tensor.ndim() != 4) continue;
    const Tensor grad = tensor.grad(), moved = tensor.detach().to(format);
    if (moved.strides() == tensor.strides()) continue;
    extensor::detail::replace_elements(tensor, moved);
    if (grad.defined()) tensor.set_grad(grad.to(format));
  }
}

void move(const Walk& walk, Device device) {
  const NoGrad off;
  for (const Entry& entry : entries_of(walk)) {
    Tensor& tensor = *entry.tensor;
    if (!tensor.defined() || tensor.device() == device) continue;  // also if tied and moved before
    const Tensor grad = tensor.grad();
    extensor::detail::replace_elements(tensor, tensor.detach().to(device));
    if (grad.defined()) tensor.set_grad(grad.to(device));
  }
}

void require_gradients(const Walk& walk, bool required) {
  for (const Entry& entry : entries_of(walk)) {
    if (entry.learned) entry.tensor->requires_grad_(required);
  }
}

void zero_grad(const Walk& walk, bool set_to_none) {
  for (const Entry& entry : entries_of(walk)) {
    if (!entry.learned || !entry.tensor->requires_grad()) continue;
    Tensor grad = entry.tensor->grad();
    if (!grad.defined()) continue;
    if (set_to_none) {
      entry.tensor->set_grad({});
    } else {
      const NoGrad off;
      grad.fill(0);
    }
  }
}

void apply(const Walk& walk, const ModuleDescription& root,
           const std::function<void(const ModuleView&)>& function) {
  // A module is shown when it is left, after all modules inside it.
  struct Shower final : NamingWalker {
    explicit Shower(const std::function<void(const ModuleView&)>& to) : function(to) {}
    void parameter(std::string_view name, Parameter& parameter) override {
      open.back().parameters.emplace_back(std::string(name), parameter.tensor());
    }
    void buffer(std::string_view name, Buffer& buffer) override {
      open.back().buffers.emplace_back(std::string(name), buffer.tensor());
    }
    void enter(std::string_view name, const ModuleDescription& module) override {
      NamingWalker::enter(name, module);
      open.push_back({std::string(path()), module.type, {}, {}});
    }
    void leave() override {
      NamingWalker::leave();
      show();
    }
    void show() {
      const ModuleView view = std::move(open.back());
      open.pop_back();
      if (!view.type.empty() || !view.parameters.empty()) function(view);
    }
    const std::function<void(const ModuleView&)>& function;
    std::vector<ModuleView> open;
  } shower(function);
  shower.open.push_back({"", root.type, {}, {}});
  forget_planned_copies();
  walk(shower);
  shower.show();
}

}  // namespace detail
}  // namespace extensor::nn
