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
  if (impl == nullptr || impl->node.get() == nullptr) return;
  if (!impl->node->is_leaf() && impl->recorded_version != impl->storage->version) {
    throw ValueError(message(node.name(), ": input ", input, ", of shape ", impl->shape,
                             ", shares memory that was changed in place through another tensor, so "
                             "its history no longer tells its values (change a clone() instead)"));
  }
  node.edges()[input] = {impl->node, impl->output};
}

Tensor adopt(NodePointer node, Tensor result, std::uint32_t output) {
  TensorImpl& impl = result.impl();
  impl.node = std::move(node);
  impl.output = output;
  impl.recorded_version = impl.storage->version.load(std::memory_order_relaxed);
  if (check != nullptr) [[unlikely]] {
    check(*impl.node, result);
  }
  return result;
}

void check_in_place(const char* operation, const Tensor& x) {
  if (!recording || !tracked(x) || !x.impl().node->is_leaf()) return;
  throw ValueError(message(operation, ": a leaf of shape ", x.shape(),
                           " that requires a gradient cannot be changed in place while recording "
                           "(allowed: within NoGrad)"));
}

void wrote(const Tensor& x) {
  auto& impl = const_cast<TensorImpl&>(x.impl());
  impl.recorded_version = ++impl.storage->version;
}

}  // namespace extensor::detail
