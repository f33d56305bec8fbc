// The built-in digits: identical for any split and number of threads, balanced, and not blank.
#include <gtest/gtest.h>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using data::digits;
using data::LabelledImages;

std::vector<std::uint8_t> pixels(const LabelledImages& set) {
  return set.images.to_vector<std::uint8_t>();
}
std::vector<std::int64_t> labels(const LabelledImages& set) {
  return set.labels.to_vector<std::int64_t>();
}

TEST(Digits, HaveTheShapeOfASetOfImages) {
  const LabelledImages set = digits(7);
  EXPECT_EQ(set.images.shape(), (Shape{7, 28, 28}));
  EXPECT_EQ(set.images.dtype(), DType::uint8);
  EXPECT_EQ(set.labels.shape(), (Shape{7}));
  EXPECT_EQ(set.labels.dtype(), DType::int64);
  EXPECT_EQ(digits(0).images.shape(), (Shape{0, 28, 28}));
}

TEST(Digits, AreAFunctionOfSeedAndPosition) {
  const LabelledImages whole = digits(300, 5);
  const LabelledImages part = digits(100, 5, 150);
  EXPECT_EQ(pixels({whole.images.slice(0, 150, 250), part.labels}), pixels(part));
  EXPECT_EQ(whole.labels.slice(0, 150, 250).to_vector<std::int64_t>(), labels(part));
  EXPECT_NE(pixels(digits(10, 6)), pixels(digits(10, 7)));
}

TEST(Digits, DoNotDependOnTheNumberOfThreads) {
  const int threads = get_num_threads();
  set_num_threads(1);
  const LabelledImages one = digits(500, 3);
  set_num_threads(4);
  const LabelledImages four = digits(500, 3);
  set_num_threads(threads);
  EXPECT_EQ(pixels(one), pixels(four));
  EXPECT_EQ(labels(one), labels(four));
}

TEST(Digits, ComeInEqualNumbers) {
  std::vector<int> counts(10);
  for (std::int64_t label : labels(digits(5000, 1))) {
    ASSERT_GE(label, 0);
    ASSERT_LE(label, 9);
    ++counts[static_cast<std::size_t>(label)];
  }
  // Six standard deviations of a binomial draw around 500.
  for (int count : counts) EXPECT_NEAR(count, 500, 6 * 21.3);
}

TEST(Digits, AreInkOnPaper) {
  const LabelledImages set = digits(200, 2);
  const auto values = pixels(set);
  for (std::size_t image = 0; image < 200; ++image) {
    int dark = 0;
    for (std::size_t i = 0; i < 784; ++i) dark += values[image * 784 + i] > 128 ? 1 : 0;
    EXPECT_GT(dark, 15) << "image " << image;
    EXPECT_LT(dark, 350) << "image " << image;
  }
}

TEST(Digits, RefuseNegativeCounts) {
  EXPECT_THROW(digits(-1), ValueError);
  EXPECT_THROW(digits(1, 0, -1), ValueError);
}

}  // namespace
}  // namespace extensor
