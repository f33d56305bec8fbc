// Copies, conversions and fills: the methods of Tensor that move elements.
#include "backend/device.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/tensor.h"
#include "ops/launch.h"
#include "ops/op.h"
#include "ops/overlap.h"
#include "ops/record_elementwise.h"
#include "ops/registry.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using ops::ElementwiseOp;
using ops::Source;

Tensor copied(const char* operation, const Tensor& x, DType dtype, const Strides& layout) {
  const Source inputs[] = {x};
  return ops::evaluate(ElementwiseOp::copy, operation, dtype, dtype, inputs, {}, {}, &layout);
}
// Preserves the memory order, including the strides of axes of size 1.
Tensor copied(const char* operation, const Tensor& x, DType dtype) {
  if (!x.is_contiguous() || x.ndim() == 4) {
    return copied(operation, x, dtype, detail::dense_strides(x));
  }
  const Source inputs[] = {x};
  return ops::evaluate(ElementwiseOp::copy, operation, dtype, dtype, inputs);
}
Tensor copied(const char* operation, const Tensor& x, DType dtype, MemoryFormat format) {
  if (format == MemoryFormat::preserve) return copied(operation, x, dtype);
  detail::check_format(operation, x.shape(), format);
  return copied(operation, x, dtype,
                format == MemoryFormat::contiguous ? detail::contiguous_strides(x.shape())
                                                   : detail::channels_last_strides(x.shape()));
}

// Copies between two device types other than the CPU go through the host.
Tensor copied_between_devices(const char* operation, const Tensor& x, Device to) {
  const Device from = x.device();
  if (from != cpu_device && to != cpu_device && from.type != to.type) {
    return copied_between_devices(operation, copied_between_devices(operation, x, cpu_device), to);
  }
  const backend::DeviceInterface& interface =
      backend::interface_of(to == cpu_device ? from : to, operation);
  const Strides layout = detail::dense_strides(x);
  const bool has_gaps = !x.is_contiguous() && !(x.strides() == layout);
  const Tensor dense = has_gaps ? copied(operation, x, x.dtype(), layout) : x;
  Tensor result = detail::make_empty(operation, x.shape(), layout, x.dtype(), to);
  if (x.numel() != 0) {
    interface.copy({result.impl().data, to, dense.impl().data, from, dense.nbytes()});
  }
  return result;
}

struct Move {
  Device from, to;
};
Tensor move_forward(const ops::Run& run, const Move& move, const Tensor& x) {
  return copied_between_devices(run.name(), x, move.to);
}
ops::Gradients move_gradient(const ops::GradientCall& call, const Move& move) {
  return call.grad().to(move.from);
}
constexpr auto move_op =
    ops::define<move_forward, move_gradient>({.name = "to", .inputs = {"x"}, .complex = true});

}  // namespace

constinit const ops::OpList ops::copy_ops = listed<move_op>;

Tensor detail::copied_to(const char* operation, const Tensor& x, Device device) {
  if (x.device() == device) return x;
  return unrecorded([&] { return copied_between_devices(operation, x, device); });
}

Tensor Tensor::to(Device target) const {
  return target == device() ? *this : ops::dispatch(move_op, {device(), target}, *this);
}

Tensor Tensor::to(Device target, DType target_dtype) const {
  // Cast on the side that transfers fewer bytes.
  return itemsize() <= extensor::itemsize(target_dtype) ? to(target).to(target_dtype)
                                                        : to(target_dtype).to(target);
}

Tensor Tensor::to(DType target) const {
  if (target == dtype()) return *this;
  if (is_complex(dtype()) && !is_complex(target)) [[unlikely]] {
    if (target == DType::bool_) return extensor::not_equal(*this, 0);
    throw DTypeError(detail::message("to: x is ", dtype(), " and cannot become ", target,
                                     " (allowed: bool and complex dtypes; real() and imag() have "
                                     "the parts)"));
  }
  return copied("to", *this, target);
}

Tensor Tensor::to(MemoryFormat format) const {
  if (format == MemoryFormat::preserve) return *this;
  detail::check_format("to", shape(), format);
  return is_contiguous(format) && detail::format_of(*this) == format
             ? *this
             : copied("to", *this, dtype(), format);
}

Tensor Tensor::clone(MemoryFormat format) const { return copied("clone", *this, dtype(), format); }

Tensor Tensor::contiguous() const {
  return is_contiguous() ? *this : copied("contiguous", *this, dtype(), MemoryFormat::contiguous);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  detail::check_format("contiguous", shape(), format);
  return is_contiguous(format) ? *this : copied("contiguous", *this, dtype(), format);
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  detail::check_option("is_contiguous", "memory_format", format, MemoryFormat::preserve);
  if (format == MemoryFormat::preserve) detail::check_format("is_contiguous", shape(), format);
  return format == MemoryFormat::contiguous ? is_contiguous()
                                            : detail::is_channels_last(shape(), strides());
}

Tensor& Tensor::copy_from(const Tensor& source) & {
  if (source.dtype() != dtype() && ops::kind_of(source.dtype()) > ops::kind_of(dtype())) {
    throw DTypeError(detail::message("copy_from: source is ", source.dtype(),
                                     " and this tensor is ", dtype(), "; say so with source.to(",
                                     dtype(), ")"));
  }
  if (!are_shapes_broadcastable(source.shape(), shape()) ||
      !(broadcast_shapes(source.shape(), shape()) == shape())) {
    throw ShapeError(detail::message("copy_from: source is ", source.shape(),
                                     " and does not broadcast to this tensor's shape, ", shape()));
  }
  ops::check_writable("copy_from", *this);
  if (source.device() != device()) {
    // Checked here so that the error names this function.
    for (const Device each : {device(), source.device()}) backend::interface_of(each, "copy_from");
    return copy_from(source.to(device()));
  }
  const Tensor view = source.broadcast_to(shape());
  const bool overlaps = ops::overlap(*this, view) == ops::Overlap::partial;
  const Tensor safe = overlaps ? source.clone() : source;
  const Source inputs[] = {safe};
  return ops::write_in_place({ElementwiseOp::copy, "copy_from", dtype(), dtype(), inputs}, *this);
}

Tensor& Tensor::fill(const Scalar& value) & {
  ops::check_scalar_stored("fill", "value", value, dtype());
  if (value.is_complex()) [[unlikely]] {
    return copy_from(ops::complex_number(value, dtype()));
  }
  ops::check_writable("fill", *this);
  const Source inputs[] = {Source(value, dtype())};
  return ops::write_in_place({ElementwiseOp::copy, "fill", dtype(), dtype(), inputs}, *this);
}

}  // namespace extensor
