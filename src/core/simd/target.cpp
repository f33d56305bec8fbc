#include "core/simd/target.h"

#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace extensor::detail {

namespace {

#if defined(__x86_64__)
// Uses cpuid: Clang's __builtin_cpu_supports does not know the name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

SimdTarget best_on_this_machine() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Highway's targets assume more than the vector width alone.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  if (avx512) return SimdTarget::avx512;
  if (avx2) return SimdTarget::avx2;
#endif
  return SimdTarget::scalar;
}

SimdTarget decide() {
  const SimdTarget best = best_on_this_machine();
  const char* wish = std::getenv("EXTENSOR_SIMD");
  if (wish == nullptr) return best;
  for (SimdTarget target : {SimdTarget::scalar, SimdTarget::avx2}) {
    if (std::string_view(wish) == name(target) && target < best) return target;
  }
  return best;
}

}  // namespace

SimdTarget simd_target() {
  static const SimdTarget target = decide();
  return target;
}

const char* name(SimdTarget target) {
  constexpr const char* names[] = {"scalar", "avx2", "avx512"};
  return names[static_cast<int>(target)];
}

}  // namespace extensor::detail
