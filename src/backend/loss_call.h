// The loss families: losses computed element by element, and losses over classes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class LossOp : std::uint8_t {
#define LOSS(name, ...) name,
#include "backend/losses.def"
  count,
};
inline constexpr int loss_op_count = static_cast<int>(LossOp::count);

enum class LossReduction : std::uint8_t { mean, sum, none };

// binary_cross_entropy clamps p and 1 − p to at least this.
inline constexpr double probability_margin = 1e-7;

// Dense operands of `numel` elements. Without `g`, the forward writes `out`: all values, or the one
// they are reduced to. With it, the backward writes gradient_x and gradient_y, each unless null.
struct LossCall {
  LossOp op;
  LossReduction reduction;
  DType dtype;  // of x, y and the results; g has the compute dtype: float32 for halves
  std::int64_t numel;
  const std::byte* x;
  const std::byte* y;
  const std::byte* g;  // numel elements, or one if the values were reduced
  std::byte* out;
  std::byte* gradient_x;
  std::byte* gradient_y;
  double parameters[2];
  // The checks that x and y are in 0 … 1 (backend/checks.h); 0: none. A note does not stop the
  // kernel; the caller discards the results.
  std::uint32_t check_x, check_y;
};

// The cross-entropy of rows of logits (or, without `softmax`, of log-probabilities) with class
// indices or with probabilities; otherwise like LossCall. An index is ignore_index or in range.
struct ClassLossCall {
  bool softmax;
  LossReduction reduction;
  DType dtype;  // of x, probabilities and the results; weight and g have the compute dtype
  std::int64_t rows, classes;
  const std::byte* x;              // [rows, classes]
  const std::int64_t* indices;     // [rows], or null
  const std::byte* probabilities;  // [rows, classes], or null
  const std::byte* weight;         // [classes], or null
  std::int64_t ignore_index;
  double label_smoothing;
  const std::byte* g;  // `rows` elements, or one if the values were reduced; null: forward
  std::byte* out;
  std::byte* gradient_x;
  std::byte* gradient_probabilities;
  // [rows, 2]: the softmax statistics of each row. The forward writes them and the backward may
  // read them; null: neither.
  double* statistics;
};

// The cross-entropy of logits with class indices, a block of rows and classes at a time, so that
// all logits need not exist at once. `add` is called for each block of a row, the one of class 0
// first, then `finish` for the loss; `gradient` may follow for each block.
enum class ClassBlockStep : std::uint8_t { add, finish, gradient };

struct ClassBlockCall {
  // For each row, in doubles: the largest logit m of the classes that its index does not name, and
  // their Σ exp(x − m); the named logit; Σ spread · x and Σ spread, if the target is smoothed.
  static constexpr std::int64_t statistics_per_row = 5;

  ClassBlockStep step;
  LossReduction reduction;
  DType dtype;                        // of x, weight, g and gradients: float32 or float64
  std::int64_t rows, classes;         // in total
  std::int64_t first_row, row_count;  // of the block
  std::int64_t first_class, class_count;
  const std::byte* x;           // [row_count, class_count]
  const std::int64_t* indices;  // [rows], each ignore_index or in range
  const std::byte* weight;      // [classes], or null
  std::int64_t ignore_index;
  double label_smoothing;
  double* statistics;  // [rows, statistics_per_row]
  const std::byte* g;  // `rows` elements, or one if the values are reduced; null: 1
  std::byte* out;      // `finish`: `rows` elements, or one; `gradient`: like x, and may be x
  DType out_dtype;     // of `finish`
};

}  // namespace extensor::backend
