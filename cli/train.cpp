// extensor train: the options, and the start or resumption of a run.
#include <extensor/extensor.h>

#include <algorithm>
#include <concepts>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/processes.h"
#include "cli/run_parts.h"
#include "cli/training.h"
#include "cli/validators.h"

namespace extensor::cli {

namespace {

struct Request {
  GivenFields fields;  // from the command line
  std::string config, out, resume;
  bool overwrite = false, allow_changed_data = false;
  std::int64_t processes = 1;
};

// Options that are allowed with --resume: threads and workers do not affect results, and a
// checkpoint can be resumed on any device, with states that are divided between processes or not.
bool may_change(const std::string& field) {
  return field == "device" || field == "threads" || field == "workers" ||
         field == "shard_optimizer";
}

void resume(const Request& request, distributed::Communicator& world) {
  const bool others = std::ranges::any_of(
      request.fields, [](const auto& field) { return !may_change(field.first); });
  if (others || request.overwrite || !request.config.empty() || !request.out.empty()) {
    throw ValueError(
        "--resume continues a run as it began: no other option beside it but --device, --threads, "
        "--workers, --processes, --shard-optimizer and --allow-changed-data (for another run: "
        "--config " +
        request.resume + "/config.json with what is to be different)");
  }
  // Report this before the directory is touched.
  if (const auto device = request.fields.find("device"); device != request.fields.end()) {
    available_device(device->second);
  }
  std::unique_ptr<ClaimedRun> claim =
      claim_together(world, [&] { return claim_resumed_run({request.resume}); });
  const Recipe recipe = make_recipe(read_fields(claim->directory().config()), request.fields);
  available_device(recipe.device);
  if (recipe.threads > 0) set_num_threads(static_cast<int>(recipe.threads));
  Training(world, recipe, std::move(claim), request.allow_changed_data).run();
}

void begin(const Request& request, distributed::Communicator& world) {
  if (request.allow_changed_data) {
    throw ValueError("--allow-changed-data is given without --resume (allowed: beside --resume)");
  }
  const GivenFields file = request.config.empty() ? GivenFields() : read_fields(request.config);
  const Recipe recipe = make_recipe(file, request.fields);
  available_device(recipe.device);
  // Report this before the data is read; the claim checks again.
  const RunDirectory out{request.out};
  if (world.rank() == 0 && !request.out.empty() && !request.overwrite && out.has_run())
    refuse_existing_run(out);
  if (recipe.threads > 0) set_num_threads(static_cast<int>(recipe.threads));
  Training(world, recipe, [&] {
    return request.out.empty() ? claim_free_run(recipe.dataset + "-" + recipe.model)
                               : claim_new_run(out.path, request.overwrite);
  }).run();
}

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
  static std::map<std::string, const CLI::Option*> options;
  options["dataset"] =
      command
          ->add_option("dataset", words["dataset"],
                       "digits, mnist, fashion-mnist, cifar10, cifar100, images, table or text")
          ->type_name("");
  const Recipe usual;
  visit_fields(usual, [&](const std::string& name, const auto& field, const char* help) {
    if (name == "dataset") return;
    std::string flag = "--" + name;
    std::ranges::replace(flag, '_', '-');
    if (name == "lr") flag += ",--learning-rate";
    options[name] = command->add_option(flag, words[name], help)
                        ->type_name(name == "data"     ? "PATH"
                                    : name == "device" ? "DEVICE"
                                                       : kind_of(field));
  });
  command->add_option("--config", request.config, "a JSON file with any of these options")
      ->type_name("FILE")
      ->check(not_empty());
  command
      ->add_option("--out", request.out,
                   "the run's directory; runs/DATASET-MODEL or the next that is free, without it")
      ->type_name("DIR")
      ->check(not_empty());
  command->add_option("--resume", request.resume, "go on with the run in this directory")
      ->type_name("DIR")
      ->check(not_empty());
  command
      ->add_option("--processes", request.processes,
                   "train on so many processes of this machine, started with mpirun; each has its "
                   "part of every batch")
      ->type_name("N");
  command->add_flag("--overwrite", request.overwrite,
                    "begin anew where there is a run already; it is kept until the first step");
  command->add_flag("--allow-changed-data", request.allow_changed_data,
                    "resume although the data is not what the run began with");
  command->footer(
      "DATASET is what the library draws (digits), files as they are distributed (mnist,\n"
      "fashion-mnist, cifar10, cifar100), or your own: images in --data DIR, one directory in it\n"
      "for each class or the four IDX files that MNIST has, of any size and labels; a table\n"
      "in --data FILE.csv, whose column --target is predicted from the others; text in --data "
      "FILE.\n"
      "Every tenth image or row and the last tenth of a text are for validation, unless DIR has\n"
      "train and test.\n\n"
      "Without options, what is usual for the dataset. All that was decided is in config.json of\n"
      "the run's directory: --config with that file repeats the run.\n\n"
      "Examples:\n"
      "  extensor train digits\n"
      "  extensor train mnist --data ~/mnist --model resnet18 --epochs 2 --out runs/big\n"
      "  extensor train images --data photos           one directory in it for each class\n"
      "  extensor train table --data houses.csv --target price\n"
      "  extensor train text --data story.txt --steps 500\n"
      "  extensor train --resume runs/big\n"
      "  extensor train digits --processes 2\n"
      "  extensor train cifar10 --data ~/cifar --device cuda --precision bfloat16");
  command->callback([] {
    for (const auto& [name, option] : options) {
      if (option->count() > 0) request.fields[name] = words[name];
    }
    const bool threads_given = options["threads"]->count() > 0;
    distributed::Communicator& world = distributed::init();
    start_processes(world, request.processes, threads_given);
    run_together(world,
                 [&] { request.resume.empty() ? begin(request, world) : resume(request, world); });
  });
}

}  // namespace extensor::cli
