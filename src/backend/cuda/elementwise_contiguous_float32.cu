#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_float32() {
  static const ContiguousTable table = make_contiguous<float>();
  return table.data();
}

}  // namespace extensor::backend::cuda
