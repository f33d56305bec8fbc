#include "train/device_batches.h"

#include <utility>

namespace extensor::train {

std::optional<DeviceBatches::Ahead> DeviceBatches::load() {
  if (left_ <= 0) return std::nullopt;
  --left_;
  std::optional<data::Batch> batch = epoch_.next();
  if (!batch) return std::nullopt;
  return Ahead{ops::PendingCopy(batch->inputs, device_), ops::PendingCopy(batch->targets, device_),
               std::move(batch->indices)};
}

void DeviceBatches::load_ahead() {
  try {
    ahead_ = load();
  } catch (...) {
    error_ = std::current_exception();
  }
}

std::optional<data::Batch> DeviceBatches::next() {
  std::optional<Ahead> current = std::exchange(ahead_, std::nullopt);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!current) current = load();
  if (!current) return std::nullopt;
  data::Batch batch{current->inputs.tensor(), current->targets.tensor(),
                    std::move(current->indices)};
  if (!(device_ == cpu_device)) load_ahead();
  return batch;
}

}  // namespace extensor::train
