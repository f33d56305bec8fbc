// Order statistics and counts beyond the samples of the op database: NaN, ties, edges, invalid
// arguments.
#include "extensor/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

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

// Rows in every order, with ties, both zeros and infinities, around the sizes of vectors: the value
// and the place of every rank are those of a stable sort.
TEST(Statistics, RanksAreThoseOfASortedRow) {
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 200, 1000}) {
    const Tensor ascending = arange(0, n, 1, float32) - static_cast<double>(n / 2);
    const Tensor few = modulo(ascending * 7, 5) - 2;  // many ties and both zeros
    const Tensor x =
        stack({ascending, flip(ascending), zeros({n}), few, few * -0.0, -abs(ascending),
               modulo(ascending * 37, 101), where(greater(few, 1), INFINITY, few),
               where(less(few, 0), -INFINITY, ascending)});
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      const Tensor rows = x.to(dtype);
      for (const double q : {0.0, 0.1, 0.5, 0.9, 1.0}) {
        const auto low = static_cast<std::int64_t>(std::floor(q * static_cast<double>(n - 1)));
        SCOPED_TRACE(std::string(name(dtype)) + ", rank " + std::to_string(low) + " of " +
                     std::to_string(n));
        Tensor expected = zeros_like(rows), values = empty({x.size(0)}, dtype);
        for (std::int64_t row = 0; row < x.size(0); ++row) {
          const std::vector<double> elements = rows[row].to(float64).to_vector<double>();
          std::vector<std::int64_t> order(elements.size());
          std::iota(order.begin(), order.end(), std::int64_t{0});
          std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
            return elements[static_cast<std::size_t>(a)] < elements[static_cast<std::size_t>(b)];
          });
          const std::int64_t place = order[static_cast<std::size_t>(low)];
          expected[row].slice(0, place, place + 1).fill(1);
          values.slice(0, row, row + 1).copy_from(rows[row].slice(0, place, place + 1));
        }
        EXPECT_TRUE(identical(quantile(rows, q, 1, false, QuantileMode::lower), values));
        EXPECT_TRUE(identical(quantile_backward(ones_like(values), rows, q, 1, QuantileMode::lower),
                              expected));
      }
    }
    EXPECT_TRUE(identical(median(few.to(int64)), sort(few.to(int64)).index({(n - 1) / 2})));
    EXPECT_TRUE(identical(median(few.to(int8)), sort(few.to(int8)).index({(n - 1) / 2})));
  }
}

// Elements on edges and next to them, in ranges whose edges are far apart, close or equal.
TEST(Statistics, HistogramDecidesByTheEdges) {
  const std::vector<std::pair<double, double>> ranges = {
      {0, 1},        {-3, 0.1},   {1e6, 1e6 + 1},  {1e6, 1e6 + 1e-3}, {0, 1e-40},
      {-1e38, 2e38}, {0, 1e-300}, {-1e308, 1e308}, {0.1, 0.1 + 1e-9}, {-1e-3, 1e3}};
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const auto& range : ranges) {
      if (dtype == float32 && range.second > 1e300) continue;
      for (const std::int64_t bins : {1, 3, 10, 1000}) {
        const Tensor edges = linspace(range.first, range.second, bins + 1, dtype);
        const std::vector<double> bounds = edges.to(float64).to_vector<double>();
        std::vector<double> values = {INFINITY, -INFINITY, NAN};
        for (const double edge : bounds) {
          for (const double towards : {-INFINITY, INFINITY}) {
            const double next = dtype == float64
                                    ? std::nextafter(edge, towards)
                                    : static_cast<double>(std::nextafter(
                                          static_cast<float>(edge), static_cast<float>(towards)));
            values.insert(values.end(), {edge, next, (edge + next) / 2 + (towards > 0 ? 1 : 0)});
          }
        }
        const Tensor x = from_data(values).to(dtype);
        std::vector<std::int64_t> expected(static_cast<std::size_t>(bins), 0);
        for (const double value : x.to(float64).to_vector<double>()) {
          if (!(value >= bounds.front() && value <= bounds.back())) continue;
          const auto above = std::ranges::upper_bound(bounds, value) - bounds.begin();
          // The last bin includes its upper edge.
          ++expected[static_cast<std::size_t>(std::min<std::int64_t>(above, bins) - 1)];
        }
        EXPECT_EQ(histogram(x, bins, range).counts.to_vector<std::int64_t>(), expected)
            << name(dtype) << ", " << bins << " bins from " << range.first << " to "
            << range.second;
      }
    }
  }
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

// Enough elements for several threads, and lengths on both sides of those that have several tables.
TEST(Statistics, BincountOfEveryInteger) {
  constexpr std::int64_t n = 100'003;
  for (const DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    for (const std::int64_t limit : {1, 100, 5000}) {
      if (limit > 127 && itemsize(dtype) == 1) continue;
      const Tensor x =
          modulo(arange(0, 2 * n, 1, int64) * 7919, limit).to(dtype).slice(0, {}, {}, 2);
      std::vector<std::int64_t> expected(static_cast<std::size_t>(limit + 1), 0);
      for (std::int64_t i = 0; i < n; ++i)
        ++expected[static_cast<std::size_t>(2 * i * 7919 % limit)];
      EXPECT_EQ(bincount(x, {}, limit + 1).to_vector<std::int64_t>(), expected) << name(dtype);
    }
    if (is_unsigned_integer(dtype)) continue;
    const Tensor negative = full({9}, -3, dtype);
    EXPECT_THROW(bincount(negative), ValueError) << name(dtype);
  }
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
  const Tensor largest = full({1}, INT64_MAX, int64);
  expect_error<ValueError>([&] { bincount(largest); }, {"bincount", "9223372036854775807"}, {});
  expect_error<DTypeError>([&] { bincount(ones({3})); }, {"bincount", "float32"}, {});
  expect_error<ShapeError>([&] { bincount(zeros({2, 2}, int64)); }, {"bincount", "[2, 2]"}, {});
  expect_error<ShapeError>([&] { bincount(tensor({1, 2}), ones({3})); }, {"weights"}, {});
  expect_error<ValueError>([&] { bincount(tensor({1}), {}, -1); }, {"minlength"}, {});
}

}  // namespace
}  // namespace extensor
