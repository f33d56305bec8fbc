// Index tensors and masks: checked once, then trusted by kernels. The CPU checks before anything is
// written. Another device checks when it gets there, puts 0 in the place of an index that is out of
// range, and throws the same error at the next point where the host waits for it.
#pragma once

#include <optional>

#include "backend/checks.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// The indices that are allowed, and the words for them in messages.
struct IndexRange {
  std::int64_t size;                 // 0 … size − 1 are allowed
  std::int64_t axis = 0;             // the axis that they index, of that size;
  const char* counted = nullptr;     // or the things that they number, such as "classes"
  const char* argument = "indices";  // the argument that holds them
  bool from_end = false;             // −size … −1 are allowed too, and count from the end
  std::optional<std::int64_t> ignored = {};  // allowed too, and left as it is
};

inline IndexRange along_axis(const Shape& shape, std::int64_t axis) {
  return {.size = shape[static_cast<std::size_t>(axis)], .axis = axis, .from_end = true};
}

// The indices as a dense int64 tensor, counted from 0. DTypeError unless they are integers,
// IndexError with the first one that is out of range and its position.
Tensor checked_indices(const char* operation, const Tensor& indices, const IndexRange& range);

// Other integers: ValueError as `check` says, for those below 0, from check.size on, or that are 0
// where the check is of divisors.
void check_integers(const backend::ValueCheck& check, const Tensor& values);

// DTypeError unless x is bool.
void check_mask(const char* operation, const Tensor& mask);

// The row-major positions where a bool tensor is true, as a new int64 tensor of one dimension.
Tensor true_positions(const char* operation, const Tensor& mask);

}  // namespace extensor::ops
