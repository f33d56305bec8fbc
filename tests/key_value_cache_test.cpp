// nn::KeyValueCache and the attention layers that take one: pieces of a sequence compared with the
// whole, masks, grouped queries, and caches that do not fit.
#include "extensor/nn/key_value_cache.h"

#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using nn::AttentionMasks;
using nn::KeyValueCache;
using nn::MultiheadAttention;

// Rounding of sums in another order, for values around 1.
constexpr double rtol = 1e-5, atol = 1e-6;

const AttentionMasks causal{.causal = true};

Tensor piece(const Tensor& x, std::int64_t first, std::int64_t count) {
  return x.slice(1, first, first + count);
}

// Feeds x [batch, length, width] in pieces; `masks_of(first, keys)` are the masks of a piece.
template <class Layer, class MasksOf>
Tensor in_pieces(const Layer& layer, const Tensor& x, const std::vector<std::int64_t>& pieces,
                 const MasksOf& masks_of) {
  KeyValueCache cache(x.size(1));
  std::vector<Tensor> results;
  for (const std::int64_t count : pieces) {
    const std::int64_t first = cache.length();
    results.push_back(layer(piece(x, first, count), masks_of(first, first + count), cache));
    EXPECT_EQ(cache.length(), first + count);
  }
  return concatenate(results, 1);
}
template <class Layer>
Tensor in_pieces(const Layer& layer, const Tensor& x, const std::vector<std::int64_t>& pieces) {
  return in_pieces(layer, x, pieces, [](std::int64_t, std::int64_t) { return causal; });
}

const std::vector<std::vector<std::int64_t>> ways{
    {9}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 5}, {3, 1, 4, 1}, {1, 8}, {8, 1}, {0, 9}, {4, 0, 5}};

template <class E, class Function>
void expect_error(const Function& function, const char* text) {
  try {
    function();
    ADD_FAILURE() << "no error: " << text;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

// ---- pieces and the whole

TEST(KeyValueCache, PiecesAreTheWhole) {
  manual_seed(1);
  const NoGrad off;
  for (const bool bias : {true, false}) {
    const MultiheadAttention attention(24, 3, {.bias = bias});
    const Tensor x = normal({2, 9, 24}, 0, 1);
    const Tensor whole = attention(x, causal);
    for (const auto& pieces : ways) {
      EXPECT_TRUE(allclose(in_pieces(attention, x, pieces), whole, rtol, atol));
    }
    // One piece is computed as without a cache.
    EXPECT_TRUE(identical(in_pieces(attention, x, {9}), whole));
  }
}

TEST(KeyValueCache, PiecesAreTheWholeInOtherDtypes) {
  manual_seed(2);
  const NoGrad off;
  MultiheadAttention attention(16, 2);
  const Tensor x = normal({2, 9, 16}, 0, 1);
  attention.to(float64);
  EXPECT_TRUE(allclose(in_pieces(attention, x.to(float64), {4, 1, 1, 3}),
                       attention(x.to(float64), causal), 1e-13, 1e-14));
  for (const DType half : {float16, bfloat16}) {
    attention.to(half);
    const double step = half == float16 ? 0x1p-10 : 0x1p-7;
    EXPECT_TRUE(allclose(in_pieces(attention, x.to(half), {4, 1, 1, 3}),
                         attention(x.to(half), causal), 2 * step, 2 * step));
  }
}

// A piece sees all keys so far, as queries of a longer sequence of keys do.
TEST(KeyValueCache, PiecesThatAreNotCausal) {
  manual_seed(3);
  const NoGrad off;
  const MultiheadAttention attention(16, 2);
  const Tensor x = normal({2, 9, 16}, 0, 1);
  KeyValueCache cache(9);
  for (const std::int64_t count : {4, 1, 4}) {
    const std::int64_t first = cache.length();
    const Tensor seen = piece(x, 0, first + count);
    EXPECT_TRUE(allclose(attention(piece(x, first, count), AttentionMasks{}, cache),
                         attention(piece(x, first, count), seen, seen), rtol, atol));
  }
}

TEST(KeyValueCache, MasksCoverAllKeys) {
  manual_seed(4);
  const NoGrad off;
  const MultiheadAttention attention(16, 2);
  const Tensor x = normal({2, 9, 16}, 0, 1);
  Tensor padding = zeros({2, 9}, bool_);
  padding[1].slice(0, 0, 3).fill(true);  // the second row begins with padding
  const Tensor flags = uniform({2, 2, 9, 9}, 0, 1) > 0.3, added = normal({9, 9}, 0, 1);
  for (const bool with_padding : {false, true}) {
    for (const Tensor& mask : {Tensor(), flags, added}) {
      if (!with_padding && !mask.defined()) continue;
      const AttentionMasks all{mask, with_padding ? padding : Tensor(), true};
      const auto masks_of = [&](std::int64_t first, std::int64_t keys) {
        AttentionMasks masks = all;
        if (mask.defined()) masks.mask = mask.slice(-2, first, keys).slice(-1, 0, keys);
        if (with_padding) masks.key_padding = padding.slice(1, 0, keys);
        return masks;
      };
      const Tensor whole = attention(x, all);
      for (const auto& pieces : ways) {
        EXPECT_TRUE(allclose(in_pieces(attention, x, pieces, masks_of), whole, rtol, atol));
      }
    }
  }
}

TEST(KeyValueCache, EncoderLayersTakeOne) {
  manual_seed(5);
  const NoGrad off;
  for (const bool norm_first : {false, true}) {
    const nn::TransformerEncoderLayer layer(
        16, 2, {.feedforward = 32, .dropout = 0, .norm_first = norm_first});
    const Tensor x = normal({2, 9, 16}, 0, 1);
    for (const auto& pieces : ways) {
      EXPECT_TRUE(allclose(in_pieces(layer, x, pieces), layer(x, causal), rtol, atol));
    }
  }
}

// Grouped queries with an attention of one's own: 4 heads of queries, 2 of keys and values.
TEST(KeyValueCache, HoldsFewerHeadsThanTheQueries) {
  manual_seed(6);
  const NoGrad off;
  const Tensor q = normal({2, 4, 7, 8}, 0, 1);
  const Tensor k = normal({2, 2, 7, 8}, 0, 1), v = normal({2, 2, 7, 5}, 0, 1);
  const Tensor whole = scaled_dot_product_attention(q, k, v, {.causal = true, .enable_gqa = true});
  KeyValueCache cache(7);
  for (std::int64_t i = 0; i < 7; ++i) {
    cache.append(k.slice(2, i, i + 1), v.slice(2, i, i + 1));
    const Tensor one = scaled_dot_product_attention(q.slice(2, i, i + 1), cache.keys(),
                                                    cache.values(), {.enable_gqa = true});
    EXPECT_TRUE(allclose(one, whole.slice(2, i, i + 1), rtol, atol));
  }
  EXPECT_TRUE(identical(cache.keys(), k));
  EXPECT_TRUE(identical(cache.values(), v));
}

TEST(KeyValueCache, DropoutDropsWeightsOfEarlierKeys) {
  manual_seed(7);
  const NoGrad off;
  const MultiheadAttention attention(8, 2, {.dropout = 1});  // a new layer is in training mode
  KeyValueCache cache(4);
  const Tensor x = normal({1, 3, 8}, 0, 1);
  const Tensor nothing = attention.out_proj(zeros({1, 1, 8}));
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(identical(attention(piece(x, i, 1), causal, cache), nothing));
  }
}

TEST(KeyValueCache, KeepsTheDtypeOfAutocast) {
  manual_seed(8);
  const NoGrad off;
  const MultiheadAttention attention(8, 2);
  const Tensor x = normal({1, 3, 8}, 0, 1);
  KeyValueCache cache(9);
  {
    const Autocast half;
    attention(x, causal, cache);
    EXPECT_EQ(cache.keys().dtype(), bfloat16);
    EXPECT_TRUE(allclose(attention(x, causal, cache),
                         attention(concatenate({x, x}, 1), causal).slice(1, 3, 6), 0x1p-6, 0x1p-7));
  }
  expect_error<DTypeError>([&] { attention(x, causal, cache); },
                           "keys are float32 and the cache holds bfloat16");
  EXPECT_EQ(cache.length(), 6);
}

// ---- memory

TEST(KeyValueCache, TruncatedPositionsAreFilledAgain) {
  manual_seed(9);
  const NoGrad off;
  const MultiheadAttention attention(8, 2);
  const Tensor x = normal({2, 6, 8}, 0, 1), other = normal({2, 2, 8}, 0, 1);
  const Tensor whole = attention(x, causal);
  KeyValueCache cache(6);
  attention(piece(x, 0, 4), causal, cache);
  attention(other, causal, cache);
  cache.truncate(4);
  EXPECT_TRUE(allclose(attention(piece(x, 4, 2), causal, cache), piece(whole, 4, 2), rtol, atol));
  const Tensor memory = cache.keys();
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  EXPECT_THROW(cache.keys(), ValueError);
  EXPECT_TRUE(identical(attention(x, causal, cache), whole));
  EXPECT_EQ(cache.keys().impl_or_null()->storage.get(), memory.impl_or_null()->storage.get());
  // An empty cache takes another batch.
  cache.clear();
  EXPECT_TRUE(
      identical(attention(x.slice(0, 1, 2), causal, cache), attention(x.slice(0, 1, 2), causal)));
}

TEST(KeyValueCache, CopiesHaveSeparateMemory) {
  manual_seed(10);
  const NoGrad off;
  const MultiheadAttention attention(8, 2);
  const Tensor x = normal({1, 4, 8}, 0, 1), other = normal({1, 1, 8}, 0, 1);
  KeyValueCache cache(4);
  attention(piece(x, 0, 3), causal, cache);
  KeyValueCache copy = cache, assigned(1);
  assigned = cache;
  attention(other, causal, copy);
  attention(other, causal, assigned);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_TRUE(allclose(attention(piece(x, 3, 1), causal, cache), piece(attention(x, causal), 3, 1),
                       rtol, atol));
  EXPECT_TRUE(identical(copy.keys(), assigned.keys()));
  const KeyValueCache moved = std::move(copy);
  EXPECT_EQ(moved.length(), 4);
}

// ---- caches that do not fit

TEST(KeyValueCache, RefusesAnotherLayer) {
  manual_seed(11);
  const NoGrad off;
  MultiheadAttention attention(8, 2);
  const MultiheadAttention same_shape(8, 2);
  const Tensor x = normal({1, 2, 8}, 0, 1);
  KeyValueCache cache(8);
  attention(x, causal, cache);
  const Tensor before = cache.keys().clone();
  const auto expect_refused = [&](const MultiheadAttention& layer, const char* text) {
    expect_error<ValueError>([&] { layer(x, causal, cache); }, text);
    EXPECT_EQ(cache.length(), 2);
    EXPECT_TRUE(identical(cache.keys(), before));
  };
  expect_refused(same_shape, "filled by another layer");
  expect_refused(MultiheadAttention(attention), "filled by another layer");  // even a copy
  attention(x, causal, cache);
  cache.truncate(2);
  attention.in_proj_bias.tensor().slice(0, 0, 1).fill(1);
  expect_refused(attention, "weights have changed");
  cache.clear();
  same_shape(x, causal, cache);  // an empty cache belongs to nobody
  EXPECT_EQ(cache.length(), 2);
}

TEST(KeyValueCache, FollowsAMovedLayer) {
  const NoGrad off;
  MultiheadAttention attention(8, 2);
  KeyValueCache cache(8);
  attention(ones({1, 2, 8}), causal, cache);
  const MultiheadAttention moved = std::move(attention);
  moved(ones({1, 2, 8}), causal, cache);
  EXPECT_EQ(cache.length(), 4);
}

TEST(KeyValueCache, RefusesWhatDoesNotFit) {
  const NoGrad off;
  EXPECT_THROW(KeyValueCache(0), ValueError);
  EXPECT_THROW(KeyValueCache(-1), ValueError);
  const MultiheadAttention attention(8, 2);
  KeyValueCache cache(4);
  const auto feed = [&](const Tensor& x) { return attention(x, causal, cache); };
  expect_error<ValueError>(
      [&] {
        feed(ones({1, 5, 8}));
      },
      "5 more positions do not fit: 0 of 4 are in use");
  feed(ones({2, 3, 8}));
  expect_error<ValueError>(
      [&] {
        feed(ones({2, 2, 8}));
      },
      "2 more positions do not fit: 3 of 4 are in use");
  expect_error<ShapeError>(
      [&] {
        feed(ones({1, 1, 8}));
      },
      "keys are [1, 2, 1, 4] and the cache holds [2, 2, 3, 4]");
  EXPECT_THROW(feed(ones({2, 1, 8}, float64)), DTypeError);
  EXPECT_THROW(feed(ones({2, 8})), ShapeError);
  EXPECT_THROW(feed(ones({2, 1, 7})), ShapeError);
  EXPECT_THROW(attention(ones({2, 1, 8}), AttentionMasks{.mask = ones({1, 3}, bool_)}, cache),
               ShapeError);  // there are 4 keys
  EXPECT_THROW(
      attention(ones({2, 1, 8}), AttentionMasks{.key_padding = zeros({2, 1}, bool_)}, cache),
      ShapeError);
  EXPECT_EQ(cache.length(), 3);
  feed(ones({2, 1, 8}));
  EXPECT_THROW(cache.truncate(5), ValueError);
  EXPECT_THROW(cache.truncate(-1), ValueError);
  EXPECT_EQ(cache.length(), 4);

  KeyValueCache own(4);
  const Tensor k = ones({1, 2, 1, 4});
  EXPECT_THROW(own.append(k, ones({1, 2, 2, 4})), ShapeError);
  EXPECT_THROW(own.append(k, ones({1, 3, 1, 4})), ShapeError);
  EXPECT_THROW(own.append(ones({2, 1, 4}), ones({2, 1, 4})), ShapeError);
  EXPECT_THROW(own.append(ones({1, 2, 1, 4}, int64), k), DTypeError);
  EXPECT_EQ(own.length(), 0);
  own.append(k, k);
  EXPECT_THROW(own.append(k, ones({1, 2, 1, 5})), ShapeError);
  EXPECT_THROW(own.append(k, k.to(float64)), DTypeError);
  EXPECT_EQ(own.length(), 1);

  const MultiheadAttention crossed(8, 2, {.key_width = 4});
  KeyValueCache empty_cache(4);
  expect_error<ValueError>(
      [&] {
        crossed(ones({1, 1, 8}), causal, empty_cache);
      },
      "keys and values of the query's width");
}

TEST(KeyValueCache, RefusesRecordedCalls) {
  const MultiheadAttention attention(8, 2);
  KeyValueCache cache(4);
  expect_error<ValueError>([&] { attention(ones({1, 1, 8}), causal, cache); }, "NoGrad");
  EXPECT_EQ(cache.length(), 0);
  const NoGrad off;
  attention(ones({1, 1, 8}), causal, cache);
  EXPECT_EQ(cache.length(), 1);
}

}  // namespace
}  // namespace extensor
