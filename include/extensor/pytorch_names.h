// PyTorch's names of functions that have another name here.
#pragma once

#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/export.h"
#include "extensor/indexing.h"
#include "extensor/linalg.h"
#include "extensor/losses.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"

EXTENSOR_BEGIN_API

namespace extensor {

#define EXTENSOR_ALIAS(alias, name)                                            \
  inline Tensor alias(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor alias(const Tensor& a, const Scalar& b) { return name(a, b); } \
  inline Tensor alias(const Scalar& a, const Tensor& b) { return name(a, b); }
EXTENSOR_ALIAS(sub, subtract)
EXTENSOR_ALIAS(mul, multiply)
EXTENSOR_ALIAS(div, divide)
EXTENSOR_ALIAS(eq, equal)
EXTENSOR_ALIAS(ne, not_equal)
EXTENSOR_ALIAS(lt, less)
EXTENSOR_ALIAS(le, less_equal)
EXTENSOR_ALIAS(gt, greater)
EXTENSOR_ALIAS(ge, greater_equal)
#undef EXTENSOR_ALIAS
#define EXTENSOR_ALIAS(alias, name) \
  inline Tensor alias(const Tensor& x) { return name(x); }
EXTENSOR_ALIAS(neg, negative)
EXTENSOR_ALIAS(logsigmoid, log_sigmoid)
EXTENSOR_ALIAS(hardsigmoid, hard_sigmoid)
EXTENSOR_ALIAS(hardswish, hard_swish)
#undef EXTENSOR_ALIAS

inline Tensor div(const Tensor& a, const Tensor& b, Rounding rounding) {
  return divide(a, b, rounding);
}
inline Tensor div(const Tensor& a, const Scalar& b, Rounding rounding) {
  return divide(a, b, rounding);
}
inline Tensor hardtanh(const Tensor& x, StrictDouble lo = -1, StrictDouble hi = 1) {
  return hard_tanh(x, lo, hi);
}

inline Tensor clamp(const Tensor& x, const Scalar& min, const Scalar& max) {
  return clip(x, min, max);
}
inline Tensor clamp(const Tensor& x, const ClipBounds& bounds) { return clip(x, bounds); }
inline Tensor clamp(const Tensor& x, const Scalar& min, std::nullopt_t = std::nullopt) {
  return clip(x, min);
}
inline Tensor clamp(const Tensor& x, std::nullopt_t none, const Scalar& max) {
  return clip(x, none, max);
}
inline Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max = {}) {
  return clip(x, min, max);
}

inline Tensor amax(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false) {
  return max_reduce(x, axes, keepdims);
}
inline Tensor amin(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false) {
  return min_reduce(x, axes, keepdims);
}
inline Tensor cumsum(const Tensor& x, std::optional<StrictInt> axis = {}) {
  return cumulative_sum(x, axis);
}
inline Tensor cumprod(const Tensor& x, std::optional<StrictInt> axis = {}) {
  return cumulative_prod(x, axis);
}

inline Tensor mm(const Tensor& a, const Tensor& b) { return matmul(a, b); }

// torch.det and torch.linalg.det are one function.
using linalg::cholesky;
using linalg::cross;
using linalg::det;
using linalg::diagonal;
using linalg::pinv;
using linalg::qr;
using linalg::slogdet;
using linalg::svd;
using linalg::trace;
inline Tensor inverse(const Tensor& x) { return linalg::inv(x); }

inline Tensor cat(const std::vector<Tensor>& tensors, StrictInt axis = 0) {
  return concatenate(tensors, axis);
}
inline Tensor permute(const Tensor& x, const Dims& axes) { return transpose(x, axes); }
inline Tensor swapaxes(const Tensor& x, StrictInt first, StrictInt second) {
  return transpose(x, first, second);
}
inline std::vector<Tensor> unbind(const Tensor& x, StrictInt axis = 0) { return unstack(x, axis); }
inline Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                                std::optional<StrictInt> axis = {}) {
  return repeat(x, repeats, axis);
}
inline Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                                std::optional<StrictInt> axis = {}) {
  return repeat(x, repeats, axis);
}
inline Tensor index_select(const Tensor& x, StrictInt axis, const Tensor& indices) {
  return take(x, indices, axis);
}

inline Tensor scatter_reduce(const Tensor& x, StrictInt axis, const Tensor& indices,
                             const Tensor& source, ScatterReduction reduction,
                             StrictBool include_self = true) {
  return scatter(x, axis, indices, source, reduction, include_self);
}

inline Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean) {
  return mean_squared_error(x, y, reduction);
}
inline Tensor kl_div(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
                     StrictBool log_target = false) {
  return kl_divergence(x, y, reduction, log_target);
}

}  // namespace extensor

EXTENSOR_END_API
