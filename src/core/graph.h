// The graph of recorded calls: which function made a tensor, and how a gradient flows back through
// it. dispatch() in ops/op.h records ops; record() below is for functions that are not ops.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/context.h"
#include "extensor/tensor.h"

namespace extensor::detail {

// A list of fixed length, stored inline up to N elements.
template <class T, std::size_t N>
class FixedList {
 public:
  FixedList() = default;
  explicit FixedList(std::size_t size) : size_(size) {
    if (size > N) heap_ = std::make_unique<T[]>(size);
  }
  FixedList(FixedList&& other) noexcept = default;
  FixedList& operator=(FixedList&& other) noexcept = default;

  std::size_t size() const { return size_; }
  T* data() { return size_ > N ? heap_.get() : inline_.data(); }
  const T* data() const { return size_ > N ? heap_.get() : inline_.data(); }
  T& operator[](std::size_t k) { return data()[k]; }
  const T& operator[](std::size_t k) const { return data()[k]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  std::array<T, N> inline_;
  std::unique_ptr<T[]> heap_;
  std::size_t size_ = 0;
};

// One gradient for each input, or output, of a function; an undefined one stands for zeros.
class Gradients : public FixedList<Tensor, 3> {
 public:
  using FixedList::FixedList;
  Gradients(Tensor only) : FixedList(1) { (*this)[0] = std::move(only); }  // NOLINT: implicit
  Gradients(std::initializer_list<Tensor> list) : FixedList(list.size()) {
    std::copy(list.begin(), list.end(), begin());
  }
  Gradients(std::pair<Tensor, Tensor> pair) : FixedList(2) {  // NOLINT: implicit
    (*this)[0] = std::move(pair.first);
    (*this)[1] = std::move(pair.second);
  }
  Gradients(std::vector<Tensor> list) : FixedList(list.size()) {  // NOLINT: implicit
    std::move(list.begin(), list.end(), begin());
  }
};

// The destination of an input's gradient: output `output` of the node that made the input.
struct Edge {
  NodePointer node;  // null: the gradient is not needed
  std::uint32_t output = 0;
  DType dtype = DType::float32;  // of the input, and so of its gradient
};

using Hook = std::function<Tensor(const Tensor& gradient)>;

// Data that only few nodes have for their outputs.
struct NodeExtras {
  struct OutputHook {
    std::uint32_t output;
    std::size_t id;
    Hook hook;
  };
  std::vector<OutputHook> hooks;
  std::size_t next_id = 0;
  std::vector<std::pair<std::uint32_t, Tensor>> retained;  // gradients that retain_grad asked for
};

// One recorded call: the nodes that made its inputs, and its gradient. Immutable except during a
// backward walk, which holds the lock.
class Node {
 public:
  Node(const char* name, std::size_t inputs, std::uint32_t outputs)
      : name_(name), outputs_(outputs), edges_(inputs) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node() = default;

  const char* name() const { return name_; }
  std::uint32_t outputs() const { return outputs_; }
  FixedList<Edge, 3>& edges() { return edges_; }
  const FixedList<Edge, 3>& edges() const { return edges_; }
  virtual bool is_leaf() const { return false; }
  // The call as text: "softmax(axis=1)".
  virtual std::string describe() const { return name_; }

  // Whether the backward reaches tensors other than the inputs, so that a walk cannot see from the
  // edges what depends on them.
  virtual bool has_hidden_inputs() const { return false; }

  // Whether the gradient of input k is needed.
  bool needs(std::size_t k) const {
    return edges_[k].node.get() != nullptr && (k >= 64 || (wanted >> k & 1) != 0);
  }

  // Returns the gradients of the inputs; those that are not needed may be undefined.
  virtual Gradients backward(Gradients& grad_outputs) = 0;
  // Releases everything kept for the backward.
  virtual void drop() {}

  NodeExtras& extras() {
    if (extras_ == nullptr) extras_ = std::make_unique<NodeExtras>();
    return *extras_;
  }
  NodeExtras* extras_or_null() { return extras_.get(); }

  bool dropped = false;
  const bool allow_tf32 = context.allow_tf32;  // its backward computes products likewise
  std::atomic<const void*> runner{nullptr};    // the thread that runs this node; one at a time
  Node* next_dead = nullptr;

  // The inputs of the running node whose gradients the walk on this thread needs.
  static constinit thread_local std::uint64_t wanted;
  // Whether that walk drops the node afterwards, so that its backward may reuse saved memory.
  static constinit thread_local bool dropping;

 private:
  friend void retain(Node*) noexcept;
  friend void release(Node*) noexcept;

  std::atomic<std::uint32_t> references_{0};
  const char* name_;
  std::uint32_t outputs_;
  FixedList<Edge, 3> edges_;
  std::unique_ptr<NodeExtras> extras_;
};

// A tensor for which the user requested a gradient.
class LeafNode final : public Node {
 public:
  LeafNode() : Node("leaf", 0, 1) {}
  bool is_leaf() const override { return true; }
  Gradients backward(Gradients&) override { return Gradients(std::size_t{0}); }

  Tensor grad;
};

// ---- recording

inline bool tracked(const Tensor& x) {
  const TensorImpl* impl = x.impl_or_null();
  return impl != nullptr && node_of(*impl) != nullptr;
}
inline bool tracked(std::span<const Tensor> list) {
  for (const Tensor& x : list) {
    if (tracked(x)) return true;
  }
  return false;
}

// Whether a function of these tensors, or lists of tensors, must be recorded.
template <class... Inputs>
bool records(const Inputs&... inputs) {
  return (tracked(inputs) || ...) && recording_enabled();
}

template <class Function>
auto unrecorded(const Function& function) {
  const RecordingScope off(false);
  return function();
}

// An input kept for the backward. A view is kept without its base: the base's node may come to
// depend on the node that keeps the view, and would then own itself.
class Saved {
 public:
  Saved() = default;
  Saved(Tensor tensor)  // NOLINT: implicit, a capture is `x = Saved(x)`
      : tensor_(std::move(tensor)), version_(version_of(tensor_)) {
    if (tensor_.defined() && tensor_.impl().base.get() != nullptr) tensor_ = without_base(tensor_);
  }
  // The saved tensor, unchanged. ValueError if it has been written to since.
  const Tensor& get(const Node& node) const {
    if (version_of(tensor_) != version_) throw_changed(node);
    return tensor_;
  }

 private:
  friend class SavedResult;
  static std::uint64_t version_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.impl().storage->version.load(std::memory_order_relaxed) : 0;
  }
  static Tensor without_base(const Tensor& view);
  [[noreturn]] void throw_changed(const Node& node) const;

  Tensor tensor_;
  std::uint64_t version_ = 0;
};

// A result kept for the backward, without its node: the node would own itself otherwise.
class SavedResult {
 public:
  SavedResult() = default;
  explicit SavedResult(const Tensor& result, std::uint32_t output = 0);
  // The result, as made by `node`.
  Tensor get(Node& node) const;

 private:
  Saved plain_;
  std::uint32_t output_ = 0;
};

template <class Function>
class FunctionNode final : public Node {
 public:
  FunctionNode(const char* name, std::size_t inputs, std::uint32_t outputs, Function function)
      : Node(name, inputs, outputs), function_(std::move(function)) {}

  // A dropped node is not run. NOLINTBEGIN(bugprone-unchecked-optional-access)
  Gradients backward(Gradients& g) override {
    if constexpr (std::is_invocable_v<Function&, const Tensor&, Node&>) {
      return (*function_)(g[0], *this);
    } else if constexpr (std::is_invocable_v<Function&, const Tensor&>) {
      return (*function_)(g[0]);
    } else {
      return (*function_)(g, *this);
    }
  }
  // NOLINTEND(bugprone-unchecked-optional-access)
  void drop() override { function_.reset(); }

 private:
  std::optional<Function> function_;
};

using Inputs = std::initializer_list<std::reference_wrapper<const Tensor>>;

// Connects a new `node` to the makers of its inputs and to its result. A result that is also an
// input stays unchanged. ValueError, naming the node, for an input whose memory was changed through
// another tensor.
void link(Node& node, std::size_t input, const Tensor& x);
Tensor adopt(NodePointer node, Tensor result, std::uint32_t output = 0);
bool is_one_of(const Tensor& result, Inputs inputs);

// Records `result` as computed by a function of `inputs`. backward(g), or backward(g, node) if it
// reads saved tensors, returns the gradients of the inputs.
template <class Backward>
Tensor record(const char* name, Inputs inputs, Tensor result, Backward backward) {
  if (is_one_of(result, inputs)) return result;
  NodePointer node(new FunctionNode<Backward>(name, inputs.size(), 1, std::move(backward)));
  std::size_t k = 0;
  for (const Tensor& x : inputs) link(*node, k++, x);
  return adopt(std::move(node), std::move(result));
}
// Runs a linear function without recording it; its gradient is backward(g).
template <class Forward, class Backward, class... X>
Tensor recorded_linear(const char* name, const Forward& forward, Backward backward,
                       const X&... inputs) {
  return record(name, {inputs...}, unrecorded(forward), std::move(backward));
}

// ---- views and writes in place

// The tensor that `impl` is a view of, or `impl` itself. A base whose memory was replaced
// (replace_elements) no longer has views.
inline TensorImpl& root_of(TensorImpl& impl) {
  TensorImpl* base = impl.base.get();
  return base != nullptr && base->storage.get() == impl.storage.get() ? *base : impl;
}
inline const TensorImpl& root_of(const TensorImpl& impl) {
  return root_of(const_cast<TensorImpl&>(impl));
}

// Registers `view`, newly made on the memory of x and recorded if x is, as a view of x. From then
// on, a write into either changes the history of both.
inline Tensor as_view_of(const Tensor& x, Tensor view) {
  TensorImpl& impl = view.impl();
  if (!is_differentiable(impl.dtype)) return view;
  const TensorImpl& from = x.impl();
  const TensorImpl& root = root_of(from);
  impl.base = BasePointer(const_cast<TensorImpl*>(&root));
  impl.made_without_grad = !recording_enabled() || (from.made_without_grad && &root != &from);
  impl.history.store(root.history.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return view;
}

// Marks the views of `root` as out of date after its node was replaced.
inline void count_change(TensorImpl& root) {
  root.history.store(root.history.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Detaches x from its base; it keeps its current history.
inline void forget_base(TensorImpl& x) {
  if (x.base.get() == nullptr) return;
  x.base = {};
  x.made_without_grad = false;
}

// Whether no other tensor can reach the memory of x, so that it may be reused.
bool is_unshared(const Tensor& x);

// A write in place has four steps:
//
//   const bool rewrites = recorded || has_history(x);
//   if (rewrites) check_in_place(operation, x);
//   …                                               // makes the node, where recorded, and writes
//   wrote(x);
//   if (rewrites) rewrite_history(x, node);

// Whether a write to x changes a history, even if the write itself is not recorded.
inline bool has_history(const Tensor& x) {
  return recording_enabled() && root_of(x.impl()).node.get() != nullptr;
}
// ValueError if x is a leaf that requires a gradient or a view of one, a view made under NoGrad, or
// a view of a tensor that overlaps itself.
void check_in_place(const char* operation, Tensor& x);
// Counts a write.
inline void wrote(const Tensor& x) {
  auto& impl = const_cast<TensorImpl&>(x.impl());
  const std::uint64_t version = ++impl.storage->version;
  // Threads may write into different views of an untracked tensor at once.
  TensorImpl& root = root_of(impl);
  if (root.node.get() != nullptr) root.recorded_version = version;
}
// Makes the elements of x output 0 of `writer`, or constants if `writer` is null.
void rewrite_history(Tensor& x, NodePointer writer);

}  // namespace extensor::detail
