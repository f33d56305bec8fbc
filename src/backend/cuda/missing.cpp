// Families without kernels yet: weak definitions that throw. The file of a family replaces its
// line.
#include "backend/cuda/kernels.h"
#include "core/check.h"

namespace extensor::backend::cuda {

#define EXTENSOR_MISSING(family, Call)                                         \
  __attribute__((weak)) void family(const Call&) {                             \
    throw DeviceError(detail::message(#family ": not available on cuda yet")); \
  }
EXTENSOR_MISSING(rows, RowCall)
EXTENSOR_MISSING(matmul, MatmulCall)
EXTENSOR_MISSING(loss, LossCall)
EXTENSOR_MISSING(class_loss, ClassLossCall)
EXTENSOR_MISSING(class_block, ClassBlockCall)
EXTENSOR_MISSING(embedding, EmbeddingCall)
EXTENSOR_MISSING(check_integers, CheckIntegersCall)
EXTENSOR_MISSING(index, IndexCall)
EXTENSOR_MISSING(select, SelectCall)
EXTENSOR_MISSING(nonzero, NonzeroCall)
EXTENSOR_MISSING(sort, SortCall)
EXTENSOR_MISSING(search, SearchCall)
EXTENSOR_MISSING(scan, ScanCall)
EXTENSOR_MISSING(attention, AttentionCall)
EXTENSOR_MISSING(attention_backward, AttentionBackwardCall)
EXTENSOR_MISSING(normalize_rows, RowNormalizationCall)
EXTENSOR_MISSING(normalize_batch, BatchNormalizationCall)
EXTENSOR_MISSING(optimizer_step, OptimizerCall)
EXTENSOR_MISSING(convolution, ConvolutionCall)
EXTENSOR_MISSING(pooling, PoolingCall)
EXTENSOR_MISSING(recurrent, RecurrentCall)
EXTENSOR_MISSING(recurrent_backward, RecurrentBackwardCall)
#undef EXTENSOR_MISSING

}  // namespace extensor::backend::cuda
