// Reads rows of the matrix of patches, a block of pixels at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/stage.h"

namespace extensor::cpu::conv {

// Row p holds element p of the pixels' patches. Rows are copied from a stage if that pays, else
// element by element.
template <class T>
class PatchReader {
 public:
  // For blocks of at most `pixels` pixels and at most `channels` whole channels.
  PatchReader(const Shape& shape, std::int64_t pixels, std::int64_t channels)
      : shape_(shape),
        staged_(is_compact(shape)),
        stage_(shape, staged_ ? channels : 0,
               staged_ ? std::min(shape.out_height, pixels / shape.out_width + 2) : 1, 0) {
    staged_ = staged_ && stage_.size() <= most_staged;
  }

  std::int64_t stage_size() const { return staged_ ? stage_.size() : 0; }
  // The most rows of y that `pixels` consecutive pixels span.
  static std::int64_t most_segments(const Shape& shape, std::int64_t pixels) {
    return pixels / shape.out_width + 2;
  }

  // Selects the pixels starting at `first` and the channels starting at `channel` of `image`.
  void open(const T* image, std::int64_t channel, std::int64_t channels, std::int64_t first,
            T* memory) {
    image_ = image;
    memory_ = memory;
    first_ = first;
    first_element_ = channel * shape_.taps();
    if (!staged_) return;
    stage_.read(image + channel * shape_.in_pixels(), channels, first / shape_.out_width, memory);
  }

  // Elements p … p + count − 1 of the patches of `columns` pixels, starting `column` after the
  // first. Writes up to a vector past the end of each row.
  void read(std::int64_t p, std::int64_t count, std::int64_t column, std::int64_t columns,
            Segment* segments, std::int64_t row_stride, T* rows) const {
    if (!staged_) {
      Tap tap(shape_, p);
      for (std::int64_t i = 0; i < count; ++i, tap.advance(shape_)) {
        read_patch_row(shape_, image_, tap, first_ + column, columns, rows + i * row_stride);
      }
      return;
    }
    const std::int64_t top = first_ / shape_.out_width;
    std::int64_t i = (first_ + column) / shape_.out_width, j = (first_ + column) % shape_.out_width;
    Segment* last = segments;
    for (std::int64_t to = 0; to < columns; ++i, j = 0) {
      const std::int64_t length = std::min(shape_.out_width - j, columns - to);
      *last++ = {(i - top) * stage_.row_step() + j, to, length};
      to += length;
    }
    direct_kernels<T>().copy_segments(memory_, stage_.offsets() + (p - first_element_), count,
                                      segments, last, row_stride, rows);
  }

 private:
  static constexpr std::int64_t most_staged = 256 * 1024;

  const Shape& shape_;
  bool staged_;
  Stage<T> stage_;
  const T* image_ = nullptr;
  T* memory_ = nullptr;
  std::int64_t first_ = 0, first_element_ = 0;
};

}  // namespace extensor::cpu::conv
