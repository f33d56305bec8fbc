#include "extensor/onnx.h"

#include "fuzz/reader.h"
#include "onnx/model.h"
#include "onnx/program.h"

namespace {

using namespace extensor;

// A perceptron, a convolution with pooling, and shapes that are computed.
std::vector<fuzz::File> files() {
  onnx::Model model;
  model.opset = 18;
  model.graph.name = "model";
  model.graph.inputs = {{"x", DType::float32, {{{2, ""}, {3, ""}}}}};
  model.graph.outputs = {{"y", DType::float32, std::nullopt}};
  model.graph.initializers = {{"weight", ones({4, 3})}, {"bias", ones({4})}};
  onnx::Attribute transposed;
  transposed.name = "transB";
  transposed.kind = onnx::Attribute::Kind::integer;
  transposed.integer = 1;
  model.graph.nodes = {{"", "Gemm", "", {"x", "weight", "bias"}, {"z"}, {transposed}},
                       {"", "Relu", "", {"z"}, {"r"}, {}},
                       {"", "Shape", "", {"r"}, {"s"}, {}},
                       {"", "Reshape", "", {"r", "s"}, {"y"}, {}}};
  io::MemorySink sink;
  onnx::write_model("onnx", sink, model);
  return {sink.bytes};
}

}  // namespace

// Bytes are an error or a program. Programs are not run: they may ask for any amount of work.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const fuzz::AllocationLimit limit(size);
    const io::MemorySource source("fuzz", std::as_bytes(std::span(data, size)));
    onnx::load_program("fuzz", onnx::read_model(source));
  } catch (const Error&) {
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> valid = files();
  return fuzz::mutate(data, size, most, seed, valid);
}
