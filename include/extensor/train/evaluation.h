// Evaluates a model on data that it is not trained on.
//
//   train::Evaluation result = train::evaluate(model, loader);
//   std::printf("%.2f %% right\n", 100 * result.accuracy);
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "extensor/data/loader.h"
#include "extensor/export.h"
#include "extensor/train/metrics.h"
#include "extensor/train/model_reference.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

// Returns the mean over the batch.
using Loss = std::function<Tensor(const Tensor& outputs, const Tensor& targets)>;

// Cross entropy over the last dimension: [n, classes] with classes [n], [n, length, classes] with
// [n, length] …
Tensor classification_loss(const Tensor& logits, const Tensor& targets);

// The prediction for one example.
struct Judged {
  std::int64_t index = 0;  // in the dataset
  std::int64_t target = 0, prediction = 0;
  double loss = 0;
  double probability = 0;  // of the prediction; that of the target is exp(-loss)
  bool is_right() const { return target == prediction; }
};

struct Evaluation {
  double loss = std::numeric_limits<double>::quiet_NaN();      // mean over all examples
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // NaN if targets are not classes
  std::int64_t examples = 0;
  std::optional<ConfusionMatrix> confusion;  // for outputs [n, classes] with at most 1000 classes
  std::vector<Judged> worst;                 // mistakes first, then by descending loss
};

struct EvaluationOptions {
  Loss loss = classification_loss;
  std::int64_t worst = 0;    // number of worst examples to keep
  std::int64_t batches = 0;  // only the first batches; 0: all
};

// Evaluates epoch 0 of the loader in evaluation mode and without gradients. Leaves the model in
// training mode.
Evaluation evaluate(const ModelReference& model, const data::DataLoader& loader,
                    const EvaluationOptions& options = {});

}  // namespace extensor::train

EXTENSOR_END_API
