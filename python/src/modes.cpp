// Modes of the calling thread (gradients, mixed precision, profiles), hooks of gradients, and
// KeyboardInterrupt in long calls.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <chrono>

#include "extensor/interruption.h"
#include "reflected.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

// Runs the handlers of signals that arrived during a call without the GIL. A call that holds the
// GIL is short, and Python itself looks for signals after it.
void check_signals() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds between_checks(50);
  thread_local Clock::time_point next{};
  if (PyGILState_Check() != 0 || PyGILState_GetThisThreadState() == nullptr) return;
  const Clock::time_point now = Clock::now();
  if (now < next) return;
  next = now + between_checks;
  const WithGil gil;
  if (PyErr_CheckSignals() != 0) throw PythonError();
}

// ---- hooks of gradients

constexpr Parameter hook_parameters[] = {{"self", &types::written, nullptr},
                                         {"hook", &types::function, nullptr}};
constexpr Overload hook_overloads[] = {
    {hook_parameters, "int", [](Call& call) -> PyObject* {
       return to_python(
           static_cast<std::int64_t>(call.written(0).register_hook(call.unary_function(1))));
     }}};
constexpr Parameter id_parameters[] = {{"self", &types::written, nullptr},
                                       {"id", &types::integer, nullptr}};
constexpr Overload remove_overloads[] = {{id_parameters, "None", [](Call& call) -> PyObject* {
                                            call.written(0).remove_hook(
                                                static_cast<std::size_t>(call.integer(1)));
                                            Py_RETURN_NONE;
                                          }}};
constexpr FunctionRow hook_rows[] = {
    {"register_hook", "Calls a function with the gradient.", hook_overloads, true},
    {"remove_hook", "Removes a hook.", remove_overloads, true},
};

// ---- profiles

class ProfileObject {
 public:
  explicit ProfileObject(const ProfileOptions& options) : profile_(options) {}
  Profile& get() { return profile_; }

 private:
  Profile profile_;
};

PyObject* make_profile(Call& call) {
  return nb::cast(new ProfileObject(read_fields<ProfileOptions>(call, 0)),
                  nb::rv_policy::take_ownership)
      .release()
      .ptr();
}

nb::dict row_of(const OpProfile& op) {
  nb::dict row;
  row["name"] = op.name;
  row["calls"] = op.calls;
  row["seconds"] = op.seconds;
  row["bytes"] = op.bytes;
  row["flops"] = op.flops;
  row["new_bytes"] = op.new_bytes;
  row["floor_seconds"] = op.floor_seconds;
  return row;
}

}  // namespace

void add_modes(nb::module_& module) {
  nb::class_<GradMode>(module, "_GradMode").def(nb::init<bool>(), nb::arg("enabled"));
  nb::class_<AnomalyMode>(module, "_AnomalyMode").def(nb::init<bool>(), nb::arg("enabled"));
  nb::class_<GradientEps>(module, "_GradientEps").def(nb::init<double>(), nb::arg("eps"));
  nb::class_<AllowTF32>(module, "_AllowTF32").def(nb::init<bool>(), nb::arg("enabled"));
  nb::class_<Autocast>(module, "_Autocast")
      .def("__init__", [](Autocast* self, nb::handle dtype, bool enabled) {
        if (!types::dtype.matches(dtype.ptr(), types::dtype, true)) {
          throw ArgumentError(std::string("Autocast: argument 'dtype' is ") +
                              nb::repr(dtype).c_str() + " (accepted: float16 or bfloat16)");
        }
        new (self) Autocast(to_dtype(dtype.ptr()), enabled);
      });
  nb::class_<DefaultDevice>(module, "_DefaultDevice")
      .def("__init__", [](DefaultDevice* self, nb::handle device) {
        new (self) DefaultDevice(to_device(device.ptr()));
      });
  nb::class_<ProfileObject>(module, "_Profile")
      .def("stop", [](ProfileObject& self) { self.get().stop(); })
      .def("table", [](ProfileObject& self) { return self.get().table(); })
      .def("seconds", [](ProfileObject& self) { return self.get().seconds(); })
      .def("ops", [](ProfileObject& self) {
        nb::list rows;
        for (const OpProfile& op : self.get().ops()) rows.append(row_of(op));
        return rows;
      });
  std::vector<Parameter> parameters;
  append_fields<ProfileOptions>(parameters);
  add_function(module.ptr(), "_make_profile", "", std::move(parameters), "Any", make_profile);
  add_functions(reinterpret_cast<PyObject*>(tensor_type), hook_rows, "extensor.Tensor");
  detail::interruption_check.store(check_signals);
}

}  // namespace extensor::python
