// C++ exceptions as Python exceptions, Python exceptions through C++ code, and the global
// interpreter lock (GIL).
#pragma once

#include <Python.h>
#include <unistd.h>

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

// While the interpreter ends, Python before 3.14 ends every other thread that asks for the GIL by
// pthread_exit(), which unwinds the stack of the thread. The first noexcept function, or catch (...)
// that does not rethrow, would abort the process, and destructors would use objects of Python
// without the GIL. Such a thread waits here for the end of the process instead.
[[noreturn]] inline void wait_for_exit() {
  while (true) ::pause();
}

inline bool holds_gil() {
  return PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0;
}

// Holds the GIL while it lives. C++ code that calls Python makes one even if it holds the GIL: no
// thread is unwound beyond it.
class WithGil {
 public:
  WithGil() {
    if (Py_IsInitialized() == 0 && !holds_gil()) wait_for_exit();
    try {
      state_ = PyGILState_Ensure();
    } catch (...) {
      wait_for_exit();
    }
  }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() {
    if (!holds_gil()) wait_for_exit();
    PyGILState_Release(state_);
  }

 private:
  PyGILState_STATE state_;
};

// Releases the GIL while it lives, if asked to and unless the interpreter ends.
class WithoutGil {
 public:
  explicit WithoutGil(bool release = true)
      : saved_(release && Py_IsInitialized() != 0 ? PyEval_SaveThread() : nullptr) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    if (saved_ == nullptr) return;
    try {
      PyEval_RestoreThread(saved_);
    } catch (...) {
      wait_for_exit();
    }
  }

 private:
  PyThreadState* saved_;
};

}  // namespace extensor::python
