// Indexing, sorting and scans: the database's samples, special values, repeated indices, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "op_database/op_database.h"
#include "support/compare.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using Integers = std::vector<std::int64_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

Integers integers(const Tensor& x) { return x.to(int64).to_vector<std::int64_t>(); }
Tensor vector_of(const std::vector<double>& values, DType dtype = float64) {
  return from_data(values).to(dtype);
}
Tensor draw_indices(const Shape& shape, std::int64_t size, std::uint64_t seed) {
  return op_database::sample_integers(shape, -size, size, seed);
}

// ---- indices

TEST(Indexing, EveryIntegerDTypeIndexes) {
  const Tensor x = tensor({10, 20, 30});
  for (DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    EXPECT_EQ(integers(take(x, tensor({2, 0}, dtype))), (Integers{30, 10})) << name(dtype);
    EXPECT_EQ(integers(gather(x, 0, tensor({1}, dtype))), Integers{20}) << name(dtype);
  }
  // As large as a negative number reinterpreted as unsigned.
  const Tensor huge = from_data(std::vector<std::uint64_t>{UINT64_MAX});
  EXPECT_THROW(take(x, huge), IndexError);
  EXPECT_THROW(take(x, tensor({255}, uint8)), IndexError);
  EXPECT_THROW(take(x, tensor({INT64_MIN})), IndexError);
}

TEST(Indexing, EveryDTypeIsMoved) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(name(dtype));
    const Tensor x = tensor({{0, 1}, {1, 0}, {1, 1}}, dtype);
    EXPECT_EQ(take(x, tensor({2, 0}), 0).dtype(), dtype);
    EXPECT_EQ(integers(take(x, tensor({2, 0}), 0)), (Integers{1, 1, 0, 1}));
    EXPECT_EQ(integers(take(x, tensor({-1}), 1)), (Integers{1, 0, 1}));
    EXPECT_EQ(integers(gather(x, 1, tensor({{1}, {0}, {0}}))), (Integers{1, 1, 1}));
    EXPECT_EQ(integers(scatter(x, 0, tensor({{0, 1}}), ones({1, 2}, dtype))),
              (Integers{1, 1, 1, 1, 1, 1}));
    const Tensor added = index_add(x, 0, tensor({0, 0}), ones({2, 2}, dtype));
    EXPECT_EQ(added.dtype(), dtype);
    EXPECT_EQ(integers(added),
              dtype == bool_ ? (Integers{1, 1, 1, 0, 1, 1}) : (Integers{2, 3, 1, 0, 1, 1}));
    EXPECT_EQ(integers(scatter_add(x, 0, tensor({{0, 0}, {0, 0}}), ones({2, 2}, dtype))),
              integers(added));
    EXPECT_EQ(integers(x[tensor({true, false, true})]), (Integers{0, 1, 1, 1}));
    EXPECT_EQ(integers(masked_fill(x, tensor({false, true}), 0)), (Integers{0, 0, 1, 0, 1, 0}));
  }
  // Sums of integers wrap.
  const Tensor wrapped = index_add(full({1}, 127, int8), 0, tensor({0}), ones({1}, int8));
  EXPECT_EQ(wrapped.item<int>(), -128);
  EXPECT_EQ(scatter_add(full({1}, 127, int8), 0, tensor({0}), ones({1}, int8)).item<int>(), -128);
}

TEST(Indexing, Shapes) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(take(x, zeros({5, 6}, int64), 1).shape(), (Shape{2, 5, 6, 4}));
  EXPECT_EQ(take(x, zeros({}, int64), 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(take(x, zeros({0}, int64), 1).shape(), (Shape{2, 0, 4}));
  EXPECT_EQ(take(scalar(3), zeros({2}, int64)).shape(), Shape{2});
  EXPECT_EQ(take(zeros({3, 0}), zeros({2}, int64), 0).shape(), (Shape{2, 0}));
  EXPECT_EQ(x[tensor({1, 0, 1})].shape(), (Shape{3, 3, 4}));
  EXPECT_THROW(gather(x, 1, zeros({3, 3, 4}, int64)), ShapeError);
  EXPECT_THROW(gather(x, 1, zeros({2, 3}, int64)), ShapeError);
  EXPECT_THROW(take_along_axis(x, zeros({2, 3}, int64), 1), ShapeError);
  EXPECT_THROW(take_along_axis(x, zeros({3, 3, 4}, int64), 1), ShapeError);
  EXPECT_THROW(scatter(x, 1, zeros({2, 5, 4}, int64), zeros({2, 4, 4})), ShapeError);
  EXPECT_THROW(index_add(x, 1, zeros({2}, int64), zeros({2, 3, 4})), ShapeError);
  EXPECT_THROW(index_add(x, 1, zeros({2, 1}, int64), zeros({2, 2, 4})), ShapeError);
  EXPECT_THROW(index_add(x.to(int32), 1, zeros({2}, int64), zeros({2, 2, 4}, int32), 0.5), Error);
  EXPECT_THROW(take(scalar(3), zeros({2}, int64), 0), IndexError);
}

TEST(Indexing, TheLastOfRepeatedScattersStays) {
  const Tensor y = scatter(zeros({3}), 0, tensor({1, 1, 1}), tensor({5., 6., 7.}));
  EXPECT_EQ(values_of(y), (std::vector<double>{0, 7, 0}));
  const auto [grad_x, grad_source] = scatter_backward(ones({3}), 0, tensor({1, 1, 1}), {3});
  EXPECT_EQ(values_of(grad_x), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(values_of(grad_source), (std::vector<double>{0, 0, 1}));
}

// A million small numbers added to one element: accumulated in float64 and rounded once.
TEST(Indexing, RepeatedSumsAreExact) {
  const std::int64_t count = 100000;
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    const Tensor g = full({count, 3}, 0.1, dtype);
    const double expected =
        values_of(full({}, values_of(g)[0] * static_cast<double>(count), float64).to(dtype))[0];
    const Tensor at = zeros({count}, int64);
    for (double value : values_of(take_backward(g, {2, 3}, at, 0)[0])) {
      EXPECT_NEAR(value / expected, 1, dtype == float64 ? 1e-10 : 1e-15);
    }
    for (double value : values_of(gather_backward(g, {2, 3}, 0, zeros({count, 3}, int64))[0])) {
      EXPECT_NEAR(value / expected, 1, dtype == float64 ? 1e-10 : 1e-15);
    }
    for (double value : values_of(index_add(zeros({2, 3}, dtype), 0, at, g)[0])) {
      EXPECT_NEAR(value / expected, 1, dtype == float64 ? 1e-10 : 1e-15);
    }
  }
}

TEST(Indexing, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  const Tensor rows = draw_indices({30000}, 500, 1), flat = draw_indices({90000}, 5000, 2);
  const Tensor columns = draw_indices({700, 90}, 700, 3);
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = draw::uniform({500, 7}, -1, 1, 1).to(dtype);
    const Tensor g = draw::uniform({30000, 7}, -1, 1, 2).to(dtype);
    const Tensor long_g = draw::uniform({90000}, -1, 1, 3).to(dtype);
    const Tensor matrix = draw::uniform({700, 90}, -1, 1, 4).to(dtype);
    const Tensor line = draw::uniform({5000}, -1, 1, 5).to(dtype);
    const Tensor narrow = draw::uniform({5000, 3}, -1, 1, 6).to(dtype);
    const Tensor narrow_g = draw::uniform({90000, 3}, -1, 1, 7).to(dtype);
    const auto run = [&] {
      Generator drawn[] = {Generator(1), Generator(2)};
      return gradients::Tensors{take(x, rows, 0),
                                take_backward(g, {500, 7}, rows, 0),
                                index_add(x, 0, rows, g, 0.5),
                                gather_backward(long_g, {5000}, 0, flat),
                                scatter_add(line, 0, flat, long_g),
                                scatter(line, 0, flat, long_g),
                                scatter(matrix, 0, columns, matrix),
                                scatter_add(matrix, 0, columns, matrix),
                                gather(matrix, 0, columns),
                                sort(matrix, 0),
                                sort(long_g),
                                argsort(matrix, 1, true),
                                topk(matrix, 5).values,
                                topk(long_g, 50).indices,
                                cumulative_sum(matrix, 0),
                                cumulative_prod_backward(matrix, matrix, 1),
                                masked_select(long_g, greater(long_g, 0)),
                                nonzero(greater(matrix, 0))[1],
                                searchsorted(sort(line), long_g),
                                unique_all(long_g).inverse_indices,
                                norm(matrix, 3, 0),
                                take_backward(long_g, {5000}, flat, 0),
                                index_add(narrow, 0, flat, narrow_g),
                                index_add(matrix, 1, columns[0] % 90, matrix),
                                randn({3001}, dtype, drawn[0]),
                                randperm(70000, drawn[1])};
    };
    set_num_threads(1);
    const auto expected = run();
    for (int threads : {2, 3, 5}) {
      set_num_threads(threads);
      const auto got = run();
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(identical(got[i], expected[i])) << threads << " threads, result " << i;
      }
    }
  }
  set_num_threads(before);
}

// ---- masks

TEST(Indexing, MasksCoverLeadingAxes) {
  const Tensor x = arange(24).reshape({2, 3, 4});
  EXPECT_EQ(x[greater(x, 21)].shape(), Shape{2});
  const Tensor mask = tensor({{true, false, true}, {false, false, true}});
  EXPECT_EQ(x[mask].shape(), (Shape{3, 4}));
  EXPECT_EQ(integers(x[mask].slice(1, 0, 1)), (Integers{0, 8, 20}));
  EXPECT_EQ(x[scalar(true)].shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(x[scalar(false)].shape(), (Shape{0, 2, 3, 4}));
  EXPECT_EQ(x[zeros({2}, bool_)].shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(integers(x.transpose()[greater(x.transpose(), 21)]), (Integers{22, 23}));
}

TEST(Indexing, SelectIsAView) {
  const Tensor x = arange(24).reshape({2, 3, 4}).to(float64);
  EXPECT_EQ(values_of(select(x, 1, 2)), (std::vector<double>{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(values_of(x.select(-1, -4)), values_of(x.select(2, 0)));
  EXPECT_EQ(x.select(1, 0).shape(), (Shape{2, 4}));
  const Tensor y = x.clone();
  y.select(2, 1).fill(-1);
  y.select(0, 0).select(0, 0) += 5;
  EXPECT_EQ(values_of(y[{0, 0}]), (std::vector<double>{5, 4, 7, 8}));
  EXPECT_EQ(values_of(y[{1, 2}]), (std::vector<double>{20, -1, 22, 23}));
  const Tensor leaf = x.clone().requires_grad_();
  sum(square(leaf.select(1, 1))).backward();
  EXPECT_EQ(values_of(leaf.grad().select(1, 1)), values_of(x.select(1, 1) * 2));
  EXPECT_EQ(values_of(leaf.grad().select(1, 0)), (std::vector<double>(8, 0)));
  EXPECT_THROW(x.select(1, 3), IndexError);
  EXPECT_THROW(x.select(1, -4), IndexError);
  EXPECT_THROW(x.select(3, 0), IndexError);
  EXPECT_THROW(zeros({2, 0}).select(1, 0), IndexError);
  EXPECT_THROW(zeros({}).select(0, 0), IndexError);
  try {
    x.select(1, 3);
  } catch (const IndexError& error) {
    EXPECT_STREQ(
        error.what(),
        "select: index 3 is out of range for axis 1 of shape [2, 3, 4] (allowed: -3 to 2)");
  }
}

TEST(Indexing, MaskedFillKeepsTheDType) {
  const Tensor x = ones({2, 3}, float16);
  EXPECT_EQ(masked_fill(x, tensor({true, false, true}), -infinity).dtype(), float16);
  EXPECT_EQ(values_of(masked_fill(x, tensor({true, false, true}), -infinity)[1]),
            (std::vector<double>{-infinity, 1, -infinity}));
  EXPECT_EQ(values_of(masked_fill_backward(full({2}, nan), tensor({true, true}))),
            (std::vector<double>{0, 0}));
  EXPECT_THROW(masked_fill(ones({2}, int8), ones({2}, bool_), 300), ValueError);
  EXPECT_THROW(masked_fill(ones({2}), ones({3, 2}, bool_), 0), ShapeError);
  EXPECT_THROW(masked_fill(ones({2}), ones({2}), 0), DTypeError);
}

TEST(Indexing, NonzeroSeesWhatIsNotZero) {
  EXPECT_EQ(integers(nonzero(vector_of({0, -0.0, nan, 1, -infinity}))[0]), (Integers{2, 3, 4}));
  EXPECT_EQ(nonzero(scalar(3)).size(), 1U);
  EXPECT_EQ(integers(nonzero(scalar(3))[0]), Integers{0});
  EXPECT_EQ(nonzero(zeros({3, 0, 2})).size(), 3U);
  EXPECT_EQ(nonzero(zeros({3, 0, 2}))[2].shape(), Shape{0});
  // More than one block of positions, true at both ends of each.
  Tensor mask = zeros({70000}, bool_);
  for (std::int64_t i : {0, 16383, 16384, 65535, 65536, 69999}) mask[i].fill(true);
  EXPECT_EQ(integers(nonzero(mask)[0]), (Integers{0, 16383, 16384, 65535, 65536, 69999}));
  EXPECT_EQ(count_nonzero(mask).item<std::int64_t>(), 6);
}

// ---- order

// Compares with std::stable_sort on every dtype, for short and long rows, with many equal elements.
TEST(Sorting, IsStableOnEveryDType) {
  std::mt19937_64 engine(3);
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (std::int64_t length : {1, 2, 31, 300, 1000, 5000}) {
      std::vector<double> drawn(static_cast<std::size_t>(length));
      std::uniform_int_distribution<int> distribution(-60, 60);
      for (double& value : drawn) value = distribution(engine);
      const Tensor x = vector_of(drawn, dtype);
      const auto values = values_of(x);
      for (bool descending : {false, true}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << length << " " << descending);
        Integers order(values.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
          const double first = values[static_cast<std::size_t>(a)];
          const double second = values[static_cast<std::size_t>(b)];
          return descending ? first > second : first < second;
        });
        EXPECT_EQ(integers(argsort(x, -1, descending)), order);
        EXPECT_TRUE(identical(sort(x, -1, descending), take(x, from_data(order))));
        for (std::int64_t k : {std::int64_t{1}, length / 20, length}) {
          const auto [best, at] = topk(x, k, -1, descending);
          EXPECT_EQ(integers(at), Integers(order.begin(), order.begin() + k));
          EXPECT_TRUE(identical(best, take(x, at)));
        }
      }
    }
  }
}

// Keys of 64 bits that share their leading bits in runs of every kind.
TEST(Sorting, WideKeys) {
  std::mt19937_64 engine(31);
  const std::size_t n = 3000;
  std::vector<std::vector<std::int64_t>> lists;
  for (const int bits : {1, 8, 31, 32, 33, 40, 63, 64}) {
    std::vector<std::int64_t> drawn(n);
    for (std::int64_t& value : drawn) value = static_cast<std::int64_t>(engine() >> (64 - bits));
    lists.push_back(drawn);
    // Few leading parts, and many numbers below each.
    for (std::int64_t& value : drawn) {
      value = static_cast<std::int64_t>((engine() % 3 << 62) + engine() % 50);
    }
    lists.push_back(drawn);
  }
  lists.push_back(std::vector<std::int64_t>(n, -7));
  for (const auto& list : lists) {
    for (const bool descending : {false, true}) {
      Integers order(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const auto first = list[static_cast<std::size_t>(a)];
        const auto second = list[static_cast<std::size_t>(b)];
        return descending ? first > second : first < second;
      });
      const Tensor x = from_data(list);
      EXPECT_EQ(integers(argsort(x, -1, descending)), order);
      const auto best = topk(x, 10, -1, descending).indices;
      EXPECT_EQ(integers(best), Integers(order.begin(), order.begin() + 10));
    }
  }
}

// The best come last, first, or are all equal.
TEST(Sorting, TopkOfSortedRows) {
  const std::int64_t n = 20000;
  const Tensor up = arange(n).to(float32);
  for (const std::int64_t k : {1, 7, 300, 2400}) {
    EXPECT_EQ(integers(topk(up, k).indices), integers(flip(arange(n - k, n))));
    EXPECT_EQ(integers(topk(up, k, -1, false).indices), integers(arange(k)));
    EXPECT_EQ(integers(topk(zeros({n}), k).indices), integers(arange(k)));
    EXPECT_EQ(integers(topk(full({n}, nan), k).indices), integers(arange(k)));
  }
}

TEST(Sorting, ExtremesOfEveryDType) {
  const Tensor limits = from_data(std::vector<std::int64_t>{INT64_MAX, -1, INT64_MIN, 0, 1});
  EXPECT_EQ(integers(sort(limits)), (Integers{INT64_MIN, -1, 0, 1, INT64_MAX}));
  EXPECT_EQ(integers(sort(limits, 0, true)), (Integers{INT64_MAX, 1, 0, -1, INT64_MIN}));
  const Tensor naturals = from_data(std::vector<std::uint64_t>{1, UINT64_MAX, 0, 1ULL << 63});
  EXPECT_EQ(sort(naturals).to_vector<std::uint64_t>(),
            (std::vector<std::uint64_t>{0, 1, 1ULL << 63, UINT64_MAX}));
}

TEST(Sorting, NanIsLastAndZerosAreEqual) {
  for (DType dtype : float_dtypes) {
    for (std::int64_t padding : {0, 2000}) {  // by comparison and by radix
      std::vector<double> values = {nan, 1, -infinity, -nan, 0.0, -0.0, infinity, -2};
      for (std::int64_t i = 0; i < padding; ++i) values.push_back(0.5);
      const Tensor x = vector_of(values, dtype);
      const auto up = values_of(sort(x)), down = values_of(sort(x, 0, true));
      const auto order = integers(argsort(x)), reversed = integers(argsort(x, 0, true));
      const std::size_t n = values.size();
      EXPECT_TRUE(std::isnan(up[n - 1]) && std::isnan(up[n - 2]) && std::isnan(down[n - 1]) &&
                  std::isnan(down[n - 2]));
      EXPECT_EQ(order[n - 2], 0);
      EXPECT_EQ(order[n - 1], 3);
      EXPECT_EQ(reversed[n - 2], 0);
      EXPECT_EQ((Integers{order.begin(), order.begin() + 4}), (Integers{2, 7, 4, 5}));
      EXPECT_EQ(reversed[0], 6);
      EXPECT_EQ(reversed[1], 1);
      EXPECT_FALSE(std::signbit(up[2]));  // the zeros keep their order and signs
      EXPECT_TRUE(std::signbit(up[3]));
      EXPECT_EQ(values_of(topk(x, 1).values)[0], infinity);
      EXPECT_EQ(values_of(topk(x, 1, 0, false).values)[0], -infinity);
    }
  }
}

TEST(Sorting, SmallShapes) {
  EXPECT_EQ(sort(scalar(3)).shape(), Shape{});
  EXPECT_EQ(argsort(scalar(3)).item<int>(), 0);
  EXPECT_EQ(sort_backward(full({}, 2.0), argsort(scalar(3))).item<float>(), 2);
  EXPECT_EQ(sort(zeros({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_EQ(sort(zeros({0, 3}), 0).shape(), (Shape{0, 3}));
  EXPECT_EQ(topk(zeros({3, 4}), 0).values.shape(), (Shape{3, 0}));
  EXPECT_EQ(topk(zeros({0, 4}), 2).indices.shape(), (Shape{0, 2}));
  // As in PyTorch, a 0-d tensor returns 0-d tensors.
  const auto [value, index] = topk(scalar(3), 1);
  EXPECT_EQ(value.shape(), Shape{});
  EXPECT_EQ(value.item<int>(), 3);
  EXPECT_EQ(index.shape(), Shape{});
  EXPECT_EQ(index.item<int>(), 0);
  EXPECT_EQ(topk_backward(full({}, 2.0), {}, zeros({}, int64)).item<float>(), 2);
  EXPECT_THROW(topk_backward(ones({1}), {}, zeros({1}, int64)), ShapeError);
  EXPECT_THROW(topk(scalar(3), 0), ValueError);
  EXPECT_THROW(topk(scalar(3), 2), ValueError);
  EXPECT_THROW(topk(scalar(3), 1, 1), IndexError);
  Tensor w = full({}, 3.0).requires_grad_();
  (topk(w, 1).values * 5).backward();
  EXPECT_EQ(w.grad().item<float>(), 5);
  EXPECT_THROW(sort(zeros({3}), 1), IndexError);
}

TEST(Sorting, SearchsortedPutsNanLast) {
  const Tensor row = vector_of({-infinity, 0, 1, 1, nan});
  EXPECT_EQ(integers(searchsorted(row, vector_of({nan, infinity, 1, -0.0, -infinity}))),
            (Integers{4, 4, 2, 1, 0}));
  EXPECT_EQ(integers(searchsorted(row, vector_of({nan, infinity, 1, -0.0, -infinity}), true)),
            (Integers{5, 4, 4, 2, 1}));
  EXPECT_EQ(integers(searchsorted(tensor({1, 3}), tensor({2.5}))), Integers{1});
  EXPECT_EQ(integers(searchsorted(row.slice(0, {}, 3).to(bfloat16), full({}, 0.5, bfloat16))),
            Integers{2});
  EXPECT_THROW(searchsorted(zeros({2, 3}), zeros({3, 3})), ShapeError);
  EXPECT_THROW(searchsorted(zeros({2, 3}), zeros({3})), ShapeError);
  EXPECT_THROW(searchsorted(scalar(1.0), zeros({3})), ShapeError);
  EXPECT_THROW(searchsorted(zeros({2}, int64), zeros({3}, uint64)), DTypeError);
}

TEST(Sorting, UniqueKeepsEveryNan) {
  const UniqueTensor found = unique_all(vector_of({nan, 1, -0.0, 0.0, 1, nan}));
  EXPECT_EQ(found.values.numel(), 4);
  EXPECT_EQ(integers(found.counts), (Integers{2, 2, 1, 1}));
  EXPECT_EQ(integers(found.indices), (Integers{2, 1, 0, 5}));
  EXPECT_EQ(integers(found.inverse_indices), (Integers{2, 1, 0, 0, 1, 3}));
  EXPECT_EQ(unique(tensor({true, false, true})).dtype(), bool_);
}

// ---- scans and norms

TEST(Cumulative, DTypes) {
  EXPECT_EQ(cumulative_sum(tensor({1, 2, 3}, int8)).dtype(), int64);
  EXPECT_EQ(cumulative_sum(tensor({1, 2, 3}, uint8)).dtype(), uint64);
  EXPECT_EQ(integers(cumulative_sum(tensor({true, true, false}))), (Integers{1, 2, 2}));
  EXPECT_EQ(integers(cumulative_prod(tensor({100, 100, 100}, int8))),
            (Integers{100, 10000, 1000000}));
  EXPECT_EQ(integers(cumulative_sum(tensor({-1, -2}, int16))), (Integers{-1, -3}));
  EXPECT_EQ(cumulative_sum(zeros({3}, float16)).dtype(), float16);
  EXPECT_THROW(cumulative_sum(zeros({2, 3})), ValueError);
  EXPECT_EQ(cumulative_sum(scalar(3)).item<int>(), 3);
  EXPECT_EQ(cumulative_prod_backward(full({}, 2.0), scalar(5.0), -1).item<float>(), 2);
  EXPECT_THROW(cumulative_sum(zeros({2, 3}), 2), IndexError);
  EXPECT_THROW(cumulative_sum_backward(zeros({3}, int64), 0), DTypeError);
  EXPECT_THROW(cumulative_prod_backward(zeros({3}), zeros({4}), 0), ShapeError);
}

// A sum of many equal numbers, where sequential addition in the dtype itself would drift or stall.
TEST(Cumulative, LongSumsStayExact) {
  const std::int64_t count = 200000;
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = full({count}, 0.1, dtype);
    const double each = values_of(x)[0];
    const auto sums = values_of(cumulative_sum(x));
    for (std::int64_t k : {std::int64_t{9}, std::int64_t{4999}, count - 1}) {
      const double exact =
          values_of(full({}, each * static_cast<double>(k + 1), float64).to(dtype))[0];
      if (std::isinf(exact)) continue;
      EXPECT_NEAR(sums[static_cast<std::size_t>(k)] / exact, 1, 3e-16) << k;
    }
  }
  EXPECT_EQ(values_of(cumulative_sum(vector_of({1, infinity, 1, -infinity, 1})))[2], infinity);
  EXPECT_TRUE(std::isnan(values_of(cumulative_sum(vector_of({1, infinity, 1, -infinity, 1})))[4]));
  EXPECT_EQ(values_of(cumulative_sum(vector_of({1, 1e100, 1, -1e100})))[3], 2);
}

TEST(Norm, NeitherOverflowsNorVanishes) {
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    const double large = dtype == float16 ? 3e4 : dtype == float64 ? 1e200 : 1e30;
    const double small = dtype == float16 ? 1e-4 : dtype == float64 ? 1e-200 : 1e-30;
    for (double size : {large, small}) {
      const Tensor x = multiply(vector_of({3, -4, 0}), size / 8).to(dtype);
      const auto exact = values_of(x);
      const double tolerance = dtype == bfloat16 ? 4e-3 : dtype == float16 ? 5e-4 : 1e-6;
      EXPECT_NEAR(values_of(norm(x))[0] / std::hypot(exact[0], exact[1]), 1, tolerance);
      EXPECT_NEAR(values_of(norm(x, 3))[0] / (size / 8 * std::cbrt(91.0)), 1, 2 * tolerance + 5e-3);
      const auto g = values_of(norm_backward(ones({}, dtype), x, 2, {}, 0));
      EXPECT_NEAR(g[0], 0.6, 0.6 * tolerance + 2e-3);
    }
  }
}

TEST(Norm, SpecialValues) {
  const Tensor zero = zeros({3}, float64), one = ones({}, float64);
  for (double p : {1.0, 2.0, 3.0, 0.5, infinity, 0.0}) {
    EXPECT_EQ(norm(zero, p).item<double>(), 0) << p;
    EXPECT_EQ(values_of(norm_backward(one, zero, p)), (std::vector<double>{0, 0, 0})) << p;
    EXPECT_TRUE(std::isnan(norm(vector_of({1, nan}), p == 0 ? 2 : p).item<double>())) << p;
    if (p != 0) {
      EXPECT_EQ(norm(vector_of({1, -infinity}), p).item<double>(), infinity) << p;
    }
    if (!std::isinf(p)) {
      EXPECT_EQ(norm(zeros({0}), p).item<float>(), 0) << p;
    }
  }
  EXPECT_EQ(norm(vector_of({0, 2}), -1).item<double>(), 0);
  EXPECT_EQ(norm(vector_of({0, 2}), -infinity).item<double>(), 0);
  EXPECT_THROW(norm(zeros({0}), infinity), ValueError);
  EXPECT_THROW(norm(zeros({2, 0}), -1, 1), ValueError);
  EXPECT_THROW(norm(zeros({2}), nan), ValueError);
  EXPECT_EQ(norm(tensor({3, 4})).dtype(), float32);
  EXPECT_EQ(norm(tensor({3, 4})).item<float>(), 5);
  // Ties share the gradient; a denominator below eps is replaced, unless IEEE behavior is selected.
  EXPECT_EQ(values_of(norm_backward(one, vector_of({2, -2, 1}), infinity)),
            (std::vector<double>{0.5, -0.5, 0}));
  const double tiny = values_of(norm_backward(one, vector_of({1e-12, 0})))[0];
  EXPECT_NEAR(tiny, 1e-2, 1e-12);
  EXPECT_EQ(values_of(norm_backward(one, vector_of({1e-12, 0}), 2, {}, 0))[0], 1);
  EXPECT_EQ(values_of(norm_backward(one, zero, 2, {}, 0))[0], 0);
  EXPECT_THROW(norm_backward(ones({2}), zero), ShapeError);
}

TEST(Indexing, WrongGradOutputsAreRefused) {
  const Tensor g = ones({5}), at = zeros({4}, int64);
  EXPECT_THROW(take_backward(g, {7}, at, 0), ShapeError);
  EXPECT_THROW(take_backward(g, {7}, at), ShapeError);
  EXPECT_THROW(take_along_axis_backward(g, {7}, at, 0), ShapeError);
  EXPECT_THROW(gather_backward(g, {7}, 0, at), ShapeError);
  EXPECT_THROW(scatter_backward(g, 0, at, {3}), ShapeError);
  EXPECT_THROW(scatter_add_backward(g, 0, at, {3}), ShapeError);
  EXPECT_THROW(index_add_backward(g, 1, at), IndexError);
  EXPECT_THROW(masked_select_backward(g, {7}, ones({7}, bool_)), ShapeError);
  EXPECT_THROW(masked_fill_backward(g, ones({4}, bool_)), ShapeError);
  EXPECT_THROW(slice_backward(g, {7}, {Slice{0, 4}}), ShapeError);
  EXPECT_THROW(slice_backward(g, {7}, 0, 0, 4), ShapeError);
  EXPECT_THROW(sort_backward(g, at), ShapeError);
  EXPECT_THROW(topk_backward(g, {7}, at), ShapeError);
  EXPECT_THROW(topk_backward(ones({4, 1}), {7}, zeros({4, 1}, int64)), ShapeError);
  EXPECT_THROW(take_backward(ones({4}, int64), {7}, at, 0), DTypeError);
  EXPECT_THROW(take_backward(ones({4}), {7}, full({4}, 7), 0), IndexError);
  EXPECT_THROW(gather_backward(ones({4}), {7}, 0, full({4}, -8)), IndexError);
  EXPECT_EQ(values_of(slice_backward(ones({2}), {5}, 0, 4, {}, -3)),
            (std::vector<double>{0, 1, 0, 0, 1}));
}

}  // namespace
}  // namespace extensor
