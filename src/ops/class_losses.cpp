// Cross-entropy and negative log-likelihood over classes.
#include "backend/backend.h"
#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/embedding.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/loss_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::ClassLossCall;
using detail::message;
using namespace ops;

// Moves the class axis to the end, flattens the others to rows, and back.
class ClassRows {
 public:
  ClassRows(const char* operation, const char* argument, const Tensor& x) : shape_(x.shape()) {
    const auto rank = static_cast<std::int64_t>(shape_.size());
    if (rank == 0) {
      throw ShapeError(message(operation, ": ", argument, " is ", shape_,
                               ", needs an axis of classes: [classes] or [n, classes, …]"));
    }
    axis_ = rank == 1 ? 0 : 1;
    classes_ = shape_[static_cast<std::size_t>(axis_)];
    for (std::int64_t d = 0; d < rank; ++d) {
      if (d == axis_) continue;
      row_shape_.push_back(shape_[static_cast<std::size_t>(d)]);
      rows_ *= shape_[static_cast<std::size_t>(d)];
      last_.push_back(d);
    }
    last_.push_back(axis_);
  }

  const Shape& row_shape() const { return row_shape_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t classes() const { return classes_; }
  std::int64_t axis() const { return axis_; }

  Tensor to_rows(const Tensor& x) const {
    return x.transpose(last_).contiguous().reshape({rows_, classes_});
  }
  Tensor from_rows(const Tensor& rows) const {
    Shape moved = row_shape_;
    moved.push_back(classes_);
    Dims back(last_.size(), 0);
    for (std::size_t d = 0; d < last_.size(); ++d) {
      back[static_cast<std::size_t>(last_[d])] = static_cast<std::int64_t>(d);
    }
    return rows.reshape(moved).transpose(back).contiguous();
  }

 private:
  Shape shape_, row_shape_;
  Dims last_;  // the axes, with the class axis last
  std::int64_t axis_ = 0, rows_ = 1, classes_ = 0;
};

// Checked, dense arguments of a loss over classes.
struct ClassOperands {
  ClassRows layout;
  DType dtype;
  Tensor x, indices, probabilities, weight;

  ClassOperands(const char* operation, const char* argument, const Tensor& input,
                const Tensor& target, const Tensor& class_weight, std::int64_t ignore_index,
                bool may_be_probabilities)
      : layout(operation, argument, input) {
    dtype = is_floating_point(input.dtype()) ? input.dtype() : default_float;
    const bool is_float = is_floating_point(target.dtype());
    if (is_float && may_be_probabilities) {
      dtype = promote_types(dtype, target.dtype(), operation);
      check_shape(operation, "a target of probabilities", target, input.shape());
      probabilities = layout.to_rows(target.to(dtype));
    } else {
      // Check the dtype first: the shape of a float target is not meaningful.
      if (is_float) {
        throw DTypeError(message(operation, ": target is ", target.dtype(),
                                 ", must be an integer dtype: class indices"));
      }
      if (is_integer(target.dtype())) {
        check_shape(operation, "a target of class indices", target, layout.row_shape());
      }
      indices = checked_indices(operation, target,
                                {.size = layout.classes(),
                                 .counted = "classes",
                                 .argument = "target",
                                 .ignored = ignore_index});
    }
    if (class_weight.defined()) {
      check_shape(operation, "weight", class_weight, {layout.classes()});
      weight = class_weight.to(compute_dtype(dtype)).contiguous();
    }
    x = layout.to_rows(input.to(dtype));
  }

  ClassLossCall call(bool softmax, Reduction reduction, std::int64_t ignore_index,
                     double label_smoothing) const {
    ClassLossCall call{};
    call.softmax = softmax;
    call.reduction = loss_reduction(reduction);
    call.dtype = dtype;
    call.rows = layout.rows();
    call.classes = layout.classes();
    call.x = detail::dense_data(x);
    call.indices = indices.defined() ? detail::kernel_pointer<std::int64_t>(indices) : nullptr;
    call.probabilities = probabilities.defined() ? detail::dense_data(probabilities) : nullptr;
    call.weight = weight.defined() ? detail::dense_data(weight) : nullptr;
    call.ignore_index = ignore_index;
    call.label_smoothing = label_smoothing;
    return call;
  }

 private:
  static void check_shape(const char* operation, const char* what, const Tensor& given,
                          const Shape& expected) {
    if (given.shape() == expected) return;
    throw ShapeError(message(operation, ": ", what, " is ", given.shape(), ", must be ", expected));
  }
};

Tensor run_forward(const Run& run, const ClassOperands& operands, ClassLossCall call,
                   Reduction reduction) {
  Tensor result = run.empty(loss_shape(operands.layout.row_shape(), reduction), operands.dtype);
  call.out = result.impl().data;
  run.kernels().class_loss(call);
  return result;
}

// The gradients of x and, if requested, of a target of probabilities.
Results run_backward(const Run& run, const Tensor& grad_output, const ClassOperands& operands,
                     ClassLossCall call, Reduction reduction, bool target_gradient) {
  const ClassRows& layout = operands.layout;
  const Tensor g =
      loss_gradient_input(run.name(), grad_output, layout.row_shape(), reduction, operands.dtype);
  const Shape shape{layout.rows(), layout.classes()};
  Results results(2);
  results[0] = run.empty(shape, operands.dtype);
  if (operands.probabilities.defined() && target_gradient) {
    results[1] = run.empty(shape, operands.dtype);
    call.gradient_probabilities = results[1].impl().data;
  }
  call.g = detail::dense_data(g);
  call.gradient_x = results[0].impl().data;
  if (results[0].numel() != 0) run.kernels().class_loss(call);
  for (Tensor& gradient : results) {
    if (gradient.defined()) gradient = layout.from_rows(gradient);
  }
  return results;
}

// ---- cross-entropy

struct CrossEntropyAttributes {
  Reduction reduction;
  std::int64_t ignore_index;
  double label_smoothing;
};

struct CrossEntropyBackwardAttributes {
  Reduction reduction;
  std::int64_t ignore_index;
  double label_smoothing;
  bool target_gradient;
};

// The loss and the statistics of rows, which save the gradient one pass over the logits.
template <bool with_statistics>
Results cross_entropy_forward(const Run& run, const CrossEntropyAttributes& attributes,
                              const Tensor& logits, const Tensor& target, const Tensor& weight) {
  const auto& [reduction, ignore_index, smoothing] = attributes;
  check_label_smoothing(run.name(), smoothing);
  const ClassOperands operands(run.name(), "logits", logits, target, weight, ignore_index, true);
  ClassLossCall call = operands.call(true, reduction, ignore_index, smoothing);
  Results results(2);
  if (with_statistics || run.recorded) {
    results[1] = run.empty({operands.layout.rows(), 2}, DType::float64);
    call.statistics = detail::kernel_pointer<double>(results[1]);
  }
  results[0] = run_forward(run, operands, call, reduction);
  return results;
}

Gradients cross_entropy_gradient(const GradientCall& call,
                                 const CrossEntropyAttributes& attributes) {
  const auto& [reduction, ignore_index, smoothing] = attributes;
  return cross_entropy_backward(call.grad(), call.input(0), call.input(1), call.input(2), reduction,
                                ignore_index, smoothing, call.needs(1), call.result(1));
}

Results cross_entropy_backward_forward(const Run& run,
                                       const CrossEntropyBackwardAttributes& attributes,
                                       const Tensor& grad_output, const Tensor& logits,
                                       const Tensor& target, const Tensor& weight,
                                       const Tensor& statistics) {
  const auto& [reduction, ignore_index, smoothing, target_gradient] = attributes;
  check_label_smoothing(run.name(), smoothing);
  check_float(run.name(), "logits", logits);
  const ClassOperands operands(run.name(), "logits", logits, target, weight, ignore_index, true);
  ClassLossCall call = operands.call(true, reduction, ignore_index, smoothing);
  Tensor saved;
  if (statistics.defined()) {
    const Shape expected{operands.layout.rows(), 2};
    if (!(statistics.shape() == expected) || statistics.dtype() != DType::float64) {
      throw ShapeError(message(run.name(), ": statistics are ", statistics.dtype(), " ",
                               statistics.shape(), ", the forward gave float64 ", expected));
    }
    saved = statistics.contiguous();
    call.statistics = detail::kernel_pointer<double>(saved);
  }
  Results results = run_backward(run, grad_output, operands, call, reduction, target_gradient);
  results[0] = results[0].to(logits.dtype());
  if (results[1].defined()) results[1] = results[1].to(target.dtype());
  return results;
}

// With p = softmax(logits), the smoothed and weighted target t, its row total T, and grad_output
// scaled by the reduction to f: grad_logits = f (T p − t), and for a target of probabilities
// grad_target = −f (1 − smoothing) weight log p.
Gradients cross_entropy_backward_gradient(const GradientCall& call,
                                          const CrossEntropyBackwardAttributes& attributes) {
  const auto& [reduction, ignore_index, smoothing, target_gradient] = attributes;
  const Tensor &logits = call.input(1), &target = call.input(2), &weight = call.input(3);
  const ClassOperands operands(call.name(), "logits", logits, target, weight, ignore_index, true);
  const ClassRows& layout = operands.layout;
  const bool of_probabilities = operands.probabilities.defined();
  const auto rows = layout.rows(), classes = layout.classes();
  if (classes == 0) {
    return {zeros_like(call.input(0)), zeros_like(logits),
            of_probabilities ? zeros_like(target) : Tensor()};
  }
  const DType wide = compute_dtype(operands.dtype);
  const auto as_rows = [&](const Tensor& gradient) { return layout.to_rows(gradient.to(wide)); };
  const Tensor a = call.grad(0).defined() ? as_rows(call.grad(0)) : zeros_like(operands.x.to(wide));
  const Tensor g = call.input(0).to(wide), x = operands.x.to(wide);

  // The total target of each row, [rows, 1], and the divisor of the mean.
  const Tensor weights = operands.weight.defined() ? operands.weight.to(wide)
                                                   : ones({classes}, {wide, operands.x.device()});
  Tensor total, divisor;
  if (!of_probabilities) {
    const Tensor flat = operands.indices.reshape({rows});
    const Tensor kept = not_equal(flat, ignore_index);
    const Tensor named =
        multiply(embedding(weights.reshape({classes, 1}),
                           where(kept, flat, zeros({}, {DType::int64, cpu_device}))),
                 kept.to(wide).reshape({rows, 1}));
    const Tensor smoothed = multiply(mean(weights), smoothing);
    total = multiply(named, 1 - smoothing) + multiply(smoothed, kept.to(wide).reshape({rows, 1}));
    divisor = sum(named);
  } else {
    const Tensor smoothed = multiply(operands.probabilities.to(wide), 1 - smoothing) +
                            smoothing / static_cast<double>(classes);
    total = sum(smoothed * weights, 1, true);
    divisor = full({}, static_cast<double>(rows), {wide, cpu_device});
  }
  Tensor f = reduction == Reduction::none ? g.reshape({rows, 1}) : g;
  if (reduction == Reduction::mean)
    f = f / where(equal(divisor, 0), ones({}, {wide, cpu_device}), divisor);

  const auto unit = cross_entropy_backward(ones_like(g), layout.from_rows(x), target, weight,
                                           reduction, ignore_index, smoothing);
  const Tensor p = softmax(x);
  Tensor product = as_rows(unit.first) * a;
  Tensor of_logits = softmax_backward(a, p) * (f * total), of_target;
  if (of_probabilities) {
    const Tensor scaled = f * weights * (1 - smoothing);
    if (call.grad(1).defined()) {
      const Tensor b = as_rows(call.grad(1));
      product = product + as_rows(unit.second) * b;
      of_logits = of_logits - log_softmax_backward(b * scaled, log_softmax(x));
    }
    of_target = layout.from_rows((sum(a * p, 1, true) - a) * scaled);
  }
  const Tensor of_output =
      reduction == Reduction::none ? sum(product, 1).reshape(layout.row_shape()) : sum(product);
  return {of_output, layout.from_rows(of_logits), of_target};
}

constexpr Reads classes_read = input(0) | input(1) | input(2) | result(1);
constexpr auto cross_entropy_op = define<cross_entropy_forward<false>, cross_entropy_gradient>(
    {.name = "cross_entropy",
     .inputs = {"logits", "target", "weight"},
     .reads = {classes_read, classes_read, no_gradient},
     .cast = Cast::up,
     .optional = 1 << 2});
constexpr auto cross_entropy_with_statistics_op =
    define<cross_entropy_forward<true>, cross_entropy_gradient>(
        {.name = "cross_entropy_with_statistics",
         .inputs = {"logits", "target", "weight"},
         .reads = {classes_read, classes_read, no_gradient},
         .optional = 1 << 2});

constexpr Reads backward_read = input(0) | input(1) | input(2) | input(3);
constexpr auto cross_entropy_backward_op =
    define<cross_entropy_backward_forward, cross_entropy_backward_gradient>(
        {.name = "cross_entropy_backward",
         .inputs = {"grad_output", "logits", "target", "weight", "statistics"},
         .reads = {backward_read, backward_read, backward_read, no_gradient, no_gradient},
         .optional = 1 << 3 | 1 << 4});

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     Reduction reduction, StrictInt ignore_index, StrictDouble label_smoothing) {
  return dispatch(cross_entropy_op, {reduction, ignore_index, label_smoothing}, logits, target,
                  weight)[0];
}

std::pair<Tensor, Tensor> cross_entropy_with_statistics(const Tensor& logits, const Tensor& target,
                                                        const Tensor& weight, Reduction reduction,
                                                        StrictInt ignore_index,
                                                        StrictDouble label_smoothing) {
  const Results results =
      dispatch(cross_entropy_with_statistics_op, {reduction, ignore_index, label_smoothing}, logits,
               target, weight);
  return {results[0], results[1].detach()};  // statistics have no gradient
}

std::pair<Tensor, Tensor> cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                                                 const Tensor& target, const Tensor& weight,
                                                 Reduction reduction, StrictInt ignore_index,
                                                 StrictDouble label_smoothing,
                                                 StrictBool target_gradient,
                                                 const Tensor& statistics) {
  const Results results = dispatch(cross_entropy_backward_op,
                                   {reduction, ignore_index, label_smoothing, target_gradient},
                                   grad_output, logits, target, weight, statistics);
  return {results[0], results[1]};
}

// ---- negative log-likelihood

namespace {

struct NllAttributes {
  Reduction reduction;
  std::int64_t ignore_index;
};

Tensor nll_forward(const Run& run, const NllAttributes& attributes, const Tensor& x,
                   const Tensor& target, const Tensor& weight) {
  const auto& [reduction, ignore_index] = attributes;
  const ClassOperands operands(run.name(), "x", x, target, weight, ignore_index, false);
  return run_forward(run, operands, operands.call(false, reduction, ignore_index, 0), reduction);
}

Gradients nll_gradient(const GradientCall& call, const NllAttributes& attributes) {
  return nll_loss_backward(call.grad(), call.input(0), call.input(1), call.input(2),
                           attributes.reduction, attributes.ignore_index);
}

Tensor nll_backward_forward(const Run& run, const NllAttributes& attributes,
                            const Tensor& grad_output, const Tensor& x, const Tensor& target,
                            const Tensor& weight) {
  const auto& [reduction, ignore_index] = attributes;
  check_float(run.name(), "x", x);
  const ClassOperands operands(run.name(), "x", x, target, weight, ignore_index, false);
  const ClassLossCall call = operands.call(false, reduction, ignore_index, 0);
  return run_backward(run, grad_output, operands, call, reduction, false)[0].to(x.dtype());
}

// The loss is linear in x, so the gradient of grad_output is the loss of v; only the shape of x is
// used.
Gradients nll_backward_gradient(const GradientCall& call, const NllAttributes& attributes) {
  const Tensor& v = call.grad();
  return nll_loss(v.to(compute_dtype(v.dtype())), call.input(2), call.input(3),
                  attributes.reduction, attributes.ignore_index);
}

constexpr auto nll_loss_op = define<nll_forward, nll_gradient>(
    {.name = "nll_loss",
     .inputs = {"x", "target", "weight"},
     .reads = {input(0) | input(1) | input(2), no_gradient, no_gradient},
     .cast = Cast::up,
     .optional = 1 << 2});
constexpr auto nll_loss_backward_op = define<nll_backward_forward, nll_backward_gradient>(
    {.name = "nll_loss_backward",
     .inputs = {"grad_output", "x", "target", "weight"},
     .reads = {input(2) | input(3), no_gradient, no_gradient, no_gradient},
     .optional = 1 << 3});

}  // namespace

Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Reduction reduction,
                StrictInt ignore_index) {
  return dispatch(nll_loss_op, {reduction, ignore_index}, x, target, weight);
}
Tensor nll_loss_backward(const Tensor& grad_output, const Tensor& x, const Tensor& target,
                         const Tensor& weight, Reduction reduction, StrictInt ignore_index) {
  return dispatch(nll_loss_backward_op, {reduction, ignore_index}, grad_output, x, target, weight);
}

constinit const OpList ops::class_loss_ops =
    listed<cross_entropy_op, cross_entropy_with_statistics_op, cross_entropy_backward_op,
           nll_loss_op, nll_loss_backward_op>;

}  // namespace extensor
