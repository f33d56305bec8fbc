// A wide perceptron with batch norm.
#pragma once

#include <extensor/extensor.h>

namespace extensor::bench {

struct WideMlp : nn::Module<WideMlp> {
  nn::Linear fc1{1024, 2048};
  nn::BatchNorm1d bn1{2048};
  nn::Linear fc2{2048, 2048};
  nn::BatchNorm1d bn2{2048};
  nn::Linear fc3{2048, 10};
  // [n, 1024] → [n, 10]
  Tensor forward(const Tensor& x) const { return fc3(relu(bn2(fc2(relu(bn1(fc1(x))))))); }
};

}  // namespace extensor::bench
