#include <algorithm>
#include <cmath>

#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

struct Case {
  Shape x, weight;
  bool has_bias = true;
  Activation activation = Activation::none;
};

// x · weightᵀ + bias, element by element.
Tensor exact_linear(const Case& c, const Tensors& in) {
  const Doubles x = doubles(in[0]), weight = doubles(in[1]);
  const Doubles bias = c.has_bias ? doubles(in[2]) : Doubles();
  const auto outputs = static_cast<std::size_t>(c.weight[0]);
  const auto inputs = static_cast<std::size_t>(c.weight[1]);
  Shape shape = c.x;
  shape.back() = c.weight[0];
  Doubles result(static_cast<std::size_t>(count_of(shape)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t row = i / outputs, column = i % outputs;
    double sum = c.has_bias ? bias[column] : 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      sum += x[row * inputs + k] * weight[column * inputs + k];
    }
    result[i] = activate(c.activation, sum);
  }
  return from_data(result, shape);
}

std::vector<Sample> linear_samples() {
  std::vector<Case> cases{{{3, 4}, {5, 4}},       {{3, 4}, {5, 4}, false}, {{4}, {2, 4}},
                          {{2, 3, 17}, {9, 17}},  {{5, 33}, {7, 33}},      {{1, 8}, {16, 8}, false},
                          {{0, 4}, {3, 4}},       {{3, 0}, {2, 0}},        {{3, 4}, {0, 4}},
                          {{2, 2, 3, 4}, {17, 4}}};
  for (Activation activation : {Activation::relu, Activation::sigmoid, Activation::tanh,
                                Activation::gelu, Activation::silu, Activation::gelu_tanh}) {
    cases.push_back({{3, 17}, {9, 17}, true, activation});
    cases.push_back({{2, 3, 4}, {5, 4}, false, activation});
  }
  const char* names[] = {"", ", relu", ", sigmoid", ", tanh", ", gelu", ", silu", ", gelu_tanh"};
  std::vector<Sample> samples;
  for (const Case& c : cases) {
    Tensors inputs{sample_uniform(c.x, -1, 1, 1), sample_uniform(c.weight, -1, 1, 2)};
    if (c.has_bias) inputs.push_back(sample_uniform({c.weight[0]}, -1, 1, 3));
    const auto bias_of = [c](const Tensors& in) { return c.has_bias ? in[2] : Tensor(); };
    const auto forward = [=](const Tensors& in) {
      return linear(in[0], in[1], bias_of(in), c.activation);
    };
    const std::string label = shapes_of(inputs) + names[static_cast<std::size_t>(c.activation)];
    samples.push_back(sample_of(
        label, inputs, forward, [c](const Tensors& in) { return exact_linear(c, in); },
        [=](const Tensor& g, const Tensors& in) {
          const LinearGradients gradients =
              c.activation == Activation::none
                  ? linear_backward(g, in[0], in[1], c.has_bias)
                  : linear_backward(g, in[0], in[1], bias_of(in), c.activation);
          Tensors result{gradients.x, gradients.weight};
          if (c.has_bias) result.push_back(gradients.bias);
          return result;
        }));
  }
  return samples;
}

std::vector<Sample> glu_samples() {
  const auto gate = [](const Doubles& row) {
    Doubles result(row.size() / 2);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = row[i] / (1 + std::exp(-row[i + result.size()]));
    }
    return result;
  };
  const std::vector<std::pair<Shape, std::int64_t>> cases{
      {{2}, 0},     {{34}, -1},      {{3, 4}, 1},  {{4, 5}, 0},
      {{66, 2}, 0}, {{2, 6, 3}, -2}, {{0, 4}, -1}, {{2, 2, 8}, 2}};
  std::vector<Sample> samples;
  for (const auto& [shape, axis] : cases) {
    samples.push_back(sample_of(
        to_string(shape) + ", axis " + std::to_string(axis), {sample_uniform(shape, -4, 4, 1)},
        [axis = axis](const Tensors& in) { return glu(in[0], axis); },
        [axis = axis, gate](const Tensors& in) {
          if (in[0].numel() != 0) return map_rows(in[0], axis, gate);
          Shape half = in[0].shape();
          half[static_cast<std::size_t>(axis < 0 ? axis + in[0].ndim() : axis)] /= 2;
          return zeros(half, float64);
        },
        [axis = axis](const Tensor& g, const Tensors& in) {
          return Tensors{glu_backward(g, in[0], axis)};
        }));
  }
  return samples;
}

// ---- linear_cross_entropy

struct LossCase {
  Shape x;
  std::int64_t classes;
  Reduction reduction = Reduction::mean;
  bool has_bias = true, weighted = false, some_ignored = false;
  double label_smoothing = 0;

  // Positions among the inputs.
  std::size_t target() const { return has_bias ? 3 : 2; }
};

Tensors loss_inputs(const LossCase& c) {
  Shape rows = c.x;
  rows.resize(rows.size() - 1);
  Tensors inputs{sample_uniform(c.x, -2, 2, 1),
                 sample_uniform({c.classes, c.x.back()}, -1.5, 1.5, 2)};
  if (c.has_bias) inputs.push_back(sample_uniform({c.classes}, -1, 1, 3));
  Tensor target = sample_integers(rows, 0, std::max<std::int64_t>(1, c.classes), 4);
  if (c.some_ignored) {
    Tensor flat = target.flatten();
    for (std::int64_t i = 0; i < flat.numel(); i += 3) flat[i].fill(default_ignore_index);
    target = flat.reshape(rows);
  }
  inputs.push_back(target);
  if (c.weighted) inputs.push_back(sample_uniform({c.classes}, 0.3, 2, 5));
  return inputs;
}

// −Σ target · log softmax(x · weightᵀ + bias), class by class.
Tensor exact_loss(const LossCase& c, const Tensors& in) {
  const Tensor layer = exact_linear({c.x, {c.classes, c.x.back()}, c.has_bias}, in);
  const Doubles logits = doubles(layer), target = doubles(in[c.target()]);
  const auto classes = static_cast<std::size_t>(c.classes);
  const Doubles weight = c.weighted ? doubles(in[c.target() + 1]) : Doubles(classes, 1);
  Doubles losses(target.size());
  double total = 0, divisor = 0;
  for (std::size_t row = 0; row < losses.size(); ++row) {
    if (target[row] == default_ignore_index) continue;
    const auto index = static_cast<std::size_t>(target[row]);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(logits[row * classes + k]);
    for (std::size_t k = 0; k < classes; ++k) {
      const double part = (k == index ? 1 - c.label_smoothing : 0) +
                          c.label_smoothing / static_cast<double>(classes);
      losses[row] -= weight[k] * part * (logits[row * classes + k] - std::log(sum));
    }
    total += losses[row];
    divisor += weight[index];
  }
  if (c.reduction == Reduction::none) return from_data(losses, in[c.target()].shape());
  if (c.reduction == Reduction::mean && divisor != 0) total /= divisor;
  return from_data(Doubles{total}, Shape{});
}

Sample loss_sample(const LossCase& c) {
  constexpr const char* reductions[] = {", mean", ", sum", ", none"};
  Tensors inputs = loss_inputs(c);
  const auto bias = [c](const Tensors& in) { return c.has_bias ? in[2] : Tensor(); };
  const auto weight = [c](const Tensors& in) { return c.weighted ? in.back() : Tensor(); };
  const std::string label = shapes_of(inputs) + reductions[static_cast<int>(c.reduction)] +
                            (c.some_ignored ? ", ignore_index" : "") +
                            (c.label_smoothing > 0 ? ", label_smoothing" : "");
  Sample sample = sample_of(
      label, std::move(inputs),
      [=](const Tensors& in) {
        return linear_cross_entropy(in[0], in[1], bias(in), in[c.target()], weight(in), c.reduction,
                                    default_ignore_index, c.label_smoothing);
      },
      [=](const Tensors& in) { return exact_loss(c, in); },
      [=](const Tensor& g, const Tensors& in) {
        const LinearGradients found =
            linear_cross_entropy_backward(g, in[0], in[1], bias(in), in[c.target()], weight(in),
                                          c.reduction, default_ignore_index, c.label_smoothing);
        Tensors gradients{found.x, found.weight};
        if (c.has_bias) gradients.push_back(found.bias);
        gradients.resize(in.size());
        return gradients;
      });
  if (c.weighted) sample.constants = {c.target() + 1};
  return sample;
}

std::vector<Sample> loss_samples() {
  std::vector<Sample> samples;
  using enum Reduction;
  for (Reduction reduction : {mean, sum, none}) {
    for (bool weighted : {false, true}) {
      for (double smoothing : {0.0, 0.2}) {
        samples.push_back(loss_sample({{5, 4}, 7, reduction, true, weighted, true, smoothing}));
      }
    }
    samples.push_back(loss_sample({{2, 3, 4}, 5, reduction, false}));
    samples.push_back(loss_sample({{4}, 3, reduction}));
  }
  samples.push_back(loss_sample({{3, 17}, 33, mean, false, true}));
  samples.push_back(loss_sample({{0, 4}, 3, sum}));
  samples.push_back(loss_sample({{0, 4}, 3, none}));
  samples.push_back(loss_sample({{3, 0}, 2, mean}));
  return samples;
}

}  // namespace

void add_linear(std::vector<Op>& ops) {
  ops.push_back({"linear",
                 "neural-net kernel",
                 "activation(x · weightᵀ + bias)",
                 "grad_x = g·weight, grad_weight = gᵀ·x, grad_bias = Σ g",
                 {"linear_backward"},
                 DTypes::floats,
                 linear_samples});
  ops.push_back({"linear_cross_entropy",
                 "losses",
                 "cross_entropy(linear(x, weight, bias), target), without the logits in memory",
                 "those of linear, for the gradient of the logits that cross_entropy has",
                 {"linear_cross_entropy_backward"},
                 DTypes::floats,
                 loss_samples});
  ops.push_back({"glu",
                 "activation",
                 "a · σ(b) for the halves a and b of x along the axis",
                 "grad_a = g σ(b), grad_b = g a σ(b) (1 − σ(b))",
                 {"glu_backward"},
                 DTypes::floats,
                 glu_samples});
}

}  // namespace extensor::op_database
