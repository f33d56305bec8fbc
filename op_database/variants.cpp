#include "op_database/variants.h"

#include <algorithm>
#include <cmath>

namespace extensor::op_database {

namespace {

using layouts::Layout;

bool is_float(const Tensor& x) { return x.defined() && is_floating_point(x.dtype()); }

Tensor converted(const Sample& sample, std::size_t input, DType dtype) {
  const Tensor& x = sample.inputs[input];
  if (is_floating_point(dtype)) return x.to(dtype);
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values) {
    const double whole =
        sample.integer_of ? sample.integer_of(input, value) : std::round(3 * value);
    value = is_unsigned_integer(dtype) ? std::fabs(whole) : whole;
    if (dtype == bool_) value = value > 0 ? 1 : 0;
  }
  return from_data(values, x.shape()).to(dtype);
}

}  // namespace

bool has_dtypes(const Sample& sample) { return std::ranges::any_of(sample.inputs, is_float); }

bool has_layout(const Sample& sample, Layout layout) {
  if (layout == Layout::contiguous) return true;
  if (layout == Layout::broadcast && sample.rows_must_differ) return false;
  return std::ranges::any_of(sample.inputs, [&](const Tensor& x) {
    return is_float(x) && layouts::is_distinct(layout, x.shape());
  });
}

Tensors arranged(const Sample& sample, DType dtype, Layout layout) {
  Tensors result;
  for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
    const Tensor& input = sample.inputs[k];
    if (!input.defined()) {
      result.push_back(input);
      continue;
    }
    Tensor x = is_float(input) ? converted(sample, k, dtype) : input;
    const Shape shape = x.shape();
    if (layout == Layout::broadcast) {
      // A broadcast layout repeats values, which indices and masks must not do.
      if (is_float(input) && layouts::is_distinct(layout, shape)) {
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

Tensor wrapped(const Tensor& exact, DType dtype) {
  if (is_floating_point(dtype)) return exact;
  std::vector<double> values = exact.to(float64).to_vector<double>();
  const double range = std::ldexp(1.0, static_cast<int>(itemsize(dtype)) * 8);
  const double lowest = is_signed_integer(dtype) ? -range / 2 : 0;
  for (double& value : values) {
    if (dtype == bool_) {
      value = value != 0 ? 1 : 0;
    } else if (value < lowest || value >= lowest + range) {
      value -= range * std::floor((value - lowest) / range);
    }
  }
  return from_data(values, exact.shape());
}

}  // namespace extensor::op_database
