// The expressions of the op tables as functions: for every row a template <name>_row<V>, and one
// for each of its gradients, whose apply() computes the expression on values of type V. Included
// inside the namespace of the value types, after their vocabulary and Parameter, with EXTENSOR_WORD
// defined as the specifiers of a function there. The file has no include guard: each namespace
// includes it once.

// PARAMETERS declares the names in the expression that are not arguments.
#define EXTENSOR_EXPRESSION(row, ARGUMENTS, PARAMETERS, expression)                         \
  template <class V>                                                                        \
  struct row {                                                                              \
    static EXTENSOR_WORD V apply([[maybe_unused]] const Parameter* parameters, ARGUMENTS) { \
      PARAMETERS                                                                            \
      return expression;                                                                    \
    }                                                                                       \
  };
#define EXTENSOR_COMMA ,
#define EXTENSOR_ONE(a) [[maybe_unused]] V a
#define EXTENSOR_TWO(a, b) EXTENSOR_ONE(a) EXTENSOR_COMMA EXTENSOR_ONE(b)
#define EXTENSOR_THREE(a, b, c) EXTENSOR_TWO(a, b) EXTENSOR_COMMA EXTENSOR_ONE(c)
#define EXTENSOR_SAFE const Safe<V> safe{V(parameters[0].real)};
#define EXTENSOR_PARAMETER(index, parameter) \
  [[maybe_unused]] const V parameter(parameters[index].real);

#define EXTENSOR_UNARY(name, saved, forward, backward, FORWARD_PARAMETERS, BACKWARD_PARAMETERS) \
  EXTENSOR_EXPRESSION(name##_row, EXTENSOR_ONE(x), FORWARD_PARAMETERS, forward)                 \
  EXTENSOR_EXPRESSION(name##_backward_row, EXTENSOR_TWO(g, saved), BACKWARD_PARAMETERS, backward)
#define UNARY(name, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, forward, backward, , )
#define UNARY_EPS(name, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, forward, backward, , EXTENSOR_SAFE)
#define UNARY_1(name, p, p_default, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, forward, backward, EXTENSOR_PARAMETER(0, p), EXTENSOR_PARAMETER(0, p))
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, forward, backward,                                             \
                 EXTENSOR_PARAMETER(0, p) EXTENSOR_PARAMETER(1, q),                          \
                 EXTENSOR_PARAMETER(0, p) EXTENSOR_PARAMETER(1, q))
#define UNARY_2_NUMERIC(name, p, q, ...) UNARY_2(name, p, 0, q, 0, __VA_ARGS__)
#include "extensor/tables/unary.def"

#define EXTENSOR_BINARY(name, forward, gradient_a, gradient_b, BACKWARD_PARAMETERS)        \
  EXTENSOR_EXPRESSION(name##_row, EXTENSOR_TWO(a, b), , forward)                           \
  EXTENSOR_EXPRESSION(name##_gradient_a_row, EXTENSOR_THREE(g, a, b), BACKWARD_PARAMETERS, \
                      gradient_a)                                                          \
  EXTENSOR_EXPRESSION(name##_gradient_b_row, EXTENSOR_THREE(g, a, b), BACKWARD_PARAMETERS, \
                      gradient_b)
#define BINARY(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_BINARY(name, forward, gradient_a, gradient_b, )
#define BINARY_EPS(name, lo, hi, kinks, forward, gradient_a, gradient_b) \
  EXTENSOR_BINARY(name, forward, gradient_a, gradient_b, EXTENSOR_SAFE)
#include "extensor/tables/binary.def"
