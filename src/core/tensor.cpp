// The size and the single element of a Tensor, and the errors of its accessors.
#include "extensor/tensor.h"

#include "core/check.h"
#include "core/convert.h"
#include "core/make_tensor.h"
#include "core/visit.h"

namespace extensor {

using detail::message;
using detail::TensorImpl;

namespace detail {

void throw_undefined_tensor() {
  throw ValueError(
      "tensor: an undefined tensor was used (allowed: one that holds data; a default "
      "constructed Tensor holds none)");
}

void throw_dtype_mismatch(const char* operation, DType actual, DType asked) {
  throw DTypeError(message(operation, ": the tensor is ", actual, ", asked for as ", asked,
                           " (convert it with to() first)"));
}

void throw_unreadable_memory(const char* operation, Device device) {
  throw DeviceError(message(operation, ": the tensor is on ", device,
                            ", whose memory the host cannot read (copy it with to(cpu_device))"));
}

}  // namespace detail

std::int64_t Tensor::size(StrictInt axis) const {
  const Shape& sizes = shape();
  const auto position =
      detail::normalize_axis("size", axis, static_cast<std::int64_t>(sizes.size()));
  return sizes[static_cast<std::size_t>(position)];
}

void Tensor::read_item(DType dtype, void* result) const {
  const TensorImpl& tensor = impl();
  if (tensor.numel != 1) {
    throw ValueError(message("item: a tensor of shape ", tensor.shape, " has ", tensor.numel,
                             " elements (allowed: exactly one)"));
  }
  if (tensor.storage->device == cpu_device) return detail::read_element(*this, dtype, result);
  detail::read_element(detail::copied_to("item", *this, cpu_device), dtype, result);
}

void detail::read_element(const Tensor& x, DType dtype, void* result) {
  visit_any_dtype(x.dtype(), [&]<class From>() {
    const From& element = *reinterpret_cast<const From*>(x.impl().data);
    visit_any_dtype(dtype, [&]<class To>() {
      if constexpr (is_complex(dtype_of<To>)) {
        using Part = typename To::value_type;
        if constexpr (is_complex(dtype_of<From>)) {
          *static_cast<To*>(result) = static_cast<To>(element);
        } else {
          *static_cast<To*>(result) = To(convert<Part>(element), 0);
        }
      } else if constexpr (is_complex(dtype_of<From>)) {
        if constexpr (std::is_same_v<To, bool>) {
          *static_cast<bool*>(result) = element != From(0);
        } else {
          throw DTypeError(message("item: the tensor is ", x.dtype(), ", asked for as ", dtype,
                                   " (allowed: a complex dtype; real() has the real part)"));
        }
      } else {
        *static_cast<To*>(result) = convert<To>(element);
      }
    });
  });
}

}  // namespace extensor
