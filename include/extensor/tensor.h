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
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/device.h"
#include "extensor/dtype.h"
#include "extensor/error.h"
#include "extensor/export.h"
#include "extensor/memory_format.h"
#include "extensor/scalar.h"
#include "extensor/shape.h"
#include "extensor/storage.h"

EXTENSOR_BEGIN_API

namespace extensor {

namespace detail {

// A recorded function; extensor/autograd.h describes gradients.
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

struct TensorImpl;
void retain(TensorImpl* impl) noexcept;
void release(TensorImpl* impl) noexcept;

// A counted reference to the tensor that a view was made of.
class BasePointer {
 public:
  BasePointer() = default;
  explicit BasePointer(TensorImpl* base) : base_(base) {
    if (base_ != nullptr) retain(base_);
  }
  BasePointer(const BasePointer&) = delete;
  BasePointer(BasePointer&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}
  BasePointer& operator=(BasePointer other) noexcept {
    std::swap(base_, other.base_);
    return *this;
  }
  ~BasePointer() {
    if (base_ != nullptr) release(base_);
  }
  TensorImpl* get() const { return base_; }
  TensorImpl* operator->() const { return base_; }

 private:
  TensorImpl* base_ = nullptr;
};

struct TensorImpl {
  std::atomic<std::uint32_t> references{1};
  DType dtype = DType::float32;
  bool contiguous = true;
  bool made_without_grad = false;  // a view made under NoGrad
  std::byte* data = nullptr;       // the first element of this view
  std::int64_t numel = 0;
  StoragePointer storage;
  Shape shape;
  Strides strides;
  // The destination of its gradient: output `output` of the function that made it, or its own leaf.
  NodePointer node;
  std::uint32_t output = 0;
  // For a tensor that is not a view: how often `node` was replaced. For a view: that number of its
  // base when `node` was made; a view with another number is out of date, and node_of() renews it.
  std::atomic<std::uint32_t> history{0};
  // For a tensor that is not a view: the storage's version when `node` described all of its writes.
  std::uint64_t recorded_version = 0;
  // For a view of floats: the tensor whose node has the history of this memory. That tensor is not
  // a view itself. detach() returns a tensor without a base.
  BasePointer base;

  static void* operator new(std::size_t size);
  static void operator delete(void* pointer, std::size_t size) noexcept;
};

// Derives a view's node from that of its base. Several threads may do so at once.
void renew_view(TensorImpl& view);

// The function that made the tensor, or null if nothing was recorded.
inline Node* node_of(const TensorImpl& impl) {
  if (impl.base.get() != nullptr && impl.history.load(std::memory_order_acquire) !=
                                        impl.base->history.load(std::memory_order_relaxed))
      [[unlikely]] {
    renew_view(const_cast<TensorImpl&>(impl));
  }
  return impl.node.get();
}

[[noreturn]] void throw_undefined_tensor();
[[noreturn]] void throw_dtype_mismatch(const char* operation, DType actual, DType asked);
[[noreturn]] void throw_unreadable_memory(const char* operation, Device device);

}  // namespace detail

class Index;          // one position of an index expression
class IndexedTensor;  // the value of x[…]; extensor/indexed_tensor.h has both
class RowIterator;
struct ClipBounds;    // extensor/elementwise.h
struct SortedTensor;  // extensor/sorting.h

struct BackwardOptions {
  bool retain_graph = false;  // keep saved tensors, to run backward() once more
  bool create_graph = false;  // record the gradients too, for gradients of higher order
};

class Tensor {
 public:
  // An undefined tensor; everything except defined(), assignment, printing and destruction throws
  // ValueError.
  Tensor() = default;
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_ != nullptr) impl_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  // Rebinds a named tensor. Assigning to a temporary, as in `relu(x) = y`, does not compile, except
  // for an index expression: `x[0] = y` writes into x.
  Tensor& operator=(const Tensor& other) & noexcept {
    Tensor copy(other);
    std::swap(impl_, copy.impl_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor moved(std::move(other));
    std::swap(impl_, moved.impl_);
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
  // By value for a temporary, which does not outlive the header of for (auto d : (x + y).shape()).
  Shape shape() const&& { return impl().shape; }
  Strides strides() const&& { return impl().strides; }
  std::int64_t ndim() const { return static_cast<std::int64_t>(impl().shape.size()); }
  std::int64_t dim() const { return ndim(); }
  std::int64_t numel() const { return impl().numel; }
  std::int64_t size(StrictInt axis) const;  // negative counts from the end
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device; }
  std::size_t itemsize() const { return extensor::itemsize(dtype()); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * itemsize(); }
  bool is_contiguous() const { return impl().contiguous; }  // row-major without gaps
  // Dense in that format. Strides of axes of size 1 do not matter, so a tensor may have both
  // formats. Only tensors with 4 axes are channels_last. ValueError for preserve.
  bool is_contiguous(MemoryFormat format) const;

  // The first element; others are at strides(). DTypeError if T does not store this dtype,
  // DeviceError if the tensor is not on the CPU.
  template <class T>
  T* data() {
    return const_cast<T*>(std::as_const(*this).data<T>());
  }
  template <class T>
  const T* data() const {
    if (dtype_of<T> != dtype()) detail::throw_dtype_mismatch("data", dtype(), dtype_of<T>);
    if (device().type != Device::Type::cpu) detail::throw_unreadable_memory("data", device());
    return reinterpret_cast<const T*>(impl().data);
  }

  // The element of a tensor that has exactly one, converted like to(). Copies it from the device.
  template <class T>
  T item() const {
    T result;
    read_item(dtype_of<T>, &result);
    return result;
  }

  // Views: O(1), share this memory.
  Tensor reshape(
      const Shape& shape) const;  // one −1 allowed; copies only where strides forbid a view
  // Like reshape, but throws ShapeError where strides forbid a view.
  Tensor view(const Shape& shape) const;
  // x.view(-1, 8) is x.view({-1, 8}).
  template <StrictInteger... Sizes>
  requires(sizeof...(Sizes) > 0) Tensor view(Sizes... sizes)
  const { return view(Shape{StrictInt(sizes)...}); }
  template <StrictInteger... Sizes>
  requires(sizeof...(Sizes) > 0) Tensor reshape(Sizes... sizes)
  const { return reshape(Shape{StrictInt(sizes)...}); }
  Tensor transpose() const;                  // reverses all axes
  Tensor transpose(const Dims& axes) const;  // a permutation
  Tensor squeeze(const Axes& axes = {}) const;
  Tensor unsqueeze(StrictInt axis) const;
  Tensor flatten(StrictInt first = 0, StrictInt last = -1) const;  // merges axes first … last
  Tensor broadcast_to(const Shape& shape) const;
  Tensor slice(StrictInt axis, std::optional<StrictInt> start = {},
               std::optional<StrictInt> stop = {}, StrictInt step = 1) const;
  // Selects elements by an index expression; extensor/indexed_tensor.h has the rules. Integers,
  // slices, ellipsis and newaxis yield a view, tensors of integers or bool a copy. Assigning to the
  // result writes into this tensor: x[{1, Slice{0, 4}}] = y, x[mask] = 0, x[{rows, columns}] += y.
  IndexedTensor operator[](std::int64_t index) const;  // along the first axis
  IndexedTensor operator[](std::initializer_list<Index> index) const;
  IndexedTensor operator[](const Tensor& index) const;
  IndexedTensor index(const std::vector<Index>& index) const;
  template <class T>
  requires(std::is_same_v<T, bool> || std::is_floating_point_v<T>) void operator[](T) const =
      delete;

  // Copies.
  Tensor to(DType dtype) const;  // itself if the dtype is the same
  // A dense copy on the device, or itself if it is there. The gradient returns to this device.
  Tensor to(Device device) const;
  Tensor to(Device device, DType dtype) const;
  // Itself if its strides already match the format, including those of axes of size 1.
  Tensor to(MemoryFormat format) const;
  // A dense copy; preserve keeps the order of the elements in memory.
  Tensor clone(MemoryFormat format = MemoryFormat::preserve) const;
  Tensor copy() const { return clone(); }
  Tensor contiguous() const;  // itself if it is contiguous
  // ShapeError for channels_last unless there are 4 axes, ValueError for preserve.
  Tensor contiguous(MemoryFormat format) const;

  // Writes into this memory; `source` broadcasts to this shape, and may be on another device. All
  // writes in place are recorded, also those into views: they change the history of the view's base
  // and all its other views. ValueError for a leaf that requires a gradient, or a view of one,
  // unless under NoGrad, and for a number that the dtype cannot hold, such as 1.5 in int32. On a
  // temporary, these and the operators below return by value, so that a reference to the result
  // cannot dangle.
  Tensor& copy_from(const Tensor& source) &;
  Tensor copy_from(const Tensor& source) && { return std::move(copy_from(source)); }
  Tensor& fill(const Scalar& value) &;
  Tensor fill(const Scalar& value) && { return std::move(fill(value)); }

  // In place: the result keeps this shape and dtype. ValueError if this memory is a broadcast view
  // or overlaps the other operand at other positions.
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

  // The rows x[0], x[1], … along the first axis, as views: for (Tensor row : x). ShapeError for a
  // tensor without dimensions.
  RowIterator begin() const;
  RowIterator end() const;

  // Free functions as members: x.sum(1) is sum(x, 1), x.relu_() is relu_(x). One for each row of
  // the tables.
#define EXTENSOR_DEFAULT(...) = __VA_ARGS__
#define EXTENSOR_MEMBER(result, name, parameters, ...) result name parameters const;
#include "extensor/tables/members.def"

#define EXTENSOR_UNARY(name, parameters, arguments) \
  Tensor name parameters const;                     \
  Tensor& name##_ parameters&;                      \
  Tensor name##_ parameters&& { return std::move(name##_ arguments); }
#define UNARY(name, ...) EXTENSOR_UNARY(name, (), ())
#define UNARY_1(name, p, p_default, ...) EXTENSOR_UNARY(name, (StrictDouble p = p_default), (p))
#define UNARY_2(name, p, p_default, q, q_default, ...) \
  EXTENSOR_UNARY(name, (StrictDouble p = p_default, StrictDouble q = q_default), (p, q))
#define UNARY_2_NUMERIC(name, p, q, ...) \
  EXTENSOR_UNARY(name, (const Scalar& p, const Scalar& q), (p, q))
#include "extensor/tables/unary.def"
#undef EXTENSOR_UNARY

#define COMPARE(name, ...)                \
  Tensor name(const Tensor& other) const; \
  Tensor name(const Scalar& other) const;
#define BINARY(name, ...)                                                     \
  COMPARE(name)                                                               \
  Tensor& name##_(const Tensor& other)&;                                      \
  Tensor& name##_(const Scalar& other)&;                                      \
  Tensor name##_(const Tensor& other)&& { return std::move(name##_(other)); } \
  Tensor name##_(const Scalar& other)&& { return std::move(name##_(other)); }
#include "extensor/tables/binary.def"
#define BITWISE COMPARE
#define PREDICATE(name, ...) Tensor name() const;
#define BITWISE_UNARY PREDICATE
#include "extensor/tables/logical.def"

  // Gradients; extensor/autograd.h has the rest.
  bool requires_grad() const { return detail::node_of(impl()) != nullptr; }
  // Requests a gradient, or stops doing so. DTypeError unless the tensor is a float; ValueError to
  // stop for a computed tensor (use detach() instead).
  Tensor& requires_grad_(StrictBool required = true) &;
  Tensor requires_grad_(StrictBool required = true) && {
    return std::move(requires_grad_(required));
  }
  bool is_leaf() const;  // not computed from tensors that require a gradient
  Tensor grad() const;   // set by backward(), undefined before that
  void set_grad(const Tensor& grad);
  // Walks back from this tensor through all recorded calls, and adds to the grad() of every leaf.
  // Without a gradient argument this must be one number. ShapeError, ValueError.
  void backward(const BackwardOptions& options = {}) const { run_backward(nullptr, options); }
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const {
    run_backward(&gradient, options);
  }
  Tensor detach() const;  // the same memory without a history
  void retain_grad();     // keep grad() of a tensor that is not a leaf
  // Calls the function with this tensor's gradient before it is passed on; it may return another.
  std::size_t register_hook(std::function<Tensor(const Tensor& gradient)> hook);
  void remove_hook(std::size_t id);

  // The values as a C++ vector in row-major order; T must store this dtype.
  template <class T>
  std::vector<T> to_vector() const {
    if (dtype_of<T> != dtype()) detail::throw_dtype_mismatch("to_vector", dtype(), dtype_of<T>);
    const Tensor dense = to(cpu_device).contiguous();
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
  IndexedTensor index_with(const Index* index, std::size_t count) const;
  void read_item(DType dtype, void* result) const;
  void run_backward(const Tensor* gradient, const BackwardOptions& options) const;

  detail::TensorImpl* impl_ = nullptr;
};

using ExTensor = Tensor;

// The position of a row. It holds the tensor, so it may outlive other handles.
class RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;

  RowIterator() = default;
  RowIterator(Tensor tensor, std::int64_t row) : tensor_(std::move(tensor)), row_(row) {}
  Tensor operator*() const;
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  RowIterator operator++(int) {
    RowIterator before = *this;
    ++row_;
    return before;
  }
  friend bool operator==(const RowIterator& a, const RowIterator& b) { return a.row_ == b.row_; }

 private:
  Tensor tensor_;
  std::int64_t row_ = 0;
};

// Prints like NumPy: nested brackets; 1000 elements or more are summarised by their edges. An
// undefined tensor prints as "undefined".
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, DType dtype);  // its name
std::string to_string(const Tensor& tensor);

}  // namespace extensor

EXTENSOR_END_API

namespace ext = extensor;

#include "extensor/indexed_tensor.h"
