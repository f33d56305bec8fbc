// A run of `extensor train`: from a recipe to everything in the run's directory.
#pragma once

#include <extensor/extensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "cli/ingredients.h"

namespace extensor::cli {

// The members are in the order in which they need each other.
class Training {
 public:
  // A new run. `claim` is called when the data is read and the model is made, so that a start that
  // fails before has touched no file.
  Training(Recipe recipe, const std::function<std::unique_ptr<ClaimedRun>()>& claim);
  // A run that is there. ValueError where the data has changed, unless that is allowed.
  Training(Recipe recipe, std::unique_ptr<ClaimedRun> resumed, bool allow_changed_data);

  // Trains, writes the weights and the report, and prints the result. CLI::RuntimeError with 128
  // and the signal's number where a signal ended it.
  void run();

 private:
  Training(Recipe recipe, std::unique_ptr<ClaimedRun> resumed,
           const std::function<std::unique_ptr<ClaimedRun>()>& claim, bool allow_changed_data);

  Data read_data(bool allow_changed_data) const;
  data::DataLoaderOptions loader_options(bool training) const;
  nn::AnyLayer seeded_model() const;
  std::int64_t step_count() const;
  bool reads_text() const { return recipe_.dataset == "text"; }
  train::Watched watched() const;
  train::TrainerOptions trainer_options(bool allow_changed_data) const;
  void add_callbacks();
  void resume();
  train::Outcome fit();
  void finish(const train::Outcome& outcome);
  std::string load_best(const train::Outcome& outcome);
  train::Report report(const train::Outcome& outcome, const train::Evaluation& evaluation) const;
  const RunDirectory& directory() const { return claim_->directory(); }

  Recipe recipe_;
  bool resumes_;
  std::unique_ptr<ClaimedRun> claim_;  // of a new run, made last
  Data data_;
  data::DataLoader loader_, held_out_;
  nn::AnyLayer model_;
  train::ModelReference reference_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Schedule schedule_;
  std::optional<train::Trainer> trainer_;
};

}  // namespace extensor::cli
