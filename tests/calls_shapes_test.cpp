// Literals, PyTorch's names, splitting by sizes, negative padding, unbatched images, broadcasting
// masks, scatter with a reduction, reductions with a dtype, and multinomial.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "extensor/extensor.h"

namespace {

using ext::Reduction;
using ext::Shape;
using ext::Tensor;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(ext::float64).to_vector<double>(); }

TEST(CallsShapes, Literals) {
  const Tensor mixed = ext::tensor({{1, 2.5}, {3, 4}});
  EXPECT_EQ(mixed.dtype(), ext::float32);
  EXPECT_EQ(mixed.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(mixed), (Values{1, 2.5, 3, 4}));
  const Tensor cube = ext::tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});
  EXPECT_EQ(cube.dtype(), ext::int64);
  EXPECT_EQ(cube.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values(cube), (Values{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ext::tensor({{{{1.5f}}}}).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_EQ(ext::tensor({{5}}).shape(), (Shape{1, 1}));
  EXPECT_EQ(ext::tensor({5}).shape(), (Shape{1}));
  EXPECT_EQ(ext::tensor({}).shape(), (Shape{0}));
  EXPECT_EQ(ext::tensor({}).dtype(), ext::float32);
  EXPECT_EQ(ext::tensor(3.5).shape(), (Shape{}));
  EXPECT_EQ(ext::tensor(3).dtype(), ext::int64);
  EXPECT_EQ(ext::tensor(true).dtype(), ext::bool_);
  EXPECT_EQ(ext::tensor(3, ext::float16).dtype(), ext::float16);
  EXPECT_EQ(ext::tensor({true, false}).dtype(), ext::bool_);
  EXPECT_EQ(ext::tensor({true, 2}).dtype(), ext::int64);
  EXPECT_EQ(values(ext::tensor({true, 2.5})), (Values{1, 2.5}));
  EXPECT_EQ(ext::tensor({1, 2}, ext::float64).dtype(), ext::float64);
  EXPECT_EQ(ext::tensor({1L, 2}, {.dtype = ext::int8}).dtype(), ext::int8);
  // Integers stay exact, also next to each other in different types.
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(ext::tensor({large, std::int64_t{-1}})[0].item<std::int64_t>(), large);
  const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(ext::tensor({huge}).dtype(), ext::uint64);
  EXPECT_EQ(ext::tensor({huge, std::uint64_t{1}})[0].item<std::uint64_t>(), huge);
  EXPECT_THROW((ext::tensor({{huge}, {std::int64_t{-1}}})), ext::DTypeError);
  EXPECT_THROW(ext::tensor({{1, 2}, {3}}), ext::ShapeError);
  EXPECT_THROW(ext::tensor({{{1}, {2}}, {{3}}}), ext::ShapeError);
  EXPECT_THROW(ext::tensor({1, {2}}), ext::ShapeError);
  EXPECT_THROW(ext::tensor({{1}, 2}), ext::ShapeError);
}

TEST(CallsShapes, NamesOfPyTorch) {
  const Tensor a = ext::tensor({{1.0, 2.0}, {3.0, 4.0}}), b = ext::tensor({{5.0, 6.0}, {7.0, 8.0}});
  EXPECT_EQ(ext::cat({a, b}, 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(values(clamp(a, 2, 3)), (Values{2, 2, 3, 3}));
  EXPECT_EQ(mse_loss(a, b).item<float>(), 16);
  EXPECT_EQ(mse_loss(a, b, Reduction::sum).item<float>(), 64);
  EXPECT_EQ(values(cumsum(a, 0)), (Values{1, 2, 4, 6}));
  EXPECT_EQ(values(cumprod(a, 1)), (Values{1, 2, 3, 12}));
  EXPECT_EQ(values(mm(a, b)), (Values{19, 22, 43, 50}));
  EXPECT_EQ(values(sub(a, b)), Values(4, -4));
  EXPECT_EQ(values(mul(a, 2)), (Values{2, 4, 6, 8}));
  EXPECT_EQ(values(div(1, a))[3], 0.25);
  EXPECT_EQ(values(neg(a)), (Values{-1, -2, -3, -4}));
  EXPECT_EQ(values(eq(a, 2)), (Values{0, 1, 0, 0}));
  EXPECT_EQ(values(ne(a, 2)), (Values{1, 0, 1, 1}));
  EXPECT_EQ(values(lt(a, 2)), (Values{1, 0, 0, 0}));
  EXPECT_EQ(values(le(a, 2)), (Values{1, 1, 0, 0}));
  EXPECT_EQ(values(gt(a, 2)), (Values{0, 0, 1, 1}));
  EXPECT_EQ(values(ge(a, b)), Values(4, 0));
  EXPECT_EQ(values(amax(a, 1)), (Values{2, 4}));
  EXPECT_EQ(values(amin(a)), Values{1});
  EXPECT_EQ(values(permute(a, {1, 0})), (Values{1, 3, 2, 4}));
  EXPECT_EQ(values(swapaxes(a, 0, 1)), (Values{1, 3, 2, 4}));
  EXPECT_EQ(unbind(a)[1].shape(), (Shape{2}));
  EXPECT_EQ(values(repeat_interleave(ext::tensor({1, 2}), 2)), (Values{1, 1, 2, 2}));
  EXPECT_EQ(values(index_select(a, 1, ext::tensor({1}))), (Values{2, 4}));
  EXPECT_EQ(values(hardtanh(a - 2)), (Values{-1, 0, 1, 1}));
  EXPECT_EQ(values(hardswish(a - 4)), values(hard_swish(a - 4)));
  EXPECT_EQ(values(hardsigmoid(a)), values(hard_sigmoid(a)));
  EXPECT_EQ(values(logsigmoid(a)), values(log_sigmoid(a)));
  EXPECT_EQ(kl_div(a, b).item<float>(), kl_divergence(a, b).item<float>());

  const Tensor batch = ext::ones({3, 2, 4});
  EXPECT_EQ(bmm(batch, ext::ones({3, 4, 5})).shape(), (Shape{3, 2, 5}));
  EXPECT_THROW(bmm(batch, ext::ones({4, 5})), ext::ShapeError);
  EXPECT_THROW(bmm(batch, ext::ones({1, 4, 5})), ext::ShapeError);
}

TEST(CallsShapes, SplitAndChunk) {
  const Tensor x = ext::arange(10);
  const auto parts = split(x, {2, 3, 5});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(values(parts[1]), (Values{2, 3, 4}));
  EXPECT_EQ(split(x, {10}).size(), 1U);
  EXPECT_EQ(split(x, 5).size(), 5U);  // a number counts the parts
  EXPECT_EQ(split(x, ext::Dims{4, 6})[1].numel(), 6);
  EXPECT_THROW(split(x, {2, 3}), ext::ValueError);
  EXPECT_THROW(split(x, {11, -1}), ext::ValueError);
  EXPECT_THROW(split(x, ext::Dims{}), ext::ValueError);
  const auto chunks = chunk(x, 4);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[0].numel(), 3);
  EXPECT_EQ(chunks[3].numel(), 1);
  EXPECT_EQ(chunk(x, 6).size(), 5U);  // as in PyTorch: parts of 2
  EXPECT_EQ(chunk(x, 20).size(), 10U);
  EXPECT_EQ(chunk(ext::zeros({0}), 3).size(), 1U);
  EXPECT_THROW(chunk(x, 0), ext::ValueError);
  // The parts are views, and their gradients join.
  Tensor leaf = ext::zeros({5}).requires_grad_();
  const auto views = split(leaf, {1, 4});
  (views[0].sum() * 2 + views[1].sum() * 3).backward();
  EXPECT_EQ(values(leaf.grad()), (Values{2, 3, 3, 3, 3}));
  EXPECT_EQ(views[1].data<float>(), leaf.data<float>() + 1);
}

TEST(CallsShapes, NegativePadding) {
  const Tensor x = ext::arange(12).reshape(3, 4);
  EXPECT_EQ(values(pad(x, {{-1, 0}, {-1, -2}})), (Values{5, 9}));
  EXPECT_EQ(values(pad(x, {{0, -2}, {-3, 1}}, ext::PadMode::constant, 7)), (Values{3, 7}));
  EXPECT_EQ(pad(x, {{-1, -1}}).shape(), (Shape{1, 2}));
  EXPECT_EQ(pad(x, {{-2, -1}, {0, 0}}).shape(), (Shape{0, 4}));
  EXPECT_THROW(pad(x, {{-2, -2}, {0, 0}}), ext::ValueError);
  EXPECT_THROW(pad(x, {{-1, 0}, {0, 0}}, ext::PadMode::edge), ext::ValueError);
  EXPECT_THROW(pad(x, {{std::numeric_limits<std::int64_t>::min(), 0}, {0, 0}}), ext::ValueError);
  EXPECT_THROW(pad(x, {{-1, 0}, {0, 0}, {0, 0}}), ext::ShapeError);
}

TEST(CallsShapes, OneImage) {
  const Tensor x = ext::randn({3, 8, 9}, ext::float64),
               weight = ext::randn({4, 3, 3, 3}, ext::float64);
  const Tensor bias = ext::randn({4}, ext::float64);
  const auto same = [](const Tensor& one, const Tensor& batch) {
    EXPECT_EQ(batch.size(0), 1);
    EXPECT_EQ(one.shape(), batch.squeeze(0).shape());
    EXPECT_EQ(values(one), values(batch));
  };
  const Tensor batch = x.unsqueeze(0);
  same(conv2d(x, weight, bias, {.padding = 1}), conv2d(batch, weight, bias, {.padding = 1}));
  const Tensor spread = ext::randn({3, 2, 3, 3}, ext::float64);
  same(conv_transpose2d(x, spread), conv_transpose2d(batch, spread));
  same(max_pool2d(x, 2), max_pool2d(batch, 2));
  same(avg_pool2d(x, 2), avg_pool2d(batch, 2));
  same(adaptive_avg_pool2d(x, {2, 3}), adaptive_avg_pool2d(batch, {2, 3}));
  const Tensor signal = x[0], taps = ext::randn({5, 8, 3}, ext::float64);
  same(conv1d(signal, taps), conv1d(signal.unsqueeze(0), taps));
  const Tensor g = ext::ones({4, 6, 7}, ext::float64);
  const auto one = conv2d_backward(g, x, weight),
             whole = conv2d_backward(g.unsqueeze(0), batch, weight);
  same(one.x, whole.x);
  EXPECT_EQ(values(one.weight), values(whole.weight));
  EXPECT_EQ(values(one.bias), values(whole.bias));
  const Tensor pooled = ext::ones({3, 4, 4}, ext::float64);
  same(max_pool2d_backward(pooled, x, 2), max_pool2d_backward(pooled.unsqueeze(0), batch, 2));
  same(avg_pool2d_backward(pooled, x.shape(), 2),
       avg_pool2d_backward(pooled.unsqueeze(0), batch.shape(), 2));
  same(adaptive_avg_pool2d_backward(pooled, x.shape()),
       adaptive_avg_pool2d_backward(pooled.unsqueeze(0), batch.shape()));
  EXPECT_THROW(conv2d(x[0], weight), ext::ShapeError);
  EXPECT_THROW(max_pool2d(x[0], 2), ext::ShapeError);
  EXPECT_THROW(conv2d_backward(g.unsqueeze(0), x, weight), ext::ShapeError);
  // Layers take single images too.
  ext::nn::Conv2d layer(3, 2, 3);
  EXPECT_EQ(layer(ext::ones({3, 5, 5})).shape(), (Shape{2, 3, 3}));
}

TEST(CallsShapes, MasksBroadcast) {
  const Tensor x = ext::arange(6).reshape(2, 3);
  EXPECT_EQ(values(masked_select(x, ext::tensor({{true, false, true}}))), (Values{0, 2, 3, 5}));
  EXPECT_EQ(values(masked_select(x, ext::tensor({{false}, {true}}))), (Values{3, 4, 5}));
  EXPECT_EQ(values(masked_select(ext::tensor({{7}}), ext::tensor({{true, true}}))), (Values{7, 7}));
  EXPECT_EQ(masked_select(x, ext::tensor({true, false})).shape(), (Shape{1, 3}));  // rows
  // A shorter mask that is not that of the rows would be ambiguous.
  EXPECT_THROW(masked_select(x, ext::tensor({true, false, true})), ext::ShapeError);
  EXPECT_EQ(values(x.masked_fill(ext::tensor({{true}, {false}}), -1)),
            (Values{-1, -1, -1, 3, 4, 5}));
}

TEST(CallsShapes, ScatterWithAReduction) {
  using enum ext::ScatterReduction;
  const Tensor x = ext::tensor({10.0, 20.0, 30.0}), places = ext::tensor({0, 0, 2}),
               source = ext::tensor({2.0, 5.0, 40.0});
  EXPECT_EQ(values(scatter(x, 0, places, source, sum)), (Values{17, 20, 70}));
  EXPECT_EQ(values(scatter(x, 0, places, source, sum, false)), (Values{7, 20, 40}));
  EXPECT_EQ(values(scatter(x, 0, places, source, prod)), (Values{100, 20, 1200}));
  EXPECT_EQ(values(scatter(x, 0, places, source, prod, false)), (Values{10, 20, 40}));
  EXPECT_EQ(values(scatter(x, 0, places, source, max)), (Values{10, 20, 40}));
  EXPECT_EQ(values(scatter(x, 0, places, source, min)), (Values{2, 20, 30}));
  EXPECT_EQ(values(scatter(x, 0, places, source, max, false)), (Values{5, 20, 40}));
  EXPECT_EQ(values(scatter(x, 0, places, source, mean, false)), (Values{3.5, 20, 40}));
  EXPECT_EQ(values(scatter_reduce(x, 0, places, source, mean)),
            values(ext::tensor({17.0 / 3, 20.0, 35.0})));
  // Integers: exact, and the mean rounds down.
  const Tensor n = ext::tensor({-7, 1}, ext::int32), at = ext::tensor({0, 0}),
               m = ext::tensor({2, -4}, ext::int32);
  EXPECT_EQ(values(scatter(n, 0, at, m, mean)), (Values{-3, 1}));
  EXPECT_EQ(values(scatter(n, 0, at, m, max, false)), (Values{2, 1}));
  EXPECT_EQ(values(scatter(n, 0, at, m, min, false)), (Values{-4, 1}));
  EXPECT_EQ(values(scatter(ext::tensor({200, 1}, ext::uint8), 0, at,
                           ext::tensor({3, 9}, ext::uint8), min, false)),
            (Values{3, 1}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(values(scatter(x, 0, places, ext::tensor({nan, 1.0, 1.0}), max))[0]));
  EXPECT_TRUE(std::isnan(values(scatter(x, 0, places, ext::tensor({nan, 1.0, 1.0}), min))[0]));
  EXPECT_THROW(scatter(x, 0, ext::tensor({3}), ext::tensor({1.0}), sum), ext::IndexError);
  EXPECT_THROW(scatter(x, 0, places, source, static_cast<ext::ScatterReduction>(9)),
               ext::ValueError);

  // Products with zeros: the gradient of a factor is the product of the others.
  const auto [of_x, of_source] =
      scatter_backward(ext::ones({2}), ext::tensor({3.0, 2.0}), 0, ext::tensor({0, 0, 1, 1}),
                       ext::tensor({0.0, 4.0, 0.0, 0.0}), prod);
  EXPECT_EQ(values(of_x), (Values{0, 0}));
  EXPECT_EQ(values(of_source), (Values{12, 0, 0, 0}));
  // Ties share the gradient.
  const auto [tied_x, tied_source] =
      scatter_backward(ext::tensor({6.0}), ext::tensor({5.0}), 0, ext::tensor({0, 0, 0}),
                       ext::tensor({5.0, 1.0, 5.0}), max);
  EXPECT_EQ(values(tied_x), Values{2});
  EXPECT_EQ(values(tied_source), (Values{2, 0, 2}));
}

TEST(CallsShapes, ReductionsWithADType) {
  const Tensor x = ext::tensor({100, 100, 100}, ext::int8);
  EXPECT_EQ(ext::sum(x, ext::float64).dtype(), ext::float64);
  EXPECT_EQ(ext::sum(x, 0, false, ext::int32).item<std::int32_t>(), 300);
  EXPECT_EQ(ext::sum(x, 0, false, ext::int32).dtype(), ext::int32);
  EXPECT_EQ(ext::sum(x, {0}, true, ext::float32).shape(), (Shape{1}));
  EXPECT_EQ(ext::mean(x, ext::float64).item<double>(), 100);
  EXPECT_EQ(ext::mean(x, 0, false, ext::float16).dtype(), ext::float16);
  EXPECT_THROW(ext::mean(x, ext::int64), ext::DTypeError);
  EXPECT_EQ(ext::prod(x, 0, true, ext::float64).item<double>(), 1e6);
  EXPECT_EQ(cumulative_sum(x, 0, ext::float32).dtype(), ext::float32);
  EXPECT_EQ(values(cumulative_sum(x, 0, ext::int16)), (Values{100, 200, 300}));
  EXPECT_EQ(cumulative_prod(x, {}, ext::float64).dtype(), ext::float64);
  const Tensor half = ext::tensor({1.0, 2.0}, ext::float16);
  EXPECT_EQ(softmax(half, 0, ext::float32).dtype(), ext::float32);
  EXPECT_EQ(log_softmax(half, 0, ext::float64).dtype(), ext::float64);
  EXPECT_THROW(softmax(half, 0, ext::int64), ext::DTypeError);
  // 70000 does not fit float16, but its parts do.
  const Tensor large = ext::full({7}, 10000.0, ext::float16);
  EXPECT_EQ(ext::sum(large, ext::float32).item<float>(), 70000);
  // An empty list of axes is a list, not a dtype.
  EXPECT_EQ(ext::sum(large, {}).dtype(), ext::float16);
}

TEST(CallsShapes, Multinomial) {
  ext::Generator generator(3);
  const Tensor weights = ext::tensor({1.0, 0.0, 3.0, 6.0});
  const Tensor drawn = multinomial(weights, 20000, true, generator);
  EXPECT_EQ(drawn.dtype(), ext::int64);
  Values counts(4, 0);
  for (double i : values(drawn)) ++counts[static_cast<std::size_t>(i)];
  // Five standard deviations of a binomial count.
  const Values expected{0.1, 0, 0.3, 0.6};
  for (std::size_t i = 0; i < 4; ++i) {
    const double p = expected[i];
    EXPECT_NEAR(counts[i], 20000 * p, 5 * std::sqrt(20000 * p * (1 - p))) << i;
  }
  // Without replacement: each number once, and the first draw is as likely as with replacement.
  double first_is_3 = 0;
  for (int i = 0; i < 2000; ++i) {
    const Values chosen = values(multinomial(weights, 3, false, generator));
    EXPECT_EQ(std::set<double>(chosen.begin(), chosen.end()), (std::set<double>{0, 2, 3}));
    first_is_3 += chosen[0] == 3 ? 1 : 0;
  }
  EXPECT_NEAR(first_is_3, 1200, 5 * std::sqrt(2000 * 0.6 * 0.4));
  EXPECT_EQ(multinomial(ext::ones({5, 3}), 2, true, generator).shape(), (Shape{5, 2}));
  EXPECT_EQ(multinomial(ext::ones({0, 3}), 2, true, generator).shape(), (Shape{0, 2}));
  EXPECT_EQ(multinomial(ext::ones({3}), 0, false, generator).shape(), (Shape{0}));
  EXPECT_EQ(multinomial(ext::ones({3}).requires_grad_(), 3).requires_grad(), false);
  EXPECT_THROW(multinomial(weights, 4), ext::ValueError);  // one weight is 0
  EXPECT_THROW(multinomial(ext::zeros({3}), 1), ext::ValueError);
  EXPECT_THROW(multinomial(-weights, 1), ext::ValueError);
  EXPECT_THROW(multinomial(weights, -1), ext::ValueError);
  EXPECT_THROW(multinomial(weights / 0.0, 1), ext::ValueError);
  EXPECT_THROW(multinomial(ext::ones({2, 2, 2}), 1), ext::ShapeError);
  EXPECT_THROW(multinomial(ext::tensor({1, 2}), 1), ext::DTypeError);
}

// The product of places, written out, has the same derivatives, however many factors are 0.
TEST(Scatter, DerivativesOfAProductWithZeros) {
  const Tensor indices = ext::tensor({0, 1, 0, 0, 1, 1, 0});
  const auto scattered = [&](const Tensor& v, bool include_self) {
    const Tensor y = ext::scatter(v.slice(0, 0, 2), 0, indices, v.slice(0, 2, 9),
                                  ext::ScatterReduction::prod, include_self);
    return y[0] * 2 + y[1] * 3 + y[0] * y[1];
  };
  const auto written_out = [](const Tensor& v, bool include_self) {
    Tensor a = v[2] * v[4] * v[5] * v[8], b = v[3] * v[6] * v[7];
    if (include_self) a = a * v[0], b = b * v[1];
    return a * 2 + b * 3 + a * b;
  };
  const std::vector<std::vector<double>> points = {
      {2, -1, 3, .5, 1.5, -2, .25, 4, 1},  // no factor is 0
      {2, -1, 3, 0, 1.5, -2, .25, 4, 0},   // one
      {0, 0, 0, 0, 1.5, -2, .25, 4, 1},    // two, x among them
      {2, -1, 0, 0, 0, 0, 0, 0, 1},        // three
      {2, 0, 0, 0, 0, 0, 0, 0, 0},         // four
      {0, 0, 0, 0, 0, 0, 0, 0, 0},         // five and four
  };
  for (const bool include_self : {true, false}) {
    const auto hessian_of = [&](const auto& function) {
      return [&function, include_self](const Tensor& v) {
        return ext::hessian([&](const Tensor& at) { return function(at, include_self); }, v, true);
      };
    };
    for (std::size_t p = 0; p < points.size(); ++p) {
      const Tensor v = ext::from_data(points[p], {9});
      const Tensor second = hessian_of(scattered)(v), expected = hessian_of(written_out)(v);
      EXPECT_TRUE(allclose(second, expected, 1e-12, 1e-12)) << p << " " << include_self;
      EXPECT_TRUE(allclose(ext::jacobian(hessian_of(scattered), v),
                           ext::jacobian(hessian_of(written_out), v), 1e-12, 1e-12))
          << p << " " << include_self;
    }
  }
}

}  // namespace
