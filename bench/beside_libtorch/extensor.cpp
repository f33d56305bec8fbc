// A network of two layers learns random digits: the program that beside_libtorch.py builds and
// runs. Its argument is the number of steps.
#include <extensor/extensor.h>

#include <cstdlib>
#include <iostream>

namespace nn = ext::nn;

struct Net : nn::Module<Net> {
  nn::Linear hidden{784, 128}, out{128, 10};
  ext::Tensor forward(const ext::Tensor& x) { return out(ext::relu(hidden(x))); }
};

int main(int, char** argv) {
  Net net;
  ext::optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  const ext::Tensor x = ext::randn({64, 784}), y = ext::randint(0, 10, {64});
  ext::Tensor loss = ext::zeros({});
  for (int step = 0; step < std::atoi(argv[1]); ++step) {
    loss = ext::cross_entropy(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  std::cout << "loss " << loss.item<float>() << "\n";
}
