// scatter with a reduction: the sum, product, mean, largest or smallest of all sources of a place.
#include <array>
#include <limits>

#include "core/check.h"
#include "core/graph.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "ops/launch.h"
#include "ops/registry.h"
#include "ops/scatter.h"

namespace extensor {

namespace {

using backend::IndexOp;
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

// Factors that are 0, as a polynomial: e_k is the sum of all products of k of them. At a place with
// k factors of 0 their product is e_k, and that of the others of one factor f follows from e_0 …
// e_(k−1) and f. Every value is 0, but the derivatives are not.
constexpr std::size_t most_zeros = 4;
using ZeroProducts = std::array<Tensor, most_zeros + 1>;

ZeroProducts zero_products(const Taking& taking, const Tensor& x_zeros,
                           const Tensor& source_zeros) {
  // Newton's identities: k·e_k = e_(k−1)·p_1 − e_(k−2)·p_2 + …, with the sums of powers p.
  ZeroProducts products, powers;
  Tensor of_x = x_zeros, of_source = source_zeros;
  products[0] = ones_like(x_zeros);
  for (std::size_t k = 1; k <= most_zeros; ++k) {
    powers[k] = taking.summed(of_x, of_source);
    of_x = of_x * x_zeros, of_source = of_source * source_zeros;
    Tensor total;
    for (std::size_t m = 1; m <= k; ++m) {
      const Tensor term = products[k - m] * powers[m];
      total = m == 1 ? term : m % 2 == 1 ? total + term : total - term;
    }
    products[k] = total / static_cast<double>(k);
  }
  return products;
}

// The gradient of a factor is the product of all others: that of the factors that are not 0, times
// that of the others that are. The latter is 0 or 1 unless its derivatives are needed too.
std::pair<Tensor, Tensor> product_gradients(const Taking& taking, const Tensor& x,
                                            const ScatterReduce& attributes,
                                            const Tensor& indices) {
  const auto nonzero_of = [](const Tensor& factor) { return where(equal(factor, 0), 1, factor); };
  const auto zero_of = [](const Tensor& factor) { return where(equal(factor, 0), factor, 0); };
  const Tensor x_factor = where(taking.takes_part, x, 1);
  const Tensor product = scatter(nonzero_of(x_factor), attributes.axis, indices,
                                 nonzero_of(taking.part), ScatterReduction::prod);
  const Tensor zero_count =
      taking.summed(equal(x_factor, 0).to(DType::int64), equal(taking.part, 0).to(DType::int64));
  ZeroProducts products;
  if (detail::records(x_factor, taking.part)) {
    products = zero_products(taking, zero_of(x_factor), zero_of(taking.part));
  }
  const auto others = [&](const Tensor& factor, const auto& at) {
    const Tensor is_zero = equal(factor, 0), count = at(zero_count);
    // The product of the other factors that are 0, of a factor that is 0 and of one that is not.
    Tensor beside_zero = equal(count, 1).to(factor.dtype());
    Tensor beside_other = equal(count, 0).to(factor.dtype());
    if (products[0].defined()) {
      const Tensor zero = where(is_zero, factor, 0);
      Tensor rest = at(products[0]);
      for (std::size_t k = 1; k <= most_zeros; ++k) {
        const Tensor all = at(products[k]), here = equal(count, static_cast<std::int64_t>(k));
        if (k > 1) beside_zero = where(here, rest, beside_zero);
        beside_other = where(here, all, beside_other);
        rest = all - zero * rest;
      }
    }
    return at(product) * where(is_zero, beside_zero, divide(beside_other, nonzero_of(factor)));
  };
  const auto there = [](const Tensor& of_places) { return of_places; };
  const auto at_sources = [&](const Tensor& of_places) { return taking.at_sources(of_places); };
  return taking.gradients(taking.g * others(x_factor, there),
                          at_sources(taking.g) * others(taking.part, at_sources));
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
