#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/interpolation/kernels.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/interpolation/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Interpolation {
  using D = hn::ScalableTag<T>;

  // Calls body(d, i) for vectors that cover n elements. The last vector is moved back so that it
  // ends with the row, and computes some elements twice.
  template <class Body>
  static HWY_INLINE void ForVectors(std::size_t n, Body body) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    if (n >= lanes) {
      std::size_t i = 0;
      for (; i + lanes <= n; i += lanes) body(d, i);
      if (i < n) body(d, n - lanes);
    } else {
      const hn::CappedTag<T, 1> one;
      for (std::size_t i = 0; i < n; ++i) body(one, i);
    }
  }

  // `count` is a compile-time number for the usual cases.
  template <class Count>
  static HWY_INLINE void WeighRows(const T* const* rows, const T* weights, Count count, T* out,
                                   std::size_t n) {
    ForVectors(n, [&](auto d, std::size_t i) HWY_ATTR {
      auto sum = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, rows[0] + i));
      for (std::size_t k = 1; k < count; ++k) {
        sum = hn::MulAdd(hn::Set(d, weights[k]), hn::LoadU(d, rows[k] + i), sum);
      }
      hn::StoreU(sum, d, out + i);
    });
  }

  static void weigh_rows(const T* const* rows, const T* weights, std::size_t count, T* out,
                         std::size_t n) {
    switch (count) {
      case 0:
        for (std::size_t i = 0; i < n; ++i) out[i] = 0;
        return;
      case 2:
        return WeighRows(rows, weights, std::integral_constant<std::size_t, 2>(), out, n);
      case 4:
        return WeighRows(rows, weights, std::integral_constant<std::size_t, 4>(), out, n);
      default:
        return WeighRows(rows, weights, count, out, n);
    }
  }

  // The elements of slot `term` (of all vectors).
  template <bool wide>
  static HWY_INLINE hn::Vec<D> Pick(const T* x, const TapWindows<T>& windows, std::size_t term) {
    const D d;
    const hn::RebindToSigned<D> numbers;
    const auto index = hn::LoadU(numbers, windows.indices + term * hn::Lanes(d));
    const TapIndex<T> start = windows.starts[term];
    if (HWY_UNLIKELY(start < 0)) return hn::GatherIndex(d, x, index);
    const auto low = hn::LoadU(d, x + start);
    if constexpr (!wide) return hn::TableLookupLanes(low, hn::IndicesFromVec(d, index));
    const auto count = static_cast<TapIndex<T>>(hn::Lanes(d));
    const auto lanes = hn::IndicesFromVec(d, hn::And(index, hn::Set(numbers, count - 1)));
    const auto in_low = hn::RebindMask(d, hn::Lt(index, hn::Set(numbers, count)));
    return hn::IfThenElse(in_low, hn::TableLookupLanes(low, lanes),
                          hn::TableLookupLanes(hn::LoadU(d, x + start + hn::Lanes(d)), lanes));
  }

  template <bool wide, class Slots>
  static HWY_INLINE void WeighWindows(const T* x, const TapWindows<T>& windows, Slots slots,
                                      T* out) {
    const D d;
    const std::size_t vectors = windows.vectors();
    for (std::size_t v = 0; v < vectors; ++v) {
      auto sum = hn::Zero(d);
      for (std::size_t term = v * slots; term < (v + 1) * slots; ++term) {
        const auto weight = hn::LoadU(d, windows.weights + term * hn::Lanes(d));
        // An unused infinity must not become NaN.
        const auto used = hn::Ne(weight, hn::Zero(d));
        sum = hn::MulAdd(weight, hn::IfThenElseZero(used, Pick<wide>(x, windows, term)), sum);
      }
      hn::StoreU(sum, d, out + windows.first_sum(v));
    }
  }

  // The number of slots is a compile-time number for the usual cases.
  template <bool wide>
  static void WeighSlots(const T* x, const TapWindows<T>& windows, T* out) {
    switch (windows.slots) {
      case 2:
        return WeighWindows<wide>(x, windows, std::integral_constant<std::size_t, 2>(), out);
      case 4:
        return WeighWindows<wide>(x, windows, std::integral_constant<std::size_t, 4>(), out);
      default:
        return WeighWindows<wide>(x, windows, windows.slots, out);
    }
  }
  static void weigh_windows(const T* x, const TapWindows<T>& windows, T* out) {
    return windows.wide ? WeighSlots<true>(x, windows, out) : WeighSlots<false>(x, windows, out);
  }

  template <bool wide>
  static HWY_INLINE void TakeWindows(const T* x, const TapWindows<T>& windows, T* out) {
    const std::size_t vectors = windows.vectors();
    for (std::size_t v = 0; v < vectors; ++v) {
      hn::StoreU(Pick<wide>(x, windows, v), D(), out + windows.first_sum(v));
    }
  }
  static void take_windows(const T* x, const TapWindows<T>& windows, T* out) {
    return windows.wide ? TakeWindows<true>(x, windows, out) : TakeWindows<false>(x, windows, out);
  }
};

template <class T>
void fill_interpolation_kernels(InterpolationKernels<T>* kernels) {
  *kernels = {hn::Lanes(hn::ScalableTag<T>()), &Interpolation<T>::weigh_rows,
              &Interpolation<T>::weigh_windows, &Interpolation<T>::take_windows};
}
template void fill_interpolation_kernels(InterpolationKernels<float>*);
template void fill_interpolation_kernels(InterpolationKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {

template <class T>
const InterpolationKernels<T>& interpolation_kernels() {
  static const InterpolationKernels<T> kernels = [] {
    InterpolationKernels<T> filled;
    EXTENSOR_DISPATCH(fill_interpolation_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const InterpolationKernels<float>& interpolation_kernels();
template const InterpolationKernels<double>& interpolation_kernels();

}  // namespace extensor::cpu
#endif
