// The elementwise losses in float64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/losses/float64.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/losses/loss_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {
const LossKernels<double>* make_loss_kernels_float64() { return make_loss_kernels<double>(); }
}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {
const LossKernels<double>* loss_kernels_float64() {
  static const LossKernels<double>* kernels = EXTENSOR_DISPATCH(make_loss_kernels_float64)();
  return kernels;
}
}  // namespace extensor::cpu
#endif
