// Elements of a tensor's dtype read and written as float or double: in place where that is what
// they are, through a buffer where they are halves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/convert.h"

namespace extensor::cpu {

template <class T>
class Edge {
 public:
  explicit Edge(DType dtype) : size_(static_cast<std::int64_t>(itemsize(dtype))) {
    if (dtype != dtype_of<T>) {
      widen_ = convert_loop(dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, dtype);
    }
  }

  bool converts() const { return widen_ != nullptr; }

  // n elements from `offset` on, in `buffer` if they have to be converted.
  const T* read(const std::byte* base, std::int64_t offset, std::int64_t n, T* buffer) const {
    const std::byte* from = base + offset * size_;
    if (widen_ == nullptr) return reinterpret_cast<const T*>(from);
    widen_(from, buffer, static_cast<std::size_t>(n));
    return buffer;
  }
  // Where to write n elements, and, once they are written, their way to `offset`.
  T* target(std::byte* base, std::int64_t offset, T* buffer) const {
    return narrow_ == nullptr ? reinterpret_cast<T*>(base + offset * size_) : buffer;
  }
  void write(const T* buffer, std::byte* base, std::int64_t offset, std::int64_t n) const {
    if (narrow_ != nullptr) narrow_(buffer, base + offset * size_, static_cast<std::size_t>(n));
  }

 private:
  std::int64_t size_;
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
};

}  // namespace extensor::cpu
