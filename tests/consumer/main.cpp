#include <extensor/extensor.h>

#include <iostream>

int main() {
  const auto sum = extensor::ones({2, 3}) + 1.0;
  std::cout << sum << "\n";
  return sum[{1, 2}].item<float>() == 2.0f ? 0 : 1;
}
