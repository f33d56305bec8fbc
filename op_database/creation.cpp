#include <cmath>
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

// The input of a function without tensor arguments: it carries the dtype and device.
Tensors dtype_alone() { return {sample_uniform({}, 1, 2, 1)}; }

// A value that the dtype can represent.
double value_for(DType dtype) {
  return is_floating_point(dtype) ? -2.5 : dtype == bool_ ? 1 : is_signed_integer(dtype) ? -3 : 3;
}
Scalar scalar_for(DType dtype) {
  if (is_floating_point(dtype)) return -2.5;
  return static_cast<std::int64_t>(value_for(dtype));
}

// A function of a shape and a dtype whose elements all have the same value.
std::vector<Sample> shape_samples(
    const std::function<Tensor(const Shape&, const TensorOptions&)>& make,
    const std::function<double(DType)>& value) {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes()) {
    samples.push_back(sample_of(
        to_string(shape), dtype_alone(),
        [=](const Tensors& in) { return make(shape, options_of(in[0])); },
        [=](const Tensors& in) { return filled(shape, value(in[0].dtype())); }));
  }
  return samples;
}

std::vector<Sample> like_samples(const std::function<Tensor(const Tensor&)>& make,
                                 const std::function<double(DType)>& value) {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes()) {
    samples.push_back(sample_of(
        to_string(shape), {sample_uniform(shape, -1, 1, 1)},
        [=](const Tensors& in) { return make(in[0]); },
        [=](const Tensors& in) { return filled(shape, value(in[0].dtype())); }));
  }
  return samples;
}

// Compares a call for a dtype with a list of numbers.
Sample fixed_sample(std::string label, std::function<Tensor(const TensorOptions&)> make,
                    Doubles expected, const Shape& shape) {
  return sample_of(
      std::move(label), dtype_alone(),
      [make](const Tensors& in) { return make(options_of(in[0])); },
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
        [=](const TensorOptions& options) {
          if (is_floating_point(*options.dtype)) return arange(start, stop, step, options);
          const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
          return arange(whole(start), whole(stop), whole(step), options);
        },
        expected, {count}));
    // An unsigned dtype has no −3, and an integer no halves.
    samples.back().floats_only = start < 0 || step < 0 || step != std::floor(step);
  };
  add_range(0, 17, 1);
  add_range(2, 9, 2.5);
  add_range(5, -4, -4);
  add_range(1, 1, 1);
  add_range(0, 5, 0.125);
  samples.push_back(fixed_sample(
      "4", [](const TensorOptions& options) { return arange(4, options); }, {0, 1, 2, 3}, {4}));
  samples.push_back(sample_of(
      "of integers, no dtype", {}, [](const Tensors&) { return arange(4); },
      [](const Tensors&) {
        return from_data(std::vector<std::int64_t>{0, 1, 2, 3});
      }));
  return samples;
}

std::vector<Sample> linspace_samples() {
  std::vector<Sample> samples;
  for (const auto& [count, endpoint] :
       std::vector<std::pair<int, bool>>{{5, true}, {33, true}, {4, false}, {1, true}, {0, true}}) {
    // Integers drop the fraction.
    const auto reference = [count = count, endpoint = endpoint](const Tensors& in) {
      Doubles expected;
      for (int i = 0; i < count; ++i) {
        const int intervals = endpoint ? count - 1 : count;
        const double value = intervals > 0 ? 1 + 5.0 * i / intervals : 1;
        expected.push_back(is_floating_point(in[0].dtype()) ? value : std::trunc(value));
      }
      return from_data(expected);
    };
    samples.push_back(sample_of(
        "1 to 6 in " + std::to_string(count) + (endpoint ? "" : ", without the end"), dtype_alone(),
        [count = count, endpoint = endpoint](const Tensors& in) {
          return linspace(1, 6, count, options_of(in[0]), endpoint);
        },
        reference));
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
    samples.push_back(fixed_sample(
        std::to_string(rows) + " by " + std::to_string(columns) + ", diagonal " +
            std::to_string(diagonal),
        [rows = rows, columns = columns, diagonal = diagonal](const TensorOptions& options) {
          return eye(rows, columns, diagonal, options);
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
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace

void add_creation(std::vector<Op>& ops) {
  const auto add_op = [&](std::string name, std::string formula, DTypes dtypes,
                          std::function<std::vector<Sample>()> samples, std::string gradient = "",
                          std::vector<std::string> backward = {}) {
    ops.push_back({std::move(name), "creation", std::move(formula), std::move(gradient),
                   std::move(backward), dtypes, std::move(samples)});
  };
  const auto always = [](double value) { return [=](DType) { return value; }; };
  const auto of_shape = [](const std::function<Tensor(const Shape&, const TensorOptions&)>& make,
                           const std::function<double(DType)>& value) {
    return [=] { return shape_samples(make, value); };
  };
  const auto of_like = [](const std::function<Tensor(const Tensor&)>& make,
                          const std::function<double(DType)>& value) {
    return [=] { return like_samples(make, value); };
  };
  // Uninitialized contents have no reference; the sample checks that all of the memory can be
  // written.
  add_op("empty", "any contents", DTypes::all,
         of_shape(
             [](const Shape& shape, const TensorOptions& options) {
               return empty(shape, options).fill(scalar_for(*options.dtype));
             },
             value_for));
  add_op("zeros", "0", DTypes::all,
         of_shape(
             [](const Shape& shape, const TensorOptions& options) { return zeros(shape, options); },
             always(0)));
  add_op("ones", "1", DTypes::all,
         of_shape(
             [](const Shape& shape, const TensorOptions& options) { return ones(shape, options); },
             always(1)));
  add_op("full", "the value", DTypes::all,
         of_shape(
             [](const Shape& shape, const TensorOptions& options) {
               return full(shape, scalar_for(*options.dtype), options);
             },
             value_for));
  add_op("constant", "the value", DTypes::all,
         of_shape(
             [](const Shape& shape, const TensorOptions& options) {
               return constant(shape, value_for(*options.dtype), options);
             },
             value_for));
  add_op("scalar", "a 0-d tensor of the value", DTypes::all, [] {
    Sample sample = sample_of(
        "", dtype_alone(),
        [](const Tensors& in) { return scalar(scalar_for(in[0].dtype()), options_of(in[0])); },
        [](const Tensors& in) { return filled({}, value_for(in[0].dtype())); });
    return std::vector<Sample>{std::move(sample)};
  });
  add_op("empty_like", "any contents in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return empty_like(x).fill(scalar_for(x.dtype())); },
                 value_for));
  add_op("zeros_like", "0 in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return zeros_like(x); }, always(0)));
  add_op("ones_like", "1 in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return ones_like(x); }, always(1)));
  add_op("full_like", "the value in the shape of x", DTypes::all,
         of_like([](const Tensor& x) { return full_like(x, scalar_for(x.dtype())); }, value_for));
  add_op("arange", "start + i · step below stop", DTypes::numbers, arange_samples);
  add_op("linspace", "start + i · (stop − start) / (count − 1)", DTypes::all, linspace_samples);
  add_op("eye", "1 on a diagonal, else 0", DTypes::all, eye_samples);
  add_op("tril", "x on and below a diagonal, else 0", DTypes::all,
         [] { return triangle_samples(tril, true); }, "tril of g", {"tril"});
  add_op("triu", "x on and above a diagonal, else 0", DTypes::all,
         [] { return triangle_samples(triu, false); }, "triu of g", {"triu"});
  add_op("meshgrid", "each vector repeated along the axes of the others", DTypes::all,
         meshgrid_samples, "g summed over the axes of the others", {"broadcast_to_backward"});
}

}  // namespace extensor::op_database
