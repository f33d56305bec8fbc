// A block of the product, tile by tile, over operands that are packed or readable in place.

#if defined(EXTENSOR_GEMM_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_BLOCK_INL_H_
#undef EXTENSOR_GEMM_BLOCK_INL_H_
#else
#define EXTENSOR_GEMM_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

inline constexpr std::int64_t kFewSteps = 32;

// The positions of the tiles of a block; see Block.
template <class Term>
struct Tiling {
  std::int64_t m, n;
  const Term* a;
  std::int64_t a_panel_stride, panel_rows;
  const Term* b;
  std::int64_t b_panel_stride;
};

// Sets up `tile` for each tile in turn and calls run(tile function, i, j, rows, columns).
template <class Term, class Run>
HWY_INLINE void ForEachTile(const Tiling<Term>& tiling, Tile<Term>& tile, Run run) {
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<ComputeOf<Term>>());
  constexpr std::int64_t kColumns = 2 * kLanes;
  const auto run_at = [&](std::int64_t i, std::int64_t j) EXTENSOR_INLINED {
    const std::int64_t rows = std::min(tiling.panel_rows, tiling.m - i);
    const std::int64_t columns = std::min(kColumns, tiling.n - j);
    const bool two = columns > kLanes;
    tile.last_columns = columns - (two ? kLanes : 0);
    const auto* functions =
        two ? TileTable<Term>::functions.two_vectors : TileTable<Term>::functions.one_vector;
    run(functions[rows - 1][tile.last_columns < kLanes], i, j, rows, columns);
  };
  tile.a = tiling.a;
  tile.b = tiling.b;
  // With few steps, storing c is much of the work: write it row by row, which caches prefer.
  // Otherwise stream the smaller panels, those of a, past one of b.
  if (tile.k <= kFewSteps) {
    for (std::int64_t i = 0; i < tiling.m; i += tiling.panel_rows) {
      tile.b = tiling.b;
      for (std::int64_t j = 0; j < tiling.n; j += kColumns) {
        run_at(i, j);
        tile.b += tiling.b_panel_stride;
      }
      tile.a += tiling.a_panel_stride;
    }
    return;
  }
  for (std::int64_t j = 0; j < tiling.n; j += kColumns) {
    tile.a = tiling.a;
    for (std::int64_t i = 0; i < tiling.m; i += tiling.panel_rows) {
      run_at(i, j);
      tile.a += tiling.a_panel_stride;
    }
    tile.b += tiling.b_panel_stride;
  }
}

// At most bias and relu, applied by the tile's own store. Stores little besides c: when the store
// queue fills up, the next tile cannot start before this one ends.
template <class Term>
HWY_INLINE void RunPlainTiles(const Tiling<Term>& tiling, Tile<Term>& tile) {
  using T = ComputeOf<Term>;
  T* c = tile.c;
  const T* bias = tile.bias;
  ForEachTile(tiling, tile,
              [&](TileFunction<Term> function, std::int64_t i, std::int64_t j, std::int64_t,
                  std::int64_t) EXTENSOR_INLINED {
                tile.c = c + i * tile.c_row_stride + j;
                if (bias != nullptr) tile.bias = bias + j;
                function(tile);
              });
}

template <class T>
HWY_NOINLINE void RunTinyTiles(const GemmCall& call, Tile<T>& tile, std::uint32_t most_rows) {
  const std::uint32_t last_row = static_cast<std::uint32_t>(call.m) - 1;
  const std::int64_t panel_rows = last_row / (last_row / most_rows + 1) + 1;
  RunPlainTiles<T>(
      {call.m, call.n, static_cast<const T*>(call.a.data), panel_rows * call.a.row_stride,
       panel_rows, static_cast<const T*>(call.b.data), TileSums<T>::kColumns},
      tile);
}

// A small product with both operands read in place, with no activation or relu.
template <class T>
void RunTiny(const GemmCall& call) {
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  Tile<T> tile;
  tile.k = call.k;
  tile.a_row_stride = call.a.row_stride;
  tile.a_k_stride = call.a.column_stride;
  tile.b_k_stride = call.b.row_stride;
  tile.c = static_cast<T*>(call.c);
  tile.c_row_stride = call.c_row_stride;
  tile.bias = static_cast<const T*>(call.bias);
  tile.accumulate = false;
  tile.relu = call.activation == Activation::relu;
  const bool two = call.n > kLanes;
  const int most_rows = two ? kTileRows : kTallRows;
  if (call.m > most_rows || call.n > 2 * kLanes) return RunTinyTiles(call, tile, most_rows);
  tile.a = static_cast<const T*>(call.a.data);
  tile.b = static_cast<const T*>(call.b.data);
  tile.last_columns = call.n - (two ? kLanes : 0);
  const auto* functions =
      two ? TileTable<T>::functions.two_vectors : TileTable<T>::functions.one_vector;
  functions[call.m - 1][tile.last_columns < kLanes](tile);
}

// Term is the computed type of Element, or BFloat16Pair.
template <class Element, class Term = ComputeOf<Element>>
void RunBlock(const Block<Element>& block) {
  using T = ComputeOf<Element>;
  // The tile's own store can apply bias and relu if c holds computed values.
  const Epilogue<Element>* finish = block.finish;
  const T* bias = nullptr;
  bool relu = false;
  if constexpr (std::is_same_v<Element, T>) {
    if (finish != nullptr && finish->activation <= Activation::relu) {
      bias = finish->bias;
      relu = finish->activation == Activation::relu;
      finish = nullptr;
    }
  }

  const Tiling<Term> tiling{block.m,
                            block.n,
                            reinterpret_cast<const Term*>(block.a),
                            block.a_panel_stride,
                            block.panel_rows,
                            reinterpret_cast<const Term*>(block.b),
                            block.b_panel_stride};
  Tile<Term> tile;
  tile.k = block.k;
  tile.a_row_stride = block.a_row_stride;
  tile.a_k_stride = block.a_k_stride;
  tile.b_k_stride = block.b_k_stride;
  if (!block.transposed) {
    tile.c = block.sums;
    tile.c_row_stride = block.sums_row_stride;
    tile.bias = bias;
    tile.accumulate = block.accumulate;
    tile.relu = relu;
    if (finish == nullptr) return RunPlainTiles(tiling, tile);
    TileSums<T> own;
    if (block.sums == nullptr) {
      tile.c = own.values;
      tile.c_row_stride = TileSums<T>::kColumns;
    }
    ForEachTile(tiling, tile,
                [&](TileFunction<Term> function, std::int64_t i, std::int64_t j, std::int64_t rows,
                    std::int64_t columns) {
                  if (block.sums != nullptr) tile.c = block.sums + i * block.sums_row_stride + j;
                  function(tile);
                  FinishRows<Element>(
                      {finish->c + i * finish->c_row_stride + j, finish->c_row_stride,
                       finish->bias != nullptr ? finish->bias + j : nullptr, finish->activation},
                      tile.c, tile.c_row_stride, rows, columns);
                });
    return;
  }

  TileSums<T> computed, own;
  tile.c = computed.values;
  tile.c_row_stride = TileSums<T>::kColumns;
  tile.bias = nullptr;
  tile.accumulate = false;
  tile.relu = false;
  ForEachTile(tiling, tile,
              [&](TileFunction<Term> function, std::int64_t i, std::int64_t j, std::int64_t rows,
                  std::int64_t columns) {
                function(tile);
                T* sums = own.values;
                std::int64_t sums_row_stride = TileSums<T>::kRows;
                if (block.sums != nullptr) {
                  sums = block.sums + j * block.sums_row_stride + i;
                  sums_row_stride = block.sums_row_stride;
                }
                StoreTransposed(computed, rows, columns, sums, sums_row_stride, block.accumulate,
                                bias != nullptr ? bias + i : nullptr, relu);
                if (finish != nullptr) {
                  FinishRows<Element>(
                      {finish->c + j * finish->c_row_stride + i, finish->c_row_stride,
                       finish->bias != nullptr ? finish->bias + i : nullptr, finish->activation},
                      sums, sums_row_stride, columns, rows);
                }
              });
}

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_BLOCK_INL_H_
