#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pixels.cpp"
#include "hwy/foreach_target.h"
// Highway requires this include after foreach_target.h.
#include "data/pixels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::data::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// x / by, correctly rounded: multiplies by the reciprocal and corrects by the exact residual of a
// fused multiply-add, in a third of the time of a division. Where the correction is not finite,
// neither is x, and the plain product is returned.
HWY_INLINE V divided(V x, V by, V reciprocal) {
#if HWY_NATIVE_FMA
  const V rough = hn::Mul(x, reciprocal);
  const V better = hn::MulAdd(hn::NegMulAdd(rough, by, x), reciprocal, rough);
  return hn::IfThenElse(hn::IsFinite(better), better, rough);
#else
  (void)reciprocal;
  return hn::Div(x, by);
#endif
}

void parts(const std::uint8_t* from, float* to, std::size_t count) {
  const D d;
  const hn::Rebind<std::int32_t, D> as_int;
  const hn::Rebind<std::uint8_t, D> as_byte;
  const V by = hn::Set(d, 255.F), reciprocal = hn::Set(d, 1 / 255.F);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V value = hn::ConvertTo(d, hn::PromoteTo(as_int, hn::LoadU(as_byte, from + i)));
    hn::StoreU(divided(value, by, reciprocal), d, to + i);
  }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]) / 255.F;
}

void normalize(float* pixels, std::size_t count, float less, float by) {
  const D d;
  const V subtracted = hn::Set(d, less), divisor = hn::Set(d, by), part = hn::Set(d, 1 / by);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V value = hn::Sub(hn::LoadU(d, pixels + i), subtracted);
    hn::StoreU(divided(value, divisor, part), d, pixels + i);
  }
  for (; i < count; ++i) pixels[i] = (pixels[i] - less) / by;
}

void split(const std::uint8_t* from, std::uint8_t* first, std::uint8_t* second, std::uint8_t* third,
           std::size_t count) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, from + 3 * i, a, b, c);
    hn::StoreU(a, d, first + i);
    hn::StoreU(b, d, second + i);
    hn::StoreU(c, d, third + i);
  }
  for (; i < count; ++i) {
    first[i] = from[3 * i];
    second[i] = from[3 * i + 1];
    third[i] = from[3 * i + 2];
  }
}

void fill_pixel_kernels(PixelKernels* kernels) { *kernels = {&parts, &normalize, &split}; }

}  // namespace extensor::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::data {

const PixelKernels& pixel_kernels() {
  static const PixelKernels kernels = [] {
    PixelKernels filled;
    EXTENSOR_DISPATCH(fill_pixel_kernels)(&filled);
    return filled;
  }();
  return kernels;
}

}  // namespace extensor::data
#endif
