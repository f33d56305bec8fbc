// How far a result may be from its exact value, element by element: a fraction of the element
// itself, and a fraction of the magnitudes that it was accumulated from, so that a sum that cancels
// need not have digits that its terms lacked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_database/op_database.h"

namespace extensor::op_database {

// The relative error that is allowed in a float dtype.
double tolerance_of(DType dtype);

// |got − exact| ≤ relative · |exact| + absolute · magnitude, for each element.
struct Allowance {
  double relative = 0, absolute = 0;
};
// The allowance of results in `dtype`. Halves are accumulated in float32 and rounded once, so they
// get only float32's fraction of the magnitudes.
Allowance allowance_of(DType dtype);

// A magnitude for every element of every result.
using Magnitudes = std::vector<std::vector<double>>;

// The magnitudes from which the elements of f(inputs) are computed: the change of each when the
// floating inputs change by a relative `step` in either direction, in units of the step. For a sum
// Σ xᵢ this is about √Σ xᵢ². At least `least`; a jump, where a tie is broken, does not count.
Magnitudes magnitudes_of(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs,
                         double step, double least);
// The largest finite magnitude of the floating tensors.
double largest_of(const Tensors& tensors);

struct Comparison {
  double error = 0;     // the largest, as a multiple of `relative` of the allowance
  std::string message;  // the first element out of tolerance; empty: none
};

// Compares every element of two lists of tensors. Integers and bool must be equal; NaN equals NaN;
// a tensor that only one of the lists has is an error.
Comparison compare(const Tensors& got, const Tensors& exact, const Allowance& allowance,
                   const Magnitudes& magnitudes);

// Concatenates the parts; doubles have all their digits.
std::string joined_text(std::initializer_list<std::string> parts);
std::string exact_text(double value);

}  // namespace extensor::op_database
