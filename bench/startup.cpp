// The smallest program: adds two tensors. The benchmark times the whole process.
#include <extensor/extensor.h>

int main() {
  const auto sum = extensor::ones({3}) + extensor::ones({3});
  return sum[0].item<float>() == 2.0f ? 0 : 1;
}
