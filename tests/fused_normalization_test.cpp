// add_layer_norm, add_rms_norm and batch_norm_add_relu: bit-identical to the ops that they replace,
// any number of threads, undefined gradients, running statistics, NaN, and bad arguments.
// op_database_test compares values and gradients with independent ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using compare::identical;
using layouts::Layout;
using test_support::expect_error;
using Tensors = std::vector<Tensor>;

constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

Tensor drawn(const Shape& shape, unsigned seed, DType dtype, double lo = -2, double hi = 2) {
  return draw::uniform(shape, lo, hi, seed).to(dtype);
}
Tensor laid_out(const Shape& shape, Layout layout, unsigned seed, DType dtype) {
  return layouts::with_layout(drawn(layouts::drawn_shape(layout, shape), seed, dtype), layout,
                              shape);
}
Tensor leaf(const Tensor& x) { return x.detach().clone().requires_grad_(); }

void expect_identical(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_EQ(got[k].dtype(), expected[k].dtype()) << k;
    EXPECT_TRUE(identical(got[k], expected[k])) << k;
  }
}

// ---- the norm of a sum

TEST(AddNorm, HasTheBitsOfTheTwoOps) {
  for (DType dtype : float_dtypes) {
    for (std::int64_t length : {1, 3, 17, 64, 1500}) {
      for (Layout layout : layouts::every_layout) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << length << " " << layout);
        const Tensor x = laid_out({9, length}, layout, 1, dtype);
        const Tensor residual = laid_out({9, length}, layout, 2, dtype);
        const Tensor w = drawn({length}, 3, dtype), b = drawn({length}, 4, dtype);
        const auto [sum, output] = add_layer_norm(x, residual, {length}, w, b);
        expect_identical({sum, output}, {x + residual, layer_norm(x + residual, {length}, w, b)});
        const auto [rms_sum, rms_output] = add_rms_norm(x, residual, {length}, w);
        expect_identical({rms_sum, rms_output},
                         {x + residual, rms_norm(x + residual, {length}, w)});
      }
    }
  }
}

// In float32 and float64, where the gradient of the norm is not rounded before grad_sum is added.
TEST(AddNorm, HasTheGradientsOfTheTwoOps) {
  for (DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape : {Shape{6, 33}, Shape{2, 70, 8}}) {
      const Shape width{shape.back()};
      const Tensor g_sum = drawn(shape, 5, dtype), g_output = drawn(shape, 6, dtype);
      const auto run = [&](bool fused, bool centred) {
        const Tensor x = leaf(drawn(shape, 1, dtype)), residual = leaf(drawn(shape, 2, dtype));
        const Tensor w = leaf(drawn(width, 3, dtype)), b = leaf(drawn(width, 4, dtype));
        AddNormResult result;
        if (fused) {
          result = centred ? add_layer_norm(x, residual, width, w, b)
                           : add_rms_norm(x, residual, width, w);
        } else {
          result.sum = x + residual;
          result.output =
              centred ? layer_norm(result.sum, width, w, b) : rms_norm(result.sum, width, w);
        }
        Tensors inputs{x, residual, w};
        if (centred) inputs.push_back(b);
        return grad({result.sum, result.output}, inputs, {.grad_outputs = {g_sum, g_output}});
      };
      for (bool centred : {true, false}) expect_identical(run(true, centred), run(false, centred));
    }
  }
}

TEST(AddNorm, EitherGradientMayBeUndefined) {
  const Tensor sum = drawn({4, 6}, 1, float64), g = drawn({4, 6}, 2, float64);
  const Tensor w = drawn({6}, 3, float64), b = drawn({6}, 4, float64);
  const NormGradients plain = layer_norm_backward(g, sum, {6}, w, b);
  const NormGradients of_output = add_layer_norm_backward({}, g, sum, {6}, w, b);
  expect_identical({of_output.x, of_output.weight, of_output.bias},
                   {plain.x, plain.weight, plain.bias});
  const NormGradients of_sum = add_layer_norm_backward(g, {}, sum, {6}, w, b);
  expect_identical({of_sum.x, of_sum.weight, of_sum.bias}, {g, zeros_like(w), zeros_like(b)});
  EXPECT_FALSE(add_layer_norm_backward(g, {}, sum, {6}).weight.defined());
  const auto [rms_x, rms_weight] = add_rms_norm_backward({}, g, sum, {6}, w);
  const auto [expected_x, expected_weight] = rms_norm_backward(g, sum, {6}, w);
  expect_identical({rms_x, rms_weight}, {expected_x, expected_weight});
}

// Nothing depends on one result: the recorded op then has one gradient.
TEST(AddNorm, OneResultMayBeUnused) {
  const Tensor x = leaf(drawn({3, 5}, 1, float64)), w = leaf(drawn({5}, 2, float64));
  const Tensor residual = drawn({3, 5}, 3, float64);
  extensor::sum(add_layer_norm(x, residual, {5}, w).sum).backward();
  expect_identical({x.grad()}, {ones({3, 5}, float64)});
  EXPECT_FALSE(w.grad().defined());
  extensor::sum(add_layer_norm(x, residual, {5}, w).output).backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(AddNorm, PromotesLikeTheSum) {
  const Tensor half = drawn({3, 8}, 1, float16), single = drawn({3, 8}, 2, float32);
  const Tensor x = leaf(half), residual = leaf(single);
  const auto [sum, output] = add_layer_norm(x, residual, {8});
  expect_identical({sum, output}, {half + single, layer_norm(half + single, {8})});
  extensor::sum(sum + output).backward();
  EXPECT_EQ(x.grad().dtype(), DType::float16);
  EXPECT_EQ(residual.grad().dtype(), DType::float32);
}

CHILD_TEST(AddNorm, RefusesWhatDoesNotFit) {
  const Tensor x = ones({2, 4}), row = ones({4}), integers = ones({2, 4}, int64), none;
  expect_error<ShapeError>([&] { add_layer_norm(x, row, {4}); },
                           {"add_layer_norm", "residual", "[4]", "[2, 4]"}, {x, row});
  expect_error<ShapeError>([&] { add_rms_norm(x, x, {3}); }, {"add_rms_norm", "[3]"}, {x});
  expect_error<ShapeError>([&] { add_layer_norm(x, x, {4}, {}, x); }, {"bias", "[2, 4]"}, {x});
  expect_error<DTypeError>([&] { add_layer_norm(integers, x, {4}); }, {"x is int64"}, {integers});
  expect_error<DTypeError>([&] { add_rms_norm(x, integers, {4}); }, {"residual is int64"}, {x});
  expect_error<ValueError>([&] { add_layer_norm(x, x, {4}, {}, {}, -1); }, {"eps", "-1"}, {x});
  expect_error<ValueError>([&] { add_layer_norm(x, none, {4}); }, {"undefined"}, {x});
  expect_error<ValueError>([&] { add_rms_norm(x, none, {4}); }, {"undefined"}, {x});
  expect_error<ValueError>([&] { add_layer_norm_backward({}, {}, x, {4}); },
                           {"add_layer_norm_backward", "grad_sum and grad_output"}, {x});
  expect_error<ShapeError>([&] { add_layer_norm_backward(row, x, x, {4}); },
                           {"grad_sum", "[4]", "[2, 4]"}, {x});
  expect_error<ShapeError>([&] { add_layer_norm_backward(row, {}, x, {4}); }, {"grad_sum"}, {x});
  expect_error<ShapeError>([&] { add_rms_norm_backward(x, row, x, {4}); }, {"grad_output"}, {x});
  expect_error<DTypeError>([&] { add_rms_norm_backward(x, x, integers, {4}); }, {"sum is int64"},
                           {x});
}

// ---- batch norm, addition and relu

struct Channels {
  Tensor x, residual, g, w, b, mean, var;

  Channels(const Shape& shape, DType dtype, Layout layout = Layout::contiguous)
      : x(laid_out(shape, layout, 1, dtype)),
        residual(laid_out(shape, layout, 2, dtype)),
        g(laid_out(shape, layout, 3, dtype)),
        w(drawn({shape[1]}, 4, dtype)),
        b(drawn({shape[1]}, 5, dtype)),
        mean(drawn({shape[1]}, 6, dtype)),
        var(drawn({shape[1]}, 7, dtype, 0.5, 2)) {}
};

const Shape channel_shapes[] = {{9, 5},       {70, 130},   {4, 3, 17},
                                {2, 6, 5, 7}, {131, 6, 2}, {2, 3, 20000}};

// Results, gradients and the running statistics after them.
Tensors batch_norm_add_relu_of(const Channels& c, bool fused, bool with_residual, bool training) {
  const Tensor x = leaf(c.x), w = leaf(c.w), b = leaf(c.b), mean = c.mean.clone(),
               var = c.var.clone();
  const Tensor residual = with_residual ? leaf(c.residual) : Tensor();
  Tensor y;
  if (fused) {
    y = batch_norm_add_relu(x, residual, mean, var, w, b, training);
  } else {
    y = batch_norm(x, mean, var, w, b, training);
    y = relu(with_residual ? y + residual : y);
  }
  y.backward(c.g);
  Tensors list{y, x.grad(), w.grad(), b.grad(), mean, var};
  if (with_residual) list.push_back(residual.grad());
  return list;
}

TEST(BatchNormAddRelu, HasTheBitsOfTheThreeOps) {
  for (DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape : channel_shapes) {
      for (Layout layout : layouts::every_layout) {
        if (shape.back() == 20000 && layout != Layout::contiguous) continue;
        const Channels c(shape, dtype, layout);
        for (bool residual : {true, false}) {
          for (bool training : {true, false}) {
            SCOPED_TRACE(testing::Message()
                         << name(dtype) << " " << shape << layout << residual << training);
            expect_identical(batch_norm_add_relu_of(c, true, residual, training),
                             batch_norm_add_relu_of(c, false, residual, training));
          }
        }
      }
    }
  }
}

// Adjacent channels stay adjacent in memory.
TEST(BatchNormAddRelu, KeepsChannelsLast) {
  const Channels c({2, 6, 5, 7}, float32);
  const auto channels_last = [](const Tensor& x) {
    return x.transpose({0, 2, 3, 1}).contiguous().transpose({0, 3, 1, 2});
  };
  const Tensor y = batch_norm_add_relu(channels_last(c.x), channels_last(c.residual), {}, {});
  EXPECT_TRUE(y.transpose({0, 2, 3, 1}).is_contiguous());
  expect_identical({y}, {relu(batch_norm(channels_last(c.x), {}, {}) + c.residual)});
}

// The sum is rounded once: never further from the exact one than that of the three ops.
TEST(BatchNormAddRelu, RoundsHalvesOnce) {
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    for (const Shape& shape : {Shape{70, 6}, Shape{4, 3, 17}}) {
      const Channels c(shape, dtype);
      const auto run = [&](DType computed) {
        return batch_norm_add_relu(c.x.to(computed), c.residual.to(computed), {}, {},
                                   c.w.to(computed), c.b.to(computed), true);
      };
      expect_identical({run(dtype)}, {run(float32).to(dtype)});
    }
  }
}

TEST(BatchNormAddRelu, OnlyTheResidualMayNeedAGradient) {
  const Channels c({4, 3, 17}, float64);
  const Tensor residual = leaf(c.residual);
  const Tensor y = batch_norm_add_relu(c.x, residual, {}, {}, c.w, c.b);
  y.backward(c.g);
  expect_identical({residual.grad()}, {relu_backward(c.g, y)});
}

TEST(BatchNormAddRelu, LetsNaNThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor({{1.F, 2.F}, {3.F, 4.F}}), residual = tensor({{nan, 9.F}, {-9.F, 0.F}});
  const std::vector<float> y = batch_norm_add_relu(x, residual, {}, {}).to_vector<float>();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_GT(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_FALSE(std::signbit(y[2]));
}

CHILD_TEST(BatchNormAddRelu, RefusesWhatDoesNotFit) {
  const Tensor x = ones({2, 3, 4}), mean = zeros({3}), var = ones({3}), row = ones({4}), none;
  const Tensor integers = ones({2, 3, 4}, int64), single = ones({1, 3});
  const auto forward = [&](const Tensor& input, const Tensor& residual) {
    return [=] { batch_norm_add_relu(input, residual, mean, var, {}, {}, true); };
  };
  const Tensors kept{x, mean, var};
  expect_error<ShapeError>(forward(x, row), {"batch_norm_add_relu", "residual", "[4]"}, kept);
  expect_error<DTypeError>(forward(x, integers), {"residual is int64"}, kept);
  expect_error<DTypeError>(forward(integers, x), {"x is int64"}, kept);
  expect_error<ValueError>(forward(single, single), {"batch_norm_add_relu", "one value"}, kept);
  expect_error<ShapeError>(forward(row, none), {"batch_norm_add_relu", "[4]"}, kept);
  expect_error<ValueError>([&] { batch_norm_add_relu(x, x, mean, var, {}, {}, true, 2); },
                           {"batch_norm_add_relu", "momentum"}, kept);
  expect_error<ValueError>([&] { batch_norm_add_relu(x, x, mean, none); }, {"together"}, kept);
  const auto backward = [&](const Tensor& g, const Tensor& residual, const Tensor& result) {
    return [=] { batch_norm_add_relu_backward(g, x, residual, result, mean, var); };
  };
  expect_error<ShapeError>(backward(row, x, x), {"grad_output", "[4]"}, kept);
  expect_error<ShapeError>(backward(x, row, x), {"residual", "[4]"}, kept);
  expect_error<ShapeError>(backward(x, x, row), {"result", "[4]"}, kept);
  expect_error<ValueError>(backward(x, x, none), {"undefined"}, kept);
}

// ---- both

// Sizes above which results bypass the caches.
TEST(FusedNorms, LargeTensorsHaveTheSameBits) {
  const Tensor x = drawn({3000, 768}, 1, float32), r = drawn({3000, 768}, 2, float32);
  const auto [sum, output] = add_layer_norm(x, r, {768});
  expect_identical({sum, output}, {x + r, layer_norm(x + r, {768})});
  expect_identical({add_layer_norm_backward(r, x, sum, {768}).x},
                   {layer_norm_backward(x, sum, {768}).x + r});
  for (const Shape& shape : {Shape{8, 32, 96, 96}, Shape{9216, 256}}) {
    const Channels c(shape, float32);
    expect_identical(batch_norm_add_relu_of(c, true, true, true),
                     batch_norm_add_relu_of(c, false, true, true));
  }
}

TEST(FusedNorms, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    const Tensor x = drawn({701, 130}, 1, dtype), r = drawn({701, 130}, 2, dtype);
    const Tensor w = drawn({130}, 3, dtype);
    const Channels rows({701, 130}, dtype), maps({9, 8, 33, 17}, dtype);
    const auto run = [&] {
      const auto [sum, output] = add_layer_norm(x, r, {130}, w, w);
      const NormGradients found = add_layer_norm_backward(x, r, sum, {130}, w, w);
      Tensors list{sum, output, found.x, found.weight, found.bias};
      for (const Channels* c : {&rows, &maps}) {
        for (const Tensor& t : batch_norm_add_relu_of(*c, true, true, true)) list.push_back(t);
      }
      return list;
    };
    set_num_threads(1);
    const Tensors expected = run();
    for (int threads : {2, 3, 4}) {
      set_num_threads(threads);
      expect_identical(run(), expected);
    }
  }
  set_num_threads(before);
}

TEST(FusedNorms, ModulesUseTheirParameters) {
  manual_seed(1);
  nn::LayerNorm layer(8, {.eps = 1e-3});
  nn::RMSNorm rms(8, {.eps = 1e-3});
  nn::BatchNorm2d batch(3, {.eps = 1e-3, .momentum = 0.5}), other = batch;
  const Tensor x = normal({4, 8}, 0, 1), r = normal({4, 8}, 0, 1);
  layer.weight.tensor().detach().fill(2);
  rms.weight.tensor().detach().fill(3);
  expect_identical({layer.forward_add(x, r).output, rms.forward_add(x, r).output},
                   {layer(x + r), rms(x + r)});
  const Tensor image = normal({2, 3, 4, 5}, 0, 1), residual = normal({2, 3, 4, 5}, 0, 1);
  for (bool training : {true, false}) {
    batch.train(training);
    other.train(training);
    expect_identical({batch.forward_add_relu(image, residual), batch.forward_add_relu(image)},
                     {relu(other(image) + residual), relu(other(image))});
    expect_identical({batch.running_mean, batch.running_var, batch.num_batches_tracked},
                     {other.running_mean, other.running_var, other.num_batches_tracked});
  }
  EXPECT_THROW(batch.forward_add_relu(x), ShapeError);
  EXPECT_THROW(layer.forward_add(x, r.to(float64)), DTypeError);
}

}  // namespace
}  // namespace extensor
