// Trains a model: batches, steps, evaluations, checkpoints. Callbacks see all of it.
//
//   train::Trainer trainer(model, optimizer, {.epochs = 5, .checkpoints = "run/checkpoints"});
//   trainer.add<train::ProgressBar>();
//   trainer.add<train::EarlyStopping>();
//   trainer.resume();                                   // where a checkpoint is, it goes on there
//   train::Outcome outcome = trainer.fit(training, &held_out);
//
// A run that was interrupted and resumed gives the same weights, bit for bit, as one that was not:
// a checkpoint has the weights, what the optimizer, the schedule and the callbacks remember, the
// random generator and the place in the data. It may have been written on another device.
//
// Batches go to the device of the model's parameters. On a device other than the CPU the trainer
// does not wait for a step before it launches the next one: callbacks hear of a step, and a loss
// that is not finite is found, when the next step is under way or something else needs the results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extensor/data/loader.h"
#include "extensor/export.h"
#include "extensor/optim/optimizer.h"
#include "extensor/optim/schedulers.h"
#include "extensor/train/callbacks.h"
#include "extensor/train/evaluation.h"
#include "extensor/train/model_reference.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;               // the run ends after so many; 0: with the epochs
  std::int64_t accumulate = 1;          // batches whose gradients make one step
  double clip_norm = 0;                 // 0: gradients are not clipped
  std::int64_t evaluate_every = 0;      // steps; 0: after every epoch. Also when the run ends
  std::int64_t evaluation_batches = 0;  // only the first so many; 0: all
  Loss loss = classification_loss;
  optim::LRScheduler* schedule = nullptr;  // goes on after every step
  std::optional<DType> autocast = {};      // the half that products are computed in

  std::filesystem::path checkpoints = {};  // their directory; empty: none are written
  std::int64_t checkpoint_every = 0;       // steps; 0: after every epoch
  std::int64_t keep_checkpoints = 2;
  std::string configuration = {};   // UTF-8, kept in every checkpoint
  std::function<bool()> stop = {};  // asked after every step: true ends the run, to be resumed
  // Resume from a checkpoint although the data has another number of batches.
  bool allow_changed_data = false;
};

// The optimizer's steps in an epoch: the last one may have fewer batches than the others.
std::int64_t steps_of_epoch(std::int64_t batches, std::int64_t accumulate);

// The loss or a gradient is not finite. The message names the step, the layer and what was found.
class DivergedError : public Error {
 public:
  using Error::Error;
};

class Trainer {
 public:
  // What is given by reference must live as long as the trainer. ValueError for an option outside
  // its range.
  Trainer(const ModelReference& model, optim::Optimizer& optimizer,
          const TrainerOptions& options = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  template <class Kind, class... Arguments>
  Kind& add(Arguments&&... arguments) {
    auto callback = std::make_unique<Kind>(std::forward<Arguments>(arguments)...);
    Kind& added = *callback;
    callbacks_.push_back(std::move(callback));
    return added;
  }

  // Goes on where the newest whole checkpoint is; add callbacks first. Nothing where there is none.
  // ValueError, ShapeError for the checkpoint of another model or optimizer; FormatError where all
  // are damaged.
  std::optional<Checkpoints::Found> resume();

  // All steps that are left. DivergedError; ValueError where the checkpoint was written with
  // another number of batches; what the data, the loss or a callback throws passes through.
  // Interrupted by options.stop, it has written a checkpoint.
  Outcome fit(const data::DataLoader& training, const data::DataLoader* held_out = nullptr);

  std::int64_t step() const { return at_.step; }

 private:
  // Where the run is: the next batch is `batch` of `epoch`, both from 0.
  struct Place {
    std::int64_t step = 0, epoch = 0, batch = 0;
    double seconds = 0;
    double loss_sum = 0;  // over the steps since the last evaluation
    std::int64_t loss_steps = 0;
  };
  struct Pending;

  Device device() const;
  bool reads_late() const;
  std::int64_t last_step(const data::DataLoader& training) const;
  void check_place(const data::DataLoader& training);
  void take(const data::Batch& batch, std::int64_t parts, Pending& step);
  void finish_step(Pending& step, const data::DataLoader& training);
  void report(Pending& step);
  void evaluate_now(const data::DataLoader* held_out, Outcome& outcome);
  Checkpoint state() const;
  void save_now(Outcome& outcome);
  double seconds_now() const;

  ModelReference model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  std::vector<Tensor> parameters_;
  Place at_;
  std::int64_t batches_ = 0;          // in an epoch of fit
  std::int64_t resumed_batches_ = 0;  // in an epoch of the run that was resumed; 0: not known
  std::int64_t saved_step_ = -1, evaluated_step_ = -1;
  double started_ = 0;  // on a steady clock, less what was spent before it was resumed
};

}  // namespace extensor::train

EXTENSOR_END_API
