// Streams: examples that are read one after the other, whose number need not be known.
//
//   data::StreamDataset lines([](std::int64_t epoch) {
//     auto file = std::make_shared<std::ifstream>("lines.txt");
//     return [file]() -> std::optional<data::Example> { … nullopt at the end … };
//   }, {.shuffle_buffer = 10'000});
//   data::DataLoader loader(lines, {.batch_size = 64, .workers = 3});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "extensor/data/dataset.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

struct StreamOptions {
  // The next example is chosen at random from this many that are held in memory; 0: none, the order
  // of the source.
  std::int64_t shuffle_buffer = 0;
  // Applied to each example, by several threads at once: the place for decoding and augmentation.
  // The draws belong to the example's position in the source.
  std::function<Example(Example example, Draws& draws)> transform = {};
  Collate collate = stack_examples;
};

// A source that can be opened once for each epoch. It must return the same examples each time it is
// opened for the same epoch: a loader that starts at a later batch opens it again and skips the
// examples before, without transforming them.
class StreamDataset {
 public:
  // Returns the next example, nullopt at the end. One thread at a time calls it.
  using Next = std::function<std::optional<Example>()>;
  using Open = std::function<Next(std::int64_t epoch)>;
  // Throws ValueError if there is no function, or for a negative shuffle_buffer.
  explicit StreamDataset(Open open, const StreamOptions& options = {});

  const Open& open() const { return open_; }
  const StreamOptions& options() const { return options_; }

 private:
  Open open_;
  StreamOptions options_;
};

}  // namespace extensor::data

EXTENSOR_END_API
