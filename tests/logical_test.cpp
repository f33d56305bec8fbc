// Comparisons, predicates and bitwise operations on every dtype, and where, fma and isclose.
#include <gtest/gtest.h>

#include "op_database/elementwise_rows.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using layouts::Layout;
using Integer = __int128;
using Bools = std::vector<bool>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Bools bools_of(const Tensor& x) {
  EXPECT_EQ(x.dtype(), DType::bool_);
  const Tensor dense = x.contiguous();
  return Bools(dense.data<bool>(), dense.data<bool>() + dense.numel());
}

// ---- comparisons

bool compared(const std::string& name, long double a, long double b) {
  if (name == "equal") return a == b;
  if (name == "not_equal") return a != b;
  if (name == "less") return a < b;
  if (name == "less_equal") return a <= b;
  if (name == "greater") return a > b;
  if (name == "greater_equal") return a >= b;
  if (name == "logical_and") return a != 0 && b != 0;
  if (name == "logical_or") return a != 0 || b != 0;
  if (name == "logical_xor") return (a != 0) != (b != 0);
  ADD_FAILURE() << "the row '" << name << "' has no reference in tests/logical_test.cpp";
  return false;
}

// Extreme values of the dtype and small numbers; exact in long double.
template <class T>
std::vector<T> samples() {
  std::vector<T> values;
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    for (float value : {0.0f, -0.0f, 1.0f, -1.0f, 2.5f, -300.0f, 6e-5f}) values.push_back(T(value));
    for (double value : {infinity, -infinity, nan}) values.push_back(T(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    values = {true, false, true, true, false, false, true};
  } else {
    using Limits = std::numeric_limits<T>;
    values = {T(0),
              T(1),
              T(2),
              T(3),
              T(100),
              Limits::max(),
              Limits::lowest(),
              static_cast<T>(Limits::max() - 1)};
    if constexpr (std::is_signed_v<T>) {
      for (int value : {-1, -2, -100}) values.push_back(static_cast<T>(value));
    }
    if constexpr (std::is_floating_point_v<T>) {
      for (double value : {infinity, -infinity, nan, -0.0, 0.1}) values.push_back(T(value));
      values.push_back(Limits::denorm_min());
      values.push_back(Limits::min());
    }
  }
  return values;
}

long double exact(auto value) {
  if constexpr (std::is_same_v<decltype(value), Float16> ||
                std::is_same_v<decltype(value), BFloat16>) {
    return static_cast<float>(value);
  } else {
    return static_cast<long double>(value);
  }
}

template <class T>
void check_comparisons() {
  const std::vector<T> values = samples<T>();
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor x = from_data(values, {count});
  for (const auto& row : op_database::compare_rows()) {
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::reversed}) {
      const Shape square{count, count};
      const Tensor a =
          layouts::with_layout(x.unsqueeze(1).broadcast_to(square).clone(), layout, square);
      const Bools got = bools_of(row.forward(a, x));
      for (std::size_t i = 0; i < values.size(); ++i) {
        for (std::size_t j = 0; j < values.size(); ++j) {
          EXPECT_EQ(got[i * values.size() + j],
                    compared(row.name, exact(values[i]), exact(values[j])))
              << row.name << "(" << exact(values[i]) << ", " << exact(values[j]) << ") " << layout;
        }
      }
    }
  }
  for (const auto& row : op_database::predicate_rows()) {
    const Bools got = bools_of(row.forward(x));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const long double value = exact(values[i]);
      const bool expected = row.name == "logical_not" ? value == 0
                            : row.name == "isnan"     ? std::isnan(value)
                            : row.name == "isinf"     ? std::isinf(value)
                                                      : std::isfinite(value);
      EXPECT_EQ(got[i], expected) << row.name << "(" << value << ")";
    }
  }
}

TEST(Comparison, EveryDtype){
#define CHECK(dtype, type)     \
  {                            \
    SCOPED_TRACE(#dtype);      \
    check_comparisons<type>(); \
  }
    EXTENSOR_DTYPES(CHECK)
#undef CHECK
}

TEST(Comparison, LongVectorsAndTails) {
  for (std::int64_t length : {1, 7, 8, 9, 31, 33, 64, 513, 1100, 40000}) {
    const Tensor a = draw::uniform({length}, -1, 1, 1), b = draw::uniform({length}, -1, 1, 2);
    const auto left = a.to_vector<double>(), right = b.to_vector<double>();
    const Bools got = bools_of(less(a, b));
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], left[i] < right[i]);
  }
}

// A number is compared by its exact value, not after conversion to the tensor's dtype.
TEST(Comparison, WithNumbers) {
  const Tensor bytes = tensor({0, 100, 255}, DType::uint8);
  EXPECT_EQ(bools_of(greater(bytes, -1)), (Bools{true, true, true}));
  EXPECT_EQ(bools_of(less(bytes, 256)), (Bools{true, true, true}));
  EXPECT_EQ(bools_of(less(bytes, 99.5)), (Bools{true, false, false}));
  EXPECT_EQ(bools_of(equal(bytes, 1000)), (Bools{false, false, false}));
  EXPECT_EQ(bools_of(less(100, bytes)), (Bools{false, false, true}));
  const Tensor large = from_data(std::vector<std::uint64_t>{UINT64_MAX, 5});
  EXPECT_EQ(bools_of(greater(large, -1)), (Bools{true, true}));
  EXPECT_EQ(bools_of(equal(large, UINT64_MAX)), (Bools{true, false}));
  EXPECT_EQ(bools_of(tensor({1.0, 2.0}) == 2), (Bools{false, true}));
}

TEST(Comparison, MixedDtypesAndBroadcasting) {
  for (int i = 0; i < dtype_count; ++i) {
    for (int j = 0; j < dtype_count; ++j) {
      const auto first = static_cast<DType>(i), second = static_cast<DType>(j);
      const Tensor a = tensor({{0}, {1}}, first), b = tensor({1, 0, 1}, second);
      if ((first == DType::uint64 && is_signed_integer(second)) ||
          (second == DType::uint64 && is_signed_integer(first))) {
        EXPECT_THROW(less(a, b), DTypeError);
        continue;
      }
      EXPECT_EQ(bools_of(less(a, b)), (Bools{true, false, true, false, false, false}))
          << name(first) << " " << name(second);
    }
  }
}

// ---- bitwise

Integer combined(const std::string& name, Integer a, Integer b) {
  if (name == "bitwise_and") return a & b;
  if (name == "bitwise_or") return a | b;
  if (name == "bitwise_xor") return a ^ b;
  if (name == "bitwise_left_shift")
    return static_cast<Integer>(static_cast<unsigned __int128>(a) << b);
  if (name == "bitwise_right_shift") return a >> b;
  ADD_FAILURE() << "the row '" << name << "' has no reference in tests/logical_test.cpp";
  return 0;
}

template <class T>
void check_bitwise() {
  const std::vector<T> values = samples<T>();
  for (const auto& row : op_database::bitwise_rows()) {
    std::vector<T> left, right;
    for (T a : values) {
      for (T b : values) {
        left.push_back(a);
        right.push_back(row.shifts ? static_cast<T>(b & static_cast<T>(8 * sizeof(T) - 1)) : b);
      }
    }
    Tensor a = from_data(left);
    const Tensor b = from_data(right), got = row.forward(a, b);
    const auto results = got.template to_vector<T>();
    for (std::size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(+results[i], +static_cast<T>(combined(row.name, left[i], right[i])))
          << row.name << "(" << +left[i] << ", " << +right[i] << ")";
    }
    EXPECT_TRUE(identical(row.in_place(a, b), got));
    if (!row.shifts) continue;
    for (int shift : {-1, static_cast<int>(8 * sizeof(T))}) {
      if (shift < 0 && std::is_unsigned_v<T>) continue;
      EXPECT_THROW(row.forward(a, full({}, shift, dtype_of<T>)), ValueError) << row.name << shift;
    }
  }
  const auto inverted = bitwise_invert(from_data(values)).template to_vector<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(+inverted[i], +static_cast<T>(~values[i]));
  }
}

TEST(Bitwise, EveryIntegerDtype) {
#define CHECK(dtype, type)                                                    \
  if constexpr (is_integer(DType::dtype)) {                                   \
    SCOPED_TRACE(#dtype);                                                     \
    check_bitwise<std::conditional_t<is_integer(DType::dtype), type, int>>(); \
  }
  EXTENSOR_DTYPES(CHECK)
#undef CHECK
}

TEST(Bitwise, BoolsAndFloats) {
  const Tensor a = from_data(Bools{true, true, false}, {3}),
               b = from_data(Bools{true, false, false}, {3});
  EXPECT_EQ(bools_of(a & b), (Bools{true, false, false}));
  EXPECT_EQ(bools_of(a | b), (Bools{true, true, false}));
  EXPECT_EQ(bools_of(a ^ b), (Bools{false, true, false}));
  EXPECT_EQ(bools_of(~a), (Bools{false, false, true}));
  EXPECT_THROW(a << b, DTypeError);
  for (const auto& row : op_database::bitwise_rows()) {
    EXPECT_THROW(row.forward(ones({3}), ones({3})), DTypeError) << row.name;
  }
  EXPECT_THROW(~ones({3}), DTypeError);
}

// ---- where, fma, isclose

TEST(Where, EveryDtypeLayoutAndBroadcast) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{9}, Shape{33}, Shape{5, 7}}) {
      for (Layout layout : layouts::every_layout) {
        if (!layouts::is_distinct(layout, shape)) continue;
        const auto drawn = [&](unsigned seed) {
          return draw::uniform(layouts::drawn_shape(layout, shape), 0, 2, seed);
        };
        const Tensor condition = layouts::with_layout(greater(drawn(1), 1).clone(), layout, shape);
        const Tensor a = layouts::with_layout(round(drawn(2)).to(dtype), layout, shape);
        const Tensor b = layouts::with_layout(round(drawn(3)).to(dtype), layout, shape);
        const Tensor got = where(condition, a, b);
        EXPECT_EQ(got.dtype(), dtype);
        const Bools yes = bools_of(condition);
        const auto left = compare::values_of(a), right = compare::values_of(b);
        const auto results = compare::values_of(got);
        for (std::size_t k = 0; k < yes.size(); ++k) {
          EXPECT_EQ(results[k], yes[k] ? left[k] : right[k]) << name(dtype) << layout << shape;
        }
      }
    }
  }
  const Tensor mixed = where(tensor({true, false}), tensor({1, 2}), tensor({{0.5}, {1.5}}));
  EXPECT_EQ(mixed.dtype(), DType::float32);
  EXPECT_EQ(mixed.to_vector<float>(), (std::vector<float>{1, 0.5f, 1, 1.5f}));
  EXPECT_THROW(where(ones({2}), ones({2}), ones({2})), DTypeError);
  EXPECT_THROW(where(tensor({true, false}), ones({3}), ones({2})), ShapeError);
}

// A single element combined with long operands is repeated, in every position and combination.
TEST(Where, OneElementStandsForMany) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (std::int64_t length : {2, 7, 16, 33, 1100, 20000}) {
      for (int single = 0; single < 8; ++single) {
        const auto shape_of = [&](int operand) {
          return (single >> operand & 1) != 0 ? Shape{1} : Shape{length};
        };
        const Tensor condition = greater(draw::uniform(shape_of(0), 0, 2, 1), 1);
        const Tensor a = round(draw::uniform(shape_of(1), 0, 9, 2)).to(dtype);
        const Tensor b = round(draw::uniform(shape_of(2), 0, 9, 3)).to(dtype);
        const Bools yes = bools_of(condition);
        const auto left = compare::values_of(a), right = compare::values_of(b);
        const auto at = [&](const auto& values, std::size_t k) {
          return values[values.size() == 1 ? 0 : k];
        };
        const auto results = compare::values_of(where(condition, a, b));
        const bool numeric = dtype != DType::bool_;
        const Tensor c = condition.to(dtype);
        const auto fused = compare::values_of(numeric ? fma(c, a, b) : b);
        for (std::size_t k = 0; k < results.size(); ++k) {
          ASSERT_EQ(results[k], at(yes, k) ? at(left, k) : at(right, k))
              << name(dtype) << " " << length << " " << single;
          if (!numeric) continue;
          ASSERT_EQ(at(fused, k), (at(yes, k) ? at(left, k) : 0) + at(right, k))
              << name(dtype) << " " << length << " " << single;
        }
      }
    }
  }
}

TEST(Fma, IsRoundedOnce) {
  for (std::int64_t length : {1, 7, 8, 9, 33, 1100}) {
    const Tensor a = draw::uniform({length}, -2, 2, 1), b = draw::uniform({length}, -2, 2, 2);
    // c cancels the product except for its rounding.
    const Tensor c = negative(a * b);
    const auto x = a.to_vector<double>(), y = b.to_vector<double>(), z = c.to_vector<double>();
    const auto got = fma(a, b, c).to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], std::fma(x[i], y[i], z[i]));
    const Tensor p = a.to(DType::float32), q = b.to(DType::float32), r = negative(p * q);
    const auto u = p.to_vector<float>(), v = q.to_vector<float>(), w = r.to_vector<float>();
    const auto single = fma(p, q, r).to_vector<float>();
    for (std::size_t i = 0; i < single.size(); ++i)
      EXPECT_EQ(single[i], std::fma(u[i], v[i], w[i]));
  }
  EXPECT_EQ(fma(tensor({3}), tensor({4}), tensor({5})).item<std::int64_t>(), 17);
  EXPECT_EQ(fma(ones({2, 1}), ones({3}), ones({})).shape(), (Shape{2, 3}));
}

TEST(IsClose, Tolerances) {
  const auto close = [](double a, double b, bool equal_nan = false) {
    return isclose(full({}, a, DType::float64), full({}, b, DType::float64), 1e-5, 1e-8, equal_nan)
        .item<bool>();
  };
  EXPECT_TRUE(close(1, 1 + 9e-6));
  EXPECT_FALSE(close(1, 1 + 2e-5));
  EXPECT_TRUE(close(0, 9e-9));
  EXPECT_FALSE(close(0, 2e-8));
  EXPECT_TRUE(close(infinity, infinity));
  EXPECT_FALSE(close(infinity, -infinity));
  EXPECT_FALSE(close(1, infinity));
  EXPECT_FALSE(close(infinity, 1));
  EXPECT_FALSE(close(nan, nan));
  EXPECT_TRUE(close(nan, nan, true));
  EXPECT_FALSE(close(nan, 1, true));
  EXPECT_TRUE(allclose(ones({0}), ones({0})));
  EXPECT_TRUE(allclose(ones({2, 3}), ones({3})));
  EXPECT_THROW(isclose(ones({2}), ones({2}), -1), ValueError);
}

}  // namespace
}  // namespace extensor
