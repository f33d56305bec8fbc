// Convolutions beyond the samples of the op database: each algorithm compared with plain loops, and
// identical bits for any number of threads and any layout.
#include "extensor/convolution.h"

#include <gtest/gtest.h>

#include "op_database/check.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using layouts::Layout;
using op_database::tolerance_of;

// Relative to the largest expected element.
void expect_close(const std::vector<double>& got, const std::vector<double>& expected,
                  double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0, worst = 0;
  for (double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - expected[i]);
    worst = error <= worst ? worst : error;  // lets a NaN through
  }
  EXPECT_LE(worst, tolerance * largest) << what;
}

// ---- every algorithm

struct Case {
  Shape x, weight;
  Conv2dOptions options;
};

std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << "x " << c.x << " weight " << c.weight << " stride " << c.options.stride.height
                << " padding " << c.options.padding.height << " " << c.options.padding.width
                << " dilation " << c.options.dilation.height << " groups " << c.options.groups;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {{2, 16, 12, 13}, {16, 16, 3, 3}, {.padding = 1}},
      {{3, 17, 8, 8}, {33, 17, 3, 3}, {.padding = 1}},
      {{1, 64, 17, 19}, {40, 64, 3, 3}, {.padding = {0, 2}}},
      {{2, 32, 35, 6}, {16, 32, 3, 3}, {.padding = {2, 0}}},
      {{9, 24, 4, 4}, {24, 24, 3, 3}, {.padding = 1}},
      {{5, 16, 3, 3}, {16, 16, 3, 3}, {}},
      {{2, 32, 9, 9}, {48, 16, 3, 3}, {.padding = 1, .groups = 2}},
      {{1, 16, 70, 5}, {17, 16, 3, 3}, {.padding = 1}},
      {{4, 1, 28, 28}, {6, 1, 5, 5}, {}},
      {{3, 1, 28, 28}, {6, 1, 5, 5}, {.padding = 2}},
      {{2, 3, 31, 29}, {8, 3, 3, 3}, {.padding = 1}},
      {{2, 3, 31, 40}, {16, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {{2, 6, 14, 14}, {16, 6, 5, 5}, {}},
      {{2, 2, 33, 65}, {3, 2, 2, 4}, {.padding = {1, 3}}},
      {{2, 3, 20, 20}, {5, 3, 3, 3}, {.padding = 2, .dilation = 2}},
      {{2, 20, 28, 28}, {20, 1, 3, 3}, {.padding = 1, .groups = 20}},
      {{2, 7, 15, 50}, {7, 1, 3, 3}, {.groups = 7}},
      {{3, 5, 9, 9}, {5, 1, 5, 5}, {.padding = 2, .groups = 5}},
      {{2, 6, 17, 33}, {6, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 6}},
      {{2, 4, 12, 12}, {8, 1, 3, 3}, {.padding = 1, .groups = 4}},
      {{2, 4, 3, 70}, {4, 1, 3, 3}, {.padding = 1, .groups = 4}},
      {{2, 40, 14, 14}, {24, 40, 1, 1}, {}},
      {{3, 16, 7, 9}, {8, 8, 1, 1}, {.groups = 2}},
      {{2, 19, 11, 9}, {21, 19, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 6, 8, 34}, {5, 6, 2, 2}, {.stride = 2}},
      {{2, 3, 12, 10}, {20, 3, 3, 5}, {.stride = {3, 5}}},
      {{3, 8, 16, 8}, {32, 4, 4, 4}, {.stride = 4, .groups = 2}},
      {{2, 3, 9, 80}, {18, 3, 4, 5}, {.stride = {2, 2}, .padding = {1, 2}}},
      {{2, 3, 9, 80}, {18, 3, 2, 7}, {.stride = {1, 3}, .padding = {1, 2}}},
      {{2, 130, 6, 6}, {14, 130, 3, 3}, {.padding = 1, .dilation = 2}},
      {{1, 72, 7, 7}, {67, 72, 3, 3}, {.padding = 1}},
      {{3, 18, 7, 5}, {90, 18, 3, 3}, {.padding = 1}},
      {{7, 16, 13, 14}, {26, 16, 3, 3}, {.padding = 1}},
      {{2, 18, 13, 16}, {17, 18, 3, 3}, {.padding = 2, .dilation = 2}},
      {{1, 16, 30, 31}, {20, 16, 3, 3}, {.padding = {3, 0}, .dilation = {3, 1}}},
      {{1, 32, 21, 27}, {32, 16, 3, 3}, {.padding = {1, 7}, .dilation = {2, 3}, .groups = 2}},
      {{9, 40, 5, 7}, {23, 40, 3, 3}, {.stride = 2, .padding = 1}},
      {{7, 24, 7, 7}, {48, 24, 1, 3}, {.padding = {0, 1}}},
      {{6, 20, 3, 3}, {130, 10, 2, 2}, {.padding = 1, .groups = 2}},
      {{1, 70, 9, 9}, {140, 70, 3, 3}, {.stride = 2}},
      {{2, 12, 17, 33}, {12, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 12}},
      {{2, 5, 21, 20}, {5, 1, 7, 7}, {.padding = 3, .groups = 5}},
      {{2, 5, 9, 40}, {5, 1, 3, 3}, {.stride = 2, .padding = 2, .dilation = 2, .groups = 5}},
      {{2, 4, 16, 35}, {4, 1, 5, 5}, {.padding = {2, 1}, .groups = 4}},
      {{2, 24, 14, 15}, {40, 24, 1, 1}, {.stride = 2}},
      {{2, 12, 13, 15}, {20, 12, 5, 4}, {.stride = {3, 4}, .padding = {2, 1}, .dilation = {2, 3}}},
      {{2, 12, 13, 15}, {20, 12, 3, 3}, {.stride = {2, 4}, .padding = 1, .dilation = {4, 2}}},
      {{3, 10, 3, 2}, {12, 10, 3, 3}, {.stride = 5, .padding = 2}},
      {{2, 16, 12, 12}, {17, 16, 6, 6}, {.stride = 2, .padding = 2}},
      {{2, 18, 9, 11}, {18, 9, 4, 4}, {.stride = 2, .padding = 1, .groups = 2}},
      {{1, 5, 9, 9}, {5, 1, 5, 5}, {.stride = 2, .padding = 3, .groups = 5}},
      {{1, 5, 9, 30}, {5, 1, 2, 2}, {.stride = 2, .padding = 1, .groups = 5}},
      {{1, 5, 10, 27}, {5, 1, 3, 3}, {.stride = 2, .groups = 5}},
      {{2, 19, 8, 8}, {19, 1, 3, 3}, {.padding = 1, .groups = 19}},
      {{3, 33, 9, 7}, {33, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 33}},
      {{1, 16, 6, 5}, {16, 1, 3, 3}, {.padding = 2, .dilation = 2, .groups = 16}},
  };
  return list;
}

struct Exact {
  std::vector<double> y, x, weight;
};

// All three products in one loop nest: each pair of x and weight that meets in y adds to all of
// them.
Exact plain_loops(const Case& c, const Tensor& x, const Tensor& weight, const Tensor& g) {
  const auto xv = values_of(x), wv = values_of(weight), gv = values_of(g);
  Exact exact{std::vector<double>(gv.size()), std::vector<double>(xv.size()),
              std::vector<double>(wv.size())};
  const Conv2dOptions& o = c.options;
  const std::int64_t filters = weight.size(0), per_group = weight.size(1);
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    for (std::int64_t f = 0; f < filters; ++f) {
      const std::int64_t first = f / (filters / o.groups) * per_group;
      for (std::int64_t i = 0; i < g.size(2); ++i) {
        for (std::int64_t j = 0; j < g.size(3); ++j) {
          const auto at_y =
              static_cast<std::size_t>(((n * filters + f) * g.size(2) + i) * g.size(3) + j);
          for (std::int64_t k = 0; k < per_group; ++k) {
            for (std::int64_t r = 0; r < weight.size(2); ++r) {
              const std::int64_t row =
                  i * o.stride.height + r * o.dilation.height - o.padding.height;
              if (row < 0 || row >= x.size(2)) continue;
              for (std::int64_t s = 0; s < weight.size(3); ++s) {
                const std::int64_t column =
                    j * o.stride.width + s * o.dilation.width - o.padding.width;
                if (column < 0 || column >= x.size(3)) continue;
                const auto at_x = static_cast<std::size_t>(
                    ((n * x.size(1) + first + k) * x.size(2) + row) * x.size(3) + column);
                const auto at_w = static_cast<std::size_t>(
                    ((f * per_group + k) * weight.size(2) + r) * weight.size(3) + s);
                exact.y[at_y] += xv[at_x] * wv[at_w];
                exact.x[at_x] += gv[at_y] * wv[at_w];
                exact.weight[at_w] += gv[at_y] * xv[at_x];
              }
            }
          }
        }
      }
    }
  }
  return exact;
}

TEST(Convolution, EveryRouteMatchesPlainLoops) {
  unsigned seed = 50;
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message() << c);
    for (DType dtype : {DType::float32, DType::float64}) {
      const Tensor x = draw::uniform(c.x, -1, 1, ++seed).to(dtype);
      const Tensor weight = draw::uniform(c.weight, -1, 1, ++seed).to(dtype);
      const Tensor y = conv2d(x, weight, {}, c.options);
      const Tensor g = draw::uniform(y.shape(), -1, 1, ++seed).to(dtype);
      const Exact exact = plain_loops(c, x, weight, g);
      const ConvolutionGradients got = conv2d_backward(g, x, weight, c.options);
      expect_close(values_of(y), exact.y, tolerance_of(dtype), "y");
      expect_close(values_of(got.x), exact.x, tolerance_of(dtype), "x");
      expect_close(values_of(got.weight), exact.weight, tolerance_of(dtype), "weight");
      const Tensor bias = draw::uniform({c.weight[0]}, -1, 1, ++seed).to(dtype);
      EXPECT_LE(max_reduce(abs(subtract(conv2d(x, weight, bias, c.options),
                                        add(y, bias.reshape({c.weight[0], 1, 1})))))
                    .item<double>(),
                tolerance_of(dtype) * 64);
    }
  }
}

TEST(Convolution, SameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  unsigned seed = 900;
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const Tensor x = draw::uniform(c.x, -1, 1, ++seed).to(DType::float32);
    const Tensor weight = draw::uniform(c.weight, -1, 1, ++seed).to(DType::float32);
    set_num_threads(1);
    const Tensor y = conv2d(x, weight, {}, c.options);
    const ConvolutionGradients one = conv2d_backward(y, x, weight, c.options);
    for (int threads : {2, 3, 7}) {
      set_num_threads(threads);
      EXPECT_TRUE(identical(conv2d(x, weight, {}, c.options), y)) << threads;
      const ConvolutionGradients many = conv2d_backward(y, x, weight, c.options);
      EXPECT_TRUE(identical(many.x, one.x)) << threads;
      EXPECT_TRUE(identical(many.weight, one.weight)) << threads;
      EXPECT_TRUE(identical(many.bias, one.bias)) << threads;
    }
  }
  set_num_threads(before);
}

// Small images are multiplied together, large filters are transformed for some images at a time.
TEST(Convolution, EachImageHasTheBitsItHasAlone) {
  for (const Case& c : {Case{{17, 256, 8, 8}, {256, 256, 3, 3}, {.padding = 1}},
                        Case{{9, 40, 7, 7}, {50, 40, 3, 3}, {.stride = 2, .padding = 1}},
                        Case{{5, 18, 4, 20}, {33, 18, 3, 3}, {.padding = 2, .dilation = 2}}}) {
    SCOPED_TRACE(::testing::Message() << c);
    const Tensor x = draw::uniform(c.x, -1, 1, 1).to(DType::float32);
    const Tensor weight = draw::uniform(c.weight, -1, 1, 2).to(DType::float32);
    const Tensor y = conv2d(x, weight, {}, c.options);
    const Tensor gradient = conv2d_backward(y, x, weight, c.options, {true, false, false}).x;
    for (std::int64_t n = 0; n < c.x[0]; ++n) {
      const Tensor image = x.slice(0, n, n + 1);
      const Tensor alone = conv2d(image, weight, {}, c.options);
      EXPECT_TRUE(identical(alone, y.slice(0, n, n + 1))) << n;
      EXPECT_TRUE(
          identical(conv2d_backward(alone, image, weight, c.options, {true, false, false}).x,
                    gradient.slice(0, n, n + 1)))
          << n;
    }
  }
}

// One large image, many images: the weight gradient sums over 50,000 pixels.
TEST(Convolution, LongSumsStayAccurate) {
  for (const Case& c : {Case{{12, 1, 64, 64}, {6, 1, 5, 5}, {}},
                        Case{{4, 16, 110, 110}, {16, 16, 3, 3}, {.padding = 1}},
                        Case{{48, 3, 32, 32}, {3, 1, 3, 3}, {.padding = 1, .groups = 3}}}) {
    SCOPED_TRACE(::testing::Message() << c);
    const Tensor x = draw::uniform(c.x, 0, 1, 1).to(DType::float32);
    const Tensor weight = draw::uniform(c.weight, 0, 1, 2).to(DType::float32);
    const Tensor g =
        draw::uniform(conv2d(x, weight, {}, c.options).shape(), 0, 1, 3).to(DType::float32);
    const ConvolutionGradients got = conv2d_backward(g, x, weight, c.options);
    const ConvolutionGradients exact = conv2d_backward(g.to(DType::float64), x.to(DType::float64),
                                                       weight.to(DType::float64), c.options);
    expect_close(values_of(got.x), values_of(exact.x), 1.3e-6, "x");
    expect_close(values_of(got.weight), values_of(exact.weight), 1.3e-6, "weight");
    expect_close(values_of(got.bias), values_of(exact.bias), 1.3e-6, "bias");
  }
}

TEST(Convolution, ReadsAnyLayout) {
  const Shape x_shape{2, 3, 6, 5}, weight_shape{4, 3, 3, 3}, g_shape{2, 4, 6, 5};
  const Conv2dOptions options{.padding = 1};
  for (Layout layout : layouts::every_layout) {
    SCOPED_TRACE(::testing::Message() << layout);
    const auto drawn = [&](const Shape& shape, unsigned seed) {
      return layouts::with_layout(draw::uniform(layouts::drawn_shape(layout, shape), -1, 1, seed),
                                  layout, shape);
    };
    const Tensor x = drawn(x_shape, 1), w = drawn(weight_shape, 2), g = drawn(g_shape, 3);
    // Sums in another format are rounded in another order; memory_format_test compares the two.
    const auto copy = [&](const Tensor& from) {
      return layout == Layout::channels_last ? from.clone() : from.contiguous();
    };
    EXPECT_TRUE(identical(conv2d(x, w, {}, options), conv2d(copy(x), copy(w), {}, options)));
    const auto got = conv2d_backward(g, x, w, options);
    const auto dense = conv2d_backward(copy(g), copy(x), copy(w), options);
    EXPECT_TRUE(identical(got.x, dense.x));
    EXPECT_TRUE(identical(got.weight, dense.weight));
    EXPECT_TRUE(identical(got.bias, dense.bias));
  }
}

TEST(Convolution, GivesOnlyTheGradientsAskedFor) {
  const Tensor x = ones({1, 2, 4, 4}), w = ones({3, 2, 3, 3}), g = ones({1, 3, 2, 2});
  for (int mask = 0; mask < 8; ++mask) {
    const WantedGradients wanted = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
    const ConvolutionGradients got = conv2d_backward(g, x, w, {}, wanted);
    EXPECT_EQ(got.x.defined(), wanted[0]);
    EXPECT_EQ(got.weight.defined(), wanted[1]);
    EXPECT_EQ(got.bias.defined(), wanted[2]);
  }
  EXPECT_EQ(conv2d_backward(g, x, w).bias.to_vector<float>(), std::vector<float>(3, 4.0F));
}

TEST(Convolution, MixedDtypesPromote) {
  const Tensor x = ones({1, 2, 4, 4}, DType::float16), w = ones({3, 2, 3, 3}, DType::float64);
  EXPECT_EQ(conv2d(x, w).dtype(), DType::float64);
  const auto gradients = conv2d_backward(ones({1, 3, 2, 2}, DType::float32), x, w);
  EXPECT_EQ(gradients.x.dtype(), DType::float16);
  EXPECT_EQ(gradients.weight.dtype(), DType::float64);
  EXPECT_EQ(conv2d(x, w.to(DType::bfloat16)).dtype(), DType::float32);
}

// NaN and infinity reach exactly the results that read them.
TEST(Convolution, SpecialValuesStayWhereTheyBelong) {
  for (const Case& c : {Case{{1, 16, 10, 10}, {16, 16, 3, 3}, {.padding = 1}},
                        Case{{1, 1, 10, 40}, {2, 1, 3, 3}, {.padding = 1}},
                        Case{{1, 4, 10, 10}, {4, 1, 3, 3}, {.padding = 1, .groups = 4}}}) {
    SCOPED_TRACE(::testing::Message() << c);
    Tensor x = ones(c.x);
    x[{0, 0, 5, 5}].fill(std::numeric_limits<double>::quiet_NaN());
    const Tensor y = conv2d(x, ones(c.weight), {}, c.options);
    for (std::int64_t i = 0; i < 10; ++i) {
      for (std::int64_t j = 0; j < c.x[3]; ++j) {
        const bool reads = i >= 4 && i <= 6 && j >= 4 && j <= 6;
        const double value = y[{0, 0, i, j}].item<double>();
        EXPECT_EQ(value != value, reads) << i << " " << j;
      }
    }
  }
}

// A NaN in the corner of x meets only one tap of the filters.
TEST(Convolution, SpecialValuesReachOnlyTheirWeights) {
  for (const Case& c :
       {Case{{2, 16, 10, 12}, {16, 16, 3, 3}, {}}, Case{{1, 1, 10, 40}, {2, 1, 3, 3}, {}},
        Case{{2, 20, 9, 9}, {17, 20, 3, 3}, {.stride = 2}},
        Case{{1, 4, 10, 10}, {4, 1, 3, 3}, {.groups = 4}}}) {
    SCOPED_TRACE(::testing::Message() << c);
    Tensor x = ones(c.x);
    x[{0, 0, 0, c.x[3] - 1}].fill(std::numeric_limits<double>::quiet_NaN());
    const Tensor weight = ones(c.weight);
    const Tensor g = ones(conv2d(x, weight, {}, c.options).shape());
    const Tensor gradient = conv2d_backward(g, x, weight, c.options, {false, true, false}).weight;
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t s = 0; s < 3; ++s) {
        const double value = gradient[{0, 0, r, s}].item<double>();
        const bool meets = r == 0 && (c.x[3] - 1 - s) % c.options.stride.width == 0 && s == 2;
        EXPECT_EQ(value != value, meets) << r << " " << s;
      }
    }
  }
}

}  // namespace
}  // namespace extensor
