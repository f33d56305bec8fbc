// Builds the nodes of an ONNX graph, and writes one recorded call as nodes.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/model.h"
#include "onnx/recording.h"

namespace extensor::onnx {

using Names = std::vector<std::string>;

// ---- attributes of nodes

Attribute attribute(std::string_view name, std::int64_t value);
Attribute attribute(std::string_view name, int value);
Attribute attribute(std::string_view name, bool value);
Attribute attribute(std::string_view name, double value);
Attribute attribute(std::string_view name, const char* value);
Attribute attribute(std::string_view name, std::vector<std::int64_t> value);
Attribute attribute(std::string_view name, Names value);
Attribute attribute(std::string_view name, Tensor value);

using Attributes = std::vector<Attribute>;

class GraphBuilder {
 public:
  GraphBuilder(std::int64_t opset, std::string batch_input, std::int64_t batch)
      : opset_(opset), batch_input_(std::move(batch_input)), batch_(batch) {}

  std::int64_t opset() const { return opset_; }
  // Reserves a name: values of nodes get others.
  void reserve(const std::string& name) { taken_.insert(name); }
  std::string unique(const std::string& stem);

  // Adds a node and returns the names of its outputs.
  std::string node(const char* type, const Names& inputs, const Attributes& attributes = {});
  Names nodes(const char* type, const Names& inputs, std::size_t outputs,
              const Attributes& attributes = {});
  // The prefix of the names of nodes: the path of a module.
  void set_place(const std::string& place) { place_ = place; }

  // A constant; the same one is added once.
  std::string constant(const Tensor& value);
  std::string integers(const std::vector<std::int64_t>& values);  // one axis
  std::string number(double value, DType dtype);                  // no axes
  // A list of sizes, which are computed from the size of the batch where they depend on it.
  std::string sizes(const std::vector<Size>& sizes);

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  std::string batch_size();  // one int64, on one axis

  std::int64_t opset_;
  std::string batch_input_;
  std::int64_t batch_;
  std::string place_, batch_size_;
  std::vector<Node> nodes_;
  std::set<std::string> taken_;
  std::map<std::string, int> counts_;
  std::map<std::string, std::string> constants_;  // by their bytes
};

// One call that is being written. The functions of the tables in export_*.cpp read the call and add
// nodes. Errors are ValueErrors that name the op and the path of its module.
class CallWriter {
 public:
  CallWriter(GraphBuilder& graph, const Recording& recording, const RecordedCall& call,
             std::vector<std::string>& names)
      : graph(graph), call_(call), recording_(recording), names_(names) {}

  const RecordedCall& call() const { return call_; }
  const ops::RowAttributes& row() const;  // of an elementwise op
  const char* op() const { return call_.op->name; }
  [[noreturn]] void refuse(const std::string& why) const;

  // ---- tensors
  std::size_t inputs() const { return call_.inputs.size(); }
  bool has(std::size_t k) const { return k < inputs() && call_.inputs[k] != no_value; }
  const std::string& input(std::size_t k) const;
  // The input, converted if it has another dtype.
  std::string input(std::size_t k, DType dtype);
  DType dtype(std::size_t k) const { return value(call_.inputs[k]).tensor.dtype(); }
  const std::vector<Size>& shape(std::size_t k) const { return value(call_.inputs[k]).shape; }
  std::int64_t rank(std::size_t k) const { return static_cast<std::int64_t>(shape(k).size()); }
  // A size that must not depend on the batch.
  std::int64_t fixed(std::size_t k, std::int64_t axis) const;
  std::size_t results() const { return call_.results.size(); }
  DType result_dtype(std::size_t k = 0) const { return value(call_.results[k]).tensor.dtype(); }
  const std::vector<Size>& result_shape(std::size_t k = 0) const {
    return value(call_.results[k]).shape;
  }
  void result(std::size_t k, std::string name);
  void result(std::string name) { result(0, std::move(name)); }

  // ---- attributes
  const AttributeTree& tree() const { return call_.attributes; }
  const AttributeTree& item(std::string_view name) const;
  const AttributeTree& item(const AttributeTree& of, std::string_view name) const;
  std::int64_t integer(const AttributeTree& item) const;  // fixed
  std::int64_t integer(std::string_view name) const { return integer(item(name)); }
  bool flag(std::string_view name) const { return item(name).text == "true"; }
  double real(const AttributeTree& item) const;  // does not depend on the batch
  double real(std::string_view name) const { return real(item(name)); }
  std::vector<std::int64_t> integers(const AttributeTree& list) const;
  std::vector<std::int64_t> integers(std::string_view name) const { return integers(item(name)); }
  // The axis counted from 0.
  std::int64_t axis(std::int64_t asked, std::int64_t rank) const {
    return asked < 0 ? asked + rank : asked;
  }
  // Axes of an attribute of type Axes, counted from 0.
  std::vector<std::int64_t> axes(const AttributeTree& item, std::int64_t rank) const;

  // ---- nodes
  std::string node(const char* type, const Names& inputs, const Attributes& attributes = {}) {
    return graph.node(type, inputs, attributes);
  }
  std::string cast(const std::string& x, DType from, DType to);
  std::string reshape(const std::string& x, const std::vector<Size>& shape);
  std::string transpose(const std::string& x, std::vector<std::int64_t> axes) {
    return node("Transpose", {x}, {attribute("perm", std::move(axes))});
  }
  std::string squeeze(const std::string& x, const std::vector<std::int64_t>& axes) {
    return node("Squeeze", {x, graph.integers(axes)});
  }
  std::string unsqueeze(const std::string& x, const std::vector<std::int64_t>& axes) {
    return node("Unsqueeze", {x, graph.integers(axes)});
  }
  std::string binary(const char* type, const std::string& a, const std::string& b) {
    return node(type, {a, b});
  }

  GraphBuilder& graph;

 private:
  const RecordedValue& value(int id) const {
    return recording_.values[static_cast<std::size_t>(id)];
  }

  const RecordedCall& call_;
  const Recording& recording_;
  std::vector<std::string>& names_;  // of values
};

using WriteCall = void (*)(CallWriter&);
struct ExportRule {
  const char* op;
  WriteCall write;
};
// The tables: one rule for every op that has a form in ONNX.
extern const std::span<const ExportRule> elementwise_export_rules;
extern const std::span<const ExportRule> shape_export_rules;
extern const std::span<const ExportRule> reduction_export_rules;
extern const std::span<const ExportRule> layer_export_rules;
extern const std::span<const ExportRule> recurrent_export_rules;
// Null if there is none.
WriteCall find_export_rule(std::string_view op);

// The activation of an elementwise row or of a fused op as nodes.
std::string write_activation(CallWriter& call, std::string_view name, const std::string& x,
                             DType dtype);

}  // namespace extensor::onnx
