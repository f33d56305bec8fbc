// Resampling beyond the samples of the op database: known numbers, large images, layouts, numbers
// of threads, invalid options.
#include "extensor/interpolation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using compare::identical;
using test_support::expect_error;
using enum InterpolateMode;

const Tensor square_image = tensor({1.0, 2.0, 3.0, 4.0}).reshape({1, 1, 2, 2});

// The numbers of PyTorch's documentation of Upsample.
TEST(Interpolate, HasTheNumbersOfPyTorchsDocumentation) {
  EXPECT_TRUE(allclose(
      interpolate(square_image, {.scale_factor = 2}),
      tensor(
          {{1.0, 1.0, 2.0, 2.0}, {1.0, 1.0, 2.0, 2.0}, {3.0, 3.0, 4.0, 4.0}, {3.0, 3.0, 4.0, 4.0}})
          .reshape({1, 1, 4, 4})));
  EXPECT_TRUE(allclose(interpolate(square_image, {.scale_factor = 2, .mode = bilinear}),
                       tensor({{1.0, 1.25, 1.75, 2.0},
                               {1.5, 1.75, 2.25, 2.5},
                               {2.5, 2.75, 3.25, 3.5},
                               {3.0, 3.25, 3.75, 4.0}})
                           .reshape({1, 1, 4, 4})));
  const double third = 1.0 / 3;
  EXPECT_TRUE(allclose(
      interpolate(square_image, {.scale_factor = 2, .mode = bilinear, .align_corners = true}),
      tensor({{1.0, 1 + third, 2 - third, 2.0},
              {2 - third, 2.0, 2 + third, 3 - third},
              {2 + third, 3 - third, 3.0, 3 + third},
              {3.0, 3 + third, 4 - third, 4.0}})
          .reshape({1, 1, 4, 4})));
}

TEST(Interpolate, SameSizeChangesNothing) {
  const Tensor x = draw::uniform({2, 3, 5, 7}, -2, 2, 1);
  for (InterpolateMode mode : {nearest, nearest_exact, bilinear, bicubic}) {
    EXPECT_TRUE(identical(interpolate(x, {.size = Size2d{5, 7}, .mode = mode}), x));
  }
}

// Bilinear keeps planes, away from the edges.
TEST(Interpolate, BilinearReproducesPlanes) {
  const auto plane = [](const Tensor& at) {
    const std::int64_t n = at.size(0);
    return at.reshape({1, 1, n, 1}) + 2 * at.reshape({1, 1, 1, n});
  };
  const Tensor places = (arange(0, 24, 1, float64) + 0.5) / 2 - 0.5;
  const auto inner = [](const Tensor& x) { return x.slice(2, 2, 22).slice(3, 2, 22); };
  const Tensor y =
      interpolate(plane(arange(0, 12, 1, float64)), {.scale_factor = 2, .mode = bilinear});
  EXPECT_TRUE(allclose(inner(y), inner(plane(places)), 1e-13, 1e-13));
}

// A single bright pixel shows the weights: Keys' cubic with a = −3/4 at distances 1/4, 3/4 …
TEST(Interpolate, BicubicHasPyTorchsWeights) {
  Tensor x = zeros({1, 1, 1, 8}, float64);
  x[{0, 0, 0, 3}].fill(1);
  const Tensor y = interpolate(x, {.size = Size2d{1, 16}, .mode = bicubic});
  const std::vector<double> expected = {0,           0,           0,           -0.03515625,
                                        -0.10546875, 0.26171875,  0.87890625,  0.87890625,
                                        0.26171875,  -0.10546875, -0.03515625, 0,
                                        0,           0,           0,           0};
  EXPECT_TRUE(allclose(y.flatten(), from_data(expected), 1e-14, 1e-15)) << y;
}

// Images that need several blocks, both orders of the axes and vectors with remainders.
TEST(Interpolate, LargeImagesAgreeWithLoops) {
  const struct {
    std::int64_t in_height, in_width, out_height, out_width;
  } cases[] = {{70, 301, 211, 77}, {133, 40, 61, 515}, {9, 2000, 500, 67}, {64, 64, 128, 128}};
  for (const auto& c : cases) {
    const Tensor x = draw::uniform({2, 2, c.in_height, c.in_width}, -1, 1, 5).to(float32);
    const Tensor y = interpolate(x, {.size = Size2d{c.out_height, c.out_width}, .mode = bilinear});
    const auto values = x.to(float64).to_vector<double>(), got = y.to(float64).to_vector<double>();
    const auto side = [](std::int64_t i, std::int64_t in, std::int64_t out) {
      const double at = std::max(
          0.0, (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) -
                   0.5);
      const auto low = static_cast<std::int64_t>(at);
      return std::tuple(low, std::min(low + 1, in - 1), at - static_cast<double>(low));
    };
    double worst = 0;
    for (std::int64_t p = 0; p < 4; ++p) {
      for (std::int64_t i = 0; i < c.out_height; ++i) {
        const auto [top, bottom, v] = side(i, c.in_height, c.out_height);
        for (std::int64_t j = 0; j < c.out_width; ++j) {
          const auto [left, right, u] = side(j, c.in_width, c.out_width);
          const auto at = [&](std::int64_t r, std::int64_t s) {
            return values[static_cast<std::size_t>((p * c.in_height + r) * c.in_width + s)];
          };
          const double expected = (1 - v) * ((1 - u) * at(top, left) + u * at(top, right)) +
                                  v * ((1 - u) * at(bottom, left) + u * at(bottom, right));
          worst = std::max(
              worst,
              std::fabs(expected -
                        got[static_cast<std::size_t>((p * c.out_height + i) * c.out_width + j)]));
        }
      }
    }
    EXPECT_LT(worst, 5e-7) << c.in_height << " " << c.in_width;
  }
}

// <A x, g> = <x, Aᵀ g> for sizes that need several blocks.
TEST(Interpolate, TheGradientIsTheTranspose) {
  for (InterpolateMode mode : {nearest, nearest_exact, bilinear, bicubic}) {
    for (const auto& [in, out] : {std::pair<Size2d, Size2d>{{70, 131}, {211, 67}},
                                  {{133, 40}, {61, 515}},
                                  {{6, 900}, {300, 300}}}) {
      const InterpolateOptions options{.size = out, .mode = mode};
      const Tensor x = draw::uniform({1, 2, in.height, in.width}, -1, 1, 1);
      const Tensor g = draw::uniform({1, 2, out.height, out.width}, -1, 1, 2);
      const double left = sum(interpolate(x, options) * g).item<double>();
      const double right = sum(x * interpolate_backward(g, x.shape(), options)).item<double>();
      EXPECT_NEAR(left, right, 1e-9);
    }
  }
}

TEST(Interpolate, ChannelsLastAndThreadsChangeNothing) {
  const int threads = get_num_threads();
  for (InterpolateMode mode : {nearest, bilinear, bicubic}) {
    const InterpolateOptions options{.size = Size2d{61, 45}, .mode = mode};
    const Tensor x = draw::uniform({3, 5, 40, 33}, -1, 1, 3).to(float32);
    const Tensor last = x.contiguous(MemoryFormat::channels_last);
    const Tensor y = interpolate(x, options), g = draw::uniform(y.shape(), -1, 1, 4).to(float32);
    const Tensor of_x = interpolate_backward(g, x.shape(), options);
    EXPECT_TRUE(interpolate(last, options).is_contiguous(MemoryFormat::channels_last));
    EXPECT_TRUE(allclose(interpolate(last, options), y, 1e-6, 1e-6));
    EXPECT_TRUE(allclose(
        interpolate_backward(g.contiguous(MemoryFormat::channels_last), x.shape(), options), of_x,
        1e-5, 1e-6));
    set_num_threads(1);
    EXPECT_TRUE(identical(interpolate(x, options), y));
    EXPECT_TRUE(identical(interpolate_backward(g, x.shape(), options), of_x));
    set_num_threads(threads);
  }
}

// Rows shorter and longer than vectors and windows, and factors of which the elements of a vector
// are close together or far apart. Channels last has other kernels.
TEST(Interpolate, RowsOfEveryLengthAgreeWithChannelsLast) {
  for (const std::int64_t in : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 34, 63, 65, 130}) {
    for (const double factor : {0.05, 0.2, 0.47, 0.5, 0.9, 1.0, 1.3, 2.0, 3.5, 16.0}) {
      const auto out = std::max<std::int64_t>(1, static_cast<std::int64_t>(factor * in));
      for (InterpolateMode mode : {nearest, nearest_exact, bilinear, bicubic}) {
        const InterpolateOptions options{.size = Size2d{3, out}, .mode = mode};
        for (const DType dtype : {float32, float64}) {
          const Tensor x = draw::uniform({1, 3, 2, in}, -1, 1, 5).to(dtype);
          const Tensor g = draw::uniform({1, 3, 3, out}, -1, 1, 6).to(dtype);
          const double error = dtype == float32 ? 1e-5 : 1e-13;
          EXPECT_TRUE(allclose(interpolate(x, options),
                               interpolate(x.contiguous(MemoryFormat::channels_last), options),
                               error, error))
              << in << " to " << out;
          EXPECT_TRUE(allclose(
              interpolate_backward(g, x.shape(), options),
              interpolate_backward(g.contiguous(MemoryFormat::channels_last), x.shape(), options),
              error, error))
              << out << " to " << in;
        }
      }
    }
  }
}

// A NaN is not spread to its neighbours in a window either.
TEST(Interpolate, NanStaysInItsPlace) {
  for (InterpolateMode mode : {nearest, bilinear, bicubic}) {
    Tensor x = ones({1, 1, 1, 70}, float32);
    x[{0, 0, 0, 40}].fill(std::numeric_limits<double>::quiet_NaN());
    const Tensor y = interpolate(x, {.size = Size2d{1, 140}, .mode = mode});
    const std::int64_t reach = mode == nearest ? 1 : mode == bilinear ? 2 : 4;
    EXPECT_EQ(count_nonzero(isnan(y)).item<std::int64_t>(), 2 * reach);
  }
}

// An infinite gradient must not spread to pixels that it does not belong to.
TEST(Interpolate, InfinitiesStayInTheirPlace) {
  Tensor g = zeros({1, 1, 4, 4}, float32);
  g[{0, 0, 0, 0}].fill(std::numeric_limits<double>::infinity());
  const Tensor of_x = interpolate_backward(g, {1, 1, 8, 8}, {.size = 4});
  EXPECT_EQ(count_nonzero(of_x).item<std::int64_t>(), 1);
  EXPECT_FALSE(any(isnan(of_x)).item<bool>());
}

TEST(Interpolate, PixelShuffleIsUndone) {
  const Tensor x = arange(2 * 18 * 4 * 5).reshape({2, 18, 4, 5});
  const Tensor y = pixel_shuffle(x, 3);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 12, 15}));
  EXPECT_TRUE(identical(pixel_unshuffle(y, 3), x));
  EXPECT_EQ(y.index({0, 0, 1, 2}).item<std::int64_t>(), x.index({0, 5, 0, 0}).item<std::int64_t>());
}

CHILD_TEST(BadInputInterpolate, InvalidSizes) {
  const Tensor x = ones({1, 2, 4, 4});
  constexpr std::int64_t too_long = std::int64_t{1} << 31;
  for (std::int64_t size : {std::int64_t{0}, std::int64_t{-3}, too_long}) {
    expect_error<ValueError>([&] { interpolate(x, {.size = size}); },
                             {"interpolate", "size", std::to_string(size), "2147483647"}, {x});
    expect_error<ValueError>(
        [&] {
          interpolate(x, {.size = Size2d{4, size}, .mode = bicubic});
        },
        {"interpolate", "size"}, {x});
    expect_error<ValueError>([&] { interpolate_backward(x, x.shape(), {.size = size}); },
                             {"interpolate_backward", "size"}, {x});
  }
  // Sizes that are allowed each, but not together.
  EXPECT_THROW(interpolate(x, {.size = too_long - 1}), Error);
  for (double factor : {0.0, -1.0, 0.1, 1e300, std::nan("")}) {
    expect_error<ValueError>([&] { interpolate(x, {.scale_factor = factor}); },
                             {"interpolate", "scale_factor"}, {x});
  }
  expect_error<ValueError>([&] { interpolate(x, {}); }, {"neither size nor scale_factor"}, {x});
  expect_error<ValueError>([&] { interpolate(x, {.size = 2, .scale_factor = 2}); },
                           {"both size and scale_factor"}, {x});
  expect_error<ValueError>([&] { interpolate(x, {.size = 2, .align_corners = true}); },
                           {"align_corners"}, {x});
  expect_error<ShapeError>(
      [&] {
        interpolate(ones({2, 4, 4}), {.size = 2});
      },
      {"[2, 4, 4]", "4 dimensions"}, {});
  expect_error<ShapeError>(
      [&] {
        interpolate(ones({1, 2, 0, 4}), {.size = 2});
      },
      {"no pixels"}, {});
  expect_error<ShapeError>(
      [&] {
        interpolate_backward(ones({1, 2, 3, 3}), x.shape(), {.size = 2});
      },
      {"interpolate_backward", "grad_output"}, {x});
  expect_error<DTypeError>([&] { interpolate(x.to(int32), {.size = 2}); }, {"int32"}, {});
}

CHILD_TEST(BadInputInterpolate, InvalidShuffles) {
  const Tensor x = ones({1, 6, 4, 4});
  expect_error<ValueError>([&] { pixel_shuffle(x, 0); }, {"pixel_shuffle", "factor is 0"}, {x});
  expect_error<ShapeError>([&] { pixel_shuffle(x, 2); }, {"pixel_shuffle", "4", "6 channels"}, {x});
  expect_error<ShapeError>([&] { pixel_shuffle(ones({4, 4}), 2); }, {"3 or more"}, {});
  expect_error<ShapeError>([&] { pixel_unshuffle(x, 3); }, {"pixel_unshuffle", "3"}, {x});
  expect_error<ValueError>([&] { pixel_unshuffle(x, std::int64_t{1} << 40); }, {"factor"}, {x});
}

}  // namespace
}  // namespace extensor
