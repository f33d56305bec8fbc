// Reading a state_dict strictly: what is asked for must be there, and nothing else.
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

  // ValueError where it is missing.
  double number(const std::string& name);
  // ValueError unless it is a whole number of at least `least`.
  std::int64_t count(const std::string& name, std::int64_t least = 0);
  // ValueError unless it is what it must be.
  void expect(const std::string& name, std::int64_t expected, std::string_view what);
  bool flag(const std::string& name);
  // A copy. ShapeError unless it has the shape, DTypeError unless it is a float.
  Tensor tensor(const std::string& name, const Shape& shape, DType dtype, Device device);

  // ValueError for a name that was not read.
  void finish() const;

 private:
  std::string operation_;
  const StateDict& saved_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace extensor::optim
