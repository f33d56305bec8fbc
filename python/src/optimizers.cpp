// Optimizers and schedules. Python classes in optim.py hold the objects that are made here.
#include <nanobind/nanobind.h>

#include "in_use.h"
#include "optimizer_state.h"
#include "reflected.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

bool is_list_of_tensors(PyObject* value, const ArgumentType&, bool) {
  if (!PyList_Check(value) && !PyTuple_Check(value)) return false;
  Py_ssize_t k = 0;
  while (k < PySequence_Fast_GET_SIZE(value) && is_tensor(PySequence_Fast_GET_ITEM(value, k))) ++k;
  return k == PySequence_Fast_GET_SIZE(value);
}

}  // namespace

const ArgumentType parameters_type{"Sequence[Tensor]", "a list or tuple of Tensors",
                                   is_list_of_tensors};

namespace {

using optim::LRScheduler;
using optim::Optimizer;

const ArgumentType optimizer_type{
    "_Optimizer", "an optimizer of extensor.optim",
    [](PyObject* value, const ArgumentType&, bool) { return nb::isinstance<Optimizer>(value); }};

Optimizer& optimizer_of(Call& call, int i) {
  return *nb::cast<Optimizer*>(nb::handle(call.object(i)));
}

template <class Class, class Options>
PyObject* make_optimizer(Call& call) {
  const std::vector<Tensor> parameters = call.tensors(0);
  const auto options = read_fields<Options>(call, 1);
  Optimizer* made = new Class(parameters, options);
  return nb::cast(made, nb::rv_policy::take_ownership).release().ptr();
}

template <class Class, class Options>
PyObject* add_group(Call& call) {
  auto& optimizer = dynamic_cast<Class&>(optimizer_of(call, 0));
  const std::vector<Tensor> parameters = call.tensors(1);
  const auto options = read_fields<Options>(call, 2);
  InUse::check(&optimizer, "Optimizer.add_group");
  optimizer.add_group(parameters, options);
  Py_RETURN_NONE;
}

template <class Class, class Options>
void add_optimizer(PyObject* module, const char* name) {
  std::vector<Parameter> parameters{{"params", &parameters_type, nullptr}};
  append_fields<Options>(parameters);
  add_function(module, name, "", std::move(parameters), "_Optimizer",
               make_optimizer<Class, Options>);
  std::vector<Parameter> group{{"optimizer", &optimizer_type, nullptr},
                               {"params", &parameters_type, nullptr}};
  append_fields<Options>(group);
  add_function(module, keep(std::string(name) + "_add_group"), "", std::move(group), "None",
               add_group<Class, Options>);
}

template <class Class, class Options>
PyObject* make_schedule(Call& call) {
  return scheduled<LRScheduler>(call.object(0), std::make_unique<Class>(optimizer_of(call, 0),
                                                                       read_fields<Options>(call, 1)));
}

template <class Class, class Options>
void add_schedule(PyObject* module, const char* name) {
  std::vector<Parameter> parameters{{"optimizer", &optimizer_type, nullptr}};
  append_fields<Options>(parameters);
  add_function(module, name, "", std::move(parameters), "_Schedule", make_schedule<Class, Options>);
}

PyObject* make_lambda_schedule(Call& call) {
  const auto factor = [f = share(call.object(1))](std::int64_t epoch) {
    const WithGil gil;
    const Owned number(checked(PyLong_FromLongLong(epoch)));
    const Owned result(checked(PyObject_CallOneArg(f.get(), number.get())));
    const double value = PyFloat_AsDouble(result.get());
    if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    return value;
  };
  return scheduled<LRScheduler>(call.object(0),
                                std::make_unique<optim::LambdaLR>(optimizer_of(call, 0), factor));
}

nb::object take(PyObject* object) { return nb::steal(checked(object)); }

}  // namespace

Optimizer& optimizer_in(PyObject* object) { return *nb::cast<Optimizer*>(nb::handle(object)); }
const ArgumentType& optimizer_argument() { return optimizer_type; }

nb::dict saved_state(const optim::StateDict& state) {
  nb::dict result;
  for (const auto& [name, tensor] : state.tensors) result[name.c_str()] = take(wrap(tensor));
  for (const auto& [name, number] : state.numbers) result[name.c_str()] = number;
  return result;
}

optim::StateDict read_state(const nb::dict& saved) {
  optim::StateDict state;
  for (const auto& [key, value] : saved) {
    if (!nb::isinstance<nb::str>(key)) {
      throw ArgumentError(std::string("load_state_dict: the name ") + nb::repr(key).c_str() +
                          " is " + Py_TYPE(key.ptr())->tp_name + " (accepted: a str)");
    }
    const auto name = std::string(nb::cast<nb::str>(key).c_str());
    if (is_tensor(value.ptr())) {
      state.tensors[name] = tensor_of(value.ptr());
    } else if (types::number.matches(value.ptr(), types::number, true)) {
      const double number = PyFloat_AsDouble(value.ptr());
      if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
      state.numbers[name] = number;
    } else {
      throw ArgumentError("load_state_dict: '" + name + "' is " + Py_TYPE(value.ptr())->tp_name +
                          " (accepted: a Tensor or a number)");
    }
  }
  return state;
}

void add_optimizers(nb::module_& module) {
  nb::class_<Optimizer>(module, "_Optimizer")
      .def("step",
           [](Optimizer& self) {
             const InUse use(&self, "Optimizer.step");
             const WithoutGil released;
             self.step();
           })
      .def(
          "zero_grad",
          [](Optimizer& self, bool set_to_none) {
            InUse::check(&self, "Optimizer.zero_grad");
            self.zero_grad(set_to_none);
          },
          nb::arg("set_to_none") = true)
      .def("group_count", &Optimizer::group_count)
      .def("parameters", [](const Optimizer& self,
                            std::size_t group) { return take(to_python(self.parameters(group))); })
      .def("lr", &Optimizer::lr, nb::arg("group") = 0)
      .def(
          "set_lr",
          [](Optimizer& self, std::size_t group, double lr) {
            InUse::check(&self, "Optimizer.set_lr");
            self.set_lr(group, lr);
          },
          nb::arg("group"), nb::arg("lr"))
      .def("state_dict",
           [](const Optimizer& self) {
             InUse::check(&self, "Optimizer.state_dict");
             return saved_state(self.state_dict());
           })
      .def("load_state_dict", [](Optimizer& self, const nb::dict& saved) {
        const optim::StateDict state = read_state(saved);
        InUse::check(&self, "Optimizer.load_state_dict");
        self.load_state_dict(state);
      });
  add_schedule_class<LRScheduler>(module, "_Schedule").def("step", [](ScheduleObject& self) {
    const InUse use(self.schedule.get(), "LRScheduler.step");
    InUse::check(self.optimizer, "LRScheduler.step");
    self.schedule->step();
  });

  nb::module_ optimizers = module.def_submodule("_optimizers");
#define OPTIMIZER(row, Class, Options, ...) \
  add_optimizer<optim::Class, Options>(optimizers.ptr(), #Class);
#include "extensor/tables/optimizers.def"
  nb::module_ schedules = module.def_submodule("_schedules");
  PyObject* s = schedules.ptr();
  add_schedule<optim::StepLR, optim::StepLROptions>(s, "StepLR");
  add_schedule<optim::MultiStepLR, optim::MultiStepLROptions>(s, "MultiStepLR");
  add_schedule<optim::ExponentialLR, optim::ExponentialLROptions>(s, "ExponentialLR");
  add_schedule<optim::LinearLR, optim::LinearLROptions>(s, "LinearLR");
  add_schedule<optim::WarmupScheduler, optim::WarmupOptions>(s, "WarmupScheduler");
  add_schedule<optim::PolynomialLR, optim::PolynomialLROptions>(s, "PolynomialLR");
  add_schedule<optim::CosineAnnealingLR, optim::CosineAnnealingLROptions>(s, "CosineAnnealingLR");
  add_schedule<optim::CosineAnnealingWarmRestarts, optim::CosineAnnealingWarmRestartsOptions>(
      s, "CosineAnnealingWarmRestarts");
  add_function(s, "LambdaLR", "",
               {{"optimizer", &optimizer_type, nullptr}, {"factor", &types::function, nullptr}},
               "_Schedule", make_lambda_schedule);
  add_schedule<optim::OneCycleLR, optim::OneCycleLROptions>(s, "OneCycleLR");
  add_optimizer_tools(module);
}

}  // namespace extensor::python
