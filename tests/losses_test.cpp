// Losses beyond the op database's samples: special values, tails, mixed dtypes, errors, and
// identical bits for any number of threads.
#include "extensor/losses.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

Tensor vector_of(std::initializer_list<double> values, DType dtype = DType::float64) {
  return from_data(Numbers(values)).to(dtype);
}

// ---- elementwise losses

TEST(BinaryCrossEntropy, IsFiniteAtTheEnds) {
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    const Tensor p = vector_of({0, 1, 0, 1}, dtype), y = vector_of({0, 1, 1, 0}, dtype);
    const auto losses = values_of(binary_cross_entropy(p, y, Reduction::none));
    const double spacing = std::ldexp(1.0, 1 - compare::format_of(dtype).digits);
    const double worst = -std::log(1e-7);
    EXPECT_NEAR(losses[0], 1e-7, 3e-8);
    EXPECT_NEAR(losses[1], 1e-7, 3e-8);
    EXPECT_NEAR(losses[2], worst, spacing * worst);
    EXPECT_NEAR(losses[3], worst, spacing * worst);
    const Tensor g = ones({4}, dtype);
    const auto slopes = values_of(binary_cross_entropy_backward(g, p, y, Reduction::none).first);
    EXPECT_NEAR(slopes[0], 1 / (1 - 1e-7), 2 * spacing);
    EXPECT_NEAR(slopes[1], -1 / (1 - 1e-7), 2 * spacing);
    // Finite wherever the dtype can represent 1e7.
    if (dtype == DType::float16) {
      EXPECT_EQ(slopes[2], -infinity);
      EXPECT_EQ(slopes[3], infinity);
    } else {
      EXPECT_NEAR(slopes[2], -1e7, 1e7 * 2 * spacing);
      EXPECT_NEAR(slopes[3], 1e7, 1e7 * 2 * spacing);
    }
  }
  const auto odd =
      values_of(binary_cross_entropy(vector_of({nan, 0.5}), vector_of({1, nan}), Reduction::none));
  EXPECT_TRUE(std::isnan(odd[0]) && std::isnan(odd[1]));
}

TEST(BinaryCrossEntropy, IsAccurateForConfidentPredictions) {
  const Tensor p = vector_of({1e-3, 1 - 0x1p-10}, DType::float32);
  const auto exact = values_of(p);
  const auto got =
      values_of(binary_cross_entropy(p, vector_of({0, 1}, DType::float32), Reduction::none));
  EXPECT_NEAR(got[0] / -std::log1p(-exact[0]), 1, 3e-7);
  EXPECT_NEAR(got[1] / -std::log(exact[1]), 1, 3e-7);
}

TEST(WithLogits, TailsAreNeitherLostNorOverflow) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = vector_of({80, -80, 1000, -1000}, dtype);
    const Tensor agree = vector_of({1, 0, 1, 0}, dtype), differ = vector_of({0, 1, 0, 1}, dtype);
    const auto small = values_of(binary_cross_entropy_with_logits(x, agree, Reduction::none));
    EXPECT_NEAR(small[0] / std::exp(-80.0), 1, 1e-6);
    EXPECT_NEAR(small[1] / std::exp(-80.0), 1, 1e-6);
    EXPECT_EQ(values_of(binary_cross_entropy_with_logits(x, differ, Reduction::none)),
              (Numbers{80, 80, 1000, 1000}));
    const auto slopes = values_of(
        binary_cross_entropy_with_logits_backward(ones({4}, dtype), x, agree, Reduction::none)
            .first);
    EXPECT_NEAR(slopes[0] / -std::exp(-80.0), 1, 1e-6);
    EXPECT_NEAR(slopes[1] / std::exp(-80.0), 1, 1e-6);
    EXPECT_EQ(values_of(binary_cross_entropy_with_logits_backward(ones({4}, dtype), x, differ,
                                                                  Reduction::none)
                            .first),
              (Numbers{1, -1, 1, -1}));
  }
}

TEST(FocalLoss, TailsAreFinite) {
  for (double gamma : {0.0, 0.5, 1.0, 2.0, 5.0}) {
    const Tensor x = vector_of({200, -200, 200, -200}, DType::float32);
    const Tensor y = vector_of({1, 0, 0, 1}, DType::float32);
    EXPECT_TRUE(all(isfinite(focal_loss(x, y, Reduction::none, 0.25, gamma))).item<bool>());
    const auto [of_x, of_y] = focal_loss_backward(ones({4}), x, y, Reduction::none, 0.25, gamma);
    EXPECT_TRUE(all(isfinite(of_x)).item<bool>()) << gamma;
    EXPECT_TRUE(all(isfinite(of_y)).item<bool>()) << gamma;
  }
  // gamma 0 and no alpha: the cross-entropy itself.
  const Tensor x = draw::uniform({50}, -5, 5, 1), y = draw::uniform({50}, 0, 1, 2);
  EXPECT_TRUE(allclose(focal_loss(x, y, Reduction::mean, -1, 0),
                       binary_cross_entropy_with_logits(x, y), 1e-14));
}

TEST(Distances, GradientsAtTheirKinks) {
  const Tensor x = vector_of({1, 1, 1}), y = vector_of({1, 2, 0});
  const Tensor g = ones({3}, DType::float64);
  EXPECT_EQ(values_of(l1_loss_backward(g, x, y, Reduction::none).first), (Numbers{0, -1, 1}));
  EXPECT_EQ(values_of(smooth_l1_loss_backward(g, x, y, Reduction::none, 0).first),
            (Numbers{0, -1, 1}));
  EXPECT_EQ(values_of(smooth_l1_loss_backward(g, x, y, Reduction::none, 1).first),
            (Numbers{0, -1, 1}));
  EXPECT_EQ(values_of(huber_loss_backward(g, x, y, Reduction::none, 0.5).first),
            (Numbers{0, -0.5, 0.5}));
  EXPECT_EQ(values_of(hinge_loss_backward(g, x, vector_of({1, -1, 0.5}), Reduction::none).first),
            (Numbers{0, 1, -0.5}));
  EXPECT_EQ(values_of(kl_divergence_backward(g, vector_of({-1, -infinity, -2}),
                                             vector_of({0, 0, 1}), Reduction::none)
                          .second),
            (Numbers{0, 0, 3}));
  EXPECT_EQ(
      values_of(kl_divergence(vector_of({-1, -infinity}), vector_of({0, 0}), Reduction::none)),
      (Numbers{0, 0}));
  EXPECT_EQ(
      values_of(kl_divergence(vector_of({-1}), vector_of({-infinity}), Reduction::none, true)),
      (Numbers{0}));
}

// The gradients of grad_output, x and y for the gradients a and b of the backward's results; an
// undefined a or b stands for 0.
template <class Backward>
std::vector<Tensor> second_gradients(const Backward& backward, const Tensor& a, const Tensor& b,
                                     const Tensor& x, const Tensor& y) {
  const std::vector<Tensor> leaves = {ones_like(x).requires_grad_(), x.clone().requires_grad_(),
                                      y.clone().requires_grad_()};
  const auto [of_x, of_y] = backward(leaves[0], leaves[1], leaves[2]);
  std::vector<Tensor> outputs, starts;
  for (const auto& [output, start] : {std::pair(of_x, a), std::pair(of_y, b)}) {
    if (!start.defined()) continue;
    outputs.push_back(output);
    starts.push_back(start);
  }
  return grad(outputs, leaves, {.allow_unused = true, .grad_outputs = starts});
}

TEST(SecondGradients, AreFiniteAtTheEnds) {
  using enum Reduction;
  const auto expect_finite = [](const std::vector<Tensor>& second) {
    for (const Tensor& gradient : second) {
      for (double value : values_of(gradient)) EXPECT_TRUE(std::isfinite(value));
    }
  };
  for (DType dtype : {DType::float32, DType::float64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor one = ones({4}, dtype);
    // Clamped: the gradients do not depend on p.
    const Tensor p = vector_of({0, 1, 1e-8, 1}, dtype), y = vector_of({1, 0, 0, 1}, dtype);
    const auto clamped = second_gradients(
        [](const Tensor& g, const Tensor& p, const Tensor& y) {
          return binary_cross_entropy_backward(g, p, y, none);
        },
        one, one, p, y);
    expect_finite(clamped);
    EXPECT_EQ(values_of(clamped[1]), Numbers(4, 0.0));
    // A target of 0: its gradient is 0, whatever x is.
    const Tensor x = vector_of({-1, -2, -1, -3}, dtype);
    const auto divergence = [](bool log_target) {
      return [log_target](const Tensor& g, const Tensor& x, const Tensor& y) {
        return kl_divergence_backward(g, x, y, none, log_target);
      };
    };
    const auto of_probabilities = second_gradients(divergence(false), {}, one, x, y);
    expect_finite(of_probabilities);
    EXPECT_EQ(values_of(of_probabilities[1]), (Numbers{-1, 0, 0, -1}));
    EXPECT_EQ(values_of(of_probabilities[2]), (Numbers{1, 0, 0, 1}));
    const Tensor logarithms = vector_of({0, -infinity, -infinity, -1}, dtype);
    expect_finite(second_gradients(divergence(true), one, one, x, logarithms));
    for (double gamma : {0.0, 0.5, 1.0, 1.5, 2.0}) {
      SCOPED_TRACE(gamma);
      const Tensor far = vector_of({900, -900, 40, -40}, dtype);
      expect_finite(second_gradients(
          [gamma](const Tensor& g, const Tensor& x, const Tensor& y) {
            return focal_loss_backward(g, x, y, none, 0.25, gamma);
          },
          one, {}, far, y));
    }
  }
}

// Logits of 0, where the expressions for both signs meet.
TEST(SecondGradients, OfLogitsOfZero) {
  const Tensor x = zeros({2}, DType::float64), y = vector_of({0, 1}), one = ones_like(x);
  const auto second = second_gradients(
      [](const Tensor& g, const Tensor& x, const Tensor& y) {
        return binary_cross_entropy_with_logits_backward(g, x, y, Reduction::none);
      },
      one, {}, x, y);
  EXPECT_EQ(values_of(second[0]), (Numbers{0.5, -0.5}));
  EXPECT_EQ(values_of(second[1]), (Numbers{0.25, 0.25}));
  EXPECT_EQ(values_of(second[2]), (Numbers{-1, -1}));
}

TEST(Losses, ReductionsOfNothing) {
  const Tensor none = zeros({0, 3});
  EXPECT_TRUE(std::isnan(mean_squared_error(none, none).item<float>()));
  EXPECT_EQ(mean_squared_error(none, none, Reduction::sum).item<float>(), 0);
  EXPECT_EQ(mean_squared_error(none, none, Reduction::none).shape(), (Shape{0, 3}));
  const auto [of_x, of_y] = mean_squared_error_backward(ones({}), none, none);
  EXPECT_EQ(of_x.shape(), (Shape{0, 3}));
  EXPECT_EQ(of_y.shape(), (Shape{0, 3}));
  const Tensor rows = zeros({0, 3});
  EXPECT_TRUE(std::isnan(triplet_margin_loss(rows, rows, rows).item<float>()));
  EXPECT_EQ(triplet_margin_loss_backward(ones({}), rows, rows, rows).anchor.shape(), (Shape{0, 3}));
}

TEST(Losses, DtypesMix) {
  const Tensor x = draw::uniform({33}, 0.1, 0.9, 1), y = draw::uniform({33}, 0.1, 0.9, 2);
  const Tensor half = x.to(DType::float16), brain = y.to(DType::bfloat16);
  EXPECT_EQ(mean_squared_error(half, brain).dtype(), DType::float32);
  EXPECT_EQ(mean_squared_error(half, y).dtype(), DType::float64);
  EXPECT_TRUE(
      allclose(mean_squared_error(half, y), mean_squared_error(half.to(DType::float64), y), 1e-14));
  const auto [of_half, of_brain] = mean_squared_error_backward(ones({}), half, brain);
  EXPECT_EQ(of_half.dtype(), DType::float16);
  EXPECT_EQ(of_brain.dtype(), DType::bfloat16);
  // Integer or bool labels are numbers, without a gradient.
  const Tensor labels = tensor({0, 1, 1}), scores = tensor({0.2, 0.7, 0.4});
  const Tensor expected = binary_cross_entropy(scores, labels.to(DType::float32));
  for (DType dtype : {DType::int64, DType::uint8, DType::bool_}) {
    EXPECT_TRUE(identical(binary_cross_entropy(scores, labels.to(dtype)), expected));
    const auto [of_scores, of_labels] =
        binary_cross_entropy_backward(ones({}), scores, labels.to(dtype));
    EXPECT_TRUE(of_scores.defined());
    EXPECT_FALSE(of_labels.defined());
  }
  EXPECT_FALSE(
      mean_squared_error_backward(ones({}), x, y, Reduction::mean, false).second.defined());
  EXPECT_EQ(mean_squared_error(labels, labels + 2).item<float>(), 4);
  EXPECT_THROW(mean_squared_error_backward(ones({}), labels, scores), DTypeError);
}

TEST(Losses, AScaledGradientKeepsItsRangeInHalves) {
  // The gradient of a loss scaler exceeds float16; the gradients of 1000 elements do not.
  const Tensor x = full({1000}, 0.5, DType::float16), y = zeros({1000}, DType::float16);
  const Tensor g = full({}, 262144.0, DType::float32);
  EXPECT_EQ(mean_squared_error_backward(g, x, y).first[7].item<float>(),
            static_cast<float>(Float16(262.144f)));
}

TEST(Losses, LongSumsAreAccurate) {
  const std::int64_t n = 3'000'000;
  const Tensor x = full({n}, 0.1f, DType::float32), y = zeros({n});
  const double exact = 0.1f * 0.1f;
  EXPECT_NEAR(mean_squared_error(x, y).item<float>() / exact, 1, 1e-7);
  EXPECT_NEAR(mean_squared_error(x, y, Reduction::sum).item<float>() / (exact * n), 1, 1e-7);
}

TEST(Losses, ShapesAndParametersAreChecked) {
  const Tensor x = ones({3}), column = ones({3, 1}), one = ones({});
  EXPECT_THROW(mean_squared_error(x, column), ShapeError);
  EXPECT_THROW(mean_squared_error(x, one), ShapeError);
  EXPECT_THROW(binary_cross_entropy(x, ones({4})), ShapeError);
  EXPECT_THROW(smooth_l1_loss(x, x, Reduction::mean, -1), ValueError);
  EXPECT_THROW(smooth_l1_loss(x, x, Reduction::mean, nan), ValueError);
  EXPECT_THROW(huber_loss(x, x, Reduction::mean, 0), ValueError);
  EXPECT_THROW(focal_loss(x, x, Reduction::mean, 1.5), ValueError);
  EXPECT_THROW(focal_loss(x, x, Reduction::mean, 0.5, -1), ValueError);
  EXPECT_THROW(triplet_margin_loss(x, x, column), ShapeError);
  EXPECT_THROW(triplet_margin_loss(one, one, one), ShapeError);
  EXPECT_THROW(triplet_margin_loss(x, x, x, 0), ValueError);
  EXPECT_THROW(triplet_margin_loss(x, x, x, 1, 0), ValueError);
  EXPECT_THROW(triplet_margin_loss(x, x, x, 1, infinity), ValueError);
  EXPECT_THROW(triplet_margin_loss(x, x, x, 1, 2, -1), ValueError);
  EXPECT_THROW(mean_squared_error(x, x, static_cast<Reduction>(9)), ValueError);
  EXPECT_THROW(cross_entropy(ones({2, 3}), tensor({0, 1}), ones({2})), ShapeError);
  EXPECT_THROW(cross_entropy(ones({2, 3}), tensor({0, 1, 2})), ShapeError);
  EXPECT_THROW(cross_entropy(ones({2, 3}), ones({2})), ShapeError);
  EXPECT_THROW(cross_entropy(ones({2, 3}), ones({2}, DType::bool_)), DTypeError);
  EXPECT_THROW(nll_loss(ones({2, 3}), ones({2, 3})), DTypeError);
  EXPECT_THROW(cross_entropy(one, scalar(0)), ShapeError);
  for (double smoothing : {-0.1, 1.1, nan}) {
    EXPECT_THROW(cross_entropy(ones({2, 3}), tensor({0, 1}), {}, Reduction::mean, -100, smoothing),
                 ValueError);
  }
}

TEST(TripletMarginLoss, GradientIsZeroWhereNothingIsLost) {
  const Tensor a = vector_of({0, 0}), far = vector_of({10, 10});
  EXPECT_EQ(triplet_margin_loss(a, a, far).item<double>(), 0);
  const TripletGradients gradients = triplet_margin_loss_backward(ones({}), a, a, far);
  EXPECT_EQ(values_of(gradients.negative), (Numbers{0, 0}));
  // Distance 0, no eps: a gradient of 0 and not NaN.
  for (double p : {1.0, 2.0, 1.5, 0.5}) {
    const TripletGradients same = triplet_margin_loss_backward(ones({}), a, a, a, 1, p, 0);
    EXPECT_EQ(values_of(same.anchor), (Numbers{0, 0}));
    EXPECT_EQ(values_of(same.positive), (Numbers{0, 0}));
  }
}

// ---- classes

TEST(CrossEntropy, IsLogSoftmaxThenNll) {
  const Tensor logits = draw::uniform({6, 10, 3}, -5, 5, 1);
  const Tensor labels = from_data(std::vector<std::int64_t>{1, 9, 0, 3, 2, 2, 8, 7, 1,  //
                                                            4, 4, 5, 0, 9, 6, 3, 3, 1},
                                  {6, 3});
  const Tensor weight = draw::uniform({10}, 0.5, 2, 2);
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    EXPECT_TRUE(allclose(cross_entropy(logits, labels, weight, reduction),
                         nll_loss(log_softmax(logits, 1), labels, weight, reduction), 1e-13));
  }
  for (DType dtype : {DType::int8, DType::int32, DType::uint16, DType::uint64}) {
    EXPECT_TRUE(identical(cross_entropy(logits, labels.to(dtype)), cross_entropy(logits, labels)));
  }
}

TEST(CrossEntropy, ConfidentRowsKeepTheirDigits) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor logits = tensor({{30., 0., 0.}, {0., 40., 1.}}, dtype);
    const Tensor labels = tensor({0, 1});
    const auto losses = values_of(cross_entropy(logits, labels, {}, Reduction::none));
    const double first = 2 * std::exp(-30.0), second = std::exp(-40.0) + std::exp(-39.0);
    EXPECT_NEAR(losses[0] / first, 1, 1e-6);
    EXPECT_NEAR(losses[1] / second, 1, 1e-6);
    const auto slopes = values_of(
        cross_entropy_backward(ones({2}, dtype), logits, labels, {}, Reduction::none).first);
    EXPECT_NEAR(slopes[0] / -first, 1, 1e-6);
    EXPECT_NEAR(slopes[4] / -second, 1, 1e-6);
  }
}

TEST(CrossEntropy, NothingOverflowsAndIgnoredRowsDoNotMatter) {
  const Tensor logits = tensor({{1e30, -1e30}, {-1e30, 1e30}, {3.0, 3.0}});
  EXPECT_EQ(cross_entropy(logits, tensor({0, 1, 0}), {}, Reduction::none).to_vector<float>()[0], 0);
  EXPECT_NEAR(cross_entropy(logits, tensor({1, 1, 0}), {}, Reduction::none).to_vector<float>()[0],
              2e30, 1e24);
  Tensor broken = logits.clone();
  broken[0].fill(nan);
  const Tensor labels = tensor({-100, 1, 0});
  EXPECT_NEAR(cross_entropy(broken, labels).item<float>(), std::log(2.0) / 2, 1e-6);
  const auto slopes = values_of(cross_entropy_backward(ones({}), broken, labels).first);
  EXPECT_EQ(slopes[0], 0);
  EXPECT_EQ(slopes[1], 0);
  EXPECT_FALSE(any(isnan(from_data(slopes))).item<bool>());
  broken[1].fill(nan);
  EXPECT_TRUE(std::isnan(cross_entropy(broken, labels).item<float>()));
  // A class without weight may have any probability.
  const Tensor masked = tensor({{0.0, 0.0, -infinity}});
  EXPECT_NEAR(cross_entropy(masked, tensor({{0.5, 0.5, 0.0}})).item<float>(), std::log(2.0), 1e-6);
  EXPECT_EQ(cross_entropy(masked, tensor({2})).item<float>(), infinity);
}

TEST(CrossEntropy, IgnoreIndexMayBeAClass) {
  const Tensor logits = draw::uniform({4, 3}, -2, 2, 1);
  const Tensor labels = tensor({0, 2, 2, 1});
  const auto each = values_of(cross_entropy(logits, labels, {}, Reduction::none));
  const Tensor kept = cross_entropy(logits, labels, {}, Reduction::mean, 2);
  EXPECT_NEAR(kept.item<double>(), (each[0] + each[3]) / 2, 1e-14);
  const auto gradients = values_of(
      cross_entropy_backward(ones({}, DType::float64), logits, labels, {}, Reduction::mean, 2)
          .first);
  for (std::size_t i = 3; i < 9; ++i) EXPECT_EQ(gradients[i], 0);
  EXPECT_NE(gradients[0], 0);
}

TEST(CrossEntropy, StatisticsSaveWorkAndChangeNothing) {
  const Tensor labels = tensor({0, -100, 2, 1000});
  for (DType dtype : float_dtypes) {
    const Tensor logits = draw::uniform({4, 1500}, -4, 4, 1).to(dtype);
    const Tensor probabilities = draw::uniform({4, 1500}, 0, 1, 2).to(dtype);
    for (const Tensor& target : {labels, probabilities}) {
      for (double smoothing : {0.0, 0.1}) {
        const auto [loss, statistics] = cross_entropy_with_statistics(
            logits, target, {}, Reduction::none, default_ignore_index, smoothing);
        EXPECT_TRUE(identical(loss, cross_entropy(logits, target, {}, Reduction::none,
                                                  default_ignore_index, smoothing)));
        const auto with = cross_entropy_backward(ones({4}), logits, target, {}, Reduction::none,
                                                 default_ignore_index, smoothing, true, statistics);
        const auto without = cross_entropy_backward(ones({4}), logits, target, {}, Reduction::none,
                                                    default_ignore_index, smoothing);
        EXPECT_TRUE(identical(with.first, without.first)) << name(dtype);
        if (with.second.defined()) {
          EXPECT_TRUE(identical(with.second, without.second));
        }
      }
    }
  }
  const Tensor logits = ones({2, 3}), target = tensor({0, 1});
  const auto backward = [&](const Tensor& statistics) {
    cross_entropy_backward(ones({}), logits, target, {}, Reduction::mean, default_ignore_index, 0,
                           true, statistics);
  };
  EXPECT_THROW(backward(ones({2}, DType::float64)), ShapeError);
  EXPECT_THROW(backward(ones({3, 2}, DType::float64)), ShapeError);
  EXPECT_THROW(backward(ones({2, 2}, DType::float32)), ShapeError);
}

// Rows of few classes are computed side by side, others one by one: classes of probability 0
// choose.
TEST(CrossEntropy, ImpossibleClassesDoNotMatter) {
  const std::int64_t rows = 300, classes = 5;
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor few = draw::uniform({rows, classes}, -30, 30, 1).to(dtype);
    const Tensor many = concatenate({few, full({rows, 75}, -infinity, dtype)}, 1);
    const Tensor labels = arange(rows) % (classes + 1) - 1;
    const Tensor weight = draw::uniform({classes}, 0.5, 2, 2).to(dtype);
    const Tensor padded = concatenate({weight, ones({75}, dtype)});
    const double tolerance = dtype == DType::float32 ? 2e-6 : 1e-14;
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      for (bool weighted : {false, true}) {
        const Tensor of_few = weighted ? weight : Tensor(), of_many = weighted ? padded : Tensor();
        const Tensor loss = cross_entropy(few, labels, of_few, reduction, -1);
        EXPECT_TRUE(allclose(loss, cross_entropy(many, labels, of_many, reduction, -1), tolerance));
        const Tensor g = draw::uniform(loss.shape(), 1, 2, 3).to(dtype);
        EXPECT_TRUE(allclose(
            cross_entropy_backward(g, few, labels, of_few, reduction, -1).first,
            cross_entropy_backward(g, many, labels, of_many, reduction, -1).first.slice(1, 0, 5),
            tolerance, 0));
      }
    }
  }
}

TEST(CrossEntropy, NoClassesAtAll) {
  const Tensor none = zeros({2, 0});
  EXPECT_EQ(cross_entropy(none, none).item<float>(), 0);
  EXPECT_EQ(cross_entropy_backward(ones({}), none, none).first.shape(), (Shape{2, 0}));
  EXPECT_THROW(cross_entropy(none, tensor({0, 0})), IndexError);
}

// ---- threads

TEST(Losses, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    const Tensor x = draw::uniform({150, 333}, 0.05, 0.95, 1).to(dtype);
    const Tensor y = draw::uniform({150, 333}, 0.05, 0.95, 2).to(dtype);
    const Tensor labels = randint(0, 333, {150});
    const Tensor one = ones({}, dtype);
    const auto run = [&] {
      const auto [of_p, of_y] = binary_cross_entropy_backward(one, x, y);
      const auto [of_logits, of_target] = cross_entropy_backward(one, x, y);
      return Tensors{binary_cross_entropy(x, y),
                     focal_loss(x, y, Reduction::sum),
                     of_p,
                     of_y,
                     cross_entropy(x, y),
                     cross_entropy(x, labels, {}, Reduction::mean, -100, 0.1),
                     of_logits,
                     of_target,
                     cross_entropy_backward(one, x, labels).first,
                     nll_loss(x, labels),
                     triplet_margin_loss(x, y, x)};
    };
    set_num_threads(1);
    const Tensors expected = run();
    for (int threads : {2, 3, 5}) {
      set_num_threads(threads);
      const Tensors got = run();
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(identical(got[i], expected[i])) << name(dtype) << " " << i;
      }
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace extensor
