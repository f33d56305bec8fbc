#include "distributed/bucket_sharding.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"

namespace extensor::distributed {

using detail::message;

namespace {

constexpr const char* operation = "DistributedDataParallel::shard";

}  // namespace

BucketSharding::BucketSharding(Communicator& communicator, std::vector<Bucket> buckets)
    : communicator_(communicator), buckets_(std::move(buckets)) {
  for (const Bucket& bucket : buckets_) {
    std::int64_t offset = 0;
    for (const Tensor& each : bucket.parameters) {
      places_.emplace(each.impl_or_null(),
                      Place{offset, bucket.numel / communicator.size(), each.numel()});
      offset += each.numel();
    }
  }
}

bool BucketSharding::contains(const Tensor& parameter) const {
  return places_.contains(parameter.impl_or_null());
}

const BucketSharding::Place& BucketSharding::place_of(const Tensor& parameter) const {
  return places_.at(parameter.impl_or_null());
}

optim::Sharding::Part BucketSharding::part_of_rank(const Place& place, std::int64_t rank) const {
  const auto limit = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at - place.offset, 0, place.numel);
  };
  return {limit(rank * place.chunk), limit((rank + 1) * place.chunk)};
}

optim::Sharding::Part BucketSharding::part(const Tensor& parameter) const {
  return part_of_rank(place_of(parameter), communicator_.rank());
}

void BucketSharding::check_active(const char* optimizer) const {
  if (is_active_) return;
  throw ValueError(message(optimizer,
                           ": its states are divided between ranks, and the "
                           "DistributedDataParallel that reduced the gradients has ended "
                           "(allowed: shard() of a new one)"));
}

// The parameters of a bucket travel as one vector; the next one is on its way while they are
// copied.
void BucketSharding::gather_parameters() {
  struct Gathering {
    Tensor own, all;
    Work work;
  };
  const detail::RecordingScope off(false);
  const auto start = [&](const Bucket& bucket) {
    Gathering made;
    made.own = full({bucket.numel / communicator_.size()}, 0, {bucket.dtype, bucket.device});
    made.all = detail::make_empty(operation, {bucket.numel}, bucket.dtype, bucket.device);
    const std::int64_t first = communicator_.rank() * made.own.numel();
    for (const Tensor& parameter : bucket.parameters) {
      const Part own = part(parameter);
      if (own.size() == 0) continue;
      const std::int64_t at = place_of(parameter).offset + own.begin - first;
      made.own.slice(0, at, at + own.size()).copy_from(optim::part_of(parameter, own));
    }
    made.work = communicator_.all_gather_async(made.own, made.all);
    return made;
  };
  const auto finish = [&](const Bucket& bucket, Gathering& made) {
    made.work.wait();
    for (Tensor parameter : bucket.parameters) {
      const std::int64_t at = place_of(parameter).offset;
      parameter.copy_from(made.all.slice(0, at, at + parameter.numel()).reshape(parameter.shape()));
    }
  };
  Gathering current;
  for (std::size_t k = 0; k < buckets_.size(); ++k) {
    Gathering next = start(buckets_[k]);
    if (k > 0) finish(buckets_[k - 1], current);
    current = std::move(next);
  }
  if (!buckets_.empty()) finish(buckets_.back(), current);
}

// Parts have different sizes: each is padded to the largest.
Tensor BucketSharding::gather_state(const Tensor& parameter, const Tensor& own) const {
  const detail::RecordingScope off(false);
  const Place& place = place_of(parameter);
  std::int64_t largest = 0;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    largest = std::max(largest, part_of_rank(place, rank).size());
  }
  Tensor padded = full({largest}, 0, {own.dtype(), own.device()});
  padded.slice(0, 0, own.numel()).copy_from(own);
  const Tensor all = communicator_.all_gather(padded);
  Tensor whole = detail::make_empty(operation, {place.numel}, own.dtype(), own.device());
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const Part part = part_of_rank(place, rank);
    if (part.size() == 0) continue;
    whole.slice(0, part.begin, part.end)
        .copy_from(all.slice(0, rank * largest, rank * largest + part.size()));
  }
  return whole.reshape(parameter.shape());
}

Tensor BucketSharding::gather_number(const Tensor& own) const {
  return communicator_.all_gather(own);
}

}  // namespace extensor::distributed
