// How far a result may be from its exact value, element by element: a share of the element itself
// (SPEC §4), and a share of the magnitudes that it was accumulated from, so that a sum that cancels
// is not held to digits it never had.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_database/op_database.h"

namespace extensor::op_database {

// The relative error that SPEC §4 allows in a float dtype.
double tolerance_of(DType dtype);

// |got − exact| ≤ relative · |exact| + absolute · magnitude, for each element.
struct Allowance {
  double relative = 0, absolute = 0;
};
// Of results in `dtype`: halves are accumulated in float32 and rounded once (SPEC §1), so only
// float32's share of the magnitudes is theirs.
Allowance allowance_of(DType dtype);

// A magnitude for every element of every result.
using Magnitudes = std::vector<std::vector<double>>;

// The magnitudes that the elements of f(inputs) are made of: how far each moves when the floating
// inputs change by a relative `step` in either direction, in units of the step. Of a sum Σ xᵢ that
// is about √Σ xᵢ². At least `least`; a jump, where a tie is broken, does not count.
Magnitudes magnitudes_of(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs,
                         double step, double least);
// The largest finite magnitude of the floating tensors.
double largest_of(const Tensors& tensors);

struct Comparison {
  double error = 0;     // the worst, as a multiple of `relative` of the allowance
  std::string message;  // of the first element that is too far off; empty: none
};

// Every element of two lists of tensors. Integers and bool must be equal; NaN equals NaN; a tensor
// that only one of the lists has is an error.
Comparison compare(const Tensors& got, const Tensors& exact, const Allowance& allowance,
                   const Magnitudes& magnitudes);

// The parts one after the other, doubles with all their digits.
std::string joined_text(std::initializer_list<std::string> parts);
std::string exact_text(double value);

}  // namespace extensor::op_database
