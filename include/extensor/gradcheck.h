// Checks an explicit backward against finite differences of its forward.
//
//   auto result = extensor::gradcheck(
//       [](const std::vector<Tensor>& in) { return extensor::exp(in[0]); },
//       [](const Tensor& g, const std::vector<Tensor>& in) {
//         return std::vector<Tensor>{extensor::exp_backward(g, extensor::exp(in[0]))};
//       },
//       {x});
//   if (!result) std::cerr << result.message;
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct GradcheckOptions {
  double tolerance = 1e-6;  // relative to the largest of 1 and the gradient's magnitude
  double step = 1e-3;       // of the fourth-order central difference, relative to max(1, |x|)
  std::uint64_t seed = 0;   // of the random grad_output
};

struct GradcheckResult {
  bool passed = true;
  double worst_error = 0;
  std::string message;  // which input, which element, analytic and numeric value
  explicit operator bool() const { return passed; }
};

using ForwardFunction = std::function<Tensor(const std::vector<Tensor>&)>;
// The gradients of all inputs, in order.
using BackwardFunction =
    std::function<std::vector<Tensor>(const Tensor& grad_output, const std::vector<Tensor>&)>;

// Inputs are float64, of any layout; each element is moved in a copy of the same layout. The
// backward's gradients are compared, element by element, with the differences of Σ forward · g.
GradcheckResult gradcheck(const ForwardFunction& forward, const BackwardFunction& backward,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

// ---- functions of one tensor

// Central differences of the sum of function(x), one for each element: (f(x + eps) − f(x − eps)) /
// (2 · eps). Computed in float64 if the function allows it: x is converted, and the result has its
// dtype. DTypeError unless x is a float, ValueError unless eps is greater than 0.
Tensor numerical_gradient(const std::function<Tensor(const Tensor& x)>& function, const Tensor& x,
                          StrictDouble eps = 1e-5);

// Whether backward(grad_output, x) agrees with finite differences of the forward, within rtol
// relative to the largest of 1 and the gradient's magnitude. x may have any float dtype; the check
// runs in float64. gradcheck() also says where they differ.
bool check_gradient(
    const std::function<Tensor(const Tensor& x)>& forward,
    const std::function<Tensor(const Tensor& grad_output, const Tensor& x)>& backward,
    const Tensor& x, StrictDouble eps = 1e-3, StrictDouble rtol = 1e-6);

}  // namespace extensor

EXTENSOR_END_API
