// Calls a public function by its name, with arguments that are known only at run time. Overloads,
// parameter names and default values are those of op_database/functions.inc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "extensor/extensor.h"

namespace extensor::test {

// An argument or a result. Null stands for a default-constructed argument: no tensor, all axes.
// Enumerations and dtypes are strings, options are maps from the names of their fields.
struct Value {
  using List = std::vector<Value>;
  using Map = std::map<std::string, Value>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Tensor, List, Map> is;

  Value() = default;
  template <class T>
  Value(T value) : is(std::move(value)) {}  // NOLINT: implicit

  template <class T>
  const T* as() const {
    return std::get_if<T>(&is);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(is); }
};

// Calls the first overload of extensor::name that takes these arguments; "linalg.name" and
// "fft.name" are functions of the inner namespaces. Results of several tensors are lists.
// std::invalid_argument if no overload does; otherwise, what the function throws. Beside the
// functions of the list there are Tensor's clone(x), to(x, dtype) and index(x, list).
Value call_by_name(const std::string& name, const Value::List& arguments,
                   const Value::Map& named = {});

}  // namespace extensor::test
