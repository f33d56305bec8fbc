#include "ops/row_gradients.h"

#include <algorithm>
#include <array>

namespace extensor {

namespace expression {
namespace {

// The functions that lanes-inl.h defines for values, in a form that differentiates without
// cancellation and without infinities in branches that select discards.

// Computes the smaller of s and 1 − s by sigmoid, whose derivative y · (1 − y) is accurate for y ≤
// 1/2.
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
inline Dual polygamma(const Dual& x, const Dual& n) {
  return expression::polygamma(x, n.value().number());
}
inline Dual exp_of_negative(const Dual& x) { return exp(select(x > 0, 0, x)); }
// a / hypot(a, b), computed as sign(a) / hypot(1, b / a) if |a| is the larger; 0 at the origin.
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

// Whether the expression contains this word.
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
#define EXTENSOR_UNARY(name, saved, backward, eps, p, q)                                           \
  {#name "_backward", ElementwiseOp::name, ElementwiseOp::name##_backward,                         \
   std::string_view(#saved) == "y", mentions(#backward, #saved), eps, {p, q},                      \
   expression::name##_backward_row},
#define UNARY(name, lo_, hi_, kinks, saved, forward, backward)                                     \
  EXTENSOR_UNARY(name, saved, backward, false, nullptr, nullptr)
#define UNARY_EPS(name, lo_, hi_, kinks, saved, forward, backward)                                 \
  EXTENSOR_UNARY(name, saved, backward, true, nullptr, nullptr)
#define UNARY_1(name, p, p_default, lo_, hi_, kinks, saved, forward, backward)                     \
  EXTENSOR_UNARY(name, saved, backward, false, #p, nullptr)
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, forward, backward)       \
  EXTENSOR_UNARY(name, saved, backward, false, #p, #q)
#define UNARY_2_NUMERIC(name, p, q, ...) UNARY_2(name, p, 0, q, 0, __VA_ARGS__)
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

constexpr const char* names[] = {
#define UNARY(name, ...) #name, #name "_backward",
#include "extensor/tables/unary.def"
#define BINARY(name, ...) #name, #name "_gradient_a", #name "_gradient_b",
#include "extensor/tables/binary.def"
#define COMPARE(name, ...) #name,
#define PREDICATE(name, ...) #name,
#define BITWISE(name, ...) #name,
#define BITWISE_UNARY(name, ...) #name,
#include "extensor/tables/logical.def"
    "copy", "where", "fma"};

// The op of a row whose gradients read the given tensors.
constexpr Op row_op(const char* name, std::initializer_list<const char*> inputs,
                    std::initializer_list<Reads> reads) {
  Op op{};
  op.name = name;
  std::copy(inputs.begin(), inputs.end(), op.inputs.begin());
  std::copy(reads.begin(), reads.end(), op.reads.begin());
  op.row = true;
  op.input_count = static_cast<std::uint8_t>(inputs.size());
  op.differentiable = reads.size() != 0;
  op.attributes = &row_attribute_type;
  op.forward = run_row;
  return op;
}

constexpr Reads if_read(bool reads, Reads what) { return reads ? what : nothing; }

// Not constexpr: as constants, the roles and their relocations would take 95 kB of the library.
Roles make_roles() {
  Roles roles;
  const auto at = [&](ElementwiseOp op) -> RowRole& { return roles[static_cast<std::size_t>(op)]; };
  const auto name = [](ElementwiseOp op) { return names[static_cast<std::size_t>(op)]; };
  for (const UnaryGradient& row : unary_gradients) {
    const auto [p, q] = row.parameters;
    const Reads saved = row.saves_result ? result() : input(0);
    const char* saved_name = row.saves_result ? "y" : "x";
    at(row.forward) = {
        row_op(name(row.forward), {"x"}, {if_read(row.reads_saved, saved)}), {p, q}, &row};
    // The backward is linear in the gradient.
    at(row.backward) = {
        row_op(name(row.backward), {"grad_output", saved_name},
               {if_read(row.reads_saved, input(1)), if_read(row.reads_saved, input(0) | input(1))}),
        {row.takes_eps ? "eps" : p, q},
        &row,
        nullptr,
        0};
  }
  for (const BinaryGradient& row : binary_gradients) {
    Reads reads[2];
    for (int k = 0; k < 2; ++k) {
      reads[k] = if_read(row.reads[k][0], input(0)) | if_read(row.reads[k][1], input(1));
    }
    at(row.forward) = {
        row_op(name(row.forward), {"a", "b"}, {reads[0], reads[1]}), {}, nullptr, &row};
    for (int k = 0; k < 2; ++k) {
      const bool a = row.reads[k][0], b = row.reads[k][1];
      const Reads operands = if_read(a, input(1)) | if_read(b, input(2));
      at(row.gradients[k]) = {
          row_op(name(row.gradients[k]), {"grad_output", "a", "b"},
                 {operands, if_read(a, input(0) | operands), if_read(b, input(0) | operands)}),
          {row.takes_eps ? "eps" : nullptr},
          nullptr,
          &row,
          k};
    }
  }
#define COMPARE(name, ...) at(ElementwiseOp::name).op = row_op(#name, {"a", "b"}, {});
#define PREDICATE(name, ...) at(ElementwiseOp::name).op = row_op(#name, {"x"}, {});
#define BITWISE COMPARE
#define BITWISE_UNARY PREDICATE
#include "extensor/tables/logical.def"
  at(ElementwiseOp::copy).op = row_op("copy", {"x"}, {nothing});
  at(ElementwiseOp::where).op =
      row_op("where", {"condition", "a", "b"}, {no_gradient, input(0), input(0)});
  at(ElementwiseOp::fma).op = row_op("fma", {"a", "b", "c"}, {input(1), input(0), nothing});
  return roles;
}

}  // namespace

const RowRole& row_role(ElementwiseOp op) {
  static const Roles roles = make_roles();
  return roles[static_cast<std::size_t>(op)];
}

}  // namespace ops
}  // namespace extensor
