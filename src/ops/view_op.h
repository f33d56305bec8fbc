// Ops whose result is a view of their input. Making a view takes so little time that dispatch()
// would show, so calls that are not recorded make it directly.
#pragma once

#include "ops/op.h"

namespace extensor::ops {

template <auto make>
struct ViewForward;
template <class Attributes, Tensor (*make)(const Tensor&, const Attributes&)>
struct ViewForward<make> {
  static Tensor run(const Run&, const Attributes& attributes, const Tensor& x) {
    return make(x, attributes);
  }
};

// The op of a function `Tensor make(const Tensor& x, const Attributes&)`.
template <auto make, auto gradient>
consteval auto define_view(const char* name, Reads reads = nothing) {
  return define<&ViewForward<make>::run, gradient>(
      {.name = name, .inputs = {"x"}, .reads = {reads}, .view = true});
}

// make(x, attributes), recorded by the op where x is tracked.
template <auto make, class Attributes>
Tensor view(const OpOf<Attributes, Tensor, 1>& op, const Tensor& x,
            const std::type_identity_t<Attributes>& attributes) {
  if (detail::records(x)) return dispatch(op, attributes, x);
  return detail::as_view_of(x, make(x, attributes));
}

}  // namespace extensor::ops
