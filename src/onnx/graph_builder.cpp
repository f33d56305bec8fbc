#include "onnx/graph_builder.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/check.h"
#include "extensor/creation.h"
#include "io/check_tensors.h"

namespace extensor::onnx {

using detail::message;

// ---- attributes

namespace {

Attribute named(std::string_view name, Attribute::Kind kind) {
  Attribute result;
  result.name = name;
  result.kind = kind;
  return result;
}

}  // namespace

Attribute attribute(std::string_view name, std::int64_t value) {
  Attribute result = named(name, Attribute::Kind::integer);
  result.integer = value;
  return result;
}
Attribute attribute(std::string_view name, int value) {
  return attribute(name, std::int64_t{value});
}
Attribute attribute(std::string_view name, bool value) {
  return attribute(name, std::int64_t{value ? 1 : 0});
}
Attribute attribute(std::string_view name, double value) {
  Attribute result = named(name, Attribute::Kind::real);
  result.real = static_cast<float>(value);
  return result;
}
Attribute attribute(std::string_view name, const char* value) {
  Attribute result = named(name, Attribute::Kind::text);
  result.text = value;
  return result;
}
Attribute attribute(std::string_view name, std::vector<std::int64_t> value) {
  Attribute result = named(name, Attribute::Kind::integers);
  result.integers = std::move(value);
  return result;
}
Attribute attribute(std::string_view name, Names value) {
  Attribute result = named(name, Attribute::Kind::texts);
  result.texts = std::move(value);
  return result;
}
Attribute attribute(std::string_view name, Tensor value) {
  Attribute result = named(name, Attribute::Kind::tensor);
  result.tensor = std::move(value);
  return result;
}

// ---- the graph

std::string GraphBuilder::unique(const std::string& stem) {
  std::string name = stem;
  while (!taken_.insert(name).second) name = message(stem, "_", ++counts_[stem]);
  return name;
}

std::string GraphBuilder::node(const char* type, const Names& inputs,
                               const Attributes& attributes) {
  return nodes(type, inputs, 1, attributes)[0];
}

Names GraphBuilder::nodes(const char* type, const Names& inputs, std::size_t outputs,
                          const Attributes& attributes) {
  Node node;
  node.type = type;
  node.inputs = inputs;
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  node.attributes = attributes;
  for (std::size_t k = 0; k < outputs; ++k) {
    node.outputs.push_back(unique(place_.empty() ? type : message(place_, "/", type)));
  }
  node.name = node.outputs[0];
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

std::string GraphBuilder::constant(const Tensor& value) {
  const Tensor elements = io::dense(value);
  const auto bytes = io::bytes_of(elements);
  std::string key = message(value.dtype(), " ", value.shape(), " ");
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto [found, is_new] = constants_.try_emplace(std::move(key));
  if (is_new) {
    const std::string place = std::exchange(place_, {});
    found->second = node("Constant", {}, {attribute("value", elements)});
    place_ = place;
  }
  return found->second;
}

std::string GraphBuilder::integers(const std::vector<std::int64_t>& values) {
  return constant(values.empty() ? zeros({0}, DType::int64) : from_data(values));
}

std::string GraphBuilder::number(double value, DType dtype) {
  return constant(full({}, value, DType::float64).to(dtype));
}

std::string GraphBuilder::batch_size() {
  if (batch_size_.empty()) {
    const std::string place = std::exchange(place_, {});
    batch_size_ = node("Shape", {batch_input_}, {attribute("start", 0), attribute("end", 1)});
    place_ = place;
  }
  return batch_size_;
}

std::string GraphBuilder::sizes(const std::vector<Size>& sizes) {
  Names parts;
  std::vector<std::int64_t> fixed;
  const auto flush = [&] {
    if (!fixed.empty()) parts.push_back(integers(std::exchange(fixed, {})));
  };
  for (const Size& size : sizes) {
    if (size.is_fixed()) {
      fixed.push_back(size.value);
      continue;
    }
    flush();
    std::string grown = batch_size();
    if (size.slope != 1) grown = node("Mul", {grown, integers({size.slope})});
    const std::int64_t rest = size.value - size.slope * batch_;
    if (rest != 0) grown = node("Add", {grown, integers({rest})});
    parts.push_back(grown);
  }
  flush();
  if (parts.empty()) return integers({});
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {attribute("axis", 0)});
}

// ---- one call

void CallWriter::refuse(const std::string& why) const {
  throw ValueError(
      message("export_onnx: ", op(), call_.module.empty() ? "" : " in ", call_.module, ": ", why));
}

const ops::RowAttributes& CallWriter::row() const {
  if (!call_.row) refuse("it is not an elementwise op");
  return *call_.row;
}

const std::string& CallWriter::input(std::size_t k) const {
  static const std::string none;
  return has(k) ? names_[static_cast<std::size_t>(call_.inputs[k])] : none;
}

std::string CallWriter::input(std::size_t k, DType dtype) {
  return has(k) ? cast(input(k), this->dtype(k), dtype) : std::string();
}

std::int64_t CallWriter::fixed(std::size_t k, std::int64_t at) const {
  const Size& size = shape(k)[static_cast<std::size_t>(axis(at, rank(k)))];
  if (!size.is_fixed()) refuse(message("axis ", at, " of input ", k, " depends on the batch"));
  return size.value;
}

void CallWriter::result(std::size_t k, std::string name) {
  if (k < results() && call_.results[k] != no_value) {
    names_[static_cast<std::size_t>(call_.results[k])] = std::move(name);
  }
}

const AttributeTree& CallWriter::item(const AttributeTree& of, std::string_view name) const {
  const AttributeTree* found = of.find(name);
  if (found == nullptr) refuse(message("its attributes lack ", name));
  return *found;
}
const AttributeTree& CallWriter::item(std::string_view name) const { return item(tree(), name); }

std::int64_t CallWriter::integer(const AttributeTree& item) const {
  if (!item.is_integer) refuse(message("attribute ", item.name, " is ", item.text));
  if (!item.integer.is_fixed()) {
    refuse(message("attribute ", item.name, " depends on the size of the batch"));
  }
  return item.integer.value;
}

double CallWriter::real(const AttributeTree& item) const {
  if (item.is_integer) return static_cast<double>(integer(item));
  const std::string& text = item.text;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    refuse(message("attribute ", item.name, " is ", text));
  }
  return value;
}

std::vector<std::int64_t> CallWriter::integers(const AttributeTree& list) const {
  std::vector<std::int64_t> values;
  values.reserve(list.items.size());
  for (const AttributeTree& each : list.items) values.push_back(integer(each));
  return values;
}

std::vector<std::int64_t> CallWriter::axes(const AttributeTree& item, std::int64_t rank) const {
  std::vector<std::int64_t> list;
  if (item.text == "all" && !item.is_list) {
    for (std::int64_t d = 0; d < rank; ++d) list.push_back(d);
    return list;
  }
  for (const std::int64_t each : integers(item)) list.push_back(axis(each, rank));
  return list;
}

std::string CallWriter::cast(const std::string& x, DType from, DType to) {
  return from == to ? x : node("Cast", {x}, {attribute("to", type_number(to))});
}

std::string CallWriter::reshape(const std::string& x, const std::vector<Size>& shape) {
  const auto grows = [](const Size& size) { return !size.is_fixed(); };
  const auto is_zero = [](const Size& size) { return size.is_fixed() && size.value == 0; };
  // One size that depends on the batch follows from the others.
  if (std::ranges::count_if(shape, grows) == 1 && std::ranges::none_of(shape, is_zero)) {
    std::vector<std::int64_t> sizes;
    sizes.reserve(shape.size());
    for (const Size& size : shape) sizes.push_back(size.is_fixed() ? size.value : -1);
    return node("Reshape", {x, graph.integers(sizes)});
  }
  Attributes attributes;
  if (std::ranges::any_of(shape, is_zero)) attributes.push_back(attribute("allowzero", 1));
  return node("Reshape", {x, graph.sizes(shape)}, attributes);
}

// ---- rules

WriteCall find_export_rule(std::string_view op) {
  for (const auto& rules : {elementwise_export_rules, shape_export_rules, reduction_export_rules,
                            layer_export_rules, recurrent_export_rules}) {
    const auto found = std::ranges::find(rules, op, &ExportRule::op);
    if (found != rules.end()) return found->write;
  }
  return nullptr;
}

}  // namespace extensor::onnx
