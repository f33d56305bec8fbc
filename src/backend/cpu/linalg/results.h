// Conventions of decompositions that both LAPACK's results and those of the own kernels follow: the
// signs of vectors, bases that are completed, and matrices that are not finite.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace extensor::cpu {

// −1 if a vector must be negated. The first entry that is not much smaller than the largest
// becomes positive. The fraction, 1/φ, is not the quotient of small integers, so that rounding
// errors rarely decide.
template <class T>
T orientation(const T* vector, std::int64_t count, std::int64_t stride) {
  T largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(vector[i * stride]));
  }
  const T enough = largest * static_cast<T>(0.618);
  for (std::int64_t i = 0; i < count; ++i) {
    const T x = vector[i * stride];
    if (std::fabs(x) >= enough) return x < 0 ? T(-1) : T(1);
  }
  return T(1);
}

template <class T>
void negate(T* vector, std::int64_t count, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) vector[i * stride] = -vector[i * stride];
}

template <class T>
bool all_finite(const T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

template <class T>
void fill_nan(T* x, std::int64_t count) {
  if (x != nullptr) std::fill_n(x, count, std::numeric_limits<T>::quiet_NaN());
}

// Makes the first `total` rows of a matrix with rows of `length` orthonormal; the first `count` of
// them are.
inline void complete_basis(double* rows, std::int64_t count, std::int64_t total,
                           std::int64_t length) {
  for (std::int64_t next = count; next < total; ++next) {
    // The unit vector that the rows so far contain least.
    std::int64_t chosen = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < length; ++i) {
      double square = 0;
      for (std::int64_t k = 0; k < next; ++k) square += rows[k * length + i] * rows[k * length + i];
      if (square < least) {
        least = square;
        chosen = i;
      }
    }
    double* row = rows + next * length;
    std::fill_n(row, length, 0.0);
    row[chosen] = 1;
    for (int pass = 0; pass < 2; ++pass) {  // the second removes the rounding errors of the first
      for (std::int64_t k = 0; k < next; ++k) {
        const double* other = rows + k * length;
        double along = 0;
        for (std::int64_t i = 0; i < length; ++i) along += row[i] * other[i];
        for (std::int64_t i = 0; i < length; ++i) row[i] -= along * other[i];
      }
      double square = 0;
      for (std::int64_t i = 0; i < length; ++i) square += row[i] * row[i];
      const double norm = std::sqrt(square);
      for (std::int64_t i = 0; i < length; ++i) row[i] /= norm;
    }
  }
}

}  // namespace extensor::cpu
