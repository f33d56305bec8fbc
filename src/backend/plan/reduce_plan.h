// Plans a reduction: separates and merges kept and reduced dimensions, and chooses the direction
// that reads memory in order. Independent of the device: uses only sizes and strides.
#pragma once

#include <cstdint>

#include "extensor/shape.h"

namespace extensor::plan {

struct ReducePlan {
  // `columns`: the input is dense along the last kept dimension, so whole rows are accumulated;
  // otherwise each result gathers its elements, densely where the last reduced stride is 1.
  bool columns = false;
  Dims kept_sizes, kept_strides, kept_out_strides;  // outermost first; empty: one result
  Dims reduced_sizes, reduced_strides;              // outermost first; at least one
};

// The result is dense over the kept axes in their order. `ordered` keeps the reduced dimensions in
// row-major order, for positions; otherwise they are sorted by stride. Every size is at least 1.
ReducePlan plan_reduce(const Shape& shape, const std::int64_t* strides, const bool* reduced,
                       bool ordered);

}  // namespace extensor::plan
