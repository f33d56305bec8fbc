#include <algorithm>
#include <cmath>
#include <optional>

#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

// One call of a reduction: an input's shape, the axes, keepdims.
struct Case {
  Shape shape;
  Axes axes;
  bool keepdims = false;
};

std::string label_of(const Case& c) {
  std::string label = to_string(c.shape);
  if (!c.axes.all()) label += ", axes " + to_string(c.axes.list());
  if (c.keepdims) label += ", keepdims";
  return label;
}

// No empty range is reduced: also for reductions that do not allow one.
std::vector<Case> usual_cases() {
  return {{{}, {}, false},
          {{1}, {}, false},
          {{17}, 0, false},
          {{5, 7}, {}, false},
          {{5, 7}, 0, false},
          {{5, 7}, -1, true},
          {{3, 33}, 1, false},
          {{2, 3, 4}, {0, 2}, false},
          {{2, 3, 4}, {-1, 1}, true},
          {{2, 3, 4}, {}, true},
          {{4, 3}, Axes(Dims{}), false},
          {{0, 3}, 1, false}};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = usual_cases();
  cases.push_back({{3, 0}, 1, false});
  cases.push_back({{0}, {}, false});
  return cases;
}

using Reduce = Tensor (*)(const Tensor&, const Axes&, StrictBool);
using Group = std::function<double(const Doubles&)>;
using Draw = std::function<Tensor(const Shape&)>;
using ReduceBackward = std::function<Tensor(const Tensor& g, const Tensor& x, const Axes& axes)>;

std::vector<Sample> reduce_samples(const std::vector<Case>& cases, const Draw& draw, Reduce reduce,
                                   const Group& group, const ReduceBackward& backward = nullptr) {
  std::vector<Sample> samples;
  for (const Case& c : cases) {
    const auto gradients = [c, backward](const Tensor& g, const Tensors& in) {
      return Tensors{backward(g, in[0], c.axes)};
    };
    samples.push_back(sample_of(
        label_of(c), {draw(c.shape)},
        [c, reduce](const Tensors& in) { return reduce(in[0], c.axes, c.keepdims); },
        [c, group](const Tensors& in) { return reduce_groups(in[0], c.axes, c.keepdims, group); },
        backward ? Gradients(gradients) : nullptr));
  }
  return samples;
}

Tensor between_minus_2_and_2(const Shape& shape) { return sample_uniform(shape, -2, 2, 1); }

double total(const Doubles& group) {
  double sum = 0;
  for (double value : group) sum += value;
  return sum;
}

double product(const Doubles& group) {
  double result = 1;
  for (double value : group) result *= value;
  return result;
}

double variance(const Doubles& group, double correction) {
  const double n = static_cast<double>(group.size()), mean = total(group) / n;
  double squares = 0;
  for (double value : group) squares += (value - mean) * (value - mean);
  return squares / (n - correction);
}

double logarithm_of_sum(const Doubles& group) {
  if (group.empty()) return -INFINITY;
  const double largest = *std::ranges::max_element(group);
  double sum = 0;
  for (double value : group) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

std::vector<Sample> prod_samples() {
  auto samples = reduce_samples(
      all_cases(), [](const Shape& shape) { return sample_uniform(shape, 0.5, 1.5, 1); }, prod,
      product, prod_backward);
  for (int zero_count : {1, 2, 3}) {
    Tensor x = sample_uniform({3, 4}, -1.5, -0.5, 2);
    for (int i = 0; i < zero_count; ++i) x[{1, i}].fill(0);
    samples.push_back(sample_of(
        "[3, 4], axis 1, zeros in a row: " + std::to_string(zero_count), {x},
        [](const Tensors& in) { return prod(in[0], 1); },
        [](const Tensors& in) { return reduce_groups(in[0], 1, false, product); },
        [](const Tensor& g, const Tensors& in) { return Tensors{prod_backward(g, in[0], 1)}; }));
  }
  // Values so small that all products are integers that a double represents exactly.
  for (Sample& sample : samples) {
    sample.integer_of = [](std::size_t, double x) {
      return x == 0 ? 0 : std::fabs(x) < 0.8 ? -1 : std::fabs(x) < 1.2 ? 1 : 2;
    };
  }
  return samples;
}

// Every row has more elements than the correction.
std::vector<Case> spread_cases() {
  return {{{17}, {}, false},   {{5, 7}, {}, false},        {{5, 7}, 0, true},
          {{3, 33}, 1, false}, {{2, 3, 4}, {0, 2}, false}, {{2, 3, 4}, {-1, 1}, true},
          {{0, 3}, 1, false}};
}

std::vector<Sample> var_samples() {
  std::vector<Sample> samples;
  for (const Case& c : spread_cases()) {
    for (double correction : {0.0, 1.0, 0.5}) {
      samples.push_back(sample_of(
          label_of(c) + ", correction " + std::to_string(correction),
          {sample_uniform(c.shape, -2, 2, 1)},
          [=](const Tensors& in) { return var(in[0], c.axes, correction, c.keepdims); },
          [=](const Tensors& in) {
            return reduce_groups(in[0], c.axes, c.keepdims,
                                 [=](const Doubles& group) { return variance(group, correction); });
          },
          [=](const Tensor& g, const Tensors& in) {
            return Tensors{var_backward(g, in[0], c.axes, correction)};
          }));
    }
  }
  return samples;
}

std::vector<Sample> std_samples() {
  std::vector<Sample> samples;
  for (const Case& c : spread_cases()) {
    for (double correction : {0.0, 1.0}) {
      samples.push_back(sample_of(
          label_of(c) + ", correction " + std::to_string(correction),
          {sample_uniform(c.shape, -2, 2, 1)},
          [=](const Tensors& in) { return extensor::std(in[0], c.axes, correction, c.keepdims); },
          [=](const Tensors& in) {
            return reduce_groups(in[0], c.axes, c.keepdims, [=](const Doubles& group) {
              return std::sqrt(variance(group, correction));
            });
          },
          [=](const Tensor& g, const Tensors& in) {
            return Tensors{std_backward(g, in[0], c.axes, correction)};
          }));
    }
  }
  return samples;
}

std::vector<Sample> logsumexp_samples() {
  return reduce_samples(
      all_cases(), [](const Shape& shape) { return sample_uniform(shape, -3, 3, 1); }, logsumexp,
      logarithm_of_sum, logsumexp_backward);
}

// Truth values of zeros and ones, also of empty ranges.
std::vector<Sample> truth_samples(Reduce reduce, const Group& group) {
  std::vector<Sample> samples = reduce_samples(
      all_cases(), [](const Shape& shape) { return sample_integers(shape, 0, 3, 4).to(float64); },
      reduce, group);
  for (Sample& sample : samples) {
    sample.reference = [reference = sample.reference](const Tensors& in) {
      return Tensors{reference(in)[0].to(bool_)};
    };
  }
  return samples;
}

using Position = Tensor (*)(const Tensor&, std::optional<StrictInt>, StrictBool);

std::vector<Sample> position_samples(Position position, bool largest) {
  struct PositionCase {
    Shape shape;
    std::optional<std::int64_t> axis;
    bool keepdims = false;
  };
  const auto first_best = [largest](const Doubles& group) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < group.size(); ++i) {
      if (largest ? group[i] > group[best] : group[i] < group[best]) best = i;
    }
    return static_cast<double>(best);
  };
  std::vector<Sample> samples;
  for (const PositionCase& c : std::vector<PositionCase>{{{}, {}},
                                                         {{17}, {}},
                                                         {{33}, 0},
                                                         {{5, 7}, {}},
                                                         {{5, 7}, 0},
                                                         {{5, 7}, -1, true},
                                                         {{2, 3, 4}, 1},
                                                         {{2, 3, 4}, {}, true},
                                                         {{0, 3}, 1}}) {
    const Axes axes = c.axis ? Axes(*c.axis) : Axes();
    samples.push_back(sample_of(
        label_of({c.shape, axes, c.keepdims}), {sample_distinct(c.shape, 3)},
        [=](const Tensors& in) { return position(in[0], c.axis, c.keepdims); },
        [=](const Tensors& in) {
          return reduce_groups(in[0], axes, c.keepdims, first_best).to(int64);
        }));
  }
  return samples;
}

using WithIndices = ValuesWithIndices (*)(const Tensor&, std::optional<StrictInt>, StrictBool);

// The values and positions of the extremes. Only the values have a gradient.
std::vector<Sample> extreme_samples(WithIndices both, bool largest) {
  std::vector<Sample> samples;
  for (const auto& [shape, axis, keepdims] :
       {std::tuple<Shape, std::optional<std::int64_t>, bool>{{5, 7}, 0, false},
        {{5, 7}, -1, true},
        {{2, 3, 4}, 1, false},
        {{17}, std::nullopt, false}}) {
    const std::optional<StrictInt> along = axis ? std::optional<StrictInt>(*axis) : std::nullopt;
    const Axes axes = axis ? Axes(*axis) : Axes();
    const bool keeps = keepdims;
    const auto position = [largest](const Doubles& group) {
      const auto best = largest ? std::ranges::max_element(group) : std::ranges::min_element(group);
      return static_cast<double>(best - group.begin());
    };
    Sample sample;
    sample.label = label_of({shape, axes, keeps});
    sample.inputs = {sample_distinct(shape, 3)};
    sample.forward = [=](const Tensors& in) {
      const auto [values, indices] = both(in[0], along, keeps);
      return Tensors{values, indices};
    };
    sample.reference = [=](const Tensors& in) {
      return Tensors{reduce_groups(in[0], axes, keeps,
                                   [=](const Doubles& group) {
                                     return group[static_cast<std::size_t>(position(group))];
                                   }),
                     reduce_groups(in[0], axes, keeps, position).to(int64)};
    };
    sample.backward = [=](const Tensors& g, const Tensors& in) {
      return Tensors{largest ? max_reduce_backward(g[0], in[0], axes)
                             : min_reduce_backward(g[0], in[0], axes)};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

void add_reductions(std::vector<Op>& ops) {
  const std::string family = "reduction";
  const auto distinct = [](const Shape& shape) { return sample_distinct(shape, 2); };
  ops.push_back({"sum",
                 family,
                 "Σ x over the axes",
                 "g, repeated along them",
                 {"sum_backward"},
                 DTypes::as_64_bits,
                 [] {
                   return reduce_samples(all_cases(), between_minus_2_and_2, sum, total,
                                         [](const Tensor& g, const Tensor& x, const Axes& axes) {
                                           return sum_backward(g, x.shape(), axes);
                                         });
                 }});
  ops.push_back(
      {"mean",
       family,
       "Σ x / n over the axes",
       "g / n, repeated along them",
       {"mean_backward"},
       DTypes::as_float32,
       [] {
         return reduce_samples(
             usual_cases(), between_minus_2_and_2, mean,
             [](const Doubles& group) { return total(group) / static_cast<double>(group.size()); },
             [](const Tensor& g, const Tensor& x, const Axes& axes) {
               return mean_backward(g, x.shape(), axes);
             });
       }});
  ops.push_back({"max_reduce",
                 family,
                 "the largest of x over the axes",
                 "g at the largest, shared equally by ties",
                 {"max_reduce_backward"},
                 DTypes::all,
                 [distinct] {
                   return reduce_samples(
                       usual_cases(), distinct, max_reduce,
                       [](const Doubles& group) { return *std::ranges::max_element(group); },
                       max_reduce_backward);
                 }});
  ops.push_back({"min_reduce",
                 family,
                 "the smallest of x over the axes",
                 "g at the smallest, shared equally by ties",
                 {"min_reduce_backward"},
                 DTypes::all,
                 [distinct] {
                   return reduce_samples(
                       usual_cases(), distinct, min_reduce,
                       [](const Doubles& group) { return *std::ranges::min_element(group); },
                       min_reduce_backward);
                 }});
  ops.push_back({"prod",
                 family,
                 "Π x over the axes",
                 "g times the product of the others",
                 {"prod_backward"},
                 DTypes::as_64_bits,
                 prod_samples});
  ops.push_back({"var",
                 family,
                 "Σ (x − mean)² / (n − correction) over the axes",
                 "g · 2 (x − mean) / (n − correction)",
                 {"var_backward"},
                 DTypes::as_float32,
                 var_samples});
  ops.push_back({"std",
                 family,
                 "√var",
                 "g (x − mean) / ((n − correction) · std)",
                 {"std_backward"},
                 DTypes::as_float32,
                 [] {
                   auto samples = std_samples();
                   for (Sample& sample : samples) sample.rows_must_differ = true;
                   return samples;
                 }});
  ops.push_back({"all", family, "whether no x over the axes is 0", "", {}, DTypes::all, [] {
                   return truth_samples(extensor::all, [](const Doubles& group) {
                     return std::ranges::all_of(group, [](double x) { return x != 0; }) ? 1 : 0;
                   });
                 }});
  ops.push_back({"any", family, "whether some x over the axes is not 0", "", {}, DTypes::all, [] {
                   return truth_samples(extensor::any, [](const Doubles& group) {
                     return std::ranges::any_of(group, [](double x) { return x != 0; }) ? 1 : 0;
                   });
                 }});
  ops.push_back({"argmax",
                 family,
                 "the position of the first largest x along the axis",
                 "",
                 {},
                 DTypes::all,
                 [] { return position_samples(argmax, true); }});
  ops.push_back({"argmin",
                 family,
                 "the position of the first smallest x along the axis",
                 "",
                 {},
                 DTypes::all,
                 [] { return position_samples(argmin, false); }});
  for (const bool largest : {true, false}) {
    const auto both = largest ? max_with_indices : min_with_indices;
    ops.push_back({largest ? "max_with_indices" : "min_with_indices",
                   family,
                   largest ? "the largest of x along the axis, and the position of the first one"
                           : "the smallest of x along the axis, and the position of the first one",
                   "g of the values at the extreme, shared equally by ties",
                   {largest ? "max_reduce_backward" : "min_reduce_backward"},
                   DTypes::all,
                   [=] { return extreme_samples(both, largest); }});
  }
  ops.push_back({"logsumexp",
                 family,
                 "log Σ exp(x) over the axes",
                 "g · softmax(x)",
                 {"logsumexp_backward"},
                 DTypes::as_float32,
                 logsumexp_samples});
}

}  // namespace extensor::op_database
