// Saves and loads a run's image format (size, mean, deviation, classes), tokenizer or encoding of a
// table.
#include "cli/json_file.h"
#include "cli/run_parts.h"
#include "cli/table.h"

namespace extensor::cli {

namespace {

Pictures read_pictures(const std::filesystem::path& path) {
  const nlohmann::json json = read_json(path);
  Pictures pictures;
  try {
    pictures = {json.at("channels"), json.at("height"),    json.at("width"),
                json.at("mean"),     json.at("deviation"), json.at("classes")};
  } catch (const nlohmann::json::exception& error) {
    throw FormatError("'" + path.string() + "' does not say what images are: " + error.what());
  }
  const auto is_side = [](std::int64_t side) { return side >= 1 && side <= 1 << 16; };
  if ((pictures.channels != 1 && pictures.channels != 3) || !is_side(pictures.height) ||
      !is_side(pictures.width) || pictures.classes.empty()) {
    throw FormatError("'" + path.string() + "': images are " + std::to_string(pictures.channels) +
                      " × " + std::to_string(pictures.height) + " × " +
                      std::to_string(pictures.width) + " of " +
                      std::to_string(pictures.classes.size()) + " classes");
  }
  steps_of(pictures);  // throws ValueError for numbers that cannot normalize
  return pictures;
}

}  // namespace

std::int64_t Language::outputs() const {
  if (table) return table->outputs();
  return tokenizer ? tokenizer->size() : std::ssize(pictures->classes);
}

const std::vector<std::string>& Language::classes() const {
  return table ? table->classes() : pictures->classes;
}

train::Loss loss_of(const Language& language) {
  if (!language.is_regression()) return train::classification_loss;
  return [](const Tensor& outputs, const Tensor& targets) { return mse(outputs, targets); };
}

void save_language(const Language& language, const RunDirectory& directory) {
  if (language.tokenizer) {
    language.tokenizer->save(directory.tokenizer());
    return;
  }
  if (language.table) {
    save_table_encoder(directory.table(), *language.table);
    return;
  }
  const Pictures& of = *language.pictures;
  const nlohmann::ordered_json json{{"channels", of.channels},   {"height", of.height},
                                    {"width", of.width},         {"mean", of.mean},
                                    {"deviation", of.deviation}, {"classes", of.classes}};
  write_json(directory.images(), json);
}

Language load_language(const Recipe& recipe, const RunDirectory& directory) {
  Language language;
  if (recipe.dataset == "text") {
    language.tokenizer = data::load_tokenizer(directory.tokenizer());
  } else if (recipe.dataset == "table") {
    language.table = read_table_encoder(directory.table());
  } else {
    const bool is_old = !std::filesystem::exists(directory.images()) &&
                        std::filesystem::exists(directory.pictures());
    language.pictures = read_pictures(is_old ? directory.pictures() : directory.images());
  }
  return language;
}

}  // namespace extensor::cli
