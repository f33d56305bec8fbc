// The cross-entropy of a linear layer's result, computed in blocks. The logits of each block of
// rows and classes are computed, used and overwritten, so that the full matrix never exists.
//
// There are two passes over the classes. The first computes the softmax sums of each row, and thus
// the loss. The second computes the gradient of each block of logits and multiplies it into the
// gradients of x and weight, for which it needs the logits again. As many rows as fit keep their
// logits in memory that is allocated anyway: the gradient of the weight before it is written. The
// logits of other rows are computed twice.
#include <algorithm>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "extensor/elementwise.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
#include "ops/autocast.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/linear_support.h"
#include "ops/loss_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::ClassBlockCall;
using backend::ClassBlockStep;
using detail::message;
using namespace ops;

constexpr std::int64_t rows_per_block = 512;
constexpr std::int64_t classes_per_block = 1008;  // keeps rows off page boundaries
// Up to this fraction of all logits is kept in extra memory; none if that would hold fewer rows
// than an efficient product needs.
constexpr std::int64_t kept_part = 10, fewest_kept_rows = 32;

struct LinearCrossEntropy {
  Reduction reduction;
  std::int64_t ignore_index;
  double label_smoothing;
  bool wide_loss;  // the loss of half dtypes is float32
};

// Checked operands in the form that kernels read.
struct Operands {
  DType dtype, wide;  // dtype of the products, and the compute dtype
  Shape row_shape;
  std::int64_t rows, classes, width;
  Tensor x, weight, bias, indices, class_weight;  // weight keeps its own dtype

  Operands(const char* operation, const LinearCrossEntropy& attributes, const Tensor& given_x,
           const Tensor& given_weight, const Tensor& given_bias, const Tensor& target,
           const Tensor& weights) {
    check_label_smoothing(operation, attributes.label_smoothing);
    loss_reduction(attributes.reduction);
    row_shape = linear_shape(operation, given_x, given_weight, given_bias);
    row_shape.resize(row_shape.size() - 1);
    dtype = promote_types(given_x.dtype(), given_weight.dtype());
    if (given_bias.defined()) dtype = promote_types(dtype, given_bias.dtype());
    wide = compute_dtype(dtype);
    x = as_matrix(given_x.to(wide));
    weight = given_weight;
    if (given_bias.defined()) bias = given_bias.to(wide).contiguous();
    rows = x.size(0);
    classes = weight.size(0);
    width = weight.size(1);

    if (!is_integer(target.dtype())) {
      throw DTypeError(message(operation, ": target is ", target.dtype(),
                               ", must be an integer dtype: class indices"));
    }
    if (!(target.shape() == row_shape)) {
      throw ShapeError(message(operation, ": target is ", target.shape(), ", must be ", row_shape,
                               " for x of ", given_x.shape()));
    }
    if (weights.defined()) {
      if (!(weights.shape() == Shape{classes})) {
        throw ShapeError(
            message(operation, ": class_weight is ", weights.shape(), ", must be [", classes, "]"));
      }
      class_weight = weights.to(wide).contiguous();
    }
    indices = checked_indices(operation, target,
                              {.size = classes,
                               .counted = "classes",
                               .argument = "target",
                               .ignored = attributes.ignore_index});
  }
};

// The gradients to compute and their destinations, in the compute dtype.
struct Targets {
  Tensor x, weight, bias;
  bool any() const { return x.defined() || weight.defined() || bias.defined(); }
};

class Blocks {
 public:
  Blocks(const Run& run, const LinearCrossEntropy& attributes, const Operands& operands)
      : run_(run), attributes_(attributes), operands_(operands) {
    item_ = static_cast<std::int64_t>(itemsize(operands.wide));
  }

  // If `count`, fills `statistics`; then computes the gradients times g (1 if undefined).
  void run(Tensor& statistics, bool count, const Targets& gradients, const Tensor& g = {}) {
    const auto& [dtype, wide, row_shape, rows, classes, width, x, weight, bias, indices, weights] =
        operands_;
    statistics_ = detail::kernel_pointer<double>(statistics);
    if (rows == 0 || classes == 0) {
      for (Tensor gradient : {gradients.x, gradients.weight, gradients.bias}) {
        if (gradient.defined()) gradient.fill(0);
      }
      return;
    }
    const std::int64_t pieces = (rows + rows_per_block - 1) / rows_per_block;
    const std::int64_t step = (rows + pieces - 1) / pieces;
    const bool keeps = count && gradients.any() && classes > classes_per_block;
    const std::int64_t extra = rows / kept_part < fewest_kept_rows ? 0 : rows / kept_part;
    const Tensor block = run_.empty({step, std::min(classes, classes_per_block)}, wide);
    block_ = block.impl().data;
    weight_gradient_ = gradients.weight;
    for (first_row_ = 0; first_row_ < rows; first_row_ += step) {
      row_count_ = std::min(step, rows - first_row_);
      // The gradient of the weight is first written in the second pass over the first rows.
      in_gradient_ =
          keeps && gradients.weight.defined() && first_row_ == 0 ? std::min(width, row_count_) : 0;
      in_kept_ = keeps ? std::min(extra, row_count_ - in_gradient_) : 0;
      if (in_kept_ > 0 && !kept_.defined())
        kept_ = run_.empty({std::min(extra, step), classes}, wide);
      if (count) {
        // One product for all rows packs the weight once; copying from the cache is cheap.
        const Part whole{first_row_, row_count_, block_, block_, Tensor()};
        for_each_class_block([&](const Tensor& w) {
          multiply_logits(whole, w);
          call(ClassBlockStep::add, whole, block_, nullptr, g);
          for_each_part([&](const Part& part) {
            if (part.kept.defined()) {
              logits(part.kept, part.logits, part.count)
                  .copy_from(logits(block, part.gradient, part.count));
            }
          });
        });
      }
      if (!gradients.any()) continue;
      const bool still_there = count && classes <= classes_per_block;
      for_each_class_block([&](const Tensor& w) {
        for_each_part([&](const Part& part) {
          if (!part.kept.defined() && !still_there) multiply_logits(part, w);
          call(ClassBlockStep::gradient, part, part.logits, part.gradient, g);
        });
        multiply_gradients(w, gradients, block);
      });
    }
  }

  Tensor loss(const Tensor& statistics) {
    const auto& [reduction, ignore_index, smoothing, wide_loss] = attributes_;
    Tensor result = run_.empty(loss_shape(operands_.row_shape, reduction),
                               wide_loss ? operands_.wide : operands_.dtype);
    statistics_ = detail::kernel_pointer<double>(statistics);
    ClassBlockCall finish = block_call(ClassBlockStep::finish);
    finish.out = result.impl().data;
    finish.out_dtype = result.dtype();
    run_.kernels().class_block(finish);
    return result;
  }

 private:
  // Rows of the block with the logits and the gradients of its classes.
  struct Part {
    std::int64_t first, count;
    std::byte* logits;
    std::byte* gradient;
    Tensor kept;  // memory that keeps the logits until the second pass; may be undefined
  };

  template <class Body>
  void for_each_class_block(const Body& body) {
    for (first_class_ = 0; first_class_ < operands_.classes; first_class_ += classes_per_block) {
      class_count_ = std::min(classes_per_block, operands_.classes - first_class_);
      body(operands_.weight.slice(0, first_class_, first_class_ + class_count_).to(operands_.wide));
    }
  }

  template <class Body>
  void for_each_part(const Body& body) const {
    std::int64_t first = 0;
    // `kept` holds the logits of `count` rows and has room for `width` elements per class.
    const auto part = [&](std::int64_t count, const Tensor& kept, std::int64_t width) {
      if (count == 0) return;
      std::byte* const gradient = block_ + first * class_count_ * item_;
      std::byte* const logits =
          kept.defined() ? kept.impl().data + first_class_ * width * item_ : gradient;
      body(Part{first_row_ + first, count, logits, gradient, kept});
      first += count;
    };
    part(in_gradient_, weight_gradient_, operands_.width);
    part(in_kept_, kept_, in_kept_);
    part(row_count_ - first, Tensor(), 0);
  }

  // The logits of `count` rows and the block's classes, as a view into the memory of a tensor.
  Tensor logits(const Tensor& memory, std::byte* first, std::int64_t count) const {
    return detail::make_view(memory, first, {count, class_count_}, {class_count_, 1});
  }

  struct Matrix {
    std::byte* data;
    std::int64_t strides[2];
  };
  // c = a · b + bias, or c += a · b.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
                std::byte* c, bool accumulate, const std::byte* bias = nullptr) const {
    backend::MatmulCall product{};
    product.dtype = operands_.wide;
    product.m = m;
    product.n = n;
    product.k = k;
    product.a = {a.data, operands_.wide, a.strides};
    product.b = {b.data, operands_.wide, b.strides};
    product.c = {c, operands_.wide, nullptr};
    product.batch = 1;
    product.bias = bias;
    product.accumulate = accumulate;
    run_.kernels().matmul(product);
  }

  Matrix rows_of_x(std::int64_t first) const {
    const Strides& strides = operands_.x.strides();
    return {operands_.x.impl().data + first * strides[0] * item_, {strides[0], strides[1]}};
  }

  void multiply_logits(const Part& part, const Tensor& w) const {
    const std::byte* bias =
        operands_.bias.defined() ? operands_.bias.impl().data + first_class_ * item_ : nullptr;
    multiply(part.count, class_count_, operands_.width, rows_of_x(part.first),
             {w.impl().data, {w.strides()[1], w.strides()[0]}}, part.logits, false, bias);
  }

  // Multiplies the gradients of the block's logits into those of x, weight and bias.
  void multiply_gradients(const Tensor& w, const Targets& gradients, const Tensor& block) const {
    const std::int64_t width = operands_.width;
    if (gradients.x.defined()) {
      multiply(row_count_, width, class_count_, {block_, {class_count_, 1}},
               {w.impl().data, {w.strides()[0], w.strides()[1]}},
               gradients.x.impl().data + first_row_ * width * item_, first_class_ > 0);
    }
    if (gradients.weight.defined()) {
      multiply(class_count_, width, row_count_, {block_, {1, class_count_}}, rows_of_x(first_row_),
               gradients.weight.impl().data + first_class_ * width * item_, first_row_ > 0);
    }
    if (gradients.bias.defined()) {
      const Tensor total = sum(logits(block, block_, row_count_), 0);
      Tensor part = gradients.bias.slice(0, first_class_, first_class_ + class_count_);
      if (first_row_ == 0) {
        part.copy_from(total);
      } else {
        part += total;
      }
    }
  }

  ClassBlockCall block_call(ClassBlockStep step) const {
    ClassBlockCall block{};
    block.step = step;
    block.reduction = loss_reduction(attributes_.reduction);
    block.dtype = operands_.wide;
    block.rows = operands_.rows;
    block.classes = operands_.classes;
    block.indices = detail::kernel_pointer<std::int64_t>(operands_.indices);
    const Tensor& weight = operands_.class_weight;
    block.weight = weight.defined() ? weight.impl().data : nullptr;
    block.ignore_index = attributes_.ignore_index;
    block.label_smoothing = attributes_.label_smoothing;
    block.statistics = statistics_;
    return block;
  }

  void call(ClassBlockStep step, const Part& part, const std::byte* x, std::byte* out,
            const Tensor& g) const {
    ClassBlockCall block = block_call(step);
    block.first_row = part.first;
    block.row_count = part.count;
    block.first_class = first_class_;
    block.class_count = class_count_;
    block.x = x;
    block.g = g.defined() ? g.impl().data : nullptr;
    block.out = out;
    run_.kernels().class_block(block);
  }

  const Run& run_;
  const LinearCrossEntropy& attributes_;
  const Operands& operands_;
  std::int64_t item_;
  double* statistics_ = nullptr;
  std::byte* block_ = nullptr;  // gradients of the logits, and logits that are not kept
  Tensor weight_gradient_;      // keeps the logits of in_gradient_ rows until it is written
  Tensor kept_;                 // keeps the logits of in_kept_ rows
  std::int64_t in_gradient_ = 0, in_kept_ = 0;
  std::int64_t first_row_ = 0, row_count_ = 0, first_class_ = 0, class_count_ = 0;
};

Tensor empty_statistics(const Run& run, const Operands& operands) {
  return run.empty({operands.rows, ClassBlockCall::statistics_per_row}, DType::float64);
}

Targets targets_of(const Run& run, const Operands& operands, bool of_x, bool of_weight,
                   bool of_bias) {
  Targets targets;
  if (of_x) targets.x = run.empty({operands.rows, operands.width}, operands.wide);
  if (of_weight) targets.weight = run.empty({operands.classes, operands.width}, operands.wide);
  if (of_bias) targets.bias = run.empty({operands.classes}, operands.wide);
  return targets;
}

// Converts the gradients to the shapes and dtypes of the operands.
void narrow(Targets& gradients, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (gradients.x.defined()) gradients.x = gradients.x.reshape(x.shape()).to(x.dtype());
  if (gradients.weight.defined()) gradients.weight = gradients.weight.to(weight.dtype());
  if (gradients.bias.defined()) gradients.bias = gradients.bias.to(bias.dtype());
}

// Results: the loss and, if recorded, the statistics of rows and the gradients for a grad_output of
// 1. With Reduction::none the gradients depend on grad_output and are computed in the backward.
Results linear_cross_entropy_forward(const Run& run, const LinearCrossEntropy& attributes,
                                     const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const Tensor& target, const Tensor& class_weight) {
  const Operands operands(run.name(), attributes, x, weight, bias, target, class_weight);
  Blocks blocks(run, attributes, operands);
  Tensor statistics = empty_statistics(run, operands);
  Targets gradients;
  if (run.recorded && attributes.reduction != Reduction::none) {
    gradients = targets_of(run, operands, detail::tracked(x), detail::tracked(weight),
                           detail::tracked(bias));
  }
  blocks.run(statistics, true, gradients);
  narrow(gradients, x, weight, bias);
  return {blocks.loss(statistics), run.recorded ? statistics : Tensor(), gradients.x,
          gradients.weight, gradients.bias};
}

struct LinearCrossEntropyBackward {
  LinearCrossEntropy forward;
  bool of_x, of_weight, of_bias;
};

Results backward_forward(const Run& run, const LinearCrossEntropyBackward& attributes,
                         const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Tensor& target, const Tensor& class_weight,
                         const Tensor& saved) {
  const auto& [forward, of_x, of_weight, of_bias] = attributes;
  const Operands operands(run.name(), forward, x, weight, bias, target, class_weight);
  const Tensor g = loss_gradient_input(run.name(), grad_output, operands.row_shape,
                                       forward.reduction, operands.dtype);
  Tensor statistics = saved.defined() ? saved : empty_statistics(run, operands);
  Targets gradients = targets_of(run, operands, of_x, of_weight, of_bias && bias.defined());
  Blocks(run, forward, operands).run(statistics, !saved.defined(), gradients, g);
  narrow(gradients, x, weight, bias);
  return {gradients.x, gradients.weight, gradients.bias};
}

constexpr auto linear_cross_entropy_backward_op = define<backward_forward>(
    {.name = "linear_cross_entropy_backward",
     .inputs = {"grad_output", "x", "weight", "bias", "target", "class_weight", "statistics"},
     .optional = 1 << 3 | 1 << 5 | 1 << 6});

// A saved gradient times g. In the last backward it is scaled in place, because the gradient of the
// weight is as large as the weight.
Tensor scaled(const GradientCall& call, std::size_t input, std::size_t result, bool is_one) {
  if (!call.needs(input)) return {};
  Tensor gradient = call.result(result).detach();
  const Tensor g = call.grad().to(gradient.dtype());
  if (!call.is_last()) return gradient * g;
  if (!is_one) gradient *= g;
  return gradient;
}

Gradients linear_cross_entropy_gradient(const GradientCall& call,
                                        const LinearCrossEntropy& attributes) {
  const Tensor& g = call.grad();
  if (detail::recording_enabled()) {
    const LinearGradients found = linear_cross_entropy_backward(
        g, call.input(0), call.input(1), call.input(2), call.input(3), call.input(4),
        attributes.reduction, attributes.ignore_index, attributes.label_smoothing);
    return {found.x, found.weight, found.bias};
  }
  if (attributes.reduction == Reduction::none) {
    return dispatch(linear_cross_entropy_backward_op,
                    {attributes, call.needs(0), call.needs(1), call.needs(2)}, g, call.input(0),
                    call.input(1), call.input(2), call.input(3), call.input(4), call.result(1));
  }
  // Reading g costs nothing on the CPU and for most losses saves a pass over the gradients.
  const bool is_one = g.device() == cpu_device && g.item<double>() == 1;
  return {scaled(call, 0, 2, is_one), scaled(call, 1, 3, is_one), scaled(call, 2, 4, is_one)};
}

constexpr Reads all_read = input(0) | input(1) | input(2) | input(3) | input(4) | result(1) |
                           result(2) | result(3) | result(4);
constexpr auto linear_cross_entropy_op =
    define<linear_cross_entropy_forward, linear_cross_entropy_gradient>(
        {.name = "linear_cross_entropy",
         .inputs = {"x", "weight", "bias", "target", "class_weight"},
         .reads = {all_read, all_read, all_read, no_gradient, no_gradient},
         .optional = 1 << 2 | 1 << 4});

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const Tensor& class_weight, Reduction reduction,
                            StrictInt ignore_index, StrictDouble label_smoothing) {
  // Class weights are not an operand of the product, so Autocast does not cast them.
  const bool wide_loss = autocast_dtype().has_value();
  return std::move(dispatch(linear_cross_entropy_op,
                            {reduction, ignore_index, label_smoothing, wide_loss}, lowered(x),
                            lowered(weight), lowered(bias), target, class_weight)[0]);
}

LinearGradients linear_cross_entropy_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& weight, const Tensor& bias,
                                              const Tensor& target, const Tensor& class_weight,
                                              Reduction reduction, StrictInt ignore_index,
                                              StrictDouble label_smoothing) {
  const LinearCrossEntropy attributes{reduction, ignore_index, label_smoothing, false};
  if (detail::records(grad_output, x, weight, bias)) {
    const Operands operands("linear_cross_entropy_backward", attributes, x, weight, bias, target,
                            class_weight);
    check_grad_output("linear_cross_entropy_backward", grad_output,
                      loss_shape(operands.row_shape, reduction));
    const Tensor rows = as_matrix(x.to(operands.wide)), w = weight.to(operands.wide);
    const bool each = reduction == Reduction::none;
    const Tensor g = each ? grad_output.reshape({operands.rows}) : grad_output;
    const Tensor grad_logits =
        cross_entropy_backward(g, linear(rows, w, bias), operands.indices.reshape({operands.rows}),
                               class_weight, reduction, ignore_index, label_smoothing)
            .first;
    LinearGradients found = linear_backward(grad_logits, rows, w, bias.defined());
    found.x = found.x.reshape(x.shape()).to(x.dtype());
    found.weight = found.weight.to(weight.dtype());
    if (bias.defined()) found.bias = found.bias.to(bias.dtype());
    return found;
  }
  const Results found = dispatch(linear_cross_entropy_backward_op, {attributes, true, true, true},
                                 grad_output, x, weight, bias, target, class_weight, Tensor());
  return {found[0], found[1], found[2]};
}

constinit const OpList ops::linear_cross_entropy_ops =
    listed<linear_cross_entropy_op, linear_cross_entropy_backward_op>;

}  // namespace extensor
