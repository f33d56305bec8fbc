// Sorting. References use insertion sort.
#include <cmath>
#include <tuple>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

// The positions of a row in sorted order; equal elements keep their order.
std::vector<std::int64_t> order_of(const std::vector<double>& row, bool descending) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::size_t place = order.size();
    while (place > 0) {
      const double before = row[static_cast<std::size_t>(order[place - 1])];
      if (descending ? before >= row[i] : before <= row[i]) break;
      --place;
    }
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), static_cast<std::int64_t>(i));
  }
  return order;
}

struct Ordered {
  PlainArray values, indices;
};

// The first `count` elements along an axis in sorted order.
Ordered ordered(const Tensor& input, std::int64_t axis, std::int64_t count, bool descending) {
  const PlainArray x(input);
  const auto at = static_cast<std::size_t>(axis);
  Shape result = x.shape;
  result[at] = count;
  Ordered found{PlainArray(result), PlainArray(result)};
  Shape rows = x.shape;
  rows[at] = 1;
  for_each_position(rows, [&](const Dims& position) {
    std::vector<double> row;
    for (std::int64_t i = 0; i < x.shape[at]; ++i)
      row.push_back(x.at(with_entry(position, axis, i)));
    const auto order = order_of(row, descending);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = order[static_cast<std::size_t>(i)];
      found.values.at(with_entry(position, axis, i)) = row[static_cast<std::size_t>(from)];
      found.indices.at(with_entry(position, axis, i)) = static_cast<double>(from);
    }
  });
  return found;
}

struct Case {
  Shape shape;
  std::int64_t axis;
  bool descending;
  std::string label() const {
    return to_string(shape) + ", axis " + std::to_string(axis) + (descending ? ", descending" : "");
  }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {{17}, 0, false},   {{4, 33}, 1, true}, {{9, 5}, 0, false}, {{2, 7, 3}, 1, true},
      {{3, 1}, 1, false}, {{2, 0}, 1, false}, {{0, 3}, 1, true}};
  return list;
}

std::vector<Sample> sort_samples() {
  std::vector<Sample> samples;
  for (const Case& entry : cases()) {
    samples.push_back(
        {entry.label(),
         {sample_distinct(entry.shape, 1)},
         [entry](const Tensors& in) { return Tensors{sort(in[0], entry.axis, entry.descending)}; },
         [entry](const Tensors& in) {
           return Tensors{ordered(in[0], entry.axis, in[0].size(entry.axis), entry.descending)
                              .values.to_tensor()};
         },
         [entry](const Tensors& g, const Tensors& in) {
           const Tensor order = argsort(in[0], entry.axis, entry.descending);
           return Tensors{sort_backward(g[0], order, entry.axis)};
         }});
  }
  return samples;
}

std::vector<Sample> argsort_samples() {
  std::vector<Sample> samples;
  for (const Case& entry : cases()) {
    samples.push_back({entry.label(),
                       {sample_distinct(entry.shape, 2)},
                       [entry](const Tensors& in) {
                         return Tensors{argsort(in[0], entry.axis, entry.descending)};
                       },
                       [entry](const Tensors& in) {
                         return Tensors{
                             ordered(in[0], entry.axis, in[0].size(entry.axis), entry.descending)
                                 .indices.to_tensor(DType::int64)};
                       },
                       nullptr});
  }
  return samples;
}

std::vector<Sample> sort_with_indices_samples() {
  std::vector<Sample> samples;
  for (const Case& entry : cases()) {
    samples.push_back(
        {entry.label(),
         {sample_distinct(entry.shape, 3)},
         [entry](const Tensors& in) {
           const auto [values, indices] = sort_with_indices(in[0], entry.axis, entry.descending);
           return Tensors{values, indices};
         },
         [entry](const Tensors& in) {
           const Ordered found =
               ordered(in[0], entry.axis, in[0].size(entry.axis), entry.descending);
           return Tensors{found.values.to_tensor(), found.indices.to_tensor(DType::int64)};
         },
         [entry](const Tensors& g, const Tensors& in) {
           const Tensor order = argsort(in[0], entry.axis, entry.descending);
           return Tensors{sort_backward(g[0], order, entry.axis)};
         }});
  }
  return samples;
}

std::vector<Sample> topk_samples() {
  std::vector<Sample> samples;
  struct Choice {
    Shape shape;
    std::int64_t k, axis;
    bool largest;
  };
  for (const Choice& entry :
       {Choice{{33}, 3, 0, true}, Choice{{4, 17}, 2, 1, false}, Choice{{9, 5}, 9, 0, true},
        Choice{{2, 7, 3}, 4, 1, false}, Choice{{3, 4}, 0, 1, true}}) {
    const std::string label = to_string(entry.shape) + ", k " + std::to_string(entry.k) +
                              ", axis " + std::to_string(entry.axis) +
                              (entry.largest ? ", largest" : ", smallest");
    samples.push_back(
        {label,
         {sample_distinct(entry.shape, 4)},
         [entry](const Tensors& in) {
           return Tensors{topk(in[0], entry.k, entry.axis, entry.largest).values};
         },
         [entry](const Tensors& in) {
           return Tensors{ordered(in[0], entry.axis, entry.k, entry.largest).values.to_tensor()};
         },
         [entry](const Tensors& g, const Tensors& in) {
           const Tensor indices = topk(in[0], entry.k, entry.axis, entry.largest).indices;
           return Tensors{topk_backward(g[0], in[0].shape(), indices, entry.axis)};
         }});
    samples.push_back(
        {label + ", indices",
         {sample_distinct(entry.shape, 5)},
         [entry](const Tensors& in) {
           return Tensors{topk(in[0], entry.k, entry.axis, entry.largest, false).indices};
         },
         [entry](const Tensors& in) {
           return Tensors{
               ordered(in[0], entry.axis, entry.k, entry.largest).indices.to_tensor(DType::int64)};
         },
         nullptr});
  }
  return samples;
}

std::vector<Sample> searchsorted_samples() {
  std::vector<Sample> samples;
  for (const bool right : {false, true}) {
    for (const auto& [row, values] : {std::pair<Shape, Shape>{{9}, {17}},
                                      {{33}, {3, 4}},
                                      {{4, 9}, {4, 5}},
                                      {{5}, {}},
                                      {{0}, {3}}}) {
      // Whole numbers, so that some are equal.
      const Tensor sorted = ordered(sample_integers(row, -3, 4, 6).to(DType::float64),
                                    static_cast<std::int64_t>(row.size()) - 1, row.back(), false)
                                .values.to_tensor();
      samples.push_back(
          {to_string(row) + ", values " + to_string(values) + (right ? ", right" : ""),
           {sorted, sample_integers(values, -4, 5, 7).to(DType::float64)},
           [right](const Tensors& in) { return Tensors{searchsorted(in[0], in[1], right)}; },
           [right](const Tensors& in) {
             const PlainArray row_values(in[0]), wanted(in[1]);
             const bool one_row = row_values.shape.size() == 1;
             return Tensors{PlainArray::from(wanted.shape, [&](const Dims& position) {
                              std::int64_t count = 0;
                              for (std::int64_t i = 0; i < row_values.shape.back(); ++i) {
                                const Dims at =
                                    one_row
                                        ? Dims{i}
                                        : with_entry(position,
                                                     static_cast<std::int64_t>(position.size()) - 1,
                                                     i);
                                const double element = row_values.at(at);
                                const double value = wanted.at(position);
                                if (right ? element <= value : element < value) ++count;
                              }
                              return static_cast<double>(count);
                            }).to_tensor(DType::int64)};
           },
           nullptr});
      // Shifted to be non-negative: unsigned dtypes use magnitudes, which would change the order.
      samples.back().integer_of = [](std::size_t, double x) { return x + 4; };
    }
  }
  // The order of a row that is not sorted, as the sorter.
  const Tensor row = sample_distinct({17}, 9);
  std::vector<std::int64_t> order = order_of(PlainArray(row).values, false);
  samples.push_back(
      {"[17], values [2, 5], sorter",
       {row, sample_distinct({2, 5}, 10), from_data(order)},
       [](const Tensors& in) { return Tensors{searchsorted(in[0], in[1], true, in[2])}; },
       [](const Tensors& in) {
         const PlainArray row_values(in[0]), wanted(in[1]);
         return Tensors{PlainArray::from(wanted.shape, [&](const Dims& at) {
                          std::int64_t count = 0;
                          for (double element : row_values.values) {
                            if (element <= wanted.at(at)) ++count;
                          }
                          return static_cast<double>(count);
                        }).to_tensor(DType::int64)};
       },
       nullptr});
  samples.back().floats_only = true;
  return samples;
}

struct Runs {
  std::vector<double> values;
  std::vector<std::int64_t> indices, inverse, counts;
};

Runs runs_of(const Tensor& x) {
  const std::vector<double> values = PlainArray(x).values;
  Runs runs;
  runs.inverse.resize(values.size());
  for (std::int64_t i : order_of(values, false)) {
    const double value = values[static_cast<std::size_t>(i)];
    if (runs.values.empty() || runs.values.back() != value) {
      runs.values.push_back(value);
      runs.indices.push_back(i);
      runs.counts.push_back(0);
    }
    ++runs.counts.back();
    runs.inverse[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(runs.values.size()) - 1;
  }
  return runs;
}

std::vector<Sample> unique_counts_samples() {
  return {{"[5, 7]",
           {sample_integers({5, 7}, -4, 5, 8).to(DType::float64)},
           [](const Tensors& in) {
             const UniqueCounts found = unique_counts(in[0]);
             return Tensors{found.values, found.counts};
           },
           [](const Tensors& in) {
             const Runs runs = runs_of(in[0]);
             return Tensors{from_data(runs.values), from_data(runs.counts)};
           },
           nullptr}};
}

std::vector<Sample> unique_inverse_samples() {
  return {{"[5, 7]",
           {sample_integers({5, 7}, -4, 5, 8).to(DType::float64)},
           [](const Tensors& in) {
             const UniqueInverse found = unique_inverse(in[0]);
             return Tensors{found.values, found.inverse_indices};
           },
           [](const Tensors& in) {
             const Runs runs = runs_of(in[0]);
             return Tensors{from_data(runs.values), from_data(runs.inverse, in[0].shape())};
           },
           nullptr}};
}

std::vector<Sample> isin_samples() {
  std::vector<Sample> samples;
  for (const auto& [shape, elements, invert] : {std::tuple<Shape, Shape, bool>{{5, 7}, {4}, false},
                                                {{33}, {2, 3}, true},
                                                {{3}, {0}, false},
                                                {{0, 2}, {3}, true},
                                                {{}, {}, false}}) {
    const bool is_inverted = invert;
    samples.push_back({to_string(shape) + " in " + to_string(elements) + (invert ? ", invert" : ""),
                       {sample_integers(shape, -4, 5, 11).to(DType::float64),
                        sample_integers(elements, -4, 5, 12).to(DType::float64)},
                       [=](const Tensors& in) { return Tensors{isin(in[0], in[1], is_inverted)}; },
                       [=](const Tensors& in) {
                         const PlainArray x(in[0]), set(in[1]);
                         return Tensors{PlainArray::from(x.shape, [&](const Dims& at) {
                                          bool found = false;
                                          for (double element : set.values)
                                            found = found || element == x.at(at);
                                          return found != is_inverted ? 1.0 : 0.0;
                                        }).to_tensor(DType::bool_)};
                       },
                       nullptr});
  }
  return samples;
}

std::vector<Sample> unique_samples(bool all) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{33}, Shape{5, 7}, Shape{}, Shape{0}, Shape{2, 0}}) {
    samples.push_back(
        {to_string(shape),
         {sample_integers(shape, -4, 5, 8).to(DType::float64)},
         [all](const Tensors& in) {
           if (!all) return Tensors{unique(in[0])};
           const UniqueTensor found = unique_all(in[0]);
           return Tensors{found.values, found.indices, found.inverse_indices, found.counts};
         },
         [all](const Tensors& in) {
           const Runs runs = runs_of(in[0]);
           if (!all) return Tensors{from_data(runs.values)};
           return Tensors{from_data(runs.values), from_data(runs.indices),
                          from_data(runs.inverse, in[0].shape()), from_data(runs.counts)};
         },
         nullptr});
  }
  return samples;
}

}  // namespace

void add_sorting(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       std::vector<std::string> backward,
                       std::function<std::vector<Sample>()> samples) {
    ops.push_back(
        {name, "sorting", formula, gradient, std::move(backward), DTypes::all, std::move(samples)});
  };
  add("sort", "the elements along an axis in order, NaN last", "g put back where they came from",
      {"sort_backward"}, sort_samples);
  add("argsort", "the positions along an axis in the order of the elements", "", {},
      argsort_samples);
  add("sort_with_indices", "sort and argsort at once", "that of sort", {"sort_backward"},
      sort_with_indices_samples);
  add("topk", "the k largest or smallest along an axis, and their positions",
      "g put back where they came from, 0 elsewhere", {"topk_backward"}, topk_samples);
  add("searchsorted", "where values would go into a sorted row", "", {}, searchsorted_samples);
  add("unique", "each value once, ascending", "", {}, [] { return unique_samples(false); });
  add("unique_all", "each value once, its first position, who has it and how often it is there", "",
      {}, [] { return unique_samples(true); });
  ops[ops.size() - 2].aliases = {"unique_values"};
  add("unique_counts", "each value once, ascending, and how often it is there", "", {},
      unique_counts_samples);
  add("unique_inverse", "each value once, ascending, and who has it", "", {},
      unique_inverse_samples);
  add("isin", "whether x is one of the elements", "", {}, isin_samples);
}

}  // namespace extensor::op_database
