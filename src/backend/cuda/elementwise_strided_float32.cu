#include "backend/cuda/elementwise_strided.cuh"

namespace extensor::backend::cuda {

const StridedKernel* strided_float32() { return make_strided_floats<float>(); }

}  // namespace extensor::backend::cuda
