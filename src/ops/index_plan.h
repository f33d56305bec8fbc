// Index expressions with tensors. A plan resolves an expression against a shape, then reads, writes
// and sums elements by it. extensor/indexed_tensor.h states the rules.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "extensor/tensor.h"
#include "ops/checked_indices.h"
#include "ops/op.h"

namespace extensor::ops {

// The view for integers, slices, ellipsis and newaxis. Not recorded.
Tensor basic_view(const char* operation, const Tensor& x, std::span<const Index> index);

// Throws IndexError for more indices than dimensions or more than one ellipsis.
void check_index_counts(const char* operation, const Shape& shape, std::size_t consumed,
                        std::size_t ellipses);

bool has_tensor(std::span<const Index> index);

class IndexPlan {
 public:
  // Checks the whole expression. Throws IndexError for an index out of range or too many indices,
  // DTypeError for a tensor of floats, and ShapeError for a mask that does not fit or tensors that
  // do not broadcast; errors name `operation`.
  IndexPlan(const char* operation, const Tensor& x, std::span<const Index> index);

  const Shape& result_shape() const { return result_; }

  // x, and `target` below, must have the shape that the plan was made for. Nothing is recorded.
  Tensor select(const Tensor& x) const;
  // Writes values that broadcast to the shape of the result, have the dtype of target and share no
  // memory with it.
  void put(const Tensor& target, const Tensor& values) const;
  // The gradient of select: adds `grad_output` to zeros in a fixed order.
  Tensor sum(const Tensor& grad_output, const Shape& shape) const;
  // A bool tensor that broadcasts against the result: true for the values that put() does not
  // overwrite later. Undefined if all survive.
  Tensor survivors() const;

  // Checks the integers again, because the caller may have changed their memory since.
  void check_again();

 private:
  // One tensor of the expression.
  struct Part {
    std::size_t axis;  // first axis of the basic view that it indexes
    std::size_t axes;  // number of indexed axes: 1 for integers, the rank of a mask
    Tensor positions;  // row-major positions within these axes, dense int64
    IndexRange range;  // for integers: valid range, by the axis of x
    bool is_mask;
  };

  void add_integers(const Tensor& indices, std::int64_t size, std::int64_t source_axis);
  void add_mask(const Tensor& mask, const Shape& shape, std::size_t source_axis);
  void broadcast_parts();
  void lay_out(const Shape& view);
  // The offsets of the points, in elements, in a view with these strides.
  Tensor offsets(const Shape& shape, const Strides& strides) const;
  // The row-major positions of the points within all indexed axes.
  Tensor positions() const;
  Shape indexed_shape() const;
  void move(bool writes, const Tensor& view, const Tensor& dense) const;

  const char* operation_;
  std::vector<Index> basic_;  // the expression with a full slice for every axis of a tensor
  std::vector<Part> parts_;
  std::size_t view_rank_ = 0;
  std::size_t at_ = 0;  // axis of the result at which the points are inserted
  bool distinct_;       // no point occurs twice
  Shape points_;        // broadcast shape of the tensors
  Dims outer_, inner_;  // axes of the view before and after the points
  Shape view_shape_, result_;
};

// An index expression as the attribute of an op whose inputs from `first` on are its tensors.
struct IndexAttribute {
  std::vector<Index> index;  // contains an undefined tensor in place of each
  std::size_t first;

  // The expression with the tensors of a call; tensor(k) returns input k.
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

// The inputs of such a call: `leading`, followed by the tensors of the expression.
std::vector<const Tensor*> index_inputs(std::initializer_list<const Tensor*> leading,
                                        std::span<const Index> index);

}  // namespace extensor::ops

namespace extensor::detail {

// The source of a selection by tensors, kept so that assigning to the selection writes into it.
struct Selection {
  Tensor source;
  std::vector<Index> index;
  std::optional<ops::IndexPlan> plan;  // empty if the selection was recorded
};

}  // namespace extensor::detail
