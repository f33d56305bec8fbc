// The GPT and its cache of keys and values.
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/models.h"

namespace extensor::models {

using extensor::detail::message;

GptOptions gpt2_options() {
  return {.vocabulary = 50257,
          .block = 1024,
          .layers = 12,
          .heads = 12,
          .width = 768,
          .dropout = 0.1,
          .activation = GptActivation::gelu_tanh,
          .tied = true};
}

namespace {

nn::LayerNormOptions norm_options(const GptOptions& options) {
  return {.eps = options.eps, .bias = options.bias};
}

}  // namespace

GptBlock::GptBlock(const GptOptions& options)
    : ln_1(options.width, norm_options(options)),
      attn(options.width, options.heads,
           {.dropout = options.attention_dropout.value_or(options.dropout), .bias = options.bias}),
      ln_2(options.width, norm_options(options)),
      fc(options.width, 4 * options.width, {.bias = options.bias}),
      proj(4 * options.width, options.width, {.bias = options.bias}),
      dropout(options.residual_dropout.value_or(options.dropout)),
      activation_(options.activation) {}

template <class Attention>
Tensor GptBlock::run(const Tensor& x, const Attention& attention) const {
  const Tensor attended = dropout(attention(ln_1(x), nn::AttentionMasks{.causal = true}));
  const auto [y, normalized] = ln_2.forward_add(attended, x);
  const Tensor hidden = fc(normalized);
  return y + dropout(proj(activation_ == GptActivation::gelu ? gelu(hidden) : gelu_tanh(hidden)));
}

Tensor GptBlock::forward(const Tensor& x) const { return run(x, attn); }

Tensor GptBlock::forward(const Tensor& x, nn::KeyValueCache& cache) const {
  return run(
      x, [&](const Tensor& y, const nn::AttentionMasks& masks) { return attn(y, masks, cache); });
}

void GptBlock::visit(nn::Walker& walk) {
  walk("ln_1", ln_1)("attn", attn)("ln_2", ln_2)("fc", fc)("proj", proj)("dropout", dropout);
}

Gpt::Gpt(const GptOptions& options)
    : wte(options.vocabulary, options.width),
      wpe(options.block, options.width),
      dropout(options.embedding_dropout.value_or(options.dropout)),
      ln_f(options.width, norm_options(options)),
      lm_head(options.width, options.vocabulary, {.bias = false}),
      options_(options) {
  if (options.tied) lm_head.weight.tie_to(wte.weight);
  for (std::int64_t k = 0; k < options.layers; ++k) h.push_back(GptBlock(options));
  const NoGrad off;
  const double scale = 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (auto& [name, tensor] : named_parameters()) {
    if (name.ends_with("bias")) {
      tensor.fill(0);
    } else if (tensor.ndim() == 2) {
      const bool ends = name.ends_with("proj.weight");
      tensor.copy_from(normal(tensor.shape(), 0, ends ? scale : 0.02));
    }
  }
}

namespace {

void check_tokens(const Tensor& tokens, std::int64_t block) {
  if (tokens.ndim() == 2 && tokens.size(1) <= block) return;
  throw ShapeError(message("Gpt: tokens are ", tokens.shape(),
                           ", must be [batch, length] with length up to ", block));
}

void check_not_empty(const Tensor& tokens) {
  if (tokens.ndim() != 2 || tokens.size(1) > 0) return;
  throw ValueError(message("Gpt: tokens are ", tokens.shape(),
                           ": the next one needs at least one token before it"));
}

}  // namespace

Tensor Gpt::features(const Tensor& tokens) const {
  check_tokens(tokens, options_.block);
  Tensor x = dropout(wte(tokens) + wpe(arange(tokens.size(1), tokens.device())));
  for (const GptBlock& block : h) x = block(x);
  return x;
}

// The caller counts the tokens in the cache once its own work has succeeded.
Tensor Gpt::features(const Tensor& tokens, GptCache& cache) const {
  check_tokens(tokens, options_.block);
  if (is_grad_enabled()) {
    throw ValueError(
        "Gpt: gradients are recorded, and a later call would overwrite the cache that they need "
        "(allowed: calls under NoGrad)");
  }
  cache.prepare(nn::detail::walk_of(const_cast<Gpt&>(*this)),  // only read by the cache
                h.size(), options_.block);
  const std::int64_t first = cache.length(), end = first + tokens.size(1);
  if (end > options_.block) {
    throw ValueError(message("Gpt: ", tokens.size(1), " more tokens do not fit: ", first, " of ",
                             options_.block,
                             " positions of the cache are in use (clear() or truncate() makes "
                             "room; generate() moves the window)"));
  }
  Tensor x = dropout(wte(tokens) + wpe(arange(first, end, 1, tokens.device())));
  auto layer = cache.layers_.begin();
  for (const GptBlock& block : h) x = block(x, *layer++);
  return x;
}

Tensor Gpt::logits_of(const Tensor& features) const { return lm_head(ln_f(features)); }

Tensor Gpt::next_logits_of(const Tensor& features) const {
  const std::int64_t last = features.size(1) - 1;
  return logits_of(features.slice(1, last, last + 1)).squeeze(1);
}

Tensor Gpt::forward(const Tensor& tokens) const { return logits_of(features(tokens)); }

Tensor Gpt::forward(const Tensor& tokens, GptCache& cache) const {
  Tensor logits = logits_of(features(tokens, cache));
  cache.length_ += tokens.size(1);
  return logits;
}

Tensor Gpt::next_logits(const Tensor& tokens) const {
  check_not_empty(tokens);
  return next_logits_of(features(tokens));
}

Tensor Gpt::next_logits(const Tensor& tokens, GptCache& cache) const {
  check_not_empty(tokens);
  Tensor logits = next_logits_of(features(tokens, cache));
  cache.length_ += tokens.size(1);
  return logits;
}

void Gpt::visit(nn::Walker& walk) {
  walk("wte", wte)("wpe", wpe)("dropout", dropout)("h", h)("ln_f", ln_f)("lm_head", lm_head);
}

// ---- the cache

void GptCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw ValueError(message("GptCache: truncate to ", length, " of ", length_,
                             " tokens (allowed: 0 to ", length_, ")"));
  }
  length_ = length;
}

void GptCache::prepare(const nn::detail::Walk& model, std::size_t layers, std::int64_t context) {
  if (length_ > 0) {
    model_.check("Gpt", "model", model);
  } else {
    const auto fits = [&](const nn::KeyValueCache& layer) { return layer.context() == context; };
    if (layers_.size() != layers || !std::all_of(layers_.begin(), layers_.end(), fits)) {
      layers_.assign(layers, nn::KeyValueCache(context));
    }
    model_.record(model);
  }
  // Drops truncated positions, and those of a call that failed after some of the layers.
  for (nn::KeyValueCache& layer : layers_) layer.truncate(length_);
}

}  // namespace extensor::models
