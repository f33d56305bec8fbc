// The attention family: softmax(scale · q·kᵀ + mask)·v for a batch of sequences, and its gradients.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/batch_offsets.h"
#include "extensor/dtype.h"

namespace extensor::backend {

// One matrix per element of the batch, with dense rows. Counted in elements.
struct AttentionMatrix {
  const std::byte* data = nullptr;
  std::int64_t row_stride = 0;
  BatchOffsets offsets;
};

// A result of the same form. The matrices of a batch may interleave, but do not overlap.
struct AttentionOutput {
  std::byte* data = nullptr;
  std::int64_t row_stride = 0;
  BatchOffsets offsets;
};

// queries × keys for each element of the batch: bool_, or float32 (float64 for float64 operands),
// which is added to the scores. Null data means no mask.
struct AttentionMask {
  const std::byte* data = nullptr;
  DType dtype = DType::bool_;
  std::int64_t query_stride = 0, key_stride = 0;
  BatchOffsets offsets;
};

struct AttentionCall {
  DType dtype;  // of q, k, v and out; the backward takes halves only if the backend does
  std::int64_t batch, queries, keys;  // at least 1 each
  std::int64_t width, value_width;    // columns of q and k, and of v
  double scale;
  bool causal;  // query i sees the keys j ≤ i
  AttentionMatrix q, k, v;
  AttentionMask mask;
  AttentionOutput out;   // queries × value_width
  std::byte* logsumexp;  // dense [batch, queries] of float32 (float64 for float64), or null
};

struct AttentionBackwardCall {
  AttentionCall forward;  // with the results of the forward
  AttentionMatrix grad_output;
  AttentionOutput grad_q, grad_k, grad_v;
  std::byte* grad_mask;  // dense [batch, queries, keys], or null
};

}  // namespace extensor::backend
