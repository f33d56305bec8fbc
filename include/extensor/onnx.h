// Models in ONNX files: export for other runtimes, and import from other libraries. docs/onnx.md
// has the operators of both directions.
//
//   export_onnx("net.onnx", net, {.dynamic_batch = true}, zeros({1, 3, 224, 224}));
//
//   OnnxModel model = load_onnx("net.onnx");
//   Tensor y = model(x);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/nn/module.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct OnnxExportOptions {
  // Names of the inputs and outputs; by default "input" and "output", or "input_0", "input_1" and
  // so on if there are several.
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  // Axis 0 of every input is a batch of any size. Otherwise all sizes are those of the example.
  bool dynamic_batch = false;
  std::int64_t opset = 18;  // the version of the operators, 18 to 23
};

// A function of tensors, as the exporter calls it.
using OnnxFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

namespace detail {

// `walk` is null for a function without a module. `state` are parameters and buffers besides those
// of the module.
void export_onnx(const std::filesystem::path& path, const OnnxFunction& function,
                 const nn::detail::Walk* walk, const nn::ModuleDescription& description,
                 const NamedTensors& state, std::span<const Tensor> inputs,
                 const OnnxExportOptions& options);

// The tensors of the result of a model: one, a list, or the members of a struct or tuple.
template <class Result>
std::vector<Tensor> result_tensors(Result&& result) {
  using Plain = std::remove_cvref_t<Result>;
  if constexpr (std::is_base_of_v<Tensor, Plain>) {
    return {result};
  } else if constexpr (std::is_same_v<Plain, std::vector<Tensor>>) {
    return std::forward<Result>(result);
  } else if constexpr (requires { std::tuple_size<Plain>::value; }) {
    return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, result);
  } else {
    std::vector<Tensor> list;
    reflect::with_members<reflect::member_count<Plain, false>>(
        result, [&](const auto&... each) { (list.push_back(each), ...); });
    std::erase_if(list, [](const Tensor& each) { return !each.defined(); });
    return list;
  }
}

}  // namespace detail

// Writes the calls of ops that a module, or a function, makes for the example inputs. Parameters
// and buffers are initializers under their names. The model is called two or three times, in
// evaluation mode, without gradients and without Autocast. ValueError, before anything is written,
// for an op without a form in ONNX (naming the op and the path of its module), for a function whose
// calls depend on the values of its inputs, and for an option out of range; IoError if the file
// cannot be written.
template <class Model, class... Inputs>
requires(sizeof...(Inputs) > 0 &&
         (std::is_convertible_v<const Inputs&, Tensor> &&
          ...)) void export_onnx(const std::filesystem::path& path, Model& model,
                                 const OnnxExportOptions& options, const Inputs&... inputs) {
  const OnnxFunction function = [&](std::span<const Tensor> given) {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      return detail::result_tensors(model(given[k]...));
    }
    (std::make_index_sequence<sizeof...(Inputs)>());
  };
  const Tensor list[] = {inputs...};
  using Plain = std::remove_const_t<Model>;
  if constexpr (nn::detail::IsModule<Plain>) {
    const nn::detail::Walk walk = nn::detail::walk_of(const_cast<Plain&>(model));
    detail::export_onnx(path, function, &walk, nn::detail::reference_to(model, false), {}, list,
                        options);
  } else if constexpr (nn::detail::HoldsLayer<Plain>) {
    const nn::detail::Walk walk{&const_cast<Plain&>(model), [](void* layer, nn::Walker& walker) {
                                  static_cast<Plain*>(layer)->walk(walker);
                                }};
    detail::export_onnx(path, function, &walk, model.reference(false), {}, list, options);
  } else {
    detail::export_onnx(path, function, nullptr, {}, {}, list, options);
  }
}
template <class Model, class... Inputs>
requires(sizeof...(Inputs) > 0 && (std::is_convertible_v<const Inputs&, Tensor> &&
                                   ...)) void export_onnx(const std::filesystem::path& path,
                                                          Model& model, const Inputs&... inputs) {
  export_onnx(path, model, OnnxExportOptions{}, inputs...);
}

// An input or output of a model in a file.
struct OnnxValue {
  std::string name;
  std::optional<DType> dtype;                      // none: not said in the file
  std::optional<std::vector<std::int64_t>> shape;  // −1: any size; none: not said in the file
};

namespace onnx {
struct Program;
}

// A model from a file. Its floating-point initializers with one axis or more are parameters, except
// the running statistics of batch norms, which are buffers; everything else is constant. It runs as
// in inference, dropout does nothing, and gradients propagate to parameters and inputs.
class OnnxModel final : public nn::Module<OnnxModel> {
 public:
  // The output of a model with one input and one output; ValueError for others.
  Tensor forward(const Tensor& x) const;
  // All outputs for all inputs, in the order of the file. ValueError for another number of inputs;
  // ShapeError or DTypeError for an input that the file does not allow. Errors of ops name the
  // node.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const;

  const std::vector<OnnxValue>& inputs() const;
  const std::vector<OnnxValue>& outputs() const;
  std::string describe() const;
  void visit(nn::Walker& walk);

 private:
  friend OnnxModel load_onnx(const std::filesystem::path& path);
  friend struct onnx::Program;
  OnnxModel() = default;

  std::shared_ptr<const onnx::Program> program_;
  std::vector<std::pair<std::string, nn::Parameter>> parameters_;
  std::vector<std::pair<std::string, nn::Buffer>> buffers_;
};

// Reads a model with operators of opset 7 to 23. Weights in files beside the model are read if they
// are in its folder. FormatError for a damaged file, for an operator, an attribute or a type that
// is not supported (naming the node), and for a graph whose nodes do not fit together.
OnnxModel load_onnx(const std::filesystem::path& path);

}  // namespace extensor

EXTENSOR_END_API
