#include "extensor/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/autograd.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/reduction.h"

namespace extensor {

namespace {

using detail::message;

// The offset of every element from the view's first one, in elements and row-major order.
std::vector<std::int64_t> element_offsets(const Tensor& x) {
  std::vector<std::int64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(x.numel()));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t d = x.shape().size(); d-- > 0;) {
      offset += rest % x.shape()[d] * x.strides()[d];
      rest /= x.shape()[d];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

// Copies x with its strides, so that perturbing an element does not change the caller's memory.
Tensor copy_with_layout(const Tensor& x) {
  const std::vector<std::int64_t> offsets = element_offsets(x);
  if (offsets.empty()) return x;
  const auto [low, high] = std::minmax_element(offsets.begin(), offsets.end());
  Tensor memory = zeros({*high - *low + 1}, {x.dtype(), x.device()});
  const Tensor whole = detail::strided_view("gradcheck", x, memory.shape(), {1}, *low);
  memory.copy_from(whole.detach());
  return detail::strided_view("gradcheck", memory, x.shape(), x.strides(), -*low);
}

// The elements as doubles: a pair for each complex number.
std::vector<double> numbers_of(const Tensor& x) {
  if (!is_complex(x)) return x.to(float64).to_vector<double>();
  return view_as_real(x.detach().to(complex128)).to_vector<double>();
}

// Random weights of the elements of an output, complex for a complex one.
Tensor weights_like(const Tensor& output, Generator& generator) {
  const auto draw = [&] {
    return uniform(output.shape(), 0.5, 1.5, {float64, output.device()}, generator);
  };
  if (!is_complex(output)) return draw();
  const Tensor real = draw();
  return complex(real, draw());
}

// Σ weight · y; of complex numbers the real part of Σ conj(weight) · y, whose gradient is the
// weight.
double weighted_sum(const Tensor& output, const Tensor& weights) {
  const std::vector<double> y = numbers_of(output), w = numbers_of(weights);
  long double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<long double>(y[i]) * w[i];
  return static_cast<double>(sum);
}

}  // namespace

GradcheckResult gradcheck(const ForwardFunction& forward, const BackwardFunction& backward,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  std::vector<Tensor> moved;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].dtype() != float64 && inputs[k].dtype() != complex128) {
      throw DTypeError(message("gradcheck: input ", k, " is ", inputs[k].dtype(),
                               ", must be float64 or complex128 for finite differences to mean "
                               "something"));
    }
    moved.push_back(copy_with_layout(inputs[k]));
  }
  Generator generator(options.seed, 7);
  const Tensor output = forward(moved);
  const Tensor weights = weights_like(output, generator);
  const std::vector<Tensor> gradients = backward(weights, moved);
  GradcheckResult result;
  if (gradients.size() != inputs.size()) {
    throw ValueError(message("gradcheck: the backward gave ", gradients.size(), " gradients for ",
                             inputs.size(), " inputs"));
  }
  for (std::size_t k = 0; k < moved.size(); ++k) {
    if (!(gradients[k].shape() == moved[k].shape())) {
      throw ShapeError(message("gradcheck: the gradient of input ", k, " is ", gradients[k].shape(),
                               ", the input is ", moved[k].shape()));
    }
    const std::vector<std::int64_t> offsets = element_offsets(moved[k]);
    const std::vector<double> analytic_elements = numbers_of(gradients[k].to(moved[k].dtype()));
    // Both parts of a complex number are moved, one after the other.
    const std::int64_t parts = is_complex(moved[k]) ? 2 : 1;
    // Elements of a broadcast view share memory, so their gradients add up.
    std::map<std::int64_t, double> analytic;
    for (std::size_t i = 0; i < analytic_elements.size(); ++i) {
      const auto part = static_cast<std::int64_t>(i) % parts;
      analytic[offsets[i / static_cast<std::size_t>(parts)] * parts + part] += analytic_elements[i];
    }
    for (const auto& [place, expected] : analytic) {
      // Places before the first element of a view are negative.
      const std::int64_t part = parts == 1 ? 0 : place & 1, offset = (place - part) / parts;
      Tensor element = detail::strided_view("gradcheck", moved[k], {}, {}, offset).detach();
      if (parts == 2) element = part == 0 ? real(element) : imag(element);
      const auto x = element.item<double>();
      const double h = options.step * std::max(1.0, std::fabs(x));
      const auto at = [&](double position) {
        element.fill(position);
        return weighted_sum(forward(moved), weights);
      };
      const double numeric =
          (at(x - 2 * h) - 8 * at(x - h) + 8 * at(x + h) - at(x + 2 * h)) / (12 * h);
      element.fill(x);
      const double error =
          std::fabs(expected - numeric) / std::max({1.0, std::fabs(expected), std::fabs(numeric)});
      if (error <= result.worst_error) continue;  // NaN compares false and falls through
      result.worst_error = error;
      if (error <= options.tolerance) continue;
      result.passed = false;
      result.message = message("gradcheck: input ", k, ", element at offset ", offset,
                               parts == 1  ? " (x = "
                               : part == 0 ? " (real x = "
                                           : " (imaginary x = ",
                               x, "): the backward says ", expected, ", finite differences say ",
                               numeric, " (relative error ", error, ")");
    }
  }
  return result;
}

namespace {

Tensor as_float64(const char* operation, const Tensor& x) {
  if (!is_floating_point(x.dtype())) {
    throw DTypeError(message(operation, ": x is ", x.dtype(), ", must be a float dtype"));
  }
  return x.to(float64);
}

}  // namespace

Tensor numerical_gradient(const std::function<Tensor(const Tensor&)>& function, const Tensor& x,
                          StrictDouble eps) {
  constexpr const char* operation = "numerical_gradient";
  if (!(eps > 0) || !std::isfinite(eps)) {
    throw ValueError(message(operation, ": eps is ", eps, ", must be finite and greater than 0"));
  }
  const NoGrad off;
  Tensor moved = as_float64(operation, x).clone(MemoryFormat::contiguous);
  const Tensor elements = moved.reshape({moved.numel()});
  std::vector<double> differences(static_cast<std::size_t>(moved.numel()));
  for (std::int64_t i = 0; i < moved.numel(); ++i) {
    Tensor element = elements[i];
    const auto value = element.item<double>();
    const auto at = [&](double position) {
      element.fill(position);
      return sum(function(moved)).item<double>();
    };
    differences[static_cast<std::size_t>(i)] = (at(value + eps) - at(value - eps)) / (2 * eps);
    element.fill(value);
  }
  return from_data(differences, x.shape()).to(x.device(), x.dtype());
}

bool check_gradient(
    const std::function<Tensor(const Tensor&)>& forward,
    const std::function<Tensor(const Tensor& grad_output, const Tensor& x)>& backward,
    const Tensor& x, StrictDouble eps, StrictDouble rtol) {
  const auto check =
      gradcheck([&](const std::vector<Tensor>& in) { return forward(in[0]); },
                [&](const Tensor& g, const std::vector<Tensor>& in) {
                  return std::vector<Tensor>{backward(g, in[0])};
                },
                {as_float64("check_gradient", x).detach()}, {.tolerance = rtol, .step = eps});
  return check.passed;
}

}  // namespace extensor
