// Views, compared with a reference that uses only index arithmetic on the row-major position.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/make_tensor.h"
#include "extensor/tensor.h"

namespace {

using namespace extensor;

// 0, 1, 2, … in row-major order.
Tensor counting(const Shape& shape) {
  Tensor tensor = detail::make_empty("test", shape, int64, cpu_device);
  std::iota(tensor.data<std::int64_t>(), tensor.data<std::int64_t>() + tensor.numel(), 0);
  return tensor;
}

// The elements in row-major order of the view, read through its strides.
std::vector<std::int64_t> values(const Tensor& tensor) {
  std::vector<std::int64_t> result;
  const std::function<void(std::size_t, std::int64_t)> walk = [&](std::size_t axis,
                                                                  std::int64_t offset) {
    if (axis == tensor.shape().size()) {
      result.push_back(tensor.data<std::int64_t>()[offset]);
      return;
    }
    for (std::int64_t i = 0; i < tensor.shape()[axis]; ++i) {
      walk(axis + 1, offset + i * tensor.strides()[axis]);
    }
  };
  walk(0, 0);
  return result;
}

bool shares_memory(const Tensor& a, const Tensor& b) {
  return a.impl().storage.get() == b.impl().storage.get();
}

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

using List = std::vector<std::int64_t>;

TEST(ReshapeTest, ViewsWhereverStridesAllow) {
  const Tensor x = counting({2, 3, 4});
  const Tensor y = x.reshape({4, -1});
  EXPECT_EQ(y.shape(), (Shape{4, 6}));
  EXPECT_TRUE(shares_memory(x, y));
  EXPECT_EQ(values(y), values(x));
  // Every second row: the last two dimensions still merge, and split.
  const Tensor rows = x.slice(1, {}, {}, 2);
  const Tensor split = rows.reshape({2, 2, 2, 2});
  EXPECT_TRUE(shares_memory(x, split));
  EXPECT_EQ(values(split), values(rows));
  const Tensor flipped = counting({6}).slice(0, {}, {}, -1);
  EXPECT_EQ(values(flipped.reshape({2, 3})), (List{5, 4, 3, 2, 1, 0}));
  EXPECT_TRUE(shares_memory(flipped, flipped.reshape({2, 3})));
  const Tensor broadcast = counting({3, 1}).broadcast_to({3, 4}).reshape({3, 2, 1, 2});
  EXPECT_EQ(broadcast.strides()[1], 0);
  EXPECT_EQ(values(broadcast), (List{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  const Tensor ones = x.transpose().reshape({1, 4, 1, 3, 2, 1});
  EXPECT_TRUE(shares_memory(x, ones));
  EXPECT_EQ(values(ones), values(x.transpose()));
}

TEST(ReshapeTest, CopiesWhereStridesForbid) {
  const Tensor x = counting({2, 3}).transpose();
  const Tensor y = x.reshape({6});
  EXPECT_FALSE(shares_memory(x, y));
  EXPECT_EQ(values(y), (List{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(x.flatten()), values(y));
}

TEST(ReshapeTest, ZeroDimensionalAndEmpty) {
  EXPECT_EQ(counting({}).reshape({1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(counting({1}).reshape({}).ndim(), 0);
  EXPECT_EQ(counting({0, 3}).reshape({3, 0, 7}).shape(), (Shape{3, 0, 7}));
  EXPECT_EQ(counting({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(counting({0, 3}).flatten().shape(), (Shape{0}));
}

TEST(ReshapeTest, Item11TwoUnknowns) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW(x.reshape({-1, -1}), ShapeError);
  EXPECT_EQ(text_of([&] {
              x.reshape({-1, -1});
            }),
            "reshape: shape [-1, -1] has more than one -1 (allowed: one)");
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
}

TEST(ReshapeTest, Item12UnknownBesideZero) {
  EXPECT_THROW(counting({0, 3}).reshape({-1, 0}), ShapeError);
  EXPECT_THROW(counting({2, 3}).reshape({0, -1}), ShapeError);
}

TEST(ReshapeTest, WrongCountNegativeAndHuge) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(text_of([&] {
              x.reshape({4, 2});
            }),
            "reshape: a tensor of shape [2, 3] with 6 elements does not fit shape [4, 2]");
  EXPECT_THROW(x.reshape({-1, 4}), ShapeError);
  EXPECT_THROW(x.reshape({-2, -3}), ShapeError);
  EXPECT_THROW(x.reshape({INT64_MAX, INT64_MAX, -1}), ShapeError);
  EXPECT_THROW(x.reshape({0}), ShapeError);
  EXPECT_THROW(counting({1}).reshape(Shape(65, 1)), ShapeError);
}

TEST(TransposeTest, ReversesAndPermutes) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x.transpose().shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(x.transpose().strides(), (Strides{1, 4, 12}));
  const Tensor y = x.transpose({1, -1, 0});
  EXPECT_EQ(y.shape(), (Shape{3, 4, 2}));
  EXPECT_EQ((y[{2, 3, 1}].item<std::int64_t>()), (x[{1, 2, 3}].item<std::int64_t>()));
  EXPECT_FALSE(y.is_contiguous());
  EXPECT_TRUE(counting({1, 5, 1}).transpose().is_contiguous());
}

TEST(TransposeTest, Item13RepeatedAxis) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW(x.transpose({0, 0}), ValueError);
  EXPECT_THROW(x.transpose({1, -1}), ValueError);
  EXPECT_THROW(x.transpose({0, 2}), IndexError);
  EXPECT_THROW(x.transpose({0}), ShapeError);
}

TEST(TransposeTest, Item14ZeroDimensional) {
  const Tensor x = counting({});
  EXPECT_EQ(x.transpose().ndim(), 0);
  EXPECT_TRUE(shares_memory(x, x.transpose()));
  EXPECT_EQ(x.transpose(Dims{}).ndim(), 0);
  EXPECT_THROW(x.transpose({0}), ShapeError);
}

TEST(BroadcastTest, GrowsOnesAndAddsInFront) {
  const Tensor x = counting({3, 1});
  const Tensor y = x.broadcast_to({2, 3, 2});
  EXPECT_EQ(y.strides(), (Strides{0, 1, 0}));
  EXPECT_EQ(values(y), (List{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(counting({1}).broadcast_to({0}).numel(), 0);
  EXPECT_EQ(counting({}).broadcast_to({}).ndim(), 0);
}

TEST(BroadcastTest, Item15Shrinking) {
  const Tensor x = counting({3, 2});
  EXPECT_THROW(x.broadcast_to({1, 2}), ShapeError);
  EXPECT_THROW(x.broadcast_to({2}), ShapeError);
  EXPECT_THROW(x.broadcast_to({}), ShapeError);
  EXPECT_THROW(x.broadcast_to({3, 0}), ShapeError);
  EXPECT_THROW(x.broadcast_to({-1, 2}), ShapeError);
  EXPECT_THROW(counting({1}).broadcast_to({INT64_MAX}), ShapeError);
  EXPECT_EQ(
      text_of([&] { x.broadcast_to({6}); }).rfind("broadcast_to: a tensor of shape [3, 2]", 0), 0u);
}

TEST(SqueezeTest, RemovesOnes) {
  const Tensor x = counting({1, 3, 1, 2});
  EXPECT_EQ(x.squeeze().shape(), (Shape{3, 2}));
  EXPECT_EQ(x.squeeze(0).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(x.squeeze(Axes{-2, 0}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.squeeze(Dims{}).shape(), x.shape());
  EXPECT_EQ(counting({1, 1}).squeeze().ndim(), 0);
  EXPECT_EQ(x.unsqueeze(-1).shape(), (Shape{1, 3, 1, 2, 1}));
  EXPECT_EQ(x.unsqueeze(0).shape(), (Shape{1, 1, 3, 1, 2}));
  EXPECT_TRUE(x.unsqueeze(2).is_contiguous());
  EXPECT_THROW(x.unsqueeze(6), IndexError);
  EXPECT_THROW(counting(Shape(64, 1)).unsqueeze(0), ShapeError);
}

TEST(SqueezeTest, Item16AxisThatIsNotOne) {
  const Tensor x = counting({1, 3});
  EXPECT_EQ(text_of([&] { x.squeeze(1); }),
            "squeeze: axis 1 of shape [1, 3] has size 3 (allowed: 1)");
  EXPECT_THROW(x.squeeze(Axes{0, 1}), ShapeError);
  EXPECT_THROW(x.squeeze(2), IndexError);
  EXPECT_THROW(x.squeeze(Axes{0, -2}), ValueError);
}

// The positions that a NumPy (and Python) slice keeps, one by one.
List python_slice(std::int64_t size, std::optional<std::int64_t> start,
                  std::optional<std::int64_t> stop, std::int64_t step) {
  List result;
  // Bounds far outside behave like bounds just outside.
  const auto near = [&](std::int64_t bound) {
    if (bound < -size) bound = -size - 1;
    if (bound > size) bound = size;
    return bound < 0 ? bound + size : bound;
  };
  if (step > 0) {
    const std::int64_t first = start ? std::max<std::int64_t>(near(*start), 0) : 0;
    const std::int64_t last = stop ? near(*stop) : size;
    for (std::int64_t i = first, left = 0; i < last; ++i, --left) {
      if (left == 0) {
        result.push_back(i);
        left = step;
      }
    }
  } else {
    const std::int64_t first = start ? std::min(near(*start), size - 1) : size - 1;
    const std::int64_t last = stop ? std::max<std::int64_t>(near(*stop), -1) : -1;
    for (std::int64_t i = first, left = 0; i > last; --i, ++left) {
      if (left == 0) {
        result.push_back(i);
        left = step;
      }
    }
  }
  return result;
}

TEST(SliceTest, EveryCombination) {
  std::vector<std::optional<std::int64_t>> bounds{std::nullopt, INT64_MIN, INT64_MIN + 1, INT64_MAX,
                                                  INT64_MAX - 1};
  for (std::int64_t bound = -8; bound <= 8; ++bound) bounds.emplace_back(bound);
  for (const std::int64_t size : {0, 1, 2, 5, 6}) {
    const Tensor x = counting({size});
    for (const auto& start : bounds) {
      for (const auto& stop : bounds) {
        for (const std::int64_t step :
             {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{-1},
              std::int64_t{-2}, std::int64_t{-5}, INT64_MIN, INT64_MAX, -INT64_MAX}) {
          ASSERT_EQ(values(x.slice(0, start, stop, step)), python_slice(size, start, stop, step))
              << size << " " << start.value_or(77) << ":" << stop.value_or(77) << ":" << step;
        }
      }
    }
  }
}

TEST(SliceTest, Item17StepZero) {
  const Tensor x = counting({4});
  EXPECT_EQ(text_of([&] { x.slice(0, 0, 2, 0); }), "slice: slice step is 0 (allowed: any other)");
  EXPECT_THROW((x[{Slice{{}, {}, 0}}]), ValueError);
}

TEST(SliceTest, Item18ExtremeBounds) {
  const Tensor x = counting({4});
  EXPECT_EQ(values(x.slice(0, INT64_MIN, INT64_MAX)), (List{0, 1, 2, 3}));
  EXPECT_EQ(values(x.slice(0, INT64_MAX, INT64_MIN, -1)), (List{3, 2, 1, 0}));
  EXPECT_EQ(values(x.slice(0, INT64_MAX, INT64_MIN, INT64_MIN)), (List{3}));
  EXPECT_THROW(x.slice(INT64_MIN), IndexError);
}

TEST(IndexTest, IntegersSlicesEllipsisAndNewAxis) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x[1].shape(), (Shape{3, 4}));
  EXPECT_EQ(values(x[-1]), values(x.slice(0, 1)));
  EXPECT_EQ((x[{1, 2, 3}].item<int64_t>()), 23);
  EXPECT_EQ((x[{ellipsis, 0}].shape()), (Shape{2, 3}));
  EXPECT_EQ(values(x[{ellipsis, 0}]), (List{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ((x[{0, ellipsis, Slice{{}, {}, 2}}].shape()), (Shape{3, 2}));
  EXPECT_EQ((x[{newaxis, 1, newaxis, Slice{1, 3}}].shape()), (Shape{1, 1, 2, 4}));
  EXPECT_EQ((x[{ellipsis}].shape()), x.shape());
  EXPECT_EQ((x[{0, 1, 2, ellipsis}].ndim()), 0);
  EXPECT_EQ(x.index({}).shape(), x.shape());
  EXPECT_EQ(values(x.index({Slice{{}, {}, -1}, 0, Slice{3, 1, -1}})), (List{15, 14, 3, 2}));
  EXPECT_TRUE(shares_memory(x, x[{ellipsis, 0}]));
  EXPECT_EQ((counting({})[{ellipsis, newaxis}].shape()), (Shape{1}));
  EXPECT_EQ((counting({0, 5})[{ellipsis, 4}].shape()), (Shape{0}));
}

TEST(IndexTest, Errors) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(text_of([&] { x[2]; }),
            "index: index 2 is out of range for axis 0 of shape [2, 3] (allowed: -2 to 1)");
  EXPECT_THROW(x[-3], IndexError);
  EXPECT_THROW((x[{0, INT64_MIN}]), IndexError);
  EXPECT_THROW((x[{0, 0, 0}]), IndexError);
  EXPECT_THROW((x[{ellipsis, ellipsis}]), IndexError);
  EXPECT_THROW(counting({0})[0], IndexError);
  EXPECT_THROW(counting({})[0], IndexError);
  EXPECT_THROW(counting({1}).index(std::vector<Index>(64, newaxis)), ShapeError);
}

TEST(StridedViewTest, Item07BeyondItsStorage) {
  const Tensor x = counting({10});
  const auto view = [&](const Shape& shape, const Strides& strides, std::int64_t offset) {
    return detail::strided_view("strided_view", x, shape, strides, offset);
  };
  EXPECT_EQ(values(view({3, 2}, {3, 1}, 2)), (List{2, 3, 5, 6, 8, 9}));
  EXPECT_EQ(values(view({2}, {-9}, 9)), (List{9, 0}));
  EXPECT_THROW(view({11}, {1}, 0), ValueError);
  EXPECT_THROW(view({10}, {1}, 1), ValueError);
  EXPECT_THROW(view({2}, {-1}, 0), ValueError);
  EXPECT_THROW(view({1}, {1}, -1), ValueError);
  EXPECT_THROW(view({2}, {INT64_MAX}, 0), ValueError);
  EXPECT_THROW(view({3}, {INT64_MIN}, 0), ValueError);
  EXPECT_THROW(view({2, 2}, {INT64_MAX / 8, INT64_MAX / 8}, 5), ValueError);
  EXPECT_THROW(view({1}, {1}, INT64_MAX), ValueError);
  EXPECT_THROW(view({2}, {1, 1}, 0), ShapeError);
  EXPECT_THROW(view({-1}, {1}, 0), ShapeError);
  EXPECT_EQ(view({0, 5}, {1, INT64_MAX}, 10).numel(), 0);
  EXPECT_THROW(view({0}, {1}, 11), ValueError);
  // Offsets count from the tensor, bounds from its storage.
  EXPECT_EQ(values(detail::strided_view("strided_view", x.slice(0, 4), {2}, {1}, -4)),
            (List{0, 1}));
}

TEST(ItemTest, ConvertsTheOneElement) {
  Tensor x = detail::make_empty("test", {1, 1}, float32, cpu_device);
  x.data<float>()[0] = 300.7f;
  EXPECT_EQ(x.item<std::int32_t>(), 300);
  EXPECT_EQ(x.item<std::uint8_t>(), 255);
  EXPECT_EQ(x.item<double>(), 300.7f);
  EXPECT_TRUE(x.item<bool>());
  EXPECT_EQ(text_of([] {
              counting({2, 3}).item<float>();
            }),
            "item: a tensor of shape [2, 3] has 6 elements (allowed: exactly one)");
  EXPECT_THROW(counting({0}).item<float>(), ValueError);
}

TEST(TensorTest, UndefinedAndWrongDtype) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW(none.shape(), ValueError);
  EXPECT_THROW(none.reshape({1}), ValueError);
  EXPECT_THROW(none[0], ValueError);
  EXPECT_THROW(counting({1}).data<float>(), DTypeError);
  EXPECT_EQ(counting({2, 5}).size(-1), 5);
  EXPECT_THROW(counting({2, 5}).size(2), IndexError);
}

TEST(TensorTest, HandlesShareAndViewsKeepMemoryAlive) {
  Tensor view;
  {
    const Tensor x = counting({1000});
    Tensor copy = x;
    const Tensor& itself = copy;
    copy = itself;
    view = copy.slice(0, 990);
  }
  EXPECT_EQ(values(view), (List{990, 991, 992, 993, 994, 995, 996, 997, 998, 999}));
}

TEST(TensorTest, Contiguity) {
  EXPECT_TRUE(counting({3, 4}).slice(0, 1).is_contiguous());
  EXPECT_FALSE(counting({3, 4}).slice(1, 1).is_contiguous());
  EXPECT_TRUE(counting({3, 4}).slice(0, 0, 1).transpose().is_contiguous());
  EXPECT_TRUE(counting({3, 4}).slice(1, 2, 2).is_contiguous());
  EXPECT_FALSE(counting({1}).broadcast_to({2}).is_contiguous());
}

}  // namespace
