// Transforms of rows and of adjacent columns by a plan.
#pragma once

#include <cstddef>

#include "backend/cpu/fft/plan.h"
#include "core/allocator.h"

namespace extensor::cpu {

// Memory for `count` complex numbers, not initialised.
template <class T>
class FftWorkspace {
 public:
  explicit FftWorkspace(std::size_t count)
      : storage_(detail::allocate_host(2 * sizeof(T) * count, "scratch memory of a kernel")) {}
  T* data() const { return static_cast<T*>(storage_->data); }

 private:
  StoragePointer storage_;
};

// Transforms `width` adjacent columns by passes. Strides lead from one number of a column to the
// next. `work` has room for 2 * n * width numbers. `out` may be `in` if the plan has several steps.
template <class T>
void transform_columns(const FftPlan<T>& plan, const T* in, std::size_t in_stride, T* out,
                       std::size_t out_stride, std::size_t width, T sign, T scale, T* work);

// Transforms a dense row by any plan; a long one on several threads. `out` may be `in`.
template <class T>
void transform_row(const FftPlan<T>& plan, const T* in, T* out, T sign, T scale);

}  // namespace extensor::cpu
