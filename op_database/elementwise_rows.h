// Every row of the op tables as data and functions over tensors, generated from the tables: all
// users of these lists test a new row without another edit. elementwise.cpp makes the entries of
// the op database from them; tests that need more than the database use them directly.
#pragma once

#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace extensor::op_database {

using extensor::Scalar;
using extensor::Shape;
using extensor::Tensor;

// Where the derivative of a row of one tensor jumps.
struct Kinks {
  std::vector<double> points;
  bool every_half = false;

  double distance(double x) const {
    double nearest = every_half ? std::fabs(x - std::round(2 * x) / 2) : INFINITY;
    for (double point : points) nearest = std::fmin(nearest, std::fabs(x - point));
    return nearest;
  }
};

struct UnaryRow {
  std::string name;
  std::string label;  // the name and the variant
  double lo, hi;      // the domain
  Kinks kinks;
  bool saves_result;  // the backward reads the result y, not the input x
  bool numeric;       // defined on integers too
  std::vector<double> parameters;
  std::string formula, gradient;  // as the table writes them
  std::function<Tensor(const Tensor&)> forward;
  std::function<Tensor&(Tensor&)> in_place;
  std::function<Tensor(const Tensor& grad_output, const Tensor& saved)> backward;
  // The gradients of grad_output and of the saved tensor.
  std::function<std::pair<Tensor, Tensor>(const Tensor& grad_grad_x, const Tensor& grad_output,
                                          const Tensor& saved)>
      double_backward;
  // Null if the backward has no eps.
  std::function<Tensor(const Tensor& grad_output, const Tensor& saved, double eps)> backward_eps;

  Tensor saved(const Tensor& x) const { return saves_result ? forward(x) : x; }
};

struct BinaryRow {
  std::string name;
  double lo, hi;
  // Does not change its sign where the derivative is continuous.
  std::function<double(double a, double b)> kink;
  bool numeric;
  bool divides;                                 // an integer divisor of 0 is a ValueError
  std::string formula, gradient_a, gradient_b;  // as the table writes them
  std::function<Tensor(const Tensor&, const Tensor&)> forward;
  std::function<Tensor(const Tensor&, const Scalar&)> forward_right;
  std::function<Tensor(const Scalar&, const Tensor&)> forward_left;
  std::function<Tensor&(Tensor&, const Tensor&)> in_place;
  std::function<Tensor&(Tensor&, const Scalar&)> in_place_scalar;
  using Gradients = std::pair<Tensor, Tensor>;
  std::function<Gradients(const Tensor& g, const Tensor& a, const Tensor& b)> backward;
  // Gradients are undefined where the backward does not depend on the operand, as for a sum.
  std::function<extensor::DoubleGradients(const Tensor& grad_grad_a, const Tensor& grad_grad_b,
                                          const Tensor& g, const Tensor& a, const Tensor& b)>
      double_backward;
  std::function<Gradients(const Tensor& g, const Tensor& a, const Tensor& b, double eps)>
      backward_eps;
};

struct CompareRow {
  std::string name;
  std::string formula;
  std::function<Tensor(const Tensor&, const Tensor&)> forward;
  std::function<Tensor(const Tensor&, const Scalar&)> forward_right;
  std::function<Tensor(const Scalar&, const Tensor&)> forward_left;
};

struct PredicateRow {
  std::string name;
  std::string formula;
  std::function<Tensor(const Tensor&)> forward;
};

struct BitwiseRow {
  std::string name;
  std::string formula;
  bool shifts;
  std::function<Tensor(const Tensor&, const Tensor&)> forward;
  std::function<Tensor&(Tensor&, const Tensor&)> in_place;
};

// Prints a parameter of GoogleTest.
inline void PrintTo(const UnaryRow& row, std::ostream* stream) { *stream << row.label; }
inline void PrintTo(const BinaryRow& row, std::ostream* stream) { *stream << row.name; }

namespace detail {

// The words of the tables' kinks column. In a row of two tensors they define a function of a and b.
namespace unary_words {
template <class... Points>
Kinks kinks(Points... points) {
  return {{static_cast<double>(points)...}, false};
}
inline const Kinks every_half{{}, true};
}  // namespace unary_words

namespace binary_words {
using std::round;  // the table's expressions are in double here
inline double kinks() { return 1; }
inline double along(double f) { return f; }
}  // namespace binary_words

inline bool is_result(const std::string& saved) { return saved == "y"; }

// Parameters other than the defaults, to detect a kernel that ignores them.
inline double altered(double parameter) { return 0.6 * parameter; }
// The order of a derivative must stay an integer.
inline double altered(const std::string& name, double parameter) {
  return name == "polygamma" ? parameter + 1 : altered(parameter);
}
// A row without defaults gets bounds inside its domain.
inline double lower_part(double lo, double hi) { return lo + (hi - lo) * 0.3125; }
inline double upper_part(double lo, double hi) { return lo + (hi - lo) * 0.75; }

}  // namespace detail

// clang-format off

inline std::vector<UnaryRow> unary_rows() {
  using namespace detail::unary_words;
  using List = std::vector<double>;
  std::vector<UnaryRow> rows;
// ARGUMENTS are those after the tensors, each preceded by its comma.
#define EXTENSOR_ROW(name, label, lo_, hi_, kinks_, saved, numeric, parameters, forward_, backward_, ARGUMENTS) \
  rows.push_back({#name, label, lo_, hi_, kinks_, detail::is_result(#saved), numeric, parameters,   \
                  #forward_, #backward_,                                                            \
                  [=](const Tensor& x) { return extensor::name(x ARGUMENTS); },                     \
                  [=](Tensor& x) -> Tensor& { return extensor::name##_(x ARGUMENTS); },             \
                  [=](const Tensor& g, const Tensor& s) { return extensor::name##_backward(g, s ARGUMENTS); }, \
                  [=](const Tensor& gg, const Tensor& g, const Tensor& s) {                         \
                    return extensor::name##_double_backward(gg, g, s ARGUMENTS);                    \
                  },                                                                                \
                  nullptr});
#define EXTENSOR_COMMA ,
#define UNARY(name, lo, hi, kinks_, saved, forward_, backward_) \
  EXTENSOR_ROW(name, #name, lo, hi, kinks_, saved, false, List{}, forward_, backward_, )
#define UNARY_NUMERIC(name, lo, hi, kinks_, saved, forward_, backward_) \
  EXTENSOR_ROW(name, #name, lo, hi, kinks_, saved, true, List{}, forward_, backward_, )
#define UNARY_EPS(name, lo, hi, kinks_, saved, forward_, backward_)                                 \
  UNARY(name, lo, hi, kinks_, saved, forward_, backward_)                                           \
  rows.back().backward_eps = [](const Tensor& g, const Tensor& s, double eps) {                     \
    return extensor::name##_backward(g, s, eps);                                                    \
  };
#define UNARY_1(name, p, p_default, lo, hi, kinks_, saved, forward_, backward_)                     \
  {                                                                                                 \
    [[maybe_unused]] const double p = p_default;                                                    \
    EXTENSOR_ROW(name, #name, lo, hi, kinks_, saved, false, List{p}, forward_, backward_, )         \
  }                                                                                                 \
  {                                                                                                 \
    const double p = detail::altered(#name, p_default);                                             \
    EXTENSOR_ROW(name, #name "_altered", lo, hi, kinks_, saved, false, List{p}, forward_, backward_, EXTENSOR_COMMA p) \
  }
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks_, saved, forward_, backward_)     \
  {                                                                                                 \
    [[maybe_unused]] const double p = p_default, q = q_default;                                     \
    EXTENSOR_ROW(name, #name, lo_, hi_, kinks_, saved, false, (List{p, q}), forward_, backward_, )  \
  }                                                                                                 \
  {                                                                                                 \
    const double p = detail::altered(p_default), q = detail::altered(q_default);                    \
    EXTENSOR_ROW(name, #name "_altered", lo_, hi_, kinks_, saved, false, (List{p, q}), forward_, backward_, \
                 EXTENSOR_COMMA p EXTENSOR_COMMA q)                                                 \
  }
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks_, saved, forward_, backward_)                   \
  {                                                                                                 \
    const double p = detail::lower_part(lo_, hi_), q = detail::upper_part(lo_, hi_);                \
    EXTENSOR_ROW(name, #name, lo_, hi_, kinks_, saved, true, (List{p, q}), forward_, backward_,     \
                 EXTENSOR_COMMA p EXTENSOR_COMMA q)                                                 \
  }
#include "extensor/tables/unary.def"
#undef EXTENSOR_ROW
#undef EXTENSOR_COMMA
  return rows;
}

inline std::vector<BinaryRow> binary_rows() {
  using namespace detail::binary_words;
  std::vector<BinaryRow> rows;
#define EXTENSOR_ROW(name, lo, hi, kinks, numeric, divides, forward_, gradient_a_, gradient_b_)     \
  rows.push_back({#name, lo, hi,                                                                    \
                  []([[maybe_unused]] double a, [[maybe_unused]] double b) -> double { return kinks; }, \
                  numeric, divides, #forward_, #gradient_a_, #gradient_b_,                          \
                  [](const Tensor& a, const Tensor& b) { return extensor::name(a, b); },            \
                  [](const Tensor& a, const Scalar& b) { return extensor::name(a, b); },            \
                  [](const Scalar& a, const Tensor& b) { return extensor::name(a, b); },            \
                  [](Tensor& a, const Tensor& b) -> Tensor& { return extensor::name##_(a, b); },    \
                  [](Tensor& a, const Scalar& b) -> Tensor& { return extensor::name##_(a, b); },    \
                  nullptr, nullptr, nullptr});
#define EXTENSOR_BACKWARD(name)                                                                     \
  rows.back().backward = [](const Tensor& g, const Tensor& a, const Tensor& b) {                    \
    return extensor::name##_backward(g, a, b);                                                      \
  };                                                                                                \
  rows.back().double_backward = [](const Tensor& gga, const Tensor& ggb, const Tensor& g,           \
                                   const Tensor& a, const Tensor& b) {                              \
    return extensor::name##_double_backward(gga, ggb, g, a, b);                                     \
  };
#define EXTENSOR_BACKWARD_EPS(name)                                                                 \
  EXTENSOR_BACKWARD(name)                                                                           \
  rows.back().backward_eps = [](const Tensor& g, const Tensor& a, const Tensor& b, double eps) {    \
    return extensor::name##_backward(g, a, b, eps);                                                 \
  };
#define BINARY(name, lo, hi, kinks, ...) \
  EXTENSOR_ROW(name, lo, hi, kinks, false, false, __VA_ARGS__) EXTENSOR_BACKWARD(name)
#define BINARY_NUMERIC(name, lo, hi, kinks, ...) \
  EXTENSOR_ROW(name, lo, hi, kinks, true, false, __VA_ARGS__) EXTENSOR_BACKWARD(name)
#define BINARY_DIVISION(name, lo, hi, kinks, ...) \
  EXTENSOR_ROW(name, lo, hi, kinks, true, true, __VA_ARGS__) EXTENSOR_BACKWARD(name)
#define BINARY_EPS(name, lo, hi, kinks, ...) \
  EXTENSOR_ROW(name, lo, hi, kinks, false, false, __VA_ARGS__) EXTENSOR_BACKWARD_EPS(name)
#define BINARY_NUMERIC_EPS(name, lo, hi, kinks, ...) \
  EXTENSOR_ROW(name, lo, hi, kinks, true, false, __VA_ARGS__) EXTENSOR_BACKWARD_EPS(name)
#define BINARY_LINEAR(name, lo, hi, kinks, ...)                                                     \
  EXTENSOR_ROW(name, lo, hi, kinks, true, false, __VA_ARGS__)                                       \
  rows.back().backward = [](const Tensor& g, const Tensor& a, const Tensor& b) {                    \
    return extensor::name##_backward(g, a.shape(), b.shape());                                      \
  };                                                                                                \
  rows.back().double_backward = [](const Tensor& gga, const Tensor& ggb, const Tensor&,             \
                                   const Tensor& a, const Tensor& b) {                              \
    return extensor::DoubleGradients{                                                               \
        extensor::name##_double_backward(gga, ggb, a.shape(), b.shape()), {}, {}};                  \
  };
#include "extensor/tables/binary.def"
#undef EXTENSOR_ROW
#undef EXTENSOR_BACKWARD
#undef EXTENSOR_BACKWARD_EPS
  return rows;
}

inline std::vector<CompareRow> compare_rows() {
  std::vector<CompareRow> rows;
#define COMPARE(name, formula)                                                                      \
  rows.push_back({#name, #formula,                                                                  \
                  [](const Tensor& a, const Tensor& b) { return extensor::name(a, b); },            \
                  [](const Tensor& a, const Scalar& b) { return extensor::name(a, b); },            \
                  [](const Scalar& a, const Tensor& b) { return extensor::name(a, b); }});
#include "extensor/tables/logical.def"
  return rows;
}

inline std::vector<PredicateRow> predicate_rows() {
  std::vector<PredicateRow> rows;
#define PREDICATE(name, formula) \
  rows.push_back({#name, #formula, [](const Tensor& x) { return extensor::name(x); }});
#include "extensor/tables/logical.def"
  return rows;
}
inline std::vector<PredicateRow> bitwise_unary_rows() {
  std::vector<PredicateRow> rows;
#define BITWISE_UNARY(name, formula) \
  rows.push_back({#name, #formula, [](const Tensor& x) { return extensor::name(x); }});
#include "extensor/tables/logical.def"
  return rows;
}

inline std::vector<BitwiseRow> bitwise_rows() {
  std::vector<BitwiseRow> rows;
#define EXTENSOR_ROW(name, formula, shifts)                                                         \
  rows.push_back({#name, #formula, shifts,                                                          \
                  [](const Tensor& a, const Tensor& b) { return extensor::name(a, b); },            \
                  [](Tensor& a, const Tensor& b) -> Tensor& { return extensor::name##_(a, b); }});
#define BITWISE(name, formula) EXTENSOR_ROW(name, formula, false)
#define SHIFT(name, formula) EXTENSOR_ROW(name, formula, true)
#include "extensor/tables/logical.def"
#undef EXTENSOR_ROW
  return rows;
}

// clang-format on

}  // namespace extensor::op_database
