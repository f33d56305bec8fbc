// Scaled dot-product attention whose memory grows linearly with the sequence length.
#pragma once

#include <optional>

#include "extensor/export.h"
#include "extensor/random.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// softmax(scale · q·kᵀ + mask)·v for q [..., Lq, d], k [..., Lk, d] and v [..., Lk, dv] → [..., Lq,
// dv]. Leading dimensions broadcast; dtypes promote. A mask broadcasts to [..., Lq, Lk]: a bool
// mask selects the positions where it is true, a float mask is added. With `causal`, query i sees
// the keys j ≤ i. `scale` defaults to 1/√d. A query that sees no key yields 0. ShapeError,
// DTypeError for integers, ValueError for a scale that is not finite.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, StrictBool causal = false,
                                    std::optional<StrictDouble> scale = {});

// The options of attention and of its layer, nn::MultiheadAttention. The last five describe the
// layer's projections; the function has none, and throws if they contradict its tensors.
struct AttentionOptions {
  Tensor mask = {};                  // the layer takes it with each call, in nn::AttentionMasks
  bool causal = false;               // of the layer: in every call
  std::optional<double> scale = {};  // default 1/√d
  // The probability with which each weight is dropped and the others scaled by 1 / (1 − dropout).
  // The weights then need memory for all Lq × Lk scores. The layer drops in training only.
  double dropout = 0;
  // Grouped-query attention: axis −3 of k and v divides that of q, and heads 0 … n − 1 of q share
  // head 0 of k and v, and so on; k and v are not copied. The mask is that of q's heads.
  bool enable_gqa = false;
  bool bias = true;
  std::int64_t key_width = 0;       // 0: same as the width
  std::int64_t value_width = 0;     // 0: same as the width
  std::optional<DType> dtype = {};  // of the parameters; default float32
  // Grouped queries: the number of heads of keys and values, each shared by heads / key_value_heads
  // heads of queries; 0: one for each, or as many as k has if enable_gqa is set.
  std::int64_t key_value_heads = 0;
};
// The same with options: {.causal = true, .enable_gqa = true}. ShapeError if enable_gqa is set and
// the heads do not divide; ValueError for a dropout outside [0, 1].
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options,
                                    Generator& generator = default_generator());

// The result and the statistics that spare the backward a second forward. Autograd records only the
// result.
struct AttentionResult {
  Tensor output;
  Tensor logsumexp;  // [..., Lq] of the scores, float32 or float64; −∞ where no key is seen
};
AttentionResult scaled_dot_product_attention_with_logsumexp(const Tensor& q, const Tensor& k,
                                                            const Tensor& v,
                                                            const Tensor& mask = {},
                                                            StrictBool causal = false,
                                                            std::optional<StrictDouble> scale = {});

struct AttentionGradients {
  Tensor q, k, v;
  Tensor mask;  // undefined unless requested
};

// `saved` is the forward's result for the same arguments; without it the forward runs again.
// `mask_gradient` requests the gradient of a float mask, which needs memory for all Lq × Lk scores
// of every batch.
AttentionGradients scaled_dot_product_attention_backward(
    const Tensor& grad_output, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& mask = {}, StrictBool causal = false, std::optional<StrictDouble> scale = {},
    const AttentionResult& saved = {}, StrictBool mask_gradient = false);

// ValueError for a dropout other than 0, whose draws only autograd keeps.
AttentionGradients scaled_dot_product_attention_backward(const Tensor& grad_output, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const AttentionOptions& options,
                                                         StrictBool mask_gradient = false);

// Self-attention on the result of one projection. qkv [batch, time, 3 · heads · d] holds q, k and v
// of all heads next to each other (GPT-2's order) and is read in place; → [batch, time, heads · d].
// The other arguments are those of scaled_dot_product_attention, for scores [batch, heads, time,
// time]. ShapeError if 3 · heads does not divide the last axis, ValueError unless heads is at least
// 1.
Tensor scaled_dot_product_attention_packed(const Tensor& qkv, StrictInt heads,
                                           const Tensor& mask = {}, StrictBool causal = false,
                                           std::optional<StrictDouble> scale = {});

struct PackedAttentionGradients {
  Tensor qkv;
  Tensor mask;  // undefined unless requested
};
PackedAttentionGradients scaled_dot_product_attention_packed_backward(
    const Tensor& grad_output, const Tensor& qkv, StrictInt heads, const Tensor& mask = {},
    StrictBool causal = false, std::optional<StrictDouble> scale = {},
    StrictBool mask_gradient = false);

}  // namespace extensor

EXTENSOR_END_API
