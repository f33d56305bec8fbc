// linear_cross_entropy beyond the op database's samples: several blocks of rows and classes, its
// memory, recording, Autocast and errors.
#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;

struct Problem {
  Tensor x, weight, bias, target, class_weight;
};

Problem make_problem(std::int64_t rows, std::int64_t classes, std::int64_t width,
                     DType dtype = float32) {
  Generator generator(static_cast<std::uint64_t>(rows * 7919 + classes));
  const auto drawn = [&](const Shape& shape) {
    return normal(shape, 0, 0.7, TensorOptions{}, generator).to(dtype);
  };
  Problem p{drawn({rows, width}), drawn({classes, width}), drawn({classes}),
            randint(0, classes, {rows}, TensorOptions{}, generator),
            uniform({classes}, 0.5, 2, TensorOptions{}, generator)};
  if (rows > 3) p.target[3].fill(default_ignore_index);
  return p;
}

// The largest difference, in units of the largest element.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(float64), y = b.detach().to(float64);
  if (x.numel() == 0) return 0;
  const double size = max_reduce(abs(y)).item<double>();
  return max_reduce(abs(x - y)).item<double>() / (size == 0 ? 1 : size);
}

Tensor leaf(const Tensor& x) { return x.detach().clone().requires_grad_(); }

std::vector<Tensor> gradients_of(const Tensor& loss, const std::vector<Tensor>& leaves,
                                 const Tensor& g = {}) {
  return grad(loss, leaves, {.grad_outputs = {g}});
}

// Sizes below, at and above a block, and rows whose logits are kept in additional memory.
TEST(LinearCrossEntropy, BlocksAgreeWithTheTwoOpsInFloat64) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 1008},   {100, 1009}, {512, 7},
                                                         {513, 2300}, {700, 2016}, {1100, 2100}};
  for (const auto& [rows, classes] : sizes) {
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      for (double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(::testing::Message() << rows << " rows, " << classes << " classes, reduction "
                                          << static_cast<int>(reduction) << ", " << smoothing);
        const Problem p = make_problem(rows, classes, 24);
        const Tensor weights = smoothing > 0 ? p.class_weight : Tensor();
        const auto wide = [](const Tensor& x) { return leaf(x.to(float64)); };
        const Tensor x = leaf(p.x), w = leaf(p.weight), b = leaf(p.bias);
        const Tensor xd = wide(p.x), wd = wide(p.weight), bd = wide(p.bias);
        const Tensor loss = linear_cross_entropy(x, w, b, p.target, weights, reduction,
                                                 default_ignore_index, smoothing);
        const Tensor exact = cross_entropy(linear(xd, wd, bd), p.target, weights, reduction,
                                           default_ignore_index, smoothing);
        EXPECT_LT(distance(loss, exact), 3e-6);
        const Tensor g =
            reduction == Reduction::none ? uniform({rows}, -1, 1) : scalar(0.7, float32);
        const auto found = gradients_of(loss, {x, w, b}, g);
        const auto expected = gradients_of(exact, {xd, wd, bd}, g.to(float64));
        const LinearGradients direct =
            linear_cross_entropy_backward(g, p.x, p.weight, p.bias, p.target, weights, reduction,
                                          default_ignore_index, smoothing);
        for (std::size_t k = 0; k < 3; ++k) {
          EXPECT_LT(distance(found[k], expected[k]), 3e-6) << "recorded, input " << k;
        }
        EXPECT_LT(distance(direct.x, expected[0]), 3e-6);
        EXPECT_LT(distance(direct.weight, expected[1]), 3e-6);
        EXPECT_LT(distance(direct.bias, expected[2]), 3e-6);
        // Without recording the loss has the same bits.
        EXPECT_TRUE(identical(linear_cross_entropy(p.x, p.weight, p.bias, p.target, weights,
                                                   reduction, default_ignore_index, smoothing),
                              loss.detach()));
      }
    }
  }
}

TEST(LinearCrossEntropy, ConfidentRowsKeepTheirDigits) {
  // Logits 0 and 40: the loss of class 1 is log1p(exp(−40)), its gradient −exp(−40).
  const Tensor x = full({1, 1}, 40.0, float32), w = from_data(std::vector<float>{0, 1}, {2, 1});
  const Tensor target = tensor({1});
  EXPECT_NEAR(linear_cross_entropy(x, w, {}, target).item<double>() / std::exp(-40.0), 1, 1e-6);
  const LinearGradients found = linear_cross_entropy_backward(ones({}), x, w, {}, target);
  EXPECT_NEAR(values_of(found.x)[0] / -std::exp(-40.0), 1, 1e-6);
  EXPECT_FALSE(found.bias.defined());
}

TEST(LinearCrossEntropy, LogitsThatAreNotFinite) {
  const Tensor x = ones({2, 1});
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor w = from_data(std::vector<float>{1, -infinity, 2}, {3, 1});
  const auto losses =
      values_of(linear_cross_entropy(x, w, {}, tensor({2, 1}), {}, Reduction::none));
  EXPECT_NEAR(losses[0], std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_EQ(losses[1], std::numeric_limits<double>::infinity());
}

TEST(LinearCrossEntropy, NoRowIsKept) {
  const Problem p = make_problem(4, 5, 3);
  const Tensor ignored = full({4}, default_ignore_index, int64);
  EXPECT_EQ(linear_cross_entropy(p.x, p.weight, p.bias, ignored).item<float>(), 0);
  const LinearGradients found =
      linear_cross_entropy_backward(ones({}), p.x, p.weight, p.bias, ignored);
  for (const Tensor& gradient : {found.x, found.weight, found.bias}) {
    EXPECT_TRUE(identical(gradient, zeros_like(gradient)));
  }
  // Without classes no row can be kept.
  EXPECT_EQ(linear_cross_entropy(p.x, zeros({0, 3}), {}, ignored).item<float>(), 0);
}

TEST(LinearCrossEntropy, AGraphIsWalkedAsOftenAsItIsRetained) {
  const Problem p = make_problem(70, 1500, 16);
  Tensor x = leaf(p.x), w = leaf(p.weight), b = leaf(p.bias);
  const LinearGradients unit =
      linear_cross_entropy_backward(ones({}), p.x, p.weight, p.bias, p.target);
  const Tensor loss = linear_cross_entropy(x, w, b, p.target);
  const auto first = grad(loss, {x, w, b}, {.retain_graph = true});
  EXPECT_TRUE(identical(first[1], unit.weight));
  const auto second =
      grad(loss, {x, w, b}, {.retain_graph = true, .grad_outputs = {scalar(2.0, float32)}});
  EXPECT_TRUE(identical(second[1], unit.weight * 2));
  EXPECT_TRUE(identical(first[1], unit.weight)) << "a later walk changed a gradient";
  (loss * 4).backward();
  EXPECT_TRUE(identical(w.grad(), unit.weight * 4));
  EXPECT_TRUE(identical(x.grad(), unit.x * 4));
  EXPECT_TRUE(identical(b.grad(), unit.bias * 4));
  EXPECT_TRUE(identical(first[1], unit.weight)) << "a later walk changed a gradient";
  EXPECT_THROW(loss.backward(), ValueError);
}

TEST(LinearCrossEntropy, OnlyGradientsThatAreAskedFor) {
  const Problem p = make_problem(40, 1300, 12);
  const LinearGradients all =
      linear_cross_entropy_backward(ones({}), p.x, p.weight, p.bias, p.target);
  const Tensor x = leaf(p.x), w = leaf(p.weight);
  EXPECT_TRUE(
      identical(gradients_of(linear_cross_entropy(x, p.weight, p.bias, p.target), {x})[0], all.x));
  EXPECT_TRUE(
      identical(gradients_of(linear_cross_entropy(p.x, w, p.bias, p.target), {w})[0], all.weight));
  EXPECT_FALSE(linear_cross_entropy(p.x, p.weight, p.bias, p.target).requires_grad());
}

TEST(LinearCrossEntropy, SecondGradientsAgreeWithTheTwoOps) {
  for (Reduction reduction : {Reduction::mean, Reduction::none}) {
    const Problem p = make_problem(9, 11, 5, float64);
    const auto second = [&](bool fused) {
      const Tensor x = leaf(p.x), w = leaf(p.weight), b = leaf(p.bias);
      const Tensor loss =
          fused ? linear_cross_entropy(x, w, b, p.target, p.class_weight, reduction, -100, 0.1)
                : cross_entropy(linear(x, w, b), p.target, p.class_weight, reduction, -100, 0.1);
      const auto first = grad(sum(loss * loss), {x, w, b}, {.create_graph = true});
      const Tensor all = sum(square(first[0])) + sum(sin(first[1])) + sum(square(first[2]));
      return grad(all, {x, w, b});
    };
    const auto found = second(true), expected = second(false);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_LT(distance(found[k], expected[k]), 1e-12) << k;
  }
}

TEST(LinearCrossEntropy, HalvesAreRoundedOnce) {
  for (DType dtype : {float16, bfloat16}) {
    const Problem p = make_problem(33, 1200, 32, dtype);
    const auto wide = [](const Tensor& x) { return x.to(float64); };
    const Tensor exact = cross_entropy(linear(wide(p.x), wide(p.weight), wide(p.bias)), p.target);
    const Tensor loss = linear_cross_entropy(p.x, p.weight, p.bias, p.target);
    EXPECT_EQ(loss.dtype(), dtype);
    const double spacing = std::ldexp(1.0, -compare::format_of(dtype).digits);
    EXPECT_LT(distance(loss, exact), 1.01 * spacing);
    const LinearGradients found =
        linear_cross_entropy_backward(ones({}, dtype), p.x, p.weight, p.bias, p.target);
    EXPECT_EQ(found.weight.dtype(), dtype);
    const LinearGradients expected = linear_cross_entropy_backward(
        ones({}, float64), wide(p.x), wide(p.weight), wide(p.bias), p.target);
    EXPECT_LT(distance(found.weight, expected.weight), 1.01 * spacing);
    EXPECT_LT(distance(found.x, expected.x), 1.01 * spacing);
  }
}

TEST(LinearCrossEntropy, UnderAutocastTheProductIsAHalfAndTheLossIsNot) {
  const Problem p = make_problem(20, 50, 8);
  const Tensor x = leaf(p.x), w = leaf(p.weight), b = leaf(p.bias);
  Tensor loss;
  {
    const Autocast half(bfloat16);
    loss = linear_cross_entropy(x, w, b, p.target, p.class_weight);
  }
  EXPECT_EQ(loss.dtype(), float32);
  const auto rounded = [](const Tensor& t) { return t.to(bfloat16).to(float32); };
  EXPECT_TRUE(
      identical(loss.detach(), linear_cross_entropy(rounded(p.x), rounded(p.weight),
                                                    rounded(p.bias), p.target, p.class_weight)));
  for (const Tensor& gradient : gradients_of(loss, {x, w, b})) EXPECT_EQ(gradient.dtype(), float32);
}

TEST(LinearCrossEntropy, TheSameBitsForAnyNumberOfThreads) {
  const Problem p = make_problem(600, 2300, 40);
  const int before = get_num_threads();
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const Tensor x = leaf(p.x), w = leaf(p.weight), b = leaf(p.bias);
    const Tensor loss =
        linear_cross_entropy(x, w, b, p.target, p.class_weight, Reduction::mean, -100, 0.1);
    auto results = gradients_of(loss, {x, w, b});
    results.push_back(loss.detach());
    return results;
  };
  const auto expected = run(1);
  for (int threads : {2, 3, 5}) {
    const auto found = run(threads);
    for (std::size_t k = 0; k < found.size(); ++k) {
      EXPECT_TRUE(identical(found[k], expected[k])) << threads << " threads, result " << k;
    }
  }
  set_num_threads(before);
}

// In addition to the gradients a step needs a block and, for many rows, a tenth of the logits.
TEST(LinearCrossEntropy, MemoryDoesNotHoldTheLogits) {
  const std::int64_t rows = 512, classes = 20000, width = 64;
  const Problem p = make_problem(rows, classes, width);
  const Tensor x = leaf(p.x), w = leaf(p.weight), b = leaf(p.bias);
  const auto peak = [&](const auto& step) {
    const std::size_t before = memory_stats().allocated_bytes;
    reset_peak_memory_stats();
    step();
    return static_cast<double>(memory_stats().peak_allocated_bytes - before);
  };
  const double logits = 4.0 * static_cast<double>(rows * classes);
  const double two = peak([&] {
    const Tensor layer = linear(x, w, b);
    gradients_of(cross_entropy(layer, p.target), {x, w, b});
  });
  EXPECT_GT(two, 2 * logits);
  const double fused = peak([&] {
    gradients_of(linear_cross_entropy(x, w, b, p.target), {x, w, b});
  });
  const double gradients = 4.0 * static_cast<double>((rows + classes) * width + classes);
  const double block = 4.0 * 512 * 1008;
  // Blocks of memory are up to an eighth larger than requested.
  EXPECT_LT(fused, 1.125 * (gradients + block + logits / 10) + 1e5);
  EXPECT_LT(fused, two / 4);
  const double forward = peak([&] { linear_cross_entropy(p.x, p.weight, p.bias, p.target); });
  EXPECT_LT(forward, 1.125 * block + 1e5);
}

template <class Error, class Function>
void expect_words(const Function& function, std::initializer_list<const char*> words) {
  try {
    function();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
    return;
  }
  ADD_FAILURE() << "no such error";
}

TEST(LinearCrossEntropy, WrongArgumentsAreRefused) {
  const Tensor x = ones({4, 3}), w = ones({5, 3}), b = ones({5}), t = zeros({4}, int64);
  const auto loss = [](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& t) {
    return [=] { linear_cross_entropy(x, w, b, t); };
  };
  expect_words<ShapeError>(loss(x, ones({5, 2}), b, t), {"linear_cross_entropy", "[4, 3]", "2"});
  expect_words<ShapeError>(loss(x, w, ones({4}), t), {"linear_cross_entropy", "bias", "[4]"});
  expect_words<ShapeError>(loss(x, w, b, zeros({3}, int64)),
                           {"linear_cross_entropy", "target", "[3]", "[4]"});
  expect_words<ShapeError>(loss(ones({2, 2, 3}), w, b, t), {"target", "[4]", "[2, 2]"});
  expect_words<ShapeError>([&] { linear_cross_entropy(x, w, b, t, ones({4})); },
                           {"linear_cross_entropy", "class_weight", "[4]", "[5]"});
  expect_words<DTypeError>(loss(x, w, b, ones({4, 5})),
                           {"linear_cross_entropy", "target", "float32", "integer"});
  expect_words<DTypeError>(loss(x, w, b, ones({4}, bool_)), {"target", "bool"});
  expect_words<DTypeError>(loss(ones({4, 3}, int32), w, b, t), {"linear_cross_entropy", "x"});
  expect_words<IndexError>(loss(x, w, b, full({4}, 5, int64)),
                           {"linear_cross_entropy", "target", "5", "5 classes"});
  expect_words<ValueError>(
      [&] { linear_cross_entropy(x, w, b, t, {}, Reduction::mean, default_ignore_index, 1.5); },
      {"linear_cross_entropy", "label_smoothing", "1.5"});
  expect_words<ShapeError>([&] { linear_cross_entropy_backward(ones({4}), x, w, b, t); },
                           {"linear_cross_entropy_backward", "[4]"});
  expect_words<ValueError>(loss(Tensor(), w, b, t), {});
}

}  // namespace
}  // namespace extensor
