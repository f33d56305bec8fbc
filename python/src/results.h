// Results of calls as Python objects: containers, and the call itself. A file includes it after the
// declarations of to_python for the types in those containers.
#pragma once

#include "arguments.h"

namespace extensor::python {

template <class T>
PyObject* to_python(const std::optional<T>& value) {
  if (value) return to_python(*value);
  Py_RETURN_NONE;
}
template <class A, class B>
PyObject* to_python(const std::pair<A, B>& pair) {
  Owned first(checked(to_python(pair.first))), second(checked(to_python(pair.second)));
  return PyTuple_Pack(2, first.get(), second.get());
}
template <class T>
PyObject* to_python(const std::vector<T>& list) {
  Owned result(checked(PyList_New(static_cast<Py_ssize_t>(list.size()))));
  for (std::size_t k = 0; k < list.size(); ++k) {
    PyList_SET_ITEM(result.get(), static_cast<Py_ssize_t>(k), checked(to_python(list[k])));
  }
  return result.release();
}

// Calls the function without the GIL if the work is large, and converts its result.
template <class F>
PyObject* run(const Call& call, F&& function) {
  using Result = decltype(function());
  if constexpr (std::is_void_v<Result>) {
    {
      const WithoutGil released(call.is_large());
      function();
    }
    Py_RETURN_NONE;
  } else {
    auto result = [&] {
      const WithoutGil released(call.is_large());
      return function();
    }();
    return to_python(std::move(result));
  }
}

}  // namespace extensor::python
