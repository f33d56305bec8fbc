// Invalid index expressions: x[…] read and assigned. Nothing is written if an index does not fit.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

// The expression must be rejected alike when it is read, assigned a tensor or a number, changed in
// place, put, and in the backwards.
template <class Error>
void expect_refused(const Tensor& x, const std::vector<Index>& index,
                    const std::vector<std::string>& texts) {
  const std::vector<Tensor> unchanged{x};
  const Tensor one = ones({}, x.dtype());
  const std::function<void()> calls[] = {[&] { (void)x.index(index); },
                                         [&] { x.index(index) = one; },
                                         [&] { x.index(index) = 1; },
                                         [&] { x.index(index) += one; },
                                         [&] { x.index(index) *= 2; },
                                         [&] { index_put(x, index, one); },
                                         [&] { index_put_backward(ones(x.shape()), index, {}); },
                                         [&] { slice_backward(ones({1}), x.shape(), index); }};
  const char* names[] = {
      "index",         "index", "index", "index", "index", "index_put", "index_put_backward",
      "slice_backward"};
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    std::vector<std::string> all = texts;
    all.emplace_back(std::string(names[i]) + ": ");
    expect_error<Error>(calls[i], all, unchanged);
  }
}

CHILD_TEST(BadInputIndexAssignment, Item40And41IndexOutOfRange) {
  const Tensor x = arange(24).reshape({2, 3, 4});
  const Tensor fine = tensor({0, 1}), high = tensor({0, 3}), huge = full({1}, INT64_MAX);
  expect_refused<IndexError>(x, {high}, {"index 3", "position [1]", "axis 0", "size 2", "-2 to 1"});
  expect_refused<IndexError>(x, {fine, high}, {"index 3", "axis 1", "size 3", "-3 to 2"});
  expect_refused<IndexError>(x, {ellipsis, tensor({{4}})}, {"index 4", "[0, 0]", "axis 2"});
  expect_refused<IndexError>(x, {Slice{1, 2}, huge}, {std::to_string(INT64_MAX), "axis 1"});
  expect_refused<IndexError>(x, {fine, 3}, {"index 3", "axis 1"});
  expect_error<IndexError>([&] { x[2] = 0; }, {"index: ", "index 2", "axis 0", "-2 to 1"}, {x});
  expect_refused<IndexError>(x, {fine, fine, fine, fine}, {"4 indices", "[2, 3, 4]", "at most 3"});
  expect_refused<IndexError>(x, {ones({2, 3}, bool_), 0, 0}, {"4 indices", "at most 3"});
  expect_refused<IndexError>(x, {ellipsis, fine, ellipsis}, {"2 ellipses"});
  expect_refused<IndexError>(arange(1)[0], {fine}, {"1 indices", "[]", "at most 0"});
  expect_refused<IndexError>(zeros({0, 2}, int64), {fine}, {"index 0", "size 0"});
  // One bad index after many good ones.
  const Tensor many = zeros({100000}, int64);
  many[99999] = 2;
  expect_refused<IndexError>(x, {many}, {"index 2", "[99999]"});
  x[{fine, fine}] = -1;
  EXPECT_EQ((x[{1, 1, 3}].item<std::int64_t>()), -1);
}

CHILD_TEST(BadInputIndexAssignment, Item46FloatIndex) {
  const Tensor x = arange(6).reshape({2, 3}), real = zeros({1});
  expect_refused<DTypeError>(x, {real}, {"float32", "integer"});
  expect_refused<DTypeError>(x, {0, real.to(bfloat16)}, {"bfloat16"});
  expect_refused<DTypeError>(x, {Slice{}, real.to(float64)}, {"float64"});
}

CHILD_TEST(BadInputIndexAssignment, Item47MaskOfTheWrongShape) {
  const Tensor x = arange(6).reshape({2, 3});
  for (const Shape& shape : {Shape{3}, Shape{3, 2}, Shape{2, 1}, Shape{1, 3}, Shape{0}}) {
    expect_refused<ShapeError>(x, {ones(shape, bool_)}, {to_string(shape), "[2, 3]", "mask"});
  }
  expect_refused<ShapeError>(x, {Slice{}, ones({2}, bool_)}, {"[2]", "axis 1", "allowed: 3"});
  expect_refused<ShapeError>(x, {ones({2, 3, 1}, bool_)}, {"[2, 3, 1]", "[2, 3]", "at most 2"});
  // Tensors that do not broadcast: the mask has three true elements.
  expect_refused<ShapeError>(x, {tensor({0, 1}), ones({3}, bool_)}, {"[2]", "[3]", "broadcast"});
}

CHILD_TEST(BadInputIndexAssignment, Item50NegativeIndexBelowMinusN) {
  const Tensor x = arange(6).reshape({2, 3});
  expect_refused<IndexError>(x, {tensor({0, -3})}, {"index -3", "[1]", "-2 to 1"});
  expect_refused<IndexError>(x, {Slice{}, tensor({-4}, int8)}, {"index -4", "axis 1", "-3 to 2"});
  expect_refused<IndexError>(x, {tensor({0}), -4}, {"index -4", "axis 1", "-3 to 2"});
  expect_refused<IndexError>(x, {full({1}, INT64_MIN)}, {std::to_string(INT64_MIN)});
}

CHILD_TEST(BadInputIndexAssignment, ValuesThatDoNotFit) {
  const Tensor x = arange(6).reshape({2, 3}), rows = tensor({0, 1}), wide = ones({4}, int64);
  expect_error<ShapeError>([&] { x[rows] = wide; }, {"index_put", "[4]", "[2, 3]"}, {x});
  expect_error<ShapeError>([&] { x[0] = wide; }, {"copy_from", "[4]", "[3]"}, {x});
  expect_error<ShapeError>([&] { x[x > 2] = wide; }, {"index_put", "[4]", "[3]"}, {x});
  expect_error<ShapeError>([&] { x[rows] = ones({2, 2, 3}, int64); }, {"index_put"}, {x});
  expect_error<DTypeError>([&] { x[rows] = ones({3}); }, {"index_put", "float32", "int64"}, {x});
  expect_error<DTypeError>([&] { x[rows] += ones({3}); }, {"float32"}, {x});
  expect_error<DTypeError>([&] { x[rows] = 0.5; }, {"index_put", "0.5", "int64"}, {x});
  const Tensor small = zeros({2}, int8);
  expect_error<ValueError>([&] { small[tensor({0})] = 300; }, {"index_put", "300"}, {small});
  // A broadcast tensor has one element at several positions.
  const Tensor broadcast = zeros({1}).broadcast_to({3});
  expect_error<ValueError>([&] { broadcast[tensor({0})] = 1; }, {"index_put"}, {broadcast});
  expect_error<ValueError>([&] { broadcast[{Slice{0, 2}}] = 1; }, {"fill"}, {broadcast});
}

}  // namespace
