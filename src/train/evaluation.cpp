#include "extensor/train/evaluation.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/distributed/communicator.h"
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

void sort_worst(std::int64_t most, std::vector<Judged>& worst) {
  // Mistakes first, then NaN, then the highest loss; ties go to the first example.
  const auto order = [](const Judged& one) {
    const bool is_number = one.loss == one.loss;
    return std::tuple(one.is_right(), is_number, is_number ? -one.loss : 0, one.index);
  };
  std::ranges::sort(worst, {}, order);
  if (std::ssize(worst) > most) worst.resize(static_cast<std::size_t>(most));
}

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
  sort_worst(most, worst);
}

// Of all ranks, which must have called it.
struct Totals {
  double loss = 0;
  std::int64_t examples = 0, right = 0, targets = 0;
};

void combine(distributed::Communicator& communicator, std::int64_t most_worst, Totals& totals,
             Evaluation& result) {
  Tensor loss = scalar(totals.loss, {DType::float64, cpu_device});
  communicator.all_reduce(loss);
  Tensor counts = tensor({totals.examples, totals.right, totals.targets}, cpu_device);
  communicator.all_reduce(counts);
  const auto count = counts.to_vector<std::int64_t>();
  totals = {loss.item<double>(), count[0], count[1], count[2]};

  // A rank without examples does not know the classes.
  Tensor classes = scalar(result.confusion ? result.confusion->classes() : 0, cpu_device);
  communicator.all_reduce(classes, distributed::ReduceOp::maximum);
  if (const auto all = classes.item<std::int64_t>(); all > 0) {
    Tensor matrix = result.confusion ? result.confusion->matrix()
                                     : zeros({all, all}, {DType::int64, cpu_device});
    communicator.all_reduce(matrix);
    result.confusion.emplace(all);
    result.confusion->add_counts(matrix);
  }

  if (most_worst == 0) return;
  constexpr std::int64_t fields = 5;  // doubles hold indices up to 2⁵³
  Tensor own = full({most_worst, fields}, -1, {DType::float64, cpu_device});
  auto* to = own.data<double>();
  for (const Judged& one : result.worst) {
    *to++ = static_cast<double>(one.index);
    *to++ = static_cast<double>(one.target);
    *to++ = static_cast<double>(one.prediction);
    *to++ = one.loss;
    *to++ = one.probability;
  }
  const Tensor gathered = communicator.all_gather(own);
  const auto* from = gathered.data<double>();
  result.worst.clear();
  for (std::int64_t k = 0; k < gathered.size(0); ++k, from += fields) {
    if (from[0] < 0) continue;
    result.worst.push_back({static_cast<std::int64_t>(from[0]), static_cast<std::int64_t>(from[1]),
                            static_cast<std::int64_t>(from[2]), from[3], from[4]});
  }
  sort_worst(most_worst, result.worst);
}

void check_ranks(const distributed::Communicator& communicator, const data::DataLoader& loader) {
  const data::DataLoaderOptions& options = loader.options();
  if (options.ranks == communicator.size() && options.rank == communicator.rank()) return;
  throw ValueError(detail::message("evaluate: the loader is for rank ", options.rank, " of ",
                                   options.ranks, ", the communicator has rank ",
                                   communicator.rank(), " of ", communicator.size()));
}

// Sets evaluation mode until end(). The walk of a model in Python may throw, for example on Ctrl-C;
// the destructor, which runs after another exception, drops that one.
class Evaluating {
 public:
  explicit Evaluating(const ModelReference& model) : model_(model) { model_.train(false); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;
  ~Evaluating() {
    try {
      end();
    } catch (...) {
    }
  }
  void end() {
    if (std::exchange(active_, false)) model_.train();
  }

 private:
  const ModelReference& model_;
  bool active_ = true;
};

}  // namespace

Evaluation evaluate(const ModelReference& model, const data::DataLoader& loader,
                    const EvaluationOptions& options) {
  constexpr std::int64_t most_classes = 1000;
  const NoGrad off;
  Evaluating evaluating(model);
  Evaluation result;
  distributed::Communicator* communicator = nullptr;
  if (loader.options().ranks > 1) {
    communicator = &distributed::init();
    check_ranks(*communicator, loader);
  }
  Totals totals;
  const std::int64_t count =
      options.batches == 0 ? std::numeric_limits<std::int64_t>::max() : options.batches;
  DeviceBatches batches(loader.epoch(0), model.device(), count);
  while (true) {
    const std::optional<data::Batch> loaded = batches.next();
    if (!loaded) break;
    const data::Batch& batch = *loaded;
    if (batch.size() == 0 && communicator != nullptr) continue;
    const std::vector<Tensor> all_outputs = model(batch.all_inputs());
    const auto size = static_cast<double>(batch.size());
    totals.loss += options.loss(all_outputs, batch.all_targets()).item<double>() * size;
    totals.examples += batch.size();
    const Tensor& outputs = all_outputs[0];
    if (!are_classes(outputs, batch.targets)) continue;
    totals.right += right_outputs(outputs, batch.targets).item<std::int64_t>();
    totals.targets += batch.targets.numel();
    if (outputs.ndim() != 2) continue;
    const std::int64_t classes = outputs.shape()[1];
    if (!result.confusion && classes <= most_classes) result.confusion.emplace(classes);
    if (result.confusion) result.confusion->add(outputs, batch.targets);
    if (options.worst > 0) keep_worst(outputs, batch, options.worst, result.worst);
  }
  if (communicator != nullptr) combine(*communicator, options.worst, totals, result);
  result.examples = totals.examples;
  if (totals.examples > 0) result.loss = totals.loss / static_cast<double>(totals.examples);
  if (totals.targets > 0) {
    result.accuracy = static_cast<double>(totals.right) / static_cast<double>(totals.targets);
  }
  evaluating.end();
  return result;
}

}  // namespace extensor::train
