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

}  // namespace extensor

EXTENSOR_END_API
