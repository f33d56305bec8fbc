// extensor predict: predicts the classes of images or the target of a table, or continues a text.
#include <algorithm>
#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/generate.h"
#include "cli/output.h"
#include "cli/run_parts.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

struct Request {
  std::string run;
  std::vector<std::string> inputs;
  std::int64_t top = 3;
  std::optional<std::int64_t> max_pixels;  // nullopt: the value of the run
  bool invert = false;
  std::optional<std::string> device;
};

// Adds an image, or the images in a directory and its subdirectories.
void add_pictures(const std::filesystem::path& path, std::vector<std::filesystem::path>& list) {
  if (!std::filesystem::is_directory(path)) {
    list.push_back(path);
    return;
  }
  for (const auto& file : data::image_files(path)) list.push_back(file);
  std::vector<std::filesystem::path> inside;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_directory() && !entry.is_symlink()) inside.push_back(entry.path());
  }
  std::ranges::sort(inside);
  for (const auto& directory : inside) add_pictures(directory, list);
}

std::vector<std::filesystem::path> pictures_of(const std::vector<std::string>& inputs) {
  std::vector<std::filesystem::path> list;
  for (const std::string& input : inputs) {
    const std::size_t before = list.size();
    add_pictures(input, list);
    if (list.size() == before) {
      throw ValueError(io::in_quotes(input) + " has no images (allowed: .png, .jpg, .pgm, .ppm)");
    }
  }
  return list;
}

// Loads an image and prepares it like those of the run.
Tensor prepared(const std::filesystem::path& path, const Pictures& how, bool invert,
                std::int64_t max_pixels) {
  Tensor picture = data::load_image(path, {.max_pixels = max_pixels});
  if (invert) picture = (255 - picture.to(int32)).to(uint8);
  if (how.channels == 3 && picture.shape()[0] == 1) {
    picture = concatenate({picture, picture, picture}, 0);
  }
  std::vector<data::Transform> steps;
  if (how.channels == 1) steps.push_back(data::grayscale());
  for (const data::Transform& step : steps_of(how)) steps.push_back(step);
  const data::ImageDataset one({picture.unsqueeze(0).contiguous(), zeros({1}, int64), {}}, steps);
  const std::int64_t first[] = {0};
  return one.batch({first}).inputs;
}

std::string likeliest(const Tensor& logits, const std::vector<std::string>& classes,
                      std::int64_t top) {
  const auto parts = softmax(logits.to(float64), -1).to_vector<double>();
  std::vector<std::size_t> order(parts.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return parts[a] > parts[b]; });
  std::string text;
  for (std::size_t k = 0; k < std::min(order.size(), static_cast<std::size_t>(top)); ++k) {
    char part[32];
    std::snprintf(part, sizeof part, " %.1f %%", 100 * parts[order[k]]);
    text += (k == 0 ? "" : "   ") + io::printable(classes.at(order[k])) + part;
  }
  return text;
}

void run(const Request& request) {
  const Trained trained = load_trained(request.run, request.device);
  const NoGrad off;
  if (trained.language.tokenizer) {
    const DefaultDevice there(trained.device);
    for (const std::string& prompt : request.inputs) {
      GenerateOptions options;
      options.prompt = prompt;
      options.temperature = 0;
      options.tokens = 100;
      generate(trained.model, *trained.language.tokenizer, options, [](const std::string& piece) {
        std::cout << piece;
        flush_output();
      });
      std::cout << '\n';
    }
    return;
  }
  if (trained.language.table) {
    if (request.inputs.size() != 1 || request.invert || request.max_pixels) {
      throw ValueError("the run learned a table (allowed: one CSV file, and no option for images)");
    }
    predict_table(trained, request.inputs.front());
    return;
  }
  const Pictures& how = *trained.language.pictures;
  const std::vector<std::filesystem::path> paths = pictures_of(request.inputs);
  std::vector<std::string> names;
  std::size_t longest = 0;
  for (const std::filesystem::path& path : paths) {
    names.push_back(io::printable(path.native()));
    longest = std::max(longest, names.back().size());
  }
  const std::int64_t max_pixels = request.max_pixels.value_or(trained.recipe.max_pixels);
  for (std::size_t k = 0; k < paths.size(); ++k) {
    const Tensor picture = prepared(paths[k], how, request.invert, max_pixels);
    const Tensor logits = trained.model(picture.to(trained.device));
    std::cout << names[k] << std::string(longest - names[k].size() + 2, ' ')
              << likeliest(logits[0], how.classes, request.top) << '\n';
    flush_output();
  }
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "predict",
      "Show what a network sees in images, predicts for rows, or how it continues a text");
  static Request request;
  command->add_option("run", request.run, "The run's directory")->required()->check(not_empty());
  command
      ->add_option(
          "input", request.inputs,
          "Images (PNG, JPEG, PGM, PPM) or directories of them; a CSV file; texts to continue")
      ->required();
  command->add_option("--top", request.top, "How many classes are shown")
      ->check(number_between(std::int64_t{1}, std::int64_t{1000}, "a whole number, 1 to 1000"));
  command
      ->add_option("--max-pixels", request.max_pixels,
                   "Refuse images with more pixels; without it, what the run was told")
      ->check(number_between(std::int64_t{1}, std::int64_t{1} << 40, "a whole number, 1 to 2^40"));
  add_device_option(*command, request.device);
  command->add_flag("--invert", request.invert,
                    "Dark on light, where the network knows light on dark");
  command->footer(
      "A text goes on with what is likeliest, 100 tokens; 'extensor generate' has more choices.\n\n"
      "Predictions for a table are a CSV file on standard output, a line for each row.\n\n"
      "Examples:\n  extensor predict runs/digits-lenet three.png scans/ --invert\n"
      "  extensor predict runs/table-mlp new.csv > predictions.csv\n"
      "  extensor predict runs/text-transformer \"To be\"");
  command->callback([] { run(request); });
}

}  // namespace extensor::cli
