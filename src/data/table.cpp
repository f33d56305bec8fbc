#include "data/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "core/check.h"
#include "data/csv_cells.h"
#include "data/whole_file.h"
#include "io/text.h"

namespace extensor {

using detail::message;

namespace io {

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// The findings of the first pass over a file for one column.
struct Found {
  std::int64_t numbers = 0, texts = 0, missing = 0;
  std::size_t text_row = 0;  // the row of the first text, counted from 0
};

class TableReader {
 public:
  TableReader(const ByteSource& source, const data::TableOptions& options)
      : label_(source.label()), options_(options), file_(source) {
    check_utf8();
    CsvCells cells = begin();
    if (!cells.more()) damaged(label_, "is empty (allowed: a line of column names, then rows)");
    read_names(cells);
    decide_kinds(cells);
  }

  data::Table read() {
    CsvCells cells = begin();
    cells.next_row();
    for (std::string_view name; cells.next(name);) {
    }
    for (data::Column& column : table_.columns) {
      const auto rows = static_cast<std::size_t>(rows_);
      column.kind == data::ColumnKind::number ? column.numbers.reserve(rows)
                                              : column.codes.reserve(rows);
    }
    std::vector<Codes> codes(table_.columns.size());
    while (cells.more()) {
      cells.next_row();
      std::size_t at = 0;
      for (std::string_view cell; cells.next(cell); ++at) {
        data::Column& column = table_.columns[at];
        if (column.kind == data::ColumnKind::number) {
          column.numbers.push_back(is_missing(cell) ? no_number : number_of(cells, column, cell));
        } else {
          column.codes.push_back(is_missing(cell) ? -1 : codes[at].code(cell));
        }
      }
    }
    for (std::size_t k = 0; k < codes.size(); ++k) codes[k].sort_into(table_.columns[k]);
    return std::move(table_);
  }

 private:
  // Numbers categories in the order in which they are found.
  class Codes {
   public:
    std::int64_t code(std::string_view cell) {
      key_ = cell;
      return codes_.emplace(key_, static_cast<std::int64_t>(codes_.size())).first->second;
    }
    // Stores the categories in ascending order and renumbers the codes of the column.
    void sort_into(data::Column& column) {
      if (codes_.empty()) return;
      std::vector<std::pair<std::string, std::int64_t>> list(codes_.begin(), codes_.end());
      std::ranges::sort(list);
      std::vector<std::int64_t> places(list.size());
      for (std::size_t k = 0; k < list.size(); ++k) {
        places[static_cast<std::size_t>(list[k].second)] = static_cast<std::int64_t>(k);
        column.categories.push_back(std::move(list[k].first));
      }
      for (std::int64_t& code : column.codes) {
        if (code >= 0) code = places[static_cast<std::size_t>(code)];
      }
    }

   private:
    std::unordered_map<std::string, std::int64_t> codes_;
    std::string key_;
  };

  CsvCells begin() const { return {label_, file_.text(), options_.separator, true}; }
  bool is_missing(std::string_view cell) const {
    return std::ranges::find(options_.missing, cell) != options_.missing.end();
  }

  void check_utf8() const {
    const std::string_view text = file_.text();
    const std::size_t prefix = utf8_prefix(text);
    if (prefix == text.size()) return;
    const auto line = 1 + std::ranges::count(text.substr(0, prefix), '\n');
    damaged(label_, "line ", line, ": has ", in_quotes(text.substr(prefix, 1)),
            " (allowed: UTF-8; iconv -f latin1 -t utf8 converts Western European files)");
  }

  void read_names(CsvCells& cells) {
    cells.next_row();
    bool only_numbers = true;
    for (std::string_view cell; cells.next(cell);) {
      const std::size_t number = table_.columns.size() + 1;
      data::Column column;
      column.name = cell.empty() ? message("column ", number) : std::string(cell);
      double ignored = 0;
      only_numbers = only_numbers && !cell.empty() && parse_number(cell, ignored) != Parsed::none;
      const auto same = std::ranges::find(table_.columns, column.name, &data::Column::name);
      if (same != table_.columns.end()) {
        cells.wrong("the name ", in_quotes(column.name), " is that of column ",
                    same - table_.columns.begin() + 1, " (allowed: every name once)");
      }
      table_.columns.push_back(std::move(column));
    }
    if (only_numbers) {
      damaged(label_, "line 1 has only numbers (allowed: the names of the columns)");
    }
    for (const auto* list : {&options_.categories, &options_.numbers}) {
      for (const std::string& name : *list) table_.column(name);
    }
  }

  bool is_listed(const std::vector<std::string>& list, const data::Column& column) const {
    return std::ranges::find(list, column.name) != list.end();
  }

  void decide_kinds(CsvCells& cells) {
    const std::size_t columns = table_.columns.size();
    std::vector<Found> found(columns);
    for (; cells.more(); ++rows_) {
      cells.next_row();
      std::size_t at = 0;
      for (std::string_view cell; cells.next(cell); ++at) {
        if (at == columns) {
          cells.wrong("the line has more than the ", columns, " cells of the first",
                      columns == 1 ? " (another separator?)" : "");
        }
        Found& one = found[at];
        double ignored = 0;
        if (is_missing(cell)) {
          ++one.missing;
        } else if (parse_number(cell, ignored) != Parsed::none) {
          ++one.numbers;
        } else if (one.texts++ == 0) {
          one.text_row = static_cast<std::size_t>(rows_);
          if (is_listed(options_.numbers, table_.columns[at])) {
            cells.wrong(in_quotes(cell), " in the column ", in_quotes(table_.columns[at].name),
                        " is no number");
          }
        }
      }
      cells.check_count(at, columns);
    }
    for (std::size_t k = 0; k < columns; ++k) {
      data::Column& column = table_.columns[k];
      const bool is_category = is_listed(options_.categories, column) || found[k].texts > 0;
      column.kind = is_category ? data::ColumnKind::category : data::ColumnKind::number;
      if (is_category && found[k].numbers >= found[k].texts && found[k].numbers > 0 &&
          !is_listed(options_.categories, column)) {
        refuse_mixed(k, found[k]);
      }
    }
  }

  // Finds the first text of the column again, for the message.
  [[noreturn]] void refuse_mixed(std::size_t column, const Found& found) const {
    CsvCells cells = begin();
    std::string_view cell;
    for (std::size_t row = 0; row <= found.text_row + 1; ++row) {
      cells.next_row();
      for (std::size_t at = 0; cells.next(cell); ++at) {
        if (row == found.text_row + 1 && at == column) break;
      }
    }
    cells.wrong(in_quotes(cell), " is no number, but ", found.numbers, " of ",
                found.numbers + found.texts, " cells in the column ",
                in_quotes(table_.columns[column].name),
                " are (allowed: numbers, or more text than numbers, or the column's name in the "
                "list of categories)");
  }

  double number_of(const CsvCells& cells, const data::Column& column, std::string_view cell) const {
    double value = 0;
    const Parsed parsed = parse_number(cell, value);
    if (parsed != Parsed::number || std::isinf(value)) {
      cells.wrong(in_quotes(cell), " in the column ", in_quotes(column.name), " is ",
                  parsed == Parsed::out_of_range ? "beyond float64" : "infinite",
                  " (allowed: finite numbers)");
    }
    return value;
  }

  const std::string label_;
  const data::TableOptions& options_;
  WholeFile file_;
  data::Table table_;
  std::int64_t rows_ = 0;
};

}  // namespace

data::Table read_table(const ByteSource& source, const data::TableOptions& options) {
  return TableReader(source, options).read();
}

}  // namespace io

namespace data {

std::int64_t Column::size() const {
  return kind == ColumnKind::number ? std::ssize(numbers) : std::ssize(codes);
}

std::int64_t Column::missing() const {
  return kind == ColumnKind::number
             ? std::ranges::count_if(numbers, [](double x) { return std::isnan(x); })
             : std::ranges::count(codes, -1);
}

std::int64_t Table::rows() const { return columns.empty() ? 0 : columns.front().size(); }

const Column& Table::column(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &Column::name);
  if (found != columns.end()) return *found;
  std::vector<std::string> names;
  std::string all;
  constexpr std::size_t most = 12;
  for (const Column& one : columns) {
    if (names.size() < most) all += (names.empty() ? "" : ", ") + io::printable(one.name);
    if (names.size() == most) all += ", …";
    names.push_back(one.name);
  }
  throw ValueError(message("Table: there is no column ", io::in_quotes(name),
                           io::did_you_mean(std::string(name), names), " (columns: ", all, ")"));
}

Table Table::take(const std::vector<std::int64_t>& rows) const {
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= this->rows()) {
      throw IndexError(message("Table::take: row ", row, " of ", this->rows(),
                               " (allowed: 0 and more, below their number)"));
    }
  }
  Table taken;
  for (const Column& from : columns) {
    Column& to = taken.columns.emplace_back(Column{from.name, from.kind});
    to.categories = from.categories;
    for (const std::int64_t row : rows) {
      const auto at = static_cast<std::size_t>(row);
      if (from.kind == ColumnKind::number) {
        to.numbers.push_back(from.numbers[at]);
      } else {
        to.codes.push_back(from.codes[at]);
      }
    }
  }
  return taken;
}

Table load_table(const std::filesystem::path& path, const TableOptions& options) {
  io::check_separator("load_table", options.separator);
  return io::read_table(io::FileSource("load_table", path), options);
}

TableSplits split_table(const Table& table, std::int64_t every) {
  if (every < 2) {
    throw ValueError(message("split_table: every is ", every, " (allowed: 2 or more)"));
  }
  std::vector<std::int64_t> train, test;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    (row % every == every - 1 ? test : train).push_back(row);
  }
  return {table.take(train), table.take(test)};
}

std::string text_of(double number) {
  char digits[32];
  return {digits, std::to_chars(std::begin(digits), std::end(digits), number + 0.0).ptr};
}

Column to_categories(const Column& column) {
  if (column.kind == ColumnKind::category) return column;
  std::set<double> values;
  for (const double value : column.numbers) {
    if (!std::isnan(value)) values.insert(value);
  }
  Column result{column.name, ColumnKind::category};
  const std::vector<double> sorted(values.begin(), values.end());
  for (const double value : sorted) result.categories.push_back(text_of(value));
  for (const double value : column.numbers) {
    const auto place = std::ranges::lower_bound(sorted, value) - sorted.begin();
    result.codes.push_back(std::isnan(value) ? -1 : place);
  }
  return result;
}

Task usual_task(const Column& target) {
  if (target.kind == ColumnKind::category) return Task::classification;
  constexpr std::size_t most = 20;
  std::set<double> values;
  for (const double value : target.numbers) {
    if (std::isnan(value)) continue;
    values.insert(value);
    if (std::floor(value) != value || values.size() > most) return Task::regression;
  }
  return Task::classification;
}

}  // namespace data

}  // namespace extensor
