// Shared by the files of optimizers: states as dicts, optimizers as arguments, and enumerations.
#pragma once

#include <nanobind/nanobind.h>

#include "reflected.h"

namespace extensor::python {

nanobind::dict saved_state(const optim::StateDict& state);
optim::StateDict read_state(const nanobind::dict& saved);
optim::Optimizer& optimizer_in(PyObject* object);
const ArgumentType& optimizer_argument();
void add_optimizer_tools(nanobind::module_& module);

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
