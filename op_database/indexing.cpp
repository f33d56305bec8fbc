// Elements by position. References compute one element at a time, as the definitions do.
#include <cmath>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

using Forward = std::function<Tensors(const Tensors&)>;
using Backward = std::function<Tensors(const Tensors&, const Tensors&)>;

Sample linear_sample(std::string label, Tensors inputs, Forward forward, Forward reference,
                     Backward backward) {
  return {std::move(label),     std::move(inputs),   std::move(forward),
          std::move(reference), std::move(backward), {}};
}

Tensor drawn(const Shape& shape, std::uint64_t seed = 1) {
  return sample_uniform(shape, -2, 2, seed);
}

std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

std::int64_t from_front(std::int64_t index, std::int64_t size) {
  return index < 0 ? index + size : index;
}

// ---- take

Sample take_sample(const Shape& shape, const Shape& indices, std::int64_t axis) {
  return linear_sample(
      to_string(shape) + " at " + to_string(indices) + ", axis " + std::to_string(axis),
      {drawn(shape), sample_integers(indices, -shape[at(axis)], shape[at(axis)], 2)},
      [axis](const Tensors& in) { return Tensors{take(in[0], in[1], axis)}; },
      [axis](const Tensors& in) {
        const PlainArray x(in[0]), index(in[1]);
        Shape result;
        for (std::size_t d = 0; d < x.shape.size(); ++d) {
          if (d != at(axis)) result.push_back(x.shape[d]);
          for (std::size_t i = 0; d == at(axis) && i < index.shape.size(); ++i) {
            result.push_back(index.shape[i]);
          }
        }
        return Tensors{PlainArray::from(result, [&](const Dims& position) {
                         Dims source, inside;
                         std::size_t next = 0;
                         for (std::size_t d = 0; d < x.shape.size(); ++d) {
                           if (d != at(axis)) {
                             source.push_back(position[next++]);
                             continue;
                           }
                           inside.clear();
                           for (std::size_t i = 0; i < index.shape.size(); ++i) {
                             inside.push_back(position[next++]);
                           }
                           source.push_back(from_front(index.integer(inside), x.shape[d]));
                         }
                         return x.at(source);
                       }).to_tensor()};
      },
      [axis](const Tensors& g, const Tensors& in) {
        return Tensors{take_backward(g[0], in[0].shape(), in[1], axis), Tensor()};
      });
}

std::vector<Sample> take_samples() {
  std::vector<Sample> samples = {take_sample({5, 17}, {7}, 0), take_sample({3, 9}, {2, 4}, 1),
                                 take_sample({2, 4, 3}, {6}, 1), take_sample({6, 2}, {}, 0),
                                 take_sample({4, 3}, {0}, 0)};
  samples.push_back(linear_sample(
      "[3, 4] flattened, at [5]", {drawn({3, 4}), sample_integers({5}, -12, 12, 3)},
      [](const Tensors& in) { return Tensors{take(in[0], in[1])}; },
      [](const Tensors& in) {
        const PlainArray x(in[0]), index(in[1]);
        return Tensors{
            PlainArray::from({5}, [&](const Dims& p) {
              return x.values[static_cast<std::size_t>(from_front(index.integer(p), 12))];
            }).to_tensor()};
      },
      [](const Tensors& g, const Tensors& in) {
        return Tensors{take_backward(g[0], in[0].shape(), in[1]), Tensor()};
      }));
  return samples;
}

// ---- an index for every element

// y[p] = x[p with the index at p on the axis], x broadcast where it has size 1.
Tensors taken_along(const Tensors& in, const Shape& result, std::int64_t axis) {
  const PlainArray x(in[0]), index(in[1]);
  const auto clamped = [](const Dims& position, const Shape& shape) {
    Dims inside = position;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) inside[d] = 0;
    }
    return inside;
  };
  return {PlainArray::from(result, [&](const Dims& position) {
            const std::int64_t i =
                from_front(index.integer(clamped(position, index.shape)), x.shape[at(axis)]);
            return x.at(with_entry(clamped(position, x.shape), axis, i));
          }).to_tensor()};
}

Sample along_sample(const Shape& shape, const Shape& indices, const Shape& result,
                    std::int64_t axis) {
  return linear_sample(
      to_string(shape) + " at " + to_string(indices) + ", axis " + std::to_string(axis),
      {drawn(shape), sample_integers(indices, -shape[at(axis)], shape[at(axis)], 4)},
      [axis](const Tensors& in) { return Tensors{take_along_axis(in[0], in[1], axis)}; },
      [=](const Tensors& in) { return taken_along(in, result, axis); },
      [axis](const Tensors& g, const Tensors& in) {
        return Tensors{take_along_axis_backward(g[0], in[0].shape(), in[1], axis), Tensor()};
      });
}

std::vector<Sample> take_along_axis_samples() {
  return {along_sample({4, 6}, {4, 9}, {4, 9}, 1), along_sample({5, 17}, {3, 17}, {3, 17}, 0),
          along_sample({7}, {17}, {17}, 0), along_sample({4, 1, 3}, {1, 5, 2}, {4, 5, 2}, 2),
          along_sample({3, 4}, {3, 0}, {3, 0}, 1)};
}

Sample gather_sample(const Shape& shape, const Shape& indices, std::int64_t axis) {
  return linear_sample(
      to_string(shape) + " at " + to_string(indices) + ", axis " + std::to_string(axis),
      {drawn(shape), sample_integers(indices, -shape[at(axis)], shape[at(axis)], 5)},
      [axis](const Tensors& in) { return Tensors{gather(in[0], axis, in[1])}; },
      [axis](const Tensors& in) {
        const PlainArray x(in[0]), index(in[1]);
        return Tensors{PlainArray::from(index.shape, [&](const Dims& position) {
                         return x.at(
                             with_entry(position, axis,
                                        from_front(index.integer(position), x.shape[at(axis)])));
                       }).to_tensor()};
      },
      [axis](const Tensors& g, const Tensors& in) {
        return Tensors{gather_backward(g[0], in[0].shape(), axis, in[1]), Tensor()};
      });
}

std::vector<Sample> gather_samples() {
  return {gather_sample({4, 6}, {4, 9}, 1), gather_sample({5, 17}, {7, 9}, 0),
          gather_sample({3, 4, 5}, {2, 8, 3}, 1), gather_sample({6}, {0}, 0)};
}

Sample scatter_sample(bool adds, const Shape& shape, const Shape& indices, const Shape& source,
                      std::int64_t axis) {
  return linear_sample(
      to_string(shape) + ", " + to_string(source) + " at " + to_string(indices) + ", axis " +
          std::to_string(axis),
      {drawn(shape, 1), sample_integers(indices, -shape[at(axis)], shape[at(axis)], 6),
       drawn(source, 2)},
      [=](const Tensors& in) {
        return Tensors{adds ? scatter_add(in[0], axis, in[1], in[2])
                            : scatter(in[0], axis, in[1], in[2])};
      },
      [=](const Tensors& in) {
        PlainArray result(in[0]);
        const PlainArray index(in[1]), values(in[2]);
        for_each_position(index.shape, [&](const Dims& position) {
          double& element = result.at(with_entry(
              position, axis, from_front(index.integer(position), result.shape[at(axis)])));
          element = values.at(position) + (adds ? element : 0);
        });
        return Tensors{result.to_tensor()};
      },
      [=](const Tensors& g, const Tensors& in) {
        const auto [grad_x, grad_source] =
            adds ? scatter_add_backward(g[0], axis, in[1], in[2].shape())
                 : scatter_backward(g[0], axis, in[1], in[2].shape());
        return Tensors{grad_x, Tensor(), grad_source};
      });
}

std::vector<Sample> scatter_samples_of(bool adds) {
  return {scatter_sample(adds, {4, 6}, {4, 9}, {4, 9}, 1),
          scatter_sample(adds, {5, 17}, {7, 17}, {7, 17}, 0),
          scatter_sample(adds, {3, 4, 5}, {2, 6, 3}, {3, 7, 3}, 1),
          scatter_sample(adds, {6}, {0}, {4}, 0)};
}

// The values of each place in the order of the sources, then reduced.
Sample scatter_reduce_sample(ScatterReduction reduction, const char* label, bool include_self,
                             const Shape& shape, const Shape& indices, const Shape& source,
                             std::int64_t axis) {
  Sample sample = linear_sample(
      std::string(label) + (include_self ? ", " : " without x, ") + to_string(shape) + ", " +
          to_string(source) + " at " + to_string(indices) + ", axis " + std::to_string(axis),
      {sample_distinct(shape, 1) + 1.1,
       sample_integers(indices, -shape[at(axis)], shape[at(axis)], 6),
       sample_distinct(source, 2) + 1.109},
      [=](const Tensors& in) {
        return Tensors{scatter(in[0], axis, in[1], in[2], reduction, include_self)};
      },
      [=](const Tensors& in) {
        const PlainArray x(in[0]), index(in[1]), values(in[2]);
        const bool is_float = is_floating_point(in[0].dtype());
        return Tensors{PlainArray::from(x.shape, [&](const Dims& place) {
                         std::vector<double> terms;
                         for_each_position(index.shape, [&](const Dims& position) {
                           const Dims to =
                               with_entry(position, axis,
                                          from_front(index.integer(position), x.shape[at(axis)]));
                           if (to == place) terms.push_back(values.at(position));
                         });
                         if (include_self || terms.empty())
                           terms.insert(terms.begin(), x.at(place));
                         double result = terms[0];
                         for (std::size_t i = 1; i < terms.size(); ++i) {
                           switch (reduction) {
                             case ScatterReduction::prod:
                               result *= terms[i];
                               break;
                             case ScatterReduction::max:
                               result = std::max(result, terms[i]);
                               break;
                             case ScatterReduction::min:
                               result = std::min(result, terms[i]);
                               break;
                             default:
                               result += terms[i];
                           }
                         }
                         if (reduction != ScatterReduction::mean) return result;
                         result /= static_cast<double>(terms.size());
                         return is_float ? result : std::floor(result);
                       }).to_tensor()};
      },
      [=](const Tensors& g, const Tensors& in) {
        const auto [grad_x, grad_source] =
            scatter_backward(g[0], in[0], axis, in[1], in[2], reduction, include_self);
        return Tensors{grad_x, Tensor(), grad_source};
      });
  // Products of integers stay small.
  sample.integer_of = [](std::size_t, double x) { return std::round(2 * x); };
  return sample;
}

std::vector<Sample> scatter_samples() {
  std::vector<Sample> samples = scatter_samples_of(false);
  for (const auto& [reduction, label] :
       {std::pair<ScatterReduction, const char*>{ScatterReduction::sum, "sum"},
        {ScatterReduction::prod, "prod"},
        {ScatterReduction::mean, "mean"},
        {ScatterReduction::max, "max"},
        {ScatterReduction::min, "min"}}) {
    for (bool include_self : {true, false}) {
      samples.push_back(
          scatter_reduce_sample(reduction, label, include_self, {3, 4}, {3, 6}, {3, 6}, 1));
    }
    samples.push_back(
        scatter_reduce_sample(reduction, label, true, {2, 4, 3}, {2, 5, 2}, {3, 6, 2}, 1));
  }
  return samples;
}

std::vector<Sample> index_add_samples() {
  std::vector<Sample> samples;
  struct Case {
    Shape shape, source;
    std::int64_t axis;
    double alpha;
  };
  for (const Case& entry : {Case{{5, 17}, {9, 17}, 0, 1}, Case{{3, 4}, {3, 7}, 1, -0.5},
                            Case{{2, 3, 4}, {2, 5, 4}, 1, 2}, Case{{4, 2}, {0, 2}, 0, 1}}) {
    const std::int64_t count = entry.source[at(entry.axis)];
    const std::int64_t length = entry.shape[at(entry.axis)];
    samples.push_back(linear_sample(
        to_string(entry.shape) + ", axis " + std::to_string(entry.axis) + ", alpha " +
            std::to_string(entry.alpha),
        {drawn(entry.shape, 1), sample_integers({count}, -length, length, 7),
         drawn(entry.source, 2)},
        [entry](const Tensors& in) {
          Scalar alpha = entry.alpha;
          if (!is_floating_point(in[0].dtype())) alpha = static_cast<std::int64_t>(entry.alpha);
          return Tensors{index_add(in[0], entry.axis, in[1], in[2], alpha)};
        },
        [entry](const Tensors& in) {
          PlainArray result(in[0]);
          const PlainArray index(in[1]), source(in[2]);
          for_each_position(source.shape, [&](const Dims& position) {
            const std::int64_t row =
                from_front(index.integer({position[at(entry.axis)]}), result.shape[at(entry.axis)]);
            result.at(with_entry(position, entry.axis, row)) += entry.alpha * source.at(position);
          });
          return Tensors{result.to_tensor()};
        },
        [entry](const Tensors& g, const Tensors& in) {
          const auto [grad_x, grad_source] =
              index_add_backward(g[0], entry.axis, in[1], entry.alpha);
          return Tensors{grad_x, Tensor(), grad_source};
        }));
    samples.back().floats_only = entry.alpha < 0;  // alpha is a fraction, too
  }
  return samples;
}

// ---- masks

Tensor drawn_mask(const Shape& shape, std::uint64_t seed) {
  return greater(sample_uniform(shape, -1, 1, seed), 0);
}

std::vector<Sample> masked_select_samples() {
  std::vector<Sample> samples;
  for (const auto& [shape, mask] : {std::pair<Shape, Shape>{{4, 9}, {4, 9}},
                                    {{5, 17}, {5}},
                                    {{2, 3, 4}, {2, 3}},
                                    {{3}, {}},
                                    {{0, 3}, {0}}}) {
    samples.push_back(linear_sample(
        to_string(shape) + ", mask " + to_string(mask), {drawn(shape), drawn_mask(mask, 3)},
        [](const Tensors& in) { return Tensors{masked_select(in[0], in[1])}; },
        [](const Tensors& in) {
          const PlainArray x(in[0]), chosen(in[1]);
          Shape row;
          for (std::size_t d = chosen.shape.size(); d < x.shape.size(); ++d) {
            row.push_back(x.shape[d]);
          }
          std::vector<double> values;
          std::int64_t rows = 0;
          for_each_position(chosen.shape, [&](const Dims& position) {
            if (chosen.at(position) == 0) return;
            ++rows;
            for_each_position(row, [&](const Dims& inside) {
              Dims whole = position;
              for (std::int64_t i : inside) whole.push_back(i);
              values.push_back(x.at(whole));
            });
          });
          row.insert(0, rows);
          return Tensors{from_data(values, row)};
        },
        [](const Tensors& g, const Tensors& in) {
          return Tensors{masked_select_backward(g[0], in[0].shape(), in[1]), Tensor()};
        }));
  }
  for (const auto& [shape, mask] : {std::pair<Shape, Shape>{{4, 9}, {4, 1}}, {{1, 5}, {3, 5}}}) {
    samples.push_back(linear_sample(
        to_string(shape) + ", mask " + to_string(mask) + ", broadcast",
        {drawn(shape), drawn_mask(mask, 3)},
        [](const Tensors& in) { return Tensors{masked_select(in[0], in[1])}; },
        [](const Tensors& in) {
          const PlainArray x(in[0]), chosen(in[1]);
          const auto clamped = [](const PlainArray& of, const Dims& at) {
            return of.at({std::min(at[0], of.shape[0] - 1), std::min(at[1], of.shape[1] - 1)});
          };
          std::vector<double> values;
          for_each_position(
              {std::max(x.shape[0], chosen.shape[0]), std::max(x.shape[1], chosen.shape[1])},
              [&](const Dims& at) {
                if (clamped(chosen, at) != 0) values.push_back(clamped(x, at));
              });
          const auto count = static_cast<std::int64_t>(values.size());
          return Tensors{from_data(values, {count})};
        },
        [](const Tensors& g, const Tensors& in) {
          return Tensors{masked_select_backward(g[0], in[0].shape(), in[1]), Tensor()};
        }));
  }
  return samples;
}

// The element of a broadcast array at a position of the result.
double broadcast_at(const PlainArray& x, const Dims& position) {
  Dims inside;
  const std::size_t added = position.size() - x.shape.size();
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    inside.push_back(x.shape[d] == 1 ? 0 : position[added + d]);
  }
  return x.at(inside);
}

std::vector<Sample> masked_fill_samples() {
  std::vector<Sample> samples;
  for (const auto& [shape, mask] :
       {std::pair<Shape, Shape>{{4, 9}, {4, 9}}, {{5, 17}, {17}}, {{2, 3, 4}, {3, 1}}, {{}, {}}}) {
    Sample sample{to_string(shape) + ", mask " + to_string(mask),
                  {drawn(shape), drawn_mask(mask, 4)},
                  [](const Tensors& in) { return Tensors{masked_fill(in[0], in[1], 1)}; },
                  [](const Tensors& in) {
                    const PlainArray x(in[0]), chosen(in[1]);
                    return Tensors{PlainArray::from(x.shape, [&](const Dims& position) {
                                     return broadcast_at(chosen, position) != 0 ? 1
                                                                                : x.at(position);
                                   }).to_tensor()};
                  },
                  [](const Tensors& g, const Tensors& in) {
                    return Tensors{masked_fill_backward(g[0], in[1]), Tensor()};
                  },
                  [](const Tensors& gg, const Tensors&, const Tensors& in) {
                    return Tensors{masked_fill(gg[0], in[1], 0), Tensor(), Tensor()};
                  }};
    samples.push_back(sample);
  }
  return samples;
}

// ---- positions

std::vector<Sample> nonzero_samples() {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{4, 9}, Shape{33}, Shape{2, 3, 4}, Shape{3, 0}}) {
    // Values near 0 become 0.
    const Tensor x = drawn(shape);
    samples.push_back({to_string(shape),
                       {where(greater(abs(x), 0.7), x, zeros({}, DType::float64))},
                       [](const Tensors& in) { return nonzero(in[0]); },
                       [](const Tensors& in) {
                         const PlainArray values(in[0]);
                         std::vector<std::vector<std::int64_t>> found(values.shape.size());
                         for_each_position(values.shape, [&](const Dims& position) {
                           if (values.at(position) == 0) return;
                           for (std::size_t d = 0; d < found.size(); ++d) {
                             found[d].push_back(position[d]);
                           }
                         });
                         Tensors result;
                         for (const auto& list : found) result.push_back(from_data(list));
                         return result;
                       },
                       nullptr,
                       nullptr});
  }
  return samples;
}

std::vector<Sample> one_hot_samples() {
  std::vector<Sample> samples;
  for (const auto& [shape, classes] :
       {std::pair<Shape, std::int64_t>{{6}, 5}, {{2, 3}, 17}, {{}, 3}, {{0}, 4}}) {
    const std::int64_t count = classes;
    samples.push_back({to_string(shape) + ", " + std::to_string(count) + " classes",
                       {sample_integers(shape, 0, count, 8).to(DType::float64)},
                       [count](const Tensors& in) { return Tensors{one_hot(in[0], count)}; },
                       [count](const Tensors& in) {
                         const PlainArray index(in[0]);
                         Shape result = index.shape;
                         result.push_back(count);
                         return Tensors{PlainArray::from(result, [&](const Dims& position) {
                                          Dims inside = position;
                                          inside.erase(inside.size() - 1);
                                          return index.integer(inside) == position.back() ? 1 : 0;
                                        }).to_tensor(DType::int64)};
                       },
                       nullptr,
                       nullptr});
    samples.back().integer_of = whole_number;
  }
  return samples;
}

}  // namespace

void add_indexing(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       std::vector<std::string> backward, DTypes dtypes,
                       std::function<std::vector<Sample>()> samples) {
    ops.push_back(
        {name, "indexing", formula, gradient, std::move(backward), dtypes, std::move(samples)});
  };
  add("take", "y[…, j, …] = x[…, indices[j], …]", "g added at the indices", {"take_backward"},
      DTypes::all, take_samples);
  add("take_along_axis", "y[…, j, …] = x[…, indices[…, j, …], …]", "g added at the indices",
      {"take_along_axis_backward"}, DTypes::all, take_along_axis_samples);
  add("gather", "y[…, j, …] = x[…, indices[…, j, …], …]", "g added at the indices",
      {"gather_backward"}, DTypes::all, gather_samples);
  add("scatter",
      "x with y[…, indices[…, j, …], …] = source[…, j, …], or the sum, product, mean, largest or "
      "smallest of all sources of a place",
      "of x: g, 0 where it was overwritten; of source: g at the indices, 0 where overwritten; of a "
      "reduction: its derivative, which ties share",
      {"scatter_backward"}, DTypes::all, scatter_samples);
  add("scatter_add", "x with source[…, j, …] added at y[…, indices[…, j, …], …]",
      "of x: g; of source: g at the indices", {"scatter_add_backward"}, DTypes::all,
      [] { return scatter_samples_of(true); });
  add("index_add", "x with α · source[…, j, …] added at y[…, indices[j], …]",
      "of x: g; of source: α · g at the indices", {"index_add_backward"}, DTypes::all,
      index_add_samples);
  add("masked_select", "the elements, or rows, where mask is true",
      "g where mask is true, 0 elsewhere", {"masked_select_backward"}, DTypes::all,
      masked_select_samples);
  add("masked_fill", "value where mask is true, x elsewhere", "0 where mask is true, g elsewhere",
      {"masked_fill_backward"}, DTypes::all, masked_fill_samples);
  add("nonzero", "the positions of the elements that are not 0", "", {}, DTypes::all,
      nonzero_samples);
  add("one_hot", "1 at the index, 0 elsewhere", "", {}, DTypes::integers, one_hot_samples);
}

}  // namespace extensor::op_database
