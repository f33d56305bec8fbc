// Convolution and pooling of signals and volumes beyond the samples of the op database: agreement
// with their 2-D relatives, ties and NaN, invalid options; dropout of channels.
#include <gtest/gtest.h>

#include <limits>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using compare::identical;
using test_support::expect_error;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// A depth of 1 is an image.
TEST(Volumes, OfDepthOneAreImages) {
  const Tensor x = draw::uniform({2, 3, 6, 7}, -1, 1, 1), w = draw::uniform({4, 3, 3, 3}, -1, 1, 2);
  const Tensor b = draw::uniform({4}, -1, 1, 3);
  const Tensor y = conv3d(x.unsqueeze(2), w.unsqueeze(2), b, {.padding = {0, 1, 1}});
  EXPECT_TRUE(allclose(y.squeeze(2), conv2d(x, w, b, {.padding = 1}), 1e-12, 1e-12));
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_TRUE(identical(max_pool3d(x.unsqueeze(2), {1, 2, 2}).squeeze(2), max_pool2d(x, 2)));
  EXPECT_TRUE(identical(avg_pool3d(x.unsqueeze(2), {1, 2, 2}).squeeze(2), avg_pool2d(x, 2)));
}

// Without a batch, everything is as in a batch of one.
TEST(Volumes, WithoutABatch) {
  const Tensor x = draw::uniform({3, 4, 5, 6}, -1, 1, 7), s = x.reshape({3, 120});
  const Tensor w = draw::uniform({2, 3, 2, 2, 2}, -1, 1, 8), b = draw::uniform({2}, -1, 1, 9);
  const Tensor wt = draw::uniform({3, 2, 2, 2, 2}, -1, 1, 10), ws = wt.reshape({3, 2, 8});
  const Tensor xb = x.unsqueeze(0), sb = s.unsqueeze(0);
  const auto expect_same = [](const Tensor& got, const Tensor& of_batch) {
    EXPECT_TRUE(identical(got, of_batch.squeeze(0)));
  };
  expect_same(conv3d(x, w, b), conv3d(xb, w, b));
  expect_same(conv_transpose3d(x, wt, b), conv_transpose3d(xb, wt, b));
  expect_same(conv_transpose1d(s, ws, b), conv_transpose1d(sb, ws, b));
  expect_same(max_pool3d(x, 2), max_pool3d(xb, 2));
  expect_same(avg_pool3d(x, 2), avg_pool3d(xb, 2));
  expect_same(max_pool1d(s, 3), max_pool1d(sb, 3));
  expect_same(avg_pool1d(s, 3), avg_pool1d(sb, 3));
  const Tensor g = ones({2, 3, 4, 5}, float64), gt = ones({2, 5, 6, 7}, float64);
  expect_same(conv3d_backward(g, x, w).x, conv3d_backward(g.unsqueeze(0), xb, w).x);
  EXPECT_TRUE(
      identical(conv3d_backward(g, x, w).weight, conv3d_backward(g.unsqueeze(0), xb, w).weight));
  expect_same(conv_transpose3d_backward(gt, x, wt).x,
              conv_transpose3d_backward(gt.unsqueeze(0), xb, wt).x);
  const Tensor gp = ones({3, 2, 2, 3}, float64), gs = ones({3, 40}, float64);
  expect_same(max_pool3d_backward(gp, x, 2), max_pool3d_backward(gp.unsqueeze(0), xb, 2));
  expect_same(avg_pool3d_backward(gp, x.shape(), 2),
              avg_pool3d_backward(gp.unsqueeze(0), xb.shape(), 2));
  expect_same(max_pool1d_backward(gs, s, 3), max_pool1d_backward(gs.unsqueeze(0), sb, 3));
  expect_same(avg_pool1d_backward(gs, s.shape(), 3),
              avg_pool1d_backward(gs.unsqueeze(0), sb.shape(), 3));
}

// A filter of ones sums the window.
TEST(Volumes, AFilterOfOnesSumsTheWindow) {
  const Tensor x = draw::uniform({1, 2, 5, 6, 7}, -1, 1, 4);
  const Tensor y = conv3d(x, ones({1, 2, 2, 3, 2}, float64));
  const Tensor means = avg_pool3d(x, {2, 3, 2}, {.stride = 1});
  EXPECT_TRUE(allclose(y, sum(means, 1, true) * 12, 1e-12, 1e-12));
}

TEST(Volumes, TheFirstOfEqualMaximaGetsTheGradient) {
  const Tensor x = zeros({1, 1, 2, 2, 2}, float64), g = full({1, 1, 1, 1, 1}, 3, float64);
  Tensor expected = zeros({1, 1, 2, 2, 2}, float64);
  expected[{0, 0, 0, 0, 0}].fill(3);
  EXPECT_TRUE(identical(max_pool3d_backward(g, x, 2), expected));
  Tensor with_nan = x.clone();
  with_nan[{0, 0, 1, 0, 1}].fill(nan);
  EXPECT_TRUE(any(isnan(max_pool3d(with_nan, 2))).item<bool>());
  Tensor at_nan = zeros({1, 1, 2, 2, 2}, float64);
  at_nan[{0, 0, 1, 0, 1}].fill(3);
  EXPECT_TRUE(identical(max_pool3d_backward(g, with_nan, 2), at_nan));
}

TEST(Volumes, SamePaddingKeepsTheSize) {
  const Tensor x = draw::uniform({2, 3, 9, 11}, -1, 1, 5),
               w = draw::uniform({4, 3, 4, 3}, -1, 1, 6);
  const Tensor same = conv2d(x, w, {}, {.padding = same_padding, .dilation = {1, 2}});
  EXPECT_EQ(same.shape(), (Shape{2, 4, 9, 11}));
  // 3 zeros along the height: 1 before x and 2 after it.
  const Tensor padded = pad(x, {{0, 0}, {0, 0}, {1, 2}, {2, 2}});
  EXPECT_TRUE(allclose(same, conv2d(padded, w, {}, {.dilation = {1, 2}}), 1e-12, 1e-12));
  nn::Conv2d layer(3, 4, 5, {.padding = same_padding});
  EXPECT_EQ(layer(x.to(float32)).shape(), (Shape{2, 4, 9, 11}));
  EXPECT_NE(layer.describe().find("padding same"), std::string::npos);
}

TEST(Volumes, DropoutDropsWholeChannels) {
  const Tensor x = ones({40, 50, 3, 2});
  const auto [y, mask] = dropout2d(x, 0.25);
  const Tensor channels = sum(y, {2, 3});
  const Tensor kept = greater(channels, 0);
  EXPECT_TRUE(allclose(where(kept, channels, full({}, 8, float32)), full({40, 50}, 8, float32)));
  const double share = mean(kept.to(float64)).item<double>();
  EXPECT_NEAR(share, 0.75, 0.05);  // five standard deviations
  EXPECT_TRUE(identical(dropout2d_backward(x, mask), y));
  nn::Dropout2d layer(0.5);
  layer.eval();
  EXPECT_TRUE(identical(layer(x), x));
}

TEST(Volumes, Layers) {
  const Tensor x = draw::uniform({2, 4, 6, 6, 6}, -1, 1, 7).to(float32);
  nn::Conv3d convolution(4, 8, 3, {.stride = 2, .padding = 1, .groups = 2});
  EXPECT_EQ(convolution(x).shape(), (Shape{2, 8, 3, 3, 3}));
  EXPECT_EQ(convolution.weight.shape(), (Shape{8, 2, 3, 3, 3}));
  EXPECT_EQ(convolution.describe(), "4 → 8, kernel 3, stride 2, padding 1, groups 2");
  nn::ConvTranspose3d back(8, 4, 2, {.stride = 2});
  EXPECT_EQ(back(convolution(x)).shape(), (Shape{2, 4, 6, 6, 6}));
  nn::ConvTranspose1d up(4, 2, 4, {.stride = 2, .padding = 1, .bias = false});
  EXPECT_EQ(up(x.slice(3, 0, 1).slice(4, 0, 1).reshape({2, 4, 6})).shape(), (Shape{2, 2, 12}));
  EXPECT_EQ(nn::MaxPool3d(2)(x).shape(), (Shape{2, 4, 3, 3, 3}));
  EXPECT_EQ(nn::AvgPool3d({2, 3, 1})(x).shape(), (Shape{2, 4, 3, 2, 6}));
  const Tensor signal = x.reshape({2, 4, 216});
  EXPECT_EQ(nn::MaxPool1d(3, {.stride = 2})(signal).shape(), (Shape{2, 4, 107}));
  EXPECT_EQ(nn::AvgPool1d(4)(signal).shape(), (Shape{2, 4, 54}));
  const Tensor image = x.reshape({2, 4, 12, 18});
  nn::Sequential head{nn::Upsample({.scale_factor = 2, .mode = InterpolateMode::bilinear}),
                      nn::PixelUnshuffle(2), nn::PixelShuffle(4)};
  EXPECT_EQ(head(image).shape(), (Shape{2, 1, 48, 72}));
  EXPECT_THROW(nn::Upsample({}), ValueError);
  EXPECT_THROW(nn::PixelShuffle(0), ValueError);
  EXPECT_THROW(nn::MaxPool1d(0), ValueError);
  EXPECT_THROW(nn::Conv3d(3, 4, 3, {.groups = 2}), ValueError);
}

CHILD_TEST(BadInputVolumes, OptionsOutOfRange) {
  const Tensor x = ones({1, 4, 3, 3, 3}), w = ones({2, 4, 2, 2, 2}), signal = ones({1, 4, 6});
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  expect_error<ValueError>(
      [&] {
        conv3d(x, w, {}, {.stride = {1, 0, 1}});
      },
      {"conv3d", "stride"}, {x, w});
  expect_error<ValueError>([&] { conv3d(x, w, {}, {.padding = -1}); }, {"conv3d", "padding"}, {x});
  expect_error<ValueError>([&] { conv3d(x, w, {}, {.groups = 3}); }, {"conv3d", "groups"}, {x});
  expect_error<ValueError>([&] { conv3d(x, w, {}, {.stride = 2, .padding = same_padding}); },
                           {"conv3d", "same_padding", "stride"}, {x});
  expect_error<ValueError>(
      [&] {
        conv2d(ones({1, 2, 4, 4}), ones({1, 2, 3, 3}), {}, {.stride = 2, .padding = same_padding});
      },
      {"conv2d", "same_padding"}, {});
  expect_error<ValueError>(
      [&] {
        conv_transpose1d(signal, ones({4, 2, 2}), {}, {.padding = same_padding});
      },
      {"conv_transpose1d", "same_padding"}, {});
  expect_error<ShapeError>([&] { conv3d(x, ones({2, 3, 2, 2, 2})); }, {"conv3d", "channels"}, {x});
  expect_error<ShapeError>([&] { conv3d(x, w, {}, {.dilation = huge}); }, {"conv3d", "kernel"},
                           {x});
  expect_error<ShapeError>([&] { conv3d(x, ones({2, 4, 2, 4, 2})); }, {"conv3d", "larger"}, {x});
  expect_error<ShapeError>([&] { conv3d(x, w, ones({3})); }, {"conv3d", "bias"}, {x});
  expect_error<ShapeError>([&] { conv3d(ones({3, 3, 3}), w); }, {"conv3d", "5 dimensions"}, {});
  expect_error<ValueError>([&] { conv3d(x, w, ones({2}), {.bias = false}); }, {"conv3d", "bias"},
                           {x});
  expect_error<ValueError>(
      [&] {
        conv_transpose3d(x, ones({4, 2, 2, 2, 2}), {}, {.output_padding = 1});
      },
      {"conv_transpose3d", "output_padding"}, {x});
  expect_error<ShapeError>(
      [&] {
        conv_transpose3d(x, ones({4, 2, 2, 2, 2}), {}, {.padding = 5});
      },
      {"conv_transpose3d", "nothing is left"}, {x});
  expect_error<ShapeError>(
      [&] {
        conv3d_backward(ones({1, 2, 2, 2, 3}), x, w);
      },
      {"conv3d_backward", "grad_output"}, {x, w});
  expect_error<ValueError>([&] { max_pool1d(signal, 0); }, {"max_pool1d", "kernel"}, {signal});
  expect_error<ValueError>([&] { max_pool1d(signal, 3, {.padding = 2}); },
                           {"max_pool1d", "padding"}, {signal});
  expect_error<ShapeError>([&] { avg_pool1d(signal, 7); }, {"avg_pool1d", "window"}, {signal});
  expect_error<ShapeError>([&] { max_pool3d(signal, 2); }, {"max_pool3d", "5 dimensions"}, {});
  expect_error<ValueError>(
      [&] {
        avg_pool3d(x, 2, {.stride = Size3d{1, 1, -2}});
      },
      {"avg_pool3d", "stride"}, {x});
  expect_error<ShapeError>(
      [&] {
        max_pool3d_backward(ones({1, 4, 1, 2, 1}), x, 2);
      },
      {"max_pool"}, {x});
  expect_error<ValueError>([&] { dropout2d(x, 1.5); }, {"dropout2d", "1.5"}, {x});
  expect_error<ShapeError>([&] { dropout2d(ones({3, 4})); }, {"dropout2d", "[3, 4]"}, {});
}

}  // namespace
}  // namespace extensor
