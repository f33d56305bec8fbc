// New tensors, random tensors, operators and promotion, compared with expectations written by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace {

using namespace extensor;

constexpr DType every_dtype[] = {bool_,  int8,   int16,   int32,    int64,   uint8,  uint16,
                                 uint32, uint64, float16, bfloat16, float32, float64};
constexpr DType float_dtypes[] = {float16, bfloat16, float32, float64};

std::vector<double> reals(const Tensor& x) { return x.to(float64).to_vector<double>(); }
std::vector<std::int64_t> integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }
using Reals = std::vector<double>;
using Integers = std::vector<std::int64_t>;

// ---- filled and counted

TEST(CreationTest, FilledTensorsOfEveryDtype) {
  for (DType dtype : every_dtype) {
    SCOPED_TRACE(name(dtype));
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 5}, Shape{7, 41}}) {
      EXPECT_EQ(empty(shape, dtype).shape(), shape);
      const Tensor zero = zeros(shape, dtype), one = ones(shape, dtype);
      EXPECT_EQ(zero.dtype(), dtype);
      EXPECT_EQ(one.shape(), shape);
      EXPECT_EQ(reals(zero), Reals(static_cast<std::size_t>(zero.numel()), 0));
      EXPECT_EQ(reals(one), Reals(static_cast<std::size_t>(one.numel()), 1));
      EXPECT_TRUE(one.is_contiguous());
    }
    const Tensor view = zeros({4, 3}, dtype).transpose();
    for (const Tensor& like : {empty_like(view), zeros_like(view), ones_like(view)}) {
      EXPECT_EQ(like.shape(), (Shape{3, 4}));
      EXPECT_EQ(like.dtype(), dtype);
    }
    EXPECT_EQ(zeros_like(view, float64).dtype(), float64);
    EXPECT_EQ(reals(full_like(view, 1, int16)), Reals(12, 1));
  }
  EXPECT_EQ(zeros({1}).dtype(), float32);
  EXPECT_EQ(full({1}, 1).dtype(), int64);
  EXPECT_EQ(full({1}, 1.0).dtype(), float32);
  EXPECT_EQ(full({1}, true).dtype(), bool_);
  EXPECT_EQ(full({1}, UINT64_MAX).dtype(), uint64);
  EXPECT_EQ(full({2}, INT64_MIN).to_vector<std::int64_t>(), Integers(2, INT64_MIN));
  EXPECT_EQ(full({1}, 0.1, float64).item<double>(), 0.1);
  EXPECT_EQ(scalar(2.5).ndim(), 0);
  EXPECT_EQ(scalar(7, float16).item<float>(), 7);
}

TEST(CreationTest, ArangeOfIntegers) {
  EXPECT_EQ(integers(arange(4)), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(integers(arange(2, 9, 3)), (Integers{2, 5, 8}));
  EXPECT_EQ(integers(arange(2, 8, 3)), (Integers{2, 5}));
  EXPECT_EQ(integers(arange(5, -4, -4)), (Integers{5, 1, -3}));
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_EQ(arange(-3).numel(), 0);
  EXPECT_EQ(arange(0, 5, -1).numel(), 0);
  EXPECT_EQ(integers(arange(INT64_MAX - 2, INT64_MAX)), (Integers{INT64_MAX - 2, INT64_MAX - 1}));
  EXPECT_EQ(integers(arange(INT64_MIN, INT64_MAX, INT64_MAX)),
            (Integers{INT64_MIN, -1, INT64_MAX - 1}));
  EXPECT_EQ(integers(arange(INT64_MAX, INT64_MIN, INT64_MIN)), (Integers{INT64_MAX, -1}));
  EXPECT_EQ(integers(arange(0, 10, INT64_MAX)), (Integers{0}));
  EXPECT_EQ(arange(3).dtype(), int64);
  EXPECT_EQ(arange(3, uint8).dtype(), uint8);
  EXPECT_EQ(reals(arange(3, float16)), (Reals{0, 1, 2}));
}

TEST(CreationTest, ArangeOfReals) {
  EXPECT_EQ(reals(arange(0.0, 1.0, 0.25)), (Reals{0, .25, .5, .75}));
  EXPECT_EQ(reals(arange(1, -0.5, -0.5)), (Reals{1, .5, 0}));
  EXPECT_EQ(arange(0.0, 1.0, 0.1, float64).numel(), 10);
  const Tensor tenths = arange(0.0, 100.0, 0.1, float64);
  ASSERT_EQ(tenths.numel(), 1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(tenths[i].item<double>(), i * 0.1);  // no drift
  EXPECT_EQ(arange(2.5).dtype(), float32);
  EXPECT_EQ(reals(arange(2.5)), (Reals{0, 1, 2}));
  EXPECT_EQ(arange(3.0, 0.0).numel(), 0);
}

TEST(CreationTest, Linspace) {
  EXPECT_EQ(reals(linspace(0, 1, 5)), (Reals{0, .25, .5, .75, 1}));
  EXPECT_EQ(reals(linspace(0, 1, 4, float32, false)), (Reals{0, .25, .5, .75}));
  EXPECT_EQ(reals(linspace(3, -1, 3)), (Reals{3, 1, -1}));
  EXPECT_EQ(reals(linspace(7, 9, 1)), (Reals{7}));
  EXPECT_EQ(linspace(7, 9, 0).numel(), 0);
  EXPECT_EQ(linspace(0, 0.3, 1001, float64)[1000].item<double>(), 0.3);  // the end is exact
  EXPECT_EQ(reals(linspace(0, 4, 3, int32)), (Reals{0, 2, 4}));
  EXPECT_EQ(reals(linspace(-1e308, 1e308, 3, float64)), (Reals{-1e308, 0, 1e308}));
}

TEST(CreationTest, EyeWithDiagonals) {
  for (std::int64_t rows : {0, 1, 3, 5}) {
    for (std::int64_t columns : {0, 1, 4, 5}) {
      for (std::int64_t diagonal : {INT64_MIN, std::int64_t{-5}, std::int64_t{-2}, std::int64_t{0},
                                    std::int64_t{1}, std::int64_t{4}, INT64_MAX}) {
        const Tensor x = eye(rows, columns, diagonal, int64);
        ASSERT_EQ(x.shape(), (Shape{rows, columns}));
        Integers expected;
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) expected.push_back(j - i == diagonal);
        }
        EXPECT_EQ(integers(x), expected) << rows << " " << columns << " " << diagonal;
      }
    }
  }
  EXPECT_EQ(reals(eye(2)), (Reals{1, 0, 0, 1}));
  EXPECT_EQ(eye(3, {}, 0, bool_).dtype(), bool_);
}

TEST(CreationTest, TrianglesOfBatches) {
  for (DType dtype : every_dtype) {
    const Tensor x = ones({2, 3, 4, 5}, dtype);
    for (std::int64_t diagonal : {INT64_MIN, std::int64_t{-4}, std::int64_t{-1}, std::int64_t{0},
                                  std::int64_t{2}, INT64_MAX}) {
      Reals lower, upper;
      for (int batch = 0; batch < 6; ++batch) {
        for (std::int64_t i = 0; i < 4; ++i) {
          for (std::int64_t j = 0; j < 5; ++j) {
            lower.push_back(j - i <= diagonal);
            upper.push_back(j - i >= diagonal);
          }
        }
      }
      EXPECT_EQ(reals(tril(x, diagonal)), lower) << name(dtype) << " " << diagonal;
      EXPECT_EQ(reals(triu(x, diagonal)), upper) << name(dtype) << " " << diagonal;
    }
    EXPECT_EQ(tril(x).dtype(), dtype);
  }
  EXPECT_EQ(tril(zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_THROW(tril(arange(3)), ShapeError);
}

TEST(CreationTest, MeshgridInBothIndexings) {
  const Tensor x = tensor({1, 2, 3}), y = tensor({10, 20}), z = tensor({7});
  const auto xy = meshgrid({x, y});
  ASSERT_EQ(xy.size(), 2U);
  EXPECT_EQ(xy[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(integers(xy[0]), (Integers{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(integers(xy[1]), (Integers{10, 10, 10, 20, 20, 20}));
  const auto ij = meshgrid({x, y, z}, false);
  ASSERT_EQ(ij.size(), 3U);
  EXPECT_EQ(ij[0].shape(), (Shape{3, 2, 1}));
  EXPECT_EQ(integers(ij[0]), (Integers{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(integers(ij[1]), (Integers{10, 20, 10, 20, 10, 20}));
  EXPECT_EQ(integers(ij[2]), Integers(6, 7));
  EXPECT_EQ(meshgrid({x, y, z}, true)[0].shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(meshgrid({x}).front().shape(), (Shape{3}));
  EXPECT_TRUE(meshgrid({}).empty());
  EXPECT_THROW(meshgrid({ones({2, 2})}), ShapeError);
}

// ---- from data

TEST(CreationTest, FromLiterals) {
  EXPECT_EQ(tensor({1, 2, 3}).dtype(), int64);
  EXPECT_EQ(tensor({1.5, 2.0}).dtype(), float32);
  EXPECT_EQ(tensor({true, false}).dtype(), bool_);
  EXPECT_EQ(tensor({1, 2}, float16).dtype(), float16);
  EXPECT_EQ(tensor({0.1}, float64).item<double>(), 0.1);
  const Tensor matrix = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.shape(), (Shape{2, 3}));
  EXPECT_EQ(integers(matrix), (Integers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({{true, false}}).dtype(), bool_);
  EXPECT_EQ(reals(tensor({{1.9, -1.9}}, int8)), (Reals{1, -1}));
  EXPECT_THROW(tensor({{1, 2}, {3}}), ShapeError);
}

TEST(CreationTest, FromVectorsCopies) {
  std::vector<std::int16_t> values = {1, -2, 3, -4};
  const Tensor x = from_data(values, {2, 2});
  values[0] = 99;
  EXPECT_EQ(x.dtype(), int16);
  EXPECT_EQ(reals(x), (Reals{1, -2, 3, -4}));
  EXPECT_EQ(from_data(std::vector<float>{}, {0, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(from_data(std::vector<double>{1, 2}).shape(), (Shape{2}));
  EXPECT_EQ(from_data(std::vector<bool>{true, false, true}, {3}).to_vector<bool>(),
            (std::vector<bool>{true, false, true}));
  const std::vector<Float16> halves = {Float16(1.5F), Float16(-0.25F)};
  EXPECT_EQ(reals(from_data(halves)), (Reals{1.5, -0.25}));
}

TEST(CreationTest, ExternalMemoryWithStrides) {
  std::vector<float> memory(12);
  for (std::size_t k = 0; k < memory.size(); ++k) memory[k] = static_cast<float>(k);
  int released = 0;
  const auto count = [](void* context) { ++*static_cast<int*>(context); };
  {
    // The columns 3, 1 of a 3 × 4 matrix, as [2, 3].
    Tensor x = from_external(memory.data() + 3, float32, {2, 3}, {-2, 4}, count, &released);
    EXPECT_EQ(reals(x), (Reals{3, 7, 11, 1, 5, 9}));
    EXPECT_EQ(x.impl().storage->data, memory.data() + 1);
    EXPECT_EQ(x.impl().storage->bytes, 11 * sizeof(float));
    x[{1, 2}] = 50;
    EXPECT_EQ(memory[9], 50);
    const Tensor view = x[0];
    x = Tensor();
    EXPECT_EQ(released, 0);
    EXPECT_EQ(reals(view), (Reals{3, 7, 11}));
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(reals(from_external(memory.data(), float32, {2, 2}, {0, 1})), (Reals{0, 1, 0, 1}));
  EXPECT_EQ(from_external(memory.data(), float32, {0, 2}, {5, -7}).numel(), 0);
  EXPECT_EQ(from_external(memory.data() + 5, float32, {}, {}).item<float>(), 5);
  EXPECT_THROW(from_external(memory.data(), float32, {2, 2}, {1}), ShapeError);
  EXPECT_THROW(from_external(memory.data(), float32, {2, 2}, {std::int64_t{1} << 62, 1}),
               ShapeError);
}

TEST(CreationTest, ReadOnlyMemoryIsNotWritten) {
  const std::vector<float> memory{1, 2, 3, 4};
  Tensor x = from_external(memory.data(), float32, {2, 2}, {2, 1});
  EXPECT_EQ(reals(x + 1), (Reals{2, 3, 4, 5}));
  Tensor row = x[0];
  const Tensor mask = x > 1;
  EXPECT_THROW(x += 1, ValueError);
  EXPECT_THROW(x.fill(0), ValueError);
  EXPECT_THROW(x.copy_from(zeros({2, 2})), ValueError);
  EXPECT_THROW(relu_(row), ValueError);
  EXPECT_THROW(row.fill(0), ValueError);
  EXPECT_THROW(x[mask] = 0, ValueError);
  EXPECT_THROW(x.reshape({4})[0] = 7, ValueError);
  EXPECT_THROW(sgd_step(x, ones({2, 2})), ValueError);
  Tensor copy = x.clone();
  copy += 1;
  EXPECT_EQ(reals(copy), (Reals{2, 3, 4, 5}));
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3, 4}));
  // backward() adds to grad() in place.
  Tensor w = zeros({2, 2}).requires_grad_();
  w.set_grad(x);
  EXPECT_THROW(w.backward(ones({2, 2})), ValueError);
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3, 4}));
}

TEST(CreationTest, ExternalMemoryIsSharedAndGivenBackOnce) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  int released = 0;
  const auto release = [](void* context) { ++*static_cast<int*>(context); };
  Tensor view;
  {
    Tensor x = from_external(memory.data(), float32, {2, 3}, release, &released);
    EXPECT_EQ(x.data<float>(), memory.data());
    x += 1;
    EXPECT_EQ(memory, (std::vector<float>{2, 3, 4, 5, 6, 7}));
    view = x[1];
  }
  EXPECT_EQ(released, 0);
  memory[3] = 50;
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{50, 6, 7}));
  view = Tensor();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(memory[3], 50);
  { const Tensor none = from_external(nullptr, float64, {0}, release, &released); }
  EXPECT_EQ(released, 2);
}

// ---- operators and promotion

TEST(OperatorTest, EveryOperator) {
  const Tensor a = tensor({7, -7, 4}), b = tensor({2, 2, 4});
  EXPECT_EQ(integers(a + b), (Integers{9, -5, 8}));
  EXPECT_EQ(integers(a - b), (Integers{5, -9, 0}));
  EXPECT_EQ(integers(a * b), (Integers{14, -14, 16}));
  EXPECT_EQ(reals(a / b), (Reals{3.5, -3.5, 1}));
  EXPECT_EQ((a / b).dtype(), float32);
  EXPECT_EQ(integers(a % b), (Integers{1, 1, 0}));  // the divisor's sign
  EXPECT_EQ(integers(a % -2), (Integers{-1, -1, 0}));
  EXPECT_EQ(integers(a & b), (Integers{2, 0, 4}));
  EXPECT_EQ(integers(a | b), (Integers{7, -5, 4}));
  EXPECT_EQ(integers(a ^ b), (Integers{5, -5, 0}));
  EXPECT_EQ(integers(a << b), (Integers{28, -28, 64}));
  EXPECT_EQ(integers(a >> 1), (Integers{3, -4, 2}));
  EXPECT_EQ(reals(a == b), (Reals{0, 0, 1}));
  EXPECT_EQ(reals(a != b), (Reals{1, 1, 0}));
  EXPECT_EQ(reals(a < b), (Reals{0, 1, 0}));
  EXPECT_EQ(reals(a <= b), (Reals{0, 1, 1}));
  EXPECT_EQ(reals(a > b), (Reals{1, 0, 0}));
  EXPECT_EQ(reals(a >= 4), (Reals{1, 0, 1}));
  EXPECT_EQ(integers(10 - a), (Integers{3, 17, 6}));
  EXPECT_EQ(reals(14 / a), (Reals{2, -2, 3.5}));
  EXPECT_EQ(integers(-a), (Integers{-7, 7, -4}));
  EXPECT_EQ(integers(+a), integers(a));
  EXPECT_EQ(integers(~a), (Integers{-8, 6, -5}));
  EXPECT_EQ(reals(!tensor({0, 3})), (Reals{1, 0}));
}

TEST(OperatorTest, ScalarsAreWeak) {
  for (DType dtype : float_dtypes) {
    const Tensor x = ones({2}, dtype);
    EXPECT_EQ((x * 2.5).dtype(), dtype);
    EXPECT_EQ((x + 1).dtype(), dtype);
    EXPECT_EQ((true + x).dtype(), dtype);
  }
  for (DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    const Tensor x = ones({2}, dtype);
    EXPECT_EQ((x + 1).dtype(), dtype);
    EXPECT_EQ((2 * x).dtype(), dtype);
    EXPECT_EQ((x + true).dtype(), dtype);
    EXPECT_EQ((x * 0.5).dtype(), float32);
    EXPECT_EQ(reals(x * 0.5), (Reals{.5, .5}));
    EXPECT_EQ((x == 1).dtype(), bool_);
  }
  const Tensor truth = tensor({true, false});
  EXPECT_EQ((truth + 1).dtype(), int64);
  EXPECT_EQ((truth * 0.5).dtype(), float32);
  // A float64 tensor uses all digits of a scalar; a 0-d tensor is not weak.
  EXPECT_EQ((ones({1}, float64) * 0.1).item<double>(), 0.1);
  EXPECT_EQ((ones({2}, float16) + scalar(1.0)).dtype(), float32);
}

TEST(OperatorTest, ComparisonsUseTheNumberItself) {
  const Tensor small = tensor({-128, 0, 127}, int8), natural = tensor({0, 255}, uint8);
  EXPECT_EQ(reals(small < 1000), (Reals{1, 1, 1}));
  EXPECT_EQ(reals(small > -1000), (Reals{1, 1, 1}));
  EXPECT_EQ(reals(small == 384), (Reals{0, 0, 0}));  // not modulo 256
  EXPECT_EQ(reals(natural > -1), (Reals{1, 1}));
  EXPECT_EQ(reals(natural < 0.5), (Reals{1, 0}));
  const Tensor large = full({2}, UINT64_MAX);
  EXPECT_EQ(reals(large > -1), (Reals{1, 1}));
  EXPECT_EQ(reals(large == UINT64_MAX), (Reals{1, 1}));
  EXPECT_EQ(reals(large == INT64_MAX), (Reals{0, 0}));
  EXPECT_EQ(reals(full({1}, INT64_MAX) < UINT64_MAX), (Reals{1}));
  EXPECT_EQ(reals(full({1}, INT64_MAX) == (std::uint64_t{1} << 63)), (Reals{0}));
  EXPECT_EQ(reals(full({1}, INT64_MAX - 1) == INT64_MAX), (Reals{0}));
}

TEST(OperatorTest, ANumberBesideAHalfIsRoundedLikeOne) {
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = full({3}, 0.1, dtype);
    EXPECT_EQ(reals(x == 0.1), Reals(3, 1));
    EXPECT_EQ(reals(0.1 != x), Reals(3, 0));
    EXPECT_EQ(reals(x >= 0.1), Reals(3, 1));
    EXPECT_EQ(reals(x > 0.1), Reals(3, 0));
  }
  // Unless nothing of it would remain.
  EXPECT_EQ(reals(full({1}, 1e30, float16) == 1e30), Reals(1, 0));
}

TEST(OperatorTest, DtypesOfTensorsPromote) {
  EXPECT_EQ((ones({1}, int8) + ones({1}, uint8)).dtype(), int16);
  EXPECT_EQ((ones({1}, float16) + ones({1}, bfloat16)).dtype(), float32);
  EXPECT_EQ((ones({1}, int64) + ones({1}, float16)).dtype(), float16);
  EXPECT_EQ((ones({1}, bool_) + ones({1}, uint16)).dtype(), uint16);
  EXPECT_EQ((ones({1}, bool_) + ones({1}, bool_)).dtype(), bool_);
  EXPECT_EQ((ones({1}, uint32) * ones({1}, int32)).dtype(), int64);
  EXPECT_THROW(ones({1}, uint64) + ones({1}, int8), DTypeError);
}

TEST(OperatorTest, Prints) {
  std::ostringstream text;
  text << tensor({{1, 2}, {3, 4}}) << ' ' << scalar(true) << ' ' << zeros({0});
  EXPECT_NE(text.str().find("[[1 2]\n [3 4]]"), std::string::npos) << text.str();
  EXPECT_NE(to_string(arange(100000)).find("..."), std::string::npos);
  EXPECT_LT(to_string(arange(100000)).size(), 1000U);
}

// ---- random

// Every kind of draw, from a generator.
using Draw = std::function<Tensor(const Shape&, Generator&)>;
std::vector<std::pair<std::string, Draw>> every_draw() {
  std::vector<std::pair<std::string, Draw>> draws;
  for (DType dtype : float_dtypes) {
    draws.emplace_back(std::string("rand ") + name(dtype),
                       [=](const Shape& s, Generator& g) { return rand(s, dtype, g); });
    draws.emplace_back(std::string("randn ") + name(dtype),
                       [=](const Shape& s, Generator& g) { return randn(s, dtype, g); });
  }
  for (DType dtype : {int8, uint16, int64}) {
    draws.emplace_back(std::string("randint ") + name(dtype),
                       [=](const Shape& s, Generator& g) { return randint(0, 100, s, dtype, g); });
  }
  draws.emplace_back("bernoulli",
                     [](const Shape& s, Generator& g) { return bernoulli(0.5, s, uint8, g); });
  return draws;
}

TEST(RandomTest, AFunctionOfSeedStreamAndOffset) {
  for (const auto& [what, draw] : every_draw()) {
    SCOPED_TRACE(what);
    Generator first(42), again(42), other_seed(43), other_stream(42, 1), later(42);
    const Reals values = reals(draw({1000}, first));
    EXPECT_EQ(reals(draw({10, 100}, again)), values);  // for any shape
    EXPECT_EQ(first.offset(), 1000U);
    EXPECT_NE(reals(draw({1000}, other_seed)), values);
    EXPECT_NE(reals(draw({1000}, other_stream)), values);
    EXPECT_NE(reals(draw({1000}, first)), values);
    later.advance(333);
    EXPECT_EQ(reals(draw({667}, later)), Reals(values.begin() + 333, values.end()));
  }
}

TEST(RandomTest, SplittingACallChangesNothing) {
  for (const auto& [what, draw] : every_draw()) {
    SCOPED_TRACE(what);
    Generator whole(9), parts(9);
    const Reals expected = reals(draw({20011}, whole));
    Reals joined;
    for (std::int64_t length : {0, 1, 2, 3, 5, 4096, 7, 8192, 7705}) {
      const Reals part = reals(draw({length}, parts));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, expected);
    EXPECT_EQ(parts.state(), whole.state());
  }
}

TEST(RandomTest, TheNumberOfThreadsChangesNothing) {
  const int before = get_num_threads();
  for (const auto& [what, draw] : every_draw()) {
    SCOPED_TRACE(what);
    Reals expected;
    for (int threads : {1, 2, 3, 4}) {
      set_num_threads(threads);
      Generator generator(1234);
      const Reals values = reals(draw({50021}, generator));
      if (threads == 1) expected = values;
      EXPECT_EQ(values, expected) << threads << " threads";
    }
  }
  set_num_threads(before);
}

TEST(RandomTest, TheDefaultGenerator) {
  manual_seed(5);
  const Reals values = reals(rand({10}));
  manual_seed(5);
  EXPECT_EQ(reals(rand({10})), values);
  Generator same(5);
  EXPECT_EQ(reals(rand({10}, float32, same)), values);
}

struct Moments {
  double mean = 0, variance = 0, neighbours = 0;  // correlation of each draw with the next
};
Moments moments(const Reals& values) {
  Moments result;
  const auto n = static_cast<double>(values.size());
  for (double value : values) result.mean += value / n;
  for (double value : values) result.variance += (value - result.mean) * (value - result.mean) / n;
  for (std::size_t i = 1; i < values.size(); ++i) {
    result.neighbours += (values[i] - result.mean) * (values[i - 1] - result.mean) / n;
  }
  result.neighbours /= result.variance;
  return result;
}

// Σ (count − expected)² / expected over equally likely bins, in standard deviations from its mean.
double chi_square_excess(const std::vector<std::int64_t>& counts) {
  double total = 0, statistic = 0;
  for (std::int64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  for (std::int64_t count : counts) {
    const double distance = static_cast<double>(count) - expected;
    statistic += distance * distance / expected;
  }
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (statistic - freedom) / std::sqrt(2 * freedom);
}

// The largest distance to a distribution function, times √n; above 1.95 once in a thousand.
template <class Distribution>
double kolmogorov_smirnov(Reals values, Distribution&& distribution) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = distribution(values[i]);
    distance = std::max({distance, expected - static_cast<double>(i) / n,
                         static_cast<double>(i + 1) / n - expected});
  }
  return distance * std::sqrt(n);
}

TEST(RandomTest, UniformDraws) {
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    Generator generator(2024);
    const Reals values = reals(rand({1000000}, dtype, generator));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    EXPECT_GE(*least, 0);
    EXPECT_LT(*most, 1);
    const double step = dtype == bfloat16 ? 0x1p-8 : dtype == float16 ? 0x1p-11 : 0;
    const Moments m = moments(values);
    EXPECT_NEAR(m.mean, 0.5 - step / 2, 5 * std::sqrt(1.0 / 12 / 1e6));
    EXPECT_NEAR(m.variance, 1.0 / 12, 1e-3);
    EXPECT_NEAR(m.neighbours, 0, 5e-3);
    std::vector<std::int64_t> counts(64, 0);
    for (double value : values) ++counts[static_cast<std::size_t>(value * 64)];
    EXPECT_LT(std::abs(chi_square_excess(counts)), 4);
    if (step == 0) {
      EXPECT_LT(kolmogorov_smirnov(values, [](double x) { return x; }), 1.95);
    }
    const Reals shifted = reals(uniform({10000}, -3, 5, dtype, generator));
    const auto bounds = std::minmax_element(shifted.begin(), shifted.end());
    EXPECT_GE(*bounds.first, -3);
    EXPECT_LE(*bounds.second, 5);
    EXPECT_NEAR(moments(shifted).mean, 1, 5 * 8 / std::sqrt(12 * 1e4) + 8 * step);
  }
}

TEST(RandomTest, NormalDraws) {
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    Generator generator(77);
    const Reals values = reals(randn({400000}, dtype, generator));
    const Moments m = moments(values);
    EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(4e5));
    EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2 / 4e5));
    EXPECT_NEAR(m.neighbours, 0, 5 / std::sqrt(4e5));
    if (!is_half(dtype)) {
      const auto normal_distribution = [](double x) {
        return 0.5 * std::erfc(-x / std::sqrt(2.0));
      };
      EXPECT_LT(kolmogorov_smirnov(values, normal_distribution), 1.95);
    }
    const Moments scaled = moments(reals(normal({100000}, 10, 0.5, dtype, generator)));
    EXPECT_NEAR(scaled.mean, 10, 0.01);
    EXPECT_NEAR(scaled.variance, 0.25, 0.01);
  }
  Generator generator(1);
  EXPECT_EQ(reals(normal({3}, 4, 0, float32, generator)), Reals(3, 4));
}

TEST(RandomTest, IntegerDraws) {
  Generator generator(3);
  for (DType dtype : {int8, int16, int32, int64}) {
    SCOPED_TRACE(name(dtype));
    std::vector<std::int64_t> counts(7, 0);
    for (double value : reals(randint(-3, 4, {700000}, dtype, generator))) {
      ASSERT_GE(value, -3);
      ASSERT_LT(value, 4);
      ++counts[static_cast<std::size_t>(value + 3)];
    }
    EXPECT_LT(std::abs(chi_square_excess(counts)), 4);
  }
  EXPECT_EQ(reals(randint(5, 6, {4}, uint8, generator)), Reals(4, 5));
  EXPECT_EQ(randint(0, 256, {4}, uint8, generator).dtype(), uint8);
  // The widest range: both halves are hit equally often, and so is every top nibble.
  std::vector<std::int64_t> nibbles(16, 0);
  for (std::int64_t value : integers(randint(INT64_MIN, INT64_MAX, {160000}, int64, generator))) {
    ++nibbles[static_cast<std::uint64_t>(value) >> 60];
  }
  EXPECT_LT(std::abs(chi_square_excess(nibbles)), 4);
}

TEST(RandomTest, Permutations) {
  Generator generator(8);
  EXPECT_EQ(randperm(0, generator).numel(), 0);
  for (std::int64_t count : {1, 2, 10, 100000}) {
    Integers order = integers(randperm(count, generator));
    if (count > 10) {
      EXPECT_NE(order, integers(arange(count)));
    }
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, integers(arange(count)));
  }
  // The 24 permutations of four are equally likely.
  std::vector<std::int64_t> counts(24, 0);
  for (int round = 0; round < 24000; ++round) {
    const Integers order = integers(randperm(4, generator));
    std::size_t rank = 0;  // its index among all permutations
    for (std::size_t i = 0; i < 4; ++i) {
      std::size_t smaller = 0;
      for (std::size_t j = i + 1; j < 4; ++j) smaller += order[j] < order[i];
      rank = rank * (4 - i) + smaller;
    }
    ++counts[rank];
  }
  EXPECT_LT(std::abs(chi_square_excess(counts)), 4);
}

TEST(RandomTest, Bernoulli) {
  Generator generator(6);
  for (DType dtype : {bool_, int32, float16, float32}) {
    const Tensor draws = bernoulli(0.3, {200000}, dtype, generator);
    EXPECT_EQ(draws.dtype(), dtype);
    const Reals values = reals(draws);
    for (double value : values) ASSERT_TRUE(value == 0 || value == 1);
    EXPECT_NEAR(moments(values).mean, 0.3, 5 * std::sqrt(0.21 / 2e5));
  }
  EXPECT_EQ(reals(bernoulli(0, {1000}, float32, generator)), Reals(1000, 0));
  EXPECT_EQ(reals(bernoulli(1, {1000}, float32, generator)), Reals(1000, 1));
}

}  // namespace
