// Changes of shape: the database's samples, and cases that they do not cover.
#include <gtest/gtest.h>

#include "op_database/op_database.h"
#include "support/compare.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using Integers = std::vector<std::int64_t>;

const auto* const counter = ::testing::AddGlobalTestEnvironment(new gradients::Counter);

Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

TEST(ShapeOps, EveryDTypeKeepsItsValues) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(name(dtype));
    const Tensor x = tensor({{0, 1, 1}, {1, 0, 1}}, dtype);
    const auto as_integers = [](const Tensor& y) { return integers(y.to(int64)); };
    EXPECT_EQ(tile(x, {1, 2}).dtype(), dtype);
    EXPECT_EQ(as_integers(tile(x, {1, 2})), (Integers{0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1}));
    EXPECT_EQ(as_integers(repeat(x, 2, 0)), (Integers{0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1}));
    EXPECT_EQ(as_integers(roll(x, 1, 1)), (Integers{1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(as_integers(flip(x)), (Integers{1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(as_integers(pad(x, {{0, 0}, {1, 0}}, PadMode::constant, 1)),
              (Integers{1, 0, 1, 1, 1, 1, 0, 1}));
    EXPECT_EQ(as_integers(stack({x[0], x[1]}, 1)), (Integers{0, 1, 1, 0, 1, 1}));
  }
}

TEST(ShapeOps, FlipMoveaxisUnstackAreViews) {
  const Tensor x = arange(6).reshape({2, 3});
  const auto same_memory = [&](const Tensor& y) {
    return y.impl().storage.get() == x.impl().storage.get();
  };
  EXPECT_TRUE(same_memory(flip(x)));
  EXPECT_TRUE(same_memory(moveaxis(x, 0, 1)));
  EXPECT_TRUE(same_memory(unstack(x, 1)[2]));
  EXPECT_TRUE(same_memory(split(x, 3, 1)[2]));
  EXPECT_FALSE(same_memory(roll(x, 0, 1)));
  EXPECT_TRUE(unstack(zeros({0, 3})).empty());
  EXPECT_EQ(unstack(zeros({3, 0})).size(), 3U);
}

TEST(ShapeOps, JoiningPromotes) {
  EXPECT_EQ(stack({zeros({2}, int8), zeros({2}, float16)}).dtype(), float16);
  EXPECT_EQ(concat({zeros({2}, int8), zeros({2}, uint8)}).dtype(), int16);
  EXPECT_THROW(stack({zeros({2}, int8), zeros({2}, uint64)}), DTypeError);
  EXPECT_THROW(stack({}), ValueError);
  EXPECT_THROW(stack({zeros({2}), zeros({3})}), ShapeError);
  EXPECT_THROW(stack({zeros({2})}, 2), IndexError);
  EXPECT_EQ(stack({scalar(1), scalar(2)}, -1).shape(), Shape{2});
  EXPECT_EQ(stack({zeros({2, 0})}, 1).shape(), (Shape{2, 1, 0}));
}

TEST(ShapeOps, RepeatLikeNumPy) {
  const Tensor x = arange(4).reshape({2, 2});
  EXPECT_EQ(integers(repeat(x, {1, 2}, 0)), (Integers{0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(integers(repeat(x, tensor({2, 0, 1, 1}))), (Integers{0, 0, 2, 3}));
  EXPECT_EQ(integers(repeat(x, tensor({2}, int32), 1)), (Integers{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(repeat(x, 0, 1).shape(), (Shape{2, 0}));
  EXPECT_EQ(repeat(scalar(3), 2).shape(), Shape{2});
  EXPECT_EQ(repeat(zeros({0, 2}), 3, 0).shape(), (Shape{0, 2}));
  EXPECT_THROW(repeat(x, -1), ValueError);
  EXPECT_THROW(repeat(x, {1, -2}, 0), ValueError);
  EXPECT_THROW(repeat(x, {1, 2, 3}, 0), ShapeError);
  EXPECT_THROW(repeat(x, tensor({1., 2.}), 0), DTypeError);
  EXPECT_THROW(repeat(x, tensor({{1, 2}}), 0), ShapeError);
  EXPECT_THROW(repeat(x, 2, 2), IndexError);
  EXPECT_THROW(repeat(x, INT64_MAX, 0), ShapeError);
  EXPECT_THROW(repeat(x, {INT64_MAX, INT64_MAX}, 0), ShapeError);
}

TEST(ShapeOps, TileLikeNumPy) {
  EXPECT_EQ(integers(tile(tensor({1, 2}), {2, 2})), (Integers{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(tile(zeros({2, 1, 3}), {}).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(tile(zeros({3, 0}), {2, 2}).shape(), (Shape{6, 0}));
  EXPECT_THROW(tile(zeros({2}), {-1}), ValueError);
  EXPECT_THROW(tile(zeros({2}), {INT64_MAX}), ShapeError);
  EXPECT_THROW(tile(zeros({2}), {1LL << 40, 1LL << 40}), ShapeError);
  // The maximum number of dimensions.
  const Shape deep(64, 1);
  EXPECT_EQ(tile(zeros(deep), Dims{3}).numel(), 3);
  EXPECT_EQ(tile_backward(ones(tile(zeros(deep), Dims{3}).shape()), deep, {3}).item<float>(), 3);
}

TEST(ShapeOps, RollLikeNumPy) {
  const Tensor x = arange(10).reshape({2, 5});
  EXPECT_EQ(integers(roll(x, 1)), (Integers{9, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(integers(roll(x, {1, 1}, {1, 1})), integers(roll(x, 2, 1)));  // repeated axes add up
  EXPECT_EQ(integers(roll(x, {1, 2}, 1)), integers(roll(x, 3, 1)));
  EXPECT_EQ(integers(roll(x, 1, {0, 1})), (Integers{9, 5, 6, 7, 8, 4, 0, 1, 2, 3}));
  for (std::int64_t shift : {INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(integers(roll_backward(roll(x, shift, 1).to(float64), shift, 1).to(int64)),
              integers(x));
  }
  EXPECT_EQ(roll(zeros({0}), 3).shape(), Shape{0});
  EXPECT_EQ(roll(scalar(1), 3).shape(), Shape{});
  EXPECT_THROW(roll(x, {1, 2, 3}, {0, 1}), ShapeError);
  EXPECT_THROW(roll(x, 1, 2), IndexError);
}

TEST(ShapeOps, PadLikeNumPy) {
  const Tensor x = tensor({1, 2, 3});
  EXPECT_EQ(integers(pad(x, {{2, 3}}, PadMode::reflect)), (Integers{3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(integers(pad(x, {{2, 3}}, PadMode::edge)), (Integers{1, 1, 1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(integers(pad(x, {{2, 4}}, PadMode::wrap)), (Integers{2, 3, 1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(integers(pad(x, {{1, 1}}, PadMode::constant, -7)), (Integers{-7, 1, 2, 3, -7}));
  EXPECT_EQ(integers(pad(tensor({5}), {{2, 2}}, PadMode::reflect)), (Integers{5, 5, 5, 5, 5}));
  EXPECT_EQ(integers(pad(zeros({0}, int64), {{1, 1}})), (Integers{0, 0}));
  EXPECT_EQ(pad(scalar(2), {}).shape(), Shape{});
  EXPECT_EQ(pad(zeros({2, 3}), {{1, 2}}).shape(), (Shape{5, 6}));
  EXPECT_THROW(pad(x, {{-4, 0}}), ValueError);
  EXPECT_THROW(pad(x, {{1, 1}, {1, 1}}), ShapeError);
  EXPECT_THROW(pad(zeros({0}), {{1, 0}}, PadMode::edge), ValueError);
  EXPECT_THROW(pad(x, {{INT64_MAX, INT64_MAX}}), ShapeError);
  EXPECT_THROW(pad(x.to(int8), {{1, 1}}, PadMode::constant, 300), ValueError);
}

TEST(ShapeOps, MoveaxisErrors) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(moveaxis(x, {0, 1}, {-1, -2}).shape(), (Shape{4, 3, 2}));
  EXPECT_THROW(moveaxis(x, {0, 0}, {1, 2}), ValueError);
  EXPECT_THROW(moveaxis(x, {0, 1}, {1, 1}), ValueError);
  EXPECT_THROW(moveaxis(x, {0, 1}, {1}), ShapeError);
  EXPECT_THROW(moveaxis(x, 3, 0), IndexError);
}

TEST(ShapeOps, PartsWithoutAGradientCountAsZero) {
  const Tensor g = split_backward({Tensor(), ones({2}, float64), Tensor()}, {6});
  EXPECT_EQ(g.dtype(), float64);
  EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(unstack_backward({Tensor(), Tensor()}, {2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(unstack_backward({}, {0, 3}).shape(), (Shape{0, 3}));
}

TEST(ShapeOps, WrongGradOutputsAreRefused) {
  EXPECT_THROW(concatenate_backward(ones({5}), {{2}, {2}}), ShapeError);
  EXPECT_THROW(concatenate_backward(ones({4, 1}), {{2, 1}, {2, 2}}), ShapeError);
  EXPECT_THROW(concatenate_backward(ones({4}), {{-1}, {5}}), ShapeError);
  EXPECT_THROW(concatenate_backward(ones({4}), {}), ValueError);
  EXPECT_THROW(concatenate_backward(ones({4}, int32), {{2}, {2}}), DTypeError);
  EXPECT_THROW(stack_backward(ones({2}), 1), IndexError);
  EXPECT_THROW(split_backward({ones({2}), ones({3})}, {6}), ShapeError);
  EXPECT_THROW(split_backward({ones({2}), ones({2})}, {5}), ValueError);
  EXPECT_THROW(split_backward({}, {6}), ValueError);
  EXPECT_THROW(unstack_backward({ones({3})}, {2, 3}), ValueError);
  EXPECT_THROW(unstack_backward({ones({3}), ones({2})}, {2, 3}), ShapeError);
  EXPECT_THROW(tile_backward(ones({5}), {2}, {2}), ShapeError);
  EXPECT_THROW(repeat_backward(ones({5}), {2}, 2, 0), ShapeError);
  EXPECT_THROW(repeat_backward(ones({5}), {2}, {2, 2}, 0), ShapeError);
  EXPECT_THROW(flip_backward(ones({5}), 1), IndexError);
  EXPECT_THROW(roll_backward(ones({5}, int64), 1), DTypeError);
  EXPECT_THROW(moveaxis_backward(ones({5}), 0, 1), IndexError);
  EXPECT_THROW(pad_backward(ones({5}), {3}, {{1, 0}}), ShapeError);
  EXPECT_THROW(broadcast_to_backward(ones({2, 3}), {2}), ShapeError);
}

}  // namespace
}  // namespace extensor
