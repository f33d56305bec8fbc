#include "ops/launch.h"

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"

namespace extensor::ops {

using detail::message;

Parameter parameter(const Scalar& value) {
  const double real = value.as_double();
  if (!value.is_floating()) {
    const bool natural = value.kind() == Scalar::Kind::unsigned_integer;
    return {real, natural ? static_cast<std::int64_t>(value.as_unsigned()) : value.as_integer()};
  }
  return {real, 0};
}

Source::Source(const Scalar& scalar, DType result) {
  if (is_floating_point(result) || scalar.is_floating()) {
    dtype_ = DType::float64;
    value_.real = scalar.as_double();
  } else if (scalar.kind() == Scalar::Kind::unsigned_integer) {
    dtype_ = DType::uint64;
    value_.natural = scalar.as_unsigned();
  } else {
    dtype_ = DType::int64;
    value_.integer = scalar.as_integer();
  }
}

DType compute_dtype(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

Device common_device(const char* operation, std::span<const Source> inputs) {
  const Tensor* first = nullptr;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    if (first == nullptr) {
      first = &input.tensor();
    } else if (!(input.tensor().device() == first->device())) {
      throw DeviceError(message(operation, ": operands are on different devices: ", first->device(),
                                " and ", input.tensor().device()));
    }
  }
  return first->device();
}

Shape broadcast_inputs(const char* operation, std::span<const Source> inputs) {
  Shape shape;
  bool first = true;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    const Shape& next = input.tensor().shape();
    if (first) {
      shape = next;
      first = false;
    } else if (!(shape == next)) {
      if (!are_shapes_broadcastable(shape, next)) {
        throw ShapeError(message(operation, ": shapes do not broadcast: ", shape, " and ", next));
      }
      shape = broadcast_shapes(shape, next);
    }
  }
  return shape;
}

void launch(ElementwiseOp op, DType compute, std::span<const Source> inputs, Tensor& out,
            Parameter first, Parameter second) {
  const detail::TensorImpl& result = out.impl();
  if (result.numel == 0) return;
  backend::ElementwiseCall call;
  call.op = op;
  call.compute = compute;
  call.input_count = static_cast<int>(inputs.size());
  call.shape = &result.shape;
  call.numel = result.numel;
  call.parameters[0] = first;
  call.parameters[1] = second;
  call.out = {result.data, result.dtype, result.strides.data()};
  bool contiguous = result.contiguous;
  bool flat = contiguous;  // dense tensors and single numbers: one dimension is enough
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Source& input = inputs[k];
    call.inputs[k] = {input.data(), input.dtype(), nullptr};
    const bool dense = input.is_tensor() && input.tensor().is_contiguous() &&
                       input.tensor().shape() == result.shape;
    contiguous = contiguous && dense;
    flat = flat && (dense || !input.is_tensor() || input.tensor().numel() == 1);
  }
  call.contiguous = contiguous;
  if (contiguous) return backend::backend_for(out.device()).elementwise(call);
  static constexpr std::int64_t one = 1, zero = 0;
  Shape line;
  Strides strides[backend::max_inputs];
  if (flat) {
    line = {result.numel};
    call.shape = &line;
    call.out.strides = &one;
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Source& input = inputs[k];
    if (flat) {
      const bool dense = input.is_tensor() && input.tensor().numel() == result.numel;
      call.inputs[k].strides = dense ? &one : &zero;
      continue;
    }
    strides[k] = input.is_tensor()
                     ? compute_broadcast_strides(input.tensor().shape(), input.tensor().strides(),
                                                 result.shape)
                     : Strides(result.shape.size(), 0);
    call.inputs[k].strides = strides[k].data();
  }
  backend::backend_for(out.device()).elementwise(call);
}

Tensor evaluate(ElementwiseOp op, const char* operation, DType compute, DType dtype,
                std::span<const Source> inputs, Parameter first, Parameter second) {
  const Device device = common_device(operation, inputs);
  const Source* only = nullptr;  // the usual case: every tensor has this one's shape
  bool same_shape = true;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    if (only == nullptr) only = &input;
    same_shape = same_shape && input.tensor().shape() == only->tensor().shape();
  }
  Tensor out = same_shape ? detail::make_empty(operation, only->tensor().shape(), dtype, device)
                          : detail::make_empty(operation, broadcast_inputs(operation, inputs),
                                               dtype, device);
  launch(op, compute, inputs, out, first, second);
  return out;
}

void check_float(const char* operation, const char* argument, const Tensor& x) {
  if (is_floating_point(x.dtype())) return;
  throw DTypeError(message(operation, ": ", argument, " is ", x.dtype(),
                           ", must be a float dtype (only floats have gradients)"));
}

void check_grad_output(const char* operation, const Tensor& grad_output, const Shape& expected) {
  check_float(operation, "grad_output", grad_output);
  if (grad_output.shape() == expected) return;
  throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(),
                           ", the forward gave ", expected));
}

}  // namespace extensor::ops
