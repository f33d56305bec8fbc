// Philox against the vectors published with Random123, and the draws derived from it.
#include "core/philox.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <thread>
#include <vector>

#include "backend/cpu/philox.h"
#include "extensor/error.h"
#include "extensor/random.h"

namespace {

using namespace extensor::detail;
using extensor::Generator;
using extensor::RandomState;

void expect_words(const PhiloxBlock& actual, const PhiloxBlock& expected) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(actual.word[i], expected.word[i]) << i;
}

TEST(PhiloxTest, KnownAnswers) {
  expect_words(philox4x32_10({{0, 0, 0, 0}}, 0, 0),
               {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  const std::uint32_t ones = 0xffffffffu;
  expect_words(philox4x32_10({{ones, ones, ones, ones}}, ones, ones),
               {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_words(
      philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
      {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

template <class Draw>
void check_split() {
  constexpr std::int64_t count = 103;
  std::vector<typename Draw::Value> whole(count);
  for_each_draw<Draw>(5, 3, 17, count, [&](std::int64_t i, auto value) { whole[i] = value; });
  for (std::int64_t chunk = 1; chunk < 20; ++chunk) {
    for (std::int64_t first = 0; first < count; first += chunk) {
      const std::int64_t size = std::min(chunk, count - first);
      for_each_draw<Draw>(5, 3, 17 + static_cast<std::uint64_t>(first), size,
                          [&](std::int64_t i, auto value) { ASSERT_EQ(value, whole[first + i]); });
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(draw<Draw>(5, 3, 17 + static_cast<std::uint64_t>(i)), whole[i]);
  }
}

TEST(PhiloxTest, DrawsDoNotDependOnTheSplit) {
  check_split<Uniform32>();
  check_split<Uniform64>();
  check_split<Normal32>();
  check_split<Normal64>();
  check_split<Integer64>();
}

// The kernels draw in bulk with SIMD; every target and every split has the bits of single draws.
template <class Draw>
void check_bulk() {
  for (const std::uint64_t seed : {std::uint64_t{7}, std::uint64_t{0xfedcba9876543210}}) {
    for (const std::uint64_t first :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, (std::uint64_t{1} << 34) - 5}) {
      for (const std::int64_t count : {1, 2, 5, 63, 130, 1024}) {
        extensor::cpu::Draws<Draw> draws;
        const auto* values = draws.make(seed, 0x123456789a, first, count);
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(values[i],
                    draw<Draw>(seed, 0x123456789a, first + static_cast<std::uint64_t>(i)))
              << "draw " << i << " of " << count << " from " << first;
        }
      }
    }
  }
}

TEST(PhiloxTest, BulkDrawsHaveTheSameBits) {
  check_bulk<Uniform32>();
  check_bulk<Uniform64>();
  check_bulk<Normal32>();
  check_bulk<Normal64>();
  check_bulk<Integer64>();
}

TEST(PhiloxTest, BulkNormalsOfExtremeWords) {
  const std::uint32_t edges[] = {0,          1,          0x1fffffff, 0x20000000, 0x3fffffff,
                                 0x40000000, 0x5fffffff, 0x60000000, 0x7fffffff, 0x80000000,
                                 0x9fffffff, 0xa0000000, 0xc0000000, 0xe0000000, 0xffffffff};
  std::vector<std::uint32_t> words;
  for (const std::uint32_t radius : edges) {
    for (const std::uint32_t angle : edges) words.insert(words.end(), {radius, angle});
  }
  while (words.size() % 4 != 0) words.push_back(0);
  std::vector<float> normals(words.size());
  extensor::cpu::normals_of_words(words.data(), static_cast<std::int64_t>(words.size()),
                                  normals.data());
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto expected = normal_pair<float>(words[i], words[i + 1]);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(normals[i]),
              std::bit_cast<std::uint32_t>(expected.cosine))
        << i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(normals[i + 1]),
              std::bit_cast<std::uint32_t>(expected.sine))
        << i;
  }
}

TEST(PhiloxTest, DocumentedMapping) {
  const std::uint64_t seed = 0x0123456789abcdefu;
  const std::uint64_t stream = 0x00fedcba98765432u;
  const PhiloxBlock block =
      philox4x32_10({{2, 0, 0x98765432u, 0x00fedcbau}}, 0x89abcdefu, 0x01234567u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(draw<Uniform32>(seed, stream, 8 + i), block.word[i]);
  const PhiloxBlock wide =
      philox4x32_10({{4, 0, 0x98765432u, 0x01fedcbau}}, 0x89abcdefu, 0x01234567u);
  EXPECT_EQ(draw<Uniform64>(seed, stream, 9), (std::uint64_t{wide.word[2]} << 32) + wide.word[3]);
}

TEST(PhiloxTest, UniformStaysBelowOne) {
  EXPECT_EQ(uniform_float(0xffffffffu), 1 - 0x1p-24f);
  EXPECT_EQ(uniform_double(~std::uint64_t{0}), 1 - 0x1p-53);
  EXPECT_LT(static_cast<float>(uniform_float16(0xffffffffu)), 1);
  EXPECT_LT(static_cast<float>(uniform_bfloat16(0xffffffffu)), 1);
  EXPECT_EQ(uniform_float(0), 0);
}

TEST(PhiloxTest, NormalAgreesWithTheLibraryFormula) {
  for (std::uint64_t n = 0; n < 20000; n += 2) {
    const PhiloxBlock narrow = draw_block(1, 0, DrawKind::normal32, n / 4);
    const int pair = static_cast<int>(n % 4);
    const double uniform = (narrow.word[pair] + 0.5) * 0x1p-32;
    const double angle = narrow.word[pair + 1] * 0x1p-32 * 2 * M_PI;
    const double radius = std::sqrt(-2 * std::log(uniform));
    EXPECT_NEAR(draw<Normal32>(1, 0, n), radius * std::cos(angle), 4e-6);
    EXPECT_NEAR(draw<Normal32>(1, 0, n + 1), radius * std::sin(angle), 4e-6);
    const PhiloxBlock wide = draw_block(1, 0, DrawKind::normal64, n / 2);
    const long double uniform64 =
        (static_cast<long double>(join_words(wide.word[0], wide.word[1])) + 0.5L) * 0x1p-64L;
    const long double angle64 = static_cast<long double>(join_words(wide.word[2], wide.word[3])) *
                                0x1p-64L * 2 * 3.14159265358979323846264338328L;
    const long double radius64 = std::sqrt(-2 * std::log(uniform64));
    EXPECT_NEAR(draw<Normal64>(1, 0, n), static_cast<double>(radius64 * std::cos(angle64)), 1e-14);
    EXPECT_NEAR(draw<Normal64>(1, 0, n + 1), static_cast<double>(radius64 * std::sin(angle64)),
                1e-14);
  }
}

TEST(PhiloxTest, NormalExtremesAreFinite) {
  for (const std::uint32_t radius : {0u, 1u, 0x7fffffffu, 0xfffffffeu, 0xffffffffu}) {
    for (const std::uint32_t angle : {0u, 0x1fffffffu, 0x20000000u, 0x80000000u, 0xffffffffu}) {
      const auto normals = normal_pair<float>(radius, angle);
      EXPECT_TRUE(std::isfinite(normals.cosine) && std::isfinite(normals.sine)) << radius;
      const auto wide =
          normal_pair<double>(std::uint64_t{radius} << 32 | radius, std::uint64_t{angle} << 32);
      EXPECT_TRUE(std::isfinite(wide.cosine) && std::isfinite(wide.sine)) << radius;
    }
  }
}

TEST(PhiloxTest, Moments) {
  constexpr std::int64_t count = 400000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  double uniform = 0;
  for_each_draw<Normal32>(42, 0, 0, count, [&](std::int64_t, float value) {
    const double x = value;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  });
  for_each_draw<Uniform32>(
      42, 0, 0, count, [&](std::int64_t, std::uint32_t word) { uniform += uniform_float(word); });
  EXPECT_NEAR(sum / count, 0, 0.008);
  EXPECT_NEAR(squares / count, 1, 0.012);
  EXPECT_NEAR(fourth / count, 3, 0.1);
  EXPECT_NEAR(uniform / count, 0.5, 0.003);
}

TEST(PhiloxTest, BoundedIntegers) {
  std::vector<int> counts(6);
  for_each_draw<Integer64>(9, 0, 0, 60000, [&](std::int64_t, std::uint64_t bits) {
    const std::uint64_t value = bounded_integer(bits, 6);
    ASSERT_LT(value, 6u);
    ++counts[value];
  });
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
  EXPECT_EQ(bounded_integer(~std::uint64_t{0}, 0), ~std::uint64_t{0});
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const std::uint64_t bits = draw<Integer64>(1, 1, n);
    const std::uint64_t range = draw<Integer64>(1, 2, n) | 1;
    EXPECT_EQ(bounded_integer(bits, range),
              static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * range) >> 64));
  }
}

TEST(GeneratorTest, CountsAndRestores) {
  Generator generator(3, 7);
  EXPECT_EQ(generator.advance(10), 0u);
  EXPECT_EQ(generator.advance(5), 10u);
  EXPECT_EQ(generator.offset(), 15u);
  const RandomState state = generator.state();
  Generator copy(state);
  EXPECT_EQ(copy.reserve(1), (RandomState{3, 7, 15}));
  generator.manual_seed(8);
  EXPECT_EQ(generator.state(), (RandomState{8, 7, 0}));
  EXPECT_THROW(Generator(1, std::uint64_t{1} << 56), extensor::ValueError);
}

TEST(GeneratorTest, DefaultIsSafeFromManyThreads) {
  extensor::manual_seed(5);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 1000; ++k) extensor::default_generator().advance(3);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(extensor::default_generator().state(), (RandomState{5, 0, 12000}));
}

}  // namespace
