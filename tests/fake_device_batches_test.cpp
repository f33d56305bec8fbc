// Batches that are copied to the fake device ahead: order, exceptions, early destruction, waits.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "support/device_test.h"
#include "train/device_batches.h"

namespace extensor {
namespace {

using fake_device::expect_words;
using fake_device::FakeDevice;
using fake_device::message_of;
using fake_device::same_bits;
using train::DeviceBatches;

constexpr Device device = fake_device::first;
constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();

// Example k is [k, k + 0.5] with target k. Loading the example `failing` throws.
struct Numbers final : data::Dataset {
  Numbers(std::int64_t size, std::int64_t failing) : size_(size), failing_(failing) {}
  std::int64_t size() const override { return size_; }
  data::Batch batch(const data::Request& request) const override {
    ++*loaded;
    const auto count = static_cast<std::int64_t>(request.indices.size());
    data::Batch result{empty({count, 2}, {float32, cpu_device}),
                       empty({count}, {int64, cpu_device}),
                       {request.indices.begin(), request.indices.end()}};
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t index = request.indices[static_cast<std::size_t>(k)];
      if (index == failing_) throw IoError("example " + std::to_string(index) + " is damaged");
      result.inputs.data<float>()[2 * k] = static_cast<float>(index);
      result.inputs.data<float>()[2 * k + 1] = static_cast<float>(index) + 0.5F;
      result.targets.data<std::int64_t>()[k] = index;
    }
    return result;
  }
  std::shared_ptr<std::atomic<int>> loaded = std::make_shared<std::atomic<int>>(0);

 private:
  std::int64_t size_, failing_;
};

TEST_F(FakeDevice, BatchesArriveInOrder) {
  for (const int workers : {0, 2}) {
    const data::DataLoader loader(Numbers(23, -1),
                                  {.batch_size = 4, .workers = workers, .seed = 3});
    const std::int64_t waits = fake_device::waits(), uploads = fake_device::uploads();
    DeviceBatches batches(loader.epoch(1, 2), device, all);
    data::DataLoader::Epoch expected = loader.epoch(1, 2);
    std::vector<std::pair<data::Batch, data::Batch>> pairs;
    while (std::optional<data::Batch> batch = batches.next()) {
      pairs.emplace_back(*std::move(batch), *expected.next());
    }
    EXPECT_FALSE(expected.next().has_value());
    EXPECT_FALSE(batches.next().has_value()) << "after the end";
    EXPECT_EQ(fake_device::waits(), waits);
    EXPECT_EQ(fake_device::uploads(), uploads + 2 * 4);
    EXPECT_EQ(fake_device::unfinished_uploads(), 0);
    ASSERT_EQ(pairs.size(), 4u);
    for (const auto& [got, want] : pairs) {
      EXPECT_EQ(got.inputs.device(), device);
      EXPECT_EQ(got.targets.device(), device);
      EXPECT_EQ(got.indices, want.indices);
      EXPECT_TRUE(same_bits(got.inputs, want.inputs));
      EXPECT_TRUE(same_bits(got.targets, want.targets));
    }
  }
}

// One batch is ahead; none beyond the count, and none for the CPU.
TEST_F(FakeDevice, OneBatchIsLoadedAhead) {
  const Numbers numbers(20, -1);
  const data::DataLoader loader(numbers, {.batch_size = 4});
  {
    DeviceBatches batches(loader.epoch(0), device, 3);
    EXPECT_EQ(*numbers.loaded, 0);
    for (const auto& [loaded, unfinished] : {std::pair(2, 2), {3, 2}, {3, 0}}) {
      EXPECT_TRUE(batches.next().has_value());
      EXPECT_EQ(*numbers.loaded, loaded);
      EXPECT_EQ(fake_device::unfinished_uploads(), unfinished);
    }
    EXPECT_FALSE(batches.next().has_value());
  }
  *numbers.loaded = 0;
  EXPECT_FALSE(DeviceBatches(loader.epoch(0), device, -1).next().has_value());
  EXPECT_EQ(*numbers.loaded, 0);
  const std::int64_t uploads = fake_device::uploads();
  DeviceBatches near(loader.epoch(0), cpu_device, all);
  EXPECT_EQ(near.next()->inputs.device(), cpu_device);
  EXPECT_EQ(*numbers.loaded, 1);
  EXPECT_EQ(fake_device::uploads(), uploads);
}

TEST_F(FakeDevice, AnEpochThatEndsEarlyLeavesNothingBehind) {
  const data::DataLoader loader(Numbers(20, -1), {.batch_size = 4, .workers = 1});
  const std::size_t before = memory_stats(device).allocated_bytes;
  {
    DeviceBatches batches(loader.epoch(0), device, all);
    const std::optional<data::Batch> first = batches.next();
    EXPECT_EQ(fake_device::unfinished_uploads(), 2);
    DeviceBatches moved = std::move(batches);
    EXPECT_EQ(fake_device::unfinished_uploads(), 2);
  }
  EXPECT_EQ(fake_device::unfinished_uploads(), 0);
  EXPECT_EQ(memory_stats(device).allocated_bytes, before);
  const DeviceBatches unused(loader.epoch(0), device, all);
}

TEST_F(FakeDevice, AFailedBatchIsReportedAtItsPosition) {
  for (const int workers : {0, 2}) {
    const data::DataLoader loader(Numbers(20, 9),
                                  {.batch_size = 4, .shuffle = false, .workers = workers});
    for (const Device place : {cpu_device, device}) {
      DeviceBatches batches(loader.epoch(0), place, all);
      EXPECT_EQ(batches.next()->indices.front(), 0);
      EXPECT_EQ(batches.next()->indices.front(), 4);
      expect_words(message_of<IoError>([&] { batches.next(); }), {"example 9 is damaged"});
      EXPECT_FALSE(batches.next().has_value());
    }
  }
  // So is a batch for which the device has no memory.
  const data::DataLoader loader(Numbers(20, -1), {.batch_size = 4});
  DeviceBatches batches(loader.epoch(0), device, all);
  batches.next();
  fake_device::fail_allocation_after(1);
  EXPECT_TRUE(batches.next().has_value());
  EXPECT_THROW(batches.next(), OutOfMemoryError);
  fake_device::fail_allocation_after(-1);
}

// All inputs and targets are copied ahead, and the host waits for none.
TEST_F(FakeDevice, SeveralInputsAndTargetsAreCopiedAhead) {
  const Tensor x = arange(24, {float32, cpu_device}).reshape({12, 2});
  const Tensor k = arange(12, cpu_device);
  const data::TensorDataset rows({x, k, x * 2}, {k, x});
  for (const int workers : {0, 3}) {
    const data::DataLoader loader(rows, {.batch_size = 4, .workers = workers, .seed = 2});
    const std::int64_t waits = fake_device::waits(), uploads = fake_device::uploads();
    DeviceBatches batches(loader.epoch(1), device, all);
    std::vector<data::Batch> got;
    while (!batches.ended()) got.push_back(*batches.next());
    EXPECT_FALSE(batches.next().has_value());
    EXPECT_EQ(fake_device::waits(), waits);
    EXPECT_EQ(fake_device::uploads(), uploads + 5 * 3);
    ASSERT_EQ(got.size(), 3u);
    data::DataLoader::Epoch expected = loader.epoch(1);
    for (const data::Batch& batch : got) {
      const data::Batch want = *expected.next();
      const auto expect_copies = [](const std::vector<Tensor>& copies,
                                    const std::vector<Tensor>& originals) {
        ASSERT_EQ(copies.size(), originals.size());
        for (std::size_t j = 0; j < copies.size(); ++j) {
          EXPECT_EQ(copies[j].device(), device);
          EXPECT_TRUE(same_bits(copies[j], originals[j]));
        }
      };
      EXPECT_EQ(batch.indices, want.indices);
      expect_copies(batch.all_inputs(), want.all_inputs());
      expect_copies(batch.all_targets(), want.all_targets());
    }
  }
}

// Tensors of a device, strided ones and empty ones are copied as by to().
TEST_F(FakeDevice, OtherTensorsAreCopiedAtOnce) {
  const Tensor dense = arange(6, {float32, cpu_device}).reshape({2, 3});
  const std::int64_t uploads = fake_device::uploads();
  for (const Tensor& x : {dense.transpose(), dense.to(device), dense.to(fake_device::second),
                          zeros({0, 3}, cpu_device)}) {
    ops::PendingCopy copy(x, device);
    EXPECT_EQ(copy.tensor().device(), device);
    EXPECT_TRUE(same_bits(copy.tensor(), x));
  }
  EXPECT_EQ(fake_device::uploads(), uploads);
  ops::PendingCopy copy(dense, device), empty;
  EXPECT_EQ(fake_device::uploads(), uploads + 1);
  empty = std::move(copy);
  EXPECT_TRUE(same_bits(empty.tensor(), dense));
  EXPECT_TRUE(same_bits(empty.tensor(), dense)) << "asked twice";
}

// ---- the trainer

struct Counter final : train::Callback {
  explicit Counter(std::vector<std::int64_t>& seen) : seen_(seen) {}
  void step(const train::StepRecord& record) override { seen_.push_back(record.step); }

 private:
  std::vector<std::int64_t>& seen_;
};

TEST_F(FakeDevice, ATrainerDoesNotWaitForBatches) {
  const Numbers numbers(32, -1);
  nn::Linear model(2, 32);
  model.to(device);
  optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
  const data::DataLoader loader(numbers, {.batch_size = 4});
  train::Trainer trainer(model, optimizer, {.epochs = 2, .steps = 11});
  const std::int64_t waits = fake_device::waits();
  EXPECT_EQ(trainer.fit(loader).step, 11);
  EXPECT_EQ(fake_device::waits(), waits);
  EXPECT_EQ(*numbers.loaded, 11) << "no batch that the run does not use";
  EXPECT_EQ(fake_device::unfinished_uploads(), 0);
}

TEST_F(FakeDevice, ATrainerStepsUntilTheFailedBatch) {
  for (const Device place : {cpu_device, device}) {
    nn::Linear model(2, 32);
    model.to(place);
    optim::SGD optimizer(model.parameters(), {.lr = 1e-3});
    const data::DataLoader loader(Numbers(32, 17), {.batch_size = 4, .shuffle = false});
    train::Trainer trainer(model, optimizer);
    std::vector<std::int64_t> seen;
    trainer.add<Counter>(seen);
    expect_words(message_of<IoError>([&] { trainer.fit(loader); }), {"example 17 is damaged"});
    EXPECT_EQ(trainer.step(), 4);
    EXPECT_EQ(fake_device::unfinished_uploads(), 0);
  }
}

}  // namespace
}  // namespace extensor
