#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_bfloat16() { return make_contiguous<__nv_bfloat16>(); }

}  // namespace extensor::backend::cuda
