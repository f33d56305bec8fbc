// Loads the batches of a dataset in order, on demand or ahead of time in worker threads.
//
//   data::DataLoader loader(dataset, {.batch_size = 64});
//   for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
//     for (const data::Batch& batch : loader.epoch(epoch)) step(batch.inputs, batch.targets);
//   }
//
// The order and all random numbers are functions of (seed, epoch): the same for any number of
// workers, in any process. An epoch can start at any of its batches.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "extensor/data/dataset.h"
#include "extensor/data/sampler.h"
#include "extensor/data/stream.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

struct DataLoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;
  bool drop_last = false;  // omit an incomplete last batch
  // Threads that prepare batches ahead, for datasets that wait for files or use one thread. With 0
  // workers, batches are made on demand, and those of images by all threads of the parallel
  // kernels. That is better for data in memory, since workers would take cores from the
  // computation.
  int workers = 0;
  std::int64_t prefetch = 8;  // batches prepared ahead, by all workers together
  std::uint64_t seed = 0;
  // Chooses the examples of an epoch and their order, instead of `shuffle`.
  SamplerPointer sampler = {};
  // For training on several processes: each loads its part of every batch. The parts are contiguous
  // and differ by at most one example; that of the last batch is empty (Batch::size() is 0, its
  // tensors are undefined) if there are fewer examples than ranks. The batches are the same for any
  // number of ranks, so a run can be resumed at any batch with another number.
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
};

class DataLoader {
 public:
  // Throws ValueError for an option outside its range, a null dataset, or a sampler that does not
  // fit the dataset.
  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options = {});
  // Reads a stream, whose examples are counted only by reading them. Throws ValueError for an
  // option outside its range or a sampler; without `shuffle`, the shuffle buffer is not used.
  explicit DataLoader(StreamDataset stream, const DataLoaderOptions& options = {});
  // Copies the dataset, which is cheap: tensors share their memory.
  template <std::derived_from<Dataset> Kind>
  explicit DataLoader(Kind dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::make_shared<const Kind>(std::move(dataset)), options) {}

  const Dataset& dataset() const;  // ValueError for a stream
  const DataLoaderOptions& options() const { return options_; }
  bool is_stream() const { return stream_ != nullptr; }
  std::int64_t batches() const;  // batches per epoch; ValueError for a stream
  // The examples of batch `batch` on all ranks together, for the mean over them. Throws ValueError
  // for a stream and IndexError for a batch outside the epoch.
  std::int64_t examples_of_batch(std::int64_t batch) const;
  // The examples of an epoch in order, including those at the end that drop_last omits. Throws
  // ValueError for a negative epoch, a stream, or a sampler whose order has another number of
  // examples than its size, and IndexError for one outside the dataset.
  std::vector<std::int64_t> order(std::int64_t epoch) const;

  class Epoch;
  // The batches of an epoch from batch `first` on. Throws ValueError for a negative epoch and
  // IndexError for a first batch beyond the end (first == batches() is allowed: an empty pass). A
  // stream is opened and read up to that batch.
  Epoch epoch(std::int64_t epoch, std::int64_t first = 0) const;

 private:
  std::shared_ptr<const Dataset> dataset_;       // null for a stream
  std::shared_ptr<const StreamDataset> stream_;  // null for a dataset
  DataLoaderOptions options_;
};

// A pass over the remaining batches of an epoch. The destructor ends its threads at any point.
// Exceptions from the dataset are rethrown at the position of the failed batch.
class DataLoader::Epoch {
 public:
  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;
  ~Epoch();

  std::optional<Batch> next();  // nullopt at the end

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    const Batch& operator*() const { return batch_; }  // empty at the end
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++() {
      std::optional<Batch> next = epoch_->next();
      is_end_ = !next.has_value();
      batch_ = next ? *std::move(next) : Batch();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return is_end_; }

   private:
    friend class Epoch;
    explicit Iterator(Epoch* epoch) : epoch_(epoch) { ++*this; }
    Epoch* epoch_;
    Batch batch_;
    bool is_end_ = false;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class DataLoader;
  struct Work;
  explicit Epoch(std::unique_ptr<Work> work);
  std::unique_ptr<Work> work_;
};

}  // namespace extensor::data

EXTENSOR_END_API
