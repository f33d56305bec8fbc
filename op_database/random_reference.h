// Random draws as include/extensor/random.h specifies them, as a function of (seed, stream 0,
// number of the draw): Philox4x32-10 written from its paper, the distributions with libm's long
// double.
#pragma once

#include <cstdint>

#include "extensor/extensor.h"

namespace random_reference {

using extensor::DType;

// Word n of the 32-bit draws.
std::uint32_t word(std::uint64_t seed, std::uint64_t n);
// An integer from 0 to range − 1: the high half of bits · range.
std::uint64_t integer(std::uint64_t seed, std::uint64_t n, std::uint64_t range);
// In [0, 1), with as many bits as the dtype holds.
long double uniform(DType dtype, std::uint64_t seed, std::uint64_t n);

// A standard normal by Box–Muller, from 64-bit words for float64 and from 32-bit words for the
// narrower dtypes.
struct Normal {
  long double value, radius;
};
Normal normal(DType dtype, std::uint64_t seed, std::uint64_t n);

// A standard normal between two bounds, from a 64-bit draw: the inverse of its distribution
// function, found by bisection.
long double truncated_normal(std::uint64_t seed, std::uint64_t n, long double lower,
                             long double upper);

}  // namespace random_reference
