// The training steps of bench/python_training.py in C++, which the script compiles and calls.
#include <extensor/extensor.h>

#include <functional>
#include <string_view>

namespace {

using namespace extensor;

template <class Model, class Optimizer, class Options>
std::function<void()>* steps(const Options& options, const Tensor& x, const Tensor& y) {
  auto model = std::make_shared<Model>();
  auto optimizer = std::make_shared<Optimizer>(model->parameters(), options);
  return new std::function<void()>([=] {
    optimizer->zero_grad();
    const Tensor logits = (*model)(x);
    cross_entropy(logits.ndim() == 2 ? logits : logits.reshape({-1, logits.size(-1)}), y)
        .backward();
    optimizer->step();
  });
}

}  // namespace

extern "C" void* make_steps(const char* model) {
  if (std::string_view(model) == "LeNet") {
    return steps<models::LeNet, optim::SGD>(SgdOptions{.lr = 0.01}, rand({64, 1, 28, 28}),
                                            arange(64) % 10);
  }
  const Tensor tokens = arange(12 * 64) % 65;
  return steps<models::Gpt, optim::AdamW>(AdamWOptions{.lr = 1e-3}, tokens.reshape({12, 64}),
                                          tokens);
}

extern "C" void run_step(void* steps) { (*static_cast<std::function<void()>*>(steps))(); }
