#include "backend/cuda/elementwise_strided.cuh"

namespace extensor::backend::cuda {

const StridedKernel* strided_int64() {
  static const StridedTable table = make_strided_integers<std::int64_t>();
  return table.data();
}
const StridedKernel* strided_uint64() {
  static const StridedTable table = make_strided_integers<std::uint64_t>();
  return table.data();
}

}  // namespace extensor::backend::cuda
