#include "op_database/random_reference.h"

#include <array>
#include <cmath>

namespace random_reference {

namespace {

enum class Kind : std::uint32_t { uniform32, uniform64, normal32, normal64, integer };

std::array<std::uint32_t, 4> block(std::uint64_t seed, Kind kind, std::uint64_t number) {
  std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(number),
                                 static_cast<std::uint32_t>(number >> 32), 0,
                                 static_cast<std::uint32_t>(kind) << 24};
  std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed),
                                   static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = 0xD2511F53ull * c[0], second = 0xCD9E8D57ull * c[2];
    c = {static_cast<std::uint32_t>(second >> 32) ^ c[1] ^ key[0],
         static_cast<std::uint32_t>(second),
         static_cast<std::uint32_t>(first >> 32) ^ c[3] ^ key[1],
         static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

// Two draws a block, the high half first.
std::uint64_t wide(std::uint64_t seed, Kind kind, std::uint64_t n) {
  const auto words = block(seed, kind, n / 2);
  return std::uint64_t{words[n % 2 * 2]} << 32 | words[n % 2 * 2 + 1];
}

Normal box_muller(long double first, long double second, bool sine) {
  const long double radius = std::sqrt(-2 * std::log(first));
  const long double angle = 2 * std::acos(-1.0L) * second;
  return {radius * (sine ? std::sin(angle) : std::cos(angle)), radius};
}

}  // namespace

std::uint32_t word(std::uint64_t seed, std::uint64_t n) {
  return block(seed, Kind::uniform32, n / 4)[n % 4];
}

std::uint64_t integer(std::uint64_t seed, std::uint64_t n, std::uint64_t range) {
  const auto product = static_cast<unsigned __int128>(wide(seed, Kind::integer, n)) * range;
  return static_cast<std::uint64_t>(product >> 64);
}

long double uniform(DType dtype, std::uint64_t seed, std::uint64_t n) {
  const int bits = dtype == DType::float16 ? 11 : dtype == DType::bfloat16 ? 8 : 24;
  if (dtype == DType::float64) {
    return std::ldexp(static_cast<long double>(wide(seed, Kind::uniform64, n) >> 11), -53);
  }
  return std::ldexp(static_cast<long double>(word(seed, n) >> (32 - bits)), -bits);
}

Normal normal(DType dtype, std::uint64_t seed, std::uint64_t n) {
  const bool sine = n % 2 == 1;
  if (dtype == DType::float64) {
    const auto words = block(seed, Kind::normal64, n / 2);
    const std::uint64_t first = std::uint64_t{words[0]} << 32 | words[1];
    const std::uint64_t second = std::uint64_t{words[2]} << 32 | words[3];
    return box_muller((static_cast<long double>(first) + 0.5L) * 0x1p-64L,
                      static_cast<long double>(second) * 0x1p-64L, sine);
  }
  const auto words = block(seed, Kind::normal32, n / 4);
  const std::size_t pair = n % 4 / 2 * 2;
  return box_muller((words[pair] + 0.5L) * 0x1p-32L, words[pair + 1] * 0x1p-32L, sine);
}

long double truncated_normal(std::uint64_t seed, std::uint64_t n, long double lower,
                             long double upper) {
  const auto probability = [](long double z) { return 0.5L * std::erfc(-z / std::sqrt(2.0L)); };
  const long double draw = uniform(DType::float64, seed, n) + 0x1p-54L;
  const long double wanted = probability(lower) + (probability(upper) - probability(lower)) * draw;
  long double below = lower, above = upper;
  for (int i = 0; i < 100; ++i) {
    const long double middle = (below + above) / 2;
    (probability(middle) < wanted ? below : above) = middle;
  }
  return below;
}

}  // namespace random_reference
