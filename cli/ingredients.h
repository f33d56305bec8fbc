// What a recipe asks for: the data, the model, the optimizer and its schedule.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/recipe.h"

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
};

// Where a run's directory has its parts.
struct RunDirectory {
  std::filesystem::path path;
  std::filesystem::path config() const { return path / "config.json"; }
  std::filesystem::path log() const { return path / "log.jsonl"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path weights() const { return path / "model.safetensors"; }
  std::filesystem::path best() const { return path / "best.safetensors"; }
  std::filesystem::path pictures() const { return path / "pictures.json"; }
  std::filesystem::path tokenizer() const { return path / "tokenizer.json"; }
  std::filesystem::path report() const { return path / "report.html"; }
};

// As a whole or not at all.
void write_text(const std::filesystem::path& path, const std::string& text);

void save_language(const Language& language, const RunDirectory& directory);
// FormatError, IoError.
Language load_language(const Recipe& recipe, const RunDirectory& directory);

std::vector<data::Transform> steps_of(const Pictures& pictures);

// `language`: of a run that there is already; without one it is found in the data. With
// `all_held_out` nothing is to be learned from it. ValueError, IoError, FormatError.
Data load_data(const Recipe& recipe, std::optional<Language> language = std::nullopt,
               bool all_held_out = false);
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

// IoError unless it is the directory of a run.
void check_run(const RunDirectory& directory);
// The best weights; the last, where none were evaluated. IoError where there are none.
std::filesystem::path trained_weights(const RunDirectory& directory);

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
