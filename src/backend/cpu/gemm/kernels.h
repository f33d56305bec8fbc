// The functions that each SIMD target provides to the matrix product, as tables of pointers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cpu/gemm/gemm.h"
#include "core/simd/target.h"
#include "extensor/float16.h"

namespace extensor::cpu {

// The type a product of Element is computed and accumulated in.
template <class Element>
using ComputeOf = std::conditional_t<std::is_same_v<Element, double>, double, float>;

// Two bfloat16 adjacent along k, the operand of the processor's bfloat16 dot products.
struct BFloat16Pair {
  BFloat16 first, second;
};

// Converts finished sums to elements of c: the work after the last step of k.
template <class Element>
struct Epilogue {
  Element* c;
  std::int64_t c_row_stride;
  const Element* bias;  // or null
  Activation activation;
};

// One block of the product with all of its operands laid out for the tile kernel. Term (i, p) of a
// is at a[i / panel_rows * a_panel_stride + i % panel_rows * a_row_stride + p * a_k_stride], term
// (p, j) of b at b[j / tile_columns * b_panel_stride + p * b_k_stride + j % tile_columns]. A term
// is an element as a computed value. Where Kernels::elements_per_term is 2, a and b point to
// BFloat16Pair instead, which has the size of a computed value, and k counts pairs.
template <class Element>
struct Block {
  using Compute = ComputeOf<Element>;
  std::int64_t m, n, k;
  const Compute* a;
  std::int64_t a_row_stride, a_k_stride, a_panel_stride, panel_rows;
  const Compute* b;
  std::int64_t b_k_stride, b_panel_stride;
  Compute* sums;  // the sums over k; c itself if Element is Compute; null if k has no other block
  std::int64_t sums_row_stride;
  bool transposed;                  // the block computes cᵀ: m counts columns of c, n its rows
  bool accumulate;                  // add to the sums of earlier steps of k
  const Epilogue<Element>* finish;  // at the last step of k, else null
};

// c = a · b for operands that are both contiguous along k; no packing, SIMD lanes run along k.
template <class Element>
struct DotBlock {
  std::int64_t m, n, k;
  const Element* a;
  std::int64_t a_row_stride;
  const Element* b;
  std::int64_t b_column_stride;
  ComputeOf<Element>* sums;
  std::int64_t sums_row_stride;
};

template <class Element>
struct Kernels {
  using Compute = ComputeOf<Element>;

  std::int64_t tile_rows;          // the most rows of a that one tile holds in registers
  std::int64_t tile_columns;       // the columns of b that one tile holds
  std::int64_t elements_per_term;  // 1, or 2 if the tile kernel multiplies pairs

  // Copies `count` rows of k elements, which are `terms` terms, into panels of `width` rows: term
  // (i, p) goes to panels[(i / width * terms + p) * width + i % width]. The second half of the last
  // pair is 0 if k is odd. Lanes past the last row have unspecified values. Writes up to
  // 2 · tile_columns terms past the end.
  void (*pack)(const Element* rows, std::int64_t row_stride, std::int64_t k_stride,
               std::int64_t count, std::int64_t k, std::int64_t width, Compute* panels);

  void (*block)(const Block<Element>& block);

  // A small product of float32 or float64 with unit column stride of b and at most a relu; else
  // null.
  void (*tiny)(const GemmCall& call);

  // c = activation(sums + bias); sums may be c.
  void (*finish)(const Epilogue<Element>& finish, const Compute* sums, std::int64_t sums_row_stride,
                 std::int64_t rows, std::int64_t columns);

  void (*dot_block)(const DotBlock<Element>& block);

  // sums = Σ_p x[p] · rows[p], over rows of `count` contiguous elements.
  void (*combine_rows)(const Compute* x, const Element* rows, std::int64_t row_stride,
                       std::int64_t k, std::int64_t count, Compute* sums);
};

// The table for simd_target().
template <class Element>
const Kernels<Element>& kernels();

}  // namespace extensor::cpu
