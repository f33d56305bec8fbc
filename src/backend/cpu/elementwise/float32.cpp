// The elementwise kernels in float32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise/float32.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/elementwise/float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {
ElementwiseTable make_float32_table() { return make_float_table<float>(); }
}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu {
const ElementwiseTable& elementwise_table_float32() {
  static const ElementwiseTable table = EXTENSOR_DISPATCH(make_float32_table)();
  return table;
}
}  // namespace extensor::cpu
#endif
