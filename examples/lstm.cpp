// An LSTM learns to continue a wave from its beginning.
#include <extensor/extensor.h>

#include <cmath>
#include <cstdio>
#include <cstring>

using namespace extensor;

namespace {

struct Forecaster : nn::Module<Forecaster> {
  nn::LSTM lstm{1, 32, {.batch_first = true}};
  nn::Linear out{32, 1};
  Tensor forward(const Tensor& x) const { return out(lstm(x).output); }  // [n, time, 1], as x
};

// Waves of different frequencies and phases, [count, length, 1].
Tensor waves(std::int64_t count, std::int64_t length) {
  const Tensor time = arange(length).to(float32);
  return sin(time * (rand({count, 1}) * 0.3 + 0.2) + rand({count, 1}) * 6.28).unsqueeze(2);
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const int steps = quick ? 10 : 300;
  manual_seed(0);
  Forecaster model;
  std::printf("%s", model.summary().c_str());
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  for (int step = 0; step < steps; ++step) {
    const Tensor wave = waves(32, 41);
    const Tensor loss =
        mean_squared_error(model(wave.slice(1, 0, 40)), wave.slice(1, 1, 41));  // the next value
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    if (step % 50 == 0) std::printf("step %3d  loss %.5f\n", step, loss.item<float>());
  }

  // Continue from the model's own output.
  const NoGrad no_graph;
  const Tensor truth = waves(1, 60);
  Tensor seen = truth.slice(1, 0, 30);
  while (seen.size(1) < 60) seen = concatenate({seen, model(seen).slice(1, -1)}, 1);
  for (std::int64_t t = 24; t < 60; t += 3) {
    const auto column = [&](const Tensor& x) {
      return static_cast<int>(std::lround(20 + 18 * x[{0, t, 0}].item<float>()));
    };
    std::printf("%2lld %*s\n", static_cast<long long>(t), column(seen), t < 30 ? "o" : "*");
  }
}
