// The forward of every row against references in long double: all dtypes, layouts and lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::Format;
using compare::format_of;
using compare::identical;
using compare::ulp_error;
using compare::values_of;
using layouts::Layout;
using op_database::BinaryRow;
using op_database::UnaryRow;

constexpr double tolerance = 2;  // ULP

std::string missing(const std::string& row) {
  return "the row '" + row +
         "' has no reference: add a line to op_database/elementwise_reference.h";
}

// A parameter is weak: it has the dtype of the computation.
reference::Parameters parameters_of(const UnaryRow& row, DType dtype) {
  const auto taken = [&](std::size_t i) -> double {
    if (row.parameters.size() <= i) return 0;
    return dtype == DType::float64 ? row.parameters[i] : static_cast<float>(row.parameters[i]);
  };
  return {taken(0), taken(1)};
}

// Numbers of every magnitude of the format, of both signs.
std::vector<double> wide_values(DType dtype, int count, unsigned seed) {
  const Format format = format_of(dtype);
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> exponent(format.min_exponent - format.digits,
                                                  format.max_exponent);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const double magnitude = std::exp2(exponent(engine));
    values.push_back((engine() & 1) != 0 ? -magnitude : magnitude);
  }
  return values;
}

void append(std::vector<double>& values, const std::vector<double>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

// ---- rows of one tensor

class UnaryValue : public ::testing::TestWithParam<UnaryRow> {
 protected:
  void SetUp() override {
    const auto found = reference::unary_references().find(GetParam().name);
    ASSERT_NE(found, reference::unary_references().end()) << missing(GetParam().name);
    exact_ = found->second;
  }

  void expect_close(const Tensor& x, const Tensor& got, double limit) const {
    ASSERT_EQ(got.shape(), x.shape());
    ASSERT_EQ(got.dtype(), x.dtype());
    const auto inputs = values_of(x), results = values_of(got);
    const reference::Parameters parameters = parameters_of(GetParam(), x.dtype());
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double error =
          ulp_error(format_of(x.dtype()), results[i], exact_(inputs[i], parameters));
      if (error <= worst) continue;
      worst = error;
      at = i;
    }
    EXPECT_LE(worst, limit) << name(x.dtype()) << " x = " << testing::PrintToString(inputs[at])
                            << ", got " << results[at] << ", exact "
                            << static_cast<double>(exact_(inputs[at], parameters));
  }

  reference::Unary exact_;
};

TEST_P(UnaryValue, MatchesTheReference) {
  const UnaryRow& row = GetParam();
  for (DType dtype : {DType::float32, DType::float64}) {
    std::vector<double> values = draw::uniform_values(4000, row.lo, row.hi, 1);
    append(values, draw::uniform_values(2000, -20, 20, 2));
    append(values, wide_values(dtype, 3000, 3));
    for (int i = -160; i <= 160; ++i) values.push_back(i * 0.0625);
    const Tensor x = from_data(values).to(dtype);
    expect_close(x, row.forward(x), tolerance);
  }
}

TEST_P(UnaryValue, ReadsEveryLayoutAndLength) {
  const UnaryRow& row = GetParam();
  std::vector<Shape> shapes = layouts::gradient_shapes();
  for (std::int64_t length : {2, 5, 15, 32, 63, 64, 65, 511, 512, 513, 1100}) {
    shapes.push_back({length});
  }
  shapes.push_back({37, 61});
  shapes.push_back({2, 3, 4, 5});
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const Shape& shape : shapes) {
      for (Layout layout : layouts::every_layout) {
        if (!layouts::is_distinct(layout, shape)) continue;
        SCOPED_TRACE(testing::Message() << layout << " " << shape);
        const Tensor drawn = draw::inputs_of(row, layouts::drawn_shape(layout, shape), 9).to(dtype);
        const Tensor x = layouts::with_layout(drawn, layout, shape);
        const Tensor got = row.forward(x);
        const bool moved = layout == Layout::transposed || layout == Layout::channels_last;
        EXPECT_EQ(got.is_contiguous(), x.is_contiguous() || !moved);
        expect_close(x, got, is_half(dtype) ? 0.5 : tolerance);
      }
    }
  }
}

// The result of an element does not depend on the other elements of its vector.
TEST_P(UnaryValue, DependsOnTheElementAlone) {
  const UnaryRow& row = GetParam();
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    std::vector<double> values = draw::uniform_values(150, row.lo, row.hi, 1);
    append(values, wide_values(dtype, 50, 3));
    append(values, {0.0, INFINITY, -INFINITY, NAN, -0.0});
    std::shuffle(values.begin(), values.end(), std::mt19937(7));
    const Tensor x = from_data(values).to(dtype), together = row.forward(x);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      EXPECT_TRUE(identical(row.forward(x[i]), together[i])) << name(dtype) << " x = " << values[i];
    }
  }
}

TEST_P(UnaryValue, InPlaceGivesTheSame) {
  const UnaryRow& row = GetParam();
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (Layout layout :
         {Layout::contiguous, Layout::transposed, Layout::stepped, Layout::reversed}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << layout);
      const Shape shape{13, 9};
      Tensor x = layouts::with_layout(draw::inputs_of(row, shape, 4).to(dtype), layout, shape);
      const Tensor expected = row.forward(x);
      const Tensor view = x;
      row.in_place(x);
      EXPECT_TRUE(identical(view, expected));
    }
  }
}

template <class T>
std::vector<T> integer_values() {
  std::vector<T> values = {
      std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 0, 1, 2, 3};
  for (int i = 0; i < 30; ++i) values.push_back(static_cast<T>(i * 7 - 100));
  std::mt19937_64 engine(5);
  for (int i = 0; i < 40; ++i) values.push_back(static_cast<T>(engine()));
  return values;
}

template <class T>
void check_integer_row(const UnaryRow& row) {
  const std::vector<T> values = integer_values<T>();
  const Tensor x = from_data(values);
  if (!row.numeric) {
    EXPECT_TRUE(identical(row.forward(x), row.forward(x.to(DType::float32))));
    Tensor copy = x.clone();
    EXPECT_THROW(row.in_place(copy), DTypeError);
    EXPECT_TRUE(identical(copy, x));
    return;
  }
  const auto found = reference::integer_unary_references().find(row.name);
  ASSERT_NE(found, reference::integer_unary_references().end()) << missing(row.name);
  const auto p = static_cast<T>(std::is_signed_v<T> ? -100 : 5), q = static_cast<T>(120);
  // Integer bounds for rows with parameters: float bounds would make the result a float.
  const Tensor got = row.parameters.empty() ? row.forward(x) : clip(x, p, q);
  ASSERT_EQ(got.dtype(), dtype_of<T>);
  const auto results = got.to_vector<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(+results[i], +static_cast<T>(found->second(values[i], p, q))) << "x = " << +values[i];
  }
}

TEST_P(UnaryValue, IntegersWrapOrBecomeFloat32) {
  const UnaryRow& row = GetParam();
#define CHECK(dtype, type)                                                           \
  if constexpr (is_integer(DType::dtype)) {                                          \
    SCOPED_TRACE(#dtype);                                                            \
    check_integer_row<std::conditional_t<is_integer(DType::dtype), type, int>>(row); \
  }
  EXTENSOR_DTYPES(CHECK)
#undef CHECK
  const Tensor truth = from_data(std::vector<bool>{true, false, true}, {3});
  if (row.numeric && row.parameters.empty()) {
    EXPECT_THROW(row.forward(truth), DTypeError);
  } else if (!row.numeric) {
    EXPECT_TRUE(identical(row.forward(truth), row.forward(truth.to(DType::float32))));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, UnaryValue, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });

// ---- rows of two tensors

// Not inlined: GCC 12 then warns, falsely, of the vectors' own destructors.
[[gnu::noinline]] std::vector<double> elements_of(const Tensor& x) { return values_of(x); }

class BinaryValue : public ::testing::TestWithParam<BinaryRow> {
 protected:
  void SetUp() override {
    const auto found = reference::binary_references().find(GetParam().name);
    ASSERT_NE(found, reference::binary_references().end()) << missing(GetParam().name);
    exact_ = found->second;
  }

  // a and b have the result's shape, broadcast if necessary.
  void expect_close(const Tensor& a, const Tensor& b, const Tensor& got, double limit) const {
    const auto left = elements_of(a.broadcast_to(got.shape()));
    const auto right = elements_of(b.broadcast_to(got.shape())), results = elements_of(got);
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double error = error_of(got.dtype(), results[i], left[i], right[i]);
      if (error <= worst) continue;
      worst = error;
      at = i;
    }
    if (worst <= limit) return;
    ADD_FAILURE() << name(got.dtype()) << ": " << worst
                  << " ULP at a = " << testing::PrintToString(left[at])
                  << ", b = " << testing::PrintToString(right[at]) << ", got " << results[at]
                  << ", exact " << static_cast<double>(exact_(left[at], right[at]));
  }

  double error_of(DType dtype, double got, double a, double b) const {
    const long double exact = exact_(a, b);
    // The extremes do not distinguish zeros.
    const bool extreme = GetParam().name == "maximum" || GetParam().name == "minimum";
    if (extreme && exact == 0) return got == 0 ? 0 : 1e30;
    return ulp_error(format_of(dtype), got, exact);
  }

  reference::Binary exact_;
};

TEST_P(BinaryValue, MatchesTheReference) {
  const BinaryRow& row = GetParam();
  for (DType dtype : {DType::float32, DType::float64}) {
    std::vector<double> left = draw::uniform_values(4000, row.lo, row.hi, 1);
    std::vector<double> right = draw::uniform_values(4000, row.lo, row.hi, 2);
    append(left, draw::uniform_values(2000, -20, 20, 3));
    append(right, draw::uniform_values(2000, -20, 20, 4));
    append(left, wide_values(dtype, 3000, 5));
    append(right, wide_values(dtype, 3000, 6));
    append(left, wide_values(dtype, 1000, 7));
    append(right, draw::uniform_values(1000, -4, 4, 8));
    for (int i = -12; i <= 12; ++i) {
      for (int j = -12; j <= 12; ++j) {
        left.push_back(i * 0.5);
        right.push_back(j * 0.5);
      }
    }
    const Tensor a = from_data(left).to(dtype), b = from_data(right).to(dtype);
    expect_close(a, b, row.forward(a, b), tolerance);
  }
}

TEST_P(BinaryValue, HalvesAreRoundedOnce) {
  const BinaryRow& row = GetParam();
  // float32 is wide enough to make these exact except for the last rounding.
  const bool arithmetic =
      row.name == "add" || row.name == "subtract" || row.name == "multiply" || row.name == "divide";
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    std::vector<double> left = draw::uniform_values(4000, row.lo, row.hi, 1);
    std::vector<double> right = draw::uniform_values(4000, row.lo, row.hi, 2);
    append(left, wide_values(dtype, 2000, 5));
    append(right, wide_values(dtype, 2000, 6));
    const Tensor a = from_data(left).to(dtype), b = from_data(right).to(dtype);
    const Tensor got = row.forward(a, b);
    ASSERT_EQ(got.dtype(), dtype);
    expect_close(a, b, got, arithmetic ? 0.5 : 0.501);
  }
}

TEST_P(BinaryValue, ReadsEveryLayoutAndBroadcast) {
  const BinaryRow& row = GetParam();
  std::vector<std::pair<Shape, Shape>> pairs = {
      {{3, 1}, {1, 4}}, {{2, 3}, {3}},      {{}, {33}},       {{2, 1, 3}, {4, 1}},
      {{0}, {1}},       {{7, 600}, {7, 1}}, {{600}, {7, 600}}};
  for (const Shape& shape : layouts::gradient_shapes()) pairs.push_back({shape, shape});
  for (std::int64_t length : {64, 65, 513, 1100}) pairs.push_back({{length}, {length}});
  for (DType dtype : {DType::float32, DType::float64}) {
    for (const auto& [a_shape, b_shape] : pairs) {
      for (Layout a_layout : layouts::every_layout) {
        for (Layout b_layout : {Layout::contiguous, a_layout, Layout::reversed}) {
          if (!layouts::is_distinct(a_layout, a_shape)) continue;
          SCOPED_TRACE(testing::Message() << a_layout << a_shape << " " << b_layout << b_shape);
          const Tensor a = layouts::with_layout(
              draw::uniform(layouts::drawn_shape(a_layout, a_shape), row.lo, row.hi, 1).to(dtype),
              a_layout, a_shape);
          const Tensor b = layouts::with_layout(
              draw::uniform(layouts::drawn_shape(b_layout, b_shape), row.lo, row.hi, 2).to(dtype),
              b_layout, b_shape);
          const Tensor got = row.forward(a, b);
          ASSERT_EQ(got.shape(), broadcast_shapes(a_shape, b_shape));
          expect_close(a, b, got, tolerance);
        }
      }
    }
  }
}

TEST_P(BinaryValue, ScalarsAreTensorsOfTheSameDtype) {
  const BinaryRow& row = GetParam();
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Tensor x = draw::uniform({5, 7}, row.lo, row.hi, 1).to(dtype);
    const Tensor number = full({}, 2.5, dtype);
    EXPECT_TRUE(identical(row.forward_right(x, 2.5), row.forward(x, number)));
    EXPECT_TRUE(identical(row.forward_left(2.5, x), row.forward(number, x)));
    EXPECT_TRUE(identical(row.forward_right(x, 2), row.forward(x, full({}, 2, dtype))));
    Tensor target = x.clone();
    EXPECT_TRUE(identical(row.in_place_scalar(target, 2.5), row.forward(x, number)));
  }
}

TEST_P(BinaryValue, DependsOnTheElementsAlone) {
  const BinaryRow& row = GetParam();
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    std::vector<double> values = draw::uniform_values(200, row.lo, row.hi, 1);
    append(values, wide_values(dtype, 50, 3));
    append(values, {0.0, INFINITY, -INFINITY, NAN, -0.0});
    std::shuffle(values.begin(), values.end(), std::mt19937(7));
    const Tensor a = from_data(values).to(dtype);
    std::shuffle(values.begin(), values.end(), std::mt19937(8));
    const Tensor b = from_data(values).to(dtype), together = row.forward(a, b);
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      EXPECT_TRUE(identical(row.forward(a[i], b[i]), together[i]))
          << name(dtype) << " a = " << a[i] << ", b = " << b[i];
    }
  }
}

TEST_P(BinaryValue, InPlaceGivesTheSame) {
  const BinaryRow& row = GetParam();
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (Layout layout :
         {Layout::contiguous, Layout::transposed, Layout::stepped, Layout::reversed}) {
      const Shape shape{13, 9};
      for (const Shape& b_shape : {shape, Shape{9}, Shape{13, 1}, Shape{}}) {
        const Tensor b = draw::uniform(b_shape, row.lo, row.hi, 2).to(dtype);
        Tensor a =
            layouts::with_layout(draw::uniform(shape, row.lo, row.hi, 1).to(dtype), layout, shape);
        const Tensor expected = row.forward(a, b);
        const Tensor view = a;
        row.in_place(a, b);
        EXPECT_TRUE(identical(view, expected)) << name(dtype) << " " << layout << " " << b_shape;
      }
    }
  }
}

template <class T>
void check_integer_row(const BinaryRow& row) {
  std::vector<T> left, right;
  for (T a : integer_values<T>()) {
    for (T b : integer_values<T>()) {
      if (row.divides && b == 0) continue;
      if (row.name == "power") b = static_cast<T>(b & 31);
      left.push_back(a);
      right.push_back(b);
    }
  }
  const Tensor a = from_data(left), b = from_data(right);
  const Tensor got = row.forward(a, b);
  if (!row.numeric) {
    EXPECT_TRUE(identical(got, row.forward(a.to(DType::float32), b.to(DType::float32))));
    return;
  }
  const auto found = reference::integer_binary_references().find(row.name);
  ASSERT_NE(found, reference::integer_binary_references().end()) << missing(row.name);
  ASSERT_EQ(got.dtype(), dtype_of<T>);
  const auto results = got.to_vector<T>();
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(+results[i], +static_cast<T>(found->second(left[i], right[i])))
        << "a = " << +left[i] << ", b = " << +right[i];
  }
}

TEST_P(BinaryValue, IntegersWrapOrBecomeFloat32) {
#define CHECK(dtype, type)                                                                  \
  if constexpr (is_integer(DType::dtype)) {                                                 \
    SCOPED_TRACE(#dtype);                                                                   \
    check_integer_row<std::conditional_t<is_integer(DType::dtype), type, int>>(GetParam()); \
  }
  EXTENSOR_DTYPES(CHECK)
#undef CHECK
}

TEST_P(BinaryValue, DtypesPromote) {
  const BinaryRow& row = GetParam();
  for (int i = 1; i < dtype_count; ++i) {
    for (int j = 1; j < dtype_count; ++j) {
      const auto first = static_cast<DType>(i), second = static_cast<DType>(j);
      const Tensor a = tensor({6, 3, 5}, first), b = tensor({2, 3, 1}, second);
      const bool refused = (first == DType::uint64 && is_signed_integer(second)) ||
                           (second == DType::uint64 && is_signed_integer(first));
      if (refused) {
        EXPECT_THROW(row.forward(a, b), DTypeError) << name(first) << " " << name(second);
        continue;
      }
      const DType common = promote_types(first, second);
      const DType expected = is_floating_point(common) || row.numeric ? common : DType::float32;
      const Tensor got = row.forward(a, b);
      EXPECT_EQ(got.dtype(), expected) << name(first) << " " << name(second);
      EXPECT_TRUE(identical(got, row.forward(a.to(expected), b.to(expected))))
          << name(first) << " " << name(second);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BinaryValue, ::testing::ValuesIn(op_database::binary_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace extensor
