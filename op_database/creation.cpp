#include <optional>
#include <tuple>

#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{}, {0}, {1}, {17}, {3, 4}, {2, 0, 5}, {2, 3, 33}};
  return list;
}

Tensor filled(const Shape& shape, double value) {
  return from_data(Doubles(static_cast<std::size_t>(count_of(shape)), value), shape);
}

// A function of a shape alone; without a value it has no reference.
std::vector<Sample> shape_samples(const std::function<Tensor(const Shape&)>& make,
                                  std::optional<double> value, const std::vector<Shape>& list) {
  std::vector<Sample> samples;
  for (const Shape& shape : list) {
    const auto reference = [=](const Tensors&) { return filled(shape, *value); };
    samples.push_back(sample_of(
        to_string(shape), {}, [=](const Tensors&) { return make(shape); },
        value ? Function(reference) : nullptr));
  }
  return samples;
}

std::vector<Sample> like_samples(const std::function<Tensor(const Tensor&)>& make,
                                 std::optional<double> value) {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes()) {
    const auto reference = [=](const Tensors&) { return filled(shape, *value); };
    samples.push_back(sample_of(
        to_string(shape), {sample_uniform(shape, -1, 1, 1)},
        [=](const Tensors& in) { return make(in[0]); }, value ? Function(reference) : nullptr));
  }
  return samples;
}

// A call without inputs against a list of numbers.
Sample fixed_sample(std::string label, std::function<Tensor()> make, Doubles expected,
                    const Shape& shape) {
  return sample_of(
      std::move(label), {}, [make](const Tensors&) { return make(); },
      [expected, shape](const Tensors&) { return from_data(expected, shape); });
}

std::vector<Sample> arange_samples() {
  std::vector<Sample> samples;
  const auto add_range = [&](double start, double stop, double step) {
    Doubles expected;
    for (int i = 0; step > 0 ? start + i * step < stop : start + i * step > stop; ++i) {
      expected.push_back(start + i * step);
    }
    const auto count = static_cast<std::int64_t>(expected.size());
    samples.push_back(fixed_sample(
        std::to_string(start) + " to " + std::to_string(stop) + " by " + std::to_string(step),
        [=] { return arange(start, stop, step, float64); }, expected, {count}));
  };
  add_range(0, 17, 1);
  add_range(2, 9, 2.5);
  add_range(5, -4, -4);
  add_range(1, 1, 1);
  add_range(0, 5, 0.125);
  samples.push_back(
      fixed_sample("of integers", [] { return arange(4).to(float64); }, {0, 1, 2, 3}, {4}));
  return samples;
}

std::vector<Sample> linspace_samples() {
  std::vector<Sample> samples;
  for (const auto& [count, endpoint] :
       std::vector<std::pair<int, bool>>{{5, true}, {33, true}, {4, false}, {1, true}, {0, true}}) {
    Doubles expected;
    for (int i = 0; i < count; ++i) {
      const int intervals = endpoint ? count - 1 : count;
      expected.push_back(intervals > 0 ? -1 + 4.0 * i / intervals : -1);
    }
    samples.push_back(fixed_sample(
        "-1 to 3 in " + std::to_string(count) + (endpoint ? "" : ", without the end"),
        [count = count, endpoint = endpoint] { return linspace(-1, 3, count, float64, endpoint); },
        expected, {count}));
  }
  return samples;
}

std::vector<Sample> eye_samples() {
  std::vector<Sample> samples;
  for (const auto& [rows, columns, diagonal] : std::vector<std::tuple<int, int, int>>{
           {3, 3, 0}, {3, 5, 1}, {5, 3, -2}, {2, 2, 7}, {0, 3, 0}, {17, 17, 0}}) {
    Doubles expected;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) expected.push_back(j - i == diagonal ? 1 : 0);
    }
    samples.push_back(fixed_sample(std::to_string(rows) + " by " + std::to_string(columns) +
                                       ", diagonal " + std::to_string(diagonal),
                                   [rows = rows, columns = columns, diagonal = diagonal] {
                                     return eye(rows, columns, diagonal, float64);
                                   },
                                   expected, {rows, columns}));
  }
  return samples;
}

std::vector<Sample> triangle_samples(Tensor (*triangle)(const Tensor&, StrictInt), bool lower) {
  std::vector<Sample> samples;
  for (const auto& [shape, diagonal] : std::vector<std::pair<Shape, std::int64_t>>{
           {{3, 3}, 0}, {{3, 5}, 1}, {{5, 3}, -2}, {{2, 3, 17}, 4}, {{0, 3}, 0}}) {
    samples.push_back(multilinear_sample(
        to_string(shape) + ", diagonal " + std::to_string(diagonal),
        {sample_uniform(shape, -2, 2, 1)},
        [triangle, diagonal = diagonal](const Tensors& in) { return triangle(in[0], diagonal); },
        [lower, diagonal = diagonal](const Tensors& in) {
          Doubles values = doubles(in[0]);
          const std::int64_t rows = in[0].size(-2), columns = in[0].size(-1);
          for (std::size_t i = 0; i < values.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const std::int64_t distance = at % columns - at / columns % rows;
            if (lower ? distance > diagonal : distance < diagonal) values[i] = 0;
          }
          return from_data(values, in[0].shape());
        },
        [triangle, diagonal = diagonal](const Tensor& g, const Tensors&) {
          return Tensors{triangle(g, diagonal)};
        }));
  }
  return samples;
}

std::vector<Sample> meshgrid_samples() {
  std::vector<Sample> samples;
  for (bool xy : {true, false}) {
    Sample sample;
    sample.label = xy ? "[3], [4], xy" : "[3], [4], ij";
    sample.inputs = {sample_uniform({3}, -2, 2, 1), sample_uniform({4}, -2, 2, 2)};
    sample.forward = [xy](const Tensors& in) { return meshgrid(in, xy); };
    sample.reference = [xy](const Tensors& in) {
      const Doubles x = doubles(in[0]), y = doubles(in[1]);
      Doubles first, second;
      for (std::size_t i = 0; i < (xy ? y.size() : x.size()); ++i) {
        for (std::size_t j = 0; j < (xy ? x.size() : y.size()); ++j) {
          first.push_back(xy ? x[j] : x[i]);
          second.push_back(xy ? y[i] : y[j]);
        }
      }
      const Shape shape = xy ? Shape{4, 3} : Shape{3, 4};
      return Tensors{from_data(first, shape), from_data(second, shape)};
    };
    sample.backward = [xy](const Tensors& g, const Tensors& in) {
      Tensors gradients;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const Shape column = (i == 1) == xy ? Shape{in[i].size(0), 1} : Shape{1, in[i].size(0)};
        gradients.push_back(broadcast_to_backward(g[i], column).reshape(in[i].shape()));
      }
      return gradients;
    };
    sample.double_backward = [xy](const Tensors& grad_gradients, const Tensors&, const Tensors&) {
      Tensors results = meshgrid(grad_gradients, xy);
      results.resize(4);
      return results;
    };
    samples.push_back(sample);
  }
  return samples;
}

void add_deterministic(std::vector<Op>& ops) {
  const auto add_op = [&](std::string name, std::string formula, DTypes dtypes,
                          std::function<std::vector<Sample>()> samples, std::string gradient = "",
                          std::vector<std::string> backward = {}) {
    ops.push_back({std::move(name), "creation", std::move(formula), std::move(gradient),
                   std::move(backward), dtypes, std::move(samples)});
  };
  const auto of_shape = [](const std::function<Tensor(const Shape&)>& make,
                           std::optional<double> value) {
    return [=] { return shape_samples(make, value, shapes()); };
  };
  const auto of_like = [](const std::function<Tensor(const Tensor&)>& make,
                          std::optional<double> value) {
    return [=] { return like_samples(make, value); };
  };
  add_op("empty", "any contents", DTypes::all,
         of_shape([](const Shape& shape) { return empty(shape, float64); }, {}));
  add_op("zeros", "0", DTypes::all,
         of_shape([](const Shape& shape) { return zeros(shape, float64); }, 0));
  add_op("ones", "1", DTypes::all,
         of_shape([](const Shape& shape) { return ones(shape, float64); }, 1));
  add_op("full", "the value", DTypes::all,
         of_shape([](const Shape& shape) { return full(shape, -2.5, float64); }, -2.5));
  add_op("constant", "the value", DTypes::floats,
         of_shape([](const Shape& shape) { return constant(shape, 0.1, float64); }, 0.1));
  add_op("scalar", "a 0-d tensor of the value", DTypes::all, [] {
    return std::vector<Sample>{fixed_sample("", [] { return scalar(1.5); }, {1.5}, {})};
  });
  add_op("empty_like", "any contents in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return empty_like(x); }, {}));
  add_op("zeros_like", "0 in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return zeros_like(x); }, 0));
  add_op("ones_like", "1 in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return ones_like(x); }, 1));
  add_op("full_like", "the value in the shape of x", DTypes::numbers,
         of_like([](const Tensor& x) { return full_like(x, 3); }, 3));
  add_op("arange", "start + i · step below stop", DTypes::numbers, arange_samples);
  add_op("linspace", "start + i · (stop − start) / (count − 1)", DTypes::floats, linspace_samples);
  add_op("eye", "1 on a diagonal, else 0", DTypes::all, eye_samples);
  add_op("tril", "x on and below a diagonal, else 0", DTypes::numbers,
         [] { return triangle_samples(tril, true); }, "tril of g", {"tril"});
  add_op("triu", "x on and above a diagonal, else 0", DTypes::numbers,
         [] { return triangle_samples(triu, false); }, "triu of g", {"triu"});
  add_op("meshgrid", "each vector repeated along the axes of the others", DTypes::all,
         meshgrid_samples, "g summed over the axes of the others", {"broadcast_to_backward"});
}

// Drawn from a generator of its own seed, so that every call gives the same.
void add_random(std::vector<Op>& ops) {
  const auto add_op = [&](std::string name, std::string family, std::string formula,
                          std::function<Tensor(const Shape&, Generator&)> make,
                          std::vector<Shape> list) {
    ops.push_back(
        {std::move(name), std::move(family), std::move(formula), "", {}, DTypes::floats, [=] {
           return shape_samples(
               [=](const Shape& shape) {
                 Generator generator(7);
                 return make(shape, generator);
               },
               {}, list);
         }});
  };
  const std::string creation = "creation", initializer = "initializer";
  const std::vector<Shape> weights{{4, 3}, {17, 33}, {4, 3, 3, 3}, {0, 3}, {8, 1, 5}};
  add_op(
      "rand", creation, "uniform in [0, 1)",
      [](const Shape& shape, Generator& g) { return rand(shape, float64, g); }, shapes());
  add_op(
      "randn", creation, "normal, mean 0, deviation 1",
      [](const Shape& shape, Generator& g) { return randn(shape, float64, g); }, shapes());
  add_op(
      "randint", creation, "an integer from low to high − 1, each as likely",
      [](const Shape& shape, Generator& g) { return randint(-3, 9, shape, int64, g); }, shapes());
  add_op("randperm", creation, "0 … n − 1 in random order, each order as likely",
         [](const Shape& shape, Generator& g) { return randperm(shape[0], g); },
         {{0}, {1}, {17}, {33}});
  add_op(
      "bernoulli", creation, "1 with the given probability, else 0",
      [](const Shape& shape, Generator& g) { return bernoulli(0.3, shape, float64, g); }, shapes());
  add_op(
      "uniform", initializer, "uniform in [low, high)",
      [](const Shape& shape, Generator& g) { return uniform(shape, -2, 3, float64, g); }, shapes());
  add_op(
      "normal", initializer, "normal of that mean and deviation",
      [](const Shape& shape, Generator& g) { return normal(shape, 1, 0.5, float64, g); }, shapes());
  add_op(
      "trunc_normal", initializer, "normal, given that it falls between lower and upper",
      [](const Shape& shape, Generator& g) { return trunc_normal(shape, 0, 1, -2, 2, float64, g); },
      shapes());
  add_op(
      "xavier_uniform", initializer, "uniform in ±gain √(6 / (fan_in + fan_out))",
      [](const Shape& shape, Generator& g) { return xavier_uniform(shape, 1, float64, g); },
      weights);
  add_op(
      "xavier_normal", initializer, "normal, deviation gain √(2 / (fan_in + fan_out))",
      [](const Shape& shape, Generator& g) { return xavier_normal(shape, 1, float64, g); },
      weights);
  add_op(
      "kaiming_uniform", initializer, "uniform in ±gain √(3 / fan)",
      [](const Shape& shape, Generator& g) {
        return kaiming_uniform(shape, 0, FanMode::fan_in, Nonlinearity::relu, float64, g);
      },
      weights);
  add_op(
      "kaiming_normal", initializer, "normal, deviation gain / √fan",
      [](const Shape& shape, Generator& g) {
        return kaiming_normal(shape, 0, FanMode::fan_out, Nonlinearity::relu, float64, g);
      },
      weights);
  add_op(
      "orthogonal", initializer, "gain · Q, the Q of the QR decomposition of normal draws",
      [](const Shape& shape, Generator& g) { return orthogonal(shape, 1, float64, g); }, weights);
}

}  // namespace

void add_creation(std::vector<Op>& ops) {
  add_deterministic(ops);
  add_random(ops);
}

}  // namespace extensor::op_database
