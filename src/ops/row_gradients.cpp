#include "ops/row_gradients.h"

#include <array>

namespace extensor {

namespace expression {
namespace {

// The words that lanes-inl.h has for values, in a form that differentiates without cancellation,
// and without an infinity where select drops it.

// sigmoid is the small one of s and 1 − s: the derivative of its row, y · (1 − y), is accurate
// where y is at most one half.
inline Dual logistic(const Dual& x) {
  const auto negative = x < 0;
  const Dual small = sigmoid(select(negative, x, -x));
  return select(negative, small, 1 - small);
}
inline Dual gelu_tanh_gate(const Dual&, const Dual& twice_z) { return logistic(twice_z); }
inline Dual logaddexp_share(const Dual& a, const Dual& b) {
  const Dual difference = a - b;
  return logistic(select(isnan(difference) && a == b, 0, difference));
}
inline Dual exp_of_negative(const Dual& x) { return exp(select(x > 0, 0, x)); }
// a / hypot(a, b), which is sign(a) / hypot(1, b / a) where |a| is the larger; 0 at the origin.
inline Dual over_hypot(const Dual& a, const Dual& b) {
  const auto a_is_larger = abs(a) > abs(b);
  const Dual ratio = b / select(a_is_larger, a, 1);
  const Dual h = hypot(a, b);
  const Dual b_is_larger = select(h == 0, 0, a / select(h == 0, 1, h));
  return select(a_is_larger, sign(a) / hypot(1, ratio), b_is_larger);
}
inline Dual over_square_of_hypot(const Dual& numerator, const Dual& a, const Dual& b) {
  const Dual h = hypot(a, b), divisor = select(h == 0, 1, h);
  return select(h == 0, 0, numerator / divisor / divisor);
}

#define EXTENSOR_WORD inline
#include "backend/row_words.h"
#undef EXTENSOR_WORD

// clang-format off
#define EXTENSOR_SAFE const Safe<Dual> safe{Dual(parameters[0])};
#define EXTENSOR_PARAMETER(index, parameter) [[maybe_unused]] const Dual parameter(parameters[index]);

#define EXTENSOR_UNARY(name, saved, backward, PARAMETERS)                                          \
  Dual name##_backward_row([[maybe_unused]] const double* parameters, [[maybe_unused]] const Dual& g, \
                           [[maybe_unused]] const Dual& saved) {                                   \
    PARAMETERS                                                                                     \
    return backward;                                                                               \
  }
#define UNARY(name, lo_, hi_, kinks, saved, forward, backward) EXTENSOR_UNARY(name, saved, backward, )
#define UNARY_EPS(name, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, backward, EXTENSOR_SAFE)
#define UNARY_1(name, p, p_default, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, backward, EXTENSOR_PARAMETER(0, p))
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, backward, EXTENSOR_PARAMETER(0, p) EXTENSOR_PARAMETER(1, q))
#define UNARY_2_NUMERIC(name, p, q, ...) UNARY_2(name, p, 0, q, 0, __VA_ARGS__)
#include "extensor/tables/unary.def"
#undef EXTENSOR_UNARY

#define EXTENSOR_GRADIENT(row, PARAMETERS, expression)                                             \
  Dual row([[maybe_unused]] const double* parameters, [[maybe_unused]] const Dual& g,              \
           [[maybe_unused]] const Dual& a, [[maybe_unused]] const Dual& b) {                       \
    PARAMETERS                                                                                     \
    return expression;                                                                             \
  }
#define EXTENSOR_BINARY(name, gradient_a, gradient_b, PARAMETERS) \
  EXTENSOR_GRADIENT(name##_gradient_a_row, PARAMETERS, gradient_a) \
  EXTENSOR_GRADIENT(name##_gradient_b_row, PARAMETERS, gradient_b)
#define BINARY(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_BINARY(name, gradient_a, gradient_b, )
#define BINARY_EPS(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_BINARY(name, gradient_a, gradient_b, EXTENSOR_SAFE)
#include "extensor/tables/binary.def"
#undef EXTENSOR_BINARY
// clang-format on

}  // namespace
}  // namespace expression

namespace ops {
namespace {

constexpr bool part_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether the expression has this word.
constexpr bool mentions(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !part_of_word(text[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || !part_of_word(text[end]))) return true;
  }
  return false;
}
static_assert(mentions("g * b", "b") && !mentions("g * abs(c)", "b"));

// clang-format off
constexpr UnaryGradient unary_gradients[] = {
#define EXTENSOR_UNARY(name, saved, backward, eps)                                                 \
  {#name "_backward", ElementwiseOp::name, ElementwiseOp::name##_backward,                         \
   std::string_view(#saved) == "y", mentions(#backward, #saved), eps, expression::name##_backward_row},
#define UNARY(name, lo_, hi_, kinks, saved, forward, backward) EXTENSOR_UNARY(name, saved, backward, false)
#define UNARY_EPS(name, lo_, hi_, kinks, saved, forward, backward) EXTENSOR_UNARY(name, saved, backward, true)
#include "extensor/tables/unary.def"
};
constexpr BinaryGradient binary_gradients[] = {
#define EXTENSOR_BINARY(name, gradient_a, gradient_b, eps)                                         \
  {#name "_backward", ElementwiseOp::name,                                                         \
   {ElementwiseOp::name##_gradient_a, ElementwiseOp::name##_gradient_b},                           \
   {#gradient_a, #gradient_b},                                                                     \
   {{mentions(#gradient_a, "a"), mentions(#gradient_a, "b")},                                      \
    {mentions(#gradient_b, "a"), mentions(#gradient_b, "b")}},                                     \
   eps, {expression::name##_gradient_a_row, expression::name##_gradient_b_row}},
#define BINARY(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_BINARY(name, gradient_a, gradient_b, false)
#define BINARY_EPS(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_BINARY(name, gradient_a, gradient_b, true)
#include "extensor/tables/binary.def"
};
// clang-format on

using Roles = std::array<RowRole, backend::elementwise_op_count>;

constexpr Roles make_roles() {
  Roles roles;
  const auto at = [&](ElementwiseOp op) -> RowRole& { return roles[static_cast<std::size_t>(op)]; };
  for (const UnaryGradient& row : unary_gradients) {
    at(row.forward) = {&row, nullptr, -1};
    at(row.backward) = {&row, nullptr, 0};
  }
  for (const BinaryGradient& row : binary_gradients) {
    at(row.forward) = {nullptr, &row, -1};
    for (int k = 0; k < 2; ++k) at(row.gradients[k]) = {nullptr, &row, k};
  }
  return roles;
}

constexpr Roles roles = make_roles();

}  // namespace

const RowRole& row_role(ElementwiseOp op) { return roles[static_cast<std::size_t>(op)]; }

}  // namespace ops
}  // namespace extensor
