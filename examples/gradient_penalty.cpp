// Second derivatives: a critic whose gradient norm is kept at 1 by a penalty, as in a Wasserstein
// GAN. The loss contains a gradient, so training computes the gradient of a gradient.
#include <extensor/extensor.h>

#include <cstdio>
#include <cstring>

using namespace extensor;

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const int steps = quick ? 20 : 500;
  constexpr std::int64_t batch = 128;
  manual_seed(0);
  nn::Sequential critic{nn::Linear(2, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                        nn::Linear(64, 1)};
  optim::Adam optimizer(critic.parameters(), {.lr = 2e-3});
  for (int step = 0; step <= steps; ++step) {
    const Tensor real = randn({batch, 2}) * 0.2 + 1.0, fake = randn({batch, 2}) * 0.2 - 1.0;

    // At random points between the two, the critic should have slope 1.
    const Tensor share = rand({batch, 1});
    const Tensor between = (real * share + fake * (1.0 - share)).requires_grad_();
    const Tensor slope = grad(sum(critic(between)), {between}, {.create_graph = true})[0];
    const Tensor penalty = mean(square(norm(slope, 2, 1) - 1.0));

    const Tensor distance = mean(critic(real)) - mean(critic(fake));
    const Tensor loss = penalty * 10.0 - distance;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) {
      std::printf("step %3d  distance %.3f  penalty %.4f\n", step, distance.item<float>(),
                  penalty.item<float>());
    }
  }
  std::printf("the clouds are %.3f apart\n", 2 * 1.41421356);
}
