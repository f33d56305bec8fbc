// Order statistics and counts, composed of sorting, searching and indexing.
#include "extensor/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "core/parallel.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "extensor/sorting.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// ---- quantiles

struct QuantileAttributes {
  std::vector<double> q;
  bool list;  // the result has a leading axis of q
  std::optional<std::int64_t> axis;
  bool keepdims;
  QuantileMode mode;
};

// Two positions of the sorted elements and the weight of the second.
struct Position {
  std::int64_t low, high;
  double part;
};

Position position_of(double q, std::int64_t n, QuantileMode mode) {
  const double at = q * static_cast<double>(n - 1);
  const double low = std::floor(at), high = std::ceil(at);
  const auto both = [](double element) {
    const auto k = static_cast<std::int64_t>(element);
    return Position{k, k, 0};
  };
  switch (mode) {
    case QuantileMode::lower:
      return both(low);
    case QuantileMode::higher:
      return both(high);
    case QuantileMode::nearest:
      return both(std::nearbyint(at));
    case QuantileMode::midpoint:
      return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high),
              low == high ? 0 : 0.5};
    case QuantileMode::linear:
      break;
  }
  return {static_cast<std::int64_t>(low), static_cast<std::int64_t>(high), at - low};
}

// x with the reduced axis last, and the shapes of results.
struct Rows {
  Tensor x;       // [..., n]
  Shape reduced;  // the shape of one quantile
  Shape kept;     // the same with the axis of length 1
  std::int64_t n;

  Rows(const char* operation, const Tensor& given, const std::optional<std::int64_t>& axis) {
    if (!axis || given.ndim() == 0) {
      if (axis) detail::normalize_axis(operation, *axis, 1);
      x = given.reshape({given.numel()});
      kept = Shape(given.shape().size(), 1);
    } else {
      const std::int64_t at = detail::normalize_axis(operation, *axis, given.ndim());
      x = moveaxis(given, at, -1);
      kept = reduced = given.shape();
      kept[static_cast<std::size_t>(at)] = 1;
      reduced.erase(static_cast<std::size_t>(at));
    }
    n = x.size(-1);
    if (n == 0) {
      throw ValueError(message(operation, ": x is ", given.shape(), ", has no elements to order"));
    }
  }
};

void check_quantiles(const char* operation, const QuantileAttributes& attributes, const Tensor& x) {
  check_float(operation, "x", x);
  detail::check_option(operation, "mode", attributes.mode, QuantileMode::nearest);
  for (double q : attributes.q) {
    if (q >= 0 && q <= 1) continue;
    throw ValueError(message(operation, ": q is ", q, ", must be in [0, 1]"));
  }
}

// The elements at some ranks of sorted rows [..., n], and their positions in the rows: [...,
// ranks]. Undefined if not requested.
struct Ranked {
  Tensor values, indices;
};

Ranked ranked(const char* operation, const Tensor& rows, const Dims& ranks, bool want_values,
              bool want_indices) {
  // Above this number, sorting is faster than a search for each.
  constexpr std::size_t few = 8;
  const backend::Backend& kernels = backend::backend_for(rows.device());
  Ranked result;
  if (kernels.rank == nullptr || ranks.size() > few) {
    const auto chosen = [&](const Tensor& sorted) {
      std::vector<Tensor> parts;
      for (std::int64_t k : ranks) parts.push_back(sorted.slice(-1, k, k + 1));
      return concatenate(parts, -1);
    };
    if (want_values && want_indices) {
      const auto [values, indices] = sort_with_indices(rows);
      return {chosen(values), chosen(indices)};
    }
    if (want_values) result.values = chosen(sort(rows));
    if (want_indices) result.indices = chosen(argsort(rows));
    return result;
  }
  const Tensor dense = rows.contiguous();
  Shape shape = dense.shape();
  shape.back() = static_cast<std::int64_t>(ranks.size());
  backend::RankCall call{};
  call.dtype = dense.dtype();
  call.length = dense.size(-1);
  call.rows = dense.numel() / call.length;
  call.rank_count = shape.back();
  call.ranks = ranks.data();
  call.x = detail::dense_data(dense);
  if (want_values) {
    result.values = detail::make_empty(operation, shape, dense.dtype(), dense.device());
    call.values = result.values.impl().data;
  }
  if (want_indices) {
    result.indices = detail::make_empty(operation, shape, DType::int64, dense.device());
    call.indices = detail::kernel_pointer<std::int64_t>(result.indices);
  }
  kernels.rank(call);
  return result;
}

// The ranks that the quantiles read, each once, ascending.
Dims ranks_of(const std::vector<double>& q, std::int64_t n, QuantileMode mode) {
  Dims ranks;
  for (double each : q) {
    const Position at = position_of(each, n, mode);
    ranks.push_back(at.low);
    if (at.part != 0) ranks.push_back(at.high);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.resize(static_cast<std::size_t>(std::unique(ranks.begin(), ranks.end()) - ranks.begin()));
  return ranks;
}

Shape result_shape(const QuantileAttributes& attributes, const Shape& one) {
  Shape shape = one;
  if (attributes.list) shape.insert(0, static_cast<std::int64_t>(attributes.q.size()));
  return shape;
}

// Results: the quantiles and, if recorded, the positions of the ranks that they read, for the
// gradient.
Results quantile_forward(const Run& run, const QuantileAttributes& attributes, const Tensor& x) {
  check_quantiles(run.name(), attributes, x);
  const Rows rows(run.name(), x, attributes.axis);
  Dims ranks = ranks_of(attributes.q, rows.n, attributes.mode);
  const auto read = static_cast<std::int64_t>(ranks.size());
  if (ranks.empty() || ranks.back() != rows.n - 1) ranks.push_back(rows.n - 1);
  const Ranked both = ranked(run.name(), rows.x, ranks, true, run.recorded);
  const Tensor found = both.values.to(compute_dtype(x.dtype()));
  const Tensor order = run.recorded ? both.indices.slice(-1, 0, read) : Tensor();
  const auto element = [&](std::int64_t rank) {
    const std::int64_t k = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return found.slice(-1, k, k + 1).squeeze(-1);
  };
  const Tensor last = element(rows.n - 1);  // NaN if there is one
  std::vector<Tensor> results;
  for (double q : attributes.q) {
    const Position at = position_of(q, rows.n, attributes.mode);
    Tensor value = element(at.low);
    if (at.part != 0) value = value + (element(at.high) - value) * at.part;
    results.push_back(where(isnan(last), last, value));
  }
  const Shape shape = result_shape(attributes, attributes.keepdims ? rows.kept : rows.reduced);
  if (results.empty()) return {run.empty(shape, x.dtype()), order};
  return {stack(results).reshape(shape).to(x.dtype()), order};
}

// `order` has the positions of ranks_of(…), [..., ranks]; they are searched if it is undefined.
Tensor quantile_gradient_of(const char* operation, const Tensor& grad_output, const Tensor& x,
                            const QuantileAttributes& attributes, Tensor order = {}) {
  check_quantiles(operation, attributes, x);
  const Rows rows(operation, x, attributes.axis);
  const Shape reduced = result_shape(attributes, rows.reduced),
              kept = result_shape(attributes, rows.kept);
  check_grad_output(operation, grad_output, grad_output.shape() == kept ? kept : reduced);
  if (attributes.q.empty()) return zeros_like(x);
  const DType wide = compute_dtype(promote_types(grad_output.dtype(), x.dtype(), operation));
  Shape stacked = rows.reduced;
  stacked.insert(0, static_cast<std::int64_t>(attributes.q.size()));
  const Tensor g = grad_output.to(wide).reshape(stacked);
  const Dims ranks = ranks_of(attributes.q, rows.n, attributes.mode);
  if (!order.defined()) order = ranked(operation, rows.x.detach(), ranks, false, true).indices;
  std::vector<Tensor> places, parts;
  const auto add = [&](std::int64_t rank, const Tensor& part) {
    const std::int64_t k = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    places.push_back(order.slice(-1, k, k + 1));
    parts.push_back(part);
  };
  for (std::size_t k = 0; k < attributes.q.size(); ++k) {
    const Position at = position_of(attributes.q[k], rows.n, attributes.mode);
    const auto row = static_cast<std::int64_t>(k);
    const Tensor of_q = g.slice(0, row, row + 1).squeeze(0).unsqueeze(-1);
    add(at.low, of_q * (1 - at.part));
    if (at.part != 0) add(at.high, of_q * at.part);
  }
  const Tensor part = concatenate(parts, -1), place = concatenate(places, -1);
  // Places of different ranks are different: then nothing needs to be added.
  const Tensor of_rows =
      parts.size() == ranks.size()
          ? scatter(zeros({}, {wide, x.device()}).broadcast_to(rows.x.shape()), -1, place, part)
          : gather_backward(part, rows.x.shape(), -1, place);
  if (!attributes.axis || x.ndim() == 0) return of_rows.reshape(x.shape()).to(x.dtype());
  return moveaxis(of_rows, -1, *attributes.axis).to(x.dtype());
}

Gradients quantile_gradient(const GradientCall& call, const QuantileAttributes& attributes) {
  return quantile_gradient_of("quantile_backward", call.grad(), call.input(0), attributes,
                              call.result(1));
}

constexpr auto quantile_op = define<quantile_forward, quantile_gradient>(
    {.name = "quantile", .inputs = {"x"}, .reads = {input(0) | result(1)}});

// ---- the median

struct MedianAttributes {
  std::optional<std::int64_t> axis;
  bool keepdims;
};

// Results: the median and, if recorded, its position, for the gradient.
Results median_forward(const Run& run, const MedianAttributes& attributes, const Tensor& x) {
  const Rows rows(run.name(), x, attributes.axis);
  const bool is_float = is_floating_point(x.dtype());
  Dims ranks{(rows.n - 1) / 2};
  if (is_float) ranks.push_back(rows.n - 1);
  const Ranked found = ranked(run.name(), rows.x, ranks, true, run.recorded);
  Tensor value = found.values.slice(-1, 0, 1);
  if (is_float) {
    const Tensor last = found.values.slice(-1, 1);  // NaN if there is one
    value = where(isnan(last), last, value);
  }
  return {value.contiguous().reshape(attributes.keepdims ? rows.kept : rows.reduced),
          run.recorded ? found.indices.slice(-1, 0, 1) : Tensor()};
}

Gradients median_gradient(const GradientCall& call, const MedianAttributes& attributes) {
  return quantile_gradient_of("median_backward", call.grad(), call.input(0),
                              {{0.5}, false, attributes.axis, false, QuantileMode::lower},
                              call.result(1));
}

constexpr auto median_op = define<median_forward, median_gradient>(
    {.name = "median", .inputs = {"x"}, .reads = {input(0) | result(1)}});

std::optional<std::int64_t> plain(const std::optional<StrictInt>& axis) {
  if (!axis) return {};
  return std::int64_t{*axis};
}

}  // namespace

Tensor quantile(const Tensor& x, double q, std::optional<StrictInt> axis, StrictBool keepdims,
                QuantileMode mode) {
  return dispatch(quantile_op, {{q}, false, plain(axis), keepdims, mode}, x)[0];
}
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<StrictInt> axis,
                StrictBool keepdims, QuantileMode mode) {
  return dispatch(quantile_op, {q, true, plain(axis), keepdims, mode}, x)[0];
}
Tensor quantile_backward(const Tensor& grad_output, const Tensor& x, double q,
                         std::optional<StrictInt> axis, QuantileMode mode) {
  return quantile_gradient_of("quantile_backward", grad_output, x,
                              {{q}, false, plain(axis), false, mode});
}
Tensor quantile_backward(const Tensor& grad_output, const Tensor& x, const std::vector<double>& q,
                         std::optional<StrictInt> axis, QuantileMode mode) {
  return quantile_gradient_of("quantile_backward", grad_output, x,
                              {q, true, plain(axis), false, mode});
}

Tensor median(const Tensor& x, std::optional<StrictInt> axis, StrictBool keepdims) {
  return dispatch(median_op, {plain(axis), keepdims}, x)[0];
}
Tensor median_backward(const Tensor& grad_output, const Tensor& x, std::optional<StrictInt> axis) {
  return quantile_gradient_of("median_backward", grad_output, x,
                              {{0.5}, false, plain(axis), false, QuantileMode::lower});
}

// ---- counts

namespace {

// Whether edges differ so clearly that the bin from the distance to the first edge is right or next
// to the right one.
struct Evenly {
  bool holds;
  double scale;  // bins per unit

  Evenly(DType dtype, const std::pair<double, double>& ends, std::int64_t bins) {
    const bool is_double = dtype == DType::float64;
    const double rounding = is_double ? 0x1p-52 : 0x1p-23;
    const double greatest = is_double ? 0x1p1000 : 0x1p100, smallest = 1 / greatest;
    const double length = ends.second - ends.first, width = length / static_cast<double>(bins);
    const double largest = std::max(std::fabs(ends.first), std::fabs(ends.second));
    const bool is_half = !is_double && dtype != DType::float32;
    holds = !(is_half || largest > greatest || width < std::max(smallest, 16 * rounding * largest));
    scale = static_cast<double>(bins) / length;
  }
};

// The number of edges that are at most x: 0 below the range, bins + 1 at its upper end and above. A
// NaN counts as below or above. Even edges need no search: those on both sides of the bin decide.
Tensor cells_of(const Tensor& x, const Tensor& edges, const std::pair<double, double>& ends,
                std::int64_t bins, const Evenly& even) {
  if (!even.holds) return searchsorted(edges, x, true);
  const Tensor bin =
      clip((x.to(DType::float64) - ends.first) * even.scale, 0, bins - 1).to(DType::int64);
  const auto reaches = [&](std::int64_t first) {
    return greater_equal(x, take(edges.slice(0, first, first + bins), bin)).to(DType::int64);
  };
  return bin + reaches(0) + reaches(1);
}

// The counts of all cells for dense x, where cells_of() needs no search: the same steps, without
// tensors between them.
template <class T>
std::vector<std::int64_t> count_cells(const Tensor& x, const Tensor& edges, double first,
                                      double scale, std::int64_t bins) {
  const T* from = detail::kernel_pointer<const T>(x);
  const T* edge = detail::kernel_pointer<const T>(edges);
  const std::int64_t cells = bins + 2, grain = std::max<std::int64_t>(1 << 14, 4 * bins);
  const int threads = detail::threads_for(x.numel(), grain);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(threads * cells), 0);
  detail::parallel_for(
      threads, x.numel(), grain, [&](std::int64_t begin, std::int64_t end, int slot) {
        std::int64_t* mine = counts.data() + slot * cells;
        const auto last = static_cast<double>(bins - 1);
        for (std::int64_t i = begin; i < end; ++i) {
          // A NaN goes to cell 0.
          const double at = std::max(0.0, (static_cast<double>(from[i]) - first) * scale);
          const auto bin = static_cast<std::int64_t>(std::min(at, last));
          ++mine[bin + static_cast<int>(from[i] >= edge[bin]) +
                 static_cast<int>(from[i] >= edge[bin + 1])];
          if (from[i] == edge[bins]) ++mine[bins];
        }
      });
  for (int slot = 1; slot < threads; ++slot) {
    for (std::int64_t k = 0; k < cells; ++k) {
      counts[static_cast<std::size_t>(k)] += counts[static_cast<std::size_t>(slot * cells + k)];
    }
  }
  counts.resize(static_cast<std::size_t>(cells));
  return counts;
}

// The same bits as unsigned integers.
Tensor as_unsigned(const Tensor& x) {
  const auto dtype = [&] {
    switch (x.itemsize()) {
      case 1:
        return DType::uint8;
      case 2:
        return DType::uint16;
      case 4:
        return DType::uint32;
      default:
        return DType::uint64;
    }
  }();
  const detail::TensorImpl& impl = x.impl();
  return detail::make_on_storage(impl.storage, impl.data, dtype, impl.shape, impl.strides);
}

}  // namespace

Histogram histogram(const Tensor& x, StrictInt bins,
                    std::optional<std::pair<double, double>> range) {
  const char* operation = "histogram";
  if (bins < 1 || bins > (std::int64_t{1} << 31)) {
    throw ValueError(message(operation, ": bins is ", std::int64_t{bins}, ", must be 1 to 2^31"));
  }
  const Tensor flat = (is_floating_point(x.dtype()) ? x : x.to(default_float)).detach().flatten();
  std::pair<double, double> ends = range.value_or(std::pair(0.0, 1.0));
  if (!range && flat.numel() > 0) {
    ends = {min_reduce(flat).to(DType::float64).item<double>(),
            max_reduce(flat).to(DType::float64).item<double>()};
  }
  if (!std::isfinite(ends.first) || !std::isfinite(ends.second) || ends.first > ends.second) {
    throw ValueError(message(operation, ": the range is ", ends.first, " to ", ends.second,
                             ", must be finite and ascend"));
  }
  if (ends.first == ends.second) ends = {ends.first - 0.5, ends.second + 0.5};
  const Tensor edges = linspace(ends.first, ends.second, bins + 1, {flat.dtype(), flat.device()});
  const Evenly even(flat.dtype(), ends, bins);
  const bool is_double = flat.dtype() == DType::float64;
  if (even.holds && flat.device() == cpu_device && bins <= 1 << 16) {
    const Tensor dense = flat.contiguous();
    const std::vector<std::int64_t> all =
        is_double ? count_cells<double>(dense, edges, ends.first, even.scale, bins)
                  : count_cells<float>(dense, edges, ends.first, even.scale, bins);
    return {from_data(std::vector<std::int64_t>(all.begin() + 1, all.end() - 1)), edges};
  }
  const Tensor cell = cells_of(flat, edges, ends, bins, even);
  const Tensor cells =
      scatter_add(zeros({bins + 2}, {DType::int64, flat.device()}), 0, cell, ones_like(cell));
  Tensor counts = cells.slice(0, 1, bins + 1).clone();
  counts.slice(0, bins - 1) += count_nonzero(equal(flat, edges.slice(0, bins, bins + 1)), {}, true);
  return {counts, edges};
}

Tensor bincount(const Tensor& x, const Tensor& weights, StrictInt minlength) {
  const char* operation = "bincount";
  if (x.ndim() != 1) {
    throw ShapeError(message(operation, ": x is ", x.shape(), ", must have 1 dimension"));
  }
  if (!is_integer(x.dtype())) {
    throw DTypeError(message(operation, ": x is ", x.dtype(), ", must be an integer dtype"));
  }
  if (minlength < 0) {
    throw ValueError(
        message(operation, ": minlength is ", std::int64_t{minlength}, ", must be 0 or more"));
  }
  if (weights.defined() && !(weights.shape() == x.shape())) {
    throw ShapeError(
        message(operation, ": weights are ", weights.shape(), ", must be ", x.shape(), " like x"));
  }
  std::int64_t length = minlength;
  if (x.numel() > 0) {
    // Negative numbers are the largest if their bits are read as those of unsigned ones.
    const auto largest = max_reduce(as_unsigned(x)).to(DType::uint64).item<std::uint64_t>();
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const std::uint64_t sign = (most + 1) >> (8 * (sizeof most - x.itemsize()));
    if (is_signed_integer(x.dtype()) && largest >= sign) {
      const auto least = min_reduce(x).to(DType::int64).item<std::int64_t>();
      throw ValueError(
          message(operation, ": x contains ", least, ", all elements must be 0 or more"));
    }
    if (largest >= most) {
      throw ValueError(message(operation, ": x contains ", largest, ", must be below ", most));
    }
    length = std::max(length, static_cast<std::int64_t>(largest) + 1);
  }
  if (weights.defined()) {
    return scatter_add(zeros({length}, {weights.dtype(), x.device()}), 0, x, weights);
  }
  const backend::Backend& kernels = backend::backend_for(x.device());
  if (kernels.count == nullptr) {
    return scatter_add(zeros({length}, {DType::int64, x.device()}), 0, x,
                       ones_like(x, DType::int64));
  }
  const Tensor dense = x.contiguous();
  Tensor counts = detail::make_empty(operation, {length}, DType::int64, x.device());
  kernels.count({dense.dtype(), dense.numel(), length, detail::dense_data(dense),
                 detail::kernel_pointer<std::int64_t>(counts)});
  return counts;
}

constinit const OpList ops::statistics_ops = listed<quantile_op, median_op>;

}  // namespace extensor
