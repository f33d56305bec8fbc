// Ops whose result is a view of their input. Making a view is so cheap that dispatch() would
// dominate, so calls that are not recorded bypass it.
#pragma once

#include "extensor/creation.h"
#include "ops/launch.h"
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

// Defines the op for a function `Tensor make(const Tensor& x, const Attributes&)`.
template <auto make, auto gradient>
consteval auto define_view(const char* name, Reads reads = nothing) {
  return define<&ViewForward<make>::run, gradient>(
      {.name = name, .inputs = {"x"}, .reads = {reads}, .view = true, .complex = true});
}

// Returns make(x, attributes), recorded by the op if x is tracked.
template <auto make, class Attributes>
Tensor view(const OpOf<Attributes, Tensor, 1>& op, const Tensor& x,
            const std::type_identity_t<Attributes>& attributes) {
  if (is_observed(x)) return dispatch(op, attributes, x);
  return detail::as_view_of(x, make(x, attributes));
}

// The backward of a view of a part of x: the gradient inside the part, 0 elsewhere. Its errors name
// slice_backward, the public function.
template <class Attributes>
struct PartOf {
  Shape shape;  // shape of x
  Attributes part;
};

template <auto make, class Attributes>
Tensor part_backward(const Run&, const PartOf<Attributes>& of, const Tensor& grad_output) {
  const Tensor shaped =
      zeros({}, {grad_output.dtype(), grad_output.device()}).broadcast_to(of.shape);
  check_grad_output("slice_backward", grad_output, make(shaped, of.part).shape());
  Tensor whole = zeros(of.shape, {grad_output.dtype(), grad_output.device()});
  make(whole, of.part).copy_from(grad_output);
  return whole;
}

}  // namespace extensor::ops
