// The batches of an epoch on a device.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "extensor/data/loader.h"
#include "ops/pending_copy.h"

namespace extensor::train {

// Reads at most `count` batches, in order. For a device other than the CPU, the next batch is
// loaded, and its copy started, before a batch is returned: the copy runs beside the work on that
// batch.
class DeviceBatches {
 public:
  DeviceBatches(data::DataLoader::Epoch epoch, Device device, std::int64_t count)
      : epoch_(std::move(epoch)), device_(device), left_(count) {}

  // Nullopt at the end. Exceptions from the dataset are rethrown at the position of the failed
  // batch.
  std::optional<data::Batch> next();
  // Whether next() would return nullopt. Loads the next batch to find out; its exceptions are
  // thrown by next().
  bool ended();

 private:
  struct Ahead {
    ops::PendingCopy inputs, targets;
    std::vector<std::int64_t> indices;
    std::vector<ops::PendingCopy> more_inputs, more_targets;
  };
  std::optional<Ahead> load();
  void load_ahead();

  data::DataLoader::Epoch epoch_;
  Device device_;
  std::int64_t left_;  // batches that may still be read
  std::optional<Ahead> ahead_;
  std::exception_ptr error_;  // of the batch ahead
};

}  // namespace extensor::train
