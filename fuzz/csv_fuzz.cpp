// CSV files; the first byte selects the options.
#include "data/csv.h"

#include <charconv>
#include <cmath>

#include "fuzz/data_reader.h"

namespace {

using namespace extensor;

data::CsvOptions options_of(std::uint8_t byte) {
  data::CsvOptions options;
  options.separator = ",;\t "[byte % 4];
  if ((byte & 4) != 0) options.header = (byte & 8) != 0;
  return options;
}

// The numbers as text that preserves every bit.
std::string written(const data::NumericTable& table, char separator) {
  std::string text;
  const auto* value = table.values.data<double>();
  const std::int64_t columns = table.values.size(1);
  for (std::int64_t i = 0; i < table.values.numel(); ++i, ++value) {
    char number[64];
    const auto [end, error] = std::to_chars(number, number + sizeof(number), *value);
    if (!std::isnan(*value)) text.append(number, end);
    // A single empty cell would be an empty line.
    if (std::isnan(*value) && columns == 1) text += "\"\"";
    text += (i + 1) % columns == 0 ? '\n' : separator;
  }
  return text;
}

bool same(const Tensor& a, const Tensor& b) {
  const auto *x = a.data<double>(), *y = b.data<double>();
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    if (std::isnan(x[i]) ? !std::isnan(y[i]) : x[i] != y[i]) return false;
  }
  return a.shape() == b.shape();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  data::CsvOptions options = options_of(data[0]);
  data::NumericTable table;
  try {
    const fuzz::AllocationLimit limit(size);
    table = io::read_csv(io::MemorySource("fuzz", std::as_bytes(std::span(data + 1, size - 1))),
                         options);
  } catch (const Error&) {
    return 0;
  }
  if (table.values.numel() == 0) return 0;
  options.header = false;
  const std::string text = written(table, options.separator);
  const auto again =
      io::read_csv(io::MemorySource("again", std::as_bytes(std::span(text))), options);
  if (!same(again.values, table.values)) std::abort();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = {
      fuzz::file_of(std::string(1, '\0') + "1,2.5,-3e-7\n4,,\"nan\"\n"),
      fuzz::file_of(std::string(1, '\1') + "\xef\xbb\xbf\"a;\"\"b\";c\r\n1;2\r\n"),
      fuzz::file_of("\6x\t y\n1\t2\n")};
  return fuzz::mutate(data, size, most, seed, files);
}
