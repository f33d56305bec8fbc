// Python functions as arguments of C++ ones. They are called with the GIL, on any thread; what they
// raise passes through the C++ code unchanged.
#include "arguments.h"

namespace extensor::python {

namespace {

Tensor result_of(PyObject* result) {
  const Owned owned(checked(result));
  if (owned.get() == Py_None) return {};
  return as_tensor(owned.get(), "the result of the function");
}

std::vector<Tensor> results_of(PyObject* result) {
  const Owned owned(checked(result));
  std::vector<Tensor> list;
  if (!PyList_Check(owned.get()) && !PyTuple_Check(owned.get())) {
    list.push_back(as_tensor(owned.get(), "the result of the function"));
    return list;
  }
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(owned.get()); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(owned.get(), k);
    list.push_back(item == Py_None ? Tensor() : as_tensor(item, "a result of the function"));
  }
  return list;
}

}  // namespace

std::function<Tensor(const Tensor&)> Call::unary_function(int i) {
  set_large();
  return [f = share(values[i])](const Tensor& x) {
    const WithGil gil;
    const Owned argument(checked(wrap(x)));
    return result_of(PyObject_CallOneArg(f.get(), argument.get()));
  };
}

std::function<Tensor(const Tensor&, const Tensor&)> Call::binary_function(int i) {
  set_large();
  return [f = share(values[i])](const Tensor& a, const Tensor& b) {
    const WithGil gil;
    const Owned first(checked(wrap(a))), second(checked(wrap(b)));
    return result_of(PyObject_CallFunctionObjArgs(f.get(), first.get(), second.get(), nullptr));
  };
}

std::function<std::vector<Tensor>(const std::vector<Tensor>&)> Call::tensors_function(int i) {
  set_large();
  return [f = share(values[i])](const std::vector<Tensor>& inputs) {
    const WithGil gil;
    const Owned arguments(checked(to_python(inputs)));
    return results_of(PyObject_CallObject(f.get(), arguments.get()));
  };
}

std::function<bool(const Tensor&)> Call::token_function(int i) {
  set_large();
  return [f = share(values[i])](const Tensor& token) {
    const WithGil gil;
    const Owned argument(checked(wrap(token)));
    const Owned result(checked(PyObject_CallOneArg(f.get(), argument.get())));
    // A function without a result continues.
    const int go_on = result.get() == Py_None ? 1 : PyObject_IsTrue(result.get());
    if (go_on < 0) throw PythonError();
    return go_on == 1;
  };
}

}  // namespace extensor::python
