// The same program as extensor.cpp, with LibTorch.
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

struct NetImpl : torch::nn::Module {
  torch::nn::Linear hidden{784, 128}, out{128, 10};
  NetImpl() {
    register_module("hidden", hidden);
    register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(hidden(x))); }
};
TORCH_MODULE(Net);

int main(int, char** argv) {
  Net net;
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3));
  const torch::Tensor x = torch::randn({64, 784}), y = torch::randint(10, {64}, torch::kLong);
  torch::Tensor loss = torch::zeros({});
  for (int step = 0; step < std::atoi(argv[1]); ++step) {
    loss = torch::nn::functional::cross_entropy(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  std::cout << "loss " << loss.item<float>() << "\n";
}
