// Mixed precision: products in a half, everything else as it is.
//
//   {
//     extensor::Autocast half;                       // bfloat16
//     Tensor loss = cross_entropy(model(x), y);      // weights stay float32, and so does the loss
//   }
//   loss.backward();                                 // so do their gradients
//
// While one lives, on this thread, linear, matmul and what is made of it, convolutions and
// attention take their float32 operands in the half dtype and give results in it; losses take
// theirs in float32; recurrent layers compute as without it. The casts are recorded: a float32
// weight gets a float32 gradient. float64 is left alone. docs/mixed-precision.md tells more, and of
// float16's loss scaling.
#pragma once

#include <optional>

#include "extensor/dtype.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

class [[nodiscard]] Autocast {
 public:
  // DTypeError unless it is float16 or bfloat16.
  explicit Autocast(DType dtype = DType::bfloat16, bool enabled = true);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  std::optional<DType> before_;
};

// The half that products are computed in on this thread, if any.
std::optional<DType> autocast_dtype();

}  // namespace extensor

EXTENSOR_END_API
