// In-place writes: allowed targets, dtypes and overlapping operands.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "core/make_tensor.h"
#include "extensor/extensor.h"
#include "ops/overlap.h"

namespace {

using namespace extensor;
using ops::Overlap;

std::vector<std::int64_t> integers(const Tensor& x) {
  return x.to(int64).to_vector<std::int64_t>();
}

std::uint64_t version(const Tensor& x) { return x.impl().storage->version; }

// ---- values and dtypes

TEST(InPlaceTest, CompoundOperators) {
  Tensor x = tensor({7, -7, 9});
  const Tensor handle = x;  // shares the memory, so sees every change
  x += tensor({1, 1, 1});
  EXPECT_EQ(integers(handle), (std::vector<std::int64_t>{8, -6, 10}));
  x -= 2;
  EXPECT_EQ(integers(handle), (std::vector<std::int64_t>{6, -8, 8}));
  x *= tensor({2, 3, -1});
  EXPECT_EQ(integers(handle), (std::vector<std::int64_t>{12, -24, -8}));
  x %= 5;
  EXPECT_EQ(integers(handle), (std::vector<std::int64_t>{2, 1, 2}));
  Tensor y = tensor({1.0, 2.0, 4.0});
  y /= tensor({2.0, 4.0, 8.0});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{.5, .5, .5}));
  y /= 0.25;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(&(y += 1), &y);
}

TEST(InPlaceTest, NamedForms) {
  Tensor x = tensor({-4.0, 0.0, 9.0});
  EXPECT_EQ(&abs_(x), &x);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 0, 9}));
  sqrt_(x);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 0, 3}));
  clip_(x, 1, 2.5);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 1, 2.5}));
  maximum_(x, tensor({0.0, 5.0, 0.0}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 5, 2.5}));
  power_(x, 2);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 25, 6.25}));
  Tensor n = tensor({6, 5, 4});
  bitwise_and_(n, 4);
  bitwise_left_shift_(n, tensor({1, 2, 3}));
  floor_divide_(n, 3);
  EXPECT_EQ(integers(n), (std::vector<std::int64_t>{2, 5, 10}));
}

TEST(InPlaceTest, KeepsTheDtypeItHas) {
  Tensor half = ones({5}, float16);
  half += full({5}, 0.1, float64);
  EXPECT_EQ(half.dtype(), float16);
  EXPECT_EQ(half[0].item<float>(), static_cast<float>(Float16(1.1)));
  Tensor small = full({3}, 100, int8);
  small += full({3}, 100, int64);  // computed in int64, stored modulo 256
  EXPECT_EQ(small.dtype(), int8);
  EXPECT_EQ(integers(small), std::vector<std::int64_t>(3, -56));
  Tensor natural = full({3}, 1, uint8);
  natural -= 2;
  EXPECT_EQ(integers(natural), std::vector<std::int64_t>(3, 255));
  Tensor real = ones({3});
  real += tensor({1, 2, 3});
  EXPECT_EQ(real.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  Tensor number = tensor({1, 2, 3});
  number += tensor({true, false, true});
  EXPECT_EQ(integers(number), (std::vector<std::int64_t>{2, 2, 4}));
}

TEST(InPlaceTest, AResultThatDoesNotFitTheDtypeIsRefused) {
  Tensor n = tensor({1, 2, 3});
  const auto before = version(n);
  EXPECT_THROW(n += 0.5, DTypeError);
  EXPECT_THROW(n += tensor({.5, .5, .5}), DTypeError);
  EXPECT_THROW(n /= 2, DTypeError);
  EXPECT_THROW(n /= tensor({1, 1, 1}), DTypeError);
  EXPECT_THROW(exp_(n), DTypeError);
  EXPECT_THROW(clip_(n, 0.5, 2.5), DTypeError);
  EXPECT_THROW(hypot_(n, 1), DTypeError);
  Tensor truth = tensor({true, false, true});
  EXPECT_THROW(truth += 1, DTypeError);
  EXPECT_THROW(truth += tensor({1, 2, 3}), DTypeError);
  Tensor natural = n.to(uint64);
  EXPECT_THROW(natural += n, DTypeError);
  EXPECT_EQ(integers(n), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(version(n), before);
}

TEST(InPlaceTest, TheOtherOperandBroadcastsIntoThisShape) {
  Tensor x = zeros({2, 3}, int64);
  x += tensor({1, 2, 3});
  x += tensor({{10}, {20}});
  x += scalar(100);
  EXPECT_EQ(integers(x), (std::vector<std::int64_t>{111, 112, 113, 121, 122, 123}));
  Tensor row = ones({3}, int64);
  EXPECT_THROW(row += x, ShapeError);
  Tensor column = ones({2, 1}, int64);
  EXPECT_THROW(column += row, ShapeError);
  Tensor none = zeros({0, 3}, int64);
  none += row;
  EXPECT_EQ(none.shape(), (Shape{0, 3}));
}

TEST(InPlaceTest, OnlyTheViewedElementsChange) {
  Tensor base = zeros({6, 7}, int64);
  Tensor view = base.slice(0, 1, 6, 2).slice(1, 5, {}, -2).transpose();
  view += tensor({1, 2, 3});
  std::vector<std::int64_t> expected(42, 0);
  for (int row : {0, 1, 2}) {
    for (int column : {5, 3, 1})
      expected[static_cast<std::size_t>((2 * row + 1) * 7 + column)] = row + 1;
  }
  EXPECT_EQ(integers(base), expected);
  base[0].fill(9);
  EXPECT_EQ(integers(base[0]), std::vector<std::int64_t>(7, 9));
}

TEST(InPlaceTest, EveryWriteCountsInTheStoragesVersion) {
  Tensor x = ones({4});
  Tensor view = x.slice(0, 0, 2);
  std::uint64_t count = version(x);
  const auto expect_counted = [&](const char* what) {
    EXPECT_EQ(version(x), ++count) << what;
    EXPECT_EQ(version(view), count) << what;  // one counter for all views
  };
  x += 1;
  expect_counted("+=");
  x *= x;
  expect_counted("*=");
  view -= ones({2});
  expect_counted("a view");
  exp_(view);
  expect_counted("exp_");
  clip_(x, 0, 1);
  expect_counted("clip_");
  x.fill(2);
  expect_counted("fill");
  view.copy_from(zeros({2}));
  expect_counted("copy_from");
  (void)(x + 1);
  (void)sum(x);
  EXPECT_THROW(x += ones({3, 4}), ShapeError);
  EXPECT_EQ(version(x), count);
}

// ---- overlap

TEST(InPlaceTest, TheSameTensorOnBothSides) {
  Tensor x = arange(1000);
  x += x;
  EXPECT_EQ(integers(x), integers(arange(1000) * 2));
  x *= x;
  EXPECT_EQ(integers(x), integers(square(arange(1000) * 2)));
  Tensor matrix = arange(12).reshape({3, 4});
  Tensor turned = matrix.transpose();
  turned += matrix.transpose();
  EXPECT_EQ(integers(matrix), integers(arange(12) * 2));
  // The same elements at the same positions under another shape.
  Tensor row = arange(3).reshape({1, 3});
  row += row.reshape({3});
  EXPECT_EQ(integers(row), (std::vector<std::int64_t>{0, 2, 4}));
}

TEST(InPlaceTest, InterleavedAndDisjointPartsAreExact) {
  Tensor x = arange(1000);
  Tensor even = x.slice(0, 0, {}, 2);
  even += x.slice(0, 1, {}, 2);
  std::vector<std::int64_t> expected(1000);
  for (std::int64_t i = 0; i < 1000; ++i)
    expected[static_cast<std::size_t>(i)] = i % 2 == 0 ? 2 * i + 1 : i;
  EXPECT_EQ(integers(x), expected);

  Tensor matrix = arange(12).reshape({3, 4});
  Tensor left = matrix.slice(1, 0, 2);
  left *= matrix.slice(1, 2, 4);
  EXPECT_EQ(integers(matrix),
            (std::vector<std::int64_t>{0, 3, 2, 3, 24, 35, 6, 7, 80, 99, 10, 11}));

  Tensor line = arange(10);
  Tensor head = line.slice(0, 0, 5);
  head += line.slice(0, 9, 4, -1);  // the other half, reversed
  EXPECT_EQ(integers(line), (std::vector<std::int64_t>{9, 9, 9, 9, 9, 5, 6, 7, 8, 9}));
}

TEST(InPlaceTest, PartialOverlapIsRefused) {
  Tensor x = arange(16);
  Tensor head = x.slice(0, 0, 15), square_view = x.reshape({4, 4});
  const auto refuse = [&](const std::function<void()>& call) {
    EXPECT_THROW(call(), ValueError);
    EXPECT_EQ(integers(x), integers(arange(16)));
  };
  refuse([&] { head += x.slice(0, 1, 16); });
  refuse([&] { x += x.slice(0, {}, {}, -1); });
  refuse([&] { square_view -= square_view.transpose(); });
  refuse([&] { square_view += square_view[1]; });
  refuse([&] { square_view += x.slice(0, 0, 1); });
  Tensor every_third = x.slice(0, 0, {}, 3);
  refuse([&] { every_third += x.slice(0, 0, 12, 2); });
}

TEST(InPlaceTest, CopyFromReadsBeforeItWrites) {
  for (std::int64_t length : {10, 1000, 40000}) {
    SCOPED_TRACE(length);
    Tensor x = arange(length);
    x.slice(0, 1).copy_from(x.slice(0, 0, length - 1));
    EXPECT_EQ(integers(x.slice(0, 1)), integers(arange(length - 1)));
    EXPECT_EQ(x[0].item<int>(), 0);
    Tensor y = arange(length);
    y.slice(0, 0, length - 1).copy_from(y.slice(0, 1));
    EXPECT_EQ(integers(y.slice(0, 0, length - 1)), integers(arange(1, length)));
    Tensor z = arange(length);
    z.copy_from(z.slice(0, {}, {}, -1));
    EXPECT_EQ(integers(z), integers(arange(length - 1, -1, -1)));
    z.copy_from(z.slice(0, 3, 4));  // one of its own elements, repeated
    EXPECT_EQ(integers(z), std::vector<std::int64_t>(static_cast<std::size_t>(length), length - 4));
  }
  Tensor square = arange(90000).reshape({300, 300});
  const Tensor turned = square.transpose().clone();
  square.copy_from(square.transpose());
  EXPECT_EQ(integers(square), integers(turned));
}

TEST(InPlaceTest, CopyFromConvertsAndBroadcasts) {
  Tensor x = zeros({2, 3}, float16);
  x.copy_from(tensor({1, 2, 3}));
  EXPECT_EQ(integers(x), (std::vector<std::int64_t>{1, 2, 3, 1, 2, 3}));
  Tensor n = zeros({3}, int32);
  EXPECT_THROW(n.copy_from(ones({3})), DTypeError);  // would silently drop fractions
  EXPECT_THROW(n.copy_from(ones({2, 3}, int32)), ShapeError);
  n.copy_from(tensor({true, false, true}));
  EXPECT_EQ(integers(n), (std::vector<std::int64_t>{1, 0, 1}));
}

// ---- overlap against brute force

// The elements that a view covers, in row-major order.
std::vector<std::int64_t> reached(const Tensor& x) {
  const auto* first = static_cast<const std::byte*>(x.impl().storage->data);
  const auto item = static_cast<std::int64_t>(x.itemsize());
  std::vector<std::int64_t> result;
  const std::function<void(std::size_t, std::int64_t)> walk = [&](std::size_t axis,
                                                                  std::int64_t at) {
    if (axis == x.shape().size()) {
      result.push_back(at);
      return;
    }
    for (std::int64_t i = 0; i < x.shape()[axis]; ++i) walk(axis + 1, at + i * x.strides()[axis]);
  };
  walk(0, (x.impl().data - first) / item);
  return result;
}

// A random view of `base`, 60 elements long.
Tensor random_view(std::mt19937& random, const Tensor& base) {
  for (;;) {
    Shape shape;
    Strides strides;
    const std::size_t rank = random() % 4;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + static_cast<std::int64_t>(random() % 5));
      strides.push_back(static_cast<std::int64_t>(random() % 27) - 13);
    }
    const auto offset = static_cast<std::int64_t>(random() % 60);
    try {
      return detail::strided_view("test", base, shape, strides, offset);
    } catch (const ValueError&) {  // out of bounds: draw again
    }
  }
}

TEST(OverlapTest, AgreesWithBruteForce) {
  std::mt19937 random(4711);
  const Tensor base = arange(60);
  int counts[3] = {};
  for (int round = 0; round < 20000; ++round) {
    const Tensor a = random_view(random, base);
    const Tensor b = random() % 8 == 0 ? a : random_view(random, base);
    const auto places_a = reached(a), places_b = reached(b);
    const std::set<std::int64_t> set_a(places_a.begin(), places_a.end());
    bool shared = false;
    for (std::int64_t place : places_b) shared |= set_a.count(place) != 0;
    const Overlap found = ops::overlap(a, b);
    ++counts[static_cast<int>(found)];
    ASSERT_EQ(found != Overlap::none, shared)
        << a.shape() << a.strides() << " and " << b.shape() << b.strides();
    if (found == Overlap::same) {
      ASSERT_EQ(places_a, places_b);
    }
    if (a.shape() == b.shape() && a.strides() == b.strides() && places_a == places_b) {
      ASSERT_EQ(found, Overlap::same);
    }
    ASSERT_EQ(ops::overlap(b, a), found);
    ASSERT_EQ(ops::overlaps_itself(a), set_a.size() != places_a.size()) << a.shape() << a.strides();
  }
  for (int count : counts) EXPECT_GT(count, 1000);
}

TEST(OverlapTest, OtherStoragesAndEmptyViews) {
  const Tensor x = arange(6);
  EXPECT_EQ(ops::overlap(x, arange(6)), Overlap::none);
  EXPECT_EQ(ops::overlap(x, x.slice(0, 3, 3)), Overlap::none);
  EXPECT_EQ(ops::overlap(x, x), Overlap::same);
  EXPECT_EQ(ops::overlap(x, x.reshape({2, 3})), Overlap::partial);
  EXPECT_EQ(ops::overlap(x, x.reshape({1, 6, 1})), Overlap::same);
  EXPECT_FALSE(ops::overlaps_itself(x.transpose()));
  EXPECT_TRUE(ops::overlaps_itself(x.broadcast_to({2, 6})));
  EXPECT_FALSE(ops::overlaps_itself(x.broadcast_to({1, 6})));
}

TEST(OverlapTest, TwoStoragesThatWrapTheSameMemory) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  Tensor head = from_external(memory.data(), float32, {5});
  const Tensor tail = from_external(memory.data() + 1, float32, {5});
  EXPECT_EQ(ops::overlap(head, tail), Overlap::partial);
  EXPECT_EQ(ops::overlap(head, from_external(memory.data(), float32, {5})), Overlap::same);
  EXPECT_EQ(ops::overlap(head, from_external(memory.data() + 5, float32, {1})), Overlap::none);
  EXPECT_THROW(head += tail, ValueError);
  head.copy_from(tail);
  EXPECT_EQ(memory, (std::vector<float>{2, 3, 4, 5, 6, 6}));
}

TEST(OverlapTest, ElementsOfDifferentSizesOnOneMemory) {
  alignas(8) static std::byte memory[64];
  const StoragePointer storage = wrap_storage(memory, 64, cpu_device, nullptr, nullptr);
  const auto view = [&](std::int64_t byte, DType dtype, std::int64_t count, std::int64_t stride) {
    return detail::make_on_storage(storage, memory + byte, dtype, {count}, {stride});
  };
  // Bytes 0–3, 16–19, 32–35, 48–51 against others.
  const Tensor words = view(0, int32, 4, 4);
  EXPECT_EQ(ops::overlap(words, view(4, int8, 12, 1)), Overlap::none);
  EXPECT_EQ(ops::overlap(words, view(4, int8, 13, 1)), Overlap::partial);
  EXPECT_EQ(ops::overlap(words, view(3, int8, 1, 1)), Overlap::partial);
  EXPECT_EQ(ops::overlap(words, view(8, int64, 4, 2)), Overlap::none);
  EXPECT_EQ(ops::overlap(words, view(0, int64, 4, 2)), Overlap::partial);
  EXPECT_EQ(ops::overlap(view(8, int64, 4, 2), view(18, int16, 3, 8)), Overlap::none);
}

}  // namespace
