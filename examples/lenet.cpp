// LeNet-5 learns to read digits.
#include <extensor/extensor.h>

#include <cstdio>
#include <cstring>

using namespace extensor;

namespace {

Tensor as_inputs(const Tensor& images) { return images.unsqueeze(1).to(float32) / 255; }

double accuracy(models::LeNet& model, const Tensor& x, const Tensor& labels) {
  const NoGrad no_graph;
  return mean(equal(argmax(model(x), 1), labels)).item<float>();
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const std::int64_t digits = quick ? 2048 : 20480, batch = 64;
  const auto train = data::digits(digits, 1), test = data::digits(1024, 2);
  const Tensor x = as_inputs(train.images), test_x = as_inputs(test.images);

  manual_seed(0);
  models::LeNet model;
  std::printf("%s\n", model.summary().c_str());
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-3});
  for (int epoch = 1; epoch <= 2; ++epoch) {
    const Tensor order = randperm(digits);
    double total = 0;
    for (std::int64_t first = 0; first < digits; first += batch) {
      const Tensor picked = order.slice(0, first, first + batch);
      const Tensor loss = cross_entropy(model(take(x, picked, 0)), take(train.labels, picked, 0));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      total += loss.item<float>();
    }
    std::printf("epoch %d  loss %.4f  accuracy %.2f %%\n", epoch,
                total * static_cast<double>(batch) / static_cast<double>(digits),
                100 * accuracy(model, test_x, test.labels));
  }
  return accuracy(model, test_x, test.labels) > (quick ? 0.5 : 0.97) ? 0 : 1;
}
