// Decides from their layouts whether two views share an element.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

enum class Overlap { none, same, partial };  // same: all elements coincide

// Exact for every ordinary layout; a layout that is too complex to decide counts as partial.
Overlap overlap(const Tensor& a, const Tensor& b);

// Whether two indices of one view refer to the same element, as in a broadcast view.
bool overlaps_itself(const Tensor& x);

// Throws ValueError if x, which is about to be written, overlaps itself or is read-only.
void check_writable(const char* operation, const Tensor& x);

// Throws ValueError if x, which is about to be written from `source`, overlaps it without being the
// same view.
void check_no_partial_overlap(const char* operation, const Tensor& x, const Tensor& source);

}  // namespace extensor::ops
