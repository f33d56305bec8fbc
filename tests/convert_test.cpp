// Conversions between all dtypes, against a reference in long double and wide integers.
#include "core/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "core/visit.h"

namespace {

using extensor::BFloat16;
using extensor::DType;
using extensor::Float16;
using extensor::detail::convert;
using extensor::detail::visit_dtype;

template <class T>
constexpr bool is_floating = !std::is_integral_v<T>;

// x87's 64-bit significand represents the values of every dtype exactly.
static_assert(std::numeric_limits<long double>::digits >= 64);
template <class T>
long double exact(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<long double>(value);
  } else {
    return static_cast<long double>(static_cast<float>(value));
  }
}

template <class To>
To reference(long double value, bool from_integer) {
  if constexpr (std::is_same_v<To, bool>) {
    return !(value == 0);
  } else if constexpr (std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (from_integer) {  // modulo 2^bits
      const long double modulus = std::ldexp(1.0L, static_cast<int>(sizeof(To)) * 8);
      const long double wrapped = value - std::floor(value / modulus) * modulus;
      const auto bits = static_cast<std::uint64_t>(wrapped);
      return static_cast<To>(bits);
    }
    if (std::isnan(value)) return 0;
    if (value <= static_cast<long double>(Limits::min())) return Limits::min();
    if (value >= static_cast<long double>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    // Nearest even, found among the two half values around the truncated one.
    if (std::isnan(value)) return To(std::numeric_limits<float>::quiet_NaN());
    const auto start = To(static_cast<float>(value)).bits();
    To best = To::from_bits(start);
    for (int step = -1; step <= 1; ++step) {
      const auto candidate = To::from_bits(static_cast<std::uint16_t>(start + step));
      const float far = static_cast<float>(candidate);
      if (!std::isfinite(far) || !std::isfinite(static_cast<float>(best))) continue;
      const long double distance = std::abs(static_cast<long double>(far) - value);
      const long double best_distance =
          std::abs(static_cast<long double>(static_cast<float>(best)) - value);
      if (distance < best_distance || (distance == best_distance && (candidate.bits() & 1) == 0)) {
        best = candidate;
      }
    }
    return best;
  }
}

template <class T>
std::vector<T> samples() {
  std::vector<T> result;
  std::mt19937_64 random(7);
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    for (const T value :
         {Limits::min(), T(Limits::min() + 1), T(-1), T(0), T(1), T(127), T(128), T(255), T(256),
          T(32767), T(65535), T(Limits::max() - 1), Limits::max()}) {
      result.push_back(value);
    }
    for (int i = 0; i < 3000; ++i) result.push_back(static_cast<T>(random() >> (random() % 64)));
  } else {
    for (const double value : {0.0,
                               -0.0,
                               0.5,
                               -0.5,
                               0.999,
                               1.0,
                               -1.0,
                               1.5,
                               127.5,
                               128.0,
                               -128.9,
                               255.9,
                               256.0,
                               32768.0,
                               65504.0,
                               65519.0,
                               65520.0,
                               2147483647.0,
                               2147483648.0,
                               -2147483649.0,
                               4294967295.5,
                               4294967296.0,
                               9223372036854774784.0,
                               9223372036854775808.0,
                               -9223372036854775808.0,
                               -9223372036854777856.0,
                               18446744073709549568.0,
                               18446744073709551616.0,
                               1e30,
                               -1e30,
                               1e300,
                               1e-40,
                               5e-324,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
      result.push_back(convert<T>(value));
    }
    for (int i = 0; i < 3000; ++i) {
      const double mantissa = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
      result.push_back(convert<T>(std::ldexp(mantissa, static_cast<int>(random() % 140) - 70)));
    }
  }
  return result;
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a == b;
  } else if constexpr (std::is_floating_point_v<T>) {
    return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(T)) == 0;
  } else {
    return same(static_cast<float>(a), static_cast<float>(b));
  }
}

class ConvertTest : public testing::TestWithParam<int> {};

TEST_P(ConvertTest, EveryTargetAgreesWithTheReference) {
  visit_dtype(static_cast<DType>(GetParam()), []<class From>() {
    for (const From value : samples<From>()) {
      for (int target = 0; target < extensor::dtype_count; ++target) {
        visit_dtype(static_cast<DType>(target), [&]<class To>() {
          if constexpr (std::is_same_v<From, To>) return;
          const To expected = reference<To>(exact(value), !is_floating<From>);
          EXPECT_TRUE(same(convert<To>(value), expected))
              << static_cast<double>(exact(value)) << " from " << name(extensor::dtype_of<From>)
              << " to " << name(extensor::dtype_of<To>);
        });
      }
    }
  });
}
INSTANTIATE_TEST_SUITE_P(AllDtypes, ConvertTest, testing::Range(0, extensor::dtype_count));

TEST(ConvertTest, Item27NanAndHugeToIntegers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(convert<std::int32_t>(nan), 0);
  EXPECT_EQ(convert<std::uint64_t>(nan), 0u);
  EXPECT_EQ(convert<std::int32_t>(1e30f), INT32_MAX);
  EXPECT_EQ(convert<std::int64_t>(-1e30f), INT64_MIN);
  EXPECT_EQ(convert<std::uint8_t>(-1e30), 0);
  EXPECT_EQ(convert<std::uint64_t>(1e30), UINT64_MAX);
  EXPECT_TRUE(convert<bool>(nan));
  EXPECT_FALSE(convert<bool>(-0.0f));
}

TEST(ConvertTest, LargeIntegersRoundOnceToBfloat16) {
  // One above the middle of two bfloat16: a conversion through double would lose the one.
  const std::int64_t middle = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  EXPECT_EQ(convert<BFloat16>(middle + 1).bits(), BFloat16(0x1p62f).bits() + 1);
  EXPECT_EQ(convert<BFloat16>(middle).bits(), BFloat16(0x1p62f).bits());
  EXPECT_EQ(convert<BFloat16>(-middle - 1).bits(), BFloat16(-0x1p62f).bits() + 1);
  EXPECT_EQ(convert<BFloat16>(UINT64_MAX).bits(), BFloat16(0x1p64f).bits());
}

TEST(ConvertTest, IsConstexpr) {
  static_assert(convert<std::int8_t>(300.0) == 127);
  static_assert(convert<std::uint8_t>(std::int32_t{-1}) == 255);
  static_assert(convert<Float16>(1).bits() == 0x3c00);
}

}  // namespace
