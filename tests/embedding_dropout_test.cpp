// Embedding and dropout beyond the op database's samples: many repeats, padding, streaming sizes,
// guarantees of masks, and identical bits for any number of threads.
#include <gtest/gtest.h>

#include "extensor/dropout.h"
#include "extensor/embedding.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using Tensors = std::vector<Tensor>;

constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST(Embedding, EveryDtypeAndLayout) {
  const Tensor table = arange(21).reshape({7, 3}), ids = tensor({{6, 0}, {3, 3}});
  for (DType dtype : {DType::int8, DType::bool_, DType::uint64, DType::float16, DType::float64}) {
    const Tensor weight = table.to(dtype);
    const Tensor expected =
        tensor({18, 19, 20, 0, 1, 2, 9, 10, 11, 9, 10, 11}).reshape({2, 2, 3}).to(dtype);
    EXPECT_TRUE(identical(embedding(weight, ids), expected));
    EXPECT_TRUE(identical(embedding(weight.transpose().contiguous().transpose(), ids), expected));
    EXPECT_TRUE(identical(embedding(weight, ids.transpose().contiguous().transpose()), expected));
    EXPECT_TRUE(identical(embedding(weight, ids.to(DType::uint8)), expected));
  }
}

TEST(Embedding, RepeatsAreSummedAccurately) {
  // 100,000 float32 gradients of one row: sequential addition would be off by 1e-3.
  const std::int64_t n = 100'000;
  const Tensor g = full({n, 3}, 0.1f, DType::float32);
  const Tensor ids = full({n}, 2, DType::int64);
  const auto sums = embedding_backward(g, ids, 4).to_vector<float>();
  for (std::size_t i = 0; i < 12; ++i) {
    if (i / 3 == 2) {
      EXPECT_NEAR(sums[i] / (0.1f * static_cast<double>(n)), 1, 5e-7);
    } else {
      EXPECT_EQ(sums[i], 0);
    }
  }
  const auto halves =
      embedding_backward(full({3000, 2}, 1.0, DType::float16), zeros({3000}, int64), 1);
  EXPECT_EQ(values_of(halves), (std::vector<double>{3000, 3000}));
}

TEST(Embedding, PaddingHasNoGradient) {
  const Tensor ids = tensor({1, 0, 1, 2}), g = ones({4, 2});
  EXPECT_EQ(embedding_backward(g, ids, 3).to_vector<float>(),
            (std::vector<float>{1, 1, 2, 2, 1, 1}));
  EXPECT_EQ(embedding_backward(g, ids, 3, 1).to_vector<float>(),
            (std::vector<float>{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(embedding_backward(g, ids, 3, -1).to_vector<float>(),
            (std::vector<float>{1, 1, 2, 2, 0, 0}));
  EXPECT_THROW(embedding_backward(g, ids, 3, 3), IndexError);
  EXPECT_THROW(embedding_backward(g, ids, 3, -4), IndexError);
}

TEST(Embedding, LargeTablesAreZeroedAndFilled) {
  // Above the size from which rows bypass the caches; odd widths, unaligned rows.
  const std::int64_t rows = 9001, width = 1001;
  const Tensor ids = randint(0, rows, {700});
  const Tensor g = draw::uniform({700, width}, -1, 1, 1).to(DType::float32);
  full({rows, width}, 7.0);  // leaves a freed block that is not 0
  const Tensor table = embedding_backward(g, ids, rows);
  const auto id = ids.to_vector<std::int64_t>();
  std::vector<std::vector<double>> expected(static_cast<std::size_t>(rows));
  const auto values = values_of(g);
  for (std::size_t i = 0; i < id.size(); ++i) {
    auto& row = expected[static_cast<std::size_t>(id[i])];
    row.resize(static_cast<std::size_t>(width));
    for (std::size_t c = 0; c < row.size(); ++c) row[c] += values[i * row.size() + c];
  }
  const float* got = table.data<float>();
  int wrong = 0;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
      const double exact = expected[r].empty() ? 0 : expected[r][c];
      wrong += std::fabs(got[r * static_cast<std::size_t>(width) + c] - exact) > 1e-6;
    }
  }
  EXPECT_EQ(wrong, 0);
  const Tensor back = embedding(table, randint(0, rows, {9000}));
  EXPECT_EQ(back.shape(), (Shape{9000, width}));
}

TEST(Embedding, EmptyInEveryWay) {
  EXPECT_EQ(embedding(zeros({0, 3}), zeros({0}, int64)).shape(), (Shape{0, 3}));
  EXPECT_EQ(embedding(zeros({2, 3}), zeros({0, 4}, int64)).shape(), (Shape{0, 4, 3}));
  EXPECT_EQ(values_of(embedding_backward(zeros({0, 3}), zeros({0}, int64), 2)),
            std::vector<double>(6, 0));
  EXPECT_EQ(embedding_backward(zeros({0, 3}), zeros({0}, int64), 0).shape(), (Shape{0, 3}));
}

TEST(Embedding, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  Generator generator(5);
  const Tensor ids = randint(0, 300, {64, 90}, DType::int64, generator) % 97;
  for (DType dtype : float_dtypes) {
    const Tensor g = draw::uniform({64, 90, 65}, -1, 1, 2).to(dtype);
    set_num_threads(1);
    const Tensor expected = embedding_backward(g, ids, 300);
    for (int threads : {2, 3, 7}) {
      set_num_threads(threads);
      EXPECT_TRUE(identical(embedding_backward(g, ids, 300), expected)) << name(dtype);
    }
  }
  set_num_threads(before);
}

// ---- dropout

TEST(Dropout, DropsTheRightShareAndKeepsTheMean) {
  for (double p : {0.1, 0.5, 0.9}) {
    Generator generator(3);
    const auto [y, mask] = dropout(ones({200'000}), p, true, generator);
    const double dropped = mean(equal(y, 0).to(DType::float64)).item<double>();
    EXPECT_NEAR(dropped, p, 5 * std::sqrt(p * (1 - p) / 200'000));
    EXPECT_NEAR(max_reduce(y).item<float>(), 1 / (1 - p), 1e-5);
    EXPECT_EQ(generator.offset(), 200'000u);
  }
}

TEST(Dropout, TheBackwardUsesTheForwardsMask) {
  Generator generator(3);
  const Tensor x = full({1000}, 2.0), g = full({1000}, 3.0);
  const auto [first, first_mask] = dropout(x, 0.25, true, generator);
  const auto [second, second_mask] = dropout(x, 0.25, true, generator);
  EXPECT_FALSE(identical(first, second));
  EXPECT_TRUE(allclose(dropout_backward(g, first_mask), first * 1.5));
  EXPECT_TRUE(allclose(dropout_backward(g, second_mask), second * 1.5));
}

TEST(Dropout, NothingAndEverything) {
  Generator generator(3);
  const Tensor x = from_data(std::vector<float>{1, NAN, INFINITY});
  for (bool training : {true, false}) {
    const auto [y, mask] = dropout(x, training ? 0 : 0.5, training, generator);
    EXPECT_TRUE(identical(y, x));
    EXPECT_TRUE(identical(dropout_backward(x, mask), x));
  }
  const auto [zero, mask] = dropout(x, 1, true, generator);
  EXPECT_EQ(values_of(zero), std::vector<double>(3, 0));
  EXPECT_EQ(values_of(dropout_backward(x, mask)), std::vector<double>(3, 0));
  EXPECT_EQ(generator.offset(), 0u);
  // A dropped element is 0, whatever its value was.
  Generator other(1);
  const Tensor y = dropout(full({1000}, INFINITY), 0.5, true, other).output;
  EXPECT_FALSE(any(isnan(y)).item<bool>());
  EXPECT_TRUE(any(equal(y, 0)).item<bool>());
  // So close to 1 that no 32-bit draw keeps an element.
  EXPECT_EQ(sum(dropout(ones({1000}), 1 - 1e-12, true, other).output).item<float>(), 0);
}

TEST(Dropout, LayoutsAndThreadsDoNotMatter) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    const Tensor x = draw::uniform({123, 457}, -1, 1, 1).to(dtype);
    const auto run = [&](const Tensor& input) {
      Generator generator(RandomState{7, 2, 5});
      return dropout(input, 0.3, true, generator).output;
    };
    set_num_threads(1);
    const Tensor expected = run(x);
    EXPECT_TRUE(identical(run(x.transpose().contiguous().transpose()), expected));
    for (int threads : {2, 3, 7}) {
      set_num_threads(threads);
      EXPECT_TRUE(identical(run(x), expected)) << name(dtype);
    }
    // The halves drop the same elements, and round each once.
    EXPECT_TRUE(identical(equal(expected, 0), equal(run(x.to(DType::float64)), 0)));
  }
  set_num_threads(before);
}

TEST(Dropout, WantsFloats) { EXPECT_THROW(dropout(ones({3}, DType::int64)), DTypeError); }

}  // namespace
}  // namespace extensor
