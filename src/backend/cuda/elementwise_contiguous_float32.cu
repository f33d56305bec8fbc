#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_float32() { return make_contiguous<float>(); }

}  // namespace extensor::backend::cuda
