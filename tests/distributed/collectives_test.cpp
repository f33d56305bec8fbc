// Collectives on every dtype, layout and number of ranks. tests/distributed/run.sh starts this
// program with 1 to 4 ranks; all of them run every test.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "extensor/distributed.h"
#include "extensor/extensor.h"
#include "support/device_checks.h"
#include "support/fake_device.h"

namespace extensor::distributed {
namespace {

constexpr DType all_dtypes[] = {
#define DTYPE(name, type) DType::name,
    EXTENSOR_DTYPES(DTYPE)
#undef DTYPE
};

// Small numbers, which every dtype holds exactly: so are their sums and products.
double element(int rank, std::int64_t k) { return 1 + (rank + k) % 3; }

Tensor numbers(int rank, std::int64_t count, DType dtype) {
  Tensor values = empty({count}, float64);
  for (std::int64_t k = 0; k < count; ++k) values.data<double>()[k] = element(rank, k);
  return values.to(dtype);
}

std::vector<double> doubles(const Tensor& x) { return x.to(float64).to_vector<double>(); }

double reduced(ReduceOp op, int ranks, std::int64_t k) {
  double result = element(0, k);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = element(rank, k);
    if (op == ReduceOp::sum || op == ReduceOp::mean) result += next;
    if (op == ReduceOp::product) result *= next;
    if (op == ReduceOp::minimum) result = std::min(result, next);
    if (op == ReduceOp::maximum) result = std::max(result, next);
  }
  return op == ReduceOp::mean ? result / ranks : result;
}

constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::minimum,
                                ReduceOp::maximum};

bool is_allowed(ReduceOp op, DType dtype) {
  if (dtype == bool_) return op == ReduceOp::minimum || op == ReduceOp::maximum;
  return op != ReduceOp::mean || is_floating_point(dtype);
}

TEST(Communicator, KnowsTheRanks) {
  Communicator& world = init();
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(&init(), &world);
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size == nullptr) size = std::getenv("PMI_SIZE");  // MPICH
  EXPECT_EQ(world.size(), size == nullptr ? 1 : std::atoi(size));
  EXPECT_EQ(world.local_size(), world.size());
  EXPECT_EQ(world.local_rank(), world.rank());
  Tensor ranks = world.all_gather(scalar(world.rank(), int64));
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(ranks.to_vector<std::int64_t>()[static_cast<std::size_t>(rank)], rank);
  }
}

TEST(Communicator, ReducesEveryDtype) {
  Communicator& world = init();
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      for (const std::int64_t count : {0, 1, 7, 1000}) {
        Tensor x = numbers(world.rank(), count, dtype);
        if (!is_allowed(op, dtype)) {
          EXPECT_THROW(world.all_reduce(x, op), DTypeError);
          continue;
        }
        world.all_reduce(x, op);
        const std::vector<double> found = doubles(x);
        for (std::int64_t k = 0; k < count; ++k) {
          double expected = reduced(op, world.size(), k);
          if (dtype == bool_) expected = 1;
          if (op == ReduceOp::mean) {
            expected = full({}, expected, float64).to(dtype).to(float64).item<double>();
            // The sum is rounded, and its quotient.
            EXPECT_NEAR(found[static_cast<std::size_t>(k)], expected, finfo(dtype).eps * expected);
          } else {
            ASSERT_EQ(found[static_cast<std::size_t>(k)], expected)
                << static_cast<int>(dtype) << " " << static_cast<int>(op) << " " << k;
          }
        }
      }
    }
  }
}

TEST(Communicator, BoolIsAllOrAny) {
  Communicator& world = init();
  Tensor one = tensor({world.rank() == 0}, bool_), all = one.clone();
  world.all_reduce(one, ReduceOp::maximum);
  world.all_reduce(all, ReduceOp::minimum);
  EXPECT_TRUE(one.item<bool>());
  EXPECT_EQ(all.item<bool>(), world.size() == 1);
}

TEST(Communicator, ScattersGathersAndBroadcasts) {
  Communicator& world = init();
  const int ranks = world.size();
  for (const DType dtype : all_dtypes) {
    for (const std::int64_t rows : {0, 1, 5}) {
      // Every rank has the same number in each of its rows × 3 elements, another for each part.
      Tensor x = numbers(world.rank(), ranks * rows * 3, dtype).reshape({ranks * rows, 3});
      if (dtype != bool_) {
        const std::vector<double> found = doubles(world.reduce_scatter(x));
        ASSERT_EQ(std::ssize(found), rows * 3);
        for (std::int64_t k = 0; k < rows * 3; ++k) {
          EXPECT_EQ(found[static_cast<std::size_t>(k)],
                    reduced(ReduceOp::sum, ranks, world.rank() * rows * 3 + k));
        }
      }
      const Tensor joined = world.all_gather(numbers(world.rank(), rows * 3, dtype));
      const std::vector<double> found = doubles(joined);
      ASSERT_EQ(joined.shape(), (Shape{ranks * rows * 3}));
      for (std::int64_t k = 0; k < joined.numel(); ++k) {
        const auto from = static_cast<int>(k / (rows * 3));
        EXPECT_EQ(found[static_cast<std::size_t>(k)],
                  dtype == bool_ ? 1 : element(from, k % (rows * 3)));
      }
      for (int root = 0; root < ranks; ++root) {
        Tensor y = numbers(world.rank(), rows * 3, dtype);
        world.broadcast(y, root);
        EXPECT_EQ(doubles(y), doubles(numbers(root, rows * 3, dtype)));
      }
    }
  }
  world.barrier();
}

TEST(Communicator, TakesEveryLayout) {
  Communicator& world = init();
  const int ranks = world.size();
  const Tensor base = arange(24, float32).reshape({4, 6}) + world.rank();
  Tensor transposed = base.clone().transpose(), reversed = base.clone().slice(1, -1, -7, -1);
  Tensor expected = base.clone();
  world.all_reduce(expected);
  const std::vector<float> found = expected.to_vector<float>();
  for (std::int64_t k = 0; k < 24; ++k) {
    const auto sum = static_cast<float>(ranks * k + ranks * (ranks - 1) / 2);
    EXPECT_EQ(found[static_cast<std::size_t>(k)], sum);
  }
  world.all_reduce(transposed);
  EXPECT_EQ(transposed.to_vector<float>(), expected.transpose().to_vector<float>());
  EXPECT_THROW((void)world.all_reduce_async(transposed), ValueError);
  EXPECT_THROW((void)world.broadcast_async(transposed), ValueError);
  world.broadcast(transposed);
  Tensor narrow = reversed.slice(0, 1, 3);
  world.all_reduce(narrow);
  EXPECT_EQ(narrow.to_vector<float>(),
            expected.slice(1, -1, -7, -1).slice(0, 1, 3).to_vector<float>());
  Tensor scalar_value = full({}, 1.0);
  world.all_reduce(scalar_value);
  EXPECT_EQ(scalar_value.item<double>(), ranks);
  Tensor broadcast_view = full({1}, 1.0).broadcast_to({3});
  EXPECT_THROW(world.all_reduce(broadcast_view), ValueError);
}

TEST(Communicator, RefusesWhatCannotWork) {
  Communicator& world = init();
  Tensor leaf = zeros({2}).requires_grad_();
  EXPECT_THROW(world.all_reduce(leaf), ValueError);
  {
    const NoGrad off;
    world.all_reduce(leaf);
  }
  Tensor x = zeros({3});
  EXPECT_THROW(world.broadcast(x, world.size()), ValueError);
  EXPECT_THROW(world.broadcast(x, -1), ValueError);
  if (world.size() > 1) {
    EXPECT_THROW(world.reduce_scatter(zeros({world.size() + 1})), ShapeError);
  }
  EXPECT_THROW(world.reduce_scatter(scalar(1.0, float32)), ShapeError);
  Tensor out = zeros({2}), wide = zeros({3 * world.size()}, {float64});
  EXPECT_THROW((void)world.all_gather_async(x, out), ShapeError);
  EXPECT_THROW((void)world.all_gather_async(x, wide), DTypeError);
  Tensor part = zeros({2});
  EXPECT_THROW((void)world.reduce_scatter_async(zeros({3 * world.size()}), part), ShapeError);
  EXPECT_THROW(world.all_reduce(x, static_cast<ReduceOp>(9)), ValueError);
  EXPECT_THROW(init({.heartbeat_timeout = 0}), ValueError);
}

TEST(Communicator, RefusesOtherDevices) {
  Communicator& world = init();
  fake_device::install();
  Tensor far = zeros({3}, fake_device::first);
  const auto refused = [](const char* operation, const auto& function) {
    device_checks::expect_words(device_checks::message_of<DeviceError>(function),
                                {operation, ": the tensor is on test:0 (allowed: cpu, cuda)"});
  };
  refused("all_reduce", [&] { world.all_reduce(far); });
  refused("reduce_scatter", [&] { (void)world.reduce_scatter(far); });
  refused("all_gather", [&] { (void)world.all_gather(far); });
  refused("all_gather", [&] { (void)world.all_gather_async(zeros({1}), far); });
  refused("broadcast", [&] { world.broadcast(far); });
}

TEST(Communicator, RunsSeveralAtOnce) {
  Communicator& world = init();
  const int ranks = world.size();
  std::vector<Tensor> all;
  std::vector<Work> works;
  for (int k = 0; k < 20; ++k) {
    all.push_back(full({1000 * k + 1}, 1.0 * (k + world.rank())));
    works.push_back(world.all_reduce_async(all.back(), ReduceOp::mean));
  }
  for (int k = 19; k >= 0; --k) {
    const auto at = static_cast<std::size_t>(k);
    works[at].wait();
    works[at].wait();
    EXPECT_TRUE(works[at].is_done());
    EXPECT_FLOAT_EQ(all[at].slice(0, -1).item<float>(), static_cast<float>(k) + (ranks - 1) / 2.f);
  }
  EXPECT_TRUE(Work().is_done());
  Work().wait();
}

TEST(Communicator, HasTheSameBitsOnAllRanksAndInEveryRun) {
  Communicator& world = init();
  for (const std::int64_t count : {3, 1000, 300'000}) {
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      Generator generator(7, static_cast<std::uint64_t>(world.rank()));
      const Tensor x = randn({count}, {}, generator).to(dtype);
      Tensor first = x.clone(), second = x.clone();
      world.all_reduce(first);
      world.all_reduce(second);
      const std::size_t bytes = first.nbytes();
      EXPECT_EQ(std::memcmp(first.impl().data, second.impl().data, bytes), 0);
      const Tensor everywhere = world.all_gather(first);
      for (int rank = 0; rank < world.size(); ++rank) {
        EXPECT_EQ(std::memcmp(everywhere.impl().data + static_cast<std::size_t>(rank) * bytes,
                              first.impl().data, bytes),
                  0)
            << "rank " << rank << ", " << count;
      }
    }
  }
}

TEST(Communicator, RecordsCollectivesAndWaits) {
  Communicator& world = init();
  Tensor x = zeros({1000});
  world.all_reduce(x);
  world.start_trace();
  world.all_reduce(x);
  world.barrier();
  const std::vector<TraceEvent> events = world.take_trace();
  world.all_reduce(x);
  EXPECT_TRUE(world.take_trace().empty());
  std::vector<std::string> collectives;
  for (const TraceEvent& event : events) {
    EXPECT_LE(event.begin, event.end);
    if (event.name != "wait") collectives.push_back(event.name);
  }
  if (world.size() == 1) {
    EXPECT_TRUE(events.empty());
  } else {
    EXPECT_EQ(collectives,
              (std::vector<std::string>{"all_reduce (sum) of 1000 float32", "barrier"}));
  }
}

TEST(Communicator, GathersTexts) {
  Communicator& world = init();
  const auto text = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 3, 'x'); };
  const std::vector<std::string> all = world.all_gather_text(text(world.rank()));
  ASSERT_EQ(std::ssize(all), world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)], text(rank));
  }
}

// The threads of a rank do not exist in its child.
TEST(Communicator, ThrowsInAForkAndLetsItEnd) {
  Communicator& world = init();
  if (world.size() == 1) GTEST_SKIP() << "needs several ranks";
  Tensor x = ones({4});
  const Work begun = world.all_reduce_async(x);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const auto throws = [](const auto& function) {
      try {
        function();
      } catch (const DistributedError& error) {
        return std::strstr(error.what(), "is a fork of rank ") != nullptr;
      }
      return false;
    };
    Work work = begun;
    std::exit(throws([&] { world.barrier(); }) && throws([&] { work.wait(); }) &&
                      throws([&] { world.abort("the child"); })
                  ? 0
                  : 1);
  }
  int status = -1;
  bool has_ended = false;
  for (int k = 0; k < 3000 && !has_ended; ++k) {
    has_ended = waitpid(child, &status, WNOHANG) == child;
    if (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(status, 0);
  if (!has_ended) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  Work work = begun;
  work.wait();
  EXPECT_EQ(x.sum().item<float>(), 4 * world.size());
  world.barrier();
}

}  // namespace
}  // namespace extensor::distributed
