// Reductions and row operations over random layouts, axes and dtypes, and over sizes around every
// block, chunk and tile of the kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/layout_reference.h"

namespace {

using namespace test_support;

// ---- reductions ---------------------------------------------------------------------------------

// The elements of x that are reduced to each result, in row-major order of the reduced axes.
std::vector<std::vector<Value>> groups_of(const Tensor& x, const std::vector<std::int64_t>& axes) {
  std::vector<bool> reduced(x.shape().size(), false);
  for (std::int64_t axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  std::int64_t results = 1;
  std::vector<std::int64_t> out(x.shape().size(), 0);
  for (std::size_t d = x.shape().size(); d-- > 0;) {
    if (reduced[d]) continue;
    out[d] = results;
    results *= x.shape()[d];
  }
  std::vector<std::vector<Value>> groups(static_cast<std::size_t>(results));
  std::vector<std::int64_t> index(x.shape().size(), 0);
  std::int64_t result = 0;
  walk(x.shape(), {x}, [&](const std::byte* const* at) {
    groups[static_cast<std::size_t>(result)].push_back(load(*at, x.dtype()));
    for (std::size_t d = index.size(); d-- > 0;) {
      result += out[d];
      if (++index[d] < x.shape()[d]) break;
      result -= out[d] * x.shape()[d];
      index[d] = 0;
    }
  });
  return groups;
}

using Groups = std::vector<std::vector<Value>>;
using Fold = std::function<Value(const std::vector<Value>&)>;

// Every result must be `fold` of its group.
void expect_reduced(const Tensor& result, const std::vector<std::vector<Value>>& groups,
                    const Fold& fold, const char* what) {
  const std::vector<Value> values = values_of(result);
  ASSERT_EQ(values.size(), groups.size()) << what;
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Value expected = fold(groups[i]);
    if (!same(values[i], expected) && wrong++ == 0) {
      ADD_FAILURE() << what << ": result " << i << " is " << values[i] << ", not " << expected;
    }
  }
  EXPECT_EQ(wrong, 0) << what;
}

// The position of the first element that is better than all before it; NaN is better than
// everything.
std::size_t first_best(const std::vector<Value>& group, bool largest) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < group.size() && !std::isnan(group[best]); ++i) {
    const bool wins = largest ? group[i] > group[best] : group[i] < group[best];
    if (wins || std::isnan(group[i])) best = i;
  }
  return best;
}

// Integers modulo 2⁶⁴. The floats drawn here have exact sums and products in float32, in any order.
Value total(const std::vector<Value>& group, bool multiply, DType dtype) {
  const DType result = is_floating_point(dtype)     ? dtype
                       : is_unsigned_integer(dtype) ? uint64
                                                    : int64;
  if (is_floating_point(dtype)) {
    Value value = multiply ? 1 : 0;
    for (Value element : group) value = multiply ? value * element : value + element;
    return round_to_float(value, dtype);
  }
  std::uint64_t value = multiply ? 1 : 0;
  for (Value element : group) {
    const auto bits = static_cast<std::uint64_t>(static_cast<__int128>(element));
    value = multiply ? value * bits : value + bits;
  }
  return wrap_to_integer(static_cast<__int128>(value), result);
}

// Extremes, positions and truth of a tensor of any values.
void check_order(const Tensor& x, const Groups& groups, const std::vector<std::int64_t>& axes,
                 bool keepdims) {
  expect_reduced(
      max_reduce(x, axes, keepdims), groups,
      [](const auto& group) { return group[first_best(group, true)]; }, "max");
  expect_reduced(
      min_reduce(x, axes, keepdims), groups,
      [](const auto& group) { return group[first_best(group, false)]; }, "min");
  const auto is_true = [](Value value) { return value != 0; };
  expect_reduced(
      any(x, axes, keepdims), groups,
      [&](const auto& group) { return std::any_of(group.begin(), group.end(), is_true); }, "any");
  expect_reduced(
      all(x, axes, keepdims), groups,
      [&](const auto& group) { return std::all_of(group.begin(), group.end(), is_true); }, "all");
  if (axes.size() != 1 && static_cast<std::int64_t>(axes.size()) != x.ndim()) return;
  std::optional<std::int64_t> axis;
  if (axes.size() == 1) axis = axes[0];
  for (bool largest : {true, false}) {
    expect_reduced(
        largest ? argmax(x, axis, keepdims) : argmin(x, axis, keepdims), groups,
        [&](const auto& group) { return static_cast<Value>(first_best(group, largest)); },
        largest ? "argmax" : "argmin");
  }
}

void check_sum(const Tensor& x, const Groups& groups, const std::vector<std::int64_t>& axes,
               bool keepdims) {
  const DType dtype = x.dtype();
  const Tensor result = sum(x, axes, keepdims);
  Shape shape;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!reduced || keepdims) shape.push_back(reduced ? 1 : x.size(d));
  }
  EXPECT_EQ(result.shape(), shape);
  expect_reduced(
      result, groups, [=](const auto& group) { return total(group, false, dtype); }, "sum");
  // The quotient is rounded to the compute type, then to the dtype.
  const DType out = is_floating_point(dtype) ? dtype : float32;
  expect_reduced(
      mean(x, axes, keepdims), groups,
      [=](const auto& group) {
        Value value = 0;
        for (Value element : group) value += element;
        const Value quotient = static_cast<double>(value) / static_cast<double>(group.size());
        const DType compute = is_half(dtype) ? float32 : dtype;
        return round_to_float(
            is_floating_point(dtype) ? round_to_float(quotient, compute) : quotient, out);
      },
      "mean");
}

void check_product(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  const DType dtype = x.dtype();
  expect_reduced(
      prod(x, axes, keepdims), groups_of(x, axes),
      [=](const auto& group) { return total(group, true, dtype); }, "prod");
}

std::vector<std::int64_t> random_axes(Random& random, std::int64_t rank) {
  std::vector<std::int64_t> axes;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (random() % 2 == 0) axes.push_back(d);
  }
  if (axes.empty() && rank > 0) {
    axes.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rank)));
  }
  return axes;
}

TEST(LayoutEngineTest, ReducesAnyLayoutOverAnyAxes) {
  Random random(11);
  constexpr std::int64_t sizes[] = {1, 40, 700, 5000, 30000};
  for (int round = 0; round < 200; ++round) {
    const Shape shape = random_shape(random, sizes[random() % 5]);
    const DType dtype = every_dtype[round % 13];
    const auto axes = random_axes(random, static_cast<std::int64_t>(shape.size()));
    const bool keepdims = random() % 2 == 0;
    SCOPED_TRACE(std::to_string(round) + ": " + name(dtype) + " " + to_string(shape) + " over " +
                 to_string(Dims(axes)));
    const auto draw = [&](Style style) {
      Tensor x = random_view(random, shape, dtype, style).view;
      // Sometimes an axis that repeats one element.
      if (!shape.empty() && random() % 6 == 0) {
        x = x.slice(0, 0, 1).broadcast_to(shape);
      }
      return x;
    };
    const Tensor any_values = draw(Style::any), small_values = draw(Style::small);
    check_order(any_values, groups_of(any_values, axes), axes, keepdims);
    const Groups groups = groups_of(small_values, axes);
    check_order(small_values, groups, axes, keepdims);
    check_sum(small_values, groups, axes, keepdims);
    check_product(draw(Style::signs), axes, keepdims);
  }
}

TEST(LayoutEngineTest, ReducesSizesAroundEveryBoundary) {
  Random random(12);
  using Case = std::pair<Shape, std::vector<std::int64_t>>;
  const Case cases[] = {
      // Blocks of 1024 and chunks of 65536 along one row.
      {{1023}, {0}},
      {{1024}, {0}},
      {{1025}, {0}},
      {{65535}, {0}},
      {{65537}, {0}},
      {{200003}, {0}},
      {{3, 1025}, {1}},
      {{2, 65537}, {1}},
      {{700, 33}, {1}},
      {{5, 4, 1031}, {0, 2}},
      // Few and many columns, in tiles of 4096 bytes, 16 rows at a time, 4096 rows per chunk.
      {{15, 40}, {0}},
      {{16, 40}, {0}},
      {{17, 40}, {0}},
      {{33, 511}, {0}},
      {{33, 513}, {0}},
      {{20, 1024}, {0}},
      {{20, 1025}, {0}},
      {{9, 2049}, {0}},
      {{7, 4097}, {0}},
      {{4095, 3}, {0}},
      {{4097, 3}, {0}},
      {{70001, 2}, {0}},
      {{9001, 5}, {0}},
      {{4097, 520}, {0}},
      {{3, 4100, 7}, {1}},
      {{3, 5, 600}, {1}},
      {{2, 4100, 70}, {1}},
      {{6, 7, 8, 9}, {0, 2}}};
  for (const auto& [shape, axes] : cases) {
    for (DType dtype : {float32, float16, int32, float64, bool_, uint8}) {
      if (count_of(shape) > 300000 && dtype != float32) continue;
      SCOPED_TRACE(std::string(name(dtype)) + " " + to_string(shape) + " over " +
                   to_string(Dims(axes)));
      Tensor x = empty(shape, dtype);
      randomize(random, x, Style::small);
      const Groups groups = groups_of(x, axes);
      check_order(x, groups, axes, false);
      check_sum(x, groups, axes, false);
      randomize(random, x, Style::signs);
      check_product(x, axes, false);
      if (dtype != float32 && dtype != float16) continue;
      // The same sizes with gaps in the rows.
      Shape wide = shape;
      wide[wide.size() - 1] += 3;
      Tensor base = empty(wide, dtype);
      randomize(random, base, Style::small);
      const Tensor view = base.slice(-1, 1, shape.back() + 1);
      check_sum(view, groups_of(view, axes), axes, false);
    }
  }
}

TEST(LayoutEngineTest, SumsAreAccurate) {
  Random random(13);
  // All positive, so that a running sum in float32 would have an error of about n·ε/4.
  const std::int64_t n = 1 << 20;
  Tensor x = empty({n});
  Value exact = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(random() % 1000003) / 1000003.0F;
    x.data<float>()[i] = value;
    exact += value;
  }
  EXPECT_NEAR(static_cast<double>(sum(x).item<float>() / exact), 1, 4e-7);
  EXPECT_NEAR(static_cast<double>(mean(x).item<float>() / (exact / n)), 1, 4e-7);
  const Tensor columns = sum(x.reshape({n / 2, 2}), 0);
  EXPECT_NEAR(static_cast<double>((columns[0].item<float>() + columns[1].item<float>()) / exact), 1,
              4e-7);
  // float16: the sum exceeds 2048, where adding 1 in float16 has no effect.
  EXPECT_EQ(sum(ones({60000}, float16)).item<float>(), 60000);
  EXPECT_EQ(sum(ones({1000, 3}, bfloat16), 0)[2].item<float>(), 1000);
  EXPECT_NEAR(var(x).item<float>(), 1.0 / 12, 1e-3);
}

// ---- row operations -----------------------------------------------------------------------------

// A value and the sum of the magnitudes of its terms: the error of a sum that cancels is relative
// to its terms.
struct Term {
  Value value, magnitude;
};

// Rounded once to the dtype, after a computation in float32 or float64.
Value allowed_error(Term expected, DType dtype) {
  const Value compute = dtype == float64 ? 3e-15L : 2e-6L;
  const Value rounding = dtype == float16 ? 0x1p-11L : dtype == bfloat16 ? 0x1p-8L : 0;
  const Value smallest = dtype == float16 ? 0x1p-25L : 1e-38L;
  return rounding * std::fabs(expected.value) + compute * expected.magnitude + smallest;
}

using Row = std::vector<Value>;
using RowFunction = std::function<std::vector<Term>(const Row& x, const Row& y)>;

// Checks that `result` along `axis` is `function` of the rows of x and y.
void expect_rows(const Tensor& result, const Tensor& x, const Tensor& y, std::int64_t axis,
                 const RowFunction& function, const char* what) {
  ASSERT_EQ(result.shape(), x.shape()) << what;
  ASSERT_EQ(result.dtype(), x.dtype()) << what;
  const auto rows_x = groups_of(x, {axis}), rows_y = groups_of(y, {axis});
  const auto rows = groups_of(result, {axis});
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::vector<Term> expected = function(rows_x[row], rows_y[row]);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Value error = std::fabs(rows[row][i] - expected[i].value);
      const bool good = error <= allowed_error(expected[i], x.dtype());
      if (!good && wrong++ == 0) {
        ADD_FAILURE() << what << ": element " << i << " of row " << row << " is " << rows[row][i]
                      << ", not " << expected[i].value;
      }
    }
  }
  EXPECT_EQ(wrong, 0) << what;
}

Value log_sum_exp(const Row& row) {
  const Value most = *std::max_element(row.begin(), row.end());
  Value sum = 0;
  for (Value value : row) sum += std::exp(value - most);
  return most + std::log(sum);
}

std::vector<Term> softmax_row(const Row& x, const Row&) {
  std::vector<Term> result;
  const Value shift = log_sum_exp(x);
  for (Value value : x) result.push_back({std::exp(value - shift), std::exp(value - shift)});
  return result;
}
std::vector<Term> log_softmax_row(const Row& x, const Row&) {
  std::vector<Term> result;
  const Value shift = log_sum_exp(x);
  for (Value value : x) result.push_back({value - shift, 1 + std::fabs(value) + std::fabs(shift)});
  return result;
}
std::vector<Term> softmax_backward_row(const Row& g, const Row& y) {
  Value dot = 0, magnitude = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    dot += g[i] * y[i];
    magnitude += std::fabs(g[i]) * y[i];
  }
  std::vector<Term> result;
  for (std::size_t i = 0; i < g.size(); ++i) {
    result.push_back({y[i] * (g[i] - dot), y[i] * (std::fabs(g[i]) + magnitude)});
  }
  return result;
}
std::vector<Term> log_softmax_backward_row(const Row& g, const Row& y) {
  Value sum = 0, magnitude = 0;
  for (Value value : g) {
    sum += value;
    magnitude += std::fabs(value);
  }
  std::vector<Term> result;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const Value weight = std::exp(y[i]);
    result.push_back({g[i] - weight * sum, std::fabs(g[i]) + weight * magnitude});
  }
  return result;
}

TEST(LayoutEngineTest, SoftmaxAlongEveryAxis) {
  Random random(14);
  const Shape shapes[] = {{},      {1},       {17},         {3, 5, 7},    {17, 33}, {2, 300, 20},
                          {40, 1}, {1, 1037}, {16, 16, 17}, {2, 3, 4, 5}, {129, 65}};
  for (DType dtype : float_dtypes) {
    for (const Shape& shape : shapes) {
      for (std::int64_t axis = 0; axis < std::max<std::int64_t>(1, std::ssize(shape)); ++axis) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + to_string(shape) + " along " +
                     std::to_string(axis));
        Tensor x = random_view(random, shape, dtype, Style::small).view;
        Tensor g = random_view(random, shape, dtype, Style::small).view;
        const Tensor y = softmax(x, axis), log_y = log_softmax(x, axis);
        const Tensor grad = softmax_backward(g, y, axis);
        const Tensor log_grad = log_softmax_backward(g, log_y, axis);
        if (shape.empty()) {
          EXPECT_EQ(y.item<float>(), 1.0F);
          EXPECT_EQ(log_y.item<float>(), 0.0F);
          EXPECT_EQ(grad.item<float>(), 0.0F);
          EXPECT_EQ(log_grad.item<float>(), 0.0F);
          continue;
        }
        expect_rows(y, x, x, axis, softmax_row, "softmax");
        expect_rows(log_y, x, x, axis, log_softmax_row, "log_softmax");
        expect_rows(grad, g, y, axis, softmax_backward_row, "softmax_backward");
        expect_rows(log_grad, g, log_y, axis, log_softmax_backward_row, "log_softmax_backward");
      }
    }
  }
}

TEST(LayoutEngineTest, LogSumExpOverAnyAxes) {
  Random random(15);
  for (int round = 0; round < 80; ++round) {
    const DType dtype = float_dtypes[round % 4];
    const Shape shape = random_shape(random, 3000);
    const auto axes = random_axes(random, static_cast<std::int64_t>(shape.size()));
    SCOPED_TRACE(std::string(name(dtype)) + " " + to_string(shape) + " over " +
                 to_string(Dims(axes)));
    const Tensor x = random_view(random, shape, dtype, Style::small).view;
    const auto groups = groups_of(x, axes);
    const std::vector<Value> values = values_of(logsumexp(x, axes, round % 2 == 0));
    ASSERT_EQ(values.size(), groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const Value expected = log_sum_exp(groups[i]);
      const Value magnitude = std::max<Value>(4, std::fabs(expected));
      ASSERT_LE(std::fabs(values[i] - expected), allowed_error({expected, magnitude}, dtype));
    }
  }
}

}  // namespace
