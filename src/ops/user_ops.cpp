#include "extensor/user_ops.h"

#include "core/check.h"
#include "core/graph.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/chunks.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;
using expression::Dual;
using expression::Value;

DType promoted(const char* name, std::span<const Tensor> inputs) {
  DType common = inputs[0].dtype();
  for (const Tensor& input : inputs) {
    ops::check_real(name, "an input", input);
    common = promote_types(common, input.dtype(), name);
  }
  return is_floating_point(common) ? common : default_float;
}

Shape broadcast(const char* name, std::span<const Tensor> inputs) {
  const std::vector<ops::Source> sources(inputs.begin(), inputs.end());
  return ops::broadcast_inputs(name, sources);
}

// A recorded call of a user op. The op may be destroyed before its gradient is computed, so the
// node owns its name and its function.
class UserNode final : public detail::Node {
 public:
  using Function = std::function<detail::Gradients(detail::Gradients&, detail::Node&)>;

  UserNode(std::shared_ptr<const std::string> name, std::size_t inputs, std::size_t outputs,
           Function function)
      : Node(name->c_str(), inputs, static_cast<std::uint32_t>(outputs)),
        name_(std::move(name)),
        function_(std::move(function)) {}

  detail::Gradients backward(detail::Gradients& g) override { return function_(g, *this); }
  void drop() override { function_ = nullptr; }

 private:
  std::shared_ptr<const std::string> name_;
  Function function_;
};

// An output saved for the backward of a custom function. Integer outputs have no history.
class SavedOutput {
 public:
  SavedOutput(const Tensor& output, std::uint32_t k)
      : has_history_(is_differentiable(output.dtype())) {
    if (has_history_) {
      with_history_ = detail::SavedResult(output, k);
    } else {
      plain_ = detail::Saved(output);
    }
  }
  Tensor get(detail::Node& node) const {
    return has_history_ ? with_history_.get(node) : plain_.get(node);
  }

 private:
  bool has_history_;
  detail::SavedResult with_history_;
  detail::Saved plain_;
};

}  // namespace

// ---- ops from a formula

Tensor detail::evaluate_user_op(const char* name, std::span<const Tensor> inputs,
                                const ValueFunction& function) {
  const DType dtype = promoted(name, inputs);
  const DType outputs[] = {dtype};
  const ops::ChunkedCall call{
      name, broadcast(name, inputs), inputs, outputs, ops::compute_dtype(dtype), default_eps, true};
  return ops::evaluate_in_chunks(call, [&](std::span<const Value> in, std::span<Value> out) {
    out[0] = function(in.data());
  })[0];
}

namespace {

// The gradients of the inputs selected by `wants`; the others stay undefined.
template <class Wants>
std::vector<Tensor> differentiated(const char* name, const Tensor& grad_output,
                                   std::span<const Tensor> inputs,
                                   const detail::DualFunction& function, double eps,
                                   const Wants& wants) {
  const std::string operation = message(name, ".backward");
  std::vector<std::size_t> wanted;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!wants(k)) continue;
    ops::check_float(operation.c_str(), message("input ", k).c_str(), inputs[k]);
    wanted.push_back(k);
  }
  const Shape shape = broadcast(operation.c_str(), inputs);
  ops::check_grad_output(operation.c_str(), grad_output, shape);
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  all.push_back(grad_output);
  const DType compute = ops::compute_dtype(promoted(operation.c_str(), all));
  // Sum before rounding if an input was broadcast.
  std::vector<DType> dtypes;
  dtypes.reserve(wanted.size());
  for (std::size_t k : wanted) {
    dtypes.push_back(inputs[k].shape() == shape ? inputs[k].dtype() : compute);
  }
  const ops::ChunkedCall call{operation.c_str(), shape, all, dtypes, compute, eps, true};
  std::vector<Tensor> found =
      ops::evaluate_in_chunks(call, [&](std::span<const Value> in, std::span<Value> out) {
        // One direction at a time: along input wanted[i], with the tangent grad_output.
        for (std::size_t i = 0; i < out.size(); ++i) {
          std::vector<Dual> duals;
          for (std::size_t j = 0; j + 1 < in.size(); ++j) {
            duals.emplace_back(in[j], j == wanted[i] ? in.back() : Value(0));
          }
          out[i] = function(duals.data()).derivative();
        }
      });
  std::vector<Tensor> gradients(inputs.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tensor& input = inputs[wanted[i]];
    gradients[wanted[i]] = input.shape() == shape
                               ? std::move(found[i])
                               : reduce_broadcast_dims(found[i], input.shape()).to(input.dtype());
  }
  return gradients;
}

}  // namespace

std::vector<Tensor> detail::differentiate_user_op(const char* name, const Tensor& grad_output,
                                                  std::span<const Tensor> inputs,
                                                  const DualFunction& function) {
  return differentiated(name, grad_output, inputs, function, default_eps,
                        [](std::size_t) { return true; });
}

bool detail::records_user_op(std::span<const Tensor> inputs) { return records(inputs); }

Tensor detail::record_user_op(const std::string& name, std::span<const Tensor> inputs,
                              const ValueFunction& function, DualFunction dual) {
  Tensor result = unrecorded([&] { return evaluate_user_op(name.c_str(), inputs, function); });
  const std::vector<Saved> saved(inputs.begin(), inputs.end());
  auto backward = [dual = std::move(dual), saved](Gradients& g, Node& node) -> Gradients {
    std::vector<Tensor> read;
    read.reserve(saved.size());
    for (const Saved& input : saved) read.push_back(input.get(node));
    return differentiated(node.name(), g[0], read, dual, ops::gradient_eps(),
                          [&](std::size_t k) { return node.needs(k); });
  };
  NodePointer node(new UserNode(std::make_shared<const std::string>(name), inputs.size(), 1,
                                std::move(backward)));
  for (std::size_t k = 0; k < inputs.size(); ++k) link(*node, k, inputs[k]);
  return adopt(std::move(node), std::move(result));
}

// ---- ops from a forward and a backward

CustomFunction::CustomFunction(std::string name, Forward forward, Backward backward) {
  if (!forward || !backward) {
    throw ValueError(
        message("custom_function: ", name, " has no ", forward ? "backward" : "forward"));
  }
  functions_ = std::make_shared<const Functions>(
      Functions{std::move(name), std::move(forward), std::move(backward)});
}

CustomFunction::Tensors CustomFunction::operator()(const Tensors& inputs) const {
  Tensors outputs = detail::unrecorded([&] { return functions_->forward(inputs); });
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].defined()) continue;
    throw ValueError(message(name(), ": the forward gave no tensor as output ", k));
  }
  if (!detail::recording_enabled()) return outputs;
  const bool recorded = detail::tracked(inputs);
  for (Tensor& output : outputs) {
    // Detach, so that an input or a tensor held elsewhere keeps its history.
    if (recorded || detail::tracked(output)) output = output.detach();
  }
  if (!recorded) return outputs;

  const std::vector<detail::Saved> saved_inputs(inputs.begin(), inputs.end());
  std::vector<SavedOutput> saved_outputs;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    saved_outputs.emplace_back(outputs[k], static_cast<std::uint32_t>(k));
  }
  auto backward = [functions = functions_, saved_inputs, saved_outputs](
                      detail::Gradients& g, detail::Node& node) -> detail::Gradients {
    Tensors given, results, read;
    for (std::size_t k = 0; k < saved_outputs.size(); ++k) {
      results.push_back(saved_outputs[k].get(node));
      const bool has_gradient = is_differentiable(results[k].dtype());
      given.push_back(g[k].defined() || !has_gradient ? g[k] : zeros_like(results[k]));
    }
    for (const detail::Saved& input : saved_inputs) read.push_back(input.get(node));
    return run_backward(*functions, given, read, results);
  };
  const detail::NodePointer node(
      new UserNode(std::shared_ptr<const std::string>(functions_, &functions_->name), inputs.size(),
                   outputs.size(), std::move(backward)));
  for (std::size_t k = 0; k < inputs.size(); ++k) detail::link(*node, k, inputs[k]);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!is_differentiable(outputs[k].dtype())) continue;
    outputs[k] = detail::adopt(node, std::move(outputs[k]), static_cast<std::uint32_t>(k));
  }
  return outputs;
}

CustomFunction::Tensors CustomFunction::run_backward(const Functions& functions,
                                                     const Tensors& grad_outputs,
                                                     const Tensors& inputs,
                                                     const Tensors& outputs) {
  const std::string operation = message(functions.name, ".backward");
  if (grad_outputs.size() != outputs.size()) {
    throw ShapeError(message(operation, ": ", grad_outputs.size(), " grad_outputs for ",
                             outputs.size(), " outputs"));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!grad_outputs[k].defined()) continue;  // nothing depends on this output
    ops::check_grad_output(operation.c_str(), grad_outputs[k], outputs[k].shape());
  }
  Tensors gradients = functions.backward(grad_outputs, inputs, outputs);
  if (gradients.size() != inputs.size()) {
    throw ShapeError(message(operation, ": gave ", gradients.size(), " gradients for ",
                             inputs.size(), " inputs"));
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!gradients[k].defined()) continue;
    if (!(gradients[k].shape() == inputs[k].shape())) {
      throw ShapeError(message(operation, ": the gradient of input ", k, " is ",
                               gradients[k].shape(), ", the input is ", inputs[k].shape()));
    }
    if (gradients[k].dtype() != inputs[k].dtype()) {
      throw DTypeError(message(operation, ": the gradient of input ", k, " is ",
                               gradients[k].dtype(), ", the input is ", inputs[k].dtype()));
    }
  }
  return gradients;
}

CustomFunction::Tensors CustomFunction::backward(const Tensors& grad_outputs, const Tensors& inputs,
                                                 const Tensors& outputs) const {
  return run_backward(*functions_, grad_outputs, inputs, outputs);
}

CustomFunction::Tensors CustomFunction::backward(const Tensors& grad_outputs,
                                                 const Tensors& inputs) const {
  return backward(grad_outputs, inputs, (*this)(inputs));
}

GradcheckResult CustomFunction::gradcheck(const Tensors& inputs,
                                          const GradcheckOptions& options) const {
  // Flatten and concatenate all outputs into one.
  const auto joined = [this](const Tensors& in) {
    Tensors flat;
    for (const Tensor& output : (*this)(in)) flat.push_back(flatten(output).to(float64));
    return concatenate(flat);
  };
  const auto gradients = [this](const Tensor& grad_output, const Tensors& in) {
    const Tensors outputs = (*this)(in);
    Tensors grad_outputs;
    std::int64_t first = 0;
    for (const Tensor& output : outputs) {
      const std::int64_t last = first + output.numel();
      grad_outputs.push_back(grad_output.slice(0, first, last).reshape(output.shape()));
      first = last;
    }
    Tensors result = backward(grad_outputs, in, outputs);
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (!result[k].defined()) result[k] = zeros_like(in[k]);
    }
    return result;
  };
  return extensor::gradcheck(joined, gradients, inputs, options);
}

}  // namespace extensor
