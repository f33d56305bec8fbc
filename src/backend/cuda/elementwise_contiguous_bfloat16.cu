#include "backend/cuda/elementwise_contiguous.cuh"

namespace extensor::backend::cuda {

const ContiguousKernel* contiguous_bfloat16() {
  static const ContiguousTable table = make_contiguous<__nv_bfloat16>();
  return table.data();
}

}  // namespace extensor::backend::cuda
