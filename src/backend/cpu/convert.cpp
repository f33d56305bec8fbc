#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/convert.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include <bit>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/simd/half-inl.h"
#include "core/convert.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

template <class From, class To>
void convert_elements(const void* from, void* to, std::size_t n) {
  const From* source = static_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  for (std::size_t i = 0; i < n; ++i) target[i] = detail::convert<To>(source[i]);
}

template <class Half>
void widen(const void* from, void* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const Half* source = static_cast<const Half*>(from);
  float* target = static_cast<float*>(to);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::StoreU(LoadHalf(d, source + i), d, target + i);
  }
  for (; i < n; ++i) target[i] = static_cast<float>(source[i]);
}

template <class Half>
void narrow(const void* from, void* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const float* source = static_cast<const float*>(from);
  Half* target = static_cast<Half*>(to);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    StoreHalf(hn::LoadU(d, source + i), d, target + i);
  }
  for (; i < n; ++i) target[i] = Half(source[i]);
}

// A float result y stands for a true value in y · (1 ± 2⁻²¹), or ± 8 units where it is subnormal:
// does a boundary between two halves lie in there?
bool is_doubtful(float y, Float16) {
  return Float16(y * (1.0f - 0x1p-21f)).bits() != Float16(y * (1.0f + 0x1p-21f)).bits();
}
bool is_doubtful(float y, BFloat16) {
  const auto dropped = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(y) & 0xffffu);
  return std::abs(dropped - 0x8000) <= 8;
}
template <class D>
HWY_INLINE bool any_is_doubtful(D d, hn::Vec<D> y, Float16) {
  Float16 low[hn::MaxLanes(D())], high[hn::MaxLanes(D())];
  StoreHalf(hn::Mul(y, hn::Set(d, 1.0f - 0x1p-21f)), d, low);
  StoreHalf(hn::Mul(y, hn::Set(d, 1.0f + 0x1p-21f)), d, high);
  return std::memcmp(low, high, sizeof(Float16) * hn::Lanes(d)) != 0;
}
template <class D>
HWY_INLINE bool any_is_doubtful(D, hn::Vec<D> y, BFloat16) {
  const hn::RebindToSigned<D> bits;
  const auto dropped = hn::And(hn::BitCast(bits, y), hn::Set(bits, 0xffff));
  const auto distance = hn::Abs(hn::Sub(dropped, hn::Set(bits, 0x8000)));
  return !hn::AllFalse(bits, hn::Lt(distance, hn::Set(bits, 9)));
}

template <class Half>
std::size_t narrow_and_check(const float* from, void* to, std::size_t n, std::uint16_t* doubtful) {
  const hn::ScalableTag<float> d;
  Half* target = static_cast<Half*>(to);
  std::size_t count = 0;
  const auto check = [&](std::size_t i) {
    if (is_doubtful(from[i], Half())) doubtful[count++] = static_cast<std::uint16_t>(i);
  };
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto y = hn::LoadU(d, from + i);
    StoreHalf(y, d, target + i);
    if (any_is_doubtful(d, y, Half())) [[unlikely]] {
      for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) check(i + lane);
    }
  }
  for (; i < n; ++i) {
    target[i] = Half(from[i]);
    check(i);
  }
  return count;
}

template <class From>
void fill_from(ConvertLoop* row) {
#define EXTENSOR_SET(name, type) row[static_cast<int>(DType::name)] = &convert_elements<From, type>;
  EXTENSOR_DTYPES(EXTENSOR_SET)
#undef EXTENSOR_SET
}

void fill_convert_loops(ConvertLoop (*table)[dtype_count], DemoteLoop* demote) {
#define EXTENSOR_FILL(name, type) fill_from<type>(table[static_cast<int>(DType::name)]);
  EXTENSOR_DTYPES(EXTENSOR_FILL)
#undef EXTENSOR_FILL
  const auto index = [](DType dtype) { return static_cast<int>(dtype); };
  const int f32 = index(DType::float32), f16 = index(DType::float16), b16 = index(DType::bfloat16);
  table[f16][f32] = &widen<Float16>;
  table[b16][f32] = &widen<BFloat16>;
  table[f32][f16] = &narrow<Float16>;
  table[f32][b16] = &narrow<BFloat16>;
  demote[0] = &narrow_and_check<Float16>;
  demote[1] = &narrow_and_check<BFloat16>;
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/simd/dispatch_table.h"

namespace extensor::cpu {

namespace {

struct Loops {
  ConvertLoop convert[dtype_count][dtype_count];
  DemoteLoop demote[2];
};

const Loops& loops() {
  static const Loops filled = [] {
    Loops result;
    EXTENSOR_DISPATCH(fill_convert_loops)(result.convert, result.demote);
    return result;
  }();
  return filled;
}

}  // namespace

ConvertLoop convert_loop(DType from, DType to) {
  return loops().convert[static_cast<int>(from)][static_cast<int>(to)];
}

DemoteLoop demote_and_check_loop(DType half) { return loops().demote[half == DType::bfloat16]; }

}  // namespace extensor::cpu
#endif
