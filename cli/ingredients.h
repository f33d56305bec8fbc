// What a recipe asks for: the data, the model, the optimizer and its schedule.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/recipe.h"

namespace extensor::cli {

// Pictures of any size, made into what a model reads.
struct Preparation {
  std::int64_t channels = 1, height = 28, width = 28;
  std::vector<double> mean, deviation;
};

struct Data {
  std::shared_ptr<const data::Dataset> training, held_out;
  std::vector<std::string> classes;            // of pictures
  data::LabelledImages pictures;               // held out, as they are
  std::unique_ptr<data::Tokenizer> tokenizer;  // of text
};

// Where a run's directory has its parts.
struct RunDirectory {
  std::filesystem::path path;
  std::filesystem::path config() const { return path / "config.json"; }
  std::filesystem::path log() const { return path / "log.jsonl"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path weights() const { return path / "model.safetensors"; }
  std::filesystem::path best() const { return path / "best.safetensors"; }
  std::filesystem::path classes() const { return path / "classes.txt"; }
  std::filesystem::path tokenizer() const { return path / "tokenizer.json"; }
  std::filesystem::path report() const { return path / "report.html"; }
};

// What the pictures of a dataset become for a model.
Preparation preparation_of(const Recipe& recipe);
std::vector<data::Transform> steps_of(const Preparation& preparation);

// `tokenizer`: of a run that there is already, else null and it is made of the text. ValueError,
// IoError, FormatError.
Data load_data(const Recipe& recipe, std::unique_ptr<data::Tokenizer> tokenizer = nullptr);

// `outputs`: the classes of pictures, or the tokens of a text.
nn::AnyLayer make_model(const Recipe& recipe, std::int64_t outputs);

std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe,
                                                 const std::vector<Tensor>& parameters);

// A schedule and the parts that it goes through.
struct Schedule {
  std::vector<std::unique_ptr<optim::LRScheduler>> parts;
  optim::LRScheduler* whole = nullptr;  // null: the rate stays
};
Schedule make_schedule(const Recipe& recipe, optim::Optimizer& optimizer, std::int64_t steps);

// A model of a run that there is, with its best weights (the last, where none were the best).
struct Trained {
  Recipe recipe;
  RunDirectory directory;
  nn::AnyLayer model;
  std::vector<std::string> classes;
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::filesystem::path weights;
};
Trained load_trained(const std::filesystem::path& path);

}  // namespace extensor::cli
