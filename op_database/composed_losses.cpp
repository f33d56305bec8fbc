// The cosine embedding, Gaussian and CTC losses, against loops; CTC against the sum over all paths.
#include <cmath>
#include <numbers>
#include <string>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

constexpr Reduction every_reduction[] = {Reduction::mean, Reduction::sum, Reduction::none};

std::string text(Reduction reduction) {
  return reduction == Reduction::mean ? "mean" : reduction == Reduction::sum ? "sum" : "none";
}

Tensor reduced(const PlainArray& values, Reduction reduction) {
  if (reduction == Reduction::none) return values.to_tensor();
  double sum = 0;
  for (double value : values.values) sum += value;
  if (reduction == Reduction::mean) sum /= static_cast<double>(values.values.size());
  return from_data(std::vector<double>{sum}, {});
}

// ---- cosine embedding

Sample cosine_sample(const Shape& shape, Reduction reduction, double margin) {
  Sample sample;
  sample.label = to_string(shape) + ", " + text(reduction) + ", margin " + std::to_string(margin);
  Shape rows = shape;
  rows.erase(rows.size() - 1);
  // Signs as integers, which have no gradient.
  const Tensor y = sample_integers(rows, 0, 2, 3) * 2 - 1;
  sample.inputs = {sample_uniform(shape, -2, 2, 1), sample_uniform(shape, -1, 3, 2), y};
  const CosineEmbeddingOptions options{margin, reduction};
  sample.forward = [=](const Tensors& in) {
    return Tensors{cosine_embedding_loss(in[0], in[1], in[2], options)};
  };
  sample.reference = [=](const Tensors& in) {
    const PlainArray a(in[0]), b(in[1]), sign(in[2]);
    const std::int64_t width = a.shape.back();
    return Tensors{reduced(
        PlainArray::from(rows,
                         [&](const Dims& row) {
                           double product = 0, of_a = 1e-12, of_b = 1e-12;
                           for (std::int64_t k = 0; k < width; ++k) {
                             Dims at = row;
                             at.push_back(k);
                             product += a.at(at) * b.at(at);
                             of_a += a.at(at) * a.at(at);
                             of_b += b.at(at) * b.at(at);
                           }
                           const double cosine = product / std::sqrt(of_a * of_b);
                           return sign.at(row) > 0 ? 1 - cosine : std::max(0.0, cosine - margin);
                         }),
        reduction)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const auto [of_a, of_b] = cosine_embedding_loss_backward(g[0], in[0], in[1], in[2], options);
    return Tensors{of_a, of_b, Tensor()};
  };
  return sample;
}

std::vector<Sample> cosine_samples() {
  std::vector<Sample> list;
  for (Reduction reduction : every_reduction) {
    list.push_back(cosine_sample({6, 5}, reduction, 0));
    list.push_back(cosine_sample({2, 3, 4}, reduction, 0.3));
  }
  list.push_back(cosine_sample({7}, Reduction::mean, -0.5));
  list.push_back(cosine_sample({0, 4}, Reduction::sum, 0));
  return list;
}

// ---- Gaussian

Sample gaussian_sample(const Shape& shape, const Shape& variance,
                       const GaussianNllOptions& options) {
  Sample sample;
  sample.label = to_string(shape) + ", variance " + to_string(variance) + ", " +
                 text(options.reduction) + (options.full ? ", full" : "");
  sample.inputs = {sample_uniform(shape, -2, 2, 1), sample_uniform(shape, -2, 2, 2),
                   sample_uniform(variance, 0.3, 2, 3)};
  sample.forward = [=](const Tensors& in) {
    return Tensors{gaussian_nll_loss(in[0], in[1], in[2], options)};
  };
  sample.reference = [=](const Tensors& in) {
    const PlainArray x(in[0]), y(in[1]), v(in[2].broadcast_to(shape));
    return Tensors{
        reduced(PlainArray::from(shape,
                                 [&](const Dims& at) {
                                   const double d = x.at(at) - y.at(at);
                                   const double constant =
                                       options.full ? std::log(2 * std::numbers::pi) : 0;
                                   return (std::log(v.at(at)) + d * d / v.at(at) + constant) / 2;
                                 }),
                options.reduction)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const auto [of_x, of_y, of_variance] =
        gaussian_nll_loss_backward(g[0], in[0], in[1], in[2], options);
    return Tensors{of_x, of_y, of_variance};
  };
  return sample;
}

std::vector<Sample> gaussian_samples() {
  std::vector<Sample> list;
  for (Reduction reduction : every_reduction) {
    list.push_back(gaussian_sample({4, 5}, {4, 5}, {.reduction = reduction}));
    list.push_back(gaussian_sample({4, 5}, {4, 1}, {.full = true, .reduction = reduction}));
  }
  list.push_back(gaussian_sample({2, 3, 4}, {}, {}));
  list.push_back(gaussian_sample({}, {}, {}));
  list.push_back(gaussian_sample({0, 3}, {3}, {.reduction = Reduction::sum}));
  return list;
}

// ---- CTC

struct CtcCase {
  std::int64_t steps, classes;
  std::vector<std::vector<std::int64_t>> targets;  // padded with other labels to `width`
  std::int64_t width;
  Dims input_lengths;
  CtcOptions options = {};
};

// −log of the sum over all paths that collapse to the target: repeats merge, then blanks vanish.
double path_loss(const PlainArray& x, std::int64_t sample, std::int64_t steps, std::int64_t classes,
                 const std::vector<std::int64_t>& target, std::int64_t blank) {
  double total = 0;
  std::int64_t paths = 1;
  for (std::int64_t t = 0; t < steps; ++t) paths *= classes;
  for (std::int64_t path = 0; path < paths; ++path) {
    std::vector<std::int64_t> labels;
    std::int64_t rest = path, previous = -1;
    double log_probability = 0;
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::int64_t label = rest % classes;
      rest /= classes;
      log_probability += x.at({t, sample, label});
      if (label != previous && label != blank) labels.push_back(label);
      previous = label;
    }
    if (labels == target) total += std::exp(log_probability);
  }
  return -std::log(total);
}

Sample ctc_sample(std::string label, const CtcCase& c) {
  const auto batch = static_cast<std::int64_t>(c.targets.size());
  Sample sample;
  sample.label = std::move(label);
  std::vector<std::int64_t> padded;
  Dims lengths;
  for (const auto& target : c.targets) {
    lengths.push_back(static_cast<std::int64_t>(target.size()));
    for (std::int64_t k = 0; k < c.width; ++k) {
      const auto at = static_cast<std::size_t>(k);
      padded.push_back(at < target.size() ? target[at] : -7);  // not read
    }
  }
  sample.inputs = {sample_uniform({c.steps, batch, c.classes}, -2, -0.2, 17),
                   from_data(padded, {batch, c.width})};
  sample.forward = [=](const Tensors& in) {
    return Tensors{ctc_loss(in[0], in[1], c.input_lengths, lengths, c.options)};
  };
  sample.reference = [=](const Tensors& in) {
    const PlainArray x(in[0]);
    PlainArray losses = PlainArray::from({batch}, [&](const Dims& n) {
      const auto k = static_cast<std::size_t>(n[0]);
      double loss =
          path_loss(x, n[0], c.input_lengths[k], c.classes, c.targets[k], c.options.blank);
      if (std::isinf(loss) && c.options.zero_infinity) loss = 0;
      if (c.options.reduction == Reduction::mean) {
        loss /= static_cast<double>(std::max<std::size_t>(1, c.targets[k].size()));
      }
      return loss;
    });
    return Tensors{reduced(losses, c.options.reduction)};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return Tensors{ctc_loss_backward(g[0], in[0], in[1], c.input_lengths, lengths, c.options),
                   Tensor()};
  };
  return sample;
}

std::vector<Sample> ctc_samples() {
  std::vector<Sample> list;
  for (Reduction reduction : every_reduction) {
    list.push_back(ctc_sample("5 steps, 3 classes, " + text(reduction),
                              {5, 3, {{1, 2}, {2}}, 2, {5, 4}, {.reduction = reduction}}));
  }
  list.push_back(ctc_sample("a repeated label", {5, 3, {{1, 1}, {2, 1}}, 2, {5, 5}, {}}));
  list.push_back(
      ctc_sample("blank 2, padded targets", {4, 3, {{0}, {1, 0}}, 3, {3, 4}, {.blank = 2}}));
  list.push_back(ctc_sample("an empty target", {3, 3, {{}, {1}}, 1, {3, 2}, {}}));
  list.push_back(ctc_sample("no labels at all", {3, 2, {{}, {}}, 0, {3, 3}, {}}));
  list.push_back(ctc_sample("a target that does not fit, zero_infinity",
                            {3, 3, {{1, 1, 2}, {1, 2}}, 3, {3, 3}, {.zero_infinity = true}}));
  list.push_back(ctc_sample("one step", {1, 4, {{3}, {1}}, 1, {1, 1}, {}}));
  return list;
}

}  // namespace

void add_composed_losses(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       std::vector<Sample> (*samples)()) {
    ops.push_back({name,
                   "losses",
                   formula,
                   gradient,
                   {std::string(name) + "_backward"},
                   DTypes::floats,
                   samples});
  };
  add("cosine_embedding_loss",
      "1 − c where y is 1, max(0, c − margin) where y is −1, with c = a · b / (|a| |b|)",
      "a: ∓g (b / (|a| |b|) − c a / |a|²); b: the same with a and b exchanged", cosine_samples);
  add("gaussian_nll_loss", "(log v + (x − y)² / v) / 2",
      "x: g d, y: −g d, v: g (1 / v − d²) / 2, d = (x − y) / v", gaussian_samples);
  add("ctc_loss", "−log Σ over all alignments of the target of Π exp(log_probs)",
      "−g · the probability that an alignment passes through the class", ctc_samples);
}

}  // namespace extensor::op_database
