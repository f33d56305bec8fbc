// Families without kernels yet: weak definitions that throw. The file of a family replaces its
// line.
#include "backend/cuda/kernels.h"
#include "core/check.h"

namespace extensor::backend::cuda {

#define EXTENSOR_MISSING(family, Call)                                         \
  __attribute__((weak)) void family(const Call&) {                             \
    throw DeviceError(detail::message(#family ": not available on cuda yet")); \
  }
EXTENSOR_MISSING(matmul, MatmulCall)
EXTENSOR_MISSING(attention, AttentionCall)
EXTENSOR_MISSING(attention_backward, AttentionBackwardCall)
EXTENSOR_MISSING(convolution, ConvolutionCall)
EXTENSOR_MISSING(pooling, PoolingCall)
EXTENSOR_MISSING(recurrent, RecurrentCall)
EXTENSOR_MISSING(recurrent_backward, RecurrentBackwardCall)
#undef EXTENSOR_MISSING

}  // namespace extensor::backend::cuda
