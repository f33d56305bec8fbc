// Callbacks observe a run: they display or log it, keep its best weights, or end it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "extensor/export.h"
#include "extensor/train/checkpoint.h"
#include "extensor/train/evaluation.h"

EXTENSOR_BEGIN_API

namespace extensor::train {

// Facts known before the first step, or before the first step after resuming.
struct RunRecord {
  ModelReference model;
  std::int64_t epochs = 0, batches = 0;        // batches in each epoch; 0 for a stream
  std::int64_t first_step = 0, last_step = 0;  // steps done so far, and in total
};

// One step of the optimizer.
struct StepRecord {
  std::int64_t step = 0;                                       // counted from 1
  std::int64_t epoch = 0, batch = 0;                           // from 1: the last batch of the step
  std::int64_t batches = 0;                                    // in the epoch; 0 for a stream
  double loss = 0;                                             // mean over its batches
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // NaN if targets are not classes
  double gradient_norm = 0;                                    // before clipping
  double learning_rate = 0;
  std::int64_t examples = 0;
  double seconds = 0;  // run time, without interruptions
};

struct EvaluationRecord {
  std::int64_t step = 0, epoch = 0;
  double train_loss = 0;  // mean over the steps since the last evaluation
  Evaluation evaluation;
  double seconds = 0;
};

enum class End { finished, interrupted, stopped_early };

struct Outcome {
  End end = End::finished;
  std::int64_t step = 0, epoch = 0;
  double seconds = 0;
  Evaluation last;                   // the last evaluation since fit() began, if any
  std::filesystem::path checkpoint;  // the last one written
};

class Callback {
 public:
  Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  virtual ~Callback();

  virtual void begin(const RunRecord&) {}
  virtual void step(const StepRecord&) {}
  virtual void evaluation(const EvaluationRecord&) {}
  virtual void end(const Outcome&) {}
  // Called after every evaluation.
  virtual bool wants_to_stop() const { return false; }
  // Saves and loads the state needed to resume a run exactly, under unique names. save() is called
  // before a checkpoint is written, load() before begin().
  virtual void save(Checkpoint&) const {}
  virtual void load(const Checkpoint&) {}
};

// Shows a line on the terminal with loss, accuracy, rate and remaining time. Without a terminal,
// prints a plain line occasionally and one for every evaluation.
class ProgressBar final : public Callback {
 public:
  explicit ProgressBar(std::string unit = "examples");
  ~ProgressBar() override;
  void begin(const RunRecord& run) override;
  void step(const StepRecord& step) override;
  void evaluation(const EvaluationRecord& record) override;
  void end(const Outcome& outcome) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class Watched { loss, accuracy };

struct EarlyStoppingOptions {
  Watched watched = Watched::loss;
  std::int64_t patience = 3;  // evaluations without improvement
  double min_delta = 0;       // minimum change that counts as an improvement
};
class EarlyStopping final : public Callback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});  // ValueError
  void evaluation(const EvaluationRecord& record) override;
  bool wants_to_stop() const override { return waited_ >= options_.patience; }
  void save(Checkpoint& checkpoint) const override;
  void load(const Checkpoint& checkpoint) override;

 private:
  EarlyStoppingOptions options_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t waited_ = 0;
};

// Saves the weights of the best evaluation to a safetensors file. On equal accuracy, the lower loss
// wins.
class BestModel final : public Callback {
 public:
  explicit BestModel(std::filesystem::path path, Watched watched = Watched::accuracy);
  void begin(const RunRecord& run) override;
  void evaluation(const EvaluationRecord& record) override;
  void save(Checkpoint& checkpoint) const override;
  void load(const Checkpoint& checkpoint) override;
  double best() const { return best_; }  // NaN before the first evaluation

 private:
  std::filesystem::path path_;
  Watched watched_;
  std::unique_ptr<ModelReference> model_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  double loss_ = std::numeric_limits<double>::quiet_NaN();  // of the same evaluation
};

// Writes a line of JSON for every step and evaluation: {"type":"step","step":1,"loss":2.3, …}.
// Numbers that are not finite become null. On resuming, lines after the checkpoint are removed.
class JsonLog final : public Callback {
 public:
  explicit JsonLog(const std::filesystem::path& path);  // IoError
  ~JsonLog() override;
  void begin(const RunRecord& run) override;
  void step(const StepRecord& step) override;
  void evaluation(const EvaluationRecord& record) override;
  void end(const Outcome& outcome) override;
  void save(Checkpoint& checkpoint) const override;
  void load(const Checkpoint& checkpoint) override;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

// Writes curves for TensorBoard to this directory.
class EventLog final : public Callback {
 public:
  explicit EventLog(const std::filesystem::path& directory);
  ~EventLog() override;
  void step(const StepRecord& step) override;
  void evaluation(const EvaluationRecord& record) override;

 private:
  struct Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace extensor::train

EXTENSOR_END_API
