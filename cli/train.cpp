// extensor train: from a recipe to a run's directory.
#include <extensor/extensor.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <iostream>

#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/ingredients.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"

namespace extensor::cli {

namespace {

struct Request {
  GivenFields fields;  // of the command line
  std::string config, out, resume;
  bool overwrite = false;
};

void make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError("'" + path.string() + "' cannot be made: " + error.message());
}

// runs/digits-lenet, or the first runs/digits-lenet-2 … that is free.
std::filesystem::path free_directory(const Recipe& recipe) {
  const std::string name = recipe.dataset + "-" + recipe.model;
  std::filesystem::path path = std::filesystem::path("runs") / name;
  for (int k = 2; std::filesystem::exists(path); ++k) {
    path = std::filesystem::path("runs") / (name + "-" + std::to_string(k));
  }
  return path;
}

// What a new run needs of its directory.
RunDirectory prepare(const Request& request, const Recipe& recipe) {
  RunDirectory directory{request.out.empty() ? free_directory(recipe)
                                             : std::filesystem::path(request.out)};
  make_directory(directory.path);
  if (std::filesystem::exists(directory.config())) {
    if (!request.overwrite) {
      throw ValueError("'" + directory.path.string() +
                       "' has a run already: go on with it (extensor train --resume " +
                       directory.path.string() + "), or begin anew (--overwrite)");
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory.checkpoints(), ignored);
    for (const auto& path :
         {directory.config(), directory.weights(), directory.best(), directory.report()}) {
      std::filesystem::remove(path, ignored);
    }
  }
  return directory;
}

// A run in progress, its parts in the order in which they need each other.
class Training {
 public:
  Training(Recipe recipe, RunDirectory directory, bool resumes)
      : recipe_(std::move(recipe)),
        directory_(std::move(directory)),
        data_(load_data(recipe_, saved_language(resumes))),
        loader_(data_.training, loader_options(true)),
        held_out_(data_.held_out, loader_options(false)),
        model_(seeded_model()),
        reference_(model_),
        optimizer_(make_optimizer(recipe_, reference_.parameters())),
        schedule_(make_schedule(recipe_, *optimizer_, step_count())),
        trainer_(reference_, *optimizer_, options()) {
    trainer_.add<train::ProgressBar>(reads_text() ? "windows" : "pictures");
    trainer_.add<train::JsonLog>(directory_.log());
    trainer_.add<train::EventLog>(directory_.path);
    trainer_.add<train::BestModel>(directory_.best(), watched());
    if (recipe_.patience > 0) {
      trainer_.add<train::EarlyStopping>(
          train::EarlyStoppingOptions{.watched = watched(), .patience = recipe_.patience});
    }
    if (resumes) return;
    save_language(data_.language, directory_);
    // The last, since a directory with this file is a run.
    write_text(directory_.config(), to_json(recipe_));
  }

  void resume() {
    const auto found = trainer_.resume();
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

  void run() {
    std::cerr << described(data_) << "\n\n" << reference_.summary() << '\n';
    const train::Outcome outcome = fit();
    save_safetensors(directory_.weights(), reference_.state_dict());
    if (outcome.end == train::End::interrupted) {
      std::cerr << "extensor: ended at step " << outcome.step << ", all of it kept. To go on:\n"
                << "  extensor train --resume " << directory_.path.string() << '\n';
      throw CLI::RuntimeError(130);
    }
    finish(outcome);
  }

 private:
  std::optional<Language> saved_language(bool resumes) const {
    if (!resumes) return std::nullopt;
    return load_language(recipe_, directory_);
  }

  data::DataLoaderOptions loader_options(bool training) const {
    constexpr std::int64_t evaluated_together = 256;
    return {.batch_size =
                training ? recipe_.batch_size
                         : std::max(recipe_.batch_size, reads_text() ? 32 : evaluated_together),
            .shuffle = training,
            .drop_last = training && data_.training->size() >= recipe_.batch_size,
            .workers = static_cast<int>(recipe_.workers),
            .seed = recipe_.seed};
  }

  nn::AnyLayer seeded_model() const {
    manual_seed(recipe_.seed);
    return make_model(recipe_, data_.language);
  }

  std::int64_t step_count() const {
    if (recipe_.steps > 0) return recipe_.steps;
    return recipe_.epochs * ((loader_.batches() + recipe_.accumulate - 1) / recipe_.accumulate);
  }

  // Only here does a signal wait for the end of a step.
  train::Outcome fit() {
    const InterruptWatch watch;
    return trainer_.fit(loader_, &held_out_);
  }

  bool reads_text() const { return recipe_.dataset == "text"; }

  train::Watched watched() const {
    return reads_text() ? train::Watched::loss : train::Watched::accuracy;
  }

  train::TrainerOptions options() const {
    train::TrainerOptions options;
    options.epochs = recipe_.epochs;
    options.steps = recipe_.steps;
    options.accumulate = recipe_.accumulate;
    options.clip_norm = recipe_.clip_norm;
    options.evaluate_every = recipe_.evaluate_every;
    options.schedule = schedule_.whole;
    if (recipe_.precision == "bfloat16") options.autocast = bfloat16;
    options.checkpoints = directory_.checkpoints();
    options.checkpoint_every = recipe_.checkpoint_every;
    options.keep_checkpoints = recipe_.keep_checkpoints;
    options.configuration = to_json(recipe_);
    options.stop = InterruptWatch::requested;
    return options;
  }

  void finish(const train::Outcome& outcome);
  train::Report report(const train::Outcome& outcome, const train::Evaluation& evaluation) const;

  Recipe recipe_;
  RunDirectory directory_;
  Data data_;
  data::DataLoader loader_, held_out_;
  nn::AnyLayer model_;
  train::ModelReference reference_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Schedule schedule_;
  train::Trainer trainer_;
};

bool is_all_right(const train::Evaluation& evaluation) {
  return std::ranges::all_of(evaluation.worst, &train::Judged::is_right);
}

// The worst mistakes, or what was almost one.
std::vector<train::ReportPicture> pictures_of(const Data& data,
                                              const train::Evaluation& evaluation) {
  std::vector<train::ReportPicture> pictures;
  const auto name = [&](std::int64_t k) {
    return data.language.pictures->classes.at(static_cast<std::size_t>(k));
  };
  for (const train::Judged& one : evaluation.worst) {
    if (one.is_right() && !is_all_right(evaluation)) continue;
    const std::string certainty = percent(std::exp(-one.loss));
    pictures.push_back({data.shown.images[{one.index}].contiguous(),
                        one.is_right() ? name(one.target) + ", with " + certainty
                                       : name(one.target) + ", taken for " + name(one.prediction)});
  }
  return pictures;
}

train::Report Training::report(const train::Outcome& outcome,
                               const train::Evaluation& evaluation) const {
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : reference_.named_parameters()) parameters += tensor.numel();
  const double examples = static_cast<double>(outcome.step) *
                          static_cast<double>(recipe_.batch_size * recipe_.accumulate);
  train::Report report;
  report.title = recipe_.model + " on " + recipe_.dataset;
  if (!reads_text()) report.facts.emplace_back("held-out accuracy", percent(evaluation.accuracy));
  report.facts.emplace_back("held-out loss", decimals(evaluation.loss, 4));
  if (reads_text()) {
    report.facts.emplace_back("perplexity", decimals(train::perplexity(evaluation.loss), 2));
  }
  report.facts.emplace_back("parameters", with_commas(parameters));
  report.facts.emplace_back("steps", with_commas(outcome.step));
  report.facts.emplace_back("time", decimals(outcome.seconds, 1) + " s");
  report.log = directory_.log();
  report.confusion = evaluation.confusion;
  if (!reads_text()) report.classes = data_.language.pictures->classes;
  report.pictures = pictures_of(data_, evaluation);
  report.pictures_title =
      is_all_right(evaluation) ? "No mistakes; least certain of" : "Worst mistakes";
  report.model = reference_.summary();
  report.configuration = fields_of(recipe_);
  report.configuration.emplace_back("data that was read", described(data_));
  report.timings = {
      {"all", decimals(outcome.seconds, 2) + " s"},
      {"a step, with evaluations and checkpoints",
       decimals(1e3 * outcome.seconds / static_cast<double>(outcome.step), 3) + " ms"},
      {"examples a second, the same", with_commas(std::llround(examples / outcome.seconds))},
      {"threads", std::to_string(get_num_threads())},
      {"version", version()}};
  return report;
}

// Of the best weights, which the other commands use too.
void Training::finish(const train::Outcome& outcome) {
  const std::filesystem::path weights = trained_weights(directory_);
  const Safetensors best = load_safetensors(weights);
  reference_.load_state_dict(best.tensors);
  const auto step = best.metadata.find("step");
  const bool is_last = step == best.metadata.end() || step->second == std::to_string(outcome.step);
  const std::string of_step =
      is_last ? "" : " by the weights of step " + step->second + ", the best";
  constexpr std::int64_t shown = 24;
  const train::Evaluation evaluation =
      train::evaluate(reference_, held_out_, {.worst = reads_text() ? 0 : shown});
  train::Report page = report(outcome, evaluation);
  if (reads_text()) page.sample = generate(model_, *data_.language.tokenizer, recipe_.block, {});
  train::write_report(directory_.report(), page);

  if (outcome.end == train::End::stopped_early) {
    std::cout << "ended early, after " << counted(recipe_.patience, "evaluation")
              << " without a better one\n";
  }
  if (reads_text()) {
    std::cout << "held-out loss " << decimals(evaluation.loss, 4) << ", perplexity "
              << decimals(train::perplexity(evaluation.loss), 2) << of_step;
  } else {
    std::cout << percent(evaluation.accuracy) << " of " << with_commas(evaluation.examples)
              << " held-out pictures read correctly" << of_step;
  }
  const std::string path = directory_.path.string();
  std::cout << ", after " << decimals(outcome.seconds, 1) << " s of training\n\n"
            << "report    " << directory_.report().string() << "\nweights   " << weights.string()
            << " (the best), " << directory_.weights().filename().string() << " (the last)\n"
            << "and next  "
            << (reads_text() ? "extensor generate " + path
                             : "extensor predict " + path + " PICTURE.png")
            << '\n';
}

// What may be given beside --resume: neither changes a result.
bool may_change(const std::string& field) { return field == "threads" || field == "workers"; }

void run(const Request& request) {
  if (!request.resume.empty()) {
    const bool others = std::ranges::any_of(
        request.fields, [](const auto& field) { return !may_change(field.first); });
    if (others || request.overwrite || !request.config.empty() || !request.out.empty()) {
      throw ValueError(
          "--resume goes on with a run as it began: no other option beside it but --threads and "
          "--workers (another run: --config " +
          request.resume + "/config.json with what is to be different)");
    }
    const RunDirectory directory{request.resume};
    check_run(directory);
    const Recipe recipe = make_recipe(read_fields(directory.config()), request.fields);
    if (recipe.threads > 0) set_num_threads(static_cast<int>(recipe.threads));
    Training training(recipe, directory, true);
    training.resume();
    training.run();
    return;
  }
  const GivenFields file = request.config.empty() ? GivenFields() : read_fields(request.config);
  const Recipe recipe = make_recipe(file, request.fields);
  if (recipe.threads > 0) set_num_threads(static_cast<int>(recipe.threads));
  Training training(recipe, prepare(request, recipe), false);
  training.run();
}

}  // namespace

namespace {

const char* kind_of(const std::string&) { return "NAME"; }
const char* kind_of(bool) { return "true|false"; }
template <std::integral Number>
const char* kind_of(Number) {
  return "N";
}
const char* kind_of(double) { return "X"; }

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a network, watch it, keep all of it");
  static Request request;
  static std::map<std::string, std::string> words;
  command
      ->add_option("dataset", words["dataset"],
                   "digits, mnist, fashion-mnist, cifar10, cifar100, pictures or text")
      ->type_name("");
  const Recipe usual;
  visit_fields(usual, [&](const std::string& name, const auto& field, const char* help) {
    if (name == "dataset") return;
    std::string flag = "--" + name;
    std::ranges::replace(flag, '_', '-');
    if (name == "lr") flag += ",--learning-rate";
    command->add_option(flag, words[name], help)
        ->type_name(name == "data" ? "PATH" : kind_of(field));
  });
  command->add_option("--config", request.config, "a JSON file with any of these options")
      ->type_name("FILE");
  command
      ->add_option("--out", request.out,
                   "the run's directory; runs/DATASET-MODEL or the next that is free, without it")
      ->type_name("DIR");
  command->add_option("--resume", request.resume, "go on with the run in this directory")
      ->type_name("DIR");
  command->add_flag("--overwrite", request.overwrite, "begin anew where there is a run already");
  command->footer(
      "DATASET is what the library draws (digits), files as they are distributed (mnist,\n"
      "fashion-mnist, cifar10, cifar100), or your own: pictures in --data DIR, one directory in "
      "it\n"
      "for each class or the four IDX files that MNIST has, of any size and labels; text in\n"
      "--data FILE. Every tenth picture and the last tenth of a text are held out, unless DIR has\n"
      "train and test.\n\n"
      "Without options, what is usual for the dataset. All that was decided is in config.json of\n"
      "the run's directory: --config with that file repeats the run.\n\n"
      "Examples:\n"
      "  extensor train digits\n"
      "  extensor train mnist --data ~/mnist --model resnet18 --epochs 2 --out runs/big\n"
      "  extensor train pictures --data photos         one directory in it for each class\n"
      "  extensor train text --data story.txt --steps 500\n"
      "  extensor train --resume runs/big");
  command->callback([] {
    for (const auto& [name, text] : words) {
      if (!text.empty()) request.fields[name] = text;
    }
    run(request);
  });
}

}  // namespace extensor::cli
