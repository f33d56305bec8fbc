// Using the library from several threads at once, and with any number of internal threads: neither
// changes a bit of any result. Also run under ThreadSanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace {

using namespace extensor;

constexpr int workers = 4;

// Runs work(worker) in `workers` threads that start together.
void run_together(const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      ++ready;
      while (ready.load() < workers) std::this_thread::yield();
      work(worker);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class NumThreads : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }
  int before_ = get_num_threads();
};

// ---- the number of threads

TEST_F(NumThreads, IsValidated) {
  for (int count : {0, -1, INT32_MIN, 1025, 100'000, INT32_MAX}) {
    try {
      set_num_threads(count);
      ADD_FAILURE() << count << " was accepted";
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(count)), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("set_num_threads"), std::string::npos);
    }
    EXPECT_EQ(get_num_threads(), before_);
  }
  EXPECT_GE(before_, 1);
  for (int count : {1, 2, 3, 7}) {
    set_num_threads(count);
    EXPECT_EQ(get_num_threads(), count);
  }
}

TEST_F(NumThreads, HoldsInEveryThread) {
  for (int count : {1, 3}) {
    set_num_threads(count);
    std::atomic<int> agreeing{0};
    run_together([&](int) { agreeing += get_num_threads() == count; });
    EXPECT_EQ(agreeing, workers) << count;
  }
  std::thread([] { set_num_threads(2); }).join();
  EXPECT_EQ(get_num_threads(), 2);
}

// Calls every kernel family, on sizes that use several threads.
using Work = std::pair<std::string, std::function<Tensor()>>;
std::vector<Work> every_work() {
  Generator generator(99);
  const Tensor x = randn({60, 1111}, float32, generator);
  const Tensor y = randn({60, 1111}, float32, generator);
  const Tensor a = randn({130, 75}, float32, generator), b = randn({75, 141}, float32, generator);
  const Tensor line = randn({300007}, float32, generator);
  std::vector<Work> work;
  const auto add = [&](const std::string& name, std::function<Tensor()> call) {
    work.emplace_back(name, std::move(call));
  };
  add("add", [=] { return x + y; });
  add("broadcast", [=] { return x * y[0] + x.slice(1, 0, 1); });
  add("strided", [=] { return x.slice(1, 0, {}, 2) - y.slice(1, {}, {}, -2); });
  add("transposed copy", [=] { return x.transpose().contiguous(); });
  add("convert", [=] { return line.to(float16).to(int8); });
  add("exp in float16", [=] { return exp(x.to(float16)); });
  add("sum", [=] { return sum(line); });
  add("sum of halves", [=] { return sum(line.to(bfloat16)); });
  add("sum of rows", [=] { return sum(x, 1); });
  add("sum of columns", [=] { return sum(x, 0); });
  add("sum of narrow columns", [=] {
    return sum(line.slice(0, 0, 300000).reshape({100000, 3}), 0);
  });
  add("mean, variance", [=] { return var(line) + mean(line); });
  add("prod", [=] { return prod(line * 0.001 + 1); });
  add("argmax", [=] { return argmax(line); });
  add("softmax", [=] { return softmax(x); });
  add("softmax of columns", [=] { return softmax(x, 0); });
  add("logsumexp", [=] { return logsumexp(x, 1); });
  add("matmul", [=] { return matmul(a, b); });
  add("matmul of transposes", [=] { return matmul(b.transpose(), a.transpose()); });
  add("matmul in float64", [=] { return matmul(a.to(float64), b.to(float64)); });
  add("matmul in bfloat16", [=] { return matmul(a.to(bfloat16), b.to(bfloat16)); });
  add("matrix by vector", [=] { return matmul(x, y[0]); });
  add("vector by matrix", [=] { return matmul(y.slice(1, 0, 1).flatten(), x); });
  add("batched matmul", [=] {
    return matmul(x.slice(1, 0, 1110).reshape({30, 37, 60}),
                  y.slice(1, 0, 1110).reshape({30, 60, 37}));
  });
  add("backward", [=] {
    const auto [grad_a, grad_b] = multiply_backward(x, y, y[0]);
    return sum(grad_a) + sum(grad_b);
  });
  add("random", [] {
    Generator fresh(5);
    return randn({30000}, float32, fresh) + rand({30000}, float32, fresh);
  });
  return work;
}

std::vector<std::byte> bytes_of(const Tensor& x) {
  const Tensor dense = x.contiguous();
  return {dense.impl().data, dense.impl().data + dense.nbytes()};
}

TEST_F(NumThreads, ChangesNoBit) {
  for (const auto& [name, call] : every_work()) {
    set_num_threads(1);
    const auto expected = bytes_of(call());
    for (int count : {2, 3, 4}) {
      set_num_threads(count);
      EXPECT_EQ(bytes_of(call()), expected) << name << " with " << count << " threads";
    }
  }
}

// ---- several callers

TEST(ThreadsTest, EveryCallerGetsTheSameResults) {
  const std::vector<Work> work = every_work();
  std::vector<std::vector<std::byte>> expected;
  for (const auto& [name, call] : work) expected.push_back(bytes_of(call()));
  std::atomic<int> different{0};
  run_together([&](int worker) {
    for (std::size_t i = 0; i < work.size(); ++i) {
      // Each starts at another kernel, so that different kernels run concurrently.
      const std::size_t at = (i + static_cast<std::size_t>(worker) * 7) % work.size();
      different += bytes_of(work[at].second()) != expected[at];
    }
  });
  EXPECT_EQ(different, 0);
}

TEST(ThreadsTest, AllocatingAndFreeingAcrossThreads) {
  // The tensors of each round are freed by another thread than the one that made them.
  std::vector<Tensor> slots[workers];
  std::atomic<int> wrong{0};
  for (int round = 0; round < 30; ++round) {
    run_together([&](int worker) {
      std::vector<Tensor>& mine = slots[(worker + round) % workers];
      for (std::size_t i = 0; i < mine.size(); ++i) {
        wrong += mine[i][0].item<int>() != static_cast<int>(i) || mine[i].shape()[0] < 1;
      }
      mine.clear();
      for (int i = 0; i < 40; ++i) {
        const std::int64_t size = std::int64_t{1} << (i % 17);
        mine.push_back(full({size}, i, i % 2 == 0 ? int32 : float64));
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadsTest, SharedHandlesAndViews) {
  const Tensor shared = arange(5000);
  std::atomic<int> wrong{0};
  run_together([&](int) {
    for (int i = 0; i < 200; ++i) {
      const Tensor copy = shared;  // changes the reference counts of the tensor and its memory
      const Tensor view = copy.slice(0, i, i + 100).reshape({10, 10}).transpose();
      wrong += sum(view).item<std::int64_t>() != 100 * i + 4950;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(sum(shared).item<std::int64_t>(), std::int64_t{4999} * 2500);
}

TEST(ThreadsTest, DrawsFromTheDefaultGeneratorAreNeverTakenTwice) {
  manual_seed(31);
  std::vector<std::int64_t> drawn[workers];
  run_together([&](int worker) {
    for (int i = 0; i < 100; ++i) {
      const Tensor part = randint(INT64_MIN, INT64_MAX, {20});
      const auto values = part.to_vector<std::int64_t>();
      drawn[worker].insert(drawn[worker].end(), values.begin(), values.end());
    }
  });
  std::set<std::int64_t> together;
  for (const auto& values : drawn) together.insert(values.begin(), values.end());
  // All draws of the sequence, each once: the same set as for a single caller.
  manual_seed(31);
  const auto alone = randint(INT64_MIN, INT64_MAX, {100 * 20 * workers}).to_vector<std::int64_t>();
  EXPECT_EQ(together, std::set<std::int64_t>(alone.begin(), alone.end()));
  EXPECT_EQ(default_generator().offset(), 100U * 20 * workers);
}

TEST(ThreadsTest, ErrorsStayInTheirThread) {
  std::atomic<int> caught{0}, wrong{0};
  const Tensor x = ones({300, 300});
  run_together([&](int worker) {
    for (int i = 0; i < 50; ++i) {
      try {
        if ((i + worker) % 2 == 0) {
          matmul(x, ones({7, 7}));
        } else {
          (void)floor_divide(x.to(int32), zeros({300}, int32));
        }
        ++wrong;
      } catch (const Error&) {
        ++caught;
      }
      wrong += sum(x).item<float>() != 90000;
    }
  });
  EXPECT_EQ(caught, 50 * workers);
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadsTest, WritingDisjointPartsOfOneTensor) {
  Tensor x = zeros({workers, 20000});
  run_together([&](int worker) {
    Tensor row = x[worker];
    for (int i = 0; i < 20; ++i) row += worker + 1;
  });
  for (int worker = 0; worker < workers; ++worker) {
    EXPECT_EQ(sum(x[worker]).item<float>(), 20000.0F * 20 * static_cast<float>(worker + 1));
  }
}

}  // namespace
