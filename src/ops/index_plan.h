// Index expressions with tensors: a plan resolves one against a shape, then reads, writes and sums
// by it. extensor/indexed_tensor.h states the rules.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "extensor/tensor.h"
#include "ops/checked_indices.h"
#include "ops/op.h"

namespace extensor::ops {

// The view that integers, slices, ellipsis and newaxis give. Not recorded.
Tensor basic_view(const char* operation, const Tensor& x, std::span<const Index> index);

// IndexError for more indices than dimensions, or more than one ellipsis.
void check_index_counts(const char* operation, const Shape& shape, std::size_t consumed,
                        std::size_t ellipses);

bool has_tensor(std::span<const Index> index);

class IndexPlan {
 public:
  // Checks the whole expression. IndexError for an index out of range or too many of them,
  // DTypeError for a tensor of floats, ShapeError for a mask that does not fit or tensors that do
  // not broadcast; each names `operation`.
  IndexPlan(const char* operation, const Tensor& x, std::span<const Index> index);

  const Shape& result_shape() const { return result_; }

  // x, and `target` below, have the shape that the plan was made for. Nothing is recorded.
  Tensor select(const Tensor& x) const;
  // Writes values, which broadcast to the result's shape, have the dtype of target and share no
  // memory with it.
  void put(const Tensor& target, const Tensor& values) const;
  // The gradient of select: zeros with `grad_output` added, in a fixed order.
  Tensor sum(const Tensor& grad_output, const Shape& shape) const;
  // A bool tensor that broadcasts against the result: true for the values that are still there
  // after put. Undefined where all are.
  Tensor survivors() const;

  // Checks the integers again: they may be the caller's memory, and may have changed since.
  void check_again();

 private:
  // One tensor of the expression.
  struct Part {
    std::size_t axis;  // of the basic view: the first axis that it indexes
    std::size_t axes;  // how many it indexes: 1 for integers, its rank for a mask
    Tensor positions;  // dense int64: row-major positions within these axes
    IndexRange range;  // of integers, by the axis of x
    bool is_mask;
  };

  void add_integers(const Tensor& indices, std::int64_t size, std::int64_t source_axis);
  void add_mask(const Tensor& mask, const Shape& shape, std::size_t source_axis);
  void broadcast_parts();
  void lay_out(const Shape& view);
  // Where the points lie in a view with these strides, in elements.
  Tensor offsets(const Shape& shape, const Strides& strides) const;
  // Row-major positions of the points within all indexed axes.
  Tensor positions() const;
  Shape indexed_shape() const;
  void move(bool writes, const Tensor& view, const Tensor& dense) const;

  const char* operation_;
  std::vector<Index> basic_;  // the expression with a whole slice for every axis of a tensor
  std::vector<Part> parts_;
  std::size_t view_rank_ = 0;
  std::size_t at_ = 0;  // the axis of the result where the points stand
  bool distinct_;       // no point occurs twice
  Shape points_;        // the shape that the tensors broadcast to
  Dims outer_, inner_;  // the axes of the view before and behind the points
  Shape view_shape_, result_;
};

// An index expression as the attribute of an op that has its tensors as inputs, from `first` on.
struct IndexAttribute {
  std::vector<Index> index;  // with an undefined tensor for each
  std::size_t first;

  // The expression, its tensors being those of a call: tensor(k) is input k.
  template <class Function>
  std::vector<Index> with(const Function& tensor) const {
    std::vector<Index> filled = index;
    std::size_t next = first;
    for (Index& entry : filled) {
      if (entry.kind() == Index::Kind::tensor) entry = Index(Tensor(tensor(next++)));
    }
    return filled;
  }
  std::vector<Index> of(Inputs inputs) const {
    return with([&](std::size_t k) -> const Tensor& { return inputs[k]; });
  }
  std::vector<Index> of(const GradientCall& call) const {
    return with([&](std::size_t k) -> const Tensor& { return call.input(k); });
  }
};
IndexAttribute index_attribute(std::span<const Index> index, std::size_t first);

// The inputs of such a call: `leading`, then the tensors of the expression.
std::vector<const Tensor*> index_inputs(std::initializer_list<const Tensor*> leading,
                                        std::span<const Index> index);

}  // namespace extensor::ops

namespace extensor::detail {

// The source of a selection by tensors, kept so that an assignment to the selection writes into it.
struct Selection {
  Tensor source;
  std::vector<Index> index;
  std::optional<ops::IndexPlan> plan;  // none where the selection was recorded
};

}  // namespace extensor::detail
