#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_float16() { return make_contiguous<__half>(); }

}  // namespace extensor::backend::cuda
