#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/philox.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void make_words(std::uint64_t seed, std::uint64_t stream, detail::DrawKind kind,
                std::uint64_t first, std::int64_t count, std::uint32_t* words) {
  std::int64_t b = 0;
#if HWY_TARGET != HWY_SCALAR
  // A lane of 64 bits holds a word of one block in its lower half; the upper half is arbitrary
  // until the end, since products read the lower halves only.
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto high = static_cast<std::uint32_t>(stream >> 32) & 0xffffffu;
  const auto low_half = hn::Set(d, 0xffffffffu);
  const auto factor0 = hn::Set(d32, 0xD2511F53u), factor1 = hn::Set(d32, 0xCD9E8D57u);
  for (; b + lanes <= count; b += lanes) {
    const auto number = hn::Iota(d, first + static_cast<std::uint64_t>(b));
    auto word0 = number;
    auto word1 = hn::ShiftRight<32>(number);
    auto word2 = hn::Set(d, stream);
    auto word3 = hn::Set(d, std::uint64_t{high | static_cast<std::uint32_t>(kind) << 24});
    auto key0 = static_cast<std::uint32_t>(seed);
    auto key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto product0 = hn::MulEven(hn::BitCast(d32, word0), factor0);
      const auto product1 = hn::MulEven(hn::BitCast(d32, word2), factor1);
      word0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(word1, hn::Set(d, key0)));
      word1 = product1;
      word2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(word3, hn::Set(d, key1)));
      word3 = product0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    const auto pair0 = hn::Or(hn::And(word0, low_half), hn::ShiftLeft<32>(word1));
    const auto pair1 = hn::Or(hn::And(word2, low_half), hn::ShiftLeft<32>(word3));
    hn::StoreInterleaved2(pair0, pair1, d, reinterpret_cast<std::uint64_t*>(words + 4 * b));
  }
#endif
  for (; b < count; ++b) {
    const detail::PhiloxBlock block =
        detail::draw_block(seed, stream, kind, first + static_cast<std::uint64_t>(b));
    for (int w = 0; w < 4; ++w) words[4 * b + w] = block.word[w];
  }
}

// The operations of core/philox.h in the same order; each is rounded as there.
template <class D, class V, int count>
HWY_INLINE V Horner(D d, V x, const float (&coefficients)[count]) {
  V sum = hn::Set(d, coefficients[0]);
  for (int i = 1; i < count; ++i) {
    sum = hn::Add(hn::Mul(sum, x), hn::Set(d, coefficients[i]));
  }
  return sum;
}

// −2 · ln(x)
template <class D, class V>
HWY_INLINE V MinusTwoLog(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  constexpr std::uint32_t one = 0x3f800000u, root = 0x3f3504f3u;
  const auto shifted = hn::Add(hn::BitCast(du, x), hn::Set(du, one - root));
  const auto fraction = hn::And(shifted, hn::Set(du, (1u << 23) - 1));
  const V m = hn::BitCast(d, hn::Add(fraction, hn::Set(du, root)));
  const V unit = hn::Set(d, 1.0f);
  const V s = hn::Div(hn::Sub(m, unit), hn::Add(m, unit));
  constexpr float two = -4.0f;
  constexpr float terms[] = {two / 11, two / 9, two / 7, two / 5, two / 3, two};
  const V series = Horner(d, hn::Mul(s, s), terms);
  const auto exponent = hn::Sub(hn::BitCast(di, hn::ShiftRight<23>(shifted)), hn::Set(di, 127));
  const V scale = hn::ConvertTo(d, exponent);
  const V rest = hn::Add(hn::Mul(s, series), hn::Mul(scale, hn::Set(d, -2 * 0x1.7f7d1cp-20f)));
  return hn::Add(hn::Mul(scale, hn::Set(d, -2 * 0x1.62e4p-1f)), rest);
}

void make_normals(const std::uint32_t* words, std::int64_t count, float* normals) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  constexpr std::uint32_t half = 1u << 31, quarter = 1u << 30;
  const auto step = static_cast<std::int64_t>(2 * hn::Lanes(d));
  for (; i + step <= count; i += step) {
    hn::Vec<decltype(du)> radius_bits, turn;
    hn::LoadInterleaved2(du, words + i, radius_bits, turn);
    const V uniform =
        hn::Add(hn::Mul(hn::ConvertTo(d, radius_bits), hn::Set(d, 0x1p-32f)), hn::Set(d, 0x1p-33f));
    const V radius = hn::Sqrt(MinusTwoLog(d, uniform));
    const auto rounded = hn::Add(turn, hn::Set(du, quarter >> 1));
    const auto rest = hn::Sub(turn, hn::And(rounded, hn::Set(du, half | quarter)));
    const V x = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, rest)), hn::Set(d, 0x1.921fb6p-30f));
    const V square = hn::Mul(x, x);
    constexpr float odd[] = {1.0f / 362880, -1.0f / 5040, 1.0f / 120, -1.0f / 6};
    constexpr float even[] = {-1.0f / 3628800, 1.0f / 40320, -1.0f / 720, 1.0f / 24};
    const V sine = hn::Add(x, hn::Mul(x, hn::Mul(square, Horner(d, square, odd))));
    const V tail = hn::Mul(hn::Mul(square, square), Horner(d, square, even));
    const V cosine = hn::Sub(hn::Set(d, 1.0f), hn::Sub(hn::Mul(hn::Set(d, 0.5f), square), tail));
    const auto swapped =
        hn::RebindMask(d, hn::Ne(hn::And(rounded, hn::Set(du, quarter)), hn::Zero(du)));
    const auto flipped = [&](V value, hn::Vec<decltype(du)> sign) HWY_ATTR {
      return hn::Xor(value, hn::BitCast(d, hn::And(sign, hn::Set(du, half))));
    };
    const V first =
        flipped(hn::IfThenElse(swapped, sine, cosine), hn::Add(rounded, hn::Set(du, quarter)));
    const V second = flipped(hn::IfThenElse(swapped, cosine, sine), rounded);
    hn::StoreInterleaved2(hn::Mul(radius, first), hn::Mul(radius, second), d, normals + i);
  }
#endif
  for (; i < count; i += 2) {
    const auto pair = detail::normal_pair<float>(words[i], words[i + 1]);
    normals[i] = pair.cosine;
    normals[i + 1] = pair.sine;
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

void philox_words(std::uint64_t seed, std::uint64_t stream, detail::DrawKind kind,
                  std::uint64_t first, std::int64_t count, std::uint32_t* words) {
  EXTENSOR_DISPATCH(make_words)(seed, stream, kind, first, count, words);
}

void normals_of_words(const std::uint32_t* words, std::int64_t count, float* normals) {
  EXTENSOR_DISPATCH(make_normals)(words, count, normals);
}

}  // namespace extensor::cpu
#endif
