// extensor export: writes a trained network as an ONNX file.
#include <iostream>

#include "cli/commands.h"
#include "cli/run_parts.h"
#include "cli/terminal.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

std::string list_of(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : ", ") + short_number(number);
  return text;
}

// An example input of the network, and how users prepare theirs.
struct Input {
  Tensor example;
  std::string meaning;
};
Input input_of(const Trained& trained) {
  const Language& language = trained.language;
  if (language.table) {
    return {zeros({2, language.table->inputs()}),
            "encoded rows, as data::TableEncoder makes them with table.json"};
  }
  if (!language.pictures) {
    return {zeros({2, trained.recipe.block}, DType::int64), "tokens of tokenizer.json"};
  }
  const Pictures& pictures = *language.pictures;
  return {zeros({2, pictures.channels, pictures.height, pictures.width}),
          "pixels / 255, minus the mean (" + list_of(pictures.mean) +
              "), divided by the deviation (" + list_of(pictures.deviation) + ")"};
}

void run(const std::string& path, const std::string& out, std::int64_t opset) {
  Trained trained = load_trained(path, "cpu");
  const std::filesystem::path file =
      out.empty()
          ? std::filesystem::path(
                std::filesystem::absolute(path).lexically_normal().filename().string() + ".onnx")
          : std::filesystem::path(out);
  const Input input = input_of(trained);
  export_onnx(file, trained.model, {.dynamic_batch = true, .opset = opset}, input.example);
  std::string shape = "batch";
  for (std::int64_t d = 1; d < input.example.ndim(); ++d) {
    shape += ", " + std::to_string(input.example.size(d));
  }
  std::cout << io::printable(file.native()) << '\n'
            << "input: " << name(input.example.dtype()) << " [" << shape << "], " << input.meaning
            << '\n';
  if (!trained.language.is_regression()) {
    std::cout << "output: " << trained.language.outputs() << " logits"
              << (input.example.dtype() == DType::int64 ? " for each token" : "") << '\n';
  }
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("export", "Write a trained network as an ONNX file, for other runtimes");
  static std::string path, out;
  static std::int64_t opset = OnnxExportOptions().opset;
  command->add_option("run", path, "The run's directory")->required()->check(not_empty());
  command->add_option("--out", out, "The file; default RUN.onnx in the current directory")
      ->check(not_empty());
  command->add_option("--opset", opset, "The version of the operators, 18 to 23");
  command->footer("Examples:\n  extensor export runs/digits-lenet --out digits.onnx");
  command->callback([] { run(path, out, opset); });
}

}  // namespace extensor::cli
