// Code shared by the forward and the backward of attention: products of blocks, masks as addends,
// scratch memory and the loop over tasks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backend/attention_call.h"
#include "backend/cpu/attention/kernels.h"
#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/gemm/parallel.h"
#include "core/make_tensor.h"

namespace extensor::cpu {

// A matrix in memory; element (i, j) at data[i · row_stride + j · column_stride].
template <class T>
struct LeftOperand {
  const T* data;
  std::int64_t row_stride, column_stride;
};

// The right operand: rows of adjacent columns, or panels of as many columns as a tile has.
template <class T>
struct RightOperand {
  const T* data;
  std::int64_t row_stride, panel_stride;
};

template <class T>
RightOperand<T> in_place(const T* data, std::int64_t row_stride) {
  return {data, row_stride, kernels<T>().tile_columns};
}
template <class T>
RightOperand<T> packed(const T* panels, std::int64_t rows) {
  const std::int64_t width = kernels<T>().tile_columns;
  return {panels, width, rows * width};
}

// c (+)= a · b for m × k times k × n, on the calling thread.
template <class T>
void multiply_block(std::int64_t m, std::int64_t n, std::int64_t k, LeftOperand<T> a,
                    RightOperand<T> b, T* c, std::int64_t c_row_stride, bool accumulate) {
  if (m <= 0 || n <= 0) return;
  const Kernels<T>& gemm = kernels<T>();
  const std::int64_t tiles = (m + gemm.tile_rows - 1) / gemm.tile_rows;
  Block<T> block;
  block.m = m;
  block.n = n;
  block.k = k;
  block.a = a.data;
  block.a_row_stride = a.row_stride;
  block.a_k_stride = a.column_stride;
  block.panel_rows = (m + tiles - 1) / tiles;
  block.a_panel_stride = block.panel_rows * a.row_stride;
  block.b = b.data;
  block.b_k_stride = b.row_stride;
  block.b_panel_stride = b.panel_stride;
  block.sums = c;
  block.sums_row_stride = c_row_stride;
  block.transposed = false;
  block.accumulate = accumulate;
  block.finish = nullptr;
  gemm.block(block);
}

// The addend of the mask to the scores of one query against `count` keys: in `room`, or in the mask
// itself if it is stored that way.
template <class T>
const T* mask_row(const backend::AttentionMask& mask, std::int64_t batch, std::int64_t query,
                  std::int64_t first_key, std::int64_t count, T* room) {
  const std::int64_t at =
      mask.offsets[batch] + query * mask.query_stride + first_key * mask.key_stride;
  if (mask.dtype == DType::bool_) {
    const auto* taken = reinterpret_cast<const unsigned char*>(mask.data) + at;
    for (std::int64_t j = 0; j < count; ++j) {
      room[j] = taken[j * mask.key_stride] != 0 ? T(0) : -std::numeric_limits<T>::infinity();
    }
    return room;
  }
  const T* values = reinterpret_cast<const T*>(mask.data) + at;
  if (mask.key_stride == 1) return values;
  for (std::int64_t j = 0; j < count; ++j) room[j] = values[j * mask.key_stride];
  return room;
}

// Scratch memory for each thread, from the tensors' allocator: it is counted, limited and reused.
// Throws OutOfMemoryError.
template <class T>
class AttentionScratch {
 public:
  // Adds `count` elements to each thread's share and returns their offset.
  std::int64_t add(std::int64_t count) {
    const std::int64_t begin = size_;
    constexpr std::int64_t line = 64 / sizeof(T);
    size_ += (count + line - 1) / line * line;
    return begin;
  }
  void allocate(const char* operation, int threads) {
    memory_ = detail::make_empty(operation, {threads, size_}, dtype_of<T>, cpu_device);
  }
  T* of_thread(int thread) { return reinterpret_cast<T*>(memory_.impl().data) + thread * size_; }

 private:
  std::int64_t size_ = 0;
  Tensor memory_;
};

inline int attention_threads(const backend::AttentionCall& call) {
  const double work = static_cast<double>(call.batch) * static_cast<double>(call.queries) *
                      static_cast<double>(call.keys) *
                      static_cast<double>(call.width + call.value_width);
  return gemm_threads(work, 1e6);
}

}  // namespace extensor::cpu
