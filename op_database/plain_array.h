// An array for references: doubles in row-major order, read one element at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace extensor::op_database {

// Calls f(position) for every position of a shape, in row-major order.
template <class Function>
void for_each_position(const Shape& shape, Function&& f) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  Dims position(shape.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    f(static_cast<const Dims&>(position));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++position[d] < shape[d]) break;
      position[d] = 0;
    }
  }
}

struct PlainArray {
  Shape shape;
  std::vector<double> values;

  explicit PlainArray(const Tensor& x)
      : shape(x.shape()), values(x.to(DType::float64).to_vector<double>()) {}
  explicit PlainArray(const Shape& of, double value = 0) : shape(of) {
    for_each_position(of, [&](const Dims&) { values.push_back(value); });
  }
  // Computes each element from its position.
  template <class Function>
  static PlainArray from(const Shape& of, Function&& f) {
    PlainArray result(of);
    for_each_position(of, [&](const Dims& position) { result.at(position) = f(position); });
    return result;
  }

  double& at(const Dims& position) { return values[offset(position)]; }
  double at(const Dims& position) const { return values[offset(position)]; }
  std::int64_t integer(const Dims& position) const {
    return static_cast<std::int64_t>(at(position));
  }
  Tensor to_tensor(DType dtype = DType::float64) const {
    return from_data(values, shape).to(dtype);
  }

 private:
  std::size_t offset(const Dims& position) const {
    std::size_t result = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      result = result * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(position[d]);
    }
    return result;
  }
};

// `position` with one entry changed.
inline Dims with_entry(const Dims& position, std::int64_t axis, std::int64_t value) {
  Dims result = position;
  result[static_cast<std::size_t>(axis)] = value;
  return result;
}

// The second derivatives of an op that is linear in its floats: grad_outputs receive the forward of
// the gradients' gradients, the inputs receive none.
inline std::function<std::vector<Tensor>(const std::vector<Tensor>&, const std::vector<Tensor>&,
                                         const std::vector<Tensor>&)>
linear_double_backward(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> forward) {
  return [forward = std::move(forward)](const std::vector<Tensor>& grad_gradients,
                                        const std::vector<Tensor>&,
                                        const std::vector<Tensor>& inputs) {
    std::vector<Tensor> arguments = inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (grad_gradients[i].defined()) arguments[i] = grad_gradients[i];
    }
    std::vector<Tensor> result = forward(arguments);
    result.resize(result.size() + inputs.size());
    return result;
  };
}

}  // namespace extensor::op_database
