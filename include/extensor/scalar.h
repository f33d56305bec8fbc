// A number passed to an operation together with tensors. It is weak: it takes the tensor's dtype
// within its kind, so float16 tensor * 2.0 stays float16.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "extensor/dtype.h"
#include "extensor/export.h"
#include "extensor/strict.h"

EXTENSOR_BEGIN_API

namespace extensor {

namespace detail {
// DTypeError: a complex number was given where only a real one has a meaning.
[[noreturn]] void throw_complex_number(std::complex<double> value);
}  // namespace detail

class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, unsigned_integer, floating, complex };

  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Scalar(T value) {  // NOLINT: implicit on purpose, so that x + 1 reads as it should
    if constexpr (std::same_as<T, bool>) {
      kind_ = Kind::boolean;
      integer_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::floating;
      floating_ = static_cast<double>(value);
    } else if constexpr (std::is_signed_v<T>) {
      kind_ = Kind::integer;
      integer_ = static_cast<std::int64_t>(value);
    } else {
      kind_ = Kind::unsigned_integer;
      unsigned_ = value;
    }
  }
  template <class T>
  requires std::is_floating_point_v<T>
  constexpr Scalar(std::complex<T> value)  // NOLINT: implicit
      : kind_(Kind::complex),
        complex_{static_cast<double>(value.real()), static_cast<double>(value.imag())} {}
  constexpr Scalar(Float16 value) : Scalar(static_cast<float>(value)) {}   // NOLINT: implicit
  constexpr Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}  // NOLINT: implicit

  constexpr Scalar(StrictBool value) : Scalar(static_cast<bool>(value)) {}  // NOLINT: implicit
  constexpr Scalar(StrictInt value)
      : Scalar(static_cast<std::int64_t>(value)) {}                             // NOLINT: implicit
  constexpr Scalar(StrictDouble value) : Scalar(static_cast<double>(value)) {}  // NOLINT: implicit

  constexpr Kind kind() const { return kind_; }
  // DTypeError for a complex number, here and below.
  constexpr double as_double() const {
    switch (kind_) {
      case Kind::complex:
        detail::throw_complex_number(as_complex());
      case Kind::floating:
        return floating_;
      case Kind::unsigned_integer:
        return static_cast<double>(unsigned_);
      default:
        return static_cast<double>(integer_);
    }
  }
  constexpr std::int64_t as_integer() const {  // boolean or integer
    if (kind_ == Kind::complex) [[unlikely]] {
      detail::throw_complex_number(as_complex());
    }
    return integer_;
  }
  constexpr std::uint64_t as_unsigned() const { return unsigned_; }  // unsigned_integer
  // Any number; a real one has the imaginary part 0.
  constexpr std::complex<double> as_complex() const {
    return kind_ == Kind::complex ? std::complex<double>(complex_.real, complex_.imag)
                                  : std::complex<double>(as_double(), 0);
  }
  constexpr bool is_floating() const { return kind_ == Kind::floating; }
  constexpr bool is_complex() const { return kind_ == Kind::complex; }

  // The dtype of a tensor made from this number alone: bool, int64, uint64, float32 or complex64.
  constexpr DType default_dtype() const {
    switch (kind_) {
      case Kind::boolean:
        return DType::bool_;
      case Kind::integer:
        return DType::int64;
      case Kind::unsigned_integer:
        return unsigned_ <= static_cast<std::uint64_t>(INT64_MAX) ? DType::int64 : DType::uint64;
      case Kind::complex:
        return complex_dtype(default_float);
      default:
        return default_float;
    }
  }

 private:
  Kind kind_;
  union {
    std::int64_t integer_;
    std::uint64_t unsigned_;
    double floating_;
    struct {
      double real, imag;
    } complex_;
  };
};

// The dtype of tensor ∘ scalar.
DType promote_with_scalar(DType tensor, const Scalar& scalar);

}  // namespace extensor

EXTENSOR_END_API
