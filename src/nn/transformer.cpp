#include "extensor/nn/transformer.h"

#include <cmath>

#include "core/check.h"
#include "extensor/attention.h"
#include "extensor/creation.h"
#include "extensor/dropout.h"
#include "extensor/elementwise.h"
#include "extensor/initializers.h"
#include "extensor/linear.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/softmax.h"
#include "nn/layer_checks.h"

namespace extensor::nn {

using extensor::detail::message;

// ---- attention

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t heads,
                                       const AttentionOptions& options)
    : out_proj(width, width,
               {.bias = options.bias, .dtype = options.dtype.value_or(default_float)}),
      width_(width),
      heads_(heads),
      key_value_heads_(options.key_value_heads == 0 ? heads : options.key_value_heads),
      causal_(options.causal),
      scale_(options.scale),
      dropout_(options.dropout) {
  detail::check_positive("MultiheadAttention", "width", width);
  detail::check_positive("MultiheadAttention", "heads", heads);
  if (width % heads != 0) {
    throw ValueError(message("MultiheadAttention: ", heads, " heads do not divide width ", width));
  }
  if (key_value_heads_ < 1 || heads % key_value_heads_ != 0) {
    throw ValueError(message("MultiheadAttention: key_value_heads is ", options.key_value_heads,
                             " with ", heads, " heads (allowed: 0, or a divisor of the heads)"));
  }
  if (!(dropout_ >= 0 && dropout_ <= 1)) {
    throw ValueError(
        message("MultiheadAttention: dropout is ", dropout_, ", must be between 0 and 1"));
  }
  if (scale_ && !std::isfinite(*scale_)) {
    throw ValueError(message("MultiheadAttention: scale is ", *scale_, ", must be finite"));
  }
  if (options.mask.defined()) {
    throw ValueError(message("MultiheadAttention: options.mask is ", options.mask.shape(),
                             " (allowed: none; forward takes the mask of a call)"));
  }
  const DType dtype = options.dtype.value_or(default_float);
  const std::int64_t keys = options.key_width == 0 ? width : options.key_width;
  const std::int64_t values = options.value_width == 0 ? width : options.value_width;
  const std::int64_t rows = key_value_width();
  if (keys == width && values == width) {
    in_proj_weight = Parameter(xavier_uniform({width + 2 * rows, width}, 1, dtype));
  } else {
    q_proj_weight = Parameter(xavier_uniform({width, width}, 1, dtype));
    k_proj_weight = Parameter(xavier_uniform({rows, keys}, 1, dtype));
    v_proj_weight = Parameter(xavier_uniform({rows, values}, 1, dtype));
  }
  if (options.bias) {
    in_proj_bias = Parameter(zeros({width + 2 * rows}, dtype));
    out_proj.bias = Parameter(zeros({width}, dtype));
  }
}

namespace {

// Views [batch, length, width] as [batch, heads, length, width / heads].
Tensor by_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose({0, 2, 1, 3});
}

void check_sequence(const char* argument, const Tensor& x) {
  if (x.ndim() == 3) return;
  throw ShapeError(message("MultiheadAttention: ", argument, " is ", x.shape(),
                           ", must be [batch, sequence, width]"));
}

// Also hides in the mask, which may be undefined, the keys that `visible` hides.
Tensor hide_more(const Tensor& mask, const Tensor& visible) {
  if (!mask.defined()) return visible;
  if (mask.dtype() == DType::bool_) return logical_and(mask, visible);
  return where(visible, mask, full({}, -INFINITY, {mask.dtype(), cpu_device}));
}

// Combines the mask and the padding of keys into one mask.
Tensor joint_mask(const AttentionMasks& masks, std::int64_t batch, std::int64_t keys) {
  if (!masks.key_padding.defined()) return masks.mask;
  const Tensor& padding = masks.key_padding;
  if (padding.dtype() != DType::bool_ || !(padding.shape() == Shape{batch, keys})) {
    throw ShapeError(message("MultiheadAttention: key_padding is ", padding.shape(), " of ",
                             padding.dtype(), ", must be [", batch, ", ", keys, "] of bool"));
  }
  return hide_more(masks.mask, logical_not(padding).reshape({batch, 1, 1, keys}));
}

// Query i, at position first + i, sees the keys up to its own position.
Tensor seen_from(std::int64_t first, std::int64_t keys, Device device) {
  return less_equal(arange(keys, device), arange(first, keys, 1, device).unsqueeze(1));
}

}  // namespace

// The views q, k and v of one projection.
std::vector<Tensor> MultiheadAttention::split(const Tensor& all) const {
  if (!is_grouped()) {
    const Shape parts{all.size(0), all.size(1), 3, heads_, width_ / heads_};
    return unstack(all.reshape(parts).transpose({2, 0, 3, 1, 4}), 0);
  }
  const std::int64_t k = width_, v = k + key_value_width();
  return {by_heads(all.slice(2, 0, k), heads_), by_heads(all.slice(2, k, v), key_value_heads_),
          by_heads(all.slice(2, v), key_value_heads_)};
}

Tensor MultiheadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& mask, bool causal) const {
  const Tensor seen = scaled_dot_product_attention(q, k, v,
                                                   {.mask = mask,
                                                    .causal = causal,
                                                    .scale = scale_,
                                                    .dropout = drops() ? dropout_ : 0,
                                                    .enable_gqa = is_grouped()});
  return out_proj(seen.transpose({0, 2, 1, 3}).reshape({q.size(0), q.size(2), width_}));
}

Tensor MultiheadAttention::attend_to_itself(const Tensor& all, const Tensor& mask,
                                            bool causal) const {
  if (!drops() && !is_grouped()) {
    const auto scale = scale_ ? std::optional<StrictDouble>(*scale_) : std::nullopt;
    return out_proj(scaled_dot_product_attention_packed(all, heads_, mask, causal, scale));
  }
  const std::vector<Tensor> parts = split(all);
  return attend(parts[0], parts[1], parts[2], mask, causal);
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMasks& masks) const {
  check_sequence("query", query);
  check_sequence("key", key);
  check_sequence("value", value);
  const Tensor& weight = out_proj.weight;
  detail::check_dtype("MultiheadAttention", "query", query, weight);
  detail::check_dtype("MultiheadAttention", "key", key, weight);
  detail::check_dtype("MultiheadAttention", "value", value, weight);
  const bool itself =
      query.impl_or_null() == key.impl_or_null() && key.impl_or_null() == value.impl_or_null();
  const Tensor mask = joint_mask(masks, key.size(0), key.size(1));
  const bool causal = causal_ || masks.causal;
  if (in_proj_weight.defined() && itself) {
    // One product computes all three projections.
    return attend_to_itself(linear(query, in_proj_weight, in_proj_bias), mask, causal);
  }
  // Rows first … last − 1 of the joint parameters.
  const auto projected = [&](const Tensor& x, const Parameter& own, std::int64_t heads,
                             std::int64_t first, std::int64_t last) {
    const Tensor projection =
        own.defined() ? own.tensor() : in_proj_weight.tensor().slice(0, first, last);
    const Tensor bias =
        in_proj_bias.defined() ? in_proj_bias.tensor().slice(0, first, last) : Tensor();
    return by_heads(linear(x, projection, bias), heads);
  };
  const std::int64_t rows = key_value_width();
  const Tensor q = projected(query, q_proj_weight, heads_, 0, width_);
  const Tensor k = projected(key, k_proj_weight, key_value_heads_, width_, width_ + rows);
  const Tensor v =
      projected(value, v_proj_weight, key_value_heads_, width_ + rows, width_ + 2 * rows);
  return attend(q, k, v, mask, causal);
}

Tensor MultiheadAttention::forward(const Tensor& x, const AttentionMasks& masks,
                                   KeyValueCache& cache) const {
  check_sequence("x", x);
  detail::check_dtype("MultiheadAttention", "x", x, out_proj.weight);
  if (!in_proj_weight.defined()) {
    throw ValueError("MultiheadAttention: a cache needs keys and values of the query's width");
  }
  cache.claim("MultiheadAttention",
              detail::walk_of(const_cast<MultiheadAttention&>(*this)));  // only read by the cache
  const std::int64_t before = cache.length();
  const Tensor all = linear(x, in_proj_weight, in_proj_bias);
  const std::vector<Tensor> parts = split(all);
  const Tensor &q = parts[0], &k = parts[1], &v = parts[2];
  const bool causal = causal_ || masks.causal;
  cache.append(k, v);
  try {
    Tensor mask = joint_mask(masks, x.size(0), cache.length());
    if (before == 0) return attend_to_itself(all, mask, causal);
    if (causal && x.size(1) > 1) {
      mask = hide_more(mask, seen_from(before, cache.length(), x.device()));
    }
    return attend(q, cache.keys(), cache.values(), mask, false);
  } catch (...) {
    cache.truncate(before);
    throw;
  }
}

std::string MultiheadAttention::describe() const {
  const std::string heads = message(heads_, " heads of ", width_ / heads_);
  return is_grouped() ? message(heads, ", ", key_value_heads_, " of keys and values") : heads;
}

void MultiheadAttention::visit(Walker& walk) {
  walk("in_proj_weight", in_proj_weight)("q_proj_weight", q_proj_weight)(
      "k_proj_weight", k_proj_weight)("v_proj_weight", v_proj_weight)("in_proj_bias", in_proj_bias)(
      "out_proj", out_proj)("training", training);
}

// ---- layers

namespace {

AttentionOptions attention_options(const TransformerOptions& options) {
  return {.dropout = options.dropout, .dtype = options.dtype};
}
LinearOptions linear_options(const TransformerOptions& options) { return {.dtype = options.dtype}; }
LayerNormOptions norm_options(const TransformerOptions& options) {
  return {.eps = options.eps, .dtype = options.dtype};
}

Activation activation_of(const TransformerOptions& options) {
  switch (options.activation) {
    case TransformerActivation::relu:
      return Activation::relu;
    case TransformerActivation::gelu:
      return Activation::gelu;
    case TransformerActivation::gelu_tanh:
      return Activation::gelu_tanh;
  }
  throw ValueError(message("TransformerOptions: activation is ",
                           static_cast<int>(options.activation),
                           ", must be relu, gelu or gelu_tanh"));
}

template <class Layer>
Tensor feed_forward(const Layer& layer, const Tensor& x, const TransformerOptions& options) {
  return layer.linear2(layer.dropout(layer.linear1(x, activation_of(options))));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options)
    : self_attn(width, heads, attention_options(options)),
      linear1(width, options.feedforward, linear_options(options)),
      linear2(options.feedforward, width, linear_options(options)),
      norm1(width, norm_options(options)),
      norm2(width, norm_options(options)),
      dropout(options.dropout),
      dropout1(options.dropout),
      dropout2(options.dropout),
      options_(options) {}

template <class Attention>
Tensor TransformerEncoderLayer::run(const Tensor& x, const Attention& attention) const {
  const auto attend = [&](const Tensor& y) { return dropout1(attention(y)); };
  const auto feed = [&](const Tensor& y) { return dropout2(feed_forward(*this, y, options_)); };
  if (options_.norm_first) {
    const auto [y, normalized] = norm2.forward_add(attend(norm1(x)), x);
    return y + feed(normalized);
  }
  const Tensor y = norm1.forward_add(attend(x), x).output;
  return norm2.forward_add(feed(y), y).output;
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const AttentionMasks& masks) const {
  return run(x, [&](const Tensor& y) { return self_attn(y, masks); });
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const AttentionMasks& masks,
                                        KeyValueCache& cache) const {
  const std::int64_t before = cache.length();
  try {
    return run(x, [&](const Tensor& y) { return self_attn(y, masks, cache); });
  } catch (...) {
    cache.truncate(before);
    throw;
  }
}

void TransformerEncoderLayer::visit(Walker& walk) {
  walk("self_attn", self_attn)("linear1", linear1)("dropout", dropout)("linear2", linear2)(
      "norm1", norm1)("norm2", norm2)("dropout1", dropout1)("dropout2", dropout2);
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options)
    : self_attn(width, heads, attention_options(options)),
      multihead_attn(width, heads, attention_options(options)),
      linear1(width, options.feedforward, linear_options(options)),
      linear2(options.feedforward, width, linear_options(options)),
      norm1(width, norm_options(options)),
      norm2(width, norm_options(options)),
      norm3(width, norm_options(options)),
      dropout(options.dropout),
      dropout1(options.dropout),
      dropout2(options.dropout),
      dropout3(options.dropout),
      options_(options) {}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory,
                                        const AttentionMasks& masks,
                                        const AttentionMasks& memory_masks) const {
  const auto attend = [&](const Tensor& y) { return dropout1(self_attn(y, masks)); };
  const auto look = [&](const Tensor& y) {
    return dropout2(multihead_attn(y, memory, memory, memory_masks));
  };
  const auto feed = [&](const Tensor& y) { return dropout3(feed_forward(*this, y, options_)); };
  if (options_.norm_first) {
    const auto [y, queries] = norm2.forward_add(attend(norm1(x)), x);
    const auto [z, normalized] = norm3.forward_add(look(queries), y);
    return z + feed(normalized);
  }
  const Tensor y = norm1.forward_add(attend(x), x).output;
  const Tensor z = norm2.forward_add(look(y), y).output;
  return norm3.forward_add(feed(z), z).output;
}

void TransformerDecoderLayer::visit(Walker& walk) {
  walk("self_attn", self_attn)("multihead_attn", multihead_attn)("linear1", linear1)(
      "dropout", dropout)("linear2", linear2)("norm1", norm1)("norm2", norm2)("norm3", norm3)(
      "dropout1", dropout1)("dropout2", dropout2)("dropout3", dropout3);
}

// ---- stacks

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t count) {
  detail::check_positive("TransformerEncoder", "count", count);
  for (std::int64_t k = 0; k < count; ++k) layers.push_back(layer);
}
Tensor TransformerEncoder::forward(const Tensor& x, const AttentionMasks& masks) const {
  Tensor y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(y, masks);
  return y;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t count) {
  detail::check_positive("TransformerDecoder", "count", count);
  for (std::int64_t k = 0; k < count; ++k) layers.push_back(layer);
}
Tensor TransformerDecoder::forward(const Tensor& x, const Tensor& memory,
                                   const AttentionMasks& masks,
                                   const AttentionMasks& memory_masks) const {
  Tensor y = x;
  for (const TransformerDecoderLayer& layer : layers) y = layer(y, memory, masks, memory_masks);
  return y;
}

}  // namespace extensor::nn
