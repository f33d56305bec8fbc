// Checks of scheduler options.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/check.h"
#include "extensor/error.h"
#include "extensor/optim/schedulers.h"

namespace extensor::optim {

inline void check_at_least(const char* name, const char* option, std::int64_t value,
                           std::int64_t least) {
  if (value >= least) return;
  throw ValueError(
      detail::message(name, ": ", option, " is ", value, ", must be at least ", least));
}

inline void check_not_negative(const char* name, const char* option, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw ValueError(
      detail::message(name, ": ", option, " is ", value, ", must be finite and at least 0"));
}

inline void check_positive(const char* name, const char* option, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw ValueError(detail::message(name, ": ", option, " is ", value, ", must be above 0"));
}

inline void check_within(const char* name, const char* option, double value, double low,
                         double high) {
  if (value >= low && value <= high) return;
  throw ValueError(
      detail::message(name, ": ", option, " is ", value, ", must be in [", low, ", ", high, "]"));
}

// One value per group.
inline std::vector<double> per_group(const char* name, const char* option, const PerGroup& given,
                                     const Optimizer& optimizer) {
  std::vector<double> values = given.values();
  if (values.size() == 1) values.resize(optimizer.group_count(), values[0]);
  if (values.size() != optimizer.group_count()) {
    throw ValueError(detail::message(name, ": ", values.size(), " values for ", option,
                                     ", here are ", optimizer.group_count(), " parameter groups"));
  }
  for (double value : values) check_not_negative(name, option, value);
  return values;
}

}  // namespace extensor::optim
