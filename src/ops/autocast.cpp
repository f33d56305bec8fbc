#include "ops/autocast.h"

#include <utility>

#include "core/check.h"

namespace extensor {

namespace {
constinit thread_local std::optional<DType> current;
}  // namespace

Autocast::Autocast(DType dtype, bool enabled) : before_(current) {
  if (!is_half(dtype)) {
    throw DTypeError(
        detail::message("Autocast: the dtype is ", dtype, " (allowed: bfloat16, float16)"));
  }
  current = enabled ? std::optional(dtype) : std::nullopt;
}
Autocast::~Autocast() { current = before_; }

std::optional<DType> autocast_dtype() { return current; }

namespace ops {

bool lowers_one(const Tensor& x) { return current && x.defined() && x.dtype() == DType::float32; }
Tensor lowered(const Tensor& x) {
  const std::optional<DType> half = current;
  return half && lowers_one(x) ? x.to(*half) : x;
}

bool raises(const Tensor& x) { return current && x.defined() && is_half(x.dtype()); }
Tensor raised(const Tensor& x) { return raises(x) ? x.to(DType::float32) : x; }

}  // namespace ops
}  // namespace extensor
