// Building blocks of kernels on one dense row of float or double: loads and stores with a partial
// last vector, the maximum, sums, and sums of exponentials.
#if defined(EXTENSOR_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_ROW_INL_H_
#undef EXTENSOR_ROW_INL_H_
#else
#define EXTENSOR_ROW_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/simd/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements summed in lanes before the sum is widened.
inline constexpr std::size_t sum_block = 1024;

// A row of this many bytes and its other operands stay in the second-level cache while the next row
// is fetched.
inline constexpr std::size_t longest_prefetched_row = std::size_t{256} << 10;

template <class T>
struct RowBase {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  static HWY_INLINE V load(const T* from, std::size_t count, T filler) {
    const D d;
    if (count >= hn::Lanes(d)) return hn::LoadU(d, from);
#if !HWY_MEM_OPS_MIGHT_FAULT
    const auto valid = hn::FirstN(d, count);
    return hn::IfThenElse(valid, hn::MaskedLoad(valid, d, from), hn::Set(d, filler));
#else
    alignas(64) T lanes[hn::MaxLanes(D())];
    std::fill(lanes, lanes + hn::Lanes(d), filler);
    std::memcpy(lanes, from, count * sizeof(T));
    return hn::Load(d, lanes);
#endif
  }
  static HWY_INLINE void store(V v, T* to, std::size_t count) {
    const D d;
    if (count >= hn::Lanes(d)) return hn::StoreU(v, d, to);
#if !HWY_MEM_OPS_MIGHT_FAULT
    hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
    alignas(64) T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    std::memcpy(to, lanes, count * sizeof(T));
#endif
  }
  static HWY_INLINE double sum_of_lanes(V v) {
    const D d;
#if HWY_TARGET == HWY_SCALAR
    (void)d;
    return static_cast<double>(hn::GetLane(v));
#else
    if constexpr (std::is_same_v<T, double>) {
      return hn::GetLane(hn::SumOfLanes(d, v));
    } else {
      const hn::Half<D> half;
      const hn::Rebind<double, decltype(half)> wide;
      const auto low = hn::PromoteTo(wide, hn::LowerHalf(half, v));
      const auto high = hn::PromoteTo(wide, hn::UpperHalf(half, v));
      return hn::GetLane(hn::SumOfLanes(wide, hn::Add(low, high)));
    }
#endif
  }

  // NaN may be lost here; the exponentials restore it.
  static T maximum(const T* x, std::size_t n) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const T lowest = -std::numeric_limits<T>::infinity();
    V m0 = hn::Set(d, lowest), m1 = m0, m2 = m0, m3 = m0;
    std::size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      m0 = hn::Max(m0, hn::LoadU(d, x + i));
      m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
      m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
      m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i < n; i += lanes) m0 = hn::Max(m0, load(x + i, n - i, lowest));
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
  }

  // Σ term(i), with the lanes widened to double once per block. `term` takes (position, valid
  // lanes) and returns a vector whose lanes past the valid ones are 0.
  template <class Term>
  static HWY_INLINE double sum(std::size_t n, Term term) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    // Narrow vectors widen more often, so that no lane adds more than 16 terms in sequence.
    const std::size_t block = std::min(sum_block, 64 * lanes);
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += block) {
      const std::size_t end = std::min(n, begin + block);
      V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      std::size_t i = begin;
      for (; i + 4 * lanes <= end; i += 4 * lanes) {
        s0 = hn::Add(s0, term(i, lanes));
        s1 = hn::Add(s1, term(i + lanes, lanes));
        s2 = hn::Add(s2, term(i + 2 * lanes, lanes));
        s3 = hn::Add(s3, term(i + 3 * lanes, lanes));
      }
      for (; i < end; i += lanes) s0 = hn::Add(s0, term(i, std::min(lanes, end - i)));
      total += sum_of_lanes(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
    }
    return total;
  }

  // Calls element(i, valid lanes) for every vector of a row; the last one may be partial.
  template <class Element>
  static HWY_INLINE void for_each_vector(std::size_t n, Element element) {
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      element(i, lanes);
      element(i + lanes, lanes);
    }
    for (; i < n; i += lanes) element(i, std::min(lanes, n - i));
  }

  // exp(x − m), 0 past the row's end, so that it can be summed. Also prefetches the elements
  // `ahead` further: the next row, whose maximum is searched next.
  struct ShiftedExp {
    const T* x;
    V m;
    T* out;             // null: not stored
    std::size_t ahead;  // 0: no prefetch
    HWY_INLINE V operator()(std::size_t i, std::size_t count) const {
      const D d;
      if (ahead != 0) {
        prefetch<0>(x, i + ahead);
        if (out != nullptr) prefetch<1>(out, i + ahead);
      }
      const V shifted = hn::Sub(load(x + i, count, -std::numeric_limits<T>::infinity()), m);
      const V e = ExpOfNegative(d, shifted);
      if (out != nullptr) store(e, out + i, count);
      if (count >= hn::Lanes(d)) return e;
      return hn::IfThenElseZero(hn::FirstN(d, count), e);
    }
  };

  // The address may be past the end of the memory, so it is not computed as a pointer.
  template <int kWrite>
  static HWY_INLINE void prefetch(const T* base, std::size_t offset) {
    if constexpr (hn::MaxLanes(D()) * sizeof(T) >= 32) {
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(base) +
                                                       offset * sizeof(T)),
                         kWrite);
    }
  }

  static double sum_of_exp(const T* x, T m, T* out, std::size_t n) {
    const D d;
    const std::size_t ahead = n * sizeof(T) <= longest_prefetched_row ? n : 0;
    return sum(n, ShiftedExp{x, hn::Set(d, m), out, ahead});
  }
};

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_ROW_INL_H_
