// Rotary position embedding (RoPE): rotates pairs of features by angles that grow with the
// position, so that products of queries and keys depend on the distance of their positions.
//
//   q = rotary_embedding(q);                        // q, k [batch, heads, length, width]
//   k = rotary_embedding(k);
#pragma once

#include <cstdint>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct RotaryOptions {
  double base = 10000;      // pair i of n turns by base^(−i / n) per position; above 0
  std::int64_t offset = 0;  // the position of the first row, as after a key-value cache
  // The pairs: features i and i + width / 2, as in Llama and GPT-NeoX; or, interleaved, features 2i
  // and 2i + 1, as in GPT-J.
  bool interleaved = false;
};

// x [..., length, width] with an even width. Angles are computed in float64. ShapeError for an odd
// width or fewer than 2 dimensions; ValueError for options out of range.
Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {});
// The rotation by the opposite angles.
Tensor rotary_embedding_backward(const Tensor& grad_output, const RotaryOptions& options = {});

}  // namespace extensor

EXTENSOR_END_API
