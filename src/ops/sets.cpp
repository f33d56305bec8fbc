// Composed of sorting, searching and comparisons.
#include "extensor/sets.h"

#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"

namespace extensor {

UniqueCounts unique_counts(const Tensor& x) {
  UniqueTensor found = unique_all(x);
  return {std::move(found.values), std::move(found.counts)};
}

UniqueInverse unique_inverse(const Tensor& x) {
  UniqueTensor found = unique_all(x);
  return {std::move(found.values), std::move(found.inverse_indices)};
}

Tensor isin(const Tensor& x, const Tensor& elements, StrictBool invert) {
  ops::check_real("isin", "x", x);
  ops::check_real("isin", "elements", elements);
  const DType dtype = promote_types(x.dtype(), elements.dtype(), "isin");
  Tensor result;
  if (elements.numel() == 0) {
    result = zeros_like(x, DType::bool_);
  } else {
    // The first element that is not below each x, or the last one; it is x if x is in the set.
    const Tensor sorted = sort(elements.to(dtype).flatten());
    const Tensor wanted = x.to(dtype);
    const Tensor place = minimum(searchsorted(sorted, wanted), sorted.numel() - 1);
    result = equal(take(sorted, place), wanted);
  }
  return invert ? logical_not(result) : result;
}

}  // namespace extensor
