#include "ops/launch.h"

#include <algorithm>
#include <cstring>

#include "backend/device.h"
#include "core/check.h"
#include "core/context.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/broadcasting.h"
#include "ops/record_elementwise.h"
#include "ops/row_gradients.h"

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

[[noreturn]] void throw_complex(const char* operation, const char* argument, DType dtype) {
  throw DTypeError(message(operation, ": ", argument, " is ", dtype, " (allowed: a real dtype)"));
}

bool is_complex(const Source& input) { return input.is_tensor() && is_complex(input.dtype()); }

}  // namespace

void check_complex_device(const char* operation, DType dtype, Device device) {
  if (!extensor::is_complex(dtype)) return;
  if (backend::interface_of(device, operation).kernels.complex_elementwise != nullptr) return;
  throw DTypeError(
      message(operation, ": the operands are ", dtype, " on ", device,
              ", which computes no complex numbers (allowed: on the CPU; copy them there)"));
}

void check_real(const char* operation, const char* argument, const Tensor& x) {
  if (is_complex(x.dtype())) throw_complex(operation, argument, x.dtype());
}

void check_complex_row(ElementwiseOp op, const char* operation, DType compute,
                       std::span<const Source> inputs, Device device) {
  const bool allowed = extensor::is_complex(compute) && backend::complex_form(op).has_value();
  for (std::size_t k = 0; k < inputs.size() && !allowed; ++k) {
    if (!is_complex(inputs[k])) continue;
    const char* argument = row_role(op).op.inputs[k];
    throw_complex(operation, argument == nullptr ? "an operand" : argument, inputs[k].dtype());
  }
  if (!allowed) throw_complex(operation, "the result", compute);
  // Copies move bytes, on every device.
  if (op == ElementwiseOp::copy && inputs[0].is_tensor() && inputs[0].dtype() == compute &&
      inputs[0].tensor().device() == device) {
    return;
  }
  check_complex_device(operation, compute, device);
}

namespace {

// Stores a number, or the value of a tensor that acts as one for a kernel of another device.
void set_number(backend::Operand& operand, const Source& input) {
  if (input.is_tensor()) {
    std::memcpy(operand.number, input.tensor().impl().data, itemsize(operand.dtype));
  } else {
    std::memcpy(operand.number, input.number(), sizeof(double));
  }
}

// All of a call except its inputs.
inline void begin_call(backend::ElementwiseCall& call, ElementwiseOp op, DType compute,
                       std::span<const Source> inputs, const detail::TensorImpl& out,
                       Parameter first, Parameter second) {
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
}

backend::ElementwiseCall make_call(ElementwiseOp op, DType compute, std::span<const Source> inputs,
                                   const detail::TensorImpl& out, Parameter first,
                                   Parameter second) {
  backend::ElementwiseCall call;
  begin_call(call, op, compute, inputs, out, first, second);
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

// Calls the kernel on real row-major tensors of the shape and the device of `out`, and numbers.
// This is what small ops wait for: nothing is checked twice.
inline void launch_uniform(ElementwiseOp op, DType compute, std::span<const Source> inputs,
                           const detail::TensorImpl& out, Parameter first, Parameter second) {
  if (out.numel == 0) return;
  backend::ElementwiseCall call;
  begin_call(call, op, compute, inputs, out, first, second);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Source& input = inputs[k];
    backend::Operand& operand = call.inputs[k];
    call.repeats[k] = !input.is_tensor();
    operand.dtype = input.dtype();
    if (input.is_tensor()) {
      operand.data = input.tensor().impl().data;
    } else {
      set_number(operand, input);
    }
  }
  backend::interface_of(out.storage->device).kernels.elementwise(call);
}

// Copies complex numbers without changing their dtype, as pairs of their parts.
void copy_complex(const backend::Backend& backend, backend::ElementwiseCall& call) {
  Shape shape = *call.shape;
  Strides strides[2];
  const auto split = [&](backend::Operand& operand, const Strides& given) {
    Strides& steps = strides[&operand == &call.out ? 0 : 1];
    steps = given;
    for (std::int64_t& step : steps) step *= 2;
    steps.push_back(1);
    operand.dtype = real_dtype(operand.dtype);
    operand.strides = steps.data();
  };
  Strides out(shape.size(), 0), in(shape.size(), 0);
  for (std::size_t d = shape.size(), step = 1; d-- > 0;) {
    out[d] = call.contiguous ? static_cast<std::int64_t>(step) : call.out.strides[d];
    in[d] = call.repeats[0] ? 0 : call.contiguous ? out[d] : call.inputs[0].strides[d];
    step *= static_cast<std::size_t>(shape[d]);
  }
  // With 64 axes, one has length 1: there are no 2⁶⁴ elements. It makes room for the axis of parts.
  if (shape.size() == static_cast<std::size_t>(max_rank)) {
    const auto single = static_cast<std::size_t>(std::ranges::find(shape, 1) - shape.begin());
    for (Dims* dims : {&shape, &out, &in}) dims->erase(single);
  }
  split(call.out, out);
  split(call.inputs[0], in);
  shape.push_back(2);
  call.compute = real_dtype(call.compute);
  call.shape = &shape;
  call.numel *= 2;
  call.whole_numel *= 2;
  call.contiguous = call.contiguous && !call.repeats[0];
  call.repeats[0] = false;
  backend.elementwise(call);
}

// Runs a call whose compute dtype is complex.
[[gnu::noinline]] void launch_complex(const backend::Backend& backend, backend::ComplexOp op,
                                      backend::ElementwiseCall& call) {
  const backend::Operand& first = call.inputs[0];
  if (op == backend::ComplexOp::copy && first.dtype == call.out.dtype && !first.is_number()) {
    return copy_complex(backend, call);
  }
  backend.complex_elementwise(op, call);
}

void fill_strides(std::span<const Source> inputs, const Shape& shape, Strides* strides,
                  backend::ElementwiseCall& call) {
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Source& input = inputs[k];
    strides[k] = input.is_tensor() ? compute_broadcast_strides(input.tensor().shape(),
                                                               input.tensor().strides(), shape)
                                   : Strides(shape.size(), 0);
    call.inputs[k].strides = strides[k].data();
  }
}

}  // namespace

void launch(ElementwiseOp op, DType compute, std::span<const Source> inputs, Tensor& out,
            Parameter first, Parameter second, std::int64_t whole_numel) {
  const detail::TensorImpl& result = out.impl();
  if (result.numel == 0) return;
  backend::ElementwiseCall call = make_call(op, compute, inputs, result, first, second);
  call.whole_numel = whole_numel;
  const backend::Backend& backend = backend::interface_of(result.storage->device).kernels;
  const bool complex = is_complex(compute);
  if (call.contiguous && !complex) return backend.elementwise(call);
  Strides strides[backend::max_inputs];
  fill_strides(inputs, result.shape, strides, call);
  if (!complex) return backend.elementwise(call);
  const auto form = backend::complex_form(op);
  if (!form) throw_complex("kernel", "an operand", compute);
  launch_complex(backend, *form, call);
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
  // One pass finds what the usual case needs: every tensor has the same device and shape, and no
  // shape is copied.
  const detail::TensorImpl* head = nullptr;
  bool same_device = true, same_shape = true, row_major = layout == nullptr;
  bool complex = is_complex(compute), may_be_recorded = false;
  for (const Source& input : inputs) {
    if (!input.is_tensor()) continue;
    const detail::TensorImpl& x = input.tensor().impl();
    row_major &= x.contiguous;
    complex |= is_complex(x.dtype);
    may_be_recorded |= x.node.get() != nullptr || x.base.get() != nullptr;
    if (head == nullptr) {
      head = &x;
    } else {
      same_device &= x.storage->device == head->storage->device;
      same_shape = same_shape && x.shape == head->shape;
    }
  }
  const bool has_device = head != nullptr && same_device;
  const Device device = has_device ? head->storage->device : common_device(operation, inputs);
  if (complex) [[unlikely]] {
    check_complex_row(op, operation, compute, inputs, device);
  }
  Shape broadcast;
  if (!same_shape || head == nullptr) broadcast = broadcast_inputs(operation, inputs);
  const Shape& shape = !same_shape || head == nullptr ? broadcast : head->shape;
  Tensor out = row_major ? detail::make_empty(operation, shape, dtype, device)
                         : make_laid_out(operation, shape, dtype, device, inputs, layout);
  if (same_device && same_shape && row_major && !complex) [[likely]] {
    launch_uniform(op, compute, inputs, out.impl(), first, second);
  } else {
    launch(op, compute, inputs, out, first, second);
  }
  if (may_be_recorded || detail::context.capture != nullptr) {
    record_row({op, operation, compute, dtype, inputs, first, second}, out);
  }
  return out;
}

Tensor evaluate_complex(backend::ComplexOp op, const char* operation, DType compute, DType dtype,
                        std::span<const Source> inputs) {
  const Device device = common_device(operation, inputs);
  check_complex_device(operation, compute, device);
  const Shape shape = broadcast_inputs(operation, inputs);
  const bool row_major = std::ranges::all_of(inputs, [](const Source& input) {
    return !input.is_tensor() || input.tensor().is_contiguous();
  });
  Tensor out = row_major ? detail::make_empty(operation, shape, dtype, device)
                         : make_laid_out(operation, shape, dtype, device, inputs, nullptr);
  if (out.numel() == 0) return out;
  backend::ElementwiseCall call =
      make_call(ElementwiseOp::copy, compute, inputs, out.impl(), {}, {});
  Strides strides[backend::max_inputs];
  fill_strides(inputs, shape, strides, call);
  launch_complex(backend::interface_of(device).kernels, op, call);
  return out;
}

void check_has_gradient(const char* operation, const char* argument, const Tensor& x) {
  if (is_differentiable(x.dtype())) return;
  throw DTypeError(message(operation, ": ", argument, " is ", x.dtype(),
                           ", must be a float or complex dtype (only those have gradients)"));
}

void check_float(const char* operation, const char* argument, const Tensor& x) {
  if (is_floating_point(x.dtype())) return;
  throw DTypeError(
      message(operation, ": ", argument, " is ", x.dtype(), ", must be a float dtype"));
}

void check_operands(const char* operation, const Tensor& grad_output, const Tensor& a,
                    const Tensor& b) {
  check_has_gradient(operation, "a", a);
  check_has_gradient(operation, "b", b);
  if (!is_complex(a.dtype()) && !is_complex(b.dtype())) {
    check_real(operation, "grad_output", grad_output);
  }
}

void check_grad_output(const char* operation, const Tensor& grad_output, const Shape& expected) {
  check_has_gradient(operation, "grad_output", grad_output);
  if (grad_output.shape() == expected) return;
  throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(),
                           ", the forward gave ", expected));
}

void check_gradient(const char* operation, const char* argument, const Tensor& gradient,
                    const Shape& expected) {
  check_float(operation, argument, gradient);
  check_shape(operation, argument, gradient, expected);
}

void check_shape(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected) {
  if (x.shape() == expected) return;
  throw ShapeError(message(operation, ": ", argument, " is ", x.shape(), ", must be ", expected));
}

}  // namespace extensor::ops
