// A check that throws ends calls between kernels, with everything that was there before unchanged.
#include "extensor/interruption.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "extensor/extensor.h"

namespace extensor {
namespace {

struct Stopped {};

std::atomic<int> calls_left{0};

// Throws at the call after `count` others.
class StopAfter {
 public:
  explicit StopAfter(int count) {
    calls_left = count;
    detail::interruption_check = [] {
      if (calls_left.fetch_sub(1) <= 0) throw Stopped{};
    };
  }
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;
  ~StopAfter() { detail::interruption_check = nullptr; }
};

TEST(Interruption, EndsALoopOfProducts) {
  const Tensor x = eye(8) * 2;
  {
    const StopAfter stop(5);
    EXPECT_THROW(static_cast<void>(linalg::matrix_power(x, std::int64_t{1} << 40)), Stopped);
  }
  EXPECT_EQ(x.sum().item<float>(), 16);
  EXPECT_EQ(linalg::matrix_power(x, 3).sum().item<float>(), 64);
}

TEST(Interruption, EndsABackward) {
  Tensor x = ones({4, 4}).requires_grad_();
  Tensor y = x;
  for (int k = 0; k < 10; ++k) y = y * 0.5;
  const Tensor loss = y.sum();
  {
    const StopAfter stop(3);
    EXPECT_THROW(loss.backward(), Stopped);
  }
  EXPECT_FALSE(x.grad().defined());
}

TEST(Interruption, EndsTheWaitForAWorker) {
  std::atomic<bool> begun{false}, finish{false};
  const data::FunctionDataset slow(4, [&](std::int64_t, data::Draws&) {
    begun = true;
    while (!finish) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return data::Example{ones({1}), zeros({1})};
  });
  const data::DataLoader loader(slow, {.batch_size = 1, .shuffle = false, .workers = 1});
  data::DataLoader::Epoch epoch = loader.epoch(0);
  // Until the worker has begun the first batch, next() would make it itself.
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  static const std::thread::id waiting = std::this_thread::get_id();
  detail::interruption_check = [] {
    if (std::this_thread::get_id() == waiting) throw Stopped{};
  };
  EXPECT_THROW(static_cast<void>(epoch.next()), Stopped);
  detail::interruption_check = nullptr;
  finish = true;
  int batches = 0;
  while (epoch.next()) ++batches;
  EXPECT_EQ(batches, 4);  // the batch that was waited for is not lost
}

}  // namespace
}  // namespace extensor
