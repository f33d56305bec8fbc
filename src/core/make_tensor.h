// Creates tensors: new ones from the allocator, and views of existing ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/export.h"
#include "extensor/tensor.h"

// Device libraries use these functions.
EXTENSOR_BEGIN_API

namespace extensor::detail {

// A new contiguous tensor of uninitialised elements. ShapeError for an impossible shape,
// OutOfMemoryError if memory does not suffice; both name `operation`.
Tensor make_empty(const char* operation, const Shape& shape, DType dtype, Device device);

// The same, dense in the order of `strides`; core/memory_layout.h computes such strides.
Tensor make_empty(const char* operation, const Shape& shape, const Strides& strides, DType dtype,
                  Device device);
// The same in a memory format. ShapeError for channels_last unless there are 4 axes, ValueError for
// preserve.
Tensor make_empty(const char* operation, const Shape& shape, MemoryFormat format, DType dtype,
                  Device device);

// x itself if it is on `device`, else a dense copy there, which is not recorded. DeviceError,
// naming `operation`, if the device is not available.
Tensor copied_to(const char* operation, const Tensor& x, Device device);

// The first element of a tensor on the CPU, converted to `dtype`.
void read_element(const Tensor& x, DType dtype, void* result);

[[noreturn]] void throw_not_dense(const Tensor& x);

// The address of the first element of a row-major tensor without gaps, for a kernel of the tensor's
// device: the host may not be able to read it. ValueError for any other layout, which a kernel
// without strides would misread.
inline std::byte* dense_data(const Tensor& x) {
  if (!x.impl().contiguous) [[unlikely]] {
    throw_not_dense(x);
  }
  return x.impl().data;
}
// T must store the tensor's dtype.
template <class T>
T* kernel_pointer(const Tensor& x) {
  return reinterpret_cast<T*>(dense_data(x));
}

// A tensor on the memory of `base` that starts at `data`. Nothing is validated: for callers that
// derived the view from the base's own shape and strides.
Tensor make_view(const Tensor& base, std::byte* data, const Shape& shape, const Strides& strides);

// A tensor on `storage`, such as memory wrapped from elsewhere. Nothing is validated.
Tensor make_on_storage(StoragePointer storage, std::byte* data, DType dtype, const Shape& shape,
                       const Strides& strides);

// A view with any shape and strides, starting `offset` elements after the first element of `base`.
// ValueError if an element would lie outside the storage, ShapeError for an impossible shape or if
// the number of strides differs from the number of dimensions.
Tensor strided_view(const char* operation, const Tensor& base, const Shape& shape,
                    const Strides& strides, std::int64_t offset);

// Replaces the memory of `tensor` with that of `elements`, which has the same shape. All holders of
// `tensor` see the new elements; a backward that saved the old ones throws.
void replace_elements(Tensor& tensor, const Tensor& elements);

// Row-major strides without gaps. A dimension of size 0 counts as 1, so no stride becomes 0 by
// accident.
Strides contiguous_strides(const Shape& shape);

// Whether the elements are row-major without gaps. Strides of dimensions of size 1 do not matter,
// and an empty tensor is always contiguous.
bool is_contiguous(const Shape& shape, const Strides& strides);

}  // namespace extensor::detail

EXTENSOR_END_API
