// Strict reading of a state_dict: requested names must exist, and no others may.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "extensor/optim/state_dict.h"

namespace extensor::optim {

class StateReader {
 public:
  StateReader(std::string operation, const StateDict& saved)
      : operation_(std::move(operation)), saved_(saved) {}

  const std::string& operation() const { return operation_; }
  bool has_number(const std::string& name) const { return saved_.numbers.contains(name); }
  bool has_tensor(const std::string& name) const { return saved_.tensors.contains(name); }

  // Throws ValueError if the name is missing.
  double number(const std::string& name);
  // Throws ValueError unless the value is a whole number of at least `least`.
  std::int64_t count(const std::string& name, std::int64_t least = 0);
  // Throws ValueError unless the value is `expected`.
  void expect(const std::string& name, std::int64_t expected, std::string_view what);
  bool flag(const std::string& name);
  // Returns a copy. Throws ShapeError for another shape and DTypeError unless it is a float.
  Tensor tensor(const std::string& name, const Shape& shape, DType dtype, Device device);

  // Throws ValueError for a name that was not read.
  void finish() const;

 private:
  std::string operation_;
  const StateDict& saved_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace extensor::optim
