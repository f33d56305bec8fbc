#include "ops/checked_indices.h"

#include <limits>
#include <string>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"

namespace extensor::ops {

using detail::message;

namespace {

[[noreturn]] void throw_out_of_range(const char* operation, const Tensor& dense, std::int64_t first,
                                     const IndexRange& range) {
  Dims position(dense.shape().size(), 0);
  std::int64_t rest = first;
  for (std::size_t d = position.size(); d-- > 0;) {
    position[d] = rest % dense.shape()[d];
    rest /= dense.shape()[d];
  }
  const Tensor single = dense.flatten()[first];
  const std::string value = single.dtype() == DType::uint64 ? message(single.item<std::uint64_t>())
                                                            : message(single.item<std::int64_t>());
  const std::int64_t size = range.size;
  throw IndexError(message(
      operation, ": index ", value, " at position ", position, " of ", range.argument,
      " is out of range for ",
      range.counted == nullptr ? message("axis ", range.axis, " of size ", size)
                               : message(size, " ", range.counted),
      size == 0 ? std::string(" (allowed: none)")
                : message(" (allowed: ", range.from_end ? -size : 0, " to ", size - 1, ")")));
}

// The position of the first index that is out of range and not the ignored one; −1: none.
std::int64_t first_not_ignored(const Tensor& dense, std::int64_t size, std::int64_t ignored) {
  const Tensor wide = dense.to(DType::int64);
  Tensor bad =
      logical_and(logical_or(less(wide, 0), greater_equal(wide, size)), not_equal(wide, ignored));
  if (dense.dtype() == DType::uint64) {  // int64 holds the largest ones as negative numbers
    bad = logical_or(bad, greater(dense, std::numeric_limits<std::int64_t>::max()));
  }
  return any(bad).item<bool>() ? argmax(bad).item<std::int64_t>() : -1;
}

}  // namespace

Tensor checked_indices(const char* operation, const Tensor& indices, const IndexRange& range) {
  if (!is_integer(indices.dtype())) {
    throw DTypeError(message(operation, ": ", range.argument, " has dtype ", indices.dtype(),
                             ", must be an integer dtype"));
  }
  Tensor dense = indices.contiguous();
  backend::CheckIndicesCall call{};
  call.dtype = dense.dtype();
  call.count = dense.numel();
  call.lowest = range.from_end ? -range.size : 0;
  call.size = range.size;
  call.indices = detail::dense_data(dense);
  const backend::Backend& backend = backend::backend_for(dense.device());
  const backend::CheckedIndices checked = backend.check_indices(call);
  if (checked.first_bad >= 0) {
    const std::int64_t first =
        range.ignored ? first_not_ignored(dense, range.size, *range.ignored) : checked.first_bad;
    if (first >= 0) throw_out_of_range(operation, dense, first, range);
    return dense.to(DType::int64);
  }
  if (dense.dtype() == DType::int64 && !checked.any_negative) return dense;
  Tensor counted = detail::make_empty(operation, dense.shape(), DType::int64, dense.device());
  call.out = detail::kernel_pointer<std::int64_t>(counted);
  backend.check_indices(call);
  return counted;
}

void check_mask(const char* operation, const Tensor& mask) {
  if (mask.dtype() == DType::bool_) return;
  throw DTypeError(message(operation, ": mask is ", mask.dtype(), ", must be bool"));
}

Tensor true_positions(const char* operation, const Tensor& mask) {
  const Tensor dense = mask.contiguous();
  const auto count = count_nonzero(dense).item<std::int64_t>();
  Tensor positions = detail::make_empty(operation, {count}, DType::int64, mask.device());
  backend::NonzeroCall call{detail::kernel_pointer<bool>(dense), dense.numel(),
                            detail::kernel_pointer<std::int64_t>(positions)};
  backend::backend_for(mask.device()).nonzero(call);
  return positions;
}

}  // namespace extensor::ops
