// The elements of a tensor as a set, with the names of the Python Array API: the distinct values
// alone or with their counts or positions, and membership. unique and unique_all are in
// extensor/sorting.h.
#pragma once

#include "extensor/export.h"
#include "extensor/sorting.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The distinct elements, ascending as in unique_all; each NaN counts separately.
inline Tensor unique_values(const Tensor& x) { return unique(x); }

struct UniqueCounts {
  Tensor values;  // ascending, one dimension
  Tensor counts;  // int64: the number of occurrences of each
};
UniqueCounts unique_counts(const Tensor& x);

struct UniqueInverse {
  Tensor values;           // ascending, one dimension
  Tensor inverse_indices;  // int64, the shape of x: values[inverse_indices] is x
};
UniqueInverse unique_inverse(const Tensor& x);

// Whether each element of x is one of `elements`, of any shape, or with `invert` whether it is none
// of them: bool in the shape of x. NaN is in no set. Dtypes promote.
Tensor isin(const Tensor& x, const Tensor& elements, StrictBool invert = false);

}  // namespace extensor

EXTENSOR_END_API
