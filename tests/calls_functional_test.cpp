// Derivatives as functions: jacobian, hessian, hvp, vjp and jvp, against closed forms.
#include <gtest/gtest.h>

#include "extensor/extensor.h"

namespace {

using ext::Shape;
using ext::Tensor;
using Tensors = std::vector<Tensor>;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(ext::float64).to_vector<double>(); }

Tensor point() { return ext::tensor({1.0, 2.0, 3.0}, ext::float64); }

TEST(CallsFunctional, Jacobian) {
  const Tensor x = point();
  // d x_i² / d x_j
  const Tensor square = ext::jacobian([](const Tensor& at) { return at * at; }, x);
  EXPECT_EQ(square.shape(), (Shape{3, 3}));
  EXPECT_EQ(values(square), (Values{2, 0, 0, 0, 4, 0, 0, 0, 6}));
  EXPECT_FALSE(square.requires_grad());
  // A linear map is its own Jacobian, in the shapes of result and argument.
  const Tensor a = ext::arange(6).reshape(2, 3).to(ext::float64);
  EXPECT_EQ(values(ext::jacobian([&](const Tensor& at) { return matmul(a, at); }, x)), values(a));
  EXPECT_EQ(ext::jacobian(
                [](const Tensor& at) {
                  return at.reshape(1, 3) * ext::ones({2, 1});
                },
                x)
                .shape(),
            (Shape{2, 3, 3}));
  EXPECT_EQ(ext::jacobian([](const Tensor& at) { return at.sum(); }, x).shape(), (Shape{3}));
  // Results that do not depend on x, or are empty.
  EXPECT_EQ(values(ext::jacobian([](const Tensor&) { return ext::ones({2}); }, x)), Values(6, 0));
  EXPECT_EQ(ext::jacobian([](const Tensor& at) { return at.slice(0, 3); }, x).shape(),
            (Shape{0, 3}));
  EXPECT_THROW(ext::jacobian([](const Tensor& at) { return at; }, ext::tensor({1})),
               ext::DTypeError);
  // Works where recording is off, and records on request.
  {
    const ext::NoGrad off;
    EXPECT_EQ(values(ext::jacobian([](const Tensor& at) { return at * at; }, x))[4], 4);
  }
  Tensor leaf = point().requires_grad_();
  const Tensor tracked = ext::jacobian([](const Tensor& at) { return at * at * at; }, leaf, true);
  EXPECT_EQ(values(ext::grad(tracked.sum(), {leaf})[0]), (Values{6, 12, 18}));
  EXPECT_FALSE(leaf.grad().defined());
}

TEST(CallsFunctional, Hessian) {
  // f = x₀² x₁ + x₂³
  const auto f = [](const Tensor& x) { return x[0] * x[0] * x[1] + x[2] * x[2] * x[2]; };
  EXPECT_EQ(values(ext::hessian(f, point())), (Values{4, 2, 0, 2, 0, 0, 0, 0, 18}));
  EXPECT_EQ(values(ext::hessian([](const Tensor& x) { return x.sum(); }, point())), Values(9, 0));
  EXPECT_EQ(
      ext::hessian([](const Tensor& x) { return (x * x).sum(); }, ext::ones({2, 2}, ext::float64))
          .shape(),
      (Shape{2, 2, 2, 2}));
  EXPECT_THROW(ext::hessian([](const Tensor& x) { return x * x; }, point()), ext::ShapeError);
  // The third derivative of x³ is 6.
  Tensor leaf = ext::tensor({2.0}, ext::float64).requires_grad_();
  const Tensor h = ext::hessian([](const Tensor& x) { return (x * x * x).sum(); }, leaf, true);
  EXPECT_EQ(values(ext::grad(h.sum(), {leaf})[0]), Values{6});
}

TEST(CallsFunctional, Products) {
  const auto f = [](const Tensor& x) { return x[0] * x[0] * x[1] + x[2] * x[2] * x[2]; };
  const Tensor v = ext::tensor({1.0, -1.0, 2.0}, ext::float64);
  const auto [value, product] = ext::hvp(f, point(), v);
  EXPECT_EQ(value.item<double>(), 29);
  EXPECT_EQ(values(product), (Values{2, 2, 36}));
  EXPECT_EQ(values(ext::hvp([](const Tensor& x) { return x.sum(); }, point(), v).second),
            Values(3, 0));
  EXPECT_THROW(ext::hvp(f, point(), ext::ones({2})), ext::ShapeError);

  const auto cube = [](const Tensor& x) { return x * x * x; };
  const auto [y, pulled] = ext::vjp(cube, point(), v);
  EXPECT_EQ(values(y), (Values{1, 8, 27}));
  EXPECT_EQ(values(pulled), (Values{3, -12, 54}));
  const auto [same, pushed] = ext::jvp(cube, point(), v);
  EXPECT_EQ(values(same), (Values{1, 8, 27}));
  EXPECT_EQ(values(pushed), (Values{3, -12, 54}));
  EXPECT_EQ(values(ext::vjp(f, point()).second), (Values{4, 1, 27}));
  EXPECT_THROW(ext::vjp(cube, point()), ext::ShapeError);  // needs a gradient
  EXPECT_THROW(ext::vjp(cube, point(), ext::ones({2}, ext::float64)), ext::ShapeError);
}

TEST(CallsFunctional, SeveralInputsAndOutputs) {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * in[1], in[0].sum()}; };
  const Tensor a = point(), b = ext::tensor({4.0, 5.0, 6.0}, ext::float64);
  const auto [outputs, gradients] =
      ext::vjp(f, {a, b, a}, {ext::ones({3}, ext::float64), ext::full({}, 10.0, ext::float64)});
  EXPECT_EQ(values(outputs[0]), (Values{4, 10, 18}));
  EXPECT_EQ(values(gradients[0]), (Values{14, 15, 16}));
  EXPECT_EQ(values(gradients[1]), (Values{1, 2, 3}));
  EXPECT_EQ(values(gradients[2]), Values(3, 0));  // unused
  EXPECT_FALSE(outputs[0].requires_grad());
  EXPECT_THROW(ext::vjp(f, {a, b}, {ext::ones({3}, ext::float64)}), ext::ValueError);
}

}  // namespace
