// x[key] and x[key] = value.
#include "arguments.h"
#include "errors.h"
#include "tensor_object.h"

namespace extensor::python {

namespace {

std::optional<std::int64_t> bound(PyObject* value, const char* which) {
  if (value == Py_None) return {};
  if (!PyIndex_Check(value)) {
    throw ArgumentError(std::string("index: the ") + which + " of a slice is " +
                        Py_TYPE(value)->tp_name + " (accepted: an int or None)");
  }
  // Python clips bounds beyond the largest int64, too.
  const Py_ssize_t result = PyNumber_AsSsize_t(value, nullptr);
  if (result == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return result;
}

// An int beyond 64 bits is out of range for every axis.
std::int64_t position_on_axis(PyObject* key) {
  try {
    return to_int64(key, "index");
  } catch (const ValueError& error) {
    throw IndexError(error.what());
  }
}

Index position(PyObject* key) {
  if (PyLong_Check(key) && !PyBool_Check(key)) return position_on_axis(key);
  if (PySlice_Check(key)) {
    auto* slice = reinterpret_cast<PySliceObject*>(key);
    return Slice{bound(slice->start, "start"), bound(slice->stop, "stop"),
                 bound(slice->step, "step").value_or(1)};
  }
  if (key == Py_Ellipsis) return ellipsis;
  if (key == Py_None) return newaxis;
  if (is_tensor(key)) return tensor_of(key);
  if (PyBool_Check(key)) return scalar(key == Py_True);
  if (PyList_Check(key) && PyList_GET_SIZE(key) == 0) return zeros({0}, int64);
  if (numpy_kind(key) == 'i') return position_on_axis(key);
  if (!PyFloat_Check(key) && numpy_kind(key) != 'f' && is_array_like(key)) {
    return as_tensor(key, "index");
  }
  if (PyIndex_Check(key)) return position_on_axis(key);
  throw ArgumentError(std::string("index: ") + Py_TYPE(key)->tp_name +
                      " is not an index (accepted: an int, a slice, ..., None, a Tensor, array or "
                      "list of ints or bools, or a tuple of these)");
}

// The Array API lets the axes of a mask have the length 0 whatever those of x are.
bool is_empty_mask(const Tensor& x, PyObject* key) {
  if (!is_tensor(key)) return false;
  const Tensor& mask = tensor_of(key);
  if (mask.dtype() != DType::bool_ || mask.ndim() == 0 || mask.ndim() > x.ndim()) return false;
  bool fits = mask.numel() == 0;
  for (std::int64_t d = 0; fits && d < mask.ndim(); ++d) {
    fits = mask.size(d) == 0 || mask.size(d) == x.size(d);
  }
  return fits;
}

Tensor no_rows(const Tensor& x, std::int64_t axes) {
  Shape shape{0};
  for (std::int64_t d = axes; d < x.ndim(); ++d) shape.push_back(x.size(d));
  return zeros(shape, {x.dtype(), x.device()});
}

}  // namespace

std::vector<Index> to_index(PyObject* key) {
  std::vector<Index> result;
  if (!PyTuple_Check(key)) {
    result.push_back(position(key));
    return result;
  }
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(key); ++k) {
    result.push_back(position(PyTuple_GET_ITEM(key, k)));
  }
  return result;
}

PyObject* subscript(PyObject* self, PyObject* key) {
  try {
    const Tensor& x = tensor_of(self);
    if (PyLong_Check(key) && !PyBool_Check(key)) return wrap(x[position_on_axis(key)]);
    if (is_empty_mask(x, key)) return wrap(no_rows(x, tensor_of(key).ndim()));
    const std::vector<Index> index = to_index(key);
    Tensor result;
    {
      const WithoutGil released(x.numel() >= 2048);
      result = x.index(index);
    }
    return wrap(std::move(result));
  } catch (const ShapeError& error) {
    // A mask or index tensors whose shapes do not fit are an IndexError in Python.
    try {
      throw IndexError(error.what());
    } catch (...) {
      set_python_error();
    }
    return nullptr;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  try {
    if (value == nullptr) throw ArgumentError("index: elements of a Tensor cannot be deleted");
    const Tensor& x = tensor_of(self);
    const std::vector<Index> index = to_index(key);
    Scalar number = 0;
    if (!is_tensor(value) && read_scalar(value, number)) {
      x.index(index) = number;
      return 0;
    }
    const Tensor source = as_tensor(value, "index: the assigned value");
    const WithoutGil released(x.numel() >= 2048);
    x.index(index) = source;
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace extensor::python
