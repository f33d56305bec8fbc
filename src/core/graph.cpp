#include "core/graph.h"

#include <chrono>

#include "core/check.h"
#include "core/make_tensor.h"

namespace extensor::detail {

constinit thread_local std::uint64_t Node::wanted = ~std::uint64_t{0};
constinit thread_local bool Node::dropping = false;
constinit thread_local Context context;
constinit thread_local std::int64_t captured_since = 0;

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Every recorded op reads the variables below.
#define EXTENSOR_FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) constinit thread_local

namespace {

// Nodes whose last owner went away while another node was being destroyed. The list lets a long
// graph be freed iteratively instead of recursively.
EXTENSOR_FAST_THREAD_LOCAL Node* dead = nullptr;
EXTENSOR_FAST_THREAD_LOCAL bool destroying = false;

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
  if (!recording_enabled() || !plain.defined() || !is_differentiable(plain.dtype())) return plain;
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
  node.edges()[input] = {impl->node, impl->output, impl->dtype};
}

Tensor adopt(NodePointer node, Tensor result, std::uint32_t output) {
  TensorImpl& impl = result.impl();
  impl.node = std::move(node);
  impl.output = output;
  impl.recorded_version = impl.storage->version.load(std::memory_order_relaxed);
  // The function may have made its result as a view of a tensor that nobody else sees.
  forget_base(impl);
  if (context.result_check != nullptr) [[unlikely]] {
    context.result_check(*impl.node, result);
  }
  return result;
}

// ---- views

bool is_unshared(const Tensor& x) {
  const TensorImpl& impl = x.impl();
  const TensorImpl* base = impl.base.get();
  const bool only_view = base == nullptr || base->references == 1;
  return impl.references == 1 && only_view && !impl.storage->read_only &&
         impl.storage->references == (base == nullptr ? 1U : 2U);
}

Tensor Saved::without_base(const Tensor& view) {
  const TensorImpl& from = view.impl();
  Tensor result = make_view(view, from.data, from.shape, from.strides);
  TensorImpl& impl = result.impl();
  if (node_of(from) == nullptr) return result;
  impl.node = from.node;
  impl.output = from.output;
  // A leaf does not count the writes from before requires_grad_().
  const TensorImpl& root = root_of(from);
  const bool computed = root.node.get() != nullptr && !root.node->is_leaf();
  impl.recorded_version =
      computed ? root.recorded_version : from.storage->version.load(std::memory_order_relaxed);
  return result;
}

}  // namespace extensor::detail
