#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/convert.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
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

// Truncates; what is out of range becomes the nearest number, NaN 0.
void truncate(const void* from, void* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const float* source = static_cast<const float*>(from);
  std::int32_t* target = static_cast<std::int32_t*>(to);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, source + i);
    const auto number = hn::IfThenElseZero(hn::Eq(x, x), x);
    const auto above = hn::RebindMask(di, hn::Ge(x, hn::Set(d, 0x1p31f)));
    const auto truncated = hn::ConvertTo(di, number);
    hn::StoreU(hn::IfThenElse(above, hn::Set(di, INT32_MAX), truncated), di, target + i);
  }
  for (; i < n; ++i) target[i] = detail::convert<std::int32_t>(source[i]);
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

// Whether a float result y may round to another half than the exact value would: kernels are
// accurate to 2 units in the last place, and a boundary between two halves is nearer than that.
// Halves above the smallest normal one drop a fixed number of bits, and the boundary is their
// middle.
template <class D>
HWY_INLINE hn::Mask<D> NearMiddle(D d, hn::Vec<D> y, int bits_dropped, int units) {
  const hn::RebindToSigned<D> di;
  // Shifted so that the middle's neighbourhood starts at 0.
  const auto shifted = hn::Add(hn::BitCast(di, y), hn::Set(di, (1 << (bits_dropped - 1)) + units));
  const auto dropped = hn::And(shifted, hn::Set(di, (1 << bits_dropped) - 1));
  return hn::RebindMask(d, hn::Lt(dropped, hn::Set(di, 2 * units + 1)));
}
template <class D>
HWY_INLINE hn::Mask<D> Doubtful(D d, hn::Vec<D> y, Float16) {
  const auto near = NearMiddle(d, y, 13, 3);
  const auto subnormal = hn::Lt(hn::Abs(y), hn::Set(d, 0x1p-14f));
  if (HWY_LIKELY(hn::AllFalse(d, hn::Or(near, subnormal)))) return near;
  // Below the smallest normal half, halves are the multiples of 2⁻²⁴.
  const auto scaled = hn::Mul(hn::Abs(y), hn::Set(d, 0x1p24f));
  const auto from_middle = hn::Abs(hn::Sub(hn::Sub(scaled, hn::Floor(scaled)), hn::Set(d, 0.5f)));
  const auto close = hn::Le(from_middle, hn::Mul(scaled, hn::Set(d, 0x1p-21f)));
  return hn::Or(hn::And(subnormal, close), hn::AndNot(subnormal, near));
}
template <class D>
HWY_INLINE hn::Mask<D> Doubtful(D d, hn::Vec<D> y, BFloat16) {
  return NearMiddle(d, y, 16, 8);  // includes float subnormals, where kernels are less exact
}

template <class Half, class D>
HWY_INLINE std::size_t NarrowVector(D d, const float* from, Half* to, std::size_t at,
                                    std::uint16_t* doubtful, std::size_t count) {
  const auto y = hn::LoadU(d, from + at);
  StoreHalf(y, d, to + at);
  const auto mask = Doubtful(d, y, Half());
  if (HWY_LIKELY(hn::AllFalse(d, mask))) return count;
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, mask, bits);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    if ((bits[lane / 8] >> (lane % 8)) & 1) {
      doubtful[count++] = static_cast<std::uint16_t>(at + lane);
    }
  }
  return count;
}

template <class Half>
std::size_t narrow_and_check(const float* from, void* to, std::size_t n, std::uint16_t* doubtful) {
  const hn::ScalableTag<float> d;
  Half* target = static_cast<Half*>(to);
  std::size_t count = 0, i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    count = NarrowVector(d, from, target, i, doubtful, count);
  }
  for (; i < n; ++i) {
    count = NarrowVector(hn::CappedTag<float, 1>(), from, target, i, doubtful, count);
  }
  return count;
}

template <class T>
inline constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Integers wrap, so the sign of the target does not matter, and that of the source only if the
// target is wider. Only the unsigned loop is compiled then.
template <class From, class To>
ConvertLoop loop_of() {
  if constexpr (is_number<To> && std::is_signed_v<To> && std::is_integral_v<From>) {
    return loop_of<From, std::make_unsigned_t<To>>();
  } else if constexpr (is_number<From> && std::is_signed_v<From> && std::is_integral_v<To> &&
                       (sizeof(To) <= sizeof(From))) {
    return loop_of<std::make_unsigned_t<From>, To>();
  } else if constexpr (std::is_same_v<From, bool> && !std::is_same_v<To, bool>) {
    return &convert_elements<std::uint8_t, To>;  // 0 or 1
  } else {
    return &convert_elements<From, To>;
  }
}

template <class From>
void fill_from(ConvertLoop* row) {
#define EXTENSOR_SET(name, type) row[static_cast<int>(DType::name)] = loop_of<From, type>();
  EXTENSOR_DTYPES(EXTENSOR_SET)
#undef EXTENSOR_SET
}

void fill_convert_loops(ConvertLoop (*table)[dtype_count], DemoteLoop* demote) {
#define EXTENSOR_FILL(name, type) fill_from<type>(table[static_cast<int>(DType::name)]);
  EXTENSOR_DTYPES(EXTENSOR_FILL)
#undef EXTENSOR_FILL
  const auto index = [](DType dtype) { return static_cast<int>(dtype); };
  const int f32 = index(DType::float32), f16 = index(DType::float16), b16 = index(DType::bfloat16);
  table[f32][index(DType::int32)] = &truncate;
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
#include "core/simd/dispatch.h"

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
