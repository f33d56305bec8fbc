// Invalid input to convolution and pooling, and sizes out of bounds.
#include <limits>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr std::int64_t huge = std::int64_t{1} << 62;

struct Operands {
  Tensor x = ones({2, 4, 6, 6}), weight = ones({8, 4, 3, 3}), transposed = ones({4, 8, 3, 3});
  Tensor signal = ones({2, 4, 9}), filter = ones({8, 4, 3});
};

CHILD_TEST(BadInputConvolution, Item57StrideZero) {
  const Operands o;
  for (std::int64_t stride : {std::int64_t{0}, std::int64_t{-1}, -huge}) {
    expect_error<ValueError>([&] { conv2d(o.x, o.weight, {}, {.stride = stride}); },
                             {"conv2d", "stride", std::to_string(stride)}, {o.x, o.weight});
    expect_error<ValueError>(
        [&] {
          conv2d(o.x, o.weight, {}, {.stride = {1, stride}});
        },
        {"conv2d", "stride"}, {o.x, o.weight});
    expect_error<ValueError>([&] { conv1d(o.signal, o.filter, {}, {.stride = stride}); },
                             {"conv1d", "stride"}, {o.signal});
    expect_error<ValueError>([&] { conv_transpose2d(o.x, o.transposed, {}, {.stride = stride}); },
                             {"conv_transpose2d", "stride"}, {o.x});
    expect_error<ValueError>([&] { max_pool2d(o.x, 2, {.stride = stride}); },
                             {"max_pool2d", "stride"}, {o.x});
    expect_error<ValueError>([&] { avg_pool2d(o.x, 2, {.stride = stride}); },
                             {"avg_pool2d", "stride"}, {o.x});
    expect_error<ValueError>([&] { conv2d_backward(o.x, o.x, o.weight, {.stride = stride}); },
                             {"conv2d_backward", "stride"}, {o.x});
  }
  expect_error<ValueError>([&] { max_pool2d(o.x, 0); }, {"max_pool2d", "kernel", "0"}, {o.x});
  expect_error<ValueError>([&] { avg_pool2d(o.x, {2, -1}); }, {"avg_pool2d", "kernel"}, {o.x});
  expect_error<ValueError>(
      [&] {
        adaptive_avg_pool2d(o.x, {-1, 2});
      },
      {"adaptive_avg_pool2d", "-1"}, {o.x});
  EXPECT_EQ(conv2d(o.x, o.weight, {}, {.stride = 2}).shape(), (Shape{2, 8, 2, 2}));
}

CHILD_TEST(BadInputConvolution, Item58DilationZero) {
  const Operands o;
  for (std::int64_t dilation : {0, -2}) {
    expect_error<ValueError>([&] { conv2d(o.x, o.weight, {}, {.dilation = dilation}); },
                             {"conv2d", "dilation", std::to_string(dilation)}, {o.x, o.weight});
    expect_error<ValueError>([&] { conv1d(o.signal, o.filter, {}, {.dilation = dilation}); },
                             {"conv1d", "dilation"}, {o.signal});
    expect_error<ValueError>(
        [&] {
          conv_transpose2d(o.x, o.transposed, {}, {.dilation = {dilation, 1}});
        },
        {"conv_transpose2d", "dilation"}, {o.x});
    expect_error<ValueError>([&] { max_pool2d(o.x, 2, {.dilation = dilation}); },
                             {"max_pool2d", "dilation"}, {o.x});
  }
  EXPECT_EQ(conv2d(o.x, o.weight, {}, {.dilation = 2}).shape(), (Shape{2, 8, 2, 2}));
}

CHILD_TEST(BadInputConvolution, Item59NegativePadding) {
  const Operands o;
  expect_error<ValueError>([&] { conv2d(o.x, o.weight, {}, {.padding = -1}); },
                           {"conv2d", "padding", "-1"}, {o.x, o.weight});
  expect_error<ValueError>([&] { conv1d(o.signal, o.filter, {}, {.padding = -1}); },
                           {"conv1d", "padding", "-1"}, {o.signal});
  expect_error<ValueError>(
      [&] {
        conv_transpose2d(o.x, o.transposed, {}, {.padding = {0, -3}});
      },
      {"conv_transpose2d", "padding", "-3"}, {o.x});
  expect_error<ValueError>(
      [&] { conv_transpose2d(o.x, o.transposed, {}, {.stride = 2, .output_padding = -1}); },
      {"conv_transpose2d", "output_padding", "-1"}, {o.x});
  expect_error<ValueError>(
      [&] { conv_transpose2d(o.x, o.transposed, {}, {.stride = 2, .output_padding = 2}); },
      {"conv_transpose2d", "output_padding", "2"}, {o.x});
  expect_error<ValueError>([&] { max_pool2d(o.x, 2, {.padding = -1}); },
                           {"max_pool2d", "padding", "-1"}, {o.x});
  expect_error<ValueError>([&] { avg_pool2d(o.x, 2, {.padding = -1}); },
                           {"avg_pool2d", "padding", "-1"}, {o.x});
}

CHILD_TEST(BadInputConvolution, Item60KernelLargerThanPaddedInput) {
  const Operands o;
  const Tensor large = ones({8, 4, 7, 3});
  expect_error<ShapeError>([&] { conv2d(o.x, large); },
                           {"conv2d", "larger than the padded input", "[8, 4, 7, 3]"},
                           {o.x, large});
  EXPECT_EQ(conv2d(o.x, large, {}, {.padding = {1, 0}}).shape(), (Shape{2, 8, 2, 4}));
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, {}, {.dilation = 3}); },
                           {"conv2d", "larger", "dilation 3"}, {o.x});
  expect_error<ShapeError>(
      [&] {
        conv1d(o.signal, ones({8, 4, 10}));
      },
      {"conv1d", "larger"}, {o.signal});
  expect_error<ShapeError>([&] { max_pool2d(o.x, 7); }, {"max_pool2d", "larger"}, {o.x});
  expect_error<ShapeError>([&] { avg_pool2d(o.x, {7, 1}); }, {"avg_pool2d", "larger"}, {o.x});
  expect_error<ShapeError>([&] { conv_transpose2d(o.x, o.transposed, {}, {.padding = 4}); },
                           {"conv_transpose2d", "nothing is left"}, {o.x});
  expect_error<ShapeError>([&] { conv2d(o.x, ones({8, 4, 0, 3})); }, {"conv2d", "no taps"}, {o.x});
}

CHILD_TEST(BadInputConvolution, Item61GroupsZeroOrNotDividing) {
  const Operands o;
  for (std::int64_t groups : {0, -1, 3, 5}) {
    expect_error<ValueError>([&] { conv2d(o.x, o.weight, {}, {.groups = groups}); },
                             {"conv2d", "groups", std::to_string(groups)}, {o.x, o.weight});
    expect_error<ValueError>([&] { conv1d(o.signal, o.filter, {}, {.groups = groups}); },
                             {"conv1d", "groups"}, {o.signal});
    expect_error<ValueError>([&] { conv_transpose2d(o.x, o.transposed, {}, {.groups = groups}); },
                             {"conv_transpose2d", "groups"}, {o.x});
  }
  // The groups divide the channels, but not the filters.
  expect_error<ValueError>(
      [&] {
        conv2d(o.x, ones({6, 1, 3, 3}), {}, {.groups = 4});
      },
      {"conv2d", "groups", "6 filters"}, {o.x});
  // The groups divide both, but the weight has all channels.
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, {}, {.groups = 2}); },
                           {"conv2d", "channels differ", "[8, 4, 3, 3]"}, {o.x, o.weight});
  EXPECT_EQ(conv2d(o.x, ones({8, 2, 3, 3}), {}, {.groups = 2}).shape(), (Shape{2, 8, 4, 4}));
}

CHILD_TEST(BadInputConvolution, Item62PoolingPaddingBeyondHalfTheKernel) {
  const Operands o;
  for (std::int64_t padding : {std::int64_t{2}, std::int64_t{3}, huge}) {
    expect_error<ValueError>([&] { max_pool2d(o.x, 3, {.padding = padding}); },
                             {"max_pool2d", "padding", std::to_string(padding), "half"}, {o.x});
    expect_error<ValueError>(
        [&] {
          avg_pool2d(o.x, {5, 3}, {.padding = {2, padding}});
        },
        {"avg_pool2d", "padding", std::to_string(padding), "half"}, {o.x});
    expect_error<ValueError>([&] { max_pool2d_backward(o.x, o.x, 3, {.padding = padding}); },
                             {"max_pool2d_backward", "padding"}, {o.x});
  }
  EXPECT_EQ(max_pool2d(o.x, 3, {.padding = 1}).shape(), (Shape{2, 4, 2, 2}));
}

CHILD_TEST(BadInputConvolution, Item79GradOutputOfTheWrongShape) {
  const Operands o;
  for (const Shape& wrong : {Shape{2, 8, 4, 3}, Shape{2, 7, 4, 4}, Shape{1, 8, 4, 4},
                             Shape{2, 8, 4}, Shape{}, Shape{2, 4, 6, 6}}) {
    const Tensor g = ones(wrong);
    expect_error<ShapeError>([&] { conv2d_backward(g, o.x, o.weight); },
                             {"conv2d_backward", "grad_output", "[2, 8, 4, 4]"},
                             {g, o.x, o.weight});
    expect_error<ShapeError>([&] { conv1d_backward(g, o.signal, o.filter); },
                             {"conv1d_backward", "grad_output", "[2, 8, 7]"}, {g, o.signal});
    expect_error<ShapeError>([&] { conv_transpose2d_backward(g, o.x, o.transposed); },
                             {"conv_transpose2d_backward", "grad_output", "[2, 8, 8, 8]"},
                             {g, o.x});
    expect_error<ShapeError>([&] { max_pool2d_backward(g, o.x, 2); },
                             {"max_pool2d_backward", "grad_output", "[2, 4, 3, 3]"}, {g, o.x});
    expect_error<ShapeError>(
        [&] {
          avg_pool2d_backward(g, {2, 4, 6, 6}, 2);
        },
        {"avg_pool2d_backward", "grad_output", "[2, 4, 3, 3]"}, {g});
    expect_error<ShapeError>(
        [&] {
          adaptive_avg_pool2d_backward(g, {2, 5, 6, 6});
        },
        {"adaptive_avg_pool2d_backward", "grad_output"}, {g});
  }
  const Tensor g = ones({2, 8, 4, 4});
  expect_error<DTypeError>([&] { conv2d_backward(g.to(int32), o.x, o.weight); },
                           {"conv2d_backward", "grad_output", "int32"}, {o.x});
}

CHILD_TEST(BadInputConvolution, WrongRanksAndDtypes) {
  const Operands o;
  expect_error<ShapeError>([&] { conv2d(ones({6, 6}), o.weight); }, {"conv2d", "[6, 6]"});
  expect_error<ShapeError>([&] { conv2d(o.x, o.filter); }, {"conv2d", "[8, 4, 3]"}, {o.x});
  expect_error<ShapeError>([&] { conv1d(o.x, o.filter); }, {"conv1d", "[2, 4, 6, 6]"}, {o.x});
  expect_error<ShapeError>([&] { max_pool2d(o.signal[0], 2); }, {"max_pool2d", "[4, 9]"});
  expect_error<ShapeError>(
      [&] {
        avg_pool2d_backward(o.x, {4, 6}, 2);
      },
      {"avg_pool2d_backward", "[4, 6]"});
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, ones({7})); },
                           {"conv2d", "bias is [7]", "[8]"}, {o.x});
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, ones({1, 8})); }, {"conv2d", "bias"});
  expect_error<DTypeError>([&] { conv2d(o.x.to(int64), o.weight); }, {"conv2d", "x", "int64"});
  expect_error<DTypeError>([&] { conv2d(o.x, o.weight.to(bool_)); }, {"conv2d", "weight", "bool"});
  expect_error<DTypeError>([&] { max_pool2d(o.x.to(uint8), 2); }, {"max_pool2d", "uint8"});
  expect_error<ValueError>([&] { conv2d(Tensor(), o.weight); }, {"tensor"});
}

CHILD_TEST(BadInputConvolution, SizesBeyondEveryBound) {
  const Operands o;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, {}, {.padding = most}); },
                           {"conv2d", "padding"}, {o.x});
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, {}, {.dilation = most}); },
                           {"conv2d", "dilation"}, {o.x});
  expect_error<ShapeError>([&] { conv2d(o.x, o.weight, {}, {.padding = huge / 2}); }, {"conv2d"},
                           {o.x});
  expect_error<ShapeError>([&] { conv_transpose2d(o.x, o.transposed, {}, {.stride = huge}); },
                           {"conv_transpose2d"}, {o.x});
  expect_error<ShapeError>([&] { max_pool2d(o.x, most, {.padding = most / 2}); }, {"max_pool2d"},
                           {o.x});
  expect_error<ShapeError>([&] { adaptive_avg_pool2d(o.x, most); }, {"adaptive_avg_pool2d"}, {o.x});
  expect_error<OutOfMemoryError>(
      [&] {
        conv2d(o.x, o.weight, {}, {.padding = {std::int64_t{1} << 44, 0}});
      },
      {"conv2d"}, {o.x});
  expect_error<OutOfMemoryError>(
      [&] {
        conv_transpose2d(o.x, o.transposed, {}, {.stride = {std::int64_t{1} << 44, 1}});
      },
      {"conv_transpose2d"}, {o.x});
  // A stride as large as the padding: few windows, far apart.
  const Tensor far = conv2d(o.x, o.weight, {}, {.stride = huge / 2, .padding = huge / 2 - 1});
  EXPECT_EQ(far.shape(), (Shape{2, 8, 3, 3}));
  EXPECT_EQ((far[{1, 7, 1, 1}].item<float>()), 36.0F);  // the only window that overlaps x
  EXPECT_EQ(sum(far).item<float>(), 16 * 36.0F);
  const Tensor lonely =
      conv2d_backward(far, o.x, o.weight, {.stride = huge / 2, .padding = huge / 2 - 1}).weight;
  EXPECT_EQ(lonely.shape(), o.weight.shape());
  EXPECT_EQ(max_pool2d(o.x, 2, {.stride = most}).shape(), (Shape{2, 4, 1, 1}));
}

CHILD_TEST(BadInputConvolution, EmptyBatchAndChannelsGiveEmptyOrZeros) {
  const Operands o;
  const Tensor none = ones({0, 4, 6, 6});
  EXPECT_EQ(conv2d(none, o.weight, ones({8})).shape(), (Shape{0, 8, 4, 4}));
  const auto gradients = conv2d_backward(ones({0, 8, 4, 4}), none, o.weight);
  EXPECT_EQ(gradients.x.shape(), none.shape());
  EXPECT_EQ(gradients.weight.to_vector<float>(), std::vector<float>(8 * 4 * 9, 0.0F));
  EXPECT_EQ(gradients.bias.to_vector<float>(), std::vector<float>(8, 0.0F));
  EXPECT_EQ(conv_transpose2d(none, o.transposed).shape(), (Shape{0, 8, 8, 8}));
  EXPECT_EQ(max_pool2d(none, 2).shape(), (Shape{0, 4, 3, 3}));
  EXPECT_EQ(avg_pool2d(none, 2).shape(), (Shape{0, 4, 3, 3}));
  EXPECT_EQ(max_pool2d_backward(ones({0, 4, 3, 3}), none, 2).shape(), none.shape());
  EXPECT_EQ(adaptive_avg_pool2d(none, 2).shape(), (Shape{0, 4, 2, 2}));
  // Without input channels the result is the bias; without filters x has no gradient.
  EXPECT_EQ(conv2d(ones({1, 0, 3, 3}), ones({2, 0, 3, 3}), ones({2})).to_vector<float>(),
            (std::vector<float>{1, 1}));
  EXPECT_EQ(conv2d_backward(ones({1, 0, 1, 1}), ones({1, 1, 2, 2}), ones({0, 1, 2, 2}))
                .x.to_vector<float>(),
            (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(conv2d(ones({1, 1, 0, 2}), ones({1, 1, 3, 3}), {}, {.padding = 2}).to_vector<float>(),
            std::vector<float>(8, 0.0F));
  EXPECT_EQ(adaptive_avg_pool2d(o.x, 0).shape(), (Shape{2, 4, 0, 0}));
  EXPECT_EQ(
      max_reduce(abs(adaptive_avg_pool2d_backward(ones({2, 4, 0, 0}), {2, 4, 6, 6}))).item<float>(),
      0.0F);
  expect_error<ShapeError>(
      [&] {
        adaptive_avg_pool2d(ones({1, 1, 0, 3}), 1);
      },
      {"adaptive_avg_pool2d", "no pixels"});
}

}  // namespace
