// Tables with named columns of numbers and categories, and their encoding for a network.
//
//   const data::TableSplits houses = data::split_table(data::load_table("houses.csv"));
//   const data::TableEncoder encoder(houses.train, "price");
//   const data::DataLoader training(encoder.dataset(houses.train), {.batch_size = 128});
//   models::Mlp model({encoder.inputs(), 128, 128, encoder.outputs()});
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "extensor/data/dataset.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

enum class ColumnKind : std::uint8_t { number, category };

struct Column {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  std::vector<double> numbers = {};          // kind number: one for each row, NaN where missing
  std::vector<std::string> categories = {};  // kind category: the distinct values, sorted
  std::vector<std::int64_t> codes = {};  // kind category: indices of categories, −1 where missing

  std::int64_t size() const;     // number of rows
  std::int64_t missing() const;  // number of rows without a value
};

struct Table {
  std::vector<Column> columns;  // all of the same size

  std::int64_t rows() const;
  // Throws ValueError, with the closest name, if there is no such column.
  const Column& column(std::string_view name) const;
  // The rows with these indices. Categories without rows are kept. Throws IndexError.
  Table take(const std::vector<std::int64_t>& rows) const;
};

struct TableOptions {
  char separator = ',';
  std::vector<std::string> categories = {};  // columns whose cells are categories, even if numbers
  std::vector<std::string> numbers = {};     // columns that must contain numbers only
  std::vector<std::string> missing = {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "?"};
};
// Reads a CSV file whose first line names the columns. A column without text is one of numbers, any
// other one of categories. Throws FormatError, with the line and the column, for a file that is
// empty or not UTF-8, a row with another number of cells than the first line, a name that occurs
// twice, an infinite number, and text in a column in which at least half of the cells are numbers
// (unless it is in options.categories). Throws ValueError for a column in the options that does not
// exist. Quoted cells may contain line ends. A column without a name is called "column 3".
Table load_table(const std::filesystem::path& path, const TableOptions& options = {});

struct TableSplits {
  Table train, test;
};
// Holds out rows every − 1, 2 · every − 1, … as .test. Throws ValueError for every < 2.
TableSplits split_table(const Table& table, std::int64_t every = 10);

// The column with its numbers as categories: 2 becomes "2". A column of categories is returned
// unchanged.
Column to_categories(const Column& column);

enum class Task : std::uint8_t { classification, regression };
// classification for categories and for at most 20 distinct whole numbers, otherwise regression.
Task usual_task(const Column& target);

struct TableEncoderOptions {
  std::optional<Task> task = std::nullopt;  // nullopt: usual_task of the target
  std::vector<std::string> ignore = {};     // columns that are not inputs
  std::vector<std::string> classes = {};    // of classification; empty: those of the table
  std::int64_t max_categories = 64;         // per column; rarer ones share one input
};

// The inputs that one column becomes, determined from training rows.
struct EncodedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  // kind number: (x − mean) / deviation. A missing value becomes 0.
  double mean = 0, deviation = 1;
  std::vector<std::string> categories = {};  // kind category: one input (0 or 1) for each
  bool has_other = false;                    // an input for all other categories
  bool has_missing = false;                  // an input for missing values

  std::int64_t inputs() const;
};

// Everything that a TableEncoder has learned, for saving it.
struct TableEncoding {
  std::string target;
  Task task = Task::regression;
  ColumnKind target_kind = ColumnKind::number;  // in the file
  std::vector<EncodedColumn> columns;
  std::vector<std::string> constant;  // columns left out because they do not vary
  std::vector<std::string> classes;   // of classification
  double mean = 0, deviation = 1;     // of the target of regression
};

// Encodes tables as tensors with what it has learned from training rows: numbers are standardized,
// categories are one-hot. Rows without a target are left out of datasets.
//
// A missing number becomes the mean. Missing values have an input of their own if training rows
// have any. Categories that are rare or unknown share an input if training rows have rare ones;
// otherwise an unknown category sets no input.
class TableEncoder {
 public:
  // Throws ValueError if a column does not exist, no row has a target, the target has one value or
  // more than 1000 classes, no column varies, or numbers are too large to standardize.
  TableEncoder(const Table& training, const std::string& target,
               const TableEncoderOptions& options = {});
  // Throws ValueError for an inconsistent encoding.
  explicit TableEncoder(TableEncoding encoding);

  const TableEncoding& encoding() const { return encoding_; }
  Task task() const { return encoding_.task; }
  std::int64_t inputs() const;   // of the network
  std::int64_t outputs() const;  // the number of classes, or 1
  const std::vector<std::string>& classes() const { return encoding_.classes; }
  // The options to read other files of this kind with; `with_target`: they have the target.
  TableOptions options(bool with_target, char separator = ',') const;

  // float32 [rows, inputs]. Throws ValueError for a column that is missing or of another kind.
  Tensor encode(const Table& table) const;
  // int64 [rows] for classification, otherwise float32 [rows, 1], standardized. Throws ValueError
  // for a missing value and an unknown class.
  Tensor encode_target(const Table& table) const;
  // The rows that have a value in the target column.
  Table labelled(const Table& table) const;
  // encode() and encode_target() of the labelled rows.
  TensorDataset dataset(const Table& table) const;
  // Outputs [rows, 1] of a regression in the unit of the target: float64 [rows].
  Tensor decode(const Tensor& outputs) const;

  // Counts of values that a table lacks, or that were not among the training rows.
  struct Unusual {
    std::string column;
    std::int64_t missing = 0, unknown = 0;
  };
  std::vector<Unusual> unusual(const Table& table) const;  // columns with either

 private:
  TableEncoding encoding_;
};

}  // namespace extensor::data

EXTENSOR_END_API
