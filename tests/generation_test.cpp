// Sampling and generation: tokens compared with a loop that calls the model on the whole window and
// chooses in plain doubles; caches of a Gpt; windows that move; bad input.
#include "extensor/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using models::generate;
using models::GenerationOptions;
using models::Gpt;
using models::GptCache;
using models::GptOptions;
using models::sample_logits;
using models::SamplingOptions;

using Row = std::vector<double>;

std::vector<std::int64_t> numbers(const Tensor& x) {
  return x.contiguous().to_vector<std::int64_t>();
}

// ---- references

// Chooses by the definitions: sorts, cuts and adds up in plain doubles. `draw` is in [0, 1).
std::int64_t chosen(const Row& logits, const SamplingOptions& options, double draw) {
  const std::size_t n = logits.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.temperature == 0) return static_cast<std::int64_t>(order[0]);
  std::size_t kept = options.top_k == 0 ? n : std::min(n, static_cast<std::size_t>(options.top_k));
  Row weights(n, 0);
  const auto total = [&] { return std::accumulate(weights.begin(), weights.end(), 0.0); };
  for (std::size_t i = 0; i < kept; ++i) {
    weights[order[i]] = std::exp((logits[order[i]] - logits[order[0]]) / options.temperature);
  }
  const double all = total();
  double before = 0;  // the probability of the likelier tokens
  for (std::size_t i = 0; i < kept; ++i) {
    const double own = weights[order[i]] / all;
    if (i > 0 && options.top_p < 1 && before >= options.top_p) weights[order[i]] = 0;
    before += own;
  }
  double left = draw * total();
  for (std::size_t token = 0; token < n; ++token) {
    left -= weights[token];
    if (left < 0) return static_cast<std::int64_t>(token);
  }
  throw std::logic_error("a draw past the last token");
}

struct Reference {
  std::vector<std::vector<std::int64_t>> tokens;  // by row
  double closest = INFINITY;  // the least difference between the two largest logits
};

// Calls the model on the last `block` tokens for every token.
Reference by_whole_windows(const Gpt& model, const Tensor& prompt,
                           const GenerationOptions& options) {
  const NoGrad off;
  const std::int64_t batch = prompt.size(0), block = model.options().block;
  Generator generator(options.seed);
  Reference result;
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t r = 0; r < batch; ++r) rows.push_back(numbers(prompt[r]));
  result.tokens.resize(rows.size());
  for (std::int64_t k = 0; k < options.tokens; ++k) {
    const auto length = static_cast<std::int64_t>(rows[0].size());
    const std::int64_t seen = std::min(length, block);
    std::vector<std::int64_t> window;
    for (const auto& row : rows) window.insert(window.end(), row.end() - seen, row.end());
    const Tensor logits = model(from_data(window).reshape({batch, seen}));
    const Row draws = options.temperature == 0
                          ? Row(rows.size(), 0)
                          : rand({batch}, float64, generator).to_vector<double>();
    for (std::int64_t r = 0; r < batch; ++r) {
      const auto row = static_cast<std::size_t>(r);
      Row last = logits[{r, -1}].to(float64).to_vector<double>();
      const std::int64_t token =
          chosen(last, {options.temperature, options.top_k, options.top_p}, draws[row]);
      rows[row].push_back(token);
      result.tokens[row].push_back(token);
      std::partial_sort(last.begin(), last.begin() + 2, last.end(), std::greater<>());
      result.closest = std::min(result.closest, last[0] - last[1]);
    }
  }
  return result;
}

void expect_tokens(const Tensor& tokens, const Reference& reference) {
  ASSERT_EQ(tokens.dtype(), int64);
  ASSERT_EQ(tokens.size(0), static_cast<std::int64_t>(reference.tokens.size()));
  for (std::size_t r = 0; r < reference.tokens.size(); ++r) {
    EXPECT_EQ(numbers(tokens[static_cast<std::int64_t>(r)]), reference.tokens[r]) << "row " << r;
  }
}

// Weights so large that every token depends on all the others.
Gpt lively(const GptOptions& options, std::uint64_t seed) {
  manual_seed(seed);
  Gpt model(options);
  const NoGrad off;
  for (auto& [name, parameter] : model.named_parameters()) {
    if (name.find("ln_") == std::string::npos) {
      parameter.copy_from(normal(parameter.shape(), 0, 0.3, parameter.dtype()));
    }
  }
  model.eval();
  return model;
}

const GptOptions small{.vocabulary = 29, .block = 16, .layers = 2, .heads = 2, .width = 16};

Tensor prompt_of(const Shape& shape, std::int64_t vocabulary = 29) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return ((arange(count) * 7 + 3) % vocabulary).reshape(shape);
}

template <class E, class Function>
void expect_error(const Function& function, const char* text) {
  try {
    function();
    ADD_FAILURE() << "no error: " << text;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

// ---- sampling

TEST(SampleLogits, ChoosesByTheDefinition) {
  Generator generator(1);
  const Tensor logits = normal({40, 13}, 0, 2, float32, generator);
  const auto rows = [&](std::int64_t r) { return logits[r].to(float64).to_vector<double>(); };
  for (const double temperature : {0.0, 0.05, 0.7, 1.0, 3.0}) {
    for (const std::int64_t top_k : {0, 1, 4, 13, 100}) {
      for (const double top_p : {0.0, 0.2, 0.5, 0.9, 1.0}) {
        const SamplingOptions options{temperature, top_k, top_p};
        Generator drawn(7), expected(7);
        const std::vector<std::int64_t> tokens = numbers(sample_logits(logits, options, drawn));
        const Row draws =
            temperature == 0 ? Row(40, 0) : rand({40}, float64, expected).to_vector<double>();
        for (std::int64_t r = 0; r < 40; ++r) {
          const auto row = static_cast<std::size_t>(r);
          EXPECT_EQ(tokens[row], chosen(rows(r), options, draws[row]))
              << temperature << ' ' << top_k << ' ' << top_p;
        }
        EXPECT_EQ(drawn.offset(), temperature == 0 ? 0U : 40U);
      }
    }
  }
}

// Probabilities 1/2, 1/4, 1/8, 1/8, which are exact: cuts at the sums themselves.
TEST(SampleLogits, TopPKeepsTheLeastSetThatReachesP) {
  const Tensor logits = log(tensor({0.125, 0.5, 0.125, 0.25}, float64));
  const auto most = [&](double top_p) {
    Generator generator(3);
    std::vector<bool> seen(4);
    for (int k = 0; k < 200; ++k) {
      const Tensor token = sample_logits(logits, {.top_p = top_p}, generator);
      EXPECT_EQ(token.shape(), Shape{});
      seen[static_cast<std::size_t>(token.item<std::int64_t>())] = true;
    }
    return seen;
  };
  using Seen = std::vector<bool>;
  EXPECT_EQ(most(0), (Seen{false, true, false, false}));
  EXPECT_EQ(most(0.49), (Seen{false, true, false, false}));
  EXPECT_EQ(most(0.51), (Seen{false, true, false, true}));
  EXPECT_EQ(most(0.74), (Seen{false, true, false, true}));
  EXPECT_EQ(most(0.76), (Seen{true, true, false, true}));  // the lower one of two equal tokens
  EXPECT_EQ(most(0.88), (Seen{true, true, true, true}));
  EXPECT_EQ(most(1), (Seen{true, true, true, true}));
}

TEST(SampleLogits, EqualLogitsAreCutExactly) {
  Generator generator(4);
  const Tensor logits = zeros({500, 6});
  EXPECT_EQ(max_reduce(sample_logits(logits, {.top_k = 2}, generator)).item<std::int64_t>(), 1);
  EXPECT_EQ(max_reduce(sample_logits(logits, {.top_p = 0.45}, generator)).item<std::int64_t>(), 2);
  EXPECT_EQ(max_reduce(sample_logits(logits, {.temperature = 0}, generator)).item<std::int64_t>(),
            0);
}

TEST(SampleLogits, DrawsWithTheProbabilities) {
  Generator generator(5);
  const Row expected{0.1, 0.2, 0.3, 0.4};
  const std::int64_t n = 40000;
  const Tensor logits = log(tensor({0.1, 0.2, 0.3, 0.4})).broadcast_to({n, 4});
  const Tensor tokens = sample_logits(logits, {}, generator);
  for (std::int64_t k = 0; k < 4; ++k) {
    const double p = expected[static_cast<std::size_t>(k)];
    const auto count = count_nonzero(equal(tokens, k)).item<std::int64_t>();
    // 5 standard deviations
    EXPECT_NEAR(static_cast<double>(count), p * n, 5 * std::sqrt(n * p * (1 - p)));
  }
}

TEST(SampleLogits, TakesEveryShapeAndFloat) {
  Generator generator(6);
  EXPECT_EQ(sample_logits(zeros({2, 3, 5}), {}, generator).shape(), (Shape{2, 3}));
  EXPECT_EQ(sample_logits(zeros({0, 5}), {.top_k = 2, .top_p = 0.5}, generator).shape(), Shape{0});
  EXPECT_EQ(sample_logits(zeros({0, 5}), {.temperature = 0}, generator).shape(), Shape{0});
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor logits = tensor({-1.0, 4.0, 2.0}).to(dtype);
    EXPECT_EQ(sample_logits(logits, {.temperature = 0}).item<std::int64_t>(), 1);
    EXPECT_EQ(sample_logits(logits, {.temperature = 1e-300}).item<std::int64_t>(), 1);
    EXPECT_EQ(sample_logits(logits.clone().requires_grad_()).requires_grad(), false);
  }
  // Tokens that are masked are not drawn, and a vocabulary of one has one token.
  const Tensor masked = tensor({-INFINITY, 0.0, -INFINITY, 1.0}).broadcast_to({200, 4});
  const Tensor tokens = sample_logits(masked, {.temperature = 50}, generator);
  EXPECT_TRUE(all(tokens % 2 == 1).item<bool>());
  EXPECT_EQ(sample_logits(zeros({1}), {}, generator).item<std::int64_t>(), 0);
  // Huge logits neither overflow nor lose the smaller ones.
  EXPECT_EQ(
      sample_logits(tensor({1e308, -1e308}, float64), {.temperature = 1e-3}).item<std::int64_t>(),
      0);
}

TEST(SampleLogits, RefusesBadInput) {
  const Tensor logits = zeros({2, 3});
  for (const double temperature : Row{-1, NAN, INFINITY}) {
    EXPECT_THROW(sample_logits(logits, {.temperature = temperature}), ValueError);
  }
  EXPECT_THROW(sample_logits(logits, {.top_k = -1}), ValueError);
  for (const double top_p : Row{-0.1, 1.1, NAN, INFINITY}) {
    EXPECT_THROW(sample_logits(logits, {.top_p = top_p}), ValueError);
  }
  EXPECT_THROW(sample_logits(zeros({2, 3}, int64)), DTypeError);
  EXPECT_THROW(sample_logits(zeros({2, 0})), ValueError);
  EXPECT_THROW(sample_logits(zeros({})), ShapeError);
  for (const double wrong : Row{NAN, INFINITY}) {
    Tensor row = zeros({2, 3});
    row[1].slice(0, 2, 3).fill(wrong);
    EXPECT_THROW(sample_logits(row), ValueError);
    EXPECT_THROW(sample_logits(row, {.temperature = 0}), ValueError);
  }
  EXPECT_THROW(sample_logits(full({2, 3}, -INFINITY)), ValueError);
}

// ---- the cache of a Gpt

TEST(GptCache, PiecesHaveTheLogitsOfTheWhole) {
  const NoGrad off;
  for (const bool tied : {false, true}) {
    GptOptions options = small;
    options.tied = tied;
    options.bias = !tied;
    options.activation = tied ? models::GptActivation::gelu_tanh : models::GptActivation::gelu;
    Gpt model = lively(options, 1);
    const Tensor tokens = prompt_of({3, 16});
    for (const bool wide : {false, true}) {
      if (wide) model.to(float64);
      const Tensor whole = model(tokens);
      const double rtol = wide ? 1e-12 : 1e-4, atol = wide ? 1e-12 : 1e-5;
      for (const std::vector<std::int64_t>& pieces :
           {std::vector<std::int64_t>{16},
            {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
            {7, 1, 5, 3}}) {
        GptCache cache;
        for (const std::int64_t count : pieces) {
          const std::int64_t first = cache.length(), end = first + count;
          EXPECT_TRUE(allclose(model(tokens.slice(1, first, end), cache),
                               whole.slice(1, first, end), rtol, atol));
          EXPECT_EQ(cache.length(), end);
        }
      }
      GptCache cache;
      EXPECT_TRUE(identical(model(tokens, cache), whole));
      EXPECT_TRUE(
          allclose(model.next_logits(tokens), whole.slice(1, 15, 16).squeeze(1), rtol, atol));
    }
  }
}

TEST(GptCache, TruncatesAndCopies) {
  const NoGrad off;
  const Gpt model = lively(small, 2);
  const Tensor tokens = prompt_of({2, 8});
  const Tensor whole = model(tokens);
  GptCache cache;
  EXPECT_EQ(cache.length(), 0);
  model(tokens.slice(1, 0, 5), cache);
  GptCache copy = cache;
  model(prompt_of({2, 3}, 5), cache);
  cache.truncate(5);
  EXPECT_TRUE(allclose(model(tokens.slice(1, 5, 8), cache), whole.slice(1, 5, 8), 1e-4, 1e-5));
  EXPECT_TRUE(allclose(model(tokens.slice(1, 5, 8), copy), whole.slice(1, 5, 8), 1e-4, 1e-5));
  EXPECT_THROW(cache.truncate(9), ValueError);
  EXPECT_THROW(cache.truncate(-1), ValueError);
  cache.clear();
  EXPECT_TRUE(identical(model(tokens, cache), whole));
}

TEST(GptCache, RefusesAnotherModel) {
  const NoGrad off;
  Gpt model = lively(small, 3);
  const Gpt same_shape = lively(small, 3);
  const Tensor tokens = prompt_of({2, 4}), next = prompt_of({2, 1});
  GptCache cache;
  model(tokens, cache);
  const Tensor expected = model(next, cache);
  cache.truncate(4);
  const auto expect_refused = [&](const Gpt& other, const char* text) {
    expect_error<ValueError>([&] { other(next, cache); }, text);
    expect_error<ValueError>([&] { other.next_logits(next, cache); }, text);
    EXPECT_EQ(cache.length(), 4);
  };
  expect_refused(same_shape, "filled by another model");
  expect_refused(Gpt(model), "filled by another model");
  GptOptions deeper = small;
  deeper.layers = 3;
  expect_refused(lively(deeper, 3), "filled by another model");
  EXPECT_TRUE(identical(model(next, cache), expected));
  cache.truncate(4);
  // A weight of any layer, also one that no key or value depends on directly.
  model.lm_head.weight.tensor()[0].fill(0);
  expect_refused(model, "weights have changed");
  cache.clear();
  EXPECT_TRUE(identical(lively(deeper, 3)(tokens, cache), lively(deeper, 3)(tokens)));
  cache.clear();
  EXPECT_TRUE(identical(model(tokens, cache), model(tokens)));
}

TEST(GptCache, IsUnchangedByCallsThatFail) {
  Gpt model = lively(small, 4);
  const Tensor tokens = prompt_of({2, 12}), next = prompt_of({2, 1});
  GptCache cache;
  expect_error<ValueError>([&] { model(tokens, cache); }, "NoGrad");
  EXPECT_EQ(cache.length(), 0);
  const NoGrad off;
  model(tokens, cache);
  const Tensor expected = model(next, cache);
  cache.truncate(12);
  expect_error<ValueError>(
      [&] {
        model(prompt_of({2, 5}), cache);
      },
      "5 more tokens do not fit: 12 of 16 positions");
  expect_error<ShapeError>([&] { model(prompt_of({3, 1}), cache); }, "the cache holds");
  EXPECT_THROW(model(prompt_of({1, 17}), cache), ShapeError);
  EXPECT_THROW(model(prompt_of({4}), cache), ShapeError);
  EXPECT_THROW(model.next_logits(prompt_of({2, 0}), cache), ValueError);
  // Other devices find it when the host waits, after the call.
  if (default_device() == cpu_device) {
    EXPECT_THROW(model(next + 29, cache), IndexError);
  }
  EXPECT_EQ(cache.length(), 12);
  EXPECT_TRUE(identical(model(next, cache), expected));
  model.to(float64);
  EXPECT_THROW(model(next, cache), Error);
}

// ---- generating

TEST(Generate, GreedyTokensAreThoseOfWholeWindows) {
  GptOptions options = small;
  options.layers = 4;
  options.block = 64;
  const Gpt model = lively(options, 5);
  const Tensor prompt = prompt_of({3, 4});
  const GenerationOptions greedy{.tokens = 60, .temperature = 0};
  const Reference reference = by_whole_windows(model, prompt, greedy);
  // Equality rests on this: no two logits are as close as the rounding errors, which are below
  // 1e-4 by GptCache.PiecesHaveTheLogitsOfTheWhole.
  ASSERT_GT(reference.closest, 1e-3);
  const Tensor tokens = generate(model, prompt, greedy);
  expect_tokens(tokens, reference);
  EXPECT_GT(unique(tokens).numel(), 10);
  GenerationOptions uncached = greedy;
  uncached.cache = false;
  EXPECT_TRUE(identical(generate(model, prompt, uncached), tokens));
  // A row of a batch does not depend on the others.
  EXPECT_TRUE(identical(generate(model, prompt.slice(0, 1, 2), greedy), tokens.slice(0, 1, 2)));
}

TEST(Generate, SampledTokensAreThoseOfWholeWindows) {
  GptOptions options = small;
  options.block = 48;
  const Gpt model = lively(options, 6);
  const Tensor prompt = prompt_of({2, 3});
  for (const GenerationOptions& sampling :
       {GenerationOptions{.tokens = 40, .seed = 1}, GenerationOptions{.tokens = 40, .seed = 2},
        GenerationOptions{.tokens = 40, .temperature = 3, .top_k = 5, .seed = 3},
        GenerationOptions{.tokens = 40, .temperature = 3, .top_p = 0.8, .seed = 4},
        GenerationOptions{.tokens = 40, .temperature = 5, .top_k = 9, .top_p = 0.6, .seed = 5}}) {
    const Tensor tokens = generate(model, prompt, sampling);
    expect_tokens(tokens, by_whole_windows(model, prompt, sampling));
    EXPECT_TRUE(identical(generate(model, prompt, sampling), tokens));
    GenerationOptions uncached = sampling;
    uncached.cache = false;
    EXPECT_TRUE(identical(generate(model, prompt, uncached), tokens));
  }
  EXPECT_FALSE(identical(generate(model, prompt, {.tokens = 40, .seed = 1}),
                         generate(model, prompt, {.tokens = 40, .seed = 2})));
}

TEST(Generate, TheWindowMovesPastTheContext) {
  const Gpt model = lively(small, 7);
  for (const std::int64_t length : {1, 15, 16, 17, 40}) {
    const Tensor prompt = prompt_of({2, length});
    for (const double temperature : {0.0, 2.0}) {
      const GenerationOptions options{.tokens = 20, .temperature = temperature};
      const Reference reference = by_whole_windows(model, prompt, options);
      ASSERT_GT(reference.closest, 1e-3);
      expect_tokens(generate(model, prompt, options), reference);
    }
  }
}

TEST(Generate, OtherDtypes) {
  Gpt model = lively(small, 8);
  const Tensor prompt = prompt_of({2, 3});
  const Tensor expected = generate(model, prompt, {.tokens = 10, .temperature = 0});
  EXPECT_TRUE(
      identical(generate(model, prompt.to(int32), {.tokens = 10, .temperature = 0}), expected));
  EXPECT_TRUE(
      identical(generate(model.to(float64), prompt, {.tokens = 10, .temperature = 0}), expected));
  const Autocast half;
  EXPECT_EQ(generate(model.to(float32), prompt, {.tokens = 10}).shape(), (Shape{2, 10}));
}

TEST(Generate, ReportsTokensAndStops) {
  const Gpt model = lively(small, 9);
  const Tensor prompt = prompt_of({2, 3});
  const Tensor all = generate(model, prompt, {.tokens = 8, .seed = 3});
  std::vector<Tensor> seen;
  const auto until = [&](std::size_t count) {
    return [&seen, count](const Tensor& token) {
      EXPECT_EQ(token.shape(), Shape{2});
      seen.push_back(token);
      return seen.size() < count;
    };
  };
  EXPECT_TRUE(
      identical(generate(model, prompt, {.tokens = 8, .seed = 3, .on_token = until(100)}), all));
  EXPECT_TRUE(identical(stack(seen, 1), all));
  seen.clear();
  EXPECT_TRUE(identical(generate(model, prompt, {.tokens = 8, .seed = 3, .on_token = until(5)}),
                        all.slice(1, 0, 5)));
  EXPECT_EQ(seen.size(), 5U);
}

TEST(Generate, RecordsNothing) {
  const Gpt model = lively(small, 10);
  EXPECT_TRUE(is_grad_enabled());
  EXPECT_FALSE(generate(model, prompt_of({1, 2}), {.tokens = 3}).requires_grad());
  EXPECT_TRUE(is_grad_enabled());
}

TEST(Generate, EmptyResults) {
  const Gpt model = lively(small, 11);
  EXPECT_EQ(generate(model, prompt_of({2, 3}), {.tokens = 0}).shape(), (Shape{2, 0}));
  EXPECT_EQ(generate(model, prompt_of({0, 3}), {.tokens = 4}).shape(), (Shape{0, 4}));
}

TEST(Generate, RefusesBadInput) {
  Gpt model = lively(small, 12);
  const Tensor prompt = prompt_of({2, 3});
  expect_error<ValueError>([&] { generate(model, prompt_of({2, 0})); }, "prompt is [2, 0]");
  EXPECT_THROW(generate(model, prompt_of({3})), ShapeError);
  EXPECT_THROW(generate(model, ones({2, 3})), DTypeError);
  EXPECT_THROW(generate(model, zeros({2, 3}, bool_)), DTypeError);
  EXPECT_THROW(generate(model, prompt + 29), IndexError);
  EXPECT_THROW(generate(model, prompt - 29), IndexError);
  EXPECT_THROW(generate(model, prompt, {.tokens = -1}), ValueError);
  EXPECT_THROW(generate(model, prompt, {.temperature = -1}), ValueError);
  EXPECT_THROW(generate(model, prompt, {.top_k = -1}), ValueError);
  EXPECT_THROW(generate(model, prompt, {.top_p = 2}), ValueError);
  const NoGrad off;
  model.lm_head.weight.tensor().fill(NAN);
  expect_error<ValueError>([&] { generate(model, prompt); }, "generate: a row of logits has NaN");
}

TEST(Generate, NeedsDropoutTurnedOff) {
  GptOptions options = small;
  options.residual_dropout = 0.1;
  Gpt model(options);
  expect_error<ValueError>([&] { generate(model, prompt_of({1, 2})); }, "eval()");
  EXPECT_EQ(generate(model.eval(), prompt_of({1, 2}), {.tokens = 2}).shape(), (Shape{1, 2}));
  EXPECT_EQ(generate(Gpt(small), prompt_of({1, 2}), {.tokens = 2}).shape(), (Shape{1, 2}));
}

}  // namespace
}  // namespace extensor
