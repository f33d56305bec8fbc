// Making tensors: new ones from the allocator, and views of existing ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/export.h"
#include "extensor/tensor.h"

// Libraries of devices use it.
EXTENSOR_BEGIN_API

namespace extensor::detail {

// A new contiguous tensor of uninitialised elements. ShapeError for an impossible shape,
// OutOfMemoryError when there is no room, both naming `operation`.
Tensor make_empty(const char* operation, const Shape& shape, DType dtype, Device device);

// The same, its elements without gaps in the order that `strides` give; core/memory_layout.h makes
// such strides.
Tensor make_empty(const char* operation, const Shape& shape, const Strides& strides, DType dtype,
                  Device device);
// The same in a memory format. ShapeError for channels_last unless there are 4 axes, ValueError for
// preserve.
Tensor make_empty(const char* operation, const Shape& shape, MemoryFormat format, DType dtype,
                  Device device);

// x itself when it is on `device`, else a dense copy there, which is not recorded.
// DeviceError, naming `operation`, for a device that is not available.
Tensor copied_to(const char* operation, const Tensor& x, Device device);

// The first element of a tensor on the CPU, converted to `dtype`.
void read_element(const Tensor& x, DType dtype, void* result);

[[noreturn]] void throw_not_dense(const Tensor& x);

// The address of the first element of a row-major tensor without gaps, for a kernel of the tensor's
// device: the host may not be able to read it. ValueError for another layout, which a kernel that
// takes no strides would misread.
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

// A view with any shape and strides, `offset` elements behind the first element of `base`.
// ValueError when an element of it would lie outside the storage, ShapeError for an impossible
// shape or another number of strides than dimensions.
Tensor strided_view(const char* operation, const Tensor& base, const Shape& shape,
                    const Strides& strides, std::int64_t offset);

// `tensor` goes on with the elements of another, of its shape: whoever holds it sees them, and who
// saved the old ones for a gradient is told that they changed.
void replace_elements(Tensor& tensor, const Tensor& elements);

// Row-major without gaps. A dimension of size 0 counts as 1, so no stride is 0 by accident.
Strides contiguous_strides(const Shape& shape);

// Whether the elements lie row-major without gaps: strides of dimensions of size 1 do not matter,
// and an empty tensor always does.
bool is_contiguous(const Shape& shape, const Strides& strides);

}  // namespace extensor::detail

EXTENSOR_END_API
