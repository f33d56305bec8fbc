// A part of an image copied with explicit padding, so that every tap is a shifted read.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/routes.h"

namespace extensor::cpu::conv {

// Whether padding, dilation and stride do not make the copy much larger than the image.
inline bool is_compact(const Shape& shape) {
  const auto compact = [](std::int64_t out, std::int64_t stride, std::int64_t kernel,
                          std::int64_t dilation, std::int64_t in) {
    constexpr std::int64_t far = 256;
    return stride <= far && dilation <= far && kernel <= far && out <= 2 * in + far &&
           (out - 1) * stride + dilation * (kernel - 1) <= 2 * in + far;
  };
  return compact(shape.out_height, shape.stride_height, shape.kernel_height, shape.dilation_height,
                 shape.in_height) &&
         compact(shape.out_width, shape.stride_width, shape.kernel_width, shape.dilation_width,
                 shape.in_width);
}

// The input of `rows` rows of y, for up to `channels` channels. Columns are grouped by their
// remainder modulo the stride, so that adjacent elements of y read adjacent elements here: element
// (i, j) of y, counted from the first row, uses stage[i · row_step() + j + offsets[p]] for element
// p of a patch. `slack` zeros follow each row.
template <class T>
class Stage {
 public:
  Stage(const Shape& shape, std::int64_t channels, std::int64_t rows, std::int64_t slack)
      : shape_(shape), channels_(channels) {
    const std::int64_t width = (shape.out_width - 1) * shape.stride_width +
                               shape.dilation_width * (shape.kernel_width - 1);
    phase_size_ = width / shape.stride_width + 1 + slack;
    row_size_ = phase_size_ * shape.stride_width;
    height_ =
        (rows - 1) * shape.stride_height + shape.dilation_height * (shape.kernel_height - 1) + 1;
    offsets_.resize(static_cast<std::size_t>(channels * shape.taps()));
    Tap tap(shape, 0);
    for (std::int64_t& offset : offsets_) {
      const std::int64_t column = tap.column * shape.dilation_width;
      offset = (tap.channel * height_ + tap.row * shape.dilation_height) * row_size_ +
               column % shape.stride_width * phase_size_ + column / shape.stride_width;
      tap.advance(shape);
    }
  }

  // Reads may pass the end by a vector.
  std::int64_t size() const { return channels_ * height_ * row_size_ + 64; }
  std::int64_t row_step() const { return shape_.stride_height * row_size_; }
  const std::int64_t* offsets() const { return offsets_.data(); }

  // Copies the `channels` planes starting at x, for the rows of y starting at first_row.
  void read(const T* x, std::int64_t channels, std::int64_t first_row, T* to) const {
    const std::int64_t top = first_row * shape_.stride_height - shape_.padding_height;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < height_; ++i, to += row_size_) {
        const std::int64_t row = top + i;
        if (row < 0 || row >= shape_.in_height) {
          std::memset(to, 0, static_cast<std::size_t>(row_size_) * sizeof(T));
        } else {
          read_row(x + (c * shape_.in_height + row) * shape_.in_width, to);
        }
      }
    }
  }

 private:
  void read_row(const T* row, T* to) const {
    const std::int64_t stride = shape_.stride_width;
    for (std::int64_t phase = 0; phase < stride; ++phase, to += phase_size_) {
      const std::int64_t from = phase - shape_.padding_width;
      const Span inside = positions_inside(phase_size_, stride, from, shape_.in_width);
      std::fill(to, to + inside.begin, T(0));
      if (stride == 1) {
        std::memcpy(to + inside.begin, row + (from + inside.begin),
                    static_cast<std::size_t>(inside.end - inside.begin) * sizeof(T));
      } else {
        read_strided(row + (from + inside.begin * stride), stride, inside.end - inside.begin,
                     to + inside.begin);
      }
      std::fill(to + inside.end, to + phase_size_, T(0));
    }
  }

  const Shape& shape_;
  std::int64_t channels_, phase_size_, row_size_, height_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace extensor::cpu::conv
