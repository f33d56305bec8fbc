// The rows of a table of equivalents (coming_from_numpy_test, coming_from_pytorch_test): what a row
// holds, its result in the form of the file of numbers, and the comparisons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace test_support {

// Dtypes, shapes and names as text, and all numbers.
struct Description {
  std::string text;
  std::vector<double> numbers;

  void add(const Description& part) {
    text += (text.empty() ? "" : " ") + part.text;
    numbers.insert(numbers.end(), part.numbers.begin(), part.numbers.end());
  }
};

// "float32", or "float" if only kinds are compared.
inline std::string dtype_text(ext::DType dtype, bool kind_only) {
  const std::string name(ext::name(dtype));
  return kind_only ? name.substr(0, name.find_first_of("0123456789")) : name;
}

template <class T>
Description describe_value(const T& value, bool kind_only) {
  using ext::Tensor;
  if constexpr (std::is_arithmetic_v<T>) {
    return {"number", {static_cast<double>(value)}};
  } else if constexpr (std::is_same_v<T, ext::Shape>) {
    return {"shape", std::vector<double>(value.begin(), value.end())};
  } else if constexpr (std::is_convertible_v<const T&, Tensor>) {
    const Tensor x = value;
    return {dtype_text(x.dtype(), kind_only) + ext::to_string(x.shape()),
            x.detach().to(ext::float64).template to_vector<double>()};
  } else if constexpr (requires {
                         value.values;
                         value.indices;
                       }) {
    return describe_value(std::vector<Tensor>{value.values, value.indices}, kind_only);
  } else if constexpr (requires {
                         value.first;
                         value.second;
                       }) {
    return describe_value(std::vector<Tensor>{value.first, value.second}, kind_only);
  } else {
    Description all;
    for (const Tensor& tensor : value) all.add(describe_value(tensor, kind_only));
    return all;
  }
}

struct Row {
  std::string section;
  std::string original;  // the call of the other library; the key of its numbers
  std::string python;
  std::string note;
  std::string code;
  bool has_values;
  std::function<Description()> run;
};
using Numbers = std::map<std::string, Description>;

inline void expect_numbers(const std::vector<Row>& rows, const Numbers& numbers) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.original + "\n  " + row.code);
    const auto expected = numbers.find(row.original);
    if (expected == numbers.end()) {
      ADD_FAILURE()
          << "the row has no numbers; the head of the file of rows says how to write them";
      continue;
    }
    Description got;
    try {
      got = row.run();
    } catch (const ext::Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    EXPECT_EQ(got.text, expected->second.text);
    if (!row.has_values) continue;
    EXPECT_EQ(got.numbers.size(), expected->second.numbers.size());
    if (got.numbers.size() != expected->second.numbers.size()) continue;
    for (std::size_t at = 0; at < got.numbers.size(); ++at) {
      const double number = expected->second.numbers[at];
      if (std::isnan(number)) {
        EXPECT_TRUE(std::isnan(got.numbers[at])) << "number " << at;
      } else {
        // Both are float32, within a few roundings; bfloat16 is exact here.
        EXPECT_NEAR(got.numbers[at], number, 4e-6 * std::max(1.0, std::fabs(number)))
            << "number " << at;
      }
    }
  }
}

inline void expect_no_other_numbers(const std::vector<Row>& rows, const Numbers& numbers) {
  std::map<std::string, int> named;
  for (const Row& row : rows) ++named[row.original];
  for (const auto& [original, count] : named) EXPECT_EQ(count, 1) << original;
  for (const auto& [original, _] : numbers) EXPECT_TRUE(named.contains(original)) << original;
}

// The part of docs/PAGE between the marks that SCRIPT writes.
inline std::string table_of_page(const std::string& page, const std::string& script) {
  std::ifstream file(std::string(EXTENSOR_DOCS_DIR) + "/" + page);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str(), begin = "<!-- rows: " + script + " writes them -->\n",
                    end = "\n<!-- end of rows -->";
  const std::size_t from = text.find(begin), to = text.find(end);
  if (from == std::string::npos || to == std::string::npos) return "no marks in the page";
  return text.substr(from + begin.size(), to - from - begin.size());
}

inline std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

}  // namespace test_support
