#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_float64() {
  static const ContiguousTable table = make_contiguous<double>();
  return table.data();
}

}  // namespace extensor::backend::cuda
