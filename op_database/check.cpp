#include "op_database/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "op_database/variants.h"

namespace extensor::op_database {

namespace {

using layouts::Layout;

// Gradients below 1 / magnification are compared absolutely, all others relatively.
constexpr double magnification = 1024;
constexpr double finite_difference_tolerance = 1e-6;

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

void fail(CheckResult& result, std::initializer_list<std::string> parts) {
  if (result.passed) result.message = joined_text(parts);
  result.passed = false;
}

// Compares with an allowance relative to each element. Where that is too small, also allows for the
// magnitudes that f, which computes the exact results, accumulates; they are at least `least`.
void compare_with(const Tensors& got, const std::function<Tensors(const Tensors&)>& f,
                  const Tensors& inputs, const Tensors& exact, const Allowance& allowance,
                  double least, CheckResult& result) {
  Comparison comparison = compare(got, exact, allowance, {});
  if (!comparison.message.empty()) {
    // Samples stay three times this far from kinks.
    const double step = std::min(allowance.absolute, 1e-3);
    comparison = compare(got, exact, allowance, magnitudes_of(f, inputs, step, least));
  }
  result.error = std::max(result.error, comparison.error);
  if (!comparison.message.empty()) fail(result, {comparison.message});
}

// In a broadcast layout rows are equal, and their differences cancel to exactly 0 however the
// inputs are varied. Errors are therefore measured relative to the operands of the results.
double least_magnitude(Layout layout, const Tensors& made_of) {
  return layout == Layout::broadcast ? largest_of(made_of) : 0;
}

// ---- values

// The allowance follows the dtype of the first result: statistics of halves may be float32.
CheckResult check_value(const Op& op, const Sample& sample, DType dtype, Layout layout) {
  CheckResult result;
  if (!sample.reference) {
    result.error = INFINITY;
    fail(result, {"the sample has no reference"});
    return result;
  }
  const Tensors inputs = arranged(sample, dtype, layout);
  const Tensors outputs = sample.forward(inputs);
  Tensors exact = sample.reference(dense(inputs));
  const bool follows = has_dtypes(sample);
  for (std::size_t k = 0; k < outputs.size() && k < exact.size(); ++k) {
    if (!outputs[k].defined() || !exact[k].defined()) continue;
    DType expected = exact[k].dtype();
    if (follows && expected == float64) {
      expected = result_dtype(op.dtypes, dtype);
      exact[k] = wrapped(exact[k], expected);
    }
    if (outputs[k].dtype() == expected) continue;
    // Statistics returned with a half result may be wider.
    if (k > 0 && is_half(expected) && outputs[k].dtype() == float32) continue;
    fail(result, {"result ", std::to_string(k), " is ", extensor::name(outputs[k].dtype()),
                  ", expected ", extensor::name(expected)});
  }
  const auto first = std::ranges::find_if(outputs, is_float);
  const Allowance allowance = first == outputs.end() ? Allowance() : allowance_of(first->dtype());
  if (sample.magnitudes) {
    Magnitudes magnitudes;
    for (const Tensor& x : sample.magnitudes(dense(inputs))) {
      magnitudes.push_back(x.to_vector<double>());
    }
    const Comparison comparison = compare(outputs, exact, allowance, magnitudes);
    result.error = std::max(result.error, comparison.error);
    if (!comparison.message.empty()) fail(result, {comparison.message});
  } else {
    Tensors wide = dense(inputs);
    for (std::size_t k = 0; k < wide.size(); ++k) {
      if (is_float(sample.inputs[k])) wide[k] = wide[k].to(float64);
    }
    compare_with(outputs, sample.reference, wide, exact, allowance,
                 std::max(sample.cancelling_terms, least_magnitude(layout, inputs)), result);
  }
  return result;
}

CheckResult check_refusal(const Sample& sample, DType dtype) {
  CheckResult result;
  const Tensors inputs = arranged(sample, dtype, Layout::contiguous);
  try {
    sample.forward(inputs);
  } catch (const DTypeError&) {
    return result;
  } catch (const std::exception& error) {
    fail(result,
         {"the dtype is not listed and threw something else than a DTypeError: ", error.what()});
    return result;
  }
  fail(result, {"the dtype is not listed, but was taken"});
  return result;
}

// ---- gradients

// The gradients of a sample's inputs; computes the results that its backward reads.
Tensors gradients_of(const Sample& sample, const Tensors& grads, const Tensors& inputs) {
  if (!sample.saves_results) return sample.backward(grads, inputs);
  return sample.backward(grads, joined(inputs, sample.forward(inputs)));
}

// The incoming gradients: fixed numbers between 0.5 and 1.5.
Tensors grad_outputs_of(const Tensors& outputs, DType dtype) {
  Tensors grads;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    grads.push_back(is_float(outputs[k])
                        ? sample_uniform(outputs[k].shape(), 0.5, 1.5, 11 + k).to(dtype)
                        : Tensor());
  }
  return grads;
}

// Checks that exactly the inputs that the sample declares have a gradient. False if the number of
// gradients is wrong.
bool check_presence(const Sample& sample, const Tensors& gradients, CheckResult& result) {
  if (gradients.size() != sample.inputs.size()) {
    fail(result, {"the backward gave ", std::to_string(gradients.size()), " gradients for ",
                  std::to_string(sample.inputs.size()), " inputs"});
    return false;
  }
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    const bool wanted = is_differentiable(sample, k);
    if (gradients[k].defined() == wanted) continue;
    fail(result, {"the gradient of input ", std::to_string(k),
                  wanted ? " is undefined, but the input is differentiable"
                         : " is defined, but the input is not differentiable"});
  }
  return result.passed;
}

// Checks that a gradient has the dtype of its tensor.
void check_dtypes(const Tensors& gradients, const Tensors& of, CheckResult& result) {
  for (std::size_t k = 0; k < gradients.size() && k < of.size(); ++k) {
    if (!gradients[k].defined() || gradients[k].dtype() == of[k].dtype()) continue;
    fail(result, {"gradient ", std::to_string(k), " is ", extensor::name(gradients[k].dtype()),
                  ", of ", extensor::name(of[k].dtype())});
  }
}

// Compares the gradients in a dtype and layout with those in float64 of the same dense numbers.
CheckResult check_against_float64(const Sample& sample, DType dtype, Layout layout) {
  CheckResult result;
  const Tensors inputs = arranged(sample, dtype, layout);
  const Tensors outputs = sample.forward(inputs);
  const Tensors grads = grad_outputs_of(outputs, dtype);
  const Tensors known = sample.saves_results ? joined(inputs, outputs) : inputs;
  const Tensors found = sample.backward(grads, known);
  if (!check_presence(sample, found, result)) return result;
  const std::size_t count = grads.size();
  const auto backward = [&sample, count](const Tensors& all) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
    return sample.backward(Tensors(all.begin(), middle), Tensors(middle, all.end()));
  };
  const Tensors all = in_float64(dense(joined(grads, known)));
  compare_with(found, backward, all, backward(all), allowance_of(dtype),
               std::max(sample.cancelling_terms, least_magnitude(layout, all)), result);
  check_dtypes(found, inputs, result);
  return result;
}

// Compares the second gradients in a dtype and layout with those in float64, dense. They may be
// composed of several ops that each round to the dtype, and may read a rounded result, so the
// tolerance of the dtype applies to all intermediate values and to the incoming gradients.
void check_second_against_float64(const Sample& sample, DType dtype, Layout layout,
                                  CheckResult& result) {
  const Tensors inputs = arranged(sample, dtype, layout);
  const Tensors grads = grad_outputs_of(sample.forward(inputs), dtype);
  const Tensors given = grad_outputs_of(gradients_of(sample, grads, inputs), dtype);
  const Tensors found = second_gradients(sample, given, grads, inputs);
  const std::size_t first = given.size(), second = given.size() + grads.size();
  const auto double_backward = [&sample, first, second](const Tensors& all) {
    const auto a = all.begin() + static_cast<std::ptrdiff_t>(first);
    const auto b = all.begin() + static_cast<std::ptrdiff_t>(second);
    return second_gradients(sample, Tensors(all.begin(), a), Tensors(a, b), Tensors(b, all.end()));
  };
  const Tensors all = in_float64(dense(joined(joined(given, grads), inputs)));
  compare_with(
      found, double_backward, all, double_backward(all), {tolerance_of(dtype), tolerance_of(dtype)},
      std::max(2 * largest_of(given) * largest_of(grads), least_magnitude(layout, all)), result);
  check_dtypes(found, joined(grads, inputs), result);
}

// Adapts a function of many tensors to many, so that gradcheck sees one of some float64 tensors to
// one.
struct Flattened {
  std::function<Tensors(const Tensors&)> forward;
  std::function<Tensors(const Tensors&, const Tensors&)> backward;
  Tensors inputs;
  std::vector<std::size_t> moving = {};  // the inputs that have gradients

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
    for (std::size_t index : moving) {
      result.push_back(found[index].defined() ? found[index] : zeros_like(all[index]));
    }
    return result;
  }
};

void check_finite_differences(const Flattened& function, CheckResult& result) {
  Tensors moved;
  for (std::size_t index : function.moving) moved.push_back(function.inputs[index]);
  GradcheckOptions options;
  options.tolerance = finite_difference_tolerance;
  options.seed = 11;
  const GradcheckResult checked =
      gradcheck([&](const Tensors& in) { return function.flat(in); },
                [&](const Tensor& g, const Tensors& in) { return function.gradients(g, in); },
                moved, options);
  result.error = std::max(result.error, checked.worst_error);
  if (!checked.passed) fail(result, {checked.message});
}

// Finite differences are slow, so they run only for the layouts that have their own numbers; the
// others are compared with the dense gradients, far more closely.
bool has_own_numbers(Layout layout) {
  return layout == Layout::contiguous || layout == Layout::broadcast;
}

CheckResult check_gradient(const Sample& sample, DType dtype, Layout layout) {
  if (dtype != float64 || !has_own_numbers(layout)) {
    return check_against_float64(sample, dtype, layout);
  }
  CheckResult result;
  Flattened function{sample.forward,
                     [&](const Tensors& grads, const Tensors& inputs) {
                       return gradients_of(sample, grads, inputs);
                     },
                     arranged(sample, float64, layout)};
  const Tensors grads = grad_outputs_of(sample.forward(function.inputs), float64);
  if (!check_presence(sample, function.backward(grads, function.inputs), result)) return result;
  for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
    if (is_differentiable(sample, k)) function.moving.push_back(k);
  }
  check_finite_differences(function, result);
  return result;
}

// The backward as a function of grad_outputs and inputs, whose gradient is the double backward. All
// of them vary: a gradient that the double backward leaves undefined has to be 0.
CheckResult check_second_gradient(const Op& op, const Sample& sample, Layout layout) {
  CheckResult result;
  const Tensors inputs = arranged(sample, float64, layout);
  const Tensors grads = grad_outputs_of(sample.forward(inputs), float64);
  const std::size_t outputs = grads.size();
  const auto split = [outputs](const Tensors& all) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(outputs);
    return std::pair(Tensors(all.begin(), middle), Tensors(middle, all.end()));
  };
  Flattened function;
  function.inputs = joined(grads, inputs);
  function.forward = [&, split](const Tensors& all) {
    const auto [g, x] = split(all);
    return gradients_of(sample, g, x);
  };
  function.backward = [&, split](const Tensors& grad_gradients, const Tensors& all) {
    const auto [g, x] = split(all);
    return second_gradients(sample, grad_gradients, g, x);
  };
  const Tensors gradients = function.forward(function.inputs);
  if (!check_presence(sample, gradients, result)) return result;
  const Tensors found = function.backward(grad_outputs_of(gradients, float64), function.inputs);
  if (found.size() != function.inputs.size()) {
    fail(result, {"the double backward gave ", std::to_string(found.size()), " gradients for ",
                  std::to_string(function.inputs.size()), " inputs"});
    return result;
  }
  for (std::size_t k = 0; k < function.inputs.size(); ++k) {
    const bool moves = k < outputs ? is_float(grads[k]) : is_differentiable(sample, k - outputs);
    if (moves) function.moving.push_back(k);
  }
  if (has_own_numbers(layout)) check_finite_differences(function, result);
  // Reports the error in float64, in which the check is made.
  const double error = result.error;
  for (DType dtype : {float64, float32, float16, bfloat16}) {
    if (!contains(op.dtypes, dtype)) continue;
    check_second_against_float64(sample, dtype, layout, result);
  }
  if (result.passed) result.error = error;
  return result;
}

// A check that throws counts as failed.
template <class Function>
CheckResult guarded(Function&& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    CheckResult result;
    result.error = INFINITY;
    fail(result, {"threw: ", error.what()});
    return result;
  }
}

// Calls visit(sample, kind, dtype, layout) for every check.
template <class Visit>
void for_each_check(const Op& op, const CheckOptions& options, Visit&& visit) {
  for (const Sample& sample : op.samples()) {
    if (!has_dtypes(sample)) {
      if (options.values) visit(sample, CheckKind::value, float64, Layout::contiguous);
      continue;
    }
    for (DType dtype : every_dtype) {
      if (!contains(op.dtypes, dtype)) {
        if (options.values) visit(sample, CheckKind::refusal, dtype, Layout::contiguous);
        continue;
      }
      const bool floats = is_floating_point(dtype);
      if (!floats && sample.floats_only) continue;
      for (Layout layout : layouts::every_layout) {
        if (!has_layout(sample, layout)) continue;
        // Floats run in every layout; for integers one layout that is not dense is enough.
        if (!floats && layout != Layout::contiguous && layout != Layout::stepped) continue;
        if (options.values) visit(sample, CheckKind::value, dtype, layout);
        if (options.gradients && floats && sample.backward) {
          visit(sample, CheckKind::gradient, dtype, layout);
        }
        if (options.second_gradients && sample.backward && dtype == float64) {
          visit(sample, CheckKind::second_gradient, dtype, layout);
        }
      }
    }
  }
}

}  // namespace

Tensors second_gradients(const Sample& sample, const Tensors& given, const Tensors& grads,
                         const Tensors& inputs) {
  if (sample.double_backward) return sample.double_backward(given, grads, inputs);
  Tensors leaves = joined(grads, inputs), asked;
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    const bool moves =
        k < grads.size() ? is_float(leaves[k]) : is_differentiable(sample, k - grads.size());
    if (!moves) continue;
    leaves[k] = leaves[k].detach().requires_grad_();
    asked.push_back(leaves[k]);
  }
  const auto middle = leaves.begin() + static_cast<std::ptrdiff_t>(grads.size());
  const Tensors gradients =
      gradients_of(sample, Tensors(leaves.begin(), middle), Tensors(middle, leaves.end()));
  Tensors outputs, starts;
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    if (!gradients[k].defined() || !given[k].defined() || !gradients[k].requires_grad()) continue;
    outputs.push_back(gradients[k]);
    starts.push_back(given[k]);
  }
  Tensors found(leaves.size());
  if (outputs.empty()) return found;
  const Tensors of_asked =
      extensor::grad(outputs, asked, {.allow_unused = true, .grad_outputs = starts});
  for (std::size_t k = 0, next = 0; k < leaves.size(); ++k) {
    if (leaves[k].defined() && leaves[k].requires_grad()) found[k] = of_asked[next++];
  }
  return found;
}

const char* name(CheckKind kind) {
  switch (kind) {
    case CheckKind::value:
      return "value";
    case CheckKind::refusal:
      return "refusal";
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
                         return check_value(op, sample, dtype, layout);
                       case CheckKind::refusal:
                         return check_refusal(sample, dtype);
                       case CheckKind::gradient:
                         return check_gradient(sample, dtype, layout);
                       case CheckKind::second_gradient:
                         return check_second_gradient(op, sample, layout);
                     }
                     return CheckResult{};
                   });
                   report({&op, sample.label, kind, dtype, layout}, result);
                 });
}

void check_drawn(const Op& op, const std::function<std::int64_t(std::int64_t)>& below,
                 const std::function<void(const Check&, const CheckResult&)>& report) {
  // Made once per op: a random check costs less than making the samples.
  static std::map<const Op*, std::vector<Sample>> made;
  auto found = made.find(&op);
  if (found == made.end()) found = made.emplace(&op, op.samples()).first;
  const std::vector<Sample>& samples = found->second;
  if (samples.empty()) return;
  const Sample& sample =
      samples[static_cast<std::size_t>(below(static_cast<std::int64_t>(samples.size())))];
  std::vector<DType> listed;
  for (DType dtype : every_dtype) {
    if (contains(op.dtypes, dtype) && (is_floating_point(dtype) || !sample.floats_only)) {
      listed.push_back(dtype);
    }
  }
  const DType dtype =
      has_dtypes(sample)
          ? listed[static_cast<std::size_t>(below(static_cast<std::int64_t>(listed.size())))]
          : float64;
  Layout layout = layouts::every_layout[below(std::ssize(layouts::every_layout))];
  if (!has_layout(sample, layout)) layout = Layout::contiguous;
  report({&op, sample.label, CheckKind::value, dtype, layout},
         guarded([&] { return check_value(op, sample, dtype, layout); }));
  if (sample.backward && is_floating_point(dtype)) {
    report({&op, sample.label, CheckKind::gradient, dtype, layout},
           guarded([&] { return check_against_float64(sample, dtype, layout); }));
  }
}

std::int64_t count_checks(const Op& op, const CheckOptions& options) {
  std::int64_t count = 0;
  for_each_check(op, options, [&](auto&&...) { ++count; });
  return count;
}

}  // namespace extensor::op_database
