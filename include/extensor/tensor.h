// Tensor: a cheap handle on shared, strided memory.
//
//   auto x = extensor::arange(6).reshape({2, 3});   // int64, [[0, 1, 2], [3, 4, 5]]
//   auto y = x.transpose() + 1;                      // a view, then a new tensor
//   std::int64_t corner = y[{2, 1}].item<std::int64_t>();
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extensor/device.h"
#include "extensor/dtype.h"
#include "extensor/error.h"
#include "extensor/scalar.h"
#include "extensor/shape.h"
#include "extensor/storage.h"

namespace extensor {

namespace detail {

// A recorded function; extensor/autograd.h tells about gradients.
class Node;
void retain(Node* node) noexcept;
void release(Node* node) noexcept;

// A counted reference to a Node.
class NodePointer {
 public:
  NodePointer() = default;
  explicit NodePointer(Node* node) : node_(node) {
    if (node_ != nullptr) retain(node_);
  }
  NodePointer(const NodePointer& other) : NodePointer(other.node_) {}
  NodePointer(NodePointer&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePointer& operator=(NodePointer other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePointer() {
    if (node_ != nullptr) release(node_);
  }
  Node* get() const { return node_; }
  Node& operator*() const { return *node_; }
  Node* operator->() const { return node_; }

 private:
  Node* node_ = nullptr;
};

struct TensorImpl {
  std::atomic<std::uint32_t> references{1};
  DType dtype = DType::float32;
  bool contiguous = true;
  std::byte* data = nullptr;  // the first element of this view
  std::int64_t numel = 0;
  StoragePointer storage;
  Shape shape;
  Strides strides;
  // Where its gradient goes: output `output` of the function that made it, or its own leaf.
  NodePointer node;
  std::uint32_t output = 0;
  std::uint64_t recorded_version = 0;  // of the storage, when `node` was the whole truth

  static void* operator new(std::size_t size);
  static void operator delete(void* pointer, std::size_t size) noexcept;
};

[[noreturn]] void throw_undefined_tensor();
[[noreturn]] void throw_dtype_mismatch(const char* operation, DType actual, DType asked);

}  // namespace detail

// start:stop:step on one axis; what is left out runs to the end in the step's direction.
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;
};

struct EllipsisTag {};
struct NewAxisTag {};
inline constexpr EllipsisTag ellipsis{};  // as many whole axes as are needed
inline constexpr NewAxisTag newaxis{};    // a new axis of length 1

// One position of an index expression.
class Index {
 public:
  enum class Kind : std::uint8_t { integer, slice, ellipsis, newaxis };

  Index(std::int64_t integer) : kind_(Kind::integer), integer_(integer) {}  // NOLINT: implicit
  Index(int integer) : Index(std::int64_t{integer}) {}                      // NOLINT: implicit
  template <std::same_as<bool> T>
  Index(T) = delete;  // x[{true}] is neither a position nor a mask
  Index(Slice slice) : kind_(Kind::slice), slice_(slice) {}  // NOLINT: implicit
  Index(EllipsisTag) : kind_(Kind::ellipsis) {}              // NOLINT: implicit
  Index(NewAxisTag) : kind_(Kind::newaxis) {}                // NOLINT: implicit

  Kind kind() const { return kind_; }
  std::int64_t integer() const { return integer_; }
  const Slice& slice() const { return slice_; }

 private:
  Kind kind_;
  std::int64_t integer_ = 0;
  Slice slice_;
};

struct BackwardOptions {
  bool retain_graph = false;  // keep what was saved, to go back once more
  bool create_graph = false;  // record the gradients too, so that they have gradients themselves
};

class Tensor {
 public:
  // No tensor at all; everything but defined(), assignment and destruction throws ValueError.
  Tensor() = default;
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_ != nullptr) impl_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Tensor() {
    if (impl_ != nullptr && (impl_->references.load(std::memory_order_acquire) == 1 ||
                             impl_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)) {
      delete impl_;
    }
  }
  explicit Tensor(detail::TensorImpl* adopted) : impl_(adopted) {}

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const& { return impl().shape; }
  const Strides& strides() const& { return impl().strides; }
  // By value from a temporary, which for (auto d : (x + y).shape()) does not outlive.
  Shape shape() const&& { return impl().shape; }
  Strides strides() const&& { return impl().strides; }
  std::int64_t ndim() const { return static_cast<std::int64_t>(impl().shape.size()); }
  std::int64_t numel() const { return impl().numel; }
  std::int64_t size(StrictInt axis) const;  // negative counts from the end
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device; }
  std::size_t itemsize() const { return extensor::itemsize(dtype()); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * itemsize(); }
  bool is_contiguous() const { return impl().contiguous; }  // row-major without gaps

  // The first element; others at strides(). DTypeError when T does not store this dtype.
  template <class T>
  T* data() {
    return const_cast<T*>(std::as_const(*this).data<T>());
  }
  template <class T>
  const T* data() const {
    if (dtype_of<T> != dtype()) detail::throw_dtype_mismatch("data", dtype(), dtype_of<T>);
    return reinterpret_cast<const T*>(impl().data);
  }

  // The one element of a tensor of one element, converted as by to().
  template <class T>
  T item() const {
    T result;
    read_item(dtype_of<T>, &result);
    return result;
  }

  // Views: O(1), the same memory.
  Tensor reshape(
      const Shape& shape) const;  // one −1 allowed; copies only where strides forbid a view
  Tensor transpose() const;       // reverses all axes
  Tensor transpose(const Dims& axes) const;  // a permutation
  Tensor squeeze(const Axes& axes = {}) const;
  Tensor unsqueeze(StrictInt axis) const;
  Tensor flatten() const;
  Tensor broadcast_to(const Shape& shape) const;
  Tensor slice(StrictInt axis, std::optional<StrictInt> start = {},
               std::optional<StrictInt> stop = {}, StrictInt step = 1) const;
  Tensor operator[](std::int64_t index) const;  // along the first axis
  template <std::same_as<bool> T>
  Tensor operator[](T) const = delete;
  Tensor operator[](std::initializer_list<Index> index) const;  // x[{1, Slice{0, 4}, newaxis}]
  Tensor index(const std::vector<Index>& index) const;
  // Copies: a mask selects elements (masked_select), integers select along the first axis (take).
  Tensor operator[](const Tensor& selection) const;

  // Copies.
  Tensor to(DType dtype) const;  // itself when the dtype is the same
  Tensor clone() const;
  Tensor contiguous() const;  // itself when it is contiguous

  // Writes into this memory; `source` broadcasts to this shape. On a temporary, these and the
  // operators below return by value, so that a reference to the result cannot dangle.
  Tensor& copy_from(const Tensor& source) &;
  Tensor copy_from(const Tensor& source) && { return std::move(copy_from(source)); }
  Tensor& fill(const Scalar& value) &;
  Tensor fill(const Scalar& value) && { return std::move(fill(value)); }

  // In place: the result keeps this shape and dtype. ValueError where this memory is a broadcast
  // view or overlaps the other operand at other positions.
#define EXTENSOR_IN_PLACE(symbol)                                                         \
  Tensor& operator symbol(const Tensor& other)&;                                          \
  Tensor& operator symbol(const Scalar& other)&;                                          \
  Tensor operator symbol(const Tensor& other)&& { return std::move(*this symbol other); } \
  Tensor operator symbol(const Scalar& other)&& { return std::move(*this symbol other); }
  EXTENSOR_IN_PLACE(+=)
  EXTENSOR_IN_PLACE(-=)
  EXTENSOR_IN_PLACE(*=)
  EXTENSOR_IN_PLACE(/=)
  EXTENSOR_IN_PLACE(%=)
#undef EXTENSOR_IN_PLACE

  // Gradients; extensor/autograd.h has the rest.
  bool requires_grad() const { return impl().node.get() != nullptr; }
  // Asks for a gradient, or no longer. DTypeError unless it is a float; ValueError when it is to
  // stop on a tensor that was computed (detach() gives one without).
  Tensor& requires_grad_(StrictBool required = true) &;
  Tensor requires_grad_(StrictBool required = true) && {
    return std::move(requires_grad_(required));
  }
  bool is_leaf() const;  // not computed from tensors that require a gradient
  Tensor grad() const;   // what backward() gave, undefined before that
  void set_grad(const Tensor& grad);
  // Goes back from this tensor through all that was recorded, and adds to the grad() of every leaf.
  // Without a gradient this must be one number. ShapeError, ValueError.
  void backward(const BackwardOptions& options = {}) const { run_backward(nullptr, options); }
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const {
    run_backward(&gradient, options);
  }
  Tensor detach() const;  // the same memory without a history
  void retain_grad();     // keep grad() of a tensor that is not a leaf, too
  // The function is called with this tensor's gradient, before that goes on, and may give another.
  std::size_t register_hook(std::function<Tensor(const Tensor& gradient)> hook);
  void remove_hook(std::size_t id);

  // The values as a C++ vector in row-major order; dtype must match.
  template <class T>
  std::vector<T> to_vector() const {
    if (dtype_of<T> != dtype()) detail::throw_dtype_mismatch("to_vector", dtype(), dtype_of<T>);
    const Tensor dense = contiguous();
    const T* first = dense.data<T>();
    return std::vector<T>(first, first + dense.numel());
  }

  const detail::TensorImpl& impl() const {
    if (impl_ == nullptr) [[unlikely]] {
      detail::throw_undefined_tensor();
    }
    return *impl_;
  }
  detail::TensorImpl* impl_or_null() const { return impl_; }
  detail::TensorImpl& impl() {
    return const_cast<detail::TensorImpl&>(std::as_const(*this).impl());
  }

 private:
  void read_item(DType dtype, void* result) const;
  void run_backward(const Tensor* gradient, const BackwardOptions& options) const;

  detail::TensorImpl* impl_ = nullptr;
};

using ExTensor = Tensor;

// Prints like NumPy: nested brackets, 1000 elements or more summarised by their edges.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
std::string to_string(const Tensor& tensor);

}  // namespace extensor

namespace ext = extensor;
