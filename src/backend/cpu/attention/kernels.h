// The kernels of attention besides matrix products: the softmax of a block of scores, forward and
// backward, for each SIMD target.
#pragma once

#include <cstdint>

namespace extensor::cpu {

// A block of scores for as many queries as a tile of the matrix product has columns. Row j holds
// the scores of key j; column i belongs to query i, whose running maximum and sum are lane i.
template <class T>
struct ScorePanel {
  T* scores;      // replaced by exp(score − maximum)
  const T* bias;  // added to them, or null
  std::int64_t keys;
  std::int64_t first_hidden;  // key first_hidden + i + 1 and those after it are hidden from query i
  T* maximum;
  T* sum;
  T* correction;  // the factor for the sums over earlier blocks
};

// The row of one query against n keys in the backward.
template <class T>
struct GradientRow {
  T* scores;      // replaced by the probabilities
  T* gradients;   // of the probabilities; replaced by those of the scores
  const T* bias;  // added to the scores, or null
  std::int64_t n;
  T logsumexp;
  T inner;  // Σ gradient · probability over the whole row
};

template <class T>
struct AttentionKernels {
  std::int64_t panel_width;
  void (*soften)(const ScorePanel<T>& panel);
  void (*gradient_row)(const GradientRow<T>& row);
  // Multiplies row i by factors[i].
  void (*scale_rows)(T* rows, std::int64_t count, std::int64_t columns, std::int64_t row_stride,
                     const T* factors);
  T (*dot)(const T* a, const T* b, std::int64_t n);
};

template <class T>
const AttentionKernels<T>& attention_kernels();

}  // namespace extensor::cpu
