// Memory formats: the order of the elements of results, and that values do not depend on it.
// Strides are written by hand, from PyTorch's rules.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr MemoryFormat contiguous = MemoryFormat::contiguous;
constexpr MemoryFormat channels_last = MemoryFormat::channels_last;
constexpr MemoryFormat preserve = MemoryFormat::preserve;

Tensor drawn(const Shape& shape, DType dtype = float64) {
  static Generator generator(7);
  return uniform(shape, -1, 1, float64, generator).to(dtype);
}

void expect_near(const Tensor& got, const Tensor& expected, double tolerance = 1e-13) {
  ASSERT_EQ(got.shape(), expected.shape());
  EXPECT_TRUE(allclose(got, expected, tolerance, tolerance))
      << max_reduce(abs(got.to(float64) - expected.to(float64))).item<double>();
}

// ---- construction and queries

TEST(MemoryFormat, StridesOfNewTensors) {
  const TensorOptions last{.memory_format = channels_last};
  EXPECT_EQ(empty({2, 3, 4, 5}, last).strides(), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(zeros({2, 3, 4, 5}, last).strides(), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(full({2, 1, 4, 5}, 2, last).strides(), (Strides{20, 1, 5, 1}));
  EXPECT_EQ(ones({2, 3, 1, 1}, last).strides(), (Strides{3, 1, 3, 3}));
  EXPECT_EQ(empty({2, 3, 4, 5}, {.memory_format = contiguous}).strides(), (Strides{60, 20, 5, 1}));
  // A draw depends on its position, not on the format.
  Generator a(1), b(1);
  const Tensor plain = randn({2, 3, 4, 5}, TensorOptions{}, a),
               moved = randn({2, 3, 4, 5}, last, b);
  EXPECT_EQ(moved.strides(), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(plain.to_vector<float>(), moved.to_vector<float>());
}

TEST(MemoryFormat, IsContiguousIgnoresAxesOfSizeOne) {
  const Tensor x = zeros({2, 3, 4, 5});
  EXPECT_TRUE(x.is_contiguous(contiguous));
  EXPECT_FALSE(x.is_contiguous(channels_last));
  const Tensor y = x.contiguous(channels_last);
  EXPECT_FALSE(y.is_contiguous());
  EXPECT_FALSE(y.is_contiguous(contiguous));
  EXPECT_TRUE(y.is_contiguous(channels_last));
  for (const Shape& both : {Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1}, Shape{1, 1, 1, 1}}) {
    const Tensor z = zeros(both);
    EXPECT_TRUE(z.is_contiguous(contiguous)) << both;
    EXPECT_TRUE(z.is_contiguous(channels_last)) << both;
    EXPECT_EQ(z.contiguous(channels_last).impl().data, z.impl().data) << both;
  }
  EXPECT_FALSE(zeros({3, 4, 5}).is_contiguous(channels_last));
  EXPECT_FALSE(y.slice(3, 0, 3).is_contiguous(channels_last));
}

// to() also sets the strides of axes of size 1, so that the first layer of a model, which has one
// channel, knows the format.
TEST(MemoryFormat, ToChangesStridesOfAxesOfSizeOne) {
  const Tensor x = zeros({2, 1, 4, 5});
  const Tensor y = x.to(channels_last);
  EXPECT_EQ(y.strides(), (Strides{20, 1, 5, 1}));
  EXPECT_EQ(y.to(channels_last).impl().data, y.impl().data);
  EXPECT_EQ(y.to(contiguous).strides(), (Strides{20, 20, 5, 1}));
  EXPECT_EQ(x.to(contiguous).impl().data, x.impl().data);
  EXPECT_EQ(y.to(preserve).impl().data, y.impl().data);
  EXPECT_EQ(y.clone().strides(), y.strides());
  EXPECT_EQ(y.to(float64).strides(), y.strides());
}

TEST(MemoryFormat, FormatOfStrides) {
  using detail::format_of;
  const auto of = [](const Shape& shape) { return format_of(zeros(shape)); };
  const auto of_last = [](const Shape& shape) {
    return format_of(zeros(shape, {.memory_format = channels_last}));
  };
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1},
                             Shape{1, 3, 4, 5}, Shape{2, 1, 4, 1}, Shape{2, 3, 4, 1}}) {
    EXPECT_EQ(of(shape), contiguous) << shape;
    EXPECT_EQ(of_last(shape), channels_last) << shape;
  }
  EXPECT_EQ(of_last({4, 1, 1, 1}), contiguous);  // the same strides in both
  EXPECT_EQ(of_last({0, 3, 4, 5}), contiguous);
  const Tensor x = zeros({2, 6, 4, 5}, {.memory_format = channels_last});
  EXPECT_EQ(format_of(x.slice(1, 0, 3)), channels_last);  // with gaps
  EXPECT_EQ(format_of(x.transpose({0, 1, 3, 2})), contiguous);
  EXPECT_EQ(format_of(zeros({3}).broadcast_to({2, 2, 2, 3})), contiguous);
}

TEST(MemoryFormat, LikeAndCloneKeepTheOrder) {
  const Tensor last = drawn({2, 3, 4, 5}).contiguous(channels_last);
  const Tensor turned = drawn({3, 4}).transpose();
  const Tensor gaps = drawn({4, 6}).slice(1, {}, {}, 2);
  for (const Tensor& made : {empty_like(last), zeros_like(last), ones_like(last, float32),
                             full_like(last, 2), last.clone(), last.to(float32)}) {
    EXPECT_EQ(made.strides(), (Strides{60, 1, 15, 3}));
  }
  EXPECT_EQ(empty_like(turned).strides(), (Strides{1, 4}));
  EXPECT_EQ(turned.clone().strides(), (Strides{1, 4}));
  EXPECT_EQ(empty_like(gaps).strides(), (Strides{3, 1}));
  EXPECT_EQ(gaps.clone().strides(), (Strides{3, 1}));
  EXPECT_EQ(empty_like(last, {.memory_format = contiguous}).strides(), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(last.clone(contiguous).strides(), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(turned.contiguous().strides(), (Strides{3, 1}));
  EXPECT_EQ(turned.clone(contiguous).strides(), (Strides{3, 1}));
  EXPECT_EQ(last.clone().to_vector<double>(), last.contiguous().to_vector<double>());
}

CHILD_TEST(MemoryFormat, Refusals) {
  const Tensor x = zeros({2, 3, 4});
  expect_error<ShapeError>([&] { (void)x.contiguous(channels_last); }, {"contiguous", "[2, 3, 4]"},
                           {x});
  expect_error<ShapeError>([&] { (void)x.to(channels_last); }, {"to", "[2, 3, 4]"}, {x});
  expect_error<ShapeError>([&] { (void)x.clone(channels_last); }, {"clone", "[2, 3, 4]"}, {x});
  expect_error<ShapeError>([] { (void)empty({2}, {.memory_format = channels_last}); },
                           {"empty", "[2]", "4 dimensions"});
  expect_error<ShapeError>([] { (void)arange(3, {.memory_format = channels_last}); }, {"arange"});
  expect_error<ShapeError>([] { (void)eye(3, {}, 0, {.memory_format = channels_last}); }, {"eye"});
  expect_error<ShapeError>(
      [] {
        (void)tensor({1, 2}, {.memory_format = channels_last});
      },
      {"tensor"});
  expect_error<ShapeError>([] { (void)rand({2, 2}, {.memory_format = channels_last}); }, {"rand"});
  expect_error<ValueError>(
      [] {
        (void)zeros({1, 2, 3, 4}, {.memory_format = preserve});
      },
      {"zeros", "preserve"});
  expect_error<ValueError>([&] { (void)x.contiguous(preserve); }, {"contiguous", "preserve"}, {x});
  expect_error<ValueError>([&] { (void)x.is_contiguous(preserve); }, {"is_contiguous"}, {x});
  expect_error<ValueError>([&] { (void)x.to(static_cast<MemoryFormat>(9)); }, {"to", "9"}, {x});
  // Functions without strides reject it.
  expect_error<ValueError>([&] { (void)detail::dense_data(x.transpose()); },
                           {"strides", "[1, 4, 12]"}, {x});
}

// ---- elementwise

TEST(MemoryFormat, ElementwiseResultsFollowTheirOperands) {
  const Tensor plain = drawn({2, 3, 4, 5}), last = drawn({2, 3, 4, 5}).contiguous(channels_last);
  const Tensor channel = drawn({3, 1, 1}), row = drawn({5}), number = drawn({});
  const Strides dense{60, 20, 5, 1}, moved{60, 1, 15, 3};
  EXPECT_EQ(relu(last).strides(), moved);
  EXPECT_EQ((last + last).strides(), moved);
  EXPECT_EQ((last + plain).strides(), moved);
  EXPECT_EQ((plain + last).strides(), dense);
  EXPECT_EQ((last * 2).strides(), moved);
  EXPECT_EQ((2 - last).strides(), moved);
  EXPECT_EQ((last + number).strides(), moved);
  EXPECT_EQ((last + channel).strides(), moved);
  EXPECT_EQ((channel + last).strides(), moved);
  EXPECT_EQ((row + last).strides(), moved);
  EXPECT_EQ((last + row).strides(), moved);
  EXPECT_EQ((plain + channel).strides(), dense);
  EXPECT_EQ(greater(last, plain).strides(), moved);
  EXPECT_EQ(isnan(last).strides(), moved);
  EXPECT_EQ(clip(last, -0.5, 0.5).strides(), moved);
  EXPECT_EQ(where(greater(plain, 0), last, last).strides(), dense);
  EXPECT_EQ(where(greater(last, 0), plain, plain).strides(), moved);
  EXPECT_EQ(fma(last, plain, plain).strides(), moved);
  EXPECT_EQ(relu_backward(last, plain).strides(), moved);
  EXPECT_EQ(tanh_double_backward(last, last, last).first.strides(), moved);
  EXPECT_EQ(divide_backward(last, last, last).second.strides(), moved);
  EXPECT_EQ(dropout(last, 0.5, true).output.strides(), moved);
  const auto swish = elementwise("swish", [](auto x) { return x * sigmoid(x); });
  EXPECT_EQ(swish(last).strides(), moved);
  EXPECT_EQ(swish.backward(last, last).strides(), moved);
  expect_near(swish(last), silu(last.contiguous()));
  expect_near(swish.backward(last, plain), silu_backward(last.contiguous(), plain));
  expect_near(tanh_double_backward(last, plain, last).first,
              tanh_double_backward(last.contiguous(), plain, last.contiguous()).first);
  // In-place ops keep the layout.
  Tensor target = plain.clone();
  add_(target, last);
  EXPECT_EQ(target.strides(), dense);
  expect_near(target, plain + last.contiguous());
}

TEST(MemoryFormat, AnyOrderAndGaps) {
  EXPECT_EQ(relu(drawn({2, 3}).transpose()).strides(), (Strides{1, 3}));
  EXPECT_EQ(relu(drawn({4, 6}).slice(1, {}, {}, 2)).strides(), (Strides{3, 1}));
  EXPECT_EQ(relu(drawn({6, 8}).transpose().slice(0, 0, 4)).strides(), (Strides{1, 4}));
  EXPECT_EQ(relu(drawn({2, 3, 4}).transpose({2, 0, 1})).strides(), (Strides{1, 12, 4}));
  EXPECT_EQ(relu(drawn({1, 3}).broadcast_to({4, 3})).strides(), (Strides{3, 1}));
  EXPECT_EQ(relu(drawn({4, 3}).slice(1, {}, {}, -1)).strides(), (Strides{3, 1}));
  EXPECT_EQ(relu(drawn({3, 4}).transpose().slice(0, {}, {}, -1)).strides(), (Strides{1, 4}));
  EXPECT_EQ(relu(drawn({0, 3}).transpose()).strides(), (Strides{1, 1}));
  // The first operand that distinguishes two axes determines their order.
  const Tensor a = drawn({3, 1, 5}).broadcast_to({3, 4, 5});
  const Tensor b = drawn({3, 5, 4}).transpose({0, 2, 1});
  EXPECT_EQ((a + b).strides(), (Strides{20, 1, 4}));
  EXPECT_EQ((b + a).strides(), (Strides{20, 1, 4}));
  expect_near(a + b, a.contiguous() + b.contiguous());
}

TEST(MemoryFormat, OtherUsesOfTheElements) {
  const Tensor last = drawn({2, 3, 4, 5}).contiguous(channels_last);
  const Tensor y = relu(last), plain = y.contiguous();
  EXPECT_EQ(y.to_vector<double>(), plain.to_vector<double>());
  EXPECT_EQ(y.flatten().to_vector<double>(), plain.flatten().to_vector<double>());
  EXPECT_EQ(y.reshape({6, 20}).to_vector<double>(), plain.to_vector<double>());
  EXPECT_EQ(y[1].to_vector<double>(), plain[1].to_vector<double>());
  EXPECT_EQ(to_string(y), to_string(plain));
  EXPECT_EQ(sort(y, 1).to_vector<double>(), sort(plain, 1).to_vector<double>());
  EXPECT_EQ(index_add(y, 1, tensor({0, 2}), ones({2, 2, 4, 5}, float64)).to_vector<double>(),
            index_add(plain, 1, tensor({0, 2}), ones({2, 2, 4, 5}, float64)).to_vector<double>());
  expect_near(softmax(y, 1), softmax(plain, 1));
  expect_near(sum(y, {0, 2, 3}), sum(plain, {0, 2, 3}));
  expect_near(layer_norm(y, {5}), layer_norm(plain, {5}));
  expect_near(group_norm(y, 3), group_norm(plain, 3));
  Generator a(3), b(3);
  EXPECT_EQ(dropout(y, 0.5, true, a).output.to_vector<double>(),
            dropout(plain, 0.5, true, b).output.to_vector<double>());
}

TEST(MemoryFormat, JoinsAndPadding) {
  const Tensor last = drawn({2, 3, 4, 5}).contiguous(channels_last), plain = last.contiguous();
  const Tensor joined = concatenate({last, last}, 1);
  EXPECT_EQ(joined.strides(), (Strides{120, 1, 30, 6}));
  EXPECT_EQ(joined.to_vector<double>(), concatenate({plain, plain}, 1).to_vector<double>());
  EXPECT_TRUE(concatenate({last, plain}, 1).is_contiguous());
  const Padding widths{{0, 0}, {0, 0}, {1, 1}, {2, 0}};
  EXPECT_EQ(pad(last, widths).strides(), (Strides{126, 1, 21, 3}));
  EXPECT_EQ(pad(last, widths).to_vector<double>(), pad(plain, widths).to_vector<double>());
}

TEST(MemoryFormat, FilesHoldRowMajorElements) {
  const test_support::TemporaryDirectory directory;
  const Tensor last = drawn({2, 3, 4, 5}).contiguous(channels_last),
               one = drawn({2, 1, 4, 5}).to(channels_last);
  const auto path = directory.path() / "x.safetensors", npy = directory.path() / "x.npy";
  save_safetensors(path, {{"last", last}, {"one", one}});
  const Safetensors loaded = load_safetensors(path);
  for (const auto& [name, tensor] : loaded.tensors) {
    const Tensor& expected = name == "last" ? last : one;
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.to_vector<double>(), expected.to_vector<double>());
  }
  save_npy(npy, last);
  EXPECT_EQ(load_npy(npy).to_vector<double>(), last.to_vector<double>());
}

// ---- layers

struct ConvolutionCase {
  const char* name;
  Shape x, weight;
  Conv2dOptions options;
};

// One case for each algorithm that computes images of either format.
const std::vector<ConvolutionCase>& convolutions() {
  static const std::vector<ConvolutionCase> cases = {
      {"pointwise", {2, 5, 6, 7}, {9, 5, 1, 1}, {}},
      {"pointwise groups", {2, 64, 3, 4}, {96, 32, 1, 1}, {.groups = 2}},
      {"pointwise stride", {2, 9, 6, 7}, {19, 9, 1, 1}, {.stride = 2}},
      {"winograd", {2, 32, 12, 11}, {40, 32, 3, 3}, {.padding = 1}},
      {"few filters", {2, 3, 9, 8}, {4, 3, 3, 3}, {.padding = 1}},
      {"depthwise", {2, 6, 9, 8}, {6, 1, 3, 3}, {.padding = 1, .groups = 6}},
      {"depthwise stride", {2, 6, 9, 8}, {12, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 6}},
      {"stem", {2, 3, 17, 19}, {20, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {"dilation", {2, 9, 13, 12}, {18, 9, 3, 2}, {.padding = {2, 1}, .dilation = {2, 3}}},
      {"groups", {2, 20, 9, 8}, {36, 10, 3, 3}, {.stride = {2, 1}, .padding = 1, .groups = 2}},
      {"long patch", {1, 70, 5, 6}, {20, 70, 3, 3}, {.stride = 2}},
      {"one channel", {2, 1, 9, 8}, {20, 1, 5, 5}, {.padding = 2}},
  };
  return cases;
}

TEST(MemoryFormat, ConvolutionsKeepChannelsLast) {
  for (const ConvolutionCase& c : convolutions()) {
    for (const DType dtype : {float64, float32, bfloat16}) {
      SCOPED_TRACE(::testing::Message() << c.name << ' ' << extensor::name(dtype));
      const double tolerance = dtype == float64 ? 1e-12 : dtype == float32 ? 2e-5 : 3e-2;
      const Tensor x = drawn(c.x, dtype), w = drawn(c.weight, dtype),
                   b = drawn({c.weight[0]}, dtype);
      const Tensor last = x.to(channels_last);
      const Tensor expected = conv2d(x, w, b, c.options), y = conv2d(last, w, b, c.options);
      EXPECT_EQ(y.strides(), detail::channels_last_strides(y.shape()));
      EXPECT_TRUE(expected.is_contiguous());
      expect_near(y, expected, tolerance);
      expect_near(conv2d(last, w, {}, c.options), conv2d(x, w, {}, c.options), tolerance);
      const Tensor g = drawn(y.shape(), dtype);
      const auto plain = conv2d_backward(g, x, w, c.options);
      const auto moved = conv2d_backward(g.to(channels_last), last, w, c.options);
      EXPECT_EQ(moved.x.strides(), detail::channels_last_strides(c.x));
      EXPECT_TRUE(moved.weight.is_contiguous());
      expect_near(moved.x, plain.x, tolerance);
      const double scale = dtype == bfloat16 ? 0.5 : 20 * tolerance;
      expect_near(moved.weight, plain.weight, scale);
      expect_near(moved.bias, plain.bias, scale);
    }
  }
}

TEST(MemoryFormat, TransposedConvolutionsKeepChannelsLast) {
  const ConvTranspose2dOptions strided{.stride = 2, .padding = 1, .output_padding = 1};
  const ConvTranspose2dOptions grouped{.padding = 1, .groups = 2};
  for (const auto& options : {strided, grouped, ConvTranspose2dOptions{}}) {
    const Tensor x = drawn({2, 18, 5, 6}), w = drawn({18, 20, 3, 3});
    const Tensor b = drawn({20 * options.groups}), last = x.to(channels_last);
    const Tensor expected = conv_transpose2d(x, w, b, options);
    const Tensor y = conv_transpose2d(last, w, b, options);
    EXPECT_EQ(y.strides(), detail::channels_last_strides(y.shape()));
    expect_near(y, expected, 1e-12);
    const Tensor g = drawn(y.shape());
    const auto plain = conv_transpose2d_backward(g, x, w, options);
    const auto moved = conv_transpose2d_backward(g.to(channels_last), last, w, options);
    EXPECT_EQ(moved.x.strides(), detail::channels_last_strides(x.shape()));
    expect_near(moved.x, plain.x, 1e-12);
    expect_near(moved.weight, plain.weight, 1e-11);
    expect_near(moved.bias, plain.bias, 1e-11);
  }
}

// A weight in that format selects it too.
TEST(MemoryFormat, ChannelsLastWeightsMakeChannelsLastResults) {
  const Tensor x = drawn({2, 3, 9, 8}), w = drawn({20, 3, 3, 3});
  const Tensor y = conv2d(x, w.to(channels_last), {}, {.padding = 1});
  EXPECT_EQ(y.strides(), detail::channels_last_strides(y.shape()));
  expect_near(y, conv2d(x, w, {}, {.padding = 1}), 1e-12);
}

TEST(MemoryFormat, PoolingKeepsChannelsLastBitByBit) {
  for (const Shape& shape : {Shape{2, 5, 9, 8}, Shape{1, 70, 7, 7}, Shape{9, 3, 4, 4}}) {
    for (const DType dtype : {float64, float32, float16}) {
      SCOPED_TRACE(::testing::Message() << shape << ' ' << extensor::name(dtype));
      Tensor x = drawn(shape, dtype);
      x[0][1][2].fill(__builtin_nan(""));
      const Tensor last = x.to(channels_last);
      const auto same = [&](const Tensor& moved, const Tensor& plain) {
        EXPECT_EQ(moved.strides(), detail::channels_last_strides(moved.shape()));
        EXPECT_TRUE(plain.is_contiguous());
        EXPECT_TRUE(all(equal(moved, plain) | (isnan(moved) & isnan(plain))).item<bool>());
      };
      const auto with_gradient = [&](const auto& forward, const auto& backward) {
        same(forward(last), forward(x));
        const Tensor g = drawn(forward(x).shape(), dtype);
        same(backward(g.to(channels_last), last), backward(g, x));
      };
      for (const MaxPool2dOptions& options :
           {MaxPool2dOptions{}, MaxPool2dOptions{.stride = 1, .padding = 1, .dilation = {1, 2}},
            MaxPool2dOptions{.stride = 2, .ceil_mode = true}}) {
        for (const Size2d kernel : {Size2d(2), Size2d(3, 2)}) {
          with_gradient([&](const Tensor& t) { return max_pool2d(t, kernel, options); },
                        [&](const Tensor& g, const Tensor& t) {
                          return max_pool2d_backward(g, t, kernel, options);
                        });
        }
      }
      for (const AvgPool2dOptions& options :
           {AvgPool2dOptions{}, AvgPool2dOptions{.stride = 1, .padding = 1},
            AvgPool2dOptions{
                .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}}) {
        with_gradient(
            [&](const Tensor& t) {
              return avg_pool2d(t, {3, 2}, options);
            },
            [&](const Tensor& g, const Tensor&) {
              return avg_pool2d_backward(g, shape, {3, 2}, options);
            });
      }
      for (const Size2d output : {Size2d(1), Size2d(3, 2)}) {
        with_gradient(
            [&](const Tensor& t) { return adaptive_avg_pool2d(t, output); },
            [&](const Tensor& g, const Tensor&) { return adaptive_avg_pool2d_backward(g, shape); });
      }
    }
  }
}

TEST(MemoryFormat, BatchNormKeepsChannelsLast) {
  for (const Shape& shape : {Shape{3, 5, 6, 7}, Shape{3, 5, 2, 2}, Shape{3, 5, 1, 1},
                             Shape{3, 1, 6, 7}, Shape{2, 200, 3, 3}}) {
    for (const bool training : {true, false}) {
      SCOPED_TRACE(::testing::Message() << shape << training);
      const Tensor x = drawn(shape), last = x.to(channels_last);
      const Tensor w = drawn({shape[1]}), b = drawn({shape[1]}), mean = drawn({shape[1]}),
                   var = abs(drawn({shape[1]})) + 0.5;
      Tensor mean_a = mean.clone(), var_a = var.clone(), mean_b = mean.clone(), var_b = var.clone();
      const Tensor expected = batch_norm(x, mean_a, var_a, w, b, training);
      const Tensor y = batch_norm(last, mean_b, var_b, w, b, training);
      EXPECT_EQ(y.strides(), detail::channels_last_strides(shape));
      EXPECT_EQ(expected.strides(), detail::contiguous_strides(shape));
      expect_near(y, expected);
      expect_near(mean_b, mean_a);
      expect_near(var_b, var_a);
      const Tensor g = drawn(shape);
      const auto plain = batch_norm_backward(g, x, mean, var, w, b, training);
      const auto moved = batch_norm_backward(g.to(channels_last), last, mean, var, w, b, training);
      EXPECT_EQ(moved.x.strides(), detail::channels_last_strides(shape));
      EXPECT_EQ(plain.x.strides(), detail::contiguous_strides(shape));
      expect_near(moved.x, plain.x, 1e-12);
      expect_near(moved.weight, plain.weight, 1e-12);
      expect_near(moved.bias, plain.bias, 1e-12);
    }
  }
}

TEST(MemoryFormat, ThreadsDoNotChangeBits) {
  const int threads = get_num_threads();
  for (const ConvolutionCase& c : convolutions()) {
    SCOPED_TRACE(c.name);
    Shape shape = c.x;
    shape[0] = 9;  // enough work for several threads
    const Tensor x = drawn(shape, float32).to(channels_last), w = drawn(c.weight, float32);
    const auto results = [&](int count) {
      set_num_threads(count);
      const Tensor y = conv2d(x, w, {}, c.options);
      const auto gradients = conv2d_backward(y, x, w, c.options);
      std::vector<Tensor> all = {y,
                                 gradients.x,
                                 gradients.weight,
                                 max_pool2d(x, 2, {.stride = 1}),
                                 avg_pool2d(x, 2),
                                 batch_norm(x, {}, {}, {}, {}, true)};
      return all;
    };
    const auto one = results(1), four = results(4);
    for (std::size_t k = 0; k < one.size(); ++k) {
      EXPECT_EQ(one[k].to_vector<float>(), four[k].to_vector<float>()) << k;
    }
  }
  set_num_threads(threads);
}

// ---- models

nn::Sequential network() {
  default_generator().manual_seed(5);
  return nn::Sequential{nn::Conv2d(3, 20, 3, {.padding = 1}),
                        nn::BatchNorm2d(20),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(20, 24, 3, {.stride = 2, .padding = 1}),
                        nn::BatchNorm2d(24),
                        nn::ReLU(),
                        nn::Conv2d(24, 24, 1),
                        nn::AdaptiveAvgPool2d(1),
                        nn::Flatten(),
                        nn::Linear(24, 4)};
}

TEST(MemoryFormat, NetworksTrainAlikeInBothFormats) {
  nn::Sequential plain = network(), moved = network();
  plain.to(float64);
  moved.to(float64).to(channels_last);
  std::size_t images = 0;
  for (const Tensor& parameter : moved.parameters()) {
    if (parameter.ndim() != 4) continue;
    EXPECT_EQ(parameter.strides(), detail::channels_last_strides(parameter.shape()));
    ++images;
  }
  EXPECT_EQ(images, 3U);
  const Tensor x = drawn({4, 3, 12, 10}), target = tensor({0, 1, 2, 3});
  optim::Adam of_plain(plain.parameters(), {.lr = 0.01}),
      of_moved(moved.parameters(), {.lr = 0.01});
  for (int step = 0; step < 3; ++step) {
    Tensor a = x.clone().requires_grad_(), b = x.to(channels_last).clone().requires_grad_();
    of_plain.zero_grad();
    of_moved.zero_grad();
    const Tensor expected = cross_entropy(plain(a), target), loss = cross_entropy(moved(b), target);
    expect_near(loss, expected, 1e-10);
    expected.backward();
    loss.backward();
    // All gradients down to the images stay in the format.
    EXPECT_EQ(b.grad().strides(), b.strides());
    expect_near(b.grad(), a.grad(), 1e-9);
    of_plain.step();
    of_moved.step();
  }
  // The optimizer's states do not depend on the format of the parameters when it was constructed.
  moved.to(contiguous);
  for (int step = 0; step < 2; ++step) {
    of_plain.zero_grad();
    of_moved.zero_grad();
    cross_entropy(plain(x), target).backward();
    cross_entropy(moved(x), target).backward();
    of_plain.step();
    of_moved.step();
  }
  const auto expected = plain.parameters(), got = moved.parameters();
  for (std::size_t k = 0; k < got.size(); ++k) expect_near(got[k], expected[k], 1e-6);
}

TEST(MemoryFormat, GradientsOfGradients) {
  const Tensor w = drawn({4, 3, 3, 3});
  const auto twice = [&](const Tensor& start) {
    Tensor x = start.clone().requires_grad_();
    const Tensor y = max_pool2d(tanh(conv2d(x, w, {}, {.padding = 1})), 2);
    const Tensor g = grad({sum(y * y)}, {x}, {.create_graph = true})[0];
    sum(g * g).backward();
    return x.grad();
  };
  const Tensor x = drawn({2, 3, 6, 6});
  expect_near(twice(x.to(channels_last)), twice(x), 1e-11);
}

}  // namespace
