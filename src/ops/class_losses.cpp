// Cross-entropy and negative log-likelihood over classes.
#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/embedding.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "ops/autocast.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/loss_support.h"

namespace extensor {

using backend::ClassLossCall;
using detail::message;

namespace {

// The class axis moves to the end and the others become rows, and back.
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
  Dims last_;  // the axes, that of the classes last
  std::int64_t axis_ = 0, rows_ = 1, classes_ = 0;
};

// Checked and dense arguments of a loss over classes.
struct ClassOperands {
  ClassRows layout;
  DType dtype;
  Tensor x, indices, probabilities, weight;

  ClassOperands(const char* operation, const char* argument, const Tensor& input,
                const Tensor& target, const Tensor& class_weight, std::int64_t ignore_index,
                bool may_be_probabilities)
      : layout(operation, argument, input) {
    const ops::Source both[] = {input, target};
    ops::common_device(operation, both);
    dtype = is_floating_point(input.dtype()) ? input.dtype() : default_float;
    const bool is_float = is_floating_point(target.dtype());
    if (is_float && may_be_probabilities) {
      dtype = promote_types(dtype, target.dtype(), operation);
      check_shape(operation, "a target of probabilities", target, input.shape());
      probabilities = layout.to_rows(target.to(dtype));
    } else {
      // The dtype first: of a float target the shape says nothing.
      if (is_float) {
        throw DTypeError(message(operation, ": target is ", target.dtype(),
                                 ", must be an integer dtype: class indices"));
      }
      if (is_integer(target.dtype())) {
        check_shape(operation, "a target of class indices", target, layout.row_shape());
      }
      indices = ops::checked_indices(operation, target,
                                     {.size = layout.classes(),
                                      .counted = "classes",
                                      .argument = "target",
                                      .ignored = ignore_index});
    }
    if (class_weight.defined()) {
      check_shape(operation, "weight", class_weight, {layout.classes()});
      const ops::Source weighted[] = {input, class_weight};
      ops::common_device(operation, weighted);
      weight = class_weight.to(ops::compute_dtype(dtype)).contiguous();
    }
    x = layout.to_rows(input.to(dtype));
  }

  ClassLossCall call(bool softmax, Reduction reduction, std::int64_t ignore_index,
                     double label_smoothing) const {
    ClassLossCall call{};
    call.softmax = softmax;
    call.reduction = ops::loss_reduction(reduction);
    call.dtype = dtype;
    call.rows = layout.rows();
    call.classes = layout.classes();
    call.x = x.impl().data;
    call.indices = indices.defined() ? indices.data<std::int64_t>() : nullptr;
    call.probabilities = probabilities.defined() ? probabilities.impl().data : nullptr;
    call.weight = weight.defined() ? weight.impl().data : nullptr;
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

Tensor forward(const char* operation, const ClassOperands& operands, ClassLossCall call,
               Reduction reduction) {
  Tensor result =
      detail::make_empty(operation, ops::loss_shape(operands.layout.row_shape(), reduction),
                         operands.dtype, operands.x.device());
  call.out = result.impl().data;
  backend::backend_for(operands.x.device()).class_loss(call);
  return result;
}

std::pair<Tensor, Tensor> backward(const char* operation, const Tensor& grad_output,
                                   const ClassOperands& operands, ClassLossCall call,
                                   Reduction reduction, bool target_gradient) {
  const ClassRows& layout = operands.layout;
  const Tensor g = ops::loss_gradient_input(operation, grad_output, layout.row_shape(), reduction,
                                            operands.dtype);
  const Shape shape{layout.rows(), layout.classes()};
  Tensor grad_x = detail::make_empty(operation, shape, operands.dtype, operands.x.device());
  Tensor grad_target;
  if (operands.probabilities.defined() && target_gradient) {
    grad_target = detail::make_empty(operation, shape, operands.dtype, operands.x.device());
    call.gradient_probabilities = grad_target.impl().data;
  }
  call.g = g.impl().data;
  call.gradient_x = grad_x.impl().data;
  if (grad_x.numel() != 0) backend::backend_for(operands.x.device()).class_loss(call);
  return {layout.from_rows(grad_x),
          grad_target.defined() ? layout.from_rows(grad_target) : grad_target};
}

void check_smoothing(const char* operation, double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return;
  throw ValueError(
      message(operation, ": label_smoothing is ", label_smoothing, ", must be in [0, 1]"));
}

}  // namespace

// ---- cross-entropy
// ---------------------------------------------------------------------------------

namespace {

// The loss, and the rows' statistics where they are asked for.
std::pair<Tensor, Tensor> cross_entropy_forward(const char* operation, const Tensor& logits,
                                                const Tensor& target, const Tensor& weight,
                                                Reduction reduction, std::int64_t ignore_index,
                                                double label_smoothing, bool with_statistics) {
  if (detail::records(logits, target)) {
    auto [loss, statistics] = detail::unrecorded([&] {
      return cross_entropy_forward(operation, logits, target, weight, reduction, ignore_index,
                                   label_smoothing, true);
    });
    loss = detail::record(
        "cross_entropy", {logits, target}, std::move(loss),
        [logits = detail::Saved(logits), target = detail::Saved(target),
         weight = detail::Saved(weight), statistics = detail::Saved(statistics), reduction,
         ignore_index, label_smoothing](const Tensor& g, detail::Node& node) -> detail::Gradients {
          return cross_entropy_backward(g, logits.get(node), target.get(node), weight.get(node),
                                        reduction, ignore_index, label_smoothing, node.needs(1),
                                        statistics.get(node));
        });
    return {loss, statistics};
  }
  check_smoothing(operation, label_smoothing);
  const ClassOperands operands(operation, "logits", logits, target, weight, ignore_index, true);
  ClassLossCall call = operands.call(true, reduction, ignore_index, label_smoothing);
  Tensor statistics;
  if (with_statistics) {
    statistics =
        detail::make_empty(operation, {operands.layout.rows(), 2}, DType::float64, logits.device());
    call.statistics = statistics.data<double>();
  }
  return {forward(operation, operands, call, reduction), statistics};
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     Reduction reduction, StrictInt ignore_index, StrictDouble label_smoothing) {
  return cross_entropy_forward("cross_entropy", ops::raised(logits), ops::raised(target), weight,
                               reduction, ignore_index, label_smoothing, false)
      .first;
}

std::pair<Tensor, Tensor> cross_entropy_with_statistics(const Tensor& logits, const Tensor& target,
                                                        const Tensor& weight, Reduction reduction,
                                                        StrictInt ignore_index,
                                                        StrictDouble label_smoothing) {
  return cross_entropy_forward("cross_entropy_with_statistics", logits, target, weight, reduction,
                               ignore_index, label_smoothing, true);
}

std::pair<Tensor, Tensor> cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                                                 const Tensor& target, const Tensor& weight,
                                                 Reduction reduction, StrictInt ignore_index,
                                                 StrictDouble label_smoothing,
                                                 StrictBool target_gradient,
                                                 const Tensor& statistics) {
  if (detail::records(grad_output, logits, target)) {
    const std::vector<Tensor> gradients = detail::recorded_all(
        "cross_entropy_backward",
        [&] {
          auto [of_logits, of_target] =
              cross_entropy_backward(grad_output, logits, target, weight, reduction, ignore_index,
                                     label_smoothing, target_gradient, statistics);
          return std::vector{of_logits, of_target};
        },
        [weight = detail::Saved(weight), reduction, ignore_index, label_smoothing](
            const detail::Gradients& v, const detail::Node& node, const Tensor& g,
            const Tensor& logits, const Tensor& target) -> detail::Gradients {
          const LossSecondGradients second =
              cross_entropy_double_backward(v[0], v[1], g, logits, target, weight.get(node),
                                            reduction, ignore_index, label_smoothing);
          return {second.grad_output, second.input, second.target};
        },
        grad_output, logits, target);
    return {gradients[0], gradients[1]};
  }
  check_smoothing("cross_entropy_backward", label_smoothing);
  ops::check_float("cross_entropy_backward", "logits", logits);
  const ClassOperands operands("cross_entropy_backward", "logits", logits, target, weight,
                               ignore_index, true);
  ClassLossCall call = operands.call(true, reduction, ignore_index, label_smoothing);
  Tensor saved;
  if (statistics.defined()) {
    const Shape expected{operands.layout.rows(), 2};
    if (!(statistics.shape() == expected) || statistics.dtype() != DType::float64) {
      throw ShapeError(message("cross_entropy_backward: statistics are ", statistics.dtype(), " ",
                               statistics.shape(), ", the forward gave float64 ", expected));
    }
    const ops::Source both[] = {logits, statistics};
    ops::common_device("cross_entropy_backward", both);
    saved = statistics.contiguous();
    call.statistics = saved.data<double>();
  }
  const auto [grad_logits, grad_target] =
      backward("cross_entropy_backward", grad_output, operands, call, reduction, target_gradient);
  return {grad_logits.to(logits.dtype()),
          grad_target.defined() ? grad_target.to(target.dtype()) : grad_target};
}

// With p = softmax(logits), t the smoothed and weighted target, T its total over a row and f =
// grad_output as the reduction scales it: grad_logits = f (T p − t), and grad_target, of
// probabilities, −f (1 − smoothing) weight log p.
LossSecondGradients cross_entropy_double_backward(const Tensor& grad_grad_logits,
                                                  const Tensor& grad_grad_target,
                                                  const Tensor& grad_output, const Tensor& logits,
                                                  const Tensor& target, const Tensor& weight,
                                                  Reduction reduction, StrictInt ignore_index,
                                                  StrictDouble label_smoothing) {
  const char* operation = "cross_entropy_double_backward";
  check_smoothing(operation, label_smoothing);
  ops::check_float(operation, "logits", logits);
  const ClassOperands operands(operation, "logits", logits, target, weight, ignore_index, true);
  const ClassRows& layout = operands.layout;
  const bool of_probabilities = operands.probabilities.defined();
  if (grad_grad_target.defined() && !of_probabilities) {
    throw ValueError(
        message(operation, ": grad_grad_target is given, but class indices have no gradient"));
  }
  const DType wide = ops::compute_dtype(operands.dtype);
  // As rows; undefined stands for 0.
  const auto given = [&](const char* argument, const Tensor& gradient) {
    if (!gradient.defined()) return zeros(operands.x.shape(), wide);
    ops::check_gradient(operation, argument, gradient, logits.shape());
    return layout.to_rows(gradient.to(wide));
  };
  const Tensor a = given("grad_grad_logits", grad_grad_logits);
  const Tensor g = ops::loss_gradient_input(operation, grad_output, layout.row_shape(), reduction,
                                            operands.dtype)
                       .to(wide);
  const Tensor x = operands.x.to(wide);
  const auto rows = layout.rows(), classes = layout.classes();
  if (classes == 0) {
    return {zeros_like(grad_output), zeros_like(logits),
            of_probabilities ? zeros_like(target) : Tensor()};
  }

  // The total of each row's target, [rows, 1], and what the mean divides by.
  const Tensor weights =
      operands.weight.defined() ? operands.weight.to(wide) : ones({classes}, wide);
  Tensor total, divisor;
  if (!of_probabilities) {
    const Tensor flat = operands.indices.reshape({rows});
    const Tensor kept = not_equal(flat, ignore_index);
    const Tensor named = multiply(
        embedding(weights.reshape({classes, 1}), where(kept, flat, zeros({}, DType::int64))),
        kept.to(wide).reshape({rows, 1}));
    const Tensor smoothed = multiply(mean(weights), label_smoothing);
    total =
        multiply(named, 1 - label_smoothing) + multiply(smoothed, kept.to(wide).reshape({rows, 1}));
    divisor = sum(named);
  } else {
    const Tensor smoothed = multiply(operands.probabilities.to(wide), 1 - label_smoothing) +
                            label_smoothing / static_cast<double>(classes);
    total = sum(smoothed * weights, 1, true);
    divisor = full({}, static_cast<double>(rows), wide);
  }
  Tensor f = reduction == Reduction::none ? g.reshape({rows, 1}) : g;
  if (reduction == Reduction::mean) f = f / where(equal(divisor, 0), ones({}, wide), divisor);

  const auto unit = cross_entropy_backward(ones_like(g), layout.from_rows(x), target, weight,
                                           reduction, ignore_index, label_smoothing);
  const Tensor p = softmax(x);
  Tensor product = layout.to_rows(unit.first.to(wide)) * a;
  Tensor of_logits = softmax_backward(a, p) * (f * total), of_target;
  if (of_probabilities) {
    const Tensor scaled = f * weights * (1 - label_smoothing);
    if (grad_grad_target.defined()) {
      const Tensor b = given("grad_grad_target", grad_grad_target);
      product = product + layout.to_rows(unit.second.to(wide)) * b;
      of_logits = of_logits - log_softmax_backward(b * scaled, log_softmax(x));
    }
    of_target = layout.from_rows((sum(a * p, 1, true) - a) * scaled).to(target.dtype());
  }
  const Tensor of_output =
      reduction == Reduction::none ? sum(product, 1).reshape(layout.row_shape()) : sum(product);
  return {of_output.to(grad_output.dtype()), layout.from_rows(of_logits).to(logits.dtype()),
          of_target};
}

// ---- negative log-likelihood
// -----------------------------------------------------------------------

Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Reduction reduction,
                StrictInt ignore_index) {
  if (ops::raises(x)) return nll_loss(ops::raised(x), target, weight, reduction, ignore_index);
  if (detail::records(x)) {
    Tensor loss =
        detail::unrecorded([&] { return nll_loss(x, target, weight, reduction, ignore_index); });
    return detail::record(
        "nll_loss", {x}, std::move(loss),
        [x = detail::Saved(x), target = detail::Saved(target), weight = detail::Saved(weight),
         reduction, ignore_index](const Tensor& g, detail::Node& node) {
          return nll_loss_backward(g, x.get(node), target.get(node), weight.get(node), reduction,
                                   ignore_index);
        });
  }
  const ClassOperands operands("nll_loss", "x", x, target, weight, ignore_index, false);
  return forward("nll_loss", operands, operands.call(false, reduction, ignore_index, 0), reduction);
}

Tensor nll_loss_backward(const Tensor& grad_output, const Tensor& x, const Tensor& target,
                         const Tensor& weight, Reduction reduction, StrictInt ignore_index) {
  if (detail::records(grad_output, x)) {
    // Linear in grad_output; x says the shape alone.
    Tensor gradient = detail::unrecorded(
        [&] { return nll_loss_backward(grad_output, x, target, weight, reduction, ignore_index); });
    return detail::record(
        "nll_loss_backward", {grad_output, x}, std::move(gradient),
        [g = detail::Saved(grad_output), x = detail::Saved(x), target = detail::Saved(target),
         weight = detail::Saved(weight), reduction,
         ignore_index](const Tensor& v, detail::Node& node) -> detail::Gradients {
          return {nll_loss_double_backward(v, g.get(node), x.get(node), target.get(node),
                                           weight.get(node), reduction, ignore_index)
                      .first,
                  Tensor()};
        });
  }
  ops::check_float("nll_loss_backward", "x", x);
  const ClassOperands operands("nll_loss_backward", "x", x, target, weight, ignore_index, false);
  return backward("nll_loss_backward", grad_output, operands,
                  operands.call(false, reduction, ignore_index, 0), reduction, false)
      .first.to(x.dtype());
}

// The loss is linear in x, so the gradient of grad_output is the loss of grad_grad_x.
std::pair<Tensor, Tensor> nll_loss_double_backward(const Tensor& grad_grad_x,
                                                   const Tensor& grad_output, const Tensor& x,
                                                   const Tensor& target, const Tensor& weight,
                                                   Reduction reduction, StrictInt ignore_index) {
  constexpr const char* operation = "nll_loss_double_backward";
  ops::check_float(operation, "x", x);
  ops::check_gradient(operation, "grad_grad_x", grad_grad_x, x.shape());
  const Tensor wide = grad_grad_x.to(ops::compute_dtype(grad_grad_x.dtype()));
  const Tensor loss = nll_loss(wide, target, weight, reduction, ignore_index);
  ops::check_grad_output(operation, grad_output, loss.shape());
  return {loss.to(grad_output.dtype()), zeros_like(x)};
}

}  // namespace extensor
