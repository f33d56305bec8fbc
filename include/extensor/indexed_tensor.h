// Index expressions: x[…] selects elements, and assigning to it writes them. tensor.h includes this
// file.
//
//   x[0] = y;                          // y, broadcast, into the first row
//   x[{Slice{0, 2}, -1}] += 1;
//   x[mask] = 0;                       // where a bool tensor is true
//   x[{rows, columns}] = values;       // element by element, as in NumPy
//   auto row = x[0];                   // a view
//   row = y;                           // a named tensor is rebound: x keeps its values
//
// Integers, slices, ellipsis and newaxis yield views. As soon as an index contains a tensor,
// NumPy's rules for advanced indices apply:
// - Integer tensors, and plain integers next to them, broadcast against each other. They yield one
//   group of dimensions, in their place if they are adjacent, first otherwise.
// - A bool tensor of k dimensions counts as k integer tensors: the positions where it is true. Its
//   shape must be that of the k axes (ShapeError).
// - Reading returns a copy. Writing an element more than once keeps the last value in row-major
//   order. `x[{rows}] += y` reads, adds and writes back, so an element that occurs twice gets one
//   of the sums; index_add() sums them.
// IndexError names an index out of range before anything is written; DTypeError for float indices.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// start:stop:step on one axis. An omitted bound is the end of the axis in the step's direction.
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;
};

struct EllipsisTag {};
struct NewAxisTag {};
inline constexpr EllipsisTag ellipsis{};  // as many whole axes as needed
inline constexpr NewAxisTag newaxis{};    // a new axis of length 1

// One position of an index expression.
class Index {
 public:
  enum class Kind : std::uint8_t { integer, slice, ellipsis, newaxis, tensor };

  Index(std::int64_t integer) : kind_(Kind::integer), integer_(integer) {}   // NOLINT
  Index(int integer) : Index(std::int64_t{integer}) {}                       // NOLINT
  Index(Slice slice) : kind_(Kind::slice), slice_(slice) {}                  // NOLINT
  Index(EllipsisTag) : kind_(Kind::ellipsis) {}                              // NOLINT
  Index(NewAxisTag) : kind_(Kind::newaxis) {}                                // NOLINT
  Index(Tensor tensor) : kind_(Kind::tensor), tensor_(std::move(tensor)) {}  // NOLINT
  // A bool is not a position, and a float would be rounded.
  template <class T>
  requires(std::is_same_v<T, bool> || std::is_floating_point_v<T>) Index(T)
  = delete;  // NOLINT

  Kind kind() const { return kind_; }
  std::int64_t integer() const { return integer_; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }  // of integers, or a bool mask

 private:
  Kind kind_;
  std::int64_t integer_ = 0;
  Slice slice_;
  Tensor tensor_;
};

namespace detail {

// The tensor and the index from which a selection by tensors was copied.
struct Selection;
struct SelectionDeleter {
  void operator()(Selection* selection) const noexcept;
};

}  // namespace detail

// The value of x[…]: a Tensor. Assigning to the temporary, as in `x[0] = y`, writes into x, which
// may be const: a Tensor is a handle. Assigning to a named one, as in `auto v = x[0]; v = y;`,
// rebinds it. A selection by tensors that is kept as `auto y = x[mask]` is an independent copy; it
// keeps the memory of x alive as long as y exists, which `Tensor y = x[mask]` does not.
class IndexedTensor : public Tensor {
 public:
  explicit IndexedTensor(Tensor view) noexcept : Tensor(std::move(view)) {}
  IndexedTensor(Tensor copy, detail::Selection* adopted) noexcept
      : Tensor(std::move(copy)), selection_(adopted) {}
  // A copy does not refer to the tensor from which a selection was made.
  IndexedTensor(const IndexedTensor& other) noexcept : Tensor(other) {
    if (other.selection_ != nullptr) forget_source();
  }
  IndexedTensor(IndexedTensor&& other) noexcept = default;
  ~IndexedTensor() = default;

  // Assigning to a named object rebinds it.
  IndexedTensor& operator=(const Tensor& other) & noexcept {
    Tensor::operator=(other);
    selection_.reset();
    return *this;
  }
  IndexedTensor& operator=(Tensor&& other) & noexcept {
    Tensor::operator=(std::move(other));
    selection_.reset();
    return *this;
  }
  IndexedTensor& operator=(const IndexedTensor& other) & noexcept {
    return *this = static_cast<const Tensor&>(other);
  }
  IndexedTensor& operator=(IndexedTensor&& other) & noexcept {
    return *this = static_cast<Tensor&&>(other);
  }

  // Assigning to a temporary writes through. The source broadcasts to this shape, and may have
  // further leading dimensions of length 1. It is converted to this dtype; DTypeError for a float
  // into integers. Returns the right-hand side, so that x[0] = x[1] = y writes y twice.
  Tensor operator=(const Tensor& source) && {  // NOLINT: see above
    write(source);
    return source;
  }
  Scalar operator=(const Scalar& value) && {  // NOLINT: see above
    write(value);
    return value;
  }
  IndexedTensor& copy_from(const Tensor& source) & {
    Tensor::copy_from(source);
    return *this;
  }
  Tensor copy_from(const Tensor& source) && { return std::move(*this) = source; }
  IndexedTensor& fill(const Scalar& value) & {
    Tensor::fill(value);
    return *this;
  }
  Tensor fill(const Scalar& value) && {
    selection_ == nullptr ? static_cast<void>(Tensor::fill(value)) : write(value);
    return std::move(*this);
  }

  // Compound assignment: in place for a named object, through to x for a temporary.
  template <class Other>
  IndexedTensor& operator+=(const Other& other) & {
    Tensor::operator+=(other);
    return *this;
  }
  template <class Other>
  IndexedTensor& operator-=(const Other& other) & {
    Tensor::operator-=(other);
    return *this;
  }
  template <class Other>
  IndexedTensor& operator*=(const Other& other) & {
    Tensor::operator*=(other);
    return *this;
  }
  template <class Other>
  IndexedTensor& operator/=(const Other& other) & {
    Tensor::operator/=(other);
    return *this;
  }
  template <class Other>
  IndexedTensor& operator%=(const Other& other) & {
    Tensor::operator%=(other);
    return *this;
  }
  Tensor operator+=(const Tensor& other) && { return update(Compound::add, other); }
  Tensor operator+=(const Scalar& other) && { return update(Compound::add, other); }
  Tensor operator-=(const Tensor& other) && { return update(Compound::subtract, other); }
  Tensor operator-=(const Scalar& other) && { return update(Compound::subtract, other); }
  Tensor operator*=(const Tensor& other) && { return update(Compound::multiply, other); }
  Tensor operator*=(const Scalar& other) && { return update(Compound::multiply, other); }
  Tensor operator/=(const Tensor& other) && { return update(Compound::divide, other); }
  Tensor operator/=(const Scalar& other) && { return update(Compound::divide, other); }
  Tensor operator%=(const Tensor& other) && { return update(Compound::modulo, other); }
  Tensor operator%=(const Scalar& other) && { return update(Compound::modulo, other); }

  // An index of a temporary selection, x[mask][0], can be read. Assigning to it is a ValueError:
  // the value would go into the copy and be lost.
  IndexedTensor operator[](std::int64_t index) const& { return Tensor::operator[](index); }
  IndexedTensor operator[](std::initializer_list<Index> index) const& {
    return Tensor::operator[](index);
  }
  IndexedTensor operator[](const Tensor& index) const& { return Tensor::operator[](index); }
  IndexedTensor operator[](std::int64_t index) && { return part(Tensor::operator[](index)); }
  IndexedTensor operator[](std::initializer_list<Index> index) && {
    return part(Tensor::operator[](index));
  }
  IndexedTensor operator[](const Tensor& index) && { return part(Tensor::operator[](index)); }
  IndexedTensor index(const std::vector<Index>& index) const& { return Tensor::index(index); }
  IndexedTensor index(const std::vector<Index>& index) && { return part(Tensor::index(index)); }
  template <class T>
  requires(std::is_same_v<T, bool> || std::is_floating_point_v<T>) void operator[](T) const =
      delete;

 private:
  void write(const Tensor& source);
  void write(const Scalar& value);
  void forget_source() noexcept;
  enum class Compound : std::uint8_t { add, subtract, multiply, divide, modulo };
  // Returns the elements that were written.
  Tensor update(Compound operation, const Tensor& other);
  Tensor update(Compound operation, const Scalar& other);
  template <class Other>
  Tensor updated(Compound operation, const Other& other);
  IndexedTensor part(IndexedTensor result) const {
    if (selection_ != nullptr) result.forget_source();
    return result;
  }

  // Null for a view, which receives writes itself.
  std::unique_ptr<detail::Selection, detail::SelectionDeleter> selection_;
};

inline IndexedTensor Tensor::operator[](std::int64_t index) const {
  const Index single(index);
  return index_with(&single, 1);
}
inline IndexedTensor Tensor::operator[](std::initializer_list<Index> index) const {
  return index_with(index.begin(), index.size());
}
inline IndexedTensor Tensor::operator[](const Tensor& index) const {
  const Index single(index);
  return index_with(&single, 1);
}
inline IndexedTensor Tensor::index(const std::vector<Index>& index) const {
  return index_with(index.data(), index.size());
}

}  // namespace extensor

EXTENSOR_END_API
