// Lets other code take the gradients of leaves as soon as they are complete, before the rest of the
// backward pass has run: data-parallel training sends them to other processes meanwhile.
#pragma once

#include <functional>
#include <memory>

#include "core/graph.h"

namespace extensor::autograd {

// Called in place of adding the gradient to grad(), with the sum of what one walk has for the leaf;
// several times in a walk that recomputes parts (checkpoint()) in which the leaf is used.
using LeafSink = std::function<void(const Tensor& gradient, bool create_graph)>;

// ValueError, naming `operation`, unless the tensor is a leaf that requires a gradient and has no
// sink yet. Returns the node to remove it by: the tensor forgets it if it is frozen meanwhile.
detail::NodePointer set_leaf_sink(const char* operation, const Tensor& leaf, LeafSink sink);
void remove_leaf_sink(const detail::Node& leaf);

// Called from a sink: runs the function when the outermost walk of this thread has ended, with
// false if it ended by an exception.
void at_end_of_walk(std::function<void(bool completed)> function);

// For walks. Null if the leaf has no sink.
std::shared_ptr<const LeafSink> find_leaf_sink(const detail::Node& leaf);
void run_end_of_walk(bool completed);

}  // namespace extensor::autograd
