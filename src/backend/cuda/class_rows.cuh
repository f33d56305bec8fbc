// Parts of the cross-entropy of one row of logits, computed by a group of threads.
//
// With m the largest logit, L = log Σ exp(x − m) and a target t (weights included) of total T, a
// row's loss is Σ t · ((m − x) + L), and the gradient of x is T · softmax(x) − t.
#pragma once

#include "backend/cuda/group.cuh"
#include "backend/loss_call.h"

namespace extensor::backend::cuda {

#ifdef __CUDACC__

// Σ exp(x − m) of some elements, where m is at least the largest of them; initially −∞ and 0.
template <class C>
struct SumOfExp {
  C m;
  double sum;
};

template <class C>
struct MergeSums {
  static __device__ __forceinline__ double scaled(SumOfExp<C> part, C m) {
    if (part.sum == 0 || part.m == m) return part.sum;
    return part.sum * exp(static_cast<double>(part.m) - static_cast<double>(m));
  }
  __device__ __forceinline__ SumOfExp<C> operator()(SumOfExp<C> a, SumOfExp<C> b) const {
    const C m = Largest()(a.m, b.m);
    return {m, scaled(a, m) + scaled(b, m)};
  }
};

// The part of a row's target that is spread over its classes, in addition to the one that an index
// names: class c gets weight[c] · (probabilities[c] · kept + share). A null weight counts as 1,
// null probabilities as 0.
template <class S>
struct ClassSpread {
  const S* probabilities;
  const Compute<S>* weight;
  Compute<S> kept, share;

  __device__ __forceinline__ Compute<S> at(std::int64_t c) const {
    Compute<S> part = share;
    if (probabilities != nullptr) part += load_as_compute(probabilities[c]) * kept;
    return weight == nullptr ? part : part * weight[c];
  }
};

struct SpreadSums {
  double gap;    // Σ spread · (m − x)
  double total;  // Σ spread
};
struct MergeSpreads {
  __device__ __forceinline__ SpreadSums operator()(SpreadSums a, SpreadSums b) const {
    return {a.gap + b.gap, a.total + b.total};
  }
};

// Calls body(first position, stride, values) for the packs of a row that belong to this thread:
// four at a time, `stride` elements apart, then one by one.

template <int width, class S, class G, class Body>
__device__ __forceinline__ void for_row_packs(const G& group, const S* x, std::int64_t n,
                                              const Body& body) {
  using C = Compute<S>;
  constexpr int together = 4;
  const std::int64_t stride = static_cast<std::int64_t>(group.size()) * width;
  std::int64_t at = group.rank() * width;
  for (; at + (together - 1) * stride < n; at += together * stride) {
    Pack<S, width> loaded[together];
#pragma unroll
    for (int p = 0; p < together; ++p) {
      loaded[p] = *reinterpret_cast<const Pack<S, width>*>(x + at + p * stride);
    }
    C values[together][width];
#pragma unroll
    for (int p = 0; p < together; ++p) {
#pragma unroll
      for (int k = 0; k < width; ++k) values[p][k] = load_as_compute(loaded[p].at[k]);
    }
    body(at, stride, values);
  }
  for (; at < n; at += stride) {
    C values[1][width];
    load_pack<width>(x, at, n, C(0), values[0]);
    body(at, stride, values);
  }
}

// Adds the elements of a row to the sum that this thread starts with, except the one at `left_out`
// (negative: none).
template <int width, class S, class G>
__device__ __forceinline__ SumOfExp<Compute<S>> sum_exponentials(const G& group, const S* x,
                                                                 std::int64_t n,
                                                                 std::int64_t left_out,
                                                                 SumOfExp<Compute<S>> start) {
  using C = Compute<S>;
  // The first position of the pack with that element, if it is this thread's.
  const std::int64_t pack = left_out < 0 ? -1 : left_out / width;
  const std::int64_t affected =
      pack >= 0 && pack % group.size() == group.rank() ? pack * width : -1;
  SumOfExp<C> result = start;
  for_row_packs<width>(
      group, x, n, [&]<int packs>(std::int64_t at, std::int64_t stride, C(&values)[packs][width]) {
        C m = result.m;
#pragma unroll
        for (int p = 0; p < packs; ++p) {
          if (at + p * stride == affected) {
#pragma unroll
            for (int k = 0; k < width; ++k) {
              if (affected + k == left_out) values[p][k] = -infinity<C>();
            }
          }
#pragma unroll
          for (int k = 0; k < width; ++k) m = Largest()(m, values[p][k]);
        }
        if (m > result.m) {
          if (result.sum != 0) result.sum *= exponential<S>(result.m - m);
          result.m = m;
        }
        // Only −∞ so far, or NaN, which shows in the sum.
        const C shift = m == -infinity<C>() ? C(0) : m;
#pragma unroll
        for (int p = 0; p < packs; ++p) {
          C part = 0;
#pragma unroll
          for (int k = 0; k < width; ++k) part += exponential<S>(values[p][k] - shift);
          result.sum += part;
        }
      });
  return result;
}

// A class with a spread of 0 adds nothing, even if its logit is −∞.
template <class S, class G>
__device__ __forceinline__ SpreadSums sum_spread(const G& group, const S* x, std::int64_t n,
                                                 Compute<S> m, const ClassSpread<S>& spread) {
  SpreadSums sums{0, 0};
  for (std::int64_t c = group.rank(); c < n; c += group.size()) {
    const Compute<S> part = spread.at(c);
    if (part != 0) sums.gap += part * (m - load_as_compute(x[c]));
    sums.total += part;
  }
  return sums;
}

// out = exp(x − m) · scale − spread · factor, and `named` at position `index`. A null spread counts
// as 0. out may be x.
template <int width, class S, class G>
__device__ __forceinline__ void write_gradient(const G& group, const S* x, std::int64_t n,
                                               Compute<S> m, Compute<S> scale,
                                               const ClassSpread<S>* spread, Compute<S> factor,
                                               std::int64_t index, Compute<S> named, S* out) {
  using C = Compute<S>;
  const std::int64_t pack = index < 0 || index >= n ? -1 : index / width;
  const std::int64_t affected =
      pack >= 0 && pack % group.size() == group.rank() ? pack * width : -1;
  for_row_packs<width>(
      group, x, n, [&]<int packs>(std::int64_t at, std::int64_t stride, C(&values)[packs][width]) {
#pragma unroll
        for (int p = 0; p < packs; ++p) {
          const std::int64_t first = at + p * stride;
#pragma unroll
          for (int k = 0; k < width; ++k) values[p][k] = exponential<S>(values[p][k] - m) * scale;
          if (spread != nullptr) {
#pragma unroll
            for (int k = 0; k < width; ++k) values[p][k] -= spread->at(first + k) * factor;
          }
          if (first == affected) {
#pragma unroll
            for (int k = 0; k < width; ++k) {
              if (affected + k == index) values[p][k] = named;
            }
          }
          store_pack<width>(values[p], out, first, n);
        }
      });
}

// ---- the divisor of a mean

// Σ weight[index] over the rows that are kept, or their number; one block.
template <class C>
__device__ __forceinline__ double kept_weight(Group<true>& group, const std::int64_t* indices,
                                              const C* weight, std::int64_t rows,
                                              std::int64_t ignored) {
  double total = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    const std::int64_t index = indices[row];
    if (index != ignored) total += weight == nullptr ? 1.0 : static_cast<double>(weight[index]);
  }
  return group.reduce(total, 0.0, Plus());
}

template <class C>
__global__ void __launch_bounds__(1024)
    write_mean_scale(const std::int64_t* indices, const C* weight, std::int64_t rows,
                     std::int64_t ignored, double* scale) {
  Group<true> group;
  const double total = kept_weight(group, indices, weight, rows, ignored);
  if (threadIdx.x == 0) *scale = total == 0 ? 0 : 1 / total;
}

#endif

}  // namespace extensor::backend::cuda
