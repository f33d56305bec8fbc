// Plans: how numbers of one length are transformed, with the factors that it takes. A plan is
// computed once for each length and shared by all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/fft/passes.h"

namespace extensor::cpu {

// exp(2πi * k / n) for 0 <= k < n, correctly rounded but for rare cases.
struct FftRoot {
  double re, im;
};
FftRoot fft_root(std::uint64_t k, std::uint64_t n);

template <class T>
struct FftPlan {
  // Passes for lengths of small primes; both others use plans of other lengths.
  enum class Method : std::uint8_t { passes, split, bluestein };

  struct Step {
    std::size_t radix;
    std::size_t twiddles;  // where its factors begin, in complex numbers
    std::size_t roots;     // where the roots of its radix begin
  };

  std::size_t n = 1;
  Method method = Method::passes;

  std::vector<Step> steps;
  std::vector<T> twiddles;      // of all steps but the last, then roots
  std::vector<T> row_twiddles;  // of the first step, for a row; empty if its radix is not 4

  // split: n = rows * columns. The columns of a matrix are transformed, multiplied by
  // root(n)^(row * column), and transformed along the rows.
  // bluestein: a convolution of length `long_plan->n`.
  std::shared_ptr<const FftPlan> column_plan, row_plan;
  std::size_t block = 0;             // columns that are transformed at a time
  std::vector<T> block_factors;      // root(n)^(row * column) for column < block
  std::vector<double> coarse, fine;  // root(n)^(i * fine_count) and root(n)^i
  std::size_t fine_count = 0;

  std::shared_ptr<const FftPlan> long_plan;
  std::vector<T> chirp;     // exp(πi * k² / n)
  std::vector<T> spectrum;  // the transform of the chirp, divided by the length of long_plan
};

// From a cache of the plans used last. `n` is at least 1.
template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(std::size_t n);

// root(n)^k for k <= n / 4, from the same cache: what real transforms of an even length n take
// beside the plan of n / 2.
template <class T>
std::shared_ptr<const std::vector<T>> fft_real_factors(std::size_t n);

}  // namespace extensor::cpu
