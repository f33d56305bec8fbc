// Batches of a dataset, in an order, made when they are asked for or ahead by threads.
//
//   data::DataLoader loader(dataset, {.batch_size = 64});
//   for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
//     for (const data::Batch& batch : loader.epoch(epoch)) step(batch.inputs, batch.targets);
//   }
//
// The order is a function of (seed, epoch): the same for any number of workers, in any process. So
// is every random number that a batch is made with; an epoch can be begun at any of its batches.
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
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

struct DataLoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;
  bool drop_last = false;  // leave out a last batch that is not full
  // Threads that make batches ahead, for datasets that wait for files or compute on one thread.
  // Without them batches are made when asked for, those of pictures by all threads of the kernels:
  // the better choice for data in memory, since no core is taken from those that compute.
  int workers = 0;
  std::int64_t prefetch = 8;  // how many are made ahead, by all workers together
  std::uint64_t seed = 0;
};

class DataLoader {
 public:
  // ValueError for an option outside its range or a dataset that is not there.
  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options = {});
  // A copy of the dataset, which is light: tensors share their memory.
  template <std::derived_from<Dataset> Kind>
  explicit DataLoader(Kind dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::make_shared<const Kind>(std::move(dataset)), options) {}

  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  std::int64_t batches() const;  // in one epoch
  // The examples of an epoch in their order, with those at the end that drop_last leaves out.
  // ValueError for a negative epoch.
  std::vector<std::int64_t> order(std::int64_t epoch) const;

  class Epoch;
  // The batches of an epoch from number `first` on. ValueError for a negative epoch, IndexError for
  // a first batch beyond the end (at the end: none are left).
  Epoch epoch(std::int64_t epoch, std::int64_t first = 0) const;

 private:
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
};

// A pass over the batches that are left of an epoch; its threads end with it, wherever it is then.
// What a dataset throws is thrown where the batch would have come.
class DataLoader::Epoch {
 public:
  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;
  ~Epoch();

  std::optional<Batch> next();  // nothing when all were given

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    const Batch& operator*() const { return batch_; }  // at the end, an empty one
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
