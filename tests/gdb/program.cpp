// Variables for tests/gdb/run.sh to print.
#include <extensor/extensor.h>

__attribute__((noinline)) void stop_here(const extensor::Tensor&) { asm volatile(""); }

int main() {
  using namespace extensor;
  Tensor undefined;
  Tensor matrix = tensor({{1.F, 2.F, 3.F}, {4.F, 5.F, 6.5F}});
  Tensor transposed = matrix.transpose();
  Tensor learned = full({2}, 0.25).requires_grad_();
  Tensor half = tensor({1.5F, -2.F}).to(bfloat16);
  Tensor empty = zeros({0, 3}, int64);
  Tensor scalar = full({}, 7, uint8);
  Tensor large = arange(1000);
  nn::Parameter parameter(matrix);
  Shape shape = matrix.shape(), many = Shape(8, 1);
  DType dtype = half.dtype();
  stop_here(matrix);
  return static_cast<int>(shape.size() + many.size()) * 0 + (dtype == bfloat16 ? 0 : 1);
}
