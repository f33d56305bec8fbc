// C++ exceptions as Python exceptions, Python exceptions through C++ code, and the global
// interpreter lock (GIL).
#pragma once

#include <Python.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace extensor::python {

// A Python exception on its way through C++ code, for example from a callback in backward().
class PythonError : public std::exception {
 public:
  PythonError();  // takes the current Python error
  const char* what() const noexcept override { return "a Python exception"; }
  void restore() const;  // sets it again

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// A wrong type of an argument: Python's TypeError, without a C++ counterpart.
class ArgumentError : public std::exception {
 public:
  explicit ArgumentError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Sets the Python error for the C++ exception that is being handled. Call it in a catch block.
void set_python_error() noexcept;
// Looks up the exception classes; false with a Python error set.
bool load_exception_types();

// Throws PythonError if `result` is null.
inline PyObject* checked(PyObject* result) {
  if (result == nullptr) throw PythonError();
  return result;
}

// An owned reference.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* stolen) : object_(stolen) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  PyObject* object_ = nullptr;
};

// A reference that C++ objects may hold and drop on any thread, with or without the GIL.
std::shared_ptr<PyObject> share(PyObject* borrowed);

// Holds the GIL while it lives.
class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// Releases the GIL while it lives, if asked to.
class WithoutGil {
 public:
  explicit WithoutGil(bool release = true) : saved_(release ? PyEval_SaveThread() : nullptr) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    if (saved_ != nullptr) PyEval_RestoreThread(saved_);
  }

 private:
  PyThreadState* saved_;
};

}  // namespace extensor::python
