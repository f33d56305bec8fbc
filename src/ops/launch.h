// The common path of all elementwise ops from checked tensors to one kernel call.
#pragma once

#include <span>

#include "backend/backend.h"
#include "extensor/tensor.h"

namespace extensor::ops {

using backend::ElementwiseOp;
using backend::Parameter;

// A parameter of a row, usable by float and integer kernels.
Parameter parameter(const Scalar& value);

// An operand of an elementwise call: a tensor, or a number that stands for a tensor of any shape.
class Source {
 public:
  Source(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT: implicit, calls mix both
  // Stores the number in its widest form: float64 for a float, int64 or uint64 for an integer.
  Source(const Scalar& scalar, DType result);

  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  DType dtype() const { return is_tensor() ? tensor_->dtype() : dtype_; }
  // The 8 bytes of a number of type dtype().
  const std::byte* number() const { return reinterpret_cast<const std::byte*>(&value_); }
  // The value of a float64 number.
  double real() const { return value_.real; }
  // The original number.
  Scalar scalar() const;

 private:
  const Tensor* tensor_ = nullptr;
  DType dtype_ = DType::float64;
  union {
    double real;
    std::int64_t integer;
    std::uint64_t natural;
  } value_ = {0};
};

// The dtype that kernels compute in: float32 for halves, otherwise the dtype itself.
inline DType compute_dtype(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

// Whether a tensor acts as a number among tensors of another device: it is 0-d and on the CPU.
inline bool acts_as_number(const Tensor& x) { return x.ndim() == 0 && x.device() == cpu_device; }

// The common device of all tensors, ignoring those that act as numbers among others. Throws
// DeviceError if there is none.
Device common_device(const char* operation, std::span<const Source> inputs);

// Throws DeviceError unless a kernel of `device` can read the inputs.
void check_on_device(const char* operation, std::span<const Source> inputs, Device device);

// The broadcast shape of the tensors among the inputs; ShapeError names the op and both shapes.
Shape broadcast_inputs(const char* operation, std::span<const Source> inputs);

// Throws DTypeError, naming the operation and the operand, if an operand is complex and the row has
// no complex form or `compute` is real, or if the device computes no complex numbers.
void check_complex_row(ElementwiseOp op, const char* operation, DType compute,
                       std::span<const Source> inputs, Device device);
// Throws DTypeError, naming the operation, if `dtype` is complex and the device computes no complex
// numbers.
void check_complex_device(const char* operation, DType dtype, Device device);
// Throws DTypeError if x is complex: for functions that call a kernel without dispatch().
void check_real(const char* operation, const char* argument, const Tensor& x);

// A new tensor of `dtype`, computed in `compute`, a complex dtype; like evaluate() below, for
// functions of complex numbers that are no rows. Not recorded.
Tensor evaluate_complex(backend::ComplexOp op, const char* operation, DType compute, DType dtype,
                        std::span<const Source> inputs);

// out[i] = op(inputs[i] …). The arguments are already checked; inputs broadcast to the shape of
// out. A call that computes part of a larger result passes the size of the whole.
void launch(ElementwiseOp op, DType compute, std::span<const Source> inputs, Tensor& out,
            Parameter first = {}, Parameter second = {}, std::int64_t whole_numel = 0);

// A new tensor of `dtype`, computed in `compute`, with the broadcast shape of the inputs. Its
// memory order follows the inputs (core/memory_layout.h), or `layout`, which has strides without
// gaps.
Tensor evaluate(ElementwiseOp op, const char* operation, DType compute, DType dtype,
                std::span<const Source> inputs, Parameter first = {}, Parameter second = {},
                const Strides* layout = nullptr);

// Throws ShapeError unless grad_output has the shape of the forward's result, and DTypeError unless
// it has a dtype with gradients, float or complex.
void check_grad_output(const char* operation, const Tensor& grad_output, const Shape& expected);
// The same for another gradient, named `argument`, which must be a float.
void check_gradient(const char* operation, const char* argument, const Tensor& gradient,
                    const Shape& expected);
// ShapeError unless x, named `argument`, has this shape.
void check_shape(const char* operation, const char* argument, const Tensor& x,
                 const Shape& expected);
// Throws DTypeError unless x has a dtype with gradients: float or complex.
void check_has_gradient(const char* operation, const char* argument, const Tensor& x);
// Throws DTypeError unless x is a float: for a backward that is not defined for complex numbers.
void check_float(const char* operation, const char* argument, const Tensor& x);

// Throws DTypeError unless a and b have dtypes with gradients, and unless grad_output is real if
// both are: for a backward of two operands that is defined for complex numbers.
void check_operands(const char* operation, const Tensor& grad_output, const Tensor& a,
                    const Tensor& b);

// A gradient in the dtype of the tensor that it belongs to: a real tensor in a complex expression
// gets the real part.
Tensor gradient_as(const Tensor& gradient, DType dtype);

}  // namespace extensor::ops
