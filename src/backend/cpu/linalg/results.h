// Conventions of decompositions that both LAPACK's results and those of the own kernels follow: the
// signs and phases of vectors, bases that are completed, and matrices that are not finite.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace extensor::cpu {

// Squares of numbers within these bounds, and sums of many, neither overflow nor underflow.
constexpr double smallest_safe = 0x1p-400, largest_safe = 0x1p+400;

// The sign of the first entry of a vector that is not much smaller than the largest; the vector is
// divided by it, so that this entry becomes positive. Of complex numbers, z / |z|. The fraction,
// 1/φ, is not the quotient of small integers, so that rounding errors rarely decide.
template <class T>
T orientation(const T* vector, std::int64_t count, std::int64_t stride) {
  auto largest = std::abs(T(0));
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(vector[i * stride]));
  }
  const auto enough = largest * static_cast<decltype(largest)>(0.618);
  for (std::int64_t i = 0; i < count; ++i) {
    const T x = vector[i * stride];
    if (!(std::abs(x) >= enough) || x == T(0)) continue;
    if constexpr (std::is_floating_point_v<T>) {
      return x < 0 ? T(-1) : T(1);
    } else {
      const T direction = x / largest;
      return direction / std::abs(direction);
    }
  }
  return T(1);
}

template <class T>
void scale_vector(T* vector, std::int64_t count, std::int64_t stride, T by) {
  if (by == T(1)) return;
  for (std::int64_t i = 0; i < count; ++i) vector[i * stride] *= by;
}

inline bool is_finite(double x) { return std::isfinite(x); }
inline bool is_finite(std::complex<double> z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}
template <class T>
bool all_finite(const T* x, std::int64_t count) {
  return std::all_of(x, x + count, [](T element) { return is_finite(element); });
}

template <class T>
void fill_nan(T* x, std::int64_t count) {
  constexpr auto nan = std::numeric_limits<decltype(std::abs(T(0)))>::quiet_NaN();
  if (x == nullptr) return;
  if constexpr (std::is_floating_point_v<T>) {
    std::fill_n(x, count, nan);
  } else {
    std::fill_n(x, count, T(nan, nan));
  }
}

inline double conjugate(double x) { return x; }
inline std::complex<double> conjugate(std::complex<double> z) { return std::conj(z); }

// Makes the first `total` rows of a matrix with rows of `length` orthonormal; the first `count` of
// them are.
template <class T>
void complete_basis(T* rows, std::int64_t count, std::int64_t total, std::int64_t length) {
  for (std::int64_t next = count; next < total; ++next) {
    // The unit vector that the rows so far contain least.
    std::int64_t chosen = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < length; ++i) {
      double square = 0;
      for (std::int64_t k = 0; k < next; ++k) square += std::norm(rows[k * length + i]);
      if (square < least) {
        least = square;
        chosen = i;
      }
    }
    T* row = rows + next * length;
    std::fill_n(row, length, T(0));
    row[chosen] = 1;
    for (int pass = 0; pass < 2; ++pass) {  // the second removes the rounding errors of the first
      for (std::int64_t k = 0; k < next; ++k) {
        const T* other = rows + k * length;
        T along = 0;
        for (std::int64_t i = 0; i < length; ++i) along += row[i] * conjugate(other[i]);
        for (std::int64_t i = 0; i < length; ++i) row[i] -= along * other[i];
      }
      double square = 0;
      for (std::int64_t i = 0; i < length; ++i) square += std::norm(row[i]);
      const double norm = std::sqrt(square);
      for (std::int64_t i = 0; i < length; ++i) row[i] /= norm;
    }
  }
}

}  // namespace extensor::cpu
