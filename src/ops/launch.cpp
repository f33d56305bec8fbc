#include "ops/launch.h"

#include <cstring>

#include "backend/device.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/broadcasting.h"
#include "ops/record_elementwise.h"

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

Scalar Source::scalar() const {
  if (dtype_ == DType::float64) return value_.real;
  if (dtype_ == DType::uint64) return value_.natural;
  return value_.integer;
}

DType compute_dtype(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

namespace {

[[noreturn]] void throw_different_devices(const char* operation, Device a, Device b) {
  throw DeviceError(message(operation, ": operands are on different devices: ", a, " and ", b));
}

}  // namespace

Device common_device(const char* operation, std::span<const Source> inputs) {
  const Tensor* first = nullptr;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    const Tensor& next = input.tensor();
    if (first == nullptr) {
      first = &next;
    } else if (!(next.device() == first->device())) {
      if (acts_as_number(*first)) {
        first = &next;
      } else if (!acts_as_number(next)) {
        throw_different_devices(operation, first->device(), next.device());
      }
    }
  }
  return first == nullptr ? cpu_device : first->device();  // a fill has only numbers
}

void check_on_device(const char* operation, std::span<const Source> inputs, Device device) {
  for (const Source& input : inputs) {
    if (!input.is_tensor() || input.tensor().device() == device) continue;
    if (acts_as_number(input.tensor())) continue;
    throw_different_devices(operation, device, input.tensor().device());
  }
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

namespace {

// Stores a number, or the value of a tensor that acts as one for a kernel of another device.
void set_number(backend::Operand& operand, const Source& input) {
  if (input.is_tensor()) {
    std::memcpy(operand.number, input.tensor().impl().data, itemsize(operand.dtype));
  } else {
    std::memcpy(operand.number, input.number(), sizeof operand.number);
  }
}

backend::ElementwiseCall make_call(ElementwiseOp op, DType compute, std::span<const Source> inputs,
                                   const detail::TensorImpl& out, Parameter first,
                                   Parameter second) {
  backend::ElementwiseCall call;
  call.op = op;
  call.compute = compute;
  call.input_count = static_cast<int>(inputs.size());
  call.shape = &out.shape;
  call.numel = out.numel;
  call.parameters[0] = first;
  call.parameters[1] = second;
  call.out.data = out.data;
  call.out.dtype = out.dtype;
  call.out.strides = out.strides.data();
  call.contiguous = out.contiguous;
  const Device device = out.storage->device;
  const bool on_host = device.type == Device::Type::cpu;  // then all tensors are too
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Source& input = inputs[k];
    backend::Operand& operand = call.inputs[k];
    if (input.is_tensor() && (on_host || input.tensor().device() == device)) {
      const detail::TensorImpl& x = input.tensor().impl();
      operand.data = x.data;
      operand.dtype = x.dtype;
      call.repeats[k] = x.numel == 1 && out.numel != 1;
      call.contiguous =
          call.contiguous && (call.repeats[k] || (x.contiguous && x.numel == out.numel));
    } else {
      operand.dtype = input.dtype();
      set_number(operand, input);
      call.repeats[k] = true;
    }
  }
  return call;
}

}  // namespace

void launch(ElementwiseOp op, DType compute, std::span<const Source> inputs, Tensor& out,
            Parameter first, Parameter second, std::int64_t whole_numel) {
  const detail::TensorImpl& result = out.impl();
  if (result.numel == 0) return;
  backend::ElementwiseCall call = make_call(op, compute, inputs, result, first, second);
  call.whole_numel = whole_numel;
  const backend::Backend& backend = backend::interface_of(result.storage->device).kernels;
  if (call.contiguous) return backend.elementwise(call);
  Strides strides[backend::max_inputs];
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Source& input = inputs[k];
    strides[k] = input.is_tensor()
                     ? compute_broadcast_strides(input.tensor().shape(), input.tensor().strides(),
                                                 result.shape)
                     : Strides(result.shape.size(), 0);
    call.inputs[k].strides = strides[k].data();
  }
  backend.elementwise(call);
}

namespace {

// Allocates a result that is not row-major, or has the strides `layout`. Kept out of line so that
// calls on small row-major tensors stay short.
[[gnu::noinline]] Tensor make_laid_out(const char* operation, const Shape& shape, DType dtype,
                                       Device device, std::span<const Source> inputs,
                                       const Strides* layout) {
  if (layout != nullptr) return detail::make_empty(operation, shape, *layout, dtype, device);
  Strides broadcast[backend::max_inputs];
  const std::int64_t* strides[backend::max_inputs];
  std::size_t count = 0;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    const Tensor& x = input.tensor();
    broadcast[count] =
        x.shape() == shape ? x.strides() : compute_broadcast_strides(x.shape(), x.strides(), shape);
    strides[count] = broadcast[count].data();
    ++count;
  }
  return detail::make_empty(operation, shape, detail::result_strides(shape, count, strides), dtype,
                            device);
}

}  // namespace

Tensor evaluate(ElementwiseOp op, const char* operation, DType compute, DType dtype,
                std::span<const Source> inputs, Parameter first, Parameter second,
                const Strides* layout) {
  detail::note_call_begin();
  const Device device = common_device(operation, inputs);
  // In the usual case every tensor has the same shape, and no shape is copied.
  const Shape* shape = nullptr;
  bool same_shape = true, row_major = layout == nullptr;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    row_major &= input.tensor().is_contiguous();
    if (shape == nullptr) {
      shape = &input.tensor().shape();
    } else {
      same_shape = same_shape && input.tensor().shape() == *shape;
    }
  }
  Shape broadcast;
  if (!same_shape || shape == nullptr) {
    broadcast = broadcast_inputs(operation, inputs);
    shape = &broadcast;
  }
  Tensor out = row_major ? detail::make_empty(operation, *shape, dtype, device)
                         : make_laid_out(operation, *shape, dtype, device, inputs, layout);
  launch(op, compute, inputs, out, first, second);
  record_row({op, operation, compute, dtype, inputs, first, second}, out);
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

void check_gradient(const char* operation, const char* argument, const Tensor& gradient,
                    const Shape& expected) {
  check_float(operation, argument, gradient);
  if (gradient.shape() == expected) return;
  throw ShapeError(
      message(operation, ": ", argument, " is ", gradient.shape(), ", must be ", expected));
}

}  // namespace extensor::ops
