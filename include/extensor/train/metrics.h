// Metrics of classifiers, accumulated batch by batch.
//
//   train::ConfusionMatrix matrix(10);
//   for (const data::Batch& batch : loader.epoch(0)) {
//     matrix.add(model(batch.inputs), batch.targets);
//   }
//   matrix.accuracy();
//   matrix.f1(3);
#pragma once

#include <cstdint>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

// Rows are targets, columns are predictions.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);  // ValueError below 1 or above 32768
  // Adds predictions [n, classes] (logits or probabilities, decided by argmax: the first of equal
  // values, NaN above all) or classes [n], with targets [n]. Throws ShapeError, DTypeError, or
  // IndexError for a class outside the range; nothing is counted then.
  void add(const Tensor& predictions, const Tensor& targets);

  // Adds the counts of another matrix(), int64 [classes, classes]. Throws ShapeError or DTypeError.
  void add_counts(const Tensor& matrix);

  std::int64_t classes() const { return classes_; }
  std::int64_t count() const;                                           // number of examples
  std::int64_t at(std::int64_t target, std::int64_t prediction) const;  // IndexError
  Tensor matrix() const;                                                // int64 [classes, classes]
  // The metrics are NaN if the denominator is 0. Those of one class throw IndexError for an invalid
  // class.
  double accuracy() const;
  double precision(std::int64_t k) const;  // of the examples predicted as k, the fraction that is k
  double recall(std::int64_t k) const;  // of the examples that are k, the fraction predicted as k
  double f1(std::int64_t k) const;
  double macro_f1() const;  // mean over the classes that occur in the targets or predictions

 private:
  std::int64_t target_count(std::int64_t k) const;
  std::int64_t prediction_count(std::int64_t k) const;
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// The fraction of examples whose class is among the k highest of [n, classes] (the first of equal
// values, NaN above all, like argmax); NaN for no examples. Throws ShapeError, DTypeError,
// IndexError for a class outside the range, and ValueError unless 1 ≤ k ≤ classes.
double top_k_accuracy(const Tensor& logits, const Tensor& targets, std::int64_t k);

// exp(mean cross entropy per token)
double perplexity(double mean_cross_entropy);

}  // namespace extensor::train

EXTENSOR_END_API
