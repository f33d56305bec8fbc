// extensor eval: evaluates a trained network.
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/run_parts.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

void print_classes(const train::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> rows{
      {"class", "precision", "recall", "F1", "most often taken for"}};
  for (std::int64_t k = 0; k < matrix.classes(); ++k) {
    std::int64_t other = -1;
    for (std::int64_t j = 0; j < matrix.classes(); ++j) {
      if (j != k && matrix.at(k, j) > (other < 0 ? 0 : matrix.at(k, other))) other = j;
    }
    const auto name = [&](std::int64_t at) { return names.at(static_cast<std::size_t>(at)); };
    rows.push_back(
        {name(k), percent(matrix.precision(k)), percent(matrix.recall(k)), percent(matrix.f1(k)),
         other < 0 ? "" : name(other) + " (" + std::to_string(matrix.at(k, other)) + ")"});
  }
  std::cout << table(rows);
}

void run(const std::string& path, const std::string& data, const std::optional<std::string>& device,
         bool json) {
  Trained trained = load_trained(path, device);
  if (!data.empty()) trained.recipe.data = data;
  const Fingerprint before = read_fingerprint(trained.directory.fingerprint());
  const auto check = [&](const Fingerprint& now) {
    if (!data.empty() || before.empty()) return;
    const std::string differs = difference(before, now);
    if (differs.empty()) return;
    std::cerr
        << "extensor: warning: the data has changed, so that the validation data may contain what "
           "the run learned from: "
        << differs << '\n';
  };
  const Data all = load_data(trained.recipe, std::move(trained.language), !data.empty(), check);
  const bool is_text = trained.recipe.dataset == "text";
  const data::DataLoader loader(all.held_out,
                                {.batch_size = is_text ? 32 : 256,
                                 .shuffle = false,
                                 .workers = static_cast<int>(trained.recipe.workers)});
  const train::Evaluation result =
      train::evaluate(trained.model, loader, {.loss = loss_of(all.language)});
  const bool is_regression = all.language.is_regression();
  if (json) {
    nlohmann::ordered_json object{{"weights", trained.weights.string()},
                                  {"examples", result.examples},
                                  {"loss", result.loss},
                                  {"accuracy", result.accuracy}};
    if (is_regression) {
      object.erase("accuracy");
      object["r_squared"] = r_squared(all, result);
      object["root_mean_squared_error"] = root_mean_squared_error(all, result);
    }
    if (is_text) object["perplexity"] = train::perplexity(result.loss);
    if (result.confusion) {
      object["macro_f1"] = result.confusion->macro_f1();
      object["classes"] = all.language.classes();
      for (std::int64_t k = 0; k < result.confusion->classes(); ++k) {
        nlohmann::ordered_json row;
        for (std::int64_t j = 0; j < result.confusion->classes(); ++j) {
          row.push_back(result.confusion->at(k, j));
        }
        object["confusion"].push_back(row);
      }
    }
    std::cout << object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  std::cout << io::printable(trained.weights.native()) << " on "
            << counted(result.examples, data.empty() ? "validation example" : "example")
            << ": loss " << decimals(result.loss, 4) << ", "
            << (is_regression ? regression_result(all, result)
                              : "accuracy " + percent(result.accuracy));
  if (is_text) std::cout << ", perplexity " << decimals(train::perplexity(result.loss), 2);
  std::cout << '\n';
  if (result.confusion) {
    std::cout << '\n';
    print_classes(*result.confusion, all.language.classes());
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "eval", "Evaluate a trained network on what it did not learn from, or on other data");
  static std::string path, data;
  static std::optional<std::string> device;
  static bool json;
  command->add_option("run", path, "The run's directory")->required()->check(not_empty());
  command
      ->add_option("--data", data, "Other data of the same kind: all of it, or what DIR/test has")
      ->check(not_empty());
  add_device_option(*command, device);
  command->add_flag("--json", json, "As JSON");
  command->footer(
      "With the best weights of the run (best.safetensors).\n\n"
      "Examples:\n  extensor eval runs/digits-lenet\n  extensor eval runs/images-lenet --data "
      "new");
  command->callback([] { run(path, data, device, json); });
}

}  // namespace extensor::cli
