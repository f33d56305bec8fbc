// A second stream of a CUDA device: work beside the first one, order by events, and memory that is
// freed while the other stream still uses it.
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/cuda_test.h"

void scale_in_place(extensor::Tensor& x, float factor);  // of docs/cuda.md

namespace extensor {
namespace {

using cuda_test::device;
using cuda_test::expect_words;
using cuda_test::message_of;
using cuda_test::same_bits;

class CudaStreams : public cuda_test::CudaTest {};

// Some tens of milliseconds of work in the current stream.
Tensor slow_work() {
  Tensor a = ones({4096, 4096}, {.dtype = float64, .device = device});
  for (int k = 0; k < 10; ++k) a = matmul(a, a) * 0x1p-12;
  return a;
}

TEST_F(CudaStreams, ScopesChooseTheStream) {
  void* first = cuda_stream();
  const CudaStream side, other;
  EXPECT_EQ(side.device(), device);
  EXPECT_NE(side.native(), first);
  {
    const CudaStreamScope scope(side);
    EXPECT_EQ(cuda_stream(), side.native());
    {
      const CudaStreamScope inner(other);
      EXPECT_EQ(cuda_stream(), other.native());
    }
    EXPECT_EQ(cuda_stream(), side.native());
    std::thread([&] { EXPECT_EQ(cuda_stream(), first); }).join();
  }
  EXPECT_EQ(cuda_stream(), first);
}

TEST_F(CudaStreams, StreamsRunBesideEachOther) {
  const CudaStream side;
  CudaEvent slow, quick;
  Tensor x;
  // The second time no kernel is loaded and no memory is requested from CUDA, which waits for work.
  for (int round = 0; round < 2; ++round) {
    synchronize(device);
    {
      const CudaStreamScope scope(side);
      slow_work();
      slow.record();
    }
    x = ones({1000}, device) * 2;
    quick.record();
    quick.synchronize();
  }
  EXPECT_FALSE(slow.is_done()) << "the first stream waited for the second one";
  EXPECT_EQ(sum(x).item<float>(), 2000);
  side.synchronize();
  EXPECT_TRUE(slow.is_done());
}

// Without care, the first stream would overwrite the memory that the second one still reads.
TEST_F(CudaStreams, MemoryInUseIsNotReused) {
  const std::int64_t count = 1 << 20;
  const CudaStream side;
  std::vector<Tensor> sums;
  for (int k = 0; k < 50; ++k) {
    Tensor x = full({count}, static_cast<float>(k), device);
    CudaEvent ready;
    ready.record();
    {
      const CudaStreamScope scope(side);
      ready.wait();
      if (k % 10 == 0) slow_work();
      sums.push_back(sum(x * 2.0f));
    }
    x = Tensor();                                          // the second stream reads it later
    const Tensor again = full({count}, -1000.0f, device);  // of the same size
  }
  side.synchronize();
  for (int k = 0; k < 50; ++k) {
    EXPECT_EQ(sums[static_cast<std::size_t>(k)].item<double>(), 2.0 * k * count) << k;
  }
}

// And the other way round: results of the second stream, freed while the first one reads them.
TEST_F(CudaStreams, MemoryOfTheSecondStreamIsNotReused) {
  const std::int64_t count = 1 << 20;
  const CudaStream side;
  std::vector<Tensor> sums;
  for (int k = 0; k < 50; ++k) {
    CudaEvent ready;
    Tensor x;
    {
      const CudaStreamScope scope(side);
      x = full({count}, static_cast<float>(k), device);
      ready.record();
    }
    ready.wait();
    if (k % 10 == 0) slow_work();
    sums.push_back(sum(x * 2.0f));
    x = Tensor();
    const CudaStreamScope scope(side);
    const Tensor again = full({count}, -1000.0f, device);
  }
  for (int k = 0; k < 50; ++k) {
    EXPECT_EQ(sums[static_cast<std::size_t>(k)].item<double>(), 2.0 * k * count) << k;
  }
}

TEST_F(CudaStreams, TrainingInASecondStreamGivesTheSameBits) {
  const auto train = [] {
    manual_seed(5);
    models::Mlp model({32, 64, 8});
    model.to(device);
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const Tensor x = randn({128, 32}, device), y = randint(0, 8, {128}, {int64, device});
    for (int k = 0; k < 20; ++k) {
      optimizer.zero_grad();
      cross_entropy(gelu(model(x).to(bfloat16)).to(float32), y).backward();
      optimizer.step();
    }
    return model.parameters()[0].detach().to(cpu_device).clone();
  };
  const Tensor expected = train();
  const CudaStream side;
  const CudaStreamScope scope(side);
  EXPECT_TRUE(same_bits(train(), expected));
}

TEST_F(CudaStreams, KernelsOfTheProgramRunInOrder) {
  const CudaStream side;
  for (const bool second : {false, true}) {
    std::optional<CudaStreamScope> scope;
    if (second) scope.emplace(side);
    slow_work();
    Tensor x = ones({100003}, device) * 3.0f;
    scale_in_place(x, 2.0f);
    EXPECT_EQ(sum(x).item<double>(), 600018);
  }
  Tensor near = ones({3}), whole = ones({3}, {int64, device});
  expect_words(message_of<DeviceError>([&] { (void)cuda_data<float>(near); }),
               {"cuda_data", "cpu", "allowed: cuda"});
  EXPECT_THROW((void)cuda_data<float>(whole), DTypeError);
}

TEST_F(CudaStreams, ReportsAndErrors) {
  const CudaStream side;
  {
    const CudaStreamScope scope(side);
    const Tensor result = take(randn({10, 4}, device), tensor({1, 12}).to(device), 0);
    EXPECT_THROW(side.synchronize(), IndexError);
  }
  expect_words(message_of<DeviceError>([] { CudaStream stream(cpu_device); }),
               {"CudaStream", "cpu", "allowed: cuda"});
  EXPECT_THROW(CudaStream{cuda(1000)}, DeviceError);
  CudaStream from, to(std::move(from));
  EXPECT_NE(to.native(), nullptr);
  expect_words(message_of<ValueError>([&] { (void)from.native(); }),  // NOLINT: moved away
               {"CudaStream", "native", "moved away"});
  EXPECT_THROW(CudaStreamScope{from}, ValueError);  // NOLINT: moved away
}

// A stream takes its memory along: nothing is lost when it ends.
TEST_F(CudaStreams, MemoryReturnsToTheFirstStream) {
  empty_cache(device);
  Tensor kept;
  {
    const CudaStream side;
    const CudaStreamScope scope(side);
    kept = ones({1 << 22}, device);
    const Tensor gone = ones({1 << 22}, device);
  }
  EXPECT_EQ(sum(kept).item<float>(), static_cast<float>(1 << 22));
  const MemoryStats before = memory_stats(device);
  const Tensor x = zeros({1 << 22}, device);
  EXPECT_EQ(memory_stats(device).cache_hits, before.cache_hits + 1);
  kept = Tensor();
  empty_cache(device);
}

}  // namespace
}  // namespace extensor
