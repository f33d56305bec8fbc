// Matrix products: the matmul family.
#include "backend/cuda/kernels.h"
#include "backend/cuda/product.h"

namespace extensor::backend::cuda {

void matmul(const MatmulCall& call) {
  Product product{};
  product.dtype = product.result = call.dtype;
  product.m = call.m;
  product.n = call.n;
  product.k = call.k;
  product.batch = call.batch;
  if (call.batch == 0 || call.m == 0 || call.n == 0) return;
  product.a = {call.a.data, call.a.strides[0], call.a.strides[1], call.a_offsets};
  product.b = {call.b.data, call.b.strides[0], call.b.strides[1], call.b_offsets};
  product.c = call.c.data;
  product.c_row_stride = call.n;
  product.c_offsets = call.c_offsets;
  product.bias = call.bias;
  product.activation = call.activation;
  product.accumulate = call.accumulate;
  multiply(product, "matmul");
}

}  // namespace extensor::backend::cuda
