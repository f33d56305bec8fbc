// Running sums and products, norms and counts.
#include <cmath>
#include <limits>
#include <tuple>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensors running(const Tensor& input, std::int64_t axis, bool product) {
  PlainArray x(input);
  PlainArray result(x.shape);
  for_each_position(x.shape, [&](const Dims& position) {
    double total = product ? 1 : 0;
    for (std::int64_t i = 0; i <= position[static_cast<std::size_t>(axis)]; ++i) {
      const double element = x.at(with_entry(position, axis, i));
      total = product ? total * element : total + element;
    }
    result.at(position) = total;
  });
  return {result.to_tensor()};
}

const std::vector<std::pair<Shape, std::int64_t>>& scan_cases() {
  static const std::vector<std::pair<Shape, std::int64_t>> list = {
      {{17}, 0}, {{3, 9}, 1}, {{5, 33}, 0}, {{2, 4, 3}, 1}, {{3, 0}, 1}, {{0, 3}, 1}, {{1}, 0}};
  return list;
}

// `result` of a scan with its initial value before the first element.
Tensors from_initial(const Tensors& result, std::int64_t axis, double initial) {
  const PlainArray sums(result[0]);
  Shape shape = sums.shape;
  ++shape[static_cast<std::size_t>(axis)];
  return {PlainArray::from(shape, [&](const Dims& at) {
            const std::int64_t k = at[static_cast<std::size_t>(axis)];
            return k == 0 ? initial : sums.at(with_entry(at, axis, k - 1));
          }).to_tensor()};
}

std::vector<Sample> cumulative_sum_samples() {
  std::vector<Sample> samples;
  for (const auto& [shape, axis] :
       {std::pair<Shape, std::int64_t>{{3, 9}, 1}, {{4, 2, 3}, 0}, {{2, 0}, 1}}) {
    const std::int64_t along = axis;
    samples.push_back({to_string(shape) + ", axis " + std::to_string(along) + ", include_initial",
                       {sample_uniform(shape, -2, 2, 1)},
                       [along](const Tensors& in) {
                         return Tensors{cumulative_sum(in[0], along, {.include_initial = true})};
                       },
                       [along](const Tensors& in) {
                         return from_initial(running(in[0], along, false), along, 0);
                       },
                       [along](const Tensors& g, const Tensors&) {
                         return Tensors{cumulative_sum_backward(g[0].slice(along, 1), along)};
                       }});
  }
  for (const auto& [shape, axis] : scan_cases()) {
    const std::int64_t along = axis;
    samples.push_back({to_string(shape) + ", axis " + std::to_string(along),
                       {sample_uniform(shape, -2, 2, 1)},
                       [along](const Tensors& in) { return Tensors{cumulative_sum(in[0], along)}; },
                       [along](const Tensors& in) { return running(in[0], along, false); },
                       [along](const Tensors& g, const Tensors&) {
                         return Tensors{cumulative_sum_backward(g[0], along)};
                       }});
  }
  return samples;
}

std::vector<Sample> cumulative_prod_samples() {
  std::vector<Sample> samples;
  const auto add = [&](const std::string& label, const Tensor& x, std::int64_t along) {
    samples.push_back(
        {label,
         {x},
         [along](const Tensors& in) { return Tensors{cumulative_prod(in[0], along)}; },
         [along](const Tensors& in) { return running(in[0], along, true); },
         [along](const Tensors& g, const Tensors& in) {
           return Tensors{cumulative_prod_backward(g[0], in[0], along)};
         }});
    samples.back().integer_of = [](std::size_t, double x) {
      return x == 0 ? 0 : x < 0.8 ? -1 : x < 1.2 ? 1 : 2;
    };
  };
  for (const auto& [shape, axis] : scan_cases()) {
    add(to_string(shape) + ", axis " + std::to_string(axis), sample_uniform(shape, 0.5, 1.5, 2),
        axis);
  }
  samples.push_back({"[3, 7], axis 1, include_initial",
                     {sample_uniform({3, 7}, 0.5, 1.5, 4)},
                     [](const Tensors& in) {
                       return Tensors{cumulative_prod(in[0], 1, {.include_initial = true})};
                     },
                     [](const Tensors& in) { return from_initial(running(in[0], 1, true), 1, 1); },
                     [](const Tensors& g, const Tensors& in) {
                       return Tensors{cumulative_prod_backward(g[0].slice(1, 1), in[0], 1)};
                     }});
  samples.back().integer_of = samples.front().integer_of;
  Tensor with_zeros = sample_uniform({3, 7}, 0.5, 1.5, 3);
  with_zeros[{0, 2}].fill(0);
  with_zeros[{1, 0}].fill(0);
  with_zeros[{1, 4}].fill(0);
  with_zeros[{2, 6}].fill(0);
  add("[3, 7] with zeros, axis 1", with_zeros, 1);
  return samples;
}

// Squares along an axis, so that no first or second difference is below 0, which unsigned integers
// cannot hold.
Tensor squares(const Shape& shape, std::int64_t axis, std::int64_t first) {
  return PlainArray::from(shape,
                          [&](const Dims& at) {
                            const std::int64_t i = first + at[static_cast<std::size_t>(axis)];
                            return static_cast<double>(i * i + at[0]);
                          })
      .to_tensor();
}

std::vector<Sample> diff_samples() {
  std::vector<Sample> samples;
  const auto differences = [](PlainArray x, std::int64_t axis, std::int64_t n, bool is_bool) {
    for (std::int64_t k = 0; k < n && x.shape[static_cast<std::size_t>(axis)] > 0; ++k) {
      Shape shape = x.shape;
      --shape[static_cast<std::size_t>(axis)];
      x = PlainArray::from(shape, [&](const Dims& at) {
        const std::int64_t i = at[static_cast<std::size_t>(axis)];
        const double step = x.at(with_entry(at, axis, i + 1)) - x.at(at);
        return is_bool ? std::abs(step) : step;
      });
    }
    return x;
  };
  for (const auto& [shape, axis, n] : {std::tuple<Shape, std::int64_t, std::int64_t>{{9}, 0, 1},
                                       {{3, 8}, 1, 2},
                                       {{4, 3, 2}, 0, 1},
                                       {{2, 3}, 1, 0},
                                       {{2, 3}, 1, 5},
                                       {{2, 0}, 1, 1}}) {
    const std::int64_t along = axis, order = n;
    samples.push_back(
        {to_string(shape) + ", axis " + std::to_string(along) + ", n " + std::to_string(order),
         {squares(shape, along, 0)},
         [=](const Tensors& in) { return Tensors{diff(in[0], along, order)}; },
         [=](const Tensors& in) {
           const bool is_bool = in[0].dtype() == DType::bool_;
           return Tensors{differences(PlainArray(in[0]), along, order, is_bool)
                              .to_tensor(is_bool ? DType::bool_ : DType::float64)};
         },
         [=](const Tensors& g, const Tensors& in) {
           return Tensors{diff_backward(g[0], in[0].shape(), along, order)};
         }});
    samples.back().integer_of = whole_number;
  }
  samples.push_back(
      {"[2, 3] between [2, 2] and [2, 1], axis 1, n 2",
       {squares({2, 3}, 1, 2), squares({2, 2}, 1, 0), squares({2, 1}, 1, 5)},
       [](const Tensors& in) { return Tensors{diff(in[0], 1, 2, in[1], in[2])}; },
       [=](const Tensors& in) {
         const PlainArray x(in[0]), before(in[1]), after(in[2]);
         const PlainArray joined = PlainArray::from({2, 6}, [&](const Dims& at) {
           if (at[1] < 2) return before.at(at);
           return at[1] < 5 ? x.at({at[0], at[1] - 2}) : after.at({at[0], 0});
         });
         const bool is_bool = in[0].dtype() == DType::bool_;
         return Tensors{
             differences(joined, 1, 2, is_bool).to_tensor(is_bool ? DType::bool_ : DType::float64)};
       },
       [](const Tensors& g, const Tensors&) {
         const Tensor joined = diff_backward(g[0], {2, 6}, 1, 2);
         return Tensors{joined.slice(1, 2, 5), joined.slice(1, 0, 2), joined.slice(1, 5)};
       }});
  samples.back().integer_of = whole_number;
  return samples;
}

// The reduced axes: all, or those listed.
struct Reduction {
  std::vector<bool> reduced;
  Shape result;

  Reduction(const Shape& shape, const Axes& axes, bool keepdims)
      : reduced(shape.size(), axes.all()) {
    for (std::int64_t axis : axes.list()) {
      reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size())
                                                : axis)] = true;
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!reduced[d]) {
        result.push_back(shape[d]);
      } else if (keepdims) {
        result.push_back(1);
      }
    }
  }
  // The elements of x that belong to an element of the result.
  std::vector<double> elements(const PlainArray& x, const Dims& position, bool keepdims) const {
    std::vector<double> found;
    for_each_position(x.shape, [&](const Dims& from) {
      std::size_t next = 0;
      for (std::size_t d = 0; d < reduced.size(); ++d) {
        if (reduced[d]) {
          next += keepdims;
        } else if (from[d] != position[next++]) {
          return;
        }
      }
      found.push_back(x.at(from));
    });
    return found;
  }
};

double norm_of(const std::vector<double>& elements, double p) {
  if (std::isinf(p)) {
    double extreme = std::fabs(elements.at(0));
    for (double x : elements) {
      extreme = p > 0 ? std::fmax(extreme, std::fabs(x)) : std::fmin(extreme, std::fabs(x));
    }
    return extreme;
  }
  long double total = 0;
  for (double x : elements) {
    total += p == 0 ? (x != 0 ? 1.0L : 0.0L) : std::pow(std::fabs(static_cast<long double>(x)), p);
  }
  return static_cast<double>(p == 0 ? total : std::pow(total, 1.0L / p));
}

std::vector<Sample> norm_samples() {
  std::vector<Sample> samples;
  struct Case {
    Shape shape;
    double p;
    Axes axes;
    bool keepdims;
    const char* label;
  };
  for (const Case& entry :
       {Case{{17}, 2, {}, false, "[17], p 2"},
        Case{{4, 9}, 2, 1, true, "[4, 9], p 2, axis 1, kept"},
        Case{{4, 9}, 1, 0, false, "[4, 9], p 1, axis 0"},
        Case{{3, 5}, infinity, -1, false, "[3, 5], p infinity, axis -1"},
        Case{{3, 5}, -infinity, {}, false, "[3, 5], p -infinity"},
        Case{{2, 3, 4}, 3, {0, 2}, false, "[2, 3, 4], p 3, axes 0, 2"},
        Case{{11}, 0.5, {}, true, "[11], p 0.5, kept"}, Case{{5}, -2, {}, false, "[5], p -2"},
        Case{{6}, 0, {}, false, "[6], p 0"}, Case{{}, 2, {}, false, "0-d, p 2"},
        Case{{0, 3}, 2, 0, false, "[0, 3], p 2, axis 0"}}) {
    samples.push_back({entry.label,
                       {add(sample_distinct(entry.shape, 4), 0.5)},
                       [entry](const Tensors& in) {
                         return Tensors{norm(in[0], entry.p, entry.axes, entry.keepdims)};
                       },
                       [entry](const Tensors& in) {
                         const PlainArray x(in[0]);
                         const Reduction reduction(x.shape, entry.axes, entry.keepdims);
                         return Tensors{PlainArray::from(reduction.result, [&](const Dims& at) {
                                          return norm_of(reduction.elements(x, at, entry.keepdims),
                                                         entry.p);
                                        }).to_tensor()};
                       },
                       [entry](const Tensors& g, const Tensors& in) {
                         return Tensors{norm_backward(g[0], in[0], entry.p, entry.axes)};
                       }});
  }
  return samples;
}

std::vector<Sample> count_nonzero_samples() {
  std::vector<Sample> samples;
  struct Case {
    Shape shape;
    Axes axes;
    bool keepdims;
    const char* label;
  };
  for (const Case& entry :
       {Case{{33}, {}, false, "[33]"}, Case{{4, 9}, 1, true, "[4, 9], axis 1, kept"},
        Case{{2, 3, 4}, {0, -1}, false, "[2, 3, 4], axes 0, -1"}, Case{{}, {}, false, "0-d"},
        Case{{3, 0}, 1, false, "[3, 0], axis 1"}}) {
    samples.push_back({entry.label,
                       {sample_integers(entry.shape, -1, 2, 5).to(DType::float64)},
                       [entry](const Tensors& in) {
                         return Tensors{count_nonzero(in[0], entry.axes, entry.keepdims)};
                       },
                       [entry](const Tensors& in) {
                         const PlainArray x(in[0]);
                         const Reduction reduction(x.shape, entry.axes, entry.keepdims);
                         return Tensors{PlainArray::from(reduction.result, [&](const Dims& at) {
                                          return norm_of(reduction.elements(x, at, entry.keepdims),
                                                         0);
                                        }).to_tensor(DType::int64)};
                       },
                       nullptr});
  }
  return samples;
}

}  // namespace

void add_cumulative(std::vector<Op>& ops) {
  ops.push_back({"cumulative_sum",
                 "reduction",
                 "y[k] = Σ over i ≤ k of x[i]",
                 "Σ over j ≥ k of g[j]",
                 {"cumulative_sum_backward"},
                 DTypes::as_64_bits,
                 cumulative_sum_samples});
  ops.push_back({"cumulative_prod",
                 "reduction",
                 "y[k] = Π over i ≤ k of x[i]",
                 "Σ over j ≥ k of g[j] · Π over i ≤ j, i ≠ k of x[i]",
                 {"cumulative_prod_backward"},
                 DTypes::as_64_bits,
                 cumulative_prod_samples});
  ops.push_back({"diff",
                 "reduction",
                 "y[k] = x[k + 1] − x[k], n times",
                 "g[k − 1] − g[k], n times",
                 {"diff_backward"},
                 DTypes::all,
                 diff_samples});
  ops.push_back({"norm",
                 "reduction",
                 "(Σ |x|^p)^(1/p); p = ±∞: the largest or smallest |x|",
                 "g · sign(x) · (|x| / y)^(p − 1)",
                 {"norm_backward"},
                 DTypes::as_float32,
                 norm_samples});
  ops.push_back({"count_nonzero",
                 "reduction",
                 "how many elements are not 0",
                 "",
                 {},
                 DTypes::all,
                 count_nonzero_samples});
}

}  // namespace extensor::op_database
