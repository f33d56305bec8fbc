// The transforms of Winograd's F(2×2, 3×3): 2 × 2 results from 4 × 4 elements of x by 16 products
// instead of 36. The coefficients are small integers and halves, so the result is nearly as
// accurate as the plain sum.
#pragma once

#include <cstdint>

namespace extensor::cpu::conv {

inline constexpr std::int64_t winograd_points = 16;  // products per tile and channel

// Consecutive rows of tiles of one plane; tile (i, j) computes rows 2i, 2i + 1 and columns 2j, 2j +
// 1 of y.
struct TileRun {
  std::int64_t first_row, rows, columns;
  std::int64_t count() const { return rows * columns; }
};

// The destination of the tiles' points: point p of tile t, counted from `first`, is written to to[p
// · point_stride + t / width · panel_stride + t % width]. `width` and `first` are multiples of the
// lanes; whole vectors are written.
template <class T>
struct TilePoints {
  T* to;
  std::int64_t point_stride, width, panel_stride, first;
};

// A panel of filters: row i, step k is the filter whose 9 taps start at weight[i · row_stride + k ·
// k_stride]. Its points go to to[p · point_stride + k · width + i].
template <class T>
struct FilterPanel {
  const T* weight;
  std::int64_t row_stride, k_stride;
  bool turned;  // the taps are read in reverse order
  std::int64_t rows, readable_rows, k;
  std::int64_t width;
  T* to;
  std::int64_t point_stride;
};

template <class T>
struct WinogradKernels {
  std::int64_t lanes;
  // G w Gᵀ of a panel of at most 2 · lanes rows. Reads `readable_rows` ≥ rows rows and writes up to
  // 2 · lanes elements past the end of each point.
  void (*transform_filters)(const FilterPanel<T>& panel);
  // Bᵀ d B of the 4 × 4 elements of x under each tile; x is height × width, zeros around it.
  void (*transform_input)(const T* x, std::int64_t height, std::int64_t width,
                          std::int64_t padding_height, std::int64_t padding_width,
                          const TileRun& tiles, const TilePoints<T>& points, T* scratch);
  // A g Aᵀ of the 2 × 2 elements of y's gradient.
  void (*transform_gradient)(const T* y, std::int64_t height, std::int64_t width,
                             const TileRun& tiles, const TilePoints<T>& points, T* scratch);
  // y = Aᵀ m A + bias, where point p of tile t is m[p · point_stride + t]. Returns false if a
  // result is not finite.
  bool (*transform_output)(const T* m, std::int64_t point_stride, const TileRun& tiles, T bias,
                           std::int64_t height, std::int64_t width, T* y, T* scratch);
};

// The elements of scratch that each transform needs.
inline std::int64_t winograd_scratch(const TileRun& tiles, std::int64_t lanes) {
  return 8 * ((tiles.rows + 1) * tiles.columns + 2 * lanes) + 2 * tiles.columns + 6 * lanes;
}

template <class T>
const WinogradKernels<T>& winograd_kernels();

}  // namespace extensor::cpu::conv
