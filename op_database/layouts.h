// The same numbers in different memory layouts, which every kernel must read alike.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "extensor/extensor.h"

namespace extensor::layouts {

enum class Layout { contiguous, transposed, stepped, reversed, broadcast, channels_last };

inline constexpr Layout every_layout[] = {Layout::contiguous, Layout::transposed,
                                          Layout::stepped,    Layout::reversed,
                                          Layout::broadcast,  Layout::channels_last};

inline const char* name(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "stepped",
                                   "reversed",   "broadcast",  "channels_last"};
  return names[static_cast<int>(layout)];
}

inline std::ostream& operator<<(std::ostream& stream, Layout layout) {
  return stream << name(layout);
}

inline std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

// Whether a layout differs from contiguous memory for this shape.
inline bool is_distinct(Layout layout, const Shape& shape) {
  switch (layout) {
    case Layout::contiguous:
      return true;
    case Layout::transposed:
      return shape.size() > 1 && element_count(shape) > 1;
    case Layout::channels_last:
      return shape.size() == 4 && shape[1] > 1 && shape[2] * shape[3] > 1 && shape[0] > 0;
    default:
      return shape.size() > 0 && element_count(shape) > 0;
  }
}

// The shape of the numbers to draw for a tensor of `shape`: a broadcast layout repeats them along
// the first axis.
inline Shape drawn_shape(Layout layout, const Shape& shape) {
  Shape drawn = shape;
  if (layout == Layout::broadcast && is_distinct(layout, shape)) drawn[0] = 1;
  return drawn;
}

// A view of `shape` with the elements of `drawn`, broadcast to it, in the given layout. The memory
// between the elements holds NaN, or a conspicuous integer.
inline Tensor with_layout(const Tensor& drawn, Layout layout, const Shape& shape) {
  if (!is_distinct(layout, shape)) return drawn.clone(MemoryFormat::contiguous);
  const auto trap = [](Tensor memory) {
    if (memory.dtype() == DType::bool_) return memory.fill(true);
    return is_floating_point(memory.dtype()) ? memory.fill(__builtin_nan("")) : memory.fill(77);
  };
  switch (layout) {
    case Layout::contiguous:
      return drawn.clone(MemoryFormat::contiguous);
    case Layout::transposed:
      return drawn.transpose().contiguous().transpose();
    case Layout::channels_last:
      return drawn.transpose({0, 2, 3, 1}).contiguous().transpose({0, 3, 1, 2});
    case Layout::stepped: {
      Shape wide = shape;
      for (std::int64_t& size : wide) size = 2 * size + 1;
      Tensor view = trap(extensor::empty(wide, {drawn.dtype(), drawn.device()}));
      for (std::int64_t axis = 0; axis < drawn.ndim(); ++axis) view = view.slice(axis, 1, {}, 2);
      return view.copy_from(drawn);
    }
    case Layout::reversed: {
      Tensor view = extensor::empty(shape, {drawn.dtype(), drawn.device()});
      for (std::int64_t axis = 0; axis < drawn.ndim(); ++axis) {
        view = view.slice(axis, {}, {}, -1);
      }
      return view.copy_from(drawn);
    }
    case Layout::broadcast:
      return drawn.clone(MemoryFormat::contiguous).broadcast_to(shape);
  }
  return drawn;
}

// Sizes around the vector lengths, small matrices and blocks, and tensors of no or one element.
inline std::vector<Shape> gradient_shapes() {
  return {{},   {0},  {3, 0, 2}, {1},    {3},    {7},       {8},       {9},   {16},
          {17}, {31}, {33},      {2, 3}, {5, 7}, {2, 3, 4}, {3, 1, 5}, {1, 9}};
}

}  // namespace extensor::layouts
