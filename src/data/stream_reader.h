// Reads the batches of a stream, in order and from several threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "data/order_bits.h"
#include "extensor/data/loader.h"
#include "extensor/data/stream.h"

namespace extensor::data {

// One pass over a stream. The source and the shuffle buffer are read by one thread at a time, in
// the order of batches; the examples of different batches are transformed and collated in parallel.
class StreamReader {
 public:
  // Opens the stream and skips the examples of the batches before `first`. Throws IndexError if it
  // ends before.
  StreamReader(std::shared_ptr<const StreamDataset> stream, const DataLoaderOptions& options,
               std::int64_t epoch, std::int64_t first);

  // Batch `number`, nullopt beyond the end. Waits until every batch from `first` to number − 1 has
  // been asked for and read.
  std::optional<Batch> batch(std::int64_t number);

 private:
  struct Numbered {
    std::int64_t position;  // in the source
    Example example;
  };
  std::optional<Numbered> read();  // from the source
  std::optional<Numbered> draw();  // from the shuffle buffer
  std::vector<Numbered> draw_batch(std::int64_t number);

  const std::shared_ptr<const StreamDataset> stream_;
  const std::int64_t batch_size_, epoch_;
  const std::uint64_t seed_;
  const bool drop_last_;
  const std::size_t buffered_;  // the size of a full shuffle buffer

  std::mutex mutex_;  // guards everything below
  std::condition_variable turn_;
  std::int64_t next_;  // the batch to be read next
  StreamDataset::Next source_;
  bool ended_ = false;
  std::int64_t position_ = 0;
  std::vector<Numbered> buffer_;
  OrderBits bits_;
};

}  // namespace extensor::data
