// Turns bytes into a program: an op, shapes, strides, dtypes and values. The result is compared
// with plain loops over doubles. A typed error is a valid answer to a bad program; a crash or a
// wrong number is not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "fuzz/operand.h"
#include "op_database/check.h"
#include "op_database/compare.h"
#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"

namespace extensor::fuzz {
namespace {

using Wide = long double;  // so that the reference's rounding is negligible

[[noreturn]] void mismatch(const std::string& what, const Operand& operand, double got,
                           Wide expected) {
  std::fprintf(stderr, "MISMATCH %s, %s, rank %lld, %lld elements: got %.17g, expected %.17Lg\n",
               what.c_str(), name(operand.tensor.dtype()),
               static_cast<long long>(operand.tensor.ndim()),
               static_cast<long long>(operand.tensor.numel()), got, expected);
  std::abort();
}

double epsilon_of(DType dtype) {
  const compare::Format format = compare::format_of(dtype);
  return std::ldexp(1.0, 1 - format.digits);
}

// Half of the smallest positive number: the rounding error where a unit is no longer relative.
Wide least_unit(DType dtype) {
  const compare::Format format = compare::format_of(dtype);
  return std::ldexp(Wide{1}, format.min_exponent - format.digits - 1);
}

bool near(double got, Wide expected, Wide allowed) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::fabs(got - expected) <= allowed;
}

// ---- elementwise --------------------------------------------------------------------------------

void run_unary(Bytes& bytes) {
  static const auto rows = op_database::unary_rows();
  const auto& row =
      rows[static_cast<std::size_t>(bytes.below(static_cast<std::int64_t>(rows.size())))];
  const auto found = reference::unary_references().find(row.name);
  if (found == reference::unary_references().end()) return;
  const DType dtype = draw_float(bytes);
  const Operand x = draw_operand(bytes, draw_shape(bytes), dtype, Numbers::any);
  const std::vector<double> got = compare::values_of(row.forward(x.tensor));
  reference::Parameters parameters;
  const auto rounded = [&](double p) {
    return dtype == float64 ? p : static_cast<double>(static_cast<float>(p));
  };
  if (!row.parameters.empty()) parameters.p = rounded(row.parameters[0]);
  if (row.parameters.size() > 1) parameters.q = rounded(row.parameters[1]);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const long double exact = found->second(x.values[i], parameters);
    // At most half a unit for the halves, two for the others, and a margin for the reference.
    const double limit = is_half(dtype) ? 0.51 : 2.1;
    if (compare::ulp_error(compare::format_of(dtype), got[i], exact) <= limit) continue;
    std::fprintf(stderr, "x = %.17g\n", x.values[i]);
    mismatch(row.label, x, got[i], exact);
  }
}

// Two shapes that broadcast to `shape`.
Shape draw_part(Bytes& bytes, const Shape& shape) {
  Shape part;
  const auto skipped = static_cast<std::size_t>(
      bytes.flag() ? bytes.below(static_cast<std::int64_t>(shape.size()) + 1) : 0);
  for (std::size_t d = skipped; d < shape.size(); ++d) {
    part.push_back(bytes.below(4) == 1 ? 1 : shape[d]);
  }
  return part;
}

void run_binary(Bytes& bytes) {
  static const auto rows = op_database::binary_rows();
  const auto& row =
      rows[static_cast<std::size_t>(bytes.below(static_cast<std::int64_t>(rows.size())))];
  const auto found = reference::binary_references().find(row.name);
  if (found == reference::binary_references().end()) return;
  const DType dtype = draw_float(bytes);
  const Shape shape = draw_shape(bytes);
  const Operand a = draw_operand(bytes, draw_part(bytes, shape), dtype, Numbers::moderate);
  const Operand b = draw_operand(bytes, draw_part(bytes, shape), dtype, Numbers::moderate);
  const Tensor result = row.forward(a.tensor, b.tensor);
  const std::vector<double> got = compare::values_of(result);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const double x =
        a.values[static_cast<std::size_t>(broadcast_position(a.shape(), result.shape(), at))];
    const double y =
        b.values[static_cast<std::size_t>(broadcast_position(b.shape(), result.shape(), at))];
    const long double exact = found->second(x, y);
    // Halves are computed in float32 and rounded again.
    if (compare::ulp_error(compare::format_of(dtype), got[i], exact) <= 2.1) continue;
    std::fprintf(stderr, "a = %.17g, b = %.17g\n", x, y);
    mismatch(row.name, a, got[i], exact);
  }
}

// Any dtype to any other: floats saturate, NaN to 0; integers wrap.
void run_cast(Bytes& bytes) {
  const DType from = draw_dtype(bytes), to = draw_dtype(bytes);
  const Operand x = draw_operand(bytes, draw_shape(bytes), from, Numbers::any);
  const std::vector<double> got = x.tensor.to(to).to(float64).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    double expected = x.values[i];
    if (to == DType::bool_) {
      expected = expected != 0 ? 1 : 0;
    } else if (is_floating_point(to)) {
      expected = static_cast<double>(compare::rounded_to(compare::format_of(to), expected));
    } else {
      const int bits = static_cast<int>(8 * itemsize(to));
      const bool natural = is_unsigned_integer(to);
      const double high = std::ldexp(1.0, natural ? bits : bits - 1);
      const double low = natural ? 0 : -high;
      if (!is_floating_point(from)) {
        const double period = std::ldexp(1.0, bits);
        expected -= period * std::floor((expected - low) / period);
      } else {
        // 2⁶⁴ − 1 and 2⁶³ − 1 are read back as the power of two.
        expected = std::isnan(expected)
                       ? 0
                       : std::clamp(std::trunc(expected), low, bits == 64 ? high : high - 1);
      }
    }
    if (!near(got[i], expected, 0)) {
      mismatch(std::string("to ") + name(to), x, got[i], expected);
    }
  }
}

// ---- reductions ---------------------------------------------------------------------------------

void run_reduction(Bytes& bytes) {
  enum { sum_, mean_, max_, min_, prod_, var_, logsumexp_, any_, all_, kinds };
  const auto kind = bytes.below(kinds);
  const DType dtype = draw_float(bytes);
  const Operand x = draw_operand(bytes, draw_shape(bytes), dtype, Numbers::moderate);
  const std::size_t rank = x.shape().size();
  Dims list;
  std::vector<bool> reduced(rank, false);
  const bool whole = bytes.flag();
  for (std::size_t d = 0; d < rank; ++d) {
    reduced[d] = whole || bytes.flag();
    if (reduced[d]) list.push_back(static_cast<std::int64_t>(d));
  }
  const Axes axes = whole ? Axes() : Axes(list);
  const bool keepdims = bytes.flag();
  const auto call = [&]() -> Tensor {
    switch (kind) {
      case sum_:
        return sum(x.tensor, axes, keepdims);
      case mean_:
        return mean(x.tensor, axes, keepdims);
      case max_:
        return max_reduce(x.tensor, axes, keepdims);
      case min_:
        return min_reduce(x.tensor, axes, keepdims);
      case prod_:
        return prod(x.tensor, axes, keepdims);
      case var_:
        return var(x.tensor, axes, 0, keepdims);
      case logsumexp_:
        return logsumexp(x.tensor, axes, keepdims);
      case any_:
        return any(x.tensor, axes, keepdims);
      default:
        return all(x.tensor, axes, keepdims);
    }
  };
  const std::vector<double> got = call().to(float64).to_vector<double>();
  std::vector<std::vector<double>> groups(got.size());
  for (std::int64_t i = 0; i < count_of(x.shape()); ++i) {
    std::int64_t rest = i, position = 0, step = 1;
    for (std::size_t d = rank; d-- > 0;) {
      const std::int64_t at = rest % x.shape()[d];
      rest /= x.shape()[d];
      if (reduced[d]) continue;
      position += at * step;
      step *= x.shape()[d];
    }
    groups[static_cast<std::size_t>(position)].push_back(x.values[static_cast<std::size_t>(i)]);
  }
  const double epsilon = epsilon_of(dtype);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& group = groups[g];
    const auto n = static_cast<double>(group.size());
    Wide total = 0, magnitude = 0, product = 1;
    double largest = -INFINITY, smallest = INFINITY;
    bool some = false, every = true;
    for (double value : group) {
      total += value;
      magnitude += std::fabs(static_cast<Wide>(value));
      product *= static_cast<Wide>(value);
      largest = std::max(largest, value);
      smallest = std::min(smallest, value);
      some = some || value != 0;
      every = every && value != 0;
    }
    Wide expected = 0, allowed = 0;
    switch (kind) {
      case sum_:
        expected = total;
        allowed = 2 * epsilon * magnitude;
        break;
      case mean_:
        expected = total / n;
        allowed = 2 * epsilon * magnitude / n;
        break;
      case max_:
        expected = largest;
        break;
      case min_:
        expected = smallest;
        break;
      case prod_:
        expected = compare::rounded_to(compare::format_of(dtype), product);
        // The order of factors decides whether an intermediate product overflows.
        if (!std::isfinite(expected) || std::fabs(expected) < 1e-30) continue;
        allowed = (n + 1) * epsilon * std::fabs(product);
        break;
      case var_: {
        Wide squares = 0;
        for (Wide value : group) squares += (value - total / n) * (value - total / n);
        expected = squares / n;
        allowed = 4 * epsilon * (expected + 1e-6);
        break;
      }
      case logsumexp_: {
        Wide exponentials = 0;
        for (Wide value : group) exponentials += std::exp(value - largest);
        expected = group.empty() ? -INFINITY : largest + std::log(exponentials);
        allowed = 4 * epsilon * (1 + std::fabs(largest));
        break;
      }
      case any_:
        expected = some ? 1 : 0;
        break;
      default:
        expected = every ? 1 : 0;
    }
    if (!near(got[g], expected, allowed + least_unit(dtype))) {
      mismatch("reduction " + std::to_string(kind), x, got[g], expected);
    }
  }
}

void run_softmax(Bytes& bytes) {
  const bool logarithm = bytes.flag();
  const DType dtype = draw_float(bytes);
  const Operand x = draw_operand(bytes, draw_shape(bytes), dtype, Numbers::moderate);
  const std::int64_t rank = std::max<std::int64_t>(1, x.tensor.ndim());
  const std::int64_t axis = bytes.below(rank);
  const Tensor y = logarithm ? log_softmax(x.tensor, axis) : softmax(x.tensor, axis);
  const std::vector<double> got = compare::values_of(y);
  const Shape shape = x.tensor.ndim() == 0 ? Shape{1} : x.shape();
  std::int64_t inner = 1;
  for (std::size_t d = static_cast<std::size_t>(axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  const std::int64_t length = shape[static_cast<std::size_t>(axis)];
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(got.size()); ++i) {
    const std::int64_t first = i / (length * inner) * (length * inner) + i % inner;
    double largest = -INFINITY;
    Wide total = 0;
    for (std::int64_t k = 0; k < length; ++k) {
      largest = std::max(largest, x.values[static_cast<std::size_t>(first + k * inner)]);
    }
    for (std::int64_t k = 0; k < length; ++k) {
      total += std::exp(Wide{x.values[static_cast<std::size_t>(first + k * inner)]} - largest);
    }
    const Wide shifted = Wide{x.values[static_cast<std::size_t>(i)]} - largest;
    const Wide expected = logarithm ? shifted - std::log(total) : std::exp(shifted) / total;
    const Wide allowed = 4 * epsilon_of(dtype) * (logarithm ? 1 + std::fabs(expected) : 1);
    if (!near(got[static_cast<std::size_t>(i)], expected, allowed + least_unit(dtype))) {
      mismatch(logarithm ? "log_softmax" : "softmax", x, got[static_cast<std::size_t>(i)],
               expected);
    }
  }
}

// ---- products -----------------------------------------------------------------------------------

void run_matmul(Bytes& bytes) {
  constexpr std::int64_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 17, 33, 0, 5, 6};
  const std::int64_t m = sizes[bytes.below(12)], n = sizes[bytes.below(12)],
                     k = sizes[bytes.below(12)];
  const DType dtype = draw_float(bytes);
  Shape batch;
  for (std::int64_t d = bytes.below(3); d > 0; --d) batch.push_back(1 + bytes.below(3));
  Shape a_shape = draw_part(bytes, batch), b_shape = draw_part(bytes, batch);
  a_shape.push_back(m);
  a_shape.push_back(k);
  b_shape.push_back(k);
  b_shape.push_back(n);
  const Operand a = draw_operand(bytes, a_shape, dtype, Numbers::moderate);
  const Operand b = draw_operand(bytes, b_shape, dtype, Numbers::moderate);
  const Tensor c = matmul(a.tensor, b.tensor);
  const std::vector<double> got = compare::values_of(c);
  const auto leading = [](const Shape& shape) {
    Shape result = shape;
    result.resize(shape.size() - 2);
    return result;
  };
  const Shape products = leading(c.shape());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(got.size()); ++i) {
    const std::int64_t product = i / (m * n), row = i / n % m, column = i % n;
    const std::int64_t in_a = broadcast_position(leading(a_shape), products, product);
    const std::int64_t in_b = broadcast_position(leading(b_shape), products, product);
    Wide expected = 0, magnitude = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const Wide term = Wide{a.values[static_cast<std::size_t>((in_a * m + row) * k + j)]} *
                        b.values[static_cast<std::size_t>((in_b * k + j) * n + column)];
      expected += term;
      magnitude += std::fabs(term);
    }
    const Wide float32_sum = dtype == float64 ? 0 : static_cast<double>(k) * 0x1p-24 * magnitude;
    const Wide allowed = epsilon_of(dtype) * (std::fabs(expected) + magnitude) + float32_sum;
    if (!near(got[static_cast<std::size_t>(i)], expected, allowed + least_unit(dtype))) {
      mismatch("matmul", a, got[static_cast<std::size_t>(i)], expected);
    }
  }
}

// ---- the database -------------------------------------------------------------------------------

void run_sample(Bytes& bytes) {
  const auto& ops = op_database::ops();
  const auto& op =
      ops[static_cast<std::size_t>(bytes.below(static_cast<std::int64_t>(ops.size())))];
  op_database::check_drawn(
      op, [&](std::int64_t count) { return bytes.below(count); },
      [&](const op_database::Check& check, const op_database::CheckResult& result) {
        if (result.passed) return;
        std::fprintf(stderr, "MISMATCH %s %s, %s, %s, %s: %s\n", op.name.c_str(),
                     check.sample.c_str(), extensor::name(check.dtype), layouts::name(check.layout),
                     op_database::name(check.kind), result.message.c_str());
        std::abort();
      });
}

// ---- bad programs -------------------------------------------------------------------------------

// Shapes, axes and indices that may not fit: the result is an Error or any tensor.
void run_unchecked(Bytes& bytes) {
  const Operand a = draw_operand(bytes, draw_shape(bytes), draw_dtype(bytes), Numbers::any);
  const Operand b = draw_operand(bytes, draw_shape(bytes), draw_dtype(bytes), Numbers::any);
  const std::int64_t axis = bytes.below(9) - 4, other = bytes.below(11) - 5;
  const auto shape = draw_shape(bytes);
  switch (bytes.below(16)) {
    case 0:
      (void)add(a.tensor, b.tensor);
      return;
    case 1:
      (void)matmul(a.tensor, b.tensor);
      return;
    case 2:
      (void)a.tensor.reshape(shape);
      return;
    case 3:
      (void)a.tensor.broadcast_to(shape);
      return;
    case 4:
      (void)sum(a.tensor, {axis, other});
      return;
    case 5:
      (void)a.tensor.slice(axis, other, bytes.below(20) - 10, bytes.below(9) - 4);
      return;
    case 6:
      (void)concatenate({a.tensor, b.tensor}, axis);
      return;
    case 7:
      (void)a.tensor.transpose({axis, other});
      return;
    case 8:
      (void)softmax_backward(a.tensor, b.tensor, axis);
      return;
    case 9:
      (void)multiply_backward(a.tensor, b.tensor, a.tensor);
      return;
    case 10:
      (void)a.tensor.squeeze(axis);
      return;
    case 11: {
      Tensor target = a.tensor;
      target += b.tensor;
      return;
    }
    case 12:
      (void)split(a.tensor, other, axis);
      return;
    case 13:
      (void)modulo(a.tensor, b.tensor);
      return;
    case 14:
      (void)where(a.tensor, b.tensor, b.tensor);
      return;
    default:
      (void)a.tensor[{axis, Slice{other, {}, axis}}];
  }
}

void run_program(Bytes& bytes) {
  using Kind = void (*)(Bytes&);
  constexpr Kind kinds[] = {run_unary,   run_binary, run_cast,   run_reduction,
                            run_softmax, run_matmul, run_sample, run_unchecked};
  kinds[bytes.below(std::size(kinds))](bytes);
}

}  // namespace
}  // namespace extensor::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  extensor::fuzz::Bytes bytes(data, size);
  try {
    extensor::fuzz::run_program(bytes);
  } catch (const extensor::Error&) {
    // A typed error, as promised for bad input.
  }
  return 0;
}
