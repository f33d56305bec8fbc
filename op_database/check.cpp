#include "op_database/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

namespace extensor::op_database {

namespace {

using layouts::Layout;

double tolerance_of(DType dtype, Layout layout) {
  const bool cancels = dtype == float64 && layout == Layout::broadcast;  // equal rows
  return cancels ? 1e-12 : op_database::tolerance_of(dtype);
}

constexpr DType float_dtypes[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16};

// Gradients below 1 / magnification are compared absolutely, all others relative to themselves.
constexpr double magnification = 1024;
constexpr double finite_difference_tolerance = 1e-6;

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

// Rank 1 and up has something to lay out.
bool has_layout(const Sample& sample, Layout layout) {
  if (layout == Layout::broadcast && sample.rows_must_differ) return false;
  return std::ranges::any_of(sample.inputs, [&](const Tensor& x) {
    return is_float(x) && layouts::is_distinct(layout, x.shape());
  });
}

// The sample's inputs, the floats among them in `dtype`, all in `layout`. Integers keep their
// values: a broadcast layout would change them.
Tensors arranged(const Tensors& inputs, DType dtype, Layout layout) {
  Tensors result;
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      result.push_back(input);
      continue;
    }
    Tensor x = is_float(input) ? input.to(dtype) : input;
    const Shape shape = x.shape();
    if (layout == Layout::broadcast) {
      if (is_float(x) && layouts::is_distinct(layout, shape)) {
        x = layouts::with_layout(x.slice(0, 0, 1), layout, shape);
      }
    } else {
      x = layouts::with_layout(x, layout, shape);
    }
    result.push_back(x);
  }
  return result;
}

Tensors in_float64(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& x : tensors) result.push_back(is_float(x) ? x.to(float64).contiguous() : x);
  return result;
}

Tensors dense(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& x : tensors) result.push_back(x.defined() ? x.contiguous() : x);
  return result;
}

Tensors joined(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The gradients of a sample's inputs; results they are made of are computed here.
Tensors gradients_of(const Sample& sample, const Tensors& grads, const Tensors& inputs) {
  if (!sample.saves_results) return sample.backward(grads, inputs);
  return sample.backward(grads, joined(inputs, sample.forward(inputs)));
}

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  stream.precision(17);
  (stream << ... << parts);
  return stream.str();
}

void fail(CheckResult& result, std::string message) {
  if (result.passed) result.message = std::move(message);
  result.passed = false;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double largest_of(const Tensor& x) {
  double largest = 1e-30;
  if (!x.defined()) return largest;
  for (double value : x.to(float64).to_vector<double>()) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

// In a broadcast layout rows are equal, and some results cancel to 0: there, errors are relative to
// what the results are made of.
double least_scale_of(Layout layout, const Tensors& made_of) {
  double scale = 0;
  if (layout != Layout::broadcast) return scale;
  for (const Tensor& x : made_of) scale = std::max(scale, is_float(x) ? largest_of(x) : 0);
  return scale;
}

// The largest difference of two lists of tensors, relative to the largest finite element expected
// of each tensor, or to `least_scale` where that is larger.
void compare(const Tensors& got, const Tensors& expected, double least_scale, CheckResult& result) {
  if (got.size() != expected.size()) {
    return fail(result, text(got.size(), " results, expected ", expected.size()));
  }
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (!got[k].defined() || !expected[k].defined()) continue;
    if (!(got[k].shape() == expected[k].shape())) {
      fail(result,
           text("result ", k, " has ", got[k].shape().size(), " dimensions and ", got[k].numel(),
                " elements, expected ", expected[k].shape().size(), " and ", expected[k].numel()));
      continue;
    }
    const auto values = got[k].to(float64).to_vector<double>();
    const auto exact = expected[k].to(float64).to_vector<double>();
    const double scale = std::max(least_scale, largest_of(expected[k]));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (same_number(values[i], exact[i])) continue;
      const double error = std::fabs(values[i] - exact[i]) / scale;
      if (error <= result.error) continue;
      result.error = error;
      if (error <= result.tolerance) continue;
      fail(result, text("result ", k, ", element ", i, ": got ", values[i], ", expected ", exact[i],
                        " (relative error ", error, ", allowed ", result.tolerance, ")"));
    }
  }
}

CheckResult check_value(const Sample& sample, DType dtype, Layout layout) {
  CheckResult result;
  result.tolerance = tolerance_of(dtype, layout);
  const Tensors inputs = arranged(sample.inputs, dtype, layout);
  const Tensors outputs = sample.forward(inputs);
  compare(outputs, sample.reference(in_float64(dense(inputs))), least_scale_of(layout, inputs),
          result);
  // A float made of floats has their dtype; statistics beside a half result may stay wide.
  if (!std::ranges::any_of(inputs, is_float)) return result;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!is_float(outputs[k]) || outputs[k].dtype() == dtype) continue;
    if (k > 0 && is_half(dtype) && outputs[k].dtype() == float32) continue;
    fail(result, text("result ", k, " is ", extensor::name(outputs[k].dtype()), ", the inputs are ",
                      extensor::name(dtype)));
  }
  return result;
}

// The gradients to start from: fixed numbers between 0.5 and 1.5.
Tensors grad_outputs_of(const Tensors& outputs, DType dtype) {
  Tensors grads;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    grads.push_back(is_float(outputs[k])
                        ? sample_uniform(outputs[k].shape(), 0.5, 1.5, 11 + k).to(dtype)
                        : Tensor());
  }
  return grads;
}

// A gradient has the dtype of what it is the gradient of.
void check_dtypes(const Tensors& gradients, const Tensors& of, CheckResult& result) {
  for (std::size_t k = 0; k < gradients.size() && k < of.size(); ++k) {
    if (!gradients[k].defined() || gradients[k].dtype() == of[k].dtype()) continue;
    fail(result, text("gradient ", k, " is ", extensor::name(gradients[k].dtype()), ", of ",
                      extensor::name(of[k].dtype())));
  }
}

// A narrow dtype's gradients against those of float64 on the same, already rounded numbers.
CheckResult check_narrow_gradient(const Sample& sample, DType dtype, Layout layout) {
  CheckResult result;
  result.tolerance = tolerance_of(dtype, layout);
  const Tensors inputs = arranged(sample.inputs, dtype, layout);
  const Tensors outputs = sample.forward(inputs);
  const Tensors grads = grad_outputs_of(outputs, dtype);
  const Tensors known = sample.saves_results ? joined(inputs, outputs) : inputs;
  const Tensors exact = sample.backward(in_float64(grads), in_float64(dense(known)));
  const Tensors found = sample.backward(grads, known);
  compare(found, exact, least_scale_of(layout, grads), result);
  check_dtypes(found, inputs, result);
  return result;
}

// In a narrow dtype the second gradients are those of float64 up to how they cancel, so only their
// dtypes are checked.
void check_narrow_second_gradient(const Sample& sample, DType dtype, Layout layout,
                                  CheckResult& result) {
  const Tensors inputs = arranged(sample.inputs, dtype, layout);
  const Tensors grads = grad_outputs_of(sample.forward(inputs), dtype);
  const Tensors given = grad_outputs_of(gradients_of(sample, grads, inputs), dtype);
  check_dtypes(sample.double_backward(given, grads, inputs), joined(grads, inputs), result);
}

// A function of many tensors to many, as gradcheck's function of some float64 tensors to one.
struct Flattened {
  std::function<Tensors(const Tensors&)> forward;
  std::function<Tensors(const Tensors&, const Tensors&)> backward;
  Tensors inputs;
  std::vector<std::size_t> moving;  // the inputs that have gradients

  Tensors with(const Tensors& moved) const {
    Tensors all = inputs;
    for (std::size_t i = 0; i < moving.size(); ++i) all[moving[i]] = moved[i];
    return all;
  }
  Tensor flat(const Tensors& moved) const {
    Tensors parts;
    for (const Tensor& y : forward(with(moved))) {
      if (is_float(y)) parts.push_back(multiply(y.flatten(), magnification));
    }
    return concatenate(parts);
  }
  Tensors gradients(const Tensor& g, const Tensors& moved) const {
    const Tensors all = with(moved);
    Tensors grads;
    std::int64_t at = 0;
    for (const Tensor& y : forward(all)) {
      if (!is_float(y)) {
        grads.emplace_back();
        continue;
      }
      grads.push_back(multiply(g.slice(0, at, at + y.numel()).reshape(y.shape()), magnification));
      at += y.numel();
    }
    const Tensors found = backward(grads, all);
    Tensors result;
    for (std::size_t index : moving) result.push_back(found[index]);
    return result;
  }
};

CheckResult check_finite_differences(Flattened function) {
  CheckResult result;
  result.tolerance = finite_difference_tolerance;
  const Tensors outputs = function.forward(function.inputs);
  const Tensors found = function.backward(grad_outputs_of(outputs, float64), function.inputs);
  if (found.size() != function.inputs.size()) {
    fail(result, text("the backward gave ", found.size(), " gradients for ", function.inputs.size(),
                      " inputs"));
    return result;
  }
  Tensors moved;
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (!found[k].defined() || !is_float(function.inputs[k])) continue;
    function.moving.push_back(k);
    moved.push_back(function.inputs[k]);
  }
  GradcheckOptions options;
  options.tolerance = finite_difference_tolerance;
  options.seed = 11;
  const GradcheckResult checked =
      gradcheck([&](const Tensors& in) { return function.flat(in); },
                [&](const Tensor& g, const Tensors& in) { return function.gradients(g, in); },
                moved, options);
  result.error = checked.worst_error;
  if (!checked.passed) fail(result, checked.message);
  return result;
}

CheckResult check_gradient(const Sample& sample, DType dtype, Layout layout) {
  if (dtype != float64) return check_narrow_gradient(sample, dtype, layout);
  const auto backward = [&](const Tensors& grads, const Tensors& inputs) {
    return gradients_of(sample, grads, inputs);
  };
  return check_finite_differences(
      {sample.forward, backward, arranged(sample.inputs, float64, layout), {}});
}

// The backward as a function of grad_outputs and inputs, whose gradient is the double backward.
CheckResult check_second_gradient(const Sample& sample, Layout layout) {
  const Tensors inputs = arranged(sample.inputs, float64, layout);
  const Tensors grads = grad_outputs_of(sample.forward(inputs), float64);
  const std::size_t outputs = grads.size();
  const auto split = [outputs](const Tensors& all) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(outputs);
    return std::pair(Tensors(all.begin(), middle), Tensors(middle, all.end()));
  };
  Flattened function;
  function.inputs = grads;
  function.inputs.insert(function.inputs.end(), inputs.begin(), inputs.end());
  function.forward = [&, split](const Tensors& all) {
    const auto [g, x] = split(all);
    return gradients_of(sample, g, x);
  };
  function.backward = [&, split](const Tensors& grad_gradients, const Tensors& all) {
    const auto [g, x] = split(all);
    return sample.double_backward(grad_gradients, g, x);
  };
  CheckResult result = check_finite_differences(std::move(function));
  for (DType dtype : {float32, float16, bfloat16}) {
    check_narrow_second_gradient(sample, dtype, layout, result);
  }
  return result;
}

// A check that throws has failed too.
template <class Function>
CheckResult guarded(Function&& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    CheckResult result;
    result.error = INFINITY;
    fail(result, text("threw: ", error.what()));
    return result;
  }
}

// Calls visit(sample, kind, dtype, layout) for every check there is.
template <class Visit>
void for_each_check(const Op& op, const CheckOptions& options, Visit&& visit) {
  for (const Sample& sample : op.samples()) {
    const bool has_floats = std::ranges::any_of(sample.inputs, is_float);
    for (DType dtype : float_dtypes) {
      if (!has_floats && dtype != float64) continue;
      for (Layout layout : layouts::every_layout) {
        if (layout != Layout::contiguous && !has_layout(sample, layout)) continue;
        if (options.values && sample.reference) visit(sample, CheckKind::value, dtype, layout);
        if (options.gradients && sample.backward) {
          visit(sample, CheckKind::gradient, dtype, layout);
        }
        if (options.second_gradients && sample.double_backward && dtype == float64) {
          visit(sample, CheckKind::second_gradient, dtype, layout);
        }
      }
    }
  }
}

}  // namespace

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 1.3e-6;
    case DType::float16:
      return 1e-3;
    case DType::bfloat16:
      return 1.6e-2;
    default:
      return 1e-13;
  }
}

const char* name(CheckKind kind) {
  switch (kind) {
    case CheckKind::value:
      return "value";
    case CheckKind::gradient:
      return "gradient";
    case CheckKind::second_gradient:
      return "second gradient";
  }
  return "";
}

void check_op(const Op& op, const CheckOptions& options,
              const std::function<void(const Check&, const CheckResult&)>& report) {
  for_each_check(op, options,
                 [&](const Sample& sample, CheckKind kind, DType dtype, Layout layout) {
                   const CheckResult result = guarded([&] {
                     switch (kind) {
                       case CheckKind::value:
                         return check_value(sample, dtype, layout);
                       case CheckKind::gradient:
                         return check_gradient(sample, dtype, layout);
                       case CheckKind::second_gradient:
                         return check_second_gradient(sample, layout);
                     }
                     return CheckResult{};
                   });
                   report({&op, sample.label, kind, dtype, layout}, result);
                 });
}

void check_drawn(const Op& op, const std::function<std::int64_t(std::int64_t)>& below,
                 const std::function<void(const Check&, const CheckResult&)>& report) {
  // Made once per op: a drawn check costs less than its samples.
  static std::map<const Op*, std::vector<Sample>> made;
  auto found = made.find(&op);
  if (found == made.end()) found = made.emplace(&op, op.samples()).first;
  const std::vector<Sample>& samples = found->second;
  if (samples.empty()) return;
  const Sample& sample =
      samples[static_cast<std::size_t>(below(static_cast<std::int64_t>(samples.size())))];
  const bool has_floats = std::ranges::any_of(sample.inputs, is_float);
  const DType dtype = has_floats ? float_dtypes[below(4)] : float64;
  Layout layout = layouts::every_layout[below(5)];
  if (!has_layout(sample, layout)) layout = Layout::contiguous;
  if (sample.reference) {
    report({&op, sample.label, CheckKind::value, dtype, layout},
           guarded([&] { return check_value(sample, dtype, layout); }));
  }
  if (sample.backward) {
    report({&op, sample.label, CheckKind::gradient, dtype, layout},
           guarded([&] { return check_narrow_gradient(sample, dtype, layout); }));
  }
}

std::int64_t count_checks(const Op& op, const CheckOptions& options) {
  std::int64_t count = 0;
  for_each_check(op, options, [&](auto&&...) { ++count; });
  return count;
}

}  // namespace extensor::op_database
