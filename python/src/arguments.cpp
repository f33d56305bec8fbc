#include "arguments.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "results.h"

namespace extensor::python {

namespace {

// ---- what matches

bool is_none(PyObject* value) { return value == Py_None; }
bool is_sequence(PyObject* value) { return PyList_Check(value) || PyTuple_Check(value); }
bool is_plain_integer(PyObject* value) { return PyLong_Check(value) && !PyBool_Check(value); }

bool is_integer(PyObject* value, const ArgumentType&, bool convert) {
  if (is_plain_integer(value)) return true;
  if (!convert) return false;
  return numpy_kind(value) == 'i' || (is_tensor(value) && tensor_of(value).ndim() == 0 &&
                                      extensor::is_integer(tensor_of(value).dtype()));
}
bool is_number(PyObject* value, const ArgumentType& type, bool convert) {
  return PyFloat_Check(value) || is_integer(value, type, convert) ||
         (convert && numpy_kind(value) == 'f');
}
bool is_none(PyObject* value, const ArgumentType&, bool) { return value == Py_None; }
bool is_boolean(PyObject* value, const ArgumentType&, bool convert) {
  return PyBool_Check(value) || (convert && numpy_kind(value) == 'b');
}
bool is_scalar(PyObject* value, const ArgumentType&, bool) {
  return PyBool_Check(value) || PyLong_Check(value) || PyFloat_Check(value) ||
         PyComplex_Check(value) || numpy_kind(value) != 0;
}
bool is_string(PyObject* value, const ArgumentType&, bool) { return PyUnicode_Check(value); }
bool is_path(PyObject* value, const ArgumentType&, bool) {
  return PyUnicode_Check(value) || PyBytes_Check(value) ||
         PyObject_HasAttrString(value, "__fspath__") == 1;
}
bool is_tensor_argument(PyObject* value, const ArgumentType&, bool convert) {
  return is_tensor(value) || (convert && is_array_like(value));
}
bool is_written(PyObject* value, const ArgumentType&, bool) { return is_tensor(value); }

template <bool (*matches)(PyObject*, const ArgumentType&, bool)>
bool or_none(PyObject* value, const ArgumentType& type, bool convert) {
  return is_none(value) || matches(value, type, convert);
}
// A list or tuple whose elements match; `count` of them, if it is positive.
template <bool (*matches)(PyObject*, const ArgumentType&, bool), int count = 0>
bool list_of(PyObject* value, const ArgumentType& type, bool convert) {
  if (!is_sequence(value)) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  if (count > 0 && size != count) return false;
  for (Py_ssize_t k = 0; k < size; ++k) {
    if (!matches(PySequence_Fast_GET_ITEM(value, k), type, convert)) return false;
  }
  return true;
}
template <bool (*matches)(PyObject*, const ArgumentType&, bool), int count = 0>
bool one_or_list(PyObject* value, const ArgumentType& type, bool convert) {
  return matches(value, type, convert) || list_of<matches, count>(value, type, convert);
}
bool is_integer_list(PyObject* value, const ArgumentType& type, bool convert) {
  return list_of<is_integer>(value, type, convert);
}
bool is_axes(PyObject* value, const ArgumentType& type, bool convert) {
  return is_none(value) || one_or_list<is_integer>(value, type, convert);
}
bool is_dict(PyObject* value, const ArgumentType&, bool) { return PyDict_Check(value); }
bool is_callable(PyObject* value, const ArgumentType&, bool) { return PyCallable_Check(value); }
bool is_anything(PyObject*, const ArgumentType&, bool) { return true; }

PyObject* dtype_objects[all_dtype_count];
PyObject *dtype_class, *device_class, *find_dtype, *generator_class;

bool is_dtype(PyObject* value, const ArgumentType&, bool convert) {
  if (Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(dtype_class)) return true;
  if (!convert || is_tensor(value)) return false;
  const Owned found(PyObject_CallOneArg(find_dtype, value));
  if (!found) PyErr_Clear();
  return found && found.get() != Py_None;
}
bool is_device(PyObject* value, const ArgumentType&, bool) {
  return PyUnicode_Check(value) || Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(device_class);
}
bool is_generator(PyObject* value, const ArgumentType&, bool) {
  return PyObject_IsInstance(value, generator_class) == 1;
}

}  // namespace

namespace types {

bool matches_name(PyObject* value, const ArgumentType& type, bool) {
  if (!PyUnicode_Check(value)) return false;
  for (const char* const* name = type.names; *name != nullptr; ++name) {
    if (PyUnicode_CompareWithASCIIString(value, *name) == 0) return true;
  }
  return false;
}

const ArgumentType tensor{"TensorLike", "a Tensor, an array, a number or nested lists of numbers",
                          is_tensor_argument};
const ArgumentType tensor_or_none{"TensorLike | None", "a Tensor, an array, a number or None",
                                  or_none<is_tensor_argument>};
const ArgumentType written{"Tensor", "a Tensor, which is changed in place", is_written};
const ArgumentType tensors{"Sequence[TensorLike | None]", "a list or tuple of Tensors",
                           list_of<or_none<is_tensor_argument>>};
const ArgumentType named_tensors{"Mapping[str, Tensor]", "a dict from names to Tensors", is_dict};
const ArgumentType scalar{"complex | bool", "a number", is_scalar};
const ArgumentType scalar_or_none{"complex | bool | None", "a number or None", or_none<is_scalar>};
const ArgumentType integer{"int", "an int", is_integer};
const ArgumentType integer_or_none{"int | None", "an int or None", or_none<is_integer>};
const ArgumentType number{"float", "a float or an int", is_number};
const ArgumentType number_or_none{"float | None", "a float, an int or None", or_none<is_number>};
const ArgumentType numbers{"Sequence[float]", "a list or tuple of numbers", list_of<is_number>};
const ArgumentType number_pair{"tuple[float, float]", "a pair of numbers", list_of<is_number, 2>};
const ArgumentType number_pair_or_none{"tuple[float, float] | None", "a pair of numbers or None",
                                       or_none<list_of<is_number, 2>>};
const ArgumentType none{"None", "None", is_none};
const ArgumentType boolean{"bool", "a bool", is_boolean};
const ArgumentType boolean_or_none{"bool | None", "a bool or None", or_none<is_boolean>};
const ArgumentType booleans{"tuple[bool, bool, bool]", "three bools", list_of<is_boolean, 3>};
const ArgumentType string{"str", "a str", is_string};
const ArgumentType strings{"Sequence[str]", "a list or tuple of strs", list_of<is_string>};
const ArgumentType path{"str | PathLike[str]", "a str or a path", is_path};
const ArgumentType axes{"int | Sequence[int] | None", "an int, a list or tuple of ints, or None",
                        is_axes};
const ArgumentType integers{"Sequence[int]", "a list or tuple of ints", list_of<is_integer>};
const ArgumentType shape{"int | Sequence[int]", "an int, or a list or tuple of ints",
                         one_or_list<is_integer>};
const ArgumentType shape_or_none{"int | Sequence[int] | None",
                                 "an int, a list or tuple of ints, or None",
                                 or_none<one_or_list<is_integer>>};
const ArgumentType shapes{"Sequence[Sequence[int]]", "a list or tuple of shapes",
                          list_of<is_integer_list>};
const ArgumentType size2d{"int | tuple[int, int]", "an int or a pair of ints",
                          one_or_list<is_integer, 2>};
const ArgumentType size2d_or_none{"int | tuple[int, int] | None", "an int, a pair of ints or None",
                                  or_none<one_or_list<is_integer, 2>>};
const ArgumentType size3d{"int | tuple[int, int, int]", "an int or three ints",
                          one_or_list<is_integer, 3>};
const ArgumentType size3d_or_none{"int | tuple[int, int, int] | None", "an int, three ints or None",
                                  or_none<one_or_list<is_integer, 3>>};
const ArgumentType scale2d_or_none{"float | tuple[float, float] | None",
                                   "a number, a pair of numbers or None",
                                   or_none<one_or_list<is_number, 2>>};
const ArgumentType padding{"Sequence[tuple[int, int]]", "a list or tuple of pairs of ints",
                           list_of<list_of<is_integer, 2>>};
const ArgumentType dtype{"DTypeLike", "a dtype such as extensor.float32 or 'float32'", is_dtype};
const ArgumentType dtype_or_none{"DTypeLike | None",
                                 "a dtype such as extensor.float32 or 'float32', or None",
                                 or_none<is_dtype>};
const ArgumentType device{"Device | str", "a Device or its name, such as 'cpu' or 'cuda:0'",
                          is_device};
const ArgumentType device_or_none{"Device | str | None",
                                  "a Device or its name, such as 'cpu' or 'cuda:0', or None",
                                  or_none<is_device>};
const ArgumentType generator{"Generator | None", "a Generator or None", or_none<is_generator>};
const ArgumentType function{"Callable[..., Any]", "a callable", is_callable};
const ArgumentType function_or_none{"Callable[..., Any] | None", "a callable or None",
                                    or_none<is_callable>};
const ArgumentType index{"Any", "an index expression", is_anything};
const ArgumentType record{"Sequence[Any]", "the tuple that another function returned",
                          list_of<is_anything>};
const ArgumentType object{"Any", "any object", is_anything};

}  // namespace types

bool load_types() {
  const Owned module(PyImport_ImportModule("extensor._types"));
  if (!module) return false;
  dtype_class = PyObject_GetAttrString(module.get(), "DType");
  device_class = PyObject_GetAttrString(module.get(), "Device");
  find_dtype = PyObject_GetAttrString(module.get(), "find_dtype");
  const Owned all(PyObject_GetAttrString(module.get(), "dtypes"));
  if (dtype_class == nullptr || device_class == nullptr || find_dtype == nullptr || !all) {
    return false;
  }
  for (int k = 0; k < all_dtype_count; ++k) {
    dtype_objects[k] = PyTuple_GetItem(all.get(), k);
    if (dtype_objects[k] == nullptr) return false;
    Py_INCREF(dtype_objects[k]);
  }
  return true;
}

// ---- conversions

std::string text_of_integer(PyObject* value) {
  const Owned text(PyObject_Str(value));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 != nullptr ? utf8 : "an int of thousands of digits";
}

std::int64_t to_int64(PyObject* value, const std::string& name) {
  const Owned index(PyNumber_Index(value));
  if (!index) {
    // An exception of __index__ itself passes through.
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw PythonError();
    PyErr_Clear();
    throw ArgumentError(name + " is " + Py_TYPE(value)->tp_name + " (accepted: an int)");
  }
  int overflow = 0;
  const std::int64_t result = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow != 0) {
    throw ValueError(name + " is " + text_of_integer(index.get()) + " (allowed: −2⁶³ to 2⁶³ − 1)");
  }
  return result;
}

DType to_dtype(PyObject* value) {
  for (int k = 0; k < all_dtype_count; ++k) {
    if (value == dtype_objects[k]) return static_cast<DType>(k);
  }
  const Owned found(checked(PyObject_CallOneArg(find_dtype, value)));
  for (int k = 0; k < all_dtype_count; ++k) {
    if (found.get() == dtype_objects[k]) return static_cast<DType>(k);
  }
  throw ArgumentError("dtype is not one of the dtypes of extensor");
}

Device to_device(PyObject* value) {
  const Owned device(checked(PyObject_CallOneArg(device_class, value)));
  const Owned type(checked(PyObject_GetAttrString(device.get(), "type")));
  const Owned index(checked(PyObject_GetAttrString(device.get(), "index")));
  const std::string name = PyUnicode_AsUTF8(type.get());
  const std::int64_t number = to_int64(index.get(), "device index");
  if (number < 0 || number > std::numeric_limits<std::int16_t>::max()) {
    throw DeviceError("device: index " + std::to_string(number) + " is out of range");
  }
  const auto kind = name == "cpu"    ? Device::Type::cpu
                    : name == "cuda" ? Device::Type::cuda
                                     : Device::Type::test;
  return {kind, static_cast<std::int16_t>(number)};
}

Dims to_dims(PyObject* value, const std::string& name) {
  Dims result;
  if (!is_sequence(value)) {
    result.push_back(to_int64(value, name));
    return result;
  }
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(value); ++k) {
    result.push_back(to_int64(PySequence_Fast_GET_ITEM(value, k), name));
  }
  return result;
}

void Call::refuse(int i) const {
  throw ArgumentError(std::string(function) + ": argument '" + parameters[i].name + "' is " +
                      Py_TYPE(values[i])->tp_name + " (accepted: " + parameters[i].type->accepted +
                      ")");
}

void Call::note(const Tensor& tensor) {
  saw_tensor_ = true;
  if (tensor.defined() && tensor.numel() >= 2048) large_ = true;
}

const Tensor& Call::tensor(int i) {
  if (values[i] == nullptr) return converted_.emplace_back();
  if (is_tensor(values[i])) {
    const Tensor& result = tensor_of(values[i]);
    note(result);
    return result;
  }
  const std::string name = std::string(function) + ": argument '" + parameters[i].name + "'";
  const Tensor& result = converted_.emplace_back(as_tensor(values[i], name.c_str()));
  note(result);
  return result;
}

Tensor& Call::written(int i) {
  note(tensor_of(values[i]));
  return tensor_of(values[i]);
}

std::vector<Tensor> Call::tensors(int i) {
  std::vector<Tensor> result;
  if (values[i] == nullptr) return result;
  const std::string name = std::string(function) + ": an element of '" + parameters[i].name + "'";
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(values[i], k);
    result.push_back(item == Py_None ? Tensor() : as_tensor(item, name.c_str()));
    note(result.back());
  }
  return result;
}

NamedTensors Call::named_tensors(int i) {
  NamedTensors result;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(values[i], &position, &key, &value) != 0;) {
    if (!PyUnicode_Check(key)) refuse(i);
    const char* text = PyUnicode_AsUTF8(key);
    if (text == nullptr) throw PythonError();
    const std::string what = std::string(function) + ": the value of '" + text + "'";
    result.emplace_back(text, as_tensor(value, what.c_str()));
  }
  set_large();
  return result;
}

Scalar Call::scalar(int i) {
  Scalar result = 0;
  if (!read_scalar(values[i], result)) refuse(i);
  return result;
}

std::int64_t Call::integer(int i) {
  return to_int64(values[i], std::string(function) + ": argument '" + parameters[i].name + "'");
}

std::int64_t Call::clamped_integer(int i) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  const Owned index(checked(PyNumber_Index(values[i])));
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow != 0) return overflow * most;
  return std::clamp(value, -most, most);
}

std::uint64_t Call::unsigned_integer(int i) {
  const Owned index(checked(PyNumber_Index(values[i])));
  const std::uint64_t result = PyLong_AsUnsignedLongLong(index.get());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ValueError(std::string(function) + ": argument '" + parameters[i].name + "' is " +
                     text_of_integer(index.get()) + " (allowed: 0 to 2⁶⁴ − 1)");
  }
  return result;
}

double Call::number(int i) {
  const double result = PyFloat_AsDouble(values[i]);
  if (result == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return result;
}

std::vector<double> Call::numbers(int i) {
  std::vector<double> result;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]); ++k) {
    result.push_back(PyFloat_AsDouble(PySequence_Fast_GET_ITEM(values[i], k)));
  }
  if (PyErr_Occurred() != nullptr) throw PythonError();
  return result;
}

std::vector<std::int64_t> Call::integers(int i) {
  const Dims dims = shape(i);
  return {dims.begin(), dims.end()};
}

std::pair<double, double> Call::number_pair(int i) {
  const std::vector<double> both = numbers(i);
  return {both[0], both[1]};
}

std::array<bool, 3> Call::three_booleans(int i) {
  std::array<bool, 3> result{};
  for (Py_ssize_t k = 0; k < 3; ++k) {
    result[static_cast<std::size_t>(k)] =
        PyObject_IsTrue(PySequence_Fast_GET_ITEM(values[i], k)) == 1;
  }
  return result;
}

namespace {

std::string to_text(PyObject* value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) throw PythonError();
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

std::string Call::string(int i) { return to_text(values[i]); }

std::vector<std::string> Call::strings(int i) {
  std::vector<std::string> result;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]); ++k) {
    result.push_back(to_text(PySequence_Fast_GET_ITEM(values[i], k)));
  }
  return result;
}

std::map<std::string, std::string> Call::string_map(int i) {
  std::map<std::string, std::string> result;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(values[i], &position, &key, &value) != 0;) {
    if (!PyUnicode_Check(key) || !PyUnicode_Check(value)) refuse(i);
    result[to_text(key)] = to_text(value);
  }
  return result;
}

std::filesystem::path Call::path(int i) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(values[i], &bytes) == 0) throw PythonError();
  const Owned owned(bytes);
  set_large();
  return PyBytes_AS_STRING(bytes);
}

Axes Call::axes(int i) {
  if (is_sequence(values[i])) return shape(i);
  return integer(i);
}

Dims Call::shape(int i) {
  return to_dims(values[i], std::string(function) + ": argument '" + parameters[i].name + "'");
}

std::vector<Shape> Call::shapes(int i) {
  std::vector<Shape> result;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]); ++k) {
    result.push_back(to_dims(PySequence_Fast_GET_ITEM(values[i], k), function));
  }
  return result;
}

Size2d Call::size2d(int i) {
  const Dims dims = shape(i);
  return dims.size() == 1 ? Size2d(dims[0]) : Size2d(dims[0], dims[1]);
}

Size3d Call::size3d(int i) {
  const Dims dims = shape(i);
  return dims.size() == 1 ? Size3d(dims[0]) : Size3d(dims[0], dims[1], dims[2]);
}

Scale2d Call::scale2d(int i) {
  if (!is_sequence(values[i])) return number(i);
  const auto [height, width] = number_pair(i);
  return {height, width};
}

std::vector<std::pair<std::int64_t, std::int64_t>> Call::padding(int i) {
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]); ++k) {
    const Dims both = to_dims(PySequence_Fast_GET_ITEM(values[i], k), function);
    result.emplace_back(both[0], both[1]);
  }
  return result;
}

DType Call::dtype(int i) { return to_dtype(values[i]); }
Device Call::device(int i) { return to_device(values[i]); }
std::vector<Index> Call::index(int i) { return to_index(values[i]); }

int Call::enumeration(int i) {
  const char* const* names = parameters[i].type->names;
  for (int k = 0; names[k] != nullptr; ++k) {
    if (PyUnicode_CompareWithASCIIString(values[i], names[k]) == 0) return k;
  }
  refuse(i);
}

// ---- results

PyObject* to_python(DType dtype) {
  PyObject* result = dtype_objects[static_cast<int>(dtype)];
  Py_INCREF(result);
  return result;
}

PyObject* to_python(const Device& device) {
  const Owned text(checked(to_python(to_string(device))));
  return PyObject_CallOneArg(device_class, text.get());
}

void set_generator_class(PyObject* type) { generator_class = type; }

}  // namespace extensor::python
