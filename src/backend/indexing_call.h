// The kernel families that move elements by position, sort rows and scan them. Every operand is
// dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/elementwise_op.h"
#include "extensor/dtype.h"
#include "extensor/shape.h"

namespace extensor::backend {

// Checks `count` integers of any dtype, and notes the first invalid one as `check`; see
// backend/checks.h. Valid are lowest … size − 1 and `also`, or, with `nonzero`, all except 0.
// `out`, unless null, receives them as indices: negative ones count from the end of `size`, except
// for `also`, and an invalid one becomes 0.
struct CheckIntegersCall {
  DType dtype;
  std::int64_t count;
  std::int64_t lowest, size;
  std::optional<std::int64_t> also = {};
  bool nonzero = false;
  const std::byte* values;
  std::uint32_t check;
  std::int64_t* out = nullptr;
};

// "rows": one list of `count` indices for all rows; each moves `inner` neighbouring elements.
// "elements": an index for every element, [outer, count, inner].
enum class IndexOp : std::uint8_t {
  take_rows,      // out[o, j, i] = source[o, indices[j], i]
  add_rows,       // out[o, indices[j], i] += factor · source[o, j, i], each sum rounded once
  take_elements,  // out[o, j, i] = source[o, indices[o, j, i], i]
  put_elements,   // out[o, indices[o, j, i], i] = source[o, j, i]; the last one wins
  // Like put, but combined with the element; float64, int64 or uint64.
  add_elements,
  multiply_elements,
  largest_elements,  // NaN if any is
  smallest_elements,
};

// take: source is [outer, length, inner] and out [outer, count, inner]; put and add: the reverse.
// Indices are in 0 … length − 1. Sums do not depend on the number of threads.
struct IndexCall {
  IndexOp op;
  DType dtype;
  std::int64_t outer, length, count, inner;
  const std::int64_t* indices;
  const std::byte* source;
  std::byte* out;
  Parameter factor = {1, 1};
};

// Moves elements between strided memory and dense memory [outer, count, inner]. The strided element
// at (o, j, i) is found by the shapes and strides of o and i, plus offsets[j]; all in elements.
struct SelectCall {
  bool writes;    // into the strided memory; otherwise from it
  bool distinct;  // no offset occurs twice; otherwise the last j that writes one wins
  bool single;    // writes: `dense` is one element, written everywhere
  DType dtype;
  const Shape *outer_shape, *inner_shape;
  const Strides *outer_strides, *inner_strides;
  std::int64_t count;
  const std::int64_t* offsets;
  std::byte* strided;
  std::byte* dense;
};

// The positions where the mask is true, ascending; the caller counted them.
struct NonzeroCall {
  const bool* mask;
  std::int64_t count;
  std::int64_t* out;
};

// The first `count` elements of every row of `length` in ascending or descending order; equal
// elements keep their order and NaN is last in both. Either result may be null.
struct SortCall {
  DType dtype;
  bool descending;
  std::int64_t rows, length, count;
  const std::byte* x;
  std::byte* values;
  std::int64_t* indices;
};

// The elements of some ranks of every row of `length`, in the order of an ascending SortCall, and
// their positions: [rows, rank_count]. Either result may be null.
struct RankCall {
  DType dtype;
  std::int64_t rows, length, rank_count;
  const std::int64_t* ranks;  // in host memory, each in 0 … length − 1
  const std::byte* x;
  std::byte* values;
  std::int64_t* indices;
};

// out[v] = the number of elements that are v, for v in 0 … length − 1, where all elements are.
struct CountCall {
  DType dtype;  // an integer
  std::int64_t count, length;
  const std::byte* x;
  std::int64_t* out;
};

// The position at which each of `count` values of a row would be inserted into a sorted row of
// `length`, before or after equal elements; NaN is the largest.
struct SearchCall {
  DType dtype;
  bool behind_equal;
  bool one_row;  // all values are looked up in the first sorted row
  std::int64_t rows, length, count;
  const std::byte* sorted;
  const std::byte* values;
  std::int64_t* out;
};

enum class ScanOp : std::uint8_t {
  sum,
  prod,
  prod_backward,  // of y = prod: Σ over j ≥ k of g[j] · Π over i ≤ j, i ≠ k of x[i]
  // The gradients of the inputs of prod_backward, given the gradient of its result.
  prod_double_backward,
};

// Scans the middle axis of [outer, length, inner]; floats, int64 or uint64.
struct ScanCall {
  ScanOp op;
  DType dtype;
  bool reverse;  // from the last to the first; sum and prod
  std::int64_t outer, length, inner;
  const std::byte* x;
  const std::byte* grad_output;    // of prod_backward and prod_double_backward
  const std::byte* grad_gradient;  // of prod_double_backward
  std::byte* out;                  // of the double backward: the gradient of x
  std::byte* grad_grad_output;     // of the double backward: the gradient of grad_output
};

}  // namespace extensor::backend
