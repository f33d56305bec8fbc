// Access to the elements of a tensor of any dtype without a copy.
#pragma once

#include <extensor/extensor.h>

#include <span>
#include <type_traits>

namespace extensor::cli {

// Calls `visit` with a std::span of the elements of a contiguous tensor, typed by its dtype.
template <class Visit>
void visit_elements(const Tensor& tensor, Visit&& visit) {
  const auto call = [&]<class Element>(std::type_identity<Element>) {
    visit(
        std::span<const Element>(tensor.data<Element>(), static_cast<std::size_t>(tensor.numel())));
  };
  switch (tensor.dtype()) {
    case DType::bool_:
      return call(std::type_identity<bool>{});
    case DType::int8:
      return call(std::type_identity<std::int8_t>{});
    case DType::int16:
      return call(std::type_identity<std::int16_t>{});
    case DType::int32:
      return call(std::type_identity<std::int32_t>{});
    case DType::int64:
      return call(std::type_identity<std::int64_t>{});
    case DType::uint8:
      return call(std::type_identity<std::uint8_t>{});
    case DType::uint16:
      return call(std::type_identity<std::uint16_t>{});
    case DType::uint32:
      return call(std::type_identity<std::uint32_t>{});
    case DType::uint64:
      return call(std::type_identity<std::uint64_t>{});
    case DType::float16:
      return call(std::type_identity<Float16>{});
    case DType::bfloat16:
      return call(std::type_identity<BFloat16>{});
    case DType::float32:
      return call(std::type_identity<float>{});
    case DType::float64:
      return call(std::type_identity<double>{});
    case DType::complex64:
    case DType::complex128:
      throw DTypeError(std::string("tensor: dtype is ") + name(tensor.dtype()) +
                       " (allowed: a real dtype)");
  }
}

template <class Element>
double number_of(Element element) {
  if constexpr (sizeof(Element) == 2 && !std::is_integral_v<Element>) {
    return static_cast<double>(static_cast<float>(element));
  } else {
    return static_cast<double>(element);
  }
}

}  // namespace extensor::cli
