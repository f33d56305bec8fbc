// Optimizer steps, each called on copies of its inputs: the results are the parameter and the
// states. Clipping of gradients.
#include <cmath>
#include <limits>

#include "op_database/op_database.h"
#include "op_database/optimizer_reference.h"

namespace extensor::op_database {

// ---- one reference per optimizer

OptimizerReference<SgdOptions> reference(const SgdOptions&) {
  return {"p ← p − lr · d, d the gradient, its momentum, or Nesterov's blend of both",
          {{.lr = 0.1},
           {.lr = 0.1, .weight_decay = 0.2, .maximize = true},
           {.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
           {.lr = 0.1, .momentum = 0.5, .maximize = true},
           {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}},
          [](const SgdOptions& o, double p, double g, double* s, int step) {
            double d = (o.maximize ? -g : g) + o.weight_decay * p;
            if (o.momentum != 0) {
              s[0] = step == 1 ? d : o.momentum * s[0] + (1 - o.dampening) * d;
              d = o.nesterov ? d + o.momentum * s[0] : s[0];
            }
            return p - o.lr * d;
          }};
}

namespace {

template <class Options, bool decoupled>
OptimizerReference<Options> adam_reference(const char* formula) {
  return {formula,
          {{},
           {.lr = 0.1, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.2},
           {.lr = 0.1, .betas = {0.5, 0.5}, .amsgrad = true, .maximize = true}},
          [](const Options& o, double p, double g, double* s, int step) {
            if (o.maximize) g = -g;
            if (decoupled) {
              p -= o.lr * o.weight_decay * p;
            } else {
              g += o.weight_decay * p;
            }
            s[0] = o.betas.first * s[0] + (1 - o.betas.first) * g;
            s[1] = o.betas.second * s[1] + (1 - o.betas.second) * g * g;
            if (o.amsgrad) s[2] = std::max(s[2], s[1]);
            const double second = (o.amsgrad ? s[2] : s[1]) / (1 - std::pow(o.betas.second, step));
            const double first = s[0] / (1 - std::pow(o.betas.first, step));
            return p - o.lr * first / (std::sqrt(second) + o.eps);
          }};
}

}  // namespace

OptimizerReference<AdamOptions> reference(const AdamOptions&) {
  return adam_reference<AdamOptions, false>(
      "p ← p − lr · m̂ / (√v̂ + eps), m and v averages of g and g²");
}
OptimizerReference<AdamWOptions> reference(const AdamWOptions&) {
  return adam_reference<AdamWOptions, true>("adam_step after p ← p − lr · weight_decay · p");
}

OptimizerReference<RmspropOptions> reference(const RmspropOptions&) {
  return {
      "p ← p − lr · g / (√v + eps), v an average of g²",
      {{},
       {.lr = 0.1, .alpha = 0.8, .weight_decay = 0.1, .momentum = 0.5},
       {.lr = 0.1, .alpha = 0.9, .eps = 0.1, .centered = true},
       {.lr = 0.1, .alpha = 0.5, .eps = 0.1, .momentum = 0.5, .centered = true, .maximize = true}},
      [](const RmspropOptions& o, double p, double g, double* s, int) {
        g = (o.maximize ? -g : g) + o.weight_decay * p;
        s[0] = o.alpha * s[0] + (1 - o.alpha) * g * g;
        double square = s[0];
        if (o.centered) {
          s[2] = o.alpha * s[2] + (1 - o.alpha) * g;
          square -= s[2] * s[2];
        }
        double direction = g / (std::sqrt(square) + o.eps);
        if (o.momentum != 0) direction = s[1] = o.momentum * s[1] + direction;
        return p - o.lr * direction;
      }};
}

OptimizerReference<AdagradOptions> reference(const AdagradOptions&) {
  return {"p ← p − lr · g / (√Σg² + eps)",
          {{},
           {.lr = 0.1, .lr_decay = 0.2, .weight_decay = 0.1, .eps = 1e-3, .maximize = true},
           {.lr = 0.1, .initial_accumulator_value = 0.5}},
          [](const AdagradOptions& o, double p, double g, double* s, int step) {
            g = (o.maximize ? -g : g) + o.weight_decay * p;
            s[0] += g * g;
            return p - o.lr / (1 + (step - 1) * o.lr_decay) * g / (std::sqrt(s[0]) + o.eps);
          }};
}

OptimizerReference<AdadeltaOptions> reference(const AdadeltaOptions&) {
  return {"p ← p − lr · Δ, Δ = g · √(d + eps) / √(v + eps), v and d averages of g² and Δ²",
          {{}, {.lr = 0.5, .rho = 0.7, .eps = 1e-2, .weight_decay = 0.1, .maximize = true}},
          [](const AdadeltaOptions& o, double p, double g, double* s, int) {
            g = (o.maximize ? -g : g) + o.weight_decay * p;
            s[0] = o.rho * s[0] + (1 - o.rho) * g * g;
            const double delta = std::sqrt((s[1] + o.eps) / (s[0] + o.eps)) * g;
            s[1] = o.rho * s[1] + (1 - o.rho) * delta * delta;
            return p - o.lr * delta;
          }};
}

// The betas keep the average away from 0, where a rounding error would change the sign.
OptimizerReference<LionOptions> reference(const LionOptions&) {
  return {"p ← p − lr · (sign(m + (1 − β₁) · (g − m)) + weight_decay · p), m an average of g",
          {{}, {.lr = 0.1, .betas = {0.7, 0.8}, .weight_decay = 0.2, .maximize = true}},
          [](const LionOptions& o, double p, double g, double* s, int) {
            if (o.maximize) g = -g;
            const double direction = o.betas.first * s[0] + (1 - o.betas.first) * g;
            p -= o.lr * o.weight_decay * p;
            p -= o.lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
            s[0] = o.betas.second * s[0] + (1 - o.betas.second) * g;
            return p;
          }};
}

namespace {

using Values = std::vector<double>;

Values values_of(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }

// ---- samples of the optimizers

// Inputs: the parameter, the gradient, and all states, which are not negative.
template <class State, class Options, class Step>
std::vector<Sample> step_samples(const Step& step_function) {
  const OptimizerReference<Options> expected = reference(Options());
  std::vector<Sample> samples;
  for (const Options& options : expected.options) {
    for (int step : {1, 3}) {
      for (const Shape& shape : {Shape{17}, Shape{5, 7}, Shape{}, Shape{0, 3}}) {
        Sample sample;
        sample.label =
            to_string(shape) + ", step " + std::to_string(step) + ", " + describe(options);
        sample.inputs = {sample_uniform(shape, -2, 2, 1), sample_uniform(shape, -1, 1, 2)};
        State layout;
        for (std::size_t k = 0; k < tensors_of(layout).size(); ++k) {
          // The mean of squares exceeds the square of the mean.
          sample.inputs.push_back(
              sample_uniform(shape, k == 0 ? 0.5 : 0.1, k == 0 ? 1 : 0.4, 3 + k));
        }
        sample.forward = [=](const Tensors& in) {
          Tensor param = in[0].clone();
          State state;
          Tensors results{param};
          for (std::size_t k = 0; Tensor * each : tensors_of(state)) {
            results.push_back(*each = in[2 + k++].clone());
          }
          step_function(param, in[1], state, step, options);
          return results;
        };
        sample.reference = [=](const Tensors& in) {
          std::vector<Values> values;
          for (const Tensor& input : in) values.push_back(values_of(input));
          for (std::size_t i = 0; i < values[0].size(); ++i) {
            double states[most_states] = {};
            for (std::size_t k = 2; k < values.size(); ++k) states[k - 2] = values[k][i];
            values[0][i] = expected.step(options, values[0][i], values[1][i], states, step);
            for (std::size_t k = 2; k < values.size(); ++k) values[k][i] = states[k - 2];
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
  }
  return samples;
}

// ---- clipping

// Two gradients; the results are the clipped ones.
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
  const auto add = [&](const std::string& name, const std::string& formula,
                       std::function<std::vector<Sample>()> samples) {
    ops.push_back({name, "optimizer steps", formula, "", {}, DTypes::floats, std::move(samples)});
  };
  for_each_optimizer(
      [&](const char* name, const auto& options, const auto& state, const auto& step) {
        using Options = std::decay_t<decltype(options)>;
        using State = std::decay_t<decltype(state)>;
        add(std::string(name) + "_step", reference(options).formula,
            [step] { return step_samples<State, Options>(step); });
      });
  add("clip_grad_norm", "g ← g · min(1, max_norm / (‖g‖ + 1e-6)), the norm that of all gradients",
      clip_grad_norm_samples);
  add("clip_grad_value", "g ← g clipped to [−clip_value, clip_value]", clip_grad_value_samples);
}

}  // namespace extensor::op_database
