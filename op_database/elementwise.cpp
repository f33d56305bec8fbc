// The rows of the op tables as ops: samples over shapes and broadcasting, values from
// elementwise_reference.h, formulas as the tables write them.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "op_database/draw.h"
#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"
#include "op_database/op_database.h"
#include "op_database/readable.h"

namespace extensor::op_database {

namespace {

using op_database::BinaryRow;
using op_database::UnaryRow;

const std::array<Shape, 6>& shapes() {
  static const std::array<Shape, 6> list = {Shape{},   Shape{0},    Shape{1},
                                            Shape{17}, Shape{5, 7}, Shape{2, 3, 4}};
  return list;
}

// The shapes above with themselves, and pairs that broadcast.
std::vector<std::pair<Shape, Shape>> shape_pairs() {
  std::vector<std::pair<Shape, Shape>> pairs;
  for (const Shape& shape : shapes()) pairs.emplace_back(shape, shape);
  pairs.insert(pairs.end(), {{{3, 1}, {1, 4}},
                             {{2, 3}, {3}},
                             {{}, {2, 3}},
                             {{5, 7}, {}},
                             {{2, 1, 3}, {4, 1}},
                             {{17}, {1}},
                             {{0}, {1}}});
  return pairs;
}

std::string text(const Shape& shape) {
  std::string result = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    result += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return result + "]";
}
std::string text(const std::pair<Shape, Shape>& pair) {
  return text(pair.first) + " and " + text(pair.second);
}

// ---- references

std::vector<double> numbers(const Tensor& x) { return x.to(float64).to_vector<double>(); }

// The numbers of x at every element of `shape`, which x broadcasts to.
std::vector<double> repeated(const Tensor& x, const Shape& shape) {
  const std::vector<double> own = numbers(x);
  std::int64_t count = draw::element_count(shape);
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(count));
  const std::size_t extra = shape.size() - x.shape().size();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t index = rest % shape[d];
      rest /= shape[d];
      if (d < extra) continue;
      const std::int64_t size = x.shape()[d - extra];
      at += (size == 1 ? 0 : index) * stride;
      stride *= size;
    }
    result.push_back(own[static_cast<std::size_t>(at)]);
  }
  return result;
}

template <class Function>
Tensors mapped(const Tensor& x, Function function) {
  std::vector<double> values = numbers(x);
  for (double& value : values) value = static_cast<double>(function(value));
  return {from_data(values, x.shape())};
}

template <class Function>
Tensors mapped(const Tensor& a, const Tensor& b, Function function) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  std::vector<double> values = repeated(a, shape);
  const std::vector<double> second = repeated(b, shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(function(values[i], second[i]));
  }
  return {from_data(values, shape)};
}

// The result dtype of clip on integers and bool depends on the bounds: with fractional bounds it is
// float32, with whole bounds a bool becomes int64.
Tensors promoted(const Tensors& exact, const Tensor& x, bool whole_bounds) {
  if (is_floating_point(x.dtype()) || (whole_bounds && x.dtype() != bool_)) return exact;
  return {exact[0].to(whole_bounds ? int64 : float32)};
}

// ---- rows of one tensor

bool takes_bounds(const UnaryRow& row) { return row.numeric && !row.parameters.empty(); }

std::vector<Sample> samples_of(const UnaryRow& row) {
  std::vector<Sample> samples;
  std::function<Tensors(const Tensors&)> expected;
  const auto found = reference::unary_references().find(row.name);
  if (found != reference::unary_references().end()) {
    reference::Parameters parameters;
    if (!row.parameters.empty()) parameters.p = row.parameters[0];
    if (row.parameters.size() > 1) parameters.q = row.parameters[1];
    const bool promotes = takes_bounds(row);
    expected = [exact = found->second, parameters, promotes](const Tensors& in) {
      const Tensors result = mapped(in[0], [&](double x) { return exact(x, parameters); });
      return promotes ? promoted(result, in[0], false) : result;
    };
  }
  std::string parameters;
  for (double value : row.parameters) parameters += ", " + readable_number(value);
  unsigned seed = 1;
  for (const Shape& shape : shapes()) {
    samples.push_back(
        {.label = text(shape) + parameters,
         .inputs = {draw::inputs_of(row, shape, ++seed)},
         .forward = [row](const Tensors& in) { return Tensors{row.forward(in[0])}; },
         .reference = expected,
         .backward =
             [row](const Tensors& g, const Tensors& in) {
               return Tensors{row.backward(g[0], row.saves_result ? in[1] : in[0])};
             },
         .double_backward =
             [row](const Tensors& gg, const Tensors& g, const Tensors& in) {
               const Tensor saved = row.saved(in[0]);
               auto [of_g, of_saved] = row.double_backward(gg[0], g[0], saved);
               return Tensors{of_g, row.saves_result ? row.backward(of_saved, saved) : of_saved};
             },
         .saves_results = row.saves_result});
  }
  return samples;
}

// The rows are called with fractional bounds.
Sample whole_bounds_sample() {
  Sample sample;
  sample.label = "[5, 7], 1, 3";
  sample.inputs = {sample_uniform({5, 7}, -2, 2, 9)};
  sample.forward = [](const Tensors& in) { return Tensors{clip(in[0], 1, 3)}; };
  sample.reference = [](const Tensors& in) {
    return promoted(mapped(in[0], [](double x) { return x < 1 ? 1 : x > 3 ? 3 : x; }), in[0], true);
  };
  return sample;
}

void add_unary(std::vector<Op>& ops) {
  // A row with parameters appears twice, the second time with other values than the defaults.
  std::vector<std::vector<UnaryRow>> groups;
  for (const UnaryRow& row : op_database::unary_rows()) {
    if (groups.empty() || groups.back()[0].name != row.name) groups.emplace_back();
    groups.back().push_back(row);
  }
  for (const std::vector<UnaryRow>& group : groups) {
    const UnaryRow& row = group[0];
    ops.push_back({.name = row.name,
                   .family = "elementwise",
                   .formula = "y = " + readable(row.formula),
                   .gradient = "grad x = " + readable(row.gradient),
                   .backward = {row.name + "_backward"},
                   .dtypes = takes_bounds(row) ? DTypes::all
                             : row.numeric     ? DTypes::numbers
                                               : DTypes::as_float32,
                   .samples = [group] {
                     std::vector<Sample> samples;
                     if (takes_bounds(group[0])) samples.push_back(whole_bounds_sample());
                     for (const UnaryRow& variant : group) {
                       for (Sample& sample : samples_of(variant)) {
                         samples.push_back(std::move(sample));
                       }
                     }
                     return samples;
                   }});
  }
}

// ---- rows of two tensors

std::vector<Sample> samples_of(const BinaryRow& row) {
  std::vector<Sample> samples;
  std::function<Tensors(const Tensors&)> expected;
  const auto found = reference::binary_references().find(row.name);
  if (found != reference::binary_references().end()) {
    expected = [exact = found->second](const Tensors& in) { return mapped(in[0], in[1], exact); };
  }
  unsigned seed = 100;
  for (const auto& pair : shape_pairs()) {
    const auto [a, b] = draw::inputs_of(row, pair.first, pair.second, ++seed);
    samples.push_back(
        {.label = text(pair),
         .inputs = {a, b},
         .forward = [row](const Tensors& in) { return Tensors{row.forward(in[0], in[1])}; },
         .reference = expected,
         .backward =
             [row](const Tensors& g, const Tensors& in) {
               auto [grad_a, grad_b] = row.backward(g[0], in[0], in[1]);
               return Tensors{grad_a, grad_b};
             },
         .double_backward =
             [row](const Tensors& gg, const Tensors& g, const Tensors& in) {
               const DoubleGradients all = row.double_backward(gg[0], gg[1], g[0], in[0], in[1]);
               return Tensors{all.grad_output, all.a, all.b};
             }});
    // A divisor is not 0, an exponent of an integer not negative.
    if (row.divides) {
      samples.back().integer_of = [](std::size_t input, double x) {
        const double whole = std::round(3 * x);
        return input == 1 && whole == 0 ? 2 : whole;
      };
    } else if (row.name == "power") {
      samples.back().integer_of = [](std::size_t input, double x) {
        return input == 0 ? std::round(3 * x) - 4 : std::round(std::fabs(x));
      };
    }
  }
  return samples;
}

// Addition and multiplication of bool are "or" and "and"; bool has no difference and no quotient.
DTypes dtypes_of(const BinaryRow& row) {
  if (!row.numeric) return DTypes::as_float32;
  for (const char* name : {"add", "multiply", "maximum", "minimum"}) {
    if (row.name == name) return DTypes::all;
  }
  return DTypes::numbers;
}

void add_binary(std::vector<Op>& ops) {
  for (const BinaryRow& row : op_database::binary_rows()) {
    ops.push_back({.name = row.name,
                   .family = "elementwise",
                   .formula = "y = " + readable(row.formula),
                   .gradient = "grad a = " + readable(row.gradient_a) +
                               ", grad b = " + readable(row.gradient_b),
                   .backward = {row.name + "_backward"},
                   .dtypes = dtypes_of(row),
                   .samples = [row] { return samples_of(row); }});
  }
}

// ---- rows without a gradient

// The expected comparisons and predicates, written independently on doubles.
const std::map<std::string, std::function<bool(double, double)>>& compare_references() {
  static const std::map<std::string, std::function<bool(double, double)>> references = {
      {"equal", [](double a, double b) { return a == b; }},
      {"not_equal", [](double a, double b) { return a != b; }},
      {"less", [](double a, double b) { return a < b; }},
      {"less_equal", [](double a, double b) { return a <= b; }},
      {"greater", [](double a, double b) { return a > b; }},
      {"greater_equal", [](double a, double b) { return a >= b; }},
      {"logical_and", [](double a, double b) { return a != 0 && b != 0; }},
      {"logical_or", [](double a, double b) { return a != 0 || b != 0; }},
      {"logical_xor", [](double a, double b) { return (a != 0) != (b != 0); }}};
  return references;
}
const std::map<std::string, std::function<bool(double)>>& predicate_references() {
  static const std::map<std::string, std::function<bool(double)>> references = {
      {"logical_not", [](double x) { return x == 0; }},
      {"isnan", [](double x) { return std::isnan(x); }},
      {"isinf", [](double x) { return std::isinf(x); }},
      {"isfinite", [](double x) { return std::isfinite(x); }}};
  return references;
}
const std::map<std::string, std::function<std::int64_t(std::int64_t, std::int64_t)>>&
bitwise_references() {
  using Integer = std::int64_t;
  static const std::map<std::string, std::function<Integer(Integer, Integer)>> references = {
      {"bitwise_and", [](Integer a, Integer b) { return a & b; }},
      {"bitwise_or", [](Integer a, Integer b) { return a | b; }},
      {"bitwise_xor", [](Integer a, Integer b) { return a ^ b; }},
      {"bitwise_left_shift", [](Integer a, Integer b) { return a * (Integer{1} << b); }},
      {"bitwise_right_shift", [](Integer a, Integer b) { return a >> b; }},
      {"bitwise_invert", [](Integer a, Integer) { return -a - 1; }}};
  return references;
}

// Few distinct numbers, so that some are equal, and zeros.
Tensor sample_steps(const Shape& shape, std::uint64_t seed) {
  return sample_integers(shape, -2, 3, seed).to(float64) * 0.5;
}

// The same with an infinity or a NaN at every third element.
Tensor sample_specials(const Shape& shape, std::uint64_t seed) {
  std::vector<double> values = numbers(sample_steps(shape, seed));
  constexpr double specials[] = {NAN, INFINITY, -INFINITY};
  for (std::size_t i = 2; i < values.size(); i += 3) values[i] = specials[i / 3 % 3];
  return from_data(values, shape);
}

template <class Map>
typename Map::mapped_type reference_of(const Map& references, const std::string& name) {
  const auto found = references.find(name);
  return found == references.end() ? typename Map::mapped_type() : found->second;
}

Tensors as_bool(const Tensors& tensors) { return {tensors[0].to(DType::bool_)}; }

void add_logical(std::vector<Op>& ops) {
  for (const auto& row : op_database::compare_rows()) {
    const auto samples = [row] {
      std::vector<Sample> list;
      const auto exact = reference_of(compare_references(), row.name);
      std::uint64_t seed = 1;
      for (const auto& pair : shape_pairs()) {
        Sample sample;
        sample.label = text(pair);
        sample.inputs = {sample_steps(pair.first, ++seed), sample_steps(pair.second, ++seed)};
        sample.forward = [row](const Tensors& in) { return Tensors{row.forward(in[0], in[1])}; };
        if (exact) {
          sample.reference = [exact](const Tensors& in) {
            return as_bool(mapped(in[0], in[1], exact));
          };
        }
        list.push_back(std::move(sample));
      }
      return list;
    };
    ops.push_back({row.name, "comparison", readable(row.formula), "", {}, DTypes::all, samples});
  }
  for (const auto& row : op_database::predicate_rows()) {
    const auto samples = [row] {
      std::vector<Sample> list;
      const auto exact = reference_of(predicate_references(), row.name);
      std::uint64_t seed = 1;
      for (const Shape& shape : shapes()) {
        Sample sample;
        sample.label = text(shape);
        sample.inputs = {sample_specials(shape, ++seed)};
        sample.forward = [row](const Tensors& in) { return Tensors{row.forward(in[0])}; };
        if (exact) {
          sample.reference = [exact](const Tensors& in) { return as_bool(mapped(in[0], exact)); };
        }
        list.push_back(std::move(sample));
      }
      return list;
    };
    ops.push_back({row.name, "comparison", readable(row.formula), "", {}, DTypes::all, samples});
  }
}

using BitwiseForward = std::function<Tensors(const Tensors&)>;

std::vector<Sample> bitwise_samples(const std::string& name, bool shifts, bool unary,
                                    const BitwiseForward& forward) {
  std::vector<Sample> list;
  const auto exact = reference_of(bitwise_references(), name);
  std::uint64_t seed = 1;
  for (const auto& pair : shape_pairs()) {
    Sample sample;
    sample.label = unary ? text(pair.first) : text(pair);
    sample.inputs = {sample_integers(pair.first, -100, 100, ++seed).to(float64)};
    sample.integer_of = whole_number;
    if (!unary) {
      sample.inputs.push_back(
          sample_integers(pair.second, shifts ? 0 : -100, shifts ? 8 : 100, ++seed).to(float64));
    } else if (!(pair.first == pair.second)) {
      continue;
    }
    sample.forward = forward;
    if (exact) {
      // Exact in doubles: the numbers are small.
      sample.reference = [exact](const Tensors& in) {
        const bool is_bool = in[0].dtype() == bool_;
        return mapped(in[0], in.back(), [&](double a, double b) {
          const auto bits = exact(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
          return static_cast<double>(is_bool ? bits & 1 : bits);
        });
      };
    }
    list.push_back(std::move(sample));
  }
  return list;
}

void add_bitwise(std::vector<Op>& ops) {
  for (const auto& row : op_database::bitwise_rows()) {
    const DTypes dtypes = row.shifts ? DTypes::integers : DTypes::integers_and_bool;
    ops.push_back({row.name, "bitwise", readable(row.formula), "", {}, dtypes, [row] {
                     return bitwise_samples(row.name, row.shifts, false, [row](const Tensors& in) {
                       return Tensors{row.forward(in[0], in[1])};
                     });
                   }});
  }
  for (const auto& row : op_database::bitwise_unary_rows()) {
    const DTypes dtypes = DTypes::integers_and_bool;
    ops.push_back({row.name, "bitwise", readable(row.formula), "", {}, dtypes, [row] {
                     return bitwise_samples(row.name, false, true, [row](const Tensors& in) {
                       return Tensors{row.forward(in[0])};
                     });
                   }});
  }
}

// ---- elementwise ops that are not rows

std::vector<Sample> fma_samples() {
  const std::vector<std::vector<Shape>> lists = {{{17}, {17}, {17}},
                                                 {{2, 3}, {3}, {}},
                                                 {{3, 1}, {4}, {2, 3, 4}},
                                                 {{0}, {1}, {0}},
                                                 {{}, {}, {}}};
  std::vector<Sample> samples;
  std::uint64_t seed = 1;
  for (const auto& list : lists) {
    Sample sample;
    sample.label = text(list[0]) + ", " + text(list[1]) + ", " + text(list[2]);
    for (const Shape& shape : list) sample.inputs.push_back(sample_uniform(shape, -2, 2, ++seed));
    sample.forward = [](const Tensors& in) { return Tensors{fma(in[0], in[1], in[2])}; };
    sample.reference = [](const Tensors& in) {
      const Shape product = broadcast_shapes(in[0].shape(), in[1].shape());
      const Shape shape = broadcast_shapes(product, in[2].shape());
      const auto a = repeated(in[0], shape), b = repeated(in[1], shape), c = repeated(in[2], shape);
      std::vector<double> values;
      for (std::size_t i = 0; i < a.size(); ++i) values.push_back(std::fma(a[i], b[i], c[i]));
      return Tensors{from_data(values, shape)};
    };
    sample.backward = [](const Tensors& g, const Tensors& in) {
      const FmaGradients all = fma_backward(g[0], in[0], in[1], in[2].shape());
      return Tensors{all.a, all.b, all.c};
    };
    sample.double_backward = [](const Tensors& gg, const Tensors& g, const Tensors& in) {
      const DoubleGradients all = fma_double_backward(gg[0], gg[1], gg[2], g[0], in[0], in[1]);
      return Tensors{all.grad_output, all.a, all.b, Tensor()};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::vector<Sample> where_samples() {
  std::vector<Sample> samples;
  std::uint64_t seed = 1;
  for (const auto& pair : shape_pairs()) {
    Sample sample;
    sample.label = text(pair);
    const Shape shape = broadcast_shapes(pair.first, pair.second);
    sample.inputs = {sample_integers(shape, 0, 2, ++seed).to(DType::bool_),
                     sample_uniform(pair.first, -2, 2, ++seed),
                     sample_uniform(pair.second, -2, 2, ++seed)};
    sample.forward = [](const Tensors& in) { return Tensors{where(in[0], in[1], in[2])}; };
    sample.reference = [](const Tensors& in) {
      const std::vector<double> condition = numbers(in[0]);
      std::vector<double> values = repeated(in[1], in[0].shape());
      const std::vector<double> other = repeated(in[2], in[0].shape());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (condition[i] == 0) values[i] = other[i];
      }
      return Tensors{from_data(values, in[0].shape())};
    };
    sample.backward = [](const Tensors& g, const Tensors& in) {
      auto [grad_a, grad_b] = where_backward(g[0], in[0], in[1].shape(), in[2].shape());
      return Tensors{Tensor(), grad_a, grad_b};
    };
    // The op is linear in a and b: the gradient of grad_output is the forward of their gradients.
    sample.double_backward = [](const Tensors& gg, const Tensors&, const Tensors& in) {
      return Tensors{where(in[0], gg[1], gg[2]), Tensor(), zeros_like(in[1]), zeros_like(in[2])};
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

// The tolerances are so wide that every dtype agrees on which numbers are close.
std::vector<Sample> closeness_samples(bool all) {
  std::vector<Sample> list;
  constexpr double relative = 0.5, absolute = 0.25;
  std::uint64_t seed = 1;
  for (const auto& pair : shape_pairs()) {
    Sample sample;
    sample.label = text(pair);
    sample.inputs = {sample_steps(pair.first, ++seed), sample_steps(pair.second, ++seed)};
    sample.forward = [all](const Tensors& in) {
      if (all) return Tensors{full({}, allclose(in[0], in[1], relative, absolute), bool_)};
      return Tensors{isclose(in[0], in[1], relative, absolute)};
    };
    sample.reference = [all](const Tensors& in) {
      const auto near = [](double a, double b) {
        return std::fabs(a - b) <= absolute + relative * std::fabs(b) ? 1.0 : 0.0;
      };
      const Tensors each = as_bool(mapped(in[0], in[1], near));
      if (!all) return each;
      bool every = true;
      for (double one : numbers(each[0])) every = every && one != 0;
      return Tensors{full({}, every, bool_)};
    };
    list.push_back(std::move(sample));
  }
  return list;
}

void add_closeness(std::vector<Op>& ops) {
  const char* family = "comparison";
  ops.push_back(
      {"isclose", family, "y = |a − b| ≤ absolute + relative · |b|", "", {}, DTypes::all, [] {
         return closeness_samples(false);
       }});
  ops.push_back({"allclose", family, "whether isclose holds everywhere", "", {}, DTypes::all, [] {
                   return closeness_samples(true);
                 }});
}

}  // namespace

void add_elementwise(std::vector<Op>& ops) {
  add_unary(ops);
  add_binary(ops);
  ops.push_back({"fma",
                 "elementwise",
                 "y = a · b + c, rounded once",
                 "grad a = g · b, grad b = g · a, grad c = g",
                 {"fma_backward"},
                 DTypes::numbers,
                 fma_samples});
  ops.push_back({"where",
                 "elementwise",
                 "y = a where the condition is true, else b",
                 "grad a = g where the condition is true, else 0; grad b the other way round",
                 {"where_backward"},
                 DTypes::all,
                 where_samples});
  add_logical(ops);
  add_closeness(ops);
  add_bitwise(ops);
}

}  // namespace extensor::op_database
