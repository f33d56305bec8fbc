// Going back through a recorded graph.
#pragma once

#include <span>
#include <vector>

#include "core/graph.h"

namespace extensor::autograd {

struct WalkOptions {
  bool retain_graph = false;
  bool create_graph = false;
};

// A walk from `outputs`, which require gradients, with their gradients.
// Without `inputs` the gradients of leaves are added to their grad(); otherwise they are given
// back, one for each input, undefined where no output depends on it.
std::vector<Tensor> walk_back(const char* operation, std::span<const Tensor> outputs,
                              std::span<const Tensor> grad_outputs,
                              const std::vector<Tensor>* inputs, const WalkOptions& options);

// From within the backward of a node: a walk through a graph that the backward has just recorded
// from `inputs`. It ends at the inputs and gives back their gradients, undefined where no output
// depends on an input. Other tensors that the graph reaches are treated as the walk that runs the
// node treats them: leaves get their grad(), or tensors that were asked for get their gradient.
std::vector<Tensor> walk_nested(const char* operation, std::span<const Tensor> outputs,
                                std::span<const Tensor> grad_outputs,
                                const std::vector<Tensor>& inputs);

// The gradients to begin with: those given, or 1. ShapeError, DTypeError, ValueError.
std::vector<Tensor> first_gradients(const char* operation, std::span<const Tensor> outputs,
                                    std::span<const Tensor> given);

// A ResultCheck: ValueError, naming the node, where its result has a NaN.
void refuse_nan(const detail::Node& node, const Tensor& result);

}  // namespace extensor::autograd
