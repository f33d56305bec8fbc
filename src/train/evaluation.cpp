#include "extensor/train/evaluation.h"

#include <algorithm>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "train/classes.h"
#include "train/device_batches.h"

namespace extensor::train {

Tensor classification_loss(const Tensor& logits, const Tensor& targets) {
  if (logits.ndim() <= 2) return cross_entropy(logits, targets);
  return cross_entropy(logits.reshape({-1, logits.shape().back()}), targets.reshape({-1}));
}

Tensor Loss::operator()(const Tensor& output, const Tensor& target) const {
  return of_one_ ? of_one_(output, target) : of_lists_({output}, {target});
}

Tensor Loss::operator()(const std::vector<Tensor>& outputs,
                        const std::vector<Tensor>& targets) const {
  if (of_lists_) return of_lists_(outputs, targets);
  if (outputs.size() != 1 || targets.size() != 1) {
    throw ValueError(detail::message(
        "Loss: the model returned ", outputs.size(), " outputs and the batch has ", targets.size(),
        " targets, the loss takes one of each (allowed for several: a function of two lists, "
        "std::vector<Tensor>)"));
  }
  return of_one_(outputs[0], targets[0]);
}

bool are_classes(const Tensor& outputs, const Tensor& targets) {
  return is_integer(targets.dtype()) && is_floating_point(outputs.dtype()) &&
         outputs.ndim() == targets.ndim() + 1;
}

Tensor right_outputs(const Tensor& outputs, const Tensor& targets) {
  const NoGrad off;
  return sum(equal(argmax(outputs, -1), targets));
}

namespace {

void keep_worst(const Tensor& outputs, const data::Batch& batch, std::int64_t most,
                std::vector<Judged>& worst) {
  const Tensor losses =
      cross_entropy(outputs, batch.targets, {}, Reduction::none).to(DType::float64);
  const Tensor predictions = argmax(outputs, -1), targets = batch.targets.to(DType::int64);
  const Tensor chances = max(softmax(outputs.to(DType::float64), -1), -1);
  const auto loss = losses.to_vector<double>();
  const auto chance = chances.to_vector<double>();
  const auto prediction = predictions.to_vector<std::int64_t>();
  const auto target = targets.to_vector<std::int64_t>();
  worst.reserve(worst.size() + loss.size());
  for (std::size_t k = 0; k < loss.size(); ++k) {
    worst.push_back({batch.indices[k], target[k], prediction[k], loss[k], chance[k]});
  }
  // Mistakes first, then NaN, then the highest loss; ties go to the first example.
  const auto order = [](const Judged& one) {
    const bool is_number = one.loss == one.loss;
    return std::tuple(one.is_right(), is_number, is_number ? -one.loss : 0, one.index);
  };
  std::ranges::sort(worst, {}, order);
  if (std::ssize(worst) > most) worst.resize(static_cast<std::size_t>(most));
}

// Sets evaluation mode during its lifetime.
class Evaluating {
 public:
  explicit Evaluating(const ModelReference& model) : model_(model) { model_.train(false); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;
  ~Evaluating() { model_.train(); }

 private:
  const ModelReference& model_;
};

}  // namespace

Evaluation evaluate(const ModelReference& model, const data::DataLoader& loader,
                    const EvaluationOptions& options) {
  constexpr std::int64_t most_classes = 1000;
  const NoGrad off;
  const Evaluating evaluating(model);
  Evaluation result;
  double loss = 0;
  std::int64_t right = 0, targets = 0;
  const std::int64_t count =
      options.batches == 0 ? std::numeric_limits<std::int64_t>::max() : options.batches;
  DeviceBatches batches(loader.epoch(0), model.device(), count);
  while (true) {
    const std::optional<data::Batch> loaded = batches.next();
    if (!loaded) break;
    const data::Batch& batch = *loaded;
    const std::vector<Tensor> all_outputs = model(batch.all_inputs());
    const auto size = static_cast<double>(batch.size());
    loss += options.loss(all_outputs, batch.all_targets()).item<double>() * size;
    result.examples += batch.size();
    const Tensor& outputs = all_outputs[0];
    if (!are_classes(outputs, batch.targets)) continue;
    right += right_outputs(outputs, batch.targets).item<std::int64_t>();
    targets += batch.targets.numel();
    if (outputs.ndim() != 2) continue;
    const std::int64_t classes = outputs.shape()[1];
    if (!result.confusion && classes <= most_classes) result.confusion.emplace(classes);
    if (result.confusion) result.confusion->add(outputs, batch.targets);
    if (options.worst > 0) keep_worst(outputs, batch, options.worst, result.worst);
  }
  if (result.examples > 0) result.loss = loss / static_cast<double>(result.examples);
  if (targets > 0) result.accuracy = static_cast<double>(right) / static_cast<double>(targets);
  return result;
}

}  // namespace extensor::train
