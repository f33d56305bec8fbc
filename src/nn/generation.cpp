#include "extensor/generation.h"

#include <cmath>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "extensor/sorting.h"

namespace extensor::models {

using extensor::detail::message;

namespace {

// ---- choosing a token

void check_options(const char* operation, const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw ValueError(message(operation, ": temperature is ", options.temperature,
                             " (allowed: a finite number, 0 or more)"));
  }
  if (options.top_k < 0) {
    throw ValueError(message(operation, ": top_k is ", options.top_k, " (allowed: 0 or more)"));
  }
  if (!(options.top_p >= 0 && options.top_p <= 1)) {
    throw ValueError(message(operation, ": top_p is ", options.top_p, " (allowed: 0 to 1)"));
  }
}

// The largest logit of each row, which is finite if and only if the row can be sampled.
Tensor checked_maximum(const char* operation, const Tensor& logits) {
  Tensor maximum = max_reduce(logits, -1, true);
  if (!all(isfinite(maximum)).item<bool>()) {
    throw ValueError(message(operation,
                             ": a row of logits has NaN, +inf or only -inf (allowed: finite "
                             "logits, and -inf beside them)"));
  }
  return maximum;
}

// x where `kept` (at the places `indices`) is true, and −∞ elsewhere.
Tensor keep_only(const Tensor& x, const Tensor& indices, const Tensor& kept) {
  const Tensor mask =
      scatter(zeros(x.shape(), {.dtype = DType::bool_, .device = x.device()}), -1, indices, kept);
  return where(mask, x, -INFINITY);
}

Tensor keep_top_k(const Tensor& logits, std::int64_t k) {
  const Tensor indices = topk(logits, k).indices;
  return keep_only(logits, indices,
                   ones(indices.shape(), {.dtype = DType::bool_, .device = logits.device()}));
}

// Keeps the tokens before which the probabilities sum up to less than top_p, and always the first.
Tensor keep_top_p(const Tensor& logits, double top_p) {
  const auto [sorted, indices] = sort_with_indices(logits, -1, true);
  const Tensor sums = cumulative_sum(softmax(sorted, -1), -1);
  const Tensor last = count_nonzero(less(sums, top_p), -1, true);
  return keep_only(logits, indices, less_equal(arange(logits.size(-1), logits.device()), last));
}

Tensor sampled(const char* operation, const Tensor& logits, const SamplingOptions& options,
               Generator& generator) {
  const std::int64_t vocabulary = logits.size(-1);
  const Tensor maximum = checked_maximum(operation, logits);
  if (options.temperature == 0) return argmax(logits, -1);
  // Subtract first: the quotient of a tiny temperature may overflow to −∞, not to +∞.
  Tensor scaled = (logits.to(float64) - maximum.to(float64)) / options.temperature;
  if (options.top_k > 0 && options.top_k < vocabulary) scaled = keep_top_k(scaled, options.top_k);
  if (options.top_p < 1) scaled = keep_top_p(scaled, options.top_p);
  const Tensor sums = cumulative_sum(softmax(scaled, -1), -1);
  const Tensor total = max_reduce(sums, -1, true);
  const Tensor draws =
      rand(total.shape(), {.dtype = float64, .device = logits.device()}, generator);
  // The product may round up to the total, which is past the last token that can be drawn.
  const Tensor last = count_nonzero(less(sums, total), -1, true);
  return minimum(searchsorted(sums, draws * total, true), last).squeeze(-1);
}

void check_logits(const char* operation, const Tensor& logits) {
  if (!is_floating_point(logits.dtype())) {
    throw DTypeError(message(operation, ": logits are ", logits.dtype(), ", must be floats"));
  }
  if (logits.ndim() == 0) {
    throw ShapeError(
        message(operation, ": logits are ", logits.shape(), ", must be [..., vocabulary]"));
  }
  if (logits.size(-1) == 0) {
    throw ValueError(
        message(operation, ": logits are ", logits.shape(), ": there is no token to choose"));
  }
}

}  // namespace

Tensor sample_logits(const Tensor& logits, const SamplingOptions& options, Generator& generator) {
  constexpr const char* operation = "sample_logits";
  check_logits(operation, logits);
  check_options(operation, options);
  const NoGrad off;
  return sampled(operation, logits, options, generator);
}

// ---- generating

namespace {

void check_prompt(const char* operation, const Tensor& prompt) {
  if (!is_integer(prompt.dtype())) {
    throw DTypeError(message(operation, ": prompt is ", prompt.dtype(), ", must be integers"));
  }
  if (prompt.ndim() != 2) {
    throw ShapeError(
        message(operation, ": prompt is ", prompt.shape(), ", must be [batch, length]"));
  }
  if (prompt.size(1) == 0) {
    throw ValueError(message(operation, ": prompt is ", prompt.shape(),
                             " (allowed: at least one token in each row)"));
  }
}

void check_model(const char* operation, const Gpt& model) {
  const GptOptions& options = model.options();
  double highest = 0;
  for (const auto& rate :
       {options.embedding_dropout, options.attention_dropout, options.residual_dropout}) {
    highest = std::max(highest, rate.value_or(options.dropout));
  }
  if (highest == 0 || !model.dropout.training) return;
  throw ValueError(message(operation, ": the model is in training mode with dropout ", highest,
                           " (allowed: eval() before, or no dropout)"));
}

}  // namespace

Tensor generate(const Gpt& model, const Tensor& prompt, const GenerationOptions& options) {
  constexpr const char* operation = "generate";
  const SamplingOptions sampling{options.temperature, options.top_k, options.top_p};
  check_prompt(operation, prompt);
  check_options(operation, sampling);
  if (options.tokens < 0) {
    throw ValueError(message(operation, ": tokens is ", options.tokens, " (allowed: 0 or more)"));
  }
  check_model(operation, model);
  const NoGrad off;
  const std::int64_t block = model.options().block;
  Generator generator(options.seed);
  GptCache cache;
  const auto next_logits = [&](const Tensor& window) {
    const std::int64_t length = window.size(1);
    if (!options.cache || length > block) {
      return model.next_logits(window.slice(1, std::max<std::int64_t>(0, length - block), length));
    }
    return model.next_logits(window.slice(1, cache.length(), length), cache);
  };
  // The last `block` tokens; one more while their number tells that the window moves.
  Tensor window = prompt.to(DType::int64);
  std::vector<Tensor> tokens;
  for (std::int64_t k = 0; k < options.tokens; ++k) {
    tokens.push_back(sampled(operation, next_logits(window), sampling, generator).unsqueeze(1));
    if (options.on_token && !options.on_token(tokens.back().squeeze(1))) break;
    const std::int64_t kept = std::min(block, window.size(1));
    window =
        concatenate({window.slice(1, window.size(1) - kept, window.size(1)), tokens.back()}, 1);
  }
  if (!tokens.empty()) return concatenate(tokens, 1);
  return empty({prompt.size(0), 0}, {.dtype = DType::int64, .device = prompt.device()});
}

}  // namespace extensor::models
