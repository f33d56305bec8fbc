#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_float64() { return make_contiguous<double>(); }

}  // namespace extensor::backend::cuda
