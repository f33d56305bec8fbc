// Shapes, strides and axes: short lists of integers that need no heap up to rank 6.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "extensor/export.h"
#include "extensor/strict.h"

EXTENSOR_BEGIN_API

namespace extensor {

inline constexpr int max_rank = 64;

// A list of int64 that stores up to six inline.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) { assign(values.begin(), values.size()); }
  Dims(std::span<const std::int64_t> values) {  // NOLINT: implicit, so vectors and arrays work
    assign(values.data(), values.size());
  }
  Dims(const std::vector<std::int64_t>& values) {  // NOLINT: implicit
    assign(values.data(), values.size());
  }
  Dims(std::size_t count, std::int64_t value) {
    reserve(count);
    size_ = static_cast<std::uint32_t>(count);
    std::fill(begin(), end(), value);
  }
  Dims(const Dims& other) { assign(other.data(), other.size_); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.data(), other.size_);
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      if (capacity_ > inline_capacity) delete[] heap_;
      take(other);
    }
    return *this;
  }
  ~Dims() {
    if (capacity_ > inline_capacity) delete[] heap_;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return capacity_ > inline_capacity ? heap_ : inline_; }
  const std::int64_t* data() const { return capacity_ > inline_capacity ? heap_ : inline_; }
  std::int64_t* begin() { return data(); }
  std::int64_t* end() { return data() + size_; }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t i) { return data()[i]; }
  std::int64_t operator[](std::size_t i) const { return data()[i]; }
  std::int64_t& back() { return data()[size_ - 1]; }
  std::int64_t back() const { return data()[size_ - 1]; }

  void push_back(std::int64_t value) {
    if (size_ == capacity_) reserve(2 * static_cast<std::size_t>(capacity_));
    data()[size_++] = value;
  }
  void insert(std::size_t position, std::int64_t value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase(std::size_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }
  void resize(std::size_t count, std::int64_t value = 0) {
    reserve(count);
    for (std::size_t i = size_; i < count; ++i) data()[i] = value;
    size_ = static_cast<std::uint32_t>(count);
  }
  // New entries are uninitialised: for callers that write them all at once.
  void resize_for_overwrite(std::size_t count) {
    reserve(count);
    size_ = static_cast<std::uint32_t>(count);
  }
  void clear() { size_ = 0; }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    const std::int64_t *x = a.data(), *y = b.data();  // a loop beats a call of memcmp here
    for (std::uint32_t i = 0; i < a.size_; ++i) {
      if (x[i] != y[i]) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint32_t inline_capacity = 6;

  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    auto* grown = new std::int64_t[count];
    // A loop: GCC 13 takes std::copy from inline_ for one from heap_, and warns.
    for (std::uint32_t k = 0; k < size_; ++k) grown[k] = data()[k];
    if (capacity_ > inline_capacity) delete[] heap_;
    heap_ = grown;
    capacity_ = static_cast<std::uint32_t>(count);
  }
  void assign(const std::int64_t* values, std::size_t count) {
    size_ = 0;
    reserve(count);
    std::copy(values, values + count, data());
    size_ = static_cast<std::uint32_t>(count);
  }
  void take(Dims& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (capacity_ > inline_capacity) {
      heap_ = other.heap_;
    } else {
      std::copy(other.inline_, other.inline_ + size_, inline_);
    }
    other.size_ = 0;
    other.capacity_ = inline_capacity;
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = inline_capacity;
  union {
    std::int64_t inline_[inline_capacity];
    std::int64_t* heap_ = nullptr;  // set, or GCC warns under sanitizers that it might not be
  };
};

using Shape = Dims;
using Strides = Dims;  // counted in elements, may be 0 or negative

// The axes that an operation works on: all by default, one axis, or a list. Negative axes count
// from the end.
class Axes {
 public:
  Axes() = default;
  template <StrictInteger T>
  Axes(T axis) : all_(false), list_{StrictInt(axis)} {}  // NOLINT: implicit, sum(x, 1)
  Axes(std::initializer_list<StrictInt> axes) : all_(false) {
    list_.resize_for_overwrite(axes.size());
    std::copy(axes.begin(), axes.end(), list_.begin());
  }
  Axes(const std::vector<std::int64_t>& axes) : all_(false), list_(axes) {}  // NOLINT: implicit
  Axes(const Dims& axes) : all_(false), list_(axes) {}                       // NOLINT: implicit

  bool all() const { return all_; }
  const Dims& list() const { return list_; }

 private:
  bool all_ = true;
  Dims list_;
};

// "[2, 3]"
std::string to_string(const Dims& dims);
std::ostream& operator<<(std::ostream& stream, const Dims& dims);

}  // namespace extensor

EXTENSOR_END_API
