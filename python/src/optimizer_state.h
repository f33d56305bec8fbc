// Shared by the files of optimizers: states as dicts, optimizers as arguments, and enumerations.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "errors.h"
#include "in_use.h"
#include "reflected.h"

namespace extensor::python {

nanobind::dict saved_state(const optim::StateDict& state);
optim::StateDict read_state(const nanobind::dict& saved);
optim::Optimizer& optimizer_in(PyObject* object);
const ArgumentType& optimizer_argument();
extern const ArgumentType parameters_type;  // of Tensors only: a step changes them
void add_optimizer_tools(nanobind::module_& module);

// A schedule, LRScheduler or ReduceLROnPlateau, and the optimizer to which it refers.
template <class Schedule>
struct Scheduled {
  Scheduled(PyObject* object, std::unique_ptr<Schedule> made)
      : owner(share(object)), optimizer(&optimizer_in(object)), schedule(std::move(made)) {}
  std::shared_ptr<PyObject> owner;  // of the optimizer; `schedule` ends first
  optim::Optimizer* optimizer;
  std::unique_ptr<Schedule> schedule;
};
using ScheduleObject = Scheduled<optim::LRScheduler>;

// Defines what both kinds of schedules have.
template <class Schedule>
nanobind::class_<Scheduled<Schedule>> add_schedule_class(nanobind::module_& module,
                                                         const char* name) {
  using Object = Scheduled<Schedule>;
  nanobind::class_<Object> type(module, name);
  type.def("last_epoch", [](const Object& self) { return self.schedule->last_epoch(); })
      .def("last_lr",
           [](const Object& self) {
             return nanobind::steal(checked(to_python(self.schedule->last_lr())));
           })
      .def("state_dict",
           [](const Object& self) {
             InUse::check(self.schedule.get(), "state_dict");
             return saved_state(self.schedule->state_dict());
           })
      .def("load_state_dict", [](Object& self, const nanobind::dict& saved) {
        const optim::StateDict state = read_state(saved);
        InUse::check(self.schedule.get(), "load_state_dict");
        self.schedule->load_state_dict(state);
      });
  return type;
}

template <class Schedule>
PyObject* scheduled(PyObject* optimizer, std::unique_ptr<Schedule> made) {
  return nanobind::cast(Scheduled<Schedule>(optimizer, std::move(made))).release().ptr();
}

// Defines the names of an enumeration that no public function takes.
#define EXTENSOR_NAMES(Enumeration, annotation, first, second)                      \
  namespace enumerations::Enumeration {                                             \
  inline constexpr const char* names[] = {#first, #second, nullptr};                \
  inline constexpr optim::Enumeration values[] = {optim::Enumeration::first,        \
                                                  optim::Enumeration::second};      \
  inline const ArgumentType type{annotation, "a name", types::matches_name, names}; \
  }                                                                                 \
  template <>                                                                       \
  struct Names<optim::Enumeration> {                                                \
    static constexpr const ArgumentType* type = &enumerations::Enumeration::type;   \
    static constexpr std::span<const optim::Enumeration> values{                    \
        enumerations::Enumeration::values};                                         \
  };
EXTENSOR_NAMES(AnnealStrategy, "Literal['cos', 'linear']", cos, linear)
EXTENSOR_NAMES(PlateauMode, "Literal['min', 'max']", min, max)
EXTENSOR_NAMES(ThresholdMode, "Literal['rel', 'abs']", rel, abs)
EXTENSOR_NAMES(LineSearch, "Literal['none', 'strong_wolfe']", none, strong_wolfe)
#undef EXTENSOR_NAMES

// One number, or one for each group.
extern const ArgumentType per_group_type;
template <>
struct Argument<optim::PerGroup> {
  static constexpr const ArgumentType* type = &per_group_type;
  static optim::PerGroup read(Call& call, int i) {
    if (types::number.matches(call.object(i), types::number, true)) return call.number(i);
    return call.numbers(i);
  }
};

}  // namespace extensor::python
