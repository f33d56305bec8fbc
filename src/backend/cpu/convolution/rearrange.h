// Copies an image into another layout.
#pragma once

#include "backend/cpu/elementwise/elementwise.h"
#include "core/allocator.h"

namespace extensor::cpu::conv {

// Copies the elements of a shape between two layouts, given by their strides.
template <class T>
void rearrange(const extensor::Shape& shape, const T* from, const Strides& from_strides, T* to,
               const Strides& to_strides) {
  backend::ElementwiseCall call;
  call.op = backend::ElementwiseOp::copy;
  call.compute = dtype_of<T>;
  call.input_count = 1;
  call.shape = &shape;
  call.numel = 1;
  for (std::int64_t size : shape) call.numel *= size;
  call.contiguous = false;
  call.repeats[0] = false;
  call.inputs[0] = {reinterpret_cast<std::byte*>(const_cast<T*>(from)), dtype_of<T>,
                    from_strides.data()};
  call.out = {reinterpret_cast<std::byte*>(to), dtype_of<T>, to_strides.data()};
  if (call.numel != 0) elementwise(call);
}

}  // namespace extensor::cpu::conv
