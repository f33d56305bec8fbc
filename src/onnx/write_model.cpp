// Writes ONNX files. The lengths of messages precede them, so the data of tensors, which goes from
// their memory to the file, is counted first.
#include <limits>

#include "core/check.h"
#include "io/check_tensors.h"
#include "onnx/model.h"
#include "onnx/wire.h"

namespace extensor::onnx {

using detail::message;

namespace {

// A TensorProto up to its data, which is its last field.
WireWriter tensor_header(const std::string& name, const Tensor& tensor) {
  WireWriter writer;
  for (const std::int64_t size : tensor.shape()) writer.integer(1, size);
  writer.integer(2, type_number(tensor.dtype()));
  writer.text(8, name);
  writer.begin(9, tensor.nbytes());
  return writer;
}

std::string tensor_message(const Tensor& tensor) {
  const Tensor elements = io::dense(tensor);
  const auto bytes = io::bytes_of(elements);
  return tensor_header({}, tensor).bytes() +
         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

WireWriter attribute_message(const Attribute& attribute) {
  using Kind = Attribute::Kind;
  WireWriter writer;
  writer.text(1, attribute.name);
  switch (attribute.kind) {
    case Kind::real:
      writer.real(2, attribute.real);
      writer.integer(20, 1);
      break;
    case Kind::integer:
      writer.integer(3, attribute.integer);
      writer.integer(20, 2);
      break;
    case Kind::text:
      writer.text(4, attribute.text);
      writer.integer(20, 3);
      break;
    case Kind::tensor:
      writer.text(5, tensor_message(attribute.tensor));
      writer.integer(20, 4);
      break;
    case Kind::reals:
      for (const float value : attribute.reals) writer.real(7, value);
      writer.integer(20, 6);
      break;
    case Kind::integers:
      for (const std::int64_t value : attribute.integers) writer.integer(8, value);
      writer.integer(20, 7);
      break;
    case Kind::texts:
      for (const std::string& text : attribute.texts) writer.text(9, text);
      writer.integer(20, 8);
      break;
    case Kind::other:
      throw ValueError(message("attribute ", attribute.name, " has no value"));
  }
  return writer;
}

WireWriter node_message(const Node& node) {
  WireWriter writer;
  for (const std::string& name : node.inputs) writer.text(1, name);
  for (const std::string& name : node.outputs) writer.text(2, name);
  writer.text(3, node.name);
  writer.text(4, node.type);
  for (const Attribute& attribute : node.attributes) {
    writer.message(5, attribute_message(attribute));
  }
  return writer;
}

WireWriter value_message(const ValueInfo& info) {
  WireWriter shape;
  for (const Dimension& dimension : info.shape.value_or(std::vector<Dimension>())) {
    WireWriter writer;
    if (dimension.size) {
      writer.integer(1, *dimension.size);
    } else {
      writer.text(2, dimension.name);
    }
    shape.message(1, writer);
  }
  WireWriter tensor, type, value;
  tensor.integer(1, type_number(info.dtype.value_or(default_float)));
  if (info.shape) tensor.message(2, shape);
  type.message(1, tensor);
  value.text(1, info.name);
  value.message(2, type);
  return value;
}

// The parts of the file: messages, and after some of them the data of a tensor.
struct Parts {
  std::string begin;  // the model up to its graph, and the graph up to its initializers
  std::vector<std::string> headers;
  std::string end;  // the inputs and outputs of the graph
  std::uint64_t size = 0;
};

Parts parts_of(const Model& model) {
  const Graph& graph = model.graph;
  WireWriter nodes, ends;
  for (const Node& node : graph.nodes) nodes.message(1, node_message(node));
  nodes.text(2, graph.name);
  for (const ValueInfo& input : graph.inputs) ends.message(11, value_message(input));
  for (const ValueInfo& output : graph.outputs) ends.message(12, value_message(output));

  Parts parts;
  std::uint64_t length = nodes.bytes().size() + ends.bytes().size();
  for (const auto& [name, tensor] : graph.initializers) {
    const WireWriter header = tensor_header(name, tensor);
    WireWriter field;
    field.begin(5, header.bytes().size() + tensor.nbytes());
    parts.headers.push_back(field.bytes() + header.bytes());
    length += parts.headers.back().size() + tensor.nbytes();
  }
  WireWriter opset, file;
  opset.text(1, "");
  opset.integer(2, model.opset);
  file.integer(1, model.ir_version);
  file.text(2, "ExTensor");
  file.message(8, opset);
  file.begin(7, length);
  parts.size = file.bytes().size() + length;
  parts.begin = file.bytes() + nodes.bytes();
  parts.end = ends.bytes();
  return parts;
}

}  // namespace

void check_size(const std::string& label, const Model& model) {
  constexpr std::uint64_t largest = std::numeric_limits<std::int32_t>::max();
  std::uint64_t size = 0;
  for (const auto& [name, tensor] : model.graph.initializers) size += tensor.nbytes();
  if (size <= largest && parts_of(model).size <= largest) return;
  throw ValueError(message(label, ": the model has ", size, " bytes of weights, and a file up to ",
                           largest,
                           " bytes, the limit of the format (convert the model to float16)"));
}

void write_model(const std::string& label, io::ByteSink& sink, const Model& model) {
  check_size(label, model);
  const Parts parts = parts_of(model);
  sink.write(parts.begin);
  std::size_t next = 0;
  for (const auto& [name, tensor] : model.graph.initializers) {
    sink.write(parts.headers[next++]);
    const Tensor elements = io::dense(tensor);
    sink.write(io::bytes_of(elements));
  }
  sink.write(parts.end);
}

}  // namespace extensor::onnx
