// Datasets: examples to learn from, accessed by index.
//
//   data::ImageDataset digits(data::digits(10'000), {data::normalize({0.13}, {0.31})});
//   data::Batch batch = digits.batch({indices});   // inputs float32 [n, 1, 28, 28], targets [n]
//
// A custom dataset derives from Dataset, or is a function of one example:
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

// The random numbers of one example: a function of (seed, epoch, index) only, independent of
// thread, order and process. They never share a random block with random tensors, whatever the
// seeds. Throws ValueError for an epoch outside [0, 2⁴⁰) and an index outside [0, 2⁴⁸).
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t epoch, std::int64_t index);

  double uniform();  // in [0, 1)
  // Uniform in [low, high); low if both are equal. Throws ValueError unless low ≤ high.
  double uniform(double low, double high);
  // Uniform in 0 … count − 1. Throws ValueError for a count below 1.
  std::int64_t below(std::int64_t count);
  // True with this probability. Throws ValueError outside [0, 1].
  bool chance(double probability);

 private:
  std::uint64_t bits();
  std::uint64_t seed_, epoch_, index_;
  std::uint64_t next_ = 0, spare_ = 0;  // bits are generated in pairs
};

// One input and one target; the second, third … of an example with several are in the lists.
struct Example {
  Tensor input, target;
  std::vector<Tensor> more_inputs = {}, more_targets = {};
};

// Several examples, stacked along the first dimension.
struct Batch {
  Tensor inputs, targets;
  std::vector<std::int64_t> indices;                        // the examples' indices in the dataset
  std::vector<Tensor> more_inputs = {}, more_targets = {};  // the second, third … if any
  std::int64_t size() const { return static_cast<std::int64_t>(indices.size()); }
  // All of them in order: {inputs, more_inputs …}.
  std::vector<Tensor> all_inputs() const;
  std::vector<Tensor> all_targets() const;
};

// Makes a batch of examples; runs in several threads at once. The loader sets Batch::indices.
using Collate = std::function<Batch(std::span<const Example> examples)>;

// The default Collate: stacks equal shapes and dtypes along a new first dimension. Throws
// ShapeError or DTypeError if an example differs from the first, and ValueError for another number
// of inputs or targets.
Batch stack_examples(std::span<const Example> examples);
// A Collate for examples of different sizes, such as sentences: extends every input, and every
// target with dimensions, at the end of each dimension to the largest size in the batch.
Collate pad_examples(double input_padding = 0, double target_padding = 0);

// The examples to load, and the source of their random numbers.
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
  // Depends on the request only and must be safe to call from several threads. Throws IndexError
  // for an index outside [0, size()).
  virtual Batch batch(const Request& request) const = 0;
};

// Rows of tensors: example k is inputs[k] and targets[k]. Throws ShapeError if the first dimensions
// differ or a tensor has no dimensions.
class TensorDataset final : public Dataset {
 public:
  TensorDataset(Tensor inputs, Tensor targets);
  // Several inputs and targets: TensorDataset({images, ages}, {labels, boxes}). Throws ValueError
  // if a list is empty.
  TensorDataset(std::vector<Tensor> inputs, std::vector<Tensor> targets);
  std::int64_t size() const override;
  Batch batch(const Request& request) const override;

 private:
  std::vector<Tensor> inputs_, targets_;
};

// Calls a function for each example and makes batches of the results. Exceptions of the function
// and of `collate` reach the caller of the loader.
class FunctionDataset final : public Dataset {
 public:
  using Function = std::function<Example(std::int64_t index, Draws& draws)>;
  // ValueError for a negative size.
  FunctionDataset(std::int64_t size, Function function, Collate collate = stack_examples);
  std::int64_t size() const override { return size_; }
  Batch batch(const Request& request) const override;

 private:
  std::int64_t size_;
  Function function_;
  Collate collate_;
};

// Examples first … last − 1 of another dataset, or those with the given indices, for example a
// validation split. Throws IndexError beyond its end.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::int64_t first, std::int64_t last);
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return last_ - first_; }
  Batch batch(const Request& request) const override;  // indices and draws of the full dataset

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;  // empty: a range
  std::int64_t first_, last_;
};

// The examples of several datasets, one dataset after the other. Their shapes and dtypes must agree
// within a batch: ShapeError, DTypeError, or ValueError for another number of inputs or targets.
class ConcatDataset final : public Dataset {
 public:
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);
  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Batch batch(const Request& request) const override;

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;  // one beyond the last example of each
};

// Divides a dataset at random into disjoint parts, a function of the seed. The parts are fractions
// if their sum is 1, and numbers of examples otherwise:
//   auto parts = data::random_split(dataset, {0.8, 0.2}, seed);
// Examples that the rounding of fractions leaves over go to the first parts. Throws ValueError for
// a negative part, and for numbers that are not integers or whose sum is not the dataset's size.
std::vector<std::shared_ptr<const Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                        const std::vector<double>& parts,
                                                        std::uint64_t seed = 0);

}  // namespace extensor::data

EXTENSOR_END_API
