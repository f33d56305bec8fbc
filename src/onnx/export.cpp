// Writes the graph of a recording.
#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "extensor/onnx.h"
#include "io/atomic_file.h"
#include "io/text.h"
#include "onnx/graph_builder.h"

namespace extensor {

namespace onnx {

using detail::message;
using io::in_quotes;

namespace {

constexpr const char* operation = "export_onnx";
constexpr std::int64_t least_opset = 18, greatest_opset = 23;

void check_options(const OnnxExportOptions& options, std::size_t inputs) {
  if (options.opset < least_opset || options.opset > greatest_opset) {
    throw ValueError(message(operation, ": opset is ", options.opset, " (allowed: ", least_opset,
                             " to ", greatest_opset, ")"));
  }
  if (!options.input_names.empty() && options.input_names.size() != inputs) {
    throw ValueError(message(operation, ": ", options.input_names.size(), " input names for ",
                             inputs, " inputs"));
  }
}

// The names asked for, or default ones; the caller reserves them.
Names names_of(const char* stem, const Names& asked, std::size_t count) {
  if (!asked.empty()) return asked;
  Names names;
  for (std::size_t k = 0; k < count; ++k) {
    names.push_back(count == 1 ? stem : message(stem, "_", k));
  }
  return names;
}

std::size_t at(int id) { return static_cast<std::size_t>(id); }

// The calls whose results the outputs depend on, in order.
std::vector<const RecordedCall*> needed_calls(const Recording& recording) {
  std::vector<bool> needed(recording.values.size(), false);
  for (const int id : recording.outputs) needed[at(id)] = true;
  std::vector<const RecordedCall*> calls;
  for (auto call = recording.calls.rbegin(); call != recording.calls.rend(); ++call) {
    const bool used = std::ranges::any_of(call->results,
                                          [&](int id) { return id != no_value && needed[at(id)]; });
    if (!used) continue;
    for (const int id : call->inputs) {
      if (id != no_value) needed[at(id)] = true;
    }
    calls.push_back(&*call);
  }
  std::ranges::reverse(calls);
  return calls;
}

std::string place_of(const RecordedCall& call) {
  return message(call.op->name, call.module.empty() ? "" : " in ", call.module);
}

// Few runtimes have kernels for complex numbers.
void check_dtypes(const Recording& recording, const std::vector<const RecordedCall*>& calls) {
  for (const RecordedCall* call : calls) {
    for (const std::vector<int>* ids : {&call->inputs, &call->results}) {
      for (const int id : *ids) {
        if (id == no_value || !recording.values[at(id)].tensor.defined()) continue;
        const DType dtype = recording.values[at(id)].tensor.dtype();
        if (!is_complex(dtype)) continue;
        throw DTypeError(message(operation, ": ", place_of(*call), " computes with ", dtype,
                                 " (allowed: real dtypes)"));
      }
    }
  }
}

// Refuses ops without a rule, all of them at once.
void check_rules(const std::vector<const RecordedCall*>& calls) {
  std::vector<std::string> missing;
  for (const RecordedCall* call : calls) {
    if (find_export_rule(call->op->name) != nullptr) continue;
    const std::string place = place_of(*call);
    if (std::ranges::find(missing, place) == missing.end()) missing.push_back(place);
  }
  if (missing.empty()) return;
  std::string list;
  for (const std::string& each : missing) list += message(list.empty() ? "" : ", ", each);
  throw ValueError(message(operation, ": no form in ONNX for ", list));
}

std::vector<Dimension> dimensions(const std::vector<Size>& shape) {
  std::vector<Dimension> list;
  for (const Size& size : shape) {
    if (size.is_fixed()) {
      list.push_back({size.value, {}});
    } else if (size.slope == 1) {
      list.push_back({std::nullopt, "batch"});
    } else {
      list.push_back({std::nullopt, message(size.slope, "_batch")});
    }
  }
  return list;
}

class Exporter {
 public:
  Exporter(const Recording& recording, const OnnxExportOptions& options)
      : recording_(recording),
        names_(recording.values.size()),
        input_names_(names_of("input", options.input_names, recording.inputs.size())),
        output_names_(names_of("output", options.output_names, recording.outputs.size())),
        graph_(options.opset, input_names_[0], recording.batch) {
    if (output_names_.size() != recording.outputs.size()) {
      throw ValueError(message(operation, ": ", output_names_.size(), " output names for ",
                               recording.outputs.size(), " outputs"));
    }
  }

  Model model(const OnnxExportOptions& options) {
    const auto calls = needed_calls(recording_);
    check_dtypes(recording_, calls);
    check_rules(calls);
    reserve();
    for (const RecordedCall* call : calls) write(*call);
    finish_outputs();
    Model result;
    result.opset = options.opset;
    constexpr std::int64_t ir_versions[] = {8, 9, 9, 10, 10, 11};
    result.ir_version = ir_versions[options.opset - least_opset];
    Graph& graph = result.graph;
    graph.name = "model";
    graph.nodes = graph_.take();
    rename_outputs(graph);
    for (std::size_t k = 0; k < recording_.values.size(); ++k) {
      const RecordedValue& value = recording_.values[k];
      if (value.kind == RecordedValue::Kind::state && used_.contains(k)) {
        graph.initializers.emplace_back(value.name, value.tensor);
      }
    }
    for (std::size_t k = 0; k < input_names_.size(); ++k) {
      graph.inputs.push_back(info(input_names_[k], recording_.inputs[k]));
    }
    for (std::size_t k = 0; k < output_names_.size(); ++k) {
      graph.outputs.push_back(info(output_names_[k], recording_.outputs[k]));
    }
    return result;
  }

 private:
  ValueInfo info(const std::string& name, int id) const {
    const RecordedValue& value = recording_.values[at(id)];
    return {name, value.tensor.dtype(), dimensions(value.shape)};
  }

  void reserve() {
    std::map<std::string, std::string> uses;
    const auto claim = [&](const std::string& name, const char* use) {
      if (name.empty()) throw ValueError(message(operation, ": the name of an ", use, " is empty"));
      const auto [found, is_new] = uses.emplace(name, use);
      if (!is_new) {
        throw ValueError(message(operation, ": ", use, " ", in_quotes(name), " has the name of an ",
                                 found->second, " (give input_names and output_names)"));
      }
      graph_.reserve(name);
    };
    for (std::size_t k = 0; k < recording_.values.size(); ++k) {
      const RecordedValue& value = recording_.values[k];
      if (value.kind != RecordedValue::Kind::state) continue;
      claim(value.name, "initializer");
      names_[k] = value.name;
    }
    for (std::size_t k = 0; k < input_names_.size(); ++k) {
      claim(input_names_[k], "input");
      names_[at(recording_.inputs[k])] = input_names_[k];
    }
    for (const std::string& name : output_names_) claim(name, "output");
  }

  // Names a value that no call has made: state is used from now on, a constant gets a node.
  void provide(int id) {
    const RecordedValue& value = recording_.values[at(id)];
    if (value.kind == RecordedValue::Kind::state) used_.insert(at(id));
    if (value.kind != RecordedValue::Kind::constant || !names_[at(id)].empty()) return;
    const bool grows =
        std::ranges::any_of(value.shape, [](const Size& size) { return !size.is_fixed(); });
    if (!grows) {
      names_[at(id)] = graph_.constant(value.tensor);
      return;
    }
    // Its elements are equal: see merge_value.
    const Tensor first = value.tensor.reshape({-1}).slice(0, 0, 1).to(cpu_device);
    names_[at(id)] =
        graph_.node("ConstantOfShape", {graph_.sizes(value.shape)}, {attribute("value", first)});
  }

  void write(const RecordedCall& call) {
    for (const int id : call.inputs) {
      if (id != no_value) provide(id);
    }
    const std::size_t dot = call.module.find('.');
    graph_.set_place(dot == std::string::npos ? "" : call.module.substr(dot + 1));
    CallWriter writer(graph_, recording_, call, names_);
    find_export_rule(call.op->name)(writer);
    graph_.set_place("");
    for (const int id : call.results) {
      if (id != no_value && names_[at(id)].empty() && is_output_or_used(id)) {
        writer.refuse("one of its results that the model uses has no form in ONNX");
      }
    }
  }

  bool is_output_or_used(int id) const {
    if (std::ranges::find(recording_.outputs, id) != recording_.outputs.end()) return true;
    return std::ranges::any_of(recording_.calls, [&](const RecordedCall& call) {
      return std::ranges::find(call.inputs, id) != call.inputs.end();
    });
  }

  // An output is renamed where a node made it. One that is an input, state, or another output as
  // well is copied.
  void finish_outputs() {
    for (std::size_t k = 0; k < output_names_.size(); ++k) {
      const int id = recording_.outputs[k];
      provide(id);
      std::string name = names_[at(id)];
      const bool is_node = std::ranges::find(input_names_, name) == input_names_.end() &&
                           std::ranges::none_of(recording_.values, [&](const RecordedValue& value) {
                             return value.kind == RecordedValue::Kind::state && value.name == name;
                           });
      if (!is_node || renamed_.contains(name)) name = graph_.node("Identity", {name});
      renamed_[name] = output_names_[k];
    }
  }

  void rename_outputs(Graph& graph) const {
    const auto rename = [&](std::string& name) {
      if (const auto found = renamed_.find(name); found != renamed_.end()) name = found->second;
    };
    for (Node& node : graph.nodes) {
      std::ranges::for_each(node.inputs, rename);
      std::ranges::for_each(node.outputs, rename);
    }
  }

  const Recording& recording_;
  Names names_;  // of values
  Names input_names_, output_names_;
  GraphBuilder graph_;
  std::set<std::size_t> used_;
  std::map<std::string, std::string> renamed_;
};

}  // namespace

}  // namespace onnx

void detail::export_onnx(const std::filesystem::path& path, const OnnxFunction& function,
                         const nn::detail::Walk* walk, const nn::ModuleDescription& description,
                         const NamedTensors& state, std::span<const Tensor> inputs,
                         const OnnxExportOptions& options) {
  onnx::check_options(options, inputs.size());
  NamedTensors all = state;
  if (walk != nullptr) {
    for (auto& each : nn::detail::named_parameters(*walk)) all.push_back(std::move(each));
    for (auto& each : nn::detail::named_buffers(*walk)) all.push_back(std::move(each));
  }
  const onnx::Recording recording = onnx::record(onnx::operation, function, {walk, description},
                                                 all, inputs, options.dynamic_batch);
  const onnx::Model model = onnx::Exporter(recording, options).model(options);
  const std::string label = message(onnx::operation, ": ", io::in_quotes(path.string()));
  onnx::check_size(label, model);
  io::AtomicFile file(onnx::operation, path);
  onnx::write_model(label, file, model);
  file.commit();
}

}  // namespace extensor
