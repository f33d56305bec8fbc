#include "extensor/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/autocast.h"
#include "extensor/elementwise.h"
#include "extensor/optim/clipping.h"
#include "extensor/pending_item.h"
#include "extensor/random.h"
#include "train/classes.h"
#include "train/device_batches.h"
#include "train/diverged.h"
#include "train/state.h"

namespace extensor::train {

using detail::message;

namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void check_options(const TrainerOptions& options) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) {
      throw ValueError(message("Trainer: ", name, " is ", value, ", must be at least ", least));
    }
  };
  at_least("epochs", options.epochs, 1);
  at_least("steps", options.steps, 0);
  at_least("accumulate", options.accumulate, 1);
  at_least("evaluate_every", options.evaluate_every, 0);
  at_least("evaluation_batches", options.evaluation_batches, 0);
  at_least("checkpoint_every", options.checkpoint_every, 0);
  at_least("keep_checkpoints", options.keep_checkpoints, 1);
  if (!(options.clip_norm >= 0)) {
    throw ValueError(message("Trainer: clip_norm is ", options.clip_norm, ", must be 0 or more"));
  }
  if (!options.loss) throw ValueError("Trainer: there is no loss");
}

void check_optimizer(const std::vector<Tensor>& parameters, const optim::Optimizer& optimizer) {
  const std::vector<Tensor> stepped = optimizer.parameters();
  const auto is_stepped = [&](const Tensor& parameter) {
    return std::ranges::any_of(stepped, [&](const Tensor& each) {
      return each.impl_or_null() == parameter.impl_or_null();
    });
  };
  std::vector<Tensor> trainable = parameters;
  std::erase_if(trainable, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  if (trainable.empty() || std::ranges::any_of(trainable, is_stepped)) return;
  throw ValueError(
      "Trainer: the optimizer has none of the model's parameters that require a gradient (allowed: "
      "all or some of them)");
}

NamedTensors buffers_of(const ModelReference& model) {
  NamedTensors buffers = model.state_dict();
  const NamedTensors parameters = model.named_parameters();
  std::erase_if(buffers, [&](const auto& entry) {
    return std::ranges::any_of(parameters, [&](const auto& parameter) {
      return parameter.second.impl_or_null() == entry.second.impl_or_null();
    });
  });
  return buffers;
}

// The batches of an epoch; for a stream, more than it has.
std::int64_t batches_in(const data::DataLoader& loader) {
  return loader.is_stream() ? std::numeric_limits<std::int64_t>::max() : loader.batches();
}

// The batches of an epoch for callbacks and checkpoints; 0 for a stream, whose number is not known.
std::int64_t known_batches(const data::DataLoader& loader) {
  return loader.is_stream() ? 0 : loader.batches();
}

// Returns the loss. Throws DivergedError if it is not finite.
double check_loss(std::int64_t step, const ModelReference& model, const data::Batch& batch,
                  PendingItem& loss) {
  const auto value = loss.item<double>();
  if (!std::isfinite(value)) throw_diverged(step, model, batch, value);
  return value;
}

double check_norm(std::int64_t step, const ModelReference& model, PendingItem& norm) {
  const auto value = norm.item<double>();
  if (!std::isfinite(value)) throw_diverged(step, model, value);
  return value;
}

}  // namespace

std::int64_t steps_of_epoch(std::int64_t batches, std::int64_t accumulate) {
  return batches / accumulate + (batches % accumulate != 0 ? 1 : 0);
}

Callback::~Callback() = default;

// A step whose results have not yet arrived from the device.
struct Trainer::Pending {
  struct Part {
    data::Batch batch;
    double weight = 1;        // this rank's share of the batch; 0 without examples
    PendingItem loss, right;  // right: undefined unless targets are classes
  };

  StepRecord record;
  std::vector<Part> parts;
  PendingItem gradient_norm;
};

Trainer::Trainer(const ModelReference& model, optim::Optimizer& optimizer,
                 const TrainerOptions& options)
    : model_(model), optimizer_(optimizer), options_(options), parameters_(model.parameters()) {
  check_options(options);
  check_optimizer(parameters_, optimizer);
  if (options.autocast == DType::float16) scaler_ = std::make_unique<optim::GradScaler>();
  if (options.communicator != nullptr && options.communicator->size() > 1) {
    parallel_ = std::make_unique<distributed::DistributedDataParallel>(
        model_.named_parameters(), buffers_of(model_), *options.communicator);
    if (options.shard_optimizer) parallel_->shard(optimizer_);
  }
}

Trainer::~Trainer() = default;

double Trainer::seconds_now() const { return steady_seconds() - started_; }

// Without `steps`, the epochs determine the number; every epoch ends with a step, even if it
// accumulates fewer batches.
std::int64_t Trainer::last_step(const data::DataLoader& training) const {
  if (options_.steps != 0) return options_.steps;
  if (training.is_stream()) {
    throw ValueError(
        "Trainer: steps is 0, and the data is a stream, whose size is not known "
        "(allowed: 1 or more)");
  }
  const std::int64_t steps = steps_of_epoch(training.batches(), options_.accumulate);
  std::int64_t all = 0;
  if (__builtin_mul_overflow(options_.epochs, steps, &all)) {
    throw ValueError(message("Trainer: epochs is ", options_.epochs, " with ", steps,
                             " steps in each (allowed: fewer than 2^63 steps in all)"));
  }
  return all;
}

Device Trainer::device() const {
  return parameters_.empty() ? cpu_device : parameters_.front().device();
}

// The remaining batches of the epoch that the run reads.
DeviceBatches Trainer::remaining(const data::DataLoader& training, std::int64_t last) const {
  // The end of a stream is known only after its last batch.
  if (training.is_stream()) {
    return {training.epoch(at_.epoch, at_.batch), device(), batches_in(training)};
  }
  const std::int64_t batches = training.batches() - at_.batch, steps = last - at_.step;
  const bool all = steps >= steps_of_epoch(batches, options_.accumulate);
  return {training.epoch(at_.epoch, at_.batch), device(),
          all ? batches : steps * options_.accumulate};
}

// The batches of one step. The loss of each is divided by their number, so all are loaded before
// the first is used where the number is not known in advance.
std::vector<data::Batch> Trainer::batches_of_step(DeviceBatches& batches) const {
  std::vector<data::Batch> parts;
  while (std::ssize(parts) < options_.accumulate) {
    std::optional<data::Batch> batch = batches.next();
    if (!batch) break;
    parts.push_back(*std::move(batch));
  }
  return parts;
}

// Whether the results of a step are read after the next one was launched.
bool Trainer::reads_late() const { return device() != cpu_device; }

void Trainer::take(const data::Batch& batch, double weight, std::int64_t parts, Pending& step) {
  Pending::Part part{batch, weight, {}, {}};
  const bool is_last = std::ssize(step.parts) + 1 == parts;
  std::optional<distributed::DistributedDataParallel::NoSync> local;
  if (parallel_ != nullptr && !is_last) local.emplace(*parallel_);
  if (weight == 0) {
    if (is_last) parallel_->backward_empty();
    step.parts.push_back(std::move(part));
    return;
  }
  std::vector<Tensor> outputs;
  Tensor loss;
  {
    const Autocast half(options_.autocast.value_or(DType::bfloat16), options_.autocast.has_value());
    outputs = model_(part.batch.all_inputs());
    loss = options_.loss(outputs, part.batch.all_targets());
  }
  part.loss = PendingItem(loss);
  if (!reads_late()) check_loss(at_.step + 1, model_, part.batch, part.loss);
  // The mean over ranks, so weighted, is the mean over the examples of all.
  if (parallel_ != nullptr) loss = loss * (weight * options_.communicator->size());
  if (parts != 1) loss = loss / static_cast<double>(parts);
  (scaler_ != nullptr ? scaler_->scale(loss) : loss).backward();
  if (are_classes(outputs[0], part.batch.targets)) {
    part.right = PendingItem(right_outputs(outputs[0], part.batch.targets));
  }
  step.parts.push_back(std::move(part));
}

void Trainer::finish_step(Pending& step, const data::DataLoader& training) {
  StepRecord& record = step.record;
  const double limit =
      options_.clip_norm > 0 ? options_.clip_norm : std::numeric_limits<double>::infinity();
  if (scaler_ != nullptr) scaler_->unscale(optimizer_);
  step.gradient_norm = PendingItem(optim::clip_grad_norm(parameters_, limit).tensor());
  record.step = at_.step + 1;
  if (!reads_late() && scaler_ == nullptr) check_norm(record.step, model_, step.gradient_norm);
  record.learning_rate = optimizer_.lr();
  if (scaler_ != nullptr) {
    scaler_->step(optimizer_);
    scaler_->update();
  } else {
    optimizer_.step();
  }
  optimizer_.zero_grad();
  if (options_.schedule != nullptr) options_.schedule->step();

  at_.step = record.step;
  record.epoch = at_.epoch + 1;
  record.batch = at_.batch;
  record.batches = known_batches(training);
  record.seconds = seconds_now();
}

// Reads the results of a step and notifies the callbacks.
void Trainer::report(Pending& step) {
  StepRecord& record = step.record;
  std::int64_t right = 0, targets = 0;
  for (Pending::Part& part : step.parts) {
    if (part.weight == 0) continue;
    record.loss += part.weight * check_loss(record.step, model_, part.batch, part.loss) /
                   static_cast<double>(step.parts.size());
    record.examples += part.batch.size();
    if (!part.right.defined()) continue;
    right += part.right.item<std::int64_t>();
    targets += part.batch.targets.numel();
  }
  combine(record, right, targets);
  record.gradient_norm = step.gradient_norm.item<double>();
  // The scale is halved after every step that overflows: a run that skips this many has diverged.
  constexpr std::int64_t most_skipped = 40;
  skipped_ = std::isfinite(record.gradient_norm) ? 0 : skipped_ + 1;
  if (scaler_ == nullptr || skipped_ > most_skipped) {
    check_norm(record.step, model_, step.gradient_norm);
  }
  if (targets > 0) record.accuracy = static_cast<double>(right) / static_cast<double>(targets);
  at_.loss_sum += record.loss;
  at_.loss_steps += 1;
  if (!is_first()) return;
  for (const auto& callback : callbacks_) callback->step(record);
}

void Trainer::evaluate_now(const data::DataLoader* validation, Outcome& outcome) {
  if (evaluated_step_ == at_.step) return;
  evaluated_step_ = at_.step;
  EvaluationRecord record;
  record.step = at_.step;
  record.epoch = at_.batch == 0 ? at_.epoch : at_.epoch + 1;
  record.train_loss = at_.loss_sum / static_cast<double>(std::max<std::int64_t>(1, at_.loss_steps));
  at_.loss_sum = 0;
  at_.loss_steps = 0;
  if (parallel_ != nullptr) parallel_->broadcast_buffers();
  if (validation != nullptr) {
    record.evaluation = evaluate(model_, *validation,
                                 {.loss = options_.loss, .batches = options_.evaluation_batches});
  }
  record.seconds = seconds_now();
  if (is_first()) {
    for (const auto& callback : callbacks_) callback->evaluation(record);
  }
  outcome.last = std::move(record.evaluation);
}

// The position of a checkpoint is meaningless for data with another number of batches.
void Trainer::check_place(const data::DataLoader& training) {
  const std::int64_t batches = known_batches(training);
  if (resumed_batches_ != 0 && resumed_batches_ != batches && !options_.allow_changed_data) {
    throw ValueError(message("Trainer: the checkpoint was written with ", resumed_batches_,
                             " batches in an epoch, the data has ", batches,
                             " (allowed: the same data and batch size, or allow_changed_data)"));
  }
  resumed_batches_ = 0;
  batches_ = batches;
  if (at_.batch >= batches_in(training)) {
    at_.epoch += 1;
    at_.batch = 0;
  }
}

Outcome Trainer::fit(const data::DataLoader& training, const data::DataLoader* validation) {
  check_loader(training);
  if (validation != nullptr) check_loader(*validation);
  if (parallel_ == nullptr) return run(training, validation);
  try {
    return run(training, validation);
  } catch (const distributed::DistributedError&) {
    throw;
  } catch (const std::exception& error) {
    options_.communicator->abort(error.what());
    throw;
  }
}

Outcome Trainer::run(const data::DataLoader& training, const data::DataLoader* validation) {
  const std::int64_t last = last_step(training);
  const std::int64_t epoch_batches = batches_in(training);
  const auto no_batches = [] { throw ValueError("Trainer: there are no batches to learn from"); };
  if (epoch_batches == 0) no_batches();
  check_place(training);
  started_ = steady_seconds() - at_.seconds;
  model_.train();
  optimizer_.zero_grad();
  split_generator();
  const RunRecord about{model_, options_.epochs, known_batches(training), at_.step, last};
  if (is_first()) {
    for (const auto& callback : callbacks_) callback->begin(about);
  }

  Outcome outcome;
  const auto wants_to_stop = [&] {
    return on_any_rank(is_first() && std::ranges::any_of(callbacks_, [](const auto& one) {
                         return one->wants_to_stop();
                       }));
  };
  bool early = wants_to_stop(), interrupted = false;
  Pending previous;  // launched, not yet read; without parts if there is none
  const auto report_previous = [&] {
    if (!previous.parts.empty()) report(previous);
    previous.parts.clear();
  };
  while (at_.step < last && !early && !interrupted) {
    DeviceBatches batches = remaining(training, last);
    if (training.is_stream() && batches.ended()) {
      // A checkpoint may stand at the end of an epoch.
      if (at_.batch == 0) no_batches();
      at_.epoch += 1;
      at_.batch = 0;
      continue;
    }
    while (at_.step < last && !early && !interrupted && at_.batch < epoch_batches) {
      Pending step;
      if (training.is_stream()) {
        const std::vector<data::Batch> parts = batches_of_step(batches);
        for (const data::Batch& part : parts) take(part, 1, std::ssize(parts), step);
        at_.batch += std::ssize(parts);
      } else {
        const std::int64_t parts = std::min(options_.accumulate, epoch_batches - at_.batch);
        for (std::int64_t part = 0; part < parts; ++part) {
          const data::Batch batch = *batches.next();
          const auto all = static_cast<double>(training.examples_of_batch(at_.batch));
          take(batch, parallel_ ? static_cast<double>(batch.size()) / all : 1, parts, step);
          at_.batch += 1;
        }
      }
      finish_step(step, training);
      const bool epoch_ends = training.is_stream() ? batches.ended() : at_.batch == epoch_batches;
      if (epoch_ends) {
        at_.epoch += 1;
        at_.batch = 0;
      }
      const auto due = [&](std::int64_t every) {
        return every == 0 ? epoch_ends : at_.step % every == 0;
      };
      report_previous();
      previous = std::move(step);
      if (!reads_late()) report_previous();
      if (due(options_.evaluate_every) || at_.step == last) {
        report_previous();
        evaluate_now(validation, outcome);
        early = wants_to_stop();
      }
      interrupted = parallel_ ? is_interrupted_ : options_.stop && options_.stop();
      if (due(options_.checkpoint_every) || interrupted || early || at_.step == last) {
        report_previous();
        save_now(outcome);
      }
      if (epoch_ends) break;
    }
  }
  outcome.end = early ? End::stopped_early : at_.step < last ? End::interrupted : End::finished;
  outcome.step = at_.step;
  outcome.epoch = at_.epoch;
  outcome.seconds = seconds_now();
  at_.seconds = outcome.seconds;
  if (is_first()) {
    for (const auto& callback : callbacks_) callback->end(outcome);
  }
  return outcome;
}

// ---- checkpoints

Checkpoint Trainer::state() const {
  Checkpoint state;
  for (const auto& [name, tensor] : model_.state_dict()) {
    state.tensors.emplace_back("model." + name, tensor);
  }
  put(state, "optimizer.", optimizer_.state_dict());
  if (options_.schedule != nullptr) put(state, "schedule.", options_.schedule->state_dict());
  if (scaler_ != nullptr) put(state, "scaler.", scaler_->state_dict());
  put_generator(state);
  state.numbers["run.step"] = static_cast<double>(at_.step);
  state.numbers["run.epoch"] = static_cast<double>(at_.epoch);
  state.numbers["run.batch"] = static_cast<double>(at_.batch);
  state.numbers["run.batches"] = static_cast<double>(batches_);
  state.numbers["run.seconds"] = seconds_now();
  state.numbers["run.loss_sum"] = at_.loss_sum;
  state.numbers["run.loss_steps"] = static_cast<double>(at_.loss_steps);
  state.texts["configuration"] = options_.configuration;
  if (is_first()) {
    for (const auto& callback : callbacks_) callback->save(state);
  }
  return state;
}

void Trainer::save_now(Outcome& outcome) {
  if (options_.checkpoints.empty() || saved_step_ == at_.step) return;
  if (parallel_ != nullptr) parallel_->broadcast_buffers();
  const Checkpoint now = state();
  if (is_first()) {
    const Checkpoints all(options_.checkpoints, options_.keep_checkpoints);
    outcome.checkpoint = all.save(at_.step, now);
  }
  saved_step_ = at_.step;
}

std::optional<Checkpoints::Found> Trainer::resume() {
  if (options_.checkpoints.empty()) return {};
  std::optional<Checkpoints::Found> found =
      Checkpoints(options_.checkpoints, options_.keep_checkpoints).newest();
  if (parallel_ != nullptr) check_same_checkpoint(found ? found->step : -1);
  if (!found) return {};
  const std::string label = message("Trainer: ", found->path.string());
  const Checkpoint& state = found->state;
  Place place;
  place.step = static_cast<std::int64_t>(number(label, state, "run.step"));
  place.epoch = static_cast<std::int64_t>(number(label, state, "run.epoch"));
  place.batch = static_cast<std::int64_t>(number(label, state, "run.batch"));
  place.seconds = number(label, state, "run.seconds");
  place.loss_sum = number(label, state, "run.loss_sum");
  place.loss_steps = static_cast<std::int64_t>(number(label, state, "run.loss_steps"));
  random_state(label, state, "random.");  // checked before any change
  model_.load_state_dict(tensors_of(state, "model."));
  optimizer_.load_state_dict(state_dict_of(state, "optimizer."));
  if (options_.schedule != nullptr) {
    options_.schedule->load_state_dict(state_dict_of(state, "schedule."));
  }
  // The checkpoint of a run in another precision has no scale.
  if (const optim::StateDict scale = state_dict_of(state, "scaler.");
      scaler_ != nullptr && !scale.numbers.empty()) {
    scaler_->load_state_dict(scale);
  }
  restore_generator(label, state);
  if (is_first()) {
    for (const auto& callback : callbacks_) callback->load(state);
  }
  at_ = place;
  // Older checkpoints do not contain this.
  const auto batches = state.numbers.find("run.batches");
  resumed_batches_ =
      batches == state.numbers.end() ? 0 : static_cast<std::int64_t>(batches->second);
  saved_step_ = evaluated_step_ = place.step;
  return found;
}

}  // namespace extensor::train
