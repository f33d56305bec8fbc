// How well a model does on data that it is not learning from.
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

// A mean over the batch, of what the model gives and what it should.
using Loss = std::function<Tensor(const Tensor& outputs, const Tensor& targets)>;

// Cross entropy with the classes last: [n, classes] with classes [n], [n, length, classes] with
// [n, length] …
Tensor classification_loss(const Tensor& logits, const Tensor& targets);

// What a model made of one example.
struct Judged {
  std::int64_t index = 0;  // of the example
  std::int64_t target = 0, prediction = 0;
  double loss = 0;
  bool is_right() const { return target == prediction; }
};

struct Evaluation {
  double loss = std::numeric_limits<double>::quiet_NaN();      // the mean over all examples
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // NaN where targets are no classes
  std::int64_t examples = 0;
  std::optional<ConfusionMatrix> confusion;  // where outputs are [n, classes], at most 1000 of them
  std::vector<Judged> worst;                 // mistakes first, then by loss, the highest first
};

struct EvaluationOptions {
  Loss loss = classification_loss;
  std::int64_t worst = 0;    // how many of the worst are kept
  std::int64_t batches = 0;  // the first so many; 0: all
};

// Of epoch 0 of the loader, in evaluation mode and without gradients; the model is in training mode
// after it.
Evaluation evaluate(const ModelReference& model, const data::DataLoader& loader,
                    const EvaluationOptions& options = {});

}  // namespace extensor::train

EXTENSOR_END_API
