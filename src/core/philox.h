// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", 2011), and the conversion of its words to draws.
//
// A block is four 32-bit words, a function of a 64-bit key (the seed) and a 128-bit counter: the
// number of the block in words 0 and 1, the stream in word 2 and the lower 24 bits of word 3, and
// the kind of draw above those. Draws of different kinds therefore never share bits, in any order,
// and draw n of a kind depends only on (seed, stream, n):
//
//   kind        per block  draw n takes
//   uniform32   4          word n mod 4 of block n / 4
//   uniform64   2          words 2 (n mod 2), the high half, and the next one of block n / 2
//   normal32    4          words 2 p and 2 p + 1 of block n / 4 for pair p = (n mod 4) / 2, by
//                          Box–Muller: the cosine for even n, the sine for odd n
//   normal64    2          words 0, 1 (radius) and 2, 3 (angle) of block n / 2; likewise
//   integer     2          64 bits, as uniform64
//
// All arithmetic is plain + − × ÷ and sqrt in one fixed order, without library functions, so that
// every device computes the same bits. Compile with floating-point contraction off (GCC and Clang
// in ISO mode within one expression; the CPU and CUDA kernels say so explicitly).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "extensor/float16.h"

#ifdef __CUDACC__
#define EXTENSOR_HOST_DEVICE __host__ __device__
#else
#define EXTENSOR_HOST_DEVICE
#endif

namespace extensor::detail {

inline constexpr std::uint64_t stream_count = std::uint64_t{1} << 56;

// nvcc adds a zero to the high half of a product of 64-bit numbers.
EXTENSOR_HOST_DEVICE constexpr std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  if (!std::is_constant_evaluated()) {
    std::uint64_t product = 0;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
  }
#endif
  return std::uint64_t{a} * b;
}

struct PhiloxBlock {
  std::uint32_t word[4];
};

EXTENSOR_HOST_DEVICE constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0,
                                                         std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = wide_product(0xD2511F53u, counter.word[0]);
    const std::uint64_t product1 = wide_product(0xCD9E8D57u, counter.word[2]);
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

enum class DrawKind : std::uint32_t { uniform32, uniform64, normal32, normal64, integer };

EXTENSOR_HOST_DEVICE constexpr PhiloxBlock draw_block(std::uint64_t seed, std::uint64_t stream,
                                                      DrawKind kind, std::uint64_t block) {
  const auto high = static_cast<std::uint32_t>(stream >> 32) & 0xffffffu;
  return philox4x32_10(
      {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
        static_cast<std::uint32_t>(stream), high | static_cast<std::uint32_t>(kind) << 24}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

// Computes blocks first … first + Count − 1 together: word[w][i] is word w of block first + i.
// Compilers vectorize the loops over i.
template <int Count>
struct PhiloxBlocks {
  std::uint32_t word[4][Count];

  EXTENSOR_HOST_DEVICE PhiloxBlock block(int i) const {
    return {{word[0][i], word[1][i], word[2][i], word[3][i]}};
  }
};
template <int Count>
EXTENSOR_HOST_DEVICE inline void draw_blocks(std::uint64_t seed, std::uint64_t stream,
                                             DrawKind kind, std::uint64_t first,
                                             PhiloxBlocks<Count>& blocks) {
  const auto high = static_cast<std::uint32_t>(stream >> 32) & 0xffffffu;
  for (int i = 0; i < Count; ++i) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    blocks.word[0][i] = static_cast<std::uint32_t>(number);
    blocks.word[1][i] = static_cast<std::uint32_t>(number >> 32);
    blocks.word[2][i] = static_cast<std::uint32_t>(stream);
    blocks.word[3][i] = high | static_cast<std::uint32_t>(kind) << 24;
  }
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < Count; ++i) {
      const std::uint64_t product0 = wide_product(0xD2511F53u, blocks.word[0][i]);
      const std::uint64_t product1 = wide_product(0xCD9E8D57u, blocks.word[2][i]);
      blocks.word[0][i] = static_cast<std::uint32_t>(product1 >> 32) ^ blocks.word[1][i] ^ key0;
      blocks.word[1][i] = static_cast<std::uint32_t>(product1);
      blocks.word[2][i] = static_cast<std::uint32_t>(product0 >> 32) ^ blocks.word[3][i] ^ key1;
      blocks.word[3][i] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

EXTENSOR_HOST_DEVICE constexpr std::uint64_t join_words(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32 | low;
}

// ---- uniform in [0, 1)

// Uses as many leading bits as the type holds exactly, so that no draw rounds up to 1.
EXTENSOR_HOST_DEVICE constexpr float uniform_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
EXTENSOR_HOST_DEVICE constexpr double uniform_double(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}
constexpr Float16 uniform_float16(std::uint32_t word) {
  return Float16(static_cast<float>(word >> 21) * 0x1p-11f);
}
constexpr BFloat16 uniform_bfloat16(std::uint32_t word) {
  return BFloat16(static_cast<float>(word >> 24) * 0x1p-8f);
}

// ---- normal

// Σ coefficient[k] x^k for the series below, highest power first.
template <class Real, int Count>
EXTENSOR_HOST_DEVICE constexpr Real horner(Real x, const Real (&coefficients)[Count]) {
  Real sum = coefficients[0];
  for (int i = 1; i < Count; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// The operations for which a device may have a quicker method with the same bits.
struct PlainArithmetic {
  template <class Real>
  EXTENSOR_HOST_DEVICE static constexpr Real divide(Real a, Real b) {
    return a / b;
  }
  template <class Real>
  EXTENSOR_HOST_DEVICE static Real root(Real x) {
    return std::sqrt(x);
  }
  // a · b + c where the product is exact.
  template <class Real>
  EXTENSOR_HOST_DEVICE static constexpr Real add_exact_product(Real a, Real b, Real c) {
    return a * b + c;
  }
  // Where −0 and 0 are the same to the caller.
  template <class Real>
  EXTENSOR_HOST_DEVICE static constexpr Real multiply(Real a, Real b) {
    return a * b;
  }
  template <class Bits>
  EXTENSOR_HOST_DEVICE static constexpr bool has_bit(Bits bits, Bits bit) {
    return (bits & bit) != 0;
  }
  // The number in the exponent field of a positive float.
  template <class Real, class Bits>
  EXTENSOR_HOST_DEVICE static constexpr Real exponent(Bits bits) {
    constexpr bool wide = sizeof(Real) == 8;
    return static_cast<Real>(static_cast<int>(bits >> (wide ? 52 : 23)) - (wide ? 1023 : 127));
  }
};

// times · ln(value) for normal value > 0: 2 atanh((m − 1) / (m + 1)) + e ln 2 with m in [√½, √2).
// `times` is a power of two, so that it changes no rounding.
template <class Real, class Arithmetic = PlainArithmetic, int times = 1>
EXTENSOR_HOST_DEVICE constexpr Real plain_log(Real value) {
  constexpr bool wide = sizeof(Real) == 8;
  using Bits = std::conditional_t<wide, std::uint64_t, std::uint32_t>;
  constexpr int fraction_bits = wide ? 52 : 23;
  // Adding the distance from √½ to 1 makes the exponent step at √2 rather than at 2.
  constexpr Bits one = wide ? Bits(0x3ff0000000000000u) : Bits(0x3f800000u);
  constexpr Bits root = wide ? Bits(0x3fe6a09e667f3bcdu) : Bits(0x3f3504f3u);
  const Bits shifted = std::bit_cast<Bits>(value) + (one - root);
  const Bits fraction = shifted & ((Bits(1) << fraction_bits) - 1);
  const Real m = std::bit_cast<Real>(static_cast<Bits>(fraction + root));
  const Real s = Arithmetic::divide(m - Real(1), m + Real(1));
  const Real square = s * s;
  Real series;
  if constexpr (wide) {
    constexpr double two = 2.0 * times;
    constexpr double terms[] = {two / 23, two / 21, two / 19, two / 17, two / 15, two / 13,
                                two / 11, two / 9,  two / 7,  two / 5,  two / 3,  two};
    series = horner(square, terms);
  } else {
    constexpr float two = 2.0f * times;
    constexpr float terms[] = {two / 11, two / 9, two / 7, two / 5, two / 3, two};
    series = horner(square, terms);
  }
  // ln 2 in two parts, the first short enough for its product to be exact.
  constexpr Real log2_high = times * (wide ? Real(0x1.62e42fefa38p-1) : Real(0x1.62e4p-1f));
  constexpr Real log2_low = times * (wide ? Real(0x1.ef35793c7673p-45) : Real(0x1.7f7d1cp-20f));
  const Real scale = Arithmetic::template exponent<Real>(shifted);
  return Arithmetic::add_exact_product(scale, log2_high, s * series + scale * log2_low);
}

template <class Real>
struct CosineSine {
  Real cosine;
  Real sine;
};

// Cosine and sine of turn / 2³² whole turns. The quarter is subtracted in integers, so nothing
// cancels; its number is in the two leading bits of `rounded`.
template <class Real, class Arithmetic = PlainArithmetic, class Bits>
EXTENSOR_HOST_DEVICE constexpr CosineSine<Real> plain_turn(Bits turn) {
  constexpr int bits = static_cast<int>(sizeof(Bits)) * 8;
  constexpr Bits half = Bits(1) << (bits - 1), quarter = half >> 1;
  using Signed = std::make_signed_t<Bits>;
  const Bits rounded = turn + (quarter >> 1);
  const auto rest = static_cast<Signed>(static_cast<Bits>(turn - (rounded & (half | quarter))));
  constexpr Real unit = sizeof(Real) == 8 ? Real(0x1.921fb54442d18p-62) : Real(0x1.921fb6p-30f);
  const Real x = static_cast<Real>(rest) * unit;  // within ±π/4
  const Real square = x * x;
  Real sine;
  Real cosine;
  if constexpr (sizeof(Real) == 8) {
    constexpr double odd[] = {
        1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
        1.0 / 362880,          -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
    constexpr double even[] = {
        -1.0 / 6402373705728000, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600,
        -1.0 / 3628800,          1.0 / 40320,          -1.0 / 720,         1.0 / 24};
    sine = x + x * (square * horner(square, odd));
    const double tail = square * square * horner(square, even);
    cosine = 1.0 - Arithmetic::add_exact_product(0.5, square, -tail);
  } else {
    constexpr float odd[] = {1.0f / 362880, -1.0f / 5040, 1.0f / 120, -1.0f / 6};
    constexpr float even[] = {-1.0f / 3628800, 1.0f / 40320, -1.0f / 720, 1.0f / 24};
    sine = x + x * (square * horner(square, odd));
    const float tail = square * square * horner(square, even);
    cosine = 1.0f - Arithmetic::add_exact_product(0.5f, square, -tail);
  }
  const bool swapped = Arithmetic::has_bit(rounded, quarter);
  const Real first = swapped ? sine : cosine;
  const Real second = swapped ? cosine : sine;
  const auto flipped = [](Real value, Bits sign) {
    return std::bit_cast<Real>(static_cast<Bits>(std::bit_cast<Bits>(value) ^ (sign & half)));
  };
  return {flipped(first, rounded + quarter), flipped(second, rounded)};
}

// Two independent standard normals. The radius comes from a uniform in (0, 1] with half a step
// added, so the logarithm is finite: draws reach ±6.8 in float32 and ±9.4 in float64.
template <class Real, class Arithmetic = PlainArithmetic, class Bits>
EXTENSOR_HOST_DEVICE inline CosineSine<Real> normal_pair(Bits radius_bits, Bits angle_bits) {
  constexpr Real unit = sizeof(Bits) == 8 ? Real(0x1p-64) : Real(0x1p-32);
  const Real uniform =
      Arithmetic::add_exact_product(static_cast<Real>(radius_bits), unit, unit * Real(0.5));
  const Real radius = Arithmetic::root(plain_log<Real, Arithmetic, -2>(uniform));
  const CosineSine<Real> direction = plain_turn<Real, Arithmetic>(angle_bits);
  return {Arithmetic::multiply(radius, direction.cosine),
          Arithmetic::multiply(radius, direction.sine)};
}

// ---- integers

// A number in [0, range), range 0 standing for 2⁶⁴, from one draw: the high half of bits · range.
// Each number's probability is off 1 / range by less than 2⁻⁶⁴.
EXTENSOR_HOST_DEVICE constexpr std::uint64_t bounded_integer(std::uint64_t bits,
                                                             std::uint64_t range) {
  if (range == 0) return bits;
  // In 32-bit halves, since not every compiler has a 128-bit product.
  const std::uint64_t bits_low = bits & 0xffffffffu;
  const std::uint64_t bits_high = bits >> 32;
  const std::uint64_t range_low = range & 0xffffffffu;
  const std::uint64_t range_high = range >> 32;
  const std::uint64_t middle = bits_high * range_low + ((bits_low * range_low) >> 32);
  const std::uint64_t carry = (middle & 0xffffffffu) + bits_low * range_high;
  return bits_high * range_high + (middle >> 32) + (carry >> 32);
}

// ---- draw n

// All draws of one block, in order of n. The functions below and the kernels use these.
struct Uniform32 {
  static constexpr DrawKind kind = DrawKind::uniform32;
  static constexpr int per_block = 4;
  using Value = std::uint32_t;
  EXTENSOR_HOST_DEVICE static void make(const PhiloxBlock& block, Value* values) {
    for (int i = 0; i < 4; ++i) values[i] = block.word[i];
  }
};
template <DrawKind Kind>
struct Bits64 {
  static constexpr DrawKind kind = Kind;
  static constexpr int per_block = 2;
  using Value = std::uint64_t;
  EXTENSOR_HOST_DEVICE static void make(const PhiloxBlock& block, Value* values) {
    values[0] = join_words(block.word[0], block.word[1]);
    values[1] = join_words(block.word[2], block.word[3]);
  }
};
using Uniform64 = Bits64<DrawKind::uniform64>;
using Integer64 = Bits64<DrawKind::integer>;
template <class Arithmetic>
struct Normal32By {
  static constexpr DrawKind kind = DrawKind::normal32;
  static constexpr int per_block = 4;
  using Value = float;
  EXTENSOR_HOST_DEVICE static void make(const PhiloxBlock& block, Value* values) {
    for (int pair = 0; pair < 2; ++pair) {
      const auto normals =
          normal_pair<float, Arithmetic>(block.word[2 * pair], block.word[2 * pair + 1]);
      values[2 * pair] = normals.cosine;
      values[2 * pair + 1] = normals.sine;
    }
  }
};
using Normal32 = Normal32By<PlainArithmetic>;
struct Normal64 {
  static constexpr DrawKind kind = DrawKind::normal64;
  static constexpr int per_block = 2;
  using Value = double;
  EXTENSOR_HOST_DEVICE static void make(const PhiloxBlock& block, Value* values) {
    const auto normals = normal_pair<double>(join_words(block.word[0], block.word[1]),
                                             join_words(block.word[2], block.word[3]));
    values[0] = normals.cosine;
    values[1] = normals.sine;
  }
};

// Draws first … first + count − 1, each passed to store(i, value) with i from 0. Any chunk of a
// longer sequence has the same values.
template <class Draw, class Store>
EXTENSOR_HOST_DEVICE void for_each_draw(std::uint64_t seed, std::uint64_t stream,
                                        std::uint64_t first, std::int64_t count, Store&& store) {
  constexpr int per_block = Draw::per_block;
  typename Draw::Value values[per_block];
  std::uint64_t block = first / per_block;
  int skip = static_cast<int>(first % per_block);
  std::int64_t i = 0;
  if (skip != 0 && count != 0) {  // the rest of a block begun by an earlier chunk
    Draw::make(draw_block(seed, stream, Draw::kind, block++), values);
    for (; skip < per_block && i < count; ++skip, ++i) store(i, values[skip]);
  }
  constexpr int side_by_side = 8;
  for (; i + side_by_side * per_block <= count; block += side_by_side) {
    PhiloxBlocks<side_by_side> blocks;
    draw_blocks(seed, stream, Draw::kind, block, blocks);
    for (int b = 0; b < side_by_side; ++b) {
      Draw::make(blocks.block(b), values);
      for (int k = 0; k < per_block; ++k, ++i) store(i, values[k]);
    }
  }
  for (; i < count; ++block) {
    Draw::make(draw_block(seed, stream, Draw::kind, block), values);
    for (int k = 0; k < per_block && i < count; ++k, ++i) store(i, values[k]);
  }
}

// Draw n alone, for tests and single values: it computes a whole block.
template <class Draw>
EXTENSOR_HOST_DEVICE typename Draw::Value draw(std::uint64_t seed, std::uint64_t stream,
                                               std::uint64_t n) {
  typename Draw::Value values[Draw::per_block];
  Draw::make(draw_block(seed, stream, Draw::kind, n / Draw::per_block), values);
  return values[n % Draw::per_block];
}

}  // namespace extensor::detail
