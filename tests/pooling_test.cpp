// Pooling beyond the samples of the op database: ties, NaN and infinities, layouts and numbers of
// threads.
#include "extensor/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "extensor/autograd.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using layouts::Layout;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

// The gradient of max_pool2d_backward with respect to grad_output.
Tensor at_winners(const Tensor& v, const Tensor& grad_output, const Tensor& x, const Size2d& kernel,
                  const MaxPool2dOptions& options = {}) {
  const Tensor g = grad_output.detach().requires_grad_();
  return grad({max_pool2d_backward(g, x, kernel, options)}, {g}, {.grad_outputs = {v}})[0];
}

// The fast path of 2 × 2 windows and the general one have the same results, including ties and NaN.
TEST(Pooling, PairsAgreeWithTheGeneralWay) {
  for (DType dtype : {DType::float32, DType::float64}) {
    for (std::int64_t width : {2, 3, 15, 16, 17, 32, 33, 34, 64, 70}) {
      Tensor x = randint(0, 3, {2, 3, 7, width}).to(dtype);  // few values, so many ties
      x[{0, 0, 2, 1}].fill(nan);
      x[{0, 1, 0, 0}].fill(-infinity);
      x[{1, 2, 1, width - 1}].fill(infinity);
      const Tensor y = max_pool2d(x, 2);
      const Tensor g = draw::uniform(y.shape(), -1, 1, 7).to(dtype);
      const Tensor got = max_pool2d_backward(g, x, 2);
      // The same maxima on the general path, by rows and then by columns.
      const Tensor rows = max_pool2d(x, {1, 2}, {.stride = Size2d{1, 2}});
      const Tensor both = max_pool2d(rows, {2, 1}, {.stride = Size2d{2, 1}});
      EXPECT_TRUE(identical(y, both)) << width;
      const auto values = values_of(x), gradients = values_of(g), result = values_of(got);
      const std::int64_t columns = width / 2;
      std::vector<double> expected(values.size(), 0.0);
      for (std::int64_t p = 0; p < 6; ++p) {
        for (std::int64_t i = 0; i < 3; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            std::size_t best = static_cast<std::size_t>((p * 7 + 2 * i) * width + 2 * j);
            for (std::int64_t k = 1; k < 4; ++k) {
              const auto at =
                  static_cast<std::size_t>((p * 7 + 2 * i + k / 2) * width + 2 * j + k % 2);
              if (values[at] > values[best] || values[at] != values[at]) best = at;
            }
            expected[best] = gradients[static_cast<std::size_t>((p * 3 + i) * columns + j)];
          }
        }
      }
      EXPECT_EQ(result, expected) << width;
      // The gradient of the backward selects the same elements: it is the adjoint.
      const Tensor u = draw::uniform(x.shape(), -1, 1, 8).to(dtype);
      const auto won = values_of(at_winners(u, g, x, 2)), given = values_of(u);
      for (std::size_t k = 0; k < won.size(); ++k) {
        const auto at = std::ranges::find(expected, gradients[k]) - expected.begin();
        EXPECT_EQ(won[k], given[static_cast<std::size_t>(at)]) << width << " at " << k;
      }
    }
  }
}

// Rows of windows of every stride, padding and dilation, next to a loop over each window.
TEST(Pooling, RowsOfWindowsAgreeWithEachWindow) {
  struct Window {
    std::int64_t kernel, stride, padding, dilation;
  };
  constexpr std::int64_t height = 6;
  for (const auto& [kernel, stride, padding, dilation] :
       {Window{3, 2, 1, 1}, Window{3, 1, 1, 1}, Window{2, 2, 1, 1}, Window{3, 2, 0, 2},
        Window{3, 3, 1, 1}, Window{2, 1, 0, 3}, Window{5, 2, 2, 1}, Window{1, 2, 0, 1}}) {
    for (std::int64_t width : {5, 7, 8, 9, 16, 17, 18, 33, 34, 35, 66, 67}) {
      Tensor x = randint(0, 4, {1, 2, height, width}).to(DType::float32);  // few values: many ties
      x[{0, 1, 2, width / 2}].fill(nan);
      x[{0, 0, 0, width - 1}].fill(infinity);
      x[{0, 0, 3}].fill(-infinity);
      const MaxPool2dOptions options{.stride = stride, .padding = padding, .dilation = dilation};
      const Tensor y = max_pool2d(x, kernel, options);
      const Tensor g = randint(1, 9, y.shape()).to(DType::float32);  // sums are exact
      const auto values = values_of(x), gradients = values_of(g);
      const std::int64_t rows = y.size(2), columns = y.size(3);
      std::vector<double> largest, spread(values.size(), 0.0);
      for (std::int64_t window = 0; window < y.numel(); ++window) {
        const std::int64_t plane = window / (rows * columns);
        const std::int64_t top = window / columns % rows * stride - padding;
        const std::int64_t left = window % columns * stride - padding;
        std::int64_t best = -1;
        for (std::int64_t tap = 0; tap < kernel * kernel; ++tap) {
          const std::int64_t r = top + tap / kernel * dilation, c = left + tap % kernel * dilation;
          if (r < 0 || r >= height || c < 0 || c >= width) continue;
          const std::int64_t at = (plane * height + r) * width + c;
          const double value = values[static_cast<std::size_t>(at)];
          if (best < 0 || value > values[static_cast<std::size_t>(best)] || value != value) {
            best = at;
          }
        }
        largest.push_back(values[static_cast<std::size_t>(best)]);
        spread[static_cast<std::size_t>(best)] += gradients[static_cast<std::size_t>(window)];
      }
      EXPECT_TRUE(identical(y, from_data(largest).reshape(y.shape()).to(DType::float32)))
          << kernel << "/" << stride << ", width " << width;
      EXPECT_EQ(values_of(max_pool2d_backward(g, x, kernel, options)), spread)
          << kernel << "/" << stride << ", width " << width;
    }
  }
}

TEST(Pooling, FirstOfEqualMaximaGetsTheGradient) {
  const Tensor x = zeros({1, 1, 4, 4});
  const Tensor g = tensor({1., 2., 3., 4.}).reshape({1, 1, 2, 2});
  EXPECT_EQ(max_pool2d_backward(g, x, 2).to_vector<float>(),
            (std::vector<float>{1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0}));
  const Tensor overlapping = max_pool2d_backward(ones({1, 1, 2, 2}), x, 3, {.stride = 1});
  EXPECT_EQ(overlapping.to_vector<float>(),
            (std::vector<float>{1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Pooling, NanPropagates) {
  for (DType dtype : float_dtypes) {
    Tensor x = ones({1, 1, 6, 6}, dtype);
    x[{0, 0, 3, 3}].fill(nan);
    for (const auto& [kernel, stride] : {std::pair{2, 2}, std::pair{3, 3}, std::pair{3, 1}}) {
      const Tensor y = max_pool2d(x, kernel, {.stride = stride});
      for (std::int64_t i = 0; i < y.size(2); ++i) {
        for (std::int64_t j = 0; j < y.size(3); ++j) {
          const bool reads = i * stride <= 3 && 3 < i * stride + kernel && j * stride <= 3 &&
                             3 < j * stride + kernel;
          const double value = y[{0, 0, i, j}].item<double>();
          EXPECT_EQ(value != value, reads) << kernel << " at " << i << " " << j;
        }
      }
    }
  }
}

TEST(Pooling, WindowOfMinusInfinity) {
  const Tensor x = full({1, 1, 2, 2}, -infinity);
  EXPECT_EQ(max_pool2d(x, 2).to_vector<float>(),
            std::vector<float>{-std::numeric_limits<float>::infinity()});
  EXPECT_EQ(max_pool2d_backward(ones({1, 1, 1, 1}), x, 2).to_vector<float>(),
            (std::vector<float>{1, 0, 0, 0}));
  const Tensor u = tensor({5., 6., 7., 8.}).reshape({1, 1, 2, 2});
  EXPECT_EQ(at_winners(u, ones({1, 1, 1, 1}), x, 2).to_vector<float>(), std::vector<float>{5});
  // A dilated window may lie outside x completely; its gradient is dropped.
  const Tensor one = ones({1, 1, 1, 1});
  const MaxPool2dOptions options{.padding = 1, .dilation = 2};
  EXPECT_EQ(max_pool2d(one, 2, options).to_vector<float>(),
            std::vector<float>{-std::numeric_limits<float>::infinity()});
  EXPECT_EQ(max_pool2d_backward(one, one, 2, options).to_vector<float>(), std::vector<float>{0});
  EXPECT_EQ(at_winners(one, one, one, 2, options).to_vector<float>(), std::vector<float>{0});
}

// x has no rows, but the windows cover the padding.
TEST(Pooling, WindowsOfPaddingAlone) {
  const Tensor x = ones({1, 1, 0, 2});
  EXPECT_EQ(max_pool2d(x, 2, {.padding = 1}).to_vector<float>(),
            std::vector<float>(2, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(avg_pool2d(x, 2, {.padding = 1}).to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(Pooling, SameBitsForAnyNumberOfThreadsAndAnyLayout) {
  const int before = get_num_threads();
  const Shape shape{5, 7, 34, 37};
  const Tensor x = draw::uniform(shape, -1, 1, 1).to(DType::float32);
  for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::stepped}) {
    const Tensor laid_out = layouts::with_layout(x, layout, shape);
    set_num_threads(1);
    const Tensor largest = max_pool2d(x, 3, {.stride = 2, .padding = 1});
    const Tensor mean = avg_pool2d(x, 3, {.stride = 2, .padding = 1});
    const Tensor gradient = max_pool2d_backward(largest, x, 3, {.stride = 2, .padding = 1});
    const Tensor spread = avg_pool2d_backward(mean, shape, 3, {.stride = 2, .padding = 1});
    for (int threads : {1, 2, 5}) {
      set_num_threads(threads);
      EXPECT_TRUE(identical(max_pool2d(laid_out, 3, {.stride = 2, .padding = 1}), largest));
      EXPECT_TRUE(identical(avg_pool2d(laid_out, 3, {.stride = 2, .padding = 1}), mean));
      EXPECT_TRUE(identical(max_pool2d_backward(largest, laid_out, 3, {.stride = 2, .padding = 1}),
                            gradient));
      EXPECT_TRUE(
          identical(avg_pool2d_backward(mean, shape, 3, {.stride = 2, .padding = 1}), spread));
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace extensor
