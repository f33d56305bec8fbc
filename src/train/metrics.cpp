#include "extensor/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "core/check.h"
#include "core/convert.h"
#include "core/make_tensor.h"
#include "core/visit.h"
#include "extensor/autograd.h"
#include "extensor/reduction.h"
#include "ops/checked_indices.h"

namespace extensor::train {

using detail::message;

namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Checks scores [n, classes] and targets [n].
void check_scores(const char* operation, const Tensor& scores, const Tensor& targets) {
  if (scores.ndim() != 2 || targets.ndim() != 1 || scores.size(0) != targets.size(0)) {
    throw ShapeError(message(operation, ": scores are ", scores.shape(), " and targets ",
                             targets.shape(), ", must be [n, classes] and [n]"));
  }
  if (!is_floating_point(scores.dtype())) {
    throw DTypeError(message(operation, ": scores are ", scores.dtype(), ", must be floats"));
  }
}

// The classes as int64 on the CPU, each in 0 … count − 1. Throws DTypeError or IndexError.
Tensor checked_classes(const char* operation, const Tensor& classes, std::int64_t count) {
  return ops::checked_indices(operation, classes.to(cpu_device), {.size = count, .axis = 1});
}

// The number of scores ranked above that of `target`: higher ones, and equal ones of lower classes.
template <class Score>
std::int64_t rank_of(const Score* row, std::int64_t classes, std::int64_t target) {
  const auto score = detail::convert<double>(row[target]);
  std::int64_t rank = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    const auto other = detail::convert<double>(row[k]);
    const bool higher = std::isnan(score) ? false : std::isnan(other) || other > score;
    const bool equal = other == score || (std::isnan(other) && std::isnan(score));
    if (higher || (equal && k < target)) ++rank;
  }
  return rank;
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  constexpr std::int64_t most = 32768;
  if (classes < 1 || classes > most) {
    throw ValueError(message("ConfusionMatrix: classes is ", classes, ", must be 1 to ", most));
  }
  try {
    counts_.resize(static_cast<std::size_t>(classes * classes));
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(
        message("ConfusionMatrix: no room for ", classes, " by ", classes, " counts"));
  }
}

void ConfusionMatrix::add(const Tensor& predictions, const Tensor& targets) {
  constexpr const char* operation = "ConfusionMatrix::add";
  const NoGrad off;
  Tensor chosen;
  if (predictions.ndim() == 1) {
    if (predictions.shape() != targets.shape()) {
      throw ShapeError(message(operation, ": predictions are ", predictions.shape(),
                               " and targets ", targets.shape(), ", must have the same shape"));
    }
    chosen = checked_classes(operation, predictions, classes_);
  } else {
    check_scores(operation, predictions, targets);
    if (predictions.size(1) != classes_) {
      throw ShapeError(message(operation, ": predictions are ", predictions.shape(),
                               ", must be [n, ", classes_, "]"));
    }
    chosen = argmax(predictions, 1);
  }
  chosen = chosen.to(cpu_device);
  const Tensor right = checked_classes(operation, targets, classes_);
  const std::int64_t* rows = right.data<std::int64_t>();
  const std::int64_t* columns = chosen.data<std::int64_t>();
  for (std::int64_t i = 0; i < right.numel(); ++i) {
    ++counts_[static_cast<std::size_t>(rows[i] * classes_ + columns[i])];
  }
}

void ConfusionMatrix::add_counts(const Tensor& matrix) {
  const Shape shape{classes_, classes_};
  if (!(matrix.shape() == shape)) {
    throw ShapeError(message("ConfusionMatrix::add_counts: the counts are ", matrix.shape(),
                             ", must be ", shape));
  }
  const auto more = matrix.to_vector<std::int64_t>();
  for (std::size_t k = 0; k < more.size(); ++k) counts_[k] += more[k];
}

std::int64_t ConfusionMatrix::count() const {
  std::int64_t total = 0;
  for (const std::int64_t count : counts_) total += count;
  return total;
}

std::int64_t ConfusionMatrix::at(std::int64_t target, std::int64_t prediction) const {
  for (const std::int64_t k : {target, prediction}) {
    if (k < 0 || k >= classes_) {
      throw IndexError(message("ConfusionMatrix: class ", k, " of ", classes_, " (allowed: 0 to ",
                               classes_ - 1, ")"));
    }
  }
  return counts_[static_cast<std::size_t>(target * classes_ + prediction)];
}

Tensor ConfusionMatrix::matrix() const {
  Tensor result =
      detail::make_empty("ConfusionMatrix::matrix", {classes_, classes_}, DType::int64, cpu_device);
  std::ranges::copy(counts_, result.data<std::int64_t>());
  return result;
}

std::int64_t ConfusionMatrix::target_count(std::int64_t k) const {
  std::int64_t total = 0;
  for (std::int64_t other = 0; other < classes_; ++other) total += at(k, other);
  return total;
}

std::int64_t ConfusionMatrix::prediction_count(std::int64_t k) const {
  std::int64_t total = 0;
  for (std::int64_t other = 0; other < classes_; ++other) total += at(other, k);
  return total;
}

double ConfusionMatrix::accuracy() const {
  std::int64_t right = 0;
  for (std::int64_t k = 0; k < classes_; ++k) right += at(k, k);
  return ratio(right, count());
}

double ConfusionMatrix::precision(std::int64_t k) const {
  return ratio(at(k, k), prediction_count(k));
}

double ConfusionMatrix::recall(std::int64_t k) const { return ratio(at(k, k), target_count(k)); }

double ConfusionMatrix::f1(std::int64_t k) const {
  return ratio(2 * at(k, k), target_count(k) + prediction_count(k));
}

double ConfusionMatrix::macro_f1() const {
  double total = 0;
  std::int64_t there = 0;
  for (std::int64_t k = 0; k < classes_; ++k) {
    const double score = f1(k);
    if (std::isnan(score)) continue;
    total += score;
    ++there;
  }
  return there == 0 ? std::numeric_limits<double>::quiet_NaN() : total / static_cast<double>(there);
}

double top_k_accuracy(const Tensor& logits, const Tensor& targets, std::int64_t k) {
  constexpr const char* operation = "top_k_accuracy";
  const NoGrad off;
  check_scores(operation, logits, targets);
  const std::int64_t classes = logits.size(1);
  if (k < 1 || k > classes) {
    throw ValueError(message(operation, ": k is ", k, ", must be 1 to ", classes));
  }
  const Tensor right = checked_classes(operation, targets, classes);
  const Tensor scores = logits.to(cpu_device).contiguous();
  const std::int64_t* rows = right.data<std::int64_t>();
  std::int64_t among = 0;
  detail::visit_dtype(scores.dtype(), [&]<class Score>() {
    const auto* row = scores.data<Score>();
    for (std::int64_t i = 0; i < right.numel(); ++i, row += classes) {
      if (rank_of(row, classes, rows[i]) < k) ++among;
    }
  });
  return ratio(among, right.numel());
}

double perplexity(double mean_cross_entropy) { return std::exp(mean_cross_entropy); }

}  // namespace extensor::train
