// A run of `extensor train`, from a recipe to the files in the run's directory. With several ranks,
// each makes a Training; rank 0 writes the files.
#pragma once

#include <extensor/extensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "cli/run_parts.h"

namespace extensor::cli {

// The order of the members is that of their dependencies.
class Training {
 public:
  // A new run. `claim` is called after the data is read and the model is made, so that an earlier
  // failure touches no file.
  Training(distributed::Communicator& world, Recipe recipe,
           const std::function<std::unique_ptr<ClaimedRun>()>& claim);
  // An existing run. Throws ValueError if the data has changed, unless that is allowed.
  Training(distributed::Communicator& world, Recipe recipe, std::unique_ptr<ClaimedRun> resumed,
           bool allow_changed_data);

  // Trains, writes the weights and the report, and prints the result. If a signal ended the run,
  // throws CLI::RuntimeError with 128 plus the signal's number.
  void run();

 private:
  Training(distributed::Communicator& world, Recipe recipe, std::unique_ptr<ClaimedRun> resumed,
           const std::function<std::unique_ptr<ClaimedRun>()>& claim, bool allow_changed_data);

  Data read_data(bool allow_changed_data) const;
  data::DataLoaderOptions loader_options(bool training) const;
  nn::AnyLayer seeded_model() const;
  std::int64_t step_count() const;
  bool reads_text() const { return recipe_.dataset == "text"; }
  bool reads_table() const { return recipe_.dataset == "table"; }
  std::string result_text(const train::Evaluation& evaluation) const;
  train::Watched watched() const;
  train::TrainerOptions trainer_options(bool allow_changed_data) const;
  void add_callbacks();
  void resume();
  train::Outcome fit();
  void finish(const train::Outcome& outcome);
  std::string load_best(const train::Outcome& outcome);
  train::Report report(const train::Outcome& outcome, const train::Evaluation& evaluation) const;
  const RunDirectory& directory() const { return claim_->directory(); }
  // The one rank that writes files and prints.
  bool is_first() const { return world_.rank() == 0; }

  distributed::Communicator& world_;
  Recipe recipe_;
  bool resumes_;
  std::unique_ptr<ClaimedRun> claim_;  // for a new run, made last
  Data data_;
  data::DataLoader loader_, held_out_;
  nn::AnyLayer model_;
  train::ModelReference reference_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Schedule schedule_;
  std::optional<train::Trainer> trainer_;
};

}  // namespace extensor::cli
