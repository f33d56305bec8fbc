// The same seed gives bit-identical weights for any number of threads.
#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

class Threads : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = get_num_threads();
};

template <class Make, class Loss>
std::vector<Tensor> trained(int threads, const Make& make, const Loss& loss_of) {
  set_num_threads(threads);
  manual_seed(5);
  auto model = make();
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss_of(model).backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
  }
  std::vector<Tensor> state;
  for (const auto& [name, tensor] : model.state_dict()) state.push_back(tensor.clone());
  return state;
}

template <class Make, class Loss>
void expect_same_weights(const Make& make, const Loss& loss_of) {
  const std::vector<Tensor> one = trained(1, make, loss_of);
  for (const int threads : {2, 4}) {
    const std::vector<Tensor> other = trained(threads, make, loss_of);
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
      EXPECT_TRUE(compare::identical(one[k], other[k]))
          << threads << " threads, tensor " << k << " of shape " << one[k].shape();
    }
  }
}

TEST_F(Threads, Perceptron) {
  const Tensor x = rand({128, 784}), y = randint(0, 10, {128});
  expect_same_weights(
      [] {
        return models::Mlp({784, 512, 256, 10});
      },
      [&](models::Mlp& model) { return cross_entropy(model(x), y); });
}

TEST_F(Threads, LeNet) {
  const Tensor x = rand({64, 1, 28, 28}), y = randint(0, 10, {64});
  expect_same_weights([] { return models::LeNet(); },
                      [&](models::LeNet& model) { return cross_entropy(model(x), y); });
}

TEST_F(Threads, ResNet) {
  const Tensor x = rand({4, 3, 32, 32}), y = randint(0, 10, {4});
  expect_same_weights([] { return models::ResNet18(); },
                      [&](models::ResNet18& model) { return cross_entropy(model(x), y); });
}

TEST_F(Threads, Gpt) {
  const Tensor x = randint(0, 65, {12, 64}), y = randint(0, 65, {12 * 64});
  expect_same_weights([] { return models::Gpt({.layers = 2, .dropout = 0.1}); },
                      [&](models::Gpt& model) {
                        return cross_entropy(model(x).reshape({12 * 64, 65}), y);
                      });
}

struct Tagger : nn::Module<Tagger> {
  nn::LSTM lstm{32, 48, {.layers = 2}};
  Tensor forward(const Tensor& x) const { return lstm(x).output[-1]; }
};

TEST_F(Threads, Lstm) {
  const Tensor x = rand({16, 32, 32}), y = randint(0, 48, {32});
  expect_same_weights([] { return Tagger(); },
                      [&](Tagger& model) { return cross_entropy(model(x), y); });
}

// Ten thousand steps use no more memory than a hundred.
TEST(Memory, StaysWhereItIs) {
  models::Mlp model({4, 16, 2});
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  const Tensor x = rand({8, 4}), y = randint(0, 2, {8});
  std::size_t early = 0;
  for (int step = 0; step < 10'000; ++step) {
    optimizer.zero_grad();
    cross_entropy(model(x), y).backward();
    optimizer.step();
    if (step == 100) early = memory_stats().allocated_bytes;
  }
  EXPECT_EQ(memory_stats().allocated_bytes, early);
}

}  // namespace
}  // namespace extensor
