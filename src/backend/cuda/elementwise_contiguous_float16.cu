#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_float16() {
  static const ContiguousTable table = make_contiguous<__half>();
  return table.data();
}

}  // namespace extensor::backend::cuda
