// Maps a dtype known at run time to a C++ type known at compile time.
#pragma once

#include <utility>

#include "extensor/dtype.h"
#include "extensor/export.h"

// Device libraries use this function.
EXTENSOR_BEGIN_API

namespace extensor::detail {

// Throws DTypeError: the code that visits a dtype does not take complex numbers.
[[noreturn]] void throw_not_real(DType dtype);

}  // namespace extensor::detail

EXTENSOR_END_API

namespace extensor::detail {

// Calls f.template operator()<T>() with the C++ type that stores `dtype`, a real dtype:
//   visit_dtype(x.dtype(), [&]<class T>() { fill(x.data<T>()); });
// Throws DTypeError for a complex one.
template <class Function>
decltype(auto) visit_dtype(DType dtype, Function&& function) {
  switch (dtype) {
#define EXTENSOR_VISIT(name, type) \
  case DType::name:                \
    return std::forward<Function>(function).template operator()<type>();
    EXTENSOR_DTYPES(EXTENSOR_VISIT)
#undef EXTENSOR_VISIT
    default:
      throw_not_real(dtype);
  }
}

// The same with std::complex<float> and std::complex<double> among the types.
template <class Function>
decltype(auto) visit_any_dtype(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::complex64:
      return std::forward<Function>(function).template operator()<std::complex<float>>();
    case DType::complex128:
      return std::forward<Function>(function).template operator()<std::complex<double>>();
    default:
      return visit_dtype(dtype, std::forward<Function>(function));
  }
}

}  // namespace extensor::detail
