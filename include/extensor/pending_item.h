// A number on its way from a device to the host: reading a loss late keeps the device busy.
//
//   PendingItem previous;
//   for (…) {
//     …
//     optimizer.step();
//     PendingItem current(loss);                                       // does not wait
//     if (previous.defined()) report(previous.item<double>());         // of the step before
//     previous = std::move(current);
//   }
#pragma once

#include <cstdint>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

class PendingItem {
 public:
  PendingItem() = default;
  // Begins to copy the element of a tensor that has exactly one. ValueError for another tensor.
  explicit PendingItem(const Tensor& x);
  PendingItem(PendingItem&& other) noexcept;
  PendingItem& operator=(PendingItem&& other) noexcept;
  ~PendingItem();

  bool defined() const { return tensor_.defined(); }

  // The value that the element had when the copy began, converted as by Tensor::to(). Waits until
  // the device has made it, but not for work that was given to the device later. Throws the errors
  // that kernels have reported until then, such as IndexError. It can be read again. ValueError
  // when undefined.
  template <class T>
  T item() {
    T result;
    read(dtype_of<T>, &result);
    return result;
  }

 private:
  void read(DType dtype, void* result);

  Tensor tensor_;  // keeps the memory; when the copy has arrived, it is on the CPU
  std::uint64_t ticket_ = 0;
  bool arrived_ = false;
};

}  // namespace extensor

EXTENSOR_END_API
