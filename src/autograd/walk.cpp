#include "autograd/walk.h"

#include <algorithm>
#include <thread>

#include "autograd/leaf_sink.h"
#include "autograd/node_index.h"
#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/interruption.h"
#include "extensor/reduction.h"

namespace extensor::autograd {

using detail::Edge;
using detail::Gradients;
using detail::LeafNode;
using detail::message;
using detail::Node;

namespace {

// ---- adding gradients

// Whether x has a layout that optimizers and kernels read without a copy.
bool has_format(const Tensor& x) {
  return x.is_contiguous() || x.is_contiguous(MemoryFormat::channels_last);
}

// Whether nothing else refers to this memory, so that it may be overwritten.
bool is_ours_alone(const Tensor& x) { return has_format(x) && detail::is_unshared(x); }

void add_gradient(Tensor& sum, Tensor gradient, bool create_graph) {
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (create_graph) {
    sum = sum + gradient;
  } else if (is_ours_alone(sum)) {
    sum += gradient;
  } else if (is_ours_alone(gradient)) {
    gradient += sum;
    sum = std::move(gradient);
  } else {
    sum = sum + gradient;
  }
}

// The gradient of a leaf persists: it gets separate memory, and later gradients are added in place.
void add_to_leaf(LeafNode& leaf, Tensor gradient, bool create_graph) {
  if (create_graph) {
    leaf.grad = leaf.grad.defined() ? leaf.grad + gradient : gradient;
  } else if (leaf.grad.defined()) {
    leaf.grad += gradient;
  } else if (is_ours_alone(gradient)) {
    detail::forget_base(gradient.impl());
    leaf.grad = std::move(gradient);
  } else {
    leaf.grad =
        gradient.clone(has_format(gradient) ? MemoryFormat::preserve : MemoryFormat::contiguous);
  }
}

bool has_nan(const Tensor& x) { return any(isnan(x)).item<bool>(); }

constinit thread_local const char this_thread = 0;  // its address identifies the thread

class Lock {
 public:
  Lock(const char* operation, Node& node) : node_(node) {
    const void* runner = nullptr;
    while (!node_.runner.compare_exchange_weak(runner, &this_thread, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
      if (runner == &this_thread) {
        throw ValueError(message(operation, ": the backward of ", node.name(),
                                 " walks the graph that it is part of (detach() its inputs and "
                                 "outputs first)"));
      }
      runner = nullptr;
      std::this_thread::yield();
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { node_.runner.store(nullptr, std::memory_order_release); }

 private:
  Node& node_;
};

// ---- the walk

constexpr std::uint32_t none = UINT32_MAX;

struct Stop {
  Node* node;
  std::uint32_t first_edge;  // index in Walk::targets_
  bool wanted = true;        // this node or one it depends on was requested
  bool last = false;         // the walk ends here
  std::uint32_t captures = 0;
  Gradients gradients = {};
};

// A requested gradient and where to store it.
struct Capture {
  std::uint32_t stop;
  std::uint32_t output;
  std::size_t input;
};

class Walk {
 public:
  Walk(const char* operation, const WalkOptions& options)
      : operation_(operation), options_(options), recording_(options.create_graph) {}

  // The walk of this thread whose node is running.
  static Walk& running() { return *running_; }
  static bool is_outermost() { return running_ == nullptr; }

  const WalkOptions& options() const { return options_; }
  // The tensors at which the walk ends, and the requested ones (null if leaves accumulate grad()).
  // The results are their gradients, in this order.
  const std::vector<Tensor>& ends() const { return ends_; }
  const std::vector<Tensor>* asked() const { return asked_; }
  void add_result(std::size_t k, Tensor gradient) {
    add_gradient(results_[k], std::move(gradient), options_.create_graph);
  }

  // Ends the walk at these tensors and captures their gradients. Must precede plan().
  void end_at(std::vector<Tensor> ends) {
    ends_ = std::move(ends);
    for (const Tensor& end : ends_) {
      Node* node = detail::node_of(end.impl());
      if (node == nullptr || !index_.insert(node, none)) continue;
      append(node);
      stops_.back().last = true;
      std::fill(targets_.begin() + stops_.back().first_edge, targets_.end(), none);
    }
    capture_at(ends_);
  }

  void plan(std::span<const Tensor> outputs) {
    for (const Tensor& output : outputs) visit(detail::node_of(output.impl()));
  }

  void ask_for(const std::vector<Tensor>& inputs) {
    for (Stop& stop : stops_) stop.wanted = stop.captures > 0 || stop.node->has_hidden_inputs();
    asked_ = &inputs;
    capture_at(inputs);
    // Inputs precede the nodes computed from them.
    for (Stop& stop : stops_) {
      const std::size_t edges = stop.node->edges().size();
      for (std::size_t k = 0; k < edges && !stop.wanted; ++k) {
        const std::uint32_t target = targets_[stop.first_edge + k];
        stop.wanted = target != none && stops_[target].wanted;
      }
    }
  }

  void give(const Tensor& output, Tensor gradient) {
    add(index_.find(detail::node_of(output.impl())), output.impl().output, std::move(gradient));
  }

  std::vector<Tensor> run() {
    for (std::size_t k = stops_.size(); k-- > 0;) {
      Stop& stop = stops_[k];
      if (!stop.wanted || stop.gradients.size() == 0) continue;
      if (!stop.node->is_leaf()) detail::check_interruption();
      if (stop.captures > 0 || stop.node->extras_or_null() != nullptr) separate(stop.gradients);
      if (stop.node->extras_or_null() != nullptr) call_hooks(stop);
      if (stop.captures > 0) capture(static_cast<std::uint32_t>(k));
      if (stop.last) continue;
      if (stop.node->is_leaf()) {
        if (asked_ != nullptr) continue;
        const Lock lock(operation_, *stop.node);
        if (const auto sink = find_leaf_sink(*stop.node)) {
          (*sink)(stop.gradients[0], options_.create_graph);
        } else {
          add_to_leaf(static_cast<LeafNode&>(*stop.node), std::move(stop.gradients[0]),
                      options_.create_graph);
        }
      } else {
        pass(stop);
      }
      stop.gradients = Gradients();
    }
    return std::move(results_);
  }

 private:
  struct Frame {
    Node* node;
    std::size_t next;
  };

  // Adds one result per input: its gradient if the walk reaches it.
  void capture_at(const std::vector<Tensor>& inputs) {
    for (const Tensor& input : inputs) {
      const std::size_t result = results_.size();
      results_.emplace_back();
      Node* node = detail::node_of(input.impl());
      const std::uint32_t at = node == nullptr ? none : index_.find(node);
      if (at == none) continue;
      captures_.push_back({at, input.impl().output, result});
      ++stops_[at].captures;
      stops_[at].wanted = true;
    }
  }

  // Appends the node after everything it depends on, without recursion. Leaves come right before
  // the node, so that in the backward their gradients are complete as early as possible.
  void visit(Node* root) {
    if (!index_.insert(root, none)) return;
    std::vector<Frame> path{{root, 0}};
    while (!path.empty()) {
      Frame& frame = path.back();
      auto& edges = frame.node->edges();
      Node* deeper = nullptr;
      while (frame.next < edges.size() && deeper == nullptr) {
        Node* next = edges[frame.next++].node.get();
        if (next != nullptr && !next->is_leaf() && index_.insert(next, none)) deeper = next;
      }
      if (deeper != nullptr) {
        path.push_back({deeper, 0});
        continue;
      }
      for (const Edge& edge : edges) {
        Node* leaf = edge.node.get();
        if (leaf != nullptr && leaf->is_leaf() && index_.insert(leaf, none)) append(leaf);
      }
      append(frame.node);
      path.pop_back();
    }
  }

  void append(Node* node) {
    index_.set(node, static_cast<std::uint32_t>(stops_.size()));
    stops_.push_back({.node = node, .first_edge = static_cast<std::uint32_t>(targets_.size())});
    for (const Edge& edge : node->edges()) {
      targets_.push_back(edge.node.get() == nullptr ? none : index_.find(edge.node.get()));
    }
  }

  void add(std::uint32_t at, std::uint32_t output, Tensor gradient) {
    Stop& stop = stops_[at];
    if (stop.gradients.size() == 0) stop.gradients = Gradients(std::size_t{stop.node->outputs()});
    add_gradient(stop.gradients[output], std::move(gradient), options_.create_graph);
  }

  // Copies gradients whose elements share one place, as those of sums do: hooks and callers may
  // write to theirs and read its data.
  static void separate(Gradients& gradients) {
    for (Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;
      for (std::size_t d = 0; d < gradient.shape().size(); ++d) {
        if (gradient.strides()[d] != 0 || gradient.shape()[d] == 1) continue;
        gradient = gradient.clone();
        break;
      }
    }
  }

  void call_hooks(Stop& stop) {
    detail::NodeExtras& extras = *stop.node->extras_or_null();
    // A copy: a hook may remove itself.
    const auto hooks = extras.hooks;
    for (const auto& [output, id, hook] : hooks) {
      Tensor& gradient = stop.gradients[output];
      if (!gradient.defined()) continue;
      const Tensor other = hook(gradient);
      if (!other.defined()) continue;
      if (!(other.shape() == gradient.shape()) || other.dtype() != gradient.dtype()) {
        throw ShapeError(message(operation_, ": a hook gave a gradient of shape ", other.shape(),
                                 " and dtype ", other.dtype(), ", must be ", gradient.shape(),
                                 " and ", gradient.dtype()));
      }
      gradient = other;
    }
    if (asked_ != nullptr) return;
    for (auto& [output, kept] : extras.retained) {
      if (stop.gradients[output].defined()) {
        add_gradient(kept, stop.gradients[output], options_.create_graph);
      }
    }
  }

  void capture(std::uint32_t at) {
    for (const Capture& each : captures_) {
      const Tensor& gradient = stops_[at].gradients[each.output];
      if (each.stop == at && gradient.defined()) add_result(each.input, gradient);
    }
  }

  // Runs the backward of the node and distributes its gradients.
  void pass(Stop& stop) {
    Node& node = *stop.node;
    const std::size_t inputs = node.edges().size();
    std::uint64_t wanted = 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      const std::uint32_t target = targets_[stop.first_edge + k];
      if (k < 64 && target != none && stops_[target].wanted) wanted |= std::uint64_t{1} << k;
    }
    if (wanted == 0 && inputs <= 64 && !node.has_hidden_inputs()) return;
    Gradients gradients = run_node(node, stop.gradients, wanted);
    if (gradients.size() != inputs) {
      throw ValueError(message(node.name(), ": its backward gave ", gradients.size(),
                               " gradients for ", inputs, " inputs"));
    }
    if (detail::context.result_check == refuse_nan) look_for_nan(node, gradients);
    for (std::size_t k = 0; k < inputs; ++k) {
      const std::uint32_t target = targets_[stop.first_edge + k];
      if (target == none || !stops_[target].wanted || !gradients[k].defined()) continue;
      add(target, node.edges()[k].output, std::move(gradients[k]));
    }
  }

  Gradients run_node(Node& node, Gradients& grad_outputs, std::uint64_t wanted) {
    const Lock lock(operation_, node);
    if (node.dropped) {
      throw ValueError(message(operation_, ": what ", node.name(),
                               " saved for its gradient is gone: the graph was walked before "
                               "(retain_graph keeps it)"));
    }
    struct Wanted {
      std::uint64_t before;
      bool dropping;
      ~Wanted() {
        Node::wanted = before;
        Node::dropping = dropping;
      }
    } restore{std::exchange(Node::wanted, wanted),
              std::exchange(Node::dropping, !options_.retain_graph)};
    struct Running {
      Walk* before;
      ~Running() { running_ = before; }
    } restore_walk{std::exchange(running_, this)};
    const detail::TF32Scope as_recorded(node.allow_tf32);
    Gradients gradients = node.backward(grad_outputs);
    if (!options_.retain_graph) {
      node.drop();
      node.dropped = true;
    }
    return gradients;
  }

  static void look_for_nan(const Node& node, const Gradients& gradients) {
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      if (!gradients[k].defined() || !has_nan(gradients[k])) continue;
      throw ValueError(message("backward: the gradient of input ", k, " of ", node.name(),
                               ", of shape ", gradients[k].shape(), ", has a NaN"));
    }
  }

  const char* operation_;
  WalkOptions options_;
  detail::RecordingScope recording_;
  detail::AutocastScope as_recorded_{std::nullopt};  // the forward chose the dtypes
  NodeIndex index_;
  std::vector<Stop> stops_;             // every node follows those it depends on
  std::vector<std::uint32_t> targets_;  // targets of all edges, in the order of stops_
  std::vector<Tensor> ends_;
  const std::vector<Tensor>* asked_ = nullptr;
  std::vector<Capture> captures_;
  std::vector<Tensor> results_;

  static constinit thread_local Walk* running_;
};

constinit thread_local Walk* Walk::running_ = nullptr;

}  // namespace

void refuse_nan(const Node& node, const Tensor& result) {
  const detail::RecordingScope off(false);
  if (!has_nan(result)) return;
  throw ValueError(message(node.name(), ": the result, of shape ", result.shape(),
                           ", has a NaN, the first since AnomalyMode began"));
}

std::vector<Tensor> walk_back(const char* operation, std::span<const Tensor> outputs,
                              std::span<const Tensor> grad_outputs,
                              const std::vector<Tensor>* inputs, const WalkOptions& options) {
  Walk walk(operation, options);
  walk.plan(outputs);
  if (inputs != nullptr) walk.ask_for(*inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) walk.give(outputs[k], grad_outputs[k]);
  std::vector<Tensor> results;
  try {
    results = walk.run();
  } catch (...) {
    if (Walk::is_outermost()) run_end_of_walk(false);
    throw;
  }
  if (Walk::is_outermost()) run_end_of_walk(true);
  return results;
}

std::vector<Tensor> walk_nested(const char* operation, std::span<const Tensor> outputs,
                                std::span<const Tensor> grad_outputs,
                                const std::vector<Tensor>& inputs) {
  Walk& outer = Walk::running();
  Walk walk(operation, {outer.options().create_graph, outer.options().create_graph});
  // A function may hold the inputs of the function that calls it.
  std::vector<Tensor> ends = inputs;
  ends.insert(ends.end(), outer.ends().begin(), outer.ends().end());
  walk.end_at(std::move(ends));
  walk.plan(outputs);
  if (outer.asked() != nullptr) walk.ask_for(*outer.asked());
  for (std::size_t k = 0; k < outputs.size(); ++k) walk.give(outputs[k], grad_outputs[k]);
  std::vector<Tensor> results = walk.run();
  for (std::size_t k = inputs.size(); k < results.size(); ++k) {
    if (results[k].defined()) outer.add_result(k - inputs.size(), std::move(results[k]));
  }
  results.resize(inputs.size());
  return results;
}

std::vector<Tensor> first_gradients(const char* operation, std::span<const Tensor> outputs,
                                    std::span<const Tensor> given) {
  if (!given.empty() && given.size() != outputs.size()) {
    throw ValueError(message(operation, ": ", given.size(), " gradients were given for ",
                             outputs.size(), " outputs"));
  }
  std::vector<Tensor> gradients;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Tensor& output = outputs[k];
    if (!output.requires_grad()) {
      throw ValueError(message(operation, ": output ", k, ", of shape ", output.shape(),
                               ", was not computed from a tensor that requires a gradient "
                               "(requires_grad_() asks for one)"));
    }
    if (!given.empty() && given[k].defined()) {
      const Tensor& gradient = given[k];
      if (!(gradient.shape() == output.shape())) {
        throw ShapeError(message(operation, ": the gradient of output ", k, " is ",
                                 gradient.shape(), ", the output is ", output.shape()));
      }
      if (gradient.dtype() != output.dtype()) {
        throw DTypeError(message(operation, ": the gradient of output ", k, " is ",
                                 gradient.dtype(), ", the output is ", output.dtype()));
      }
      gradients.push_back(gradient);
    } else if (output.numel() == 1) {
      if (is_complex(output.dtype())) {
        throw DTypeError(message(operation, ": output ", k, " is ", output.dtype(),
                                 ": a gradient must be given unless it is a real number"));
      }
      gradients.push_back(ones_like(output));
    } else {
      throw ShapeError(message(operation, ": output ", k, " is ", output.shape(),
                               ": a gradient must be given unless it is one number"));
    }
  }
  return gradients;
}

}  // namespace extensor::autograd
