// Copies, conversions and fills: the methods of Tensor that move elements.
#include <cstring>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/tensor.h"
#include "ops/launch.h"
#include "ops/overlap.h"
#include "ops/record_elementwise.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using ops::ElementwiseOp;
using ops::Source;

Tensor copied(const char* operation, const Tensor& x, DType dtype) {
  const Source inputs[] = {x};
  return ops::evaluate(ElementwiseOp::copy, operation, dtype, dtype, inputs);
}

}  // namespace

Tensor Tensor::to(DType target) const {
  return target == dtype() ? *this : copied("to", *this, target);
}

Tensor Tensor::clone() const { return copied("clone", *this, dtype()); }

Tensor Tensor::contiguous() const {
  return is_contiguous() ? *this : copied("contiguous", *this, dtype());
}

Tensor& Tensor::copy_from(const Tensor& source) & {
  if (source.dtype() != dtype() && !is_floating_point(dtype()) &&
      is_floating_point(source.dtype())) {
    throw DTypeError(detail::message("copy_from: source is ", source.dtype(),
                                     " and this tensor is ", dtype(), "; say so with source.to(",
                                     dtype(), ")"));
  }
  if (!are_shapes_broadcastable(source.shape(), shape()) ||
      !(broadcast_shapes(source.shape(), shape()) == shape())) {
    throw ShapeError(detail::message("copy_from: source is ", source.shape(),
                                     " and does not broadcast to this tensor's shape, ", shape()));
  }
  const Tensor view = source.broadcast_to(shape());
  ops::check_writable("copy_from", *this);
  const Source pair[] = {*this, source};
  ops::common_device("copy_from", pair);
  const bool overlaps = ops::overlap(*this, view) == ops::Overlap::partial;
  const Tensor safe = overlaps ? source.clone() : source;
  const Source inputs[] = {safe};
  return ops::write_in_place({ElementwiseOp::copy, "copy_from", dtype(), inputs, {}, {}}, dtype(),
                             *this);
}

Tensor& Tensor::fill(const Scalar& value) & {
  ops::check_scalar_fits("fill", value, dtype());
  ops::check_writable("fill", *this);
  const Source inputs[] = {Source(value, dtype())};
  return ops::write_in_place({ElementwiseOp::copy, "fill", dtype(), inputs, {}, {}}, dtype(),
                             *this);
}

}  // namespace extensor
