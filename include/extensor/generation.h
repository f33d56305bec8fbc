// Generating tokens with a language model.
//
//   Tensor prompt = ext::tensor({{5, 17, 3}}, ext::int64);            // [batch, length]
//   Tensor next = ext::models::generate(model, prompt, {.tokens = 100, .top_p = 0.9, .seed = 7});
#pragma once

#include <cstdint>
#include <functional>

#include "extensor/export.h"
#include "extensor/models.h"
#include "extensor/random.h"

EXTENSOR_BEGIN_API

namespace extensor::models {

// How a token is chosen by its logits. top_p counts the probabilities that temperature and top_k
// leave.
struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;  // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the likeliest tokens until their probabilities sum up to it
};
// Draws one token for each row of logits [..., vocabulary] → int64 [...]. The likeliest token is
// always among those that can be drawn; of tokens with equal logits the lower one counts as
// likelier. Logits of −∞ are never drawn. Takes one draw per row from the generator, and none for
// temperature 0. DTypeError unless logits are floats; ShapeError without a last axis; ValueError
// for an empty vocabulary, for rows with NaN, +∞ or nothing but −∞, and for options out of range.
Tensor sample_logits(const Tensor& logits, const SamplingOptions& options = {},
                     Generator& generator = default_generator());

struct GenerationOptions {
  std::int64_t tokens = 100;  // how many to generate for each row
  double temperature = 1;     // the options of sample_logits
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
  bool cache = true;  // false: recomputes all keys and values for every token
  // Called with each token [batch] as soon as it is chosen; returning false ends the generation.
  std::function<bool(const Tensor& token)> on_token = {};
};
// Continues a prompt [batch, length] of token numbers; → int64 [batch, tokens], without the prompt.
// The model sees the last `block` tokens, those of the prompt included. Up to `block` tokens, each
// token costs one position of work; past that the window moves, which changes the position of every
// token, and each token costs `block` positions. Records no gradients.
//
// With and without the cache, logits are equal up to rounding: the same products may be summed in
// another order. Tokens are the same unless the choice between two is closer than that.
//
// ShapeError unless the prompt has two axes, DTypeError unless it holds integers, IndexError for a
// token outside the vocabulary. ValueError for an empty prompt, for options out of range, and for a
// model with dropout in training mode: eval() turns dropout off.
Tensor generate(const Gpt& model, const Tensor& prompt, const GenerationOptions& options = {});

}  // namespace extensor::models

EXTENSOR_END_API
