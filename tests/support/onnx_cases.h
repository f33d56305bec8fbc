// Models and functions that are exported to ONNX: the tests of export and import use all of them,
// and tests/onnx/runtime.py runs their files with onnxruntime.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "extensor/extensor.h"

namespace test_support {

namespace ext = extensor;
using ext::Shape;
using ext::Tensor;

struct OnnxCase {
  std::string name;
  std::vector<Tensor> inputs;
  // The same with another number of samples; empty if the sizes are fixed.
  std::vector<Tensor> other_batch;
  std::function<void(const std::filesystem::path&, const ext::OnnxExportOptions&)> write;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call;
  // Whether the operators of the file are the ops of the model, so that results are bit-equal.
  bool same_ops = false;
};

// Deterministic values in [-1, 1) without any order.
inline Tensor values(const Shape& shape, double scale = 1) {
  ext::Generator generator(7);
  return ext::uniform(shape, -scale, scale, ext::TensorOptions{}, generator);
}

template <class Model>
OnnxCase onnx_case(const char* name, Model model, std::vector<Tensor> inputs,
                   std::vector<Tensor> other_batch = {}, bool same_ops = false) {
  const auto shared = std::make_shared<Model>(std::move(model));
  OnnxCase made;
  made.name = name;
  made.inputs = std::move(inputs);
  made.other_batch = std::move(other_batch);
  made.same_ops = same_ops;
  made.write = [shared, x = made.inputs[0]](const std::filesystem::path& path,
                                            const ext::OnnxExportOptions& options) {
    ext::export_onnx(path, *shared, options, x);
  };
  made.call = [shared](const std::vector<Tensor>& given) {
    const ext::NoGrad off;
    if constexpr (ext::nn::detail::IsModule<Model>) shared->eval();
    return ext::detail::result_tensors((*shared)(given[0]));
  };
  return made;
}

using OneTensor = Tensor (*)(const Tensor&);

// Running statistics that differ from those of a new model.
template <class Model>
Model with_statistics(Model model) {
  double shift = 0.05;
  for (auto& [name, tensor] : model.named_buffers()) {
    if (name.ends_with("running_mean")) tensor.fill(shift += 0.01);
    if (name.ends_with("running_var")) tensor.fill(1 + (shift += 0.01));
  }
  return model;
}

inline std::vector<OnnxCase> onnx_models() {
  namespace nn = ext::nn;
  namespace models = ext::models;
  ext::manual_seed(3);
  std::vector<OnnxCase> cases;
  cases.push_back(
      onnx_case("mlp", models::Mlp({6, 16, 8, 3}), {values({4, 6})}, {values({9, 6})}, true));
  cases.push_back(onnx_case("lenet", models::LeNet(), {values({2, 1, 28, 28})},
                            {values({3, 1, 28, 28})}, true));
  cases.push_back(onnx_case("resnet18", with_statistics(models::ResNet18()),
                            {values({1, 3, 32, 32})}, {values({2, 3, 32, 32})}));
  cases.push_back(onnx_case("resnet50", with_statistics(models::ResNet50({.classes = 10})),
                            {values({1, 3, 64, 64})}));
  cases.push_back(onnx_case(
      "gpt", models::Gpt({.vocabulary = 17, .block = 12, .layers = 2, .heads = 2, .width = 16}),
      {ext::tensor({{3, 1, 4, 1, 5}, {9, 2, 6, 5, 3}})},
      {ext::tensor({{2, 7, 1, 8, 2}, {8, 1, 8, 2, 8}, {4, 5, 9, 0, 16}})}));
  cases.push_back(onnx_case(
      "encoder", nn::TransformerEncoderLayer(12, 3, {.feedforward = 20, .norm_first = true}),
      {values({2, 5, 12})}, {values({3, 5, 12})}));
  cases.push_back(
      onnx_case("encoder_gelu",
                nn::TransformerEncoderLayer(
                    12, 3, {.feedforward = 20, .activation = nn::TransformerActivation::gelu}),
                {values({2, 5, 12})}));
  cases.push_back(onnx_case("lstm", nn::LSTM(5, 7, {.layers = 2, .bidirectional = true}),
                            {values({6, 3, 5})}, {}, true));
  cases.push_back(onnx_case("lstm_batch_first", nn::LSTM(5, 7, {.batch_first = true}),
                            {values({3, 6, 5})}, {values({4, 6, 5})}, true));
  cases.push_back(onnx_case("gru", nn::GRU(5, 7, {.batch_first = true, .bidirectional = true}),
                            {values({3, 6, 5})}, {values({5, 6, 5})}, true));
  cases.push_back(onnx_case("rnn", nn::RNN(5, 7, {.batch_first = true}), {values({3, 6, 5})},
                            {values({5, 6, 5})}, true));
  cases.push_back(onnx_case(
      "sequential",
      nn::Sequential{nn::Conv2d(3, 8, 3, {.padding = ext::same_padding}), nn::GroupNorm(2, 8),
                     nn::SiLU(), nn::ConvTranspose2d(8, 4, 3, {.stride = 2, .output_padding = 1}),
                     nn::InstanceNorm(4), nn::Dropout(0.3), nn::AdaptiveAvgPool2d({5, 3}),
                     nn::Flatten(), nn::Linear(60, 4)},
      {values({2, 3, 6, 7})}, {values({3, 3, 6, 7})}));
  return cases;
}

}  // namespace test_support
