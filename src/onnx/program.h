// The graph of a file as a program of ExTensor's functions. Every node is checked when the file is
// loaded; the shapes of its tensors are known only when it runs.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "extensor/onnx.h"
#include "onnx/model.h"

namespace extensor::onnx {

// The inputs of a node; one that is not given is undefined.
using Arguments = std::span<const Tensor>;
using Results = std::vector<Tensor>;
using Kernel = std::function<Results(Arguments)>;

// A node while it is translated. The accessors of attributes throw FormatErrors that name the node.
class NodeReader {
 public:
  NodeReader(std::string_view label, const Node& node, std::int64_t opset)
      : node_(node), opset_(opset), label_(label) {}

  const Node& node() const { return node_; }
  std::int64_t opset() const { return opset_; }
  std::size_t inputs() const { return node_.inputs.size(); }
  bool has_input(std::size_t k) const { return k < inputs() && !node_.inputs[k].empty(); }
  std::size_t outputs() const { return node_.outputs.size(); }

  bool has(std::string_view name);
  std::int64_t integer(std::string_view name);
  std::int64_t integer(std::string_view name, std::int64_t otherwise);
  bool flag(std::string_view name, bool otherwise) { return integer(name, otherwise) != 0; }
  double real(std::string_view name, double otherwise);
  std::string text(std::string_view name, const char* otherwise);
  std::optional<std::vector<std::int64_t>> integers(std::string_view name);
  std::optional<std::vector<std::string>> texts(std::string_view name);
  std::optional<std::vector<float>> reals(std::string_view name);
  Tensor tensor(std::string_view name);
  // An attribute that changes nothing here.
  void ignore(std::string_view name) { known_.emplace(name); }
  // Throws for an attribute that no accessor has asked for, and for one that is given twice.
  void check_known() const;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw FormatError(detail::message(place(), parts...));
  }
  std::string place() const;  // "load_onnx: 'net.onnx': node 'conv' (Conv): "

 private:
  const Attribute* find(std::string_view name, Attribute::Kind kind);

  const Node& node_;
  std::int64_t opset_;
  std::string_view label_;
  std::set<std::string, std::less<>> known_;
};

using Translate = Kernel (*)(NodeReader&);
struct ImportRule {
  const char* type;
  std::size_t least_inputs, most_inputs;
  Translate translate;
};
extern const std::span<const ImportRule> elementwise_import_rules;
extern const std::span<const ImportRule> shape_import_rules;
extern const std::span<const ImportRule> reduction_import_rules;
extern const std::span<const ImportRule> layer_import_rules;
extern const std::span<const ImportRule> recurrent_import_rules;

constexpr std::size_t any_number = 1 << 20;  // of inputs

// ---- values that are read on the host: shapes, axes, bounds

// DTypeError unless they are integers.
std::vector<std::int64_t> host_integers(const Tensor& x);
// ShapeError unless `x` broadcasts to the shape of `y`, which stays as it is.
void check_broadcasts(const char* argument, const Tensor& x, const Tensor& y);
// The element of a tensor with one; ShapeError for others.
std::int64_t host_integer(const Tensor& x);
// The axes of an input, or of an attribute as in older versions; none if neither is given.
std::optional<std::vector<std::int64_t>> given_axes(
    const std::optional<std::vector<std::int64_t>>& attribute, Arguments arguments, std::size_t k);

// ---- programs

struct Step {
  std::string place;  // "node 'conv' (Conv)"
  Kernel kernel;
  std::vector<int> inputs;     // slots; −1: not given
  std::vector<int> outputs;    // slots; −1: not used
  std::vector<int> last_uses;  // slots that no later step reads
};

struct Program {
  std::string label;
  std::vector<OnnxValue> inputs, outputs;
  std::vector<int> input_slots, output_slots, parameter_slots, buffer_slots;
  std::vector<std::pair<int, Tensor>> constants;
  std::vector<Step> steps;
  int slots = 0;
};

// Splits the graph of a model into a program and the values of its parameters and buffers.
struct LoadedProgram {
  std::shared_ptr<const Program> program;
  NamedTensors parameters, buffers;
};
LoadedProgram load_program(const std::string& label, Model model);

}  // namespace extensor::onnx
