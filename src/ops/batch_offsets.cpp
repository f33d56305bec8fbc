#include "ops/batch_offsets.h"

#include "extensor/broadcasting.h"

namespace extensor::ops {

std::vector<std::int64_t> batch_offsets(const Tensor& x, const Shape& batch, std::int64_t count) {
  Shape leading = x.shape();
  Strides strides = x.strides();
  leading.resize(leading.size() - 2);
  strides.resize(leading.size());
  const Strides broadcast = compute_broadcast_strides(leading, strides, batch);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t d = batch.size(); d-- > 0;) {
      offset += rest % batch[d] * broadcast[d];
      rest /= batch[d];
    }
    offsets[static_cast<std::size_t>(i)] = offset;
  }
  return offsets;
}

}  // namespace extensor::ops
