// Structs of C++ as named tuples, whose fields reflection finds.
#pragma once

#include <Python.h>

#include <tuple>
#include <utility>

#include "reflected.h"

namespace extensor::python {

// The annotation of a field, for the stubs.
inline const char* annotation_of(const std::int64_t&) { return "int"; }
inline const char* annotation_of(const double&) { return "float"; }
inline const char* annotation_of(const std::filesystem::path&) { return "str"; }
inline const char* annotation_of(const train::Evaluation&) { return "Evaluation"; }
inline const char* annotation_of(const train::End&) {
  return "Literal['finished', 'interrupted', 'stopped_early']";
}
inline const char* annotation_of(const std::vector<std::string>&) { return "list[str]"; }

inline PyObject* to_python(train::End end) {
  switch (end) {
    case train::End::interrupted:
      return to_python("interrupted");
    case train::End::stopped_early:
      return to_python("stopped_early");
    default:
      return to_python("finished");
  }
}

template <class T>
PyTypeObject* record_type = nullptr;

// Adds the named tuple to a module. Must precede the first record<T>().
template <class T>
void add_record(PyObject* module, const char* name, const char* documentation) {
  constexpr std::size_t count = reflect::member_count<T, false>;
  static PyStructSequence_Field fields[count + 1] = {};
  const T standard{};
  reflect::with_members<count>(standard, [](const auto&... members) {
    const char* const annotations[] = {annotation_of(members)...};
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      ((fields[k] = {keep(reflect::member_name<T, count, k>()), annotations[k]}), ...);
    }
    (std::make_index_sequence<count>());
  });
  static PyStructSequence_Desc description{keep(std::string("extensor.") + name), documentation,
                                           fields, static_cast<int>(count)};
  record_type<T> = PyStructSequence_NewType(&description);
  if (record_type<T> == nullptr ||
      PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(record_type<T>)) != 0) {
    throw PythonError();
  }
}

template <class T>
PyObject* record(const T& value) {
  constexpr std::size_t count = reflect::member_count<T, false>;
  Owned result(checked(PyStructSequence_New(record_type<T>)));
  Py_ssize_t k = 0;
  reflect::with_members<count>(value, [&](const auto&... members) {
    (PyStructSequence_SET_ITEM(result.get(), k++, checked(to_python(members))), ...);
  });
  return result.release();
}

}  // namespace extensor::python
