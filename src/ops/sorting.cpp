#include "extensor/sorting.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::SearchCall;
using backend::SortCall;
using detail::message;

// A 0-d tensor is a row of one element.
std::int64_t row_axis(const char* operation, std::int64_t rank, std::int64_t axis) {
  return detail::normalize_axis(operation, axis, rank == 0 ? 1 : rank);
}

Tensor as_rows(const Tensor& x) { return x.ndim() == 0 ? x.reshape({1}) : x; }

// The first `count` of every row in order; what is not wanted stays undefined.
SortedTensor sorted_rows(const char* operation, const Tensor& x, std::int64_t axis,
                         std::int64_t count, bool descending, bool want_values, bool want_indices) {
  // Rows are dense while they are sorted.
  const Tensor rows = moveaxis(x, axis, -1).contiguous();
  const std::int64_t length = rows.size(-1);
  Shape shape = rows.shape();
  shape.back() = count;
  SortedTensor result;
  SortCall call{};
  call.dtype = x.dtype();
  call.descending = descending;
  call.length = length;
  call.count = count;
  call.rows = length == 0 ? 0 : rows.numel() / length;
  call.x = rows.impl().data;
  if (want_values) {
    result.values = detail::make_empty(operation, shape, x.dtype(), x.device());
    call.values = result.values.impl().data;
  }
  if (want_indices) {
    result.indices = detail::make_empty(operation, shape, DType::int64, x.device());
    call.indices = result.indices.data<std::int64_t>();
  }
  backend::backend_for(x.device()).sort(call);
  if (want_values) result.values = moveaxis(result.values, -1, axis).contiguous();
  if (want_indices) result.indices = moveaxis(result.indices, -1, axis).contiguous();
  return result;
}

SortedTensor sorted(const char* operation, const Tensor& x, std::int64_t axis, bool descending,
                    bool want_values, bool want_indices) {
  const std::int64_t along = row_axis(operation, x.ndim(), axis);
  const Tensor rows = as_rows(x);
  SortedTensor result =
      sorted_rows(operation, rows, along, rows.size(along), descending, want_values, want_indices);
  if (want_values) result.values = result.values.reshape(x.shape());
  if (want_indices) result.indices = result.indices.reshape(x.shape());
  return result;
}

}  // namespace

// ---- sort
// ------------------------------------------------------------------------------------------

namespace {

// The values as recorded, which go where the indices say: backward(g, indices).
template <class Backward>
SortedTensor recorded_order(const char* name, const Tensor& x, SortedTensor found,
                            Backward backward) {
  found.values =
      detail::record(name, {x}, std::move(found.values),
                     [backward = std::move(backward), indices = detail::Saved(found.indices)](
                         const Tensor& g, detail::Node& node) -> detail::Gradients {
                       return backward(g, indices.get(node));
                     });
  return found;
}

}  // namespace

Tensor sort(const Tensor& x, StrictInt axis, StrictBool descending) {
  if (detail::records(x)) return sort_with_indices(x, axis, descending).values;
  return sorted("sort", x, axis, descending, true, false).values;
}

Tensor argsort(const Tensor& x, StrictInt axis, StrictBool descending) {
  return sorted("argsort", x, axis, descending, false, true).indices;
}

SortedTensor sort_with_indices(const Tensor& x, StrictInt axis, StrictBool descending) {
  if (detail::records(x)) {
    return recorded_order(
        "sort", x, detail::unrecorded([&] { return sort_with_indices(x, axis, descending); }),
        [axis](const Tensor& g, const Tensor& indices) { return sort_backward(g, indices, axis); });
  }
  return sorted("sort_with_indices", x, axis, descending, true, true);
}

Tensor sort_backward(const Tensor& grad_output, const Tensor& indices, StrictInt axis) {
  constexpr const char* operation = "sort_backward";
  const std::int64_t along = row_axis(operation, indices.ndim(), axis);
  ops::check_grad_output(operation, grad_output, indices.shape());
  const Tensor rows = as_rows(grad_output);
  return gather_backward(rows, rows.shape(), along, as_rows(indices)).reshape(indices.shape());
}

// ---- topk
// ------------------------------------------------------------------------------------------

SortedTensor topk(const Tensor& x, StrictInt k, StrictInt axis, StrictBool largest,
                  [[maybe_unused]] StrictBool in_order) {
  if (detail::records(x)) {
    return recorded_order("topk", x,
                          detail::unrecorded([&] { return topk(x, k, axis, largest, in_order); }),
                          [shape = x.shape(), axis](const Tensor& g, const Tensor& indices) {
                            return topk_backward(g, shape, indices, axis);
                          });
  }
  const std::int64_t along = row_axis("topk", x.ndim(), axis);
  if (x.ndim() == 0) {
    // One element, and a shape with no room for another number of them.
    if (k != 1) throw ValueError(message("topk: k is ", k, ", must be 1 for a 0-d tensor"));
    return {x.clone(), zeros({}, DType::int64)};
  }
  if (k < 0 || k > x.size(along)) {
    throw ValueError(message("topk: k is ", k, ", must be 0 to ", x.size(along),
                             ", the size of axis ", along, " of ", x.shape()));
  }
  return sorted_rows("topk", x, along, k, largest, true, true);
}

Tensor topk_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     StrictInt axis) {
  constexpr const char* operation = "topk_backward";
  const std::int64_t along =
      row_axis(operation, static_cast<std::int64_t>(input_shape.size()), axis);
  ops::check_grad_output(operation, grad_output, indices.shape());
  const bool is_row = !input_shape.empty();
  const Shape rows = is_row ? input_shape : Shape{1};
  Shape expected = input_shape;
  if (is_row && indices.shape().size() == rows.size()) {
    expected[static_cast<std::size_t>(along)] = indices.shape()[static_cast<std::size_t>(along)];
  }
  if (!(indices.shape() == expected)) {
    throw ShapeError(message(operation, ": indices are ", indices.shape(), " and the input was ",
                             input_shape, ", they may differ along axis ", along, " alone"));
  }
  return gather_backward(as_rows(grad_output), rows, along, as_rows(indices)).reshape(input_shape);
}

// ---- searching
// -------------------------------------------------------------------------------------

Tensor searchsorted(const Tensor& sorted, const Tensor& values, StrictBool right) {
  constexpr const char* operation = "searchsorted";
  const bool one_row = sorted.ndim() == 1;
  bool fits = one_row || (sorted.ndim() > 0 && sorted.ndim() == values.ndim());
  for (std::int64_t d = 0; fits && !one_row && d + 1 < sorted.ndim(); ++d) {
    fits = sorted.size(d) == values.size(d);
  }
  if (!fits) {
    throw ShapeError(message(operation, ": sorted is ", sorted.shape(), " and values are ",
                             values.shape(),
                             "; sorted must have one dimension or all but the last of values"));
  }
  const ops::Source pair[] = {sorted, values};
  ops::common_device(operation, pair);
  const DType dtype = promote_types(sorted.dtype(), values.dtype(), operation);
  const Tensor rows = sorted.to(dtype).contiguous(), wanted = values.to(dtype).contiguous();
  Tensor result = detail::make_empty(operation, values.shape(), DType::int64, values.device());
  SearchCall call{};
  call.dtype = dtype;
  call.behind_equal = right;
  call.one_row = one_row;
  call.length = rows.size(-1);
  call.count = one_row ? wanted.numel() : wanted.size(-1);
  call.rows = call.count == 0 ? 0 : wanted.numel() / call.count;
  call.sorted = rows.impl().data;
  call.values = wanted.impl().data;
  call.out = result.data<std::int64_t>();
  backend::backend_for(values.device()).search(call);
  return result;
}

// ---- what is there once
// ----------------------------------------------------------------------------

namespace {

// True at the first of each run of equal elements; NaN equals nothing.
Tensor starts_of_runs(const Tensor& ordered) {
  Tensor starts = ones(ordered.shape(), DType::bool_);
  if (ordered.numel() > 1) {
    starts.slice(0, 1).copy_from(not_equal(ordered.slice(0, 1), ordered.slice(0, 0, -1)));
  }
  return starts;
}

}  // namespace

Tensor unique(const Tensor& x) {
  const Tensor ordered = sort(x.flatten());
  return masked_select(ordered, starts_of_runs(ordered));
}

UniqueTensor unique_all(const Tensor& x) {
  const auto [ordered, order] = sort_with_indices(x.flatten());
  const Tensor starts = starts_of_runs(ordered);
  const Tensor first = nonzero(starts)[0];
  const Tensor run = subtract(cumulative_sum(starts), 1);
  const Tensor beyond = concatenate({first.slice(0, 1), full({1}, x.numel(), DType::int64)});
  return {take(ordered, first), take(order, first),
          scatter(zeros_like(run), 0, order, run).reshape(x.shape()),
          subtract(first.numel() == 0 ? first : beyond, first)};
}

}  // namespace extensor
