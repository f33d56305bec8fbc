// Copies operands into the panels that the tile kernel streams through, widening halves or
// arranging bfloat16 in pairs.

#if defined(EXTENSOR_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_PACK_INL_H_
#undef EXTENSOR_GEMM_PACK_INL_H_
#else
#define EXTENSOR_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/gemm/terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

// A panel is at most this many rows wide: two vectors.
template <class T>
inline constexpr std::int64_t kPanelWidth = 2 * hn::MaxLanes(hn::ScalableTag<T>());

// Rows are adjacent: each step of k is one contiguous copy. Whole vectors are stored; the next step
// overwrites the elements past `width`.
template <class Element, class T = ComputeOf<Element>>
void PackAdjacentRows(const Element* rows, std::int64_t k_stride, std::int64_t count,
                      std::int64_t k, std::int64_t width, T* panel) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  if (count == 2 * kLanes) {
    for (std::int64_t p = 0; p < k; ++p, rows += k_stride, panel += width) {
      const auto low = LoadElements(d, rows);
      const auto high = LoadElements(d, rows + kLanes);
      StoreElements(d, low, panel);
      StoreElements(d, high, panel + kLanes);
    }
  } else if (count < kLanes) {
    for (std::int64_t p = 0; p < k; ++p, rows += k_stride, panel += width) {
      StoreElements(d, LoadSomeElements(d, rows, count), panel);
    }
  } else if (count == kLanes) {
    for (std::int64_t p = 0; p < k; ++p, rows += k_stride, panel += width) {
      StoreElements(d, LoadElements(d, rows), panel);
    }
  } else {
    for (std::int64_t p = 0; p < k; ++p, rows += k_stride, panel += width) {
      const auto low = LoadElements(d, rows);
      const auto high = LoadSomeElements(d, rows + kLanes, count - kLanes);
      StoreElements(d, low, panel);
      StoreElements(d, high, panel + kLanes);
    }
  }
}

// A T holds one element, or a pair of halves.
template <class T, class Element>
inline constexpr std::int64_t kElementsPerTerm = std::is_same_v<T, Element> ? 1 : 2;

#if HWY_TARGET != HWY_SCALAR
// One vector of rows, of which `groups` groups exist; the other lanes have unspecified values.
template <class T, class Element>
void PackTransposedVector(const Element* rows, std::int64_t row_stride, std::int64_t groups,
                          std::int64_t k, std::int64_t width, T* panel) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kSteps = 16 / sizeof(T);
  constexpr std::int64_t kBlocks = hn::MaxLanes(d) / kSteps;
  const Element* block[kBlocks];
  Unroll<kBlocks>([&](auto b) EXTENSOR_INLINED {
    block[b] = rows + (b < groups ? b * kSteps * row_stride : 0);
  });
  for (std::int64_t p = 0; p + kSteps <= k; p += kSteps, panel += kSteps * width) {
    hn::Vec<decltype(d)> v[kSteps];
    LoadTransposed(d, block, row_stride, p * kElementsPerTerm<T, Element>, v);
    Unroll<kSteps>([&](auto step)
                       EXTENSOR_INLINED { hn::StoreU(v[step], d, panel + step * width); });
  }
}
#endif

// Rows of k values of T, each of them one element or a pair, are contiguous: transposes blocks of 4
// steps of k (2 in double) in registers.
template <class T, class Element>
void PackTransposed(const Element* rows, std::int64_t row_stride, std::int64_t count,
                    std::int64_t k, std::int64_t width, T* panel) {
  const auto copy = [&](std::int64_t i, std::int64_t p) {
    std::memcpy(panel + p * width + i, rows + i * row_stride + p * kElementsPerTerm<T, Element>,
                sizeof(T));
  };
  std::int64_t packed_rows = 0;
  std::int64_t packed_steps = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  constexpr std::int64_t kSteps = 16 / sizeof(T);
  packed_rows = count / kSteps * kSteps;
  packed_steps = k / kSteps * kSteps;
  // The upper half first: the elements that it writes into the next step are overwritten by the
  // lower half.
  if (packed_rows > kLanes) {
    PackTransposedVector(rows + kLanes * row_stride, row_stride, (packed_rows - kLanes) / kSteps, k,
                         width, panel + kLanes);
  }
  if (packed_rows > 0) {
    PackTransposedVector(rows, row_stride, packed_rows / kSteps, k, width, panel);
  }
#endif
  for (std::int64_t i = packed_rows; i < count; ++i) {
    for (std::int64_t p = 0; p < packed_steps; ++p) copy(i, p);
  }
  for (std::int64_t p = packed_steps; p < k; ++p) {
    for (std::int64_t i = 0; i < count; ++i) copy(i, p);
  }
}

// Halves contiguous along k, or any element at general strides: a piece of k at a time is converted
// to contiguous computed values, which are then transposed.
template <class Element, class T = ComputeOf<Element>>
void PackThroughStage(const Element* rows, std::int64_t row_stride, std::int64_t k_stride,
                      std::int64_t count, std::int64_t k, std::int64_t width, T* panel) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  constexpr std::int64_t kPiece = 64;
  HWY_ALIGN T stage[kPanelWidth<T> * kPiece];
  for (std::int64_t first = 0; first < k; first += kPiece) {
    const std::int64_t steps = std::min(kPiece, k - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const Element* from = rows + i * row_stride + first * k_stride;
      T* to = stage + i * kPiece;
      std::int64_t p = 0;
      if (k_stride == 1) {
        for (; p + kLanes <= steps; p += kLanes) {
          hn::StoreU(LoadElements(d, from + p), d, to + p);
        }
      }
      for (; p < steps; ++p) to[p] = static_cast<T>(from[p * k_stride]);
    }
    PackTransposed(stage, kPiece, count, steps, width, panel + first * width);
  }
}

template <class Element, class T = ComputeOf<Element>>
void Pack(const Element* rows, std::int64_t row_stride, std::int64_t k_stride, std::int64_t count,
          std::int64_t k, std::int64_t width, T* panels) {
  for (std::int64_t i = 0; i < count; i += width) {
    const std::int64_t in_panel = std::min(width, count - i);
    const Element* from = rows + i * row_stride;
    T* panel = panels + i * k;
    if (row_stride == 1) {
      PackAdjacentRows(from, k_stride, in_panel, k, width, panel);
      continue;
    }
    if constexpr (std::is_same_v<Element, T>) {
      if (k_stride == 1) {
        PackTransposed(from, row_stride, in_panel, k, width, panel);
        continue;
      }
    }
    PackThroughStage(from, row_stride, k_stride, in_panel, k, width, panel);
  }
}

#ifdef EXTENSOR_BFLOAT16_PAIRS
// Rows are adjacent: interleaves two steps of k.
inline void PackAdjacentPairs(const BFloat16* rows, std::int64_t k_stride, std::int64_t count,
                              std::int64_t k, std::int64_t width, float* panel) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const hn::RebindToFloat<decltype(d)> d_panel;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  const bool two = count > kLanes;
  const auto low = hn::FirstN(d16, two ? kLanes : count);
  const auto high = hn::FirstN(d16, two ? count - kLanes : 0);
  const auto load = [&](const BFloat16* from, auto mask) EXTENSOR_INLINED {
    const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
    return hn::PromoteTo(d, hn::MaskedLoad(mask, d16, bits));
  };
  const auto store = [&](auto first, auto second, float* to) EXTENSOR_INLINED {
    hn::StoreU(hn::BitCast(d_panel, hn::Or(first, hn::ShiftLeft<16>(second))), d_panel, to);
  };
  for (; k >= 2; k -= 2, rows += 2 * k_stride, panel += width) {
    store(load(rows, low), load(rows + k_stride, low), panel);
    if (two) {
      store(load(rows + kLanes, high), load(rows + kLanes + k_stride, high), panel + kLanes);
    }
  }
  if (k == 1) {
    store(load(rows, low), hn::Zero(d), panel);
    if (two) store(load(rows + kLanes, high), hn::Zero(d), panel + kLanes);
  }
}

// Rows are contiguous along k, so a pair is adjacent already.
inline void PackTransposedPairs(const BFloat16* rows, std::int64_t row_stride, std::int64_t count,
                                std::int64_t k, std::int64_t width, float* panel) {
  PackTransposed(rows, row_stride, count, k / 2, width, panel);
  if (k % 2 == 0) return;
  for (std::int64_t i = 0; i < count; ++i) {
    const BFloat16Pair pair{rows[i * row_stride + k - 1], BFloat16()};
    std::memcpy(panel + k / 2 * width + i, &pair, sizeof(pair));
  }
}

inline void PackPairs(const BFloat16* rows, std::int64_t row_stride, std::int64_t k_stride,
                      std::int64_t count, std::int64_t k, std::int64_t width, float* panels) {
  constexpr std::int64_t kPiece = 64;
  const std::int64_t terms = (k + 1) / 2;
  for (std::int64_t i = 0; i < count; i += width) {
    const std::int64_t in_panel = std::min(width, count - i);
    const BFloat16* from = rows + i * row_stride;
    float* panel = panels + i * terms;
    if (row_stride == 1) {
      PackAdjacentPairs(from, k_stride, in_panel, k, width, panel);
      continue;
    }
    if (k_stride == 1) {
      PackTransposedPairs(from, row_stride, in_panel, k, width, panel);
      continue;
    }
    for (std::int64_t first = 0; first < k; first += kPiece) {
      const std::int64_t steps = std::min(kPiece, k - first);
      BFloat16 stage[kPanelWidth<float> * kPiece];
      for (std::int64_t r = 0; r < in_panel; ++r) {
        for (std::int64_t p = 0; p < steps; ++p) {
          stage[r * kPiece + p] = from[r * row_stride + (first + p) * k_stride];
        }
      }
      PackTransposedPairs(stage, kPiece, in_panel, steps, width, panel + first / 2 * width);
    }
  }
}
#endif

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_PACK_INL_H_
