// A number being copied from a device to the host: reading a loss late keeps the device busy.
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
  // Starts to copy the element of a tensor that has exactly one. ValueError for any other tensor.
  explicit PendingItem(const Tensor& x);
  PendingItem(PendingItem&& other) noexcept;
  PendingItem& operator=(PendingItem&& other) noexcept;
  ~PendingItem();

  bool defined() const { return tensor_.defined(); }

  // The value of the element when the copy started, converted like Tensor::to(). Waits until the
  // device has computed it, but not for work that was launched later. Throws the errors that
  // kernels have reported until then, such as IndexError. May be called again. ValueError if
  // undefined.
  template <class T>
  T item() {
    T result;
    read(dtype_of<T>, &result);
    return result;
  }

 private:
  void read(DType dtype, void* result);

  Tensor tensor_;  // keeps the memory; on the CPU once the copy has arrived
  std::uint64_t ticket_ = 0;
  bool arrived_ = false;
};

}  // namespace extensor

EXTENSOR_END_API
