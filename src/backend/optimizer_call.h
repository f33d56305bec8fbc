// The optimizer family: one step of a list of parameters in place, moving averages, the scaling of
// gradients, and their norm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

// Defined in backend/optimizer_rows.h.
enum class OptimizerOp : std::uint8_t;

inline constexpr int max_optimizer_states = 3;
inline constexpr int max_optimizer_coefficients = 10;

// The numbers of a row that depend on the options and on the number of the step. Bit k of variants
// is the k-th VARIANT of the row.
struct OptimizerCoefficients {
  std::uint32_t variants = 0;
  bool maximize = false;
  double values[max_optimizer_coefficients] = {};
};

// One dense parameter. States are in the order of the row, null if unused.
struct OptimizerItem {
  std::int64_t numel = 0;
  std::byte* param = nullptr;
  const std::byte* grad = nullptr;
  std::byte* states[max_optimizer_states] = {};
};

// Applies one step to every item, with the work split over threads by elements. The result of an
// element does not depend on the other items.
struct OptimizerCall {
  OptimizerOp op;
  DType dtype;         // of param and grad
  DType state_dtype;   // the same, or float32 for halves
  std::int64_t numel;  // of all items together
  const OptimizerItem* items;
  std::int64_t item_count;
  OptimizerCoefficients coefficients;
  // If not null, a number on the device: nothing is changed unless it is finite.
  const double* condition = nullptr;
  // If not null, a number on the device that replaces coefficient 0 of OptimizerOp::scale.
  const double* factor = nullptr;
};

// One dense tensor, and the destination of its sum.
struct PowerSumItem {
  std::int64_t numel = 0;
  const std::byte* x = nullptr;
  double* out = nullptr;
};

// Σ |x|ᵖ of each item in double, or max |x| for an infinite p; NaN if the item contains one. Summed
// in fixed blocks.
struct PowerSumCall {
  DType dtype;
  double power;
  const PowerSumItem* items;
  std::int64_t item_count;
};

}  // namespace extensor::backend
