#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/convolution/winograd_kernels.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h, as Highway requires.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backend/cpu/convolution/winograd_kernels.h"
#include "backend/cpu/gemm/elements-inl.h"
#include "backend/cpu/simd/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::winograd {

namespace hn = hwy::HWY_NAMESPACE;
using conv::FilterPanel;
using conv::TilePoints;
using conv::TileRun;
using conv::WinogradKernels;
using product::Unroll;

template <class T>
struct Transforms {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kLanes = hn::MaxLanes(D());

  // Both transforms process the rows first, each row of the plane once, and keep the even and the
  // odd rows apart: the tiles of all rows are then adjacent for the second direction.
  struct Halves {
    T* line;      // a row with its padding
    T* at[2][4];  // by the parity of the row and by point
    Halves(const TileRun& tiles, T* scratch) {
      const std::int64_t size = (tiles.rows + 1) * tiles.columns + 2 * kLanes;
      for (auto& parity : at) {
        for (T*& points : parity) {
          points = scratch;
          scratch += size;
        }
      }
      line = scratch;
    }
  };

  // Reads `count` columns of a row starting at `first`, zeros outside it; may read one vector more.
  static void ReadLine(const T* row, std::int64_t width, std::int64_t first, std::int64_t count,
                       T* line) {
    const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(width - first, begin, count);
    std::fill(line, line + begin, T(0));
    std::memcpy(line + begin, row + (first + begin),
                static_cast<std::size_t>(end - begin) * sizeof(T));
    std::fill(line + end, line + count, T(0));
  }

  // Stores point (i, j) for i = 0 … 3 of the tiles starting at t.
  template <class Values>
  static HWY_INLINE void StorePoints(const TilePoints<T>& points, std::int64_t t, int j,
                                     const Values& values) {
    const D d;
    t += points.first;
    T* to = points.to + t / points.width * points.panel_stride + t % points.width;
    Unroll<4>([&](auto i) EXTENSOR_INLINED {
      hn::StoreU(values[i], d, to + (4 * i + j) * points.point_stride);
    });
  }

  // The points of the filters whose taps are w: vectors, or single elements.
  template <class Taps, class Half, class Store>
  static HWY_INLINE void FilterPoints(const Taps& w, const Half& halved, const Store& store) {
    using Value = std::remove_cvref_t<decltype(w[0])>;
    Value half[4][3];
    Unroll<3>([&](auto j) EXTENSOR_INLINED {
      const Value sum = w[j] + w[6 + j];
      half[0][j] = w[j];
      half[1][j] = halved(sum + w[3 + j]);
      half[2][j] = halved(sum - w[3 + j]);
      half[3][j] = w[6 + j];
    });
    Unroll<4>([&](auto i) EXTENSOR_INLINED {
      const Value sum = half[i][0] + half[i][2];
      store(4 * i, half[i][0]);
      store(4 * i + 1, halved(sum + half[i][1]));
      store(4 * i + 2, halved(sum - half[i][1]));
      store(4 * i + 3, half[i][2]);
    });
  }

#if HWY_TARGET != HWY_SCALAR
  // One vector of rows starting at `first`, of which `groups` groups of as many rows as a 128-bit
  // block has lanes are read; the other lanes have unspecified values.
  template <bool kTurned>
  static void FilterVector(const FilterPanel<T>& panel, std::int64_t first, std::int64_t groups) {
    const D d;
    constexpr std::int64_t kSteps = 16 / sizeof(T), kBlocks = kLanes / kSteps;
    const T* block[kBlocks];
    const T* rows = panel.weight + first * panel.row_stride;
    Unroll<kBlocks>([&](auto b) EXTENSOR_INLINED {
      block[b] = rows + (b < groups ? b * kSteps * panel.row_stride : 0);
    });
    T* to = panel.to + first;
    const V one_half = hn::Set(d, T(0.5));
    for (std::int64_t k = 0; k < panel.k; ++k, to += panel.width) {
      const std::int64_t at = k * panel.k_stride;
      V taps[9];
      V last[kSteps];
      Unroll<8 / kSteps>([&](auto q) EXTENSOR_INLINED {
        product::LoadTransposed(d, block, panel.row_stride, at + q * kSteps, taps + q * kSteps);
      });
      // Overlaps the others, because nothing past the last tap may be read.
      product::LoadTransposed(d, block, panel.row_stride, at + 9 - kSteps, last);
      taps[8] = last[kSteps - 1];
      if constexpr (kTurned) {
        Unroll<4>([&](auto t) EXTENSOR_INLINED { std::swap(taps[t], taps[8 - t]); });
      }
      const auto halved = [&](V v) EXTENSOR_INLINED { return hn::Mul(one_half, v); };
      FilterPoints(taps, halved, [&](auto p, V v) EXTENSOR_INLINED {
        hn::StoreU(v, d, to + p * panel.point_stride);
      });
    }
  }
#endif

  static void Filters(const FilterPanel<T>& panel) {
    std::int64_t done = 0;
#if HWY_TARGET != HWY_SCALAR
    constexpr std::int64_t kSteps = 16 / sizeof(T);
    const std::int64_t groups =
        std::min((panel.rows + kSteps - 1) / kSteps, panel.readable_rows / kSteps);
    done = std::min(panel.rows, groups * kSteps);
    // The upper half first: what it writes into the next step is overwritten by the lower half.
    constexpr std::int64_t kGroups = kLanes / kSteps;
    const auto run = panel.turned ? &FilterVector<true> : &FilterVector<false>;
    if (groups > kGroups) run(panel, kLanes, groups - kGroups);
    if (groups > 0) run(panel, 0, groups);
#endif
    for (std::int64_t i = done; i < panel.rows; ++i) {
      for (std::int64_t k = 0; k < panel.k; ++k) {
        const T* from = panel.weight + i * panel.row_stride + k * panel.k_stride;
        T taps[9];
        for (int t = 0; t < 9; ++t) taps[t] = from[panel.turned ? 8 - t : t];
        T* to = panel.to + k * panel.width + i;
        FilterPoints(
            taps, [](T v) { return T(0.5) * v; },
            [&](auto p, T v) { to[p * panel.point_stride] = v; });
      }
    }
  }

  static void Input(const T* x, std::int64_t height, std::int64_t width,
                    std::int64_t padding_height, std::int64_t padding_width, const TileRun& tiles,
                    const TilePoints<T>& points, T* scratch) {
    const D d;
    const Halves halves(tiles, scratch);
    const std::int64_t columns = tiles.columns, line_size = 2 * columns + 2 + 2 * kLanes;
    for (std::int64_t r = 0; r < 2 * tiles.rows + 2; ++r) {
      const std::int64_t row = 2 * tiles.first_row + r - padding_height;
      T* const* to = halves.at[r % 2];
      const std::int64_t at = r / 2 * columns;
      if (row < 0 || row >= height) {
        for (int j = 0; j < 4; ++j) std::fill(to[j] + at, to[j] + at + columns, T(0));
        continue;
      }
      ReadLine(x + row * width, width, -padding_width, line_size, halves.line);
      for (std::int64_t t = 0; t < columns; t += kLanes) {
        V d0, d1, d2, d3;
        LoadPairs(d, halves.line + 2 * t, d0, d1);
        LoadPairs(d, halves.line + 2 * t + 2, d2, d3);
        hn::StoreU(hn::Sub(d0, d2), d, to[0] + at + t);
        hn::StoreU(hn::Add(d1, d2), d, to[1] + at + t);
        hn::StoreU(hn::Sub(d2, d1), d, to[2] + at + t);
        hn::StoreU(hn::Sub(d1, d3), d, to[3] + at + t);
      }
    }
    // Lanes past the last tile are multiplied with zeros: they must not be NaN.
    for (std::int64_t t = 0; t < tiles.count(); t += kLanes) {
      const auto inside =
          hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, tiles.count() - t)));
      Unroll<4>([&](auto j) EXTENSOR_INLINED {
        const auto load = [&](int parity, std::int64_t at) EXTENSOR_INLINED {
          return hn::IfThenElseZero(inside, hn::LoadU(d, halves.at[parity][j] + at));
        };
        const V d0 = load(0, t), d1 = load(1, t), d2 = load(0, t + columns),
                d3 = load(1, t + columns);
        const V values[4] = {hn::Sub(d0, d2), hn::Add(d1, d2), hn::Sub(d2, d1), hn::Sub(d1, d3)};
        StorePoints(points, t, j, values);
      });
    }
  }

  // (g0, g1) → (g0, g0 + g1, g0 − g1, −g1); tiles past the last one are 0, because they are summed.
  static void Gradient(const T* y, std::int64_t height, std::int64_t width, const TileRun& tiles,
                       const TilePoints<T>& points, T* scratch) {
    const D d;
    const Halves halves(tiles, scratch);
    const std::int64_t columns = tiles.columns, line_size = 2 * columns + 2 * kLanes;
    for (std::int64_t r = 0; r < 2 * tiles.rows; ++r) {
      const std::int64_t row = 2 * tiles.first_row + r;
      T* const* to = halves.at[r % 2];
      const std::int64_t at = r / 2 * columns;
      if (row >= height) {
        for (int j = 0; j < 4; ++j) std::fill(to[j] + at, to[j] + at + columns + kLanes, T(0));
        continue;
      }
      ReadLine(y + row * width, width, 0, line_size, halves.line);
      for (std::int64_t t = 0; t < columns; t += kLanes) {
        V g0, g1;
        LoadPairs(d, halves.line + 2 * t, g0, g1);
        hn::StoreU(g0, d, to[0] + at + t);
        hn::StoreU(hn::Add(g0, g1), d, to[1] + at + t);
        hn::StoreU(hn::Sub(g0, g1), d, to[2] + at + t);
        hn::StoreU(hn::Neg(g1), d, to[3] + at + t);
      }
    }
    for (std::int64_t t = 0; t < tiles.count(); t += kLanes) {
      const auto inside =
          hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, tiles.count() - t)));
      Unroll<4>([&](auto j) EXTENSOR_INLINED {
        const V g0 = hn::IfThenElseZero(inside, hn::LoadU(d, halves.at[0][j] + t));
        const V g1 = hn::IfThenElseZero(inside, hn::LoadU(d, halves.at[1][j] + t));
        const V values[4] = {g0, hn::Add(g0, g1), hn::Sub(g0, g1), hn::Neg(g1)};
        StorePoints(points, t, j, values);
      });
    }
  }

  static bool Output(const T* m, std::int64_t point_stride, const TileRun& tiles, T bias,
                     std::int64_t height, std::int64_t width, T* y, T* scratch) {
    const D d;
    const V offset = hn::Set(d, bias);
    const std::int64_t columns = tiles.columns, size = 2 * (tiles.count() + kLanes);
    T* rows[2] = {scratch, scratch + size};
    V doubt = hn::Zero(d);  // becomes NaN if a result is not finite
    for (std::int64_t t = 0; t < tiles.count(); t += kLanes) {
      V upper[4], lower[4];
      Unroll<4>([&](auto j) EXTENSOR_INLINED {
        const T* from = m + j * point_stride + t;
        const V m1 = hn::LoadU(d, from + 4 * point_stride);
        const V m2 = hn::LoadU(d, from + 8 * point_stride);
        upper[j] = hn::Add(hn::LoadU(d, from), hn::Add(m1, m2));
        lower[j] = hn::Sub(hn::Sub(m1, m2), hn::LoadU(d, from + 12 * point_stride));
      });
      const auto inside =
          hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, tiles.count() - t)));
      Unroll<2>([&](auto i) EXTENSOR_INLINED {
        const V* s = i == 0 ? upper : lower;
        const V even = hn::Add(hn::Add(s[0], hn::Add(s[1], s[2])), offset);
        const V odd = hn::Add(hn::Sub(hn::Sub(s[1], s[2]), s[3]), offset);
        const V zero = hn::Add(hn::Sub(even, even), hn::Sub(odd, odd));
        doubt = hn::Add(doubt, hn::IfThenElseZero(inside, zero));
        StorePairs(even, odd, d, rows[i] + 2 * t);
      });
    }
    for (std::int64_t i = 0; i < tiles.rows; ++i) {
      for (std::int64_t r = 0; r < 2; ++r) {
        const std::int64_t row = 2 * (tiles.first_row + i) + r;
        if (row >= height) continue;
        std::memcpy(y + row * width, rows[r] + 2 * i * columns,
                    static_cast<std::size_t>(width) * sizeof(T));
      }
    }
    return hn::AllFalse(d, hn::IsNaN(doubt));
  }
};

template <class T>
void fill_winograd_kernels(WinogradKernels<T>* kernels) {
  *kernels = {Transforms<T>::kLanes, &Transforms<T>::Filters, &Transforms<T>::Input,
              &Transforms<T>::Gradient, &Transforms<T>::Output};
}
template void fill_winograd_kernels(WinogradKernels<float>*);
template void fill_winograd_kernels(WinogradKernels<double>*);

}  // namespace extensor::cpu::HWY_NAMESPACE::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/simd/dispatch.h"

namespace extensor::cpu::conv {

template <class T>
const WinogradKernels<T>& winograd_kernels() {
  static const WinogradKernels<T> kernels = [] {
    WinogradKernels<T> filled;
    EXTENSOR_DISPATCH(winograd::fill_winograd_kernels<T>)(&filled);
    return filled;
  }();
  return kernels;
}
template const WinogradKernels<float>& winograd_kernels();
template const WinogradKernels<double>& winograd_kernels();

}  // namespace extensor::cpu::conv
#endif
