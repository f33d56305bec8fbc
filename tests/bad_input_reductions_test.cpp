// Reductions of empty or too short ranges, or along axes that do not exist.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr float infinity = std::numeric_limits<float>::infinity();

bool all_nan(const Tensor& x) { return x.numel() != 0 && all(isnan(x)).item<bool>(); }

CHILD_TEST(BadInputReductions, Item32ArgmaxOfNothing) {
  const Tensor none = zeros({0}), wide = zeros({3, 0});
  expect_error<ValueError>([&] { argmax(none); }, {"argmax", "[0]"}, {none});
  expect_error<ValueError>([&] { argmin(wide, 1); }, {"argmin", "[3, 0]"}, {wide});
  expect_error<ValueError>([&] { argmax(wide, -1, true); }, {"argmax", "[3, 0]"}, {wide});
  expect_error<ValueError>([&] { max_reduce(none); }, {"max_reduce", "[0]"}, {none});
  expect_error<ValueError>([&] { min(wide, 1); }, {"min_reduce", "[3, 0]"}, {wide});
  // The result is empty, so no value is missing.
  EXPECT_EQ(argmax(wide, 0).shape(), (Shape{0}));
  EXPECT_EQ(max_reduce(wide, 0, true).shape(), (Shape{1, 0}));
}

CHILD_TEST(BadInputReductions, Item33MeanOfNothingIsNan) {
  for (DType dtype : {float16, bfloat16, float32, float64, int32, bool_}) {
    SCOPED_TRACE(name(dtype));
    EXPECT_TRUE(all_nan(mean(zeros({0}, dtype))));
    const Tensor rows = mean(zeros({3, 0}, dtype), 1);
    EXPECT_EQ(rows.shape(), (Shape{3}));
    EXPECT_TRUE(all_nan(rows));
    EXPECT_TRUE(all_nan(var(zeros({3, 0}, dtype), 1)));
    EXPECT_TRUE(all_nan(extensor::std(zeros({0}, dtype))));
    EXPECT_EQ(mean(zeros({3, 0}, dtype), 0).shape(), (Shape{0}));
  }
  EXPECT_EQ(sum(zeros({0})).item<float>(), 0.0F);
  EXPECT_EQ(prod(zeros({2, 0}), 1).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(prod(zeros({0}, int8)).item<int>(), 1);
  EXPECT_TRUE(all(zeros({0})).item<bool>());
  EXPECT_FALSE(any(zeros({0})).item<bool>());
  EXPECT_EQ(logsumexp(zeros({0})).item<float>(), -infinity);
  EXPECT_EQ(softmax(zeros({3, 0})).shape(), (Shape{3, 0}));
}

// A broadcast view has more elements than any machine has bytes.
CHILD_TEST(BadInputReductions, ViewsOfMoreElementsThanMemory) {
  constexpr std::int64_t many = std::int64_t{1} << 58;
  const double count = static_cast<double>(many);
  const auto values = [](const Tensor& x) { return x.to(float64).to_vector<double>(); };
  for (const DType dtype : {float32, float64, int64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = tensor({{1}, {2}, {3}}, dtype).broadcast_to({3, many});
    EXPECT_EQ(values(sum(x, 1)), (std::vector<double>{count, 2 * count, 3 * count}));
    EXPECT_EQ(values(sum(x)), std::vector<double>{6 * count});
    EXPECT_EQ(values(mean(x, 1)), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(values(mean(x)), std::vector<double>{2});
    EXPECT_EQ(values(max_reduce(x)), std::vector<double>{3});
    EXPECT_EQ(values(min_reduce(x, 1)), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(values(count_nonzero(x, 1)), std::vector<double>(3, count));
    EXPECT_TRUE(all(x).item<bool>());
    EXPECT_FALSE(any(equal(tensor({0}, dtype), 1).broadcast_to({many})).item<bool>());
    expect_error<OutOfMemoryError>([&] { prod(x); }, {"prod: ", "no room"}, {});
    expect_error<OutOfMemoryError>([&] { argmax(x); }, {"argmax: ", "no room"}, {});
    expect_error<OutOfMemoryError>([&] { (void)(x + x); }, {"add: ", "no room"}, {});
    expect_error<OutOfMemoryError>([&] { x.clone(); }, {"clone: ", "no room"}, {});
  }
  EXPECT_EQ(norm(full({1}, 2.0).broadcast_to({many, 4})).item<float>(), 0x1p31F);
  Tensor leaf = tensor({2.0}).requires_grad_();
  sum(leaf.broadcast_to({many, 2})).backward();
  EXPECT_EQ(leaf.grad().item<float>(), 0x1p59F);
  // Exact for whole numbers, and rounded once.
  EXPECT_EQ(sum(ones({1}, float64).broadcast_to({49})).item<double>(), 49);
  EXPECT_EQ(sum(full({1}, 0.1, float16).broadcast_to({1000})).item<float>(), 100);
  EXPECT_EQ(sum(tensor({true, false, true}).unsqueeze(1).broadcast_to({3, 5})).item<int>(), 10);
  EXPECT_EQ(sum(full({1, 1}, -0.0).broadcast_to({1, 7})).item<float>(), 0);
}

CHILD_TEST(BadInputReductions, Item34TheSameAxisTwice) {
  const Tensor x = ones({2, 3, 4});
  expect_error<ValueError>([&] { sum(x, {1, 1}); }, {"sum", "axis 1", "[1, 1]"}, {x});
  expect_error<ValueError>([&] { mean(x, {0, -3}); }, {"mean", "axis 0", "[0, -3]"}, {x});
  expect_error<ValueError>([&] { max_reduce(x, {2, 0, 2}); }, {"max_reduce", "axis 2"}, {x});
  expect_error<ValueError>([&] { prod(x, {1, 1}); }, {"prod", "axis 1"}, {x});
  expect_error<ValueError>([&] { any(x, {1, -2}); }, {"any", "axis 1"}, {x});
  expect_error<ValueError>([&] { all(x, {1, -2}); }, {"all", "axis 1"}, {x});
  expect_error<ValueError>([&] { var(x, {0, 0}); }, {"var", "axis 0"}, {x});
  expect_error<ValueError>([&] { extensor::std(x, {0, 0}); }, {"std", "axis 0"}, {x});
  expect_error<ValueError>([&] { logsumexp(x, {2, -1}); }, {"logsumexp", "axis 2"}, {x});
  expect_error<ValueError>([&] { sum_backward(x, {2, 3, 4}, {1, 1}); }, {"sum_backward"}, {x});
  EXPECT_EQ(sum(x, {2, 0}).to_vector<float>(), (std::vector<float>{8, 8, 8}));
}

CHILD_TEST(BadInputReductions, Item35VarianceWithTooLargeACorrectionIsNan) {
  const Tensor x = tensor({{1., 2., 4.}, {3., 3., 3.}});
  for (double correction : {3.0, 3.5, 100.0}) {
    EXPECT_TRUE(all_nan(var(x, 1, correction))) << correction;
    EXPECT_TRUE(all_nan(extensor::std(x, 1, correction))) << correction;
  }
  EXPECT_TRUE(all_nan(var(scalar(1.0), {}, 1)));
  expect_error<ValueError>([&] { var(x, 1, -1); }, {"var", "correction", "-1"}, {x});
  expect_error<ValueError>([&] { var(x, 1, std::nan("")); }, {"var", "correction", "nan"}, {x});
  EXPECT_EQ(var(x, 1, 2).to_vector<float>()[1], 0.0F);
  EXPECT_NEAR(var(x, 1, 1).to_vector<float>()[0], 7.0 / 3, 1e-6);
}

CHILD_TEST(BadInputReductions, Item36SoftmaxOfARowOfMinusInfinity) {
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    // As in IEEE: 0 / 0. The sum of such a row is 0, whose logarithm is −∞.
    Tensor x = zeros({3, 37}, dtype);
    x[1].fill(-infinity);
    const Tensor y = softmax(x), log_y = log_softmax(x);
    EXPECT_TRUE(all_nan(y[1]));
    EXPECT_TRUE(all_nan(log_y[1]));
    EXPECT_EQ(logsumexp(x, 1)[1].item<float>(), -infinity);
    for (std::int64_t row : {0, 2}) {
      EXPECT_TRUE(allclose(y[row], full({37}, 1.0 / 37, dtype), 1e-2));
      EXPECT_TRUE(allclose(log_y[row], full({37}, -std::log(37.0), dtype), 1e-2));
    }
    // A single finite number gets all the weight, and a column behaves like a row.
    x[1][5].fill(-1000.0);
    EXPECT_EQ(softmax(x)[1][5].item<float>(), 1.0F);
    EXPECT_EQ(sum(softmax(x)[1]).item<float>(), 1.0F);
    EXPECT_EQ(softmax(x.transpose(), 0)[5][1].item<float>(), 1.0F);
    // +∞ gives ∞ − ∞, too.
    x[2][3].fill(infinity);
    EXPECT_TRUE(isnan(softmax(x)[2][3]).item<bool>());
    EXPECT_EQ(logsumexp(x, 1)[2].item<float>(), infinity);
    x[0][7].fill(std::nan(""));
    EXPECT_TRUE(all_nan(softmax(x)[0]));
    EXPECT_TRUE(all_nan(logsumexp(x, 1)[0]));
  }
}

CHILD_TEST(BadInputReductions, Item38ExtremesOfNan) {
  // The extremes are NaN if an element is, at any position. The indexing tests cover sort.
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    for (std::int64_t at : {0, 1, 15, 16, 63, 64, 1023, 1024, 1999}) {
      Tensor x = arange(2000).to(dtype);
      x[at].fill(std::nan(""));
      EXPECT_TRUE(all_nan(max_reduce(x))) << at;
      EXPECT_TRUE(all_nan(min_reduce(x))) << at;
      EXPECT_EQ(argmax(x).item<std::int64_t>(), at);
      EXPECT_EQ(argmin(x).item<std::int64_t>(), at);
      const Tensor column = x.unsqueeze(1).broadcast_to({2000, 3}).clone();
      EXPECT_TRUE(all_nan(max_reduce(column, 0))) << at;
      EXPECT_EQ(argmin(column, 0).to_vector<std::int64_t>(), std::vector<std::int64_t>(3, at));
    }
  }
}

CHILD_TEST(BadInputReductions, Item39AxisOutOfRange) {
  const Tensor x = ones({2, 3}), number = scalar(1.0);
  for (std::int64_t axis : {std::int64_t{2}, std::int64_t{-3}, INT64_MAX, INT64_MIN}) {
    const std::string text = std::to_string(axis);
    expect_error<IndexError>([&] { sum(x, axis); }, {"sum", text}, {x});
    expect_error<IndexError>([&] { mean(x, {0, axis}); }, {"mean", text}, {x});
    expect_error<IndexError>([&] { argmax(x, axis); }, {"argmax", text}, {x});
    expect_error<IndexError>([&] { max_reduce(x, axis); }, {"max_reduce", text}, {x});
    expect_error<IndexError>([&] { var(x, axis); }, {"var", text}, {x});
    expect_error<IndexError>([&] { softmax(x, axis); }, {"softmax", text}, {x});
    expect_error<IndexError>([&] { log_softmax(x, axis); }, {"log_softmax", text}, {x});
    expect_error<IndexError>([&] { logsumexp(x, axis); }, {"logsumexp", text}, {x});
    expect_error<IndexError>([&] { (void)x.size(axis); }, {"size", text}, {x});
    expect_error<IndexError>([&] { concatenate({x, x}, axis); }, {"concatenate", text}, {x});
    expect_error<IndexError>([&] { prod_backward(x, x, axis); }, {"prod_backward", text}, {x});
  }
  expect_error<IndexError>([&] { sum(number, 0); }, {"sum", "0"}, {number});
  expect_error<IndexError>([&] { argmax(number, -1); }, {"argmax", "-1"}, {number});
  EXPECT_EQ(sum(x, -2).to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

}  // namespace
