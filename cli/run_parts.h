// Builds what a recipe describes: the data, the model, the optimizer and its schedule.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/fingerprint.h"
#include "cli/recipe.h"
#include "cli/run_directory.h"

namespace extensor::cli {

// The format of a model's input images, and the names of its classes.
struct Pictures {
  std::int64_t channels = 1, height = 28, width = 28;
  std::vector<double> mean, deviation;  // per channel, over the training images
  std::vector<std::string> classes;
};

// The input and output format of a model, determined from the data when a run begins and saved with
// it.
struct Language {
  std::optional<Pictures> pictures;
  std::unique_ptr<data::Tokenizer> tokenizer;  // for text
  std::optional<data::TableEncoder> table;

  std::int64_t outputs() const;
  bool is_regression() const { return table && table->task() == data::Task::regression; }
  const std::vector<std::string>& classes() const;  // of images or rows
};

struct Data {
  std::shared_ptr<const data::Dataset> training, held_out;
  data::LabelledImages shown = {};  // the validation images before preprocessing
  double held_out_variance = 0;     // of standardized targets, for regression
  std::vector<data::TableEncoder::Unusual> unusual = {};  // of all rows of a table
  std::int64_t rows_without_target = 0;
  Language language;
  Fingerprint fingerprint;
};

void save_language(const Language& language, const RunDirectory& directory);
// Throws FormatError or IoError.
Language load_language(const Recipe& recipe, const RunDirectory& directory);

std::vector<data::Transform> steps_of(const Pictures& pictures);

// `language` is that of an existing run; without it, it is determined from the data. With
// `all_held_out`, all data is for evaluation. Throws ValueError, IoError, FormatError, and
// exceptions from `check`.
Data load_data(const Recipe& recipe, std::optional<Language> language = std::nullopt,
               bool all_held_out = false, const FingerprintCheck& check = {});
// "3,000 images to learn from, 500 for validation; 22 × 20, 5 classes: 0, 1, 2, 3, 4".
std::string described(const Data& data);

// "3 classes: cat, dog, fox".
std::string class_list(const std::vector<std::string>& classes);

// The loss of training and evaluation: cross entropy, or the mean squared error.
train::Loss loss_of(const Language& language);

nn::AnyLayer make_model(const Recipe& recipe, const Language& language);

std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe,
                                                 const std::vector<Tensor>& parameters);

// A schedule and the schedules that it consists of.
struct Schedule {
  std::vector<std::unique_ptr<optim::LRScheduler>> parts;
  optim::LRScheduler* whole = nullptr;  // null: constant learning rate
};
Schedule make_schedule(const Recipe& recipe, optim::Optimizer& optimizer, std::int64_t steps);

// The model of an existing run with its trained weights, on `device`.
struct Trained {
  Recipe recipe;
  RunDirectory directory;
  nn::AnyLayer model;
  Language language;
  std::filesystem::path weights;
  Device device;
};
// `device` is the value of --device. Throws DeviceError if it is not available.
Trained load_trained(const std::filesystem::path& path, const std::optional<std::string>& device);

}  // namespace extensor::cli
