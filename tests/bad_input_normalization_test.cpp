// Invalid input to normalization and optimizer steps.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr double infinity = std::numeric_limits<double>::infinity();

CHILD_TEST(BadInputNormalization, Item61GroupsZeroOrNotDividing) {
  const Tensor x = ones({2, 6, 4});
  for (std::int64_t groups : {std::int64_t{0}, std::int64_t{-2}, std::int64_t{4}, std::int64_t{12},
                              INT64_MIN, INT64_MAX}) {
    const std::string text = std::to_string(groups);
    expect_error<ValueError>([&] { group_norm(x, groups); }, {"group_norm", "groups", text}, {x});
    expect_error<ValueError>([&] { group_norm_backward(x, x, groups); },
                             {"group_norm_backward", "groups", text}, {x});
  }
}

CHILD_TEST(BadInputNormalization, Item63BatchNormOfOneValueInTraining) {
  const Tensor none;
  for (const Shape& shape : {Shape{1, 3}, Shape{1, 3, 1}, Shape{1, 3, 1, 1}}) {
    const Tensor x = ones(shape), mean = zeros({3}), var = ones({3});
    expect_error<ValueError>([&] { batch_norm(x, mean, var, {}, {}, true); },
                             {"batch_norm", to_string(shape), "one value"}, {x, mean, var});
    expect_error<ValueError>([&] { batch_norm(x, none, none); }, {"batch_norm", "one value"}, {x});
    expect_error<ValueError>([&] { batch_norm_backward(x, x, mean, var, {}, {}, true); },
                             {"batch_norm_backward", "one value"}, {x, mean, var});
    expect_error<ValueError>([&] { instance_norm(x); }, {"instance_norm", "one value"}, {x});
    // Valid outside training.
    EXPECT_EQ(batch_norm(x, mean, var, {}, {}, false, 0.1, 0).to_vector<float>(),
              (std::vector<float>{1, 1, 1}));
  }
  const Tensor pair = tensor({{1., 5.}, {3., 5.}});
  EXPECT_NEAR(batch_norm(pair, none, none, {}, {}, true, 0.1, 0)[0][0].item<float>(), -1, 1e-6);
}

CHILD_TEST(BadInputNormalization, ShapesThatDoNotFit) {
  const Tensor x = ones({2, 3, 4}), short_one = ones({2}), flat = ones({5});
  for (const Shape& wrong : {Shape{3}, Shape{4, 3}, Shape{2, 3}, Shape{1, 2, 3, 4}, Shape{-1}}) {
    expect_error<ShapeError>([&] { layer_norm(x, wrong); }, {"layer_norm", "[2, 3, 4]"}, {x});
    expect_error<ShapeError>([&] { rms_norm(x, wrong); }, {"rms_norm", to_string(wrong)}, {x});
    expect_error<ShapeError>([&] { layer_norm_backward(x, x, wrong); },
                             {"layer_norm_backward", to_string(wrong)}, {x});
    expect_error<ShapeError>([&] { rms_norm_backward(x, x, wrong); }, {"rms_norm_backward"}, {x});
  }
  expect_error<ShapeError>([&] { layer_norm(x, {4}, short_one); }, {"weight", "[2]", "[4]"}, {x});
  expect_error<ShapeError>([&] { layer_norm(x, {4}, {}, short_one); }, {"bias", "[2]"}, {x});
  expect_error<ShapeError>([&] { group_norm(x, 3, short_one); }, {"group_norm", "[2]", "[3]"}, {x});
  expect_error<ShapeError>([&] { instance_norm(x, {}, short_one); }, {"instance_norm", "bias"},
                           {x});
  expect_error<ShapeError>([&] { batch_norm(x, short_one, short_one); },
                           {"batch_norm", "running_mean", "[2]", "[3]"}, {x, short_one});
  expect_error<ShapeError>([&] { batch_norm_backward(x, x, {}, {}, short_one, {}, true); },
                           {"batch_norm_backward", "weight"}, {x});
  expect_error<ShapeError>([&] { group_norm(flat, 1); }, {"group_norm", "[5]"}, {flat});
  expect_error<ShapeError>([&] { instance_norm(flat); }, {"instance_norm", "[5]"}, {flat});
  expect_error<ShapeError>([&] { batch_norm(flat, {}, {}); }, {"batch_norm", "[5]"}, {flat});
}

CHILD_TEST(BadInputNormalization, ValuesOutOfRange) {
  const Tensor x = ones({2, 3, 4}), mean = zeros({3}), var = ones({3});
  for (double eps : {-1e-5, std::nan(""), infinity}) {
    expect_error<ValueError>([&] { layer_norm(x, {4}, {}, {}, eps); }, {"layer_norm", "eps"}, {x});
    expect_error<ValueError>([&] { rms_norm(x, {4}, {}, eps); }, {"rms_norm", "eps"}, {x});
    expect_error<ValueError>([&] { group_norm(x, 1, {}, {}, eps); }, {"group_norm", "eps"}, {x});
    expect_error<ValueError>([&] { batch_norm(x, mean, var, {}, {}, true, 0.1, eps); },
                             {"batch_norm", "eps"}, {x, mean, var});
  }
  for (double momentum : {-0.1, 1.1, std::nan("")}) {
    expect_error<ValueError>([&] { batch_norm(x, mean, var, {}, {}, true, momentum); },
                             {"batch_norm", "momentum"}, {x, mean, var});
  }
  expect_error<ValueError>([&] { batch_norm(x, mean, {}); }, {"batch_norm", "together"}, {x, mean});
  const Tensor repeated = zeros({1}).broadcast_to({3});
  expect_error<ValueError>([&] { batch_norm(x, repeated, var, {}, {}, true); }, {"batch_norm"},
                           {x, repeated, var});
}

CHILD_TEST(BadInputNormalization, DtypesThatDoNotFit) {
  const Tensor x = ones({2, 3, 4}), whole = ones({2, 3, 4}, int64), weight = ones({4}, int32);
  expect_error<DTypeError>([&] { layer_norm(x, {4}, weight); }, {"layer_norm", "weight", "int32"},
                           {x});
  expect_error<DTypeError>([&] { layer_norm_backward(x, whole, {4}); },
                           {"layer_norm_backward", "x", "int64"}, {x});
  expect_error<DTypeError>([&] { batch_norm_backward(whole, x, {}, {}, {}, {}, true); },
                           {"batch_norm_backward", "grad_output", "int64"}, {x});
}

CHILD_TEST(BadInputNormalization, Item79GradOutputOfTheWrongShape) {
  const Tensor x = ones({2, 3, 4}), mean = zeros({3}), var = ones({3});
  for (const Shape& wrong : {Shape{}, Shape{4}, Shape{3, 4}, Shape{2, 4, 3}, Shape{1, 2, 3, 4},
                             Shape{24}, Shape{2, 3, 0}}) {
    const Tensor g = ones(wrong);
    const std::string text = to_string(wrong);
    expect_error<ShapeError>([&] { layer_norm_backward(g, x, {4}); },
                             {"layer_norm_backward", "grad_output", text}, {g, x});
    expect_error<ShapeError>([&] { rms_norm_backward(g, x, {4}); }, {"rms_norm_backward", text},
                             {g, x});
    expect_error<ShapeError>([&] { group_norm_backward(g, x, 3); }, {"group_norm_backward", text},
                             {g, x});
    expect_error<ShapeError>([&] { instance_norm_backward(g, x); },
                             {"instance_norm_backward", text}, {g, x});
    for (bool training : {false, true}) {
      expect_error<ShapeError>([&] { batch_norm_backward(g, x, mean, var, {}, {}, training); },
                               {"batch_norm_backward", text}, {g, x, mean, var});
    }
  }
}

// ---- optimizer steps

CHILD_TEST(BadInputOptimizerSteps, Item76LearningRateNanOrNegative) {
  Tensor param = ones({3});
  const Tensor grad = ones({3});
  AdamState adam{zeros({3}), zeros({3})};
  SgdState sgd;
  RmspropState rmsprop{zeros({3})};
  AdagradState adagrad{zeros({3})};
  for (double lr : {-1e-3, std::nan(""), infinity, -infinity}) {
    expect_error<ValueError>([&] { sgd_step(param, grad, sgd, 1, {.lr = lr}); }, {"sgd_step", "lr"},
                             {param, grad});
    expect_error<ValueError>([&] { adam_step(param, grad, adam, 1, {.lr = lr}); },
                             {"adam_step", "lr"}, {param, grad, adam.exp_avg, adam.exp_avg_sq});
    expect_error<ValueError>([&] { adamw_step(param, grad, adam, 1, {.lr = lr}); },
                             {"adamw_step", "lr"}, {param, grad, adam.exp_avg, adam.exp_avg_sq});
    expect_error<ValueError>([&] { rmsprop_step(param, grad, rmsprop, 1, {.lr = lr}); },
                             {"rmsprop_step", "lr"}, {param, grad, rmsprop.square_avg});
    expect_error<ValueError>([&] { adagrad_step(param, grad, adagrad, 1, {.lr = lr}); },
                             {"adagrad_step", "lr"}, {param, grad, adagrad.sum});
  }
  sgd_step(param, grad, sgd, 1, {.lr = 0});
  EXPECT_EQ(param.to_vector<float>(), std::vector<float>(3, 1));
}

CHILD_TEST(BadInputOptimizerSteps, OptionsOutOfRange) {
  Tensor param = ones({3});
  const Tensor grad = ones({3});
  AdamState adam{zeros({3}), zeros({3})};
  SgdState sgd{zeros({3})};
  RmspropState rmsprop{zeros({3})};
  AdagradState adagrad{zeros({3})};
  for (double beta : {-0.1, 1.0, 1.5, std::nan("")}) {
    expect_error<ValueError>(
        [&] {
          adam_step(param, grad, adam, 1, {.betas = {beta, 0.9}});
        },
        {"adam_step", "betas.first"}, {param});
    expect_error<ValueError>(
        [&] {
          adamw_step(param, grad, adam, 1, {.betas = {0.9, beta}});
        },
        {"adamw_step", "betas.second"}, {param});
  }
  for (double bad : {-1.0, std::nan(""), infinity}) {
    expect_error<ValueError>([&] { adam_step(param, grad, adam, 1, {.eps = bad}); }, {"eps"},
                             {param});
    expect_error<ValueError>([&] { adamw_step(param, grad, adam, 1, {.weight_decay = bad}); },
                             {"weight_decay"}, {param});
    expect_error<ValueError>([&] { sgd_step(param, grad, sgd, 1, {.momentum = bad}); },
                             {"momentum"}, {param});
    expect_error<ValueError>([&] { rmsprop_step(param, grad, rmsprop, 1, {.alpha = bad}); },
                             {"alpha"}, {param});
    expect_error<ValueError>([&] { adagrad_step(param, grad, adagrad, 1, {.lr_decay = bad}); },
                             {"lr_decay"}, {param});
  }
  for (std::int64_t step : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    expect_error<ValueError>([&] { adam_step(param, grad, adam, step); },
                             {"adam_step", "step", std::to_string(step)}, {param});
  }
  expect_error<ValueError>([&] { sgd_step(param, grad, sgd, 1, {.nesterov = true}); },
                           {"sgd_step", "nesterov"}, {param});
  expect_error<ValueError>(
      [&] { sgd_step(param, grad, sgd, 1, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}); },
      {"sgd_step", "nesterov", "dampening"}, {param});
  adam_step(param, grad, adam, INT64_MAX);  // its corrections are 1 by then
  EXPECT_TRUE(all(isfinite(param)).item<bool>());
}

CHILD_TEST(BadInputOptimizerSteps, TensorsThatDoNotFit) {
  Tensor param = ones({3, 2}), whole = ones({3, 2}, int64), half = ones({3, 2}, float16);
  const Tensor grad = ones({3, 2});
  SgdState none;
  AdamState adam{zeros({3, 2}), zeros({3, 2})};
  for (const Shape& wrong : {Shape{2, 3}, Shape{6}, Shape{3, 1}, Shape{}, Shape{0, 2}}) {
    const Tensor other = ones(wrong);
    expect_error<ShapeError>([&] { adam_step(param, other, adam, 1); },
                             {"adam_step", "grad", to_string(wrong), "[3, 2]"}, {param, other});
    AdamState state{zeros({3, 2}), other};
    expect_error<ShapeError>([&] { adam_step(param, grad, state, 1); },
                             {"exp_avg_sq", to_string(wrong)}, {param, state.exp_avg, other});
  }
  expect_error<DTypeError>([&] { sgd_step(whole, whole, none, 1); }, {"sgd_step", "param", "int64"},
                           {whole});
  expect_error<DTypeError>([&] { sgd_step(param, half, none, 1); }, {"grad", "float16"}, {param});
  AdamState wide{zeros({3, 2}, float64), zeros({3, 2}, float64)};
  expect_error<DTypeError>([&] { adam_step(param, grad, wide, 1); }, {"exp_avg", "float64"},
                           {param});
  AdamState mixed{zeros({3, 2}, float16), zeros({3, 2}, float32)};
  expect_error<DTypeError>([&] { adam_step(half, half, mixed, 1); }, {"exp_avg_sq", "float32"},
                           {half});
  AdamState missing{zeros({3, 2})};
  expect_error<ValueError>([&] { adam_step(param, grad, missing, 1); }, {"exp_avg_sq", "undefined"},
                           {param});
  expect_error<ValueError>([&] { adam_step(param, grad, adam, 1, {.amsgrad = true}); },
                           {"max_exp_avg_sq"}, {param, adam.exp_avg});
  expect_error<ValueError>([&] { sgd_step(param, grad, none, 1, {.momentum = 0.9}); },
                           {"sgd_step", "momentum_buffer"}, {param});
  AdamState shared{zeros({3, 2})};
  shared.exp_avg_sq = shared.exp_avg;
  expect_error<ValueError>([&] { adam_step(param, grad, shared, 1); }, {"shares memory"},
                           {param, shared.exp_avg});
  AdamState of_param{param, zeros({3, 2})};
  expect_error<ValueError>([&] { adam_step(param, grad, of_param, 1); }, {"exp_avg", "param"},
                           {param});
  Tensor repeated = ones({1, 2}).broadcast_to({3, 2});
  expect_error<ValueError>([&] { sgd_step(repeated, grad, none, 1); }, {"sgd_step"}, {repeated});
  Tensor undefined;
  expect_error<ValueError>([&] { sgd_step(undefined, grad, none, 1); }, {}, {grad});
}

CHILD_TEST(BadInputOptimizerSteps, Clipping) {
  std::vector<Tensor> grads = {ones({3}), ones({2})}, none;
  std::vector<Tensor> whole = {ones({3}), ones({2}, int64)};
  std::vector<Tensor> repeated = {ones({3}), ones({1}).broadcast_to({3})};
  for (double bad : {-1.0, std::nan("")}) {
    expect_error<ValueError>([&] { clip_grad_norm(grads, bad); }, {"clip_grad_norm", "max_norm"},
                             grads);
    expect_error<ValueError>([&] { clip_grad_norm(grads, 1, bad); }, {"norm_type"}, grads);
    expect_error<ValueError>([&] { clip_grad_value(grads, bad); },
                             {"clip_grad_value", "clip_value"}, grads);
  }
  expect_error<ValueError>([&] { clip_grad_norm(grads, 1, 0); }, {"norm_type", "0"}, grads);
  expect_error<DTypeError>([&] { clip_grad_norm(whole, 1); }, {"grads[1]", "int64"}, whole);
  expect_error<DTypeError>([&] { clip_grad_value(whole, 0.5); }, {"grads[1]", "int64"}, whole);
  expect_error<ValueError>([&] { clip_grad_norm(repeated, 1); }, {"clip_grad_norm"}, repeated);
  EXPECT_EQ(clip_grad_norm(none, 1), 0);
  clip_grad_value(none, 1);
}

}  // namespace
