// The backward pass through a recorded graph.
#pragma once

#include <span>
#include <vector>

#include "core/graph.h"

namespace extensor::autograd {

struct WalkOptions {
  bool retain_graph = false;
  bool create_graph = false;
};

// Walks back from `outputs`, which require gradients, with their gradients. Without `inputs`, adds
// the gradients of leaves to their grad(). Otherwise returns one gradient per input, undefined if
// no output depends on it.
std::vector<Tensor> walk_back(const char* operation, std::span<const Tensor> outputs,
                              std::span<const Tensor> grad_outputs,
                              const std::vector<Tensor>* inputs, const WalkOptions& options);

// Called from the backward of a node: walks a graph that the backward has just recorded from
// `inputs`. The walk ends at the inputs and returns their gradients, undefined if no output depends
// on an input. Other tensors that the graph reaches are treated as in the walk that runs the node:
// leaves accumulate grad(), or requested tensors get their gradient.
std::vector<Tensor> walk_nested(const char* operation, std::span<const Tensor> outputs,
                                std::span<const Tensor> grad_outputs,
                                const std::vector<Tensor>& inputs);

// The initial gradients: those given, or 1. Throws ShapeError, DTypeError or ValueError.
std::vector<Tensor> first_gradients(const char* operation, std::span<const Tensor> outputs,
                                    std::span<const Tensor> given);

// A ResultCheck: throws a ValueError that names the node if its result contains NaN.
void refuse_nan(const detail::Node& node, const Tensor& result);

}  // namespace extensor::autograd
