// Tables of numbers and categories; the first byte selects the options. A table that is read is
// written and read again.
#include "data/table.h"

#include <charconv>
#include <cmath>

#include "fuzz/data_reader.h"

namespace {

using namespace extensor;

std::string quoted(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

std::string written(const data::Table& table, char separator) {
  std::string text;
  const auto end_cell = [&](std::size_t column) {
    text += column + 1 == table.columns.size() ? '\n' : separator;
  };
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    text += quoted(table.columns[c].name);
    end_cell(c);
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(table.rows()); ++row) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const data::Column& column = table.columns[c];
      if (column.kind == data::ColumnKind::number) {
        char digits[64];
        const double value = column.numbers[row];
        const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
        text += std::isnan(value) ? "\"\"" : std::string(digits, end);
      } else {
        const std::int64_t code = column.codes[row];
        text += code < 0 ? "\"\"" : quoted(column.categories[static_cast<std::size_t>(code)]);
      }
      end_cell(c);
    }
  }
  return text;
}

bool same(const data::Table& a, const data::Table& b) {
  return std::ranges::equal(a.columns, b.columns, [](const auto& x, const auto& y) {
    return x.name == y.name && x.kind == y.kind && x.categories == y.categories &&
           x.codes == y.codes && std::ranges::equal(x.numbers, y.numbers, [](double s, double t) {
             return std::isnan(s) ? std::isnan(t) : s == t;
           });
  });
}

// Encodes the table with each column as the target.
void encode(const data::Table& table) {
  for (const data::Column& column : table.columns) {
    try {
      const data::TableEncoder encoder(table, column.name);
      if (encoder.dataset(table).size() != table.rows() - column.missing()) std::abort();
      if (encoder.encode(table).shape() != Shape{table.rows(), encoder.inputs()}) std::abort();
      (void)encoder.unusual(table);
    } catch (const ValueError&) {
      continue;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  data::TableOptions options;
  options.separator = ",;\t|"[data[0] % 4];
  data::Table table;
  try {
    const fuzz::AllocationLimit limit(size);
    table = io::read_table(io::MemorySource("fuzz", std::as_bytes(std::span(data + 1, size - 1))),
                           options);
  } catch (const Error&) {
    return 0;
  }
  if (table.columns.size() > 64) return 0;
  for (const data::Column& column : table.columns) {
    if (column.kind == data::ColumnKind::category) options.categories.push_back(column.name);
  }
  const std::string text = written(table, options.separator);
  const data::Table again =
      io::read_table(io::MemorySource("again", std::as_bytes(std::span(text))), options);
  if (!same(table, again)) std::abort();
  encode(table);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = {
      fuzz::file_of(std::string(1, '\0') + "a,b,c\n1,x,0.5\n2,y,\n3,x,nan\n4,z,1e5\n"),
      fuzz::file_of("\1k;\"n\nm\"\r\n\"a;\"\"b\";1\r\n\"\";2\r\nc;3\r\n"),
      fuzz::file_of("\2\tx\n0\t1\n1\t2\n")};
  return fuzz::mutate(data, size, most, seed, files);
}
