// Every step is called on copies of its inputs and gives what it changed: the parameter, then the
// states.
#include <cmath>
#include <limits>

#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

using Values = std::vector<double>;

// What a step does to one element: its parameter, gradient and states.
using Formula = std::function<void(double& p, double g, double* states)>;
// What it does to tensors: the copies of the inputs, the gradient the second of them.
using Step = std::function<void(Tensors& copies)>;

const std::vector<Shape>& step_shapes() {
  static const std::vector<Shape> shapes = {{17}, {5, 7}, {}, {0, 3}};
  return shapes;
}

// Inputs: the parameter, the gradient, `states` states that are not negative.
void add_samples(std::vector<Sample>& samples, const std::string& label, std::size_t states,
                 const Step& step, const Formula& formula) {
  for (const Shape& shape : step_shapes()) {
    Sample sample;
    sample.label = to_string(shape) + ", " + label;
    sample.inputs = {sample_uniform(shape, -2, 2, 1), sample_uniform(shape, -1, 1, 2)};
    for (std::size_t k = 0; k < states; ++k) {
      // A square is larger than the square of the mean beside it.
      sample.inputs.push_back(sample_uniform(shape, k == 0 ? 0.5 : 0.1, k == 0 ? 1 : 0.4, 3 + k));
    }
    sample.forward = [=](const Tensors& in) {
      Tensors copies;
      for (const Tensor& input : in) copies.push_back(input.clone());
      step(copies);
      copies.erase(copies.begin() + 1);
      return copies;
    };
    sample.reference = [=](const Tensors& in) {
      std::vector<Values> values;
      for (const Tensor& input : in) {
        values.push_back(input.to(DType::float64).to_vector<double>());
      }
      for (std::size_t i = 0; i < values[0].size(); ++i) {
        double state[3] = {};
        for (std::size_t k = 0; k < states; ++k) state[k] = values[2 + k][i];
        formula(values[0][i], values[1][i], state);
        for (std::size_t k = 0; k < states; ++k) values[2 + k][i] = state[k];
      }
      Tensors results;
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (k != 1) results.push_back(from_data(values[k], in[0].shape()));
      }
      return results;
    };
    samples.push_back(sample);
  }
}

// ---- the optimizers
// --------------------------------------------------------------------------------

void add_sgd(std::vector<Sample>& samples, const std::string& label, SgdOptions o, int step) {
  add_samples(
      samples, label, o.momentum != 0 ? 1 : 0,
      [=](Tensors& t) {
        SgdState state{t.size() > 2 ? t[2] : Tensor()};
        sgd_step(t[0], t[1], state, step, o);
      },
      [=](double& p, double g, double* buffer) {
        double d = (o.maximize ? -g : g) + o.weight_decay * p;
        if (o.momentum != 0) {
          buffer[0] = step == 1 ? d : o.momentum * buffer[0] + (1 - o.dampening) * d;
          d = o.nesterov ? d + o.momentum * buffer[0] : buffer[0];
        }
        p -= o.lr * d;
      });
}

std::vector<Sample> sgd_samples() {
  std::vector<Sample> samples;
  add_sgd(samples, "plain", {.lr = 0.1}, 1);
  add_sgd(samples, "weight decay, maximize", {.lr = 0.1, .weight_decay = 0.2, .maximize = true}, 2);
  add_sgd(samples, "momentum, first step", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3}, 1);
  add_sgd(samples, "momentum and dampening", {.lr = 0.1, .momentum = 0.9, .dampening = 0.3}, 2);
  add_sgd(samples, "nesterov", {.lr = 0.1, .momentum = 0.9, .nesterov = true}, 3);
  return samples;
}

// The states of Adam stand the other way round: a square first, so that all samples are alike.
template <class Options>
void add_adam(std::vector<Sample>& samples, const std::string& label, Options o, int step) {
  constexpr bool decoupled = std::is_same_v<Options, AdamWOptions>;
  add_samples(
      samples, label, o.amsgrad ? 3 : 2,
      [=](Tensors& t) {
        AdamState state{t[3], t[2], t.size() > 4 ? t[4] : Tensor()};
        if constexpr (decoupled) {
          adamw_step(t[0], t[1], state, step, o);
        } else {
          adam_step(t[0], t[1], state, step, o);
        }
      },
      [=](double& p, double g, double* s) {
        if (o.maximize) g = -g;
        if (decoupled) {
          p -= o.lr * o.weight_decay * p;
        } else {
          g += o.weight_decay * p;
        }
        s[1] = o.betas.first * s[1] + (1 - o.betas.first) * g;
        s[0] = o.betas.second * s[0] + (1 - o.betas.second) * g * g;
        if (o.amsgrad) s[2] = std::max(s[2], s[0]);
        const double second = (o.amsgrad ? s[2] : s[0]) / (1 - std::pow(o.betas.second, step));
        p -= o.lr * s[1] / (1 - std::pow(o.betas.first, step)) / (std::sqrt(second) + o.eps);
      });
}

template <class Options>
std::vector<Sample> adam_samples() {
  std::vector<Sample> samples;
  add_adam(samples, "defaults, first step", Options{}, 1);
  add_adam(samples, "other options",
           Options{.lr = 0.1, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.2}, 3);
  add_adam(samples, "amsgrad, maximize", Options{.lr = 0.1, .amsgrad = true, .maximize = true}, 5);
  return samples;
}

// Inputs: the average of squares, then the momentum, then the average, as far as they are used.
void add_rmsprop(std::vector<Sample>& samples, const std::string& label, RmspropOptions o) {
  const bool momentum = o.momentum != 0;
  add_samples(
      samples, label, 1 + momentum + o.centered,
      [=](Tensors& t) {
        RmspropState state{t[2], momentum ? t[3] : Tensor(),
                           o.centered ? t[momentum ? 4 : 3] : Tensor()};
        rmsprop_step(t[0], t[1], state, 2, o);
      },
      [=](double& p, double g, double* s) {
        g = (o.maximize ? -g : g) + o.weight_decay * p;
        s[0] = o.alpha * s[0] + (1 - o.alpha) * g * g;
        double square = s[0];
        if (o.centered) {
          double& average = s[momentum ? 2 : 1];
          average = o.alpha * average + (1 - o.alpha) * g;
          square -= average * average;
        }
        double direction = g / (std::sqrt(square) + o.eps);
        if (momentum) direction = s[1] = o.momentum * s[1] + direction;
        p -= o.lr * direction;
      });
}

std::vector<Sample> rmsprop_samples() {
  std::vector<Sample> samples;
  add_rmsprop(samples, "defaults", {});
  add_rmsprop(samples, "momentum, weight decay",
              {.lr = 0.1, .alpha = 0.8, .weight_decay = 0.1, .momentum = 0.5});
  add_rmsprop(samples, "centered", {.lr = 0.1, .alpha = 0.9, .eps = 1e-2, .centered = true});
  add_rmsprop(samples, "momentum, centered, maximize",
              {.lr = 0.1, .momentum = 0.5, .centered = true, .maximize = true});
  return samples;
}

void add_adagrad(std::vector<Sample>& samples, const std::string& label, AdagradOptions o,
                 int step) {
  add_samples(
      samples, label, 1,
      [=](Tensors& t) {
        AdagradState state{t[2]};
        adagrad_step(t[0], t[1], state, step, o);
      },
      [=](double& p, double g, double* s) {
        g = (o.maximize ? -g : g) + o.weight_decay * p;
        s[0] += g * g;
        p -= o.lr / (1 + (step - 1) * o.lr_decay) * g / (std::sqrt(s[0]) + o.eps);
      });
}

std::vector<Sample> adagrad_samples() {
  std::vector<Sample> samples;
  add_adagrad(samples, "defaults", {}, 1);
  add_adagrad(samples, "other options",
              {.lr = 0.1, .lr_decay = 0.2, .weight_decay = 0.1, .eps = 1e-3, .maximize = true}, 4);
  return samples;
}

void add_lion(std::vector<Sample>& samples, const std::string& label, LionOptions o) {
  add_samples(
      samples, label, 1,
      [=](Tensors& t) {
        LionState state{t[2]};
        lion_step(t[0], t[1], state, 2, o);
      },
      [=](double& p, double g, double* s) {
        if (o.maximize) g = -g;
        const double direction = o.betas.first * s[0] + (1 - o.betas.first) * g;
        p -= o.lr * o.weight_decay * p;
        p -= o.lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
        s[0] = o.betas.second * s[0] + (1 - o.betas.second) * g;
      });
}

// The betas keep the average away from 0, where a rounding would change the sign.
std::vector<Sample> lion_samples() {
  std::vector<Sample> samples;
  add_lion(samples, "defaults", {});
  add_lion(samples, "other options",
           {.lr = 0.1, .betas = {0.7, 0.8}, .weight_decay = 0.2, .maximize = true});
  return samples;
}

// ---- clipping
// --------------------------------------------------------------------------------------

Values values_of(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }

// Two gradients; the clipped ones come back.
std::vector<Sample> clip_grad_norm_samples() {
  std::vector<Sample> samples;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [max_norm, norm_type] :
       {std::pair{1.0, 2.0}, std::pair{100.0, 2.0}, std::pair{3.0, 1.0}, std::pair{0.5, infinity},
        std::pair{1.0, 3.0}}) {
    Sample sample;
    sample.label = "[5, 7] and [17], at most " + std::to_string(max_norm) + " of order " +
                   std::to_string(norm_type);
    sample.inputs = {sample_uniform({5, 7}, -2, 2, 1), sample_uniform({17}, -2, 2, 2)};
    sample.forward = [=](const Tensors& in) {
      Tensors copies{in[0].clone(), in[1].clone()};
      clip_grad_norm(copies, max_norm, norm_type);
      return copies;
    };
    sample.reference = [=](const Tensors& in) {
      double total = 0;
      for (const Tensor& input : in) {
        for (double value : values_of(input)) {
          total = std::isinf(norm_type) ? std::max(total, std::fabs(value))
                                        : total + std::pow(std::fabs(value), norm_type);
        }
      }
      const double norm = std::isinf(norm_type) ? total : std::pow(total, 1 / norm_type);
      const double scale = std::min(1.0, max_norm / (norm + 1e-6));
      Tensors results;
      for (const Tensor& input : in) {
        Values values = values_of(input);
        for (double& value : values) value *= scale;
        results.push_back(from_data(values, input.shape()));
      }
      return results;
    };
    samples.push_back(sample);
  }
  return samples;
}

std::vector<Sample> clip_grad_value_samples() {
  Sample sample;
  sample.label = "[5, 7] and [17], to [-0.75, 0.75]";
  sample.inputs = {sample_uniform({5, 7}, -2, 2, 1), sample_uniform({17}, -2, 2, 2)};
  sample.forward = [](const Tensors& in) {
    Tensors copies{in[0].clone(), in[1].clone()};
    clip_grad_value(copies, 0.75);
    return copies;
  };
  sample.reference = [](const Tensors& in) {
    Tensors results;
    for (const Tensor& input : in) {
      Values values = values_of(input);
      for (double& value : values) value = std::max(-0.75, std::min(0.75, value));
      results.push_back(from_data(values, input.shape()));
    }
    return results;
  };
  return {sample};
}

}  // namespace

void add_optimizer_steps(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, std::vector<Sample> (*samples)()) {
    ops.push_back({name, "optimizer steps", formula, "", {}, DTypes::floats, samples});
  };
  add("sgd_step", "p ← p − lr · d, d the gradient, its momentum, or Nesterov's blend of both",
      sgd_samples);
  add("adam_step", "p ← p − lr · m̂ / (√v̂ + eps), m and v averages of g and g²",
      adam_samples<AdamOptions>);
  add("adamw_step", "adam_step after p ← p − lr · weight_decay · p", adam_samples<AdamWOptions>);
  add("rmsprop_step", "p ← p − lr · g / (√v + eps), v an average of g²", rmsprop_samples);
  add("adagrad_step", "p ← p − lr · g / (√Σg² + eps)", adagrad_samples);
  add("lion_step",
      "p ← p − lr · (sign(m + (1 − β₁) · (g − m)) + weight_decay · p), m an average of g",
      lion_samples);
  add("clip_grad_norm", "g ← g · min(1, max_norm / (‖g‖ + 1e-6)), the norm that of all gradients",
      clip_grad_norm_samples);
  add("clip_grad_value", "g ← g clipped to [−clip_value, clip_value]", clip_grad_value_samples);
}

}  // namespace extensor::op_database
