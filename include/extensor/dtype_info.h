// Facts about dtypes: ranges and precision, kinds, casts without loss of kind, and the dtype of a
// result.
//
//   double smallest_step = finfo(float16).eps;
//   if (isdtype(x.dtype(), "integral")) …
//   DType dtype = result_type(x, y, 2.5);
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct FloatInfo {
  int bits;
  double eps;              // the distance from 1 to the next larger number
  double max;              // the largest finite number
  double min;              // −max
  double smallest_normal;  // the smallest positive number of full precision
  DType dtype;
};
// DTypeError unless the dtype is a float.
FloatInfo finfo(DType dtype);
inline FloatInfo finfo(const Tensor& x) { return finfo(x.dtype()); }

struct IntegerInfo {
  int bits;
  std::int64_t min;
  std::uint64_t max;
  DType dtype;
};
// DTypeError unless the dtype is an integer.
IntegerInfo iinfo(DType dtype);
inline IntegerInfo iinfo(const Tensor& x) { return iinfo(x.dtype()); }

// Whether a dtype is of a kind of the Python Array API: "bool", "signed integer", "unsigned
// integer", "integral", "real floating", "complex floating" or "numeric". ValueError for others.
bool isdtype(DType dtype, std::string_view kind);
inline bool isdtype(DType dtype, DType other) { return dtype == other; }

// Whether promotion leads from one dtype to the other: promote_types(from, to) is `to`.
bool can_cast(DType from, DType to);
inline bool can_cast(const Tensor& from, DType to) { return can_cast(from.dtype(), to); }

namespace detail {

// Collects the operands of result_type.
class ResultType {
 public:
  void add(DType dtype);
  void add(const Tensor& tensor) { add(tensor.dtype()); }
  void add(const Scalar& number) { numbers_.push_back(number); }
  // ValueError without an operand.
  DType get() const;

 private:
  std::optional<DType> dtype_;
  std::vector<Scalar> numbers_;
};

}  // namespace detail

// The dtype of an operation on tensors, dtypes and numbers, in any order: the dtypes promote, and
// numbers are weak, as in x + 1. Numbers alone make bool, int64, uint64 or float32. DTypeError for
// dtypes without a common one.
template <class... T>
DType result_type(const T&... operands) {
  detail::ResultType result;
  (result.add(operands), ...);
  return result.get();
}

}  // namespace extensor

EXTENSOR_END_API
