// A part of an image copied with explicit padding, so that every tap is a shifted read.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/convolution/direct_kernels.h"
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
// remainder modulo the stride, if a tap has it, so that adjacent elements of y read adjacent
// elements here: element (i, j) of y, counted from the first row, uses stage[i · row_step() + j +
// offsets[p]] for element p of a patch. `slack` zeros follow each row.
template <class T>
class Stage {
 public:
  Stage(const Shape& shape, std::int64_t channels, std::int64_t rows, std::int64_t slack)
      : shape_(shape), channels_(channels) {
    const std::int64_t width = (shape.out_width - 1) * shape.stride_width +
                               shape.dilation_width * (shape.kernel_width - 1);
    phase_size_ = width / shape.stride_width + 1 + slack;
    const std::int64_t phases =
        std::min(shape.stride_width, shape.dilation_width * (shape.kernel_width - 1) + 1);
    row_size_ = phase_size_ * phases;
    for (std::int64_t phase = 0; phase < phases; ++phase) {
      const std::int64_t from = phase - shape.padding_width;
      const Span inside = positions_inside(phase_size_, shape.stride_width, from, shape.in_width);
      phases_.push_back(
          {from + inside.begin * shape.stride_width, inside.begin, inside.end - inside.begin});
    }
    row_skip_ = shape.kernel_height == 1 ? shape.stride_height : 1;
    height_ = (rows - 1) * shape.stride_height / row_skip_ +
              shape.dilation_height * (shape.kernel_height - 1) + 1;
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
  std::int64_t row_step() const { return shape_.stride_height / row_skip_ * row_size_; }
  const std::int64_t* offsets() const { return offsets_.data(); }

  std::int64_t tap_row_step() const { return shape_.dilation_height * row_size_; }

  // Copies the `channels` planes starting at x, for the rows of y starting at first_row.
  void read(const T* x, std::int64_t channels, std::int64_t first_row, T* to) const {
    const std::int64_t top = first_row * shape_.stride_height - shape_.padding_height;
    const Span inside = positions_inside(height_, row_skip_, top, shape_.in_height);
    const auto clear = [&](std::int64_t rows) {
      std::memset(to, 0, static_cast<std::size_t>(rows * row_size_) * sizeof(T));
      to += rows * row_size_;
    };
    for (std::int64_t c = 0; c < channels; ++c) {
      clear(inside.begin);
      const std::int64_t row = c * shape_.in_height + top + inside.begin * row_skip_;
      direct_kernels<T>().copy_rows({x + row * shape_.in_width, row_skip_ * shape_.in_width,
                                     inside.end - inside.begin, shape_.stride_width, phases_.data(),
                                     std::ssize(phases_), phase_size_, to});
      to += (inside.end - inside.begin) * row_size_;
      clear(height_ - inside.end);
    }
  }

 private:
  const Shape& shape_;
  std::int64_t channels_, phase_size_, row_size_, height_;
  std::int64_t row_skip_;  // between the rows of the image that are copied
  std::vector<RowPhase> phases_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace extensor::cpu::conv
