// Elementwise calls with numbers and masks: where, clip with one bound or tensors, && and ||,
// division with rounding, and relu_backward of integers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "extensor/extensor.h"

namespace {

using ext::Tensor;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(ext::float64).to_vector<double>(); }

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(CallsElementwise, WhereWithNumbers) {
  const Tensor x = ext::tensor({1.0, -2.0, 3.0});
  const Tensor positive = x > 0;
  EXPECT_EQ(values(where(positive, x, 0.0)), (Values{1, 0, 3}));
  EXPECT_EQ(values(where(positive, 0, x)), (Values{0, -2, 0}));
  EXPECT_EQ(where(positive, x, 0.0).dtype(), ext::float32);
  EXPECT_EQ(where(positive, x.to(ext::float16), 0.1).dtype(), ext::float16);
  EXPECT_EQ(where(positive, x.to(ext::int8), 1).dtype(), ext::int8);
  EXPECT_EQ(where(positive, x.to(ext::int8), 1.5).dtype(), ext::float32);
  const Tensor signs = ext::where(positive, 1, -1);
  EXPECT_EQ(values(signs), (Values{1, -1, 1}));
  EXPECT_EQ(signs.dtype(), ext::int64);
  EXPECT_EQ(ext::where(positive, 1.0, 0).dtype(), ext::float32);
  EXPECT_EQ(ext::where(positive, true, false).dtype(), ext::bool_);
  EXPECT_EQ(where(ext::zeros({2, 1}, ext::bool_), x, 7.0).shape(), (ext::Shape{2, 3}));
  EXPECT_THROW(where(positive, x.to(ext::int8), 300), ext::ValueError);
  EXPECT_THROW(where(x, x, 0.0), ext::DTypeError);
  EXPECT_THROW(where(positive, ext::zeros({2}), 0.0), ext::ShapeError);

  Tensor leaf = ext::tensor({1.0, -2.0, 3.0}).requires_grad_();
  (where(leaf > 0, leaf, 0.0) * 2).sum().backward();
  EXPECT_EQ(values(leaf.grad()), (Values{2, 0, 2}));
}

TEST(CallsElementwise, MasksWithAndAndOr) {
  const Tensor x = ext::arange(6);
  EXPECT_EQ(values((x > 1) && (x < 4)), (Values{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(values((x < 1) || (x > 4)), (Values{1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(((x > 1) && x).dtype(), ext::bool_);
  EXPECT_EQ(values(x[(x > 1) && !(x == 3)]), (Values{2, 4, 5}));
}

TEST(CallsElementwise, ClipWithOneBound) {
  const Tensor x = ext::tensor({-2.0, 0.5, 3.0, nan, infinity, -infinity}, ext::float64);
  const auto same = [](const Tensor& a, const Values& b) {
    const Values got = values(a);
    for (std::size_t i = 0; i < b.size(); ++i) {
      EXPECT_TRUE(got[i] == b[i] || (std::isnan(got[i]) && std::isnan(b[i]))) << i << ": " << a;
    }
  };
  same(clip(x, {.min = 0}), {0, 0.5, 3, nan, infinity, 0});
  same(clip(x, {.max = 1.0}), {-2, 0.5, 1, nan, 1, -infinity});
  same(clip(x, 0), {0, 0.5, 3, nan, infinity, 0});
  same(clip(x, std::nullopt, 1), {-2, 0.5, 1, nan, 1, -infinity});
  same(clip(x, {.min = 0, .max = 1}), {0, 0.5, 1, nan, 1, 0});
  same(clamp(x, {.min = 0}), {0, 0.5, 3, nan, infinity, 0});
  same(clamp(x, -1, 1), {-1, 0.5, 1, nan, 1, -1});
  EXPECT_THROW(clip(x, ext::ClipBounds{}), ext::ValueError);

  const Tensor small = ext::tensor({-128, 5, 127}, ext::int8);
  EXPECT_EQ(values(clip(small, {.min = 0})), (Values{0, 5, 127}));
  EXPECT_EQ(clip(small, {.max = 7}).dtype(), ext::int8);
  EXPECT_EQ(values(clip(small, {.max = 7})), (Values{-128, 5, 7}));
  EXPECT_EQ(values(clip(ext::tensor({3, 250}, ext::uint8), {.max = 200})), (Values{3, 200}));
  EXPECT_EQ(clip(small, {.min = 0.5}).dtype(), ext::float32);
  EXPECT_EQ(values(clip(ext::tensor({1.0, 2.0}, ext::float16), {.max = 1.5})), (Values{1, 1.5}));

  Tensor leaf = ext::tensor({-1.0, 0.0, 2.0}).requires_grad_();
  clip(leaf, {.min = 0}).sum().backward();
  EXPECT_EQ(values(leaf.grad()), (Values{0, 1, 1}));  // 1 at the bound
}

TEST(CallsElementwise, ClipWithTensors) {
  const Tensor x = ext::tensor({{-2.0, 0.5, 3.0}, {1.0, -1.0, 9.0}}, ext::float64);
  const Tensor lo = ext::tensor({-1.0, 0.0, 1.0}, ext::float64),
               hi = ext::tensor({{2.0}, {0.5}}, ext::float64);
  EXPECT_EQ(values(clip(x, lo)), (Values{-1, 0.5, 3, 1, 0, 9}));
  EXPECT_EQ(values(clip(x, Tensor(), hi)), (Values{-2, 0.5, 2, 0.5, -1, 0.5}));
  // In row 1, column 2, min exceeds max: the result is max.
  EXPECT_EQ(values(clip(x, lo, hi)), (Values{-1, 0.5, 2, 0.5, 0, 0.5}));
  EXPECT_TRUE(std::isnan(clip(x, ext::full({}, nan, ext::float64))[0][0].item<double>()));
  EXPECT_TRUE(std::isnan(clip(ext::full({1}, nan), ext::zeros({1}), ext::ones({1})).item<float>()));
  EXPECT_THROW(clip(x, Tensor(), Tensor()), ext::ValueError);
  EXPECT_THROW(clip(x, ext::zeros({4})), ext::ShapeError);

  const auto check =
      ext::gradcheck([](const std::vector<Tensor>& in) { return clip(in[0], in[1], in[2]); },
                     [](const Tensor& g, const std::vector<Tensor>& in) {
                       const auto [of_x, of_min, of_max] = clip_backward(g, in[0], in[1], in[2]);
                       return std::vector<Tensor>{of_x, of_min, of_max};
                     },
                     {x, lo, hi});
  EXPECT_TRUE(check.passed) << check.message;
  // Autograd agrees with the explicit backward.
  std::vector<Tensor> leaves;
  for (const Tensor& input : {x, lo, hi}) leaves.push_back(input.clone().requires_grad_());
  const Tensor g = ext::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, ext::float64);
  clip(leaves[0], leaves[1], leaves[2]).backward(g);
  const auto [of_x, of_min, of_max] = clip_backward(g, x, lo, hi);
  EXPECT_EQ(values(leaves[0].grad()), values(of_x));
  EXPECT_EQ(values(leaves[1].grad()), values(of_min));
  EXPECT_EQ(values(leaves[2].grad()), values(of_max));
  EXPECT_EQ(values(of_x), (Values{0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(values(of_min), (Values{1, 5, 0}));
  EXPECT_EQ(values(of_max), (Values{3, 10}));
}

TEST(CallsElementwise, DivisionWithRounding) {
  using enum ext::Rounding;
  const Tensor a = ext::tensor({7, -7, 7, -7, 6}), b = ext::tensor({2, 2, -2, -2, 3});
  EXPECT_EQ(values(divide(a, b, trunc)), (Values{3, -3, -3, 3, 2}));
  EXPECT_EQ(values(divide(a, b, floor)), (Values{3, -4, -4, 3, 2}));
  EXPECT_EQ(values(divide(a, b, none)), (Values{3.5, -3.5, -3.5, 3.5, 2}));
  EXPECT_EQ(divide(a, b, trunc).dtype(), ext::int64);
  EXPECT_EQ(values(div(a, 2, trunc)), (Values{3, -3, 3, -3, 3}));
  EXPECT_EQ(values(div(a, -2, floor)), (Values{-4, 3, -4, 3, -3}));
  EXPECT_EQ(values(divide(-7, b, trunc)), (Values{-3, -3, 3, 3, -2}));
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(divide(ext::full({1}, largest), -3, trunc).item<std::int64_t>(), largest / -3);
  const Tensor x = ext::tensor({7.0, -7.0}), y = ext::tensor({2.0, 2.0});
  EXPECT_EQ(values(divide(x, y, trunc)), (Values{3, -3}));
  EXPECT_EQ(values(divide(x, y, floor)), (Values{3, -4}));
  EXPECT_THROW(divide(a, ext::tensor({0}), trunc), ext::ValueError);
  EXPECT_THROW(divide(a, b, static_cast<ext::Rounding>(9)), ext::ValueError);
  EXPECT_EQ(values(divide(ext::tensor({7, 8}, ext::uint8), ext::tensor({2, 3}, ext::uint8), trunc)),
            (Values{3, 2}));
  Tensor leaf = ext::tensor({7.0, -7.0}).requires_grad_();
  divide(leaf, 2, trunc).sum().backward();
  EXPECT_EQ(values(leaf.grad()), (Values{0, 0}));
}

TEST(CallsElementwise, ReluBackwardOfIntegers) {
  for (ext::DType dtype : {ext::int8, ext::int32, ext::int64, ext::uint8}) {
    const Tensor x = ext::tensor({0, 1, 5}, dtype), g = ext::tensor({7, 8, 9}, dtype);
    EXPECT_EQ(relu_backward(g, x).dtype(), dtype);
    EXPECT_EQ(values(relu_backward(g, x)), (Values{0, 8, 9}));
  }
  EXPECT_EQ(values(relu_backward(ext::tensor({1, 2}), ext::tensor({-3, 3}))), (Values{0, 2}));
  EXPECT_THROW(relu_backward(ext::tensor({1.0}), ext::tensor({1})), ext::DTypeError);
  EXPECT_THROW(relu_backward(ext::tensor({1}), ext::tensor({1.0})), ext::DTypeError);
  EXPECT_THROW(relu_backward(ext::tensor({1}), ext::tensor({1, 2})), ext::ShapeError);
  // leaky_relu and prelu of integers are float32, as of every function that is not exact on them.
  EXPECT_EQ(leaky_relu(ext::tensor({-100, 3})).dtype(), ext::float32);
  EXPECT_EQ(values(leaky_relu(ext::tensor({-100, 3}))), (Values{-1, 3}));
  EXPECT_EQ(prelu(ext::tensor({-4, 3}), ext::tensor({2, 2})).dtype(), ext::float32);
  EXPECT_THROW(leaky_relu_backward(ext::tensor({1}), ext::tensor({1})), ext::DTypeError);
  EXPECT_THROW(prelu_backward(ext::tensor({1}), ext::tensor({1}), ext::tensor({1})),
               ext::DTypeError);
}

}  // namespace
