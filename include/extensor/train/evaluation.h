// Evaluates a model on data that it is not trained on.
//
//   train::Evaluation result = train::evaluate(model, loader);
//   std::printf("%.2f %% right\n", 100 * result.accuracy);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/data/loader.h"
#include "extensor/export.h"
#include "extensor/train/metrics.h"
#include "extensor/train/model_reference.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

// The mean loss of a batch: a function of the output and the target, or for models with several of
// a list of each:
//   Loss(classification_loss)
//   Loss([](const std::vector<Tensor>& outputs, const std::vector<Tensor>& targets) {
//     return cross_entropy(outputs[0], targets[0]) + mse_loss(outputs[1], targets[1]);
//   })
class Loss {
 public:
  using OfOne = std::function<Tensor(const Tensor& output, const Tensor& target)>;
  using OfLists =
      std::function<Tensor(const std::vector<Tensor>& outputs, const std::vector<Tensor>& targets)>;
  template <class Function>
  static constexpr bool takes_one = std::is_invocable_r_v<Tensor, Function&, Tensor, Tensor>;
  template <class Function>
  static constexpr bool takes_lists =
      std::is_invocable_r_v<Tensor, Function&, std::vector<Tensor>, std::vector<Tensor>>;
  Loss(std::nullptr_t = nullptr) {}  // NOLINT: implicit, like std::function
  template <class Function>
  requires(!std::is_same_v<Function, Loss>) &&
      (takes_one<Function> || takes_lists<Function>)Loss(Function function) {  // NOLINT: implicit
    if constexpr (takes_one<Function>) {
      of_one_ = std::move(function);
    } else {
      of_lists_ = std::move(function);
    }
  }

  explicit operator bool() const { return of_one_ != nullptr || of_lists_ != nullptr; }
  Tensor operator()(const Tensor& output, const Tensor& target) const;
  // Throws ValueError for several outputs or targets if the function takes one of each.
  Tensor operator()(const std::vector<Tensor>& outputs, const std::vector<Tensor>& targets) const;

 private:
  OfOne of_one_;
  OfLists of_lists_;
};

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

// Accuracy, confusion and the worst examples are those of the first output and the first target.
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
// training mode. With the loader of one of several ranks (DataLoaderOptions::ranks), all ranks call
// it, and all get the result of the whole; throws ValueError if distributed::init() has other
// ranks.
Evaluation evaluate(const ModelReference& model, const data::DataLoader& loader,
                    const EvaluationOptions& options = {});

}  // namespace extensor::train

EXTENSOR_END_API
