// A network of two layers, 784-128-10, learns to read digits. Every gradient is an explicit call,
// in the reverse order of the forward pass.
//
//   ./ex train
#include <extensor/extensor.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

using namespace extensor;

namespace {

struct Network {
  Tensor weight1, bias1, weight2, bias2;
};

// The results of the forward pass that the backward pass needs.
struct Activations {
  Tensor hidden, logits;
};

Network make_network(Generator& generator) {
  return {kaiming_normal({128, 784}, 0, FanMode::fan_in, Nonlinearity::relu, float32, generator),
          zeros({128}),
          kaiming_normal({10, 128}, 0, FanMode::fan_in, Nonlinearity::linear, float32, generator),
          zeros({10})};
}

Activations forward(const Network& network, const Tensor& images) {
  const Tensor hidden = linear(images, network.weight1, network.bias1, Activation::relu);
  return {hidden, linear(hidden, network.weight2, network.bias2)};
}

// One step of gradient descent; returns the loss.
double train_on(Network& network, const Tensor& images, const Tensor& labels, double rate) {
  const Activations at = forward(network, images);
  const Tensor loss = cross_entropy(at.logits, labels);

  const Tensor grad_logits = cross_entropy_backward(ones({}), at.logits, labels).first;
  const LinearGradients second = linear_backward(grad_logits, at.hidden, network.weight2);
  const Tensor grad_hidden = relu_backward(second.x, at.hidden);
  const LinearGradients first = linear_backward(grad_hidden, images, network.weight1);

  const SgdOptions options{.lr = rate};
  sgd_step(network.weight1, first.weight, options);
  sgd_step(network.bias1, first.bias, options);
  sgd_step(network.weight2, second.weight, options);
  sgd_step(network.bias2, second.bias, options);
  return loss.item<float>();
}

double accuracy(const Network& network, const Tensor& images, const Tensor& labels) {
  const Tensor answers = argmax(forward(network, images).logits, 1);
  return mean(equal(answers, labels)).item<float>();
}

Tensor as_inputs(const Tensor& images) {
  return images.reshape({images.size(0), 784}).to(float32) / 255;
}

void show_progress(int epoch, std::int64_t done, std::int64_t total, double loss) {
  constexpr std::int64_t length = 30;
  std::string bar;
  for (std::int64_t i = 0; i < length; ++i) bar += i < length * done / total ? "█" : "░";
  std::fprintf(stderr, "\repoch %2d %s loss %.4f ", epoch, bar.c_str(), loss);
  std::fflush(stderr);
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const std::int64_t train_count = quick ? 2000 : 30000, test_count = quick ? 500 : 5000;
  const int epochs = quick ? 2 : 5;
  constexpr std::int64_t batch = 64;

  std::printf("drawing %lld digits to learn from and %lld to be tested on\n",
              static_cast<long long>(train_count), static_cast<long long>(test_count));
  const data::LabelledImages training = data::digits(train_count, 1);
  const data::LabelledImages validation = data::digits(test_count, 1, train_count);
  const Tensor images = as_inputs(training.images), test_images = as_inputs(validation.images);

  Generator generator(42);
  Network network = make_network(generator);
  const auto start = std::chrono::steady_clock::now();
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const double rate = 0.15 * (1 - static_cast<double>(epoch - 1) / epochs);
    const Tensor order = randperm(train_count, generator);
    double total = 0;
    std::int64_t steps = 0;
    for (std::int64_t at = 0; at + batch <= train_count; at += batch) {
      const Tensor chosen = order.slice(0, at, at + batch);
      total += train_on(network, take(images, chosen, 0), take(training.labels, chosen, 0), rate);
      if (++steps % 20 == 0) show_progress(epoch, at + batch, train_count, total / steps);
    }
    show_progress(epoch, train_count, train_count, total / steps);
    std::fprintf(stderr, "\n");
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double right = accuracy(network, test_images, validation.labels);
  std::printf("%.2f %% of %lld validation digits classified correctly, after %.1f s of training\n",
              100 * right, static_cast<long long>(test_count), seconds);
  return right >= (quick ? 0.5 : 0.97) ? 0 : 1;
}
