// A variational autoencoder learns to draw digits from two numbers.
#include <extensor/extensor.h>

#include <cstdio>
#include <cstring>

using namespace extensor;

namespace {

struct Vae : nn::Module<Vae> {
  nn::Linear hidden{784, 128}, mean{128, 2}, log_variance{128, 2};
  nn::Sequential decoder{nn::Linear(2, 128), nn::ReLU(), nn::Linear(128, 784)};

  struct Result {
    Tensor logits, mean, log_variance;
  };
  Result forward(const Tensor& x) const {
    const Tensor h = relu(hidden(x));
    const Tensor mu = mean(h), log_var = log_variance(h);
    const Tensor code = mu + exp(log_var * 0.5) * randn(mu.shape());
    return {decoder(code), mu, log_var};
  }
};

// The negative ELBO: reconstruction error plus KL divergence of the codes from N(0, 1).
Tensor description_length(const Vae::Result& result, const Tensor& x) {
  const Tensor error = binary_cross_entropy_with_logits(result.logits, x, Reduction::sum);
  const Tensor distance =
      sum(exp(result.log_variance) + square(result.mean) - 1.0 - result.log_variance) * 0.5;
  return (error + distance) / static_cast<double>(x.size(0));
}

void draw(const Tensor& image) {
  for (std::int64_t row = 0; row < 28; row += 2) {
    for (std::int64_t column = 0; column < 28; ++column) {
      const float ink = image[row * 28 + column].item<float>();
      std::printf("%s", ink > 0.66F ? "█" : ink > 0.33F ? "▒" : " ");
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const std::int64_t steps = quick ? 20 : 1500, batch = 64;
  const auto digits = data::digits(quick ? 640 : 12800, 1);
  const Tensor x = digits.images.reshape({-1, 784}).to(float32) / 255;

  manual_seed(0);
  Vae model;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t first = step * batch % x.size(0);
    const Tensor part = x.slice(0, first, first + batch);
    const Tensor loss = description_length(model(part), part);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 250 == 0) {
      std::printf("step %4lld  %.1f nats an image\n", static_cast<long long>(step),
                  loss.item<float>());
    }
  }
  const NoGrad no_graph;
  draw(sigmoid(model.decoder(zeros({1, 2})))[0]);
}
