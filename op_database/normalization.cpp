#include <algorithm>
#include <cmath>

#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

using Values = std::vector<double>;

Values values_of(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }

// Which elements are normalized together, and which parameter applies to an element.
struct Sets {
  std::function<std::size_t(std::size_t)> set_of, channel_of;
  std::size_t count;
};

Sets trailing_sets(const Tensor& x, const Shape& normalized_shape) {
  std::size_t length = 1;
  for (std::int64_t size : normalized_shape) length *= static_cast<std::size_t>(size);
  return {[=](std::size_t i) { return i / length; }, [=](std::size_t i) { return i % length; },
          length == 0 ? 0 : static_cast<std::size_t>(x.numel()) / length};
}

std::size_t inner_size(const Tensor& x) {
  std::size_t inner = 1;
  for (std::int64_t d = 2; d < x.ndim(); ++d) inner *= static_cast<std::size_t>(x.size(d));
  return inner;
}

Sets group_sets(const Tensor& x, std::int64_t groups) {
  const auto channels = static_cast<std::size_t>(x.size(1));
  const std::size_t inner = inner_size(x);
  const std::size_t length = channels / static_cast<std::size_t>(groups) * inner;
  return {[=](std::size_t i) { return i / length; },
          [=](std::size_t i) { return i / inner % channels; },
          static_cast<std::size_t>(x.size(0) * groups)};
}

Sets channel_sets(const Tensor& x) {
  const auto channels = static_cast<std::size_t>(x.size(1));
  const std::size_t inner = inner_size(x);
  const auto channel = [=](std::size_t i) { return i / inner % channels; };
  return {channel, channel, channels};
}

struct Statistics {
  Values mean, variance, count;
};

// `centred` false: mean 0.
Statistics statistics_of(const Values& x, const Sets& sets, bool centred) {
  Statistics s{Values(sets.count), Values(sets.count), Values(sets.count)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    s.mean[sets.set_of(i)] += centred ? x[i] : 0;
    s.count[sets.set_of(i)] += 1;
  }
  for (std::size_t k = 0; k < sets.count; ++k) s.mean[k] /= s.count[k];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = sets.set_of(i);
    s.variance[k] += (x[i] - s.mean[k]) * (x[i] - s.mean[k]) / s.count[k];
  }
  return s;
}

// Weight and bias may be undefined.
Tensor normalized(const Tensor& x, const Sets& sets, const Statistics& s, const Tensor& weight,
                  const Tensor& bias, double eps) {
  Values values = values_of(x);
  const Values w = weight.defined() ? values_of(weight) : Values();
  const Values b = bias.defined() ? values_of(bias) : Values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t k = sets.set_of(i), c = sets.channel_of(i);
    const double standard = (values[i] - s.mean[k]) / std::sqrt(s.variance[k] + eps);
    values[i] = standard * (w.empty() ? 1 : w[c]) + (b.empty() ? 0 : b[c]);
  }
  return from_data(values, x.shape());
}

Tensor reference_norm(const Tensors& in, const Sets& sets, bool centred, double eps) {
  const Statistics s = statistics_of(values_of(in[0]), sets, centred);
  return normalized(in[0], sets, s, in.size() > 1 ? in[1] : Tensor(),
                    in.size() > 2 ? in[2] : Tensor(), eps);
}

Tensor optional(const Tensors& in, std::size_t at) { return at < in.size() ? in[at] : Tensor(); }

// x alone, with a weight, or with weight and bias.
Tensors inputs_of(const Shape& shape, const Shape& parameter_shape, int parameters,
                  std::uint64_t seed) {
  Tensors inputs{sample_uniform(shape, -2, 2, seed)};
  if (parameters > 0) inputs.push_back(sample_uniform(parameter_shape, 0.5, 1.5, seed + 1));
  if (parameters > 1) inputs.push_back(sample_uniform(parameter_shape, -1, 1, seed + 2));
  return inputs;
}

std::string label_of(const Shape& shape, const std::string& what, int parameters) {
  const char* const with[] = {"", ", weight", ", weight and bias"};
  return to_string(shape) + ", " + what + with[parameters];
}

Tensors first_of(const NormGradients& gradients, std::size_t count) {
  Tensors list{gradients.x, gradients.weight, gradients.bias};
  list.resize(count);
  return list;
}

// ---- over trailing axes

struct Trailing {
  Shape shape, normalized_shape;
  int parameters;
  double eps = 1e-5;
};

Sample layer_norm_sample(const Trailing& t, std::uint64_t seed) {
  Sample sample;
  sample.label = label_of(t.shape, "over " + to_string(t.normalized_shape), t.parameters);
  sample.inputs = inputs_of(t.shape, t.normalized_shape, t.parameters, seed);
  sample.floats_only = t.parameters > 0;  // x may be an integer, a parameter may not
  sample.forward = [t](const Tensors& in) {
    return Tensors{layer_norm(in[0], t.normalized_shape, optional(in, 1), optional(in, 2), t.eps)};
  };
  sample.reference = [t](const Tensors& in) {
    return Tensors{reference_norm(in, trailing_sets(in[0], t.normalized_shape), true, t.eps)};
  };
  sample.backward = [t](const Tensors& g, const Tensors& in) {
    return first_of(layer_norm_backward(g[0], in[0], t.normalized_shape, optional(in, 1),
                                        optional(in, 2), t.eps),
                    in.size());
  };
  return sample;
}

std::vector<Sample> layer_norm_samples() {
  return {layer_norm_sample({{6, 17}, {17}, 2}, 1),
          layer_norm_sample({{5, 33}, {33}, 1}, 2),
          layer_norm_sample({{3, 8}, {8}, 0}, 3),
          layer_norm_sample({{2, 3, 4, 5}, {4, 5}, 2}, 4),
          layer_norm_sample({{70, 4}, {4}, 2, 1e-2}, 5),
          layer_norm_sample({{40}, {40}, 2, 1e-2}, 6),
          layer_norm_sample({{0, 5}, {5}, 2}, 7),
          layer_norm_sample({{3, 0}, {0}, 2}, 8),
          layer_norm_sample({{2, 3}, {2, 3}, 2, 0.5}, 9)};
}

Sample rms_norm_sample(const Trailing& t, std::uint64_t seed) {
  Sample sample;
  sample.label = label_of(t.shape, "over " + to_string(t.normalized_shape), t.parameters);
  sample.inputs = inputs_of(t.shape, t.normalized_shape, t.parameters, seed);
  sample.floats_only = t.parameters > 0;  // x may be an integer, a parameter may not
  sample.forward = [t](const Tensors& in) {
    return Tensors{rms_norm(in[0], t.normalized_shape, optional(in, 1), t.eps)};
  };
  sample.reference = [t](const Tensors& in) {
    return Tensors{reference_norm(in, trailing_sets(in[0], t.normalized_shape), false, t.eps)};
  };
  sample.backward = [t](const Tensors& g, const Tensors& in) {
    auto [grad_x, grad_weight] =
        rms_norm_backward(g[0], in[0], t.normalized_shape, optional(in, 1), t.eps);
    Tensors list{grad_x, grad_weight};
    list.resize(in.size());
    return list;
  };
  return sample;
}

std::vector<Sample> rms_norm_samples() {
  return {
      rms_norm_sample({{6, 17}, {17}, 1}, 1),        rms_norm_sample({{5, 33}, {33}, 0}, 2),
      rms_norm_sample({{2, 3, 4, 5}, {4, 5}, 1}, 3), rms_norm_sample({{70, 4}, {4}, 1, 1e-2}, 4),
      rms_norm_sample({{0, 5}, {5}, 1}, 5),          rms_norm_sample({{3, 0}, {0}, 1}, 6),
      rms_norm_sample({{}, {}, 1, 0.5}, 7)};
}

// ---- of a sum, over trailing axes

Tensor elementwise_sum(const Tensor& a, const Tensor& b) {
  Values sum = values_of(a);
  const Values other = values_of(b);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return from_data(sum, a.shape());
}

// Multiples of 1/16, whose sums are exact in the half dtypes: the op normalizes the rounded sum.
Tensor sixteenths(const Shape& shape, std::uint64_t seed) {
  Values values = values_of(sample_integers(shape, -31, 32, seed));
  for (double& value : values) value /= 16;
  return from_data(values, shape);
}

// The results that the sample returns, and for which the backward has gradients.
enum class Given : std::uint8_t { both, sum, output };

// Inputs: x, residual, then the parameters.
Sample add_norm_sample(const Trailing& t, bool centred, Given given, std::uint64_t seed) {
  const char* const names[] = {"", ", the sum", ", the norm"};
  Sample sample;
  sample.label = label_of(t.shape, "over " + to_string(t.normalized_shape), t.parameters) +
                 names[static_cast<std::size_t>(given)];
  sample.inputs = inputs_of(t.shape, t.normalized_shape, t.parameters, seed);
  sample.inputs[0] = sixteenths(t.shape, seed);
  sample.inputs.insert(sample.inputs.begin() + 1, sixteenths(t.shape, seed + 3));
  const auto choose = [given](const Tensor& sum, const Tensor& output) {
    if (given == Given::both) return Tensors{sum, output};
    return Tensors{given == Given::sum ? sum : output};
  };
  sample.forward = [=](const Tensors& in) {
    const auto [sum, output] =
        centred ? add_layer_norm(in[0], in[1], t.normalized_shape, optional(in, 2), optional(in, 3),
                                 t.eps)
                : add_rms_norm(in[0], in[1], t.normalized_shape, optional(in, 2), t.eps);
    return choose(sum, output);
  };
  sample.reference = [=](const Tensors& in) {
    const Tensor sum = elementwise_sum(in[0], in[1]);
    Tensors norm{sum};
    norm.insert(norm.end(), in.begin() + 2, in.end());
    return choose(sum,
                  reference_norm(norm, trailing_sets(sum, t.normalized_shape), centred, t.eps));
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const Tensor sum = in[0] + in[1];
    const Tensor grad_sum = given == Given::output ? Tensor() : g.front();
    const Tensor grad_output = given == Given::sum ? Tensor() : g.back();
    Tensors list;
    if (centred) {
      const NormGradients found = add_layer_norm_backward(
          grad_sum, grad_output, sum, t.normalized_shape, optional(in, 2), optional(in, 3), t.eps);
      list = {found.x, found.x, found.weight, found.bias};
    } else {
      const auto [grad_x, grad_weight] = add_rms_norm_backward(
          grad_sum, grad_output, sum, t.normalized_shape, optional(in, 2), t.eps);
      list = {grad_x, grad_x, grad_weight};
    }
    list.resize(in.size());
    return list;
  };
  return sample;
}

std::vector<Sample> add_norm_samples(bool centred) {
  const int all = centred ? 2 : 1;
  const auto sample = [&](const Trailing& t, Given given, std::uint64_t seed) {
    return add_norm_sample(t, centred, given, seed);
  };
  return {sample({{6, 17}, {17}, all}, Given::both, 1),
          sample({{5, 33}, {33}, 1}, Given::output, 2),
          sample({{3, 8}, {8}, 0}, Given::both, 3),
          sample({{2, 3, 4, 5}, {4, 5}, all, 1e-3}, Given::both, 4),
          sample({{3, 8}, {8}, 0}, Given::sum, 5),
          sample({{66, 3}, {3}, all, 1e-2}, Given::both, 6),
          sample({{0, 5}, {5}, all}, Given::both, 7),
          sample({{3, 0}, {0}, all}, Given::both, 8),
          sample({{}, {}, all, 0.5}, Given::both, 9)};
}
std::vector<Sample> add_layer_norm_samples() { return add_norm_samples(true); }
std::vector<Sample> add_rms_norm_samples() { return add_norm_samples(false); }

// ---- over groups of channels

Sample group_norm_sample(const Shape& shape, std::int64_t groups, int parameters, double eps,
                         std::uint64_t seed) {
  Sample sample;
  sample.label = label_of(shape, std::to_string(groups) + " groups", parameters);
  sample.inputs = inputs_of(shape, {shape[1]}, parameters, seed);
  sample.floats_only = parameters > 0;
  sample.forward = [=](const Tensors& in) {
    return Tensors{group_norm(in[0], groups, optional(in, 1), optional(in, 2), eps)};
  };
  sample.reference = [=](const Tensors& in) {
    return Tensors{reference_norm(in, group_sets(in[0], groups), true, eps)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return first_of(group_norm_backward(g[0], in[0], groups, optional(in, 1), optional(in, 2), eps),
                    in.size());
  };
  return sample;
}

std::vector<Sample> group_norm_samples() {
  return {group_norm_sample({2, 6, 17}, 2, 2, 1e-5, 1),
          group_norm_sample({2, 6, 3, 3}, 3, 2, 1e-5, 2),
          group_norm_sample({3, 8}, 2, 1, 1e-2, 3),
          group_norm_sample({2, 4, 33}, 1, 0, 1e-5, 4),
          group_norm_sample({2, 3, 4, 5}, 3, 2, 1e-3, 5),
          group_norm_sample({0, 4, 3}, 2, 2, 1e-5, 6),
          group_norm_sample({2, 4, 0}, 2, 2, 1e-5, 7)};
}

Sample instance_norm_sample(const Shape& shape, int parameters, double eps, std::uint64_t seed) {
  Sample sample;
  sample.label = label_of(shape, "eps " + std::to_string(eps), parameters);
  sample.inputs = inputs_of(shape, {shape[1]}, parameters, seed);
  sample.floats_only = parameters > 0;
  sample.forward = [=](const Tensors& in) {
    return Tensors{instance_norm(in[0], optional(in, 1), optional(in, 2), eps)};
  };
  sample.reference = [=](const Tensors& in) {
    return Tensors{reference_norm(in, group_sets(in[0], in[0].size(1)), true, eps)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return first_of(instance_norm_backward(g[0], in[0], optional(in, 1), optional(in, 2), eps),
                    in.size());
  };
  return sample;
}

std::vector<Sample> instance_norm_samples() {
  return {instance_norm_sample({2, 3, 17}, 2, 1e-5, 1),
          instance_norm_sample({2, 3, 4, 5}, 1, 1e-3, 2),
          instance_norm_sample({3, 2, 9}, 0, 1e-5, 3), instance_norm_sample({0, 3, 4}, 2, 1e-5, 4),
          instance_norm_sample({2, 3, 0}, 2, 1e-5, 5)};
}

// ---- over the batch

constexpr double batch_momentum = 0.3;

// Inputs: x, the running mean and variance, then the parameters.
Tensors batch_inputs(const Shape& shape, int parameters, std::uint64_t seed) {
  Tensors inputs = inputs_of(shape, {shape[1]}, parameters, seed);
  inputs.insert(inputs.begin() + 1, {sample_uniform({shape[1]}, -1, 1, seed + 3),
                                     sample_uniform({shape[1]}, 0.5, 2, seed + 4)});
  return inputs;
}

Tensor reference_batch_norm(const Tensors& in, bool training, double eps) {
  const Sets sets = channel_sets(in[0]);
  Statistics s = statistics_of(values_of(in[0]), sets, true);
  if (!training) {
    s.mean = values_of(in[1]);
    s.variance = values_of(in[2]);
  }
  return normalized(in[0], sets, s, optional(in, 3), optional(in, 4), eps);
}

Sample batch_norm_sample(const Shape& shape, bool training, int parameters, double eps,
                         std::uint64_t seed) {
  Sample sample;
  sample.label = label_of(shape, training ? "training" : "running statistics", parameters);
  sample.inputs = batch_inputs(shape, parameters, seed);
  sample.constants = {1, 2};  // outside training the statistics are read, but not differentiated
  sample.forward = [=](const Tensors& in) {
    return Tensors{batch_norm(in[0], in[1].clone(), in[2].clone(), optional(in, 3), optional(in, 4),
                              training, batch_momentum, eps)};
  };
  sample.reference = [=](const Tensors& in) {
    return Tensors{reference_batch_norm(in, training, eps)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const NormGradients gradients = batch_norm_backward(g[0], in[0], in[1], in[2], optional(in, 3),
                                                        optional(in, 4), training, eps);
    Tensors list{gradients.x, Tensor(), Tensor(), gradients.weight, gradients.bias};
    list.resize(in.size());
    return list;
  };
  return sample;
}

// Training moves the running statistics.
Sample running_statistics_sample(const Shape& shape, std::uint64_t seed) {
  Sample sample;
  sample.label = to_string(shape) + ", training, with the running statistics after it";
  sample.inputs = batch_inputs(shape, 2, seed);
  sample.forward = [](const Tensors& in) {
    const Tensor mean = in[1].clone(), var = in[2].clone();
    const Tensor y = batch_norm(in[0], mean, var, in[3], in[4], true, batch_momentum);
    return Tensors{y, mean, var};
  };
  sample.reference = [](const Tensors& in) {
    const Statistics s = statistics_of(values_of(in[0]), channel_sets(in[0]), true);
    Values mean = values_of(in[1]), var = values_of(in[2]);
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double unbiased = s.variance[c] * s.count[c] / (s.count[c] - 1);
      mean[c] = (1 - batch_momentum) * mean[c] + batch_momentum * s.mean[c];
      var[c] = (1 - batch_momentum) * var[c] + batch_momentum * unbiased;
    }
    return Tensors{reference_batch_norm(in, true, 1e-5), from_data(mean, in[1].shape()),
                   from_data(var, in[2].shape())};
  };
  return sample;
}

std::vector<Sample> batch_norm_samples() {
  return {batch_norm_sample({9, 5}, true, 2, 1e-5, 1),
          batch_norm_sample({4, 3, 17}, true, 2, 1e-5, 2),
          batch_norm_sample({70, 3}, true, 1, 1e-3, 3),
          batch_norm_sample({3, 4, 2, 3}, true, 0, 1e-5, 4),
          batch_norm_sample({9, 5}, false, 2, 1e-5, 5),
          batch_norm_sample({2, 3, 33}, false, 2, 1e-3, 6),
          batch_norm_sample({1, 3, 1}, false, 0, 1e-5, 7),
          batch_norm_sample({0, 3, 4}, false, 2, 1e-5, 8),
          running_statistics_sample({9, 5}, 9),
          running_statistics_sample({2, 3, 20}, 10)};
}

// max(batch_norm(x) + residual, 0). Inputs: x, the running mean and variance, the parameters, and
// the residual, if any, last.
Tensor reference_add_relu(const Tensors& in, bool residual, bool training, double eps) {
  Tensors norm = in;
  if (residual) norm.pop_back();
  Values values = values_of(reference_batch_norm(norm, training, eps));
  const Values added = residual ? values_of(in.back()) : Values(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i] + added[i], 0.0);
  return from_data(values, in[0].shape());
}

struct AddRelu {
  Shape shape;
  bool training, residual;
  int parameters;
  double eps = 1e-5;
};

// A residual for which |sum| is between 0.2 and 1, with either sign.
Tensor residual_beside_zero(const Tensor& normalized, std::uint64_t seed) {
  const Values y = values_of(normalized);
  Values goal = values_of(sample_uniform(normalized.shape(), -0.8, 0.8, seed));
  for (std::size_t i = 0; i < y.size(); ++i) goal[i] += (goal[i] < 0 ? -0.2 : 0.2) - y[i];
  return from_data(goal, normalized.shape());
}

Tensors add_relu_inputs(const AddRelu& a, std::uint64_t seed) {
  Tensors inputs = batch_inputs(a.shape, a.parameters, seed);
  const Tensor normalized = reference_batch_norm(inputs, a.training, a.eps);
  if (a.residual) {
    inputs.push_back(residual_beside_zero(normalized, seed + 5));
    return inputs;
  }
  // Draws other numbers if a result is close to the kink.
  for (double y : values_of(normalized)) {
    if (std::fabs(y) < 0.1) return add_relu_inputs(a, seed + 100);
  }
  return inputs;
}

Sample batch_norm_add_relu_sample(const AddRelu& a, std::uint64_t seed) {
  Sample sample;
  sample.label = label_of(a.shape, a.training ? "training" : "running statistics", a.parameters) +
                 (a.residual ? ", residual" : "");
  sample.inputs = add_relu_inputs(a, seed);
  sample.rows_must_differ = true;  // equal rows would move the sums to the kink
  sample.constants = {1, 2};
  const auto residual_of = [a](const Tensors& in) { return a.residual ? in.back() : Tensor(); };
  const auto parameter = [a](const Tensors& in, int k) {
    return k < a.parameters ? in[static_cast<std::size_t>(3 + k)] : Tensor();
  };
  sample.forward = [=](const Tensors& in) {
    return Tensors{batch_norm_add_relu(in[0], residual_of(in), in[1].clone(), in[2].clone(),
                                       parameter(in, 0), parameter(in, 1), a.training,
                                       batch_momentum, a.eps)};
  };
  sample.reference = [=](const Tensors& in) {
    return Tensors{reference_add_relu(in, a.residual, a.training, a.eps)};
  };
  sample.saves_results = true;
  sample.backward = [=](const Tensors& g, const Tensors& all) {
    const Tensors in(all.begin(), all.end() - 1);
    const BatchNormAddReluGradients found =
        batch_norm_add_relu_backward(g[0], in[0], residual_of(in), all.back(), in[1], in[2],
                                     parameter(in, 0), parameter(in, 1), a.training, a.eps);
    Tensors list{found.x, Tensor(), Tensor()};
    if (a.parameters > 0) list.push_back(found.weight);
    if (a.parameters > 1) list.push_back(found.bias);
    if (a.residual) list.push_back(found.residual);
    return list;
  };
  return sample;
}

std::vector<Sample> batch_norm_add_relu_samples() {
  return {batch_norm_add_relu_sample({{9, 5}, true, true, 2}, 1),
          batch_norm_add_relu_sample({{4, 3, 17}, true, true, 2}, 2),
          batch_norm_add_relu_sample({{70, 3}, true, true, 1, 1e-3}, 3),
          batch_norm_add_relu_sample({{3, 4, 2, 3}, true, true, 0}, 4),
          batch_norm_add_relu_sample({{9, 5}, false, true, 2}, 5),
          batch_norm_add_relu_sample({{2, 3, 33}, false, true, 2, 1e-3}, 6),
          batch_norm_add_relu_sample({{1, 3, 1}, false, true, 0}, 7),
          batch_norm_add_relu_sample({{0, 3, 4}, false, true, 2}, 8),
          batch_norm_add_relu_sample({{3, 2}, true, false, 2}, 9),
          batch_norm_add_relu_sample({{2, 2, 3}, false, false, 2}, 10),
          batch_norm_add_relu_sample({{0, 3, 4}, false, false, 2}, 11)};
}

}  // namespace

void add_normalization(std::vector<Op>& ops) {
  const std::string gradient =
      "grad_x = s · (g·w − mean(g·w) − x̂ · mean(g·w·x̂)), grad_w = Σ g·x̂, grad_b = Σ g";
  const auto add = [&](const char* name, const char* formula, const std::string& rule,
                       std::vector<Sample> (*samples)(), DTypes dtypes = DTypes::as_float32) {
    ops.push_back(
        {name, "normalization", formula, rule, {std::string(name) + "_backward"}, dtypes, samples});
  };
  add("layer_norm", "(x − mean) / √(variance + eps) · weight + bias over the trailing axes",
      gradient, layer_norm_samples);
  add("rms_norm", "x / √(mean(x²) + eps) · weight over the trailing axes",
      "grad_x = s · (g·w − x̂ · mean(g·w·x̂)), grad_w = Σ g·x̂", rms_norm_samples);
  add("group_norm", "(x − mean) / √(variance + eps) · weight + bias over groups of channels",
      gradient, group_norm_samples);
  add("instance_norm", "(x − mean) / √(variance + eps) · weight + bias over each channel", gradient,
      instance_norm_samples);
  add("batch_norm", "(x − mean) / √(variance + eps) · weight + bias over the batch",
      gradient + "; with running statistics grad_x = s · g·w", batch_norm_samples, DTypes::floats);
  add("add_layer_norm", "sum = x + residual, and layer_norm of it",
      "of x and residual: grad_sum + s · (g·w − mean(g·w) − x̂ · mean(g·w·x̂)), grad_w = Σ g·x̂, "
      "grad_b = Σ g",
      add_layer_norm_samples, DTypes::floats);
  add("add_rms_norm", "sum = x + residual, and rms_norm of it",
      "of x and residual: grad_sum + s · (g·w − x̂ · mean(g·w·x̂)), grad_w = Σ g·x̂",
      add_rms_norm_samples, DTypes::floats);
  add("batch_norm_add_relu", "max(batch_norm(x) + residual, 0)",
      "that of batch_norm with g where the result > 0, else 0, which is grad_residual",
      batch_norm_add_relu_samples, DTypes::floats);
}

}  // namespace extensor::op_database
