// Maps a dtype known at run time to a C++ type known at compile time.
#pragma once

#include <utility>

#include "extensor/dtype.h"

namespace extensor::detail {

// Calls f.template operator()<T>() with the C++ type that stores `dtype`:
//   visit_dtype(x.dtype(), [&]<class T>() { fill(x.data<T>()); });
template <class Function>
decltype(auto) visit_dtype(DType dtype, Function&& function) {
  switch (dtype) {
#define EXTENSOR_VISIT(name, type) \
  case DType::name:                \
    return std::forward<Function>(function).template operator()<type>();
    EXTENSOR_DTYPES(EXTENSOR_VISIT)
#undef EXTENSOR_VISIT
  }
  __builtin_unreachable();
}

}  // namespace extensor::detail
