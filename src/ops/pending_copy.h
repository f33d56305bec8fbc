// A tensor being copied from the host to a device, beside the work that is launched meanwhile.
#pragma once

#include <cstdint>

#include "extensor/tensor.h"

namespace extensor::ops {

class PendingCopy {
 public:
  PendingCopy() = default;
  // Starts the copy; x may be changed afterwards. A tensor that is not dense memory of the host is
  // copied like x.to(device). Nothing is recorded.
  PendingCopy(const Tensor& x, Device device);
  PendingCopy(PendingCopy&& other) noexcept;
  PendingCopy& operator=(PendingCopy&& other) noexcept;
  ~PendingCopy();

  // The copy. The host does not wait: work that uses the copy runs after it is complete.
  const Tensor& tensor();

 private:
  Tensor tensor_;
  std::uint64_t ticket_ = 0;
  bool under_way_ = false;
};

}  // namespace extensor::ops
