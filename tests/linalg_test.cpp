// Linear algebra beyond the op database: reconstruction of larger matrices by either path, known
// matrices, degenerate and extreme ones, errors, and independence of threads. ctest runs the
// program a second time without LAPACK.
#include "extensor/linalg.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "backend/backend.h"
#include "extensor/extensor.h"
#include "op_database/op_database.h"

namespace extensor {
namespace {

using namespace linalg;

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

Tensor draw(const Shape& shape, std::uint64_t seed, DType dtype = float64) {
  return op_database::sample_uniform(shape, -1, 1, seed).to(dtype);
}
Tensor mt(const Tensor& x) { return x.matrix_transpose(); }
Tensor positive(const Shape& shape, std::uint64_t seed, DType dtype = float64) {
  const Tensor x = draw(shape, seed, dtype);
  return matmul(x, mt(x)) + eye(shape.back(), {}, 0, {.dtype = dtype});
}
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }
double epsilon(DType dtype) { return dtype == float32 ? 0x1p-23 : 0x1p-52; }

// |a − b| ≤ 10 n ε · scale, element by element.
void expect_close(const Tensor& a, const Tensor& b, double scale, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const double n = static_cast<double>(std::max(a.size(-1), a.size(-2)));
  EXPECT_LE(largest(a - b), 10 * n * epsilon(a.dtype()) * scale) << what;
}
void expect_orthonormal_columns(const Tensor& q, const std::string& what) {
  const Tensor product = matmul(mt(q), q);
  const Tensor identity =
      eye(q.size(-1), {}, 0, {.dtype = q.dtype()}).broadcast_to(product.shape());
  const double n = static_cast<double>(std::max(q.size(-1), q.size(-2)));
  EXPECT_LE(largest(product - identity), 10 * n * epsilon(q.dtype())) << what;
}
Tensor scaled(const Tensor& matrices, const Tensor& columns) {
  return matrices * columns.unsqueeze(-2);
}

// Sizes on both sides of the limits between the kernels: single, lanes, LAPACK, LAPACK's threads.
std::vector<Shape> shapes(bool square) {
  std::vector<Shape> list;
  for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 16, 23, 24, 25, 33, 64, 150}) {
    for (const std::int64_t batch : {0, 1, 3, 4, 9, 17}) {
      if (n > 33 && batch > 3) continue;
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

class Linalg : public ::testing::TestWithParam<DType> {};

TEST_P(Linalg, CholeskyReconstructs) {
  for (const Shape& shape : shapes(true)) {
    const Tensor x = positive(shape, 1, GetParam());
    const double scale = largest(x);
    const Tensor lower = cholesky(x), upper = cholesky(x, true);
    expect_close(matmul(lower, mt(lower)), x, scale, to_string(shape));
    expect_close(matmul(mt(upper), upper), x, scale, to_string(shape));
    EXPECT_EQ(largest(triu(lower, 1)), 0) << to_string(shape);
    EXPECT_EQ(largest(tril(upper, -1)), 0) << to_string(shape);
    EXPECT_GT(min(diagonal(lower)).item<double>(), 0) << to_string(shape);
  }
}

TEST_P(Linalg, QrReconstructs) {
  for (const Shape& shape : shapes(false)) {
    const Tensor x = draw(shape, 2, GetParam());
    for (const QrMode mode : {QrMode::reduced, QrMode::complete}) {
      const auto [q, r] = qr(x, mode);
      expect_close(matmul(q, r), x, 1, to_string(shape));
      expect_orthonormal_columns(q, to_string(shape));
      EXPECT_EQ(largest(tril(r, -1)), 0) << to_string(shape);
    }
  }
}

TEST_P(Linalg, EighReconstructs) {
  for (const Shape& shape : shapes(true)) {
    const Tensor half = draw(shape, 3, GetParam()), x = half + mt(half);
    const auto [values, vectors] = eigh(x);
    const double scale = static_cast<double>(shape.back());
    expect_close(matmul(scaled(vectors, values), mt(vectors)), x, scale, to_string(shape));
    expect_orthonormal_columns(vectors, to_string(shape));
    EXPECT_TRUE(allclose(sort(values), values, 0, 0)) << to_string(shape);
    EXPECT_LE(largest(eigvalsh(x) - values), 10 * scale * scale * epsilon(GetParam()))
        << to_string(shape);
  }
}

TEST_P(Linalg, SvdReconstructs) {
  for (const Shape& shape : shapes(false)) {
    const Tensor x = draw(shape, 4, GetParam());
    const double scale = static_cast<double>(std::max(x.size(-1), x.size(-2)));
    for (const bool full : {false, true}) {
      const auto [u, s, vh] = svd(x, full);
      const std::int64_t k = s.size(-1);
      expect_close(matmul(scaled(u.slice(-1, 0, k), s), vh.slice(-2, 0, k)), x, scale,
                   to_string(shape));
      expect_orthonormal_columns(u, to_string(shape));
      expect_orthonormal_columns(mt(vh), to_string(shape));
      EXPECT_TRUE(allclose(sort(s, -1, true), s, 0, 0)) << to_string(shape);
      EXPECT_GE(min(s).item<double>(), 0);
      EXPECT_LE(largest(svdvals(x) - s), 10 * scale * scale * epsilon(GetParam()));
    }
  }
}

TEST_P(Linalg, SolvesAndInverts) {
  for (const Shape& shape : shapes(true)) {
    const std::int64_t n = shape.back();
    const Tensor x = draw(shape, 5, GetParam()) + eye(n, {}, 0, {.dtype = GetParam()}) * 2 * n;
    Shape right = shape;
    right.back() = 3;
    const Tensor b = draw(right, 6, GetParam());
    expect_close(matmul(x, solve(x, b)), b, 2, to_string(shape));
    expect_close(matmul(x, inv(x)), eye(n, {}, 0, {.dtype = GetParam()}).broadcast_to(shape), 2,
                 to_string(shape));
    const Tensor vector = draw({n}, 7, GetParam());
    EXPECT_LE(largest(matmul(x, solve(x, vector).unsqueeze(-1)).squeeze(-1) - vector),
              40 * static_cast<double>(n) * epsilon(GetParam()));
    expect_close(matmul(triu(x), solve_triangular(x, b, true)), b, 2, to_string(shape));
    expect_close(matmul(tril(x), solve_triangular(x, b)), b, 2, to_string(shape));
    // log |det| of a product is a sum; the determinant has the sign.
    const auto [sign, logarithm] = slogdet(x);
    const auto [sign_of_inverse, of_inverse] = slogdet(inv(x));
    EXPECT_LE(largest(logarithm + of_inverse), 100 * static_cast<double>(n) * epsilon(GetParam()));
    EXPECT_TRUE(allclose(sign, sign_of_inverse, 0, 0));
    if (n > 16) continue;  // float32 overflows
    const Tensor determinant = det(x);
    EXPECT_TRUE(allclose(log(abs(determinant)), logarithm, 1e-4, 1e-5)) << to_string(shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Linalg, ::testing::Values(float32, float64),
                         [](const auto& info) { return std::string(name(info.param)); });

// Every matrix of a batch is computed on its own: alone, it has the same result up to rounding, and
// in any layout the same bits.
TEST(LinalgBatches, AreComputedMatrixByMatrix) {
  for (const std::int64_t n : {3, 8, 20, 40}) {
    const Tensor x = draw({2, 5, n, n}, 8);
    const Tensor s = svdvals(x), other = svdvals(mt(mt(x).contiguous()));
    EXPECT_TRUE(allclose(s, other, 0, 0));
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        EXPECT_TRUE(allclose(svdvals(x[{i, j}]), s[{i, j}], 1e-12, 1e-12));
        EXPECT_TRUE(allclose(inv(x[{i, j}]), inv(x)[{i, j}], 1e-8, 1e-10));
      }
    }
  }
}

// Large triangles are solved with products of matrices, which Autocast would compute in halves.
TEST(LinalgBatches, OfTrianglesKeepTheirPrecisionUnderAutocast) {
  const Tensor x = draw({2, 150, 150}, 8, float32) + eye(150) * 300, b = draw({150}, 9, float32);
  const Tensor expected = solve_triangular(x, b, true);
  const Autocast halves(DType::bfloat16);
  EXPECT_TRUE(allclose(solve_triangular(x, b, true), expected, 0, 0));
}

TEST(LinalgBatches, DoNotDependOnTheNumberOfThreads) {
  const int before = get_num_threads();
  for (const std::int64_t n : {8, 32}) {
    const Tensor x = positive({64, n, n}, 9);
    set_num_threads(1);
    const Tensor results[] = {cholesky(x), qr(x).R, eigh(x).eigenvectors, svd(x).U, inv(x), det(x)};
    set_num_threads(4);
    const Tensor others[] = {cholesky(x), qr(x).R, eigh(x).eigenvectors, svd(x).U, inv(x), det(x)};
    for (std::size_t k = 0; k < std::size(results); ++k) {
      EXPECT_TRUE(allclose(results[k], others[k], 0, 0)) << n << ", result " << k;
    }
  }
  set_num_threads(before);
}

// LAPACK's threads wait for each other actively, which takes long beside busy processes.
TEST(LinalgThreads, OfLapackAreForLargeMatrices) {
  const Tensor large = positive({640, 640}, 8);
  const int before = get_num_threads();
  set_num_threads(2);
  det(large);
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  const auto threads =
      library == nullptr ? nullptr
                         : reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  if (threads != nullptr) {
    EXPECT_EQ(threads(), 2);
    for (const std::int64_t n : {130, 300}) {
      const Tensor x = positive({n, n}, 5), b = draw({n, 1}, 6), wide = draw({n, 2100}, 7);
      const std::function<void()> calls[] = {
          [&] { cholesky(x); }, [&] { qr(x); },       [&] { eigh(x); },  [&] { svd(x); },
          [&] { inv(x); },      [&] { solve(x, b); }, [&] { qr(wide); }, [&] { det(x); }};
      for (std::size_t k = 0; k < std::size(calls); ++k) {
        det(large);  // by two threads
        calls[k]();
        EXPECT_EQ(threads(), 1) << n << " rows, call " << k;
      }
    }
    set_num_threads(1);
    det(large);
    EXPECT_EQ(threads(), 1);
  }
  set_num_threads(before);
  if (threads == nullptr) GTEST_SKIP() << "LAPACK is not OpenBLAS, or there is none";
}

// ---- known matrices

TEST(LinalgValues, OfKnownMatrices) {
  const Tensor x = tensor({{2.0, 1.0}, {1.0, 2.0}}, float64);
  const auto [values, vectors] = eigh(x);
  EXPECT_TRUE(allclose(values, tensor({1.0, 3.0}, float64), 1e-15, 1e-15));
  const double h = std::sqrt(0.5);
  EXPECT_TRUE(allclose(vectors, tensor({{h, h}, {-h, h}}, float64), 1e-15, 1e-15));
  EXPECT_DOUBLE_EQ(det(x).item<double>(), 3);
  EXPECT_DOUBLE_EQ(matrix_norm(x, "nuc").item<double>(), 4);
  EXPECT_DOUBLE_EQ(matrix_norm(x, 2).item<double>(), 3);
  EXPECT_DOUBLE_EQ(matrix_norm(x, -2).item<double>(), 1);
  EXPECT_DOUBLE_EQ(trace(x).item<double>(), 4);
  // The Hilbert matrix of order 5 has the determinant 1 / 266716800000.
  std::vector<double> hilbert;
  for (int i = 1; i <= 5; ++i) {
    for (int j = 0; j < 5; ++j) hilbert.push_back(1.0 / (i + j));
  }
  const Tensor matrix = from_data(hilbert, {5, 5});
  EXPECT_NEAR(det(matrix).item<double>() * 266716800000.0, 1, 1e-9);
  const Tensor inverse = inv(matrix);
  EXPECT_NEAR(inverse.to_vector<double>()[0], 25, 1e-8);
  EXPECT_EQ(matrix_rank(matrix).item<std::int64_t>(), 5);
  EXPECT_EQ(matrix_power(x, 3).to_vector<double>()[1], 13);
}

// LAPACK's signs, which NumPy and PyTorch have too.
TEST(LinalgValues, OfQrHaveTheSignsOfHouseholder) {
  const auto [q, r] = qr(tensor({{3.0, 1.0}, {4.0, 2.0}}, float64));
  EXPECT_TRUE(allclose(r, tensor({{-5.0, -2.2}, {0.0, 0.4}}, float64), 1e-14, 1e-14));
  EXPECT_TRUE(allclose(q, tensor({{-0.6, -0.8}, {-0.8, 0.6}}, float64), 1e-14, 1e-14));
}

TEST(LinalgValues, OfEmptyMatrices) {
  EXPECT_EQ(det(zeros({0, 0})).item<float>(), 1);
  EXPECT_EQ(det(zeros({2, 0, 0})).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(slogdet(zeros({0, 0})).logabsdet.item<float>(), 0);
  EXPECT_EQ(solve(zeros({0, 0}), zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_TRUE(allclose(qr(zeros({3, 0}), QrMode::complete).Q, eye(3)));
  const auto [u, s, vh] = svd(zeros({2, 0, 3}));
  EXPECT_EQ(u.shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(s.shape(), (Shape{2, 0}));
  EXPECT_TRUE(allclose(vh, eye(3).broadcast_to({2, 3, 3})));
  EXPECT_EQ(pinv(zeros({2, 0, 3})).shape(), (Shape{2, 3, 0}));
  EXPECT_EQ(cholesky(zeros({0, 4, 4})).shape(), (Shape{0, 4, 4}));
  EXPECT_EQ(eigh(zeros({0, 0})).eigenvalues.shape(), (Shape{0}));
}

// ---- degenerate and extreme matrices

TEST(LinalgDegenerate, SingularMatricesHaveFactorsAndCofactors) {
  for (const std::int64_t n : {3, 40}) {
    const Tensor column = draw({n, 1}, 10), row = draw({1, n}, 11);
    for (const Tensor& x : {matmul(column, row), zeros({n, n}, float64)}) {
      const auto [u, s, vh] = svd(x);
      expect_orthonormal_columns(u, "u");
      expect_orthonormal_columns(mt(vh), "vh");
      expect_close(matmul(scaled(u, s), vh), x, 1, "product");
      EXPECT_NEAR(s[1].item<double>(), 0, 1e-13);
      EXPECT_NEAR(det(x).item<double>(), 0, 1e-30);
      EXPECT_EQ(matrix_rank(x).item<std::int64_t>(), largest(x) == 0 ? 0 : 1);
      expect_close(matmul(matmul(x, pinv(x)), x), x, 1, "pinv");
    }
  }
  // The cofactors of a matrix of rank 2 are known; those of rank 1 are 0.
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {7.0, 8.0, 9.0}}, float64);
  const Tensor cofactors =
      tensor({{-3.0, 6.0, -3.0}, {6.0, -12.0, 6.0}, {-3.0, 6.0, -3.0}}, float64);
  EXPECT_TRUE(allclose(det_backward(ones({}, float64), x), cofactors, 1e-12, 1e-12));
  const Tensor zero_row = tensor({{1.0, 2.0}, {0.0, 0.0}}, float64);
  EXPECT_TRUE(allclose(det_backward(ones({}, float64), zero_row),
                       tensor({{0.0, 0.0}, {-2.0, 1.0}}, float64), 1e-14, 1e-14));
  EXPECT_EQ(largest(det_backward(ones({}, float64), zeros({3, 3}, float64))), 0);
  EXPECT_EQ(slogdet(zero_row).sign.item<double>(), 0);
  EXPECT_EQ(slogdet(zero_row).logabsdet.item<double>(), -infinity);
}

// Equal eigenvalues and singular values: functions of all of them have the right gradient.
TEST(LinalgDegenerate, RepeatedValuesGiveFiniteGradients) {
  const Tensor x = eye(3, {}, 0, {.dtype = float64}).clone().requires_grad_();
  const auto [values, vectors] = eigh(x);
  // The sum of squares of x, written by its eigenvectors.
  const Tensor product = matmul(scaled(vectors, values), mt(vectors));
  sum(product * product).backward();
  EXPECT_TRUE(allclose(x.grad(), eye(3, {}, 0, {.dtype = float64}) * 2, 1e-14, 1e-14));
  const Tensor y = eye(3, {}, 0, {.dtype = float64}).clone().requires_grad_();
  const auto [u, s, vh] = svd(y);
  const Tensor again = matmul(scaled(u, s), vh);
  sum(again * again).backward();
  EXPECT_TRUE(allclose(y.grad(), eye(3, {}, 0, {.dtype = float64}) * 2, 1e-14, 1e-14));
}

TEST(LinalgDegenerate, ExtremeMagnitudesNeitherOverflowNorUnderflow) {
  for (const std::int64_t n : {4, 40}) {
    const Tensor x = draw({n, n}, 12);
    for (const double factor : {1e-300, 1e-200, 1e200, 1e300}) {
      const Tensor s = svdvals(x);
      EXPECT_TRUE(allclose(svdvals(x * factor) / factor, s, 1e-12, 1e-12)) << factor;
      EXPECT_TRUE(allclose(eigvalsh(x * factor) / factor, eigvalsh(x), 1e-12, 1e-12)) << factor;
      EXPECT_TRUE(allclose(qr(x * factor).R / factor, qr(x).R, 1e-12, 1e-12)) << factor;
    }
  }
}

TEST(LinalgDegenerate, NanAndInfinityGiveNanOrAnError) {
  for (const std::int64_t n : {4, 40}) {
    for (const double bad : {nan, infinity}) {
      Tensor x = positive({2, n, n}, 13);
      x[{1, 2, 1}] = bad;
      const auto first_is_finite = [&](const Tensor& y) {
        EXPECT_TRUE(all(isfinite(y[0])).item<bool>());
        EXPECT_TRUE(all(isnan(y[1])).item<bool>());
      };
      first_is_finite(svdvals(x));
      first_is_finite(svd(x).U);
      first_is_finite(eigh(x).eigenvalues);
      first_is_finite(eigh(x).eigenvectors);
      EXPECT_TRUE(any(isnan(qr(x).Q[1])).item<bool>());
      EXPECT_THROW(cholesky(x), ValueError);
    }
    Tensor x = positive({n, n}, 13);
    x[{2, 1}] = nan;
    EXPECT_TRUE(any(isnan(solve(x, ones({n}, float64)))).item<bool>());
    EXPECT_TRUE(any(isnan(inv(x))).item<bool>());
    EXPECT_TRUE(isnan(det(x)).item<bool>());
  }
}

// ---- empty matrices

// Kernels get a null address for a result without elements, as from an empty std::vector.
TEST(LinalgEmpty, FullSingularVectorsOfNoRowsOrColumnsAreAnIdentity) {
  const std::vector<double> identity = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  for (const bool no_rows : {true, false}) {
    std::vector<double> vectors(9, 7);
    backend::MatrixCall call{};
    call.op = backend::MatrixOp::svd;
    call.dtype = float64;
    call.batch = 1;
    call.rows = no_rows ? 0 : 3;
    call.columns = no_rows ? 3 : 0;
    call.full = true;
    call.out[no_rows ? 2 : 0] = reinterpret_cast<std::byte*>(vectors.data());
    backend::backend_for(cpu_device).matrices(call);
    EXPECT_EQ(vectors, identity) << "no rows: " << no_rows;
  }
}
TEST(LinalgEmpty, TheCompleteFactorOfNoColumnsIsAnIdentity) {
  const std::vector<double> identity = {1, 0, 0, 1};
  std::vector<double> q(4, 7);
  backend::MatrixCall call{};
  call.op = backend::MatrixOp::qr;
  call.dtype = float64;
  call.batch = 1;
  call.rows = 2;
  call.full = true;
  call.out[0] = reinterpret_cast<std::byte*>(q.data());
  backend::backend_for(cpu_device).matrices(call);
  EXPECT_EQ(q, identity);
}

// ---- errors

template <class Error, class Function>
void expect_error(const Function& f, const std::string& text) {
  try {
    f();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(LinalgErrors, NameTheOpAndTheMatrix) {
  for (const std::int64_t n : {3, 40, 100}) {
    Tensor x = positive({2, 3, n, n}, 14);
    x[{1, 2}] = zeros({n, n}, float64);
    expect_error<ValueError>([&] { inv(x); },
                             "inv: x is singular: matrix [1, 2] of the batch [2, 3]");
    expect_error<ValueError>([&] { solve(x, ones({n}, float64)); },
                             "solve: a is singular: matrix [1, 2]");
    expect_error<ValueError>([&] { solve_triangular(x, ones({n}, float64)); },
                             "solve_triangular: a is singular: matrix [1, 2]");
    expect_error<ValueError>([&] { cholesky(x); }, "cholesky: x is not positive-definite");
    expect_error<ValueError>([&] { matrix_power(x, -1); }, "inv: x is singular");
    expect_error<ValueError>([&] { inv(zeros({n, n})); }, "inv: x is singular");
  }
  const Tensor wide = ones({2, 3});
  expect_error<ShapeError>([&] { inv(wide); }, "inv: x is [2, 3], its matrices must be square");
  expect_error<ShapeError>([&] { det(wide); }, "det: x is [2, 3]");
  expect_error<ShapeError>([&] { eigh(wide); }, "eigh: x is [2, 3]");
  expect_error<ShapeError>([&] { cholesky(wide); }, "cholesky: x is [2, 3]");
  expect_error<ShapeError>([&] { matrix_power(wide, 2); }, "matrix_power: x is [2, 3]");
  expect_error<ShapeError>([&] { svd(ones({3})); }, "svd: x is [3]");
  expect_error<ShapeError>([&] { qr(ones({})); }, "qr: x is []");
  expect_error<ShapeError>([&] { trace(ones({3})); }, "trace: x is [3]");
  expect_error<ShapeError>([&] { solve(eye(3), ones({2})); }, "solve: a is [3, 3] and b is [2]");
  expect_error<ShapeError>([&] { solve(ones({2, 3, 3}), ones({4, 3, 1})); }, "solve: a is");
  expect_error<ShapeError>([&] { solve(eye(3), ones({})); }, "solve: a is [3, 3] and b is []");
  expect_error<ShapeError>([&] { cross(ones({2}), ones({2})); }, "cross: a is [2]");
  expect_error<DTypeError>(
      [&] { inv(eye(3).to(float16)); },
      "inv: x has dtype float16 (allowed: float32, float64, complex64, complex128)");
  expect_error<DTypeError>([&] { svd(eye(3).to(int32)); }, "svd: x has dtype int32");
  expect_error<ValueError>([&] { matrix_norm(wide, "max"); }, "matrix_norm: ord is \"max\"");
  expect_error<ValueError>([&] { matrix_norm(wide, 3); }, "matrix_norm: ord is 3");
  const Tensor tall = ones({3, 2}).requires_grad_();
  expect_error<ValueError>([&] { sum(qr(tall, QrMode::complete).Q).backward(); }, "qr_backward");
}

}  // namespace
}  // namespace extensor
