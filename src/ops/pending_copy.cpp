#include "ops/pending_copy.h"

#include <utility>

#include "backend/device.h"
#include "core/graph.h"
#include "core/make_tensor.h"

namespace extensor::ops {

PendingCopy::PendingCopy(const Tensor& x, Device device) {
  const detail::RecordingScope off(false);
  if (!(x.device() == cpu_device) || device == cpu_device || !x.is_contiguous() || x.numel() == 0) {
    tensor_ = x.to(device);
    return;
  }
  tensor_ = detail::make_empty("to", x.shape(), x.dtype(), device);
  ticket_ = backend::interface_of(device, "to")
                .begin_upload(tensor_.impl().data, x.impl().data, x.nbytes(), device.index);
  under_way_ = true;
}

PendingCopy::PendingCopy(PendingCopy&& other) noexcept
    : tensor_(std::move(other.tensor_)),
      ticket_(other.ticket_),
      under_way_(std::exchange(other.under_way_, false)) {}

PendingCopy& PendingCopy::operator=(PendingCopy&& other) noexcept {
  std::swap(tensor_, other.tensor_);
  std::swap(ticket_, other.ticket_);
  std::swap(under_way_, other.under_way_);
  return *this;
}

// The memory is used again after the copy.
PendingCopy::~PendingCopy() {
  try {
    tensor();
  } catch (const std::exception&) {  // NOLINT: the device failed, and later calls report it
  }
}

const Tensor& PendingCopy::tensor() {
  if (std::exchange(under_way_, false)) {
    const Device device = tensor_.device();
    backend::interface_of(device, "to").finish_upload(ticket_, device.index);
  }
  return tensor_;
}

}  // namespace extensor::ops
