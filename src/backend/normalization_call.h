// The normalization families: rows normalised over their own elements, and channels normalised over
// a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

// Dense rows of channels × run elements. Row r belongs to group r mod groups, and its channel j has
// the affine parameters at group · channels + j. Layer norm: one group, runs of one element.
//   out = (x − mean) / √(variance + eps) · weight + bias        forward
//   out = the gradient of x, given that of the forward's result backward
struct RowNormalizationCall {
  DType dtype;          // of x, grad_output and out
  bool centred = true;  // false: divide by the root mean square, without subtracting a mean
  std::int64_t rows, groups, channels, run;
  double eps;
  const std::byte* x;
  const std::byte* weight = nullptr;  // in the compute dtype; null: 1
  const std::byte* bias = nullptr;    // in the compute dtype; null: 0
  std::byte* out;
  const std::byte* grad_output = nullptr;  // null: forward
  std::byte* grad_weight = nullptr;        // in the compute dtype; both or neither
  std::byte* grad_bias = nullptr;
  // For runs of one element only. Forward: x + residual replaces x, and is written to `sum`.
  // Backward: grad_sum, the gradient of that sum from elsewhere, is added to out.
  const std::byte* residual = nullptr;
  std::byte* sum = nullptr;
  const std::byte* grad_sum = nullptr;
};

// Dense x seen as [outer, channels, inner]; each channel has one mean and one variance.
struct BatchNormalizationCall {
  DType dtype;  // of x, grad_output and out
  std::int64_t outer, channels, inner;
  double eps;
  bool
      training;  // statistics of this batch: the forward writes them, the backward finds them again
  bool statistics_given = false;  // a backward reads them, also in training
  const std::byte* x;
  double* mean;                       // of every channel
  double* variance;                   // without correction
  const std::byte* weight = nullptr;  // in the compute dtype; null: 1
  const std::byte* bias = nullptr;    // in the compute dtype; null: 0
  std::byte* out;
  const std::byte* grad_output = nullptr;  // null: forward
  std::byte* grad_weight = nullptr;        // in the compute dtype
  std::byte* grad_bias = nullptr;
  // Forward: out = max(normalized + residual, 0); null: + 0. Backward: `result` is that out, and
  // grad_output counts where it is positive; grad_residual receives the counted part, unless it is
  // null.
  bool relu = false;
  const std::byte* residual = nullptr;
  const std::byte* result = nullptr;
  std::byte* grad_residual = nullptr;
};

}  // namespace extensor::backend
