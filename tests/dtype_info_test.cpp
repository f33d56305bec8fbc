// Facts about dtypes, neighbours of floats in every dtype, and what the op database does not run of
// the functions of the Python Array API.
#include "extensor/dtype_info.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "extensor/extensor.h"

namespace {

using namespace extensor;

template <class T>
void expect_limits(DType dtype) {
  using Limits = std::numeric_limits<T>;
  const FloatInfo facts = finfo(dtype);
  EXPECT_EQ(facts.bits, 8 * static_cast<int>(sizeof(T)));
  EXPECT_EQ(facts.eps, static_cast<double>(Limits::epsilon()));
  EXPECT_EQ(facts.max, static_cast<double>(Limits::max()));
  EXPECT_EQ(facts.min, static_cast<double>(Limits::lowest()));
  EXPECT_EQ(facts.smallest_normal, static_cast<double>(Limits::min()));
  EXPECT_EQ(facts.dtype, dtype);
}

TEST(DTypeInfo, FloatsHaveTheLimitsOfTheCompiler) {
  expect_limits<float>(float32);
  expect_limits<double>(float64);
  EXPECT_EQ(finfo(float16).max, 65504);
  EXPECT_EQ(finfo(float16).eps, 0x1p-10);
  EXPECT_EQ(finfo(float16).smallest_normal, 0x1p-14);
  EXPECT_EQ(finfo(bfloat16).max, 0x1.fep127);
  EXPECT_EQ(finfo(ones({2}, bfloat16)).eps, 0x1p-7);
  EXPECT_THROW(finfo(int32), DTypeError);
  EXPECT_THROW(finfo(bool_), DTypeError);
}

TEST(DTypeInfo, IntegersHaveTheLimitsOfTheCompiler) {
#define EXPECT_INTEGER(dtype, type)                                                         \
  EXPECT_EQ(iinfo(dtype).bits, 8 * static_cast<int>(sizeof(type)));                         \
  EXPECT_EQ(iinfo(dtype).min, static_cast<std::int64_t>(std::numeric_limits<type>::min())); \
  EXPECT_EQ(iinfo(dtype).max, static_cast<std::uint64_t>(std::numeric_limits<type>::max()));
  EXPECT_INTEGER(int8, std::int8_t)
  EXPECT_INTEGER(int16, std::int16_t)
  EXPECT_INTEGER(int32, std::int32_t)
  EXPECT_INTEGER(int64, std::int64_t)
  EXPECT_INTEGER(uint8, std::uint8_t)
  EXPECT_INTEGER(uint16, std::uint16_t)
  EXPECT_INTEGER(uint32, std::uint32_t)
  EXPECT_INTEGER(uint64, std::uint64_t)
#undef EXPECT_INTEGER
  EXPECT_THROW(iinfo(float32), DTypeError);
  EXPECT_THROW(iinfo(bool_), DTypeError);
}

TEST(DTypeInfo, Kinds) {
  EXPECT_TRUE(isdtype(bool_, "bool"));
  EXPECT_FALSE(isdtype(bool_, "numeric"));
  EXPECT_TRUE(isdtype(int8, "signed integer"));
  EXPECT_FALSE(isdtype(int8, "unsigned integer"));
  EXPECT_TRUE(isdtype(uint64, "integral"));
  EXPECT_TRUE(isdtype(bfloat16, "real floating"));
  EXPECT_FALSE(isdtype(float64, "complex floating"));
  EXPECT_TRUE(isdtype(float16, "numeric"));
  EXPECT_TRUE(isdtype(float16, float16));
  EXPECT_FALSE(isdtype(float16, bfloat16));
  EXPECT_THROW(isdtype(int8, "integer"), ValueError);
}

TEST(DTypeInfo, CastsFollowPromotion) {
  EXPECT_TRUE(can_cast(int8, int16));
  EXPECT_TRUE(can_cast(uint32, int64));
  EXPECT_TRUE(can_cast(ones({1}, float32), float64));
  EXPECT_FALSE(can_cast(int16, int8));
  EXPECT_FALSE(can_cast(float32, int64));
  EXPECT_FALSE(can_cast(uint64, int64));
  EXPECT_FALSE(can_cast(int64, uint64));
}

TEST(DTypeInfo, ResultTypeTakesTensorsDtypesAndNumbers) {
  EXPECT_EQ(result_type(int8, uint8), int16);
  EXPECT_EQ(result_type(ones({2}, int32), 2.5), float32);
  EXPECT_EQ(result_type(2.5, int8, ones({}, float16)), float16);
  EXPECT_EQ(result_type(300, uint8), uint8);
  EXPECT_EQ(result_type(true, bool_), bool_);
  EXPECT_EQ(result_type(1, 2.0), float32);
  EXPECT_EQ(result_type(true, 2), int64);
  EXPECT_EQ(result_type(bfloat16, float16, int8), float32);
  EXPECT_THROW(result_type(uint64, int8), DTypeError);
  EXPECT_THROW(result_type(), ValueError);
}

// The neighbours of all halves, found by counting through their bits.
template <class Half>
void expect_neighbours(DType dtype, std::uint16_t infinity) {
  std::vector<Half> from, up;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    from.push_back(Half::from_bits(static_cast<std::uint16_t>(bits)));
    up.push_back(Half::from_bits(static_cast<std::uint16_t>(bits + 1)));
  }
  const Tensor low = from_data(from), high = from_data(up);
  const auto check = [&](const Tensor& found, const Tensor& expected) {
    EXPECT_EQ(found.dtype(), dtype);
    EXPECT_TRUE(all(equal(found, expected)).item<bool>());
    EXPECT_TRUE(all(equal(signbit(found), signbit(expected))).item<bool>());
  };
  const double inf = std::numeric_limits<double>::infinity();
  check(nextafter(low, inf), high);
  check(nextafter(high, -inf).slice(0, 1), low.slice(0, 1));
  check(nextafter(negative(low).slice(0, 1), -inf), negative(high).slice(0, 1));
  check(nextafter(negative(high), 0.0), negative(low));
}

TEST(NextAfter, FindsEveryHalf) {
  expect_neighbours<Float16>(float16, 0x7c00);
  expect_neighbours<BFloat16>(bfloat16, 0x7f80);
}

// Numbers of every exponent, with significands at both ends.
template <class T>
void expect_neighbours_of(T tiny) {
  std::vector<T> numbers;
  for (T power = tiny; power < std::numeric_limits<T>::infinity(); power *= 2) {
    for (T factor : {T(1), T(1.25), T(1.5), 2 - std::numeric_limits<T>::epsilon()}) {
      numbers.push_back(power * factor);
      numbers.push_back(-power * factor);
    }
  }
  for (T towards :
       {-std::numeric_limits<T>::infinity(), T(0), T(1), std::numeric_limits<T>::max()}) {
    const Tensor found = nextafter(from_data(numbers), static_cast<double>(towards));
    const std::vector<T> values = found.to_vector<T>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const T expected = std::nextafter(numbers[i], towards);
      ASSERT_EQ(values[i], expected) << numbers[i] << " towards " << towards;
      ASSERT_EQ(std::signbit(values[i]), std::signbit(expected)) << numbers[i];
    }
  }
}

TEST(NextAfter, FindsTheNeighboursOfEveryExponent) {
  expect_neighbours_of<float>(std::numeric_limits<float>::denorm_min());
  expect_neighbours_of<double>(std::numeric_limits<double>::denorm_min());
}

TEST(NextAfter, NamesItselfInErrors) {
  EXPECT_THROW(nextafter(ones({2}), ones({3})), ShapeError);
  EXPECT_THROW(nextafter(ones({2}, uint64), ones({2}, int8)), DTypeError);
  EXPECT_FALSE(nextafter(ones({2}).requires_grad_(), 3).requires_grad());
}

TEST(SignBit, SeesTheSignOfNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor x = from_data(std::vector<double>{nan, std::copysign(nan, -1.0), -0.0}).to(dtype);
    EXPECT_EQ(signbit(x).to(uint8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1, 1}));
  }
}

TEST(Sets, NanIsInNoSet) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({1.0, nan, 3.0});
  EXPECT_EQ(isin(x, x).to(uint8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_THROW(isin(ones({2}, uint64), ones({2}, int8)), DTypeError);
}

TEST(Cumulative, TakesOptions) {
  const Tensor x = tensor({1, 2, 3}, int8);
  const Tensor sums = cumulative_sum(x, {}, {.dtype = float64, .include_initial = true});
  EXPECT_EQ(sums.to_vector<double>(), (std::vector<double>{0, 1, 3, 6}));
  const Tensor products = cumulative_prod(tensor(2), {}, {.include_initial = true});
  EXPECT_EQ(products.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
}

TEST(Cumulative, RefusesWrongDifferences) {
  EXPECT_THROW(diff(ones({3}), 0, -1), ValueError);
  // Differences have the dtype of what is joined.
  const Tensor joined = diff(tensor({true, false}), 0, 1, tensor({5}));
  EXPECT_EQ(joined.dtype(), int64);
  EXPECT_EQ(joined.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-4, -1}));
  const Tensor x = tensor({1.0, 4.0});
  EXPECT_TRUE(allclose(diff(x, 0, 0, ones({2}), ones({1})), x, 0, 0));
  EXPECT_THROW(diff(ones({3}), 1), IndexError);
  EXPECT_THROW(diff(ones({}), 0), IndexError);
  EXPECT_THROW(diff(ones({2, 3}), 1, 1, ones({3, 1})), ShapeError);
  EXPECT_THROW(diff_backward(ones({3}), {3}), ShapeError);
}

TEST(Sorter, HasTheShapeOfTheRow) {
  EXPECT_THROW(searchsorted(ones({3}), ones({2}), false, zeros({2}, int64)), ShapeError);
  EXPECT_THROW(searchsorted(ones({3}), ones({2}), false, full({3}, 3)), IndexError);
}

TEST(Shapes, BroadcastAndJoin) {
  EXPECT_TRUE(broadcast_arrays({}).empty());
  EXPECT_THROW(broadcast_arrays({ones({2}), ones({3})}), ShapeError);
  EXPECT_THROW(concatenate({}, std::nullopt), ValueError);
}

}  // namespace
