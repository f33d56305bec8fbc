// The general product: split into blocks that fit the caches, packed if that pays, tile by tile.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/gemm/parallel.h"
#include "backend/cpu/gemm/routes.h"

namespace extensor::cpu {
namespace {

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return divide_up(value, step) * step;
}

// The size of equal pieces of at most `most` (a multiple of `step`), itself a multiple of `step`.
std::int64_t even_piece(std::int64_t total, std::int64_t most, std::int64_t step) {
  return std::min(most, round_up(divide_up(total, divide_up(total, most)), step));
}

constexpr std::int64_t kStepsPerBlock = 1024;    // of terms; long, as every block rereads its sums
constexpr std::int64_t kRowsPerBlock = 112;      // a block of a stays in the second-level cache
constexpr std::int64_t kColumnsPerBlock = 1024;  // a block of b in the third
constexpr std::int64_t kMostSums = 1024 * 1024;  // kept apart from c, where that holds halves
constexpr double kSmallWork = 80.0 * 1024;       // multiply-adds below which one thread is faster

// For one panel of a and a large b read in place: few steps at a time, so that b is read along its
// rows.
constexpr std::int64_t kStepsOfThinProduct = 32;
constexpr std::int64_t kStepsOfThinnestProduct = 8;
constexpr std::int64_t kLargeOperand = 256 * 1024;

// The product as the tile kernel sees it: `left` is read element by element, `right` in vectors.
// Swapped, it computes cᵀ = bᵀ · aᵀ.
template <class Element>
struct Plan {
  std::int64_t m, n, k;
  const Element* left;
  std::int64_t left_row_stride, left_k_stride;
  const Element* right;
  std::int64_t right_k_stride, right_column_stride;
  bool swapped, pack_left, pack_right, accumulate;
  std::int64_t k_block;
  bool keep_sums;  // apart from c, from one block of k to the next
  Epilogue<Element> finish;
};

// The cycles that an arrangement spends outside full tiles, for k steps: idle lanes, transposes.
double overhead(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t lanes,
                bool right_transposed, bool swapped) {
  constexpr double kTranspose = 0.35;  // cycles per element
  const double idle_lanes = static_cast<double>(round_up(n, lanes) - n);
  double cycles =
      static_cast<double>(m) * static_cast<double>(k) * idle_lanes / static_cast<double>(lanes);
  if (right_transposed) cycles += kTranspose * static_cast<double>(n) * static_cast<double>(k);
  if (swapped) cycles += 1.5 * kTranspose * static_cast<double>(m) * static_cast<double>(n);
  return cycles;
}

template <class Element>
bool is_page_multiple(std::int64_t stride) {
  return stride * static_cast<std::int64_t>(sizeof(Element)) % 4096 == 0;
}

template <class Element>
Plan<Element> make_plan(const Product<Element>& product) {
  const Kernels<Element>& kernel = kernels<Element>();
  constexpr bool kInPlace = std::is_same_v<Element, ComputeOf<Element>>;
  const std::int64_t lanes = kernel.tile_columns / 2;
  const std::int64_t terms = kernel.elements_per_term;
  Plan<Element> plan;
  plan.k = product.k;
  plan.accumulate = product.accumulate;
  plan.finish = product.finish;
  // Halves are packed on both sides, whichever is right.
  const std::int64_t steps = divide_up(product.k, terms);
  plan.swapped = product.b_column_stride != 1 &&
                 overhead(product.n, product.m, steps, lanes, kInPlace && product.a_row_stride != 1,
                          true) < overhead(product.m, product.n, steps, lanes, kInPlace, false);
  if (plan.swapped) {
    plan.m = product.n;
    plan.n = product.m;
    plan.left = product.b;
    plan.left_row_stride = product.b_column_stride;
    plan.left_k_stride = product.b_k_stride;
    plan.right = product.a;
    plan.right_k_stride = product.a_k_stride;
    plan.right_column_stride = product.a_row_stride;
  } else {
    plan.m = product.m;
    plan.n = product.n;
    plan.left = product.a;
    plan.left_row_stride = product.a_row_stride;
    plan.left_k_stride = product.a_k_stride;
    plan.right = product.b;
    plan.right_k_stride = product.b_k_stride;
    plan.right_column_stride = product.b_column_stride;
  }
  plan.pack_left = plan.pack_right = true;
  if (kInPlace) {
    // Reading in place beats packing until an operand is reread so often that its misses add up,
    // which happens soonest if its rows share cache sets.
    const std::int64_t few_columns = 4 * kernel.tile_columns;
    plan.pack_left = plan.n > 4 * few_columns ||
                     (plan.n > few_columns &&
                      (plan.left_k_stride != 1 || is_page_multiple<Element>(plan.left_row_stride)));
    plan.pack_right = plan.right_column_stride != 1 || plan.m > 32 * kernel.tile_rows;
  }
  const bool thin =
      !plan.pack_right && plan.m <= kernel.tile_rows && plan.k * plan.n > kLargeOperand;
  const std::int64_t most_steps = !thin                           ? kStepsPerBlock
                                  : 2 * plan.m > kernel.tile_rows ? kStepsOfThinProduct
                                                                  : kStepsOfThinnestProduct;
  plan.k_block = even_piece(plan.k, terms * most_steps, 8 * terms);
  plan.keep_sums = !kInPlace && plan.k > plan.k_block;
  return plan;
}

// The part of c that one thread computes, and its share of the workspace.
template <class Element>
struct Region {
  std::int64_t first_row, rows, first_column, columns;
  ComputeOf<Element>* left_panels;
  ComputeOf<Element>* right_panels;
  ComputeOf<Element>* sums;
};

template <class Element>
void run_region(const Plan<Element>& plan, const Region<Element>& region) {
  using Compute = ComputeOf<Element>;
  constexpr bool kInPlace = std::is_same_v<Element, Compute>;
  const Kernels<Element>& kernel = kernels<Element>();
  const std::int64_t column_step =
      even_piece(region.columns, kColumnsPerBlock, kernel.tile_columns);
  const std::int64_t row_tiles = divide_up(region.rows, kernel.tile_rows);
  const std::int64_t panel_rows = divide_up(region.rows, row_tiles);
  const std::int64_t row_step = even_piece(
      region.rows, std::max(panel_rows, kRowsPerBlock / panel_rows * panel_rows), panel_rows);
  // As many blocks of rows as may keep their sums at a time.
  const std::int64_t outer_step =
      plan.keep_sums
          ? std::min(region.rows, std::max(kMostSums / column_step / row_step * row_step, row_step))
          : region.rows;

  Block<Element> block;
  Epilogue<Element> finish = plan.finish;
  block.transposed = plan.swapped;
  block.panel_rows = panel_rows;
  for (std::int64_t j = 0; j < region.columns; j += column_step) {
    const std::int64_t column = region.first_column + j;
    block.n = std::min(column_step, region.columns - j);
    for (std::int64_t outer = 0; outer < region.rows; outer += outer_step) {
      const std::int64_t outer_end = std::min(region.rows, outer + outer_step);
      for (std::int64_t p = 0; p < plan.k; p += plan.k_block) {
        const std::int64_t steps = std::min(plan.k_block, plan.k - p);
        block.k = divide_up(steps, kernel.elements_per_term);
        block.accumulate = p > 0 || plan.accumulate;
        const bool last = p + steps == plan.k;
        const Element* right =
            plan.right + p * plan.right_k_stride + column * plan.right_column_stride;
        if (plan.pack_right) {
          kernel.pack(right, plan.right_column_stride, plan.right_k_stride, block.n, steps,
                      kernel.tile_columns, region.right_panels);
          block.b = region.right_panels;
          block.b_k_stride = kernel.tile_columns;
          block.b_panel_stride = kernel.tile_columns * block.k;
        } else if constexpr (kInPlace) {
          block.b = right;
          block.b_k_stride = plan.right_k_stride;
          block.b_panel_stride = kernel.tile_columns;
        }
        for (std::int64_t i = outer; i < outer_end; i += row_step) {
          const std::int64_t row = region.first_row + i;
          block.m = std::min(row_step, outer_end - i);
          const Element* left = plan.left + row * plan.left_row_stride + p * plan.left_k_stride;
          if (plan.pack_left) {
            kernel.pack(left, plan.left_row_stride, plan.left_k_stride, block.m, steps, panel_rows,
                        region.left_panels);
            block.a = region.left_panels;
            block.a_row_stride = 1;
            block.a_k_stride = panel_rows;
            block.a_panel_stride = panel_rows * block.k;
          } else if constexpr (kInPlace) {
            block.a = left;
            block.a_row_stride = plan.left_row_stride;
            block.a_k_stride = plan.left_k_stride;
            block.a_panel_stride = panel_rows * plan.left_row_stride;
          }
          const std::int64_t c_row = plan.swapped ? column : row;
          const std::int64_t c_column = plan.swapped ? row : column;
          finish.c = plan.finish.c + c_row * plan.finish.c_row_stride + c_column;
          finish.bias = plan.finish.bias != nullptr ? plan.finish.bias + c_column : nullptr;
          block.finish = last ? &finish : nullptr;
          if constexpr (kInPlace) {
            block.sums = finish.c;
            block.sums_row_stride = finish.c_row_stride;
          } else {
            block.sums_row_stride = plan.swapped ? outer_step : column_step;
            block.sums = plan.keep_sums
                             ? region.sums + (i - outer) * (plan.swapped ? 1 : column_step)
                             : nullptr;
          }
          kernel.block(block);
        }
      }
    }
  }
}

// The split of c among the threads: a grid of equal regions, chosen to pack as little as possible.
struct Grid {
  std::int64_t row_parts, column_parts;
};

template <class Element>
Grid make_grid(const Plan<Element>& plan, int threads) {
  const Kernels<Element>& kernel = kernels<Element>();
  Grid best{1, 1};
  double best_cost = 0;
  for (std::int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    if (threads % row_parts != 0) continue;
    const std::int64_t column_parts = threads / row_parts;
    const double rows = static_cast<double>(divide_up(plan.m, row_parts));
    const double columns =
        static_cast<double>(round_up(divide_up(plan.n, column_parts), kernel.tile_columns / 2));
    // Where parts meet inside a row of c, prefetching takes lines from the cache of another core.
    const double seams = plan.swapped ? columns * static_cast<double>(row_parts - 1)
                                      : rows * static_cast<double>(column_parts - 1);
    const double cost = rows * columns / 16 + (plan.pack_left ? rows * 0.35 : rows * 0.05) +
                        (plan.pack_right ? columns * 0.2 : columns * 0.05) +
                        seams * 30 / static_cast<double>(plan.k);
    if (row_parts == 1 || cost < best_cost) {
      best = {row_parts, column_parts};
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace

template <class Element>
void run_tiled(const Product<Element>& product) {
  using Compute = ComputeOf<Element>;
  const Kernels<Element>& kernel = kernels<Element>();
  const Plan<Element> plan = make_plan(product);
  const int threads = gemm_threads(
      static_cast<double>(plan.m) * static_cast<double>(plan.n) * static_cast<double>(plan.k),
      kSmallWork);
  const Grid grid = threads > 1 ? make_grid(plan, threads) : Grid{1, 1};
  const std::int64_t region_rows = divide_up(plan.m, grid.row_parts);
  const std::int64_t region_columns =
      round_up(divide_up(plan.n, grid.column_parts), kernel.tile_columns / 2);

  // All memory is reserved before anything is written.
  const std::int64_t slack = 2 * kernel.tile_columns;
  const std::int64_t block_rows = std::min(round_up(region_rows, kernel.tile_rows), kRowsPerBlock);
  const std::int64_t block_columns =
      std::min(round_up(region_columns, kernel.tile_columns), kColumnsPerBlock);
  const std::int64_t block_terms = divide_up(plan.k_block, kernel.elements_per_term);
  const std::int64_t left_size =
      plan.pack_left ? round_up(block_rows * block_terms + slack, 64) : 0;
  const std::int64_t right_size =
      plan.pack_right ? round_up(block_columns * block_terms + slack, 64) : 0;
  const std::int64_t sums_size =
      plan.keep_sums
          ? std::min(region_rows * block_columns, std::max(kMostSums, block_rows * block_columns))
          : 0;
  const std::int64_t region_size = left_size + right_size + round_up(sums_size, 64);
  const std::int64_t regions = grid.row_parts * grid.column_parts;
  Compute* workspace =
      region_size == 0 ? nullptr
                       : reinterpret_cast<Compute*>(Workspace::reserve(
                             static_cast<std::size_t>(regions * region_size) * sizeof(Compute)));

  run_tasks(threads, regions, [&](std::int64_t index) {
    Region<Element> region;
    region.first_row = index / grid.column_parts * region_rows;
    region.first_column = index % grid.column_parts * region_columns;
    region.rows = std::min(region_rows, plan.m - region.first_row);
    region.columns = std::min(region_columns, plan.n - region.first_column);
    if (region.rows <= 0 || region.columns <= 0) return;
    region.left_panels = workspace + index * region_size;
    region.right_panels = region.left_panels + left_size;
    region.sums = region.right_panels + right_size;
    run_region(plan, region);
  });
}

#define EXTENSOR_INSTANTIATE(Element) template void run_tiled(const Product<Element>&);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
EXTENSOR_INSTANTIATE(Float16)
EXTENSOR_INSTANTIATE(BFloat16)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu
