// Linear algebra of complex matrices: factorizations by either path, gradients against finite
// differences, determinants against Leibniz's formula, and errors. ctest runs the program a second
// time without LAPACK.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "extensor/complex.h"
#include "extensor/extensor.h"
#include "extensor/linalg.h"
#include "support/complex_samples.h"

namespace extensor {
namespace {

using namespace linalg;
using C128 = std::complex<double>;
using Tensors = std::vector<Tensor>;
using namespace std::complex_literals;

Tensor draw(const Shape& shape, std::uint64_t seed, DType dtype = complex128) {
  return drawn(shape, -1, 1, seed).to(dtype);
}
Tensor mh(const Tensor& x) { return conj(matrix_transpose(x)); }
Tensor identity(std::int64_t n, DType dtype) { return eye(n, {}, 0, dtype); }
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }
double epsilon(DType dtype) { return dtype == complex64 ? 0x1p-23 : 0x1p-52; }

// |a − b| ≤ 20 n ε · scale, element by element.
void expect_close(const Tensor& a, const Tensor& b, double scale, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto n = static_cast<double>(std::max(a.size(-1), a.size(-2)));
  EXPECT_LE(largest(a - b), 20 * n * epsilon(a.dtype()) * scale) << what;
}
void expect_orthonormal_columns(const Tensor& q, const std::string& what) {
  const Tensor product = matmul(mh(q), q);
  expect_close(product, identity(q.size(-1), q.dtype()).broadcast_to(product.shape()), 2, what);
}
// The first entry of each column that is not much smaller than the largest is positive.
void expect_oriented_columns(const Tensor& q, const std::string& what) {
  const Tensor size = abs(q), enough = size >= max_reduce(size, -2, true) * 0.6181;
  const Tensor first = argmax(enough.to(int64), -2, true);
  const Tensor chosen = take_along_axis(q, first, -2);
  EXPECT_GE(q.numel() == 0 ? 1 : min_reduce(real(chosen)).item<double>(), 0) << what;
  EXPECT_LE(largest(imag(chosen)), 4 * epsilon(q.dtype())) << what;
}

// Sizes on both sides of the limits between own kernels, LAPACK and its threads.
std::vector<Shape> shapes(bool square) {
  std::vector<Shape> list;
  for (const std::int64_t n : {1, 2, 3, 8, 9, 16, 24, 25, 33, 130}) {
    for (const std::int64_t batch : {0, 1, 3, 5}) {
      if (n > 33 && batch > 1) continue;
      Shape shape = batch == 0 ? Shape{n, n} : Shape{batch, n, n};
      list.push_back(shape);
      if (square) continue;
      shape.back() = n / 2 + 1;
      list.push_back(shape);
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
      list.push_back(shape);
    }
  }
  return list;
}

class ComplexLinalg : public ::testing::TestWithParam<DType> {};

TEST_P(ComplexLinalg, CholeskyReconstructs) {
  for (const Shape& shape : shapes(true)) {
    const Tensor root = draw(shape, 1, GetParam());
    const Tensor x = matmul(root, mh(root)) + identity(shape.back(), GetParam());
    const Tensor lower = cholesky(x), upper = cholesky(x, true);
    expect_close(matmul(lower, mh(lower)), x, largest(x), to_string(shape));
    expect_close(matmul(mh(upper), upper), x, largest(x), to_string(shape));
    EXPECT_EQ(largest(triu(lower, 1)), 0) << to_string(shape);
    EXPECT_EQ(largest(tril(upper, -1)), 0) << to_string(shape);
    EXPECT_GT(min(real(diagonal(lower))).item<double>(), 0) << to_string(shape);
    EXPECT_EQ(largest(imag(diagonal(upper))), 0) << to_string(shape);
  }
}

TEST_P(ComplexLinalg, QrReconstructs) {
  for (const Shape& shape : shapes(false)) {
    const Tensor x = draw(shape, 2, GetParam());
    for (const QrMode mode : {QrMode::reduced, QrMode::complete}) {
      const auto [q, r] = qr(x, mode);
      expect_close(matmul(q, r), x, 2, to_string(shape));
      expect_orthonormal_columns(q, to_string(shape));
      EXPECT_EQ(largest(tril(r, -1)), 0) << to_string(shape);
      EXPECT_EQ(largest(imag(diagonal(r.slice(-1, 0, std::min(shape.end()[-1], shape.end()[-2]))))),
                0)
          << to_string(shape);
    }
  }
}

TEST_P(ComplexLinalg, EighReconstructs) {
  for (const Shape& shape : shapes(true)) {
    const Tensor half = draw(shape, 3, GetParam()), x = half + mh(half);
    const auto [values, vectors] = eigh(x);
    EXPECT_EQ(values.dtype(), real_dtype(GetParam()));
    const auto scale = static_cast<double>(shape.back());
    expect_close(matmul(vectors * values.unsqueeze(-2), mh(vectors)), x, scale, to_string(shape));
    expect_orthonormal_columns(vectors, to_string(shape));
    expect_oriented_columns(vectors, to_string(shape));
    EXPECT_TRUE(allclose(sort(values), values, 0, 0)) << to_string(shape);
    EXPECT_LE(largest(eigvalsh(x) - values), 20 * scale * scale * epsilon(GetParam()));
    // Only the Hermitian part counts.
    const Tensor skew = draw(shape, 4, GetParam());
    EXPECT_LE(largest(eigvalsh(x + skew - mh(skew)) - values),
              20 * scale * scale * epsilon(GetParam()));
  }
}

TEST_P(ComplexLinalg, SvdReconstructs) {
  for (const Shape& shape : shapes(false)) {
    const Tensor x = draw(shape, 5, GetParam());
    const auto scale = static_cast<double>(std::max(x.size(-1), x.size(-2)));
    for (const bool full : {false, true}) {
      const auto [u, s, vh] = svd(x, full);
      EXPECT_EQ(s.dtype(), real_dtype(GetParam()));
      const std::int64_t k = s.size(-1);
      expect_close(matmul(u.slice(-1, 0, k) * s.unsqueeze(-2), vh.slice(-2, 0, k)), x, scale,
                   to_string(shape));
      expect_orthonormal_columns(u, to_string(shape));
      expect_orthonormal_columns(mh(vh), to_string(shape));
      expect_oriented_columns(u, to_string(shape));
      EXPECT_TRUE(allclose(sort(s, -1, true), s, 0, 0)) << to_string(shape);
      EXPECT_GE(min(s).item<double>(), 0);
      EXPECT_LE(largest(svdvals(x) - s), 20 * scale * scale * epsilon(GetParam()));
    }
  }
}

TEST_P(ComplexLinalg, SolvesAndInverts) {
  for (const Shape& shape : shapes(true)) {
    const std::int64_t n = shape.back();
    const Tensor x = draw(shape, 6, GetParam()) + identity(n, GetParam()) * (2 * n);
    Shape right = shape;
    right.back() = 3;
    const Tensor b = draw(right, 7, GetParam());
    expect_close(matmul(x, solve(x, b)), b, 4, to_string(shape));
    expect_close(matmul(x, inv(x)), identity(n, GetParam()).broadcast_to(shape), 4,
                 to_string(shape));
    expect_close(matmul(triu(x), solve_triangular(x, b, true)), b, 4, to_string(shape));
    expect_close(matmul(tril(x), solve_triangular(x, b)), b, 4, to_string(shape));
    const Tensor vector = draw({n}, 8, GetParam());
    EXPECT_LE(largest(matmul(x, solve(x, vector).unsqueeze(-1)).squeeze(-1) - vector),
              80 * static_cast<double>(n) * epsilon(GetParam()));
    const auto [sign, logarithm] = slogdet(x);
    const auto [sign_of_inverse, of_inverse] = slogdet(inv(x));
    EXPECT_EQ(logarithm.dtype(), real_dtype(GetParam()));
    const double tolerance = 200 * static_cast<double>(n) * epsilon(GetParam());
    EXPECT_LE(largest(logarithm + of_inverse), tolerance) << to_string(shape);
    EXPECT_LE(largest(sign * sign_of_inverse - 1), tolerance) << to_string(shape);
    if (n <= 16) {  // float32 overflows beyond
      EXPECT_TRUE(allclose(abs(det(x)), exp(logarithm), 1e-3, 0)) << to_string(shape);
    }
  }
}

// The sum over all permutations.
C128 leibniz(const std::vector<C128>& x, std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  C128 total = 0;
  do {
    C128 term = 1;
    for (std::size_t i = 0; i < n; ++i) {
      term *= x[i * n + order[i]];
      for (std::size_t j = i + 1; j < n; ++j) term *= order[j] < order[i] ? -1.0 : 1.0;
    }
    total += term;
  } while (std::next_permutation(order.begin(), order.end()));
  return total;
}

TEST(ComplexLinalgValues, DeterminantsAreThoseOfLeibniz) {
  for (std::size_t n = 0; n <= 5; ++n) {
    const auto size = static_cast<std::int64_t>(n);
    const Tensor x = draw({size, size}, 40 + n);
    const C128 expected = leibniz(x.to_vector<C128>(), n);
    EXPECT_LE(std::abs(det(x).item<C128>() - expected), 1e-13) << n;
    const auto [sign, logarithm] = slogdet(x);
    EXPECT_LE(std::abs(sign.item<C128>() * std::exp(logarithm.item<double>()) - expected), 1e-13);
    EXPECT_LE(std::abs(std::abs(sign.item<C128>()) - 1), 1e-14) << n;
  }
  const auto [sign, logarithm] = slogdet(zeros({2, 2}, complex128));
  EXPECT_EQ(sign.item<C128>(), C128(0));
  EXPECT_EQ(logarithm.item<double>(), -std::numeric_limits<double>::infinity());
}

TEST(ComplexLinalgValues, AgreeWithRealMatrices) {
  const Tensor x = real(draw({3, 4, 4}, 50)).clone(), symmetric = x + x.matrix_transpose();
  const Tensor z = x.to(complex128);
  EXPECT_TRUE(allclose(real(inv(z)), inv(x), 1e-12, 1e-12));
  EXPECT_TRUE(allclose(svdvals(z), svdvals(x), 1e-12, 1e-12));
  EXPECT_TRUE(allclose(eigvalsh(symmetric.to(complex128)), eigvalsh(symmetric), 1e-12, 1e-12));
  EXPECT_TRUE(allclose(real(eigh(symmetric.to(complex128)).eigenvectors),
                       eigh(symmetric).eigenvectors, 1e-10, 1e-10));
  EXPECT_TRUE(allclose(real(det(z)), det(x), 1e-12, 1e-12));
  // A real right side is promoted.
  EXPECT_TRUE(allclose(real(solve(z, x)), solve(x, x), 1e-12, 1e-12));
}

TEST(ComplexLinalgValues, OfRankDeficientAndExtremeMatrices) {
  const Tensor a = draw({5, 2}, 60), b = draw({2, 4}, 61), x = matmul(a, b);
  EXPECT_EQ(matrix_rank(x).item<std::int64_t>(), 2);
  const Tensor y = pinv(x);
  expect_close(matmul(matmul(x, y), x), x, 10, "x y x");
  expect_close(matmul(matmul(y, x), y), y, 10, "y x y");
  expect_close(mh(matmul(x, y)), matmul(x, y), 10, "x y");
  expect_close(mh(matmul(y, x)), matmul(y, x), 10, "y x");
  const auto [u, s, vh] = svd(zeros({3, 2}, complex128));
  expect_orthonormal_columns(u, "u of zeros");
  expect_orthonormal_columns(mh(vh), "v of zeros");
  for (const double scale : {1e-300, 1e300}) {
    const Tensor square = draw({4, 4}, 62) * scale;
    const auto [q, r] = qr(square);
    expect_close(matmul(q, r / scale), square / scale, 2, "qr");
    EXPECT_TRUE(allclose(svdvals(square) / scale, svdvals(square / scale), 1e-12, 0));
    const Tensor hermitian = square / 2 + mh(square) / 2;
    EXPECT_TRUE(allclose(eigvalsh(hermitian) / scale, eigvalsh(hermitian / scale), 1e-12, 1e-14));
  }
  for (const Shape& shape :
       {Shape{0, 0}, Shape{2, 0, 0}, Shape{0, 3, 3}, Shape{3, 0}, Shape{0, 3}}) {
    const Tensor empty = zeros(shape, complex64);
    const auto [left, values, right] = svd(empty);
    EXPECT_EQ(
        matmul(left.slice(-1, 0, values.size(-1)), right.slice(-2, 0, values.size(-1))).shape(),
        shape);
    EXPECT_EQ(qr(empty).Q.dtype(), complex64);
    if (shape.end()[-1] != shape.end()[-2]) continue;
    EXPECT_EQ(inv(empty).shape(), shape);
    EXPECT_EQ(cholesky(empty).shape(), shape);
    EXPECT_EQ(eigh(empty).eigenvectors.shape(), shape);
    if (shape.size() == 2) {
      EXPECT_EQ(det(empty).item<std::complex<float>>(), std::complex<float>(1));
    }
  }
  Tensor nan = draw({3, 3}, 63);
  nan[1][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(all(isnan(svdvals(nan))).item<bool>());
  EXPECT_TRUE(all(isnan(eigh(nan).eigenvectors)).item<bool>());
}

TEST(ComplexLinalgValues, AreThoseOfEveryLayout) {
  const Tensor x = draw({6, 8, 10}, 70);
  const Tensor view = x.slice(1, 0, 8, 2).slice(2, 9, 1, -2).transpose(1, 2);  // [6, 4, 4]
  const Tensor dense = view.contiguous();
  EXPECT_TRUE(allclose(inv(view), inv(dense), 0, 0));
  EXPECT_TRUE(allclose(qr(view).R, qr(dense).R, 0, 0));
  EXPECT_TRUE(allclose(svd(view).U, svd(dense).U, 0, 0));
  EXPECT_TRUE(allclose(det(x[0].slice(0, 0, 1).slice(1, 0, 1).broadcast_to({2, 1, 1})),
                       x[0][0][0].broadcast_to({2}), 0, 0));
}

TEST(ComplexLinalgValues, OfNormsAndPowers) {
  const Tensor x = draw({2, 3, 4}, 80), s = svdvals(x);
  EXPECT_TRUE(allclose(matrix_norm(x), sqrt(sum(square(abs(x)), {-2, -1})), 1e-13, 0));
  EXPECT_TRUE(allclose(matrix_norm(x, "nuc"), sum(s, -1), 1e-13, 0));
  EXPECT_TRUE(allclose(matrix_norm(x, 2), max_reduce(s, -1), 1e-13, 0));
  EXPECT_TRUE(allclose(matrix_norm(x, -2), min_reduce(s, -1), 1e-13, 0));
  EXPECT_TRUE(allclose(matrix_norm(x, 1), max_reduce(sum(abs(x), -2), -1), 1e-13, 0));
  const Tensor y = draw({3, 3}, 81);
  EXPECT_TRUE(allclose(matrix_power(y, 3), matmul(matmul(y, y), y), 1e-13, 1e-13));
  EXPECT_TRUE(allclose(matrix_power(y, -2), inv(matmul(y, y)), 1e-11, 1e-11));
}

TEST(ComplexLinalgValues, AreRefused) {
  const Tensor x = draw({3, 3}, 90), singular = zeros({2, 2}, complex128);
  EXPECT_THROW((void)inv(singular), ValueError);
  EXPECT_THROW((void)solve(singular, ones({2}, complex128)), ValueError);
  EXPECT_THROW((void)solve_triangular(singular, ones({2, 1}, complex128)), ValueError);
  EXPECT_THROW((void)cholesky(-identity(3, complex128)), ValueError);
  EXPECT_THROW((void)inv(draw({3, 2}, 91)), ShapeError);
  EXPECT_THROW((void)svd(draw({3}, 92)), ShapeError);
  EXPECT_THROW((void)slogdet_backward(ones({}, complex128), x), DTypeError);
  EXPECT_THROW((void)svd_backward({}, ones({3}, complex128), {}, x, ones({3}), x), DTypeError);
}

// ---- gradients

TEST(ComplexLinalgGradient, OfFactorizations) {
  const Tensor many = draw({2, 3, 3}, 100), tall = draw({4, 2}, 101), wide = draw({2, 4}, 102);
  const auto positive = [](const Tensor& x) {
    return matmul(x, mh(x)) + identity(x.size(-2), complex128);
  };
  for (const bool upper : {false, true}) {
    expect_gradient("cholesky", [&](const Tensors& in) { return cholesky(positive(in[0]), upper); },
                    {many});
    expect_gradient("cholesky of the Hermitian part",
                    [&](const Tensors& in) { return cholesky(in[0], upper); },
                    {positive(draw({3, 3}, 103)) + draw({3, 3}, 104) * 0.1});
  }
  for (const Tensor& x : {many, tall, wide}) {
    expect_gradient("q", [](const Tensors& in) { return qr(in[0]).Q; }, {x});
    expect_gradient("r", [](const Tensors& in) { return qr(in[0]).R; }, {x});
    expect_gradient("svdvals", [](const Tensors& in) { return svdvals(in[0]); }, {x});
    // Products and magnitudes that do not depend on phases.
    expect_gradient("u vh",
                    [](const Tensors& in) {
                      const auto [u, s, vh] = svd(in[0], false);
                      return matmul(u * exp(s).unsqueeze(-2), vh);
                    },
                    {x});
    expect_gradient("|u|", [](const Tensors& in) { return square(abs(svd(in[0], false).U)); }, {x});
    expect_gradient("|vh|", [](const Tensors& in) { return square(abs(svd(in[0], false).Vh)); },
                    {x});
    expect_gradient("pinv", [](const Tensors& in) { return pinv(in[0]); }, {x});
  }
  const auto hermitian = [](const Tensor& x) { return x + mh(x); };
  expect_gradient("eigvalsh", [&](const Tensors& in) { return eigvalsh(in[0]); }, {many});
  expect_gradient("eigh",
                  [&](const Tensors& in) {
                    const auto [w, v] = eigh(hermitian(in[0]));
                    return matmul(v * sin(w).unsqueeze(-2), mh(v));
                  },
                  {many});
  expect_gradient("|eigenvectors|",
                  [&](const Tensors& in) { return square(abs(eigh(in[0]).eigenvectors)); }, {many});
}

TEST(ComplexLinalgGradient, OfSolutionsAndDeterminants) {
  const Tensor a = draw({2, 3, 3}, 110) + 2, b = draw({3, 2}, 111);
  expect_gradient("solve", [](const Tensors& in) { return solve(in[0], in[1]); }, {a, b});
  expect_gradient("solve, real a", [](const Tensors& in) { return solve(in[0], in[1]); },
                  {drawn_reals({3, 3}, -1, 1, 113), b});
  expect_gradient("solve, real b", [](const Tensors& in) { return solve(in[0], in[1]); },
                  {a, drawn_reals({3}, -1, 1, 114)});
  for (const bool upper : {false, true}) {
    expect_gradient("solve_triangular",
                    [&](const Tensors& in) { return solve_triangular(in[0], in[1], upper); },
                    {a, b});
  }
  expect_gradient("inv", [](const Tensors& in) { return inv(in[0]); }, {a});
  expect_gradient("det", [](const Tensors& in) { return det(in[0]); }, {a});
  expect_gradient("log |det|", [](const Tensors& in) { return slogdet(in[0]).logabsdet; }, {a});
  expect_gradient("sign", [](const Tensors& in) { return slogdet(in[0]).sign; }, {a});
  expect_gradient("both",
                  [](const Tensors& in) {
                    const auto [sign, logarithm] = slogdet(in[0]);
                    return sign * logarithm;
                  },
                  {a});
  const Tensor singular = matmul(draw({3, 2}, 115), draw({2, 3}, 116));
  expect_gradient(
      "det of a singular matrix", [](const Tensors& in) { return det(in[0]); }, {singular}, false);
  for (const int n : {1, 3, -2}) {
    expect_gradient("matrix_power", [&](const Tensors& in) { return matrix_power(in[0], n); }, {a});
  }
  for (const double ord : {1.0, 2.0, -2.0, std::numeric_limits<double>::infinity()}) {
    expect_gradient("matrix_norm", [&](const Tensors& in) { return matrix_norm(in[0], ord); }, {a});
  }
  expect_gradient("nuclear norm", [](const Tensors& in) { return matrix_norm(in[0], "nuc"); }, {a});
  expect_gradient("Frobenius norm", [](const Tensors& in) { return matrix_norm(in[0]); }, {a});
}

// A gradient of 0 for one side leaves the rounding errors of the other.
TEST(ComplexLinalgGradient, OfOneSideAloneIsNoDependenceOnPhases) {
  const Tensor x = draw({4, 4}, 121).requires_grad_();
  const auto [u, s, vh] = svd(x, false);
  const Tensor weight = linspace(1, 2, 16).reshape({4, 4}).to(float64);
  const Tensor one = sum(weight * square(abs(vh)));
  const Tensor both = one + 0 * sum(square(abs(u)));
  const Tensor expected = grad({one}, {x}, {.retain_graph = true})[0];
  EXPECT_TRUE(allclose(grad({both}, {x})[0], expected, 1e-10));
}

TEST(ComplexLinalgGradient, OfPhasesIsRefused) {
  const Tensor x = draw({3, 3}, 120).requires_grad_();
  const auto message = [](const auto& function) -> std::string {
    try {
      function();
    } catch (const ValueError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_NE(message([&] { sum(imag(eigh(x).eigenvectors)).backward(); })
                .find("eigh_backward: the "
                      "result depends on the "
                      "phases"),
            std::string::npos);
  EXPECT_NE(message([&] { sum(real(svd(x).U * (1.0 + 2i))).backward(); }).find("svd_backward"),
            std::string::npos);
  EXPECT_NE(message([&] { sum(imag(svd(x).Vh)).backward(); }).find("svd_backward"),
            std::string::npos);
  EXPECT_FALSE(x.grad().defined());
}

INSTANTIATE_TEST_SUITE_P(DTypes, ComplexLinalg, ::testing::Values(complex64, complex128),
                         [](const auto& info) { return std::string(name(info.param)); });

// ---- distinct numbers

TEST(ComplexSets, OfDistinctNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x =
      numbers({1.0 + 2i, 0, 1.0 - 2i, 1.0 + 2i, C128(nan, 1), 0, C128(1, nan), -3}, {2, 4});
  const UniqueTensor found = unique_all(x);
  EXPECT_EQ(found.values.slice(0, 0, 4).to_vector<C128>(),
            (std::vector<C128>{-3, 0, 1.0 - 2i, 1.0 + 2i}));
  EXPECT_EQ(found.values.numel(), 6);
  EXPECT_TRUE(all(isnan(found.values.slice(0, 4))).item<bool>());
  EXPECT_EQ(found.counts.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 1, 2, 1, 1}));
  EXPECT_EQ(found.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 1, 2, 0, 6, 4}));
  EXPECT_TRUE(allclose(take(found.values, found.inverse_indices), x, 0, 0, true));
  EXPECT_EQ(found.inverse_indices.shape(), x.shape());
  EXPECT_TRUE(allclose(unique(x), found.values, 0, 0, true));
  EXPECT_EQ(unique_counts(x).counts.numel(), 6);
  EXPECT_EQ(unique_values(zeros({0}, complex64)).dtype(), complex64);
}

}  // namespace
}  // namespace extensor
