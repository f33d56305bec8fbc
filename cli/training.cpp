#include "cli/training.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <ctime>
#include <iostream>

#include "cli/device_option.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "cli/json_file.h"
#include "cli/output.h"
#include "cli/processes.h"
#include "cli/program.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

// Notifies the claim of the run's directory after the first step.
class FirstStep final : public train::Callback {
 public:
  explicit FirstStep(ClaimedRun& claim) : claim_(claim) {}
  void step(const train::StepRecord&) override { claim_.started(); }

 private:
  ClaimedRun& claim_;
};

void warn(const std::string& text) { std::cerr << "extensor: warning: " << text << '\n'; }

}  // namespace

Training::Training(distributed::Communicator& world, Recipe recipe,
                   const std::function<std::unique_ptr<ClaimedRun>()>& claim)
    : Training(world, std::move(recipe), nullptr, claim, false) {}

Training::Training(distributed::Communicator& world, Recipe recipe,
                   std::unique_ptr<ClaimedRun> resumed, bool allow_changed_data)
    : Training(world, std::move(recipe), std::move(resumed), {}, allow_changed_data) {}

Training::Training(distributed::Communicator& world, Recipe recipe,
                   std::unique_ptr<ClaimedRun> resumed,
                   const std::function<std::unique_ptr<ClaimedRun>()>& claim,
                   bool allow_changed_data)
    : world_(world),
      recipe_(std::move(recipe)),
      resumes_(resumed != nullptr),
      claim_(std::move(resumed)),
      data_(read_data(allow_changed_data)),
      loader_(data_.training, loader_options(true)),
      held_out_(data_.held_out, loader_options(false)),
      model_(seeded_model()),
      reference_(model_),
      optimizer_(make_optimizer(recipe_, reference_.parameters())),
      schedule_(make_schedule(recipe_, *optimizer_, step_count())) {
  if (!resumes_) claim_ = claim_together(world_, claim);
  trainer_.emplace(reference_, *optimizer_, trainer_options(allow_changed_data));
  if (is_first()) add_callbacks();
  if (resumes_) {
    resume();
    if (allow_changed_data && is_first())
      write_fingerprint(directory().fingerprint(), data_.fingerprint);
    return;
  }
  if (!is_first()) return;
  save_language(data_.language, directory());
  write_fingerprint(directory().fingerprint(), data_.fingerprint);
  // Written last, because a directory with this file is a run.
  write_json(directory().config(), json_of(recipe_));
}

Data Training::read_data(bool allow_changed_data) const {
  if (!resumes_) return load_data(recipe_);
  const Fingerprint before = read_fingerprint(directory().fingerprint());
  const auto check = [&](const Fingerprint& now) {
    if (before.empty()) {
      warn("the run has no data.json: whether its data has changed is not known");
      return;
    }
    const std::string differs = difference(before, now);
    if (differs.empty()) return;
    if (!allow_changed_data) {
      throw ValueError("the data of " + io::in_quotes(directory().path.native()) +
                       " has changed: " + differs +
                       " (allowed: the data that the run began with, or --allow-changed-data)");
    }
    warn("the data has changed: " + differs);
  };
  return load_data(recipe_, load_language(recipe_, directory()), false, check);
}

data::DataLoaderOptions Training::loader_options(bool training) const {
  constexpr std::int64_t evaluated_together = 256;
  return {.batch_size = training
                            ? recipe_.batch_size
                            : std::max(recipe_.batch_size, reads_text() ? 32 : evaluated_together),
          .shuffle = training,
          .drop_last = training && data_.training->size() >= recipe_.batch_size,
          .workers = static_cast<int>(recipe_.workers),
          .seed = recipe_.seed,
          .rank = world_.rank(),
          .ranks = world_.size()};
}

nn::AnyLayer Training::seeded_model() const {
  manual_seed(recipe_.seed);
  nn::AnyLayer model = make_model(recipe_, data_.language);
  train::ModelReference(model).to(device_of_rank(recipe_.device, world_.local_rank()));
  return model;
}

std::int64_t Training::step_count() const {
  if (recipe_.steps > 0) return recipe_.steps;
  return recipe_.epochs * train::steps_of_epoch(loader_.batches(), recipe_.accumulate);
}

train::Watched Training::watched() const {
  return reads_text() || data_.language.is_regression() ? train::Watched::loss
                                                        : train::Watched::accuracy;
}

train::TrainerOptions Training::trainer_options(bool allow_changed_data) const {
  train::TrainerOptions options;
  options.epochs = recipe_.epochs;
  options.steps = recipe_.steps;
  options.accumulate = recipe_.accumulate;
  options.clip_norm = recipe_.clip_norm;
  options.evaluate_every = recipe_.evaluate_every;
  options.loss = loss_of(data_.language);
  options.schedule = schedule_.whole;
  if (recipe_.precision == "bfloat16") options.autocast = bfloat16;
  if (recipe_.precision == "float16") options.autocast = float16;
  options.checkpoints = directory().checkpoints();
  options.checkpoint_every = recipe_.checkpoint_every;
  options.keep_checkpoints = recipe_.keep_checkpoints;
  options.configuration = json_of(recipe_).dump(2);
  options.stop = InterruptWatch::requested;
  options.allow_changed_data = allow_changed_data;
  options.communicator = &world_;
  options.shard_optimizer = recipe_.shard_optimizer;
  return options;
}

void Training::add_callbacks() {
  trainer_->add<train::ProgressBar>(reads_text() ? "windows" : reads_table() ? "rows" : "images");
  trainer_->add<train::JsonLog>(directory().log());
  trainer_->add<train::EventLog>(directory().path);
  trainer_->add<train::BestModel>(directory().best(), watched());
  if (recipe_.patience > 0) {
    trainer_->add<train::EarlyStopping>(
        train::EarlyStoppingOptions{.watched = watched(), .patience = recipe_.patience});
  }
  // Added last, so that the other callbacks have already processed the first step.
  trainer_->add<FirstStep>(*claim_);
}

void Training::resume() {
  const auto found = trainer_->resume();
  if (!is_first()) return;
  if (!found) {
    std::cerr << "extensor: no checkpoint yet, the run begins anew\n";
    return;
  }
  for (const std::string& text : found->damaged) {
    std::cerr << "extensor: passed over: " << text << '\n';
  }
  if (found->step >= step_count()) {
    std::cerr << "extensor: all " << found->step << " steps are done; the report is made anew\n";
  } else {
    std::cerr << "extensor: going on at step " << found->step << '\n';
  }
}

// Signals are deferred to the end of a step only during this call.
train::Outcome Training::fit() {
  const InterruptWatch watch;
  train::Outcome outcome = trainer_->fit(loader_, &held_out_);
  if (is_first()) {
    save_safetensors(directory().weights(), reference_.state_dict(), {}, {.checksums = true});
  }
  if (outcome.end == train::End::interrupted) {
    // The signal may have reached another rank only.
    const int code = 128 + (InterruptWatch::signal() != 0 ? InterruptWatch::signal() : SIGTERM);
    if (!is_first()) throw CLI::RuntimeError(code);
    std::cerr << "extensor: ended at step " << outcome.step << ", all of it kept. To go on:\n  "
              << command_line({"train", "--resume", directory().path.string()}) << '\n';
    throw CLI::RuntimeError(code);
  }
  return outcome;
}

void Training::run() {
  if (is_first()) std::cerr << described(data_) << "\n\n" << reference_.summary() << '\n';
  finish(fit());
}

namespace {

// "2026-11-16 17:50 UTC"
std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[64] = "";
  if (gmtime_r(&now, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  }
  return text;
}

std::string gibibytes(const DeviceInfo& info) {
  return short_number(static_cast<double>(info.memory_bytes) / (1 << 30)) + " GiB";
}

// The processor and, if it is another one, the device of the run.
std::string machine(Device device) {
  const std::vector<DeviceInfo> all = devices();
  const DeviceInfo& cpu = all.front();
  std::string text;
  for (const DeviceInfo& info : all) {
    if (info.device == device && device != cpu_device) {
      text += info.name + ", " + gibibytes(info) + "; ";
    }
  }
  return text + cpu.name + ", " + counted(get_num_threads(), "thread") + ", " + cpu.kernels + ", " +
         gibibytes(cpu);
}

bool is_all_right(const train::Evaluation& evaluation) {
  return std::ranges::all_of(evaluation.worst, &train::Judged::is_right);
}

// The worst mistakes; without mistakes, the least certain predictions.
std::vector<train::ReportImage> pictures_of(const Data& data, const train::Evaluation& evaluation) {
  std::vector<train::ReportImage> pictures;
  const auto name = [&](std::int64_t k) {
    return data.language.pictures->classes.at(static_cast<std::size_t>(k));
  };
  for (const train::Judged& one : evaluation.worst) {
    if (one.is_right() && !is_all_right(evaluation)) continue;
    train::ReportImage picture{data.shown.images[one.index].contiguous(),
                               one.is_right()
                                   ? name(one.target)
                                   : name(one.target) + ", taken for " + name(one.prediction),
                               {{name(one.prediction), one.probability}}};
    if (!one.is_right()) picture.probabilities.emplace_back(name(one.target), std::exp(-one.loss));
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

}  // namespace

train::Report Training::report(const train::Outcome& outcome,
                               const train::Evaluation& evaluation) const {
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : reference_.named_parameters()) parameters += tensor.numel();
  const std::int64_t step_examples =
      std::min(recipe_.batch_size * recipe_.accumulate, data_.training->size());
  const double examples = static_cast<double>(outcome.step) * static_cast<double>(step_examples);
  train::Report report;
  report.title = recipe_.model + " on " + recipe_.dataset;
  report.about = {
      {"date", date()}, {"machine", machine(reference_.device())}, {"version", version()}};
  report.command = typed_command();
  if (data_.language.is_regression()) {
    report.facts.emplace_back("validation R²", decimals(r_squared(data_, evaluation), 4));
    report.facts.emplace_back("root mean squared error",
                              root_mean_squared_error_text(data_, evaluation));
  } else if (!reads_text()) {
    report.facts.emplace_back("validation accuracy", percent(evaluation.accuracy));
  }
  report.facts.emplace_back("validation loss", decimals(evaluation.loss, 4));
  if (reads_text()) {
    report.facts.emplace_back("perplexity", decimals(train::perplexity(evaluation.loss), 2));
  }
  report.facts.emplace_back("parameters", with_commas(parameters));
  report.facts.emplace_back("steps", with_commas(outcome.step));
  report.facts.emplace_back("time", decimals(outcome.seconds, 1) + " s");
  report.log = directory().log();
  report.confusion = evaluation.confusion;
  if (!reads_text()) report.classes = data_.language.classes();
  if (data_.language.pictures) report.pictures = pictures_of(data_, evaluation);
  report.images_title =
      is_all_right(evaluation) ? "No mistakes; least certain of" : "Worst mistakes";
  report.model = reference_.summary();
  report.configuration = fields_of(recipe_);
  std::string read = described(data_);
  for (std::size_t at = 0; (at = read.find('\n', at)) != std::string::npos; at += 2) {
    read.replace(at, 1, "; ");
  }
  report.configuration.emplace_back("data that was read", std::move(read));
  report.timings = {
      {"total", decimals(outcome.seconds, 2) + " s"},
      {"step, with evaluations and checkpoints",
       decimals(1e3 * outcome.seconds / static_cast<double>(outcome.step), 3) + " ms"},
      {"examples per second, likewise", with_commas(std::llround(examples / outcome.seconds))},
      {"threads", std::to_string(get_num_threads())}};
  if (world_.size() > 1) report.timings.emplace_back("processes", std::to_string(world_.size()));
  return report;
}

// Loads the weights of the best evaluation, as the other commands do, and returns a note on their
// origin. If the file is damaged, the last weights are used.
std::string Training::load_best(const train::Outcome& outcome) {
  try {
    const Safetensors best = load_safetensors(trained_weights(directory()));
    reference_.load_state_dict(best.tensors);
    const auto step = best.metadata.find("step");
    const bool is_last =
        step == best.metadata.end() || step->second == std::to_string(outcome.step);
    return is_last ? "" : " by the weights of step " + io::printable(step->second) + ", the best";
  } catch (const FormatError& error) {
    warn(error.what());
    return " by the last weights, for the best ones are damaged";
  }
}

std::string Training::result_text(const train::Evaluation& evaluation) const {
  if (reads_text()) {
    return "validation loss " + decimals(evaluation.loss, 4) + ", perplexity " +
           decimals(train::perplexity(evaluation.loss), 2);
  }
  if (data_.language.is_regression()) {
    return regression_result(data_, evaluation) + " on " +
           counted(evaluation.examples, "validation row");
  }
  return percent(evaluation.accuracy) + " of " + with_commas(evaluation.examples) +
         (reads_table() ? " validation rows predicted correctly"
                        : " validation images classified correctly");
}

void Training::finish(const train::Outcome& outcome) {
  world_.barrier();  // rank 0 has written the best weights
  const std::string of_step = load_best(outcome);
  constexpr std::int64_t shown = 24;
  const train::Evaluation evaluation = train::evaluate(
      reference_, held_out_,
      {.loss = loss_of(data_.language), .worst = data_.language.pictures ? shown : 0});
  if (!is_first()) return;
  train::Report page = report(outcome, evaluation);
  reference_.train(false);  // evaluate() ends in training mode
  if (reads_text()) {
    const DefaultDevice there(reference_.device());
    page.sample = generate(model_, *data_.language.tokenizer, {});
  }
  for (const std::string& text : train::write_report(directory().report(), page)) warn(text);

  if (outcome.end == train::End::stopped_early) {
    std::cout << "ended early, after " << counted(recipe_.patience, "evaluation")
              << " without a better one\n";
  }
  const std::string path = directory().path.string();
  std::cout << result_text(evaluation) << of_step << ", after " << decimals(outcome.seconds, 1)
            << " s of training\n\n"
            << "Report:  " << io::printable(directory().report().native())
            << "\nWeights: " << io::printable(trained_weights(directory()).native())
            << " (the best), " << directory().weights().filename().string() << " (the last)\n"
            << "Next:    "
            << (reads_text()
                    ? command_line({"generate", path})
                    : command_line({"predict", path, reads_table() ? "TABLE.csv" : "IMAGE.png"}))
            << '\n';
  flush_output();
}

}  // namespace extensor::cli
