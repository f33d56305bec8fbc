#include "backend/cuda/elementwise_strided.cuh"

namespace extensor::backend::cuda {

const StridedKernel* strided_float32() {
  static const StridedTable table = make_strided_floats<float>();
  return table.data();
}

}  // namespace extensor::backend::cuda
