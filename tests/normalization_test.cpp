// Normalization: values and gradients against plain loops, large offsets and magnitudes, running
// statistics, and identical bits for any number of threads.
#include "extensor/normalization.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/draw.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using gradients::expect_gradient;
using gradients::Tensors;
using layouts::Layout;

constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

const auto* const counter = ::testing::AddGlobalTestEnvironment(new gradients::Counter);

Tensor laid_out(const Shape& shape, Layout layout, unsigned seed, DType dtype = DType::float64,
                double lo = -2, double hi = 2) {
  return layouts::with_layout(
      draw::uniform(layouts::drawn_shape(layout, shape), lo, hi, seed).to(dtype), layout, shape);
}

// The allowed error relative to the largest element: a few float roundings, and for a half one more
// at the end.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 0x1p-11;
    case DType::bfloat16:
      return 0x1p-8;
    case DType::float32:
      return 5e-7;
    default:
      return 1e-14;
  }
}

void expect_close(const Tensor& got, const std::vector<long double>& exact, double relative) {
  const auto values = values_of(got);
  ASSERT_EQ(values.size(), exact.size());
  long double largest = 0, worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::fabs(exact[i]));
    const long double error = std::fabs(exact[i] - static_cast<long double>(values[i]));
    if (!(error <= worst)) worst = error;
  }
  EXPECT_LE(worst, relative * std::max(largest, 1e-3L));
}

// The set of elements and the channel that the element at `i` belongs to.
struct Sets {
  std::function<std::size_t(std::size_t i)> set_of, channel_of;
  std::size_t sets;
};
Sets trailing(std::size_t length, std::size_t numel) {
  return {[=](std::size_t i) { return i / length; }, [=](std::size_t i) { return i % length; },
          length == 0 ? 0 : numel / length};
}
Sets grouped(std::size_t samples, std::size_t channels, std::size_t inner, std::size_t groups) {
  const std::size_t length = channels / groups * inner;
  return {[=](std::size_t i) { return i / length; },
          [=](std::size_t i) { return i / inner % channels; }, samples * groups};
}
Sets batched(std::size_t channels, std::size_t inner) {
  const auto channel = [=](std::size_t i) { return i / inner % channels; };
  return {channel, channel, channels};
}

// (x − mean) / √(variance + eps) · weight + bias, by the definition.
std::vector<long double> exact_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Sets& sets, bool centred = true, double eps = 1e-5) {
  const auto values = values_of(x), w = values_of(weight), b = values_of(bias);
  std::vector<long double> mean(sets.sets), variance(sets.sets), count(sets.sets);
  for (std::size_t i = 0; i < values.size(); ++i) {
    mean[sets.set_of(i)] += centred ? values[i] : 0;
    count[sets.set_of(i)] += 1;
  }
  for (std::size_t s = 0; s < sets.sets; ++s) mean[s] /= count[s];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t s = sets.set_of(i);
    variance[s] += (values[i] - mean[s]) * (values[i] - mean[s]) / count[s];
  }
  std::vector<long double> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t s = sets.set_of(i), c = sets.channel_of(i);
    result[i] = (values[i] - mean[s]) / std::sqrt(variance[s] + eps) * w[c] + b[c];
  }
  return result;
}

Tensor drawn_weight(const Shape& shape, DType dtype) {
  return draw::uniform(shape, 0.5, 1.5, 11).to(dtype);
}
Tensor drawn_bias(const Shape& shape, DType dtype) {
  return draw::uniform(shape, -1, 1, 12).to(dtype);
}

// ---- values

TEST(Normalization, LayerAndRmsValuesInEveryLayout) {
  for (DType dtype : float_dtypes) {
    for (std::int64_t length : {2, 3, 8, 17, 33, 100, 1024, 1500}) {
      for (Layout layout : layouts::every_layout) {
        const Shape shape{5, length};
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << layout << shape);
        const Tensor x = laid_out(shape, layout, 1, dtype);
        const Tensor w = drawn_weight({length}, dtype), b = drawn_bias({length}, dtype);
        const Sets sets = trailing(static_cast<std::size_t>(length), 5u * length);
        const Tensor y = layer_norm(x, {length}, w, b);
        EXPECT_EQ(y.dtype(), dtype);
        expect_close(y, exact_norm(x, w, b, sets), tolerance(dtype));
        expect_close(rms_norm(x, {length}, w, 1e-5), exact_norm(x, w, zeros({length}), sets, false),
                     tolerance(dtype));
        expect_close(layer_norm(x, {length}), exact_norm(x, ones({length}), zeros({length}), sets),
                     tolerance(dtype));
      }
    }
  }
}

TEST(Normalization, SeveralTrailingAxes) {
  const Tensor x = laid_out({2, 3, 4, 5}, Layout::transposed, 1);
  const Tensor w = drawn_weight({4, 5}, DType::float64), b = drawn_bias({4, 5}, DType::float64);
  expect_close(layer_norm(x, {4, 5}, w, b), exact_norm(x, w, b, trailing(20, 120)), 1e-14);
  const Tensor whole = ones({2, 3, 4, 5}), nothing = zeros({2, 3, 4, 5});
  expect_close(layer_norm(x, {2, 3, 4, 5}), exact_norm(x, whole, nothing, trailing(120, 120)),
               1e-14);
}

TEST(Normalization, GroupInstanceAndBatchValuesInEveryLayout) {
  for (DType dtype : float_dtypes) {
    for (const Shape& shape : {Shape{3, 6, 5}, Shape{2, 6, 4, 9}, Shape{70, 6}, Shape{2, 6, 33},
                               Shape{131, 6, 2}, Shape{2, 6, 20000}, Shape{70, 6, 25}}) {
      for (Layout layout : layouts::every_layout) {
        if (shape[shape.size() - 1] == 20000 && layout != Layout::contiguous) continue;
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << layout << shape);
        const Tensor x = laid_out(shape, layout, 1, dtype);
        const Tensor w = drawn_weight({6}, dtype), b = drawn_bias({6}, dtype);
        const auto samples = static_cast<std::size_t>(shape[0]);
        const std::size_t inner = static_cast<std::size_t>(x.numel()) / samples / 6;
        for (std::int64_t groups : {1, 2, 3}) {
          const Sets sets = grouped(samples, 6, inner, static_cast<std::size_t>(groups));
          expect_close(group_norm(x, groups, w, b), exact_norm(x, w, b, sets), tolerance(dtype));
        }
        if (inner > 1) {
          expect_close(instance_norm(x, w, b), exact_norm(x, w, b, grouped(samples, 6, inner, 6)),
                       tolerance(dtype));
        }
        const Tensor y = batch_norm(x, {}, {}, w, b, true);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), shape);
        expect_close(y, exact_norm(x, w, b, batched(6, inner)), tolerance(dtype));
      }
    }
  }
}

TEST(Normalization, ChannelsLastKeepsItsLayout) {
  const Tensor x = laid_out({4, 5, 6, 3}, Layout::contiguous, 1).transpose({0, 3, 1, 2});
  const Tensor y = batch_norm(x, {}, {}, {}, {}, true);
  EXPECT_EQ(y.strides(), x.strides());
  expect_close(y, exact_norm(x, ones({3}), zeros({3}), batched(3, 30)), 1e-14);
}

// An offset that all elements share does not reduce the accuracy.
TEST(Normalization, LargeOffsets) {
  for (double offset : {1e3, 1e5, -3e6}) {
    // Multiples of 1/4: exact in float32 with the offset.
    Tensor x = zeros({6, 4, 300}, DType::float32);
    const auto drawn = draw::uniform_values(x.numel(), -8, 8, 3);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      x.data<float>()[i] = static_cast<float>(offset + std::round(drawn[i]) / 4);
    }
    SCOPED_TRACE(offset);
    const Tensor w = ones({4}), b = zeros({4}), rows = x.reshape({24, 300});
    const Tensor columns = x.reshape({1800, 4});
    expect_close(layer_norm(rows, {300}),
                 exact_norm(rows, ones({300}), zeros({300}), trailing(300, 7200)), 1e-6);
    expect_close(group_norm(x, 2), exact_norm(x, w, b, grouped(6, 4, 300, 2)), 1e-6);
    expect_close(batch_norm(x, {}, {}, w, b, true), exact_norm(x, w, b, batched(4, 300)), 1e-6);
    expect_close(batch_norm(columns, {}, {}, w, b, true), exact_norm(columns, w, b, batched(4, 1)),
                 1e-6);
    // The gradients are those of the elements without the offset.
    const Tensor near = subtract(x, offset),
                 g = laid_out(x.shape(), Layout::contiguous, 5, DType::float32);
    const auto expect_same = [](const NormGradients& got, const NormGradients& expected) {
      for (const auto& [a, e] :
           {std::pair{got.x, expected.x}, std::pair{got.weight, expected.weight},
            std::pair{got.bias, expected.bias}}) {
        EXPECT_LE(max_reduce(abs(a - e)).item<float>(), 2e-6 * max_reduce(abs(e)).item<float>());
      }
    };
    expect_same(layer_norm_backward(g, x, {300}, ones({300}), ones({300})),
                layer_norm_backward(g, near, {300}, ones({300}), ones({300})));
    expect_same(group_norm_backward(g, x, 2, w, b), group_norm_backward(g, near, 2, w, b));
    expect_same(batch_norm_backward(g, x, {}, {}, w, b, true),
                batch_norm_backward(g, near, {}, {}, w, b, true));
  }
}

TEST(Normalization, SquaresBeyondTheRange) {
  const Tensor x = from_data(std::vector<float>{3e30f, -1e30f, 2e30f, -4e30f});
  const std::vector<long double> expected = exact_norm(x, ones({4}), zeros({4}), trailing(4, 4));
  expect_close(layer_norm(x, {4}), expected, 1e-6);
  expect_close(rms_norm(x, {4}), exact_norm(x, ones({4}), zeros({4}), trailing(4, 4), false), 1e-6);
}

TEST(Normalization, SpecialRows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = laid_out({3, 5}, Layout::contiguous, 1);
  x[1][2].fill(nan);
  const auto y = values_of(layer_norm(x, {5}));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 5 == 1);
  // With a variance of 0 only the bias remains.
  EXPECT_EQ(values_of(layer_norm(full({2, 3}, 7.25), {3}, {}, ones({3}))),
            std::vector<double>(6, 1));
  // A number is a row of one element; integers are converted to floats.
  EXPECT_EQ(values_of(layer_norm(full({}, 3.0), {})), std::vector<double>{0});
  EXPECT_EQ(layer_norm(arange(6).reshape({2, 3}), {3}).dtype(), DType::float32);
  // An empty tensor.
  EXPECT_EQ(layer_norm(zeros({0, 3}), {3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(layer_norm(zeros({3, 0}), {0}).shape(), (Shape{3, 0}));
  EXPECT_EQ(group_norm(zeros({2, 4, 0}), 2).shape(), (Shape{2, 4, 0}));
  EXPECT_EQ(instance_norm(zeros({0, 4, 3})).shape(), (Shape{0, 4, 3}));
  EXPECT_EQ(rms_norm(zeros({0, 3}), {3}).shape(), (Shape{0, 3}));
  for (const Shape& shape : {Shape{0, 4}, Shape{2, 4, 0}, Shape{0, 4, 3}}) {
    Tensor mean = zeros({4}), var = ones({4});
    EXPECT_EQ(batch_norm(zeros(shape), mean, var, {}, {}, true).shape(), shape);
    EXPECT_EQ(values_of(mean), std::vector<double>(4, 0)) << "nothing was seen";
    EXPECT_EQ(values_of(var), std::vector<double>(4, 1));
    const NormGradients none =
        batch_norm_backward(zeros(shape), zeros(shape), {}, {}, ones({4}), ones({4}), true);
    EXPECT_EQ(values_of(none.weight), std::vector<double>(4, 0));
    EXPECT_EQ(values_of(none.bias), std::vector<double>(4, 0));
  }
  const NormGradients none =
      layer_norm_backward(zeros({0, 3}), zeros({0, 3}), {3}, ones({3}), ones({3}));
  EXPECT_EQ(values_of(none.weight), std::vector<double>(3, 0));
  EXPECT_EQ(none.x.shape(), (Shape{0, 3}));
}

TEST(Normalization, RmsEpsDefaultsToTheDtypesEpsilon) {
  for (const auto& [dtype, eps] :
       {std::pair{DType::float16, 0x1p-10}, std::pair{DType::bfloat16, 0x1p-7},
        std::pair{DType::float32, 0x1p-23}, std::pair{DType::float64, 0x1p-52}}) {
    const Tensor x = full({2, 4}, std::sqrt(eps), dtype);
    EXPECT_NEAR(values_of(rms_norm(x, {4}))[0], std::sqrt(0.5), 5e-3) << name(dtype);
  }
}

// ---- running statistics

TEST(BatchNorm, MovesTheRunningStatistics) {
  for (DType dtype : float_dtypes) {
    for (const Shape& shape : {Shape{7, 3}, Shape{4, 3, 5}, Shape{2, 3, 40}}) {
      const Tensor x = laid_out(shape, Layout::contiguous, 1, dtype);
      const std::size_t inner = static_cast<std::size_t>(x.numel() / x.size(0) / 3);
      const auto values = values_of(x);
      // In memory with gaps.
      Tensor memory = zeros({2, 6});
      Tensor mean = memory[0].slice(0, 0, {}, 2), var = memory[1].slice(0, 1, {}, 2);
      mean.fill(0.5);
      var.fill(2);
      batch_norm(x, mean, var, {}, {}, true, 0.3);
      for (std::size_t c = 0; c < 3; ++c) {
        double sum = 0, squares = 0, n = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (i / inner % 3 == c) sum += values[i], n += 1;
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (i / inner % 3 == c) squares += (values[i] - sum / n) * (values[i] - sum / n);
        }
        EXPECT_NEAR(values_of(mean)[c], 0.7 * 0.5 + 0.3 * sum / n, 1e-6);
        EXPECT_NEAR(values_of(var)[c], 0.7 * 2 + 0.3 * squares / (n - 1), 1e-6);
      }
      EXPECT_EQ(values_of(memory[0].slice(0, 1, {}, 2)), std::vector<double>(3, 0));
      // Outside training they are read and unchanged.
      const Tensor before = memory.clone();
      const auto y = values_of(batch_norm(x, mean, var));
      EXPECT_TRUE(identical(memory, before));
      const auto m = values_of(mean), v = values_of(var);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t c = i / inner % 3;
        EXPECT_NEAR(y[i], (values[i] - m[c]) / std::sqrt(v[c] + 1e-5), 4 * tolerance(dtype) + 1e-6);
      }
    }
  }
}

// ---- threads

void append(Tensors& list, const NormGradients& gradients) {
  list.insert(list.end(), {gradients.x, gradients.weight, gradients.bias});
}

TEST(Normalization, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    const Tensor rows = laid_out({701, 130}, Layout::contiguous, 1, dtype);
    const Tensor rows_g = laid_out({701, 130}, Layout::contiguous, 2, dtype);
    const Tensor maps = laid_out({9, 8, 33, 17}, Layout::contiguous, 3, dtype);
    const Tensor maps_g = laid_out({9, 8, 33, 17}, Layout::contiguous, 4, dtype);
    const Tensor small = laid_out({40, 8, 6, 7}, Layout::contiguous, 5, dtype);
    const Tensor small_g = laid_out({40, 8, 6, 7}, Layout::contiguous, 6, dtype);
    const Tensor w = drawn_weight({130}, dtype), w8 = drawn_weight({8}, dtype);
    const auto run = [&] {
      Tensors list{layer_norm(rows, {130}, w, w), group_norm(maps, 2, w8, w8)};
      append(list, layer_norm_backward(rows_g, rows, {130}, w, w));
      append(list, group_norm_backward(maps_g, maps, 2, w8, w8));
      append(list, instance_norm_backward(maps_g, maps, w8, w8));
      for (const auto& [x, g, weight] : {std::tuple{rows, rows_g, w}, std::tuple{maps, maps_g, w8},
                                         std::tuple{small, small_g, w8}}) {
        list.push_back(batch_norm(x, {}, {}, weight, weight, true));
        append(list, batch_norm_backward(g, x, {}, {}, weight, weight, true));
      }
      return list;
    };
    set_num_threads(1);
    const Tensors expected = run();
    for (int threads : {2, 3, 4}) {
      set_num_threads(threads);
      const Tensors got = run();
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(identical(got[i], expected[i])) << name(dtype) << " " << threads << " " << i;
      }
    }
  }
  set_num_threads(before);
}

// Large results bypass the caches, in rows that do not fill whole lines.
TEST(Normalization, LargeCallsGiveTheSameBits) {
  const std::int64_t rows = 4400, length = 1003;
  const Tensor x = draw::uniform({rows, length}, -2, 2, 1).to(DType::float32);
  const Tensor g = draw::uniform({rows, length}, -2, 2, 2).to(DType::float32);
  const Tensor w = drawn_weight({length}, DType::float32), one = ones({length});
  const Tensor maps = x.reshape({44, 100, length}), maps_g = g.reshape({44, 100, length});
  const Tensor mean = zeros({100}), var = ones({100});
  const Tensor large[] = {
      layer_norm(x, {length}, w, w), layer_norm_backward(g, x, {length}, w, w).x,
      group_norm(maps, 5),           group_norm_backward(maps_g, maps, 5).x,
      batch_norm(maps, mean, var),   batch_norm_backward(maps_g, maps, mean, var).x,
      batch_norm(x, one, one),       batch_norm_backward(g, x, one, one).x};
  for (std::int64_t at : {0, 1100, 4300}) {
    const auto part = [&](const Tensor& t) {
      return t.ndim() == 2 ? t.slice(0, at, at + 100) : t.slice(0, at / 100, at / 100 + 1);
    };
    const Tensor a = part(x), b = part(g), c = part(maps), d = part(maps_g);
    const Tensor small[] = {layer_norm(a, {length}, w, w),
                            layer_norm_backward(b, a, {length}, w, w).x,
                            group_norm(c, 5),
                            group_norm_backward(d, c, 5).x,
                            batch_norm(c, mean, var),
                            batch_norm_backward(d, c, mean, var).x,
                            batch_norm(a, one, one),
                            batch_norm_backward(b, a, one, one).x};
    for (std::size_t i = 0; i < std::size(large); ++i) {
      EXPECT_TRUE(identical(part(large[i]), small[i])) << i << " at " << at;
    }
  }
}

// ---- gradients

Tensors list_of(const NormGradients& gradients) {
  return {gradients.x, gradients.weight, gradients.bias};
}

TEST(NormalizationGradient, Layer) {
  for (const Shape& shape : {Shape{3, 7}, Shape{6, 17}, Shape{2, 3, 5}, Shape{9, 4}, Shape{0, 3}}) {
    for (Layout layout : layouts::every_layout) {
      if (!layouts::is_distinct(layout, shape)) continue;
      SCOPED_TRACE(testing::Message() << layout << " " << shape);
      const std::int64_t length = shape[shape.size() - 1];
      const Tensor x = laid_out(shape, layout, 1);
      const Tensor w = laid_out({length}, layout, 2), b = laid_out({length}, layout, 3);
      expect_gradient(
          "layer_norm_backward",
          [&](const Tensors& in) { return layer_norm(in[0], {length}, in[1], in[2]); },
          [&](const Tensor& g, const Tensors& in) {
            return list_of(layer_norm_backward(g, in[0], {length}, in[1], in[2]));
          },
          {x, w, b});
      expect_gradient(
          "rms_norm_backward",
          [&](const Tensors& in) { return rms_norm(in[0], {length}, in[1], 1e-3); },
          [&](const Tensor& g, const Tensors& in) {
            auto [grad_x, grad_weight] = rms_norm_backward(g, in[0], {length}, in[1], 1e-3);
            return Tensors{grad_x, grad_weight};
          },
          {x, w});
    }
  }
}

TEST(NormalizationGradient, GroupInstanceAndBatch) {
  for (const Shape& shape :
       {Shape{3, 4, 3}, Shape{2, 4, 2, 9}, Shape{5, 4, 1}, Shape{2, 4, 17}, Shape{7, 4}}) {
    for (Layout layout : layouts::every_layout) {
      SCOPED_TRACE(testing::Message() << layout << " " << shape);
      const Tensor x = laid_out(shape, layout, 1);
      const Tensor w = laid_out({4}, layout, 2), b = laid_out({4}, layout, 3);
      for (std::int64_t groups : {1, 2}) {
        expect_gradient(
            "group_norm_backward",
            [&](const Tensors& in) { return group_norm(in[0], groups, in[1], in[2], 1e-2); },
            [&](const Tensor& g, const Tensors& in) {
              return list_of(group_norm_backward(g, in[0], groups, in[1], in[2], 1e-2));
            },
            {x, w, b});
      }
      if (x.numel() > x.size(0) * 4) {
        expect_gradient(
            "instance_norm_backward",
            [](const Tensors& in) { return instance_norm(in[0], in[1], in[2], 1e-2); },
            [](const Tensor& g, const Tensors& in) {
              return list_of(instance_norm_backward(g, in[0], in[1], in[2], 1e-2));
            },
            {x, w, b});
      }
      for (bool training : {false, true}) {
        const Tensor mean = laid_out({4}, layout, 4),
                     var = laid_out({4}, layout, 5, DType::float64, 0.5, 2);
        expect_gradient(
            "batch_norm_backward",
            [&](const Tensors& in) {
              return batch_norm(in[0], mean.clone(), var.clone(), in[1], in[2], training, 0.1,
                                1e-2);
            },
            [&](const Tensor& g, const Tensors& in) {
              return list_of(
                  batch_norm_backward(g, in[0], mean, var, in[1], in[2], training, 1e-2));
            },
            {x, w, b});
      }
    }
  }
}

// Samples of few elements per channel are summed together.
TEST(NormalizationGradient, OfManySmallImages) {
  const auto pixels_first = [](const Tensor& x) { return x.to(MemoryFormat::channels_last); };
  const Tensor x = laid_out({70, 3, 5, 5}, Layout::contiguous, 1);
  const Tensor g = laid_out({70, 3, 5, 5}, Layout::contiguous, 2);
  const Tensor w = laid_out({3}, Layout::contiguous, 3), b = zeros({3}, DType::float64);
  const Tensors got = list_of(batch_norm_backward(g, x, {}, {}, w, b, true));
  const Tensors expected =
      list_of(batch_norm_backward(pixels_first(g), pixels_first(x), {}, {}, w, b, true));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(allclose(got[i], expected[i], 1e-12));
  const Tensor y = batch_norm_add_relu(x, {}, {}, {}, w, b, true);
  const auto fused = batch_norm_add_relu_backward(g, x, {}, y, {}, {}, w, b, true);
  const Tensors apart = list_of(batch_norm_backward(relu_backward(g, y), x, {}, {}, w, b, true));
  EXPECT_TRUE(identical(fused.x, apart[0]));
  EXPECT_TRUE(identical(fused.weight, apart[1]));
}

TEST(NormalizationGradient, WithoutParameters) {
  const Tensor x = laid_out({3, 4, 5}, Layout::contiguous, 1);
  const Tensor g = laid_out({3, 4, 5}, Layout::contiguous, 2);
  const Tensor w = ones({5}, DType::float64), b = zeros({5}, DType::float64);
  const NormGradients both = layer_norm_backward(g, x, {5}, w, b);
  const NormGradients neither = layer_norm_backward(g, x, {5});
  const NormGradients bias_alone = layer_norm_backward(g, x, {5}, {}, b);
  EXPECT_TRUE(identical(both.x, neither.x));
  EXPECT_FALSE(neither.weight.defined() || neither.bias.defined() || bias_alone.weight.defined());
  EXPECT_TRUE(identical(both.bias, bias_alone.bias));
  EXPECT_FALSE(rms_norm_backward(g, x, {5}).second.defined());
  EXPECT_FALSE(batch_norm_backward(g, x, {}, {}, {}, {}, true).bias.defined());
  EXPECT_FALSE(group_norm_backward(g, x, 2).weight.defined());
}

// Many rows, so that the sums of the parameters' gradients use blocks and their tree.
TEST(NormalizationGradient, NarrowDtypesAgreeWithFloat64) {
  const std::pair<DType, double> narrow[] = {
      {DType::float32, 1.3e-6}, {DType::float16, 1e-3}, {DType::bfloat16, 1.6e-2}};
  const auto wide = [](const Tensor& t) { return t.to(DType::float64); };
  for (const auto& [dtype, limit] : narrow) {
    const Tensor x = laid_out({1037, 6, 20}, Layout::contiguous, 1, dtype);
    const Tensor g = laid_out({1037, 6, 20}, Layout::contiguous, 2, dtype);
    const Tensor w = drawn_weight({20}, dtype), w6 = drawn_weight({6}, dtype);
    const Tensor w64 = wide(w), w664 = wide(w6), rows = x.reshape({6222, 20});
    const Tensor rows_g = g.reshape({6222, 20});
    const std::pair<NormGradients, NormGradients> pairs[] = {
        {layer_norm_backward(g, x, {20}, w, w),
         layer_norm_backward(wide(g), wide(x), {20}, w64, w64)},
        {group_norm_backward(g, x, 3, w6, w6),
         group_norm_backward(wide(g), wide(x), 3, w664, w664)},
        {instance_norm_backward(g, x, w6, w6),
         instance_norm_backward(wide(g), wide(x), w664, w664)},
        {batch_norm_backward(g, x, {}, {}, w6, w6, true),
         batch_norm_backward(wide(g), wide(x), {}, {}, w664, w664, true)},
        {batch_norm_backward(rows_g, rows, {}, {}, w, w, true),
         batch_norm_backward(wide(rows_g), wide(rows), {}, {}, w64, w64, true)}};
    for (std::size_t p = 0; p < std::size(pairs); ++p) {
      const Tensors got = list_of(pairs[p].first), exact = list_of(pairs[p].second);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(got[i].dtype(), dtype);
        EXPECT_LE(max_reduce(abs(wide(got[i]) - exact[i])).item<double>(),
                  limit * max_reduce(abs(exact[i])).item<double>())
            << name(dtype) << " " << p << " " << i;
      }
    }
  }
}

// Each gradient has the dtype of its tensor.
TEST(NormalizationGradient, MixedDtypes) {
  const Tensor x = laid_out({4, 6}, Layout::contiguous, 1, DType::bfloat16);
  const Tensor g = laid_out({4, 6}, Layout::contiguous, 2, DType::bfloat16);
  const Tensor w = drawn_weight({6}, DType::float32), b = drawn_bias({6}, DType::float64);
  EXPECT_EQ(layer_norm(x, {6}, w, b).dtype(), DType::bfloat16);
  for (const NormGradients& gradients :
       {layer_norm_backward(g, x, {6}, w, b), batch_norm_backward(g, x, {}, {}, w, b, true),
        group_norm_backward(g, x, 2, w, b)}) {
    EXPECT_EQ(gradients.x.dtype(), DType::bfloat16);
    EXPECT_EQ(gradients.weight.dtype(), DType::float32);
    EXPECT_EQ(gradients.bias.dtype(), DType::float64);
  }
}

}  // namespace
}  // namespace extensor
