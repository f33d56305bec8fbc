// How good a classifier is, counted batch by batch.
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

// Rows: what it was; columns: what it was taken for.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);  // ValueError below 1 and above 32768
  // Logits or probabilities [n, classes], the highest counts (the first of equals; NaN counts as
  // highest, as argmax has it), and classes [n]; or classes [n] twice. ShapeError, DTypeError,
  // IndexError for a class outside the range; nothing is counted then.
  void add(const Tensor& predictions, const Tensor& targets);

  std::int64_t classes() const { return classes_; }
  std::int64_t count() const;                                           // of examples
  std::int64_t at(std::int64_t target, std::int64_t prediction) const;  // IndexError
  Tensor matrix() const;                                                // int64 [classes, classes]
  // NaN where there is nothing to divide by.
  double accuracy() const;
  double precision(std::int64_t k) const;  // of those taken for class k, the part that was
  double recall(std::int64_t k) const;     // of those that were, the part taken for it
  double f1(std::int64_t k) const;         // IndexError, these three, for what is no class
  double macro_f1() const;  // the mean over the classes that were there or were taken for there

 private:
  std::int64_t target_count(std::int64_t k) const;
  std::int64_t prediction_count(std::int64_t k) const;
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// The part of the examples whose class is among the k highest of [n, classes] (of equals the first,
// NaN as the highest, as argmax has it); NaN of no examples. ShapeError, DTypeError, IndexError for
// a class outside the range, ValueError unless 1 ≤ k ≤ classes.
double top_k_accuracy(const Tensor& logits, const Tensor& targets, std::int64_t k);

// e to the mean loss of a token.
double perplexity(double mean_cross_entropy);

}  // namespace extensor::train

EXTENSOR_END_API
