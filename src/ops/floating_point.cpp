#include "extensor/floating_point.h"

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/dtype_info.h"
#include "extensor/elementwise.h"

namespace extensor {

namespace {

// The neighbours of m > 0 are the sums of m and ± a little more than half of the distance to them,
// rounded to nearest. With u = eps / 2, u (1 + 2u) m is such a number unless it underflows, which
// multiplying m by 1 / u before and by u afterwards prevents. (Rump, Zimmermann, Boldo and
// Melquiond, "Computing predecessor and successor in rounding to nearest", BIT 49, 2009.)
Tensor next_magnitude(const Tensor& m, const Tensor& is_away, const FloatInfo& facts) {
  const double u = facts.eps / 2;
  const double tiny = facts.smallest_normal * facts.eps;  // the smallest subnormal number
  const Tensor is_small = less(m, tiny / u / u / 2);
  const Tensor scale = where(is_small, 1 / u, ones({}, {facts.dtype, m.device()}));
  const Tensor scaled = multiply(m, scale);
  const Tensor step = maximum(multiply(scaled, u * (1 + 2 * u)), multiply(scale, tiny));
  const Tensor neighbour = add(scaled, where(is_away, step, negative(step)));
  return where(is_small, multiply(neighbour, u), neighbour);
}

}  // namespace

Tensor nextafter(const Tensor& first, const Tensor& second) {
  constexpr const char* operation = "nextafter";
  const DType common = promote_types(first.dtype(), second.dtype(), operation);
  if (!are_shapes_broadcastable(first.shape(), second.shape())) {
    throw ShapeError(detail::message(operation, ": shapes ", first.shape(), " and ", second.shape(),
                                     " do not broadcast"));
  }
  const DType dtype = is_floating_point(common) ? common : default_float;
  const FloatInfo facts = finfo(dtype);
  // Without a gradient.
  const Tensor a = first.detach().to(dtype), b = second.detach().to(dtype);
  const Tensor is_away = equal(greater(b, a), greater(a, 0));
  const Tensor magnitude = next_magnitude(abs(a), is_away, facts);
  const Tensor tiny = full({}, facts.smallest_normal * facts.eps, {dtype, a.device()});
  const Tensor largest = full({}, facts.max, {dtype, a.device()});
  Tensor result = copysign(where(isinf(a), largest, magnitude), a);
  result = where(equal(a, 0), copysign(tiny, b), result);
  result = where(equal(a, b), b, result);
  return where(logical_or(isnan(a), isnan(b)), add(a, b), result);
}
Tensor nextafter(const Tensor& a, const Scalar& b) {
  return nextafter(a, scalar(b, {promote_with_scalar(a.dtype(), b), a.device()}));
}
Tensor nextafter(const Scalar& a, const Tensor& b) {
  return nextafter(scalar(a, {promote_with_scalar(b.dtype(), a), b.device()}), b);
}

Tensor signbit(const Tensor& x) {
  if (!is_floating_point(x.dtype())) return less(x, 0);
  return less(copysign(1, x), 0);
}

}  // namespace extensor
