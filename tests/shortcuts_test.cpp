// Calls that take a shorter way for one kind of argument: powers with one simple exponent, sums of
// short runs, casts of dense memory, and gradients that are views or put back into zeros.
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using compare::format_of;
using compare::identical;
using compare::ulp_error;
using compare::values_of;
using layouts::every_layout;
using layouts::Layout;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor vector_of(const std::vector<double>& values) {
  return from_data(values, {static_cast<std::int64_t>(values.size())});
}

// Runs the body with one and with more threads, and expects the same bits.
template <class Body>
void expect_same_for_any_threads(const Body& body) {
  const int before = get_num_threads();
  set_num_threads(1);
  const Tensor expected = body();
  for (const int threads : {2, 4}) {
    set_num_threads(threads);
    EXPECT_TRUE(identical(body(), expected)) << threads << " threads";
  }
  set_num_threads(before);
}

// ---- powers

constexpr double exponents[] = {-3, -2, -1, -0.5, 0.5, 1, 2, 3, 4};

TEST(SimplePower, ValuesInEveryLayout) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape : std::vector<Shape>{{}, {0}, {1}, {7}, {40}, {3, 71}, {5, 300}}) {
      for (const Layout layout : every_layout) {
        if (!layouts::is_distinct(layout, shape)) continue;
        const Tensor drawn = draw::uniform(layouts::drawn_shape(layout, shape), 0.01, 50, 3);
        const Tensor x = layouts::with_layout(drawn.to(dtype), layout, shape);
        const std::vector<double> values = values_of(x);
        for (const double exponent : exponents) {
          const std::vector<double> got = values_of(power(x, exponent));
          ASSERT_EQ(got.size(), values.size());
          for (std::size_t i = 0; i < values.size(); ++i) {
            const long double exact =
                std::pow(static_cast<long double>(values[i]), static_cast<long double>(exponent));
            ASSERT_LE(ulp_error(format_of(dtype), got[i], exact), 1)
                << values[i] << " to the power " << exponent << ", " << layout;
          }
        }
      }
    }
  }
}

// From the least subnormal to the largest number, with every sign of a result.
TEST(SimplePower, TheWholeRange) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const compare::Format format = format_of(dtype);
    std::vector<double> values = {0, -0.0, 1, infinity, -infinity, nan};
    for (int n = format.min_exponent - format.digits; n < format.max_exponent; ++n) {
      for (const double significand : {1.0, 1.25, 1.7320508075688772, 1.9999998}) {
        values.push_back(std::ldexp(significand, n));
        values.push_back(-std::ldexp(significand, n));
      }
    }
    const Tensor x = vector_of(values).to(dtype);
    values = values_of(x);
    for (const double exponent : exponents) {
      const std::vector<double> got = values_of(power(x, exponent));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const long double exact =
            std::pow(static_cast<long double>(values[i]), static_cast<long double>(exponent));
        ASSERT_LE(ulp_error(format, got[i], compare::rounded_to(format, exact)), 1)
            << values[i] << " to the power " << exponent << " in " << name(dtype);
      }
    }
  }
}

TEST(SimplePower, HalvesAreRoundedOnce) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = draw::uniform({3000}, -4, 4, 7).to(dtype);
    const std::vector<double> values = values_of(x);
    for (const double exponent : {-2.0, 3.0, 4.0}) {
      const std::vector<double> got = values_of(power(x, exponent));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const long double exact = std::pow(static_cast<long double>(values[i]), exponent);
        ASSERT_LE(ulp_error(format_of(dtype), got[i], exact), 0.5001) << values[i];
      }
    }
  }
}

TEST(SimplePower, Gradients) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = concatenate({vector_of({0, -0.0, 1e-12, -1e-12, 3, -3}),
                                  draw::uniform({200}, -4, 4, 5).to(DType::float64)})
                         .to(dtype);
    const Tensor g = draw::uniform(x.shape(), -1, 1, 6).to(dtype);
    const std::vector<double> values = values_of(x), of_results = values_of(g);
    const double eps = dtype == DType::float32 ? static_cast<float>(1e-10) : 1e-10;
    for (const double exponent : {-2.0, -1.0, 2.0, 3.0, 4.0, 5.0}) {
      const std::vector<double> got =
          values_of(power_backward(g, x, full({}, exponent, dtype)).first);
      for (std::size_t i = 0; i < values.size(); ++i) {
        double base = values[i];
        if (exponent < 1 && std::abs(base) < eps) base = base < 0 ? -eps : eps;
        const double exact = of_results[i] * exponent * std::pow(base, exponent - 1);
        ASSERT_LE(ulp_error(format_of(dtype), got[i], exact), 3)
            << values[i] << " to the power " << exponent;
      }
    }
  }
}

TEST(SimplePower, TheSameBitsForAnyNumberOfThreads) {
  const Tensor x = draw::uniform({300, 517}, 0.1, 3, 8).to(DType::float32);
  for (const double exponent : {-2.0, 0.5, 3.0}) {
    expect_same_for_any_threads([&] { return power(x, exponent); });
    expect_same_for_any_threads([&] { return power(x.transpose(), exponent); });
  }
}

// ---- sums of exponentials

// Also where the terms cancel, from one ULP to the whole value.
TEST(LogAddExp, NearZeroResults) {
  std::vector<double> first, second;
  const std::vector<double> parts = draw::uniform_values(4000, 0.01, 0.99, 23);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double distance = std::ldexp(1.0, -static_cast<int>(i % 30));
    first.push_back(static_cast<float>(std::log(parts[i])));
    second.push_back(static_cast<float>(std::log1p(-parts[i]) + (i % 2 == 0 ? 1 : -1) * distance));
  }
  const Tensor a = vector_of(first).to(DType::float32), b = vector_of(second).to(DType::float32);
  const std::vector<double> got = values_of(logaddexp(a, b)), swapped = values_of(logaddexp(b, a));
  for (std::size_t i = 0; i < first.size(); ++i) {
    const long double larger = std::max(first[i], second[i]);
    const long double exact = larger + std::log1p(std::exp(std::min(first[i], second[i]) - larger));
    ASSERT_LE(ulp_error(format_of(DType::float32), got[i], exact), 2)
        << first[i] << " " << second[i];
    ASSERT_EQ(got[i], swapped[i]);
  }
}

// ---- sums over axes around a kept one

TEST(ReducedRuns, ValuesOfEveryOpAndDtype) {
  for (const Shape& shape : std::vector<Shape>{
           {5, 3, 8}, {40, 1, 16}, {7, 6, 33}, {300, 4, 64}, {2, 3, 4, 9}, {3, 0, 8}, {1, 4, 64}}) {
    const Axes axes = shape.size() == 4 ? Axes({0, 2, 3}) : Axes({0, 2});
    const std::int64_t kept = shape[1];
    const std::int64_t inner = layouts::element_count(shape) / std::max<std::int64_t>(kept, 1);
    for (const DType dtype : {DType::float32, DType::float64, DType::int64, DType::bfloat16}) {
      for (const Layout layout : {Layout::contiguous, Layout::stepped, Layout::broadcast}) {
        if (!layouts::is_distinct(layout, shape)) continue;
        const Tensor drawn = draw::uniform(layouts::drawn_shape(layout, shape), -4, 4, 9);
        const Tensor x = layouts::with_layout(drawn.to(dtype), layout, shape);
        std::vector<double> sums(static_cast<std::size_t>(kept), 0.0);
        std::vector<double> largest(sums.size(), -infinity), least(sums.size(), infinity);
        const std::vector<double> values = values_of(x);
        const std::int64_t length = shape.size() == 4 ? shape[2] * shape[3] : shape[2];
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t to = i / static_cast<std::size_t>(length) % sums.size();
          sums[to] += values[i];
          largest[to] = std::max(largest[to], values[i]);
          least[to] = std::min(least[to], values[i]);
        }
        const std::vector<double> got = values_of(sum(x, axes));
        ASSERT_EQ(got.size(), sums.size());
        const double tolerance = dtype == DType::bfloat16  ? 4e-3
                                 : dtype == DType::float32 ? 1e-6
                                                           : 1e-14;
        for (std::size_t k = 0; k < sums.size(); ++k) {
          const double scale = static_cast<double>(inner) * 4;
          EXPECT_NEAR(got[k], sums[k], tolerance * std::max(scale, std::abs(sums[k])))
              << shape << name(dtype);
        }
        if (sums.empty()) continue;
        EXPECT_EQ(values_of(max_reduce(x, axes)), largest) << shape << name(dtype) << layout;
        EXPECT_EQ(values_of(min_reduce(x, axes)), least) << shape << name(dtype) << layout;
        const std::vector<double> means = values_of(mean(x, axes));
        for (std::size_t k = 0; k < sums.size(); ++k) {
          // The mean of integers is float32.
          EXPECT_NEAR(means[k], sums[k] / static_cast<double>(inner),
                      4 * (dtype == DType::int64 ? 1e-6 : tolerance))
              << shape << name(dtype);
        }
      }
    }
  }
}

TEST(ReducedRuns, TheSameBitsForAnyNumberOfThreads) {
  const Tensor x = draw::uniform({700, 6, 40}, -1, 1, 10).to(DType::float32);
  expect_same_for_any_threads([&] { return sum(x, {0, 2}); });
  expect_same_for_any_threads([&] { return norm(x, 2, {}); });
  expect_same_for_any_threads([&] { return norm(x, 1, {0, 2}); });
}

// ---- casts

TEST(DenseCast, EqualsTheCastOfSeparateElements) {
  const Tensor numbers = concatenate({vector_of({0, -0.0, 1, -1, 0.5, 300, -300, 1e6, 7e4}),
                                      draw::uniform({700}, -9, 9, 11).to(DType::float64)});
  for (const DType from : {DType::bool_, DType::uint8, DType::int32, DType::int64, DType::float16,
                           DType::bfloat16, DType::float32, DType::float64}) {
    const Tensor source = numbers.to(from);
    for (const DType to : {DType::bool_, DType::uint8, DType::int32, DType::int64, DType::float16,
                           DType::bfloat16, DType::float32, DType::float64}) {
      for (const std::int64_t start : {0, 1, 5}) {
        const Tensor dense = source.slice(0, start).clone();
        const Tensor spread = repeat_interleave(dense, 3).slice(0, {}, {}, 3);
        EXPECT_TRUE(identical(dense.to(to), spread.to(to))) << name(from) << " to " << name(to);
        EXPECT_TRUE(identical(source.slice(0, start).to(to), dense.to(to)));
      }
    }
  }
  EXPECT_EQ(values_of(tensor({true, false, true}).to(DType::float32)),
            (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(values_of(tensor({true, false}).to(DType::bfloat16)), (std::vector<double>{1, 0}));
}

// ---- gathers of few elements of many rows

TEST(Gather, FewOfEachOfManyRows) {
  for (const std::int64_t count : {1, 2, 3}) {
    const std::int64_t rows = 40000, length = 5;
    const Tensor x = arange(rows * length).reshape({rows, length});
    const Tensor indices = randint(0, length, {rows, count});
    const auto got = gather(x, 1, indices).to_vector<std::int64_t>();
    const auto positions = indices.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(i) / count;
      ASSERT_EQ(got[i], row * length + positions[i]) << i;
    }
  }
}

TEST(Gather, GradientOfOneOfEachRow) {
  const Tensor indices = tensor({2, 0, 3}).reshape({3, 1});
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor g = tensor({5, 6, 7}).to(dtype).reshape({3, 1});
    const std::vector<double> expected = {0, 0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 7};
    EXPECT_EQ(values_of(gather_backward(g, {3, 4}, 1, indices)), expected);
    EXPECT_EQ(values_of(gather_backward(g, {4, 4}, 1, indices).slice(0, 0, 3)), expected);
    EXPECT_EQ(values_of(take_along_axis_backward(g, {3, 4}, indices, 1)), expected);
  }
  // Gradients of a broadcast row are added.
  const Tensor of_row =
      take_along_axis_backward(ones({3, 1}), {1, 4}, tensor({2, 2, 3}).reshape({3, 1}), 1);
  EXPECT_EQ(values_of(of_row), (std::vector<double>{0, 0, 2, 1}));
}

// ---- edges

std::int64_t count_of(const std::vector<std::int64_t>& list) {
  return static_cast<std::int64_t>(list.size());
}

// The element that a position repeats, one step after the other.
std::int64_t walk_to(std::int64_t position, std::int64_t n, PadMode mode) {
  std::int64_t at = 0, step = position < 0 ? -1 : 1;
  for (std::int64_t k = 0; k < std::abs(position); ++k) {
    const bool leaves = at + step < 0 || at + step >= n;
    if (leaves && mode == PadMode::edge) break;
    if (leaves && mode == PadMode::wrap) {
      at = step < 0 ? n - 1 : 0;
      continue;
    }
    if (leaves && n == 1) break;
    if (leaves) step = -step;
    at += step;
  }
  return at;
}

TEST(Pad, EdgesOfEveryLayoutModeAndWidth) {
  for (const Shape& shape : std::vector<Shape>{{5}, {1, 3}, {3, 4}, {2, 3, 4, 5}, {0, 3}}) {
    for (const Layout layout : every_layout) {
      if (!layouts::is_distinct(layout, shape)) continue;
      const Tensor drawn = draw::uniform(layouts::drawn_shape(layout, shape), -1, 1, 22);
      const Tensor x = layouts::with_layout(drawn, layout, shape);
      for (const PadMode mode : {PadMode::edge, PadMode::wrap, PadMode::reflect}) {
        for (const auto& width :
             {std::pair<std::int64_t, std::int64_t>{1, 1}, {0, 2}, {7, 6}, {20, 30}, {0, 0}}) {
          const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
          Padding widths(shape.size(), {0, 0});
          widths.back() = width;
          if (shape[0] > 1 && width.first < 2) widths[0] = {1, 1};
          const Tensor padded = pad(x, widths, mode);
          Tensor expected = x;
          for (const std::int64_t d : {std::int64_t{0}, axis}) {
            const auto [before, behind] = widths[static_cast<std::size_t>(d)];
            const std::int64_t n = x.size(d);
            if (d == axis && axis == 0 && !(expected.shape() == x.shape())) break;
            std::vector<std::int64_t> from;
            for (std::int64_t at = -before; at < n + behind; ++at) {
              from.push_back(walk_to(at, n, mode));
            }
            if (n != 0) expected = take(expected, from_data(from, {count_of(from)}), d);
          }
          EXPECT_TRUE(identical(padded, expected)) << shape << layout << width.first;
        }
      }
    }
  }
}

// ---- searches

TEST(Search, EqualsAScanForEveryLengthAndDtype) {
  for (const std::int64_t length : {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64,
                              DType::int8, DType::uint8}) {
      // Few different numbers, so that many are equal.
      const Tensor rows = sort(draw::uniform({3, length}, -20, 20, 16).to(DType::int64).to(dtype));
      Tensor wanted = draw::uniform({3, 70}, -22, 22, 17).to(DType::int64).to(dtype);
      if (is_floating_point(dtype)) wanted.slice(1, 0, 1).fill(nan);
      for (const bool right : {false, true}) {
        const auto count = [&](const Tensor& row, double value) {
          std::int64_t before = 0;
          for (const double each : values_of(row)) {
            before += each < value || value != value || (right && each == value) ? 1 : 0;
          }
          return before;
        };
        const auto of_rows = searchsorted(rows, wanted, right).to_vector<std::int64_t>();
        const auto of_first = searchsorted(rows[0], wanted, right).to_vector<std::int64_t>();
        const std::vector<double> values = values_of(wanted);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto row = static_cast<std::int64_t>(i) / 70;
          ASSERT_EQ(of_rows[i], count(rows[row], values[i])) << values[i] << name(dtype) << length;
          ASSERT_EQ(of_first[i], count(rows[0], values[i])) << values[i] << name(dtype) << length;
        }
      }
    }
  }
}

// ---- gradients

// A sum passes on its gradient as a view; what a tensor keeps is its own.
TEST(ViewedGradient, OfSumAndMean) {
  Tensor x = draw::uniform({4, 6}, -1, 1, 12).to(DType::float32).requires_grad_();
  sum(x).backward();
  EXPECT_TRUE(x.grad().is_contiguous());
  EXPECT_EQ(values_of(x.grad()), std::vector<double>(24, 1));
  mean(x, 1).backward(tensor({6.0f, 12.0f, 18.0f, 24.0f}));
  EXPECT_EQ(values_of(x.grad().slice(1, 0, 1)), (std::vector<double>{2, 3, 4, 5}));

  const Tensor g = tensor({1.0f, 2.0f, 3.0f, 4.0f});
  Tensor explicit_gradient = sum_backward(g, {4, 6}, 1);
  explicit_gradient += 1;  // memory of its own
  EXPECT_EQ(values_of(g), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(values_of(explicit_gradient.slice(1, 5)), (std::vector<double>{2, 3, 4, 5}));

  // Through ops that read the view, and through the view itself.
  const Tensor of_squares = grad({sum(square(x), 1)}, {x}, {.grad_outputs = {g}})[0];
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t column = 0; column < 6; ++column) {
      EXPECT_EQ(of_squares[row][column].item<float>(),
                2 * static_cast<float>(row + 1) * x[row][column].item<float>());
    }
  }
  const Tensor product = matmul(x, ones({6, 3}));
  const Tensor of_product = grad({sum(product)}, {x})[0];
  EXPECT_EQ(values_of(of_product), std::vector<double>(24, 3));
}

TEST(ViewedGradient, OfASumOfOneElement) {
  Tensor x = ones({3, 1}).requires_grad_();
  Tensor g = tensor({1.0f, 2.0f, 3.0f});
  sum(x, 1).backward(g);
  x.grad() += 1;
  EXPECT_EQ(values_of(g), (std::vector<double>{1, 2, 3}));
}

TEST(SelectedGradient, OfSortAndTopk) {
  for (const std::int64_t axis : {0, 1}) {
    Tensor x = draw::uniform({30, 40}, -1, 1, 13).to(DType::float32).requires_grad_();
    const auto [values, indices] = sort_with_indices(x, axis);
    const Tensor g = draw::uniform({30, 40}, -1, 1, 14).to(DType::float32);
    EXPECT_TRUE(
        identical(grad({values}, {x}, {.grad_outputs = {g}})[0], sort_backward(g, indices, axis)));
    const auto [best, places] = topk(x, 3, axis);
    const Tensor of_best = draw::uniform(best.shape(), -1, 1, 15).to(DType::float32);
    EXPECT_TRUE(identical(grad({best}, {x}, {.grad_outputs = {of_best}})[0],
                          topk_backward(of_best, x.shape(), places, axis)));
  }
  Tensor number = full({}, 2.0f).requires_grad_();
  EXPECT_EQ(grad({sort(number)}, {number})[0].item<float>(), 1);
  EXPECT_EQ(grad({topk(number, 1).values}, {number})[0].item<float>(), 1);
  Tensor none = zeros({3, 0}).requires_grad_();
  EXPECT_EQ(grad({sort(none)}, {none}, {.grad_outputs = {zeros({3, 0})}})[0].shape(),
            (Shape{3, 0}));
}

TEST(SelectedGradient, OfTheMedian) {
  Tensor x = draw::uniform({4, 5, 6}, -1, 1, 18).requires_grad_();
  for (const bool keepdims : {false, true}) {
    for (const std::int64_t axis : {0, 1, 2, -1}) {
      const Tensor y = median(x, axis, keepdims);
      const Tensor g = draw::uniform(y.shape(), -1, 1, 19);
      const Tensor got = grad({y}, {x}, {.grad_outputs = {g}})[0];
      EXPECT_TRUE(identical(got.contiguous(), median_backward(g, x, axis).contiguous())) << axis;
    }
    const Tensor y = median(x, {}, keepdims);
    EXPECT_TRUE(identical(grad({y.sum()}, {x})[0], median_backward(ones({}, DType::float64), x)));
  }
  Tensor halves = draw::uniform({3, 7}, -1, 1, 20).to(DType::bfloat16).requires_grad_();
  EXPECT_EQ(grad({sum(median(halves, 1))}, {halves})[0].dtype(), DType::bfloat16);
  Tensor number = full({}, 2.0f).requires_grad_();
  EXPECT_EQ(grad({median(number)}, {number})[0].item<float>(), 1);
  // The second derivative of the squared median is 2 where the median is.
  Tensor rows = draw::uniform({3, 7}, -1, 1, 21).requires_grad_();
  const Tensor first = grad({sum(square(median(rows, 1)))}, {rows}, {.create_graph = true})[0];
  EXPECT_TRUE(identical(grad({sum(first)}, {rows})[0],
                        median_backward(full({3}, 2.0, DType::float64), rows, 1)));
}

TEST(SelectedGradient, OfTiedExtremesWithNaN) {
  const Tensor x = vector_of({1, 5, 5, nan, 2, nan, 3, 3, 0}).reshape({3, 3});
  const Tensor g = vector_of({6, 8, 10});
  const std::vector<double> largest = {0, 3, 3, 4, 0, 4, 5, 5, 0};
  EXPECT_EQ(values_of(max_reduce_backward(g, x, 1)), largest);
  const std::vector<double> least = {6, 0, 0, 4, 0, 4, 0, 0, 10};
  EXPECT_EQ(values_of(min_reduce_backward(g, x, 1)), least);
}

}  // namespace
}  // namespace extensor
