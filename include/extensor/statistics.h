// Order statistics and counts.
//
//   Tensor middle = median(x, 1);
//   Tensor quartiles = quantile(x, {0.25, 0.5, 0.75}, 0);    // [3, …]
//   auto [counts, edges] = histogram(x, 20);
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The value of a quantile between two elements: on the line between them, the lower, the higher,
// their mean, or the nearer (of two equally near the one at the even position).
enum class QuantileMode : std::uint8_t { linear, lower, higher, midpoint, nearest };

// The element at position q · (n − 1) of the sorted elements along an axis, or of all without one.
// A list of q adds a leading axis. NaN if there is a NaN. Floats; ValueError for q outside [0, 1]
// or no elements. The gradient goes to the elements that the value is made of.
Tensor quantile(const Tensor& x, double q, std::optional<StrictInt> axis = {},
                StrictBool keepdims = false, QuantileMode mode = QuantileMode::linear);
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<StrictInt> axis = {},
                StrictBool keepdims = false, QuantileMode mode = QuantileMode::linear);
Tensor quantile_backward(const Tensor& grad_output, const Tensor& x, double q,
                         std::optional<StrictInt> axis = {},
                         QuantileMode mode = QuantileMode::linear);
Tensor quantile_backward(const Tensor& grad_output, const Tensor& x, const std::vector<double>& q,
                         std::optional<StrictInt> axis = {},
                         QuantileMode mode = QuantileMode::linear);

// The middle of the sorted elements, the lower one of two, as in PyTorch; quantile(x, 0.5) is their
// mean. NaN if there is a NaN.
Tensor median(const Tensor& x, std::optional<StrictInt> axis = {}, StrictBool keepdims = false);
Tensor median_backward(const Tensor& grad_output, const Tensor& x,
                       std::optional<StrictInt> axis = {});

struct Histogram {
  Tensor counts;  // int64 [bins]
  Tensor edges;   // [bins + 1], in the float dtype of x, float32 for integers
};
// The number of elements between each two of bins + 1 equally spaced edges: edges[i] ≤ x <
// edges[i + 1], and the last bin includes its upper edge. The range is that of x by default, ± 0.5
// if all elements are equal; elements outside a given range, and NaN, are not counted. ValueError
// for fewer than 1 bin or a range that is not finite or descends.
Histogram histogram(const Tensor& x, StrictInt bins = 10,
                    std::optional<std::pair<double, double>> range = {});

// The number of times that each integer 0, 1 … max(x) occurs in x [n], as int64; at least
// `minlength` entries. With weights [n], the sum of the weights in their dtype. ValueError for a
// negative element.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, StrictInt minlength = 0);

}  // namespace extensor

EXTENSOR_END_API
