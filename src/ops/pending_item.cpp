#include "extensor/pending_item.h"

#include <utility>

#include "backend/device.h"
#include "core/check.h"
#include "core/make_tensor.h"

namespace extensor {

PendingItem::PendingItem(const Tensor& x) : tensor_(x.detach()) {
  if (x.numel() != 1) {
    throw ValueError(detail::message("PendingItem: a tensor of shape ", x.shape(), " has ",
                                     x.numel(), " elements (allowed: exactly one)"));
  }
  if (x.itemsize() > sizeof ticket_) {
    throw DTypeError(detail::message("PendingItem: the tensor is ", x.dtype(),
                                     " (allowed: elements of at most 8 bytes)"));
  }
  const Device device = x.device();
  ticket_ =
      backend::interface_of(device).begin_read(tensor_.impl().data, x.itemsize(), device.index);
}

PendingItem::PendingItem(PendingItem&& other) noexcept
    : tensor_(std::move(other.tensor_)), ticket_(other.ticket_), arrived_(other.arrived_) {}

PendingItem& PendingItem::operator=(PendingItem&& other) noexcept {
  std::swap(tensor_, other.tensor_);
  std::swap(ticket_, other.ticket_);
  std::swap(arrived_, other.arrived_);
  return *this;
}

PendingItem::~PendingItem() {
  if (!tensor_.defined() || arrived_) return;
  backend::interface_of(tensor_.device()).finish_read(ticket_, nullptr, 0, tensor_.device().index);
}

void PendingItem::read(DType dtype, void* result) {
  if (!arrived_) {
    const Device device = tensor_.device();  // ValueError when undefined
    const Tensor arrived = detail::make_empty("item", {}, tensor_.dtype(), cpu_device);
    arrived_ = true;  // even if the read throws: the ticket is used up
    backend::interface_of(device).finish_read(ticket_, arrived.impl().data, arrived.nbytes(),
                                              device.index);
    tensor_ = arrived;
  }
  detail::read_element(tensor_, dtype, result);
}

}  // namespace extensor
