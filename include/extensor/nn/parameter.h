// The tensors of a module: Parameter (learned) and Buffer (not learned), and Training, the flag
// that train() and eval() set.
#pragma once

#include <utility>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

// A learned tensor, usable wherever a tensor is: w * x, w.sum(), relu(w). An undefined one stands
// for an absent parameter, such as a disabled bias.
//
// A copy owns separate memory. Assignment copies the values and the dtype into the existing tensor,
// so that an optimizer that holds this tensor remains valid; only a parameter that is undefined or
// has another shape gets a new tensor. tie_to() makes two parameters share one tensor.
class Parameter : public Tensor {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& value);  // copies the values; DTypeError unless they are floats
  Parameter(const Parameter& other);
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(const Parameter& other);
  Parameter& operator=(Parameter&& other);  // NOLINT: copies values where both are defined
  ~Parameter() = default;

  // Ties weights: this becomes the same tensor as `other`. A module lists it once in parameters()
  // and under both names in state_dict(), and copies of the module are tied as well. Throws
  // ValueError if `other` is undefined and ShapeError if this has another shape.
  //   lm_head.weight.tie_to(embedding.weight);
  void tie_to(const Parameter& other);

  // Assigning to the tensor rebinds it, which an optimizer does not notice.
  const Tensor& tensor() const { return *this; }
  Tensor& tensor() { return *this; }
};

// A tensor that belongs to the state but is not learned, such as running statistics. Copies own
// separate memory.
class Buffer : public Tensor {
 public:
  Buffer() = default;
  explicit Buffer(Tensor value) : Tensor(std::move(value)) {}
  Buffer(const Buffer& other);
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(const Buffer& other);
  Buffer& operator=(Buffer&&) noexcept = default;
  ~Buffer() = default;

  const Tensor& tensor() const { return *this; }
  Tensor& tensor() { return *this; }
};

// A flag for modules that behave differently in training; train() and eval() set it.
class Training {
 public:
  Training() = default;
  // User-provided, so that no struct with such a flag is trivially copyable: trivially copyable
  // structs are not searched for members.
  Training(const Training& other) : on_(other.on_) {}
  Training& operator=(const Training& other) = default;
  operator bool() const { return on_; }  // NOLINT: implicit
  void set(bool on) { on_ = on; }

 private:
  bool on_ = true;
};

}  // namespace extensor::nn

EXTENSOR_END_API
