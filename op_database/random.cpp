// Random tensors and initial weights. Every call uses a generator with its own seed, so that the
// draws are those of random_reference.h.
#include <algorithm>
#include <cmath>

#include "op_database/loops.h"
#include "op_database/random_reference.h"

namespace extensor::op_database {

namespace {

constexpr std::uint64_t seed = 7;

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{}, {0}, {1}, {17}, {3, 4}, {2, 0, 5}, {2, 3, 33}};
  return list;
}
const std::vector<Shape>& weight_shapes() {
  static const std::vector<Shape> list{{4, 3}, {17, 33}, {4, 3, 3, 3}, {0, 3}, {8, 1, 5}};
  return list;
}

using Make = std::function<Tensor(const Shape&, const TensorOptions&, Generator&)>;
// An element, and the magnitudes from which it is computed.
struct Draw {
  double value, magnitude;
};
using Element = std::function<Draw(const Shape&, DType, std::uint64_t n)>;

Tensor filled(const Shape& shape, const std::function<double(std::uint64_t)>& element) {
  Doubles values;
  for (std::int64_t i = 0; i < count_of(shape); ++i) {
    values.push_back(element(static_cast<std::uint64_t>(i)));
  }
  return from_data(values, shape);
}

// The input only carries the dtype.
std::vector<Sample> draw_samples(const std::vector<Shape>& list, const Make& make,
                                 const Element& element) {
  std::vector<Sample> samples;
  for (const Shape& shape : list) {
    Sample sample = sample_of(
        to_string(shape), {sample_uniform({}, 1, 2, 1)},
        [=](const Tensors& in) {
          Generator generator(seed);
          return make(shape, options_of(in[0]), generator);
        },
        [=](const Tensors& in) {
          return filled(shape,
                        [&](std::uint64_t n) { return element(shape, in[0].dtype(), n).value; });
        });
    sample.magnitudes = [=](const Tensors& in) {
      return Tensors{filled(
          shape, [&](std::uint64_t n) { return element(shape, in[0].dtype(), n).magnitude; })};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

Draw uniform_draw(DType dtype, std::uint64_t n, double low, double high) {
  const long double unit = random_reference::uniform(dtype, seed, n);
  return {static_cast<double>(low + (static_cast<long double>(high) - low) * unit),
          std::fabs(low) + std::fabs(high)};
}

// A radius close to 0 is the logarithm of a rounded uniform number close to 1.
Draw normal_draw(DType dtype, std::uint64_t n, double mean, double deviation) {
  const auto [z, radius] = random_reference::normal(dtype, seed, n);
  return {static_cast<double>(mean + deviation * z),
          static_cast<double>(std::fabs(mean) + deviation * (std::fabs(z) + 1 / radius))};
}

struct Fan {
  double in = 1, out = 1;
  explicit Fan(const Shape& shape)
      : in(static_cast<double>(shape[1])), out(static_cast<double>(shape[0])) {
    for (std::size_t d = 2; d < shape.size(); ++d) {
      in *= static_cast<double>(shape[d]);
      out *= static_cast<double>(shape[d]);
    }
  }
};

// Gram–Schmidt on rows of normal draws.
std::vector<std::vector<long double>> orthonormal_rows(std::int64_t rows, std::int64_t columns) {
  std::vector<std::vector<long double>> basis;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<long double> row;
    for (std::int64_t j = 0; j < columns; ++j) {
      row.push_back(
          random_reference::normal(float64, seed, static_cast<std::uint64_t>(i * columns + j))
              .value);
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (const auto& before : basis) {
        long double along = 0;
        for (std::size_t j = 0; j < row.size(); ++j) along += row[j] * before[j];
        for (std::size_t j = 0; j < row.size(); ++j) row[j] -= along * before[j];
      }
    }
    long double square = 0;
    for (long double x : row) square += x * x;
    for (long double& x : row) x /= std::sqrt(square);
    basis.push_back(std::move(row));
  }
  return basis;
}

std::vector<Sample> orthogonal_samples() {
  std::vector<Sample> samples;
  for (const Shape& shape : weight_shapes()) {
    constexpr double gain = 1.5;
    const std::int64_t rows = shape[0];
    const std::int64_t columns = rows == 0 ? shape[1] : count_of(shape) / rows;
    Sample sample = sample_of(
        to_string(shape), {sample_uniform({}, 1, 2, 1)},
        [=](const Tensors& in) {
          Generator generator(seed);
          return orthogonal(shape, gain, options_of(in[0]), generator);
        },
        [=](const Tensors&) {
          const auto basis = orthonormal_rows(std::min(rows, columns), std::max(rows, columns));
          Doubles values;
          for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) {
              const auto row = static_cast<std::size_t>(rows > columns ? j : i);
              const auto column = static_cast<std::size_t>(rows > columns ? i : j);
              values.push_back(static_cast<double>(gain * basis[row][column]));
            }
          }
          return from_data(values, shape);
        });
    sample.magnitudes = [=](const Tensors&) {
      return Tensors{filled(shape, [](std::uint64_t) { return gain; })};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

// By the cumulative weights, or by the largest weight / exponential draw. The draws are float64.
std::vector<Sample> multinomial_samples() {
  std::vector<Sample> samples;
  for (bool replacement : {true, false}) {
    for (const Shape& shape : {Shape{9}, Shape{3, 6}}) {
      const std::int64_t count = replacement ? 11 : 4, n = shape.back();
      samples.push_back(sample_of(
          to_string(shape) + (replacement ? ", with" : ", without") + " replacement",
          // Multiples of 1/8 are exact in every dtype; some are 0.
          {maximum(sample_integers(shape, -1, 9, 5), 0).to(float64) / 8 +
           (arange(n) < 4).to(float64) / 8},
          [=](const Tensors& in) {
            Generator generator(seed);
            return multinomial(in[0], count, replacement, generator);
          },
          [=](const Tensors& in) {
            const Doubles weights = in[0].to(float64).to_vector<double>();
            const std::size_t rows = weights.size() / static_cast<std::size_t>(n);
            std::uint64_t draw = 0;
            std::vector<std::int64_t> chosen;
            for (std::size_t row = 0; row < rows; ++row) {
              const double* weight = &weights[row * static_cast<std::size_t>(n)];
              double total = 0;
              for (std::int64_t i = 0; i < n; ++i) total += weight[i];
              if (replacement) {
                for (std::int64_t j = 0; j < count; ++j) {
                  const double target =
                      static_cast<double>(random_reference::uniform(float64, seed, draw++)) * total;
                  std::int64_t i = 0;
                  for (double sum = weight[0]; sum <= target; sum += weight[++i]) continue;
                  chosen.push_back(i);
                }
                continue;
              }
              std::vector<std::pair<long double, std::int64_t>> keys;
              for (std::int64_t i = 0; i < n; ++i) {
                const long double u = random_reference::uniform(float64, seed, draw++);
                keys.emplace_back(weight[i] / std::log1p(-u), i);  // negative: the smallest first
              }
              std::ranges::sort(keys);
              for (std::int64_t j = 0; j < count; ++j) {
                chosen.push_back(keys[static_cast<std::size_t>(j)].second);
              }
            }
            Shape result = in[0].shape();
            result.back() = count;
            return from_data(chosen, result);
          }));
    }
  }
  return samples;
}

// The positions in the order of random 64-bit keys, sorted by insertion.
std::vector<Sample> randperm_samples() {
  std::vector<Sample> samples;
  for (std::int64_t count : {0, 1, 17, 33}) {
    samples.push_back(sample_of(
        std::to_string(count), {},
        [=](const Tensors&) {
          Generator generator(seed);
          return randperm(count, generator);
        },
        [=](const Tensors&) {
          const auto key = [](std::int64_t i) {
            return random_reference::integer(seed, static_cast<std::uint64_t>(i),
                                             ~std::uint64_t{0});
          };
          std::vector<std::int64_t> order;
          for (std::int64_t i = 0; i < count; ++i) {
            auto place = order.end();
            while (place != order.begin() && key(*(place - 1)) > key(i)) --place;
            order.insert(place, i);
          }
          return from_data(order);
        }));
  }
  return samples;
}

}  // namespace

void add_random(std::vector<Op>& ops) {
  const auto add_op = [&](const char* name, const char* family, const char* formula, DTypes dtypes,
                          std::function<std::vector<Sample>()> samples) {
    ops.push_back({name, family, formula, "", {}, dtypes, std::move(samples)});
  };
  const auto of = [](const std::vector<Shape>& list, const Make& make, const Element& element) {
    return [=] { return draw_samples(list, make, element); };
  };
  const char *creation = "creation", *initializer = "initializer";
  add_op(
      "rand", creation, "uniform in [0, 1)", DTypes::floats,
      of(
          shapes(),
          [](const Shape& shape, const TensorOptions& options, Generator& g) {
            return rand(shape, options, g);
          },
          [](const Shape&, DType dtype, std::uint64_t n) { return uniform_draw(dtype, n, 0, 1); }));
  add_op(
      "randn", creation, "normal, mean 0, deviation 1", DTypes::floats,
      of(
          shapes(),
          [](const Shape& shape, const TensorOptions& options, Generator& g) {
            return randn(shape, options, g);
          },
          [](const Shape&, DType dtype, std::uint64_t n) { return normal_draw(dtype, n, 0, 1); }));
  add_op("randint", creation, "an integer from low to high − 1, each as likely", DTypes::integers,
         of(
             shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return is_signed_integer(*options.dtype) ? randint(-3, 90, shape, options, g)
                                                        : randint(3, 96, shape, options, g);
             },
             [](const Shape&, DType dtype, std::uint64_t n) {
               const auto drawn = static_cast<double>(random_reference::integer(seed, n, 93));
               return Draw{drawn + (is_signed_integer(dtype) ? -3 : 3), 0};
             }));
  add_op("randperm", creation, "0 … n − 1 in random order, each order as likely",
         DTypes::int64_only, randperm_samples);
  add_op("multinomial", creation, "numbers drawn with probabilities proportional to the weights",
         DTypes::floats, multinomial_samples);
  add_op("bernoulli", creation, "1 with the given probability, else 0", DTypes::all,
         of(
             shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return bernoulli(0.3, shape, options, g);
             },
             [](const Shape&, DType, std::uint64_t n) {
               return Draw{random_reference::word(seed, n) < 0.3 * 4294967296.0 ? 1.0 : 0.0, 0};
             }));
  add_op("uniform", initializer, "uniform in [low, high)", DTypes::floats,
         of(
             shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return uniform(shape, -2, 3, options, g);
             },
             [](const Shape&, DType dtype, std::uint64_t n) {
               return uniform_draw(dtype, n, -2, 3);
             }));
  add_op("normal", initializer, "normal of that mean and deviation", DTypes::floats,
         of(
             shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return normal(shape, 1, 0.5, options, g);
             },
             [](const Shape&, DType dtype, std::uint64_t n) {
               return normal_draw(dtype, n, 1, 0.5);
             }));
  add_op("trunc_normal", initializer, "normal, given that it falls between lower and upper",
         DTypes::floats,
         of(
             shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return trunc_normal(shape, 0.5, 2, -1.5, 3.5, options, g);
             },
             [](const Shape&, DType, std::uint64_t n) {
               const long double z = random_reference::truncated_normal(seed, n, -1, 1.5L);
               return Draw{static_cast<double>(0.5L + 2 * z),
                           static_cast<double>(0.5L + 2 * std::fabs(z))};
             }));
  add_op("xavier_uniform", initializer, "uniform in ±gain √(6 / (fan_in + fan_out))",
         DTypes::floats,
         of(
             weight_shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return xavier_uniform(shape, 1.5, options, g);
             },
             [](const Shape& shape, DType dtype, std::uint64_t n) {
               const Fan fan(shape);
               const double bound = 1.5 * std::sqrt(6 / (fan.in + fan.out));
               return uniform_draw(dtype, n, -bound, bound);
             }));
  add_op("xavier_normal", initializer, "normal, deviation gain √(2 / (fan_in + fan_out))",
         DTypes::floats,
         of(
             weight_shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return xavier_normal(shape, 1.5, options, g);
             },
             [](const Shape& shape, DType dtype, std::uint64_t n) {
               const Fan fan(shape);
               return normal_draw(dtype, n, 0, 1.5 * std::sqrt(2 / (fan.in + fan.out)));
             }));
  add_op("kaiming_uniform", initializer, "uniform in ±gain √(3 / fan)", DTypes::floats,
         of(
             weight_shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return kaiming_uniform(shape, 0, FanMode::fan_in, Nonlinearity::relu, options, g);
             },
             [](const Shape& shape, DType dtype, std::uint64_t n) {
               const double bound = std::sqrt(2.0) * std::sqrt(3 / Fan(shape).in);
               return uniform_draw(dtype, n, -bound, bound);
             }));
  add_op("kaiming_normal", initializer, "normal, deviation gain / √fan", DTypes::floats,
         of(
             weight_shapes(),
             [](const Shape& shape, const TensorOptions& options, Generator& g) {
               return kaiming_normal(shape, 0.5, FanMode::fan_out, Nonlinearity::leaky_relu,
                                     options, g);
             },
             [](const Shape& shape, DType dtype, std::uint64_t n) {
               return normal_draw(dtype, n, 0, std::sqrt(2 / 1.25) / std::sqrt(Fan(shape).out));
             }));
  add_op("orthogonal", initializer, "gain · Q, the Q of the QR decomposition of normal draws",
         DTypes::floats, orthogonal_samples);
}

}  // namespace extensor::op_database
