// The extension module: creates the types and adds all functions. Classes with state (Generator,
// grad modes, optimizers, layers) are nanobind classes.
#include <nanobind/nanobind.h>

#include "bindings.h"

namespace extensor::python {

void add_autograd(nanobind::module_& module);
void add_datasets(nanobind::module_& module);
void add_layers(nanobind::module_& module);
void add_models(nanobind::module_& module);
void add_modes(nanobind::module_& module);
void add_modules(nanobind::module_& module);
void add_onnx(nanobind::module_& module);
void add_optimizers(nanobind::module_& module);
void add_tokenizers(nanobind::module_& module);
void add_training(nanobind::module_& module);

namespace {

void check(bool success) {
  if (!success) throw nanobind::python_error();
}

void add_members(PyObject* module) {
  auto* type = reinterpret_cast<PyObject*>(tensor_type);
  for (const char* const* name = member_names; *name != nullptr; ++name) {
    const bool wrapped = PyObject_HasAttrString(module, *name) == 0;
    const std::string found = (wrapped ? "_" : "") + std::string(*name);
    const Owned function(checked(PyObject_GetAttrString(module, found.c_str())));
    if (PyObject_SetAttrString(type, *name, function.get()) != 0) throw PythonError();
  }
  add_functions(type, {tensor_rows, tensor_row_count}, "extensor.Tensor");
}

}  // namespace
}  // namespace extensor::python

NB_MODULE(_core, module) {
  using namespace extensor::python;
  // Objects that live until the process ends, such as those of a script's global variables, are no
  // leak.
  nanobind::set_leak_warnings(false);
  check(create_function_type() && create_tensor_type() && load_exception_types() && load_types());
  nanobind::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const nanobind::python_error&) {
      throw;
    } catch (const nanobind::builtin_exception&) {
      throw;
    } catch (...) {
      set_python_error();
    }
  });
  try {
    check(PyModule_AddObjectRef(module.ptr(), "Tensor", reinterpret_cast<PyObject*>(tensor_type)) ==
          0);
    add_records(module.ptr());
    add_generated_functions({module.ptr()});
    add_functions(module.ptr(), {module_rows, module_row_count}, "extensor");
    add_members(module.ptr());
    module.attr("__version__") = extensor::version();
    add_autograd(module);
    add_modes(module);
    add_optimizers(module);
    add_layers(module);
    add_modules(module);
    add_models(module);
    add_datasets(module);
    add_tokenizers(module);
    add_training(module);
    add_onnx(module);
  } catch (const PythonError& error) {
    error.restore();
    throw nanobind::python_error();
  }
}
