#include "ops/index_range.h"

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"

namespace extensor::ops {

namespace {

[[noreturn]] void throw_out_of_range(const char* operation, const char* argument,
                                     const Scalar& index, std::int64_t limit, const char* things) {
  throw IndexError(detail::message(operation, ": ", argument, " holds ", index, ", but there are ",
                                   limit, " ", things, " (allowed: 0 … ", limit - 1, ")"));
}

}  // namespace

Tensor checked_indices(const char* operation, const char* argument, const Tensor& indices,
                       std::int64_t limit, const char* things,
                       std::optional<std::int64_t> ignored) {
  if (!is_integer(indices.dtype())) {
    throw DTypeError(detail::message(operation, ": ", argument, " is ", indices.dtype(),
                                     ", must be an integer dtype"));
  }
  if (indices.dtype() == DType::uint64 && indices.numel() != 0) {
    // What int64 cannot hold would wrap to another index.
    const auto largest = max_reduce(indices).item<std::uint64_t>();
    if (largest >> 63 != 0) throw_out_of_range(operation, argument, largest, limit, things);
  }
  Tensor dense = indices.to(DType::int64).contiguous();
  if (dense.numel() == 0) return dense;
  const std::int64_t lowest = min_reduce(dense).item<std::int64_t>();
  const std::int64_t highest = max_reduce(dense).item<std::int64_t>();
  if (lowest >= 0 && highest < limit) return dense;
  // Out of range unless it is what may be ignored.
  Tensor out_of_range = logical_or(less(dense, 0), greater_equal(dense, limit));
  if (ignored) out_of_range = logical_and(out_of_range, not_equal(dense, *ignored));
  if (!any(out_of_range).item<bool>()) return dense;
  const std::int64_t first = argmax(out_of_range).item<std::int64_t>();
  throw_out_of_range(operation, argument, dense.flatten()[first].item<std::int64_t>(), limit,
                     things);
}

}  // namespace extensor::ops
