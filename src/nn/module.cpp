#include "extensor/nn/module.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <ostream>

#include "core/check.h"
#include "core/format_number.h"
#include "core/make_tensor.h"
#include "extensor/autograd.h"

namespace extensor::nn {

using extensor::detail::message;

namespace {

// A leaf with these values in memory of its own.
Tensor leaf_of(const Tensor& value) {
  if (!value.defined()) return {};
  const NoGrad off;
  Tensor leaf = value.detach().clone();
  return leaf.requires_grad_();
}

Tensor copy_of(const Tensor& value) {
  if (!value.defined()) return {};
  const NoGrad off;
  return value.detach().clone();
}

}  // namespace

Parameter::Parameter(const Tensor& value) : tensor_(leaf_of(value)) {}

Parameter::Parameter(const Parameter& other) : tensor_(leaf_of(other.tensor_)) {
  if (defined() && !other.tensor_.requires_grad()) tensor_.requires_grad_(false);
}

Parameter& Parameter::operator=(const Parameter& other) {
  if (this != &other) *this = Parameter(other);
  return *this;
}

Buffer::Buffer(const Buffer& other) : tensor_(copy_of(other.tensor_)) {}

Buffer& Buffer::operator=(const Buffer& other) {
  if (this != &other) *this = Buffer(other);
  return *this;
}

namespace detail {

namespace {

// Keeps track of where it is: "layers.0." in front of a name.
class NamingWalker : public Walker {
 public:
  void enter(std::string_view name, const ModuleReference&) override {
    lengths_.push_back(prefix_.size());
    prefix_.append(name).append(".");
  }
  void leave() override {
    prefix_.resize(lengths_.back());
    lengths_.pop_back();
  }

 protected:
  std::string named(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  std::string prefix_;
  std::vector<std::size_t> lengths_;
};

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

std::vector<Entry> entries_of(const Walk& walk) {
  Collector collector;
  walk(collector);
  return std::move(collector.entries);
}

NamedTensors named(const Walk& walk, bool learned) {
  NamedTensors list;
  for (const Entry& entry : entries_of(walk)) {
    if (entry.learned == learned) list.emplace_back(entry.name, *entry.tensor);
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

void load_state_dict(const Walk& walk, const NamedTensors& state, const LoadOptions& options) {
  std::map<std::string_view, const Tensor*> given;
  for (const auto& [name, tensor] : state) given[name] = &tensor;
  const std::vector<Entry> entries = entries_of(walk);
  std::vector<std::string> missing, unknown;
  for (const Entry& entry : entries) {
    const auto found = given.find(entry.name);
    if (found == given.end()) {
      missing.push_back(entry.name);
      continue;
    }
    const Tensor& tensor = *found->second;
    if (!(tensor.shape() == entry.tensor->shape())) {
      throw ShapeError(message("load_state_dict: ", entry.name, " is ", tensor.shape(),
                               " in the state and ", entry.tensor->shape(), " in the module"));
    }
    if (is_floating_point(tensor.dtype()) != is_floating_point(entry.tensor->dtype())) {
      throw DTypeError(message("load_state_dict: ", entry.name, " is ", tensor.dtype(),
                               " in the state and ", entry.tensor->dtype(), " in the module"));
    }
  }
  if (options.strict) {
    std::map<std::string_view, bool> known;
    for (const Entry& entry : entries) known[entry.name] = true;
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
  for (const Entry& entry : entries) {
    const auto found = given.find(entry.name);
    if (found != given.end()) entry.tensor->copy_from(found->second->to(entry.tensor->dtype()));
  }
}

void set_training(const Walk& walk, bool on) {
  struct Setter final : Walker {
    explicit Setter(bool value) : on(value) {}
    void training(Training& flag) override { flag.set(on); }
    bool on;
  } setter(on);
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

void apply(const Walk& walk, const ModuleReference& root,
           const std::function<void(const ModuleView&)>& function) {
  // A module is shown when it is left: after all that is inside.
  struct Shower final : Walker {
    explicit Shower(const std::function<void(const ModuleView&)>& to) : function(to) {}
    void parameter(std::string_view name, Parameter& parameter) override {
      open.back().parameters.emplace_back(std::string(name), parameter.tensor());
    }
    void buffer(std::string_view name, Buffer& buffer) override {
      open.back().buffers.emplace_back(std::string(name), buffer.tensor());
    }
    void enter(std::string_view name, const ModuleReference& module) override {
      const std::string& outer = open.back().name;
      open.push_back({(outer.empty() ? "" : outer + ".") + std::string(name), module.type, {}, {}});
    }
    void leave() override {
      const ModuleView view = std::move(open.back());
      open.pop_back();
      if (!view.type.empty() || !view.parameters.empty()) function(view);
    }
    const std::function<void(const ModuleView&)>& function;
    std::vector<ModuleView> open;
  } shower(function);
  shower.open.push_back({"", root.type, {}, {}});
  walk(shower);
  shower.leave();
}

// ---- the table
// -------------------------------------------------------------------------------------

namespace {

struct Line {
  std::string text, shapes;
  std::int64_t count = 0;
};

class Table final : public Walker {
 public:
  explicit Table(const ModuleReference& root) {
    lines_.push_back({unqualified(root.type) + bracketed(root.detail), "", 0});
    open_.push_back(0);
  }
  void parameter(std::string_view name, Parameter& parameter) override {
    Line& line = lines_[open_.back()];
    line.shapes +=
        (line.shapes.empty() ? "" : ", ") + std::string(name) + " " + message(parameter.shape());
    for (std::size_t at : open_) lines_[at].count += parameter.tensor().numel();
  }
  void enter(std::string_view name, const ModuleReference& module) override {
    const std::string indent(2 * open_.size(), ' ');
    std::string text = indent + std::string(name);
    if (!module.type.empty()) text += ": " + unqualified(module.type) + bracketed(module.detail);
    open_.push_back(lines_.size());
    lines_.push_back({text, "", 0});
  }
  void leave() override { open_.pop_back(); }

  std::string text() const {
    std::size_t width = 0, numbers = 0;
    for (const Line& line : lines_) {
      width = std::max(width, columns(line.text));
      numbers = std::max(numbers, extensor::detail::with_commas(line.count).size());
    }
    std::string result;
    for (const Line& line : lines_) {
      const std::string count = line.count == 0 ? "" : extensor::detail::with_commas(line.count);
      std::string row = line.text + std::string(width - columns(line.text) + 2, ' ') +
                        std::string(numbers - count.size(), ' ') + count;
      if (!line.shapes.empty()) row += "  " + line.shapes;
      row.erase(row.find_last_not_of(' ') + 1);
      result += row + "\n";
    }
    return result;
  }

 private:
  // "ModuleList<Block>" of "ModuleList<net::Block>".
  static std::string unqualified(std::string_view type) {
    std::string name;
    for (std::size_t at = 0; at < type.size(); ++at) {
      if (!type.substr(at).starts_with("::")) {
        name += type[at];
        continue;
      }
      while (!name.empty() &&
             (std::isalnum(static_cast<unsigned char>(name.back())) != 0 || name.back() == '_')) {
        name.pop_back();
      }
      ++at;
    }
    return name;
  }
  static std::string bracketed(const std::string& detail) {
    return detail.empty() ? "" : "(" + detail + ")";
  }
  // Characters, not bytes: an arrow is one.
  static std::size_t columns(const std::string& text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  }

  std::vector<Line> lines_;
  std::vector<std::size_t> open_;  // the modules around, by line
};

}  // namespace

std::string summary(const Walk& walk, const ModuleReference& root) {
  Table table(root);
  walk(table);
  return table.text();
}

}  // namespace detail
}  // namespace extensor::nn
