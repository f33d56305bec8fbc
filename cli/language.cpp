// What a model reads and writes, in the run's directory.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/ingredients.h"

namespace extensor::cli {

namespace {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path)) {
    throw IoError("'" + path.string() + "' cannot be read");
  }
  auto json = nlohmann::json::parse(stream, nullptr, false);
  if (json.is_discarded()) throw FormatError("'" + path.string() + "' is no JSON");
  return json;
}

Pictures read_pictures(const std::filesystem::path& path) {
  const nlohmann::json json = read_json(path);
  Pictures pictures;
  try {
    pictures = {json.at("channels"), json.at("height"),    json.at("width"),
                json.at("mean"),     json.at("deviation"), json.at("classes")};
  } catch (const nlohmann::json::exception& error) {
    throw FormatError("'" + path.string() + "' does not say what pictures are: " + error.what());
  }
  const auto is_side = [](std::int64_t side) { return side >= 1 && side <= 1 << 16; };
  if ((pictures.channels != 1 && pictures.channels != 3) || !is_side(pictures.height) ||
      !is_side(pictures.width) || pictures.classes.empty()) {
    throw FormatError("'" + path.string() + "': pictures are " + std::to_string(pictures.channels) +
                      " × " + std::to_string(pictures.height) + " × " +
                      std::to_string(pictures.width) + " of " +
                      std::to_string(pictures.classes.size()) + " classes");
  }
  steps_of(pictures);  // ValueError for numbers that nothing can be normalized by
  return pictures;
}

}  // namespace

std::int64_t Language::outputs() const {
  return tokenizer ? tokenizer->size() : std::ssize(pictures->classes);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(temporary, path, error);
  if (!stream || error) throw IoError("'" + path.string() + "' cannot be written");
}

void save_language(const Language& language, const RunDirectory& directory) {
  if (language.tokenizer) {
    language.tokenizer->save(directory.tokenizer());
    return;
  }
  const Pictures& of = *language.pictures;
  const nlohmann::ordered_json json{{"channels", of.channels},   {"height", of.height},
                                    {"width", of.width},         {"mean", of.mean},
                                    {"deviation", of.deviation}, {"classes", of.classes}};
  // Names of directories may be any bytes.
  write_text(directory.pictures(),
             json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Language load_language(const Recipe& recipe, const RunDirectory& directory) {
  Language language;
  if (recipe.dataset == "text") {
    language.tokenizer = data::load_tokenizer(directory.tokenizer());
  } else {
    language.pictures = read_pictures(directory.pictures());
  }
  return language;
}

}  // namespace extensor::cli
