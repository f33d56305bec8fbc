#include "ops/complex_gradient.h"

#include <cmath>
#include <numbers>

#include "core/check.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"

namespace extensor::ops {

using backend::ElementwiseOp;
using detail::message;

namespace {

// g / conj(d) and g · conj(derivative).
Tensor over(const Tensor& g, const Tensor& d) { return divide(g, conj(d)); }
Tensor times(const Tensor& g, const Tensor& derivative) { return multiply(g, conj(derivative)); }

// The direction of z, and 0 at 0. Its length does not change with |z|, so that the gradient is the
// part of g that is orthogonal to z, divided by |z|.
Tensor sign_gradient(const Tensor& g, const Tensor& z) {
  const Tensor length = abs(z), at_zero = equal(length, 0);
  const Tensor y = sign(z);
  const Tensor along = real(multiply(g, conj(y)));
  const Tensor across = subtract(g, multiply(y, along));
  return where(at_zero, 0, divide(across, where(at_zero, 1, length)));
}

// b · a^(b − 1), and 0 where b is 0.
Tensor power_base(const Tensor& a, const Tensor& b) {
  const Tensor constant = equal(b, 0);
  return where(constant, 0, multiply(b, power(a, where(constant, 1, subtract(b, 1)))));
}

// a^b · log a, and 0 at a = 0 where the real part of b is 0 or more.
Tensor power_exponent(const Tensor& a, const Tensor& b) {
  const Tensor vanishes = equal(a, 0) & greater_equal(real(b), 0);
  return where(vanishes, 0, multiply(power(a, b), log(where(vanishes, 1, a))));
}

// √(1 − x²) and √(x² − 1), on the side of their branch cuts on which asin and acosh are: x − (−1)
// keeps the sign of a zero imaginary part, which 1 − x² and x + 1 lose.
Tensor root_of_one_minus_square(const Tensor& x) {
  return multiply(sqrt(negative(subtract(x, 1))), sqrt(subtract(x, -1)));
}
Tensor root_of_square_minus_one(const Tensor& x) {
  return multiply(sqrt(subtract(x, 1)), sqrt(subtract(x, -1)));
}

[[noreturn]] void throw_no_gradient(ElementwiseOp row) {
  throw DTypeError(message("gradient: a complex row has none (number ", static_cast<int>(row),
                           " in the tables)"));
}

// x times i. A product would lose signs of zeros.
Tensor turned(const Tensor& x) { return complex(negative(imag(x)), real(x)); }

}  // namespace

bool complex_gradient_reads(ElementwiseOp row, std::size_t k) {
  switch (row) {
    case ElementwiseOp::copy:
    case ElementwiseOp::positive:
    case ElementwiseOp::negative:
    case ElementwiseOp::add:
    case ElementwiseOp::subtract:
      return false;
    case ElementwiseOp::where:
      return k == 0;
    default:
      return true;
  }
}

Tensor complex_unary_gradient(const UnaryGradient& row, const Tensor& g, const Tensor& saved) {
  if (row.forward == ElementwiseOp::round) return zeros_like(saved);
  if (!row.saves_result) {
    return complex_gradient(row.forward, 0, g, [&](std::size_t) { return saved; });
  }
  const Tensor& y = saved;
  switch (row.forward) {
    case ElementwiseOp::exp:
      return times(g, y);
    case ElementwiseOp::exp2:
      return times(multiply(g, std::numbers::ln2), y);
    case ElementwiseOp::sqrt:
      return over(divide(g, 2), y);
    case ElementwiseOp::tan:
      return times(g, add(square(y), 1));
    case ElementwiseOp::tanh:
      return times(g, subtract(1, square(y)));
    default:
      throw_no_gradient(row.forward);
  }
}

Tensor complex_gradient(ElementwiseOp row, std::size_t k, const Tensor& g,
                        const std::function<Tensor(std::size_t)>& operand) {
  switch (row) {
    case ElementwiseOp::copy:
    case ElementwiseOp::positive:
    case ElementwiseOp::add:
      return g;
    case ElementwiseOp::subtract:
      return k == 0 ? g : negative(g);
    case ElementwiseOp::multiply:
      return times(g, operand(1 - k));
    case ElementwiseOp::divide: {
      const Tensor b = operand(1);
      if (k == 0) return over(g, b);
      return negative(over(over(times(g, operand(0)), b), b));
    }
    case ElementwiseOp::power:
      return times(
          g, k == 0 ? power_base(operand(0), operand(1)) : power_exponent(operand(0), operand(1)));
    case ElementwiseOp::where:
      return k == 1 ? where(operand(0), g, 0) : where(operand(0), 0, g);
    default:
      break;
  }
  if (row == ElementwiseOp::negative) return negative(g);
  const Tensor x = operand(0);
  const auto one_plus_square = [&] { return add(square(x), 1); };
  const auto one_minus_square = [&] { return subtract(1, square(x)); };
  switch (row) {
    case ElementwiseOp::abs:
      return multiply(g, sign(x));
    case ElementwiseOp::square:
      return times(multiply(g, 2), x);
    case ElementwiseOp::sign:
      return sign_gradient(g, x);
    case ElementwiseOp::reciprocal:
      return negative(over(over(g, x), x));
    case ElementwiseOp::exp:
      return times(g, exp(x));
    case ElementwiseOp::exp2:
      return times(multiply(g, std::numbers::ln2), exp2(x));
    case ElementwiseOp::expm1:
      return times(g, exp(x));
    case ElementwiseOp::log:
      return over(g, x);
    case ElementwiseOp::log2:
      return over(divide(g, std::numbers::ln2), x);
    case ElementwiseOp::log10:
      return over(divide(g, std::numbers::ln10), x);
    case ElementwiseOp::log1p:
      return over(g, add(x, 1));
    case ElementwiseOp::sqrt:
      return over(divide(g, 2), sqrt(x));
    case ElementwiseOp::rsqrt:
      return over(times(multiply(g, -0.5), rsqrt(x)), x);
    case ElementwiseOp::sin:
      return times(g, cos(x));
    case ElementwiseOp::cos:
      return negative(times(g, sin(x)));
    case ElementwiseOp::tan:
      return times(g, add(square(tan(x)), 1));
    case ElementwiseOp::asin:
      return over(g, root_of_one_minus_square(x));
    case ElementwiseOp::acos:
      return negative(over(g, root_of_one_minus_square(x)));
    case ElementwiseOp::atan:
      return over(g, one_plus_square());
    case ElementwiseOp::sinh:
      return times(g, cosh(x));
    case ElementwiseOp::cosh:
      return times(g, sinh(x));
    case ElementwiseOp::tanh:
      return times(g, subtract(1, square(tanh(x))));
    case ElementwiseOp::asinh:
      return over(g, root_of_one_minus_square(turned(x)));
    case ElementwiseOp::acosh:
      return over(g, root_of_square_minus_one(x));
    case ElementwiseOp::atanh:
      return over(g, one_minus_square());
    default:
      throw_no_gradient(row);
  }
}

}  // namespace extensor::ops
