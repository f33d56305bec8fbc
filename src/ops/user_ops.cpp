#include "extensor/user_ops.h"

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/chunks.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;
using expression::Dual;
using expression::Value;

DType promoted(const char* name, std::span<const Tensor> inputs) {
  DType common = inputs[0].dtype();
  for (const Tensor& input : inputs) common = promote_types(common, input.dtype(), name);
  return is_floating_point(common) ? common : default_float;
}

Shape broadcast(const char* name, std::span<const Tensor> inputs) {
  const std::vector<ops::Source> sources(inputs.begin(), inputs.end());
  return ops::broadcast_inputs(name, sources);
}

}  // namespace

// ---- from a formula
// --------------------------------------------------------------------------------

Tensor detail::evaluate_user_op(const char* name, std::span<const Tensor> inputs,
                                const ValueFunction& function) {
  const DType dtype = promoted(name, inputs);
  const DType outputs[] = {dtype};
  const ops::ChunkedCall call{name,    broadcast(name, inputs),   inputs,
                              outputs, ops::compute_dtype(dtype), default_eps};
  return ops::evaluate_in_chunks(call, [&](std::span<const Value> in, std::span<Value> out) {
    out[0] = function(in.data());
  })[0];
}

std::vector<Tensor> detail::differentiate_user_op(const char* name, const Tensor& grad_output,
                                                  std::span<const Tensor> inputs,
                                                  const DualFunction& function) {
  const std::string operation = message(name, ".backward");
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    ops::check_float(operation.c_str(), message("input ", k).c_str(), inputs[k]);
  }
  const Shape shape = broadcast(operation.c_str(), inputs);
  ops::check_grad_output(operation.c_str(), grad_output, shape);
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  all.push_back(grad_output);
  const DType compute = ops::compute_dtype(promoted(operation.c_str(), all));
  // Summed before it is rounded, where there is something to sum.
  std::vector<DType> dtypes;
  for (const Tensor& input : inputs) {
    dtypes.push_back(input.shape() == shape ? input.dtype() : compute);
  }
  const ops::ChunkedCall call{operation.c_str(), shape, all, dtypes, compute, default_eps};
  std::vector<Tensor> gradients =
      ops::evaluate_in_chunks(call, [&](std::span<const Value> in, std::span<Value> out) {
        // One direction at a time: along input k, as fast as grad_output says.
        for (std::size_t k = 0; k < out.size(); ++k) {
          std::vector<Dual> duals;
          for (std::size_t j = 0; j < out.size(); ++j) {
            duals.emplace_back(in[j], j == k ? in.back() : Value(0));
          }
          out[k] = function(duals.data()).derivative();
        }
      });
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].shape() == shape) continue;
    gradients[k] = reduce_broadcast_dims(gradients[k], inputs[k].shape()).to(inputs[k].dtype());
  }
  return gradients;
}

// ---- from a forward and a backward
// -----------------------------------------------------------------

CustomFunction::CustomFunction(std::string name, Forward forward, Backward backward)
    : name_(std::move(name)), forward_(std::move(forward)), backward_(std::move(backward)) {
  if (!forward_ || !backward_) {
    throw ValueError(
        message("custom_function: ", name_, " has no ", forward_ ? "backward" : "forward"));
  }
}

CustomFunction::Tensors CustomFunction::operator()(const Tensors& inputs) const {
  Tensors outputs = forward_(inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].defined()) continue;
    throw ValueError(message(name_, ": the forward gave no tensor as output ", k));
  }
  return outputs;
}

CustomFunction::Tensors CustomFunction::backward(const Tensors& grad_outputs, const Tensors& inputs,
                                                 const Tensors& outputs) const {
  const std::string operation = message(name_, ".backward");
  if (grad_outputs.size() != outputs.size()) {
    throw ShapeError(message(operation, ": ", grad_outputs.size(), " grad_outputs for ",
                             outputs.size(), " outputs"));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!grad_outputs[k].defined()) continue;  // nothing depends on this output
    ops::check_grad_output(operation.c_str(), grad_outputs[k], outputs[k].shape());
  }
  Tensors gradients = backward_(grad_outputs, inputs, outputs);
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

CustomFunction::Tensors CustomFunction::backward(const Tensors& grad_outputs,
                                                 const Tensors& inputs) const {
  return backward(grad_outputs, inputs, (*this)(inputs));
}

GradcheckResult CustomFunction::gradcheck(const Tensors& inputs,
                                          const GradcheckOptions& options) const {
  // One output: all of them, flattened, one after the other.
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
