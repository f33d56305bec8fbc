#include "errors.h"

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "extensor/error.h"
#include "extensor/train/trainer.h"

namespace extensor::python {

struct PythonError::Held {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  ~Held() {
    if (type == nullptr || Py_IsInitialized() == 0) return;
    const WithGil gil;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
};

PythonError::PythonError() : held_(std::make_shared<Held>()) {
  PyErr_Fetch(&held_->type, &held_->value, &held_->traceback);
}

void PythonError::restore() const {
  PyErr_Restore(std::exchange(held_->type, nullptr), std::exchange(held_->value, nullptr),
                std::exchange(held_->traceback, nullptr));
}

namespace {

// The order of catch clauses below.
enum Class { error, shape, dtype, index, device, value, format, io, memory, diverged, count };
constexpr const char* class_names[count] = {
    "Error",      "ShapeError",  "DTypeError", "IndexError",       "DeviceError",
    "ValueError", "FormatError", "IoError",    "OutOfMemoryError", "DivergedError"};
PyObject* classes[count];

// The message, in which names that differ in Python are Python's.
std::string in_python(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {{"NoGrad", "no_grad()"},
                                                                     {"ext::", "ex."}};
  for (const auto& [name, python] : names) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += python.size()) {
      text.replace(at, name.size(), python);
    }
  }
  return text;
}

}  // namespace

bool load_exception_types() {
  const Owned module(PyImport_ImportModule("extensor._types"));
  if (!module) return false;
  for (int i = 0; i < count; ++i) {
    classes[i] = PyObject_GetAttrString(module.get(), class_names[i]);
    if (classes[i] == nullptr) return false;
  }
  return true;
}

void set_python_error() noexcept {
  if (!holds_gil()) wait_for_exit();
  const auto set = [](Class which, const std::exception& e) {
    PyErr_SetString(classes[which], in_python(e.what()).c_str());
  };
  try {
    throw;
  } catch (const PythonError& e) {
    e.restore();
  } catch (const ArgumentError& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const ShapeError& e) {
    set(shape, e);
  } catch (const DTypeError& e) {
    set(dtype, e);
  } catch (const IndexError& e) {
    set(index, e);
  } catch (const DeviceError& e) {
    set(device, e);
  } catch (const ValueError& e) {
    set(value, e);
  } catch (const FormatError& e) {
    set(format, e);
  } catch (const IoError& e) {
    set(io, e);
  } catch (const OutOfMemoryError& e) {
    set(memory, e);
  } catch (const train::DivergedError& e) {
    set(diverged, e);
  } catch (const Error& e) {
    set(error, e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

std::shared_ptr<PyObject> share(PyObject* borrowed) {
  Py_INCREF(borrowed);
  return {borrowed, [](PyObject* object) {
            if (Py_IsInitialized() == 0) return;  // the process ends
            const WithGil gil;
            Py_DECREF(object);
          }};
}

}  // namespace extensor::python
