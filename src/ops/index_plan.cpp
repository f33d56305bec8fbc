#include "ops/index_plan.h"

#include <algorithm>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"

namespace extensor::ops {

using detail::message;

namespace {

std::int64_t product(const Shape& shape) {
  std::int64_t result = 1;
  for (std::int64_t size : shape) result *= size;
  return result;
}

Dims picked(const Dims& from, const Dims& axes) {
  Dims result;
  for (std::int64_t axis : axes) result.push_back(from[static_cast<std::size_t>(axis)]);
  return result;
}

void append(Dims& to, const Dims& from) {
  for (std::int64_t entry : from) to.push_back(entry);
}

}  // namespace

bool has_tensor(std::span<const Index> index) {
  return std::any_of(index.begin(), index.end(),
                     [](const Index& entry) { return entry.kind() == Index::Kind::tensor; });
}

IndexAttribute index_attribute(std::span<const Index> index, std::size_t first) {
  IndexAttribute attribute{{index.begin(), index.end()}, first};
  for (Index& entry : attribute.index) {
    if (entry.kind() == Index::Kind::tensor) entry = Index(Tensor());
  }
  return attribute;
}

std::vector<const Tensor*> index_inputs(std::initializer_list<const Tensor*> leading,
                                        std::span<const Index> index) {
  std::vector<const Tensor*> inputs = leading;
  for (const Index& entry : index) {
    if (entry.kind() == Index::Kind::tensor) inputs.push_back(&entry.tensor());
  }
  return inputs;
}

// ---- the plan

IndexPlan::IndexPlan(const char* operation, const Tensor& x, std::span<const Index> index)
    : operation_(operation) {
  const Shape& shape = x.shape();
  std::size_t consumed = 0, ellipses = 0;
  for (const Index& entry : index) {
    ellipses += entry.kind() == Index::Kind::ellipsis;
    if (entry.kind() == Index::Kind::tensor) {
      const Source pair[] = {x, entry.tensor()};
      common_device(operation, pair);
      const bool is_mask = entry.tensor().dtype() == DType::bool_;
      if (is_mask && entry.tensor().shape().size() > shape.size()) {
        throw ShapeError(message(operation, ": a mask of shape ", entry.tensor().shape(),
                                 " indexes x, whose shape is ", shape, " (allowed: at most ",
                                 shape.size(), " dimensions)"));
      }
      consumed += is_mask ? entry.tensor().shape().size() : 1;
    } else {
      consumed += entry.kind() == Index::Kind::integer || entry.kind() == Index::Kind::slice;
    }
  }
  check_index_counts(operation, shape, consumed, ellipses);
  basic_.reserve(index.size());
  // The axes of the points replace the first index of their group, unless a slice, ellipsis or
  // newaxis splits the group: then they come first.
  enum class Group { not_begun, open, interrupted, split } group = Group::not_begun;
  std::size_t axis = 0, kept = 0;
  for (const Index& entry : index) {
    if (entry.kind() == Index::Kind::tensor || entry.kind() == Index::Kind::integer) {
      if (group == Group::not_begun) {
        group = Group::open;
        at_ = kept;
      } else if (group == Group::interrupted) {
        group = Group::split;
      }
    } else if (group == Group::open) {
      group = Group::interrupted;
    }
    switch (entry.kind()) {
      case Index::Kind::tensor:
        if (entry.tensor().dtype() == DType::bool_) {
          add_mask(entry.tensor(), shape, axis);
          axis += entry.tensor().shape().size();
        } else {
          add_integers(entry.tensor(), shape[axis], static_cast<std::int64_t>(axis));
          ++axis;
        }
        break;
      case Index::Kind::integer:
        basic_.push_back(entry);
        ++axis;
        break;
      case Index::Kind::ellipsis:
        basic_.push_back(entry);
        kept += shape.size() - consumed;
        view_rank_ += shape.size() - consumed;
        axis += shape.size() - consumed;
        break;
      case Index::Kind::slice:
      case Index::Kind::newaxis:
        basic_.push_back(entry);
        ++kept;
        ++view_rank_;
        axis += entry.kind() == Index::Kind::slice;
        break;
    }
  }
  if (group == Group::split) at_ = 0;
  distinct_ = parts_.empty() || (parts_.size() == 1 && parts_[0].is_mask);
  broadcast_parts();
  lay_out(basic_view(operation, x, basic_).shape());
}

void IndexPlan::add_integers(const Tensor& indices, std::int64_t size, std::int64_t source_axis) {
  const IndexRange range{.size = size, .axis = source_axis, .from_end = true};
  parts_.push_back({view_rank_++, 1, checked_indices(operation_, indices, range), range, false});
  basic_.emplace_back(Slice{});
}

void IndexPlan::add_mask(const Tensor& mask, const Shape& shape, std::size_t source_axis) {
  const Shape& covered = mask.shape();
  for (std::size_t d = 0; d < covered.size(); ++d) {
    if (covered[d] == shape[source_axis + d]) continue;
    throw ShapeError(message(operation_, ": a mask of shape ", covered, " indexes axis ",
                             source_axis, " and following of x, whose shape is ", shape,
                             ": its dimension ", d, " is ", covered[d],
                             " (allowed: ", shape[source_axis + d], ")"));
  }
  const std::size_t axes = covered.size();
  Tensor positions = true_positions(operation_, mask);
  parts_.push_back({view_rank_, axes, std::move(positions), {}, true});
  view_rank_ += axes;
  basic_.insert(basic_.end(), axes, Index(Slice{}));
}

void IndexPlan::broadcast_parts() {
  for (const Part& part : parts_) {
    const Shape& shape = part.positions.shape();
    if (!are_shapes_broadcastable(points_, shape)) {
      throw ShapeError(message(operation_, ": index tensors of shapes ", points_, " and ", shape,
                               " do not broadcast"));
    }
    points_ = broadcast_shapes(points_, shape);
  }
}

void IndexPlan::lay_out(const Shape& view) {
  view_shape_ = view;
  std::size_t axis = 0;
  auto part = parts_.begin();
  const auto keep = [&] {
    (outer_.size() < at_ ? outer_ : inner_).push_back(static_cast<std::int64_t>(axis++));
  };
  while (axis < view.size()) {
    while (part != parts_.end() && part->axis == axis && part->axes == 0) ++part;
    if (part != parts_.end() && part->axis == axis) {
      axis += part++->axes;
    } else {
      keep();
    }
  }
  result_ = picked(view, outer_);
  append(result_, points_);
  append(result_, picked(view, inner_));
  detail::checked_numel(operation_, result_);
}

void IndexPlan::check_again() {
  for (Part& part : parts_) {
    if (part.is_mask) continue;
    part.positions = checked_indices(operation_, part.positions, part.range);
  }
}

// ---- positions in memory

namespace {

// Σ coordinate · stride over the axes, for row-major positions within axes of this shape.
Tensor scaled(const Tensor& positions, const Dims& shape, const Dims& strides) {
  const std::size_t rank = shape.size();
  if (rank == 0) return positions;  // zeros
  bool one_walk = true;
  for (std::size_t d = 0; d + 1 < rank; ++d) {
    one_walk = one_walk && strides[d] == shape[d + 1] * strides[d + 1];
  }
  if (one_walk) return strides[rank - 1] == 1 ? positions : multiply(positions, strides[rank - 1]);
  Tensor rest = positions, sum;
  for (std::size_t d = rank; d-- > 0;) {
    const Tensor coordinate = d == 0 ? rest : modulo(rest, shape[d]);
    const Tensor term = multiply(coordinate, strides[d]);
    sum = sum.defined() ? add(sum, term) : term;
    if (d != 0) rest = floor_divide(rest, shape[d]);
  }
  return sum;
}

}  // namespace

Tensor IndexPlan::offsets(const Shape& shape, const Strides& strides) const {
  if (parts_.empty()) return zeros({}, {DType::int64, cpu_device});
  Tensor sum;
  for (const Part& part : parts_) {
    Dims sizes, steps;
    for (std::size_t d = part.axis; d < part.axis + part.axes; ++d) {
      sizes.push_back(shape[d]);
      steps.push_back(strides[d]);
    }
    const Tensor term = scaled(part.positions, sizes, steps);
    sum = sum.defined() ? add(sum, term) : term;
  }
  return sum.broadcast_to(points_).contiguous();
}

Shape IndexPlan::indexed_shape() const {
  Shape shape;
  for (const Part& part : parts_) {
    for (std::size_t d = part.axis; d < part.axis + part.axes; ++d) shape.push_back(view_shape_[d]);
  }
  return shape;
}

Tensor IndexPlan::positions() const {
  Strides strides(view_shape_.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t p = parts_.size(); p-- > 0;) {
    for (std::size_t d = parts_[p].axis + parts_[p].axes; d-- > parts_[p].axis;) {
      strides[d] = stride;
      stride *= view_shape_[d];
    }
  }
  return offsets(view_shape_, strides);
}

void IndexPlan::move(bool writes, const Tensor& view, const Tensor& dense) const {
  check_complex_device(operation_, view.dtype(), view.device());
  Tensor offsets = this->offsets(view.shape(), view.strides()).to(view.device());
  // The indices may share the memory that is written.
  if (writes && offsets.impl().storage.get() == view.impl().storage.get()) {
    offsets = offsets.clone();
  }
  const Shape outer_shape = picked(view.shape(), outer_),
              inner_shape = picked(view.shape(), inner_);
  const Strides outer_strides = picked(view.strides(), outer_),
                inner_strides = picked(view.strides(), inner_);
  backend::SelectCall call{};
  call.writes = writes;
  call.distinct = distinct_;
  call.single = writes && dense.numel() == 1;
  call.dtype = view.dtype();
  call.outer_shape = &outer_shape;
  call.inner_shape = &inner_shape;
  call.outer_strides = &outer_strides;
  call.inner_strides = &inner_strides;
  call.count = offsets.numel();
  call.offsets = detail::kernel_pointer<std::int64_t>(offsets);
  call.strided = view.impl().data;
  call.dense = detail::dense_data(dense);
  backend::backend_for(view.device()).select(call);
}

// ---- reading and writing

Tensor IndexPlan::select(const Tensor& x) const {
  Tensor result = detail::make_empty(operation_, result_, x.dtype(), x.device());
  if (result.numel() != 0) move(false, basic_view(operation_, x, basic_), result);
  return result;
}

void IndexPlan::put(const Tensor& target, const Tensor& values) const {
  if (product(result_) == 0) return;
  const Tensor dense = values.numel() == 1 ? values : values.broadcast_to(result_).contiguous();
  move(true, basic_view(operation_, target, basic_), dense);
}

Tensor IndexPlan::sum(const Tensor& grad_output, const Shape& shape) const {
  Tensor result = zeros(shape, {grad_output.dtype(), grad_output.device()});
  if (grad_output.numel() == 0) return result;
  if (distinct_) {
    put(result, grad_output);
    return result;
  }
  const Shape indexed = indexed_shape();
  Shape split = picked(view_shape_, outer_);
  const std::int64_t outer = product(split), count = product(points_);
  const std::int64_t inner = product(picked(view_shape_, inner_));
  const Tensor sums = take_backward(grad_output.reshape({outer, count, inner}),
                                    {outer, product(indexed), inner}, positions().flatten(), 1);
  append(split, indexed);
  append(split, picked(view_shape_, inner_));
  Dims order = outer_;
  for (const Part& part : parts_) {
    for (std::size_t d = part.axis; d < part.axis + part.axes; ++d) {
      order.push_back(static_cast<std::int64_t>(d));
    }
  }
  append(order, inner_);
  Tensor view = basic_view(operation_, result, basic_).transpose(order);
  view.copy_from(sums.reshape(split));
  return result;
}

Tensor IndexPlan::survivors() const {
  if (distinct_ || product(result_) == 0) return {};
  // Number the points, write the numbers, and check which numbers survive.
  const Tensor places = positions().flatten(), numbers = arange(places.numel(), places.device());
  const Tensor left = scatter(zeros({product(indexed_shape())}, {DType::int64, places.device()}), 0,
                              places, numbers);
  Shape shape = points_;
  for (std::size_t d = 0; d < inner_.size(); ++d) shape.push_back(1);
  return equal(take(left, places, 0), numbers).reshape(shape);
}

}  // namespace extensor::ops
