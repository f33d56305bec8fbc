// scatter with a reduction: the sum, product, mean, largest or smallest of all sources of a place.
#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "ops/launch.h"
#include "ops/registry.h"
#include "ops/scatter.h"

namespace extensor {

namespace {

using backend::IndexOp;
using detail::message;
using namespace ops;

struct ScatterReduce {
  std::int64_t axis;
  ScatterReduction reduction;
  bool include_self;
};

IndexOp index_op(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::prod:
      return IndexOp::multiply_elements;
    case ScatterReduction::max:
      return IndexOp::largest_elements;
    case ScatterReduction::min:
      return IndexOp::smallest_elements;
    default:
      return IndexOp::add_elements;
  }
}

// The value that leaves every source unchanged.
Scalar neutral(ScatterReduction reduction, DType dtype) {
  const bool is_float = dtype == DType::float64, is_signed = dtype == DType::int64;
  using Integer = std::numeric_limits<std::int64_t>;
  switch (reduction) {
    case ScatterReduction::prod:
      return 1;
    case ScatterReduction::max:
      if (is_float) return -std::numeric_limits<double>::infinity();
      return is_signed ? Integer::min() : 0;
    case ScatterReduction::min:
      if (is_float) return std::numeric_limits<double>::infinity();
      if (is_signed) return Integer::max();
      return std::numeric_limits<std::uint64_t>::max();
    default:
      return 0;
  }
}

// x with the number at every place that the indices name.
Tensor replaced(const Tensor& x, std::int64_t axis, const Tensor& indices, const Scalar& number) {
  return scatter(x, axis, indices,
                 full({}, number, {x.dtype(), x.device()}).broadcast_to(indices.shape()));
}

// The number of values that each place combines; 1 where no index points.
Tensor counts(const Shape& shape, std::int64_t axis, const Tensor& indices, bool include_self) {
  const Tensor ones_of_x = ones(shape, {DType::int64, indices.device()});
  const Tensor first = include_self ? ones_of_x : replaced(ones_of_x, axis, indices, 0);
  return scatter_add(first, axis, indices,
                     ones({}, {DType::int64, indices.device()}).broadcast_to(indices.shape()));
}

Tensor scatter_reduce_forward(const Run& run, const ScatterReduce& attributes, const Tensor& x,
                              const Tensor& indices, const Tensor& source) {
  const auto& [axis, reduction, include_self] = attributes;
  const DType dtype = promote_types(x.dtype(), source.dtype(), run.name());
  const DType wide = sum_dtype(dtype);
  const Tensor first =
      include_self ? x : replaced(x.to(wide), axis, indices, neutral(reduction, wide));
  const Tensor combined =
      scattered_by(run.name(), index_op(reduction), first, wide, axis, indices, source);
  if (reduction != ScatterReduction::mean) return combined.to(dtype);
  const Tensor count = counts(x.shape(), axis, indices, include_self).to(wide);
  return (wide == DType::float64 ? divide(combined, count) : floor_divide(combined, count))
      .to(dtype);
}

// The values that take part, with the gradient of the result at their places. The gradient of x is
// that of the result where no source goes and x does not take part.
class Taking {
 public:
  Taking(const Tensor& grad_output, const Tensor& x, std::int64_t axis, const Tensor& indices,
         const Tensor& source, bool include_self)
      : axis_(axis), indices_(indices) {
    const Tensor touched =
        replaced(zeros(x.shape(), {DType::bool_, x.device()}), axis, indices, true);
    takes_part = include_self ? touched : zeros_like(touched);
    untouched = logical_not(touched);
    part = source;
    for (std::int64_t d = 0; d < source.ndim(); ++d) part = part.slice(d, 0, indices.size(d));
    g = grad_output;
  }

  Tensor at_sources(const Tensor& of_places) const { return gather(of_places, axis_, indices_); }
  Tensor summed(const Tensor& of_x, const Tensor& of_sources) const {
    return scatter_add(where(takes_part, of_x, 0), axis_, indices_, of_sources);
  }
  std::pair<Tensor, Tensor> gradients(const Tensor& of_x, const Tensor& of_sources) const {
    return {where(takes_part, of_x, where(untouched, g, 0)), of_sources};
  }

  Tensor g, part;                // the gradient, and the sources that are read
  Tensor takes_part, untouched;  // of x, bool

 private:
  std::int64_t axis_;
  const Tensor& indices_;
};

// The gradient goes to the elements that equal the extreme, in equal shares.
std::pair<Tensor, Tensor> extreme_gradients(const Taking& taking, const Tensor& x,
                                            const Tensor& result) {
  const Tensor x_wins = equal(x, result),
               source_wins = equal(taking.part, taking.at_sources(result));
  const Tensor winners = taking.summed(x_wins.to(DType::int64), source_wins.to(DType::int64));
  const Tensor share = divide(taking.g, maximum(winners, 1).to(taking.g.dtype()));
  return taking.gradients(where(x_wins, share, 0), where(source_wins, taking.at_sources(share), 0));
}

// The gradient of a factor is the product of all others: from the product of the factors that are
// not 0, and the number of those that are.
std::pair<Tensor, Tensor> product_gradients(const Taking& taking, const Tensor& x,
                                            const ScatterReduce& attributes,
                                            const Tensor& indices) {
  const auto nonzero_of = [](const Tensor& factor) { return where(equal(factor, 0), 1, factor); };
  const Tensor x_factor = where(taking.takes_part, x, 1);
  const Tensor product = scatter(nonzero_of(x_factor), attributes.axis, indices,
                                 nonzero_of(taking.part), ScatterReduction::prod);
  const Tensor zeros_there =
      taking.summed(equal(x_factor, 0).to(DType::int64), equal(taking.part, 0).to(DType::int64));
  const auto others = [&](const Tensor& factor, const Tensor& all, const Tensor& zero_count) {
    return where(equal(factor, 0), where(equal(zero_count, 1), all, 0),
                 where(equal(zero_count, 0), divide(all, nonzero_of(factor)), 0));
  };
  return taking.gradients(
      taking.g * others(x_factor, product, zeros_there),
      taking.at_sources(taking.g) *
          others(taking.part, taking.at_sources(product), taking.at_sources(zeros_there)));
}

Gradients scatter_reduce_gradient(const GradientCall& call, const ScatterReduce& attributes) {
  auto [of_x, of_source] =
      scatter_backward(call.grad(), call.input(0), attributes.axis, call.input(1), call.input(2),
                       attributes.reduction, attributes.include_self);
  return {of_x, Tensor(), of_source};
}

constexpr Reads all_read = input(0) | input(1) | input(2);
constexpr auto scatter_reduce_op = define<scatter_reduce_forward, scatter_reduce_gradient>(
    {.name = "scatter_reduce",
     .inputs = {"x", "indices", "source"},
     .reads = {all_read, no_gradient, all_read}});

}  // namespace

Tensor scatter(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source,
               ScatterReduction reduction, StrictBool include_self) {
  detail::check_option("scatter", "reduction", reduction, ScatterReduction::min);
  return dispatch(scatter_reduce_op, {axis, reduction, include_self}, x, indices, source);
}

std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad_output, const Tensor& x,
                                           StrictInt axis, const Tensor& indices,
                                           const Tensor& source, ScatterReduction reduction,
                                           StrictBool include_self) {
  constexpr const char* operation = "scatter_backward";
  detail::check_option(operation, "reduction", reduction, ScatterReduction::min);
  check_float(operation, "x", x);
  check_float(operation, "source", source);
  check_grad_output(operation, grad_output, x.shape());
  const ScatterReduce attributes{axis, reduction, include_self};
  const DType wide = compute_dtype(promote_types(x.dtype(), source.dtype(), operation));
  const Tensor wide_x = x.to(wide), wide_source = source.to(wide);
  // Also checks the shapes and the indices.
  const Tensor result = scatter(wide_x, axis, indices, wide_source, reduction, include_self);
  const Taking taking(grad_output.to(wide), wide_x, axis, indices, wide_source, include_self);
  std::pair<Tensor, Tensor> found;
  switch (reduction) {
    case ScatterReduction::sum:
      found = taking.gradients(taking.g, taking.at_sources(taking.g));
      break;
    case ScatterReduction::mean: {
      const Tensor share =
          divide(taking.g, counts(x.shape(), axis, indices, include_self).to(wide));
      found = taking.gradients(share, taking.at_sources(share));
      break;
    }
    case ScatterReduction::prod:
      found = product_gradients(taking, wide_x, attributes, indices);
      break;
    default:
      found = extreme_gradients(taking, wide_x.detach(), result.detach());
  }
  return {found.first.to(x.dtype()), extended_to(source.shape(), found.second).to(source.dtype())};
}

constinit const OpList ops::scatter_reduce_ops = listed<scatter_reduce_op>;

}  // namespace extensor
