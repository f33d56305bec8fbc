#include "op_database/tolerance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "op_database/compare.h"

namespace extensor::op_database {

namespace {

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

std::vector<double> numbers(const Tensor& x) { return x.to(float64).to_vector<double>(); }

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The spacing of the subnormal numbers.
double smallest_step(DType dtype) {
  const compare::Format format = compare::format_of(dtype);
  return std::ldexp(1.0, format.min_exponent - format.digits);
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

Allowance allowance_of(DType dtype) {
  return {tolerance_of(dtype), tolerance_of(dtype == float64 ? float64 : float32)};
}

double largest_of(const Tensors& tensors) {
  double largest = 0;
  for (const Tensor& x : tensors) {
    if (!is_float(x)) continue;
    for (double value : numbers(x)) {
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    }
  }
  return largest;
}

Magnitudes magnitudes_of(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs,
                         double step, double least) {
  // The first direction changes all inputs alike. Terms that cancel show when their changes differ.
  constexpr int directions = 16;
  const Tensors at = f(inputs);
  const double jump = 1e4 * std::max({1.0, largest_of(at), largest_of(inputs)});
  Magnitudes magnitudes;
  std::vector<std::vector<double>> values;
  for (const Tensor& y : at) {
    values.push_back(is_float(y) ? numbers(y) : std::vector<double>());
    magnitudes.emplace_back(values.back().size(), least);
  }
  std::mt19937_64 engine(5);
  for (int direction = 0; direction < directions; ++direction) {
    Tensors moved;
    for (const Tensor& input : inputs) {
      moved.push_back(input);
      if (!is_float(input)) continue;
      std::vector<double> elements = numbers(input);
      for (double& x : elements) x *= direction == 0 || engine() % 2 == 0 ? 1 + step : 1 - step;
      moved.back() = from_data(elements, input.shape());
    }
    const Tensors there = f(moved);
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (!is_float(at[k])) continue;
      const std::vector<double> changed = numbers(there.at(k));
      for (std::size_t i = 0; i < changed.size(); ++i) {
        const double slope = std::fabs(changed[i] - values[k].at(i)) / step;
        if (slope < jump) magnitudes[k][i] = std::max(magnitudes[k][i], slope);
      }
    }
  }
  return magnitudes;
}

Comparison compare(const Tensors& got, const Tensors& exact, const Allowance& allowance,
                   const Magnitudes& magnitudes) {
  Comparison result;
  const auto fail = [&](std::initializer_list<std::string> parts) {
    result.error = INFINITY;
    if (result.message.empty()) result.message = joined_text(parts);
  };
  if (got.size() != exact.size()) {
    fail({std::to_string(got.size()), " results, expected ", std::to_string(exact.size())});
    return result;
  }
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::string which = "result " + std::to_string(k);
    if (got[k].defined() != exact[k].defined()) {
      fail({which, got[k].defined() ? " is there, expected none" : " is undefined"});
      continue;
    }
    if (!got[k].defined()) continue;
    if (!(got[k].shape() == exact[k].shape())) {
      fail({which, " is ", to_string(got[k].shape()), ", expected ", to_string(exact[k].shape())});
      continue;
    }
    const std::vector<double> values = numbers(got[k]), expected = numbers(exact[k]);
    const bool exactly = !is_floating_point(got[k].dtype());
    const double least = exactly ? 0 : smallest_step(got[k].dtype());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (same_number(values[i], expected[i])) continue;
      const double magnitude =
          k < magnitudes.size() && i < magnitudes[k].size() ? magnitudes[k][i] : 0;
      const double allowed =
          exactly ? 0
                  : allowance.relative * std::fabs(expected[i]) + allowance.absolute * magnitude;
      const double distance = std::fabs(values[i] - expected[i]);
      // Negated, so that a NaN fails.
      if (distance <= allowed + least) {
        result.error = std::max(result.error, allowance.relative * distance / (allowed + least));
        continue;
      }
      fail({which, ", element ", std::to_string(i), ": got ", exact_text(values[i]), ", expected ",
            exact_text(expected[i]), " ± ", exact_text(allowed)});
    }
  }
  return result;
}

std::string joined_text(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

std::string exact_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace extensor::op_database
