#include "ops/batch_offsets.h"

#include <algorithm>

#include "extensor/broadcasting.h"

namespace extensor::ops {

namespace {

// Merges neighbouring dimensions that one stride covers into one level. Returns false if there are
// too many levels.
bool find_offsets(const Tensor& x, const Shape& batch, backend::BatchOffsets& offsets) {
  Shape leading = x.shape();
  Strides own = x.strides();
  leading.resize(leading.size() - 2);
  own.resize(leading.size());
  const Strides strides = compute_broadcast_strides(leading, own, batch);
  // Start at the last dimension; the levels are reversed at the end.
  int levels = 0;
  for (std::size_t d = batch.size(); d-- > 0;) {
    if (batch[d] == 1) continue;
    if (levels > 0 && strides[d] == offsets.strides[levels - 1] * offsets.sizes[levels - 1]) {
      offsets.sizes[levels - 1] *= batch[d];
      continue;
    }
    if (levels == backend::BatchOffsets::max_levels) return false;
    offsets.sizes[levels] = batch[d];
    offsets.strides[levels++] = strides[d];
  }
  std::reverse(offsets.sizes, offsets.sizes + levels);
  std::reverse(offsets.strides, offsets.strides + levels);
  offsets.levels = levels;
  return true;
}

}  // namespace

BatchedMatrices::BatchedMatrices(const Tensor& given, const Shape& batch) : x(given) {
  if (find_offsets(x, batch, offsets)) return;
  Shape whole = batch;
  whole.push_back(x.size(-2));
  whole.push_back(x.size(-1));
  x = x.broadcast_to(whole).contiguous();
  find_offsets(x, batch, offsets);
}

}  // namespace extensor::ops
