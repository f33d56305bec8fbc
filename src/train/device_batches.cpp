#include "train/device_batches.h"

#include <utility>

namespace extensor::train {

std::optional<DeviceBatches::Ahead> DeviceBatches::load() {
  if (left_ <= 0) return std::nullopt;
  --left_;
  std::optional<data::Batch> batch = epoch_.next();
  if (!batch) return std::nullopt;
  if (batch->size() == 0) return Ahead{};  // this rank's part of a small last batch
  Ahead ahead{ops::PendingCopy(batch->inputs, device_),
              ops::PendingCopy(batch->targets, device_),
              std::move(batch->indices),
              {},
              {}};
  for (const Tensor& x : batch->more_inputs) ahead.more_inputs.emplace_back(x, device_);
  for (const Tensor& x : batch->more_targets) ahead.more_targets.emplace_back(x, device_);
  return ahead;
}

bool DeviceBatches::ended() {
  if (!ahead_ && error_ == nullptr) load_ahead();
  return !ahead_ && error_ == nullptr;
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
  data::Batch batch;
  if (!current->indices.empty()) {
    batch.inputs = current->inputs.tensor();
    batch.targets = current->targets.tensor();
  }
  batch.indices = std::move(current->indices);
  for (ops::PendingCopy& x : current->more_inputs) batch.more_inputs.push_back(x.tensor());
  for (ops::PendingCopy& x : current->more_targets) batch.more_targets.push_back(x.tensor());
  if (!(device_ == cpu_device)) load_ahead();
  return batch;
}

}  // namespace extensor::train
