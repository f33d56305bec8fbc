// Whether two views share an element, decided from their layouts.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

enum class Overlap { none, same, partial };  // same: every element at the same place

// Exact for every ordinary layout; a layout too tangled to decide counts as partial.
Overlap overlap(const Tensor& a, const Tensor& b);

// Whether two indices of one view reach the same element (a broadcast view, for example).
bool overlaps_itself(const Tensor& x);

// Before x is written in place: ValueError when it overlaps itself.
void check_writable(const char* operation, const Tensor& x);

// Before x is written in place from `source`: ValueError when they overlap, unless they are the
// same.
void check_no_partial_overlap(const char* operation, const Tensor& x, const Tensor& source);

}  // namespace extensor::ops
