// Training steps, with model, autograd and optimizer as a user writes them.
#include <extensor/extensor.h>

#include <chrono>

#include "cases.h"
#include "peak.h"
#include "training_step.h"

namespace extensor::bench {

namespace {

// The last output of an LSTM.
struct Tagger : nn::Module<Tagger> {
  nn::LSTM lstm{256, 256, {.layers = 2}};
  Tensor forward(const Tensor& x) const { return lstm(x).output[-1]; }
};

// The overhead that recording adds to a small op.
double recording_seconds() {
  const Tensor a = rand({4}), b = rand({4}), leaf = rand({4}).requires_grad_();
  const auto seconds = [](const auto& call) {
    double best = 1;
    for (int round = 0; round < 50; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 2000; ++i) call();
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      best = std::min(best, spent.count() / 2000);
    }
    return best;
  };
  return seconds([&] { return leaf * b; }) - seconds([&] { return a * b; });
}

// Growth of memory between step 10,000 and step 1,000,000; the bytes of live tensors must not
// change.
double million_steps_growth() {
  const Work step =
      training(models::Mlp({4, 16, 2}), SgdOptions{.lr = 0.01}, images({8, 4}), labels(8, 2));
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) step();
    return std::pair(memory_stats().allocated_bytes, resident_bytes());
  };
  const auto early = run(10'000), late = run(990'000);
  if (late.first != early.first) return 1e12;
  return std::max(1.0, late.second - early.second);
}

}  // namespace

void add_training(std::vector<Case>& cases) {
  const auto add = [&](const char* name, const char* op, double goal, int rounds) {
    Case c;
    c.name = std::string("training step/") + name;
    c.task.op = op;
    c.goal.torch = goal;
    c.rounds = rounds;
    cases.push_back(c);
    Case memory;
    memory.name = std::string("peak memory/") + name;
    memory.figure = [op] { return peak_bytes("ExTensor", op); };
    memory.torch_figure = [op] { return peak_bytes("PyTorch", op); };
    memory.in_bytes = true;
    memory.goal.torch = 1;
    cases.push_back(memory);
  };
  Case recording;
  recording.name = "recording one op";
  recording.figure = recording_seconds;
  recording.goal.amount = 150e-9;
  cases.push_back(recording);
  Case million;
  million.name = "growth of memory/10^6 steps of 4-16-2";
  million.figure = million_steps_growth;
  million.in_bytes = true;
  million.goal.amount = 1 << 20;
  cases.push_back(million);
  add("MLP 784-512-256-10, batch 128, SGD", "train_mlp", 1.3, 25);
  add("LeNet-5, batch 64, SGD", "train_lenet", 2, 25);
  add("4-16-2, batch 8, SGD", "train_tiny", 15, 25);
  add("ResNet-18 on 32x32, batch 32, SGD", "train_resnet18", 1, 3);
  add("character GPT, batch 12, AdamW", "train_gpt", 1.3, 9);
  add("LSTM 2x256, sequence 64, batch 32, SGD", "train_lstm", 1, 9);
}

Work training_work(const Task& task) {
  using models::Mlp;
  const SgdOptions sgd{.lr = 0.01};
  if (task.op == "train_mlp") {
    return training(Mlp({784, 512, 256, 10}), sgd, images({128, 784}), labels(128, 10));
  }
  if (task.op == "train_tiny") {
    return training(Mlp({4, 16, 2}), sgd, images({8, 4}), labels(8, 2));
  }
  if (task.op == "train_lenet") {
    return training(models::LeNet(), sgd, images({64, 1, 28, 28}), labels(64, 10));
  }
  if (task.op == "train_resnet18") {
    return training(models::ResNet18(), sgd, images({32, 3, 32, 32}), labels(32, 10));
  }
  if (task.op == "train_gpt") {
    return training(models::Gpt(), AdamWOptions{.lr = 1e-3}, labels(12 * 64, 65).reshape({12, 64}),
                    labels(12 * 64, 65));
  }
  if (task.op == "train_lstm") {
    return training(Tagger(), sgd, images({64, 32, 256}), labels(32, 256));
  }
  return {};
}

}  // namespace extensor::bench
