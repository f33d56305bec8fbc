// Members of Tensor and functions of the module that have no row in the list of public functions:
// conversion, copies, memory and gradients.
#include "bindings.h"

namespace extensor::python {

namespace {

TensorOptions options_of(Call& call, int dtype, int device) {
  TensorOptions options;
  if (call.has(dtype)) options.dtype = call.dtype(dtype);
  if (call.has(device)) options.device = call.device(device);
  return options;
}

// ---- making tensors

constexpr Parameter make_parameters[] = {{"data", &types::object, nullptr},
                                         {"dtype", &types::dtype_or_none, "None", true},
                                         {"device", &types::device_or_none, "None", true},
                                         {"requires_grad", &types::boolean, "False", true}};
constexpr Overload tensor_overloads[] = {
    {make_parameters, "Tensor", [](Call& call) -> PyObject* {
       Tensor result = make_tensor(call.object(0), options_of(call, 1, 2), true).detach();
       if (call.has(3)) result.requires_grad_(call.boolean(3));
       return wrap(std::move(result));
     }}};

constexpr Parameter asarray_parameters[] = {{"obj", &types::object, nullptr},
                                            {"dtype", &types::dtype_or_none, "None", true},
                                            {"device", &types::device_or_none, "None", true},
                                            {"copy", &types::boolean_or_none, "None", true}};
constexpr Overload asarray_overloads[] = {
    {asarray_parameters, "Tensor", [](Call& call) -> PyObject* {
       const bool copy = call.has(3) && call.boolean(3);
       Tensor result = make_tensor(call.object(0), options_of(call, 1, 2), copy);
       if (call.has(3) && !copy) {
         bool copied = true;
         Tensor shared;
         if (is_tensor(call.object(0))) {
           shared = tensor_of(call.object(0));
           copied = result.impl_or_null() != shared.impl_or_null();
         } else if (PyObject_CheckBuffer(call.object(0)) != 0) {
           shared = from_buffer(call.object(0), copied);
           copied = copied || shared.impl().data != result.impl().data;
         } else if (PyObject_HasAttrString(call.object(0), "__dlpack__") == 1) {
           copied = result.dtype() != from_dlpack(call.object(0)).dtype();
         }
         if (copied) {
           throw ValueError("asarray: copy=False, but this conversion requires a copy");
         }
       }
       return wrap(std::move(result));
     }}};

constexpr Parameter dlpack_source[] = {{"x", &types::object, nullptr},
                                       {"device", &types::device_or_none, "None", true},
                                       {"copy", &types::boolean_or_none, "None", true}};
constexpr Overload from_dlpack_overloads[] = {
    {dlpack_source, "Tensor", [](Call& call) -> PyObject* {
       Tensor result = from_dlpack(call.object(0));
       if (call.has(1)) result = result.to(call.device(1));
       if (call.has(2) && call.boolean(2)) result = result.clone();
       return wrap(std::move(result));
     }}};

// For pickling: the bytes of a tensor in row-major order.
constexpr Parameter bytes_parameters[] = {{"data", &types::object, nullptr},
                                          {"dtype", &types::dtype, nullptr},
                                          {"shape", &types::shape, nullptr}};
constexpr Overload from_bytes_overloads[] = {
    {bytes_parameters, "Tensor", [](Call& call) -> PyObject* {
       if (!PyBytes_Check(call.object(0))) throw ArgumentError("_from_bytes: data is not bytes");
       const DType dtype = call.dtype(1);
       const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(call.object(0)));
       if (size % itemsize(dtype) != 0) {
         throw ValueError("_from_bytes: the bytes are not whole elements");
       }
       return wrap(from_bytes(PyBytes_AS_STRING(call.object(0)), size / itemsize(dtype), dtype,
                              call.shape(2)));
     }}};

constexpr Parameter result_type_parameters[] = {{"arrays_and_dtypes", &types::object, nullptr}};
constexpr Overload result_type_overloads[] = {
    {result_type_parameters, "DType", [](Call& call) -> PyObject* {
       detail::ResultType result;
       const Owned operands(checked(PySequence_Tuple(call.object(0))));
       for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(operands.get()); ++k) {
         PyObject* operand = PyTuple_GET_ITEM(operands.get(), k);
         Scalar number = 0;
         if (is_tensor(operand)) {
           result.add(tensor_of(operand));
         } else if (PyBool_Check(operand) || PyLong_Check(operand) || PyFloat_Check(operand) ||
                    PyComplex_Check(operand)) {
           if (read_scalar(operand, number)) result.add(number);
         } else if (types::dtype.matches(operand, types::dtype, true)) {
           result.add(to_dtype(operand));
         } else {
           throw ArgumentError("result_type: argument " + std::to_string(k + 1) + " is " +
                               Py_TYPE(operand)->tp_name +
                               " (accepted: a Tensor, a dtype or a number)");
         }
       }
       return to_python(result.get());
     }}};

}  // namespace

const FunctionRow module_rows[] = {
    {"tensor",
     "A new tensor with the values of numbers, nested lists, an array or a tensor.\n\n"
     "Python floats become float32, ints int64 and bools bool unless dtype is given.",
     tensor_overloads},
    {"asarray",
     "A tensor that shares the memory of a tensor or an array where possible. copy=True always "
     "copies; copy=False raises ValueError where a copy is required.",
     asarray_overloads},
    {"from_dlpack", "A tensor on the memory of an array that supports DLPack, without a copy.",
     from_dlpack_overloads},
    {"result_type", "The dtype of an operation on tensors, dtypes and numbers.",
     result_type_overloads, true},
    {"_from_bytes", "A tensor with the elements that Tensor._bytes() returned.",
     from_bytes_overloads},
};
const std::size_t module_row_count = std::size(module_rows);

namespace {

// ---- members

constexpr Parameter self_only[] = {{"self", &types::written, nullptr}};

#define EXTENSOR_SELF(name, result, ...)                                                     \
  constexpr Overload name##_overloads[] = {{self_only, result, [](Call& call) -> PyObject* { \
                                              Tensor& x = call.written(0);                   \
                                              return run(call, [&] { return __VA_ARGS__; }); \
                                            }}};
EXTENSOR_SELF(contiguous, "Tensor", x.contiguous())
EXTENSOR_SELF(detach, "Tensor", x.detach())
EXTENSOR_SELF(is_contiguous, "bool", x.is_contiguous())
EXTENSOR_SELF(numel, "int", x.numel())
EXTENSOR_SELF(cpu, "Tensor", x.to(cpu_device))
EXTENSOR_SELF(retain_grad, "None", x.retain_grad())
EXTENSOR_SELF(text, "str", to_string(x))
#undef EXTENSOR_SELF

constexpr Parameter clone_parameters[] = {
    {"self", &types::written, nullptr},
    {"memory_format", &MemoryFormat_type, "'preserve'"},
};
constexpr Overload clone_overloads[] = {{clone_parameters, "Tensor", [](Call& call) -> PyObject* {
                                           const Tensor& x = call.written(0);
                                           const MemoryFormat format =
                                               call.has(1)
                                                   ? MemoryFormat_values[call.enumeration(1)]
                                                   : MemoryFormat::preserve;
                                           return run(call, [&] { return x.clone(format); });
                                         }}};

constexpr Overload tolist_overloads[] = {
    {self_only, "Any", [](Call& call) { return to_list(call.written(0)); }}};

constexpr Parameter item_parameters[] = {{"self", &types::written, nullptr},
                                         {"index", &types::object, "None"}};
constexpr Overload item_overloads[] = {{item_parameters, "Any", [](Call& call) -> PyObject* {
                                          const Tensor& x = call.written(0);
                                          if (!call.has(1) || call.object(1) == Py_None)
                                            return to_number(x);
                                          return to_number(x.index(to_index(call.object(1))));
                                        }}};

constexpr Parameter shape_parameters[] = {{"self", &types::written, nullptr},
                                          {"shape", &types::shape, nullptr}};
constexpr Overload view_overloads[] = {{shape_parameters, "Tensor", [](Call& call) -> PyObject* {
                                          return wrap(call.written(0).view(call.shape(1)));
                                        }}};
constexpr Overload reshape_overloads[] = {{shape_parameters, "Tensor", [](Call& call) -> PyObject* {
                                             const Tensor& x = call.written(0);
                                             const Shape shape = call.shape(1);
                                             return run(call, [&] { return x.reshape(shape); });
                                           }}};

constexpr Parameter slice_parameters[] = {{"self", &types::written, nullptr},
                                          {"axis", &types::integer, nullptr},
                                          {"start", &types::integer_or_none, "None"},
                                          {"stop", &types::integer_or_none, "None"},
                                          {"step", &types::integer, "1"}};
constexpr Overload slice_overloads[] = {
    {slice_parameters, "Tensor", [](Call& call) -> PyObject* {
       std::optional<StrictInt> start, stop;
       if (call.has(2)) start = call.integer(2);
       if (call.has(3)) stop = call.integer(3);
       return wrap(
           call.written(0).slice(call.integer(1), start, stop, call.has(4) ? call.integer(4) : 1));
     }}};

// x.to('cpu'), x.to(extensor.float64), x.to(device=…, dtype=…)
constexpr Parameter to_dtype_parameters[] = {{"self", &types::written, nullptr},
                                             {"dtype", &types::dtype, nullptr}};
constexpr Parameter to_device_parameters[] = {{"self", &types::written, nullptr},
                                              {"device", &types::device, nullptr},
                                              {"dtype", &types::dtype_or_none, "None"}};
constexpr Parameter to_format_parameters[] = {{"self", &types::written, nullptr},
                                              {"memory_format", &MemoryFormat_type, nullptr}};
constexpr Overload to_overloads[] = {
    {to_dtype_parameters, "Tensor",
     [](Call& call) -> PyObject* {
       const Tensor& x = call.written(0);
       const DType dtype = call.dtype(1);
       return run(call, [&] { return x.to(dtype); });
     }},
    {to_format_parameters, "Tensor",
     [](Call& call) -> PyObject* {
       const Tensor& x = call.written(0);
       const MemoryFormat format = MemoryFormat_values[call.enumeration(1)];
       return run(call, [&] { return x.to(format); });
     }},
    {to_device_parameters, "Tensor", [](Call& call) -> PyObject* {
       const Tensor& x = call.written(0);
       // A name such as 'float64' is also a str, so it is tried as a dtype first.
       if (types::dtype.matches(call.object(1), types::dtype, true)) {
         const DType dtype = to_dtype(call.object(1));
         return run(call, [&] { return x.to(dtype); });
       }
       const Device device = call.device(1);
       const DType dtype = call.has(2) ? call.dtype(2) : x.dtype();
       return run(call, [&] { return x.to(device, dtype); });
     }}};
constexpr Parameter astype_parameters[] = {{"self", &types::written, nullptr},
                                           {"dtype", &types::dtype, nullptr},
                                           {"copy", &types::boolean, "True", true}};
constexpr Overload astype_overloads[] = {
    {astype_parameters, "Tensor", [](Call& call) -> PyObject* {
       const Tensor& x = call.written(0);
       const DType dtype = call.dtype(1);
       const bool copy = !call.has(2) || call.boolean(2);
       return run(call, [&] { return copy && dtype == x.dtype() ? x.clone() : x.to(dtype); });
     }}};

// ---- writes

PyObject* self_of(const Call& call) {
  Py_INCREF(call.object(0));
  return call.object(0);
}

constexpr Parameter copy_from_parameters[] = {{"self", &types::written, nullptr},
                                              {"source", &types::tensor, nullptr}};
constexpr Overload copy_from_overloads[] = {
    {copy_from_parameters, "Tensor", [](Call& call) -> PyObject* {
       Tensor& x = call.written(0);
       const Tensor& source = call.tensor(1);
       Py_XDECREF(run(call, [&] { x.copy_from(source); }));
       return self_of(call);
     }}};
constexpr Parameter fill_parameters[] = {{"self", &types::written, nullptr},
                                         {"value", &types::scalar, nullptr}};
constexpr Overload fill_overloads[] = {{fill_parameters, "Tensor", [](Call& call) -> PyObject* {
                                          Tensor& x = call.written(0);
                                          const Scalar value = call.scalar(1);
                                          Py_XDECREF(run(call, [&] { x.fill(value); }));
                                          return self_of(call);
                                        }}};

// ---- gradients

constexpr Parameter requires_grad_parameters[] = {{"self", &types::written, nullptr},
                                                  {"requires_grad", &types::boolean, "True"}};
constexpr Overload requires_grad_overloads[] = {
    {requires_grad_parameters, "Tensor", [](Call& call) -> PyObject* {
       call.written(0).requires_grad_(!call.has(1) || call.boolean(1));
       return self_of(call);
     }}};
constexpr Parameter backward_parameters[] = {{"self", &types::written, nullptr},
                                             {"gradient", &types::tensor_or_none, "None"},
                                             {"retain_graph", &types::boolean, "False"},
                                             {"create_graph", &types::boolean, "False"}};
constexpr Overload backward_overloads[] = {
    {backward_parameters, "None", [](Call& call) -> PyObject* {
       const Tensor x = call.written(0);
       const BackwardOptions options{.retain_graph = call.has(2) && call.boolean(2),
                                     .create_graph = call.has(3) && call.boolean(3)};
       call.set_large();
       if (!call.has(1)) return run(call, [&] { x.backward(options); });
       const Tensor& gradient = call.tensor(1);
       return run(call, [&] { x.backward(gradient, options); });
     }}};

// ---- interchange

constexpr Parameter dlpack_parameters[] = {{"self", &types::written, nullptr},
                                           {"stream", &types::object, "None", true},
                                           {"max_version", &types::object, "None", true},
                                           {"dl_device", &types::object, "None", true},
                                           {"copy", &types::boolean_or_none, "None", true}};
constexpr Overload dlpack_overloads[] = {
    {dlpack_parameters, "Any", [](Call& call) -> PyObject* {
       const Tensor& x = call.written(0);
       bool versioned = false;
       if (call.has(2) && call.object(2) != Py_None) {
         PyObject* version = call.object(2);
         if (!PyTuple_Check(version) || PyTuple_GET_SIZE(version) != 2) {
           throw ArgumentError("__dlpack__: argument 'max_version' is not a pair of ints");
         }
         versioned = to_int64(PyTuple_GET_ITEM(version, 0), "__dlpack__: max_version") >= 1;
       }
       if (call.has(3) && call.object(3) != Py_None) {
         PyObject* device = call.object(3);
         const bool cpu = PyTuple_Check(device) && PyTuple_GET_SIZE(device) == 2 &&
                          to_int64(PyTuple_GET_ITEM(device, 0), "__dlpack__: dl_device") == 1;
         if (!cpu || x.device().type != Device::Type::cpu) {
           PyErr_SetString(PyExc_BufferError, "__dlpack__: cannot export to another device");
           throw PythonError();
         }
       }
       return to_dlpack_capsule(call.has(4) && call.boolean(4) ? x.clone() : x, versioned);
     }}};
constexpr Overload dlpack_device_overloads[] = {
    {self_only, "tuple[int, int]", [](Call& call) -> PyObject* {
       const Device device = call.written(0).device();
       return Py_BuildValue("(ii)", device.type == Device::Type::cuda ? 2 : 1, int{device.index});
     }}};
// The bytes of the elements in row-major order, for pickling.
constexpr Overload bytes_overloads[] = {
    {self_only, "bytes", [](Call& call) -> PyObject* {
       const Tensor dense = call.written(0).detach().to(cpu_device).contiguous();
       return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(dense.impl().data),
                                        static_cast<Py_ssize_t>(dense.nbytes()));
     }}};

}  // namespace

const FunctionRow tensor_rows[] = {
    {"contiguous", "Itself if its elements are dense in row-major order, else a copy.",
     contiguous_overloads},
    {"detach", "The same memory without a history of gradients.", detach_overloads},
    {"is_contiguous", "Whether the elements are dense in row-major order.",
     is_contiguous_overloads},
    {"numel", "The number of elements.", numel_overloads},
    {"cpu", "A copy on the CPU, or itself if it is there.", cpu_overloads},
    {"retain_grad", "Keeps the gradient of a tensor that is not a leaf.", retain_grad_overloads},
    {"clone", "A dense copy; the gradient flows through it.", clone_overloads},
    {"copy", "A dense copy; the gradient flows through it.", clone_overloads},
    {"tolist", "The elements as nested lists of Python numbers.", tolist_overloads},
    {"item",
     "The element of a tensor that has exactly one, or the one at an index, as a Python "
     "number.",
     item_overloads},
    {"view", "The same memory with another shape. Raises ShapeError where strides forbid it.",
     view_overloads},
    {"reshape", "Another shape; a view where strides allow it, else a copy. One −1 is allowed.",
     reshape_overloads},
    {"slice", "start:stop:step along one axis, as a view.", slice_overloads},
    {"to", "The tensor with another dtype, device or memory format, or itself if it has it.",
     to_overloads},
    {"astype", "A copy with another dtype.", astype_overloads},
    {"copy_from", "Writes the values of `source`, which broadcasts, into this memory.",
     copy_from_overloads},
    {"fill", "Writes one number into all elements.", fill_overloads},
    {"requires_grad_", "Requests a gradient, or stops doing so.", requires_grad_overloads},
    {"backward",
     "Adds the gradients of this tensor to the grad of every leaf that it was computed from. "
     "Without `gradient` it must have one element.",
     backward_overloads},
    {"__dlpack__", "A DLPack capsule on this memory, without a copy.", dlpack_overloads},
    {"__dlpack_device__", "The device of the memory in DLPack's numbers.", dlpack_device_overloads},
    {"_bytes", "The bytes of the elements in row-major order.", bytes_overloads},
    {"_text", "The elements as text, without dtype.", text_overloads},
};
const std::size_t tensor_row_count = std::size(tensor_rows);

// ---- records as arguments

Arguments::Arguments(PyObject* sequence, const char* record, Py_ssize_t fields) : record_(record) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
  if (size != fields) {
    throw ArgumentError(std::string("a tuple of ") + std::to_string(size) +
                        " values was passed as " + record + ", which has " +
                        std::to_string(fields));
  }
  for (Py_ssize_t k = 0; k < size; ++k) {
    PyObject* value = PySequence_Fast_GET_ITEM(sequence, k);
    values_.push_back(value == Py_None ? nullptr : value);
    parameters_.push_back({"field", &types::object, nullptr});
  }
}

Call Arguments::call() const {
  Call call;
  call.function = record_;
  call.parameters = parameters_.data();
  call.values = values_.data();
  return call;
}

void Modules::add(std::string_view space, std::span<const FunctionRow> rows) const {
  if (space == "extensor") return add_functions(core, rows, "extensor");
  const std::string name = "_" + std::string(space.substr(space.rfind(':') + 1));
  // Registered in sys.modules, so that `from extensor._core._data import …` works.
  PyObject* module = PyImport_AddModule(("extensor._core." + name).c_str());
  if (module == nullptr || PyModule_AddObjectRef(core, name.c_str(), module) != 0) {
    throw PythonError();
  }
  add_functions(module, rows, "extensor");
}

}  // namespace extensor::python
