// The math of the CUDA kernels, compiled for the host: every row of the op tables, computed with
// vectors of one lane, agrees with the CPU kernel of the row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/simd/lanes-inl.h"
#include "backend/elementwise_op.h"
#include "extensor/extensor.h"

namespace extensor::cpu::N_CUDA {

using backend::Parameter;
#define EXTENSOR_WORD inline
#include "backend/row_expressions.h"

namespace {

constexpr std::int64_t count = 20000;
constexpr Parameter no_parameters[2] = {};

template <class T>
Lanes<T> value(T x) {
  return Lanes<T>(hwy::N_CUDA::Vec1<T>{x});
}

// The numbers that a row is tested with: its domain, and the numbers at its edges.
template <class T>
std::vector<T> numbers(double lo, double hi, unsigned seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> list = {T(0),
                         T(-0.0),
                         T(1),
                         T(-1),
                         Limits::infinity(),
                         -Limits::infinity(),
                         Limits::quiet_NaN(),
                         Limits::min(),
                         -Limits::min(),
                         Limits::denorm_min(),
                         Limits::max(),
                         Limits::lowest(),
                         T(1e-20),
                         T(-1e-20),
                         T(100),
                         T(-100),
                         T(1e10)};
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> inside(lo, hi), wide(-40, 40);
  while (static_cast<std::int64_t>(list.size()) < count) {
    list.push_back(static_cast<T>(list.size() % 4 == 0 ? wide(engine) : inside(engine)));
  }
  return list;
}

// The distance of two numbers in units of the last place, of the numbers or of the larger terms
// that cancel in them.
template <class T>
double distance(T a, T b, T terms) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  const T larger = std::max({std::abs(a), std::abs(b), std::isfinite(terms) ? terms : T(0)});
  const T unit = larger - std::nextafter(larger, T(0));
  return static_cast<double>(std::abs(a - b) / unit);
}

// Both compute within 2 ULP of the exact value; terms of the size of the first input may cancel.
template <class T>
void expect_close(const char* row, const std::vector<T>& got, const Tensor& expected,
                  const std::vector<std::vector<T>>& inputs, bool cancels = false) {
  const std::vector<T> exact = expected.to_vector<T>();
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const T terms = cancels ? std::abs(inputs[0][i]) : T(0);
    const double error = distance(got[i], exact[i], terms);
    if (error <= 4 || ++wrong > 3) continue;
    std::string at;
    for (const auto& input : inputs) at += " " + std::to_string(input[i]);
    ADD_FAILURE() << row << " of" << at << ": " << got[i] << ", expected " << exact[i] << ", "
                  << error << " ULP";
  }
  EXPECT_EQ(wrong, 0) << row;
}

template <class T, class Row, class Op>
void check_unary(const char* name, double lo, double hi, const Row& row, const Op& op) {
  const std::vector<T> x = numbers<T>(lo, hi, 1);
  std::vector<T> got;
  for (const T each : x) got.push_back(row(value(each)).v.raw);
  expect_close<T>(name, got, op(from_data(x)), {x});
}

template <class T, class Row, class Op>
void check_binary(const char* name, double lo, double hi, const Row& row, const Op& op,
                  bool cancels = false) {
  const std::vector<T> a = numbers<T>(lo, hi, 1);
  std::vector<T> b = numbers<T>(lo, hi, 2);
  std::rotate(b.begin(), b.begin() + 5, b.end());
  std::vector<T> got;
  for (std::size_t i = 0; i < a.size(); ++i) got.push_back(row(value(a[i]), value(b[i])).v.raw);
  expect_close<T>(name, got, op(from_data(a), from_data(b)), {a, b}, cancels);
}

template <class T>
class OneLane : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(OneLane, Types);

TYPED_TEST(OneLane, FunctionsOfOneNumber) {
  using T = TypeParam;
#define UNARY(op, lo, hi, ...)                                                             \
  check_unary<T>(                                                                          \
      #op, lo, hi, [](Lanes<T> x) { return op##_row<Lanes<T>>::apply(no_parameters, x); }, \
      [](const Tensor& x) { return extensor::op(x); });
// Rows with parameters have their defaults here.
#define UNARY_1(op, p, p_default, lo, hi, ...)                    \
  check_unary<T>(                                                 \
      #op, lo, hi,                                                \
      [](Lanes<T> x) {                                            \
        const Parameter parameters[2] = {{p_default, 0}, {0, 0}}; \
        return op##_row<Lanes<T>>::apply(parameters, x);          \
      },                                                          \
      [](const Tensor& x) { return extensor::op(x); });
#define UNARY_2(op, p, p_default, q, q_default, lo, hi, ...)              \
  check_unary<T>(                                                         \
      #op, lo, hi,                                                        \
      [](Lanes<T> x) {                                                    \
        const Parameter parameters[2] = {{p_default, 0}, {q_default, 0}}; \
        return op##_row<Lanes<T>>::apply(parameters, x);                  \
      },                                                                  \
      [](const Tensor& x) { return extensor::op(x); });
#define UNARY_2_NUMERIC(...)
#include "extensor/tables/unary.def"
}

TYPED_TEST(OneLane, GradientsOfOneNumber) {
  using T = TypeParam;
#define UNARY(op, lo, hi, ...)                                                                \
  check_binary<T>(                                                                            \
      #op "_backward", lo, hi,                                                                \
      [](Lanes<T> g, Lanes<T> saved) {                                                        \
        const Parameter parameters[2] = {{1e-10, 0}, {0, 0}};                                 \
        return op##_backward_row<Lanes<T>>::apply(parameters, g, saved);                      \
      },                                                                                      \
      [](const Tensor& g, const Tensor& saved) { return extensor::op##_backward(g, saved); }, \
      true);
#define UNARY_1(...)
#define UNARY_2(...)
#define UNARY_2_NUMERIC(...)
#include "extensor/tables/unary.def"
}

TYPED_TEST(OneLane, FunctionsOfTwoNumbers) {
  using T = TypeParam;
#define BINARY(op, lo, hi, ...)                                                              \
  check_binary<T>(                                                                           \
      #op, lo, hi,                                                                           \
      [](Lanes<T> a, Lanes<T> b) { return op##_row<Lanes<T>>::apply(no_parameters, a, b); }, \
      [](const Tensor& a, const Tensor& b) { return extensor::op(a, b); });
#include "extensor/tables/binary.def"
}

}  // namespace
}  // namespace extensor::cpu::N_CUDA
