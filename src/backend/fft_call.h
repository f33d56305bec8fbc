// The Fourier family: transforms along one axis, between complex numbers or from and to the half of
// a spectrum that determines real numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::backend {

enum class FftKind : std::uint8_t {
  complex_to_complex,  // n numbers from n
  real_to_complex,     // the first n / 2 + 1 from n
  // n from the first n / 2 + 1. The imaginary parts of numbers that are their own conjugates, at 0
  // and at n / 2 of an even n, are not read.
  complex_to_real,
};

// y[k] = scale * sum over j of x[j] * exp(sign * 2πi * jk / n), with the sign + where `inverse`.
// Both tensors are dense, [outer, length, inner]; those of complex numbers hold pairs of real ones.
struct FftCall {
  FftKind kind;
  bool is_double;  // the dtype of real and imaginary parts: float64 or float32
  bool inverse;
  std::int64_t outer, inner;
  std::int64_t n;          // at least 1
  std::int64_t in_length;  // numbers that x has: further ones are 0, those not needed are not read
  double scale;
  const std::byte* in;
  std::byte* out;  // `in`, or apart from it; `in` only from n complex numbers to as many
};

}  // namespace extensor::backend
