#include "backend/cuda/elementwise_strided.cuh"

namespace extensor::backend::cuda {

const StridedKernel* strided_float64() { return make_strided_floats<double>(); }

}  // namespace extensor::backend::cuda
