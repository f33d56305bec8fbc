// Attention beyond the samples of the op database: sizes below and above the block sizes, special
// rows, memory, and identical bits for any number of threads.
#include "extensor/attention.h"

#include <gtest/gtest.h>

#include "op_database/check.h"
#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using op_database::Tensors;
using op_database::tolerance_of;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

// Relative to the largest element, or to `least` if all elements cancel to 0.
void expect_near(const Tensor& got, const Tensor& expected, double tolerance,
                 double least = 1e-30) {
  ASSERT_EQ(got.shape(), expected.shape());
  if (got.numel() == 0) return;
  const Tensor reference = expected.to(DType::float64);
  const double largest = max_reduce(abs(reference)).item<double>();
  EXPECT_LE(max_reduce(abs(got.to(DType::float64) - reference)).item<double>(),
            tolerance * std::max(largest, least));
}

// softmax(scale · q·kᵀ + mask)·v with whole matrices, in float64.
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                double scale) {
  const auto wide = [](const Tensor& x) { return x.to(DType::float64); };
  Tensor scores = matmul(wide(q), matrix_transpose(wide(k))) * scale;
  const Tensor hidden = full({}, -infinity, DType::float64);
  if (mask.defined()) {
    scores = mask.dtype() == DType::bool_ ? where(mask, scores, hidden) : scores + wide(mask);
  }
  if (causal) {
    const Tensor query = arange(scores.size(-2)).unsqueeze(1), key = arange(scores.size(-1));
    scores = where(less_equal(key, query), scores, hidden);
  }
  const Tensor seen = greater(max_reduce(scores, -1, true), hidden);
  return where(seen, matmul(softmax(where(seen, scores, zeros({}, DType::float64))), wide(v)),
               zeros({}, DType::float64));
}

struct Problem {
  Tensor q, k, v, g;
};
Problem draw_problem(const Shape& batch, std::int64_t queries, std::int64_t keys,
                     std::int64_t width, std::int64_t columns, DType dtype, unsigned seed) {
  const auto shape = [&](std::int64_t rows, std::int64_t last) {
    Shape result = batch;
    result.push_back(rows);
    result.push_back(last);
    return result;
  };
  return {draw::uniform(shape(queries, width), -1.5, 1.5, seed).to(dtype),
          draw::uniform(shape(keys, width), -1.5, 1.5, seed + 1).to(dtype),
          draw::uniform(shape(keys, columns), -2, 2, seed + 2).to(dtype),
          draw::uniform(shape(queries, columns), -1, 1, seed + 3).to(dtype)};
}

TEST(Attention, BroadcastViewsOfTheSequenceAreRead) {
  const Tensor q = draw::uniform({1, 5}, -1, 1, 1).broadcast_to({4, 5});
  const Tensor k = draw::uniform({6, 1}, -1, 1, 2).broadcast_to({6, 5});
  const Tensor v = draw::uniform({1, 6, 3}, -1, 1, 3).broadcast_to({2, 6, 3});
  expect_near(scaled_dot_product_attention(q, k, v),
              composed(q, k, v, {}, false, 1 / std::sqrt(5.0)), 1e-13);
}

TEST(Attention, SizesAroundTheBlocks) {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (const auto& [queries, keys] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 300},
                                                            {300, 1},
                                                            {95, 97},
                                                            {96, 96},
                                                            {97, 95},
                                                            {128, 192},
                                                            {129, 193},
                                                            {260, 131},
                                                            {131, 260},
                                                            {33, 500}}) {
      for (bool causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << queries << " x " << keys
                                        << (causal ? " causal" : ""));
        const Problem p = draw_problem({2}, queries, keys, 19, 37, dtype, 5);
        const double scale = 1 / std::sqrt(19.0);
        expect_near(scaled_dot_product_attention(p.q, p.k, p.v, {}, causal),
                    composed(p.q, p.k, p.v, {}, causal, scale), tolerance_of(dtype));
        const Tensor taken =
            greater(draw::uniform({2, queries, keys}, -1, 2, 9), full({}, 0.0, DType::float64));
        expect_near(scaled_dot_product_attention(p.q, p.k, p.v, taken, causal),
                    composed(p.q, p.k, p.v, taken, causal, scale), tolerance_of(dtype));
        const Tensor added = draw::uniform({queries, keys}, -3, 3, 10);
        const Tensor same = added.to(is_half(dtype) ? DType::float32 : dtype);
        expect_near(scaled_dot_product_attention(p.q, p.k, p.v, same, causal),
                    composed(p.q, p.k, p.v, same, causal, scale), tolerance_of(dtype));
      }
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  // The maximum grows from block to block, so that all earlier contributions are scaled to nothing.
  const std::int64_t keys = 400;
  const Tensor q = ones({1, 1});
  const Tensor k = arange(keys).to(DType::float32).reshape({keys, 1}) * 1e4;
  const Tensor v = arange(keys).to(DType::float32).reshape({keys, 1});
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).item<float>(), 399);
  EXPECT_EQ(scaled_dot_product_attention(q, -k, v).item<float>(), 0);
  const AttentionResult both = scaled_dot_product_attention_with_logsumexp(q, k, v);
  EXPECT_EQ(both.logsumexp.item<float>(), 399e4F);
}

TEST(Attention, QueriesThatSeeNothing) {
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    const Problem p = draw_problem({2}, 5, 150, 4, 3, dtype, 1);
    Tensor taken = ones({5, 150}, DType::bool_);
    taken[1].fill(false);
    taken[{3, Slice{0, 100}}].fill(false);  // the first block is hidden, the second visible
    const Tensor added = where(taken, zeros({}), full({}, -infinity));
    for (const Tensor& mask : {taken, added}) {
      const AttentionResult got = scaled_dot_product_attention_with_logsumexp(p.q, p.k, p.v, mask);
      expect_near(got.output, composed(p.q, p.k, p.v, mask, false, 0.5), tolerance_of(dtype));
      EXPECT_EQ(values_of(got.output[{0, 1}]), std::vector<double>(3, 0.0));
      EXPECT_EQ(values_of(got.logsumexp[{1, 1}])[0], -infinity);
      const AttentionGradients gradients =
          scaled_dot_product_attention_backward(p.g, p.q, p.k, p.v, mask);
      EXPECT_EQ(values_of(gradients.q[{0, 1}]), std::vector<double>(4, 0.0));
      for (const Tensor& gradient : {gradients.q, gradients.k, gradients.v}) {
        for (double value : values_of(gradient)) EXPECT_TRUE(std::isfinite(value));
      }
      // The gradient of its output has no effect.
      Tensor other = p.g.clone();
      other.slice(1, 1, 2).fill(7);
      const AttentionGradients same =
          scaled_dot_product_attention_backward(other, p.q, p.k, p.v, mask);
      EXPECT_TRUE(identical(same.k, gradients.k));
      EXPECT_TRUE(identical(same.v, gradients.v));
    }
  }
  const AttentionGradients none = scaled_dot_product_attention_backward(
      ones({2, 3}), ones({2, 4}), ones({5, 4}), ones({5, 3}), zeros({5}, DType::bool_));
  EXPECT_EQ(values_of(none.q), std::vector<double>(8, 0.0));
  EXPECT_EQ(values_of(none.k), std::vector<double>(20, 0.0));
  EXPECT_EQ(values_of(none.v), std::vector<double>(15, 0.0));
}

TEST(Attention, WidthsOfZero) {
  // With a width of 0 all scores are equal, and the result is the mean.
  const Tensor v = draw::uniform({4, 3}, -1, 1, 1);
  expect_near(scaled_dot_product_attention(zeros({2, 0}), zeros({4, 0}), v),
              mean(v, 0, true).broadcast_to({2, 3}), 1e-15);
  EXPECT_EQ(scaled_dot_product_attention(ones({2, 5}), ones({4, 5}), zeros({4, 0})).shape(),
            (Shape{2, 0}));
  const AttentionGradients gradients = scaled_dot_product_attention_backward(
      zeros({2, 0}), ones({2, 5}), ones({4, 5}), zeros({4, 0}));
  EXPECT_EQ(values_of(gradients.q), std::vector<double>(10, 0.0));
  EXPECT_EQ(gradients.v.shape(), (Shape{4, 0}));
}

TEST(Attention, DtypesPromote) {
  const Problem p = draw_problem({}, 3, 4, 5, 6, DType::float64, 1);
  const Tensor q = p.q.to(DType::float16), k = p.k.to(DType::bfloat16), v = p.v;
  const Tensor y = scaled_dot_product_attention(q, k, v);
  EXPECT_EQ(y.dtype(), DType::float64);
  EXPECT_EQ(scaled_dot_product_attention(q, k, v.to(DType::float16)).dtype(), DType::float32);
  expect_near(y, composed(q, k, v, {}, false, 1 / std::sqrt(5.0)), 1e-13);
  const AttentionGradients gradients = scaled_dot_product_attention_backward(p.g, q, k, v);
  EXPECT_EQ(gradients.q.dtype(), DType::float16);
  EXPECT_EQ(gradients.k.dtype(), DType::bfloat16);
  EXPECT_EQ(gradients.v.dtype(), DType::float64);
  EXPECT_FALSE(gradients.mask.defined());
}

TEST(Attention, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    for (bool causal : {false, true}) {
      const Problem p = draw_problem({3, 2}, 210, 230, 24, 20, dtype, 1);
      const Tensor mask = draw::uniform({210, 230}, -1, 1, 9).to(dtype);
      const auto run = [&] {
        const AttentionResult both =
            scaled_dot_product_attention_with_logsumexp(p.q, p.k, p.v, mask, causal);
        const AttentionGradients gradients =
            scaled_dot_product_attention_backward(p.g, p.q, p.k, p.v, mask, causal, {}, {}, true);
        return Tensors{both.output, both.logsumexp, gradients.q,
                       gradients.k, gradients.v,    gradients.mask};
      };
      set_num_threads(1);
      const Tensors expected = run();
      for (int threads : {2, 4}) {
        set_num_threads(threads);
        const Tensors got = run();
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(identical(got[i], expected[i])) << name(dtype) << " " << i;
        }
      }
    }
  }
  set_num_threads(before);
}

// Peak memory of forward and backward, without their operands and results.
std::size_t extra_bytes(std::int64_t length) {
  const Problem p = draw_problem({}, length, length, 64, 64, DType::float32, 1);
  const std::size_t tensor = p.q.nbytes(), row = tensor / 64;
  empty_cache();
  reset_peak_memory_stats();
  const std::size_t before = memory_stats().allocated_bytes;
  const AttentionResult both = scaled_dot_product_attention_with_logsumexp(p.q, p.k, p.v, {}, true);
  scaled_dot_product_attention_backward(p.g, p.q, p.k, p.v, {}, true, {}, both);
  return memory_stats().peak_allocated_bytes - before - 4 * tensor - row;
}

TEST(Attention, MemoryGrowsWithTheSequenceNotItsSquare) {
  const std::size_t at_512 = extra_bytes(512), at_2048 = extra_bytes(2048);
  EXPECT_GT(at_512, 0U);
  // The full score matrices would take 1 MiB and 16 MiB.
  EXPECT_LT(at_2048, at_512 + 4 * 512 * 64 * sizeof(float));
  EXPECT_LT(at_2048, std::size_t{4} << 20);
}

// ---- gradients

// The formula with whole matrices, in float64.
AttentionGradients composed_gradients(const Problem& p, const Tensor& mask, bool causal,
                                      double scale) {
  const auto wide = [](const Tensor& x) { return x.to(DType::float64); };
  const Tensor identity = eye(p.k.size(-2), {}, 0, DType::float64);
  const Tensor probabilities = composed(p.q, p.k, identity, mask, causal, scale);
  const Tensor g = wide(p.g), gp = matmul(g, matrix_transpose(wide(p.v)));
  const Tensor gs = probabilities * (gp - sum(gp * probabilities, -1, true));
  return {matmul(gs, wide(p.k)) * scale, matmul(matrix_transpose(gs), wide(p.q)) * scale,
          matmul(matrix_transpose(probabilities), g), gs};
}

TEST(AttentionGradient, SizesAroundTheBlocks) {
  for (DType dtype : {DType::float32, DType::float64, DType::float16}) {
    for (const auto& [queries, keys] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 200}, {200, 1}, {95, 97}, {96, 96}, {97, 95}, {193, 129}, {129, 193}}) {
      for (bool causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << queries << " x " << keys
                                        << (causal ? " causal" : ""));
        const Problem p = draw_problem({2}, queries, keys, 19, 37, dtype, 5);
        const Tensor mask = draw::uniform({queries, keys}, -1, 1, 8).to(dtype);
        const AttentionGradients expected = composed_gradients(p, mask, causal, 0.3);
        const AttentionGradients got =
            scaled_dot_product_attention_backward(p.g, p.q, p.k, p.v, mask, causal, 0.3, {}, true);
        // The probability of the only key is 1, whatever the scores.
        const bool constant = keys == 1 || (queries == 1 && causal);
        const double least = constant ? max_reduce(abs(expected.v)).item<double>() : 1e-30;
        expect_near(got.q, expected.q, tolerance_of(dtype), least);
        expect_near(got.k, expected.k, tolerance_of(dtype), least);
        expect_near(got.v, expected.v, tolerance_of(dtype));
        expect_near(got.mask, sum(expected.mask, 0), tolerance_of(dtype), least);
      }
    }
  }
}

TEST(AttentionGradient, SavedResultsGiveTheSame) {
  for (bool causal : {false, true}) {
    const Problem p = draw_problem({2, 2}, 100, 110, 16, 8, DType::float32, 1);
    const AttentionResult saved =
        scaled_dot_product_attention_with_logsumexp(p.q, p.k, p.v, {}, causal);
    const AttentionGradients expected =
        scaled_dot_product_attention_backward(p.g, p.q, p.k, p.v, Tensor(), causal);
    const AttentionGradients got =
        scaled_dot_product_attention_backward(p.g, p.q, p.k, p.v, {}, causal, {}, saved);
    EXPECT_TRUE(identical(got.q, expected.q));
    EXPECT_TRUE(identical(got.k, expected.k));
    EXPECT_TRUE(identical(got.v, expected.v));
    EXPECT_TRUE(identical(saved.output, scaled_dot_product_attention(p.q, p.k, p.v, {}, causal)));
  }
}

// ---- packed

struct Unpacked {
  Tensor q, k, v;
};
Unpacked unpacked(const Tensor& qkv, std::int64_t heads) {
  const auto part = [&](std::int64_t k) {
    const std::int64_t width = qkv.size(2) / 3;
    return qkv.slice(2, k * width, (k + 1) * width)
        .reshape({qkv.size(0), qkv.size(1), heads, width / heads})
        .transpose({0, 2, 1, 3})
        .contiguous();
  };
  return {part(0), part(1), part(2)};
}
Tensor joined(const Tensor& x) {
  return x.transpose({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

TEST(PackedAttention, HasTheBitsOfSeparateOperands) {
  for (DType dtype : float_dtypes) {
    for (const auto& [time, heads, d] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 8},
          {97, 3, 16},
          {130, 2, 33}}) {
      for (bool causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " time " << time << ", " << heads
                                        << " heads of " << d << (causal ? " causal" : ""));
        const Tensor qkv = draw::uniform({2, time, 3 * heads * d}, -1.5, 1.5, 3).to(dtype);
        const Tensor g = draw::uniform({2, time, heads * d}, -1, 1, 4).to(dtype);
        const Tensor mask = draw::uniform({time, time}, -1, 1, 5).to(dtype);
        const auto [q, k, v] = unpacked(qkv, heads);
        EXPECT_TRUE(identical(scaled_dot_product_attention_packed(qkv, heads, mask, causal),
                              joined(scaled_dot_product_attention(q, k, v, mask, causal))));
        const auto separate = scaled_dot_product_attention_backward(
            unpacked(concatenate({g, g, g}, 2), heads).q, q, k, v, mask, causal, {}, {}, true);
        const Tensor expected =
            concatenate({joined(separate.q), joined(separate.k), joined(separate.v)}, 2);
        const auto found =
            scaled_dot_product_attention_packed_backward(g, qkv, heads, mask, causal, {}, true);
        EXPECT_TRUE(identical(found.qkv, expected));
        EXPECT_TRUE(identical(found.mask, separate.mask));
        Tensor leaf = qkv.clone().requires_grad_();
        const Tensor y = scaled_dot_product_attention_packed(leaf, heads, mask, causal);
        const Tensor recorded = grad(y, {leaf}, {.grad_outputs = {g}})[0];
        expect_near(recorded, expected, 2 * tolerance_of(dtype));
        // A view: the columns of a wider tensor.
        const Tensor wide = concatenate({qkv, qkv}, 2);
        EXPECT_TRUE(identical(
            scaled_dot_product_attention_packed(wide.slice(2, 0, qkv.size(2)), heads, mask, causal),
            scaled_dot_product_attention_packed(qkv, heads, mask, causal)));
      }
    }
  }
}

TEST(PackedAttention, NeedsNoMemoryForCopies) {
  const Tensor qkv = draw::uniform({2, 256, 3 * 128}, -1, 1, 1).to(DType::float32);
  const auto peak = [](const auto& call) {
    const std::size_t before = memory_stats().allocated_bytes;
    reset_peak_memory_stats();
    call();
    return memory_stats().peak_allocated_bytes - before;
  };
  const std::size_t packed = peak([&] { scaled_dot_product_attention_packed(qkv, 4); });
  const auto [q, k, v] = unpacked(qkv, 4);
  const std::size_t separate =
      peak([&, q = q, k = k, v = v] { scaled_dot_product_attention(q, k, v); });
  EXPECT_LE(packed, separate);
}

TEST(PackedAttention, WrongArgumentsAreRefused) {
  const Tensor qkv = ones({2, 4, 12});
  EXPECT_THROW(scaled_dot_product_attention_packed(qkv, 3), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention_packed(ones({2, 4, 13}), 1), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention_packed(ones({4, 12}), 1), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention_packed(qkv, 0), ValueError);
  EXPECT_THROW(scaled_dot_product_attention_packed(qkv, -2), ValueError);
  EXPECT_THROW(scaled_dot_product_attention_packed(qkv.to(DType::int32), 2), DTypeError);
  EXPECT_THROW(scaled_dot_product_attention_packed(qkv, 2, ones({3, 4})), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention_packed(qkv, 2, {}, false, infinity), ValueError);
  EXPECT_THROW(scaled_dot_product_attention_packed_backward(ones({2, 4, 12}), qkv, 2), ShapeError);
  EXPECT_THROW(
      scaled_dot_product_attention_packed_backward(ones({2, 4, 4}), qkv, 2, {}, false, {}, true),
      ValueError);
}

}  // namespace
}  // namespace extensor
