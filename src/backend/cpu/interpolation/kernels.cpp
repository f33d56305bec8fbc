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

  template <class Count>
  static HWY_INLINE void WeighElements(const T* x, const TapIndex<T>* index, const T* weights,
                                       Count count, T* out, std::size_t n) {
    ForVectors(n, [&](auto d, std::size_t i) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> numbers;
      auto sum = hn::Zero(d);
      for (std::size_t k = 0; k < count; ++k) {
        const auto weight = hn::LoadU(d, weights + k * n + i);
        const auto value = hn::GatherIndex(d, x, hn::LoadU(numbers, index + k * n + i));
        // An unused infinity must not become NaN.
        const auto used = hn::Ne(weight, hn::Zero(d));
        sum = hn::MulAdd(weight, hn::IfThenElseZero(used, value), sum);
      }
      hn::StoreU(sum, d, out + i);
    });
  }

  static void weigh_elements(const T* x, const TapIndex<T>* index, const T* weights,
                             std::size_t count, T* out, std::size_t n) {
    switch (count) {
      case 2:
        return WeighElements(x, index, weights, std::integral_constant<std::size_t, 2>(), out, n);
      case 4:
        return WeighElements(x, index, weights, std::integral_constant<std::size_t, 4>(), out, n);
      default:
        return WeighElements(x, index, weights, count, out, n);
    }
  }

  static void take_elements(const T* x, const TapIndex<T>* index, T* out, std::size_t n) {
    ForVectors(n, [&](auto d, std::size_t i) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> numbers;
      hn::StoreU(hn::GatherIndex(d, x, hn::LoadU(numbers, index + i)), d, out + i);
    });
  }
};

template <class T>
void fill_interpolation_kernels(InterpolationKernels<T>* kernels) {
  *kernels = {&Interpolation<T>::weigh_rows, &Interpolation<T>::weigh_elements,
              &Interpolation<T>::take_elements};
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
