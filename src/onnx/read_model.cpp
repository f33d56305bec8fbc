// Reads ONNX files. Field numbers are those of onnx.proto.
#include <limits>
#include <utility>

#include "io/text.h"
#include "onnx/model.h"
#include "onnx/read_tensor.h"

namespace extensor::onnx {

using io::in_quotes;

namespace {

constexpr std::uint64_t largest_file = std::numeric_limits<std::int32_t>::max();

// ---- nodes

Attribute read_attribute(const Origin& origin, WireReader reader) {
  using Kind = Attribute::Kind;
  Attribute attribute;
  std::int64_t type = 0;
  std::uint32_t value = 0;  // the field of the value, if the type is not said
  while (reader.next()) {
    const std::uint32_t field = reader.field();
    switch (field) {
      case 1:
        attribute.name = reader.text("attribute name");
        continue;
      case 2:
        attribute.real = reader.real("attribute f");
        break;
      case 3:
        attribute.integer = reader.integer("attribute i");
        break;
      case 4:
        attribute.text = reader.text("attribute s");
        break;
      case 5:
        attribute.tensor = read_tensor(origin, reader.message("attribute t")).second;
        break;
      case 7:
        reader.reals("attribute floats", attribute.reals);
        break;
      case 8:
        reader.integers("attribute ints", attribute.integers);
        break;
      case 9:
        attribute.texts.push_back(reader.text("attribute strings"));
        break;
      case 20:
        type = reader.integer("attribute type");
        continue;
      default:
        reader.skip();
        continue;
    }
    value = field;
  }
  constexpr struct {
    std::int64_t type;
    std::uint32_t field;
    Kind kind;
  } kinds[] = {{1, 2, Kind::real},   {2, 3, Kind::integer}, {3, 4, Kind::text},
               {4, 5, Kind::tensor}, {6, 7, Kind::reals},   {7, 8, Kind::integers},
               {8, 9, Kind::texts}};
  for (const auto& each : kinds) {
    if (type == each.type || (type == 0 && value == each.field)) attribute.kind = each.kind;
  }
  if (attribute.kind == Kind::tensor && !attribute.tensor.defined()) {
    reader.fail("attribute ", in_quotes(attribute.name), " has no tensor");
  }
  return attribute;
}

Node read_node(const Origin& origin, WireReader reader) {
  Node node;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        node.inputs.push_back(reader.text("node input"));
        break;
      case 2:
        node.outputs.push_back(reader.text("node output"));
        break;
      case 3:
        node.name = reader.text("node name");
        break;
      case 4:
        node.type = reader.text("op_type");
        break;
      case 5:
        node.attributes.push_back(read_attribute(origin, reader.message("attribute")));
        break;
      case 7:
        node.domain = reader.text("domain");
        break;
      default:
        reader.skip();
    }
  }
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

// ---- inputs and outputs

Dimension read_dimension(WireReader reader) {
  Dimension dimension;
  while (reader.next()) {
    if (reader.field() == 1) {
      dimension.size = reader.integer("dim_value");
    } else if (reader.field() == 2) {
      dimension.name = reader.text("dim_param");
    } else {
      reader.skip();
    }
  }
  return dimension;
}

void read_tensor_type(WireReader reader, ValueInfo& info) {
  while (reader.next()) {
    if (reader.field() == 1) {
      const std::int64_t type = reader.integer("elem_type");
      info.dtype = dtype_of_number(type);
      if (type != 0 && !info.dtype) info.unsupported = type_text(type);
    } else if (reader.field() == 2) {
      WireReader shape = reader.message("shape");
      info.shape.emplace();
      while (shape.next()) {
        if (shape.field() == 1) {
          info.shape->push_back(read_dimension(shape.message("dim")));
        } else {
          shape.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
}

ValueInfo read_value_info(WireReader reader) {
  ValueInfo info;
  while (reader.next()) {
    if (reader.field() == 1) {
      info.name = reader.text("value name");
    } else if (reader.field() == 2) {
      WireReader type = reader.message("type");
      while (type.next()) {
        if (type.field() == 1) {
          read_tensor_type(type.message("tensor_type"), info);
        } else {
          // A sequence, a map, a sparse or an optional tensor. Field 6 is a comment.
          if (type.field() != 6) info.unsupported = "not a tensor";
          type.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
  return info;
}

// ---- the model

Graph read_graph(const Origin& origin, WireReader reader) {
  Graph graph;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        graph.nodes.push_back(read_node(origin, reader.message("node")));
        break;
      case 2:
        graph.name = reader.text("graph name");
        break;
      case 5:
        graph.initializers.push_back(read_tensor(origin, reader.message("initializer")));
        break;
      case 11:
        graph.inputs.push_back(read_value_info(reader.message("graph input")));
        break;
      case 12:
        graph.outputs.push_back(read_value_info(reader.message("graph output")));
        break;
      case 15:
        reader.fail("the graph has sparse initializers, which ExTensor does not have");
      default:
        reader.skip();
    }
  }
  return graph;
}

// Adds the version of the standard operators to the model.
void read_opset(WireReader reader, Model& model) {
  std::string domain;
  std::int64_t version = 0;
  while (reader.next()) {
    if (reader.field() == 1) {
      domain = reader.text("opset domain");
    } else if (reader.field() == 2) {
      version = reader.integer("opset version");
    } else {
      reader.skip();
    }
  }
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
}

}  // namespace

Model read_model(const io::ByteSource& source, const std::filesystem::path* folder) {
  if (source.size() > largest_file) {
    io::damaged(source.label(), "the file has ", source.size(), " bytes (allowed: up to ",
                largest_file, ", the limit of the format)");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(source.size()));
  source.read(0, bytes);
  const Origin origin{source.label(), folder};
  WireReader reader(source.label(), bytes);
  Model model;
  bool has_graph = false;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        model.ir_version = reader.integer("ir_version");
        break;
      case 7:
        if (std::exchange(has_graph, true)) reader.fail("the model has two graphs");
        model.graph = read_graph(origin, reader.message("graph"));
        break;
      case 8:
        read_opset(reader.message("opset_import"), model);
        break;
      default:
        reader.skip();
    }
  }
  if (!has_graph) reader.fail("the file has no graph: it is not an ONNX model");
  return model;
}

}  // namespace extensor::onnx
