#include "backend/backend.h"

#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/random.h"
#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/rows/rows.h"
#include "core/check.h"
#include "extensor/error.h"

namespace extensor::backend {

const Backend& backend_for(const Device& device) {
  static constexpr Backend cpu_backend{&cpu::elementwise, &cpu::reduce, &cpu::rows, &cpu::matmul,
                                       &cpu::random};
  if (device.type == Device::Type::cpu) return cpu_backend;
  throw DeviceError(detail::message("this build has no backend for device ", device));
}

}  // namespace extensor::backend
