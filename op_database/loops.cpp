#include "op_database/loops.h"

#include <map>
#include <numeric>

namespace extensor::op_database {

Doubles doubles(const Tensor& x) { return x.to(float64).to_vector<double>(); }

std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Tensor reduce_groups(const Tensor& x, const Axes& axes, bool keepdims,
                     const std::function<double(const Doubles&)>& reduce) {
  const std::int64_t rank = x.ndim();
  std::vector<bool> reduced(static_cast<std::size_t>(rank), axes.all());
  for (std::int64_t axis : axes.list()) {
    reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  Shape shape, kept;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    kept.push_back(reduced[d] ? 1 : x.shape()[d]);
    if (!reduced[d] || keepdims) shape.push_back(kept.back());
  }
  std::vector<Doubles> groups(static_cast<std::size_t>(count_of(kept)));
  const Doubles values = doubles(x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), group = 0, scale = 1;
    for (std::size_t d = reduced.size(); d-- > 0;) {
      const std::int64_t at = rest % x.shape()[d];
      rest /= x.shape()[d];
      if (!reduced[d]) group += at * scale;
      scale *= kept[d];
    }
    groups[static_cast<std::size_t>(group)].push_back(values[i]);
  }
  Doubles results;
  for (const Doubles& group : groups) results.push_back(reduce(group));
  return from_data(results, shape);
}

Tensor map_rows(const Tensor& x, std::int64_t axis,
                const std::function<Doubles(const Doubles&)>& map) {
  if (x.ndim() == 0) return from_data(map(doubles(x)), {});
  const std::int64_t at = axis < 0 ? axis + x.ndim() : axis;
  std::int64_t inner = 1;
  for (std::int64_t d = at + 1; d < x.ndim(); ++d) inner *= x.size(d);
  const std::int64_t length = x.size(at);
  const Doubles values = doubles(x);
  Shape shape = x.shape();
  if (values.empty()) return from_data(Doubles(), shape);
  const auto rows = static_cast<std::int64_t>(values.size()) / length;
  Doubles results;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t outer = row / inner, column = row % inner;
    Doubles elements;
    for (std::int64_t i = 0; i < length; ++i) {
      elements.push_back(values[static_cast<std::size_t>((outer * length + i) * inner + column)]);
    }
    const Doubles mapped = map(elements);
    const auto new_length = static_cast<std::int64_t>(mapped.size());
    shape[static_cast<std::size_t>(at)] = new_length;
    results.resize(static_cast<std::size_t>(rows * new_length));
    for (std::int64_t i = 0; i < new_length; ++i) {
      results[static_cast<std::size_t>((outer * new_length + i) * inner + column)] =
          mapped[static_cast<std::size_t>(i)];
    }
  }
  return from_data(results, shape);
}

Tensor sum_of_products(const std::vector<std::string>& names, const std::string& output,
                       const Tensors& operands) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t d = 0; d < names[i].size(); ++d) {
      std::int64_t& size = sizes.emplace(names[i][d], 1).first->second;
      if (size == 1) size = operands[i].shape()[d];
    }
  }
  std::vector<Doubles> values;
  for (const Tensor& operand : operands) values.push_back(doubles(operand));
  Shape shape;
  for (char letter : output) shape.push_back(sizes[letter]);
  Doubles results(static_cast<std::size_t>(count_of(shape)), 0.0);
  std::int64_t terms = 1;
  for (const auto& [letter, size] : sizes) terms *= size;
  for (std::int64_t term = 0; term < terms; ++term) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = term;
    for (const auto& [letter, size] : sizes) {
      at[letter] = rest % size;
      rest /= size;
    }
    double product = 1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < names[i].size(); ++d) {
        const std::int64_t size = operands[i].shape()[d];
        offset = offset * size + (size == 1 ? 0 : at[names[i][d]]);
      }
      product *= values[i][static_cast<std::size_t>(offset)];
    }
    std::int64_t to = 0;
    for (char letter : output) to = to * sizes[letter] + at[letter];
    results[static_cast<std::size_t>(to)] += product;
  }
  return from_data(results, shape);
}

Sample sample_of(std::string label, Tensors inputs, Function forward, Function reference,
                 Gradients backward) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = std::move(inputs);
  sample.forward = [forward](const Tensors& in) { return Tensors{forward(in)}; };
  if (reference)
    sample.reference = [reference](const Tensors& in) { return Tensors{reference(in)}; };
  if (backward) {
    sample.backward = [backward](const Tensors& g, const Tensors& in) {
      return backward(g[0], in);
    };
  }
  return sample;
}

Sample multilinear_sample(std::string label, Tensors inputs, Function forward, Function reference,
                          Gradients backward) {
  Sample sample =
      sample_of(std::move(label), std::move(inputs), forward, std::move(reference), backward);
  sample.double_backward = [forward, backward](const Tensors& grad_gradients, const Tensors& g,
                                               const Tensors& in) {
    Tensors results{zeros_like(g[0])};
    for (const Tensor& input : in) results.push_back(zeros_like(input));
    for (std::size_t i = 0; i < in.size(); ++i) {
      Tensors replaced = in;
      replaced[i] = grad_gradients[i];
      results[0] = add(results[0], forward(replaced));
      if (in.size() == 1) break;
      const Tensors gradients = backward(g[0], replaced);
      for (std::size_t j = 0; j < in.size(); ++j) {
        if (j != i) results[j + 1] = add(results[j + 1], gradients[j]);
      }
    }
    return results;
  };
  return sample;
}

std::string shapes_of(const Tensors& inputs) {
  std::string text;
  for (const Tensor& input : inputs) text += (text.empty() ? "" : ", ") + to_string(input.shape());
  return text;
}

}  // namespace extensor::op_database
