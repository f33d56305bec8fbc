// The largest magnitude among the gradients of an optimizer. The device decides by it whether a
// step is made; the host reads it later.
#pragma once

#include <cmath>

#include "extensor/pending_item.h"
#include "extensor/tensor.h"

namespace extensor::optim {

class LargestGradient {
 public:
  // `value` is a 0-d float64 tensor. Starts to copy it to the host.
  explicit LargestGradient(const Tensor& value) : value_(value), read_(value) {}

  Device device() const { return value_.device(); }
  const Tensor& tensor() const { return value_; }
  // The value on another device, for its kernels. The tensor lives as long as this object.
  const Tensor& on(Device device) {
    if (value_.device() == device) return value_;
    if (!other_.defined() || !(other_.device() == device)) other_ = value_.to(device);
    return other_;
  }

  // Waits until the device has computed the value, but not for work that was launched later.
  bool is_finite() { return std::isfinite(read_.item<double>()); }

 private:
  Tensor value_, other_;
  PendingItem read_;
};

}  // namespace extensor::optim
