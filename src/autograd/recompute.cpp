// checkpoint(): recomputes the intermediate results of a function for its gradient.
#include "autograd/walk.h"
#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/random.h"

namespace extensor {

using detail::Gradients;
using detail::message;
using detail::Node;
using detail::Saved;

namespace {

// Restores the default generator, even if the function throws.
class RewoundGenerator {
 public:
  explicit RewoundGenerator(const RandomState& state) : now_(default_generator().state()) {
    default_generator().set_state(state);
  }
  RewoundGenerator(const RewoundGenerator&) = delete;
  RewoundGenerator& operator=(const RewoundGenerator&) = delete;
  ~RewoundGenerator() { default_generator().set_state(now_); }

 private:
  RandomState now_;
};

// Calls the function again under the modes of the first call, and runs its backward.
class RecomputeNode final : public Node {
 public:
  RecomputeNode(TensorFunction function, const std::vector<Tensor>& inputs, std::size_t outputs,
                const RandomState& random)
      : Node("checkpoint", inputs.size(), static_cast<std::uint32_t>(outputs)),
        function_(std::move(function)),
        inputs_(inputs.begin(), inputs.end()),
        random_(random),
        modes_(detail::context) {
    for (std::size_t k = 0; k < inputs.size(); ++k) detail::link(*this, k, inputs[k]);
  }

  // The function may hold parameters.
  bool has_hidden_inputs() const override { return true; }

  Gradients backward(Gradients& grad_outputs) override {
    std::vector<Tensor> inputs, outputs;
    {
      const EnableGrad recording;
      for (const Saved& input : inputs_) inputs.push_back(again(input.get(*this)));
      outputs = call_again(inputs);
    }
    check(outputs, grad_outputs);
    std::vector<Tensor> made, gradients;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (!grad_outputs[k].defined() || !outputs[k].requires_grad()) continue;
      made.push_back(outputs[k]);
      gradients.push_back(grad_outputs[k]);
    }
    if (made.empty()) return Gradients(inputs.size());
    return autograd::walk_nested("checkpoint", made, gradients, inputs);
  }
  void drop() override {
    function_ = nullptr;
    inputs_.clear();
  }

 private:
  // The input as the start of a separate graph, still connected to its history for second
  // derivatives.
  static Tensor again(const Tensor& input) {
    if (!input.requires_grad()) return input.detach();
    return detail::record("checkpoint_input", {input}, input.detach(),
                          [](const Tensor& g) { return g; });
  }

  std::vector<Tensor> call_again(const std::vector<Tensor>& inputs) const {
    const RewoundGenerator random(random_);
    const detail::ContextScope modes(modes_);
    return function_(inputs);
  }

  // Throws ValueError unless the outputs match those of the first call, whose gradients are given.
  static void check(const std::vector<Tensor>& outputs, const Gradients& gradients) {
    if (outputs.size() != gradients.size()) {
      throw ValueError(message("checkpoint: the function gave ", outputs.size(),
                               " outputs when it was called again, ", gradients.size(),
                               " at first (allowed: the same)"));
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (!gradients[k].defined()) continue;
      if (outputs[k].defined() && outputs[k].shape() == gradients[k].shape() &&
          outputs[k].dtype() == gradients[k].dtype()) {
        continue;
      }
      const std::string got = outputs[k].defined() ? message("of shape ", outputs[k].shape(),
                                                             " and dtype ", outputs[k].dtype())
                                                   : "undefined";
      throw ValueError(message("checkpoint: output ", k, " is ", got,
                               " when the function is called again; it was of shape ",
                               gradients[k].shape(), " and dtype ", gradients[k].dtype(),
                               " at first (allowed: the same)"));
    }
  }

  TensorFunction function_;
  std::vector<Saved> inputs_;
  RandomState random_;
  detail::Context modes_;  // of the first call
};

}  // namespace

std::vector<Tensor> checkpoint(const TensorFunction& function, const std::vector<Tensor>& inputs) {
  if (!is_grad_enabled()) return function(inputs);
  const RandomState random = default_generator().state();
  std::vector<Tensor> results = detail::unrecorded([&] { return function(inputs); });
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!results[k].defined()) {
      throw ValueError(message("checkpoint: the function gave no tensor as output ", k));
    }
    results[k] = results[k].detach();
  }
  // Always record: the function may hold parameters that require gradients.
  const detail::NodePointer node(new RecomputeNode(function, inputs, results.size(), random));
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!is_differentiable(results[k].dtype())) continue;
    results[k] = detail::adopt(node, std::move(results[k]), static_cast<std::uint32_t>(k));
  }
  return results;
}

}  // namespace extensor
