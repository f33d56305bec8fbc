// The arguments of a call from Python: which Python values each type of parameter accepts, and
// their conversion to C++.
#pragma once

#include <Python.h>

#include <array>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "extensor/extensor.h"
#include "tensor_object.h"

namespace extensor::python {

// The values that a parameter accepts. Overloads are tried twice: first with exact types, then with
// conversions, so that add(x, 2) finds the overload for numbers before 2 becomes a tensor.
struct ArgumentType {
  const char* annotation;  // as a type annotation: "int | Sequence[int] | None"
  const char* accepted;    // as a phrase: "an int, a sequence of ints or None"
  bool (*matches)(PyObject* value, const ArgumentType& type, bool convert);
  const char* const* names = nullptr;  // the values of an enumeration, ending with null
};

namespace types {
extern const ArgumentType tensor, tensor_or_none, written, tensors, named_tensors, scalar,
    scalar_or_none, integer, integer_or_none, number, number_or_none, integers, numbers,
    number_pair, number_pair_or_none, none, boolean, booleans, boolean_or_none, string, path, axes,
    shape, shape_or_none, shapes, size2d, size2d_or_none, size3d, size3d_or_none, scale2d_or_none,
    padding, dtype, dtype_or_none, device, device_or_none, generator, strings, function,
    function_or_none, index, record, object, gpt, model, loader, loss;
bool matches_name(PyObject* value, const ArgumentType& type, bool convert);
}  // namespace types

struct Parameter {
  const char* name;
  const ArgumentType* type;
  const char* default_text;  // for signatures: "None"; null if the parameter is required
  bool keyword_only = false;
  const char* alias = nullptr;  // another name that keyword arguments may use
};

// One call, with an entry for every parameter of the overload: null if it was not passed.
class Call {
 public:
  const char* function = "";
  const Parameter* parameters = nullptr;
  PyObject** values = nullptr;

  bool has(int i) const { return values[i] != nullptr; }
  PyObject* object(int i) const { return values[i]; }

  const Tensor& tensor(int i);  // undefined if absent
  Tensor& written(int i);
  std::vector<Tensor> tensors(int i);  // None stands for an undefined tensor
  NamedTensors named_tensors(int i);
  Scalar scalar(int i);
  std::int64_t integer(int i);
  std::int64_t clamped_integer(int i);  // to ± 2⁶²
  std::uint64_t unsigned_integer(int i);
  std::vector<std::int64_t> integers(int i);
  double number(int i);
  std::vector<double> numbers(int i);
  std::pair<double, double> number_pair(int i);
  bool boolean(int i) const { return values[i] == Py_True || PyObject_IsTrue(values[i]) == 1; }
  std::array<bool, 3> three_booleans(int i);
  std::string string(int i);
  std::vector<std::string> strings(int i);
  std::map<std::string, std::string> string_map(int i);
  std::filesystem::path path(int i);
  Axes axes(int i);
  Dims shape(int i);
  std::vector<Shape> shapes(int i);
  Size2d size2d(int i);
  Size3d size3d(int i);
  Scale2d scale2d(int i);
  std::vector<std::pair<std::int64_t, std::int64_t>> padding(int i);
  DType dtype(int i);
  Device device(int i);
  Generator& generator(int i);
  int enumeration(int i);  // the position in the names of its type
  std::vector<Index> index(int i);
  std::function<Tensor(const Tensor&)> unary_function(int i);
  std::function<Tensor(const Tensor&, const Tensor&)> binary_function(int i);
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> tensors_function(int i);

  std::function<bool(const Tensor&)> token_function(int i);
  const models::Gpt& gpt(int i);
  // Valid until the call ends.
  const train::ModelReference& model(int i);
  const data::DataLoader& loader(int i);
  train::Loss loss(int i);

  // Whether the work is large enough to release the GIL for it, which costs about 50 ns.
  bool is_large() const { return large_ || !saw_tensor_; }
  void set_large() { large_ = true; }

 private:
  [[noreturn]] void refuse(int i) const;
  void note(const Tensor& tensor);

  std::deque<Tensor> converted_;
  std::vector<std::shared_ptr<const void>> kept_;  // what returned references refer to
  bool large_ = false, saw_tensor_ = false;
};

// ---- single values; they throw ArgumentError, which starts with `name`

std::int64_t to_int64(PyObject* value, const std::string& name);
DType to_dtype(PyObject* value);
Device to_device(PyObject* value);
Dims to_dims(PyObject* value, const std::string& name);
std::vector<Index> to_index(PyObject* key);
bool load_types();  // the classes of _types.py; false with a Python error set
void set_generator_class(PyObject* type);

// ---- results; each returns a new reference or throws PythonError

PyObject* to_python(DType dtype);
PyObject* to_python(const Device& device);
PyObject* to_python(const Dims& dims);
PyObject* to_python(const std::vector<Tensor>& tensors);  // a tuple
PyObject* to_python(const NamedTensors& tensors);
PyObject* to_python(const std::map<std::string, std::string>& strings);
PyObject* to_python(const std::string& text);
PyObject* to_python(const data::Transform& transform);
PyObject* to_python(const data::SamplerPointer& sampler);
PyObject* to_python(const train::ConfusionMatrix& matrix);
inline PyObject* to_python(Tensor tensor) { return wrap(std::move(tensor)); }
inline PyObject* to_python(const char* text) { return to_python(std::string(text)); }
inline PyObject* to_python(bool value) { return PyBool_FromLong(value ? 1 : 0); }
inline PyObject* to_python(double value) { return PyFloat_FromDouble(value); }
inline PyObject* to_python(int value) { return PyLong_FromLong(value); }
inline PyObject* to_python(std::int64_t value) { return PyLong_FromLongLong(value); }
inline PyObject* to_python(std::uint64_t value) { return PyLong_FromUnsignedLongLong(value); }
inline PyObject* to_python(const std::filesystem::path& path) { return to_python(path.string()); }
inline PyObject* to_python(const GradientNorm& norm) { return wrap(norm.tensor()); }
}  // namespace extensor::python
