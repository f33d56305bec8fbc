// Each rank holds the optimizer's states for one of size() equal parts of every bucket of
// gradients, so that reduce_scatter of a bucket gives it the gradients that it needs.
#pragma once

#include <atomic>
#include <unordered_map>
#include <vector>

#include "extensor/distributed/communicator.h"
#include "optim/sharding.h"

namespace extensor::distributed {

class BucketSharding final : public optim::Sharding {
 public:
  struct Bucket {
    DType dtype;
    Device device;
    std::int64_t numel;              // a multiple of the number of ranks
    std::vector<Tensor> parameters;  // one after another from the first element on
  };

  BucketSharding(Communicator& communicator, std::vector<Bucket> buckets);

  bool contains(const Tensor& parameter) const override;
  Part part(const Tensor& parameter) const override;
  void check_active(const char* operation) const override;
  void gather_parameters() override;
  Tensor gather_state(const Tensor& parameter, const Tensor& own) const override;
  Tensor gather_number(const Tensor& own) const override;

  // The DistributedDataParallel has ended.
  void deactivate() { is_active_ = false; }

 private:
  struct Place {
    std::int64_t offset;  // in the bucket
    std::int64_t chunk;   // elements of the bucket for one rank
    std::int64_t numel;
  };
  const Place& place_of(const Tensor& parameter) const;
  Part part_of_rank(const Place& place, std::int64_t rank) const;

  Communicator& communicator_;
  std::vector<Bucket> buckets_;
  std::unordered_map<const detail::TensorImpl*, Place> places_;
  std::atomic<bool> is_active_{true};
};

}  // namespace extensor::distributed
