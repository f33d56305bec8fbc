#include "cli/table.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/json_file.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) list.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return list;
}

char separator_of(const Recipe& recipe) {
  return recipe.separator == "tab"         ? '\t'
         : recipe.separator == "semicolon" ? ';'
         : recipe.separator == "bar"       ? '|'
                                           : ',';
}

data::TableEncoder make_encoder(const Recipe& recipe, const data::Table& all,
                                const data::Table& training) {
  const data::Column& target = all.column(recipe.target);
  data::TableEncoderOptions options{.ignore = list_of(recipe.ignore)};
  options.task = recipe.task == "classification" ? data::Task::classification
                 : recipe.task == "regression"   ? data::Task::regression
                                                 : data::usual_task(target);
  // Classes that only validation rows have are classes as well.
  if (options.task == data::Task::classification) {
    options.classes = data::to_categories(target).categories;
  }
  return {training, recipe.target, options};
}

// The labelled rows of a table, the first `most` of them; 0: all.
struct Rows {
  Tensor inputs, targets;

  Rows(const data::TableEncoder& encoder, const data::Table& table, std::int64_t most) {
    const data::Table rows = encoder.labelled(table);
    inputs = encoder.encode(rows);
    targets = encoder.encode_target(rows);
    if (most > 0 && most < rows.rows()) {
      inputs = inputs.slice(0, 0, most).contiguous();
      targets = targets.slice(0, 0, most).contiguous();
    }
  }
};

double variance_of(const Tensor& targets) {
  const Tensor numbers = targets.to(float64);
  return mean(square(numbers - mean(numbers))).item<double>();
}

// Counts of missing and unknown values by column: "missing values: age 12, city 3".
std::string counts_text(const std::vector<data::TableEncoder::Unusual>& list,
                        std::int64_t data::TableEncoder::Unusual::*count, const char* what) {
  std::string text;
  for (const auto& one : list) {
    if (one.*count == 0) continue;
    text += (text.empty() ? std::string(what) + ": " : ", ") + io::printable(one.column) + " " +
            with_commas(one.*count);
  }
  return text;
}

}  // namespace

Data load_table(const Recipe& recipe, std::optional<Language> language, bool all_held_out,
                const FingerprintCheck& check) {
  if (recipe.data.empty()) throw ValueError("which table? Name its file with --data");
  const char separator = separator_of(recipe);
  data::TableOptions options;
  if (language) {
    options = language->table->options(true, separator);
  } else {
    options.separator = separator;
    options.categories = list_of(recipe.categories);
  }
  const data::Table table = data::load_table(recipe.data, options);
  if (recipe.target.empty()) {
    std::string names;
    for (const data::Column& column : table.columns) {
      names += (names.empty() ? "" : ", ") + io::printable(column.name);
    }
    throw ValueError("which column is predicted? Name it with --target (columns: " + names + ")");
  }
  table.column(recipe.target);
  constexpr std::int64_t every = 10;
  if (table.rows() < (all_held_out ? 1 : every)) {
    throw ValueError(io::in_quotes(recipe.data) + " has " + counted(table.rows(), "row") +
                     " (allowed: " + (all_held_out ? "1" : "10, of which one is for validation,") +
                     " or more)");
  }
  data::TableSplits splits =
      all_held_out ? data::TableSplits{table, table} : data::split_table(table, every);
  Data all;
  if (language) {
    all.language = *std::move(language);
  } else {
    all.language.table = make_encoder(recipe, table, splits.train);
  }
  const data::TableEncoder& encoder = *all.language.table;
  const Rows held_out(encoder, splits.test, 0), training(encoder, splits.train, recipe.examples);
  for (const Rows* part : {&training, &held_out}) {
    if (part->inputs.size(0) > 0) continue;
    throw ValueError("column " + io::in_quotes(recipe.target) + " of " +
                     io::in_quotes(recipe.data) + " has no values in the " +
                     (part == &training ? "rows to learn from" : "validation rows"));
  }
  all.fingerprint = {fingerprint_of("training inputs", training.inputs),
                     fingerprint_of("training targets", training.targets),
                     fingerprint_of("validation inputs", held_out.inputs),
                     fingerprint_of("validation targets", held_out.targets)};
  if (check) check(all.fingerprint);
  all.unusual = encoder.unusual(table);
  all.rows_without_target = table.column(recipe.target).missing();
  if (encoder.task() == data::Task::regression) {
    all.held_out_variance = variance_of(held_out.targets);
  }
  all.training = std::make_shared<data::TensorDataset>(training.inputs, training.targets);
  all.held_out = std::make_shared<data::TensorDataset>(held_out.inputs, held_out.targets);
  return all;
}

std::string described_table(const Data& data) {
  const data::TableEncoder& encoder = *data.language.table;
  const data::TableEncoding& encoding = encoder.encoding();
  const auto categories =
      std::ranges::count(encoding.columns, data::ColumnKind::category, &data::EncodedColumn::kind);
  std::string text = counted(std::ssize(encoding.columns), "column") + " (" +
                     std::to_string(categories) + " of categories), " +
                     counted(encoder.inputs(), "input") + "; ";
  text += encoder.task() == data::Task::classification
              ? class_list(encoder.classes())
              : "regression of " + io::in_quotes(encoding.target);
  const auto line = [&](const std::string& more) {
    if (!more.empty()) text += "\n" + more;
  };
  line(counts_text(data.unusual, &data::TableEncoder::Unusual::missing,
                   "missing values (numbers become the mean, categories their own)"));
  line(counts_text(data.unusual, &data::TableEncoder::Unusual::unknown,
                   "categories that only validation rows have"));
  if (data.rows_without_target > 0) {
    line("left out: " + counted(data.rows_without_target, "row") + " without " +
         io::in_quotes(encoding.target));
  }
  std::string constant;
  for (const std::string& name : encoding.constant) {
    constant += (constant.empty() ? "" : ", ") + io::printable(name);
  }
  if (!constant.empty()) line("left out, the same in all rows: " + constant);
  return text;
}

// ---- the encoding in a file

void save_table_encoder(const std::filesystem::path& path, const data::TableEncoder& encoder) {
  const data::TableEncoding& of = encoder.encoding();
  nlohmann::ordered_json json{
      {"target", of.target},
      {"task", of.task == data::Task::regression ? "regression" : "classification"},
      {"target_is_category", of.target_kind == data::ColumnKind::category},
      {"classes", of.classes},
      {"mean", of.mean},
      {"deviation", of.deviation},
      {"constant", of.constant},
      {"columns", nlohmann::ordered_json::array()}};
  for (const data::EncodedColumn& column : of.columns) {
    json["columns"].push_back({{"name", column.name},
                               {"is_category", column.kind == data::ColumnKind::category},
                               {"mean", column.mean},
                               {"deviation", column.deviation},
                               {"categories", column.categories},
                               {"has_other", column.has_other},
                               {"has_missing", column.has_missing}});
  }
  write_json(path, json);
}

data::TableEncoder read_table_encoder(const std::filesystem::path& path) {
  const nlohmann::json json = read_json(path);
  const auto kind = [](bool is_category) {
    return is_category ? data::ColumnKind::category : data::ColumnKind::number;
  };
  data::TableEncoding of;
  try {
    of.target = json.at("target");
    of.task = json.at("task") == "regression" ? data::Task::regression : data::Task::classification;
    of.target_kind = kind(json.at("target_is_category"));
    of.classes = json.at("classes");
    of.mean = json.at("mean");
    of.deviation = json.at("deviation");
    of.constant = json.at("constant");
    for (const nlohmann::json& column : json.at("columns")) {
      of.columns.push_back({column.at("name"), kind(column.at("is_category")), column.at("mean"),
                            column.at("deviation"), column.at("categories"), column.at("has_other"),
                            column.at("has_missing")});
    }
    return data::TableEncoder(std::move(of));
  } catch (const nlohmann::json::exception& error) {
    throw FormatError("'" + path.string() +
                      "' does not say how a table is encoded: " + io::printable(error.what()));
  } catch (const ValueError& error) {
    throw FormatError("'" + path.string() + "': " + error.what());
  }
}

// ---- results

double r_squared(const Data& data, const train::Evaluation& evaluation) {
  return data.held_out_variance > 0 ? 1 - evaluation.loss / data.held_out_variance : NAN;
}

double root_mean_squared_error(const Data& data, const train::Evaluation& evaluation) {
  return std::sqrt(evaluation.loss) * data.language.table->encoding().deviation;
}

std::string root_mean_squared_error_text(const Data& data, const train::Evaluation& evaluation) {
  const double error = root_mean_squared_error(data, evaluation);
  return error >= 1000 && error < 1e15 ? with_commas(std::llround(error)) : short_number(error);
}

std::string regression_result(const Data& data, const train::Evaluation& evaluation) {
  return "R² " + decimals(r_squared(data, evaluation), 4) + ", root mean squared error " +
         root_mean_squared_error_text(data, evaluation) + " (in the unit of " +
         io::in_quotes(data.language.table->encoding().target) + ")";
}

namespace {

// A cell of a CSV file, quoted if necessary.
std::string cell_of(const std::string& text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos && text.front() != ' ' &&
      text.back() != ' ') {
    return text;
  }
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

std::string nine_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

void predict_table(const Trained& trained, const std::string& path) {
  const data::TableEncoder& encoder = *trained.language.table;
  const data::Table table =
      data::load_table(path, encoder.options(false, separator_of(trained.recipe)));
  const auto unusual = encoder.unusual(table);
  for (const std::string& text :
       {counts_text(unusual, &data::TableEncoder::Unusual::missing, "missing values"),
        counts_text(unusual, &data::TableEncoder::Unusual::unknown,
                    "categories that the run did not learn")}) {
    if (!text.empty()) std::cerr << "extensor: " << text << '\n';
  }
  const Tensor inputs = encoder.encode(table);
  const bool is_regression = encoder.task() == data::Task::regression;
  std::cout << (is_regression ? "prediction\n" : "prediction,probability\n");
  constexpr std::int64_t together = 4096;
  for (std::int64_t first = 0; first < table.rows(); first += together) {
    const std::int64_t end = std::min(first + together, table.rows());
    const Tensor outputs = trained.model(inputs.slice(0, first, end).to(trained.device));
    if (is_regression) {
      for (const double value : encoder.decode(outputs).to_vector<double>()) {
        std::cout << nine_digits(value) << '\n';
      }
      continue;
    }
    const Tensor chances = softmax(outputs.to(cpu_device).to(float64), -1);
    const auto classes = argmax(chances, -1).to_vector<std::int64_t>();
    const auto chance = max(chances, -1).to_vector<double>();
    for (std::size_t k = 0; k < classes.size(); ++k) {
      std::cout << cell_of(encoder.classes().at(static_cast<std::size_t>(classes[k]))) << ','
                << nine_digits(chance[k]) << '\n';
    }
  }
  flush_output();
}

}  // namespace extensor::cli
