#include "onnx/program.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "io/text.h"

namespace extensor {

namespace onnx {

using detail::message;
using io::in_quotes;

// ---- nodes

std::string NodeReader::place() const {
  const std::string& name =
      node_.name.empty() && !node_.outputs.empty() ? node_.outputs[0] : node_.name;
  return message(label_, ": node ", in_quotes(name), " (", node_.type, "): ");
}

const Attribute* NodeReader::find(std::string_view name, Attribute::Kind kind) {
  known_.emplace(name);
  const auto found = std::ranges::find(node_.attributes, name, &Attribute::name);
  if (found == node_.attributes.end()) return nullptr;
  if (found->kind != kind) refuse("attribute ", name, " has another type than it must have");
  return &*found;
}

bool NodeReader::has(std::string_view name) {
  known_.emplace(name);
  return std::ranges::find(node_.attributes, name, &Attribute::name) != node_.attributes.end();
}
std::int64_t NodeReader::integer(std::string_view name) {
  const Attribute* found = find(name, Attribute::Kind::integer);
  if (found == nullptr) refuse("attribute ", name, " is missing");
  return found->integer;
}
std::int64_t NodeReader::integer(std::string_view name, std::int64_t otherwise) {
  const Attribute* found = find(name, Attribute::Kind::integer);
  return found == nullptr ? otherwise : found->integer;
}
double NodeReader::real(std::string_view name, double otherwise) {
  const Attribute* found = find(name, Attribute::Kind::real);
  return found == nullptr ? otherwise : decimal_value(found->real);
}
std::string NodeReader::text(std::string_view name, const char* otherwise) {
  const Attribute* found = find(name, Attribute::Kind::text);
  return found == nullptr ? otherwise : found->text;
}
std::optional<std::vector<std::int64_t>> NodeReader::integers(std::string_view name) {
  const Attribute* found = find(name, Attribute::Kind::integers);
  if (found == nullptr) return std::nullopt;
  return found->integers;
}
std::optional<std::vector<std::string>> NodeReader::texts(std::string_view name) {
  const Attribute* found = find(name, Attribute::Kind::texts);
  if (found == nullptr) return std::nullopt;
  return found->texts;
}
std::optional<std::vector<float>> NodeReader::reals(std::string_view name) {
  const Attribute* found = find(name, Attribute::Kind::reals);
  if (found == nullptr) return std::nullopt;
  return found->reals;
}
Tensor NodeReader::tensor(std::string_view name) {
  const Attribute* found = find(name, Attribute::Kind::tensor);
  return found == nullptr ? Tensor() : found->tensor;
}

void NodeReader::check_known() const {
  std::set<std::string_view> seen;
  for (const Attribute& attribute : node_.attributes) {
    if (!known_.contains(attribute.name)) {
      refuse("attribute ", in_quotes(attribute.name), " is not supported");
    }
    if (!seen.insert(attribute.name).second) {
      refuse("attribute ", in_quotes(attribute.name), " is given twice");
    }
  }
}

std::vector<std::int64_t> host_integers(const Tensor& x) {
  if (!is_integer(x.dtype())) {
    throw DTypeError(message("sizes, axes or positions are ", x.dtype(), " (allowed: integers)"));
  }
  return x.detach().to(DType::int64).to_vector<std::int64_t>();
}

void check_broadcasts(const char* argument, const Tensor& x, const Tensor& y) {
  if (are_shapes_broadcastable(x.shape(), y.shape()) &&
      broadcast_shapes(x.shape(), y.shape()) == y.shape()) {
    return;
  }
  throw ShapeError(
      message(argument, " is ", x.shape(), ", which does not broadcast to ", y.shape()));
}

std::int64_t host_integer(const Tensor& x) {
  if (x.numel() != 1) {
    throw ShapeError(message("a tensor of shape ", x.shape(), " is given (allowed: one integer)"));
  }
  return host_integers(x)[0];
}

std::optional<std::vector<std::int64_t>> given_axes(
    const std::optional<std::vector<std::int64_t>>& attribute, Arguments arguments, std::size_t k) {
  if (k < arguments.size() && arguments[k].defined()) return host_integers(arguments[k]);
  return attribute;
}

// ---- translation

namespace {

constexpr std::int64_t least_opset = 7, greatest_opset = 23;

const ImportRule* find_rule(const std::string& type) {
  for (const auto& rules : {elementwise_import_rules, shape_import_rules, reduction_import_rules,
                            layer_import_rules, recurrent_import_rules}) {
    const auto found = std::ranges::find(rules, std::string_view(type), &ImportRule::type);
    if (found != rules.end()) return &*found;
  }
  return nullptr;
}

class Translator {
 public:
  Translator(const std::string& label, Model& model)
      : label_(label), graph_(model.graph), opset_(model.opset) {
    program_->label = label;
  }

  LoadedProgram translate() {
    if (opset_ < least_opset || opset_ > greatest_opset) {
      refuse("the operators have version ", opset_, " (allowed: ", least_opset, " to ",
             greatest_opset, ")");
    }
    check_operators();
    find_statistics();
    for (auto& [name, tensor] : graph_.initializers) define_initializer(name, tensor);
    const std::size_t initializers = slots_.size();
    for (const ValueInfo& input : graph_.inputs) define_input(input, initializers);
    for (const Node& node : graph_.nodes) define_node(node);
    if (graph_.outputs.empty()) refuse("the graph has no outputs");
    for (const ValueInfo& output : graph_.outputs) {
      program_->output_slots.push_back(slot_of(output.name, "the outputs of the graph"));
      program_->outputs.push_back(value_of(output));
    }
    find_last_uses();
    loaded_.program = program_;
    return std::move(loaded_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw FormatError(message(label_, ": ", parts...));
  }

  // All operators without a rule at once.
  void check_operators() const {
    std::set<std::string> missing;
    for (const Node& node : graph_.nodes) {
      if (!node.domain.empty() || find_rule(node.type) == nullptr) {
        missing.insert(node.domain.empty() ? node.type : message(node.domain, ".", node.type));
      }
    }
    if (missing.empty()) return;
    std::string list;
    for (const std::string& each : missing) list += message(list.empty() ? "" : ", ", each);
    refuse("operators that are not supported: ", list);
  }

  int define(const std::string& name, const std::string& by) {
    const auto [found, is_new] = slots_.emplace(name, program_->slots);
    if (!is_new) refuse(by, " defines ", in_quotes(name), ", which is defined already");
    return program_->slots++;
  }

  int slot_of(const std::string& name, const std::string& user) const {
    const auto found = slots_.find(name);
    if (found == slots_.end()) {
      refuse(user, " read ", in_quotes(name), ", which nothing before defines");
    }
    return found->second;
  }

  // The running statistics of batch norms, which are not learned.
  void find_statistics() {
    for (const Node& node : graph_.nodes) {
      if (node.type != "BatchNormalization" || node.inputs.size() != 5) continue;
      statistics_.insert(node.inputs[3]);
      statistics_.insert(node.inputs[4]);
    }
  }

  void define_initializer(const std::string& name, Tensor& tensor) {
    if (name.empty()) refuse("an initializer has no name");
    const int slot = define(name, "an initializer");
    if (!is_floating_point(tensor.dtype()) || tensor.ndim() == 0) {
      program_->constants.emplace_back(slot, tensor);
    } else if (statistics_.contains(name)) {
      program_->buffer_slots.push_back(slot);
      loaded_.buffers.emplace_back(name, tensor);
    } else {
      program_->parameter_slots.push_back(slot);
      loaded_.parameters.emplace_back(name, tensor);
    }
  }

  static OnnxValue value_of(const ValueInfo& info) {
    OnnxValue value{info.name, info.dtype, std::nullopt};
    if (!info.shape) return value;
    value.shape.emplace();
    for (const Dimension& dimension : *info.shape) {
      value.shape->push_back(dimension.size.value_or(-1));
    }
    return value;
  }

  void define_input(const ValueInfo& input, std::size_t initializers) {
    // Older files list initializers among the inputs as well. Those have the first slots.
    const auto found = slots_.find(input.name);
    if (found != slots_.end() && static_cast<std::size_t>(found->second) < initializers) return;
    if (!input.unsupported.empty()) {
      refuse("input ", in_quotes(input.name), " is ", input.unsupported,
             " (allowed: tensors of a dtype that ExTensor has)");
    }
    program_->input_slots.push_back(define(input.name, "an input"));
    program_->inputs.push_back(value_of(input));
  }

  void define_node(const Node& node) {
    NodeReader reader(label_, node, opset_);
    const ImportRule& rule = *find_rule(node.type);
    if (node.inputs.size() < rule.least_inputs || node.inputs.size() > rule.most_inputs) {
      reader.refuse("it has ", node.inputs.size(), " inputs (allowed: ", rule.least_inputs, " to ",
                    rule.most_inputs, ")");
    }
    for (std::size_t k = 0; k < rule.least_inputs; ++k) {
      if (node.inputs[k].empty()) reader.refuse("input ", k, " is missing");
    }
    if (node.outputs.empty()) reader.refuse("it has no outputs");
    Step step;
    const std::string place = reader.place();
    step.place = place.substr(label_.size() + 2, place.size() - label_.size() - 4);
    for (const std::string& name : node.inputs) {
      step.inputs.push_back(name.empty() ? -1 : slot_of(name, step.place));
    }
    step.kernel = rule.translate(reader);
    reader.check_known();
    for (const std::string& name : node.outputs) {
      step.outputs.push_back(name.empty() ? -1 : define(name, step.place));
    }
    // A constant needs no step.
    if (node.type == "Constant" && step.outputs.size() == 1 && step.outputs[0] >= 0) {
      program_->constants.emplace_back(step.outputs[0], step.kernel({})[0]);
      return;
    }
    program_->steps.push_back(std::move(step));
  }

  void find_last_uses() {
    std::set<int> later(program_->output_slots.begin(), program_->output_slots.end());
    for (auto step = program_->steps.rbegin(); step != program_->steps.rend(); ++step) {
      for (const auto* list : {&step->inputs, &step->outputs}) {
        for (const int slot : *list) {
          if (slot >= 0 && later.insert(slot).second) step->last_uses.push_back(slot);
        }
      }
    }
  }

  const std::string& label_;
  Graph& graph_;
  std::int64_t opset_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
  LoadedProgram loaded_;
  std::unordered_map<std::string, int> slots_;
  std::unordered_set<std::string> statistics_;  // names of initializers
};

}  // namespace

LoadedProgram load_program(const std::string& label, Model model) {
  return Translator(label, model).translate();
}

namespace {

// ---- running

void check_input(const std::string& label, const OnnxValue& value, const Tensor& x) {
  const std::string place = message("OnnxModel: ", label, ": input ", in_quotes(value.name));
  if (!x.defined()) throw ValueError(message(place, " is undefined"));
  if (value.dtype && x.dtype() != *value.dtype) {
    throw DTypeError(message(place, " is ", x.dtype(), ", must be ", *value.dtype));
  }
  if (!value.shape) return;
  bool fits = x.shape().size() == value.shape->size();
  std::string expected;
  for (std::size_t d = 0; d < value.shape->size(); ++d) {
    const std::int64_t size = (*value.shape)[d];
    if (fits && size >= 0) fits = x.shape()[d] == size;
    expected += message(d == 0 ? "" : ", ", size < 0 ? std::string("any") : message(size));
  }
  if (!fits) throw ShapeError(message(place, " is ", x.shape(), ", must be [", expected, "]"));
}

// Constants are on the CPU; an op with tensors of another device gets copies there. Kernels read
// shapes and axes on the host from either.
void align(std::vector<Tensor>& arguments) {
  Device device = cpu_device;
  for (const Tensor& x : arguments) {
    if (x.defined() && !(x.device() == cpu_device)) device = x.device();
  }
  if (device == cpu_device) return;
  for (Tensor& x : arguments) {
    if (x.defined() && x.device() == cpu_device && is_floating_point(x.dtype())) x = x.to(device);
  }
}

}  // namespace

}  // namespace onnx

std::vector<Tensor> OnnxModel::run(const std::vector<Tensor>& inputs) const {
  const onnx::Program& program = *program_;
  if (inputs.size() != program.inputs.size()) {
    throw ValueError(
        detail::message("OnnxModel: ", inputs.size(), " inputs, must be ", program.inputs.size()));
  }
  std::vector<Tensor> values(static_cast<std::size_t>(program.slots));
  const auto at = [&](int slot) -> Tensor& { return values[static_cast<std::size_t>(slot)]; };
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    onnx::check_input(program.label, program.inputs[k], inputs[k]);
    at(program.input_slots[k]) = inputs[k];
  }
  for (const auto& [slot, tensor] : program.constants) at(slot) = tensor;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    at(program.parameter_slots[k]) = parameters_[k].second;
  }
  for (std::size_t k = 0; k < buffers_.size(); ++k) {
    at(program.buffer_slots[k]) = buffers_[k].second;
  }
  for (const onnx::Step& step : program.steps) {
    std::vector<Tensor> arguments;
    arguments.reserve(step.inputs.size());
    for (const int slot : step.inputs) arguments.push_back(slot < 0 ? Tensor() : at(slot));
    onnx::align(arguments);
    try {
      std::vector<Tensor> results = step.kernel(arguments);
      for (std::size_t k = 0; k < step.outputs.size(); ++k) {
        if (step.outputs[k] < 0) continue;
        if (k >= results.size() || !results[k].defined()) {
          throw ValueError(detail::message("output ", k, " is not computed"));
        }
        at(step.outputs[k]) = std::move(results[k]);
      }
    } catch (Error& error) {
      const std::string text =
          detail::message(error.what(), "\n  in ", step.place, " of ", program.label);
      static_cast<std::runtime_error&>(error) = std::runtime_error(text);
      throw;
    }
    for (const int slot : step.last_uses) at(slot) = Tensor();
  }
  std::vector<Tensor> outputs;
  outputs.reserve(program.output_slots.size());
  for (const int slot : program.output_slots) outputs.push_back(at(slot));
  return outputs;
}

Tensor OnnxModel::forward(const Tensor& x) const {
  if (inputs().size() != 1 || outputs().size() != 1) {
    throw ValueError(detail::message("OnnxModel: the model has ", inputs().size(), " inputs and ",
                                     outputs().size(),
                                     " outputs (allowed: one of each; run() "
                                     "takes and returns lists)"));
  }
  return run({x})[0];
}

const std::vector<OnnxValue>& OnnxModel::inputs() const { return program_->inputs; }
const std::vector<OnnxValue>& OnnxModel::outputs() const { return program_->outputs; }

std::string OnnxModel::describe() const {
  return detail::message(program_->steps.size(), " nodes");
}

void OnnxModel::visit(nn::Walker& walk) {
  for (auto& [name, parameter] : parameters_) walk(name, parameter);
  for (auto& [name, buffer] : buffers_) walk(name, buffer);
}

OnnxModel load_onnx(const std::filesystem::path& path) {
  const io::FileSource source("load_onnx", path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  onnx::LoadedProgram loaded =
      onnx::load_program(source.label(), onnx::read_model(source, &folder));
  OnnxModel model;
  model.program_ = std::move(loaded.program);
  for (auto& [name, tensor] : loaded.parameters) {
    model.parameters_.emplace_back(std::move(name), nn::Parameter(tensor));
  }
  for (auto& [name, tensor] : loaded.buffers) {
    model.buffers_.emplace_back(std::move(name), nn::Buffer(std::move(tensor)));
  }
  return model;
}

}  // namespace extensor
