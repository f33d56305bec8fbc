#include "op_database/row_signatures.h"

#include <map>

namespace extensor::op_database {

std::vector<std::string> row_signatures(const std::string& name) {
  using Lines = std::vector<std::string>;
#define X "const Tensor& x"
#define SAVED(saved) "const Tensor& grad_output, const Tensor& " #saved
#define WITH(p, p_default) ", StrictDouble " #p " = " #p_default
#define A_AND_B "const Tensor& a, const Tensor& b"
#define PAIR(name) "std::pair<Tensor, Tensor> " #name "_backward(const Tensor& grad_output, "
#define ONE(name, of) "Tensor " #name "(" of ")"
#define BACKWARD(name, of) "Tensor " #name "_backward(" of ")"
  static const std::map<std::string, Lines> signatures = {
#define UNARY(name, lo, hi, kinks, saved, ...) \
  {#name, {ONE(name, X), BACKWARD(name, SAVED(saved))}},
#define UNARY_EPS(name, lo, hi, kinks, saved, ...) \
  {#name, {ONE(name, X), BACKWARD(name, SAVED(saved) ", StrictDouble eps = default_eps")}},
#define UNARY_1(name, p, p_default, lo, hi, kinks, saved, ...) \
  {#name, {ONE(name, X WITH(p, p_default)), BACKWARD(name, SAVED(saved) WITH(p, p_default))}},
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, ...) \
  {#name,                                                                      \
   {ONE(name, X WITH(p, p_default) WITH(q, q_default)),                        \
    BACKWARD(name, SAVED(saved) WITH(p, p_default) WITH(q, q_default))}},
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks, saved, ...) \
  {#name,                                                        \
   {ONE(name, X ", const Scalar& " #p ", const Scalar& " #q),    \
    BACKWARD(name, SAVED(saved) ", const Scalar& " #p ", const Scalar& " #q)}},
#include "extensor/tables/unary.def"
#define BINARY(name, ...) {#name, {ONE(name, A_AND_B), PAIR(name) A_AND_B ")"}},
#define BINARY_EPS(name, ...) \
  {#name, {ONE(name, A_AND_B), PAIR(name) A_AND_B ", StrictDouble eps = default_eps)"}},
#define BINARY_LINEAR(name, ...) \
  {#name, {ONE(name, A_AND_B), PAIR(name) "const Shape& a_shape, const Shape& b_shape)"}},
#include "extensor/tables/binary.def"
#define COMPARE(name, ...) {#name, {ONE(name, A_AND_B)}},
#define PREDICATE(name, ...) {#name, {ONE(name, X)}},
#define BITWISE COMPARE
#define BITWISE_UNARY PREDICATE
#include "extensor/tables/logical.def"
  };
  const auto found = signatures.find(name);
  return found == signatures.end() ? Lines{} : found->second;
}

}  // namespace extensor::op_database
