#include "ops/autocast.h"

#include <utility>

#include "core/check.h"
#include "core/context.h"

namespace extensor {

using detail::context;

Autocast::Autocast(DType dtype, bool enabled) : before_(context.autocast) {
  if (!is_half(dtype)) {
    throw DTypeError(
        detail::message("Autocast: the dtype is ", dtype, " (allowed: bfloat16, float16)"));
  }
  context.autocast = enabled ? std::optional(dtype) : std::nullopt;
}
Autocast::~Autocast() { context.autocast = before_; }

std::optional<DType> autocast_dtype() { return context.autocast; }

AllowTF32::AllowTF32(bool enabled) : before_(std::exchange(context.allow_tf32, enabled)) {}
AllowTF32::~AllowTF32() { context.allow_tf32 = before_; }

bool is_tf32_allowed() { return context.allow_tf32; }

namespace ops {

bool lowers_one(const Tensor& x) {
  return context.autocast && x.defined() && x.dtype() == DType::float32;
}
Tensor lowered(const Tensor& x) {
  const std::optional<DType> half = context.autocast;
  return half && lowers_one(x) ? x.to(*half) : x;
}

bool raises(const Tensor& x) { return context.autocast && x.defined() && is_half(x.dtype()); }
Tensor raised(const Tensor& x) { return raises(x) ? x.to(DType::float32) : x; }

}  // namespace ops
}  // namespace extensor
