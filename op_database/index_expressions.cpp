// Index expressions: x[…] read as a view or through tensors, and written. References compute the
// element of x for every position of the result.
#include <tuple>

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

std::int64_t from_front(std::int64_t index, std::int64_t size) {
  return index < 0 ? index + size : index;
}

// An index expression of slices and of the inputs after x, as a list for the library, and the
// element of x that it selects for each position of the result.
struct TensorIndexCase {
  std::string label;
  Shape shape, result;
  Tensors tensors;
  std::function<std::vector<Index>(const Tensors& tensors)> index;
  std::function<Dims(const Dims& position, const std::vector<PlainArray>& tensors)> source;
};

std::vector<TensorIndexCase> tensor_index_cases() {
  return {{"[5, 4][rows, columns]",
           {5, 4},
           {2, 17},
           {sample_integers({2, 17}, -5, 5, 9), sample_integers({17}, -4, 4, 10)},
           [](const Tensors& t) {
             return std::vector<Index>{t[0], t[1]};
           },
           [](const Dims& p, const std::vector<PlainArray>& t) {
             return Dims{from_front(t[0].integer(p), 5), from_front(t[1].integer({p[1]}), 4)};
           }},
          {"[3, 4, 5][::-2, indices, 1:4]",
           {3, 4, 5},
           {2, 6, 3},
           {sample_integers({6}, -4, 4, 11)},
           [](const Tensors& t) {
             return std::vector<Index>{Slice{{}, {}, -2}, t[0], Slice{1, 4}};
           },
           [](const Dims& p, const std::vector<PlainArray>& t) {
             return Dims{2 - 2 * p[0], from_front(t[0].integer({p[1]}), 4), 1 + p[2]};
           }},
          {"[3, 4, 5][indices, newaxis, ..., 2]",
           {3, 4, 5},
           {7, 1, 4},
           {sample_integers({7}, -3, 3, 12)},
           [](const Tensors& t) {
             return std::vector<Index>{t[0], newaxis, ellipsis, 2};
           },
           [](const Dims& p, const std::vector<PlainArray>& t) {
             return Dims{from_front(t[0].integer({p[0]}), 3), p[2], 2};
           }},
          {"[3, 4][:, mask]",
           {3, 4},
           {3, 2},
           {from_data(std::vector<std::int64_t>{0, 1, 0, 1}).to(DType::bool_)},
           [](const Tensors& t) {
             return std::vector<Index>{Slice{}, t[0]};
           },
           [](const Dims& p, const std::vector<PlainArray>&) {
             return Dims{p[0], 1 + 2 * p[1]};
           }},
          {"[4, 2][no indices]",
           {4, 2},
           {0, 2},
           {zeros({0}, DType::int64)},
           [](const Tensors& t) { return std::vector<Index>{t[0]}; },
           [](const Dims& p, const std::vector<PlainArray>&) { return p; }}};
}

std::vector<PlainArray> plain_tensors(const Tensors& in, std::size_t first) {
  std::vector<PlainArray> result;
  for (std::size_t i = first; i < in.size(); ++i) result.emplace_back(in[i]);
  return result;
}

Tensors behind(const Tensors& in, std::size_t first) {
  return {in.begin() + static_cast<std::ptrdiff_t>(first), in.end()};
}

Sample tensor_index_sample(const TensorIndexCase& entry) {
  Tensors inputs{drawn(entry.shape)};
  inputs.insert(inputs.end(), entry.tensors.begin(), entry.tensors.end());
  return linear_sample(
      entry.label, std::move(inputs),
      [entry](const Tensors& in) { return Tensors{in[0].index(entry.index(behind(in, 1)))}; },
      [entry](const Tensors& in) {
        const PlainArray x(in[0]);
        const std::vector<PlainArray> tensors = plain_tensors(in, 1);
        return Tensors{PlainArray::from(entry.result, [&](const Dims& position) {
                         return x.at(entry.source(position, tensors));
                       }).to_tensor()};
      },
      [entry](const Tensors& g, const Tensors& in) {
        Tensors gradients(in.size());
        gradients[0] = slice_backward(g[0], in[0].shape(), entry.index(behind(in, 1)));
        return gradients;
      });
}

// Values with the shape of the selection, and one value for all of it.
std::vector<Sample> index_put_samples() {
  std::vector<Sample> samples;
  for (const TensorIndexCase& entry : tensor_index_cases()) {
    for (const Shape& values : {entry.result, Shape{}}) {
      Tensors inputs{drawn(entry.shape, 1), drawn(values, 2)};
      inputs.insert(inputs.end(), entry.tensors.begin(), entry.tensors.end());
      samples.push_back(linear_sample(
          entry.label + " = " + to_string(values), std::move(inputs),
          [entry](const Tensors& in) {
            return Tensors{index_put(in[0], entry.index(behind(in, 2)), in[1])};
          },
          [entry](const Tensors& in) {
            PlainArray result(in[0]);
            const PlainArray from(in[1]);
            const std::vector<PlainArray> tensors = plain_tensors(in, 2);
            for_each_position(entry.result, [&](const Dims& position) {
              result.at(entry.source(position, tensors)) =
                  from.at(from.shape.empty() ? Dims{} : position);
            });
            return Tensors{result.to_tensor()};
          },
          [entry](const Tensors& g, const Tensors& in) {
            Tensors gradients(in.size());
            std::tie(gradients[0], gradients[1]) =
                index_put_backward(g[0], entry.index(behind(in, 2)), in[1].shape());
            return gradients;
          }));
    }
  }
  return samples;
}

std::vector<Sample> slice_samples() {
  const auto sample = [](std::string label, const Shape& shape, std::vector<Index> index,
                         const Shape& result, std::function<Dims(const Dims&)> source) {
    return linear_sample(
        std::move(label), {drawn(shape)},
        [index](const Tensors& in) { return Tensors{in[0].index(index)}; },
        [result, source](const Tensors& in) {
          const PlainArray x(in[0]);
          return Tensors{PlainArray::from(result, [&](const Dims& position) {
                           return x.at(source(position));
                         }).to_tensor()};
        },
        [index](const Tensors& g, const Tensors& in) {
          return Tensors{slice_backward(g[0], in[0].shape(), index)};
        });
  };
  std::vector<Sample> samples = {
      sample("[5, 7][1:4, ::-2]", {5, 7}, {Slice{1, 4}, Slice{{}, {}, -2}}, {3, 4},
             [](const Dims& p) {
               return Dims{1 + p[0], 6 - 2 * p[1]};
             }),
      sample("[2, 3, 4][..., newaxis, -1]", {2, 3, 4}, {ellipsis, newaxis, -1}, {2, 3, 1},
             [](const Dims& p) {
               return Dims{p[0], p[1], 3};
             }),
      sample("[17][3:3]", {17}, {Slice{3, 3}}, {0}, [](const Dims& p) { return p; }),
      sample("[3][1]", {3}, {1}, {}, [](const Dims&) { return Dims{1}; })};
  for (const TensorIndexCase& entry : tensor_index_cases()) {
    samples.push_back(tensor_index_sample(entry));
  }
  return samples;
}

}  // namespace

void add_index_expressions(std::vector<Op>& ops) {
  ops.push_back(
      {"slice",
       "indexing",
       "the elements that slices, integers, ellipsis, newaxis and tensors of indices name",
       "g added at these elements, 0 elsewhere",
       {"slice_backward"},
       DTypes::all,
       slice_samples});
  ops.push_back(
      {"index_put",
       "indexing",
       "x with values, broadcast, at x[index]",
       "of x: g, 0 where it was overwritten; of values: g at the index, 0 where overwritten",
       {"index_put_backward"},
       DTypes::all,
       index_put_samples});
}

}  // namespace extensor::op_database
