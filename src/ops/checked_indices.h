// Validation of index tensors and masks. They are checked once and then trusted by kernels. The CPU
// checks before it writes anything. Other devices check asynchronously, replace an index that is
// out of range by 0, and throw the same error the next time the host waits for them.
#pragma once

#include <optional>

#include "backend/checks.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// The valid indices and how error messages describe them.
struct IndexRange {
  std::int64_t size;                 // 0 … size − 1 are valid
  std::int64_t axis = 0;             // the indexed axis, of length `size`
  const char* counted = nullptr;     // or what the indices count, such as "classes"
  const char* argument = "indices";  // name of the argument
  bool from_end = false;             // −size … −1 are valid too and count from the end
  std::optional<std::int64_t> ignored = {};  // also valid, and kept unchanged
};

inline IndexRange along_axis(const Shape& shape, std::int64_t axis) {
  return {.size = shape[static_cast<std::size_t>(axis)], .axis = axis, .from_end = true};
}

// Returns the indices as a dense int64 tensor, counted from 0. Throws DTypeError unless they are
// integers, and IndexError with the position of the first index that is out of range.
Tensor checked_indices(const char* operation, const Tensor& indices, const IndexRange& range);

// Checks integers other than indices. Throws the ValueError that `check` describes for values below
// 0, values of at least check.size, or zero divisors.
void check_integers(const backend::ValueCheck& check, const Tensor& values);

// Throws DTypeError unless the mask is bool.
void check_mask(const char* operation, const Tensor& mask);

// The row-major positions of true elements, as a new 1-d int64 tensor.
Tensor true_positions(const char* operation, const Tensor& mask);

}  // namespace extensor::ops
