// The Python type Tensor: an object that holds one C++ Tensor. It is a plain CPython type rather
// than a nanobind class, because its number slots decide the cost of `a + b`.
#pragma once

#include <Python.h>

#include <utility>

#include "extensor/extensor.h"

namespace extensor::python {

struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* weak_references;
};

extern PyTypeObject* tensor_type;

// Creates the type; returns false with a Python error set.
bool create_tensor_type();

inline bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || PyType_IsSubtype(Py_TYPE(object), tensor_type) != 0;
}
// Requires is_tensor(object).
inline Tensor& tensor_of(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->tensor;
}
// A new reference. None for an undefined tensor.
PyObject* wrap(Tensor tensor);

// ---- conversions of Python data; all throw

// The tensor itself, memory shared with an array, or a copy of numbers and nested lists. `argument`
// names the value in messages.
Tensor as_tensor(PyObject* object, const char* argument);
// The same without sharing memory if `copy` is true; `options` as in zeros().
Tensor make_tensor(PyObject* object, const TensorOptions& options, bool copy);
// Whether as_tensor can convert it, judged by its type only.
bool is_array_like(PyObject* object);
// 'i', 'f' or 'b' for a scalar of NumPy, such as numpy.float32(1), and 0 for anything else.
char numpy_kind(PyObject* object);
// A number of Python or NumPy; false if it is another type.
bool read_scalar(PyObject* object, Scalar& result);
// A tensor on the memory of an object with the buffer protocol. `copied` tells whether its layout
// required a copy.
Tensor from_buffer(PyObject* object, bool& copied);
Tensor from_dlpack(PyObject* object);
PyObject* to_dlpack_capsule(const Tensor& tensor, bool versioned);
// Numbers, or nested lists of them.
PyObject* to_list(const Tensor& tensor);
PyObject* to_number(const Tensor& tensor);

// ---- slots, defined in files of their own

int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);
PyObject* subscript(PyObject* self, PyObject* key);
int assign_subscript(PyObject* self, PyObject* key, PyObject* value);
extern PyNumberMethods number_methods;
PyObject* compare(PyObject* a, PyObject* b, int operation);

}  // namespace extensor::python
