// Compiles and runs every row of docs/coming-from-numpy.md and compares the results with NumPy's
// numbers. numpy/rows.def has the rows and explains them.
#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/equivalent_rows.h"

namespace {

using ext::ellipsis;
using ext::float64;
using ext::int32;
using ext::int64;
using ext::newaxis;
using ext::Slice;
using ext::Tensor;
using test_support::cell;
using test_support::Description;
using test_support::Row;

// The tensors that the rows name, made anew for each; rows.py has the same.
struct Inputs {
  Tensor x = ext::tensor({{1.0, -2.0, 3.0}, {4.0, 0.5, -6.0}});
  Tensor y = ext::tensor({{0.5, 2.0, -1.0}, {2.0, 3.0, 4.0}});
  Tensor pos = ext::tensor({{0.5, 1.0, 2.0}, {3.0, 4.0, 0.25}});
  Tensor a = ext::tensor({1.0, 2.0, 3.0});
  Tensor b = ext::tensor({4.0, 5.0, 6.0});
  Tensor m = ext::tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  Tensor s = ext::tensor({{2.0, 1.0}, {1.0, 3.0}});
  Tensor n = ext::tensor({{3, -7, 5}, {2, 9, -4}});
  Tensor k = ext::tensor({2, 3, 2});
  Tensor i = ext::tensor({2, 0});
  Tensor j = ext::tensor({{0, 2}, {1, 1}});
  Tensor big = ext::arange(24.0).reshape(2, 3, 4);
  Tensor mask = x > 0;
};

// A row's members are the inputs.
#define EXTENSOR_ROW(numpy, python, note, has_values, code, ...)                                   \
  {                                                                                                \
    struct Case : Inputs {                                                                         \
      Description run() { __VA_ARGS__ }                                                            \
    };                                                                                             \
    rows.push_back({section, numpy, python, note, code, has_values, [] { return Case().run(); }}); \
  }
#define EXTENSOR_DESCRIBED(...) return test_support::describe_value(__VA_ARGS__, true);
#define SECTION(heading) section = heading;
#define VALUES(numpy, python, note, ...) \
  EXTENSOR_ROW(numpy, python, note, true, #__VA_ARGS__, EXTENSOR_DESCRIBED((__VA_ARGS__)))
#define SHAPES(numpy, python, note, ...) \
  EXTENSOR_ROW(numpy, python, note, false, #__VA_ARGS__, EXTENSOR_DESCRIBED((__VA_ARGS__)))
#define RUNS(numpy, python, note, ...) \
  EXTENSOR_ROW(numpy, python, note, true, #__VA_ARGS__, __VA_ARGS__; EXTENSOR_DESCRIBED(x))

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  std::string section;
#include "numpy/rows.def"
  return rows;
}

const test_support::Numbers& numpy_numbers() {
  static const test_support::Numbers numbers = {
#define NUMBERS(numpy, text, ...) {numpy, {text, __VA_ARGS__}},
#include "numpy/rows_numbers.inc"
  };
  return numbers;
}

TEST(ComingFromNumPy, EveryRowGivesNumPysNumbers) {
  const std::vector<Row> rows = make_rows();
  EXPECT_GE(rows.size(), 100u);
  test_support::expect_numbers(rows, numpy_numbers());
}

TEST(ComingFromNumPy, NoNumbersWithoutARow) {
  test_support::expect_no_other_numbers(make_rows(), numpy_numbers());
}

// The page has exactly these rows, in this order.
TEST(ComingFromNumPy, ThePageHasTheRows) {
  std::string expected, section;
  for (const Row& row : make_rows()) {
    if (row.section != section) {
      section = row.section;
      expected += "\n### " + section + "\n\n| NumPy | Python | C++ | notes |\n|---|---|---|---|\n";
    }
    expected += "| `" + cell(row.original) + "` | `" + cell(row.python) + "` | `" + cell(row.code) +
                "` | " + cell(row.note) + " |\n";
  }
  EXPECT_EQ(test_support::table_of_page("coming-from-numpy.md", "rows.py"), expected)
      << "run ./ex docs, which writes the page";
}

}  // namespace
