// Reads patches of an image: rows of the matrix that a convolution multiplies with its filters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/convolution_call.h"
#include "backend/cpu/convert.h"

namespace extensor::cpu::conv {

// The positions, out of `count` along y's axis, whose element of x at tap offset `shift` exists:
// those with 0 ≤ i · stride + shift < length.
struct Span {
  std::int64_t begin, end;
};
inline Span positions_inside(std::int64_t count, std::int64_t stride, std::int64_t shift,
                             std::int64_t length) {
  const std::int64_t begin = shift >= 0 ? 0 : std::min(count, (-shift - 1) / stride + 1);
  const std::int64_t end = shift >= length ? 0 : std::min(count, (length - shift - 1) / stride + 1);
  return {begin, std::max(begin, end)};
}

// One element of a patch: a channel and a tap, in the order of the weights.
struct Tap {
  std::int64_t channel, row, column;

  Tap(const backend::ConvolutionShape& shape, std::int64_t index)
      : channel(index / shape.taps()),
        row(index % shape.taps() / shape.kernel_width),
        column(index % shape.kernel_width) {}
  void advance(const backend::ConvolutionShape& shape) {
    if (++column < shape.kernel_width) return;
    column = 0;
    if (++row < shape.kernel_height) return;
    row = 0;
    ++channel;
  }
};

// Copies n elements that are `stride` apart.
template <class T>
void read_strided(const T* from, std::int64_t stride, std::int64_t n, T* to) {
  constexpr std::int64_t pays = 64;  // for the call
  if (n >= pays) {
    gather(reinterpret_cast<const std::byte*>(from), stride, reinterpret_cast<std::byte*>(to),
           static_cast<std::size_t>(n), sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

// out[q] = the element at `tap` for pixel first + q of y, from the image x [channels, height,
// width].
template <class T>
void read_patch_row(const backend::ConvolutionShape& shape, const T* x, const Tap& tap,
                    std::int64_t first, std::int64_t count, T* out) {
  const std::int64_t row_shift = tap.row * shape.dilation_height - shape.padding_height;
  const std::int64_t column_shift = tap.column * shape.dilation_width - shape.padding_width;
  const Span inside =
      positions_inside(shape.out_width, shape.stride_width, column_shift, shape.in_width);
  const T* plane = x + tap.channel * shape.in_pixels();
  std::int64_t i = first / shape.out_width, j = first % shape.out_width;
  while (count > 0) {
    const std::int64_t end = std::min(shape.out_width, j + count);
    const std::int64_t row = i * shape.stride_height + row_shift;
    if (row < 0 || row >= shape.in_height || inside.begin >= inside.end) {
      std::memset(out, 0, static_cast<std::size_t>(end - j) * sizeof(T));
    } else {
      const std::int64_t from = row * shape.in_width + column_shift;
      std::int64_t q = j;
      for (; q < std::min(end, inside.begin); ++q) out[q - j] = 0;
      const std::int64_t copied = std::min(end, inside.end);
      if (q < copied) {
        if (shape.stride_width == 1) {
          std::memcpy(out + (q - j), plane + (from + q),
                      static_cast<std::size_t>(copied - q) * sizeof(T));
          q = copied;
        } else {
          read_strided(plane + (from + q * shape.stride_width), shape.stride_width, copied - q,
                       out + (q - j));
          q = copied;
        }
      }
      for (; q < end; ++q) out[q - j] = 0;
    }
    out += end - j;
    count -= end - j;
    j = 0;
    ++i;
  }
}

}  // namespace extensor::cpu::conv
