// Converts blocks of elements between dtypes, and moves them to and from strided memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::cpu {

// Converts n dense elements by the rules of core/convert.h. Source and target do not overlap.
using ConvertLoop = void (*)(const void* from, void* to, std::size_t n);
ConvertLoop convert_loop(DType from, DType to);

// Rounds n floats to `half` and lists, in `doubtful`, the positions where an error of a few units
// in the last place of the float could have changed the result. Returns their number.
using DemoteLoop = std::size_t (*)(const float* from, void* to, std::size_t n,
                                   std::uint16_t* doubtful);
DemoteLoop demote_and_check_loop(DType half);

// Copies n elements of `size` bytes, `stride` elements apart on the strided side.
void gather(const std::byte* from, std::int64_t stride, std::byte* to, std::size_t n,
            std::size_t size);
void scatter(const std::byte* from, std::byte* to, std::int64_t stride, std::size_t n,
             std::size_t size);

// Repeats the element at `from` n times.
void splat(const std::byte* from, std::byte* to, std::size_t n, std::size_t size);

// to[i][j] = from[i · row_stride + j · column_stride] for a block of `rows` × `columns` elements of
// `size` bytes, where row_stride is ±1: walks `from` along its dense direction.
void gather_transposed(const std::byte* from, std::int64_t row_stride, std::int64_t column_stride,
                       std::byte* to, std::size_t to_row_stride, std::size_t rows,
                       std::size_t columns, std::size_t size);

// Writes whole cache lines past the caches. Call stream_fence() after the last one.
void stream_copy(const std::byte* from, std::byte* to, std::size_t bytes);
void stream_zero(std::byte* to, std::size_t bytes);
void stream_fence();

}  // namespace extensor::cpu
