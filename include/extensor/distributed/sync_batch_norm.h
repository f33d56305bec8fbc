// Batch norm whose statistics are those of the batches of all ranks together.
#pragma once

#include <cstdint>
#include <string>

#include "extensor/distributed/communicator.h"
#include "extensor/export.h"
#include "extensor/nn/layers.h"

EXTENSOR_BEGIN_API

namespace extensor::distributed {

// Takes the place of BatchNorm1d and BatchNorm2d, with the same state. x: [n, features, …]. In
// training, every rank must call it with at least one value per channel; backward() communicates as
// well. The communicator must outlive it.
class SyncBatchNorm final : public nn::Module<SyncBatchNorm> {
 public:
  explicit SyncBatchNorm(std::int64_t features, const nn::BatchNormOptions& options = {},
                         Communicator& communicator = init());
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(nn::Walker& walk);

  nn::Parameter weight, bias;            // [features]
  nn::Buffer running_mean, running_var;  // [features]
  nn::Buffer num_batches_tracked;        // one int64
  nn::Training training;

 private:
  std::int64_t features_;
  nn::BatchNormOptions options_;
  Communicator* communicator_;
};

}  // namespace extensor::distributed

EXTENSOR_END_API
