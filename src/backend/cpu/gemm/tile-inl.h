// The tile kernel: a few rows of a times two vectors of columns of b, the sums held in registers.

#if defined(EXTENSOR_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_TILE_INL_H_
#undef EXTENSOR_GEMM_TILE_INL_H_
#else
#define EXTENSOR_GEMM_TILE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "backend/cpu/gemm/finish-inl.h"
#include "backend/cpu/gemm/terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

// Rows per tile: with two vectors per row and one for each operand this fills the register file.
// Where c is one vector wide, a tile may be taller.
#if HWY_MAX_BYTES == 64
inline constexpr int kTileRows = 12;
inline constexpr int kTallRows = 16;
#elif HWY_MAX_BYTES == 32
inline constexpr int kTileRows = 6;
inline constexpr int kTallRows = 8;
#else
inline constexpr int kTileRows = 2;
inline constexpr int kTallRows = 2;
#endif

// No two adjacent members are adjacent in GemmCall: GCC would copy such a pair through a vector
// register, where the copy waits for the arithmetic of the previous tile.
template <class Term>
struct Tile {
  using T = ComputeOf<Term>;
  std::int64_t k;
  const Term* b;
  std::int64_t a_row_stride;
  T* c;
  std::int64_t a_k_stride;
  const T* bias;  // or null
  std::int64_t b_k_stride;
  const Term* a;
  std::int64_t last_columns;  // columns in the last vector
  std::int64_t c_row_stride;
  bool accumulate;
  bool relu;
};

// kPartial: the last vector has fewer columns than lanes.
template <class Term, int kRows, int kVectors, bool kPartial>
void RunTile(const Tile<Term>& tile) {
  using T = ComputeOf<Term>;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  const auto mask = hn::FirstN(d, kPartial ? tile.last_columns : kLanes);
  const auto load = [&](const auto* terms, auto v) EXTENSOR_INLINED {
    const T* from = reinterpret_cast<const T*>(terms + v * kLanes);
    if constexpr (kPartial && v == kVectors - 1) {
      return hn::MaskedLoad(mask, d, from);
    } else {
      return hn::LoadU(d, from);
    }
  };

  V sum[kRows][kVectors];
  const auto for_all = [&](auto update) EXTENSOR_INLINED {
    Unroll<kRows * kVectors>([&](auto q) EXTENSOR_INLINED {
      constexpr int i = q / kVectors;
      constexpr int v = q % kVectors;
      update(sum[i][v], i, std::integral_constant<int, v>());
    });
  };
  for_all([&](V& x, int, auto) EXTENSOR_INLINED { x = hn::Zero(d); });
  // Three rows share a pointer, so that the addresses of 14 rows fit in the registers.
  constexpr int kPointers = (kRows + 2) / 3;
  const std::int64_t row_stride = tile.a_row_stride;
  const Term* a[kPointers];
  Unroll<kPointers>([&](auto q) EXTENSOR_INLINED { a[q] = tile.a + 3 * q * row_stride; });
  const Term* b = tile.b;
  const std::int64_t a_k_stride = tile.a_k_stride;
  const std::int64_t b_k_stride = tile.b_k_stride;
  for (std::int64_t p = tile.k; p > 0; --p) {
    V columns[kVectors];
    Unroll<kVectors>([&](auto v) EXTENSOR_INLINED { columns[v] = load(b, v); });
    b += b_k_stride;
    Unroll<kRows>([&](auto i) EXTENSOR_INLINED {
      const V row = Broadcast(d, a[i / 3][i % 3 * row_stride]);
      Unroll<kVectors>([&](auto v) EXTENSOR_INLINED {
        sum[i][v] = AddProducts<Term>(row, columns[v], sum[i][v]);
      });
    });
    Unroll<kPointers>([&](auto q) EXTENSOR_INLINED { a[q] += a_k_stride; });
  }

  // Read only now: before the loop these would take registers from it.
  T* const c = tile.c;
  const std::int64_t c_row_stride = tile.c_row_stride;
  if (tile.accumulate) {
    for_all([&](V& x, int i, auto v)
                EXTENSOR_INLINED { x = hn::Add(load(c + i * c_row_stride, v), x); });
  }
  if (tile.bias != nullptr) {
    for_all([&](V& x, int, auto v) EXTENSOR_INLINED { x = hn::Add(x, load(tile.bias, v)); });
  }
  if (tile.relu) {
    for_all([&](V& x, int, auto) EXTENSOR_INLINED { x = Relu(d, x); });
  }
  for_all([&](V& x, int i, auto v) EXTENSOR_INLINED {
    T* to = c + i * c_row_stride + v * kLanes;
    if constexpr (kPartial && v == kVectors - 1) {
      hn::BlendedStore(x, mask, d, to);
    } else {
      hn::StoreU(x, d, to);
    }
  });
}

template <class T>
using TileFunction = void (*)(const Tile<T>&);

// Indexed by rows - 1 and by whether the last vector is partial.
template <class T>
struct TileFunctions {
  TileFunction<T> one_vector[kTallRows][2];
  TileFunction<T> two_vectors[kTileRows][2];
};

template <class T>
constexpr TileFunctions<T> MakeTileFunctions() {
  TileFunctions<T> table{};
  Unroll<kTallRows>([&](auto i) {
    table.one_vector[i][0] = &RunTile<T, i + 1, 1, false>;
    table.one_vector[i][1] = &RunTile<T, i + 1, 1, true>;
  });
  Unroll<kTileRows>([&](auto i) {
    table.two_vectors[i][0] = &RunTile<T, i + 1, 2, false>;
    table.two_vectors[i][1] = &RunTile<T, i + 1, 2, true>;
  });
  return table;
}

// Defined once per type of term, in kernels_f32.cpp, kernels_f64.cpp and kernels_half.cpp.
template <class T>
struct TileTable {
  static const TileFunctions<T> functions;
};
template <>
const TileFunctions<float> TileTable<float>::functions;
template <>
const TileFunctions<double> TileTable<double>::functions;
#ifdef EXTENSOR_BFLOAT16_PAIRS
template <>
const TileFunctions<BFloat16Pair> TileTable<BFloat16Pair>::functions;
#endif

// The sums of one tile, with all the rows of the last vector of its transpose.
template <class T>
struct TileSums {
  static constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  static constexpr std::int64_t kRows = (kTileRows + kLanes - 1) / kLanes * kLanes;
  static constexpr std::int64_t kColumns = 2 * kLanes;
  HWY_ALIGN T values[kRows * kColumns] = {};
};

// c (+)= the transpose of the tile's first `rows` rows and `columns` columns.
template <class T>
void StoreTransposed(const TileSums<T>& tile, std::int64_t rows, std::int64_t columns, T* c,
                     std::int64_t c_row_stride, bool accumulate, const T* bias, bool relu) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  constexpr std::int64_t kTileStride = TileSums<T>::kColumns;
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    const std::int64_t count = rows - i < kLanes ? rows - i : kLanes;
    const auto mask = hn::FirstN(d, count);
    const auto addend = bias != nullptr ? hn::MaskedLoad(mask, d, bias + i) : hn::Zero(d);
    const auto store = [&](hn::Vec<decltype(d)> v, std::int64_t j) EXTENSOR_INLINED {
      T* to = c + j * c_row_stride + i;
      if (accumulate) v = hn::Add(hn::MaskedLoad(mask, d, to), v);
      if (bias != nullptr) v = hn::Add(v, addend);
      if (relu) v = Relu(d, v);
      if (count == kLanes) {
        hn::StoreU(v, d, to);
      } else {
        hn::BlendedStore(v, mask, d, to);
      }
    };
    const T* from = tile.values + i * kTileStride;
#if HWY_TARGET == HWY_SCALAR
    for (std::int64_t j = 0; j < columns; ++j) store(hn::Set(d, from[j]), j);
#else
    constexpr std::int64_t kSteps = 16 / sizeof(T);
    constexpr std::int64_t kBlocks = kLanes / kSteps;
    const T* block[kBlocks];
    Unroll<kBlocks>([&](auto b) EXTENSOR_INLINED { block[b] = from + b * kSteps * kTileStride; });
    for (std::int64_t j = 0; j < columns; j += kSteps) {
      hn::Vec<decltype(d)> v[kSteps];
      LoadTransposed(d, block, kTileStride, j, v);
      Unroll<kSteps>([&](auto step) EXTENSOR_INLINED {
        if (j + step < columns) store(v[step], j + step);
      });
    }
#endif
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_TILE_INL_H_
