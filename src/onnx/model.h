// An ONNX model as data: the messages of onnx.proto that ExTensor reads and writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "extensor/named_tensors.h"
#include "extensor/tensor.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"

namespace extensor::onnx {

struct Attribute {
  enum class Kind : std::uint8_t { real, integer, text, tensor, reals, integers, texts, other };

  std::string name;
  Kind kind = Kind::other;
  float real = 0;
  std::int64_t integer = 0;
  std::string text;
  Tensor tensor;
  std::vector<float> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;
};

struct Node {
  std::string name, type, domain;
  std::vector<std::string> inputs, outputs;  // an empty name: no tensor
  std::vector<Attribute> attributes;
};

struct Dimension {
  std::optional<std::int64_t> size;
  std::string name;  // of a size that is not fixed
};

struct ValueInfo {
  std::string name;
  std::optional<DType> dtype;  // of a tensor
  std::optional<std::vector<Dimension>> shape;
  std::string unsupported = {};  // the type, if it is one that ExTensor lacks
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  NamedTensors initializers;
  std::vector<ValueInfo> inputs, outputs;
};

struct Model {
  std::int64_t ir_version = 8;
  std::int64_t opset = 0;  // of the standard operators
  Graph graph;
};

// The number of a dtype in onnx.proto, and back; none for a type that ExTensor lacks.
std::int64_t type_number(DType dtype);
std::optional<DType> dtype_of_number(std::int64_t number);
// "float32", or for other types "type 8".
std::string type_text(std::int64_t number);

// The shortest decimal number that is the float: 1e-5 is stored as a float, and meant.
double decimal_value(float stored);

// Throws FormatError for bytes that are not a model, or a model with parts that ExTensor cannot
// represent. Data in other files is read from regular files inside `folder` only; without a folder,
// it is refused.
Model read_model(const io::ByteSource& source, const std::filesystem::path* folder = nullptr);

// Writes the model. ValueError, before anything is written, if it exceeds 2 GiB, the limit of the
// format.
void write_model(const std::string& label, io::ByteSink& sink, const Model& model);
void check_size(const std::string& label, const Model& model);

}  // namespace extensor::onnx
