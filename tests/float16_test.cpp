// float16 and bfloat16: all bit patterns, and rounding compared with a reference that searches the
// nearest representable value instead of shifting bits.
#include "extensor/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using extensor::BFloat16;
using extensor::Float16;

// The value of a bit pattern from its definition: fraction · 2^exponent.
double definition(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

template <class Half>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int exponent_bits = 5;
  static constexpr int fraction_bits = 10;
};
template <>
struct Format<BFloat16> {
  static constexpr int exponent_bits = 8;
  static constexpr int fraction_bits = 7;
};

template <class Half>
double value_of(std::uint16_t bits) {
  return definition(bits, Format<Half>::exponent_bits, Format<Half>::fraction_bits);
}

// Round to nearest even by bisection over the sorted non-negative patterns.
template <class Half>
std::uint16_t nearest(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  const auto infinity = static_cast<std::uint16_t>(((1 << Format<Half>::exponent_bits) - 1)
                                                   << Format<Half>::fraction_bits);
  std::uint16_t low = 0;
  std::uint16_t high = infinity;  // as if it were the next number after the largest
  if (std::isinf(magnitude)) return sign | infinity;
  const double beyond = 2 * value_of<Half>(infinity - 1) - value_of<Half>(infinity - 2);
  if (magnitude >= beyond) return sign | infinity;
  const auto pattern_value = [&](std::uint16_t bits) {
    return bits == infinity ? beyond : value_of<Half>(bits);
  };
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (pattern_value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - pattern_value(low);
  const double above = pattern_value(high) - magnitude;
  const bool up = above < below || (above == below && (low & 1) != 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

template <class Half>
class HalfTest : public testing::Test {};
using Halves = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryPatternHasItsDefinedValue) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const auto half = TypeParam::from_bits(pattern);
    const double expected = value_of<TypeParam>(pattern);
    const auto actual = static_cast<float>(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(actual)))) << bits;
    } else {
      ASSERT_EQ(actual, expected) << bits;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
      ASSERT_EQ(TypeParam(actual).bits(), pattern);
      ASSERT_EQ(TypeParam(static_cast<double>(actual)).bits(), pattern);
    }
  }
}

TYPED_TEST(HalfTest, NarrowsToNearestEvenBetweenAllNeighbours) {
  for (int bits = 0; bits < 65535; ++bits) {
    const double here = value_of<TypeParam>(static_cast<std::uint16_t>(bits));
    const double next = value_of<TypeParam>(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(here) || !std::isfinite(next)) continue;
    const double middle = here / 2 + next / 2;
    for (const double value :
         {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 2 * middle)}) {
      ASSERT_EQ(TypeParam(value).bits(), nearest<TypeParam>(value)) << value;
      const auto narrow = static_cast<float>(value);
      ASSERT_EQ(TypeParam(narrow).bits(), nearest<TypeParam>(narrow)) << narrow;
    }
  }
}

TYPED_TEST(HalfTest, FloatPatternsSampledDensely) {
  // An odd step visits all exponents and signs and varied low bits.
  std::uint32_t bits = 0;
  for (int i = 0; i < 2'000'000; ++i, bits += 2147u) {
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(value))));
    } else {
      ASSERT_EQ(TypeParam(value).bits(), nearest<TypeParam>(value)) << bits;
    }
  }
}

TYPED_TEST(HalfTest, DoublesRoundOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    ASSERT_EQ(TypeParam(value).bits(), nearest<TypeParam>(value)) << value;
    // Also close to a value in range: most random doubles are far outside.
    int ignored = 0;
    const double close =
        std::ldexp(std::frexp(value, &ignored), static_cast<int>(random() % 50) - 30);
    ASSERT_EQ(TypeParam(close).bits(), nearest<TypeParam>(close)) << close;
  }
}

TEST(Float16Test, KnownConstants) {
  EXPECT_EQ(Float16(1.0f).bits(), 0x3c00);
  EXPECT_EQ(Float16(65504.0f).bits(), 0x7bff);
  EXPECT_EQ(Float16(65519.99f).bits(), 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits(), 0x7c00);
  EXPECT_EQ(Float16(-0.0f).bits(), 0x8000);
  EXPECT_EQ(Float16(0x1p-24f).bits(), 0x0001);
  EXPECT_EQ(Float16(0x1p-25f).bits(), 0x0000);
  EXPECT_EQ(Float16(0x1.000002p-25f).bits(), 0x0001);
  EXPECT_EQ(BFloat16(1.0f).bits(), 0x3f80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits(), 0x7f80);
}

TEST(Float16Test, DoubleThatWouldRoundTwice) {
  // Just above the middle of 1 and 1 + 2^-10: float rounds to the middle, which would round down to
  // even.
  EXPECT_EQ(Float16(1 + 0x1p-11 + 0x1p-40).bits(), 0x3c01);
  EXPECT_EQ(BFloat16(1 + 0x1p-8 + 0x1p-40).bits(), 0x3f81);
  // Just below the middle of 1 + 2^-10 and 1 + 2^-9: float rounds to it, which would round up to
  // even.
  EXPECT_EQ(Float16(1 + 0x1p-10 + 0x1p-11 - 0x1p-40).bits(), 0x3c01);
}

}  // namespace
