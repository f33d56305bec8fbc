// Copies between two strided layouts: rows as they are, a few of them alternating, or transposed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/copy_plane.cpp"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/copy_plane.h"
#include "hwy/highway.h"

#ifndef EXTENSOR_COPY_PLANE_LOOPS
#define EXTENSOR_COPY_PLANE_LOOPS
namespace extensor::cpu {
// Indexed by the logarithm of the element's size.
struct CopyPlaneLoops {
  void (*copy[4])(const CopiedPlane& plane);
};
}  // namespace extensor::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A plane of elements of type T.
template <class T>
struct PlaneOf {
  const T* from;
  T* to;
  std::int64_t rows, columns, from_row, from_column, to_row, to_column;

  explicit PlaneOf(const CopiedPlane& p)
      : from(reinterpret_cast<const T*>(p.from)),
        to(reinterpret_cast<T*>(p.to)),
        rows(p.rows),
        columns(p.columns),
        from_row(p.from_row),
        from_column(p.from_column),
        to_row(p.to_row),
        to_column(p.to_column) {}
};

// Copies n dense elements: whole vectors, of which the last two overlap. From some 2 KiB on, memcpy
// may use a string instruction, which takes several times longer where `to` is not aligned.
template <class T>
void copy_run(const T* from, T* to, std::int64_t n) {
  constexpr std::int64_t long_bytes = 65536;
  if (n * static_cast<std::int64_t>(sizeof(T)) >= long_bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const auto in_vectors = [&](auto d) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    if (n < lanes) return false;
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < n) hn::StoreU(hn::LoadU(d, from + n - lanes), d, to + n - lanes);
    return true;
  };
  if (in_vectors(hn::ScalableTag<T>()) || in_vectors(hn::CappedTag<T, 16 / sizeof(T)>())) return;
#endif
  for (; i < n; ++i) to[i] = from[i];
}

template <class T>
void copy_rows(const PlaneOf<T>& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    copy_run(p.from + i * p.from_row, p.to + i * p.to_row, p.columns);
  }
}

// Two to four columns that are dense in the target and dense along the rows in the source.
template <int count, class T>
void interleave(const PlaneOf<T>& p) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto column = [&](std::int64_t j) { return hn::LoadU(d, p.from + i + j * p.from_column); };
  for (; i + lanes <= p.rows; i += lanes) {
    T* to = p.to + i * count;
    if constexpr (count == 2) hn::StoreInterleaved2(column(0), column(1), d, to);
    if constexpr (count == 3) hn::StoreInterleaved3(column(0), column(1), column(2), d, to);
    if constexpr (count == 4) {
      hn::StoreInterleaved4(column(0), column(1), column(2), column(3), d, to);
    }
  }
#endif
  for (; i < p.rows; ++i) {
    for (int j = 0; j < count; ++j) p.to[i * count + j] = p.from[i + j * p.from_column];
  }
}

// Two to four rows that are dense in the target and dense along the columns' steps in the source.
template <int count, class T>
void deinterleave(const PlaneOf<T>& p) {
  std::int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; j + lanes <= p.columns; j += lanes) {
    const T* from = p.from + j * count;
    T* to = p.to + j;
    hn::Vec<decltype(d)> a, b, c, e;
    if constexpr (count == 2) hn::LoadInterleaved2(d, from, a, b);
    if constexpr (count == 3) hn::LoadInterleaved3(d, from, a, b, c);
    if constexpr (count == 4) hn::LoadInterleaved4(d, from, a, b, c, e);
    hn::StoreU(a, d, to);
    hn::StoreU(b, d, to + p.to_row);
    if constexpr (count >= 3) hn::StoreU(c, d, to + 2 * p.to_row);
    if constexpr (count >= 4) hn::StoreU(e, d, to + 3 * p.to_row);
  }
#endif
  for (; j < p.columns; ++j) {
    for (int i = 0; i < count; ++i) p.to[i * p.to_row + j] = p.from[j * count + i];
  }
}

template <class T>
inline constexpr std::int64_t line_of = 64 / static_cast<std::int64_t>(sizeof(T));

#if HWY_TARGET != HWY_SCALAR
template <class T>
inline constexpr std::int64_t block_of = 16 / static_cast<std::int64_t>(sizeof(T));

// to[i][j] = from[j][i] for i below `rows`, a multiple of the lanes of 16 bytes and a cache line at
// most, and as many j as there are lanes: every line of the source is read once, even if its lines
// collide in the cache.
template <class T>
void transpose_lines(const T* from, std::int64_t from_column, T* to, std::int64_t to_row,
                     std::int64_t rows) {
  constexpr std::size_t lanes = 16 / sizeof(T);
  const hn::CappedTag<T, lanes> d;
  for (std::int64_t i = 0; i < rows; i += block_of<T>) {
    hn::Vec<decltype(d)> block[lanes], next[lanes];
    for (std::size_t j = 0; j < lanes; ++j) {
      block[j] = hn::LoadU(d, from + static_cast<std::int64_t>(j) * from_column);
    }
    // Each step interleaves rows half a block apart; log₂(lanes) steps transpose it.
    for (std::size_t step = 1; step < lanes; step *= 2) {
      for (std::size_t j = 0; j < lanes / 2; ++j) {
        next[2 * j] = hn::InterleaveLower(d, block[j], block[j + lanes / 2]);
        next[2 * j + 1] = hn::InterleaveUpper(d, block[j], block[j + lanes / 2]);
      }
      for (std::size_t j = 0; j < lanes; ++j) block[j] = next[j];
    }
    for (std::size_t j = 0; j < lanes; ++j) {
      hn::StoreU(block[j], d, to + static_cast<std::int64_t>(j) * to_row);
    }
    from += block_of<T>;
    to += block_of<T> * to_row;
  }
}
#endif

// Any number of rows and columns.
template <class T>
void transpose(const PlaneOf<T>& p) {
  const auto copy = [&](std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1) {
    for (std::int64_t j = j0; j < j1; ++j) {
      for (std::int64_t i = i0; i < i1; ++i) {
        p.to[i * p.to_row + j] = p.from[i + j * p.from_column];
      }
    }
  };
#if HWY_TARGET == HWY_SCALAR
  copy(0, p.rows, 0, p.columns);
#else
  // Every line of the target is written at once, too, from a tile that the first-level cache keeps.
  constexpr std::int64_t line = line_of<T>;
  alignas(64) T tile[line * line];
  const hn::ScalableTag<T> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  const std::int64_t whole_rows = p.rows / block_of<T> * block_of<T>;
  const std::int64_t whole_columns = p.columns / block_of<T> * block_of<T>;
  for (std::int64_t i0 = 0; i0 < whole_rows; i0 += line) {
    const std::int64_t rows = std::min(line, whole_rows - i0);
    for (std::int64_t j0 = 0; j0 < whole_columns; j0 += line) {
      const std::int64_t columns = std::min(line, whole_columns - j0);
      const T* from = p.from + i0 + j0 * p.from_column;
      T* to = p.to + i0 * p.to_row + j0;
      const bool whole = columns == line;
      for (std::int64_t j = 0; j < columns; j += block_of<T>) {
        transpose_lines(from + j * p.from_column, p.from_column, whole ? tile + j : to + j,
                        whole ? line : p.to_row, rows);
      }
      for (std::int64_t i = 0; whole && i < rows; ++i) {
        for (std::int64_t j = 0; j < line; j += lanes) {
          hn::StoreU(hn::Load(d, tile + i * line + j), d, to + i * p.to_row + j);
        }
      }
    }
    copy(i0, i0 + rows, whole_columns, p.columns);
  }
  copy(whole_rows, p.rows, 0, p.columns);
#endif
}

// The rest: element by element, with the longer axis inside.
template <class T>
void copy_elements(const PlaneOf<T>& p) {
  constexpr std::int64_t long_row = 16, rows_together = 512;
  if (p.columns >= long_row && p.to_column == 1) {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const auto* from = reinterpret_cast<const std::byte*>(p.from + i * p.from_row);
      auto* to = reinterpret_cast<std::byte*>(p.to + i * p.to_row);
      const auto n = static_cast<std::size_t>(p.columns);
      if (p.from_column == 0) {
        splat(from, to, n, sizeof(T));
      } else {
        gather(from, p.from_column, to, n, sizeof(T));
      }
    }
    return;
  }
  if (p.columns >= std::min(long_row, p.rows)) {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const T* from = p.from + i * p.from_row;
      T* to = p.to + i * p.to_row;
      for (std::int64_t j = 0; j < p.columns; ++j) to[j * p.to_column] = from[j * p.from_column];
    }
    return;
  }
  for (std::int64_t i0 = 0; i0 < p.rows; i0 += rows_together) {
    const std::int64_t i1 = std::min(p.rows, i0 + rows_together);
    for (std::int64_t j = 0; j < p.columns; ++j) {
      const T* from = p.from + j * p.from_column;
      T* to = p.to + j * p.to_column;
      for (std::int64_t i = i0; i < i1; ++i) to[i * p.to_row] = from[i * p.from_row];
    }
  }
}

template <class T>
using CopyLoop = void (*)(const PlaneOf<T>& plane);

template <class T>
CopyLoop<T> loop_for(const PlaneOf<T>& p) {
  if (p.to_column != 1) return &copy_elements<T>;
  if (p.from_column == 1) return &copy_rows<T>;
  if (p.from_row != 1) return &copy_elements<T>;
  if (p.to_row == p.columns) {
    if (p.columns == 2) return &interleave<2, T>;
    if (p.columns == 3) return &interleave<3, T>;
    if (p.columns == 4) return &interleave<4, T>;
  }
  if (p.from_column == p.rows) {
    if (p.rows == 2) return &deinterleave<2, T>;
    if (p.rows == 3) return &deinterleave<3, T>;
    if (p.rows == 4) return &deinterleave<4, T>;
  }
  return p.rows >= 4 && p.columns >= 4 ? &transpose<T> : &copy_elements<T>;
}

template <class T>
void copy_planes_of(const CopiedPlane& planes) {
  PlaneOf<T> p(planes);
  const CopyLoop<T> loop = loop_for(p);
  for (std::int64_t k = 0; k < planes.count; ++k) {
    loop(p);
    p.from += planes.from_plane;
    p.to += planes.to_plane;
  }
}

CopyPlaneLoops make_copy_plane_loops() {
  return {{&copy_planes_of<std::uint8_t>, &copy_planes_of<std::uint16_t>,
           &copy_planes_of<std::uint32_t>, &copy_planes_of<std::uint64_t>}};
}

}  // namespace extensor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>

#include "core/simd/dispatch.h"

namespace extensor::cpu {

void copy_plane(const CopiedPlane& plane, std::size_t size) {
  static const CopyPlaneLoops loops = EXTENSOR_DISPATCH(make_copy_plane_loops)();
  loops.copy[std::countr_zero(size)](plane);
}

}  // namespace extensor::cpu
#endif
