// Invalid input to attention: masks, special values, and operands that do not fit together.
#include <limits>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

CHILD_TEST(BadInputAttention, Item67FullyMaskedRowGivesZero) {
  const float hidden = -std::numeric_limits<float>::infinity();
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor q = ones({2, 3}, dtype), k = ones({4, 3}, dtype), v = full({4, 2}, 5, dtype);
    const Tensor taken = tensor({{false, false, false, false}, {true, true, false, true}});
    const Tensor added =
        tensor({{hidden, hidden, hidden, hidden}, {0.0F, 0.0F, hidden, 0.0F}}).to(dtype);
    for (const Tensor& mask : {taken, added}) {
      { const Tensor dirty = full({2, 2}, 1, dtype); }
      EXPECT_EQ(scaled_dot_product_attention(q, k, v, mask).to(float64).to_vector<double>(),
                (std::vector<double>{0, 0, 5, 5}));
      const AttentionGradients gradients =
          scaled_dot_product_attention_backward(ones({2, 2}, dtype), q, k, v, mask);
      EXPECT_EQ(gradients.q[0].to(float64).to_vector<double>(), std::vector<double>(3, 0.0));
      EXPECT_EQ(gradients.v[2].to(float64).to_vector<double>(), std::vector<double>(2, 0.0));
    }
    // Invisible keys do not affect a row.
    const Tensor infinite = full({4, 2}, 1, float32).to(dtype) / 0.0;
    EXPECT_EQ(scaled_dot_product_attention(q, k, infinite, zeros({2, 4}, bool_))
                  .to(float64)
                  .to_vector<double>(),
              std::vector<double>(4, 0.0));
  }
}

CHILD_TEST(BadInputAttention, Item68SequenceLengthZero) {
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    const auto values = [](const Tensor& x) { return x.to(float64).to_vector<double>(); };
    { const Tensor dirty = full({2, 3, 5}, 1, dtype); }
    const AttentionResult no_keys = scaled_dot_product_attention_with_logsumexp(
        ones({2, 3, 4}, dtype), zeros({2, 0, 4}, dtype), zeros({2, 0, 5}, dtype));
    EXPECT_EQ(no_keys.output.shape(), (Shape{2, 3, 5}));
    EXPECT_EQ(values(no_keys.output), std::vector<double>(30, 0.0));
    EXPECT_EQ(values(no_keys.logsumexp),
              std::vector<double>(6, -std::numeric_limits<double>::infinity()));
    const AttentionGradients from_none = scaled_dot_product_attention_backward(
        ones({2, 3, 5}, dtype), ones({2, 3, 4}, dtype), zeros({2, 0, 4}, dtype),
        zeros({2, 0, 5}, dtype), zeros({3, 0}, bool_), true);
    EXPECT_EQ(values(from_none.q), std::vector<double>(24, 0.0));
    EXPECT_EQ(from_none.k.shape(), (Shape{2, 0, 4}));
    EXPECT_EQ(from_none.v.shape(), (Shape{2, 0, 5}));

    const Tensor no_queries = scaled_dot_product_attention(
        zeros({2, 0, 4}, dtype), ones({2, 3, 4}, dtype), ones({2, 3, 5}, dtype));
    EXPECT_EQ(no_queries.shape(), (Shape{2, 0, 5}));
    { const Tensor dirty = full({2, 3, 4}, 1, dtype); }
    const AttentionGradients to_none =
        scaled_dot_product_attention_backward(zeros({2, 0, 5}, dtype), zeros({2, 0, 4}, dtype),
                                              ones({2, 3, 4}, dtype), ones({2, 3, 5}, dtype));
    EXPECT_EQ(to_none.q.shape(), (Shape{2, 0, 4}));
    EXPECT_EQ(values(to_none.k), std::vector<double>(24, 0.0));
    EXPECT_EQ(values(to_none.v), std::vector<double>(30, 0.0));
  }
}

CHILD_TEST(BadInputAttention, Item79GradOutputOfTheWrongShape) {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4}), v = ones({2, 5, 6});
  for (const Shape& wrong : {Shape{2, 3, 4}, Shape{2, 5, 6}, Shape{3, 6}, Shape{1, 3, 6}, Shape{},
                             Shape{2, 3, 6, 1}, Shape{0}}) {
    const Tensor g = ones(wrong);
    expect_error<ShapeError>([&] { scaled_dot_product_attention_backward(g, q, k, v); },
                             {"scaled_dot_product_attention_backward",
                              "grad_output is " + to_string(wrong), "[2, 3, 6]"},
                             {g, q, k, v});
  }
  const Tensor integers = ones({2, 3, 6}, int64);
  expect_error<DTypeError>([&] { scaled_dot_product_attention_backward(integers, q, k, v); },
                           {"scaled_dot_product_attention_backward", "grad_output", "int64"},
                           {integers, q, k, v});
}

CHILD_TEST(BadInputAttention, SavedResultsOfTheWrongShape) {
  const Tensor q = ones({3, 4}), k = ones({5, 4}), v = ones({5, 6}), g = ones({3, 6});
  const AttentionResult output{ones({3, 4}), ones({3})}, logsumexp{ones({3, 6}), ones({3, 1})};
  const auto backward = [&](const AttentionResult& saved) {
    scaled_dot_product_attention_backward(g, q, k, v, {}, false, {}, saved);
  };
  expect_error<ShapeError>([&] { backward(output); }, {"saved.output is [3, 4]", "[3, 6]"},
                           {q, k, v, g});
  expect_error<ShapeError>([&] { backward(logsumexp); }, {"saved.logsumexp is [3, 1]", "[3]"},
                           {q, k, v, g});
}

CHILD_TEST(BadInputAttention, LengthsOfKeysAndValuesDiffer) {
  const Tensor q = ones({3, 4}), k = ones({5, 4}), v = ones({6, 4}), g = ones({3, 4});
  expect_error<ShapeError>(
      [&] { scaled_dot_product_attention(q, k, v); },
      {"scaled_dot_product_attention: key and value lengths differ", "k is [5, 4]", "v is [6, 4]"},
      {q, k, v});
  expect_error<ShapeError>([&] { scaled_dot_product_attention_backward(g, q, k, v); },
                           {"scaled_dot_product_attention_backward: key and value lengths differ"},
                           {q, k, v, g});
}

CHILD_TEST(BadInputAttention, HeadSizesDiffer) {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 8}), v = ones({2, 5, 8});
  expect_error<ShapeError>([&] { scaled_dot_product_attention(q, k, v); },
                           {"head sizes differ", "q is [2, 3, 4]", "k is [2, 5, 8]"}, {q, k, v});
}

CHILD_TEST(BadInputAttention, TooFewDimensions) {
  const Tensor matrix = ones({3, 4}), vector = ones({4}), number = scalar(1.0);
  expect_error<ShapeError>([&] { scaled_dot_product_attention(vector, matrix, matrix); },
                           {"q is [4]", "two dimensions"}, {vector, matrix});
  expect_error<ShapeError>([&] { scaled_dot_product_attention(matrix, number, matrix); },
                           {"k is []", "two dimensions"}, {number, matrix});
  expect_error<ShapeError>([&] { scaled_dot_product_attention(matrix, matrix, vector); },
                           {"v is [4]", "two dimensions"}, {vector, matrix});
}

CHILD_TEST(BadInputAttention, BatchDimensionsThatDoNotBroadcast) {
  const Tensor q = ones({2, 3, 4}), k = ones({3, 5, 4}), v = ones({3, 5, 4}), one = ones({2, 5, 4});
  expect_error<ShapeError>(
      [&] { scaled_dot_product_attention(q, k, v); },
      {"batch dimensions do not broadcast", "q is [2, 3, 4]", "k is [3, 5, 4]"}, {q, k, v});
  expect_error<ShapeError>([&] { scaled_dot_product_attention(q, one, v); },
                           {"batch dimensions do not broadcast", "v is [3, 5, 4]"}, {q, one, v});
}

CHILD_TEST(BadInputAttention, MasksThatDoNotBroadcast) {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4}), v = ones({2, 5, 4});
  for (const Shape& wrong : {Shape{3, 4}, Shape{5, 3}, Shape{3, 3, 5}, Shape{4}, Shape{0, 5},
                             Shape{2, 2, 3, 5}, Shape{1, 2, 3, 5}}) {
    const Tensor mask = ones(wrong, bool_);
    expect_error<ShapeError>([&] { scaled_dot_product_attention(q, k, v, mask); },
                             {"mask is " + to_string(wrong), "[2, 3, 5]"}, {q, k, v, mask});
  }
}

CHILD_TEST(BadInputAttention, IntegersHaveNoAttention) {
  const Tensor q = ones({3, 4}), integers = ones({3, 4}, int32), flags = ones({3, 4}, bool_);
  expect_error<DTypeError>([&] { scaled_dot_product_attention(integers, q, q); },
                           {"scaled_dot_product_attention", "q is int32"}, {q, integers});
  expect_error<DTypeError>([&] { scaled_dot_product_attention(q, integers, q); }, {"k is int32"},
                           {q, integers});
  expect_error<DTypeError>([&] { scaled_dot_product_attention(q, q, flags); }, {"v is bool"},
                           {q, flags});
  const Tensor mask = ones({3, 3}, int64);
  expect_error<DTypeError>([&] { scaled_dot_product_attention(q, q, q, mask); },
                           {"mask is int64", "bool"}, {q, mask});
  const Tensor taken = ones({3, 3}, bool_), g = ones({3, 4});
  expect_error<DTypeError>(
      [&] { scaled_dot_product_attention_backward(g, q, q, q, taken, false, {}, {}, true); },
      {"mask is bool"}, {q, g, taken});
  expect_error<ValueError>(
      [&] { scaled_dot_product_attention_backward(g, q, q, q, {}, false, {}, {}, true); },
      {"mask_gradient", "no mask"}, {q, g});
}

CHILD_TEST(BadInputAttention, ScalesThatAreNotFinite) {
  const Tensor q = ones({3, 4});
  for (double scale :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    expect_error<ValueError>([&] { scaled_dot_product_attention(q, q, q, {}, false, scale); },
                             {"scaled_dot_product_attention: scale is", "finite"}, {q});
  }
}

CHILD_TEST(BadInputAttention, UndefinedOperands) {
  const Tensor q = ones({3, 4}), none;
  expect_error<ValueError>([&] { scaled_dot_product_attention(none, q, q); }, {}, {q});
  expect_error<ValueError>([&] { scaled_dot_product_attention_backward(none, q, q, q); }, {}, {q});
}

}  // namespace
