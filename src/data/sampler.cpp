#include "extensor/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "data/order_bits.h"

namespace extensor::data {

using detail::message;

namespace {

using Numbers = std::vector<std::int64_t>;

// 0, 1, 2, … below count.
Numbers counted(std::int64_t count) {
  try {
    Numbers numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    return numbers;
  } catch (const std::exception&) {
    throw OutOfMemoryError(message("DataLoader::order: no memory for ", count, " numbers"));
  }
}

class Sequential final : public Sampler {
 public:
  std::int64_t size(std::int64_t examples) const override { return examples; }
  Numbers order(std::int64_t examples, std::uint64_t, std::int64_t) const override {
    return counted(examples);
  }
};

class Random final : public Sampler {
 public:
  std::int64_t size(std::int64_t examples) const override { return examples; }
  Numbers order(std::int64_t examples, std::uint64_t seed, std::int64_t epoch) const override {
    Numbers numbers = counted(examples);
    OrderBits bits(seed, epoch);
    shuffle(numbers, bits);
    return numbers;
  }
};

class Weighted final : public Sampler {
 public:
  Weighted(std::vector<double> weights, std::int64_t count, bool replacement)
      : weights_(std::move(weights)), count_(count), replacement_(replacement) {
    std::int64_t positive = 0;
    double sum = 0;
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      if (!(weights_[k] >= 0) || !std::isfinite(weights_[k])) {
        throw ValueError(message("weighted_sampler: weight ", k, " is ", weights_[k],
                                 " (allowed: finite numbers of 0 or more)"));
      }
      if (weights_[k] == 0) continue;
      positive += 1;
      sum += weights_[k];
      last_ = static_cast<std::int64_t>(k);
    }
    if (count < 0) {
      throw ValueError(message("weighted_sampler: count is ", count, " (allowed: 0 or more)"));
    }
    if (count > 0 && (positive == 0 || !std::isfinite(sum))) {
      throw ValueError(message("weighted_sampler: the sum of ", weights_.size(), " weights is ",
                               sum, " (allowed: finite, above 0)"));
    }
    if (!replacement && count > positive) {
      throw ValueError(
          message("weighted_sampler: count is ", count, " with ", positive,
                  " positive weights (allowed: at most as many, without replacement)"));
    }
  }

  std::int64_t size(std::int64_t examples) const override {
    if (examples != std::ssize(weights_)) {
      throw ValueError(message("weighted_sampler: there are ", weights_.size(), " weights for ",
                               examples, " examples (allowed: one for each)"));
    }
    return count_;
  }

  Numbers order(std::int64_t examples, std::uint64_t seed, std::int64_t epoch) const override {
    size(examples);
    OrderBits bits(seed, epoch);
    return replacement_ ? draws(bits) : permutation(bits);
  }

 private:
  Numbers draws(OrderBits& bits) const {
    std::vector<double> sums(weights_.size());
    std::partial_sum(weights_.begin(), weights_.end(), sums.begin());
    Numbers order(static_cast<std::size_t>(count_));
    for (std::int64_t& index : order) {
      const double at = detail::uniform_double(bits()) * sums.back();
      // The first example whose sum exceeds the draw: never one with weight 0.
      index = std::min(last_, std::distance(sums.begin(), std::ranges::upper_bound(sums, at)));
    }
    return order;
  }

  // The examples with the smallest −log(u) / weight (Efraimidis and Spirakis, "Weighted random
  // sampling with a reservoir", 2006), in this order.
  Numbers permutation(OrderBits& bits) const {
    std::vector<std::pair<double, std::int64_t>> keys;
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      const double u = 1 - detail::uniform_double(bits());  // in (0, 1]
      if (weights_[k] > 0) {
        keys.emplace_back(-std::log(u) / weights_[k], static_cast<std::int64_t>(k));
      }
    }
    const auto count = static_cast<std::ptrdiff_t>(count_);
    std::partial_sort(keys.begin(), keys.begin() + count, keys.end());
    Numbers order;
    for (std::ptrdiff_t k = 0; k < count; ++k)
      order.push_back(keys[static_cast<std::size_t>(k)].second);
    return order;
  }

  std::vector<double> weights_;
  std::int64_t count_;
  bool replacement_;
  std::int64_t last_ = 0;  // the last example with a positive weight
};

class Chosen final : public Sampler {
 public:
  Chosen(Numbers indices, bool shuffles) : indices_(std::move(indices)), shuffles_(shuffles) {
    for (const std::int64_t index : indices_) {
      if (index < 0) {
        throw IndexError(message("subset_sampler: index ", index, " (allowed: 0 and more)"));
      }
    }
  }
  std::int64_t size(std::int64_t) const override { return std::ssize(indices_); }
  Numbers order(std::int64_t, std::uint64_t seed, std::int64_t epoch) const override {
    Numbers order = indices_;
    OrderBits bits(seed, epoch);
    if (shuffles_) shuffle(order, bits);
    return order;
  }

 private:
  Numbers indices_;
  bool shuffles_;
};

class Distributed final : public Sampler {
 public:
  explicit Distributed(const DistributedSamplerOptions& options) : options_(options) {
    if (options.processes < 1 || options.process < 0 || options.process >= options.processes) {
      throw ValueError(message("distributed_sampler: process is ", options.process, " of ",
                               options.processes, " (allowed: 0 ≤ process < processes)"));
    }
  }
  std::int64_t size(std::int64_t examples) const override {
    const std::int64_t whole = examples / options_.processes;
    return options_.drop_last || examples % options_.processes == 0 ? whole : whole + 1;
  }
  Numbers order(std::int64_t examples, std::uint64_t seed, std::int64_t epoch) const override {
    Numbers all = counted(examples);
    OrderBits bits(seed, epoch);
    if (options_.shuffle) shuffle(all, bits);
    Numbers mine(static_cast<std::size_t>(size(examples)));
    for (std::size_t k = 0; k < mine.size(); ++k) {
      const auto at = k * static_cast<std::size_t>(options_.processes) +
                      static_cast<std::size_t>(options_.process);
      mine[k] = all[at % all.size()];
    }
    return mine;
  }

 private:
  DistributedSamplerOptions options_;
};

}  // namespace

SamplerPointer sequential_sampler() { return std::make_shared<const Sequential>(); }
SamplerPointer random_sampler() { return std::make_shared<const Random>(); }
SamplerPointer weighted_sampler(std::vector<double> weights, std::int64_t count, bool replacement) {
  return std::make_shared<const Weighted>(std::move(weights), count, replacement);
}
SamplerPointer subset_sampler(std::vector<std::int64_t> indices, bool shuffle) {
  return std::make_shared<const Chosen>(std::move(indices), shuffle);
}
SamplerPointer distributed_sampler(const DistributedSamplerOptions& options) {
  return std::make_shared<const Distributed>(options);
}

}  // namespace extensor::data
