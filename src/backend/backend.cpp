#include "backend/backend.h"

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/convolution/convolution.h"
#include "backend/cpu/dropout.h"
#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/embedding.h"
#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/losses/losses.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/normalization/normalization.h"
#include "backend/cpu/optimizer/optimizer.h"
#include "backend/cpu/pooling/pooling.h"
#include "backend/cpu/random.h"
#include "backend/cpu/recurrent/recurrent.h"
#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/rows/rows.h"
#include "core/check.h"
#include "extensor/error.h"

namespace extensor::backend {

const Backend& backend_for(const Device& device) {
  static constexpr Backend cpu_backend{.elementwise = &cpu::elementwise,
                                       .reduce = &cpu::reduce,
                                       .rows = &cpu::rows,
                                       .matmul = &cpu::matmul,
                                       .random = &cpu::random,
                                       .loss = &cpu::loss,
                                       .class_loss = &cpu::class_loss,
                                       .embedding = &cpu::embedding,
                                       .dropout = &cpu::dropout,
                                       .check_indices = &cpu::check_indices,
                                       .index = &cpu::index,
                                       .select = &cpu::select,
                                       .nonzero = &cpu::nonzero,
                                       .sort = &cpu::sort,
                                       .search = &cpu::search,
                                       .scan = &cpu::scan,
                                       .attention = &cpu::attention,
                                       .attention_backward = &cpu::attention_backward,
                                       .normalize_rows = &cpu::normalize_rows,
                                       .normalize_batch = &cpu::normalize_batch,
                                       .optimizer_step = &cpu::optimizer_step,
                                       .power_sum = &cpu::power_sum,
                                       .convolution = &cpu::convolution,
                                       .pooling = &cpu::pooling,
                                       .recurrent = &cpu::recurrent,
                                       .recurrent_backward = &cpu::recurrent_backward};
  if (device.type == Device::Type::cpu) return cpu_backend;
  throw DeviceError(detail::message("this build has no backend for device ", device));
}

}  // namespace extensor::backend
