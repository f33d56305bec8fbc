#include "cli/recipe.h"

#include <extensor/extensor.h>

#include <algorithm>
#include <charconv>

#include "cli/device_option.h"
#include "cli/json_file.h"
#include "cli/terminal.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

// ---- values as text

std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

[[noreturn]] void refuse(const std::string& name, const std::string& text,
                         const std::string& allowed) {
  throw ValueError(flag_of(name) + " is " + io::in_quotes(text) + " (allowed: " + allowed + ")");
}

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "true" : "false"; }
template <class Number>
std::string text_of(Number value) {
  char digits[32];
  return {digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr};
}

void read(const std::string&, const std::string& text, std::string& value) { value = text; }
void read(const std::string& name, const std::string& text, bool& value) {
  if (text == "true" || text == "on" || text == "1") {
    value = true;
  } else if (text == "false" || text == "off" || text == "0") {
    value = false;
  } else {
    refuse(name, text, "true or false");
  }
}
void read(const std::string& name, const std::string& text, std::int64_t& value) {
  const Parsed parsed = parse_number(text, value);
  if (parsed == Parsed::out_of_range) refuse(name, text, "a smaller number");
  if (parsed != Parsed::number || value < 0) refuse(name, text, "a whole number, 0 or more");
}
void read(const std::string& name, const std::string& text, std::uint64_t& value) {
  if (parse_number(text, value) != Parsed::number) {
    refuse(name, text, "a whole number below 2^64");
  }
}
void read(const std::string& name, const std::string& text, double& value) {
  if (parse_number(text, value) != Parsed::number || !(value >= 0) || value > 1e300) {
    refuse(name, text, "a number, 0 or more");
  }
}

void apply(const GivenFields& given, Recipe& recipe) {
  std::vector<std::string> names;
  visit_fields(recipe, [&](const char* name, auto& field, const char*) {
    names.emplace_back(name);
    if (const auto found = given.find(name); found != given.end()) {
      read(name, found->second, field);
    }
  });
  for (const auto& [name, text] : given) {
    if (std::ranges::find(names, name) == names.end()) {
      throw ValueError("there is no " + io::in_quotes(name) + io::did_you_mean(name, names));
    }
  }
}

// ---- allowed values and defaults

void check_word(const std::string& name, const std::string& word,
                const std::vector<std::string>& words) {
  if (std::ranges::find(words, word) != words.end()) return;
  std::string all;
  for (const std::string& one : words) all += (all.empty() ? "" : ", ") + one;
  const std::string what = name == "dataset" ? "dataset" : flag_of(name);
  if (word.empty()) throw ValueError("which " + what + "? (" + all + ")");
  throw ValueError(what + " is " + io::in_quotes(word) + io::did_you_mean(word, words) +
                   " (allowed: " + all + ")");
}

void check_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    refuse(name, std::to_string(value), "a whole number, at least " + std::to_string(least));
  }
}
void check_at_most(const char* name, std::int64_t value, std::int64_t most) {
  if (value > most) refuse(name, std::to_string(value), "at most " + std::to_string(most));
}
void check_part(const char* name, double value) {
  if (!(value < 1)) refuse(name, text_of(value), "0 or more, below 1");
}

// Larger counts are mistakes, and products of two allowed counts do not overflow.
constexpr std::int64_t highest_count = 1'000'000'000;

void check_any(const char* name, std::int64_t value) {
  if (std::string_view(name) != "max_pixels") check_at_most(name, value, highest_count);
}
void check_any(const char* name, const std::string& value) {
  // config.json must be UTF-8.
  if (!io::is_utf8(value)) refuse(name, value, "UTF-8");
}
void check_any(const char*, std::uint64_t) {}
void check_any(const char*, double) {}
void check_any(const char*, bool) {}

void check(const Recipe& r) {
  visit_fields(r, [](const char* name, const auto& field, const char*) { check_any(name, field); });
  check_word("optimizer", r.optimizer,
             {
#define OPTIMIZER(name, ...) #name,
#include <extensor/tables/optimizers.def>
             });
  check_word("schedule", r.schedule, {"constant", "cosine", "one-cycle"});
  check_word("precision", r.precision, {"float32", "bfloat16", "float16"});
  check_word("task", r.task, {"auto", "classification", "regression"});
  check_word("separator", r.separator, {"comma", "semicolon", "tab", "bar"});
  check_word("tokenizer", r.tokenizer, {"characters", "byte-pairs"});
  check_at_least("epochs", r.epochs, 1);
  check_at_least("batch_size", r.batch_size, 1);
  check_at_least("accumulate", r.accumulate, 1);
  check_at_least("block", r.block, 1);
  check_at_least("layers", r.layers, 1);
  check_at_least("heads", r.heads, 1);
  check_at_least("width", r.width, 1);
  check_at_least("vocabulary", r.vocabulary, 256);
  check_at_least("keep_checkpoints", r.keep_checkpoints, 1);
  check_at_least("max_pixels", r.max_pixels, 1);
  check_at_most("max_pixels", r.max_pixels, std::int64_t{1} << 40);
  check_at_most("layers", r.layers, 10'000);
  check_at_most("threads", r.threads, 1024);
  check_at_most("workers", r.workers, 1024);
  check_at_most("side", r.side, 4096);
  if (!(r.lr > 0)) refuse("lr", text_of(r.lr), "a number above 0");
  check_part("momentum", r.momentum);
  check_part("beta2", r.beta2);
  check_part("dropout", r.dropout);
  if (r.model == "transformer" && r.width % r.heads != 0) {
    throw ValueError("--width is " + std::to_string(r.width) + " and --heads " +
                     std::to_string(r.heads) + " (allowed: a width that the heads divide)");
  }
}

Recipe usual(const std::string& dataset, const std::string& model) {
  Recipe r;
  r.dataset = dataset;
  r.model = model;
  if (dataset == "digits") {
    r.examples = 20'000;
    r.epochs = 4;
  } else if (dataset == "cifar10" || dataset == "cifar100") {
    r.epochs = 20;
    r.weight_decay = 0.05;
    r.batch_size = 128;
  } else if (dataset == "images") {
    r.epochs = 10;
  } else if (dataset == "text") {
    r.epochs = 1;
    r.steps = 2000;
    r.batch_size = 12;
    r.lr = 1e-3;
    r.schedule = "cosine";
    r.warmup = 100;
    r.beta2 = 0.99;
    r.weight_decay = 0.1;
    r.clip_norm = 1;
    r.evaluate_every = 250;
    r.checkpoint_every = 250;
  }
  if (model == "mlp") r.width = 256;
  if (dataset == "table") {
    r.epochs = 10;
    r.batch_size = 128;
    r.layers = 2;
    r.width = 128;
  }
  return r;
}

// Whether the options of an optimizer have a momentum or betas.
template <class Options>
constexpr bool has_momentum = requires(Options o) {
  o.momentum;
};
template <class Options>
constexpr bool has_betas = requires(Options o) {
  o.betas;
};

struct OptimizerFields {
  bool momentum = false, beta2 = false;
};
OptimizerFields fields_of_optimizer(const std::string& optimizer) {
#define OPTIMIZER(name, type, options, ...) \
  if (optimizer == #name) return {has_momentum<options> || has_betas<options>, has_betas<options>};
#include <extensor/tables/optimizers.def>
  return {};
}

// False for fields of other models, datasets and schedules, and for those that are switched off.
bool applies(const Recipe& r, std::string_view field) {
  const bool transformer = r.model == "transformer", text = r.dataset == "text",
             table = r.dataset == "table";
  const std::pair<std::string_view, bool> conditions[] = {
      {"data", !r.data.empty()},
      {"target", table},
      {"task", table},
      {"categories", table && !r.categories.empty()},
      {"ignore", table && !r.ignore.empty()},
      {"separator", table},
      {"examples", !text},
      {"side", r.dataset == "images"},
      {"max_pixels", r.dataset == "images"},
      {"epochs", r.steps == 0},
      {"steps", r.steps > 0},
      {"warmup", r.schedule != "one-cycle"},
      {"momentum", fields_of_optimizer(r.optimizer).momentum},
      {"beta2", fields_of_optimizer(r.optimizer).beta2},
      {"clip_norm", r.clip_norm > 0},
      {"augment", !text && !table},
      {"tokenizer", text},
      {"vocabulary", text && r.tokenizer == "byte-pairs"},
      {"dropout", transformer},
      {"block", transformer},
      {"layers", transformer || table},
      {"heads", transformer},
      {"width", transformer || r.model == "mlp"},
      {"patience", r.patience > 0},
  };
  for (const auto& [name, does_apply] : conditions) {
    if (name == field) return does_apply;
  }
  return true;
}

const std::vector<std::string> datasets = {"digits",   "mnist",  "fashion-mnist", "cifar10",
                                           "cifar100", "images", "table",         "text"};

}  // namespace

const std::vector<std::string>& dataset_names() { return datasets; }

namespace {

std::string usual_model(const std::string& dataset) {
  if (dataset == "text") return "transformer";
  if (dataset == "table") return "mlp";
  return dataset.starts_with("cifar") ? "resnet18" : "lenet";
}

}  // namespace

Recipe make_recipe(const GivenFields& file, const GivenFields& command_line) {
  const auto given = [&](const char* name, const std::string& otherwise) {
    for (const GivenFields* fields : {&command_line, &file}) {
      if (const auto found = fields->find(name); found != fields->end()) return found->second;
    }
    return otherwise;
  };
  std::string dataset = given("dataset", "");
  if (dataset == "pictures") dataset = "images";  // as runs of older versions have it
  check_word("dataset", dataset, datasets);
  const std::string model = given("model", usual_model(dataset));
  if (const auto path = command_line.find("data");
      path != command_line.end() && path->second.empty()) {
    refuse("data", "", "a directory or a file");
  }
  const bool reads_text = dataset == "text";
  check_word("model", model, {"mlp", "lenet", "resnet18", "vgg16", "transformer"});
  if (reads_text != (model == "transformer")) {
    throw ValueError("--model is '" + model + "', which does not read " +
                     (reads_text ? "text (allowed: transformer)"
                                 : "images (allowed: mlp, lenet, resnet18, vgg16)"));
  }
  if (dataset == "table" && model != "mlp") {
    throw ValueError("--model is '" + model + "', which does not read a table (allowed: mlp)");
  }
  Recipe recipe = usual(dataset, model);
  apply(file, recipe);
  apply(command_line, recipe);
  recipe.dataset = dataset;
  recipe.model = model;
  // "cuda" stays as it is: each process of the run chooses its own device.
  const Device device = parse_device(recipe.device);
  if (recipe.device != "cuda") recipe.device = to_string(device);
  check(recipe);
  return recipe;
}

GivenFields read_fields(const std::filesystem::path& path) {
  GivenFields fields;
  const nlohmann::json file = read_json(path);
  for (const auto& [name, value] : file.items()) {
    if (value.is_structured() || value.is_null()) {
      throw FormatError(io::in_quotes(path.native()) + ": " + io::in_quotes(name) + " is " +
                        value.type_name() + " (allowed: a number, a string, true or false)");
    }
    fields[name] = value.is_string()         ? value.get<std::string>()
                   : value.is_number_float() ? text_of(value.get<double>())
                                             : value.dump();
  }
  return fields;
}

std::vector<std::pair<std::string, std::string>> fields_of(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::string>> fields;
  visit_fields(recipe, [&](const char* name, const auto& field, const char*) {
    if (applies(recipe, name)) fields.emplace_back(name, text_of(field));
  });
  return fields;
}

nlohmann::ordered_json json_of(const Recipe& recipe) {
  nlohmann::ordered_json json;
  visit_fields(recipe,
               [&](const char* name, const auto& field, const char*) { json[name] = field; });
  return json;
}

}  // namespace extensor::cli
