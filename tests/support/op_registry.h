// Every row of the op tables as data and functions over tensors, generated from the tables alone: a
// new row is tested by whoever walks these lists, with no other edit.
#pragma once

#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "extensor/extensor.h"

namespace op_registry {

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
  std::string label;  // the name, and what sets this variant apart
  double lo, hi;      // the domain
  Kinks kinks;
  bool saves_result;  // the backward reads the result y, not the input x
  bool numeric;       // defined on integers too
  std::vector<double> parameters;
  std::function<Tensor(const Tensor&)> forward;
  std::function<Tensor&(Tensor&)> in_place;
  std::function<Tensor(const Tensor& grad_output, const Tensor& saved)> backward;
  // Null where the backward takes no eps.
  std::function<Tensor(const Tensor& grad_output, const Tensor& saved, double eps)> backward_eps;

  Tensor saved(const Tensor& x) const { return saves_result ? forward(x) : x; }
};

struct BinaryRow {
  std::string name;
  double lo, hi;
  // Keeps its sign where the derivative does not jump.
  std::function<double(double a, double b)> kink;
  bool numeric;
  bool divides;  // an integer divisor of 0 is a ValueError
  std::function<Tensor(const Tensor&, const Tensor&)> forward;
  std::function<Tensor(const Tensor&, const Scalar&)> forward_right;
  std::function<Tensor(const Scalar&, const Tensor&)> forward_left;
  std::function<Tensor&(Tensor&, const Tensor&)> in_place;
  std::function<Tensor&(Tensor&, const Scalar&)> in_place_scalar;
  using Gradients = std::pair<Tensor, Tensor>;
  std::function<Gradients(const Tensor& g, const Tensor& a, const Tensor& b)> backward;
  std::function<Gradients(const Tensor& g, const Tensor& a, const Tensor& b, double eps)>
      backward_eps;
};

struct CompareRow {
  std::string name;
  std::function<Tensor(const Tensor&, const Tensor&)> forward;
  std::function<Tensor(const Tensor&, const Scalar&)> forward_right;
  std::function<Tensor(const Scalar&, const Tensor&)> forward_left;
};

struct PredicateRow {
  std::string name;
  std::function<Tensor(const Tensor&)> forward;
};

struct BitwiseRow {
  std::string name;
  bool shifts;
  std::function<Tensor(const Tensor&, const Tensor&)> forward;
  std::function<Tensor&(Tensor&, const Tensor&)> in_place;
};

// What GoogleTest prints of a parameter.
inline void PrintTo(const UnaryRow& row, std::ostream* stream) { *stream << row.label; }
inline void PrintTo(const BinaryRow& row, std::ostream* stream) { *stream << row.name; }

namespace detail {

// The words of the tables' kinks column. A row of two tensors gives a function of a and b.
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

// Parameters other than the defaults, so that a kernel that ignores them is found out.
inline double altered(double parameter) { return 0.6 * parameter; }
// A row without defaults gets bounds inside its domain.
inline double lower_part(double lo, double hi) { return lo + (hi - lo) * 0.3125; }
inline double upper_part(double lo, double hi) { return lo + (hi - lo) * 0.75; }

}  // namespace detail

// clang-format off

inline std::vector<UnaryRow> unary_rows() {
  using namespace detail::unary_words;
  std::vector<UnaryRow> rows;
#define EXTENSOR_TEST_ROW(name, lo, hi, kinks_, saved, numeric)                                      \
  rows.push_back({#name, #name, lo, hi, kinks_, detail::is_result(#saved), numeric, {},              \
                  [](const Tensor& x) { return extensor::name(x); },                                \
                  [](Tensor& x) -> Tensor& { return extensor::name##_(x); },                        \
                  [](const Tensor& g, const Tensor& s) { return extensor::name##_backward(g, s); }, \
                  nullptr});
#define UNARY(name, lo, hi, kinks_, saved, ...) EXTENSOR_TEST_ROW(name, lo, hi, kinks_, saved, false)
#define UNARY_NUMERIC(name, lo, hi, kinks_, saved, ...) EXTENSOR_TEST_ROW(name, lo, hi, kinks_, saved, true)
#define UNARY_EPS(name, lo, hi, kinks_, saved, ...)                                                  \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks_, saved, false)                                              \
  rows.back().backward_eps = [](const Tensor& g, const Tensor& s, double eps) {                     \
    return extensor::name##_backward(g, s, eps);                                                    \
  };
#define UNARY_1(name, p, p_default, lo, hi, kinks_, saved, ...)                                      \
  EXTENSOR_TEST_ROW(name, lo, hi, Kinks{}, saved, false)                                            \
  {                                                                                                 \
    [[maybe_unused]] double p = p_default;                                                          \
    rows.back().kinks = kinks_;                                                                      \
    rows.back().parameters = {p};                                                                   \
    const double other = p = detail::altered(p_default);                                            \
    rows.push_back({#name, #name "_altered", lo, hi, kinks_, detail::is_result(#saved), false, {other}, \
                    [other](const Tensor& x) { return extensor::name(x, other); },                  \
                    [other](Tensor& x) -> Tensor& { return extensor::name##_(x, other); },          \
                    [other](const Tensor& g, const Tensor& s) {                                     \
                      return extensor::name##_backward(g, s, other);                                \
                    },                                                                              \
                    nullptr});                                                                      \
  }
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks_, saved, ...)                      \
  EXTENSOR_TEST_ROW(name, lo_, hi_, Kinks{}, saved, false)                                          \
  {                                                                                                 \
    [[maybe_unused]] double p = p_default, q = q_default;                                           \
    rows.back().kinks = kinks_;                                                                      \
    rows.back().parameters = {p, q};                                                                \
    const double first = p = detail::altered(p_default), second = q = detail::altered(q_default);   \
    rows.push_back({#name, #name "_altered", lo_, hi_, kinks_, detail::is_result(#saved), false,     \
                    {first, second},                                                                \
                    [=](const Tensor& x) { return extensor::name(x, first, second); },              \
                    [=](Tensor& x) -> Tensor& { return extensor::name##_(x, first, second); },      \
                    [=](const Tensor& g, const Tensor& s) {                                         \
                      return extensor::name##_backward(g, s, first, second);                        \
                    },                                                                              \
                    nullptr});                                                                      \
  }
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks_, saved, ...)                                    \
  {                                                                                                 \
    const double p = detail::lower_part(lo_, hi_), q = detail::upper_part(lo_, hi_);                \
    rows.push_back({#name, #name, lo_, hi_, kinks_, detail::is_result(#saved), true, {p, q},         \
                    [=](const Tensor& x) { return extensor::name(x, p, q); },                       \
                    [=](Tensor& x) -> Tensor& { return extensor::name##_(x, p, q); },               \
                    [=](const Tensor& g, const Tensor& s) {                                         \
                      return extensor::name##_backward(g, s, p, q);                                 \
                    },                                                                              \
                    nullptr});                                                                      \
  }
#include "extensor/tables/unary.def"
#undef EXTENSOR_TEST_ROW
  return rows;
}

inline std::vector<BinaryRow> binary_rows() {
  using namespace detail::binary_words;
  std::vector<BinaryRow> rows;
#define EXTENSOR_TEST_ROW(name, lo, hi, kinks, numeric, divides)                                    \
  rows.push_back({#name, lo, hi,                                                                    \
                  []([[maybe_unused]] double a, [[maybe_unused]] double b) -> double { return kinks; }, \
                  numeric, divides,                                                                 \
                  [](const Tensor& a, const Tensor& b) { return extensor::name(a, b); },            \
                  [](const Tensor& a, const Scalar& b) { return extensor::name(a, b); },            \
                  [](const Scalar& a, const Tensor& b) { return extensor::name(a, b); },            \
                  [](Tensor& a, const Tensor& b) -> Tensor& { return extensor::name##_(a, b); },    \
                  [](Tensor& a, const Scalar& b) -> Tensor& { return extensor::name##_(a, b); },    \
                  nullptr, nullptr});
#define EXTENSOR_TEST_BACKWARD(name)                                                                \
  rows.back().backward = [](const Tensor& g, const Tensor& a, const Tensor& b) {                    \
    return extensor::name##_backward(g, a, b);                                                      \
  };
#define EXTENSOR_TEST_BACKWARD_EPS(name)                                                            \
  EXTENSOR_TEST_BACKWARD(name)                                                                      \
  rows.back().backward_eps = [](const Tensor& g, const Tensor& a, const Tensor& b, double eps) {    \
    return extensor::name##_backward(g, a, b, eps);                                                 \
  };
#define BINARY(name, lo, hi, kinks, ...) \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks, false, false) EXTENSOR_TEST_BACKWARD(name)
#define BINARY_NUMERIC(name, lo, hi, kinks, ...) \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks, true, false) EXTENSOR_TEST_BACKWARD(name)
#define BINARY_DIVISION(name, lo, hi, kinks, ...) \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks, true, true) EXTENSOR_TEST_BACKWARD(name)
#define BINARY_EPS(name, lo, hi, kinks, ...) \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks, false, false) EXTENSOR_TEST_BACKWARD_EPS(name)
#define BINARY_NUMERIC_EPS(name, lo, hi, kinks, ...) \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks, true, false) EXTENSOR_TEST_BACKWARD_EPS(name)
#define BINARY_LINEAR(name, lo, hi, kinks, ...)                                                     \
  EXTENSOR_TEST_ROW(name, lo, hi, kinks, true, false)                                               \
  rows.back().backward = [](const Tensor& g, const Tensor& a, const Tensor& b) {                    \
    return extensor::name##_backward(g, a.shape(), b.shape());                                      \
  };
#include "extensor/tables/binary.def"
#undef EXTENSOR_TEST_ROW
#undef EXTENSOR_TEST_BACKWARD
#undef EXTENSOR_TEST_BACKWARD_EPS
  return rows;
}

inline std::vector<CompareRow> compare_rows() {
  std::vector<CompareRow> rows;
#define COMPARE(name, ...)                                                                          \
  rows.push_back({#name, [](const Tensor& a, const Tensor& b) { return extensor::name(a, b); },     \
                  [](const Tensor& a, const Scalar& b) { return extensor::name(a, b); },            \
                  [](const Scalar& a, const Tensor& b) { return extensor::name(a, b); }});
#include "extensor/tables/logical.def"
  return rows;
}

inline std::vector<PredicateRow> predicate_rows() {
  std::vector<PredicateRow> rows;
#define PREDICATE(name, ...) rows.push_back({#name, [](const Tensor& x) { return extensor::name(x); }});
#include "extensor/tables/logical.def"
  return rows;
}

inline std::vector<BitwiseRow> bitwise_rows() {
  std::vector<BitwiseRow> rows;
#define EXTENSOR_TEST_ROW(name, shifts)                                                             \
  rows.push_back({#name, shifts, [](const Tensor& a, const Tensor& b) { return extensor::name(a, b); }, \
                  [](Tensor& a, const Tensor& b) -> Tensor& { return extensor::name##_(a, b); }});
#define BITWISE(name, ...) EXTENSOR_TEST_ROW(name, false)
#define SHIFT(name, ...) EXTENSOR_TEST_ROW(name, true)
#include "extensor/tables/logical.def"
#undef EXTENSOR_TEST_ROW
  return rows;
}

// clang-format on

}  // namespace op_registry
