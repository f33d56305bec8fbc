// What the normalisations share: the checks of their arguments, how they are recorded, and their
// second derivatives as compositions of public ops.
#pragma once

#include <utility>
#include <vector>

#include "core/graph.h"
#include "extensor/normalization.h"

namespace extensor::ops::normalization {

// Below this many elements of a channel side by side, parameters element by element are quicker.
inline constexpr std::int64_t short_run = 16;

inline const std::byte* data_of(const Tensor& x) { return x.defined() ? x.impl().data : nullptr; }

inline Tensor floats(const Tensor& x) {
  return is_floating_point(x.dtype()) ? x : x.to(default_float);
}

void check_eps(const char* operation, double eps);
// A weight, bias or statistic, which need not be there.
void check_parameter(const char* operation, const char* name, const Tensor& parameter,
                     const Shape& shape, const Tensor& x);
void check_channels(const char* operation, const Tensor& x);
// How many elements the axes from `axis` on have.
std::int64_t elements_behind(const Tensor& x, std::int64_t axis);

// x and the gradients a double backward is given; parameters have one shape.
void check_double_backward(const char* operation, const NormGradients& given,
                           const Tensor& grad_output, const Tensor& x, const Shape& parameters);

// How a double backward sees x: the axes of `view` that are normalised over, and parameters that
// broadcast against it.
struct NormView {
  Shape view;
  Axes axes;
  Shape parameters;
  bool centred = true;
};

// What a double backward computes with: everything wide and in a NormView's shapes, 0 or a weight
// of 1 where it was not given.
struct NormOperands {
  Tensor x, g, w;                   // x, grad_output, weight
  Tensor of_x, of_weight, of_bias;  // the gradients of their gradients

  NormOperands(const NormView& v, const NormGradients& given, const Tensor& grad_output,
               const Tensor& x, const Tensor& weight);
};

// The gradients of a double backward from those in a NormView's shapes; that of the weight is not
// summed yet.
NormDoubleGradients restored(const NormView& v, const Tensor& of_output, const Tensor& of_x,
                             const Tensor& of_weight, const Tensor& grad_output, const Tensor& x,
                             const Tensor& weight);

// Of a norm by the statistics of x itself, everything checked.
NormDoubleGradients double_backward(const NormView& v, const NormGradients& given,
                                    const Tensor& grad_output, const Tensor& x,
                                    const Tensor& weight, double eps);

// Records a norm's result; backward(g, x, weight, bias, whether the parameters' gradients are asked
// for).
template <class Backward>
Tensor recorded_norm(const char* name, Tensor result, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, Backward backward) {
  return detail::record(
      name, {x, weight, bias}, std::move(result),
      [backward = std::move(backward), x = detail::Saved(floats(x)), weight = detail::Saved(weight),
       bias = detail::Saved(bias)](const Tensor& g, detail::Node& node) -> detail::Gradients {
        const NormGradients gradients = backward(g, x.get(node), weight.get(node), bias.get(node),
                                                 node.needs(1) || node.needs(2));
        return {gradients.x, gradients.weight, gradients.bias};
      });
}

// Records a norm's backward; double_backward(gradients of its results, g, x, weight).
template <class Forward, class DoubleBackward>
NormGradients recorded_norm_backward(const char* name, const Forward& forward,
                                     DoubleBackward double_backward, const Tensor& grad_output,
                                     const Tensor& x, const Tensor& weight) {
  const std::vector<Tensor> results = detail::recorded_all(
      name,
      [&] {
        const NormGradients gradients = forward();
        return std::vector{gradients.x, gradients.weight, gradients.bias};
      },
      [double_backward = std::move(double_backward)](
          const detail::Gradients& v, const detail::Node&, const Tensor& g, const Tensor& x,
          const Tensor& weight) -> detail::Gradients {
        const NormDoubleGradients second =
            double_backward(NormGradients{v[0], v[1], v[2]}, g, x, weight);
        return {second.grad_output, second.x, second.weight};
      },
      grad_output, x, weight);
  return {results[0], results[1], results[2]};
}

}  // namespace extensor::ops::normalization
