// Order statistics and counts, against sorted copies and loops.
#include <algorithm>
#include <cmath>
#include <string>

#include "op_database/loops.h"
#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

Axes axes_of(std::optional<std::int64_t> axis) { return axis ? Axes(*axis) : Axes(); }
std::optional<StrictInt> strict(std::optional<std::int64_t> axis) {
  return axis ? std::optional<StrictInt>(*axis) : std::nullopt;
}

double quantile_of(Doubles row, double q, QuantileMode mode) {
  std::sort(row.begin(), row.end());
  const double place = q * static_cast<double>(row.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, row.size() - 1);
  const double part = place - static_cast<double>(below);
  switch (mode) {
    case QuantileMode::linear:
      return (1 - part) * row[below] + part * row[above];
    case QuantileMode::lower:
      return row[below];
    case QuantileMode::higher:
      return part > 0 ? row[above] : row[below];
    case QuantileMode::midpoint:
      return part > 0 ? (row[below] + row[above]) / 2 : row[below];
    case QuantileMode::nearest:
      break;
  }
  return row[static_cast<std::size_t>(std::lrint(place))];
}

std::vector<Sample> quantile_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 100;
  const auto add = [&](std::string label, const Shape& shape, const std::vector<double>& q,
                       std::optional<std::int64_t> axis, bool keepdims, QuantileMode mode) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {sample_distinct(shape, ++seed)};
    const bool one = q.size() == 1;
    sample.forward = [=](const Tensors& in) {
      return Tensors{one ? quantile(in[0], q[0], strict(axis), keepdims, mode)
                         : quantile(in[0], q, strict(axis), keepdims, mode)};
    };
    sample.reference = [=](const Tensors& in) {
      std::vector<double> values;
      Shape result;
      for (double each : q) {
        const Tensor part = reduce_groups(in[0], axes_of(axis), keepdims, [&](const Doubles& row) {
          return quantile_of(row, each, mode);
        });
        result = part.shape();
        for (double value : doubles(part)) values.push_back(value);
      }
      if (!one) result.insert(0, static_cast<std::int64_t>(q.size()));
      return Tensors{from_data(values, result)};
    };
    sample.backward = [=](const Tensors& g, const Tensors& in) {
      return Tensors{one ? quantile_backward(g[0], in[0], q[0], strict(axis), mode)
                         : quantile_backward(g[0], in[0], q, strict(axis), mode)};
    };
    list.push_back(std::move(sample));
  };
  using enum QuantileMode;
  add("[4, 7], 0.3, all", {4, 7}, {0.3}, {}, false, linear);
  add("[4, 7], 0.5, axis 1, keepdims", {4, 7}, {0.5}, 1, true, linear);
  add("[3, 6, 2], quartiles, axis 1", {3, 6, 2}, {0.25, 0.5, 0.75}, 1, false, linear);
  add("[5, 6], ends, axis 0, keepdims", {5, 6}, {0, 1}, 0, true, linear);
  add("[2, 6], 0.35, lower", {2, 6}, {0.35}, 1, false, lower);
  add("[2, 6], 0.35, higher", {2, 6}, {0.35}, 1, false, higher);
  add("[2, 6], 0.35, midpoint", {2, 6}, {0.35}, 1, false, midpoint);
  add("[2, 6], 0.33, nearest", {2, 6}, {0.33}, 1, false, nearest);
  add("[0, 4], axis 1", {0, 4}, {0.5}, 1, false, linear);
  return list;
}

std::vector<Sample> median_samples() {
  std::vector<Sample> list;
  std::uint64_t seed = 200;
  const auto add = [&](std::string label, const Shape& shape, std::optional<std::int64_t> axis,
                       bool keepdims) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {sample_distinct(shape, ++seed)};
    sample.forward = [=](const Tensors& in) {
      return Tensors{median(in[0], strict(axis), keepdims)};
    };
    sample.reference = [=](const Tensors& in) {
      return Tensors{reduce_groups(in[0], axes_of(axis), keepdims, [](Doubles row) {
        std::sort(row.begin(), row.end());
        return row[(row.size() - 1) / 2];
      })};
    };
    sample.backward = [=](const Tensors& g, const Tensors& in) {
      return Tensors{median_backward(g[0], in[0], strict(axis))};
    };
    list.push_back(std::move(sample));
  };
  add("[4, 7], all", {4, 7}, {}, false);
  add("[4, 7], axis 1, keepdims", {4, 7}, 1, true);
  add("[3, 6, 2], axis 1", {3, 6, 2}, 1, false);
  add("[600], all", {600}, {}, false);
  add("[1, 3], axis 0", {1, 3}, 0, false);
  return list;
}

std::vector<Sample> histogram_samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string label, const Shape& shape, std::int64_t bins,
                       std::optional<std::pair<double, double>> range) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {sample_distinct(shape, 300)};
    sample.forward = [=](const Tensors& in) {
      const auto [counts, edges] = histogram(in[0], bins, range);
      return Tensors{counts, edges};
    };
    sample.reference = [=](const Tensors& in) {
      const Doubles x = doubles(in[0]);
      double low = 0, high = 1;
      if (range) {
        std::tie(low, high) = *range;
      } else if (!x.empty()) {
        low = *std::min_element(x.begin(), x.end());
        high = *std::max_element(x.begin(), x.end());
      }
      if (low == high) {
        low -= 0.5;
        high += 0.5;
      }
      Doubles exact;
      for (std::int64_t i = 0; i <= bins; ++i) {
        exact.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(bins));
      }
      exact.back() = high;  // not a rounding error beside it
      // Elements are compared with the edges as they are stored.
      const DType dtype = is_floating_point(in[0].dtype()) ? in[0].dtype() : float32;
      const Doubles edges = doubles(from_data(exact, {bins + 1}).to(dtype));
      std::vector<std::int64_t> counts(static_cast<std::size_t>(bins), 0);
      for (double value : x) {
        for (std::size_t k = 0; k < counts.size(); ++k) {
          const bool last = k + 1 == counts.size();
          if (value >= edges[k] && (value < edges[k + 1] || (last && value == edges[k + 1]))) {
            ++counts[k];
          }
        }
      }
      return Tensors{from_data(counts, {bins}), from_data(exact, {bins + 1})};
    };
    list.push_back(std::move(sample));
  };
  add("[5, 8], 41 bins", {5, 8}, 41, {});  // no element is on an inner edge
  add("[60], 7 bins, range", {60}, 7, std::pair(-0.31, 0.43));
  add("[1], 4 bins", {1}, 4, {});
  add("[0], 3 bins", {0}, 3, {});
  return list;
}

std::vector<Sample> bincount_samples() {
  std::vector<Sample> list;
  const auto add = [&](std::string label, const Tensor& x, std::int64_t minlength) {
    Sample sample;
    sample.label = std::move(label);
    sample.inputs = {x.to(float64)};
    sample.integer_of = whole_number;
    sample.forward = [=](const Tensors& in) { return Tensors{bincount(in[0], {}, minlength)}; };
    sample.reference = [=](const Tensors& in) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(minlength), 0);
      for (double value : doubles(in[0])) {
        const auto k = static_cast<std::size_t>(value);
        if (k >= counts.size()) counts.resize(k + 1, 0);
        ++counts[k];
      }
      return Tensors{from_data(counts, {static_cast<std::int64_t>(counts.size())})};
    };
    list.push_back(std::move(sample));
  };
  add("[40], below 7", sample_integers({40}, 0, 7, 400), 0);
  add("[9], minlength 12", sample_integers({9}, 2, 5, 401), 12);
  add("[0], minlength 2", zeros({0}, int64), 2);
  return list;
}

}  // namespace

void add_statistics(std::vector<Op>& ops) {
  ops.push_back({"quantile",
                 "sorting",
                 "the element at position q · (n − 1) of the sorted elements, interpolated",
                 "grad · (1 − t) and grad · t to the two elements around the position",
                 {"quantile_backward"},
                 DTypes::floats,
                 quantile_samples});
  ops.push_back({"median",
                 "sorting",
                 "the element at position ⌊(n − 1) / 2⌋ of the sorted elements",
                 "grad to that element",
                 {"median_backward"},
                 DTypes::all,
                 median_samples});
  ops.push_back({"histogram",
                 "sorting",
                 "counts[i] = |{x : edges[i] ≤ x < edges[i + 1]}|, the last bin closed",
                 "",
                 {},
                 DTypes::as_float32,
                 histogram_samples});
  ops.push_back({"bincount",
                 "sorting",
                 "counts[k] = |{i : x[i] = k}|, or the sum of their weights",
                 "",
                 {},
                 DTypes::integers,
                 bincount_samples});
}

}  // namespace extensor::op_database
