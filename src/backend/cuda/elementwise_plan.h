// From the layout of a call to the iterations of its kernels.
#pragma once

#include <cstdint>

#include "backend/cuda/elementwise_call.h"
#include "extensor/shape.h"

namespace extensor::backend::cuda {

// One dimension of `count` elements, with these strides.
Iteration one_dimension(std::int64_t count, int operands, const std::int64_t* strides);

// Calls run(iteration, offsets) for parts of the elements that together are all, with the offset in
// elements of every operand: once, unless there are more dimensions than a kernel takes.
template <class Run>
void for_each_part(const Dims& sizes, const Dims* strides, int operands, Run&& run) {
  const int rank = static_cast<int>(sizes.size());
  const int outer = rank > max_kernel_dims ? rank - max_kernel_dims : 0;
  Iteration over{};
  over.count = 1;
  over.dims = rank - outer;
  for (int d = outer; d < rank; ++d) {
    const auto from = static_cast<std::size_t>(d);
    over.count *= sizes[from];
    over.sizes[d - outer] = sizes[from];
    if (sizes[from] < (std::int64_t{1} << 31)) {
      over.dividers[d - outer] = Divider(static_cast<std::uint32_t>(sizes[from]));
    }
    for (int k = 0; k < operands; ++k) over.strides[k][d - outer] = strides[k][from];
  }
  over.short_count = over.count < (std::int64_t{1} << 31);
  std::int64_t parts = 1;
  for (int d = 0; d < outer; ++d) parts *= sizes[static_cast<std::size_t>(d)];
  for (std::int64_t part = 0; part < parts; ++part) {
    std::int64_t offsets[max_inputs + 1] = {}, rest = part;
    for (int d = outer - 1; d >= 0; --d) {
      const auto from = static_cast<std::size_t>(d);
      for (int k = 0; k < operands; ++k) offsets[k] += rest % sizes[from] * strides[k][from];
      rest /= sizes[from];
    }
    run(over, offsets);
  }
}

}  // namespace extensor::backend::cuda
