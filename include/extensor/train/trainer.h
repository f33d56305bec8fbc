// Trains a model: batches, steps, evaluations and checkpoints, observed by callbacks.
//
//   train::Trainer trainer(model, optimizer, {.epochs = 5, .checkpoints = "run/checkpoints"});
//   trainer.add<train::ProgressBar>();
//   trainer.add<train::EarlyStopping>();
//   trainer.resume();                                   // from the newest checkpoint, if any
//   train::Outcome outcome = trainer.fit(training, &validation);
//
// A run that is interrupted and resumed produces bit-identical weights to one that is not: a
// checkpoint contains the weights, the state of the optimizer, the schedule and the callbacks, the
// random generator and the position in the data. It may have been written on another device.
//
// Batches are copied to the device of the model's parameters. On a device other than the CPU, the
// next batch is loaded and copied while the device works on the current one, and the trainer
// launches the next step without waiting for the previous one: callbacks are notified of a step,
// and a loss that is not finite is detected, when the next step is in progress or something else
// needs the results.
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
#include "extensor/distributed/data_parallel.h"
#include "extensor/export.h"
#include "extensor/optim/grad_scaler.h"
#include "extensor/optim/optimizer.h"
#include "extensor/optim/schedulers.h"
#include "extensor/random.h"
#include "extensor/train/callbacks.h"
#include "extensor/train/evaluation.h"
#include "extensor/train/model_reference.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;               // total number of steps; 0: determined by the epochs
  std::int64_t accumulate = 1;          // batches whose gradients are accumulated for one step
  double clip_norm = 0;                 // 0: no clipping
  std::int64_t evaluate_every = 0;      // steps; 0: after every epoch. Also at the end of the run
  std::int64_t evaluation_batches = 0;  // only the first batches; 0: all
  Loss loss = classification_loss;
  optim::LRScheduler* schedule = nullptr;  // stepped after every optimizer step
  // The half-precision dtype of matrix products. With float16 the loss is scaled (GradScaler): a
  // step whose gradients overflow is skipped, which its record shows by an infinite or NaN gradient
  // norm.
  std::optional<DType> autocast = {};

  std::filesystem::path checkpoints = {};  // directory; empty: no checkpoints
  std::int64_t checkpoint_every = 0;       // steps; 0: after every epoch
  std::int64_t keep_checkpoints = 2;
  std::string configuration = {};   // UTF-8, stored in every checkpoint
  std::function<bool()> stop = {};  // called after every step; true interrupts the run
  // Resume from a checkpoint although the data has another number of batches.
  bool allow_changed_data = false;

  // Trains on all ranks, each with its part of every batch (DataLoaderOptions::rank and ranks,
  // which the loaders of fit() must have). Callbacks are called, and checkpoints written, by rank 0
  // alone; losses and metrics are those of all ranks. A checkpoint, in a directory that all ranks
  // can read, is resumed with any number of them. Each rank draws from a stream of random numbers
  // of its own. Null: this process alone.
  distributed::Communicator* communicator = nullptr;
  // Divides the states of the optimizer between the ranks (DistributedDataParallel::shard). It must
  // have exactly the parameters of the model that require a gradient.
  bool shard_optimizer = false;
};

// The number of optimizer steps per epoch; the last one may accumulate fewer batches.
std::int64_t steps_of_epoch(std::int64_t batches, std::int64_t accumulate);

// The loss or a gradient is not finite. The message names the step, the layer and the value.
class DivergedError : public Error {
 public:
  using Error::Error;
};

class DeviceBatches;

class Trainer {
 public:
  // The references must outlive the trainer. Throws ValueError for an option outside its range, and
  // for an optimizer that has none of the model's parameters that require a gradient.
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

  // Resumes from the newest intact checkpoint; add callbacks first. Returns nullopt if there are no
  // checkpoints. Throws ValueError or ShapeError for the checkpoint of another model or optimizer,
  // and FormatError if all are damaged.
  std::optional<Checkpoints::Found> resume();

  // Runs the remaining steps. A stream is read again in every epoch and needs options.steps. Throws
  // DivergedError, and ValueError if the checkpoint was written with another number of batches, if
  // the batches have another number of inputs than the model takes, or several targets for a loss
  // of one, or if a loader is for other ranks than the communicator's; exceptions from the data,
  // the loss and the callbacks propagate.
  // A run that options.stop interrupts, on any rank, has written a checkpoint. An exception on one
  // rank ends fit() on all others with a DistributedError that contains its message.
  Outcome fit(const data::DataLoader& training, const data::DataLoader* validation = nullptr);

  std::int64_t step() const { return at_.step; }

 private:
  // The position in the run: the next batch is `batch` of `epoch`, both from 0.
  struct Place {
    std::int64_t step = 0, epoch = 0, batch = 0;
    double seconds = 0;
    double loss_sum = 0;  // over the steps since the last evaluation
    std::int64_t loss_steps = 0;
  };
  struct Pending;

  bool is_first() const;  // whether this rank calls callbacks and writes checkpoints
  bool on_any_rank(bool here) const;
  void check_loader(const data::DataLoader& loader) const;
  std::vector<RandomState> generators() const;
  void split_generator();
  Outcome run(const data::DataLoader& training, const data::DataLoader* validation);
  Device device() const;
  DeviceBatches remaining(const data::DataLoader& training, std::int64_t last) const;
  std::vector<data::Batch> batches_of_step(DeviceBatches& batches) const;
  bool reads_late() const;
  std::int64_t last_step(const data::DataLoader& training) const;
  void check_place(const data::DataLoader& training);
  // One of `parts` batches of a step, of which this rank has the share `weight`.
  void take(const data::Batch& batch, double weight, std::int64_t parts, Pending& step);
  void finish_step(Pending& step, const data::DataLoader& training);
  void report(Pending& step);
  // Replaces the loss and the counts of this rank's part by those of all.
  void combine(StepRecord& record, std::int64_t& right, std::int64_t& targets);
  void evaluate_now(const data::DataLoader* validation, Outcome& outcome);
  Checkpoint state() const;
  void put_generator(Checkpoint& state) const;
  void check_same_checkpoint(std::int64_t step) const;
  void restore_generator(const std::string& label, const Checkpoint& state);
  void save_now(Outcome& outcome);
  double seconds_now() const;

  ModelReference model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  std::vector<Tensor> parameters_;
  Place at_;
  std::unique_ptr<optim::GradScaler> scaler_;  // null unless products are float16
  // Null on one rank.
  std::unique_ptr<distributed::DistributedDataParallel> parallel_;
  bool is_generator_split_ = false;
  bool is_interrupted_ = false;       // options.stop returned true on a rank
  std::int64_t skipped_ = 0;          // steps in a row that overflowed
  std::int64_t batches_ = 0;          // per epoch of fit()
  std::int64_t resumed_batches_ = 0;  // per epoch of the resumed run; 0: unknown
  std::int64_t saved_step_ = -1, evaluated_step_ = -1;
  double started_ = 0;  // on a steady clock, minus the time spent before resuming
};

}  // namespace extensor::train

EXTENSOR_END_API
