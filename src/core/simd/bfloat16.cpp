#include "core/simd/bfloat16.h"

#include <cstdlib>
#include <string_view>

#include "core/simd/target.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace extensor::detail {

namespace {

bool decide() {
  if (simd_target() != SimdTarget::avx512) return false;
  const char* wish = std::getenv("EXTENSOR_SIMD");
  if (wish != nullptr && std::string_view(wish) == name(SimdTarget::avx512)) return false;
#if defined(__x86_64__)
  // Uses cpuid: older versions of __builtin_cpu_supports do not know the name.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 5)) != 0;
#else
  return false;
#endif
}

}  // namespace

bool has_bfloat16_products() {
  static const bool has = decide();
  return has;
}

}  // namespace extensor::detail
