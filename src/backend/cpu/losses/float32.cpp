// The elementwise losses in float32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/losses/float32.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/losses/loss_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {
const LossKernels<float>* make_loss_kernels_float32() { return make_loss_kernels<float>(); }
}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {
const LossKernels<float>* loss_kernels_float32() {
  static const LossKernels<float>* kernels = EXTENSOR_DISPATCH(make_loss_kernels_float32)();
  return kernels;
}
}  // namespace extensor::cpu
#endif
