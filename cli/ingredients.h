// What a recipe asks for: the data, the model, the optimizer and its schedule.
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

// What pictures become before a model reads them, and what it may call them.
struct Pictures {
  std::int64_t channels = 1, height = 28, width = 28;
  std::vector<double> mean, deviation;  // of every channel, over the training pictures
  std::vector<std::string> classes;
};

// What a model reads and writes: found in the data when a run begins, and kept with it.
struct Language {
  std::optional<Pictures> pictures;
  std::unique_ptr<data::Tokenizer> tokenizer;  // of text

  std::int64_t outputs() const;
};

struct Data {
  std::shared_ptr<const data::Dataset> training, held_out;
  data::LabelledImages shown;  // pictures that are held out, as they are
  Language language;
  Fingerprint fingerprint;
};

void save_language(const Language& language, const RunDirectory& directory);
// FormatError, IoError.
Language load_language(const Recipe& recipe, const RunDirectory& directory);

std::vector<data::Transform> steps_of(const Pictures& pictures);

// `language`: of a run that there is already; without one it is found in the data. With
// `all_held_out` all of it is for evaluation. ValueError, IoError, FormatError, and what `check`
// throws.
Data load_data(const Recipe& recipe, std::optional<Language> language = std::nullopt,
               bool all_held_out = false, const FingerprintCheck& check = {});
// "3,000 pictures to learn from, 500 held out; 22 × 20, 5 classes: 0, 1, 2, 3, 4".
std::string described(const Data& data);

nn::AnyLayer make_model(const Recipe& recipe, const Language& language);

std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe,
                                                 const std::vector<Tensor>& parameters);

// A schedule and the parts that it goes through.
struct Schedule {
  std::vector<std::unique_ptr<optim::LRScheduler>> parts;
  optim::LRScheduler* whole = nullptr;  // null: the rate stays
};
Schedule make_schedule(const Recipe& recipe, optim::Optimizer& optimizer, std::int64_t steps);

// A model of a run that there is, with those weights.
struct Trained {
  Recipe recipe;
  RunDirectory directory;
  nn::AnyLayer model;
  Language language;
  std::filesystem::path weights;
};
Trained load_trained(const std::filesystem::path& path);

}  // namespace extensor::cli
