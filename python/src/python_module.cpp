#include "python_module.h"

#include <nanobind/nanobind.h>

#include "layer.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

// A class of extensor._module, looked up once.
PyObject* class_named(const char* name) {
  const Owned module(checked(PyImport_ImportModule("extensor._module")));
  return checked(PyObject_GetAttrString(module.get(), name));
}

bool is_a(PyObject* object, PyObject* type) {
  const int is = PyObject_IsInstance(object, type);
  if (is < 0) throw PythonError();
  return is == 1;
}

bool is_module(PyObject* object) {
  static PyObject* const type = class_named("Module");
  return is_a(object, type);
}

bool is_parameter(PyObject* object) {
  static PyObject* const type = class_named("Parameter");
  return is_a(object, type);
}

// The layer of the C++ library that a Python object holds, or null. Throws PythonError.
Layer* layer_in(PyObject* module) {
  const Owned layer(PyObject_GetAttrString(module, "_layer"));
  if (!layer) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw PythonError();
    PyErr_Clear();
    return nullptr;
  }
  return nb::cast<Layer*>(nb::handle(layer.get()));
}

nn::ModuleDescription description_of(PyObject* module, bool with_detail) {
  nn::ModuleDescription description{Py_TYPE(module)->tp_name, {}, module};
  const std::size_t dot = description.type.rfind('.');
  if (dot != std::string_view::npos) description.type.remove_prefix(dot + 1);
  if (with_detail) {
    const Owned text(checked(PyObject_CallMethod(module, "extra_repr", nullptr)));
    const char* utf8 = PyUnicode_AsUTF8(text.get());
    if (utf8 == nullptr) throw PythonError();
    description.detail = utf8;
  }
  return description;
}

// One object for each name, which refers to the tensor of this walk.
template <class Slot>
Slot& slot(std::map<std::string, std::unique_ptr<Slot>>& slots, const std::string& path,
           const Tensor& tensor) {
  auto& found = slots[path];
  if (found == nullptr) found = std::make_unique<Slot>();
  found->tensor() = tensor;
  return *found;
}

}  // namespace

PythonModule::PythonModule(PyObject* module, const char* function, const char* argument,
                           Reference reference)
    : reference_(reference) {
  if (!is_module(module)) {
    throw ArgumentError(std::string(function) + ": argument '" + argument + "' is " +
                        Py_TYPE(module)->tp_name + " (accepted: a Module)");
  }
  const Owned weak(reference == Reference::weak ? checked(PyWeakref_NewRef(module, nullptr))
                                                : nullptr);
  module_ = share(weak ? weak.get() : module);
}

Owned PythonModule::object() const {
  if (reference_ == Reference::strong) return Owned(Py_NewRef(module_.get()));
  Owned module(checked(PyObject_CallNoArgs(module_.get())));
  if (module.get() == Py_None) throw Error("Trainer: the model is gone");
  return module;
}

std::vector<Tensor> PythonModule::forward(const std::vector<Tensor>& inputs) const {
  const WithGil gil;
  const Owned arguments(checked(to_python(inputs)));
  const Owned result(checked(PyObject_CallObject(object().get(), arguments.get())));
  std::vector<Tensor> outputs;
  if (!PyTuple_Check(result.get()) && !PyList_Check(result.get())) {
    outputs.push_back(as_tensor(result.get(), "the result of forward"));
    return outputs;
  }
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(result.get()); ++k) {
    outputs.push_back(as_tensor(PySequence_Fast_GET_ITEM(result.get(), k), "a result of forward"));
  }
  return outputs;
}

nn::ModuleDescription PythonModule::description() const {
  const WithGil gil;
  return description_of(object().get(), true);
}

void PythonModule::visit(nn::Walker& walker) {
  const WithGil gil;
  walk_inside(object().get(), "", walker);
}

namespace {

// Raises RecursionError for a module that contains itself, before the stack ends.
class Descent {
 public:
  Descent() {
    if (Py_EnterRecursiveCall(" in the modules of a Module") != 0) throw PythonError();
  }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;
  ~Descent() { Py_LeaveRecursiveCall(); }
};

}  // namespace

void PythonModule::walk_inside(PyObject* module, const std::string& path, nn::Walker& walker) {
  const Descent descent;
  const Owned mode(checked(PyObject_GetAttrString(module, "training")));
  const bool was = PyObject_IsTrue(mode.get()) == 1;
  nn::Training& training = flags_[path];
  training.set(was);
  walker.training(training);
  if (training != was) {
    Py_XDECREF(
        checked(PyObject_CallMethod(module, "_set_training", "O", training ? Py_True : Py_False)));
  }
  if (Layer* layer = layer_in(module)) layer->walk(walker);

  const Owned members(checked(PyObject_CallMethod(module, "_members", nullptr)));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(members.get()); ++k) {
    PyObject* pair = PyList_GET_ITEM(members.get(), k);
    const char* utf8 = PyUnicode_AsUTF8(PyTuple_GET_ITEM(pair, 0));
    if (utf8 == nullptr) throw PythonError();
    const std::string name = utf8;
    PyObject* member = PyTuple_GET_ITEM(pair, 1);
    const std::string member_path = path + name;
    if (!is_tensor(member)) {
      walker.enter(name, description_of(member, walker.wants_detail()));
      walk_inside(member, member_path + ".", walker);
      walker.leave();
    } else if (is_parameter(member)) {
      walker.parameter(name, slot(parameters_, member_path, tensor_of(member)));
    } else {
      walker.buffer(name, slot(buffers_, member_path, tensor_of(member)));
    }
  }
}

// ---- functions of extensor/_module.py

namespace {

void convert(PyObject* module, PyObject* to) {
  PythonModule converted(module, "to", "self");
  if (types::dtype.matches(to, types::dtype, true)) {
    converted.to(to_dtype(to));
  } else if (types::matches_name(to, MemoryFormat_type, true)) {
    const auto find = [&](int k) {
      return PyUnicode_CompareWithASCIIString(to, MemoryFormat_names[k]) == 0;
    };
    int k = 0;
    while (!find(k)) ++k;
    converted.to(MemoryFormat_values[k]);
  } else {
    std::optional<Device> device;
    if (types::device.matches(to, types::device, true)) {
      try {
        device = to_device(to);
      } catch (const PythonError&) {  // another name
      }
    }
    if (!device) {
      throw ArgumentError(std::string("to: the argument is ") + nb::repr(to).c_str() +
                          " (accepted: a dtype such as 'float64', a device such as 'cpu' or "
                          "'cuda:0', or a memory format: 'contiguous', 'channels_last')");
    }
    converted.to(*device);
  }
}

PyObject* summary(PyObject* module, PyObject* inputs) {
  PythonModule described(module, "summary", "self");
  const nn::detail::Walk walk = nn::detail::walk_of(described);
  std::vector<Tensor> list;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(inputs); ++k) {
    list.push_back(as_tensor(PyTuple_GET_ITEM(inputs, k), "summary: an input"));
  }
  const nn::ModuleDescription root = described.description();
  if (list.empty()) return to_python(nn::detail::summary(walk, root));
  return to_python(nn::detail::summary(walk, root, [&] { described(list); }));
}

}  // namespace

void add_modules(nb::module_& module) {
  module.def("_convert_module",
             [](nb::handle self, nb::handle to) { convert(self.ptr(), to.ptr()); });
  module.def("_summarize_module", [](nb::handle self, const nb::tuple& inputs) {
    return nb::steal(checked(summary(self.ptr(), inputs.ptr())));
  });
}

}  // namespace extensor::python
