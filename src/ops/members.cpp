// The members of Tensor that call the free function of the same name, generated from the tables,
// and the rows of a tensor.
#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/pytorch_names.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"
#include "extensor/sorting.h"

namespace extensor {

// clang-format off
#define EXTENSOR_DEFAULT(...)
#define EXTENSOR_MEMBER(result, name, parameters, ...) \
  result Tensor::name parameters const { return extensor::name(*this __VA_OPT__(, ) __VA_ARGS__); }
#include "extensor/tables/members.def"

#define EXTENSOR_UNARY(name, parameters, ...)                                                           \
  Tensor Tensor::name parameters const { return extensor::name(*this __VA_OPT__(, ) __VA_ARGS__); }     \
  Tensor& Tensor::name##_ parameters & { return extensor::name##_(*this __VA_OPT__(, ) __VA_ARGS__); }
#define UNARY(name, ...) EXTENSOR_UNARY(name, ())
#define UNARY_1(name, p, ...) EXTENSOR_UNARY(name, (StrictDouble p), p)
#define UNARY_2(name, p, p_default, q, ...) EXTENSOR_UNARY(name, (StrictDouble p, StrictDouble q), p, q)
#define UNARY_2_NUMERIC(name, p, q, ...) EXTENSOR_UNARY(name, (const Scalar& p, const Scalar& q), p, q)
#include "extensor/tables/unary.def"

#define COMPARE(name, ...)                                                                   \
  Tensor Tensor::name(const Tensor& other) const { return extensor::name(*this, other); }    \
  Tensor Tensor::name(const Scalar& other) const { return extensor::name(*this, other); }
#define BINARY(name, ...)                                                                    \
  COMPARE(name)                                                                              \
  Tensor& Tensor::name##_(const Tensor& other) & { return extensor::name##_(*this, other); } \
  Tensor& Tensor::name##_(const Scalar& other) & { return extensor::name##_(*this, other); }
#include "extensor/tables/binary.def"
#define BITWISE COMPARE
#define PREDICATE(name, ...) \
  Tensor Tensor::name() const { return extensor::name(*this); }
#define BITWISE_UNARY PREDICATE
#include "extensor/tables/logical.def"
// clang-format on

RowIterator Tensor::begin() const {
  if (ndim() == 0) {
    throw ShapeError("begin: a tensor without dimensions has no rows (allowed: one or more)");
  }
  return {*this, 0};
}
RowIterator Tensor::end() const { return {Tensor(), size(0)}; }
Tensor RowIterator::operator*() const { return tensor_[row_]; }

}  // namespace extensor
