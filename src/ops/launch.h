// From checked tensors to one kernel call: the journey every elementwise op shares.
#pragma once

#include <span>

#include "backend/backend.h"
#include "extensor/tensor.h"

namespace extensor::ops {

using backend::ElementwiseOp;
using backend::Parameter;

// A parameter of a row, usable by float and integer kernels.
Parameter parameter(const Scalar& value);

// An operand of an elementwise call: a tensor, or a number standing for one of any shape.
class Source {
 public:
  Source(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT: implicit, calls mix both
  // The number as `kind`'s widest: float64 for a float, int64 or uint64 for an integer.
  Source(const Scalar& scalar, DType result);

  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  DType dtype() const { return is_tensor() ? tensor_->dtype() : dtype_; }
  // The 8 bytes of a number, an element of dtype().
  const std::byte* number() const { return reinterpret_cast<const std::byte*>(&value_); }
  // A number that is a float64.
  double real() const { return value_.real; }
  // The number as it was given.
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

// The dtype kernels compute a tensor dtype in: halves in float32, the rest in itself.
DType compute_dtype(DType dtype);

// Whether a tensor counts as a number beside tensors of another device: it has no dimensions and is
// on the CPU.
inline bool acts_as_number(const Tensor& x) { return x.ndim() == 0 && x.device() == cpu_device; }

// The device that all tensors are on, those that act as numbers beside others left out. DeviceError
// unless there is one.
Device common_device(const char* operation, std::span<const Source> inputs);

// DeviceError unless the inputs can be read by a kernel of `device`.
void check_on_device(const char* operation, std::span<const Source> inputs, Device device);

// The shape the tensors among the inputs broadcast to; ShapeError names the op and both shapes.
Shape broadcast_inputs(const char* operation, std::span<const Source> inputs);

// out[i] = op(inputs[i] …), everything checked already; inputs broadcast to out's shape.
// A call that makes a part of a larger result says how many elements that has.
void launch(ElementwiseOp op, DType compute, std::span<const Source> inputs, Tensor& out,
            Parameter first = {}, Parameter second = {}, std::int64_t whole_numel = 0);

// A new tensor of `dtype`, computed in `compute`, in the inputs' broadcast shape. Its elements lie
// in the order of the inputs' (core/memory_layout.h), or as `layout` says: strides without gaps.
Tensor evaluate(ElementwiseOp op, const char* operation, DType compute, DType dtype,
                std::span<const Source> inputs, Parameter first = {}, Parameter second = {},
                const Strides* layout = nullptr);

// ShapeError unless grad_output has the shape the forward gave, DTypeError unless it is a float.
void check_grad_output(const char* operation, const Tensor& grad_output, const Shape& expected);
// The same for another gradient, by its argument's name.
void check_gradient(const char* operation, const char* argument, const Tensor& gradient,
                    const Shape& expected);
void check_float(const char* operation, const char* argument, const Tensor& x);

}  // namespace extensor::ops
