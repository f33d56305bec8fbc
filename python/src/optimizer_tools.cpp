// Classes beside the optimizers: loss scaling, averages of weights, LBFGS, and rates on a plateau.
#include "in_use.h"
#include "optimizer_state.h"

namespace nb = nanobind;

namespace extensor::python {

const ArgumentType per_group_type{
    "float | Sequence[float] | None", "a number, a list or tuple of numbers, or None",
    [](PyObject* value, const ArgumentType&, bool convert) {
      return value == Py_None || types::number.matches(value, types::number, convert) ||
             types::numbers.matches(value, types::numbers, convert);
    }};

namespace {

using optim::ExponentialMovingAverage;
using optim::GradScaler;
using optim::LBFGS;
using optim::ReduceLROnPlateau;

template <class T>
PyObject* owned(T* made) {
  return nb::cast(made, nb::rv_policy::take_ownership).release().ptr();
}
PyObject* make_scaler(Call& call) {
  return owned(new GradScaler(read_fields<optim::GradScalerOptions>(call, 0)));
}
PyObject* make_average(Call& call) {
  const std::vector<Tensor> parameters = call.tensors(0);
  return owned(new ExponentialMovingAverage(parameters, call.has(1) ? call.number(1) : 0.999));
}
PyObject* make_lbfgs(Call& call) {
  const std::vector<Tensor> parameters = call.tensors(0);
  return owned(new LBFGS(parameters, read_fields<optim::LBFGSOptions>(call, 1)));
}
PyObject* make_plateau(Call& call) {
  return scheduled(call.object(0), std::make_unique<ReduceLROnPlateau>(
                                       optimizer_in(call.object(0)),
                                       read_fields<optim::ReduceLROnPlateauOptions>(call, 1)));
}

nb::object take(PyObject* object) { return nb::steal(checked(object)); }

std::vector<Tensor> tensors_of(const nb::list& list) {
  std::vector<Tensor> tensors;
  for (const nb::handle item : list) tensors.push_back(as_tensor(item.ptr(), "a tensor"));
  return tensors;
}

template <class T>
void add_state(nb::class_<T>& type) {
  type.def("state_dict",
           [](const T& self) {
             InUse::check(&self, "state_dict");
             return saved_state(self.state_dict());
           })
      .def("load_state_dict", [](T& self, const nb::dict& saved) {
        const optim::StateDict state = read_state(saved);
        InUse::check(&self, "load_state_dict");
        self.load_state_dict(state);
      });
}

}  // namespace

void add_optimizer_tools(nb::module_& module) {
  nb::class_<GradScaler> scaler(module, "_GradScaler");
  scaler
      .def("scaled",
           [](const GradScaler& self, nb::handle loss) {
             return take(wrap(self.scale(as_tensor(loss.ptr(), "scale: argument 'loss'"))));
           })
      .def("scale", [](const GradScaler& self) { return self.scale(); })
      .def("unscale",
           [](GradScaler& self, optim::Optimizer& optimizer) {
             InUse::check(&self, "GradScaler.unscale");
             InUse::check(&optimizer, "GradScaler.unscale");
             self.unscale(optimizer);
           })
      .def("step",
           [](GradScaler& self, optim::Optimizer& optimizer) -> bool {
             const InUse use(&self, "GradScaler.step"), used(&optimizer, "GradScaler.step");
             const WithoutGil released;
             return self.step(optimizer);
           })
      .def("update", [](GradScaler& self) {
        InUse::check(&self, "GradScaler.update");
        self.update();
      });
  add_state(scaler);
  nb::class_<ExponentialMovingAverage> average(module, "_Average");
  average.def("update", &ExponentialMovingAverage::update)
      .def("apply", &ExponentialMovingAverage::apply)
      .def("restore", &ExponentialMovingAverage::restore)
      .def("applied", &ExponentialMovingAverage::applied)
      .def("apply_to", [](const ExponentialMovingAverage& self,
                          const nb::list& others) { self.apply_to(tensors_of(others)); })
      .def("averages",
           [](const ExponentialMovingAverage& self) { return take(to_python(self.averages())); });
  add_state(average);
  nb::class_<LBFGS> lbfgs(module, "_LBFGS");
  lbfgs
      .def("step",
           [](LBFGS& self, const nb::callable& closure) {
             const InUse use(&self, "LBFGS.step");
             return take(wrap(self.step([&] {
               const WithGil gil;
               const Owned loss(checked(PyObject_CallNoArgs(closure.ptr())));
               return as_tensor(loss.get(), "LBFGS: the result of the closure");
             })));
           })
      .def("zero_grad", [](LBFGS& self) {
        InUse::check(&self, "LBFGS.zero_grad");
        self.zero_grad();
      });
  add_state(lbfgs);
  add_schedule_class<ReduceLROnPlateau>(module, "_Plateau")
      .def("step", [](Scheduled<ReduceLROnPlateau>& self, double metric) {
        const InUse use(self.schedule.get(), "ReduceLROnPlateau.step");
        InUse::check(self.optimizer, "ReduceLROnPlateau.step");
        self.schedule->step(metric);
      });

  nb::module_ tools = module.def_submodule("_optimizer_tools");
  PyObject* m = tools.ptr();
  const auto add = [m](const char* name, const char* documentation,
                       std::vector<Parameter> parameters, PyObject* (*make)(Call&)) {
    add_function(m, name, documentation, std::move(parameters), "Any", make);
  };
  std::vector<Parameter> parameters;
  append_fields<optim::GradScalerOptions>(parameters);
  add("GradScaler", "Scales losses for float16, in which small gradients would become 0.",
      parameters, make_scaler);
  add("ExponentialMovingAverage", "The exponential moving average of a model's weights.",
      {{"params", &parameters_type, nullptr}, {"decay", &types::number, "0.999"}}, make_average);
  parameters = {{"params", &parameters_type, nullptr}};
  append_fields<optim::LBFGSOptions>(parameters);
  add("LBFGS", "A quasi-Newton method, whose step calls a closure several times.", parameters,
      make_lbfgs);
  parameters = {{"optimizer", &optimizer_argument(), nullptr}};
  append_fields<optim::ReduceLROnPlateauOptions>(parameters);
  add("ReduceLROnPlateau", "Reduces the rates when a metric no longer improves.", parameters,
      make_plateau);
}

}  // namespace extensor::python
