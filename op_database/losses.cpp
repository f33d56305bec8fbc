#include <algorithm>
#include <cmath>
#include <utility>

#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

using Numbers = std::vector<double>;

Numbers numbers(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }

std::string text(Reduction reduction) {
  constexpr const char* names[] = {"mean", "sum", "none"};
  return names[static_cast<int>(reduction)];
}

std::string text(const Shape& shape) {
  std::string result = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    result += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return result + "]";
}

Tensor reduced(const Numbers& values, const Shape& shape, Reduction reduction, double divisor) {
  if (reduction == Reduction::none) return from_data(values, shape);
  double total = 0;
  for (double value : values) total += value;
  return from_data(Numbers{reduction == Reduction::mean ? total / divisor : total}, Shape{});
}

constexpr Reduction every_reduction[] = {Reduction::mean, Reduction::sum, Reduction::none};

// ---- elementwise losses

// One loss with bound parameters.
struct Elementwise {
  std::string label;  // of the parameters; may be empty
  std::function<Tensor(const Tensor& x, const Tensor& y, Reduction)> forward;
  std::function<std::pair<Tensor, Tensor>(const Tensor& g, const Tensor& x, const Tensor& y,
                                          Reduction)>
      backward;
  std::function<double(double x, double y)> value;
  std::function<Tensor(const Shape&, std::uint64_t seed)> draw_x, draw_y;
  // Inputs that are probabilities: 0 or 1 in an integer dtype.
  bool x_is_probability = false, y_is_probability = false;
};

Sample elementwise_sample(const Elementwise& loss, const Shape& shape, Reduction reduction) {
  Sample sample;
  sample.label =
      text(shape) + ", " + text(reduction) + (loss.label.empty() ? "" : ", ") + loss.label;
  sample.inputs = {loss.draw_x(shape, 1 + shape.size()), loss.draw_y(shape, 11 + shape.size())};
  sample.integer_of = [=](std::size_t input, double x) {
    const bool probability = input == 0 ? loss.x_is_probability : loss.y_is_probability;
    return probability ? (x > 0.5 ? 1 : 0) : std::round(3 * x);
  };
  sample.forward = [=](const Tensors& in) {
    return Tensors{loss.forward(in[0], in[1], reduction)};
  };
  sample.reference = [=](const Tensors& in) {
    const Numbers x = numbers(in[0]), y = numbers(in[1]);
    Numbers values(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) values[i] = loss.value(x[i], y[i]);
    return Tensors{reduced(values, in[0].shape(), reduction, static_cast<double>(x.size()))};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const auto [grad_x, grad_y] = loss.backward(g[0], in[0], in[1], reduction);
    return Tensors{grad_x, grad_y};
  };
  return sample;
}

std::vector<Sample> elementwise_samples(const std::vector<Elementwise>& losses) {
  std::vector<Sample> samples;
  for (const Elementwise& loss : losses) {
    for (Reduction reduction : every_reduction) {
      for (const Shape& shape : {Shape{17}, Shape{5, 7}}) {
        samples.push_back(elementwise_sample(loss, shape, reduction));
      }
    }
  }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{2, 3, 4}, Shape{66}, Shape{3, 1, 9}}) {
    samples.push_back(elementwise_sample(losses.front(), shape, Reduction::mean));
  }
  for (Reduction reduction : {Reduction::sum, Reduction::none}) {
    samples.push_back(elementwise_sample(losses.front(), {0, 3}, reduction));
  }
  return samples;
}

auto between(double lo, double hi) {
  return
      [=](const Shape& shape, std::uint64_t seed) { return sample_uniform(shape, lo, hi, seed); };
}
// Multiples of 0.2, plus `offset`: any two elements of two draws differ at least as much as their
// offsets.
auto on_a_grid(double offset) {
  return [=](const Shape& shape, std::uint64_t seed) {
    return multiply(sample_integers(shape, -10, 11, seed).to(DType::float64), 0.2) + offset;
  };
}
auto minus_or_plus_one() {
  return [](const Shape& shape, std::uint64_t seed) {
    return multiply(sample_integers(shape, 0, 2, seed).to(DType::float64), 2) - 1.0;
  };
}

Tensor constant_weight(double value) { return full({}, value, {float64, cpu_device}); }

std::vector<Sample> binary_cross_entropy_samples() {
  const Elementwise loss{
      "",
      [](const Tensor& x, const Tensor& y, Reduction r) { return binary_cross_entropy(x, y, r); },
      [](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
        return binary_cross_entropy_backward(g, x, y, r);
      },
      [](double p, double y) {
        const double inside = std::min(std::max(p, 1e-7), 1 - 1e-7);
        const double rest = p < 0.5 ? std::log1p(-inside) : std::log(std::max(1 - p, 1e-7));
        return -(y * std::log(inside) + (1 - y) * rest);
      },
      between(0.08, 0.92),
      between(0.02, 0.98),
      true,
      true};
  Elementwise weighted = loss;
  weighted.label = "weight 0.75";
  weighted.forward = [](const Tensor& x, const Tensor& y, Reduction r) {
    return binary_cross_entropy(x, y, {.weight = constant_weight(0.75), .reduction = r});
  };
  weighted.backward = [](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
    return binary_cross_entropy_backward(g, x, y,
                                         {.weight = constant_weight(0.75), .reduction = r});
  };
  weighted.value = [value = loss.value](double p, double y) { return 0.75 * value(p, y); };
  std::vector<Sample> samples = elementwise_samples({loss, weighted});
  // At the clamp the gradient points inwards where the value is constant, so it is not the
  // derivative.
  Sample ends = elementwise_sample(loss, {4}, Reduction::sum);
  ends.label = "p at 0 and 1";
  ends.inputs = {from_data(Numbers{0, 1, 0, 1}), from_data(Numbers{1, 1, 0, 0})};
  ends.backward = nullptr;
  samples.push_back(ends);
  return samples;
}

std::vector<Sample> with_logits_samples() {
  Elementwise loss{"",
                   [](const Tensor& x, const Tensor& y, Reduction r) {
                     return binary_cross_entropy_with_logits(x, y, r);
                   },
                   [](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
                     return binary_cross_entropy_with_logits_backward(g, x, y, r);
                   },
                   [](double x, double y) {
                     const double tail = std::log1p(std::exp(-std::fabs(x)));
                     return y * (std::max(-x, 0.0) + tail) + (1 - y) * (std::max(x, 0.0) + tail);
                   },
                   between(-6, 6),
                   between(0.02, 0.98),
                   false,
                   true};
  Elementwise hard = loss;
  hard.label = "targets 0 and 1";
  hard.draw_y = [](const Shape& shape, std::uint64_t seed) {
    return sample_integers(shape, 0, 2, seed).to(DType::float64);
  };
  // The part of y counts pos_weight times, and everything `weight` times.
  Elementwise weighted = loss;
  weighted.label = "weight 0.75, pos_weight 2.5";
  weighted.forward = [](const Tensor& x, const Tensor& y, Reduction r) {
    return binary_cross_entropy_with_logits(
        x, y,
        {.weight = constant_weight(0.75), .pos_weight = constant_weight(2.5), .reduction = r});
  };
  weighted.backward = [](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
    return binary_cross_entropy_with_logits_backward(
        g, x, y,
        {.weight = constant_weight(0.75), .pos_weight = constant_weight(2.5), .reduction = r});
  };
  weighted.value = [](double x, double y) {
    const double tail = std::log1p(std::exp(-std::fabs(x)));
    return 0.75 * (2.5 * y * (std::max(-x, 0.0) + tail) + (1 - y) * (std::max(x, 0.0) + tail));
  };
  return elementwise_samples({loss, hard, weighted});
}

std::vector<Sample> mean_squared_error_samples() {
  return elementwise_samples(
      {{"",
        [](const Tensor& x, const Tensor& y, Reduction r) { return mean_squared_error(x, y, r); },
        [](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
          return mean_squared_error_backward(g, x, y, r);
        },
        [](double x, double y) { return (x - y) * (x - y); }, between(-3, 3), between(-3, 3)}});
}

std::vector<Sample> l1_samples() {
  return elementwise_samples(
      {{"", [](const Tensor& x, const Tensor& y, Reduction r) { return l1_loss(x, y, r); },
        [](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
          return l1_loss_backward(g, x, y, r);
        },
        [](double x, double y) { return std::fabs(x - y); }, on_a_grid(0), on_a_grid(0.1)}});
}

std::vector<Sample> smooth_l1_samples() {
  std::vector<Elementwise> losses;
  for (double beta : {1.0, 0.4, 0.0}) {
    losses.push_back({"beta " + std::to_string(beta),
                      [=](const Tensor& x, const Tensor& y, Reduction r) {
                        return smooth_l1_loss(x, y, r, beta);
                      },
                      [=](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
                        return smooth_l1_loss_backward(g, x, y, r, beta);
                      },
                      [=](double x, double y) {
                        const double distance = std::fabs(x - y);
                        return distance < beta ? distance * distance / (2 * beta)
                                               : distance - beta / 2;
                      },
                      on_a_grid(0), on_a_grid(0.1)});
  }
  return elementwise_samples(losses);
}

std::vector<Sample> huber_samples() {
  std::vector<Elementwise> losses;
  for (double delta : {1.0, 0.6}) {
    losses.push_back(
        {"delta " + std::to_string(delta),
         [=](const Tensor& x, const Tensor& y, Reduction r) { return huber_loss(x, y, r, delta); },
         [=](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
           return huber_loss_backward(g, x, y, r, delta);
         },
         [=](double x, double y) {
           const double distance = std::fabs(x - y);
           return distance < delta ? distance * distance / 2 : delta * (distance - delta / 2);
         },
         on_a_grid(0), on_a_grid(0.1)});
  }
  return elementwise_samples(losses);
}

std::vector<Sample> hinge_samples() {
  std::vector<Elementwise> losses;
  for (double margin : {1.0, 0.6}) {
    losses.push_back(
        {"margin " + std::to_string(margin),
         [=](const Tensor& x, const Tensor& y, Reduction r) { return hinge_loss(x, y, r, margin); },
         [=](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
           return hinge_loss_backward(g, x, y, r, margin);
         },
         [=](double x, double y) { return std::max(0.0, margin - x * y); }, on_a_grid(0.1),
         minus_or_plus_one()});
  }
  return elementwise_samples(losses);
}

std::vector<Sample> kl_divergence_samples() {
  std::vector<Elementwise> losses;
  for (bool logarithms : {false, true}) {
    losses.push_back({logarithms ? "log_target" : "",
                      [=](const Tensor& x, const Tensor& y, Reduction r) {
                        return kl_divergence(x, y, r, logarithms);
                      },
                      [=](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
                        return kl_divergence_backward(g, x, y, r, logarithms);
                      },
                      [=](double x, double y) {
                        if (logarithms) return std::exp(y) * (y - x);
                        return y == 0 ? 0 : y * (std::log(y) - x);
                      },
                      between(-4, -0.1), logarithms ? between(-3, -0.1) : between(0.1, 0.9), false,
                      !logarithms});
  }
  std::vector<Sample> samples = elementwise_samples(losses);
  Sample zero = elementwise_sample(losses[0], {3}, Reduction::none);
  zero.label = "targets of 0";
  zero.inputs[1] = from_data(Numbers{0, 0.25, 0});
  zero.backward = nullptr;
  samples.push_back(zero);
  return samples;
}

std::vector<Sample> focal_samples() {
  std::vector<Elementwise> losses;
  for (const auto& [alpha, gamma] : {std::pair(0.25, 2.0), {-1.0, 1.5}, {0.6, 0.0}}) {
    losses.push_back(
        {"alpha " + std::to_string(alpha) + ", gamma " + std::to_string(gamma),
         [=, a = alpha, c = gamma](const Tensor& x, const Tensor& y, Reduction r) {
           return focal_loss(x, y, r, a, c);
         },
         [=, a = alpha, c = gamma](const Tensor& g, const Tensor& x, const Tensor& y, Reduction r) {
           return focal_loss_backward(g, x, y, r, a, c);
         },
         [=, a = alpha, c = gamma](double x, double y) {
           const double p = 1 / (1 + std::exp(-x)), q = 1 / (1 + std::exp(x));
           const double weight = a < 0 ? 1 : a * y + (1 - a) * (1 - y);
           return -weight * std::pow(y * q + (1 - y) * p, c) *
                  (y * std::log(p) + (1 - y) * std::log(q));
         },
         between(-4, 4), between(0.05, 0.95), false, true});
  }
  return elementwise_samples(losses);
}

// ---- losses over classes

struct ClassCase {
  Shape shape;
  Reduction reduction = Reduction::mean;
  bool probabilities = false, weighted = false, some_ignored = false;
  double label_smoothing = 0;
};

// The inputs are logits, target and optional weights.
struct ClassReference {
  std::int64_t outer, classes, inner;
  Shape row_shape;
  Numbers x, target, weight;
  bool probabilities;
  std::int64_t ignore_index;

  ClassReference(const Tensors& in, bool probabilities_, std::int64_t ignored)
      : x(numbers(in[0])),
        target(numbers(in[1])),
        probabilities(probabilities_),
        ignore_index(ignored) {
    const Shape& shape = in[0].shape();
    const std::size_t axis = shape.size() == 1 ? 0 : 1;
    outer = inner = 1;
    classes = shape[axis];
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d < axis) outer *= shape[d];
      if (d > axis) inner *= shape[d];
      if (d != axis) row_shape.push_back(shape[d]);
    }
    weight = in.size() > 2 ? numbers(in[2]) : Numbers(static_cast<std::size_t>(classes), 1);
  }

  std::size_t at(std::int64_t row, std::int64_t c) const {
    return static_cast<std::size_t>((row / inner * classes + c) * inner + row % inner);
  }
  // The loss whose rows have the values row_value(row, target of class c).
  template <class RowValue>
  Tensor loss(Reduction reduction, double smoothing, RowValue&& row_value) const {
    const std::int64_t rows = outer * inner;
    Numbers values(static_cast<std::size_t>(rows));
    double divisor = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto index =
          static_cast<std::int64_t>(probabilities ? -1 : target[static_cast<std::size_t>(row)]);
      if (!probabilities && index == ignore_index) continue;
      divisor += probabilities ? 1 : weight[static_cast<std::size_t>(index)];
      values[static_cast<std::size_t>(row)] = row_value(row, [&](std::int64_t c) {
        const double part = probabilities ? target[at(row, c)] : (c == index ? 1 : 0);
        return weight[static_cast<std::size_t>(c)] *
               ((1 - smoothing) * part + smoothing / static_cast<double>(classes));
      });
    }
    return reduced(values, row_shape, reduction, divisor == 0 ? 1 : divisor);
  }
};

Tensors class_inputs(const ClassCase& c) {
  Shape rows;
  const std::size_t axis = c.shape.size() == 1 ? 0 : 1;
  for (std::size_t d = 0; d < c.shape.size(); ++d) {
    if (d != axis) rows.push_back(c.shape[d]);
  }
  const std::int64_t classes = c.shape[axis];
  Tensors inputs{sample_uniform(c.shape, -3, 3, 5)};
  if (c.probabilities) {
    inputs.push_back(sample_uniform(c.shape, 0.05, 0.9, 6));
  } else {
    // −100 is never drawn, so every third row is set to it.
    Tensor indices = sample_integers(rows, 0, classes, 7);
    if (c.some_ignored) {
      Tensor flat = indices.flatten();
      for (std::int64_t i = 0; i < flat.numel(); i += 3) flat[i].fill(default_ignore_index);
      indices = flat.reshape(rows);
    }
    inputs.push_back(indices);
  }
  if (c.weighted) inputs.push_back(sample_uniform({classes}, 0.3, 2, 8));
  return inputs;
}

std::string class_label(const ClassCase& c) {
  return text(c.shape) + ", " + text(c.reduction) + (c.probabilities ? ", probabilities" : "") +
         (c.weighted ? ", weight" : "") + (c.some_ignored ? ", ignore_index" : "") +
         (c.label_smoothing > 0 ? ", label_smoothing" : "");
}

Tensor weight_of(const Tensors& in) { return in.size() > 2 ? in[2] : Tensor(); }

// One gradient per input: undefined for indices and weights.
Tensors class_gradients(const Tensors& in, const Tensor& of_x, const Tensor& of_target) {
  Tensors gradients{of_x, of_target};
  if (in.size() > 2) gradients.push_back(Tensor());
  return gradients;
}

Sample class_sample(const ClassCase& c) {
  Sample sample;
  sample.label = class_label(c);
  sample.inputs = class_inputs(c);
  if (c.weighted) sample.constants = {2};
  sample.floats_only = c.probabilities;  // integers are class indices
  return sample;
}

Sample cross_entropy_sample(const ClassCase& c) {
  Sample sample = class_sample(c);
  sample.forward = [=](const Tensors& in) {
    return Tensors{cross_entropy(in[0], in[1], weight_of(in), c.reduction, default_ignore_index,
                                 c.label_smoothing)};
  };
  sample.reference = [=](const Tensors& in) {
    const ClassReference r(in, c.probabilities, default_ignore_index);
    return Tensors{r.loss(c.reduction, c.label_smoothing, [&](std::int64_t row, auto target) {
      double sum = 0, loss = 0;
      for (std::int64_t k = 0; k < r.classes; ++k) sum += std::exp(r.x[r.at(row, k)]);
      for (std::int64_t k = 0; k < r.classes; ++k) {
        loss -= target(k) * (r.x[r.at(row, k)] - std::log(sum));
      }
      return loss;
    })};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const auto [of_x, of_target] = cross_entropy_backward(
        g[0], in[0], in[1], weight_of(in), c.reduction, default_ignore_index, c.label_smoothing);
    return class_gradients(in, of_x, of_target);
  };
  return sample;
}

std::vector<Sample> cross_entropy_samples() {
  std::vector<Sample> samples;
  for (Reduction reduction : every_reduction) {
    for (bool probabilities : {false, true}) {
      for (bool weighted : {false, true}) {
        for (double smoothing : {0.0, 0.2}) {
          samples.push_back(cross_entropy_sample(
              {{5, 7}, reduction, probabilities, weighted, !probabilities, smoothing}));
        }
      }
      samples.push_back(cross_entropy_sample({{2, 4, 3}, reduction, probabilities, true}));
    }
  }
  using enum Reduction;
  for (const Shape& shape :
       {Shape{6}, Shape{1, 1}, Shape{4, 17}, Shape{3, 33}, Shape{2, 3, 2, 2}}) {
    samples.push_back(cross_entropy_sample({shape, mean}));
    // The gradient of a single class is 0 up to rounding.
    if (shape != Shape{1, 1}) {
      samples.push_back(cross_entropy_sample({shape, none, true, false, false, 0.1}));
    }
  }
  samples.push_back(cross_entropy_sample({{0, 4}, sum}));
  samples.push_back(cross_entropy_sample({{0, 4}, mean}));
  samples.push_back(cross_entropy_sample({{2, 4, 0}, none}));
  return samples;
}

Sample nll_sample(const ClassCase& c) {
  Sample sample = class_sample(c);
  sample.forward = [=](const Tensors& in) {
    return Tensors{nll_loss(in[0], in[1], weight_of(in), c.reduction)};
  };
  sample.reference = [=](const Tensors& in) {
    const ClassReference r(in, false, default_ignore_index);
    return Tensors{r.loss(c.reduction, 0, [&](std::int64_t row, auto target) {
      double loss = 0;
      for (std::int64_t k = 0; k < r.classes; ++k) loss -= target(k) * r.x[r.at(row, k)];
      return loss;
    })};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return class_gradients(in, nll_loss_backward(g[0], in[0], in[1], weight_of(in), c.reduction),
                           Tensor());
  };
  return sample;
}

std::vector<Sample> nll_samples() {
  std::vector<Sample> samples;
  for (Reduction reduction : every_reduction) {
    for (const Shape& shape : {Shape{5, 7}, Shape{6}, Shape{2, 4, 3}}) {
      samples.push_back(nll_sample({shape, reduction}));
      samples.push_back(nll_sample({shape, reduction, false, true, shape.size() > 1}));
    }
  }
  samples.push_back(nll_sample({{0, 4}, Reduction::sum}));
  return samples;
}

// ---- losses over distances

struct TripletCase {
  Shape shape;
  Reduction reduction = Reduction::mean;
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
};

double distance(const double* a, const double* b, std::int64_t n, double p, double eps) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::pow(std::fabs(a[i] - b[i] + eps), p);
  return std::pow(sum, 1 / p);
}

Sample triplet_sample(const TripletCase& c) {
  Sample sample;
  sample.label = text(c.shape) + ", " + text(c.reduction) + ", margin " + std::to_string(c.margin) +
                 ", p " + std::to_string(c.p) + (c.swap ? ", swap" : "");
  sample.inputs = {on_a_grid(0)(c.shape, 1), on_a_grid(0.1)(c.shape, 2),
                   on_a_grid(0.05)(c.shape, 3)};
  sample.forward = [=](const Tensors& in) {
    return Tensors{
        triplet_margin_loss(in[0], in[1], in[2], c.margin, c.p, c.eps, c.swap, c.reduction)};
  };
  sample.reference = [=](const Tensors& in) {
    const Numbers a = numbers(in[0]), p = numbers(in[1]), n = numbers(in[2]);
    Shape rows = in[0].shape();
    const std::int64_t width = rows.back();
    rows.erase(rows.size() - 1);
    Numbers values;
    for (std::size_t at = 0; at < a.size(); at += static_cast<std::size_t>(width)) {
      const double near = distance(&a[at], &p[at], width, c.p, c.eps);
      double far = distance(&a[at], &n[at], width, c.p, c.eps);
      if (c.swap) far = std::min(far, distance(&p[at], &n[at], width, c.p, c.eps));
      values.push_back(std::max(0.0, near - far + c.margin));
    }
    return Tensors{reduced(values, rows, c.reduction, static_cast<double>(values.size()))};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    const TripletGradients gradients = triplet_margin_loss_backward(
        g[0], in[0], in[1], in[2], c.margin, c.p, c.eps, c.swap, c.reduction);
    return Tensors{gradients.anchor, gradients.positive, gradients.negative};
  };
  return sample;
}

std::vector<Sample> triplet_samples() {
  std::vector<Sample> samples;
  for (Reduction reduction : every_reduction) {
    for (bool swap : {false, true}) {
      for (double p : {2.0, 1.0, 3.0}) {
        samples.push_back(triplet_sample({{5, 7}, reduction, 1.07, p, 1e-6, swap}));
      }
    }
    samples.push_back(triplet_sample({{2, 3, 4}, reduction, 2.5}));
  }
  samples.push_back(triplet_sample({{9}, Reduction::mean, 3}));
  samples.push_back(triplet_sample({{0, 3}, Reduction::none}));
  return samples;
}

}  // namespace

void add_losses(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       std::vector<Sample> (*samples)(), DTypes dtypes = DTypes::as_float32) {
    ops.push_back(
        {name, "losses", formula, gradient, {std::string(name) + "_backward"}, dtypes, samples});
  };
  add("binary_cross_entropy", "−(y log p + (1 − y) log(1 − p)), p clamped to [1e-7, 1 − 1e-7]",
      "p: g (p − y) / (p (1 − p)); y: g (log(1 − p) − log p)", binary_cross_entropy_samples);
  add("binary_cross_entropy_with_logits", "binary cross-entropy of sigmoid(x)",
      "x: g (sigmoid(x) − y); y: −g x", with_logits_samples);
  add("mean_squared_error", "(x − y)²", "x: 2 g (x − y); y: its negative",
      mean_squared_error_samples);
  add("l1_loss", "|x − y|", "x: g sign(x − y); y: its negative", l1_samples);
  add("smooth_l1_loss", "d² / (2 beta) for d = |x − y| < beta, else d − beta / 2",
      "x: g (x − y) / beta inside, else g sign(x − y); y: its negative", smooth_l1_samples);
  add("huber_loss", "d² / 2 for d = |x − y| < delta, else delta (d − delta / 2)",
      "x: g clip(x − y, −delta, delta); y: its negative", huber_samples);
  add("hinge_loss", "max(0, margin − x y)", "x: −g y, y: −g x where the loss is not 0",
      hinge_samples);
  add("kl_divergence", "y (log y − x), or exp(y) (y − x) with log_target",
      "x: −g y; y: g (1 + log y − x)", kl_divergence_samples);
  add("focal_loss", "alpha_t (1 − p_t)^gamma · binary cross-entropy of logits",
      "the product rule over alpha_t, the modulation and the cross-entropy", focal_samples);
  add("cross_entropy", "−Σ target · log_softmax(logits), target smoothed and weighted",
      "logits: g (softmax Σ target − target); probabilities: −g weight · log_softmax",
      cross_entropy_samples);
  add("nll_loss", "−weight · x at the target's class", "−g weight at the target's class, else 0",
      nll_samples);
  add("triplet_margin_loss",
      "max(0, margin + d(anchor, positive) − d(anchor, negative)), d the p-norm of a − b + eps",
      "±g sign(a − b) (|a − b| / d)^(p − 1) where the loss is not 0", triplet_samples,
      DTypes::floats);
}

}  // namespace extensor::op_database
