// Assignment to index expressions, x[…] = y, and its functional form, index_put.
#include "core/check.h"
#include "core/graph.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "ops/index_plan.h"
#include "ops/launch.h"
#include "ops/overlap.h"
#include "ops/registry.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using detail::message;
using detail::Selection;
using namespace ops;

// Marks a source that is unknown because the selection is a copy of a copy.
alignas(Selection) std::byte unknown_source[1];

Selection* unknown() { return reinterpret_cast<Selection*>(unknown_source); }

}  // namespace

void detail::SelectionDeleter::operator()(Selection* selection) const noexcept {
  if (selection != unknown()) delete selection;
}

// ---- index_put

namespace {

constexpr const char* put_name = "index_put";

// Drops leading dimensions of length 1 that exceed the rank of the target, as NumPy does in
// assignments.
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

// The checked values for `target`, in its dtype and in separate memory.
Tensor checked_values(const Tensor& target, const Shape& selected, const Tensor& values) {
  if (kind_of(values.dtype()) > kind_of(target.dtype())) {
    throw DTypeError(message(put_name, ": values are ", values.dtype(), " and x is ",
                             target.dtype(), " (convert them with values.to(", target.dtype(),
                             "))"));
  }
  check_values_shape(put_name, values.shape(), selected);
  const Source pair[] = {target, values};
  common_device(put_name, pair);
  const Tensor converted =
      fitted_values(values, selected.size()).to(target.device(), target.dtype());
  return overlap(target, converted) == Overlap::none ? converted : converted.clone();
}

// Inputs: x, the values, and the tensors of the index.
Tensor index_put_forward(const Run& run, const IndexAttribute& attribute, Inputs inputs) {
  const Tensor& x = inputs[0];
  const IndexPlan plan(run.name(), x, attribute.of(inputs));
  const Tensor values = checked_values(x, plan.result_shape(), inputs[1]);
  Tensor changed = x.clone();
  plan.put(changed, values);
  return changed;
}

Gradients index_put_gradient(const GradientCall& call, const IndexAttribute& attribute) {
  const auto [of_x, of_values] = index_put_backward(call.grad(), attribute.of(call), call.shape(1));
  Gradients gradients(call.inputs());
  gradients[0] = of_x;
  gradients[1] = of_values;
  return gradients;
}

Reads index_put_reads(const IndexAttribute&, std::size_t k) {
  return k < 2 ? constants | shape(1) : no_gradient;
}

constexpr auto index_put_op = define<index_put_forward, index_put_gradient, index_put_reads>(
    {.name = put_name, .inputs = {"x", "values", "tensors of the index"}, .complex = true});

}  // namespace

Tensor index_put(const Tensor& x, const std::vector<Index>& index, const Tensor& values) {
  const auto inputs = index_inputs({&x, &values}, index);
  const IndexAttribute attribute = index_attribute(index, 2);
  return dispatch(index_put_op, &attribute, Inputs(inputs.data(), inputs.size()))[0];
}

std::pair<Tensor, Tensor> index_put_backward(const Tensor& grad_output,
                                             const std::vector<Index>& index,
                                             const Shape& values_shape) {
  constexpr const char* operation = "index_put_backward";
  check_has_gradient(operation, "grad_output", grad_output);
  detail::checked_numel(operation, values_shape);
  const IndexPlan plan(operation, grad_output, index);
  const Shape& selected = plan.result_shape();
  check_values_shape(operation, values_shape, selected);
  const Tensor zero = zeros({}, {grad_output.dtype(), cpu_device});
  Tensor of_values = grad_output.index(index);
  if (const Tensor survivors = plan.survivors(); survivors.defined()) {
    of_values = where(survivors, of_values, zero);
  }
  const Shape fitted = without_extra_dimensions(values_shape, selected.size());
  return {index_put(grad_output, index, zero),
          reduce_broadcast_dims(of_values, fitted).reshape(values_shape)};
}

// ---- assignment

void IndexedTensor::forget_source() noexcept { selection_.reset(unknown()); }

void IndexedTensor::write(const Tensor& source) {
  if (selection_ == nullptr) {
    Tensor::copy_from(fitted_values(source, shape().size()));
    return;
  }
  if (selection_.get() == unknown()) {
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
  check_writable(put_name, x);
  std::optional<IndexPlan>& plan = selection_->plan;
  if (plan) {
    plan->check_again();
  } else {
    plan.emplace("index", x, selection_->index);
  }
  plan->put(x, checked_values(x, shape(), source));
  detail::wrote(x);
  if (rewrites) detail::rewrite_history(x, {});
}

void IndexedTensor::write(const Scalar& value) {
  if (value.is_floating() && !is_differentiable(dtype())) {
    throw DTypeError(message(put_name, ": the value is ", value, " and x is ", dtype(),
                             " (allowed: an integer)"));
  }
  if (selection_ == nullptr) {
    Tensor::fill(value);
    return;
  }
  check_scalar_stored(put_name, "the value", value, dtype());
  write(full({}, value, {dtype(), cpu_device}));
}

template <class Other>
Tensor IndexedTensor::updated(Compound operation, const Other& other) {
  const auto changed = [&](auto in_place, auto by_value) {
    // A gradient may need the current elements.
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
              [](const Tensor& a, const Other& b) { return extensor::add(a, b); });
      break;
    case Compound::subtract:
      changed([](Tensor& a, const Other& b) { a -= b; },
              [](const Tensor& a, const Other& b) { return extensor::subtract(a, b); });
      break;
    case Compound::multiply:
      changed([](Tensor& a, const Other& b) { a *= b; },
              [](const Tensor& a, const Other& b) { return extensor::multiply(a, b); });
      break;
    case Compound::divide:
      changed([](Tensor& a, const Other& b) { a /= b; },
              [](const Tensor& a, const Other& b) { return extensor::divide(a, b); });
      break;
    case Compound::modulo:
      changed([](Tensor& a, const Other& b) { a %= b; },
              [](const Tensor& a, const Other& b) { return extensor::modulo(a, b); });
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

constinit const OpList ops::index_assignment_ops = listed<index_put_op>;

}  // namespace extensor
