// linear with fused bias and activation, and glu: values and gradients of the op database's
// samples, and the other rules.
#include "extensor/linear.h"

#include <gtest/gtest.h>

#include "support/family_test.h"

namespace extensor {
namespace {

using namespace family_test;

constexpr Activation activations[] = {Activation::none,     Activation::relu, Activation::sigmoid,
                                      Activation::tanh,     Activation::gelu, Activation::silu,
                                      Activation::gelu_tanh};

TEST(Linear, NarrowGradientsAgreeWithFloat64) {
  const std::pair<DType, double> narrow[] = {
      {DType::float32, 1.3e-6}, {DType::float16, 1e-3}, {DType::bfloat16, 1.6e-2}};
  const Tensor x64 = draw::uniform({40, 70}, -1, 1, 1), w64 = draw::uniform({30, 70}, -1, 1, 2);
  const Tensor b64 = draw::uniform({30}, -1, 1, 3), g64 = draw::uniform({40, 30}, 0.5, 1.5, 4);
  for (const auto& [dtype, tolerance] : narrow) {
    for (Activation activation : activations) {
      const Tensor x = x64.to(dtype), w = w64.to(dtype), b = b64.to(dtype), g = g64.to(dtype);
      const LinearGradients got = linear_backward(g, x, w, b, activation);
      const LinearGradients exact =
          linear_backward(g.to(DType::float64), x.to(DType::float64), w.to(DType::float64),
                          b.to(DType::float64), activation);
      for (const auto& [gradient, reference] :
           {std::pair{got.x, exact.x}, std::pair{got.weight, exact.weight},
            std::pair{got.bias, exact.bias}}) {
        EXPECT_EQ(gradient.dtype(), dtype);
        EXPECT_LE(largest(gradient.to(DType::float64) - reference), tolerance * largest(reference))
            << name(dtype) << " activation " << static_cast<int>(activation);
      }
    }
  }
}

// Chained as the header describes.
TEST(Linear, ActivationsChainWithTheirOwnBackward) {
  const Tensor x = draw::uniform({5, 7}, -1, 1, 1), w = draw::uniform({9, 7}, -1, 1, 2);
  const Tensor b = draw::uniform({9}, -1, 1, 3), g = draw::uniform({5, 9}, -1, 1, 4);
  const Tensor z = linear(x, w, b);
  const std::pair<Activation, Tensor> chained[] = {
      {Activation::relu, relu_backward(g, linear(x, w, b, Activation::relu))},
      {Activation::sigmoid, sigmoid_backward(g, linear(x, w, b, Activation::sigmoid))},
      {Activation::tanh, tanh_backward(g, linear(x, w, b, Activation::tanh))},
      {Activation::gelu, gelu_backward(g, z)},
      {Activation::silu, silu_backward(g, z)},
      {Activation::gelu_tanh, gelu_tanh_backward(g, z)}};
  for (const auto& [activation, before] : chained) {
    const LinearGradients expected = linear_backward(before, x, w);
    const LinearGradients got = linear_backward(g, x, w, b, activation);
    EXPECT_TRUE(allclose(got.x, expected.x, 1e-12, 1e-14));
    EXPECT_TRUE(allclose(got.weight, expected.weight, 1e-12, 1e-14));
    EXPECT_TRUE(allclose(got.bias, expected.bias, 1e-12, 1e-14));
  }
  EXPECT_FALSE(linear_backward(g, x, w, false).bias.defined());
  EXPECT_FALSE(linear_backward(g, x, w, Tensor(), Activation::gelu).bias.defined());
}

TEST(Linear, NothingToSumIsTheActivatedBias) {
  const Tensor bias = tensor({-1.0, 2.0});
  EXPECT_EQ(values_of(linear(zeros({3, 0}), zeros({2, 0}), bias, Activation::relu)),
            (std::vector<double>{0, 2, 0, 2, 0, 2}));
  EXPECT_EQ(linear(zeros({0, 4}), zeros({2, 4}), bias).shape(), (Shape{0, 2}));
  EXPECT_EQ(linear(zeros({2, 0, 4}), zeros({2, 4})).shape(), (Shape{2, 0, 2}));
}

TEST(Linear, DtypesPromote) {
  EXPECT_EQ(linear(ones({1, 2}, DType::float16), ones({3, 2})).dtype(), DType::float32);
  EXPECT_EQ(linear(ones({1, 2}), ones({3, 2}), ones({3}, DType::float64)).dtype(), DType::float64);
  const LinearGradients gradients =
      linear_backward(ones({1, 3}), ones({1, 2}, DType::float16), ones({3, 2}),
                      ones({3}, DType::float64), Activation::none);
  EXPECT_EQ(gradients.x.dtype(), DType::float16);
  EXPECT_EQ(gradients.weight.dtype(), DType::float32);
  EXPECT_EQ(gradients.bias.dtype(), DType::float64);
}

TEST(Linear, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    const Tensor x = draw::uniform({130, 257}, -1, 1, 1).to(dtype);
    const Tensor w = draw::uniform({190, 257}, -1, 1, 2).to(dtype);
    const Tensor b = draw::uniform({190}, -1, 1, 3).to(dtype);
    const Tensor g = draw::uniform({130, 190}, -1, 1, 4).to(dtype);
    set_num_threads(1);
    const Tensor expected = linear(x, w, b, Activation::gelu);
    const LinearGradients gradients = linear_backward(g, x, w);
    for (int threads : {2, 4}) {
      set_num_threads(threads);
      EXPECT_TRUE(identical(linear(x, w, b, Activation::gelu), expected)) << name(dtype);
      const LinearGradients again = linear_backward(g, x, w);
      EXPECT_TRUE(identical(again.x, gradients.x));
      EXPECT_TRUE(identical(again.weight, gradients.weight));
      EXPECT_TRUE(identical(again.bias, gradients.bias));
    }
  }
  set_num_threads(before);
}

TEST(Linear, WrongArgumentsAreRefused) {
  const Tensor x = ones({2, 3}), w = ones({4, 3}), b = ones({4}), g = ones({2, 4});
  EXPECT_THROW(linear(x, ones({4, 2})), ShapeError);
  EXPECT_THROW(linear(x, ones({3})), ShapeError);
  EXPECT_THROW(linear(x, ones({1, 4, 3})), ShapeError);
  EXPECT_THROW(linear(ones({}), w), ShapeError);
  EXPECT_THROW(linear(x, w, ones({3})), ShapeError);
  EXPECT_THROW(linear(x, w, ones({1, 4})), ShapeError);
  EXPECT_THROW(linear(x, w, ones({})), ShapeError);
  EXPECT_THROW(linear(x.to(DType::int32), w), DTypeError);
  EXPECT_THROW(linear(x, w.to(DType::int32)), DTypeError);
  EXPECT_THROW(linear(x, w, b.to(DType::bool_)), DTypeError);
  for (const Shape& wrong : {Shape{4, 2}, Shape{2}, Shape{}, Shape{8}, Shape{1, 2, 4}}) {
    EXPECT_THROW(linear_backward(ones(wrong), x, w), ShapeError) << wrong;
    EXPECT_THROW(linear_backward(ones(wrong), x, w, b, Activation::relu), ShapeError) << wrong;
  }
  EXPECT_THROW(linear_backward(g.to(DType::int32), x, w), DTypeError);
}

// ---- glu

TEST(Glu, TailsAndErrors) {
  for (DType dtype : float_dtypes) {
    // A gate far below 0 closes, far above 0 opens, and nothing overflows.
    const Tensor x = tensor({3.0, 3.0, -60000.0, 60000.0}, dtype);
    EXPECT_EQ(values_of(glu(x)), (std::vector<double>{0, 3})) << name(dtype);
    EXPECT_EQ(values_of(glu_backward(ones({2}, dtype), x)), (std::vector<double>{0, 1, 0, 0}));
  }
  EXPECT_THROW(glu(ones({3})), ShapeError);
  EXPECT_THROW(glu(ones({2, 3}), 1), ShapeError);
  EXPECT_THROW(glu(ones({})), IndexError);
  EXPECT_THROW(glu(ones({2, 2}), 2), IndexError);
  EXPECT_THROW(glu(ones({2}, DType::int32)), DTypeError);
  EXPECT_THROW(glu_backward(ones({4}), ones({4})), ShapeError);
  EXPECT_THROW(glu_backward(ones({2}, DType::int32), ones({4})), DTypeError);
}

}  // namespace
}  // namespace extensor
