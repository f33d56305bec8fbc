// Samplers: which examples of a dataset an epoch contains, and in which order.
//
//   data::DataLoader loader(dataset, {.sampler = data::weighted_sampler(weights, 10'000)});
//
// The order is a function of (dataset size, seed, epoch) only, so a loader can start at any batch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

// The base class of samplers. Several threads may call the functions at once.
class Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = default;
  Sampler& operator=(const Sampler&) = default;
  virtual ~Sampler() = default;

  // The number of examples in an epoch, for a dataset of `examples` examples. Throws ValueError if
  // the sampler does not fit a dataset of that size.
  virtual std::int64_t size(std::int64_t examples) const = 0;
  // Their indices, in order: size(examples) numbers in [0, examples), which the loader verifies.
  virtual std::vector<std::int64_t> order(std::int64_t examples, std::uint64_t seed,
                                          std::int64_t epoch) const = 0;
};

using SamplerPointer = std::shared_ptr<const Sampler>;

SamplerPointer sequential_sampler();  // 0, 1, 2, …: that of shuffle = false
SamplerPointer random_sampler();      // a random permutation: that of shuffle = true

// `count` draws in which example k has a probability proportional to weights[k]; without
// replacement, no example is drawn twice. Throws ValueError for a weight that is negative or not
// finite, for weights that are all 0, and without replacement for a count above the number of
// positive weights.
SamplerPointer weighted_sampler(std::vector<double> weights, std::int64_t count,
                                bool replacement = true);

// These examples, in this order or shuffled. Throws IndexError for a negative index.
SamplerPointer subset_sampler(std::vector<std::int64_t> indices, bool shuffle = true);

struct DistributedSamplerOptions {
  std::int64_t process = 0;  // the number of this process
  std::int64_t processes = 1;
  bool shuffle = true;
  bool drop_last = false;
};
// Every `processes`-th example of an order that all processes share, beginning with number
// `process`, so that each reads its own part of every epoch. All parts have the same size: the
// first examples of the order are repeated at its end, or with drop_last its last ones are omitted.
// All processes must use the same seed. Throws ValueError unless 0 ≤ process < processes.
SamplerPointer distributed_sampler(const DistributedSamplerOptions& options);

}  // namespace extensor::data

EXTENSOR_END_API
