// Reads rows of the matrix of patches, a block of pixels at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/stage.h"

namespace extensor::cpu::conv {

// Row p holds element p of the pixels' patches. Rows are copied from a stage if that pays, else
// element by element. Pixels are those of a part of one image, or of several whole images.
template <class T>
class PatchReader {
 public:
  // For blocks of at most `pixels` pixels of one image, or of `images` > 1 images, and at most
  // `channels` whole channels.
  PatchReader(const Shape& shape, std::int64_t pixels, std::int64_t channels, std::int64_t images)
      : shape_(shape),
        most_images_(images),
        staged_(is_compact(shape)),
        stage_(shape, staged_ ? channels : 0,
               !staged_     ? 1
               : images > 1 ? shape.out_height
                            : std::min(shape.out_height, pixels / shape.out_width + 2),
               0) {
    staged_ = staged_ && images * stage_.size() <= most_staged;
  }

  std::int64_t stage_size() const { return staged_ ? most_images_ * stage_.size() : 0; }
  // The most rows of y that `pixels` consecutive pixels span.
  static std::int64_t most_segments(const Shape& shape, std::int64_t pixels) {
    return pixels / shape.out_width + 2;
  }

  // Selects the pixels starting at `first` and the channels starting at `channel` of `images`
  // images, which are `image_stride` elements apart.
  void open(const T* image, std::int64_t image_stride, std::int64_t images, std::int64_t channel,
            std::int64_t channels, std::int64_t first, T* memory) {
    image_ = image;
    image_stride_ = image_stride;
    memory_ = memory;
    first_ = first;
    first_element_ = channel * shape_.taps();
    if (!staged_) return;
    for (std::int64_t n = 0; n < images; ++n) {
      stage_.read(image + n * image_stride + channel * shape_.in_pixels(), channels,
                  first / shape_.out_width, memory + n * stage_.size());
    }
  }

  // Elements p … p + count − 1 of the patches of `columns` pixels, starting `column` after the
  // first. Writes up to a vector past the end of each row.
  void read(std::int64_t p, std::int64_t count, std::int64_t column, std::int64_t columns,
            Segment* segments, std::int64_t row_stride, T* rows) const {
    if (!staged_) return read_unstaged(p, count, first_ + column, columns, row_stride, rows);
    const std::int64_t top = first_ / shape_.out_width;
    // Rows of all images are counted together.
    std::int64_t i = (first_ + column) / shape_.out_width, j = (first_ + column) % shape_.out_width;
    Segment* last = segments;
    for (std::int64_t to = 0; to < columns; ++i, j = 0) {
      const std::int64_t length = std::min(shape_.out_width - j, columns - to);
      *last++ = {i / shape_.out_height * stage_.size() +
                     (i % shape_.out_height - top) * stage_.row_step() + j,
                 to, length};
      to += length;
    }
    direct_kernels<T>().copy_segments(memory_, stage_.offsets() + (p - first_element_), count,
                                      segments, last, row_stride, rows);
  }

 private:
  static constexpr std::int64_t most_staged = 256 * 1024;

  void read_unstaged(std::int64_t p, std::int64_t count, std::int64_t pixel, std::int64_t columns,
                     std::int64_t row_stride, T* rows) const {
    while (columns > 0) {
      const std::int64_t n = pixel / shape_.out_pixels(), first = pixel % shape_.out_pixels();
      const std::int64_t length = std::min(columns, shape_.out_pixels() - first);
      Tap tap(shape_, p);
      for (std::int64_t i = 0; i < count; ++i, tap.advance(shape_)) {
        read_patch_row(shape_, image_ + n * image_stride_, tap, first, length,
                       rows + i * row_stride);
      }
      pixel += length;
      columns -= length;
      rows += length;
    }
  }

  const Shape& shape_;
  std::int64_t most_images_;
  bool staged_;
  Stage<T> stage_;
  const T* image_ = nullptr;
  T* memory_ = nullptr;
  std::int64_t image_stride_ = 0, first_ = 0, first_element_ = 0;
};

}  // namespace extensor::cpu::conv
