// Draws from a normal distribution truncated to an interval, by inverting its distribution
// function.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/philox.h"

namespace extensor::detail {

// The point below which a standard normal falls with the given probability, 0 < p < 1, to about
// 1e-16 relative: Wichura, "Algorithm AS 241: the percentage points of the normal distribution",
// Applied Statistics 37, 1988. Uses plain operations only, like the other draws.
EXTENSOR_HOST_DEVICE inline double inverse_normal(double p) {
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    constexpr double above[] = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                                45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                                133.14166789178437745, 3.387132872796366608};
    constexpr double below[] = {
        5226.495278852854561,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
    const double r = 0.180625 - q * q;
    return q * horner(r, above) / horner(r, below);
  }
  const double r = std::sqrt(-plain_log(q < 0 ? p : 1 - p));
  double size;
  if (r <= 5) {
    constexpr double above[] = {7.7454501427834140764e-4, 0.0227238449892691845833,
                                0.24178072517745061177,   1.27045825245236838258,
                                3.64784832476320460504,   5.7694972214606914055,
                                4.6303378461565452959,    1.42343711074968357734};
    constexpr double below[] = {1.05075007164441684324e-9, 5.475938084995344946e-4,
                                0.0151986665636164571966,  0.14810397642748007459,
                                0.68976733498510000455,    1.6763848301838038494,
                                2.05319162663775882187,    1.0};
    size = horner(r - 1.6, above) / horner(r - 1.6, below);
  } else {
    constexpr double above[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                0.0012426609473880784386,  0.026532189526576123093,
                                0.29656057182850489123,    1.7848265399172913358,
                                5.4637849111641143699,     6.6579046435011037772};
    constexpr double below[] = {2.04426310338993978564e-15, 1.4215117583164458887e-7,
                                1.8463183175100546818e-5,   7.868691311456132591e-4,
                                0.0148753612908506148525,   0.13692988092273580531,
                                0.59983220655588793769,     1.0};
    size = horner(r - 5, above) / horner(r - 5, below);
  }
  return q < 0 ? -size : size;
}

// mean + deviation · z for a standard normal z, given that the sum is in [lower, upper].
struct TruncatedNormal {
  double mean, deviation, lower, upper;
  // −1 if the interval lies above the mean: the mirror image is drawn then, since probabilities
  // close to 0 are finer than those close to 1.
  double sign;
  double first, range;  // the probabilities the interval spans

  TruncatedNormal(double mean_, double deviation_, double lower_, double upper_)
      : mean(mean_), deviation(deviation_), lower(lower_), upper(upper_) {
    const auto probability = [](double z) { return 0.5 * std::erfc(-z * 0.70710678118654752440); };
    const double from = (lower - mean) / deviation, to = (upper - mean) / deviation;
    sign = from > 0 ? -1 : 1;
    first = probability(from > 0 ? -to : from);
    range = probability(from > 0 ? -from : to) - first;
  }

  // Whether the distribution reaches the interval at all; farther out, probabilities lose digits.
  bool has_mass() const { return range > 1e-290; }

  // Uses the middle of the draw's step, so that the probability is never 0 or 1.
  EXTENSOR_HOST_DEVICE double operator()(std::uint64_t bits) const {
    const double p = first + range * (uniform_double(bits) + 0x1p-54);
    const double x = mean + sign * deviation * inverse_normal(p);
    return x < lower ? lower : x > upper ? upper : x;
  }
};

}  // namespace extensor::detail
