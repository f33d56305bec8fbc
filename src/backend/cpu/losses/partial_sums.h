// Sums over pieces of fixed size, so that they do not depend on the threads that computed them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/convert.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "core/visit.h"

namespace extensor::cpu {

inline double pairwise_total(const double* parts, std::size_t count) {
  if (count <= 8) {
    double total = 0;
    for (std::size_t i = 0; i < count; ++i) total += parts[i];
    return total;
  }
  return pairwise_total(parts, count / 2) + pairwise_total(parts + count / 2, count - count / 2);
}

// Σ piece(begin, end) over pieces of `length` that cover [0, count), added in pairs.
template <class Piece>
double sum_of_pieces(std::int64_t count, std::int64_t length, Piece&& piece) {
  detail::Scratch<double> parts(static_cast<std::size_t>((count + length - 1) / length));
  detail::parallel_for(static_cast<std::int64_t>(parts.size()), 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t part = begin; part < end; ++part) {
                           parts[static_cast<std::size_t>(part)] =
                               piece(part * length, std::min(count, (part + 1) * length));
                         }
                       });
  return pairwise_total(parts.data(), parts.size());
}

// Writes one number, rounded once to `dtype`.
inline void write_number(double value, DType dtype, std::byte* out, std::int64_t at = 0) {
  detail::visit_dtype(
      dtype, [&]<class T>() { reinterpret_cast<T*>(out)[at] = detail::convert<T>(value); });
}

}  // namespace extensor::cpu
