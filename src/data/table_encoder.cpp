#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "core/check.h"
#include "core/make_tensor.h"
#include "data/table.h"
#include "extensor/elementwise.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;
using io::in_quotes;

namespace {

constexpr std::size_t most_classes = 1000;

[[noreturn]] void refuse(const std::string& column, const std::string& what) {
  throw ValueError(message("TableEncoder: the column ", in_quotes(column), " ", what));
}

bool is_missing(const Column& column, std::size_t row) {
  return column.kind == ColumnKind::number ? std::isnan(column.numbers[row])
                                           : column.codes[row] < 0;
}

Table rows_with(const Table& table, const Column& target) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (!is_missing(target, static_cast<std::size_t>(row))) rows.push_back(row);
  }
  return table.take(rows);
}

struct Moments {
  double mean = 0, deviation = 0;
};

// Of the values that are not missing; the deviation is 0 if they are equal.
Moments moments_of(const Column& column) {
  double sum = 0, count = 0, least = std::numeric_limits<double>::infinity(), most = -least;
  for (const double value : column.numbers) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (!(least < most)) return {count > 0 ? least : 0, 0};
  const double mean = sum / count;
  double squares = 0;
  for (const double value : column.numbers) {
    if (!std::isnan(value)) squares += (value - mean) * (value - mean);
  }
  const Moments found{mean, std::sqrt(squares / count)};
  if (!std::isfinite(found.mean) || !std::isfinite(found.deviation) || found.deviation == 0) {
    refuse(column.name, message("has numbers from ", least, " to ", most,
                                ", whose deviation float64 cannot hold"));
  }
  return found;
}

EncodedColumn encoded_category(const Column& column, std::int64_t most) {
  std::vector<std::int64_t> counts(column.categories.size());
  for (const std::int64_t code : column.codes) {
    if (code >= 0) ++counts[static_cast<std::size_t>(code)];
  }
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t k) { return counts[k]; });
  EncodedColumn encoded{.name = column.name, .kind = ColumnKind::category};
  // A category that occurs once teaches nothing that holds for others.
  constexpr std::int64_t least = 2;
  for (const std::size_t k : order) {
    if (counts[k] >= least && std::ssize(encoded.categories) < most) {
      encoded.categories.push_back(column.categories[k]);
    } else if (counts[k] > 0) {
      encoded.has_other = true;
    }
  }
  std::ranges::sort(encoded.categories);
  encoded.has_missing = column.missing() > 0;
  return encoded;
}

EncodedColumn encoded_column(const Column& column, std::int64_t max_categories) {
  if (column.kind == ColumnKind::category) return encoded_category(column, max_categories);
  const Moments found = moments_of(column);
  EncodedColumn encoded{.name = column.name, .mean = found.mean, .deviation = found.deviation};
  encoded.has_missing = column.missing() > 0;
  return encoded;
}

// Whether all rows have the same inputs.
bool is_constant(const EncodedColumn& column, std::int64_t missing, std::int64_t rows) {
  const bool some_missing = missing > 0 && missing < rows;
  if (column.kind == ColumnKind::number) return column.deviation == 0 && !some_missing;
  return std::ssize(column.categories) + (column.has_other ? 1 : 0) < 2 && !some_missing;
}

// The input that each category of a table's column sets; −1: none.
std::vector<std::int64_t> places_of(const EncodedColumn& encoded, const Column& column) {
  const auto other = encoded.has_other ? std::ssize(encoded.categories) : std::ptrdiff_t{-1};
  std::vector<std::int64_t> places;
  for (const std::string& category : column.categories) {
    const auto found = std::ranges::lower_bound(encoded.categories, category);
    const bool is_known = found != encoded.categories.end() && *found == category;
    places.push_back(is_known ? found - encoded.categories.begin() : other);
  }
  return places;
}

const Column& column_of(const EncodedColumn& encoded, const Table& table) {
  const Column& column = table.column(encoded.name);
  if (column.kind != encoded.kind) {
    const bool is_number = encoded.kind == ColumnKind::number;
    refuse(encoded.name, message("has ", is_number ? "categories" : "numbers", " (allowed: ",
                                 is_number ? "numbers" : "categories", ", as in training)"));
  }
  return column;
}

// Writes the inputs of one column, at a stride of `stride` floats.
void fill(const EncodedColumn& encoded, const Column& column, float* to, std::int64_t stride) {
  const std::int64_t width = encoded.inputs();
  const bool is_number = encoded.kind == ColumnKind::number;
  const std::vector<std::int64_t> places =
      is_number ? std::vector<std::int64_t>() : places_of(encoded, column);
  for (std::size_t row = 0; row < static_cast<std::size_t>(column.size()); ++row, to += stride) {
    std::fill_n(to, width, 0.F);
    if (is_missing(column, row)) {
      if (encoded.has_missing) to[width - 1] = 1;
    } else if (is_number) {
      if (encoded.deviation == 0) continue;  // an input for missing values only
      const double value = (column.numbers[row] - encoded.mean) / encoded.deviation;
      if (std::abs(value) > std::numeric_limits<float>::max()) {
        refuse(column.name, message("has ", column.numbers[row], " in row ", row,
                                    ", too far from the mean ", encoded.mean));
      }
      to[0] = static_cast<float>(value);
    } else if (const auto place = places[static_cast<std::size_t>(column.codes[row])]; place >= 0) {
      to[place] = 1;
    }
  }
}

}  // namespace

std::int64_t EncodedColumn::inputs() const {
  const std::int64_t values =
      kind == ColumnKind::number ? (deviation == 0 ? 0 : 1) : std::ssize(categories) + has_other;
  return values + (has_missing ? 1 : 0);
}

TableEncoder::TableEncoder(const Table& training, const std::string& target,
                           const TableEncoderOptions& options) {
  if (options.max_categories < 1) {
    throw ValueError(message("TableEncoder: max_categories is ", options.max_categories,
                             " (allowed: 1 or more)"));
  }
  const Column& goal = training.column(target);
  for (const std::string& name : options.ignore) training.column(name);
  encoding_.target = target;
  encoding_.target_kind = goal.kind;
  encoding_.task = options.task.value_or(usual_task(goal));
  const Table rows = rows_with(training, goal);
  if (rows.rows() == 0) refuse(target, "has no values");
  if (encoding_.task == Task::classification) {
    encoding_.classes = options.classes.empty() ? to_categories(goal).categories : options.classes;
    if (encoding_.classes.size() < 2 || encoding_.classes.size() > most_classes) {
      refuse(target, message("has ", encoding_.classes.size(), " classes (allowed: 2 … ",
                             most_classes, ")"));
    }
  } else {
    if (goal.kind == ColumnKind::category) {
      refuse(target, "has categories, so that regression has no numbers (allowed: classification)");
    }
    const Moments found = moments_of(goal);
    if (found.deviation == 0) {
      refuse(target, message("is ", found.mean, " in all rows (allowed: 2 values or more)"));
    }
    encoding_.mean = found.mean;
    encoding_.deviation = found.deviation;
  }
  for (const Column& column : rows.columns) {
    if (column.name == target ||
        std::ranges::find(options.ignore, column.name) != options.ignore.end()) {
      continue;
    }
    EncodedColumn encoded = encoded_column(column, options.max_categories);
    if (is_constant(encoded, column.missing(), rows.rows())) {
      encoding_.constant.push_back(column.name);
    } else {
      encoding_.columns.push_back(std::move(encoded));
    }
  }
  if (encoding_.columns.empty()) {
    throw ValueError(message("TableEncoder: no column varies beside the target ", in_quotes(target),
                             " (allowed: 1 or more that do)"));
  }
}

TableEncoder::TableEncoder(TableEncoding encoding) : encoding_(std::move(encoding)) {
  const bool is_classes = encoding_.task == Task::classification;
  const auto is_scale = [](double mean, double deviation) {
    return std::isfinite(mean) && std::isfinite(deviation) && deviation >= 0;
  };
  if (is_classes ? encoding_.classes.size() < 2
                 : !is_scale(encoding_.mean, encoding_.deviation) || encoding_.deviation == 0) {
    refuse(encoding_.target,
           message("is encoded with ", encoding_.classes.size(), " classes, mean ", encoding_.mean,
                   " and deviation ", encoding_.deviation));
  }
  for (const EncodedColumn& column : encoding_.columns) {
    if (!is_scale(column.mean, column.deviation) || !std::ranges::is_sorted(column.categories) ||
        column.inputs() < 1) {
      refuse(column.name, message("is encoded with mean ", column.mean, ", deviation ",
                                  column.deviation, " and ", column.inputs(), " inputs"));
    }
  }
  if (encoding_.columns.empty()) throw ValueError("TableEncoder: there are no columns");
}

std::int64_t TableEncoder::inputs() const {
  std::int64_t count = 0;
  for (const EncodedColumn& column : encoding_.columns) count += column.inputs();
  return count;
}

std::int64_t TableEncoder::outputs() const {
  return task() == Task::classification ? std::ssize(classes()) : 1;
}

TableOptions TableEncoder::options(bool with_target, char separator) const {
  TableOptions options;
  options.separator = separator;
  const auto add = [&](const std::string& name, ColumnKind kind) {
    (kind == ColumnKind::number ? options.numbers : options.categories).push_back(name);
  };
  for (const EncodedColumn& column : encoding_.columns) add(column.name, column.kind);
  if (with_target) add(encoding_.target, encoding_.target_kind);
  return options;
}

Tensor TableEncoder::encode(const Table& table) const {
  const std::int64_t width = inputs();
  Tensor encoded =
      detail::make_empty("TableEncoder::encode", {table.rows(), width}, DType::float32, cpu_device);
  std::int64_t at = 0;
  for (const EncodedColumn& column : encoding_.columns) {
    const Column& from = column_of(column, table);
    if (table.rows() > 0) fill(column, from, encoded.data<float>() + at, width);
    at += column.inputs();
  }
  return encoded;
}

Tensor TableEncoder::encode_target(const Table& table) const {
  const Column& target = table.column(encoding_.target);
  const std::int64_t rows = table.rows();
  const auto check = [&](std::size_t row) {
    if (is_missing(target, row)) refuse(target.name, message("has no value in row ", row));
  };
  if (task() == Task::regression) {
    if (target.kind != ColumnKind::number) refuse(target.name, "has categories (allowed: numbers)");
    Tensor encoded =
        detail::make_empty("TableEncoder::encode_target", {rows, 1}, DType::float32, cpu_device);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      check(row);
      encoded.data<float>()[row] =
          static_cast<float>((target.numbers[row] - encoding_.mean) / encoding_.deviation);
    }
    return encoded;
  }
  const Column named = to_categories(target);
  std::vector<std::int64_t> classes;
  for (const std::string& name : named.categories) {
    const auto found = std::ranges::find(encoding_.classes, name);
    classes.push_back(found == encoding_.classes.end() ? -1 : found - encoding_.classes.begin());
  }
  Tensor encoded =
      detail::make_empty("TableEncoder::encode_target", {rows}, DType::int64, cpu_device);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    check(row);
    const auto code = static_cast<std::size_t>(named.codes[row]);
    if (classes[code] < 0) {
      refuse(target.name,
             message("has ", in_quotes(named.categories[code]), " in row ", row,
                     ", which is none of the ", encoding_.classes.size(), " classes of training"));
    }
    encoded.data<std::int64_t>()[row] = classes[code];
  }
  return encoded;
}

Table TableEncoder::labelled(const Table& table) const {
  return rows_with(table, table.column(encoding_.target));
}

TensorDataset TableEncoder::dataset(const Table& table) const {
  const Table rows = labelled(table);
  return {encode(rows), encode_target(rows)};
}

Tensor TableEncoder::decode(const Tensor& outputs) const {
  if (task() != Task::regression) {
    throw ValueError("TableEncoder::decode: the task is classification (allowed: regression)");
  }
  if (outputs.ndim() != 2 || outputs.size(1) != 1) {
    throw ShapeError(message("TableEncoder::decode: outputs have shape ", outputs.shape(),
                             " (allowed: [rows, 1])"));
  }
  return outputs.to(cpu_device).to(DType::float64).reshape({-1}) * encoding_.deviation +
         encoding_.mean;
}

std::vector<TableEncoder::Unusual> TableEncoder::unusual(const Table& table) const {
  std::vector<Unusual> list;
  for (const EncodedColumn& encoded : encoding_.columns) {
    const Column& column = column_of(encoded, table);
    Unusual one{column.name, column.missing(), 0};
    if (column.kind == ColumnKind::category && !encoded.has_other) {
      const std::vector<std::int64_t> places = places_of(encoded, column);
      one.unknown = std::ranges::count_if(column.codes, [&](std::int64_t code) {
        return code >= 0 && places[static_cast<std::size_t>(code)] < 0;
      });
    }
    if (one.missing + one.unknown > 0) list.push_back(one);
  }
  return list;
}

}  // namespace extensor::data
