// Examples to learn from, by number.
//
//   data::ImageDataset digits(data::digits(10'000), {data::normalize({0.13}, {0.31})});
//   data::Batch batch = digits.batch({indices});   // inputs float32 [n, 1, 28, 28], targets [n]
//
// A dataset of one's own derives from Dataset, or is a function of one example:
//
//   data::FunctionDataset squares(1000, [](std::int64_t k, data::Draws& draws) {
//     const double x = draws.uniform(-1, 1);
//     return data::Example{scalar(x, float32), scalar(x * x, float32)};
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

// The random numbers of one example: a function of (seed, epoch, index) alone, so that it does not
// matter which thread asks, in which order, or in which process. They are none of those that
// tensors are drawn from, whatever the seeds. ValueError for an epoch outside [0, 2⁴⁰) and an index
// outside [0, 2⁴⁸).
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t epoch, std::int64_t index);

  double uniform();  // in [0, 1)
  // In [low, high), low where they are the same. ValueError unless low ≤ high.
  double uniform(double low, double high);
  // 0 … count − 1, all equally likely. ValueError below 1.
  std::int64_t below(std::int64_t count);
  // True with this probability. ValueError outside [0, 1].
  bool chance(double probability);

 private:
  std::uint64_t bits();
  std::uint64_t seed_, epoch_, index_;
  std::uint64_t next_ = 0, spare_ = 0;  // bits are made two at a time
};

struct Example {
  Tensor input, target;
};

// Several examples; the first dimension counts them.
struct Batch {
  Tensor inputs, targets;
  std::vector<std::int64_t> indices;  // which examples they are
  std::int64_t size() const { return static_cast<std::int64_t>(indices.size()); }
};

// Which examples, and where their random numbers come from.
struct Request {
  std::span<const std::int64_t> indices;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  // A function of the request alone, asked by several threads at once. IndexError for an index
  // outside [0, size()).
  virtual Batch batch(const Request& request) const = 0;
};

// Rows of tensors, as they are: example k is inputs[k] and targets[k]. ShapeError where the first
// dimensions differ or there is none.
class TensorDataset final : public Dataset {
 public:
  TensorDataset(Tensor inputs, Tensor targets);
  std::int64_t size() const override;
  Batch batch(const Request& request) const override;

 private:
  Tensor inputs_, targets_;
};

// One example at a time, stacked to batches. Every example has the shapes and dtypes of the first
// one in its batch: ShapeError, DTypeError otherwise.
class FunctionDataset final : public Dataset {
 public:
  using Function = std::function<Example(std::int64_t index, Draws& draws)>;
  FunctionDataset(std::int64_t size, Function function);  // ValueError for a negative size
  std::int64_t size() const override { return size_; }
  Batch batch(const Request& request) const override;

 private:
  std::int64_t size_;
  Function function_;
};

// Examples first … last − 1 of another dataset: what is held out, say. IndexError beyond its end.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::int64_t first, std::int64_t last);
  std::int64_t size() const override { return last_ - first_; }
  Batch batch(const Request& request) const override;  // indices and draws are those of the whole

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::int64_t first_, last_;
};

}  // namespace extensor::data

EXTENSOR_END_API
