// Complex numbers: values against the long double functions of the C library and the special cases
// of the Array API standard, gradients of functions, and movement. complex_refusal_test has the ops
// that refuse them.
#include "extensor/complex.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <complex>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "extensor/extensor.h"
#include "support/complex_samples.h"

namespace extensor {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;
using Wide = std::complex<long double>;
using Tensors = std::vector<Tensor>;
using namespace std::complex_literals;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

bool same_part(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}
std::string text(C128 z) {
  return "(" + std::to_string(z.real()) + ", " + std::to_string(z.imag()) + ")";
}

// ---- dtypes

TEST(Complex, HasFactsOfItsDtypes) {
  EXPECT_EQ(itemsize(complex64), 8U);
  EXPECT_EQ(itemsize(complex128), 16U);
  EXPECT_STREQ(name(complex64), "complex64");
  EXPECT_EQ(dtype_of<C64>, complex64);
  EXPECT_EQ(dtype_of<C128>, complex128);
  EXPECT_TRUE(is_complex(complex64) && is_complex(complex128) && !is_complex(float64));
  EXPECT_FALSE(is_floating_point(complex64) || is_floating_point(complex128));
  EXPECT_FALSE(is_integer(complex64));
  EXPECT_EQ(real_dtype(complex64), float32);
  EXPECT_EQ(real_dtype(complex128), float64);
  EXPECT_EQ(complex_dtype(float16), complex64);
  EXPECT_EQ(complex_dtype(float64), complex128);
  EXPECT_EQ(finfo(complex64).bits, 32);
  EXPECT_EQ(finfo(complex128).eps, finfo(float64).eps);
  EXPECT_TRUE(isdtype(complex64, "complex floating") && isdtype(complex64, "numeric"));
  EXPECT_FALSE(isdtype(complex64, "real floating"));
}

TEST(Complex, Promotes) {
  for (int k = 0; k < dtype_count; ++k) {
    const auto real = static_cast<DType>(k);
    const DType narrow = real == float64 ? complex128 : complex64;
    EXPECT_EQ(promote_types(real, complex64), narrow) << name(real);
    EXPECT_EQ(promote_types(complex64, real), narrow) << name(real);
    EXPECT_EQ(promote_types(complex128, real), complex128) << name(real);
    EXPECT_EQ(promote_with_scalar(real, 1i), complex_dtype(real)) << name(real);
    EXPECT_TRUE(can_cast(real, complex128));
    EXPECT_FALSE(can_cast(complex64, real));
  }
  EXPECT_EQ(promote_types(complex64, complex128), complex128);
  EXPECT_EQ(promote_with_scalar(complex64, 2.5), complex64);
  EXPECT_EQ(promote_with_scalar(complex64, 2), complex64);
  EXPECT_EQ(Scalar(1i).default_dtype(), complex64);
  EXPECT_THROW((void)Scalar(1i).as_double(), DTypeError);
  EXPECT_THROW((void)Scalar(1i).as_integer(), DTypeError);
}

// ---- creation, casts, elements

TEST(Complex, IsCreated) {
  for (DType dtype : {complex64, complex128}) {
    EXPECT_EQ(zeros({2}, dtype).to(complex128).to_vector<C128>(), (std::vector<C128>{0, 0}));
    EXPECT_EQ(ones({2}, dtype).to(complex128).to_vector<C128>(), (std::vector<C128>{1, 1}));
    EXPECT_EQ(full({2}, 1.0 + 2i, dtype).to(complex128).to_vector<C128>(),
              (std::vector<C128>{1.0 + 2i, 1.0 + 2i}));
    EXPECT_EQ(full_like(zeros({1}, dtype), -3).to(complex128).item<C128>(), C128(-3));
    EXPECT_EQ(eye(2, {}, 0, dtype).to(complex128).to_vector<C128>(),
              (std::vector<C128>{1, 0, 0, 1}));
    EXPECT_EQ(arange(3, dtype).to(complex128).to_vector<C128>(), (std::vector<C128>{0, 1, 2}));
    EXPECT_EQ(empty({0, 3}, dtype).shape(), Shape({0, 3}));
    EXPECT_THROW(rand({2}, dtype), DTypeError);
    EXPECT_THROW(randint(0, 3, {2}, dtype), DTypeError);
    EXPECT_THROW(bernoulli(0.5, {2}, dtype), DTypeError);
  }
  EXPECT_EQ(full({}, 1i).dtype(), complex64);
  const Tensor literal = tensor({{1.0 + 2i, 3.0 + 0i}, {5, 6.5}});
  EXPECT_EQ(literal.dtype(), complex64);
  EXPECT_EQ(literal.to_vector<C64>(), (std::vector<C64>{{1, 2}, 3, 5, 6.5}));
  EXPECT_EQ(complex(tensor({1, 2}), tensor(3.0, float64)).to_vector<C128>(),
            (std::vector<C128>{1.0 + 3i, 2.0 + 3i}));
  EXPECT_EQ(complex(ones({2}, float16), 0 * ones({2})).dtype(), complex64);
  EXPECT_THROW(complex(ones({2}, complex64), ones({2})), DTypeError);
  EXPECT_THROW(full({2}, 1i, float32), DTypeError);
  EXPECT_THROW(zeros({2}).fill(1i), DTypeError);
  EXPECT_THROW(full({2}, 1i, int64), DTypeError);
}

TEST(Complex, IsCast) {
  const Tensor z = numbers({1.5 - 2i, 0, 1i}, {3});
  for (int k = 0; k < dtype_count; ++k) {
    const auto real = static_cast<DType>(k);
    const Tensor x = tensor({1, 0, 1}).to(real);
    EXPECT_EQ(x.to(complex128).to_vector<C128>(), (std::vector<C128>{1, 0, 1})) << name(real);
    EXPECT_EQ(x.to(complex64).to_vector<C64>(), (std::vector<C64>{1, 0, 1})) << name(real);
    if (real != bool_) {
      EXPECT_THROW(z.to(real), DTypeError) << name(real);
      EXPECT_THROW(zeros({3}, real).copy_from(z), DTypeError) << name(real);
    }
  }
  EXPECT_EQ(z.to(bool_).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(z.to(complex64).to_vector<C64>(), (std::vector<C64>{{1.5F, -2}, 0, {0, 1}}));
  EXPECT_EQ(z.slice(0, 0, 1).item<C64>(), C64(1.5F, -2));
  EXPECT_EQ(ones({1}).item<C128>(), C128(1));
  EXPECT_TRUE(z.slice(0, 2, 3).item<bool>());
  EXPECT_FALSE(z.slice(0, 1, 2).item<bool>());
  EXPECT_THROW((void)z.slice(0, 0, 1).item<double>(), DTypeError);
  EXPECT_THROW((void)z.data<C64>(), DTypeError);
}

TEST(Complex, Prints) {
  EXPECT_EQ(to_string(tensor({1.0 + 2i, -3.5 - 0.25i})), "[ 1. +2.j   -3.5-0.25j]");
  EXPECT_EQ(to_string(full({}, 1.0 - 2i)), "(1.0-2.0j)");
}

TEST(Complex, HasViewsOfItsParts) {
  const Tensor z = numbers({1.0 + 2i, 3.0 + 4i, 5.0 + 6i, 7.0 + 8i}, {2, 2});
  EXPECT_EQ(real(z).to_vector<double>(), (std::vector<double>{1, 3, 5, 7}));
  EXPECT_EQ(imag(z).to_vector<double>(), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(real(z).strides(), Strides({4, 2}));
  EXPECT_EQ(imag(z.transpose()).to_vector<double>(), (std::vector<double>{2, 6, 4, 8}));
  EXPECT_EQ(view_as_real(z).shape(), Shape({2, 2, 2}));
  EXPECT_EQ(view_as_real(z).to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(all(equal(view_as_complex(view_as_real(z)), z)).item<bool>());
  imag(z).fill(-1);
  EXPECT_EQ(z.to_vector<C128>(), (std::vector<C128>{1.0 - 1i, 3.0 - 1i, 5.0 - 1i, 7.0 - 1i}));
  const Tensor x = arange(8.0);
  EXPECT_EQ(view_as_complex(x.reshape({4, 2})).to_vector<C64>(),
            (std::vector<C64>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_THROW(view_as_complex(x), ShapeError);
  EXPECT_THROW(view_as_complex(x.slice(0, 1, 3)), ValueError);
  EXPECT_THROW(view_as_complex(x.reshape({2, 4}).transpose().slice(1, 0, 2)), ValueError);
  EXPECT_THROW(view_as_complex(zeros({2}, int64)), DTypeError);
  EXPECT_THROW(view_as_complex(zeros({2}, float16)), DTypeError);
  EXPECT_EQ(view_as_complex(zeros({0, 2})).shape(), Shape({0}));
  EXPECT_THROW(view_as_real(x), DTypeError);
  EXPECT_THROW(imag(x), DTypeError);
  EXPECT_EQ(real(x).impl_or_null(), x.impl_or_null());
  EXPECT_EQ(conj(x).impl_or_null(), x.impl_or_null());
  EXPECT_EQ(conj(z).to_vector<C128>()[0], 1.0 + 1i);
  EXPECT_EQ(angle(tensor({1.0, -2.0, 0.0}, float64)).to_vector<double>(),
            (std::vector<double>{0, std::acos(-1.0), 0}));
  EXPECT_TRUE(std::isnan(angle(tensor({nan})).item<float>()));
  EXPECT_EQ(angle(tensor({1, -1})).dtype(), float32);
}

// ---- values

struct Function {
  const char* name;
  Tensor (*ours)(const Tensor&);
  Wide (*exact)(Wide);
};

template <class T>
T ln(double x) {
  return std::log(static_cast<T>(x));
}

const Function functions[] = {
    {"negative", negative, [](Wide z) { return -z; }},
    {"positive", positive, [](Wide z) { return z; }},
    {"square", square, [](Wide z) { return z * z; }},
    {"reciprocal", reciprocal, [](Wide z) { return 1.0L / z; }},
    {"sign", sign, [](Wide z) { return z == Wide(0) ? z : z / std::abs(z); }},
    {"sqrt", sqrt, [](Wide z) { return std::sqrt(z); }},
    {"rsqrt", rsqrt, [](Wide z) { return 1.0L / std::sqrt(z); }},
    {"exp", exp, [](Wide z) { return std::exp(z); }},
    {"exp2", exp2, [](Wide z) { return std::exp(z * ln<long double>(2)); }},
    {"expm1", expm1, [](Wide z) { return std::exp(z) - 1.0L; }},
    {"log", log, [](Wide z) { return std::log(z); }},
    {"log2", log2, [](Wide z) { return std::log(z) / ln<long double>(2); }},
    {"log10", log10, [](Wide z) { return std::log(z) / ln<long double>(10); }},
    {"log1p", log1p, [](Wide z) { return std::log(1.0L + z); }},
    {"sin", sin, [](Wide z) { return std::sin(z); }},
    {"cos", cos, [](Wide z) { return std::cos(z); }},
    {"tan", tan, [](Wide z) { return std::tan(z); }},
    {"asin", asin, [](Wide z) { return std::asin(z); }},
    {"acos", acos, [](Wide z) { return std::acos(z); }},
    {"atan", atan, [](Wide z) { return std::atan(z); }},
    {"sinh", sinh, [](Wide z) { return std::sinh(z); }},
    {"cosh", cosh, [](Wide z) { return std::cosh(z); }},
    {"tanh", tanh, [](Wide z) { return std::tanh(z); }},
    {"asinh", asinh, [](Wide z) { return std::asinh(z); }},
    {"acosh", acosh, [](Wide z) { return std::acosh(z); }},
    {"atanh", atanh, [](Wide z) { return std::atanh(z); }},
    {"conj", conj, [](Wide z) { return std::conj(z); }},
};

void expect_near(const std::vector<C128>& got, const std::vector<Wide>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const long double error = std::abs(Wide(got[i]) - expected[i]);
    EXPECT_LE(error, tolerance * std::abs(expected[i])) << what << " " << i << ": " << text(got[i]);
  }
}

TEST(Complex, ComputesFunctionsInEveryLayout) {
  for (const Function& function : functions) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{5}, Shape{300}, Shape{3, 70},
                               Shape{2, 3, 4}, Shape{40, 40}}) {
      const Tensor z = drawn(shape, -2, 2, 3);
      std::vector<Wide> expected;
      for (const C128& value : z.to_vector<C128>()) expected.push_back(function.exact(value));
      const std::string what = std::string(function.name) + " " + to_string(shape);
      const Tensor y = function.ours(z);
      EXPECT_EQ(y.dtype(), complex128);
      expect_near(y.to_vector<C128>(), expected, 8e-16, what);
      // Other layouts have the same bits.
      Dims order;
      for (std::int64_t d = z.ndim(); d-- > 0;) order.push_back(d);
      const Tensor turned = z.transpose(order).contiguous().transpose(order);
      EXPECT_EQ(function.ours(turned).to_vector<C128>(), y.to_vector<C128>()) << what;
      if (z.ndim() != 0) {
        const Tensor twice = repeat(z, 2, 0).slice(0, {}, {}, 2);
        EXPECT_EQ(function.ours(twice).to_vector<C128>(), y.to_vector<C128>()) << what;
        EXPECT_EQ(flip(function.ours(flip(z, 0)), 0).to_vector<C128>(), y.to_vector<C128>());
      }
      std::vector<Wide> narrow;
      for (const C64& value : z.to(complex64).to_vector<C64>()) {
        narrow.push_back(function.exact(Wide(value)));
      }
      const Tensor y32 = function.ours(z.to(complex64));
      EXPECT_EQ(y32.dtype(), complex64);
      expect_near(y32.to(complex128).to_vector<C128>(), narrow, 4e-7, what + " complex64");
    }
  }
}

TEST(Complex, KeepsDigitsNearZero) {
  const Tensor tiny = numbers({1e-12 + 1e-13i, -3e-10 + 2e-9i, 1e-18i, -1e-9}, {4});
  std::vector<Wide> series_expm1, series_log1p;
  for (const C128& value : tiny.to_vector<C128>()) {
    const Wide z = value;
    series_expm1.push_back(z + z * z / 2.0L + z * z * z / 6.0L);
    series_log1p.push_back(z - z * z / 2.0L + z * z * z / 3.0L);
  }
  expect_near(expm1(tiny).to_vector<C128>(), series_expm1, 4e-16, "expm1");
  expect_near(log1p(tiny).to_vector<C128>(), series_log1p, 4e-16, "log1p");
  // The real part is computed without cancellation too.
  EXPECT_DOUBLE_EQ(log1p(numbers({1e-9i}, {1})).item<C128>().real(), 5e-19);
}

TEST(Complex, ComputesRealParts) {
  const Tensor z = numbers({3.0 + 4i, -1.0, 2i, -5.0 - 12i, 1e300 + 1e300i}, {5});
  EXPECT_EQ(abs(z).dtype(), float64);
  EXPECT_EQ(abs(z.to(complex64)).dtype(), float32);
  const std::vector<double> length = abs(z).to_vector<double>();
  EXPECT_EQ(length[0], 5);
  EXPECT_EQ(length[3], 13);
  EXPECT_DOUBLE_EQ(length[4], std::sqrt(2.0) * 1e300);
  EXPECT_DOUBLE_EQ(angle(z).to_vector<double>()[2], std::acos(0.0));
  EXPECT_DOUBLE_EQ(angle(z).to_vector<double>()[1], std::acos(-1.0));
  EXPECT_EQ(angle(z).dtype(), float64);
  EXPECT_EQ(sign(numbers({0, 1e300 + 1e300i, 3e-320 + 4e-320i}, {3})).to_vector<C128>()[0],
            C128(0));
  EXPECT_NEAR(std::abs(sign(numbers({3e-320 + 4e-320i}, {1})).item<C128>()), 1, 1e-3);
  EXPECT_EQ(round(numbers({1.5 - 2.5i, -0.2 + 0.7i}, {2})).to_vector<C128>(),
            (std::vector<C128>{{2, -2}, {-0.0, 1}}));
}

TEST(Complex, ComputesArithmetic) {
  const Tensor a = drawn({4, 1, 3}, -3, 3, 1), b = drawn({5, 1}, -3, 3, 2);
  const Tensor full_a = a.broadcast_to({4, 5, 3}), full_b = b.broadcast_to({4, 5, 3});
  const std::vector<C128> x = full_a.to_vector<C128>(), y = full_b.to_vector<C128>();
  const auto expect = [&](const char* what, const Tensor& got, auto f, double tolerance) {
    std::vector<Wide> expected;
    for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(f(Wide(x[i]), Wide(y[i])));
    EXPECT_EQ(got.shape(), Shape({4, 5, 3}));
    expect_near(got.to_vector<C128>(), expected, tolerance, what);
  };
  expect(
      "add", a + b, [](Wide p, Wide q) { return p + q; }, 4e-16);
  expect(
      "subtract", a - b, [](Wide p, Wide q) { return p - q; }, 4e-16);
  expect(
      "multiply", a * b, [](Wide p, Wide q) { return p * q; }, 4e-16);
  expect(
      "divide", a / b, [](Wide p, Wide q) { return p / q; }, 8e-16);
  expect(
      "power", power(a, b), [](Wide p, Wide q) { return std::pow(p, q); }, 4e-14);
  expect(
      "power of a number", power(a, 3) + 0 * b, [](Wide p, Wide) { return p * p * p; }, 2e-15);
  expect(
      "times a number", (2.0 - 1i) * a + 0 * b, [](Wide p, Wide) { return p * Wide(2, -1); },
      4e-16);
  Tensor c = full_a.clone();
  c *= 1i;
  c += full_b;
  c /= 2;
  expect(
      "in place", c, [](Wide p, Wide q) { return (p * Wide(0, 1) + q) / 2.0L; }, 1e-15);
  // Real operands, and the dtypes of results.
  EXPECT_EQ((ones({2}) * ones({2}, complex64)).dtype(), complex64);
  EXPECT_EQ((ones({2}, float64) * ones({2}, complex64)).dtype(), complex128);
  EXPECT_EQ((ones({2}, int32) + 1i).dtype(), complex64);
  EXPECT_EQ((ones({2}, float64) + 1i).to_vector<C128>(), (std::vector<C128>{1.0 + 1i, 1.0 + 1i}));
  EXPECT_EQ((1i - arange(2)).to_vector<C64>(), (std::vector<C64>{{0, 1}, {-1, 1}}));
  Tensor real = ones({2});
  EXPECT_THROW(real += 1i, DTypeError);
  EXPECT_THROW(real *= ones({2}, complex64), DTypeError);
  Tensor narrow = ones({2}, complex64);
  narrow += ones({2}, complex128);
  EXPECT_EQ(narrow.to_vector<C64>(), (std::vector<C64>{2, 2}));
  // Powers of 0 and to 0.
  EXPECT_EQ(power(zeros({1}, complex128), 2).item<C128>(), C128(0));
  EXPECT_EQ(power(zeros({1}, complex128), 0).item<C128>(), C128(1));
}

TEST(Complex, Compares) {
  const Tensor a = numbers({1.0 + 2i, 1.0, 0, {nan, 0}, {inf, nan}, {0, -inf}}, {6});
  const Tensor b = numbers({1.0 + 2i, 1i, 0, {nan, 0}, {inf, nan}, {0, -inf}}, {6});
  using Bools = std::vector<bool>;
  EXPECT_EQ(equal(a, b).to_vector<bool>(), (Bools{1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(not_equal(a, b).to_vector<bool>(), (Bools{0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(isnan(a).to_vector<bool>(), (Bools{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(isinf(a).to_vector<bool>(), (Bools{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(isfinite(a).to_vector<bool>(), (Bools{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(logical_not(b).to_vector<bool>(), (Bools{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(logical_and(a, b).to_vector<bool>(), (Bools{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(equal(a, 1.0).to_vector<bool>(), (Bools{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(equal(ones({2}), 1.0 + 0i).to_vector<bool>(), (Bools{1, 1}));
  EXPECT_TRUE(any(a).item<bool>());
  EXPECT_FALSE(all(a).item<bool>());
  EXPECT_EQ(count_nonzero(b).item<std::int64_t>(), 5);
  const Tensor c = numbers({1.0 + 1i, 2i}, {2});
  EXPECT_TRUE(allclose(c, c + 1e-9i));
  EXPECT_FALSE(allclose(c, c + 1e-3i));
  EXPECT_FALSE(allclose(c, conj(c)));
  EXPECT_THROW(less(c, c), DTypeError);
  EXPECT_THROW(greater_equal(c, 1), DTypeError);
  EXPECT_THROW(maximum(c, c), DTypeError);
}

// The special cases that the Array API standard lists, as {input, expected}; signs of zeros count.
struct Special {
  const char* name;
  Tensor (*ours)(const Tensor&);
  C128 z, expected;
};
const double pi = std::acos(-1.0);

TEST(Complex, HasTheSpecialCasesOfTheStandard) {
  const Special cases[] = {
      {"exp", exp, {0, 0}, {1, 0}},
      {"exp", exp, {-0.0, 0}, {1, 0}},
      {"exp", exp, {1, inf}, {nan, nan}},
      {"exp", exp, {inf, 0}, {inf, 0}},
      {"exp", exp, {-inf, inf}, {0, 0}},
      {"exp", exp, {inf, inf}, {inf, nan}},
      {"exp", exp, {inf, nan}, {inf, nan}},
      {"exp", exp, {nan, 0}, {nan, 0}},
      {"exp", exp, {nan, 1}, {nan, nan}},
      {"expm1", expm1, {0, 0}, {0, 0}},
      {"expm1", expm1, {-0.0, 0}, {0, 0}},
      {"expm1", expm1, {1, inf}, {nan, nan}},
      {"expm1", expm1, {inf, 0}, {inf, 0}},
      {"expm1", expm1, {-inf, inf}, {-1, 0}},
      {"expm1", expm1, {inf, inf}, {inf, nan}},
      {"expm1", expm1, {-inf, nan}, {-1, 0}},
      {"expm1", expm1, {nan, 0}, {nan, 0}},
      {"expm1", expm1, {nan, nan}, {nan, nan}},
      {"log", log, {-0.0, 0}, {-inf, pi}},
      {"log", log, {0, 0}, {-inf, 0}},
      {"log", log, {1, inf}, {inf, pi / 2}},
      {"log", log, {1, nan}, {nan, nan}},
      {"log", log, {-inf, 1}, {inf, pi}},
      {"log", log, {inf, 1}, {inf, 0}},
      {"log", log, {-inf, inf}, {inf, 3 * pi / 4}},
      {"log", log, {inf, inf}, {inf, pi / 4}},
      {"log", log, {inf, nan}, {inf, nan}},
      {"log", log, {nan, inf}, {inf, nan}},
      {"log1p", log1p, {-1, 0}, {-inf, 0}},
      {"log1p", log1p, {1, inf}, {inf, pi / 2}},
      {"log1p", log1p, {1, nan}, {nan, nan}},
      {"log1p", log1p, {-inf, 1}, {inf, pi}},
      {"log1p", log1p, {inf, 1}, {inf, 0}},
      {"log1p", log1p, {-inf, inf}, {inf, 3 * pi / 4}},
      {"log1p", log1p, {inf, inf}, {inf, pi / 4}},
      {"log1p", log1p, {nan, inf}, {inf, nan}},
      {"sqrt", sqrt, {0, 0}, {0, 0}},
      {"sqrt", sqrt, {-0.0, 0}, {0, 0}},
      {"sqrt", sqrt, {1, inf}, {inf, inf}},
      {"sqrt", sqrt, {nan, inf}, {inf, inf}},
      {"sqrt", sqrt, {-inf, 1}, {0, inf}},
      {"sqrt", sqrt, {inf, 1}, {inf, 0}},
      {"sqrt", sqrt, {inf, nan}, {inf, nan}},
      {"sinh", sinh, {0, inf}, {0, nan}},
      {"sinh", sinh, {inf, 0}, {inf, 0}},
      {"sinh", sinh, {nan, 0}, {nan, 0}},
      {"cosh", cosh, {0, 0}, {1, 0}},
      {"cosh", cosh, {inf, 0}, {inf, 0}},
      {"cosh", cosh, {inf, inf}, {inf, nan}},
      {"tanh", tanh, {0, 0}, {0, 0}},
      {"tanh", tanh, {1, inf}, {nan, nan}},
      {"tanh", tanh, {inf, 1}, {1, 0}},
      {"tanh", tanh, {inf, nan}, {1, 0}},
      {"tanh", tanh, {nan, 0}, {nan, 0}},
      {"acos", acos, {0, 0}, {pi / 2, -0.0}},
      {"acos", acos, {0, nan}, {pi / 2, nan}},
      {"acos", acos, {1, inf}, {pi / 2, -inf}},
      {"acos", acos, {-inf, 1}, {pi, -inf}},
      {"acos", acos, {inf, 1}, {0, -inf}},
      {"acos", acos, {-inf, inf}, {3 * pi / 4, -inf}},
      {"acos", acos, {nan, inf}, {nan, -inf}},
      {"acosh", acosh, {0, 0}, {0, pi / 2}},
      {"acosh", acosh, {1, inf}, {inf, pi / 2}},
      {"acosh", acosh, {-inf, 1}, {inf, pi}},
      {"acosh", acosh, {inf, 1}, {inf, 0}},
      {"acosh", acosh, {0, nan}, {nan, pi / 2}},
      {"asinh", asinh, {0, 0}, {0, 0}},
      {"asinh", asinh, {1, inf}, {inf, pi / 2}},
      {"asinh", asinh, {inf, 1}, {inf, 0}},
      {"asinh", asinh, {inf, nan}, {inf, nan}},
      {"asinh", asinh, {nan, 0}, {nan, 0}},
      {"atanh", atanh, {0, 0}, {0, 0}},
      {"atanh", atanh, {1, 0}, {inf, 0}},
      {"atanh", atanh, {1, inf}, {0, pi / 2}},
      {"atanh", atanh, {inf, 1}, {0, pi / 2}},
      {"atanh", atanh, {inf, nan}, {0, nan}},
  };
  for (const Special& test : cases) {
    const C128 got = test.ours(numbers({test.z}, {1})).item<C128>();
    EXPECT_TRUE(same_part(got.real(), test.expected.real()) ||
                std::abs(got.real() - test.expected.real()) < 1e-15)
        << test.name << text(test.z) << " is " << text(got);
    EXPECT_TRUE(same_part(got.imag(), test.expected.imag()) ||
                std::abs(got.imag() - test.expected.imag()) < 1e-15)
        << test.name << text(test.z) << " is " << text(got);
  }
  // A product or a quotient of an infinite number is infinite, and finite over infinite is 0.
  const auto is_infinite = [](C128 z) { return std::isinf(z.real()) || std::isinf(z.imag()); };
  const auto value = [](C128 a, C128 b, bool quotient) {
    const Tensor x = numbers({a}, {1}), y = numbers({b}, {1});
    return (quotient ? x / y : x * y).item<C128>();
  };
  EXPECT_TRUE(is_infinite(value({inf, inf}, {1, 1}, false)));
  EXPECT_TRUE(is_infinite(value({inf, nan}, {2, 3}, false)));
  EXPECT_TRUE(is_infinite(value({inf, inf}, {2, 3}, true)));
  EXPECT_TRUE(is_infinite(value({1, 1}, {0, 0}, true)));
  EXPECT_EQ(value({1, 1}, {inf, inf}, true), C128(0));
  EXPECT_EQ(value({1e300, 1e300}, {1e300, 1e300}, true), C128(1));
}

// The C library gives these zeros the sign of sin 2y.
TEST(Complex, TangentsHaveTheZerosOfTheStandard) {
  for (const double y : {1.0, 2.0, 1e150, -1.0, -2.0, 0.0, -0.0}) {
    const auto expect_part = [&](double part, double expected, const char* what) {
      EXPECT_EQ(part, expected) << what << " for " << y;
      EXPECT_EQ(std::signbit(part), std::signbit(expected)) << what << " for " << y;
    };
    for (const double infinite : {inf, -inf}) {
      const C128 hyperbolic = tanh(numbers({{infinite, y}}, {1})).item<C128>();
      expect_part(hyperbolic.real(), std::copysign(1, infinite), "the real part of tanh");
      expect_part(hyperbolic.imag(), std::copysign(0.0, y), "the imaginary part of tanh");
      const C128 circular = tan(numbers({{y, infinite}}, {1})).item<C128>();
      expect_part(circular.real(), std::copysign(0.0, y), "the real part of tan");
      expect_part(circular.imag(), std::copysign(1, infinite), "the imaginary part of tan");
    }
  }
}

// ---- reductions and products

TEST(Complex, Reduces) {
  const Tensor z = drawn({3, 4, 5}, -1, 1, 5);
  const std::vector<C128> values = z.to_vector<C128>();
  const auto at = [&](std::size_t i, std::size_t j, std::size_t k) {
    return Wide(values[(i * 4 + j) * 5 + k]);
  };
  std::vector<Wide> sums(15), products(15, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      for (std::size_t k = 0; k < 5; ++k) {
        sums[i * 5 + k] += at(i, j, k);
        products[i * 5 + k] *= at(i, j, k);
      }
    }
  }
  expect_near(sum(z, 1).to_vector<C128>(), sums, 4e-15, "sum");
  expect_near(prod(z, 1).to_vector<C128>(), products, 4e-15, "prod");
  std::vector<Wide> means;
  for (const Wide& value : sums) means.push_back(value / 4.0L);
  expect_near(mean(z, 1).to_vector<C128>(), means, 4e-15, "mean");
  EXPECT_EQ(sum(z, -2, true).shape(), Shape({3, 1, 5}));
  EXPECT_EQ(prod(z, Axes({0, 2})).shape(), Shape({4}));
  EXPECT_EQ(sum(z).shape(), Shape({}));
  EXPECT_EQ(sum(z.to(complex64)).dtype(), complex64);
  EXPECT_EQ(sum(zeros({0}, complex64)).item<C64>(), C64(0));
  EXPECT_EQ(prod(zeros({2, 0}, complex64), 1).to_vector<C64>(), (std::vector<C64>{1, 1}));
  EXPECT_EQ(sum(arange(3), {}, false, complex64).item<C64>(), C64(3));
  std::vector<Wide> running_sum, running_product;
  Wide total = 0, product = 1;
  const Tensor row = z.slice(0, 0, 1).slice(1, 0, 1).flatten();
  for (const C128& value : row.to_vector<C128>()) {
    running_sum.push_back(total += Wide(value));
    running_product.push_back(product *= Wide(value));
  }
  expect_near(cumulative_sum(row).to_vector<C128>(), running_sum, 1e-15, "cumulative_sum");
  expect_near(cumulative_prod(row).to_vector<C128>(), running_product, 2e-15, "cumulative_prod");
  EXPECT_EQ(cumulative_sum(z, -2).shape(), z.shape());
  EXPECT_NEAR(norm(numbers({3.0, 4i}, {2})).item<double>(), 5, 1e-15);
  EXPECT_THROW(max_reduce(z), DTypeError);
  EXPECT_THROW(var(z), DTypeError);
  EXPECT_THROW(argmax(z), DTypeError);
  EXPECT_THROW(sort(z), DTypeError);
}

std::vector<Wide> plain_product(const Tensor& a, const Tensor& b) {
  const auto m = static_cast<std::size_t>(a.size(0)), k = static_cast<std::size_t>(a.size(1)),
             n = static_cast<std::size_t>(b.size(1));
  const std::vector<C128> x = a.to(complex128).to_vector<C128>(),
                          y = b.to(complex128).to_vector<C128>();
  std::vector<Wide> result(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t p = 0; p < k; ++p)
        result[i * n + j] += Wide(x[i * k + p]) * Wide(y[p * n + j]);
    }
  }
  return result;
}

TEST(Complex, MultipliesMatrices) {
  const Tensor a = drawn({7, 9}, -1, 1, 1), b = drawn({9, 4}, -1, 1, 2);
  const std::vector<Wide> expected = plain_product(a, b);
  expect_near(matmul(a, b).to_vector<C128>(), expected, 1e-14, "matmul");
  expect_near(matmul(a.transpose().contiguous().transpose(), b).to_vector<C128>(), expected, 1e-14,
              "transposed");
  expect_near(matmul(real(a), b).to_vector<C128>(), plain_product(real(a), b), 1e-14, "real a");
  expect_near(matmul(a, real(b)).to_vector<C128>(), plain_product(a, real(b)), 1e-14, "real b");
  expect_near(tensordot(a, b, 1).to_vector<C128>(), expected, 1e-14, "tensordot");
  expect_near(einsum("ij,jk->ik", {a, b}).to_vector<C128>(), expected, 1e-14, "einsum");
  EXPECT_EQ(matmul(a.to(complex64), b.to(complex64)).dtype(), complex64);
  EXPECT_EQ(matmul(drawn({2, 3, 4}, -1, 1, 3), drawn({4, 5}, -1, 1, 4)).shape(), Shape({2, 3, 5}));
  const Tensor u = numbers({1.0 + 1i, 2i}, {2}), v = numbers({3.0, 1.0 - 1i}, {2});
  EXPECT_EQ(dot(u, v).item<C128>(), (1.0 + 1i) * 3.0 + 2i * (1.0 - 1i));
  EXPECT_EQ(vecdot(u, v).item<C128>(), (1.0 - 1i) * 3.0 - 2i * (1.0 - 1i));
  EXPECT_EQ(outer(u, v).to_vector<C128>()[1], (1.0 + 1i) * (1.0 - 1i));
}

// ---- movement

// Movement gives the same as that of numbered elements.
TEST(Complex, Moves) {
  using Move = std::function<Tensor(const Tensor&)>;
  const Tensor index = tensor({{2, 0, 1}, {1, 1, 0}, {0, 2, 2}, {1, 0, 2}});
  const Tensor rows = tensor({3, 0, 3}), mask = tensor({true, false, true, true});
  const std::map<std::string, Move> moves = {
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"transpose", [](const Tensor& x) { return x.transpose().contiguous(); }},
      {"reshape",
       [](const Tensor& x) {
         return x.transpose().reshape({2, 6});
       }},
      {"slice", [](const Tensor& x) { return x.slice(0, {}, {}, -2); }},
      {"flip", [](const Tensor& x) { return flip(x, 1); }},
      {"roll", [](const Tensor& x) { return roll(x, 2, 0); }},
      {"tile",
       [](const Tensor& x) {
         return tile(x, {2, 3});
       }},
      {"repeat", [](const Tensor& x) { return repeat(x, 3, 1); }},
      {"pad",
       [](const Tensor& x) {
         return pad(x, {{1, 2}, {0, 1}});
       }},
      {"pad reflect",
       [](const Tensor& x) {
         return pad(x, {{1, 2}, {1, 1}}, PadMode::reflect);
       }},
      {"concatenate",
       [](const Tensor& x) {
         return concatenate({x, x}, 1);
       }},
      {"stack",
       [](const Tensor& x) {
         return stack({x, x}, 1);
       }},
      {"split", [](const Tensor& x) { return split(x, 2, 0)[1]; }},
      {"unstack", [](const Tensor& x) { return unstack(x, 1)[2]; }},
      {"moveaxis", [](const Tensor& x) { return moveaxis(x, 0, 1); }},
      {"broadcast",
       [](const Tensor& x) {
         return x.broadcast_to({2, 4, 3}).clone();
       }},
      {"tril", [](const Tensor& x) { return tril(x); }},
      {"triu", [](const Tensor& x) { return triu(x, 1); }},
      {"take", [&](const Tensor& x) { return take(x, rows, 0); }},
      {"take columns",
       [](const Tensor& x) {
         return take(x, tensor({2, 0}), 1);
       }},
      {"take_along_axis", [&](const Tensor& x) { return take_along_axis(x, index, 1); }},
      {"gather", [&](const Tensor& x) { return gather(x, 1, index); }},
      {"scatter", [&](const Tensor& x) { return scatter(x, 0, index, x); }},
      {"masked_select", [&](const Tensor& x) { return masked_select(x, mask); }},
      {"masked_fill", [&](const Tensor& x) { return masked_fill(x, mask.unsqueeze(1), 7); }},
      {"where", [&](const Tensor& x) { return where(mask.unsqueeze(1), x, 0); }},
      {"diagonal", [](const Tensor& x) { return einsum("ii->i", {x.slice(0, 0, 3)}); }},
      {"index", [&](const Tensor& x) { return Tensor(x[rows]); }},
      {"index both",
       [&](const Tensor& x) {
         return Tensor(x[{rows, tensor({2, 1, 0})}]);
       }},
      {"index column",
       [&](const Tensor& x) {
         return Tensor(x[{Slice{}, 1}]);
       }},
      {"index mask", [&](const Tensor& x) { return Tensor(x[mask]); }},
      {"write",
       [&](const Tensor& x) {
         Tensor y = x.clone();
         y[{1, Slice{0, 2}}] = x[{2, Slice{1, 3}}];
         y[mask] = 5;
         y[{rows, tensor({2, 1, 0})}] = x[{0, Slice{}}];
         return y;
       }},
      {"index_put", [&](const Tensor& x) { return index_put(x, {rows}, x.slice(0, 0, 1)); }},
      {"scatter_add", [&](const Tensor& x) { return scatter_add(x, 0, index, x); }},
      {"index_add", [&](const Tensor& x) { return index_add(x, 0, rows, x.slice(0, 0, 3)); }},
      {"take_backward",
       [&](const Tensor& x) {
         return take_backward(x, {6, 3}, tensor({1, 1, 4, 0}), 0);
       }},
  };
  const Tensor plain = arange(12.0, float64).reshape({4, 3});
  for (const auto& [name, move] : moves) {
    for (DType dtype : {complex64, complex128}) {
      const Tensor z = complex(plain, 100 - plain).to(dtype);
      const Tensor got = move(z), of_real = move(plain), of_imag = move(100 - plain);
      EXPECT_EQ(got.dtype(), dtype) << name;
      ASSERT_EQ(got.shape(), of_real.shape()) << name;
      EXPECT_EQ(real(got).to(float64).to_vector<double>(), of_real.to_vector<double>()) << name;
      if (name == "pad" || name == "masked_fill" || name == "where" || name.starts_with("tri") ||
          name == "write") {
        continue;  // they write numbers, whose imaginary part is 0
      }
      EXPECT_EQ(imag(got).to(float64).to_vector<double>(), of_imag.to_vector<double>()) << name;
    }
  }
  EXPECT_EQ(pad(ones({1}, complex64), {{1, 0}}, PadMode::constant, 2i).to_vector<C64>(),
            (std::vector<C64>{{0, 2}, 1}));
  EXPECT_EQ(where(tensor({true, false}), 1i, zeros({2}, complex64)).to_vector<C64>(),
            (std::vector<C64>{{0, 1}, 0}));
  EXPECT_EQ(where(tensor({true, false}), 1i, 2).to_vector<C64>(), (std::vector<C64>{{0, 1}, 2}));
  EXPECT_THROW(zeros({2})[0] = 1i, DTypeError);
  EXPECT_THROW(zeros({2})[tensor({0})] = ones({1}, complex64), DTypeError);
  EXPECT_EQ(unique_values(tensor({1, 1})).numel(), 1);  // of reals as before
}

TEST(Complex, IsSaved) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const auto place = [&](const char* end) {
    return folder / ("extensor_complex_test_" + std::to_string(::getpid()) + end);
  };
  for (DType dtype : {complex64, complex128}) {
    const Tensor z = drawn({3, 4}, -1, 1, 8).to(dtype);
    save_npy(place(".npy"), z.transpose());
    const Tensor loaded = load_npy(place(".npy"));
    EXPECT_EQ(loaded.dtype(), dtype);
    EXPECT_TRUE(all(equal(loaded, z.transpose())).item<bool>());
    save_npz(place(".npz"), {{"z", z}});
    EXPECT_TRUE(all(equal(load_npz(place(".npz"))[0].second, z)).item<bool>());
  }
  const Tensor z = drawn({3, 4}, -1, 1, 8).to(complex64);
  save_safetensors(place(".safetensors"), {{"z", z}});
  EXPECT_TRUE(
      all(equal(load_safetensors(place(".safetensors")).tensors[0].second, z)).item<bool>());
  EXPECT_THROW(save_safetensors(place(".none"), {{"z", z.to(complex128)}}), DTypeError);
  EXPECT_FALSE(std::filesystem::exists(place(".none")));
  for (const char* end : {".npy", ".npz", ".safetensors"}) std::filesystem::remove(place(end));
}

// ---- gradients

TEST(ComplexGradient, OfFunctions) {
  // Away from the poles and the branch cuts.
  const Tensor z = numbers({0.3 + 0.4i, -0.6 + 0.5i, 0.7 - 0.2i, -0.4 - 0.8i}, {2, 2});
  for (const Function& function : functions) {
    expect_gradient(function.name, [&](const Tensors& in) { return function.ours(in[0]); }, {z});
  }
  expect_gradient("abs", [](const Tensors& in) { return abs(in[0]); }, {z});
  expect_gradient("angle", [](const Tensors& in) { return angle(in[0]); }, {z});
  expect_gradient("real", [](const Tensors& in) { return square(real(in[0])); }, {z});
  expect_gradient("imag", [](const Tensors& in) { return square(imag(in[0])); }, {z});
  expect_gradient("view_as_real", [](const Tensors& in) { return square(view_as_real(in[0])); },
                  {z});
  expect_gradient("norm", [](const Tensors& in) { return norm(in[0]); }, {z});
  expect_gradient("transposed", [](const Tensors& in) { return exp(in[0]); }, {z.transpose()});
}

}  // namespace
}  // namespace extensor
