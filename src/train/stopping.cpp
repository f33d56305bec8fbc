// Callbacks that track the best evaluation, to end a run or to keep its weights.
#include <cmath>

#include "core/check.h"
#include "extensor/io.h"
#include "extensor/train/callbacks.h"

namespace extensor::train {

using detail::message;

namespace {

double watched_of(Watched watched, const Evaluation& evaluation) {
  return watched == Watched::loss ? evaluation.loss : evaluation.accuracy;
}

// A NaN never counts as an improvement.
bool is_better(Watched watched, double value, double best, double margin) {
  if (std::isnan(value)) return false;
  if (std::isnan(best)) return true;
  return watched == Watched::loss ? value < best - margin : value > best + margin;
}

double saved(const Checkpoint& checkpoint, const char* name, double otherwise) {
  const auto found = checkpoint.numbers.find(name);
  return found == checkpoint.numbers.end() ? otherwise : found->second;
}

constexpr double none = std::numeric_limits<double>::quiet_NaN();

}  // namespace

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options) : options_(options) {
  if (options.patience < 1) {
    throw ValueError(
        message("EarlyStopping: patience is ", options.patience, ", must be at least 1"));
  }
  if (!(options.min_delta >= 0)) {
    throw ValueError(
        message("EarlyStopping: min_delta is ", options.min_delta, ", must be 0 or more"));
  }
}

void EarlyStopping::evaluation(const EvaluationRecord& record) {
  const double value = watched_of(options_.watched, record.evaluation);
  if (is_better(options_.watched, value, best_, options_.min_delta)) {
    best_ = value;
    waited_ = 0;
  } else {
    ++waited_;
  }
}

void EarlyStopping::save(Checkpoint& checkpoint) const {
  checkpoint.numbers["early_stopping.best"] = best_;
  checkpoint.numbers["early_stopping.waited"] = static_cast<double>(waited_);
}

void EarlyStopping::load(const Checkpoint& checkpoint) {
  best_ = saved(checkpoint, "early_stopping.best", none);
  waited_ = static_cast<std::int64_t>(saved(checkpoint, "early_stopping.waited", 0));
}

BestModel::BestModel(std::filesystem::path path, Watched watched)
    : path_(std::move(path)), watched_(watched) {}

void BestModel::begin(const RunRecord& run) {
  model_ = std::make_unique<ModelReference>(run.model);
}

void BestModel::evaluation(const EvaluationRecord& record) {
  const double value = watched_of(watched_, record.evaluation);
  const double loss = record.evaluation.loss;
  const bool better = is_better(watched_, value, best_, 0) ||
                      (value == best_ && is_better(Watched::loss, loss, loss_, 0));
  if (!better) return;
  best_ = value;
  loss_ = loss;
  save_safetensors(path_, model_->state_dict(),
                   {{"step", std::to_string(record.step)},
                    {watched_ == Watched::loss ? "loss" : "accuracy", message(value)}},
                   {.checksums = true});
}

void BestModel::save(Checkpoint& checkpoint) const {
  checkpoint.numbers["best_model.best"] = best_;
  checkpoint.numbers["best_model.loss"] = loss_;
}

void BestModel::load(const Checkpoint& checkpoint) {
  best_ = saved(checkpoint, "best_model.best", none);
  loss_ = saved(checkpoint, "best_model.loss", none);
}

}  // namespace extensor::train
