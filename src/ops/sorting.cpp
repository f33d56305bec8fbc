#include "extensor/sorting.h"

#include "backend/backend.h"
#include "core/check.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::SearchCall;
using backend::SortCall;
using detail::message;
using namespace ops;

// A 0-d tensor is a row of one element.
std::int64_t row_axis(const char* operation, std::int64_t rank, std::int64_t axis) {
  return detail::normalize_axis(operation, axis, rank == 0 ? 1 : rank);
}

Tensor as_rows(const Tensor& x) { return x.ndim() == 0 ? x.reshape({1}) : x; }

// The first `count` values of every sorted row and their indices; undefined if not requested.
Results sorted_rows(const Run& run, const Tensor& x, std::int64_t axis, std::int64_t count,
                    bool descending, bool want_values, bool want_indices) {
  // Sort along dense rows.
  const Tensor rows = moveaxis(x, axis, -1).contiguous();
  const std::int64_t length = rows.size(-1);
  Shape shape = rows.shape();
  shape.back() = count;
  Results results(2);
  SortCall call{};
  call.dtype = x.dtype();
  call.descending = descending;
  call.length = length;
  call.count = count;
  call.rows = length == 0 ? 0 : rows.numel() / length;
  call.x = detail::dense_data(rows);
  if (want_values) {
    results[0] = run.empty(shape, x.dtype());
    call.values = results[0].impl().data;
  }
  if (want_indices) {
    results[1] = run.empty(shape, DType::int64);
    call.indices = detail::kernel_pointer<std::int64_t>(results[1]);
  }
  run.kernels().sort(call);
  for (Tensor& result : results) {
    if (result.defined()) result = moveaxis(result, -1, axis).contiguous();
  }
  return results;
}

// The gradient of rows of which elements at `indices`, each at most once, were selected: zeros
// elsewhere. The public functions accept any indices, and add gradients of the same element.
Tensor put_back(const Tensor& grad_output, const Shape& shape, const Tensor& indices,
                std::int64_t axis) {
  const Tensor g = as_rows(grad_output);
  const Tensor none = zeros({}, {g.dtype(), g.device()});
  return scatter(none.broadcast_to(shape.empty() ? Shape{1} : shape), axis, as_rows(indices), g)
      .reshape(shape);
}

// ---- sort

struct SortAttributes {
  std::int64_t axis;
  bool descending;
};

template <bool want_values, bool want_indices>
Results sort_forward(const Run& run, const SortAttributes& attributes, const Tensor& x) {
  const std::int64_t along = row_axis(run.name(), x.ndim(), attributes.axis);
  const Tensor rows = as_rows(x);
  Results results = sorted_rows(run, rows, along, rows.size(along), attributes.descending,
                                want_values, want_indices || run.recorded);
  for (Tensor& result : results) {
    if (result.defined()) result = result.reshape(x.shape());
  }
  return results;
}

Gradients sort_gradient(const GradientCall& call, const SortAttributes& attributes) {
  const Tensor indices = call.result(1);
  return put_back(call.grad(), indices.shape(), indices,
                  row_axis(call.name(), indices.ndim(), attributes.axis));
}

constexpr auto sort_op = define<sort_forward<true, false>, sort_gradient>(
    {.name = "sort", .inputs = {"x"}, .reads = {result(1)}});
constexpr auto argsort_op = define<sort_forward<false, true>>({.name = "argsort", .inputs = {"x"}});
constexpr auto sort_with_indices_op = define<sort_forward<true, true>, sort_gradient>(
    {.name = "sort_with_indices", .inputs = {"x"}, .reads = {result(1)}});

SortedTensor as_pair(Results results) { return {std::move(results[0]), std::move(results[1])}; }

}  // namespace

Tensor sort(const Tensor& x, StrictInt axis, StrictBool descending) {
  return dispatch(sort_op, {axis, descending}, x)[0];
}
Tensor argsort(const Tensor& x, StrictInt axis, StrictBool descending) {
  return dispatch(argsort_op, {axis, descending}, x)[1];
}
SortedTensor sort_with_indices(const Tensor& x, StrictInt axis, StrictBool descending) {
  return as_pair(dispatch(sort_with_indices_op, {axis, descending}, x));
}

Tensor sort_backward(const Tensor& grad_output, const Tensor& indices, StrictInt axis) {
  constexpr const char* operation = "sort_backward";
  const std::int64_t along = row_axis(operation, indices.ndim(), axis);
  check_grad_output(operation, grad_output, indices.shape());
  const Tensor rows = as_rows(grad_output);
  return gather_backward(rows, rows.shape(), along, as_rows(indices)).reshape(indices.shape());
}

// ---- topk

namespace {

struct TopkAttributes {
  std::int64_t k, axis;
  bool largest;
};

Results topk_forward(const Run& run, const TopkAttributes& attributes, const Tensor& x) {
  const std::int64_t k = attributes.k, along = row_axis("topk", x.ndim(), attributes.axis);
  if (x.ndim() == 0) {
    // A 0-d result holds exactly one element.
    if (k != 1) throw ValueError(message("topk: k is ", k, ", must be 1 for a 0-d tensor"));
    return {x.clone(), run.empty({}, DType::int64).fill(0)};
  }
  if (k < 0 || k > x.size(along)) {
    throw ValueError(message("topk: k is ", k, ", must be 0 to ", x.size(along),
                             ", the size of axis ", along, " of ", x.shape()));
  }
  return sorted_rows(run, x, along, k, attributes.largest, true, true);
}

Gradients topk_gradient(const GradientCall& call, const TopkAttributes& attributes) {
  const auto rank = static_cast<std::int64_t>(call.shape().size());
  return put_back(call.grad(), call.shape(), call.result(1),
                  row_axis(call.name(), rank, attributes.axis));
}

constexpr auto topk_op = define<topk_forward, topk_gradient>(
    {.name = "topk", .inputs = {"x"}, .reads = {shape() | result(1)}});

}  // namespace

SortedTensor topk(const Tensor& x, StrictInt k, StrictInt axis, StrictBool largest,
                  [[maybe_unused]] StrictBool in_order) {
  return as_pair(dispatch(topk_op, {k, axis, largest}, x));
}

Tensor topk_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     StrictInt axis) {
  constexpr const char* operation = "topk_backward";
  const std::int64_t along =
      row_axis(operation, static_cast<std::int64_t>(input_shape.size()), axis);
  check_grad_output(operation, grad_output, indices.shape());
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

namespace {

struct SearchAttributes {
  bool right;
};

Tensor searchsorted_forward(const Run& run, const SearchAttributes& attributes,
                            const Tensor& sorted, const Tensor& values) {
  const bool one_row = sorted.ndim() == 1;
  bool fits = one_row || (sorted.ndim() > 0 && sorted.ndim() == values.ndim());
  for (std::int64_t d = 0; fits && !one_row && d + 1 < sorted.ndim(); ++d) {
    fits = sorted.size(d) == values.size(d);
  }
  if (!fits) {
    throw ShapeError(message(run.name(), ": sorted is ", sorted.shape(), " and values are ",
                             values.shape(),
                             "; sorted must have one dimension or all but the last of values"));
  }
  const DType dtype = promote_types(sorted.dtype(), values.dtype(), run.name());
  const Tensor rows = sorted.to(dtype).contiguous(), wanted = values.to(dtype).contiguous();
  Tensor result = run.empty(values.shape(), DType::int64);
  SearchCall call{};
  call.dtype = dtype;
  call.behind_equal = attributes.right;
  call.one_row = one_row;
  call.length = rows.size(-1);
  call.count = one_row ? wanted.numel() : wanted.size(-1);
  call.rows = call.count == 0 ? 0 : wanted.numel() / call.count;
  call.sorted = detail::dense_data(rows);
  call.values = detail::dense_data(wanted);
  call.out = detail::kernel_pointer<std::int64_t>(result);
  run.kernels().search(call);
  return result;
}

constexpr auto searchsorted_op =
    define<searchsorted_forward>({.name = "searchsorted", .inputs = {"sorted", "values"}});

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, StrictBool right) {
  return dispatch(searchsorted_op, {right}, sorted, values);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, StrictBool right,
                    const Tensor& sorter) {
  if (!(sorter.shape() == sorted.shape())) {
    throw ShapeError(message("searchsorted: sorter is ", sorter.shape(), " and sorted is ",
                             sorted.shape(), "; they must have one shape"));
  }
  return searchsorted(take_along_axis(sorted, sorter), values, right);
}

// ---- distinct elements

namespace {

// True at the first element of each run of equal elements; NaN is unequal to everything.
Tensor starts_of_runs(const Tensor& ordered) {
  Tensor starts = ones_like(ordered, DType::bool_);
  if (ordered.numel() > 1) {
    starts.slice(0, 1).copy_from(not_equal(ordered.slice(0, 1), ordered.slice(0, 0, -1)));
  }
  return starts;
}

// The elements of flat x in ascending order, and where they are in x: complex numbers by their real
// parts, and equal ones by their imaginary parts.
SortedTensor in_order(const Tensor& x) {
  if (!is_complex(x)) return sort_with_indices(x);
  const Tensor by_imag = argsort(imag(x.detach()));
  const Tensor order = take(by_imag, argsort(take(real(x.detach()), by_imag)));
  return {take(x, order), order};
}

}  // namespace

Tensor unique(const Tensor& x) {
  const Tensor flat = x.flatten();
  const Tensor ordered = is_complex(x) ? in_order(flat).values : sort(flat);
  return masked_select(ordered, starts_of_runs(ordered));
}

UniqueTensor unique_all(const Tensor& x) {
  const auto [ordered, order] = in_order(x.flatten());
  const Tensor starts = starts_of_runs(ordered);
  const Tensor first = nonzero(starts)[0];
  const Tensor run = subtract(cumulative_sum(starts), 1);
  const Tensor beyond =
      concatenate({first.slice(0, 1), full({1}, x.numel(), {DType::int64, x.device()})});
  return {take(ordered, first), take(order, first),
          scatter(zeros_like(run), 0, order, run).reshape(x.shape()),
          subtract(first.numel() == 0 ? first : beyond, first)};
}

constinit const OpList ops::sorting_ops =
    listed<sort_op, argsort_op, sort_with_indices_op, topk_op, searchsorted_op>;

}  // namespace extensor
