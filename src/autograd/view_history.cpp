// Histories of tensors that share memory. Among a set of views, only the base has an independent
// history. A write into a view replaces it: the new history is the old one outside the view and the
// written values inside. Every view, including the written one, derives its node from the base on
// demand (renew_view).
#include <algorithm>
#include <mutex>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/reduction.h"

namespace extensor::detail {

namespace {

// ---- a view as a linear function of its base

// Shape and strides of the real and imaginary parts of complex elements.
Shape parts_shape(const Shape& shape) {
  Shape parts = shape;
  parts.push_back(2);
  return parts;
}
Strides parts_strides(const Strides& strides) {
  Strides parts = strides;
  for (std::int64_t& stride : parts) stride *= 2;
  parts.push_back(1);
  return parts;
}

// The positions of a view's elements within its base. If one of the two is complex and the other is
// not, the layout is that of real parts, and tensors of the complex one are passed as such.
struct ViewLayout {
  Shape base_shape;
  Strides base_strides;
  Shape shape;
  Strides strides;
  std::int64_t offset;  // elements from the start of the base to the start of the view
  Device device;
  bool parts_of_base = false, parts_of_view = false;

  ViewLayout(const TensorImpl& base, const TensorImpl& view)
      : base_shape(base.shape),
        base_strides(base.strides),
        shape(view.shape),
        strides(view.strides),
        offset((view.data - base.data) /
               static_cast<std::ptrdiff_t>(itemsize(std::min(base.dtype, view.dtype)))),
        device(base.storage->device),
        parts_of_base(is_complex(base.dtype) && !is_complex(view.dtype)),
        parts_of_view(is_complex(view.dtype) && !is_complex(base.dtype)) {
    if (parts_of_base) {
      base_shape = parts_shape(base_shape);
      base_strides = parts_strides(base_strides);
    } else if (parts_of_view) {
      shape = parts_shape(shape);
      strides = parts_strides(strides);
    }
  }

  // A tensor like the base, or like the view, in the layout above, and back.
  Tensor base_parts(const Tensor& x) const { return parts_of_base ? view_as_real(x) : x; }
  Tensor base_whole(const Tensor& x) const { return parts_of_base ? view_as_complex(x) : x; }
  Tensor view_parts(const Tensor& x) const { return parts_of_view ? view_as_real(x) : x; }
  Tensor view_whole(const Tensor& x) const {
    // The part may start at the second half of a number.
    return parts_of_view ? view_as_complex(x.clone(MemoryFormat::contiguous)) : x;
  }

  // An uninitialised tensor with the base's shape and strides.
  Tensor make_base(DType dtype) const {
    if (is_contiguous(base_shape, base_strides)) return empty(base_shape, {dtype, device});
    std::int64_t low = 0, high = 0;
    for (std::size_t d = 0; d < base_shape.size(); ++d) {
      const std::int64_t reach = std::max<std::int64_t>(0, base_shape[d] - 1) * base_strides[d];
      (reach < 0 ? low : high) += reach;
    }
    const Tensor memory = empty({high - low + 1}, {dtype, device});
    return strided_view("view", memory, base_shape, base_strides, -low);
  }

  // The elements of the view in a tensor laid out like the base, without history.
  Tensor part(const Tensor& base) const {
    return strided_view("view", base, shape, strides, offset);
  }

  // Returns `x`, which has the shape of the base, in the layout of the base; x itself if it already
  // has it.
  Tensor laid_out(const Tensor& x) const {
    if (x.is_contiguous() && is_contiguous(base_shape, base_strides)) return x;
    Tensor result = make_base(x.dtype());
    result.copy_from(x);
    return result;
  }
};

Tensor embed(const Tensor& gradient, const ViewLayout& layout);

// The view's part of x, which has the shape of the base.
Tensor select(const Tensor& x, const ViewLayout& layout) {
  if (records(x)) {
    return recorded_linear(
        "view", [&] { return select(x, layout); },
        [layout](const Tensor& g) { return embed(g, layout); }, x);
  }
  return layout.view_whole(layout.part(layout.laid_out(layout.base_parts(x))));
}

// The adjoint of select: a gradient of the base that is 0 outside the view.
Tensor embed(const Tensor& gradient, const ViewLayout& layout) {
  if (records(gradient)) {
    return recorded_linear(
        "view_backward", [&] { return embed(gradient, layout); },
        [layout](const Tensor& v) { return select(v, layout); }, gradient);
  }
  // Views overlap themselves only in axes with stride 0.
  ViewLayout single = layout;
  Dims repeated;
  for (std::size_t d = 0; d < layout.shape.size(); ++d) {
    if (layout.shape[d] == 1 || layout.strides[d] != 0) continue;
    repeated.push_back(static_cast<std::int64_t>(d));
    single.shape[d] = 1;
  }
  const Tensor given = layout.view_parts(gradient);
  Tensor result = layout.make_base(given.dtype()).fill(0);
  single.part(result).copy_from(repeated.empty() ? given : sum(given, repeated, true));
  return layout.base_whole(result);
}

// x, which has the shape of the base, with 0 inside the view. It is its own adjoint.
Tensor clear(const Tensor& x, const ViewLayout& layout) {
  if (records(x)) {
    return recorded_linear(
        "write_view_backward", [&] { return clear(x, layout); },
        [layout](const Tensor& g) { return clear(g, layout); }, x);
  }
  const Tensor given = layout.base_parts(x);
  Tensor result = layout.make_base(given.dtype());
  result.copy_from(given);
  layout.part(result).fill(0);
  return layout.base_whole(result);
}

// The base after a write. Its inputs are the base before the write and the written elements.
class WriteNode final : public Node {
 public:
  WriteNode(const TensorImpl& base, const TensorImpl& view)
      : Node("write_view", 2, 1), layout_(base, view) {}

  Gradients backward(Gradients& grad_outputs) override {
    Gradients gradients(2);
    Tensor& gradient = grad_outputs[0];
    // A loop that fills a base row by row makes a chain of these nodes. Each clears its row in the
    // one gradient that passes down the chain, so that the total cost is proportional to the rows.
    const bool reuse = needs(0) && !records(gradient) && is_unshared(gradient) &&
                       gradient.is_contiguous() && !layout_.parts_of_base &&
                       !layout_.parts_of_view &&
                       is_contiguous(layout_.base_shape, layout_.base_strides);
    if (needs(1)) {
      gradients[1] = select(gradient, layout_);
      if (reuse) gradients[1] = gradients[1].clone();
    }
    if (reuse) {
      layout_.part(gradient).fill(0);
      gradients[0] = std::move(gradient);
    } else if (needs(0)) {
      gradients[0] = clear(gradient, layout_);
    }
    return gradients;
  }

 private:
  ViewLayout layout_;
};

std::mutex renewing;

// Makes x its own root if nothing else uses its base, or if the base has been given other memory.
void leave_base(TensorImpl& x) {
  if (x.base.get() == nullptr) return;
  const TensorImpl& root = root_of(x);
  if (&root != &x && x.base->references != 1) return;
  node_of(x);
  if (&root != &x) x.recorded_version = root.recorded_version;
  forget_base(x);
}

}  // namespace

// ---- renewing views

void renew_view(TensorImpl& view) {
  NodePointer old;  // destroyed after the lock is released: it may own a whole graph
  const std::lock_guard lock(renewing);
  const TensorImpl& base = *view.base.get();
  const std::uint32_t now = base.history.load(std::memory_order_relaxed);
  if (view.history.load(std::memory_order_relaxed) == now) return;
  const Node* maker = base.node.get();
  if (&root_of(view) != &base) {
    // The base has been given other memory; the view keeps the history of the old one.
  } else if (view.made_without_grad) {
    if (maker != nullptr && !maker->is_leaf()) {
      if (!recording_enabled()) return;
      throw ValueError(message("view: a view of shape ", view.shape,
                               " was made under NoGrad, and its base, of shape ", base.shape,
                               ", was changed by a recorded write since (make the view anew, or "
                               "detach() it to leave gradients out)"));
    }
  } else {
    old = std::move(view.node);
    if (maker != nullptr) {
      const ViewLayout layout(base, view);
      const auto backward = [layout](const Tensor& g) { return embed(g, layout); };
      view.node = NodePointer(new FunctionNode<decltype(backward)>("view", 1, 1, backward));
      view.node->edges()[0] = {base.node, base.output};
      view.output = 0;
    }
  }
  view.history.store(now, std::memory_order_release);
}

// ---- writing

void check_in_place(const char* operation, Tensor& x) {
  TensorImpl& impl = x.impl();
  leave_base(impl);
  const TensorImpl& root = root_of(impl);
  const bool is_view = &root != &impl;
  if (root.node.get() != nullptr && root.node->is_leaf()) {
    throw ValueError(message(
        operation, is_view ? ": a view of a leaf of shape " : ": a leaf of shape ", root.shape,
        " that requires a gradient cannot be changed in place while recording "
        "(allowed: within NoGrad)"));
  }
  if (!is_view) return;
  if (impl.made_without_grad) {
    throw ValueError(message(operation, ": a view of shape ", impl.shape,
                             " that was made under NoGrad cannot be changed by a recorded write "
                             "(make the view anew, or write within NoGrad)"));
  }
  for (std::size_t d = 0; d < root.shape.size(); ++d) {
    if (root.shape[d] <= 1 || root.strides[d] != 0) continue;
    throw ValueError(message(operation, ": x is a view of a tensor of shape ", root.shape,
                             " whose elements share memory (strides ", root.strides,
                             "), so a recorded write cannot be traced; clone that tensor first"));
  }
}

void rewrite_history(Tensor& x, NodePointer writer) {
  TensorImpl& impl = x.impl();
  TensorImpl& root = root_of(impl);
  if (writer.get() == nullptr && root.node.get() == nullptr) return;
  const NodePointer checked = context.result_check == nullptr ? NodePointer() : writer;
  if (&root != &impl) {
    if (impl.numel == 0) return;
    // The view does not overlap itself.
    const bool writes_all = impl.numel * static_cast<std::int64_t>(itemsize(impl.dtype)) ==
                            root.numel * static_cast<std::int64_t>(itemsize(root.dtype));
    if (writer.get() != nullptr || !writes_all) {
      NodePointer node(new WriteNode(root, impl));
      if (!writes_all) node->edges()[0] = {root.node, root.output};
      node->edges()[1] = {std::move(writer), 0};
      writer = std::move(node);
    }
  }
  root.node = std::move(writer);
  root.output = 0;
  root.recorded_version = root.storage->version;
  count_change(root);
  if (checked.get() != nullptr) [[unlikely]] {
    context.result_check(*checked, x);
  }
}

}  // namespace extensor::detail
