// Gradients of complex numbers against finite differences in the directions of both parts.
#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "extensor/complex.h"
#include "extensor/extensor.h"
#include "support/complex_samples.h"

namespace extensor {
namespace {

using C128 = std::complex<double>;
using Tensors = std::vector<Tensor>;
using namespace std::complex_literals;

TEST(ComplexGradient, OfArithmetic) {
  const Tensor a = drawn({2, 1}, 0.4, 1.5, 1), b = drawn({3}, 0.4, 1.5, 2);
  const Tensor x = drawn_reals({3}, 0.5, 1.5, 3);
  const auto check = [&](const char* what, const ForwardFunction& function) {
    expect_gradient(what, function, {a, b});
    expect_gradient(std::string(what) + ", real b", function, {a, x});
    expect_gradient(std::string(what) + ", real a", function, {x, b});
  };
  check("add", [](const Tensors& in) { return in[0] + in[1]; });
  check("subtract", [](const Tensors& in) { return in[0] - in[1]; });
  check("multiply", [](const Tensors& in) { return in[0] * in[1]; });
  check("divide", [](const Tensors& in) { return in[0] / in[1]; });
  const auto to_the_power = [](const Tensors& in) { return power(in[0], in[1]); };
  check("power", to_the_power);
  expect_gradient("power of negative reals", to_the_power, {drawn_reals({3}, -1.5, -0.5, 6), b});
  check("where", [](const Tensors& in) {
    return where(tensor({true, false, true}), in[0], in[1]) * in[0];
  });
  expect_gradient("numbers",
                  [](const Tensors& in) { return (1.0 + 2i) * power(in[0], 2) / 3 - 1i; }, {a});
  expect_gradient("complex", [](const Tensors& in) { return square(complex(in[0], in[1])); },
                  {x, drawn_reals({2, 3}, -1, 1, 4)});
  expect_gradient("cast", [](const Tensors& in) { return exp(1i * in[0].to(complex128)); }, {x});
  expect_gradient("view_as_complex", [](const Tensors& in) { return exp(view_as_complex(in[0])); },
                  {drawn_reals({3, 2}, -1, 1, 5)});
}

TEST(ComplexGradient, OfReductionsProductsAndMovement) {
  const Tensor z = drawn({3, 4}, -1, 1, 1), w = drawn({4, 2}, -1, 1, 2);
  expect_gradient("sum", [](const Tensors& in) { return square(sum(in[0], 1)); }, {z});
  expect_gradient("mean", [](const Tensors& in) { return square(mean(in[0])); }, {z});
  expect_gradient("prod", [](const Tensors& in) { return prod(in[0], 0); }, {z});
  const Tensor with_zero = z * tensor({1.0, 0.0, 1.0, 1.0}, float64);
  expect_gradient("prod of zeros", [](const Tensors& in) { return prod(in[0], 1); }, {with_zero});
  expect_gradient("cumulative_sum",
                  [](const Tensors& in) { return square(cumulative_sum(in[0], 0)); }, {z});
  expect_gradient("cumulative_prod", [](const Tensors& in) { return cumulative_prod(in[0], 1); },
                  {z});
  expect_gradient("matmul", [](const Tensors& in) { return matmul(in[0], in[1]); }, {z, w});
  expect_gradient("matmul, real b", [](const Tensors& in) { return matmul(in[0], in[1]); },
                  {z, drawn_reals({4, 2}, -1, 1, 5)});
  expect_gradient("vecdot", [](const Tensors& in) { return vecdot(in[0], in[1]); },
                  {z, drawn({3, 4}, -1, 1, 9)});
  expect_gradient("einsum", [](const Tensors& in) { return einsum("ij,jk->ik", in); }, {z, w});
  const Tensor rows = tensor({2, 0, 2});
  expect_gradient("take", [&](const Tensors& in) { return square(take(in[0], rows, 0)); }, {z});
  expect_gradient("index", [&](const Tensors& in) { return square(in[0][rows]); }, {z});
  expect_gradient("gather",
                  [&](const Tensors& in) {
                    return square(gather(in[0], 1, tensor({{0, 0}, {3, 1}, {2, 2}})));
                  },
                  {z});
  expect_gradient("scatter_add",
                  [&](const Tensors& in) {
                    return square(scatter_add(in[0], 0, tensor({{0, 0}, {1, 2}}), in[1]));
                  },
                  {z, drawn({2, 2}, -1, 1, 3)});
  expect_gradient("concatenate",
                  [](const Tensors& in) {
                    return square(concatenate({in[0], flip(in[0], 1), roll(in[0], 1, 0)}, 0));
                  },
                  {z});
  expect_gradient("pad",
                  [](const Tensors& in) {
                    return square(pad(in[0], {{1, 1}, {0, 2}}));
                  },
                  {z});
  expect_gradient("slice", [](const Tensors& in) { return square(in[0].slice(1, 1, 4, 2)); }, {z});
  expect_gradient("tile", [](const Tensors& in) { return square(tile(in[0], {2, 1})); }, {z});
  expect_gradient("index_put",
                  [&](const Tensors& in) {
                    return square(index_put(in[0], {tensor({1, 1})}, in[1]));
                  },
                  {z, drawn({2, 4}, -1, 1, 3)});
}

// The explicit backwards of two operands, of which either may be real, agree with autograd.
TEST(ComplexGradient, OfExplicitBackwards) {
  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
  using Backward =
      std::function<std::pair<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&)>;
  const auto check = [](const std::string& what, const Shape& a_shape, const Shape& b_shape,
                        const Function& function, const Backward& backward) {
    const Tensor z = drawn(a_shape, 0.5, 1, 1), w = drawn(b_shape, 0.5, 1, 2);
    const Tensor x = drawn_reals(a_shape, 0.5, 1, 3), y = drawn_reals(b_shape, 0.5, 1, 4);
    for (const auto& [first, second] : {std::pair(z, w), std::pair(z, y), std::pair(x, w)}) {
      SCOPED_TRACE(what + ", a is " + std::string(name(first.dtype())) + ", b is " +
                   std::string(name(second.dtype())));
      const Tensor a = first.detach().requires_grad_(), b = second.detach().requires_grad_();
      const Tensor c = function(a, b), g = drawn(c.shape(), -1, 1, 5);
      const std::vector<Tensor> expected = grad({c}, {a, b}, {.grad_outputs = {g}});
      const auto [of_a, of_b] = backward(g, first, second);
      ASSERT_EQ(of_a.dtype(), first.dtype());
      ASSERT_EQ(of_b.dtype(), second.dtype());
      EXPECT_TRUE(allclose(of_a, expected[0], 1e-12, 1e-13));
      EXPECT_TRUE(allclose(of_b, expected[1], 1e-12, 1e-13));
      EXPECT_EQ(backward(g, first.to(complex64), second).first.dtype(), complex64);
    }
    // Real operands have real results.
    EXPECT_THROW(backward(drawn(function(x, y).shape(), -1, 1, 5), x, y), DTypeError);
  };
#define CHECK(name, a_shape, b_shape)                                                       \
  check(                                                                                    \
      #name, a_shape, b_shape, [](const Tensor& a, const Tensor& b) { return name(a, b); }, \
      [](const Tensor& g, const Tensor& a, const Tensor& b) { return name##_backward(g, a, b); })
  const Shape rows{3, 2}, columns{2, 4}, batch{5, 3, 2}, vector{3}, one{1, 3}, many{2, 1};
  CHECK(matmul, rows, columns);
  CHECK(matmul, batch, columns);
  CHECK(matmul, vector, rows);
  CHECK(matmul, rows, Shape{2});
  CHECK(matmul, vector, vector);
  CHECK(dot, vector, vector);
  CHECK(outer, vector, Shape{4});
  CHECK(inner, rows, Shape({4, 2}));
  CHECK(vecdot, rows, rows);
  CHECK(multiply, one, many);
  CHECK(divide, one, many);
  CHECK(power, one, many);
  CHECK(linalg::cross, Shape({4, 3}), vector);
#undef CHECK
  check(
      "tensordot", batch, {2, 3, 4},
      [](const Tensor& a, const Tensor& b) {
        return tensordot(a, b, {1, 2}, {1, 0});
      },
      [](const Tensor& g, const Tensor& a, const Tensor& b) {
        return tensordot_backward(g, a, b, {1, 2}, {1, 0});
      });
}

TEST(ComplexGradient, OfExplicitBackwardsInClosedForm) {
  // c = a·b: grad a = g·conj(b), grad b = conj(a)·g.
  const C128 a = 2.0 + 1i, b = 1.0 - 3i, g = 0.5 + 2i;
  const auto [of_a, of_b] =
      matmul_backward(numbers({g}, {1, 1}), numbers({a}, {1, 1}), numbers({b}, {1, 1}));
  EXPECT_NEAR(std::abs(of_a.item<C128>() - g * std::conj(b)), 0, 1e-14);
  EXPECT_NEAR(std::abs(of_b.item<C128>() - std::conj(a) * g), 0, 1e-14);
  const Tensor y = exp_backward(numbers({g}, {1}), numbers({b}, {1}));
  EXPECT_NEAR(std::abs(y.item<C128>() - g * std::conj(b)), 0, 1e-14);
  const Tensor z = numbers({3.0 + 4i}, {1});
  EXPECT_NEAR(std::abs(abs_backward(tensor({5.0}, float64), z).item<C128>() - (3.0 + 4i)), 0,
              1e-14);
  // The magnitude is real, and so is its gradient.
  EXPECT_THROW(abs_backward(z, z), DTypeError);
  EXPECT_THROW(norm_backward(z[0], z), DTypeError);
  EXPECT_THROW(gelu_backward(z, z), DTypeError);
  EXPECT_THROW(hypot_backward(z, z, z), DTypeError);
  // Factors of 0: only the one zero has a gradient.
  const Tensor factors = numbers({a, 0, b}, {3}), ones3 = ones({3}, complex128);
  const Tensor of_factors = prod_backward(numbers({1}, {}), factors);
  EXPECT_TRUE(allclose(of_factors, numbers({0, std::conj(a * b), 0}, {3}), 1e-14));
  // y₀ = x₀, y₁ = x₀x₁, y₂ = x₀x₁x₂.
  const Tensor scanned = cumulative_prod_backward(ones3, factors, 0);
  EXPECT_TRUE(allclose(scanned, numbers({1, std::conj(a) + std::conj(a * b), 0}, {3}), 1e-14));
}

// An explicit backward is made of recorded ops.
TEST(ComplexGradient, OfExplicitBackwardsTwice) {
  const Tensor g = drawn({3, 4}, -1, 1, 1), a = drawn({3, 2}, -1, 1, 2),
               b = drawn({2, 4}, -1, 1, 3);
  expect_gradient("matmul_backward",
                  [&](const Tensors& in) { return matmul_backward(in[0], a, in[1]).first; },
                  {g, b});
  expect_gradient("multiply_backward",
                  [&](const Tensors& in) { return multiply_backward(in[0], in[1], a).second; },
                  {a, drawn({2}, -1, 1, 4)});
  expect_gradient("tanh_backward", [](const Tensors& in) { return tanh_backward(in[0], in[1]); },
                  {a, a});
  expect_gradient("cumulative_prod_backward",
                  [](const Tensors& in) { return cumulative_prod_backward(in[0], in[1], 0); },
                  {a, drawn({3, 2}, 0.5, 1, 5)});
  expect_gradient("prod_backward", [](const Tensors& in) { return prod_backward(in[0], in[1], 0); },
                  {drawn({2}, -1, 1, 6), drawn({3, 2}, 0.5, 1, 5)});
}

// Writes into views of parts change the history of the complex tensor.
TEST(ComplexGradient, OfWritesIntoViews) {
  const Tensor z = drawn({3, 2}, 0.5, 1, 1);
  const Tensor x = drawn_reals({3, 2}, 0.5, 1, 2);
  expect_gradient("write into imag",
                  [](const Tensors& in) {
                    Tensor y = in[0] * 2;
                    imag(y).copy_from(square(in[1]));
                    real(y).slice(0, 1, 2) *= 3;
                    return exp(y);
                  },
                  {z, x});
  expect_gradient("write into a row",
                  [](const Tensors& in) {
                    Tensor y = in[0] * 1i;
                    y[1] = in[1][0].to(complex128);
                    y.slice(1, 0, 1) *= 2.0 + 1i;
                    return square(y);
                  },
                  {z, x});
  expect_gradient("write into view_as_complex",
                  [](const Tensors& in) {
                    Tensor pairs = in[0] * 2;
                    view_as_complex(pairs).slice(0, 0, 2) *= 1i;
                    return square(pairs);
                  },
                  {x});
}

// Parts of a longer vector, of which the second starts in the middle of a number.
TEST(ComplexGradient, OfPartsAtOddOffsets) {
  const Tensor z = drawn({2}, 0.5, 1, 1), x = drawn_reals({2, 2}, 0.5, 1, 2);
  const Tensor one = ones({1}, float64);
  expect_gradient("view_as_real",
                  [&](const Tensors& in) {
                    return square(concatenate({one, flatten(view_as_real(in[0]))}));
                  },
                  {z});
  expect_gradient("write into view_as_complex",
                  [&](const Tensors& in) {
                    Tensor pairs = in[0] * 2;
                    view_as_complex(pairs).slice(0, 0, 1) *= 1i;
                    return square(concatenate({one, flatten(pairs)}));
                  },
                  {x});
}

// On a branch cut, the derivative is that of the side on which the function is.
TEST(ComplexGradient, OnBranchCuts) {
  const auto derivative = [](const auto& function, C128 at) {
    const Tensor z = numbers({at}, {1}).requires_grad_(), one = numbers({1}, {1});
    const Tensor found = grad({function(z)}, {z}, {.grad_outputs = {one}})[0];
    return std::conj(found.item<C128>());
  };
  const auto expect = [&](const char* what, const auto& function, const auto& reference, C128 at,
                          C128 along) {
    // Along the cut, so that both points are on the same side as `at`.
    const double h = 1e-6;
    // A sum with 0 would lose the sign of a zero.
    const auto shifted = [&](double by) {
      return along.real() != 0 ? reference(C128(at.real() + by, at.imag()))
                               : reference(C128(at.real(), at.imag() + by));
    };
    const C128 wanted = (shifted(h) - shifted(-h)) / (2 * h) / along;
    const C128 found = derivative(function, at);
    EXPECT_NEAR(std::abs(found - wanted), 0, 1e-8) << what << " at " << at << ": " << found;
  };
  for (const double side : {0.0, -0.0}) {
    for (const double x : {2.0, -2.0}) {
      expect(
          "asin", [](const Tensor& z) { return asin(z); }, [](C128 z) { return std::asin(z); },
          {x, side}, 1);
      expect(
          "acos", [](const Tensor& z) { return acos(z); }, [](C128 z) { return std::acos(z); },
          {x, side}, 1);
      expect(
          "asinh", [](const Tensor& z) { return asinh(z); }, [](C128 z) { return std::asinh(z); },
          {side, x}, 1i);
    }
    for (const double x : {0.5, -0.5, -2.0}) {
      expect(
          "acosh", [](const Tensor& z) { return acosh(z); }, [](C128 z) { return std::acosh(z); },
          {x, side}, 1);
    }
  }
}

// Sums, scans, rounding and copies of tensors with the most axes.
TEST(ComplexGradient, OfTheHighestRank) {
  Shape shape(64, 1);
  shape[3] = 2;
  shape[60] = 3;
  const Tensor z = drawn(shape, -1, 1, 1);
  const auto values = [](const Tensor& x) { return x.reshape({-1}); };
  const Tensor flat = z.reshape({2, 3});
  EXPECT_TRUE(allclose(sum(z, {3, 60}).reshape({}), sum(flat), 1e-14));
  EXPECT_TRUE(allclose(values(mean(z, 60)), mean(flat, 1), 1e-14));
  EXPECT_TRUE(allclose(values(cumulative_sum(z, 60)), values(cumulative_sum(flat, 1)), 1e-14));
  EXPECT_TRUE(all(equal(values(round(z * 3)), values(round(flat * 3)))).item<bool>());
  EXPECT_TRUE(all(equal(values(swapaxes(z, 3, 60).clone(MemoryFormat::contiguous)),
                        values(transpose(flat).contiguous())))
                  .item<bool>());
  expect_gradient("sum",
                  [&](const Tensors& in) { return values(square(sum(in[0].reshape(shape), 60))); },
                  {flat});
}

TEST(ComplexGradient, FollowsTheConventionOfPyTorch) {
  // L = |z|² has the gradient 2z, and a descent along it shrinks z.
  Tensor z = numbers({1.0 + 2i}, {1}).requires_grad_();
  sum(square(abs(z))).backward();
  EXPECT_NEAR(std::abs(z.grad().item<C128>() - (2.0 + 4i)), 0, 1e-14);
  // A sum reads none of its operands, so they may change before the gradient is computed.
  Tensor summand = numbers({1i}, {1});
  const Tensor total = z * 2 + summand;
  summand.fill(5);
  EXPECT_NO_THROW(sum(abs(total)).backward());
  // A real leaf gets a real gradient.
  Tensor x = tensor({2.0}, float64).requires_grad_();
  sum(real((3.0 + 4i) * x)).backward();
  EXPECT_EQ(x.grad().dtype(), float64);
  EXPECT_EQ(x.grad().item<double>(), 3);
  // backward() without a gradient needs a real number.
  EXPECT_THROW(sum(z * 2).backward(), DTypeError);
  EXPECT_EQ(abs(numbers({0}, {1}).requires_grad_()).item<double>(), 0);
  Tensor zero = numbers({0}, {1}).requires_grad_();
  abs(zero).backward();
  EXPECT_EQ(zero.grad().item<C128>(), C128(0));
}

TEST(Complex, GradcheckFindsWrongGradients) {
  const Tensor z = drawn({3}, 0.5, 1, 1);
  const auto result = gradcheck([](const Tensors& in) { return square(in[0]); },
                                [](const Tensor& g, const Tensors& in) {
                                  return Tensors{g * 2 * in[0]};  // lacks conj
                                },
                                {z});
  EXPECT_FALSE(result.passed);
}

}  // namespace
}  // namespace extensor
