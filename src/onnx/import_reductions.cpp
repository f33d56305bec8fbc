// Reductions, softmax and sorting of files.
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "extensor/sorting.h"
#include "onnx/program.h"

namespace extensor::onnx {

namespace {

using Integers = std::vector<std::int64_t>;
using Reduce = Tensor (*)(const Tensor&, const Axes&, bool keepdims);

// Sums and products keep the dtype of x.
Tensor sum_of(const Tensor& x, const Axes& axes, bool keepdims) {
  return sum(x, axes, keepdims).to(x.dtype());
}
// Integers are divided as integers, and rounded towards 0.
Tensor mean_of(const Tensor& x, const Axes& axes, bool keepdims) {
  if (is_floating_point(x.dtype())) return mean(x, axes, keepdims);
  const Tensor total = sum(x, axes, keepdims);
  if (total.numel() == 0) return total.to(x.dtype());
  const std::int64_t count = x.numel() / total.numel();
  const Tensor up = negative(floor_divide(negative(total), count));
  return where(less(total, 0), up, floor_divide(total, count)).to(x.dtype());
}
Tensor largest_of(const Tensor& x, const Axes& axes, bool keepdims) {
  return max_reduce(x, axes, keepdims);
}
Tensor smallest_of(const Tensor& x, const Axes& axes, bool keepdims) {
  return min_reduce(x, axes, keepdims);
}
Tensor product_of(const Tensor& x, const Axes& axes, bool keepdims) {
  return prod(x, axes, keepdims).to(x.dtype());
}
Tensor sum_of_sizes(const Tensor& x, const Axes& axes, bool keepdims) {
  return sum_of(abs(x), axes, keepdims);
}
Tensor root_of_squares(const Tensor& x, const Axes& axes, bool keepdims) {
  return norm(x, 2, axes, keepdims).to(x.dtype());
}
Tensor sum_of_squares(const Tensor& x, const Axes& axes, bool keepdims) {
  return sum_of(square(x), axes, keepdims);
}
Tensor log_of_sum(const Tensor& x, const Axes& axes, bool keepdims) {
  return log(sum_of(x, axes, keepdims));
}
Tensor log_of_exponentials(const Tensor& x, const Axes& axes, bool keepdims) {
  return logsumexp(x, axes, keepdims);
}

template <Reduce function>
Kernel reduction(NodeReader& node) {
  const auto attribute = node.integers("axes");
  const bool keepdims = node.flag("keepdims", true),
             keeps_all = node.flag("noop_with_empty_axes", false);
  return [=](Arguments x) {
    const auto axes = given_axes(attribute, x, 1);
    if (axes && !axes->empty()) return Results{function(x[0], *axes, keepdims)};
    // Over no axes, the size of each element and the like remain.
    if (keeps_all) return Results{function(x[0], Axes(Integers()), keepdims)};
    return Results{function(x[0], Axes(), keepdims)};
  };
}

template <bool largest>
Kernel argument(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const bool keepdims = node.flag("keepdims", true);
  if (node.flag("select_last_index", false)) {
    node.refuse("select_last_index is not supported (allowed: 0)");
  }
  return [=](Arguments x) {
    return Results{largest ? argmax(x[0], axis, keepdims) : argmin(x[0], axis, keepdims)};
  };
}

// Before opset 13 the axes from `axis` on count as one.
template <Tensor (*function)(const Tensor&, StrictInt)>
Kernel rows(NodeReader& node) {
  const bool joined = node.opset() < 13;
  const std::int64_t axis = node.integer("axis", joined ? 1 : -1);
  return [=](Arguments x) {
    if (!joined) return Results{function(x[0], axis)};
    const std::int64_t first = axis < 0 ? axis + x[0].ndim() : axis;
    if (first < 0 || first > x[0].ndim()) {
      throw IndexError(detail::message("Softmax: axis ", axis, " of ", x[0].shape()));
    }
    std::int64_t outer = 1, inner = 1;
    for (std::int64_t d = 0; d < x[0].ndim(); ++d) (d < first ? outer : inner) *= x[0].size(d);
    return Results{function(x[0].reshape({outer, inner}), 1).reshape(x[0].shape())};
  };
}

Kernel translate_topk(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", -1), attribute = node.integer("k", -1);
  const bool largest = node.flag("largest", true), sorted = node.flag("sorted", true);
  if (attribute < 0 && !node.has_input(1)) node.refuse("it has no k");
  return [=](Arguments x) {
    const std::int64_t k = x.size() > 1 && x[1].defined() ? host_integer(x[1]) : attribute;
    SortedTensor pair = topk(x[0], k, axis, largest, sorted);
    return Results{std::move(pair.values), std::move(pair.indices)};
  };
}

Kernel translate_cumsum(NodeReader& node) {
  if (node.flag("exclusive", false)) node.refuse("exclusive is not supported (allowed: 0)");
  const bool reverse = node.flag("reverse", false);
  return [=](Arguments x) {
    const std::int64_t axis = host_integer(x[1]);
    const Tensor from = reverse ? flip(x[0], Axes(axis)) : x[0];
    const Tensor y = cumulative_sum(from, axis).to(x[0].dtype());
    return Results{reverse ? flip(y, Axes(axis)) : y};
  };
}

constexpr ImportRule rules[] = {
    {"ReduceSum", 1, 2, reduction<sum_of>},
    {"ReduceMean", 1, 2, reduction<mean_of>},
    {"ReduceMax", 1, 2, reduction<largest_of>},
    {"ReduceMin", 1, 2, reduction<smallest_of>},
    {"ReduceProd", 1, 2, reduction<product_of>},
    {"ReduceL1", 1, 2, reduction<sum_of_sizes>},
    {"ReduceL2", 1, 2, reduction<root_of_squares>},
    {"ReduceSumSquare", 1, 2, reduction<sum_of_squares>},
    {"ReduceLogSum", 1, 2, reduction<log_of_sum>},
    {"ReduceLogSumExp", 1, 2, reduction<log_of_exponentials>},
    {"ArgMax", 1, 1, argument<true>},
    {"ArgMin", 1, 1, argument<false>},
    {"Softmax", 1, 1, rows<softmax>},
    {"LogSoftmax", 1, 1, rows<log_softmax>},
    {"TopK", 1, 2, translate_topk},
    {"CumSum", 2, 2, translate_cumsum},
};

}  // namespace

const std::span<const ImportRule> reduction_import_rules = rules;

}  // namespace extensor::onnx
