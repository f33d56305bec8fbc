#include "extensor/optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "optim/group.h"
#include "optim/state_reader.h"

namespace extensor::optim {

using detail::message;

namespace {

constexpr const char* name = "LBFGS";

void check_option(const char* option, double value, bool allowed, const char* rule) {
  if (allowed) return;
  throw ValueError(message(name, ": ", option, " is ", value, ", must be ", rule));
}

double number(const Tensor& x) { return x.to(DType::float64).item<double>(); }
double product(const Tensor& a, const Tensor& b) { return number(dot(a, b)); }
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : number(max_reduce(abs(x))); }

}  // namespace

LBFGS::LBFGS(std::vector<Tensor> parameters, const LBFGSOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const auto is_positive = [](double value) { return value > 0 && std::isfinite(value); };
  check_option("lr", options.lr, is_positive(options.lr), "finite and above 0");
  check_option("max_iter", static_cast<double>(options.max_iter), options.max_iter >= 1,
               "1 or more");
  check_option("history_size", static_cast<double>(options.history_size), options.history_size >= 1,
               "1 or more");
  check_option("tolerance_grad", options.tolerance_grad, options.tolerance_grad >= 0, "0 or more");
  check_option("tolerance_change", options.tolerance_change, options.tolerance_change >= 0,
               "0 or more");
  if (options.max_eval) {
    check_option("max_eval", static_cast<double>(*options.max_eval), *options.max_eval >= 1,
                 "1 or more");
  }
  extensor::detail::check_option(name, "line_search", options.line_search,
                                 LineSearch::strong_wolfe);
  if (parameters_.empty()) throw ValueError(message(name, ": there are no parameters"));
  std::unordered_set<const extensor::detail::TensorImpl*> seen;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const Tensor& parameter = parameters_[k];
    check_parameter(name, k, parameter);
    if (!seen.insert(parameter.impl_or_null()).second) {
      throw ValueError(
          message(name, ": parameter ", k, ", of shape ", parameter.shape(), ", is there twice"));
    }
    if (parameter.dtype() != parameters_[0].dtype()) {
      throw DTypeError(message(name, ": parameter ", k, " is ", parameter.dtype(),
                               ", parameter 0 is ", parameters_[0].dtype()));
    }
    if (!(parameter.device() == parameters_[0].device())) {
      throw DeviceError(message(name, ": parameter ", k, " is on ", parameter.device(),
                                ", parameter 0 is on ", parameters_[0].device()));
    }
  }
}

void LBFGS::zero_grad() {
  for (const Tensor& parameter : parameters_) {
    Tensor* grad = gradient_of(parameter.impl());
    if (grad != nullptr) *grad = Tensor();
  }
}

Tensor LBFGS::gradient() const {
  std::vector<Tensor> parts;
  for (const Tensor& parameter : parameters_) {
    const Tensor grad = parameter.grad();
    parts.push_back(grad.defined()
                        ? grad.detach().flatten()
                        : zeros({parameter.numel()}, {parameter.dtype(), parameter.device()}));
  }
  return concatenate(parts);
}

Tensor LBFGS::values() const {
  std::vector<Tensor> parts;
  parts.reserve(parameters_.size());
  for (const Tensor& parameter : parameters_) parts.push_back(parameter.detach().flatten());
  return concatenate(parts);
}

// Sets the parameters to from + step · direction.
void LBFGS::move(const Tensor& from, double step, const Tensor& direction) {
  const Tensor to = from + direction * step;
  std::int64_t begin = 0;
  for (Tensor& parameter : parameters_) {
    const std::int64_t end = begin + parameter.numel();
    parameter.copy_from(to.slice(0, begin, end).reshape(parameter.shape()));
    begin = end;
  }
}

// The loss at the current parameters; the closure records it whatever the mode is here.
double LBFGS::evaluate(const std::function<Tensor()>& closure, Tensor* first) const {
  const EnableGrad on;
  const Tensor loss = closure();
  if (!loss.defined() || loss.numel() != 1) {
    throw ValueError(
        message(name, ": the closure returned ",
                loss.defined() ? message("a loss of shape ", loss.shape()) : "an undefined loss",
                ", must be one number"));
  }
  if (first != nullptr) *first = loss;
  return number(loss.detach());
}

// Minus the gradient times the approximated inverse Hessian.
Tensor LBFGS::direction_of(const Tensor& gradient) const {
  Tensor q = negative(gradient);
  std::vector<double> factors(history_.size());
  for (std::size_t k = history_.size(); k-- > 0;) {
    const Pair& pair = history_[k];
    factors[k] = product(pair.change, q) * pair.curvature;
    q = q - pair.gradient_change * factors[k];
  }
  q = q * scale_;
  for (std::size_t k = 0; k < history_.size(); ++k) {
    const Pair& pair = history_[k];
    q = q + pair.change * (factors[k] - product(pair.gradient_change, q) * pair.curvature);
  }
  return q;
}

// ---- the line search

// A place on the line: its step, loss, gradient and the slope along the line.
struct LBFGS::Point {
  double step = 0, loss = 0;
  Tensor gradient = {};
  double slope = 0;
};

// Finds a step that fulfils the strong Wolfe conditions: first a bracket that contains one, then
// smaller brackets, by cubic interpolation.
class LBFGS::Search {
 public:
  Search(LBFGS& optimizer, const std::function<Tensor()>& closure, Tensor direction, Point start)
      : optimizer_(optimizer),
        closure_(closure),
        direction_(std::move(direction)),
        from_(optimizer.values()),
        start_(std::move(start)) {}

  std::int64_t evaluations() const { return evaluations_; }

  Point run(double step) {
    Point previous = start_, next = at(step);
    bool bracketed = false;
    for (; iterations_ < most_iterations; ++iterations_) {
      if (is_too_high(next) || (iterations_ > 1 && next.loss >= previous.loss)) {
        bracketed = true;
        break;
      }
      if (is_flat(next)) return next;
      if (next.slope >= 0) {
        bracketed = true;
        break;
      }
      const double least = next.step + 0.01 * (next.step - previous.step), most = 10 * next.step;
      const double further = cubic_minimum(previous, next, least, most);
      previous = std::move(next);
      next = at(further);
    }
    if (!bracketed) previous = start_;
    return zoom(std::move(previous), std::move(next));
  }

 private:
  static constexpr int most_iterations = 25;
  static constexpr double decrease = 1e-4, curvature = 0.9;

  Point at(double step) {
    optimizer_.move(from_, step, direction_);
    Point point;
    point.step = step;
    point.loss = optimizer_.evaluate(closure_, nullptr);
    point.gradient = optimizer_.gradient();
    point.slope = product(point.gradient, direction_);
    ++evaluations_;
    return point;
  }
  bool is_too_high(const Point& point) const {
    return point.loss > start_.loss + decrease * point.step * start_.slope;
  }
  bool is_flat(const Point& point) const {
    return std::abs(point.slope) <= -curvature * start_.slope;
  }

  // The minimum, within the bounds, of the cubic with the losses and slopes of two points.
  static double cubic_minimum(const Point& a, const Point& b, double least, double most) {
    const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step);
    const double square = d1 * d1 - a.slope * b.slope;
    if (!(square >= 0)) return (least + most) / 2;
    const double d2 = std::sqrt(square);
    const Point &left = a.step <= b.step ? a : b, &right = a.step <= b.step ? b : a;
    const double at = right.step - (right.step - left.step) * ((right.slope + d2 - d1) /
                                                               (right.slope - left.slope + 2 * d2));
    return std::min(std::max(at, least), most);
  }

  // The best point of a bracket, of which `first` was evaluated before `second`.
  Point zoom(Point first, Point second) {
    const double reach = largest(direction_);
    bool stuck = false;
    bool first_is_low = first.loss <= second.loss;
    while (iterations_ < most_iterations) {
      const double left = std::min(first.step, second.step),
                   right = std::max(first.step, second.step);
      if ((right - left) * reach < optimizer_.options_.tolerance_change) break;
      double step = cubic_minimum(first, second, left, right);
      // Keeps away from the ends, if the last step was near one too.
      const double margin = 0.1 * (right - left);
      if (std::min(right - step, step - left) < margin) {
        if (stuck || step >= right || step <= left) {
          step = std::abs(step - right) < std::abs(step - left) ? right - margin : left + margin;
          stuck = false;
        } else {
          stuck = true;
        }
      } else {
        stuck = false;
      }
      Point next = at(step);
      ++iterations_;
      Point &low = first_is_low ? first : second, &high = first_is_low ? second : first;
      if (is_too_high(next) || next.loss >= low.loss) {
        high = std::move(next);
        first_is_low = first.loss <= second.loss;
        continue;
      }
      const bool done = is_flat(next);
      if (!done && next.slope * (high.step - low.step) >= 0) high = low;
      low = std::move(next);
      if (done) break;
    }
    return first_is_low ? first : second;
  }

  LBFGS& optimizer_;
  const std::function<Tensor()>& closure_;
  const Tensor direction_, from_;
  const Point start_;
  int iterations_ = 0;
  std::int64_t evaluations_ = 0;
};

// ---- stepping

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  if (!closure) throw ValueError(message(name, ": the closure is empty"));
  const NoGrad off;
  Tensor first_loss;
  double loss = evaluate(closure, &first_loss);
  std::int64_t evaluations = 1;
  ++evaluations_;
  const std::int64_t most_evaluations = options_.max_eval.value_or(options_.max_iter * 5 / 4);
  Tensor g = gradient();
  if (largest(g) <= options_.tolerance_grad) return first_loss;

  for (std::int64_t k = 1; k <= options_.max_iter; ++k) {
    ++iterations_;
    if (iterations_ == 1) {
      direction_ = negative(g);
      history_.clear();
      scale_ = 1;
    } else {
      const Tensor gradient_change = g - previous_gradient_, change = direction_ * step_length_;
      const double along = product(gradient_change, change);
      if (along > 1e-10) {
        if (static_cast<std::int64_t>(history_.size()) == options_.history_size) {
          history_.pop_front();
        }
        history_.push_back({change, gradient_change, 1 / along});
        scale_ = along / product(gradient_change, gradient_change);
      }
      direction_ = direction_of(g);
    }
    previous_gradient_ = g;
    previous_loss_ = loss;

    step_length_ =
        iterations_ == 1 ? std::min(1.0, 1 / number(sum(abs(g)))) * options_.lr : options_.lr;
    const double slope = product(g, direction_);
    if (slope > -options_.tolerance_change) break;

    std::int64_t used = 0;
    const Tensor from = values();
    if (options_.line_search == LineSearch::strong_wolfe) {
      Search search(*this, closure, direction_, {0, loss, g, slope});
      const Point found = search.run(step_length_);
      step_length_ = found.step;
      loss = found.loss;
      g = found.gradient;
      move(from, step_length_, direction_);
      used = search.evaluations();
    } else {
      move(from, step_length_, direction_);
      if (k != options_.max_iter) {
        loss = evaluate(closure, nullptr);
        g = gradient();
        used = 1;
      }
    }
    evaluations += used;
    evaluations_ += used;
    if (k == options_.max_iter || evaluations >= most_evaluations ||
        largest(g) <= options_.tolerance_grad ||
        largest(direction_) * step_length_ <= options_.tolerance_change ||
        std::abs(loss - previous_loss_) < options_.tolerance_change) {
      break;
    }
  }
  return first_loss;
}

// ---- saving and loading

StateDict LBFGS::state_dict() const {
  StateDict saved;
  saved.numbers["state.0.func_evals"] = static_cast<double>(evaluations_);
  saved.numbers["state.0.n_iter"] = static_cast<double>(iterations_);
  saved.numbers["state.0.history"] = static_cast<double>(history_.size());
  if (iterations_ == 0) return saved;
  saved.tensors["state.0.d"] = direction_.clone();
  saved.tensors["state.0.prev_flat_grad"] = previous_gradient_.clone();
  saved.numbers["state.0.t"] = step_length_;
  saved.numbers["state.0.H_diag"] = scale_;
  saved.numbers["state.0.prev_loss"] = previous_loss_;
  for (std::size_t k = 0; k < history_.size(); ++k) {
    const std::string entry = "." + std::to_string(k);
    saved.tensors["state.0.old_stps" + entry] = history_[k].change.clone();
    saved.tensors["state.0.old_dirs" + entry] = history_[k].gradient_change.clone();
    saved.numbers["state.0.ro" + entry] = history_[k].curvature;
  }
  return saved;
}

void LBFGS::load_state_dict(const StateDict& saved) {
  StateReader reader(message(name, ".load_state_dict"), saved);
  std::int64_t length = 0;
  for (const Tensor& parameter : parameters_) length += parameter.numel();
  const auto vector = [&](const std::string& entry) {
    return reader.tensor(entry, {length}, parameters_[0].dtype(), parameters_[0].device());
  };
  const std::int64_t evaluations = reader.count("state.0.func_evals");
  const std::int64_t iterations = reader.count("state.0.n_iter");
  const std::int64_t count = reader.count("state.0.history");
  Tensor direction, previous_gradient;
  double step_length = 0, scale = 1, previous_loss = 0;
  std::deque<Pair> history;
  if (iterations > 0) {
    direction = vector("state.0.d");
    previous_gradient = vector("state.0.prev_flat_grad");
    step_length = reader.number("state.0.t");
    scale = reader.number("state.0.H_diag");
    previous_loss = reader.number("state.0.prev_loss");
    for (std::int64_t k = 0; k < count; ++k) {
      const std::string entry = "." + std::to_string(k);
      history.push_back({vector("state.0.old_stps" + entry), vector("state.0.old_dirs" + entry),
                         reader.number("state.0.ro" + entry)});
    }
  }
  reader.finish();
  while (static_cast<std::int64_t>(history.size()) > options_.history_size) history.pop_front();
  evaluations_ = evaluations;
  iterations_ = iterations;
  direction_ = direction;
  previous_gradient_ = previous_gradient;
  step_length_ = step_length;
  scale_ = scale;
  previous_loss_ = previous_loss;
  history_ = std::move(history);
}

}  // namespace extensor::optim
