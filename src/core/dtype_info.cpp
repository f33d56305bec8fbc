#include "extensor/dtype_info.h"

#include <cmath>
#include <string>

#include "core/check.h"

namespace extensor {

namespace {

using detail::message;

// The format of a float: digits of the significand with the hidden one, and the exponents of the
// smallest and the largest normal number.
struct Format {
  int digits, smallest_exponent, largest_exponent;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {11, -14, 15};
    case DType::bfloat16:
      return {8, -126, 127};
    case DType::float32:
      return {24, -126, 127};
    case DType::float64:
      return {53, -1022, 1023};
    default:
      throw DTypeError(
          message("finfo: dtype is ", dtype, " (allowed: float16, bfloat16, float32 and float64)"));
  }
}

int bits_of(DType dtype) { return static_cast<int>(8 * itemsize(dtype)); }

}  // namespace

FloatInfo finfo(DType asked) {
  const DType dtype = real_dtype(asked);  // a complex dtype has the limits of its parts
  const Format format = format_of(dtype);
  const double eps = std::ldexp(1.0, 1 - format.digits);
  const double max = std::ldexp(2 - eps, format.largest_exponent);
  return {bits_of(dtype), eps, max, -max, std::ldexp(1.0, format.smallest_exponent), dtype};
}

IntegerInfo iinfo(DType dtype) {
  const int bits = bits_of(dtype);
  if (is_unsigned_integer(dtype)) return {bits, 0, ~std::uint64_t{0} >> (64 - bits), dtype};
  if (is_signed_integer(dtype)) {
    const std::uint64_t max = ~std::uint64_t{0} >> (65 - bits);
    return {bits, -static_cast<std::int64_t>(max) - 1, max, dtype};
  }
  throw DTypeError(message("iinfo: dtype is ", dtype,
                           " (allowed: int8, int16, int32, int64 and the same with uint)"));
}

bool isdtype(DType dtype, std::string_view kind) {
  detail::check_dtype("isdtype", dtype);
  if (kind == "bool") return dtype == DType::bool_;
  if (kind == "signed integer") return is_signed_integer(dtype);
  if (kind == "unsigned integer") return is_unsigned_integer(dtype);
  if (kind == "integral") return is_integer(dtype);
  if (kind == "real floating") return is_floating_point(dtype);
  if (kind == "complex floating") return is_complex(dtype);
  if (kind == "numeric") return dtype != DType::bool_;
  throw ValueError(message("isdtype: kind is '", kind,
                           "' (allowed: 'bool', 'signed integer', 'unsigned integer', 'integral', "
                           "'real floating', 'complex floating', 'numeric')"));
}

bool can_cast(DType from, DType to) {
  detail::check_dtype("can_cast", from);
  detail::check_dtype("can_cast", to);
  // uint64 and a signed integer have no common dtype.
  const bool has_common = !(from == DType::uint64 && is_signed_integer(to)) &&
                          !(to == DType::uint64 && is_signed_integer(from));
  return has_common && promote_types(from, to) == to;
}

namespace detail {

void ResultType::add(DType dtype) {
  check_dtype("result_type", dtype);
  dtype_ = dtype_ ? promote_types(*dtype_, dtype, "result_type") : dtype;
}

DType ResultType::get() const {
  if (!dtype_ && numbers_.empty()) {
    throw ValueError("result_type: there is no operand (needed: one at least)");
  }
  std::size_t next = 0;
  DType result = dtype_ ? *dtype_ : numbers_[next++].default_dtype();
  for (; next < numbers_.size(); ++next) {
    const DType alone = numbers_[next].default_dtype();
    result = dtype_ ? promote_with_scalar(result, numbers_[next])
                    : promote_types(result, alone, "result_type");
  }
  return result;
}

}  // namespace detail

}  // namespace extensor
