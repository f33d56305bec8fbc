#include "optim/state_reader.h"

#include <cmath>

#include "core/check.h"
#include "core/graph.h"
#include "ops/launch.h"

namespace extensor::optim {

using detail::message;

double StateReader::number(const std::string& name) {
  const auto found = saved_.numbers.find(name);
  if (found == saved_.numbers.end()) {
    throw ValueError(message(operation_, ": the state has no number '", name, "'"));
  }
  read_.insert(name);
  return found->second;
}

std::int64_t StateReader::count(const std::string& name, std::int64_t least) {
  const double value = number(name);
  constexpr double exact = 9007199254740992;  // 2⁵³: beyond it doubles skip whole numbers
  if (!(value >= static_cast<double>(least) && value <= exact) || value != std::floor(value)) {
    throw ValueError(message(operation_, ": '", name, "' is ", value,
                             ", must be a whole number of at least ", least));
  }
  return static_cast<std::int64_t>(value);
}

void StateReader::expect(const std::string& name, std::int64_t expected, std::string_view what) {
  const double value = number(name);
  if (value == static_cast<double>(expected)) return;
  throw ValueError(
      message(operation_, ": the state is of ", value, " ", what, ", here are ", expected));
}

bool StateReader::flag(const std::string& name) {
  const double value = number(name);
  if (value == 0 || value == 1) return value == 1;
  throw ValueError(message(operation_, ": '", name, "' is ", value, ", must be 0 or 1"));
}

Tensor StateReader::tensor(const std::string& name, const Shape& shape, DType dtype,
                           Device device) {
  const auto found = saved_.tensors.find(name);
  if (found == saved_.tensors.end() || !found->second.defined()) {
    throw ValueError(message(operation_, ": the state has no tensor '", name, "'"));
  }
  read_.insert(name);
  const Tensor& x = found->second;
  if (!(x.shape() == shape)) {
    throw ShapeError(
        message(operation_, ": '", name, "' is ", x.shape(), ", its parameter is ", shape));
  }
  if (!is_floating_point(x.dtype())) {
    throw DTypeError(
        message(operation_, ": '", name, "' is ", x.dtype(), ", must be a float dtype"));
  }
  return detail::unrecorded([&] {
    const Tensor dense = x.contiguous();
    const Tensor converted = dense.to(device, dtype);
    return converted.impl_or_null() == dense.impl_or_null() ? dense.clone() : converted;
  });
}

void StateReader::finish() const {
  for (const auto& [name, value] : saved_.numbers) {
    if (!read_.contains(name)) {
      throw ValueError(message(operation_, ": the state has a number '", name,
                               "', which this one does not know"));
    }
  }
  for (const auto& [name, value] : saved_.tensors) {
    if (!read_.contains(name)) {
      throw ValueError(message(operation_, ": the state has a tensor '", name,
                               "', which this one does not know"));
    }
  }
}

}  // namespace extensor::optim
