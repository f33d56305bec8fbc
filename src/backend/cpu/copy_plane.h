// Copies between two strided layouts, two dimensions at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

// Element (i, j) is i · row + j · column elements after the first one, on either side. The two
// sides do not overlap.
struct CopiedPlane {
  const std::byte* from;
  std::byte* to;
  std::int64_t rows, columns;
  std::int64_t from_row, from_column, to_row, to_column;
  // Planes of the same strides, and the distances between them.
  std::int64_t count = 1, from_plane = 0, to_plane = 0;

  // Whether the source is dense along the rows and the target is along the columns.
  bool is_transposed() const { return from_row == 1 && from_column != 1 && to_column == 1; }
};

// Copies elements of `size` bytes. Pays for planes of any proportions: the vectors run along the
// axis that is dense on both sides, or blocks are transposed in registers.
void copy_plane(const CopiedPlane& plane, std::size_t size);

}  // namespace extensor::cpu
