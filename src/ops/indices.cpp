#include "ops/indices.h"

#include <string>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/reduction.h"

namespace extensor::ops {

using detail::message;

namespace {

[[noreturn]] void throw_out_of_range(const char* operation, const Tensor& dense, std::int64_t at,
                                     std::int64_t lowest, std::int64_t size, std::int64_t axis) {
  Dims position(dense.shape().size(), 0);
  std::int64_t rest = at;
  for (std::size_t d = position.size(); d-- > 0;) {
    position[d] = rest % dense.shape()[d];
    rest /= dense.shape()[d];
  }
  const Tensor single = dense.flatten()[at];
  const std::string value = single.dtype() == DType::uint64 ? message(single.item<std::uint64_t>())
                                                            : message(single.item<std::int64_t>());
  if (size == 0) {
    throw IndexError(message(operation, ": index ", value, " at position ", position,
                             " of indices, but axis ", axis, " has size 0 and no elements"));
  }
  throw IndexError(message(operation, ": index ", value, " at position ", position,
                           " of indices is out of range for axis ", axis, " of size ", size,
                           " (allowed: ", lowest, " to ", size - 1, ")"));
}

}  // namespace

Tensor checked_indices(const char* operation, const Tensor& indices, std::int64_t size,
                       std::int64_t axis, Negative negative) {
  if (!is_integer(indices.dtype())) {
    throw DTypeError(
        message(operation, ": indices are ", indices.dtype(), ", must be of an integer dtype"));
  }
  Tensor dense = indices.contiguous();
  backend::CheckIndicesCall call{};
  call.dtype = dense.dtype();
  call.count = dense.numel();
  call.lowest = negative == Negative::refused ? 0 : -size;
  call.size = size;
  call.indices = dense.impl().data;
  const backend::Backend& backend = backend::backend_for(dense.device());
  const backend::CheckedIndices checked = backend.check_indices(call);
  if (checked.first_bad >= 0) {
    throw_out_of_range(operation, dense, checked.first_bad, call.lowest, size, axis);
  }
  if (dense.dtype() == DType::int64 && !checked.any_negative) return dense;
  Tensor result = detail::make_empty(operation, dense.shape(), DType::int64, dense.device());
  call.out = result.data<std::int64_t>();
  backend.check_indices(call);
  return result;
}

void check_mask(const char* operation, const Tensor& mask) {
  if (mask.dtype() == DType::bool_) return;
  throw DTypeError(message(operation, ": mask is ", mask.dtype(), ", must be bool"));
}

Tensor true_positions(const char* operation, const Tensor& mask) {
  const Tensor dense = mask.contiguous();
  const auto count = count_nonzero(dense).item<std::int64_t>();
  Tensor positions = detail::make_empty(operation, {count}, DType::int64, mask.device());
  backend::NonzeroCall call{dense.data<bool>(), dense.numel(), positions.data<std::int64_t>()};
  backend::backend_for(mask.device()).nonzero(call);
  return positions;
}

}  // namespace extensor::ops
