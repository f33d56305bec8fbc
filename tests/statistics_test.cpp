// Order statistics and counts beyond the samples of the op database: NaN, ties, edges, invalid
// arguments.
#include "extensor/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using test_support::expect_error;

TEST(Statistics, QuantilesOfWholeNumbers) {
  const Tensor x = arange(0, 101, 1, float64);
  for (double q : {0.0, 0.01, 0.25, 0.5, 0.99, 1.0}) {
    EXPECT_NEAR(quantile(flip(x), q).item<double>(), 100 * q, 1e-12);
  }
  EXPECT_EQ(quantile(x, std::vector<double>{}).shape(), (Shape{0}));
  EXPECT_EQ(quantile(scalar(3.5), 0.2).item<float>(), 3.5f);
}

TEST(Statistics, TheMedianOfAnEvenNumberIsTheLowerOne) {
  EXPECT_EQ(median(tensor({4.0, 1.0, 3.0, 2.0})).item<double>(), 2);
  EXPECT_EQ(quantile(tensor({4.0, 1.0, 3.0, 2.0}), 0.5).item<double>(), 2.5);
  EXPECT_EQ(median(tensor({7, 5, 9})).item<std::int64_t>(), 7);
}

TEST(Statistics, NanPropagates) {
  const Tensor x = tensor({{1.0, std::nan(""), 3.0}, {4.0, 6.0, 5.0}});
  const Tensor m = median(x, 1), q = quantile(x, 0.25, 1);
  EXPECT_TRUE(std::isnan(m.index({0}).item<double>()));
  EXPECT_EQ(m.index({1}).item<double>(), 5);
  EXPECT_TRUE(std::isnan(q.index({0}).item<double>()));
  EXPECT_EQ(q.index({1}).item<double>(), 4.5);
}

TEST(Statistics, HistogramCountsEveryElementOnce) {
  const Tensor x = tensor({0.0, 0.1, 0.5, 0.9, 1.0, 1.0});
  const auto [counts, edges] = histogram(x, 4);
  EXPECT_TRUE(identical(counts, tensor({2, 0, 1, 3})));
  EXPECT_TRUE(allclose(edges, tensor({0.0, 0.25, 0.5, 0.75, 1.0})));
  const auto outside =
      histogram(tensor({-5.0, 0.2, std::nan(""), 7.0, 1.0}), 2, std::pair(0.0, 1.0));
  EXPECT_TRUE(identical(outside.counts, tensor({1, 1})));
  const auto equal_elements = histogram(full({9}, 3, int32), 2);
  EXPECT_TRUE(identical(equal_elements.counts, tensor({0, 9})));
  EXPECT_EQ(equal_elements.edges.dtype(), float32);
}

TEST(Statistics, BincountWithWeights) {
  const Tensor x = tensor({1, 4, 1, 0});
  EXPECT_TRUE(identical(bincount(x), tensor({1, 2, 0, 0, 1})));
  EXPECT_TRUE(
      identical(bincount(x, tensor({0.5, 2.0, 0.25, 1.0})), tensor({1.0, 0.75, 0.0, 0.0, 2.0})));
  EXPECT_EQ(bincount(zeros({0}, int32)).shape(), (Shape{0}));
}

CHILD_TEST(BadInputStatistics, InvalidArguments) {
  const Tensor x = ones({3, 4}), none = ones({3, 0});
  for (double q : {-0.1, 1.1, std::nan("")}) {
    expect_error<ValueError>([&] { quantile(x, q); }, {"quantile", "[0, 1]"}, {x});
    expect_error<ValueError>([&] { quantile(x, std::vector<double>{0.5, q}); }, {"quantile"}, {x});
  }
  expect_error<IndexError>([&] { quantile(x, 0.5, 2); }, {"quantile", "2"}, {x});
  expect_error<ValueError>([&] { quantile(none, 0.5, 1); }, {"quantile", "no elements"}, {none});
  expect_error<ValueError>([&] { median(none); }, {"median", "no elements"}, {none});
  expect_error<DTypeError>([&] { quantile(x.to(int64), 0.5); }, {"quantile"}, {});
  expect_error<ShapeError>([&] { quantile_backward(ones({4}), x, 0.5, 1); },
                           {"quantile_backward", "grad_output"}, {x});
  expect_error<ValueError>([&] { histogram(x, 0); }, {"histogram", "bins"}, {x});
  expect_error<ValueError>([&] { histogram(x, 3, std::pair(2.0, 1.0)); }, {"histogram", "range"},
                           {x});
  expect_error<ValueError>(
      [&] {
        histogram(tensor({1.0, std::nan("")}), 3);
      },
      {"histogram", "finite"}, {});
  expect_error<ValueError>([&] { bincount(tensor({2, -1})); }, {"bincount", "-1"}, {});
  expect_error<DTypeError>([&] { bincount(ones({3})); }, {"bincount", "float32"}, {});
  expect_error<ShapeError>([&] { bincount(zeros({2, 2}, int64)); }, {"bincount", "[2, 2]"}, {});
  expect_error<ShapeError>([&] { bincount(tensor({1, 2}), ones({3})); }, {"weights"}, {});
  expect_error<ValueError>([&] { bincount(tensor({1}), {}, -1); }, {"minlength"}, {});
}

}  // namespace
}  // namespace extensor
