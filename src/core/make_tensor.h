// Making tensors: new ones from the allocator, and views of existing ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/tensor.h"

namespace extensor::detail {

// A new contiguous tensor of uninitialised elements. ShapeError for an impossible shape,
// OutOfMemoryError when there is no room, both naming `operation`.
Tensor make_empty(const char* operation, const Shape& shape, DType dtype, Device device);

// x itself when it is on `device`, else a dense copy there, which is not recorded.
// DeviceError, naming `operation`, for a device that is not available.
Tensor copied_to(const char* operation, const Tensor& x, Device device);

// The first element of a tensor on the CPU, converted to `dtype`.
void read_element(const Tensor& x, DType dtype, void* result);

// The address of the first element, for a kernel of the tensor's device: the host may not be able
// to read it. T must store the tensor's dtype.
template <class T>
T* kernel_pointer(const Tensor& x) {
  return reinterpret_cast<T*>(x.impl().data);
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
