// Linear regression: the shortest complete training loop.
#include <extensor/extensor.h>

#include <cstdio>

using namespace extensor;

int main() {
  manual_seed(0);
  const Tensor x = rand({256, 1}) * 4.0 - 2.0;
  const Tensor y = x * 3.0 - 1.0 + randn({256, 1}) * 0.1;

  nn::Linear line(1, 1);
  optim::SGD optimizer(line.parameters(), {.lr = 0.1});
  for (int step = 0; step <= 60; ++step) {
    const Tensor loss = mean_squared_error(line(x), y);
    if (step % 10 == 0) std::printf("step %2d  loss %.4f\n", step, loss.item<float>());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  const float slope = line.weight.tensor().item<float>(), offset = line.bias.tensor().item<float>();
  std::printf("y = %.2f x %+.2f (the points were made with 3 x - 1)\n", slope, offset);
  return slope > 2.9F && slope < 3.1F ? 0 : 1;
}
