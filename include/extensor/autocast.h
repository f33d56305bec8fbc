// Mixed precision: matrix products in a 16-bit dtype, everything else unchanged.
//
//   {
//     extensor::Autocast half;                       // bfloat16
//     Tensor loss = cross_entropy(model(x), y);      // weights stay float32, and so does the loss
//   }
//   loss.backward();                                 // so do their gradients
//
// While an Autocast object lives, on its thread, linear, convolutions, attention, matmul and the
// functions built on it cast their float32 operands to the half dtype and return results in it;
// losses cast theirs to float32; recurrent layers are not affected. The casts are recorded: a
// float32 weight gets a float32 gradient. float64 is left alone. docs/mixed-precision.md has more,
// including loss scaling for float16.
#pragma once

#include <optional>

#include "extensor/dtype.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

class [[nodiscard]] Autocast {
 public:
  // DTypeError unless `dtype` is float16 or bfloat16.
  explicit Autocast(DType dtype = DType::bfloat16, bool enabled = true);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  std::optional<DType> before_;
};

// The half dtype that products use on this thread, if any.
std::optional<DType> autocast_dtype();

// While an AllowTF32 object lives, on its thread, products of float32 on a CUDA device (linear,
// convolutions, attention, matmul and the functions built on it) may round their operands to TF32,
// which has 11 significant bits instead of 24, and are several times as fast; sums stay float32.
// Without it they are exact float32. The gradients of a product follow its forward, wherever
// backward() is called. Other dtypes and other devices are not affected.
//
//   AllowTF32 fast;
//   Tensor c = matmul(a, b);
class [[nodiscard]] AllowTF32 {
 public:
  explicit AllowTF32(bool enabled = true);
  AllowTF32(const AllowTF32&) = delete;
  AllowTF32& operator=(const AllowTF32&) = delete;
  ~AllowTF32();

 private:
  bool before_;
};

// Whether products of float32 may use TF32 on this thread.
bool is_tf32_allowed();

}  // namespace extensor

EXTENSOR_END_API
