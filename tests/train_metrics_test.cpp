// Metrics, computed by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "support/child_process.h"

namespace extensor {
namespace {

using test_support::expect_error;
using train::ConfusionMatrix;
using train::top_k_accuracy;

const std::vector<DType> floats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

// 3 classes:      predicted 0  1  2
//   actual 0                2  1  0
//   actual 1                0  1  1
//   actual 2                1  0  4
const std::vector<std::int64_t> was = {0, 0, 0, 1, 1, 2, 2, 2, 2, 2};
const std::vector<std::int64_t> taken = {0, 1, 0, 1, 2, 2, 0, 2, 2, 2};

void expect_the_numbers(const ConfusionMatrix& matrix) {
  EXPECT_EQ(matrix.matrix().to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 1, 0, 0, 1, 1, 1, 0, 4}));
  EXPECT_EQ(matrix.matrix().shape(), (Shape{3, 3}));
  EXPECT_EQ(matrix.count(), 10);
  EXPECT_EQ(matrix.at(0, 1), 1);
  EXPECT_EQ(matrix.at(1, 0), 0);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 7. / 10);
  EXPECT_DOUBLE_EQ(matrix.precision(0), 2. / 3);
  EXPECT_DOUBLE_EQ(matrix.precision(1), 1. / 2);
  EXPECT_DOUBLE_EQ(matrix.precision(2), 4. / 5);
  EXPECT_DOUBLE_EQ(matrix.recall(0), 2. / 3);
  EXPECT_DOUBLE_EQ(matrix.recall(1), 1. / 2);
  EXPECT_DOUBLE_EQ(matrix.recall(2), 4. / 5);
  EXPECT_DOUBLE_EQ(matrix.f1(1), 1. / 2);
  EXPECT_DOUBLE_EQ(matrix.macro_f1(), (2. / 3 + 1. / 2 + 4. / 5) / 3);
}

TEST(ConfusionMatrix, CountsClasses) {
  ConfusionMatrix matrix(3);
  matrix.add(from_data(taken), from_data(was));
  expect_the_numbers(matrix);
}

TEST(ConfusionMatrix, CountsBatchByBatchInAnyDtype) {
  for (const DType scores : floats) {
    for (const DType targets : {DType::uint8, DType::int32, DType::int64}) {
      ConfusionMatrix matrix(3);
      const Tensor logits = one_hot(from_data(taken), 3).to(scores) * 3 - 1;
      const Tensor classes = from_data(was).to(targets);
      for (const auto& [first, last] : {std::pair(0, 4), std::pair(4, 4), std::pair(4, 10)}) {
        matrix.add(logits.slice(0, first, last), classes.slice(0, first, last));
      }
      expect_the_numbers(matrix);
    }
  }
}

TEST(ConfusionMatrix, TakesStridesAndRecordsNothing) {
  ConfusionMatrix matrix(3);
  Tensor logits = one_hot(from_data(taken), 3).to(float32).transpose().contiguous().transpose();
  logits.requires_grad_();
  const Tensor doubled = logits * 2;
  matrix.add(doubled, stack({from_data(was), from_data(was)}, 1)[{Slice{}, 0}]);
  expect_the_numbers(matrix);
  EXPECT_TRUE(is_grad_enabled());
}

TEST(ConfusionMatrix, TakesTheFirstOfEqualsAndNanAsHighest) {
  const double nan = std::nan("");
  ConfusionMatrix matrix(3);
  matrix.add(tensor({{1., 1., 0.}, {5., nan, 9.}, {nan, 1., nan}}), tensor({2, 2, 2}, int64));
  EXPECT_EQ(matrix.at(2, 0), 2);
  EXPECT_EQ(matrix.at(2, 1), 1);
}

TEST(ConfusionMatrix, IsNanWhereThereIsNothing) {
  ConfusionMatrix matrix(4);
  EXPECT_EQ(matrix.count(), 0);
  EXPECT_TRUE(std::isnan(matrix.accuracy()));
  EXPECT_TRUE(std::isnan(matrix.macro_f1()));
  // Class 0 is right once, class 1 is predicted as 2; class 3 does not occur.
  matrix.add(tensor({0, 2}, int64), tensor({0, 1}, int64));
  EXPECT_EQ(matrix.accuracy(), 0.5);
  EXPECT_TRUE(std::isnan(matrix.precision(1)));
  EXPECT_EQ(matrix.recall(1), 0);
  EXPECT_EQ(matrix.precision(2), 0);
  EXPECT_TRUE(std::isnan(matrix.recall(2)));
  EXPECT_EQ(matrix.f1(1), 0);
  EXPECT_EQ(matrix.f1(2), 0);
  EXPECT_TRUE(std::isnan(matrix.f1(3)));
  EXPECT_DOUBLE_EQ(matrix.macro_f1(), 1. / 3);
}

TEST(ConfusionMatrix, IsAValue) {
  ConfusionMatrix one(2);
  const ConfusionMatrix other = one;
  one.add(tensor({1}, int64), tensor({1}, int64));
  one.matrix().fill(7);
  EXPECT_EQ(one.count(), 1);
  EXPECT_EQ(other.count(), 0);
}

TEST(ConfusionMatrix, RefusesAndCountsNothing) {
  expect_error<ValueError>([] { ConfusionMatrix(0); }, {"ConfusionMatrix", "classes is 0"});
  expect_error<ValueError>([] { ConfusionMatrix(-5); }, {"-5"});
  expect_error<ValueError>([] { ConfusionMatrix{INT64_MAX}; }, {"32768"});
  ConfusionMatrix matrix(3);
  const Tensor scores = ones({2, 3}), classes = tensor({0, 1}, int64);
  const auto refused = [&]<class ErrorType>(ErrorType*, const Tensor& predictions,
                                            const Tensor& targets,
                                            const std::vector<std::string>& parts) {
    expect_error<ErrorType>([&] { matrix.add(predictions, targets); }, parts,
                            {predictions, targets});
    EXPECT_EQ(matrix.count(), 0);
  };
  const auto shape = static_cast<ShapeError*>(nullptr);
  const auto dtype = static_cast<DTypeError*>(nullptr);
  const auto index = static_cast<IndexError*>(nullptr);
  refused(shape, ones({2, 4}), classes, {"ConfusionMatrix::add", "[2, 4]", "[n, 3]"});
  refused(shape, ones({3, 3}), classes, {"[3, 3]", "[2]"});
  refused(shape, ones({2, 3, 1}), classes, {"[2, 3, 1]"});
  refused(shape, scores, classes.reshape({2, 1}), {"[2, 1]"});
  refused(shape, tensor({0, 1, 2}, int64), classes, {"[3]", "[2]"});
  refused(shape, scalar(1.0, float32), classes, {"[]"});
  refused(dtype, scores.to(int64), classes, {"int64", "floats"});
  refused(dtype, scores, classes.to(float32), {"float32", "integer"});
  refused(dtype, classes.to(float32), classes, {"float32"});
  refused(dtype, scores, tensor({true, false}), {"bool"});
  refused(index, scores, tensor({0, 3}, int64), {"3", "position [1]"});
  refused(index, scores, tensor({0, -1}, int64), {"-1", "position [1]"});
  refused(index, tensor({3, 0}, int64), classes, {"3", "position [0]"});
  expect_error<IndexError>([&] { matrix.at(0, 3); }, {"class 3 of 3"});
  expect_error<IndexError>([&] { matrix.at(-1, 0); }, {"class -1"});
  expect_error<IndexError>([&] { matrix.precision(3); }, {"class 3"});
  expect_error<IndexError>([&] { matrix.recall(INT64_MIN); }, {"class"});
  expect_error<IndexError>([&] { matrix.f1(INT64_MAX); }, {"class"});
}

TEST(TopKAccuracy, ByHand) {
  // The ranks of the targets, from 0: 1, 0, 3, 2.
  for (const DType dtype : floats) {
    const Tensor logits =
        tensor({{1., 4., 2., 3.}, {9., 1., 2., 3.}, {4., 3., 2., 1.}, {1., 2., 3., 4.}}).to(dtype);
    for (const DType integer : {DType::uint8, DType::int32, DType::int64}) {
      const Tensor targets = tensor({3, 0, 3, 1}, int64).to(integer);
      EXPECT_EQ(top_k_accuracy(logits, targets, 1), 0.25);
      EXPECT_EQ(top_k_accuracy(logits, targets, 2), 0.5);
      EXPECT_EQ(top_k_accuracy(logits, targets, 3), 0.75);
      EXPECT_EQ(top_k_accuracy(logits, targets, 4), 1);
    }
  }
}

TEST(TopKAccuracy, TakesTheFirstOfEqualsAndNanAsHighest) {
  const double nan = std::nan("");
  const Tensor equal = ones({1, 3});
  EXPECT_EQ(top_k_accuracy(equal, tensor({0}, int64), 1), 1);
  EXPECT_EQ(top_k_accuracy(equal, tensor({1}, int64), 1), 0);
  EXPECT_EQ(top_k_accuracy(equal, tensor({1}, int64), 2), 1);
  const Tensor holes = tensor({{8., nan, 9., nan}});
  EXPECT_EQ(top_k_accuracy(holes, tensor({1}, int64), 1), 1);
  EXPECT_EQ(top_k_accuracy(holes, tensor({3}, int64), 1), 0);
  EXPECT_EQ(top_k_accuracy(holes, tensor({3}, int64), 2), 1);
  EXPECT_EQ(top_k_accuracy(holes, tensor({2}, int64), 2), 0);
  EXPECT_EQ(top_k_accuracy(holes, tensor({2}, int64), 3), 1);
}

// For a single highest class both agree.
TEST(TopKAccuracy, OfOneIsAccuracy) {
  manual_seed(3);
  const Tensor logits = uniform({200, 7}, 0, 1), targets = randint(0, 7, {200});
  ConfusionMatrix matrix(7);
  matrix.add(logits, targets);
  EXPECT_EQ(top_k_accuracy(logits, targets, 1), matrix.accuracy());
  EXPECT_EQ(top_k_accuracy(logits.transpose().contiguous().transpose(), targets, 1),
            matrix.accuracy());
}

TEST(TopKAccuracy, Refuses) {
  const Tensor logits = ones({2, 3}), targets = tensor({0, 2}, int64);
  EXPECT_TRUE(std::isnan(top_k_accuracy(ones({0, 3}), zeros({0}, int64), 1)));
  expect_error<ValueError>([&] { top_k_accuracy(logits, targets, 0); },
                           {"top_k_accuracy", "k is 0"});
  expect_error<ValueError>([&] { top_k_accuracy(logits, targets, 4); }, {"k is 4", "1 to 3"});
  expect_error<ShapeError>([&] { top_k_accuracy(logits, ones({3}, int64), 1); }, {"[2, 3]", "[3]"});
  expect_error<ShapeError>([&] { top_k_accuracy(targets, targets, 1); }, {"[2]"});
  expect_error<DTypeError>([&] { top_k_accuracy(logits.to(int32), targets, 1); }, {"int32"});
  expect_error<DTypeError>([&] { top_k_accuracy(logits, targets.to(float32), 1); }, {"float32"});
  expect_error<IndexError>([&] { top_k_accuracy(logits, tensor({0, 3}, int64), 1); }, {"3"});
  expect_error<ValueError>([&] { top_k_accuracy(ones({2, 0}), targets, 1); }, {"k is 1"});
}

TEST(Perplexity, IsEToTheLoss) {
  EXPECT_EQ(train::perplexity(0), 1);
  EXPECT_DOUBLE_EQ(train::perplexity(std::log(65.)), 65);
  EXPECT_TRUE(std::isinf(train::perplexity(1000)));
}

}  // namespace
}  // namespace extensor
