#include "backend/cuda/elementwise_strided.cuh"

namespace extensor::backend::cuda {

const StridedKernel* strided_int64() { return make_strided_integers<std::int64_t>(); }
const StridedKernel* strided_uint64() { return make_strided_integers<std::uint64_t>(); }

}  // namespace extensor::backend::cuda
