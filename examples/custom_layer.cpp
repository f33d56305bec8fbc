// A custom layer and a custom gradient: rounding with a straight-through gradient.
#include <extensor/extensor.h>

#include <cstdio>

using namespace extensor;

namespace {

// Rounds to multiples of 1/8. The true gradient is 0 almost everywhere; this one is the identity.
Tensor quantized(const Tensor& x) {
  static const CustomFunction function(
      "quantized",
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{round(in[0] * 8.0) / 8.0}; },
      [](const std::vector<Tensor>& g, const std::vector<Tensor>&, const std::vector<Tensor>&) {
        return std::vector<Tensor>{g[0]};
      });
  return function({x})[0];
}

// A struct is a module: its members are registered automatically.
struct Gated : nn::Module<Gated> {
  nn::Linear value{2, 16}, gate{2, 16}, out{16, 1};
  nn::Parameter temperature{ones({})};
  Tensor forward(const Tensor& x) const {
    const Tensor open = sigmoid(gate(x) * temperature.tensor());
    return out(quantized(tanh(value(x)) * open));
  }
};

}  // namespace

int main() {
  manual_seed(1);
  const Tensor x = rand({512, 2}) * 2.0 - 1.0;
  const Tensor y = x.slice(1, 0, 1) * x.slice(1, 1, 2);  // not a linear function of x

  Gated model;
  std::printf("%s", model.summary().c_str());
  optim::Adam optimizer(model.parameters(), {.lr = 0.02});
  float loss_now = 1;
  for (int step = 0; step <= 400; ++step) {
    const Tensor loss = mean_squared_error(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_now = loss.item<float>();
    if (step % 100 == 0) std::printf("step %3d  loss %.5f\n", step, loss_now);
  }
  return loss_now < 0.02F ? 0 : 1;
}
