#include "ops/optimizer_rule.h"

namespace extensor::ops {

void check_option(const char* operation, const char* name, double value, OptionRange range) {
  const bool finite = std::isfinite(value);
  const char* allowed = nullptr;
  switch (range) {
    case OptionRange::not_negative:
      if (finite && value >= 0) return;
      allowed = "finite and at least 0";
      break;
    case OptionRange::below_one:
      if (value >= 0 && value < 1) return;
      allowed = "in [0, 1)";
      break;
    case OptionRange::finite:
      if (finite) return;
      allowed = "finite";
      break;
  }
  throw ValueError(detail::message(operation, ": ", name, " is ", value, ", must be ", allowed));
}

}  // namespace extensor::ops
