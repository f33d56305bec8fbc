// Python numbers and nested lists as tensors, and back.
#include <complex>
#include <cstring>

#include "arguments.h"
#include "errors.h"
#include "tensor_object.h"

namespace extensor::python {

char numpy_kind(PyObject* object) {
  const char* name = Py_TYPE(object)->tp_name;
  if (std::strncmp(name, "numpy.", 6) != 0) return 0;
  name += 6;
  const auto begins = [&](const char* text) {
    return std::strncmp(name, text, std::strlen(text)) == 0;
  };
  if (begins("float")) return 'f';
  if (begins("complex64") || begins("complex128")) return 'c';
  if (begins("int") || begins("uint") || begins("long") || begins("ulong")) {
    return PyIndex_Check(object) != 0 ? 'i' : 0;  // numpy.longdouble is no index
  }
  return begins("bool") ? 'b' : 0;
}

bool read_scalar(PyObject* object, Scalar& result) {
  if (PyFloat_CheckExact(object)) {
    result = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (PyBool_Check(object)) {
    result = object == Py_True;
    return true;
  }
  if (PyLong_Check(object)) {
    int overflow = 0;
    const std::int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) {
      result = value;
      return true;
    }
    const std::uint64_t large = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw ValueError("the number " + text_of_integer(object) +
                       " does not fit into 64 bits (allowed: −2⁶³ to 2⁶⁴ − 1)");
    }
    result = large;
    return true;
  }
  if (PyFloat_Check(object)) {
    result = PyFloat_AsDouble(object);
    return true;
  }
  if (PyComplex_Check(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    result = std::complex<double>(value.real, value.imag);
    return true;
  }
  switch (numpy_kind(object)) {
    case 'i': {
      const Owned number(checked(PyNumber_Index(object)));
      return read_scalar(number.get(), result);
    }
    case 'f': {
      const Owned number(checked(PyNumber_Float(object)));
      return read_scalar(number.get(), result);
    }
    case 'c': {
      const Py_complex value = PyComplex_AsCComplex(object);  // calls __complex__
      if (PyErr_Occurred() != nullptr) throw PythonError();
      result = std::complex<double>(value.real, value.imag);
      return true;
    }
    case 'b':
      result = PyObject_IsTrue(object) == 1;
      return true;
    default:
      return false;
  }
}

bool is_array_like(PyObject* object) {
  return PyList_Check(object) || PyTuple_Check(object) || PyBool_Check(object) ||
         PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
         (PyObject_CheckBuffer(object) != 0 && !PyBytes_Check(object)) ||
         PyObject_HasAttrString(object, "__dlpack__") == 1;
}

namespace {

[[noreturn]] void refuse_depth() { throw ShapeError("tensor: lists are nested more than 64 deep"); }

// Nested lists, read into a flat list of numbers.
class Literals {
 public:
  void read(PyObject* object, std::size_t depth) {
    if (PyList_Check(object) || PyTuple_Check(object)) {
      const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
      enter(depth, size);
      for (Py_ssize_t k = 0; k < size; ++k) {
        read(PySequence_Fast_GET_ITEM(object, k), depth + 1);
      }
      return;
    }
    Scalar value = 0;
    if (!read_scalar(object, value) && !read_item(object, value)) {
      throw ArgumentError(std::string("tensor: an element is ") + Py_TYPE(object)->tp_name +
                          " (accepted: bool, int, float, complex and nested lists of them)");
    }
    if (leaf_depth_ < 0) leaf_depth_ = static_cast<int>(depth);
    if (leaf_depth_ != static_cast<int>(depth)) ragged(depth);
    booleans_ = booleans_ && value.kind() == Scalar::Kind::boolean;
    floats_ = floats_ || value.is_floating();
    complex_ = complex_ || value.is_complex();
    // numpy.float64 is a float and numpy.complex128 a complex, but chosen to be wide.
    doubles_ =
        doubles_ || ((PyFloat_Check(object) || PyComplex_Check(object)) && numpy_kind(object) != 0);
    unsigned_ = unsigned_ || value.kind() == Scalar::Kind::unsigned_integer;
    negative_ = negative_ || (value.kind() == Scalar::Kind::integer && value.as_integer() < 0);
    numbers_.push_back(value);
  }

  Tensor make(const TensorOptions& options) const {
    Shape shape;
    for (const Py_ssize_t size : sizes_) shape.push_back(size);
    const std::size_t count = numbers_.size();
    if (complex_) {
      std::vector<std::complex<double>> values;
      for (const Scalar& number : numbers_) values.push_back(number.as_complex());
      return detail::from_literals(values.data(), count, complex128, shape,
                                   doubles_ ? complex128 : complex64, options);
    }
    if (floats_ || (count == 0 && !booleans_) || (unsigned_ && negative_)) {
      std::vector<double> values;
      for (const Scalar& number : numbers_) values.push_back(number.as_double());
      return detail::from_literals(values.data(), count, float64, shape,
                                   doubles_ ? float64 : default_float, options);
    }
    if (count == 0) {  // NumPy's choice for empty lists is a float, too
      return detail::from_literals(nullptr, 0, float64, shape, default_float, options);
    }
    if (booleans_) {
      std::vector<std::uint8_t> values;
      for (const Scalar& number : numbers_) values.push_back(number.as_integer() != 0 ? 1 : 0);
      return detail::from_literals(values.data(), count, bool_, shape, bool_, options);
    }
    if (unsigned_) {
      std::vector<std::uint64_t> values;
      for (const Scalar& number : numbers_) {
        values.push_back(number.kind() == Scalar::Kind::unsigned_integer
                             ? number.as_unsigned()
                             : static_cast<std::uint64_t>(number.as_integer()));
      }
      return detail::from_literals(values.data(), count, uint64, shape, uint64, options);
    }
    std::vector<std::int64_t> values;
    for (const Scalar& number : numbers_) values.push_back(number.as_integer());
    return detail::from_literals(values.data(), count, int64, shape, default_integer, options);
  }

 private:
  void enter(std::size_t depth, Py_ssize_t size) {
    if (leaf_depth_ >= 0 && static_cast<int>(depth) >= leaf_depth_) ragged(depth);
    if (depth == sizes_.size()) {
      if (depth >= max_rank) refuse_depth();
      sizes_.push_back(size);
    } else if (sizes_[depth] != size) {
      throw ShapeError("tensor: lists at depth " + std::to_string(depth) + " have " +
                       std::to_string(sizes_[depth]) + " and " + std::to_string(size) +
                       " elements (allowed: equal lengths)");
    }
  }
  [[noreturn]] static void ragged(std::size_t depth) {
    throw ShapeError("tensor: numbers and lists are mixed at depth " + std::to_string(depth));
  }
  // Numbers of NumPy, and tensors without dimensions.
  static bool read_item(PyObject* object, Scalar& value) {
    const Owned shape(PyObject_GetAttrString(object, "shape"));
    const Owned number(shape && PyTuple_Check(shape.get()) && PyTuple_GET_SIZE(shape.get()) == 0
                           ? PyObject_CallMethod(object, "item", nullptr)
                           : nullptr);
    PyErr_Clear();
    return number && read_scalar(number.get(), value);
  }

  std::vector<Py_ssize_t> sizes_;
  std::vector<Scalar> numbers_;
  int leaf_depth_ = -1;
  bool complex_ = false, booleans_ = true, floats_ = false, doubles_ = false, unsigned_ = false,
       negative_ = false;
};

bool has_dimensions(PyObject* object) {
  if (is_tensor(object)) return tensor_of(object).ndim() > 0;
  return !PyList_Check(object) && !PyTuple_Check(object) && !PyLong_Check(object) &&
         !PyFloat_Check(object) && !PyComplex_Check(object) &&
         (PyObject_CheckBuffer(object) != 0 || PyObject_HasAttrString(object, "__dlpack__") == 1);
}

// A list of tensors or arrays, which are stacked. Lists may contain themselves, so the depth ends.
bool holds_arrays(PyObject* object) {
  for (std::size_t depth = 0; depth <= max_rank; ++depth) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
    if (PySequence_Fast_GET_SIZE(object) == 0) return false;
    object = PySequence_Fast_GET_ITEM(object, 0);
    if (has_dimensions(object)) return true;
  }
  refuse_depth();
}

Tensor read_literals(PyObject* object, const TensorOptions& options) {
  Literals literals;
  literals.read(object, 0);
  return literals.make(options);
}

Tensor stacked(PyObject* list, std::size_t depth) {
  if (depth >= max_rank) refuse_depth();
  std::vector<Tensor> parts;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(list); ++k) {
    PyObject* part = PySequence_Fast_GET_ITEM(list, k);
    parts.push_back(holds_arrays(part) ? stacked(part, depth + 1) : make_tensor(part, {}, false));
  }
  return stack(parts, 0);
}

Tensor with_options(Tensor tensor, const TensorOptions& options) {
  if (options.dtype) tensor = tensor.to(*options.dtype);
  if (options.device) tensor = tensor.to(*options.device);
  return tensor;
}

}  // namespace

Tensor make_tensor(PyObject* object, const TensorOptions& options, bool copy) {
  if (is_tensor(object)) {
    const Tensor& given = tensor_of(object);
    const Tensor result = with_options(given, options);
    return copy && result.impl_or_null() == given.impl_or_null() ? result.clone() : result;
  }
  if (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
      PyList_Check(object) || PyTuple_Check(object)) {
    return holds_arrays(object) ? with_options(stacked(object, 0), options)
                                : read_literals(object, options);
  }
  bool copied = false;
  Tensor result;
  if (PyObject_CheckBuffer(object) != 0) {
    result = from_buffer(object, copied);
  } else if (PyObject_HasAttrString(object, "__dlpack__") == 1) {
    result = from_dlpack(object);
  } else {
    throw ArgumentError(std::string("tensor: data is ") + Py_TYPE(object)->tp_name +
                        " (accepted: a Tensor, an array, a number or nested lists of numbers)");
  }
  const Tensor converted = with_options(result, options);
  return copy && !copied && converted.impl_or_null() == result.impl_or_null() ? converted.clone()
                                                                              : converted;
}

Tensor as_tensor(PyObject* object, const char* argument) {
  if (is_tensor(object)) return tensor_of(object);
  if (!is_array_like(object)) {
    throw ArgumentError(std::string(argument) + " is " + Py_TYPE(object)->tp_name +
                        " (accepted: a Tensor, an array, a number or nested lists of numbers)");
  }
  return make_tensor(object, {}, false);
}

namespace {

// The element at `data`, which stores bool, int64, uint64, float64 or complex128.
PyObject* element(const std::byte* data, DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return PyBool_FromLong(static_cast<long>(*data != std::byte{0}));
    case DType::uint64: {
      std::uint64_t value = 0;
      std::memcpy(&value, data, sizeof value);
      return PyLong_FromUnsignedLongLong(value);
    }
    case DType::int64: {
      std::int64_t value = 0;
      std::memcpy(&value, data, sizeof value);
      return PyLong_FromLongLong(value);
    }
    case DType::complex128: {
      std::complex<double> value = 0;
      std::memcpy(&value, data, sizeof value);
      return PyComplex_FromDoubles(value.real(), value.imag());
    }
    default: {
      double value = 0;
      std::memcpy(&value, data, sizeof value);
      return PyFloat_FromDouble(value);
    }
  }
}

DType python_dtype(DType dtype) {
  if (dtype == DType::bool_ || dtype == DType::uint64) return dtype;
  if (is_complex(dtype)) return DType::complex128;
  return is_floating_point(dtype) ? DType::float64 : DType::int64;
}

PyObject* nested(const Shape& shape, std::size_t axis, const std::byte*& data, DType dtype) {
  if (axis == shape.size()) {
    PyObject* result = checked(element(data, dtype));
    data += itemsize(dtype);
    return result;
  }
  Owned list(checked(PyList_New(shape[axis])));
  for (std::int64_t k = 0; k < shape[axis]; ++k) {
    PyList_SET_ITEM(list.get(), k, nested(shape, axis + 1, data, dtype));
  }
  return list.release();
}

}  // namespace

PyObject* to_list(const Tensor& tensor) {
  const Tensor dense = tensor.detach().to(cpu_device).to(python_dtype(tensor.dtype())).contiguous();
  const std::byte* data = dense.impl().data;
  return nested(dense.shape(), 0, data, dense.dtype());
}

PyObject* to_number(const Tensor& tensor) {
  if (tensor.numel() != 1) {
    throw ValueError("item: a tensor of shape " + to_string(tensor.shape()) + " has " +
                     std::to_string(tensor.numel()) + " elements (allowed: one)");
  }
  switch (python_dtype(tensor.dtype())) {
    case DType::bool_:
      return to_python(tensor.item<bool>());
    case DType::uint64:
      return to_python(tensor.item<std::uint64_t>());
    case DType::int64:
      return to_python(tensor.item<std::int64_t>());
    case DType::complex128: {
      const auto value = tensor.item<std::complex<double>>();
      return PyComplex_FromDoubles(value.real(), value.imag());
    }
    default:
      return to_python(tensor.item<double>());
  }
}

}  // namespace extensor::python
