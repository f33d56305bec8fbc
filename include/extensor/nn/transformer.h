// Attention and transformers, with PyTorch's parameter names.
#pragma once

#include "extensor/attention.h"
#include "extensor/export.h"
#include "extensor/nn/containers.h"
#include "extensor/nn/key_value_cache.h"
#include "extensor/nn/layers.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

using extensor::AttentionOptions;

// Restricts the keys that a query can see.
struct AttentionMasks {
  Tensor mask = {};         // broadcasts to [batch, heads, queries, keys]: bool (true: visible), or
                            // floats that are added to the scores
  Tensor key_padding = {};  // [batch, keys], bool: true for padding, which is not visible
  bool causal = false;      // query i sees the keys up to i
};

// Multi-head attention. Batches come first: [batch, sequence, width]. The heads of keys and values
// have the width of those of queries, so their projections have n = width · key_value_heads / heads
// rows each.
class MultiheadAttention final : public Module<MultiheadAttention> {
 public:
  // Throws ValueError unless heads divides the width, key_value_heads divides heads, dropout is in
  // [0, 1] and scale finite, and for a mask, which belongs to a call.
  MultiheadAttention(std::int64_t width, std::int64_t heads, const AttentionOptions& options = {});
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMasks& masks = {}) const;
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const {
    return forward(x, x, x, masks);
  }
  // Self-attention of x to itself and to the positions in the cache, which come before it; x is
  // appended to them. Masks cover all these keys: [batch, heads, length of x, keys]; a causal query
  // sees the keys up to its own. Errors are those of KeyValueCache, and ValueError if the widths of
  // queries, keys and values differ.
  Tensor forward(const Tensor& x, const AttentionMasks& masks, KeyValueCache& cache) const;
  std::string describe() const;
  void visit(Walker& walk);

  Parameter in_proj_weight;                               // [width + 2 n, width]: query, key, value
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // used instead if widths differ
  Parameter in_proj_bias;                                 // [width + 2 n]
  Linear out_proj;
  Training training;

 private:
  // q is [batch, heads, length, width / heads], k and v have key_value_heads.
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                bool causal) const;
  // `all` is the joint projection to q, k and v, [batch, length, width + 2 n].
  Tensor attend_to_itself(const Tensor& all, const Tensor& mask, bool causal) const;
  std::vector<Tensor> split(const Tensor& all) const;
  bool drops() const { return training && dropout_ > 0; }
  bool is_grouped() const { return key_value_heads_ != heads_; }
  std::int64_t key_value_width() const { return width_ / heads_ * key_value_heads_; }

  std::int64_t width_, heads_, key_value_heads_;
  bool causal_;
  std::optional<double> scale_;
  double dropout_;
};

enum class TransformerActivation : std::uint8_t { relu, gelu, gelu_tanh };

struct TransformerOptions {
  std::int64_t feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;
  bool norm_first = false;  // normalize before, not after, attention and feed-forward
  double eps = 1e-5;
  DType dtype = default_float;
};

class TransformerEncoderLayer final : public Module<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(std::int64_t width, std::int64_t heads,
                          const TransformerOptions& options = {});
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const;
  Tensor forward(const Tensor& x, const AttentionMasks& masks, KeyValueCache& cache) const;
  void visit(Walker& walk);

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;

 private:
  template <class Attention>
  Tensor run(const Tensor& x, const Attention& attention) const;

  TransformerOptions options_;
};

class TransformerDecoderLayer final : public Module<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(std::int64_t width, std::int64_t heads,
                          const TransformerOptions& options = {});
  // `memory` is the output of the encoder.
  Tensor forward(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                 const AttentionMasks& memory_masks = {}) const;
  void visit(Walker& walk);

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;

 private:
  TransformerOptions options_;
};

// A stack of copies of one layer.
class TransformerEncoder final : public Module<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t count);
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const;
  void visit(Walker& walk) { walk("layers", layers); }

  ModuleList<TransformerEncoderLayer> layers;
};

class TransformerDecoder final : public Module<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t count);
  Tensor forward(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                 const AttentionMasks& memory_masks = {}) const;
  void visit(Walker& walk) { walk("layers", layers); }

  ModuleList<TransformerDecoderLayer> layers;
};

}  // namespace extensor::nn

EXTENSOR_END_API
