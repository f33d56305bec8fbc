// A character-level GPT learns addition from sums such as "17+25=42;" and completes one.
#include <extensor/extensor.h>

#include <cstdio>
#include <cstring>
#include <string>

using namespace extensor;

namespace {

const std::string alphabet = "0123456789+=;";

std::string sums(std::int64_t length, std::uint64_t seed) {
  std::string text;
  std::uint64_t state = seed * 2 + 1;
  while (static_cast<std::int64_t>(text.size()) < length) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const unsigned a = static_cast<unsigned>(state >> 33) % 20,
                   b = static_cast<unsigned>(state >> 45) % 20;
    text += std::to_string(a) + "+" + std::to_string(b) + "=" + std::to_string(a + b) + ";";
  }
  return text;
}

Tensor encoded(const std::string& text) {
  std::vector<std::int64_t> tokens;
  for (char c : text) tokens.push_back(static_cast<std::int64_t>(alphabet.find(c)));
  return from_data(tokens);
}

std::string continued(models::Gpt& model, std::string text) {
  const NoGrad no_graph;
  model.eval();
  while (text.size() < 24 && text.back() != ';') {
    const Tensor logits = model(encoded(text).unsqueeze(0));
    text += alphabet[static_cast<std::size_t>(argmax(logits[{0, -1}]).item<std::int64_t>())];
  }
  model.train();
  return text;
}

}  // namespace

int main(int count, char** words) {
  const bool quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
  const int steps = quick ? 3 : 600;
  constexpr std::int64_t batch = 16, block = 48;
  const Tensor tokens = encoded(sums(100'000, 1));

  manual_seed(0);
  models::Gpt model({.vocabulary = 13, .block = block, .layers = 2, .heads = 4, .width = 64});
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  for (int step = 0; step < steps; ++step) {
    std::vector<Tensor> inputs, targets;
    for (std::int64_t k = 0; k < batch; ++k) {
      const std::int64_t at = randint(0, tokens.numel() - block - 1, {}).item<std::int64_t>();
      inputs.push_back(tokens.slice(0, at, at + block));
      targets.push_back(tokens.slice(0, at + 1, at + block + 1));
    }
    const Tensor logits = model(stack(inputs)).reshape({batch * block, 13});
    const Tensor loss = cross_entropy(logits, flatten(stack(targets)));
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    if (step % 50 == 0) {
      std::printf("step %3d  loss %.4f  %s\n", step, loss.item<float>(),
                  continued(model, "2+3=5;7+8=").c_str());
      std::fflush(stdout);
    }
  }
}
