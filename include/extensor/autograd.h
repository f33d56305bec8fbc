// Automatic differentiation: ops on tensors that require a gradient are recorded, and backward()
// goes back through the record, calling the explicit *_backward functions.
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
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Whether this thread records. Every thread begins with true.
bool is_grad_enabled();

// While it lives, this thread records nothing (or, with EnableGrad, does so again).
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
  bool retain_graph = false;  // keep what was saved; create_graph does so as well
  bool allow_unused = false;  // an input that no output depends on: undefined, not an error
  std::vector<Tensor> grad_outputs{};  // one for each output; where undefined, 1 for an output of
                                       // one number
};

// The gradients of the sum of outputs with respect to the inputs; no grad() is touched. Inputs may
// be leaves or computed.
// Errors: ValueError for an input that requires no gradient or that the outputs do not depend on,
// for a graph that has been let go; ShapeError for an output that is not one number and has no
// gradient, or one of another shape.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});
inline std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs,
                                const GradOptions& options = {}) {
  return grad(std::vector<Tensor>{output}, inputs, options);
}

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

// function(inputs) without keeping what its backward needs. On the way back the function is called
// again, with the random numbers and the Autocast of the first call. Memory for time.
// Parameters that the function holds get gradients like its inputs, of every order.
// Errors: ValueError, on the way back, when the second call gives other outputs than the first.
std::vector<Tensor> checkpoint(const TensorFunction& function, const std::vector<Tensor>& inputs);

// function(inputs) and the derivative of it along `tangents`, one for each input.
struct DirectionalDerivative {
  std::vector<Tensor> outputs, tangents;
};
DirectionalDerivative jvp(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& tangents);

// While it lives, on this thread, the first NaN that an op gives, or the gradient of an op, is a
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
// with this eps in place of default_eps; 0 is IEEE, also for a later backward() of what is recorded
// meanwhile.
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
