// Reads and writes elements of a tensor's dtype as float or double: in place if they have that
// type, through a buffer if they are halves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/convert.h"

namespace extensor::cpu {

template <class T>
class Edge {
 public:
  // `moved` is the number of elements that a call reads and writes. Results of calls beyond the
  // caches bypass them.
  Edge(DType dtype, std::int64_t moved)
      : size_(static_cast<std::int64_t>(itemsize(dtype))),
        streams_(dtype == dtype_of<T> && moved * size_ >= streaming_bytes) {
    if (dtype != dtype_of<T>) {
      widen_ = convert_loop(dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, dtype);
    }
  }

  bool converts() const { return widen_ != nullptr; }
  bool writes_buffers() const { return converts() || streams_; }

  // n elements starting at `offset`. If they have to be converted, they are in `buffer`, `at`
  // elements after its start; otherwise the buffer may be null.
  const T* read(const std::byte* base, std::int64_t offset, std::int64_t n, T* buffer,
                std::int64_t at = 0) const {
    const std::byte* from = base + offset * size_;
    if (widen_ == nullptr) return reinterpret_cast<const T*>(from);
    widen_(from, buffer + at, static_cast<std::size_t>(n));
    return buffer + at;
  }
  // target() returns where to write elements; write() then moves them to `offset` if needed.
  T* target(std::byte* base, std::int64_t offset, T* buffer, std::int64_t at = 0) const {
    return writes_buffers() ? buffer + at : reinterpret_cast<T*>(base + offset * size_);
  }
  void write(const T* buffer, std::byte* base, std::int64_t offset, std::int64_t n) const {
    if (!writes_buffers()) return;
    std::byte* to = base + offset * size_;
    if (streams_) {
      stream_copy(reinterpret_cast<const std::byte*>(buffer), to,
                  static_cast<std::size_t>(n * size_));
    } else {
      narrow_(buffer, to, static_cast<std::size_t>(n));
    }
  }
  // Call it once in every thread, after its last write.
  void finish() const {
    if (streams_) stream_fence();
  }

 private:
  static constexpr std::int64_t streaming_bytes = std::int64_t{32} << 20;

  std::int64_t size_;
  bool streams_;
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
};

}  // namespace extensor::cpu
