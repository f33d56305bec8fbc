// Generator and custom functions.
#include <nanobind/nanobind.h>

#include "bindings.h"

namespace nb = nanobind;

namespace extensor::python {

Generator& Call::generator(int i) { return *nb::cast<Generator*>(nb::handle(values[i])); }

RandomState read_random_state(PyObject* object) {
  unsigned long long seed = 0, stream = 0, offset = 0;
  if (PyArg_ParseTuple(object, "KKK", &seed, &stream, &offset) == 0) throw PythonError();
  return {seed, stream, offset};
}

namespace {

PyObject* call_with_lists(PyObject* function,
                          std::initializer_list<const std::vector<Tensor>*> lists) {
  Owned arguments(checked(PyTuple_New(static_cast<Py_ssize_t>(lists.size()))));
  Py_ssize_t k = 0;
  for (const std::vector<Tensor>* list : lists) {
    PyTuple_SET_ITEM(arguments.get(), k++, checked(to_python(*list)));
  }
  return checked(PyObject_CallObject(function, arguments.get()));
}

std::vector<Tensor> read_list(PyObject* result, const char* what) {
  const Owned owned(result);
  const Owned items(
      checked(PySequence_Fast(owned.get(), "a list or tuple of tensors is required")));
  std::vector<Tensor> list;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.get()); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), k);
    list.push_back(item == Py_None ? Tensor() : as_tensor(item, what));
  }
  return list;
}

// apply(name, forward, backward, inputs): forward(inputs) and backward(grads, inputs, outputs) take
// and return lists of tensors.
constexpr Parameter apply_parameters[] = {{"name", &types::string, nullptr},
                                          {"forward", &types::function, nullptr},
                                          {"backward", &types::function, nullptr},
                                          {"inputs", &types::tensors, nullptr}};
constexpr Overload apply_overloads[] = {
    {apply_parameters, "list[Tensor]", [](Call& call) -> PyObject* {
       const CustomFunction function(
           call.string(0),
           [f = share(call.object(1))](const std::vector<Tensor>& inputs) {
             const WithGil gil;
             return read_list(call_with_lists(f.get(), {&inputs}), "a result of forward");
           },
           [f = share(call.object(2))](const std::vector<Tensor>& grads,
                                       const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& outputs) {
             const WithGil gil;
             return read_list(call_with_lists(f.get(), {&grads, &inputs, &outputs}),
                              "a result of backward");
           });
       const std::vector<Tensor> inputs = call.tensors(3);
       call.set_large();
       return run(call, [&] { return function(inputs); });
     }}};
constexpr FunctionRow rows[] = {
    {"_apply_function", "Calls a custom function that autograd records as one.", apply_overloads}};

}  // namespace

void add_autograd(nb::module_& module) {
  nb::class_<Generator>(module, "Generator",
                        "A seed and a position in its sequence of random numbers.")
      .def(nb::init<std::uint64_t, std::uint64_t>(), nb::arg("seed"), nb::arg("stream") = 0)
      .def_prop_ro("seed", &Generator::seed)
      .def_prop_ro("stream", &Generator::stream)
      .def_prop_ro("offset", &Generator::offset)
      .def("manual_seed", &Generator::manual_seed, nb::arg("seed"),
           "Restarts at offset 0 with another seed.");
  set_generator_class(nb::getattr(module, "Generator").release().ptr());
  module.def("default_generator", &default_generator, nb::rv_policy::reference,
             "The generator that is used where none is given.");

  add_functions(module.ptr(), rows, "extensor");
}

}  // namespace extensor::python
