// Invalid views and joins.
#include <cstdint>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

std::vector<std::int64_t> integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

CHILD_TEST(BadInputViews, Item11ReshapeWithTwoUnknowns) {
  const Tensor x = arange(12);
  expect_error<ShapeError>([&] { (void)x.reshape({-1, -1}); }, {"reshape", "[-1, -1]"}, {x});
  expect_error<ShapeError>([&] { (void)reshape(x, {-1, 3, -1}); }, {"reshape", "-1"}, {x});
  expect_error<ShapeError>([&] { (void)x.reshape({5, -1}); }, {"reshape", "[12]", "[5, -1]"}, {x});
  expect_error<ShapeError>([&] { (void)x.reshape({-2, 6}); }, {"reshape", "-2"}, {x});
  expect_error<ShapeError>([&] { (void)x.reshape({INT64_MAX, INT64_MAX}); }, {"reshape"}, {x});
  EXPECT_EQ(x.reshape({-1, 3}).shape(), (Shape{4, 3}));
}

CHILD_TEST(BadInputViews, Item12UnknownBesideAZeroSize) {
  const Tensor x = zeros({0, 4});
  expect_error<ShapeError>([&] { (void)x.reshape({0, -1}); }, {"reshape", "[0, -1]"}, {x});
  expect_error<ShapeError>([&] { (void)arange(3).reshape({-1, 0}); }, {"reshape", "[-1, 0]"});
  EXPECT_EQ(x.reshape({-1, 4}).shape(), (Shape{0, 4}));
  EXPECT_EQ(x.reshape({5, 0, 7}).shape(), (Shape{5, 0, 7}));
}

CHILD_TEST(BadInputViews, Item13PermutationWithARepeatedAxis) {
  const Tensor x = arange(6).reshape({1, 2, 3});
  expect_error<ValueError>([&] { (void)x.transpose({0, 1, 1}); }, {"transpose", "axis 1"}, {x});
  expect_error<ValueError>([&] { (void)permute_dims(x, {0, 2, -1}); }, {"transpose", "2"}, {x});
  expect_error<ShapeError>([&] { (void)x.transpose({0, 1}); }, {"transpose", "[0, 1]"}, {x});
  expect_error<IndexError>([&] { (void)x.transpose({0, 1, 3}); }, {"transpose", "3"}, {x});
  expect_error<IndexError>([&] { (void)x.transpose({INT64_MIN, 1, 0}); }, {"transpose"}, {x});
  const Tensor g = ones({1, 2, 3});
  expect_error<ValueError>(
      [&] {
        transpose_backward(g, {0, 1, 1});
      },
      {"transpose_backward", "axis 1"}, {g});
  EXPECT_EQ(integers(x.transpose({2, 0, 1})), (std::vector<std::int64_t>{0, 3, 1, 4, 2, 5}));
}

CHILD_TEST(BadInputViews, Item14TransposeOfZeroDimensions) {
  const Tensor x = scalar(5);
  EXPECT_EQ(x.transpose().item<int>(), 5);
  EXPECT_EQ(x.transpose({}).ndim(), 0);
  expect_error<ShapeError>([&] { (void)x.transpose({0}); }, {"transpose", "[0]"}, {x});
  expect_error<ShapeError>([&] { matrix_transpose(x); }, {"matrix_transpose", "[]"}, {x});
  expect_error<ShapeError>([&] { matrix_transpose(arange(3)); }, {"matrix_transpose", "[3]"});
}

CHILD_TEST(BadInputViews, Item15BroadcastThatShrinks) {
  const Tensor x = arange(6).reshape({2, 3});
  expect_error<ShapeError>([&] { (void)x.broadcast_to({3}); }, {"broadcast_to", "[2, 3]", "[3]"},
                           {x});
  expect_error<ShapeError>([&] { (void)broadcast_to(x, {1, 3}); }, {"broadcast_to", "[1, 3]"}, {x});
  expect_error<ShapeError>([&] { (void)x.broadcast_to({2, 0}); }, {"broadcast_to", "[2, 0]"}, {x});
  expect_error<ShapeError>([&] { (void)x.broadcast_to({2, -1}); }, {"broadcast_to", "-1"}, {x});
  expect_error<ShapeError>([&] { (void)x.broadcast_to({}); }, {"broadcast_to", "[]"}, {x});
  const Tensor g = ones({2, 3});
  expect_error<ShapeError>([&] { reduce_broadcast_dims(g, {2}); },
                           {"reduce_broadcast_dims", "[2]", "[2, 3]"}, {g});
  expect_error<ShapeError>(
      [&] {
        reduce_broadcast_dims(g, {1, 2, 3});
      },
      {"reduce_broadcast_dims", "[1, 2, 3]"}, {g});
  EXPECT_EQ(ones({1}).broadcast_to({0}).numel(), 0);
}

CHILD_TEST(BadInputViews, Item16SqueezeOfAnAxisThatIsNotOne) {
  const Tensor x = zeros({1, 3, 1});
  expect_error<ShapeError>([&] { (void)x.squeeze(1); }, {"squeeze", "axis 1", "3"}, {x});
  expect_error<ShapeError>([&] { (void)squeeze(x, {0, -2}); }, {"squeeze", "axis 1"}, {x});
  expect_error<IndexError>([&] { (void)x.squeeze(3); }, {"squeeze", "3"}, {x});
  expect_error<IndexError>([&] { (void)x.unsqueeze(5); }, {"unsqueeze", "5"}, {x});
  expect_error<IndexError>([&] { (void)x.unsqueeze(INT64_MIN); }, {"unsqueeze"}, {x});
  EXPECT_EQ(x.squeeze().shape(), (Shape{3}));
}

CHILD_TEST(BadInputViews, Item17SliceStepZero) {
  const Tensor x = arange(6);
  expect_error<ValueError>([&] { (void)x.slice(0, 0, 6, 0); }, {"slice", "step", "0"}, {x});
  expect_error<ValueError>([&] { (void)x[{Slice{0, 6, 0}}]; }, {"index", "step", "0"}, {x});
  expect_error<ValueError>([&] { (void)zeros({0}).slice(0, {}, {}, 0); }, {"slice", "step"});
  expect_error<IndexError>([&] { (void)x[6]; }, {"index", "6", "[6]"}, {x});
  expect_error<IndexError>([&] { (void)x[-7]; }, {"index", "-7"}, {x});
  expect_error<IndexError>([&] { (void)scalar(1)[0]; }, {"index"});
  expect_error<IndexError>([&] { (void)x[{0, 0}]; }, {"index", "[6]"}, {x});
}

CHILD_TEST(BadInputViews, Item18ExtremeSliceBounds) {
  const Tensor x = arange(5);
  EXPECT_EQ(integers(x.slice(0, INT64_MIN, INT64_MAX)), integers(x));
  EXPECT_EQ(integers(x.slice(0, INT64_MAX, INT64_MIN, -1)),
            (std::vector<std::int64_t>{4, 3, 2, 1, 0}));
  EXPECT_EQ(integers(x.slice(0, INT64_MAX, INT64_MIN, INT64_MIN)), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(integers(x.slice(0, INT64_MIN, INT64_MAX, INT64_MAX)), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(x.slice(0, INT64_MAX, INT64_MIN).numel(), 0);
  EXPECT_EQ(x.slice(0, INT64_MIN, INT64_MAX, -1).numel(), 0);
  EXPECT_EQ(integers(x[{Slice{INT64_MIN, INT64_MAX, 2}}]), (std::vector<std::int64_t>{0, 2, 4}));
  expect_error<IndexError>([&] { (void)x[INT64_MIN]; }, {"index", "-9223372036854775808"}, {x});
  expect_error<IndexError>([&] { (void)x[INT64_MAX]; }, {"index", "9223372036854775807"}, {x});
  expect_error<IndexError>([&] { (void)x.slice(INT64_MAX, 0, 1); }, {"slice"}, {x});
}

CHILD_TEST(BadInputViews, Item19ConcatenateOfNothing) {
  expect_error<ValueError>([] { concatenate({}); }, {"concatenate"});
  expect_error<IndexError>([] { concatenate({scalar(1), scalar(2)}); }, {"concatenate", "axis 0"});
  EXPECT_EQ(concatenate({zeros({0, 2}), zeros({0, 2})}).shape(), (Shape{0, 2}));
}

CHILD_TEST(BadInputViews, Item20ConcatenateOfMixedRanks) {
  const Tensor a = zeros({2, 3}), b = zeros({3}), c = zeros({2, 4});
  expect_error<ShapeError>([&] { concatenate({a, b}); }, {"concatenate", "[2, 3]", "[3]"}, {a, b});
  expect_error<ShapeError>(
      [&] {
        concatenate({a, a, c}, 0);
      },
      {"concatenate", "tensor 2", "[2, 4]"}, {a, c});
  expect_error<IndexError>([&] { concatenate({a, c}, 2); }, {"concatenate", "2"}, {a, c});
  expect_error<DTypeError>(
      [&] {
        concatenate({a.to(int64), a.to(uint64)});
      },
      {"int64", "uint64"}, {a});
  EXPECT_EQ(concatenate({a, c}, 1).shape(), (Shape{2, 7}));
}

CHILD_TEST(BadInputViews, Item21SplitIntoZeroOrUnequalParts) {
  const Tensor x = arange(6);
  expect_error<ValueError>([&] { split(x, 0); }, {"split", "parts", "0"}, {x});
  expect_error<ValueError>([&] { split(x, 4); }, {"split", "4", "[6]"}, {x});
  expect_error<ValueError>([&] { split(x, -1); }, {"split", "-1"}, {x});
  expect_error<ValueError>([&] { split(x, INT64_MIN); }, {"split"}, {x});
  expect_error<IndexError>([&] { split(x, 2, 1); }, {"split", "1"}, {x});
  // An empty axis can be split into any number of parts, but only so many fit into memory. The same
  // holds for the tensors of a broadcast axis.
  const Tensor nothing = zeros({0, 2});
  expect_error<OutOfMemoryError>([&] { split(nothing, INT64_MAX); },
                                 {"split", "9223372036854775807"}, {nothing});
  expect_error<OutOfMemoryError>([&] { unstack(zeros({}).broadcast_to({INT64_MAX / 8})); },
                                 {"unstack", "1152921504606846975"});
  EXPECT_EQ(split(nothing, 3)[2].shape(), (Shape{0, 2}));
  const std::vector<Tensor> parts = split(x, 3);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(integers(parts[2]), (std::vector<std::int64_t>{4, 5}));
}

}  // namespace
