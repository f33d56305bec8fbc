// Compiles and runs every row of docs/coming-from-pytorch.md and compares the results with
// PyTorch's numbers. pytorch/equivalents.def has the rows and explains them.
#include <gtest/gtest.h>

#include <concepts>

#include "extensor/extensor.h"
#include "support/equivalent_rows.h"

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
using test_support::cell;
using test_support::Description;
using test_support::Row;
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

template <class T>
requires(!std::derived_from<T, optim::Optimizer> &&
         !std::derived_from<T, optim::LRScheduler>) Description describe(Inputs&, const T& value) {
  if constexpr (requires { value.named_parameters(); }) {
    Description names;
    for (const auto& [name, parameter] : value.named_parameters()) {
      names.add({name + ext::to_string(parameter.shape()), {}});
    }
    return names;
  } else {
    return test_support::describe_value(value, false);
  }
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

// A row's members are the inputs.
#define EXTENSOR_ROW(pytorch, note, has_values, code, ...)                                       \
  {                                                                                              \
    struct Case : Inputs {                                                                       \
      Description run() { __VA_ARGS__ }                                                          \
    };                                                                                           \
    rows.push_back({section, pytorch, "", note, code, has_values, [] { return Case().run(); }}); \
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

const test_support::Numbers& pytorch_numbers() {
  static const test_support::Numbers numbers = {
#define NUMBERS(pytorch, text, ...) {pytorch, {text, __VA_ARGS__}},
#include "pytorch/equivalents_numbers.inc"
  };
  return numbers;
}

TEST(ComingFromPyTorch, EveryRowGivesPyTorchsNumbers) {
  const int threads = ext::get_num_threads();
  const std::vector<Row> rows = make_rows();
  EXPECT_GE(rows.size(), 150u);
  test_support::expect_numbers(rows, pytorch_numbers());
  ext::set_num_threads(threads);
}

TEST(ComingFromPyTorch, NoNumbersWithoutARow) {
  test_support::expect_no_other_numbers(make_rows(), pytorch_numbers());
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
        "| `" + cell(row.original) + "` | `" + cell(row.code) + "` | " + cell(row.note) + " |\n";
  }
  EXPECT_EQ(test_support::table_of_page("coming-from-pytorch.md", "equivalents.py"), expected)
      << "run ./ex docs, which writes the page";
}

}  // namespace
