#include <algorithm>
#include <cmath>

#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

struct Case {
  Shape shape;
  std::int64_t axis;
};

std::vector<Case> cases() {
  return {{{}, -1},     {{1}, 0},       {{3}, -1},      {{17}, 0},       {{5, 7}, 1},
          {{5, 7}, 0},  {{3, 33}, -1},  {{2, 3, 4}, 1}, {{2, 3, 4}, -3}, {{65, 2}, 0},
          {{0, 3}, -1}, {{3, 0, 2}, 2}, {{3, 0, 2}, -2}};
}

Doubles exact_log_softmax(const Doubles& row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double x : row) sum += std::exp(x - largest);
  Doubles result;
  for (double x : row) result.push_back(x - largest - std::log(sum));
  return result;
}

Doubles exact_softmax(const Doubles& row) {
  Doubles result = exact_log_softmax(row);
  for (double& value : result) value = std::exp(value);
  return result;
}

using Forward = Tensor (*)(const Tensor&, StrictInt);
using Backward = Tensor (*)(const Tensor&, const Tensor&, StrictInt);

std::vector<Sample> samples(Forward forward, Doubles (*exact)(const Doubles&), Backward backward,
                            double cancelling_terms = 0) {
  std::vector<Sample> result;
  for (const Case& c : cases()) {
    Sample sample = sample_of(
        to_string(c.shape) + ", axis " + std::to_string(c.axis),
        {sample_uniform(c.shape, -4, 4, 1)},
        [=](const Tensors& in) { return forward(in[0], c.axis); },
        [=](const Tensors& in) { return map_rows(in[0], c.axis, exact); },
        [=](const Tensor& g, const Tensors& in) { return Tensors{backward(g, in[1], c.axis)}; });
    sample.saves_results = true;
    sample.cancelling_terms = cancelling_terms;
    result.push_back(std::move(sample));
  }
  return result;
}

}  // namespace

void add_softmax(std::vector<Op>& ops) {
  ops.push_back({"softmax",
                 "activation",
                 "exp(x) / Σ exp(x) along the axis",
                 "y (g − Σ g y)",
                 {"softmax_backward"},
                 DTypes::as_float32,
                 [] { return samples(softmax, exact_softmax, softmax_backward); }});
  ops.push_back({"log_softmax",
                 "activation",
                 "x − log Σ exp(x) along the axis",
                 "g − exp(y) Σ g",
                 {"log_softmax_backward"},
                 DTypes::as_float32,
                 [] {
                   return samples(log_softmax, exact_log_softmax, log_softmax_backward,
                                  1);  // Σ exp(x − max) is rounded in units of 1
                 }});
}

}  // namespace extensor::op_database
