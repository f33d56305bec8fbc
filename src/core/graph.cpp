#include "core/graph.h"

#include "core/check.h"
#include "core/make_tensor.h"

namespace extensor::detail {

constinit thread_local std::uint64_t Node::wanted = ~std::uint64_t{0};

namespace {

constinit thread_local bool recording = true;
constinit thread_local ResultCheck check = nullptr;
// Nodes whose last owner went away while another node was being destroyed: a long graph comes down
// one node after the other, not one inside the other.
constinit thread_local Node* dead = nullptr;
constinit thread_local bool destroying = false;

}  // namespace

void retain(Node* node) noexcept { node->references_.fetch_add(1, std::memory_order_relaxed); }

void release(Node* node) noexcept {
  if (node->references_.load(std::memory_order_acquire) != 1 &&
      node->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  if (destroying) {
    node->next_dead = dead;
    dead = node;
    return;
  }
  destroying = true;
  delete node;
  while (dead != nullptr) {
    Node* next = dead;
    dead = next->next_dead;  // NOLINT: nodes in the list are not freed yet
    delete next;
  }
  destroying = false;
}

bool recording_enabled() { return recording; }
ResultCheck result_check() { return check; }
ResultCheck set_result_check(ResultCheck next) { return std::exchange(check, next); }
bool set_recording(bool enabled) { return std::exchange(recording, enabled); }

void Saved::throw_changed(const Node& node) const {
  throw ValueError(message(node.name(), "_backward: a tensor of shape ", tensor_.shape(),
                           " that it needs was changed in place after it was used (its version is ",
                           version_of(tensor_), ", was ", version_,
                           "; change a clone() of it instead)"));
}

SavedResult::SavedResult(const Tensor& result, std::uint32_t output)
    : plain_(make_view(result, result.impl().data, result.shape(), result.strides())),
      output_(output) {}

Tensor SavedResult::get(Node& node) const {
  const Tensor& plain = plain_.get(node);
  if (!recording) return plain;
  Tensor result = make_view(plain, plain.impl().data, plain.shape(), plain.strides());
  return adopt(NodePointer(&node), std::move(result), output_);
}

bool is_one_of(const Tensor& result, Inputs inputs) {
  for (const Tensor& x : inputs) {
    if (x.impl_or_null() == result.impl_or_null()) return true;
  }
  return false;
}

void link(Node& node, std::size_t input, const Tensor& x) {
  const TensorImpl* impl = x.impl_or_null();
  if (impl == nullptr || node_of(*impl) == nullptr) return;
  const TensorImpl& root = root_of(*impl);
  if (root.node.get() != nullptr && !root.node->is_leaf() &&
      root.recorded_version != root.storage->version) {
    throw ValueError(message(node.name(), ": input ", input, ", of shape ", impl->shape,
                             ", shares memory that was changed in place through a tensor without "
                             "its history, such as one from detach() (change a clone() instead)"));
  }
  node.edges()[input] = {impl->node, impl->output};
}

Tensor adopt(NodePointer node, Tensor result, std::uint32_t output) {
  TensorImpl& impl = result.impl();
  impl.node = std::move(node);
  impl.output = output;
  impl.recorded_version = impl.storage->version.load(std::memory_order_relaxed);
  // The function may have made its result as a view of something that nobody else sees.
  forget_base(impl);
  if (check != nullptr) [[unlikely]] {
    check(*impl.node, result);
  }
  return result;
}

// ---- views
// ---------------------------------------------------------------------------------------

TensorImpl& root_of(TensorImpl& impl) {
  TensorImpl* base = impl.base.get();
  // A base whose memory was replaced (replace_elements) has no views any more.
  return base != nullptr && base->storage.get() == impl.storage.get() ? *base : impl;
}

Tensor as_view_of(const Tensor& x, Tensor view) {
  TensorImpl& impl = view.impl();
  if (!is_floating_point(impl.dtype)) return view;
  const TensorImpl& from = x.impl();
  const TensorImpl& root = root_of(from);
  impl.base = BasePointer(const_cast<TensorImpl*>(&root));
  impl.made_without_grad = !recording || (from.made_without_grad && &root != &from);
  impl.history.store(root.history.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return view;
}

void forget_base(TensorImpl& x) {
  if (x.base.get() == nullptr) return;
  x.base = {};
  x.made_without_grad = false;
}

bool is_unshared(const Tensor& x) {
  const TensorImpl& impl = x.impl();
  const TensorImpl* base = impl.base.get();
  const bool only_view = base == nullptr || base->references == 1;
  return impl.references == 1 && only_view &&
         impl.storage->references == (base == nullptr ? 1U : 2U);
}

Tensor Saved::without_base(const Tensor& view) {
  const TensorImpl& from = view.impl();
  Tensor result = make_view(view, from.data, from.shape, from.strides);
  TensorImpl& impl = result.impl();
  if (node_of(from) == nullptr) return result;
  impl.node = from.node;
  impl.output = from.output;
  impl.recorded_version = root_of(from).recorded_version;
  return result;
}

void wrote(const Tensor& x) {
  auto& impl = const_cast<TensorImpl&>(x.impl());
  const std::uint64_t version = ++impl.storage->version;
  // Threads may write into different views of an untracked tensor at once.
  TensorImpl& root = root_of(impl);
  if (root.node.get() != nullptr) root.recorded_version = version;
}

}  // namespace extensor::detail
