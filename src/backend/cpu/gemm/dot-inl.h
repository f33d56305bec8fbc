// Products without packing: dot products along k, and linear combinations of rows.

#if defined(EXTENSOR_GEMM_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_DOT_INL_H_
#undef EXTENSOR_GEMM_DOT_INL_H_
#else
#define EXTENSOR_GEMM_DOT_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/gemm/terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

#if HWY_MAX_BYTES == 64
inline constexpr int kDotRows = 4;
inline constexpr int kDotColumns = 5;
#else
inline constexpr int kDotRows = 2;
inline constexpr int kDotColumns = 4;
#endif
inline constexpr int kDotColumnsOfOneRow = 8;

// to[i] = sum of the lanes of v[i]; writes up to three more values. Every sum has the same order,
// so a result does not depend on the tile that computed it.
template <class D, int kCount, class V = hn::Vec<D>>
HWY_INLINE void SumLanes(D d, const V (&v)[kCount], hn::TFromD<D>* to) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  for (int i = 0; i < kCount; ++i) to[i] = hn::GetLane(v[i]);
#else
  using T = hn::TFromD<D>;
  constexpr int kGroup = 16 / sizeof(T);
  const hn::CappedTag<T, kGroup> d128;
  Unroll<(kCount + kGroup - 1) / kGroup>([&](auto g) EXTENSOR_INLINED {
    constexpr int first = g * kGroup;
    V group[kGroup];
    Unroll<kGroup>([&](auto q) EXTENSOR_INLINED { group[q] = v[std::min(first + q, kCount - 1)]; });
    TransposeBlocks(d, group);
    V sum = hn::Add(group[0], group[1]);
    if constexpr (kGroup == 4) sum = hn::Add(sum, hn::Add(group[2], group[3]));
    const hn::Half<D> half;
    auto halved = hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum));
    if constexpr (hn::MaxLanes(half) > kGroup) {
      const hn::Half<decltype(half)> quarter;
      hn::StoreU(hn::Add(hn::LowerHalf(quarter, halved), hn::UpperHalf(quarter, halved)), d128,
                 to + first);
    } else {
      hn::StoreU(halved, d128, to + first);
    }
  });
#endif
}

// A vector of terms along k: elements widened, or pairs as they are.
template <class Term, class D, class Element>
HWY_INLINE hn::Vec<D> LoadTerms(D d, const Element* from) {
  if constexpr (std::is_same_v<Term, BFloat16Pair>) {
    return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from));
  } else {
    return LoadElements(d, from);
  }
}

// The same of the first `count` elements, fewer than a vector holds, and zeros.
template <class Term, class D, class Element>
HWY_INLINE hn::Vec<D> LoadSomeTerms(D d, const Element* from, std::size_t count) {
  if constexpr (std::is_same_v<Term, BFloat16Pair>) {
    const hn::Repartition<std::uint16_t, D> d16;
    const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
    return hn::BitCast(d, hn::MaskedLoad(hn::FirstN(d16, count), d16, bits));
  } else {
    return LoadSomeElements(d, from, count);
  }
}

template <class Element, class Term, int kRows, int kColumns>
void RunDotTile(const DotBlock<Element>& tile) {
  using T = ComputeOf<Element>;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kStep =
      hn::MaxLanes(d) * (std::is_same_v<Term, BFloat16Pair> ? 2 : 1);  // elements per vector
  V sum[kRows * kColumns];
  Unroll<kRows * kColumns>([&](auto q) EXTENSOR_INLINED { sum[q] = hn::Zero(d); });
  const Element* a = tile.a;
  const Element* b = tile.b;
  const std::int64_t a_stride = tile.a_row_stride;
  const std::int64_t b_stride = tile.b_column_stride;
  const auto add_products = [&](auto load) EXTENSOR_INLINED {
    V column[kColumns];
    Unroll<kColumns>([&](auto j) EXTENSOR_INLINED { column[j] = load(b + j * b_stride); });
    Unroll<kRows>([&](auto i) EXTENSOR_INLINED {
      const V row = load(a + i * a_stride);
      Unroll<kColumns>([&](auto j) EXTENSOR_INLINED {
        constexpr int q = i * kColumns + j;
        sum[q] = AddProducts<Term>(row, column[j], sum[q]);
      });
    });
  };
  std::int64_t k = tile.k;
  for (; k >= kStep; k -= kStep, a += kStep, b += kStep) {
    add_products([&](const Element* from) EXTENSOR_INLINED { return LoadTerms<Term>(d, from); });
  }
  if (k > 0) {
    add_products([&](const Element* from)
                     EXTENSOR_INLINED { return LoadSomeTerms<Term>(d, from, k); });
  }
  T sums[kRows * kColumns + 3];
  SumLanes(d, sum, sums);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      tile.sums[i * tile.sums_row_stride + j] = sums[i * kColumns + j];
    }
  }
}

template <class Element, class Term, int kRows, int kMaxColumns, int kColumns = 1>
HWY_INLINE void RunDotTileOf(const DotBlock<Element>& tile) {
  if constexpr (kColumns < kMaxColumns) {
    if (tile.n > kColumns) {
      return RunDotTileOf<Element, Term, kRows, kMaxColumns, kColumns + 1>(tile);
    }
  }
  RunDotTile<Element, Term, kRows, kColumns>(tile);
}

// Term is the computed type of Element, or BFloat16Pair.
template <class Element, class Term = ComputeOf<Element>>
void RunDotBlock(const DotBlock<Element>& block) {
  const std::int64_t most = block.m == 1 ? kDotColumnsOfOneRow : kDotColumns;
  const std::int64_t tiles = (block.n + most - 1) / most;
  const std::int64_t columns = (block.n + tiles - 1) / tiles;
  DotBlock<Element> tile = block;
  for (std::int64_t j = 0; j < block.n; j += columns) {
    tile.n = std::min(columns, block.n - j);
    tile.b = block.b + j * block.b_column_stride;
    for (std::int64_t i = 0; i < block.m; i += tile.m) {
      tile.m = block.m == 1 ? 1 : std::min<std::int64_t>(kDotRows, block.m - i);
      tile.a = block.a + i * block.a_row_stride;
      tile.sums = block.sums + i * block.sums_row_stride + j;
      if (block.m == 1) {
        RunDotTileOf<Element, Term, 1, kDotColumnsOfOneRow>(tile);
      } else if (tile.m == 1) {
        RunDotTileOf<Element, Term, 1, kDotColumns>(tile);
      } else if (tile.m == 2) {
        RunDotTileOf<Element, Term, 2, kDotColumns>(tile);
      } else if constexpr (kDotRows > 2) {
        if (tile.m == 3) {
          RunDotTileOf<Element, Term, 3, kDotColumns>(tile);
        } else {
          RunDotTileOf<Element, Term, 4, kDotColumns>(tile);
        }
      }
    }
  }
}

// sums (+)= Σ of kSteps rows, each scaled by its x.
template <class Element, int kSteps, class T = ComputeOf<Element>>
HWY_INLINE void CombineSteps(const T* x, const Element* rows, std::int64_t row_stride,
                             std::int64_t count, bool accumulate, T* sums) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  V scale[kSteps];
  Unroll<kSteps>([&](auto q) EXTENSOR_INLINED { scale[q] = hn::Set(d, x[q]); });
  const auto combine = [&](auto load) EXTENSOR_INLINED {
    V sum = hn::Mul(scale[0], load(rows));
    Unroll<kSteps - 1>([&](auto q) EXTENSOR_INLINED {
      sum = hn::MulAdd(scale[q + 1], load(rows + (q + 1) * row_stride), sum);
    });
    return sum;
  };
  std::int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    V sum = combine([&](const Element* row) EXTENSOR_INLINED { return LoadElements(d, row + j); });
    if (accumulate) sum = hn::Add(hn::LoadU(d, sums + j), sum);
    hn::StoreU(sum, d, sums + j);
  }
  if (j < count) {
    const std::int64_t rest = count - j;
    V sum = combine([&](const Element* row)
                        EXTENSOR_INLINED { return LoadSomeElements(d, row + j, rest); });
    if (accumulate) sum = hn::Add(LoadSomeElements(d, sums + j, rest), sum);
    StoreSomeElements(d, sum, sums + j, rest);
  }
}

template <class Element, class T = ComputeOf<Element>>
void CombineRows(const T* x, const Element* rows, std::int64_t row_stride, std::int64_t k,
                 std::int64_t count, T* sums) {
  std::int64_t p = 0;
  for (; p + 8 <= k; p += 8) {
    CombineSteps<Element, 8>(x + p, rows + p * row_stride, row_stride, count, p > 0, sums);
  }
  if (p + 4 <= k) {
    CombineSteps<Element, 4>(x + p, rows + p * row_stride, row_stride, count, p > 0, sums);
    p += 4;
  }
  for (; p < k; ++p) {
    CombineSteps<Element, 1>(x + p, rows + p * row_stride, row_stride, count, p > 0, sums);
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_DOT_INL_H_
