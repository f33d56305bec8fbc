// ResNet-18 on coloured digits, with warm-up and a cosine schedule.
#include <extensor/extensor.h>

#include <cstdio>
#include <cstring>

using namespace extensor;

namespace {

// Converts 28 × 28 grayscale images to 32 × 32 images in a random colour.
Tensor coloured(const Tensor& images) {
  const Tensor grey = pad(images.to(float32) / 255, {{0, 0}, {2, 2}, {2, 2}}).unsqueeze(1);
  return grey * (rand({images.size(0), 3, 1, 1}) * 0.5 + 0.5);
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const std::int64_t steps = quick ? 2 : 60, batch = quick ? 8 : 32;
  manual_seed(0);
  models::ResNet18 model;
  std::printf("%lld parameters\n", static_cast<long long>(model.parameter_count()));
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  optim::LinearLR warm_up(optimizer, {.start_factor = 0.1, .total_iters = 10});
  optim::CosineAnnealingLR cosine(optimizer, {.t_max = 50});
  optim::SequentialLR schedule(optimizer, {warm_up, cosine}, {10});
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto part = data::digits(batch, 1, step * batch);
    const Tensor loss = cross_entropy(model(coloured(part.images)), part.labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 10 == 0 || quick) {
      std::printf("step %2lld  rate %.4f  loss %.4f\n", static_cast<long long>(step),
                  optimizer.lr(), loss.item<float>());
    }
    schedule.step();
  }
}
