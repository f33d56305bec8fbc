// Selections by tensors, assignment through index expressions, and the gradients of both.
#include "ops/selection.h"

#include "core/check.h"
#include "core/graph.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "ops/advanced_index.h"
#include "ops/launch.h"
#include "ops/overlap.h"
#include "ops/scalar_range.h"

namespace extensor {

using detail::message;
using ops::IndexPlan;

namespace detail {

struct Selection {
  Tensor source;
  std::vector<Index> index;
  IndexPlan plan;
};

namespace {

// Stands for a source that is not known: the selection is a copy of a copy.
alignas(Selection) std::byte unknown_source[1];

Selection* unknown() { return reinterpret_cast<Selection*>(unknown_source); }

// The tensors of an index expression, kept for a backward.
class SavedIndex {
 public:
  explicit SavedIndex(std::span<const Index> index) : index_(index.begin(), index.end()) {
    for (const Index& entry : index_) {
      if (entry.kind() == Index::Kind::tensor) saved_.emplace_back(entry.tensor());
    }
  }
  // ValueError where a tensor has been written to since.
  const std::vector<Index>& get(const Node& node) const {
    for (const Saved& saved : saved_) saved.get(node);
    return index_;
  }

 private:
  std::vector<Index> index_;
  std::vector<Saved> saved_;
};

}  // namespace

void SelectionDeleter::operator()(Selection* selection) const noexcept {
  if (selection != unknown()) delete selection;
}

}  // namespace detail

// ---- reading -----------------------------------------------

IndexedTensor ops::select(const Tensor& x, std::span<const Index> index) {
  const char* operation = "index";
  auto selection = std::make_unique<detail::Selection>(
      detail::Selection{x, {index.begin(), index.end()}, IndexPlan(operation, x, index)});
  Tensor result = selection->plan.select(x);
  if (detail::records(x)) {
    result = detail::record(operation, {x}, std::move(result),
                            [shape = x.shape(), saved = detail::SavedIndex(index)](
                                const Tensor& g, detail::Node& node) -> detail::Gradients {
                              return slice_backward(g, shape, saved.get(node));
                            });
  }
  return {std::move(result), selection.release()};
}

Tensor ops::select_backward(const Tensor& grad_output, const Shape& input_shape,
                            const std::vector<Index>& index) {
  constexpr const char* operation = "slice_backward";
  if (detail::records(grad_output)) {
    return detail::record(operation, {grad_output}, detail::unrecorded([&] {
                            return select_backward(grad_output, input_shape, index);
                          }),
                          [saved = detail::SavedIndex(index)](const Tensor& v, detail::Node& node)
                              -> detail::Gradients { return Tensor(v.index(saved.get(node))); });
  }
  const IndexPlan plan(operation, zeros({}, grad_output.dtype()).broadcast_to(input_shape), index);
  check_grad_output(operation, grad_output, plan.result_shape());
  return plan.sum(grad_output, input_shape);
}

// ---- writing -----------------------------------------------

namespace {

constexpr const char* put_name = "index_put";

// Without the leading dimensions of length 1 that exceed the target's rank: NumPy's rule for
// assignment.
Shape without_extra_dimensions(const Shape& shape, std::size_t rank) {
  std::size_t extra = 0;
  while (shape.size() - extra > rank && shape[extra] == 1) ++extra;
  return Dims(std::span(shape.begin() + extra, shape.size() - extra));
}

Tensor fitted_values(const Tensor& values, std::size_t rank) {
  if (values.shape().size() <= rank) return values;
  return values.reshape(without_extra_dimensions(values.shape(), rank));
}

void check_values_shape(const char* operation, const Shape& values, const Shape& selected) {
  const Shape fitted = without_extra_dimensions(values, selected.size());
  if (are_shapes_broadcastable(fitted, selected) &&
      broadcast_shapes(fitted, selected) == selected) {
    return;
  }
  throw ShapeError(message(operation, ": values are ", values,
                           " and do not broadcast to the shape of x[index], ", selected));
}

// Values for `target`, checked, of its dtype and in memory of their own.
Tensor checked_values(const Tensor& target, const Shape& selected, const Tensor& values) {
  if (!is_floating_point(target.dtype()) && is_floating_point(values.dtype())) {
    throw DTypeError(message(put_name, ": values are ", values.dtype(), " and x is ",
                             target.dtype(), " (convert them with values.to(", target.dtype(),
                             "))"));
  }
  check_values_shape(put_name, values.shape(), selected);
  const ops::Source pair[] = {target, values};
  ops::common_device(put_name, pair);
  const Tensor converted = fitted_values(values, selected.size()).to(target.dtype());
  return ops::overlap(target, converted) == ops::Overlap::none ? converted : converted.clone();
}

}  // namespace

Tensor index_put(const Tensor& x, const std::vector<Index>& index, const Tensor& values) {
  if (detail::records(x, values)) {
    return detail::record(
        put_name, {x, values}, detail::unrecorded([&] { return index_put(x, index, values); }),
        [shape = values.shape(), x_dtype = x.dtype(), values_dtype = values.dtype(),
         saved = detail::SavedIndex(index)](const Tensor& g,
                                            detail::Node& node) -> detail::Gradients {
          const auto [of_x, of_values] = index_put_backward(g, saved.get(node), shape);
          return {of_x.to(x_dtype), of_values.to(values_dtype)};
        });
  }
  const IndexPlan plan(put_name, x, index);
  const Tensor checked = checked_values(x, plan.result_shape(), values);
  Tensor result = x.clone();
  plan.put(result, checked);
  return result;
}

std::pair<Tensor, Tensor> index_put_backward(const Tensor& grad_output,
                                             const std::vector<Index>& index,
                                             const Shape& values_shape) {
  constexpr const char* operation = "index_put_backward";
  ops::check_float(operation, "grad_output", grad_output);
  detail::checked_numel(operation, values_shape);
  const IndexPlan plan(operation, grad_output, index);
  const Shape& selected = plan.result_shape();
  check_values_shape(operation, values_shape, selected);
  const Tensor zero = zeros({}, grad_output.dtype());
  Tensor of_values = grad_output.index(index);
  if (const Tensor survivors = plan.survivors(); survivors.defined()) {
    of_values = where(survivors, of_values, zero);
  }
  const Shape fitted = without_extra_dimensions(values_shape, selected.size());
  return {index_put(grad_output, index, zero),
          reduce_broadcast_dims(of_values, fitted).reshape(values_shape)};
}

void IndexedTensor::forget_source() noexcept { selection_.reset(detail::unknown()); }

void IndexedTensor::write(const Tensor& source) {
  if (selection_ == nullptr) {
    Tensor::copy_from(fitted_values(source, shape().size()));
    return;
  }
  if (selection_.get() == detail::unknown()) {
    throw ValueError(message("index: cannot assign to a part of a selection by tensors, of shape ",
                             shape(),
                             ": the selection is a copy, and the values would be lost (write all "
                             "indices in one pair of brackets: x[{mask, 0}] = y)"));
  }
  Tensor& x = selection_->source;
  if (detail::records(x, source)) {
    x.copy_from(index_put(x, selection_->index, source));
    return;
  }
  const bool rewrites = detail::has_history(x);
  if (rewrites) detail::check_in_place(put_name, x);
  ops::check_writable(put_name, x);
  selection_->plan.check_again();
  selection_->plan.put(x, checked_values(x, shape(), source));
  detail::wrote(x);
  if (rewrites) detail::rewrite_history(x, {});
}

void IndexedTensor::write(const Scalar& value) {
  if (value.is_floating() && !is_floating_point(dtype())) {
    throw DTypeError(message(put_name, ": the value is ", value, " and x is ", dtype(),
                             " (allowed: an integer)"));
  }
  if (selection_ == nullptr) {
    Tensor::fill(value);
    return;
  }
  ops::check_scalar_fits(put_name, value, dtype());
  write(full({}, value, dtype()));
}

template <class Other>
Tensor IndexedTensor::updated(Compound operation, const Other& other) {
  const auto changed = [&](auto in_place, auto by_value) {
    // A gradient may need the elements as they are.
    const bool recorded = selection_ != nullptr && [&] {
      if constexpr (std::is_same_v<Other, Tensor>) return detail::records(*this, other);
      return detail::records(*this);
    }();
    if (recorded) {
      Tensor::operator=(by_value(static_cast<const Tensor&>(*this), other));
    } else {
      in_place(static_cast<Tensor&>(*this), other);
    }
  };
  switch (operation) {
    case Compound::add:
      changed([](Tensor& a, const Other& b) { a += b; },
              [](const Tensor& a, const Other& b) { return add(a, b); });
      break;
    case Compound::subtract:
      changed([](Tensor& a, const Other& b) { a -= b; },
              [](const Tensor& a, const Other& b) { return subtract(a, b); });
      break;
    case Compound::multiply:
      changed([](Tensor& a, const Other& b) { a *= b; },
              [](const Tensor& a, const Other& b) { return multiply(a, b); });
      break;
    case Compound::divide:
      changed([](Tensor& a, const Other& b) { a /= b; },
              [](const Tensor& a, const Other& b) { return divide(a, b); });
      break;
    case Compound::modulo:
      changed([](Tensor& a, const Other& b) { a %= b; },
              [](const Tensor& a, const Other& b) { return modulo(a, b); });
      break;
  }
  if (selection_ != nullptr) write(Tensor(*this));
  return Tensor(*this);
}

Tensor IndexedTensor::update(Compound operation, const Tensor& other) {
  return updated(operation, other);
}
Tensor IndexedTensor::update(Compound operation, const Scalar& other) {
  return updated(operation, other);
}

}  // namespace extensor
