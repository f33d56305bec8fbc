// Helpers that several families share: references as plain loops over doubles, and derivatives that
// follow from linearity alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_database/op_database.h"

namespace extensor::op_database {

using Doubles = std::vector<double>;

// The elements in row-major order.
Doubles doubles(const Tensor& x);
std::int64_t count_of(const Shape& shape);

// Calls `reduce` on every group of elements that the axes reduce to one, in row-major order within
// the group; returns the results in the shape of the reduction.
Tensor reduce_groups(const Tensor& x, const Axes& axes, bool keepdims,
                     const std::function<double(const Doubles&)>& reduce);
// Calls `map` on every row along one axis; it returns the numbers of the result.
Tensor map_rows(const Tensor& x, std::int64_t axis,
                const std::function<Doubles(const Doubles&)>& map);

// Σ over the letters that `output` lacks of the products of the operands, whose dimensions are
// named by one letter each: the definition of einsum, one loop per letter. A dimension of 1
// repeats.
Tensor sum_of_products(const std::vector<std::string>& names, const std::string& output,
                       const Tensors& operands);

using Function = std::function<Tensor(const Tensors& inputs)>;
using Gradients = std::function<Tensors(const Tensor& grad_output, const Tensors& inputs)>;

// A sample of an op with one result.
Sample sample_of(std::string label, Tensors inputs, Function forward, Function reference,
                 Gradients backward = nullptr);
// A sample of an op that is linear in each input: its second derivatives are its own forward and
// backward, with one input at a time replaced.
Sample multilinear_sample(std::string label, Tensors inputs, Function forward, Function reference,
                          Gradients backward);

// The dtype and device of x, for a function that makes a new tensor.
inline TensorOptions options_of(const Tensor& x) { return {x.dtype(), x.device()}; }

// "[2, 3], [3]"
std::string shapes_of(const Tensors& inputs);

}  // namespace extensor::op_database
