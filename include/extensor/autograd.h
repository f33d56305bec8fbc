// Automatic differentiation: ops on tensors that require a gradient are recorded, and backward()
// walks the record in reverse, calling the explicit *_backward functions.
//
//   Tensor w = extensor::randn({3}).requires_grad_();
//   Tensor loss = extensor::sum(extensor::square(w));
//   loss.backward();
//   w.grad();                       // 2 · w
//
//   Tensor x = extensor::full({}, 2.0).requires_grad_();
//   Tensor dx = extensor::grad(x * x * x, {x}, {.create_graph = true})[0];   // 3 · x²
//   Tensor dxx = extensor::grad(dx, {x})[0];                                 // 6 · x
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Whether this thread records. Every thread starts with true.
bool is_grad_enabled();

// Disables recording on this thread while it lives (or, with EnableGrad, enables it again).
class [[nodiscard]] GradMode {
 public:
  explicit GradMode(bool enabled);
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;
  ~GradMode();

 private:
  bool before_;
};
class [[nodiscard]] NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};
class [[nodiscard]] EnableGrad : public GradMode {
 public:
  EnableGrad() : GradMode(true) {}
};

struct GradOptions {
  bool create_graph = false;  // record the gradients too
  bool retain_graph = false;  // keep saved tensors; create_graph implies it
  bool allow_unused = false;  // return an undefined gradient, not an error, for an unused input
  std::vector<Tensor> grad_outputs{};  // one per output; an undefined one stands for 1
                                       // if the output has one element
};

// The gradients of the sum of outputs with respect to the inputs; no grad() is changed. Inputs may
// be leaves or computed.
// Errors: ValueError for an input that requires no gradient or that the outputs do not depend on,
// or for a graph that has been released; ShapeError for an output of several elements without a
// gradient, or a gradient of another shape.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});
inline std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs,
                                const GradOptions& options = {}) {
  return grad(std::vector<Tensor>{output}, inputs, options);
}

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

// Computes function(inputs) without keeping the tensors that its backward needs: backward() calls
// the function again, with the random numbers and the Autocast of the first call. This trades time
// for memory. Parameters that the function holds get gradients like its inputs, of every order.
// Errors: ValueError, from backward(), if the second call returns other outputs than the first.
std::vector<Tensor> checkpoint(const TensorFunction& function, const std::vector<Tensor>& inputs);

// function(inputs) and its derivative along `tangents`, one for each input.
struct DirectionalDerivative {
  std::vector<Tensor> outputs, tangents;
};
DirectionalDerivative jvp(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& tangents);

// function(inputs) and the gradients of the inputs for `gradients`, one for each output: Jᵀ·v. An
// undefined gradient stands for 1 if the output has one element. An input that no output depends on
// has a gradient of zeros.
struct PulledBack {
  std::vector<Tensor> outputs, gradients;
};
PulledBack vjp(const TensorFunction& function, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& gradients = {});

// The same for functions of one tensor, and their derivatives. None of them changes a grad(); the
// results are detached unless `create_graph` is set.
//
//   Tensor j = extensor::jacobian([](const Tensor& x) { return exp(x); }, x);   // [y…, x…]
//   Tensor h = extensor::hessian([](const Tensor& x) { return sum(x * x * x); }, x);
using UnaryFunction = std::function<Tensor(const Tensor& x)>;
// f(x) and J·tangent, which has the shape of f(x).
std::pair<Tensor, Tensor> jvp(const UnaryFunction& function, const Tensor& x,
                              const Tensor& tangent);
// f(x) and Jᵀ·gradient, which has the shape of x.
std::pair<Tensor, Tensor> vjp(const UnaryFunction& function, const Tensor& x,
                              const Tensor& gradient = {});
// d f(x)[i…] / d x[j…], of shape [i…, j…]; one backward pass for each element of f(x).
Tensor jacobian(const UnaryFunction& function, const Tensor& x, StrictBool create_graph = false);
// d² f(x) / d x[i…] d x[j…] of a function with one number as its result, of shape [i…, j…].
// ShapeError for another result.
Tensor hessian(const UnaryFunction& function, const Tensor& x, StrictBool create_graph = false);
// f(x) and H·direction, in two backward passes. ShapeError unless the direction has the shape of x.
std::pair<Tensor, Tensor> hvp(const UnaryFunction& function, const Tensor& x,
                              const Tensor& direction);

// While it lives, on this thread, the first NaN in the result or the gradient of an op throws a
// ValueError that names the op.
class [[nodiscard]] AnomalyMode {
 public:
  explicit AnomalyMode(bool enabled = true);
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;
  ~AnomalyMode();

 private:
  bool before_;
};

// While it lives, on this thread, backward() computes singular gradients (of divide, log, sqrt …)
// with this eps in place of default_eps. 0 follows IEEE, also in a later backward() of calls that
// were recorded meanwhile.
class [[nodiscard]] GradientEps {
 public:
  explicit GradientEps(double eps);
  GradientEps(const GradientEps&) = delete;
  GradientEps& operator=(const GradientEps&) = delete;
  ~GradientEps();

 private:
  double before_;
};

}  // namespace extensor

EXTENSOR_END_API
