#include "ops/checked_indices.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/reduction.h"

namespace extensor::ops {

using detail::message;

namespace {

backend::CheckIntegersCall call_of(const Tensor& dense) {
  backend::CheckIntegersCall call{};
  call.dtype = dense.dtype();
  call.count = dense.numel();
  call.values = dense.impl().data;
  call.check = backend::immediate_check;
  return call;
}

// Checks on the CPU. Throws immediately, and copies nothing if the indices need no change.
Tensor checked_now(const backend::ValueCheck& check, const IndexRange& range, const Tensor& dense) {
  const backend::Backend& kernels = backend::backend_for(cpu_device);
  backend::CheckIntegersCall call = call_of(dense);
  call.size = range.size;
  call.also = range.ignored;
  kernels.check_integers(call);
  auto found = backend::take_note();
  if (!found) return dense.to(DType::int64);
  if (!range.from_end) backend::throw_not_allowed(check, *found);
  // Some indices count from the end or are out of range.
  call.lowest = -range.size;
  kernels.check_integers(call);
  found = backend::take_note();
  if (found) backend::throw_not_allowed(check, *found);
  Tensor counted = detail::make_empty(check.operation, dense.shape(), DType::int64, cpu_device);
  call.out = detail::kernel_pointer<std::int64_t>(counted);
  kernels.check_integers(call);
  return counted;
}

}  // namespace

Tensor checked_indices(const char* operation, const Tensor& indices, const IndexRange& range) {
  if (!is_integer(indices.dtype())) {
    throw DTypeError(message(operation, ": ", range.argument, " has dtype ", indices.dtype(),
                             ", must be an integer dtype"));
  }
  const Tensor dense = indices.contiguous();
  const backend::ValueCheck check{.operation = operation,
                                  .argument = range.argument,
                                  .counted = range.counted,
                                  .axis = range.axis,
                                  .size = range.size,
                                  .from_end = range.from_end,
                                  .dtype = dense.dtype(),
                                  .shape = dense.shape()};
  if (dense.device() == cpu_device) return checked_now(check, range, dense);
  // If no index is valid, there is no replacement that kernels could use until the error is
  // reported.
  if (range.size == 0 && dense.numel() != 0) {
    return checked_now(check, range, dense.to(cpu_device)).to(dense.device());
  }
  Tensor counted = detail::make_empty(operation, dense.shape(), DType::int64, dense.device());
  backend::CheckIntegersCall call = call_of(dense);
  call.check = backend::check_number(check);
  call.size = range.size;
  call.lowest = range.from_end ? -range.size : 0;
  call.also = range.ignored;
  call.out = detail::kernel_pointer<std::int64_t>(counted);
  backend::backend_for(dense.device()).check_integers(call);
  return counted;
}

void check_integers(const backend::ValueCheck& check, const Tensor& values) {
  const Tensor dense = values.contiguous();
  backend::CheckIntegersCall call = call_of(dense);
  call.size = check.size;
  if (check.kind == backend::ValueCheck::Kind::exponent)
    call.also = check.size;  // the largest int64
  call.nonzero = check.kind == backend::ValueCheck::Kind::divisor;
  const bool now = dense.device() == cpu_device;
  if (!now) call.check = backend::check_number(check);
  backend::backend_for(dense.device()).check_integers(call);
  if (!now) return;
  if (const auto found = backend::take_note()) backend::throw_not_allowed(check, *found);
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
