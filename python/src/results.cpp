// Results as Python objects.
#include "results.h"

#include "arguments.h"

namespace extensor::python {

PyObject* to_python(const Dims& dims) {
  Owned result(checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size()))));
  for (std::size_t k = 0; k < dims.size(); ++k) {
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(k), checked(to_python(dims[k])));
  }
  return result.release();
}

PyObject* to_python(const std::vector<Tensor>& tensors) {
  Owned result(checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size()))));
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(k), checked(to_python(tensors[k])));
  }
  return result.release();
}

PyObject* to_python(const NamedTensors& tensors) {
  Owned result(checked(PyDict_New()));
  for (const auto& [name, tensor] : tensors) {
    const Owned key(checked(to_python(name))), value(checked(to_python(tensor)));
    if (PyDict_SetItem(result.get(), key.get(), value.get()) != 0) throw PythonError();
  }
  return result.release();
}

PyObject* to_python(const std::map<std::string, std::string>& strings) {
  Owned result(checked(PyDict_New()));
  for (const auto& [name, text] : strings) {
    const Owned key(checked(to_python(name))), value(checked(to_python(text)));
    if (PyDict_SetItem(result.get(), key.get(), value.get()) != 0) throw PythonError();
  }
  return result.release();
}

PyObject* to_python(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
}

}  // namespace extensor::python
