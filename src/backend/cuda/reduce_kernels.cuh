// The kernels of reductions. Kept and reduced dimensions are merged by backend/plan; then either
// groups of threads gather the elements of a result (rows), or threads side by side run down the
// columns that are dense in memory (columns). Long reductions are split into parts of fixed length,
// whose results a second launch combines in order, so the bits depend on the shapes only.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/reduce_operations.cuh"

namespace extensor::backend::cuda::reductions {

constexpr int threads = 256;

// ---- rows

// Combines the values of `width` neighbouring threads into the first of them.
template <class A, bool sum>
__device__ __forceinline__ void in_warp(const Operation<A, sum>& operation, A& value,
                                        std::int64_t& position, int width) {
  for (int distance = width / 2; distance > 0; distance /= 2) {
    const A other = __shfl_down_sync(0xffffffffu, value, distance, width);
    if (!sum && finds_position(operation.op)) {
      const std::int64_t place = __shfl_down_sync(0xffffffffu, position, distance, width);
      const Found<A> found = operation.combine(Found<A>{value, position}, Found<A>{other, place});
      value = found.value;
      position = found.position;
    } else {
      value = operation.combine(value, other);
    }
  }
}

template <class In>
struct alignas(16) Pack {
  In at[16 / sizeof(In)];
};

template <class In, class A, bool sum>
__device__ __forceinline__ void combine_pack(const Operation<A, sum>& operation, A* partial,
                                             const Pack<In>& pack) {
#pragma unroll
  for (int e = 0; e < static_cast<int>(16 / sizeof(In)); ++e) {
    partial[e] = operation.combine(partial[e], static_cast<A>(load_as_compute(pack.at[e])));
  }
}

// Combines `width` values, and leaves the identity in their places.
template <int width, class A, bool sum>
__device__ __forceinline__ A take_all(const Operation<A, sum>& operation, A* partial) {
#pragma unroll
  for (int half = width / 2; half > 0; half /= 2) {
#pragma unroll
    for (int e = 0; e < half; ++e) partial[e] = operation.combine(partial[e], partial[e + half]);
  }
  const A all = partial[0];
#pragma unroll
  for (int e = 0; e < width; ++e) partial[e] = operation.identity();
  return all;
}

// The elements [begin, end) of a dense row, 16 bytes at a time; false unless they are aligned.
template <class In, class A, bool sum>
__device__ __forceinline__ bool gather_packs(const Reduction& call,
                                             const Operation<A, sum>& operation, std::int64_t base,
                                             std::int64_t begin, std::int64_t end,
                                             std::int64_t first, std::int64_t step, A& value) {
  constexpr int width = 16 / sizeof(In);
  constexpr int together = 4;
  const In* row = reinterpret_cast<const In*>(call.input) + base + begin;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) return false;
  const std::int64_t packs = (end - begin) / width;
  A partial[width];
#pragma unroll
  for (int e = 0; e < width; ++e) partial[e] = operation.identity();
  const auto* rows = reinterpret_cast<const Pack<In>*>(row);
  Total<A> total;
  int added = 0;
  std::int64_t p = first;
  for (; p + (together - 1) * step < packs; p += together * step) {
    Pack<In> loaded[together];
#pragma unroll
    for (int u = 0; u < together; ++u) loaded[u] = rows[p + u * step];
#pragma unroll
    for (int u = 0; u < together; ++u) combine_pack(operation, partial, loaded[u]);
    if constexpr (carries_error<A, sum>) {
      if ((added += together) == block_additions) {
        total.add(take_all<width>(operation, partial));
        added = 0;
      }
    }
  }
  for (; p < packs; p += step) combine_pack(operation, partial, rows[p]);
  for (std::int64_t last = packs * width + first; last < end - begin; last += step) {
    partial[0] = operation.combine(partial[0], static_cast<A>(load_as_compute(row[last])));
  }
  value = take_all<width>(operation, partial);
  if constexpr (carries_error<A, sum>) {
    total.add(value);
    value = total.result();
  }
  return true;
}

// The same for positions, which are counted from `begin`.
template <class In, class A>
__device__ __forceinline__ bool find_in_packs(const Reduction& call,
                                              const Operation<A, false>& operation,
                                              std::int64_t base, std::int64_t begin,
                                              std::int64_t end, std::int64_t first,
                                              std::int64_t step, A& value, std::int64_t& position) {
  constexpr int width = 16 / sizeof(In);
  constexpr int together = 4;
  const In* row = reinterpret_cast<const In*>(call.input) + base + begin;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) return false;
  if (end - begin >= std::int64_t{1} << 31) return false;
  const int length = static_cast<int>(end - begin), packs = length / width;
  const int start = static_cast<int>(first), stride = static_cast<int>(step);
  int found = -1;
  const auto take = [&](const Pack<In>& pack, int p) {
#pragma unroll
    for (int e = 0; e < width; ++e) {
      const A next = static_cast<A>(load_as_compute(pack.at[e]));
      if (operation.wins(next, value)) {
        value = next;
        found = p * width + e;
      }
    }
  };
  const auto* rows = reinterpret_cast<const Pack<In>*>(row);
  int p = start;
  if (p < packs) {
    value = static_cast<A>(load_as_compute(row[p * width]));
    found = p * width;
  }
  for (; p + (together - 1) * stride < packs; p += together * stride) {
    Pack<In> loaded[together];
#pragma unroll
    for (int u = 0; u < together; ++u) loaded[u] = rows[p + u * stride];
#pragma unroll
    for (int u = 0; u < together; ++u) take(loaded[u], p + u * stride);
  }
  for (; p < packs; p += stride) take(rows[p], p);
  const int last = packs * width + start;
  if (start < width && last < length) {
    const A next = static_cast<A>(load_as_compute(row[last]));
    if (found < 0 || operation.wins(next, value)) {
      value = next;
      found = last;
    }
  }
  if (found >= 0) position = begin + found;
  return true;
}

// Several elements at a time are loaded before they are combined.
template <class In, class A, bool sum>
__device__ __forceinline__ void gather(const Reduction& call, const Operation<A, sum>& operation,
                                       std::int64_t base, std::int64_t begin, std::int64_t end,
                                       std::int64_t first, std::int64_t step, A& value,
                                       std::int64_t& position) {
  value = operation.identity();
  position = std::numeric_limits<std::int64_t>::max();
  const bool dense = call.reduced.count == 1;
  const std::int64_t stride = call.reduced.strides[0];
  const auto at = [&](std::int64_t i) {
    return base + (dense ? i * stride : call.reduced.offset(i, call.reduced.strides));
  };
  std::int64_t i = begin + first;
  if (!sum && finds_position(call.op)) {
    if constexpr (!std::is_void_v<In> && !sum) {
      if (dense && stride == 1 && step >= 16 / static_cast<std::int64_t>(sizeof(In)) &&
          find_in_packs<In>(call, operation, base, begin, end, first, step, value, position)) {
        return;
      }
    }
    for (; i < end; i += step) {
      const Found<A> found =
          operation.combine(Found<A>{value, position}, Found<A>{load_input<In, A>(call, at(i)), i});
      value = found.value;
      position = found.position;
    }
    return;
  }
  if constexpr (!std::is_void_v<In>) {
    if (dense && stride == 1 &&
        gather_packs<In>(call, operation, base, begin, end, first, step, value)) {
      return;
    }
  }
  constexpr int together = 8, sums = 4;
  A partial[sums] = {value, value, value, value};
  Total<A> total;
  int added = 0;
  for (; i + (together - 1) * step < end; i += together * step) {
    A loaded[together];
#pragma unroll
    for (int u = 0; u < together; ++u) loaded[u] = load_input<In, A>(call, at(i + u * step));
#pragma unroll
    for (int u = 0; u < together; ++u) {
      partial[u % sums] = operation.combine(partial[u % sums], loaded[u]);
    }
    if constexpr (carries_error<A, sum>) {
      if ((added += together / sums) == block_additions) {
        total.add(take_all<sums>(operation, partial));
        added = 0;
      }
    }
  }
  for (; i < end; i += step) {
    partial[0] = operation.combine(partial[0], load_input<In, A>(call, at(i)));
  }
  value = take_all<sums>(operation, partial);
  if constexpr (carries_error<A, sum>) {
    total.add(value);
    value = total.result();
  }
}

// Combines the values of all threads of the block into the first.
template <class A, bool sum>
__device__ __forceinline__ void in_block(const Operation<A, sum>& operation, A& value,
                                         std::int64_t& position) {
  __shared__ A values[threads / 32];
  __shared__ std::int64_t positions[threads / 32];
  in_warp(operation, value, position, 32);
  __syncthreads();  // the memory may still be read
  if (threadIdx.x % 32 == 0) {
    values[threadIdx.x / 32] = value;
    positions[threadIdx.x / 32] = position;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const bool is_warp = threadIdx.x < threads / 32;
    value = is_warp ? values[threadIdx.x] : operation.identity();
    position = is_warp ? positions[threadIdx.x] : std::numeric_limits<std::int64_t>::max();
    in_warp(operation, value, position, threads / 32);
  }
}

// A group of threads per part of a result: `width` of them, a power of two up to 32, or the block.
template <class In, class A, bool sum>
__global__ void __launch_bounds__(threads)
    reduce_rows(const __grid_constant__ Reduction call, int width) {
  begin_overlapped();
  const Operation<A, sum> operation{call.op};
  const bool whole_block = width > 32;
  const int groups = whole_block ? 1 : threads / width;
  const int group = whole_block ? 0 : threadIdx.x / width;
  const int lane = whole_block ? threadIdx.x : threadIdx.x % width;
  const std::int64_t units = call.results * call.parts;
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < units;
       first += std::int64_t{gridDim.x} * groups) {
    const std::int64_t unit = first + group;
    const bool is_used = unit < units;
    const std::int64_t part = is_used ? unit / call.results : 0;
    const std::int64_t result = is_used ? unit - part * call.results : 0;
    // The parts of a long row alternate every `threads` packs, so that blocks that run together
    // read neighbouring memory. Positions are counted within a part, which is a piece of the row.
    const bool alternate = whole_block && call.parts > 1 && (sum || !finds_position(call.op));
    const std::int64_t begin = alternate ? 0 : part * call.part_length;
    const std::int64_t behind = alternate ? call.length : begin + call.part_length;
    const std::int64_t end = !is_used ? begin : behind < call.length ? behind : call.length;
    A value;
    std::int64_t position;
    gather<In>(call, operation, call.kept.offset(result, call.kept.strides), begin, end,
               alternate ? part * threads + lane : lane,
               alternate     ? call.parts * threads
               : whole_block ? threads
                             : width,
               value, position);
    if (whole_block) {
      in_block(operation, value, position);
    } else {
      in_warp(operation, value, position, width);
    }
    if (lane == 0 && is_used) put(call, result, part, value, position);
  }
}

// The sums of the parts of dense, aligned rows, a block for each: as reduce_rows, but with so few
// registers that the blocks of a device run at once.
constexpr int row_part_blocks = 4;  // per multiprocessor
template <class In, class A>
__global__ void __launch_bounds__(threads, row_part_blocks)
    sum_row_parts(const __grid_constant__ Reduction call) {
  constexpr int width = 16 / sizeof(In), together = 8;
  begin_overlapped();
  const Operation<A, true> operation{call.op};
  const auto part = static_cast<int>(blockIdx.x / call.results);
  const std::int64_t result = blockIdx.x - part * call.results;
  const In* row =
      reinterpret_cast<const In*>(call.input) + call.kept.offset(result, call.kept.strides);
  const std::int64_t packs = call.length / width, step = call.parts * threads;
  const std::int64_t first = part * threads + static_cast<int>(threadIdx.x);
  A partial[width];
#pragma unroll
  for (int e = 0; e < width; ++e) partial[e] = operation.identity();
  Total<A> total;
  int added = 0;
  const auto* next = reinterpret_cast<const Pack<In>*>(row) + first;
  const auto* const behind = reinterpret_cast<const Pack<In>*>(row) + packs;
  for (; next + (together - 1) * step < behind; next += together * step) {
    Pack<In> loaded[together];
#pragma unroll
    for (int u = 0; u < together; ++u) loaded[u] = next[u * step];
#pragma unroll
    for (int u = 0; u < together; ++u) combine_pack(operation, partial, loaded[u]);
    if constexpr (carries_error<A, true>) {
      if ((added += together) == block_additions) {
        total.add(take_all<width>(operation, partial));
        added = 0;
      }
    }
  }
  // The rest is loaded together as well.
  Pack<In> loaded[together - 1];
#pragma unroll
  for (int u = 0; u < together - 1; ++u) {
    if (next + u * step < behind) loaded[u] = next[u * step];
  }
#pragma unroll
  for (int u = 0; u < together - 1; ++u) {
    if (next + u * step < behind) combine_pack(operation, partial, loaded[u]);
  }
  if (const std::int64_t last = packs * width + first; first < width && last < call.length) {
    partial[0] = operation.combine(partial[0], static_cast<A>(load_as_compute(row[last])));
  }
  A value = take_all<width>(operation, partial);
  if constexpr (carries_error<A, true>) {
    total.add(value);
    value = total.result();
  }
  std::int64_t position = 0;
  in_block(operation, value, position);
  if (threadIdx.x == 0) reinterpret_cast<A*>(call.values)[blockIdx.x] = value;
}

// Whether sum_row_parts may run.
template <class In>
bool has_row_packs(const Reduction& call) {
  constexpr std::int64_t width = 16 / sizeof(In);
  if (call.reduced.count != 1 || call.reduced.strides[0] != 1) return false;
  if (reinterpret_cast<std::uintptr_t>(call.input) % 16 != 0) return false;
  for (int d = 0; d < call.kept.count; ++d) {
    if (call.kept.sizes[d] != 1 && call.kept.strides[d] % width != 0) return false;
  }
  return true;
}

// ---- columns

// A thread per column and part: neighbouring threads read neighbouring elements.
template <class In, class A, bool sum>
__global__ void __launch_bounds__(threads) reduce_columns(const __grid_constant__ Reduction call) {
  begin_overlapped();
  const Operation<A, sum> operation{call.op};
  const std::int64_t units = call.results * call.parts;
  for (std::int64_t unit = first_index(); unit < units; unit += index_step()) {
    const std::int64_t part = unit / call.results, result = unit - part * call.results;
    const std::int64_t begin = part * call.part_length;
    const std::int64_t end =
        begin + call.part_length < call.length ? begin + call.part_length : call.length;
    A value;
    std::int64_t position;
    gather<In>(call, operation, call.kept.offset(result, call.kept.strides), begin, end, 0, 1,
               value, position);
    put(call, result, part, value, position);
  }
}

// Like reduce_columns, with 16 bytes of neighbouring columns per thread. The columns are dense,
// their number is a multiple of those, and every row is aligned.
template <class In, class A, bool sum>
__global__ void __launch_bounds__(threads)
    reduce_column_packs(const __grid_constant__ Reduction call) {
  constexpr int width = 16 / sizeof(In);
  constexpr int together = 8;
  begin_overlapped();
  const Operation<A, sum> operation{call.op};
  const std::int64_t packs = call.results / width, units = packs * call.parts;
  const bool one_dimension = call.reduced.count == 1;
  const std::int64_t stride = call.reduced.strides[0];
  for (std::int64_t unit = first_index(); unit < units; unit += index_step()) {
    const std::int64_t part = unit / packs, result = (unit - part * packs) * width;
    const In* base =
        reinterpret_cast<const In*>(call.input) + call.kept.offset(result, call.kept.strides);
    const auto read = [&](std::int64_t i) {
      const std::int64_t at =
          one_dimension ? i * stride : call.reduced.offset(i, call.reduced.strides);
      return *reinterpret_cast<const Pack<In>*>(base + at);
    };
    A partial[width];
#pragma unroll
    for (int e = 0; e < width; ++e) partial[e] = operation.identity();
    Total<A> totals[width];
    int added = 0;
    // The parts take rows in turn: threads that run together read neighbouring memory.
    const std::int64_t step = call.parts;
    std::int64_t i = part;
    for (; i + (together - 1) * step < call.length; i += together * step) {
      Pack<In> loaded[together];
#pragma unroll
      for (int u = 0; u < together; ++u) loaded[u] = read(i + u * step);
#pragma unroll
      for (int e = 0; e < width; ++e) {
        A value = static_cast<A>(load_as_compute(loaded[0].at[e]));
#pragma unroll
        for (int u = 1; u < together; ++u) {
          value = operation.combine(value, static_cast<A>(load_as_compute(loaded[u].at[e])));
        }
        partial[e] = operation.combine(partial[e], value);
      }
      if constexpr (carries_error<A, sum>) {
        if (++added == block_additions) {
          added = 0;
#pragma unroll
          for (int e = 0; e < width; ++e) totals[e].add(take_all<1>(operation, partial + e));
        }
      }
    }
    for (; i < call.length; i += step) combine_pack(operation, partial, read(i));
#pragma unroll
    for (int e = 0; e < width; ++e) {
      if constexpr (carries_error<A, sum>) {
        totals[e].add(partial[e]);
        partial[e] = totals[e].result();
      }
      put(call, result + e, part, partial[e], 0);
    }
  }
}

// Sums of dense columns in one launch: a block for `lanes` packs of neighbouring columns, whose
// threads share the rows. Blocks that run together read neighbouring memory, as long as they are
// about as fast. The conditions of reduce_column_packs, and one reduced dimension.
constexpr int tile_threads = 512;
template <class In, class A, int lanes>
__global__ void __launch_bounds__(tile_threads, 2)
    sum_column_tiles(const __grid_constant__ Reduction call) {
  constexpr int width = 16 / sizeof(In), columns = lanes * width;
  constexpr int rows = tile_threads / lanes, warps = tile_threads / 32;
  constexpr int together = 4;
  begin_overlapped();
  __shared__ A of_warps[warps][columns];
  const Operation<A, true> operation{call.op};
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t first = blockIdx.x * std::int64_t{columns}, own = first + lane * width;
  A partial[width];
#pragma unroll
  for (int e = 0; e < width; ++e) partial[e] = operation.identity();
  if (own < call.results) {
    const int first_row = static_cast<int>(threadIdx.x) / lanes;
    const std::int64_t step = rows * call.reduced.strides[0];
    const In* next = reinterpret_cast<const In*>(call.input) +
                     call.kept.offset(own, call.kept.strides) +
                     first_row * call.reduced.strides[0];
    const auto value = [](In element) { return static_cast<A>(load_as_compute(element)); };
    Total<A> totals[width];
    int added = 0;
    std::int64_t rest = (call.length - first_row + rows - 1) / rows;
    for (; rest >= together; rest -= together) {
      Pack<In> loaded[together];
#pragma unroll
      for (int u = 0; u < together; ++u) {
        loaded[u] = *reinterpret_cast<const Pack<In>*>(next);
        next += step;
      }
#pragma unroll
      for (int e = 0; e < width; ++e) {
        A sum = value(loaded[0].at[e]);
#pragma unroll
        for (int u = 1; u < together; ++u) sum = operation.combine(sum, value(loaded[u].at[e]));
        partial[e] = operation.combine(partial[e], sum);
      }
      if constexpr (carries_error<A, true>) {
        if (++added == block_additions) {
          added = 0;
#pragma unroll
          for (int e = 0; e < width; ++e) totals[e].add(take_all<1>(operation, partial + e));
        }
      }
    }
    for (; rest > 0; --rest, next += step) {
      combine_pack(operation, partial, *reinterpret_cast<const Pack<In>*>(next));
    }
    if constexpr (carries_error<A, true>) {
#pragma unroll
      for (int e = 0; e < width; ++e) {
        totals[e].add(partial[e]);
        partial[e] = totals[e].result();
      }
    }
  }
#pragma unroll
  for (int e = 0; e < width; ++e) {
#pragma unroll
    for (int distance = 16; distance >= lanes; distance /= 2) {
      partial[e] = operation.combine(partial[e],
                                     __shfl_down_sync(0xffffffffu, partial[e], distance));
    }
    if (threadIdx.x % 32 < lanes) of_warps[threadIdx.x / 32][lane * width + e] = partial[e];
  }
  __syncthreads();
  const std::int64_t result = first + threadIdx.x;
  if (threadIdx.x >= columns || result >= call.results) return;
  A sum = of_warps[0][threadIdx.x];
#pragma unroll
  for (int k = 1; k < warps; ++k) sum = operation.combine(sum, of_warps[k][threadIdx.x]);
  write(call, result, sum, 0);
}

// Whether reduce_column_packs may run.
template <class In>
bool has_column_packs(const Reduction& call) {
  constexpr std::int64_t width = 16 / sizeof(In);
  const Axes& kept = call.kept;
  const int last = kept.count - 1;
  if (last < 0 || kept.strides[last] != 1 || kept.sizes[last] % width != 0) return false;
  if (reinterpret_cast<std::uintptr_t>(call.input) % 16 != 0) return false;
  for (int d = 0; d < last; ++d) {
    if (kept.strides[d] % width != 0) return false;
  }
  for (int d = 0; d < call.reduced.count; ++d) {
    if (call.reduced.strides[d] % width != 0) return false;
  }
  return true;
}

// ---- the parts of a result

// The parts of a result that begin at `first`, `step` apart.
template <class A>
__device__ __forceinline__ void gather_parts(const Reduction& call,
                                             const Operation<A, false>& operation,
                                             std::int64_t result, std::int64_t first,
                                             std::int64_t step, A& value, std::int64_t& position) {
  value = operation.identity();
  position = std::numeric_limits<std::int64_t>::max();
  if (call.positions != nullptr) {
    for (std::int64_t part = first; part < call.parts; part += step) {
      const std::int64_t slot = part * call.results + result;
      const Found<A> found = operation.combine(
          Found<A>{value, position},
          Found<A>{reinterpret_cast<const A*>(call.values)[slot], call.positions[slot]});
      value = found.value;
      position = found.position;
    }
    return;
  }
  // Eight sums side by side, so that rounding errors of many parts do not add up.
  constexpr int together = 8;
  A partial[together];
#pragma unroll
  for (int u = 0; u < together; ++u) partial[u] = value;
  for (std::int64_t part = first; part < call.parts; part += together * step) {
#pragma unroll
    for (int u = 0; u < together; ++u) {
      const std::int64_t at = part + u * step;
      if (at >= call.parts) continue;
      const A other = reinterpret_cast<const A*>(call.values)[at * call.results + result];
      partial[u] = operation.combine(partial[u], other);
    }
  }
#pragma unroll
  for (int half = together / 2; half > 0; half /= 2) {
#pragma unroll
    for (int u = 0; u < half; ++u) partial[u] = operation.combine(partial[u], partial[u + half]);
  }
  value = partial[0];
}

// A block per result.
template <class A>
__global__ void __launch_bounds__(threads) combine_parts(const __grid_constant__ Reduction call) {
  begin_overlapped();
  const Operation<A, false> operation{call.op};
  for (std::int64_t result = blockIdx.x; result < call.results; result += gridDim.x) {
    A value;
    std::int64_t position;
    gather_parts(call, operation, result, threadIdx.x, threads, value, position);
    in_block(operation, value, position);
    if (threadIdx.x == 0) write(call, result, value, position);
  }
}

// 32 results per block, side by side, so that threads read neighbouring memory; `combined_rows`
// threads share the parts of each.
constexpr int combined_rows = 8;

template <class A>
__global__ void __launch_bounds__(32 * combined_rows)
    combine_columns(const __grid_constant__ Reduction call) {
  begin_overlapped();
  __shared__ A values[combined_rows][32];
  __shared__ std::int64_t positions[combined_rows][32];
  const Operation<A, false> operation{call.op};
  for (std::int64_t first = blockIdx.x * std::int64_t{32}; first < call.results;
       first += gridDim.x * std::int64_t{32}) {
    const std::int64_t result = first + threadIdx.x;
    A value = operation.identity();
    std::int64_t position = std::numeric_limits<std::int64_t>::max();
    if (result < call.results) {
      gather_parts(call, operation, result, threadIdx.y, combined_rows, value, position);
    }
    values[threadIdx.y][threadIdx.x] = value;
    positions[threadIdx.y][threadIdx.x] = position;
    __syncthreads();
    if (threadIdx.y == 0 && result < call.results) {
      for (int row = 1; row < combined_rows; ++row) {
        const A other = values[row][threadIdx.x];
        if (call.positions != nullptr) {
          const Found<A> found = operation.combine(Found<A>{value, position},
                                                   Found<A>{other, positions[row][threadIdx.x]});
          value = found.value;
          position = found.position;
        } else {
          value = operation.combine(value, other);
        }
      }
      write(call, result, value, position);
    }
    __syncthreads();
  }
}

// No elements: the identity of the operation.
__global__ void fill_identity(const __grid_constant__ Reduction call, double identity) {
  for (std::int64_t i = first_index(); i < call.results; i += index_step()) {
    store_element<double>(call.out, call.out_dtype, i, identity);
  }
}

}  // namespace extensor::backend::cuda::reductions
