// Datasets that are read as streams: the same batches for any number of workers and from any batch
// on, shuffled in a buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "extensor/extensor.h"
#include "support/batches.h"
#include "support/child_process.h"

namespace {

using namespace extensor;
using data::Batch;
using data::DataLoader;
using data::Draws;
using data::Example;
using data::StreamDataset;
using test_support::batches_of;
using test_support::expect_error;
using test_support::expect_reproducible;
using Numbers = std::vector<std::int64_t>;

// Counts from epoch · 100 on. The example `failing` throws.
StreamDataset counting(std::int64_t count, const data::StreamOptions& options = {},
                       std::int64_t failing = -1) {
  return StreamDataset(
      [=](std::int64_t epoch) {
        return [=, next = std::int64_t{0}]() mutable -> std::optional<Example> {
          if (next == failing) throw FormatError("record " + std::to_string(next) + " is damaged");
          if (next == count) return std::nullopt;
          const std::int64_t value = epoch * 100 + next++;
          return Example{scalar(value), scalar(-value)};
        };
      },
      options);
}

Numbers inputs_of(const std::vector<Batch>& batches) {
  Numbers all;
  for (const Batch& batch : batches) {
    for (const std::int64_t value : batch.inputs.to_vector<std::int64_t>()) all.push_back(value);
  }
  return all;
}

TEST(Stream, ReadsInOrder) {
  for (const int workers : {0, 1, 3}) {
    for (const bool drop : {false, true}) {
      const DataLoader loader(counting(11),
                              {.batch_size = 4, .drop_last = drop, .workers = workers});
      const std::vector<Batch> batches = batches_of(loader.epoch(1));
      ASSERT_EQ(batches.size(), drop ? 2u : 3u);
      Numbers expected(drop ? 8 : 11);
      std::iota(expected.begin(), expected.end(), 100);
      EXPECT_EQ(inputs_of(batches), expected);
      EXPECT_EQ(batches[1].indices, (Numbers{4, 5, 6, 7}));
    }
    EXPECT_TRUE(batches_of(DataLoader(counting(0), {.workers = workers}).epoch(0)).empty());
  }
}

TEST(Stream, ReproducesBatches) {
  const auto transform = [](Example example, Draws& draws) {
    return Example{example.input.to(float64) + draws.uniform(), example.target};
  };
  for (const std::int64_t buffer : {0, 1, 5, 100}) {
    for (const bool drop : {false, true}) {
      expect_reproducible([&](int workers) {
        return DataLoader(counting(26, {.shuffle_buffer = buffer, .transform = transform}),
                          {.batch_size = 4, .drop_last = drop, .workers = workers, .seed = 8});
      });
    }
  }
}

TEST(Stream, ShufflesInItsBuffer) {
  const auto read = [](std::int64_t buffer, bool shuffle, std::int64_t epoch) {
    const DataLoader loader(counting(60, {.shuffle_buffer = buffer}),
                            {.batch_size = 7, .shuffle = shuffle});
    Numbers values = inputs_of(batches_of(loader.epoch(epoch)));
    for (std::int64_t& value : values) value -= epoch * 100;
    return values;
  };
  Numbers sorted(60);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_EQ(read(10, false, 0), sorted);
  Numbers shuffled = read(10, true, 0);
  EXPECT_NE(shuffled, sorted);
  EXPECT_NE(shuffled, read(10, true, 1));
  // Example k is not in the buffer before draw k − 9.
  for (std::int64_t k = 0; k < 60; ++k) EXPECT_LE(shuffled[static_cast<std::size_t>(k)], k + 9);
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, sorted);
}

TEST(Stream, ErrorsArriveWithTheirBatch) {
  for (const int workers : {0, 1, 3}) {
    const DataLoader loader(counting(40, {}, 9), {.batch_size = 4, .workers = workers});
    auto epoch = loader.epoch(0);
    EXPECT_EQ(epoch.next()->indices.front(), 0);
    EXPECT_EQ(epoch.next()->indices.front(), 4);
    expect_error<FormatError>([&] { epoch.next(); }, {"record 9 is damaged"});
    EXPECT_FALSE(epoch.next().has_value());
    const auto fails = [](Example example, Draws&) -> Example {
      if (example.input.item<std::int64_t>() == 5) throw std::domain_error("transform fails");
      return example;
    };
    auto transformed =
        DataLoader(counting(40, {.transform = fails}), {.batch_size = 4, .workers = workers})
            .epoch(0);
    EXPECT_TRUE(transformed.next().has_value());
    EXPECT_THROW(transformed.next(), std::domain_error);
    EXPECT_FALSE(transformed.next().has_value());
  }
}

TEST(Stream, EpochsEndAtAnyMoment) {
  for (const int workers : {1, 3}) {
    const DataLoader loader(counting(1'000'000'000), {.batch_size = 2, .workers = workers});
    for (std::int64_t taken = 0; taken < 5; ++taken) {
      auto epoch = loader.epoch(0);
      for (std::int64_t k = 0; k < taken; ++k) EXPECT_TRUE(epoch.next().has_value());
    }
  }
}

TEST(Stream, RefusesWhatNeedsASize) {
  const DataLoader loader(counting(10), {.batch_size = 4});
  EXPECT_TRUE(loader.is_stream());
  expect_error<ValueError>([&] { loader.batches(); }, {"DataLoader::batches", "stream"});
  expect_error<ValueError>([&] { loader.order(0); }, {"DataLoader::order", "stream"});
  expect_error<ValueError>([&] { loader.dataset(); }, {"DataLoader::dataset", "stream"});
  expect_error<IndexError>([&] { loader.epoch(0, 4); }, {"DataLoader::epoch", "4", "10 examples"});
  expect_error<IndexError>([&] { loader.epoch(0, -1); }, {"DataLoader::epoch", "-1"});
  EXPECT_FALSE(loader.epoch(0, 3).next().has_value());
  expect_error<ValueError>([] { DataLoader(counting(3), {.sampler = data::random_sampler()}); },
                           {"stream", "sampler"});
  expect_error<ValueError>([] { DataLoader(counting(3), {.batch_size = 0}); }, {"batch_size"});
  expect_error<ValueError>([] { StreamDataset(nullptr); }, {"StreamDataset", "no function"});
  expect_error<ValueError>([] { counting(3, {.shuffle_buffer = -1}); }, {"shuffle_buffer", "-1"});
  const DataLoader closed(StreamDataset([](std::int64_t) { return StreamDataset::Next(); }));
  expect_error<ValueError>([&] { closed.epoch(0); }, {"StreamDataset", "returned no function"});
}

}  // namespace
