// Compiles and runs every row of docs/coming-from-pytorch.md and compares the results with
// PyTorch's numbers. pytorch/equivalents.def has the rows and explains them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "extensor/extensor.h"

namespace {

using ext::ellipsis;
using ext::float64;
using ext::int32;
using ext::int64;
using ext::MemoryFormat;
using ext::newaxis;
using ext::PadMode;
using ext::Reduction;
using ext::Rounding;
using ext::ScatterReduction;
using ext::Shape;
using ext::Slice;
using ext::Tensor;
namespace nn = ext::nn;
namespace optim = ext::optim;

// The tensors that the rows name, made anew for each; equivalents.py has the same.
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
  Tensor image = ext::arange(32.0).reshape(1, 2, 4, 4) / 8;
  Tensor filters = ext::arange(54.0).reshape(3, 2, 3, 3) / 32 - 0.75;
  Tensor signal = ext::arange(12.0).reshape(1, 2, 6) / 4;
  Tensor taps = ext::arange(18.0).reshape(3, 2, 3) / 8 - 1;
  Tensor labels = ext::tensor({2, 0});
  Tensor probs = ext::tensor({{0.25, 0.625, 0.125}, {0.5, 0.25, 0.25}});
  Tensor truth = ext::tensor({{0.0, 1.0, 0.0}, {1.0, 0.0, 1.0}});
  Tensor w = ext::arange(12.0).reshape(4, 3) / 8 - 0.5;
  Tensor bias = ext::tensor({0.5, -0.5, 0.25, 0.0});
  Tensor mean = ext::tensor({1.0, 3.0});
  Tensor var = ext::tensor({0.5, 2.0});
  Tensor table = ext::arange(15.0).reshape(5, 3);
  Tensor ids = ext::tensor({{0, 4}, {2, 2}});
  Tensor query = ext::arange(24.0).reshape(1, 2, 3, 4) / 16 - 0.5;
  Tensor key = ext::arange(24.0).reshape(1, 2, 3, 4) / 32;
  Tensor value = ext::arange(24.0).reshape(1, 2, 3, 4) / 8 - 1;
  Tensor mask = x > 0;
  std::vector<Tensor> ps = {ext::tensor({1.0, 2.0}).requires_grad_()};
  optim::SGD o{ps, {.lr = 0.8, .momentum = 0.5}};

  Inputs() { ps[0].set_grad(ext::tensor({0.5, -1.0})); }
};

// ---- results in the form of equivalents_numbers.inc

struct Description {
  std::string text;
  std::vector<double> numbers;

  void add(const Description& part) {
    text += (text.empty() ? "" : " ") + part.text;
    numbers.insert(numbers.end(), part.numbers.begin(), part.numbers.end());
  }
};

template <class T>
concept IsModule = requires(const T& module) {
  module.named_parameters();
};

template <class T>
Description describe(Inputs&, const T& value) requires std::is_arithmetic_v<T> {
  return {"number", {static_cast<double>(value)}};
}
Description describe(Inputs&, const Shape& shape) {
  return {"shape", std::vector<double>(shape.begin(), shape.end())};
}
Description describe(Inputs&, const Tensor& x) {
  return {std::string(ext::name(x.dtype())) + ext::to_string(x.shape()),
          x.detach().to(float64).to_vector<double>()};
}
Description describe(Inputs& inputs, const std::vector<Tensor>& tensors) {
  Description all;
  for (const Tensor& tensor : tensors) all.add(describe(inputs, tensor));
  return all;
}
Description describe(Inputs& inputs, const std::pair<Tensor, Tensor>& pair) {
  return describe(inputs, std::vector<Tensor>{pair.first, pair.second});
}
Description describe(Inputs& inputs, const ext::SortedTensor& sorted) {
  return describe(inputs, std::vector<Tensor>{sorted.values, sorted.indices});
}
Description describe(Inputs& inputs, const ext::ValuesWithIndices& found) {
  return describe(inputs, std::vector<Tensor>{found.values, found.indices});
}
template <IsModule T>
Description describe(Inputs&, const T& module) {
  Description names;
  for (const auto& [name, parameter] : module.named_parameters()) {
    names.add({name + ext::to_string(parameter.shape()), {}});
  }
  return names;
}
Description describe(Inputs& inputs, optim::Optimizer&& optimizer) {
  optimizer.step();
  optimizer.step();
  return {"optimizer", describe(inputs, inputs.ps[0]).numbers};
}
Description describe(Inputs& inputs, optim::LRScheduler&& schedule) {
  Description rates{"schedule", {}};
  for (int epoch = 0; epoch < 6; ++epoch) {
    rates.numbers.push_back(inputs.o.lr());
    inputs.o.step();
    schedule.step();
  }
  return rates;
}

// ---- the rows

struct Row {
  std::string section, pytorch, note, code;
  bool has_values;
  std::function<Description()> run;
};

// A row's members are the inputs.
#define EXTENSOR_ROW(pytorch, note, has_values, code, ...)                                   \
  {                                                                                          \
    struct Case : Inputs {                                                                   \
      Description run() { __VA_ARGS__ }                                                      \
    };                                                                                       \
    rows.push_back({section, pytorch, note, code, has_values, [] { return Case().run(); }}); \
  }
#define SECTION(heading) section = heading;
#define VALUES(pytorch, note, ...) \
  EXTENSOR_ROW(pytorch, note, true, #__VA_ARGS__, return describe(*this, __VA_ARGS__);)
#define SHAPES(pytorch, note, ...) \
  EXTENSOR_ROW(pytorch, note, false, #__VA_ARGS__, return describe(*this, __VA_ARGS__);)
#define RUNS(pytorch, note, ...)                              \
  EXTENSOR_ROW(pytorch, note, true, #__VA_ARGS__, Tensor out; \
               __VA_ARGS__ return describe(*this, out);)

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  std::string section;
#include "pytorch/equivalents.def"
  return rows;
}

const std::map<std::string, Description>& pytorch_numbers() {
  static const std::map<std::string, Description> numbers = {
#define NUMBERS(pytorch, text, ...) {pytorch, {text, __VA_ARGS__}},
#include "pytorch/equivalents_numbers.inc"
  };
  return numbers;
}

TEST(ComingFromPyTorch, EveryRowGivesPyTorchsNumbers) {
  const int threads = ext::get_num_threads();
  const std::vector<Row> rows = make_rows();
  EXPECT_GE(rows.size(), 150u);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.pytorch + "\n  " + row.code);
    const auto expected = pytorch_numbers().find(row.pytorch);
    if (expected == pytorch_numbers().end()) {
      ADD_FAILURE() << "no numbers: run tests/pytorch/equivalents.py --numbers";
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
  ext::set_num_threads(threads);
}

TEST(ComingFromPyTorch, NoNumbersWithoutARow) {
  std::map<std::string, int> named;
  for (const Row& row : make_rows()) ++named[row.pytorch];
  for (const auto& [pytorch, count] : named) EXPECT_EQ(count, 1) << pytorch;
  for (const auto& [pytorch, numbers] : pytorch_numbers()) EXPECT_TRUE(named.contains(pytorch));
}

std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

// The page has exactly these rows, in this order.
TEST(ComingFromPyTorch, ThePageHasTheRows) {
  std::string expected, section;
  for (const Row& row : make_rows()) {
    if (row.section != section) {
      section = row.section;
      expected += "\n### " + section + "\n\n| PyTorch | ExTensor | notes |\n|---|---|---|\n";
    }
    expected +=
        "| `" + cell(row.pytorch) + "` | `" + cell(row.code) + "` | " + cell(row.note) + " |\n";
  }
  std::ifstream file(std::string(EXTENSOR_DOCS_DIR) + "/coming-from-pytorch.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str(), begin = "<!-- rows: equivalents.py writes them -->\n",
                    end = "\n<!-- end of rows -->";
  const std::size_t from = text.find(begin), to = text.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(text.substr(from + begin.size(), to - from - begin.size()), expected)
      << "run ./ex docs, which writes the page";
}

}  // namespace
