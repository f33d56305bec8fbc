// nn::MultiheadAttention with grouped queries: keys and values of fewer heads.
#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/child_process.h"

namespace extensor {
namespace {

using test_support::expect_error;

// A layer with as many heads of keys and values as of queries whose projections repeat those of the
// grouped one.
nn::MultiheadAttention repeated(const nn::MultiheadAttention& grouped, std::int64_t width,
                                std::int64_t heads, std::int64_t shared) {
  nn::MultiheadAttention layer(width, heads);
  const std::int64_t head = width / heads, rows = head * shared;
  const auto repeat_heads = [&](const Tensor& x) {  // [rows, …] to [width, …]
    const Tensor split = x.reshape({shared, 1, head, x.numel() / rows});
    return split.broadcast_to({shared, heads / shared, head, x.numel() / rows});
  };
  const auto widened = [&](const Tensor& all, const Shape& shape) {
    const Tensor k = repeat_heads(all.slice(0, width, width + rows)).reshape(shape);
    const Tensor v = repeat_heads(all.slice(0, width + rows)).reshape(shape);
    return concatenate({all.slice(0, 0, width), k, v}, 0);
  };
  const NoGrad off;
  layer.in_proj_weight.tensor().copy_from(widened(grouped.in_proj_weight, {width, width}));
  layer.in_proj_bias.tensor().copy_from(widened(grouped.in_proj_bias, {width}));
  layer.out_proj.weight.tensor().copy_from(grouped.out_proj.weight);
  layer.out_proj.bias.tensor().copy_from(grouped.out_proj.bias);
  return layer;
}

TEST(GroupedAttention, IsAttentionWithRepeatedHeads) {
  manual_seed(1);
  for (const std::int64_t shared : {1, 2, 4}) {
    nn::MultiheadAttention grouped(24, 4, {.key_value_heads = shared});
    EXPECT_EQ(grouped.in_proj_weight.tensor().shape(), (Shape{24 + 2 * 6 * shared, 24}));
    {
      const NoGrad off;
      grouped.in_proj_bias.tensor().copy_from(randn(grouped.in_proj_bias.tensor().shape()));
    }
    const nn::MultiheadAttention expected = repeated(grouped, 24, 4, shared);
    const Tensor x = randn({2, 5, 24}), memory = randn({2, 7, 24});
    for (const nn::AttentionMasks& masks :
         {nn::AttentionMasks{}, nn::AttentionMasks{.causal = true},
          nn::AttentionMasks{.mask = greater(rand({2, 4, 5, 5}), 0.3)}}) {
      EXPECT_TRUE(allclose(grouped(x, masks), expected(x, masks), 1e-5, 1e-6));
    }
    EXPECT_TRUE(allclose(grouped(x, memory, memory), expected(x, memory, memory), 1e-5, 1e-6));
  }
}

TEST(GroupedAttention, WorksWithACache) {
  manual_seed(2);
  const nn::MultiheadAttention layer(16, 4, {.key_value_heads = 2});
  const Tensor x = randn({3, 6, 16});
  const nn::AttentionMasks causal{.causal = true};
  const NoGrad off;
  nn::KeyValueCache cache(8);
  const Tensor first = layer(x.slice(1, 0, 4), causal, cache),
               rest = layer(x.slice(1, 4), causal, cache);
  EXPECT_EQ(cache.keys().shape(), (Shape{3, 2, 6, 4}));
  EXPECT_TRUE(allclose(concatenate({first, rest}, 1), layer(x, causal), 1e-5, 1e-6));
}

TEST(GroupedAttention, LearnsAndHasOtherWidths) {
  manual_seed(3);
  nn::MultiheadAttention layer(8, 4, {.key_width = 5, .value_width = 3, .key_value_heads = 2});
  EXPECT_EQ(layer.k_proj_weight.tensor().shape(), (Shape{4, 5}));
  EXPECT_EQ(layer.v_proj_weight.tensor().shape(), (Shape{4, 3}));
  const Tensor y = layer(randn({2, 3, 8}), randn({2, 6, 5}), randn({2, 6, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 8}));
  sum(y).backward();
  for (const auto& [name, parameter] : layer.named_parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << name;
  }
  EXPECT_NE(layer.summary().find("2 of keys and values"), std::string::npos) << layer.summary();
  expect_error<ValueError>([] { nn::MultiheadAttention(8, 4, {.key_value_heads = 3}); },
                           {"MultiheadAttention", "key_value_heads is 3", "4 heads"});
  expect_error<ValueError>([] { nn::MultiheadAttention(8, 4, {.key_value_heads = -2}); },
                           {"MultiheadAttention", "key_value_heads is -2"});
}

}  // namespace
}  // namespace extensor
