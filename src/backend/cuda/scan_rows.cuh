// The operations of cumulative sums and products, and their kernels along the last axis.
#pragma once

#include "backend/cuda/group.cuh"

namespace extensor::backend::cuda::scans {

// ---- the operations: a state, the state of one element, and their combination

template <class T>
__device__ __forceinline__ double as_double(T value) {
  return static_cast<double>(load_as_compute(value));
}

template <class T>
struct WideSum {
  using State = double;
  static __device__ State none() { return 0; }
  static __device__ State of(T value) { return as_double(value); }
  static __device__ State combine(State a, State b) { return a + b; }
  static __device__ T get(State a) { return store_from_compute<T>(a); }
};
// The sum and its accumulated rounding errors.
struct ExactSum {
  struct State {
    double sum, lost;
  };
  static __device__ State none() { return {0, 0}; }
  static __device__ State of(double value) { return {value, 0}; }
  static __device__ State combine(State a, State b) {
    const double next = a.sum + b.sum, added = next - a.sum;
    return {next, a.lost + b.lost + ((a.sum - (next - added)) + (b.sum - added))};
  }
  static __device__ double get(State a) { return isfinite(a.sum) ? a.sum + a.lost : a.sum; }
};
template <class T>
struct WideProduct {
  using State = double;
  static __device__ State none() { return 1; }
  static __device__ State of(T value) { return as_double(value); }
  static __device__ State combine(State a, State b) { return a * b; }
  static __device__ T get(State a) { return store_from_compute<T>(a); }
};
struct IntegerSum {
  using State = std::uint64_t;
  static __device__ State none() { return 0; }
  static __device__ State of(std::uint64_t value) { return value; }
  static __device__ State combine(State a, State b) { return a + b; }
  static __device__ std::uint64_t get(State a) { return a; }
};
struct IntegerProduct {
  using State = std::uint64_t;
  static __device__ State none() { return 1; }
  static __device__ State of(std::uint64_t value) { return value; }
  static __device__ State combine(State a, State b) { return a * b; }
  static __device__ std::uint64_t get(State a) { return a; }
};

template <class Rule>
struct Combine {
  __device__ __forceinline__ typename Rule::State operator()(typename Rule::State a,
                                                             typename Rule::State b) const {
    return Rule::combine(a, b);
  }
};

// ---- the last axis

constexpr int items = 4;  // neighbouring elements of a thread
constexpr int row_threads = 256;

// The value of the lane `distance` below.
template <class T>
__device__ __forceinline__ T from_below(T value, int distance) {
  constexpr int words = sizeof(T) / sizeof(int);
  int parts[words];
  memcpy(parts, &value, sizeof(T));
#pragma unroll
  for (int k = 0; k < words; ++k) {
    parts[k] = __shfl_up_sync(0xffffffffu, parts[k], static_cast<unsigned>(distance));
  }
  memcpy(&value, parts, sizeof(T));
  return value;
}

// Sets `before` to the combination of the states of all lower threads of the group, and returns
// that of all threads.
template <class Rule, bool is_block>
__device__ __forceinline__ typename Rule::State scan_threads(typename Rule::State own,
                                                             typename Rule::State& before) {
  using State = typename Rule::State;
  const int lane = static_cast<int>(threadIdx.x % 32);
  State inclusive = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const State lower = from_below(inclusive, distance);
    if (lane >= distance) inclusive = Rule::combine(lower, inclusive);
  }
  before = from_below(inclusive, 1);
  if (lane == 0) before = Rule::none();
  if constexpr (is_block) {
    __shared__ State warps[row_threads / 32];
    const int warp = static_cast<int>(threadIdx.x / 32);
    __syncthreads();
    if (lane == 31) warps[warp] = inclusive;
    __syncthreads();
    State total = Rule::none(), lower = Rule::none();
#pragma unroll
    for (int k = 0; k < row_threads / 32; ++k) {
      if (k == warp) lower = total;
      total = Rule::combine(total, warps[k]);
    }
    before = Rule::combine(lower, before);
    return total;
  } else {
    State total = inclusive;
    // All lanes get the last one's.
    constexpr int words = sizeof(State) / sizeof(int);
    int parts[words];
    memcpy(parts, &total, sizeof(State));
#pragma unroll
    for (int k = 0; k < words; ++k) parts[k] = __shfl_sync(0xffffffffu, parts[k], 31);
    memcpy(&total, parts, sizeof(State));
    return total;
  }
}

template <class T>
struct ScanArguments {
  std::int64_t outer, length, inner;
  bool reverse;
  const T* x;
  T* out;
  // Position k in the order of the scan.
  __device__ std::int64_t at(std::int64_t k) const { return reverse ? length - 1 - k : k; }
};

// The combination of each chunk of each row.
template <class T, class Rule>
__global__ void __launch_bounds__(row_threads)
    row_chunk_totals(ScanArguments<T> arguments, std::int64_t chunks, std::int64_t chunk,
                     typename Rule::State* totals) {
  using State = typename Rule::State;
  Group<true> group;
  for (std::int64_t unit = blockIdx.x; unit < arguments.outer * chunks; unit += gridDim.x) {
    const T* x = arguments.x + unit / chunks * arguments.length;
    const std::int64_t begin = unit % chunks * chunk, end = min(arguments.length, begin + chunk);
    State state = Rule::none();
    for (std::int64_t k = begin + threadIdx.x; k < end; k += blockDim.x) {
      state = Rule::combine(state, Rule::of(x[arguments.at(k)]));
    }
    state = group.reduce(state, Rule::none(), Combine<Rule>());
    if (threadIdx.x == 0) totals[unit] = state;
  }
}

template <class T, class Rule, bool is_block>
__global__ void __launch_bounds__(row_threads)
    scan_rows(ScanArguments<T> arguments, std::int64_t chunks, std::int64_t chunk,
              const typename Rule::State* totals) {
  using State = typename Rule::State;
  Group<is_block> group;
  const std::int64_t units = arguments.outer * chunks;
  const int per_block = is_block ? 1 : row_threads / 32;
  for (std::int64_t first = blockIdx.x * static_cast<std::int64_t>(per_block); first < units;
       first += gridDim.x * static_cast<std::int64_t>(per_block)) {
    const std::int64_t unit = first + (is_block ? 0 : threadIdx.x / 32);
    const std::int64_t row = unit / chunks, begin = unit % chunks * chunk;
    const std::int64_t end = unit < units ? min(arguments.length, begin + chunk) : 0;
    const T* x = arguments.x + row * arguments.length;
    T* out = arguments.out + row * arguments.length;
    State carry = Rule::none();
    if (chunks > 1) {  // only for blocks
      for (std::int64_t k = threadIdx.x; k < unit % chunks; k += blockDim.x) {
        carry = Rule::combine(carry, totals[row * chunks + k]);
      }
      carry = group.reduce(carry, Rule::none(), Combine<Rule>());
    }
    const std::int64_t tile = group.size() * items;
    // Warps of a block take the same number of turns: the chunks of all units but the last are as
    // long.
    for (std::int64_t start = begin; start < begin + chunk; start += tile) {
      const std::int64_t k = start + group.rank() * items;
      State states[items];
      State own = Rule::none();
#pragma unroll
      for (int e = 0; e < items; ++e) {
        if (k + e < end) own = Rule::combine(own, Rule::of(x[arguments.at(k + e)]));
        states[e] = own;
      }
      State before;
      const State total = scan_threads<Rule, is_block>(own, before);
      before = Rule::combine(carry, before);
#pragma unroll
      for (int e = 0; e < items; ++e) {
        if (k + e < end) out[arguments.at(k + e)] = Rule::get(Rule::combine(before, states[e]));
      }
      carry = Rule::combine(carry, total);
    }
  }
}

// ---- the last axis, if rows begin at packs of four elements of at most 4 bytes

constexpr int quads = 4;  // packs of four elements of a thread
constexpr int quad_tile = row_threads * quads * 4;

template <class T>
struct alignas(4 * sizeof(T)) Quad {
  T at[4];
};

// A tile of a row: a warp scans `quads` runs of 128 neighbouring elements, and warps exchange their
// totals. Positions are in the order of the scan.
template <class T, class Rule>
struct QuadScan {
  using State = typename Rule::State;
  static constexpr int warps = row_threads / 32;
  const T* x;  // the first quad of the row
  T* out;
  std::int64_t length;
  bool reverse;
  Quad<T> read[quads];
  State before[quads];  // of the elements of the warp before those of the thread

  __device__ QuadScan(const ScanArguments<T>& call, std::int64_t row)
      : length(call.length), reverse(call.reverse) {
    const std::int64_t first = row * length + (reverse ? length - 4 : 0);
    x = call.x + first;
    out = call.out + first;
  }

  // Position in a tile, and the number of elements from its first one to the end of the row.
  static __device__ int position(int q) {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    return (warp * quads + q) * 128 + lane * 4;
  }
  __device__ int rest(std::int64_t start) const {
    return static_cast<int>(min(length - start, static_cast<std::int64_t>(quad_tile)));
  }
  __device__ Quad<T> in_order(const Quad<T>& quad) const {
    if (reverse) return {{quad.at[3], quad.at[2], quad.at[1], quad.at[0]}};
    return quad;
  }
  __device__ void load(std::int64_t start, Quad<T> (&to)[quads]) const {
    const T* from = reverse ? x - start : x + start;
    const int end = rest(start);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      const int k = position(q);
      if (k < end) to[q] = in_order(*reinterpret_cast<const Quad<T>*>(from + (reverse ? -k : k)));
    }
  }
  // Scans what was read; returns the total of the warp.
  __device__ State scan(std::int64_t start) {
    const int end = rest(start);
    State total = Rule::none();
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      State own = Rule::none();
      if (position(q) < end) {
#pragma unroll
        for (int e = 0; e < 4; ++e) own = Rule::combine(own, Rule::of(read[q].at[e]));
      }
      State lower;
      const State sum = scan_threads<Rule, false>(own, lower);
      before[q] = Rule::combine(total, lower);
      total = Rule::combine(total, sum);
    }
    return total;
  }
  // The combination of the totals of the warps; `lower` is that of the lower warps.
  static __device__ State combine_warps(State total, State (&of_warps)[warps], State& lower) {
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = total;
    __syncthreads();
    State all = Rule::none();
    lower = all;
#pragma unroll
    for (int k = 0; k < warps; ++k) {
      if (k == static_cast<int>(threadIdx.x / 32)) lower = all;
      all = Rule::combine(all, of_warps[k]);
    }
    return all;
  }
  // `lower` is the state before the warp.
  __device__ void store(std::int64_t start, State lower) const {
    T* to = reverse ? out - start : out + start;
    const int end = rest(start);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
      const int k = position(q);
      if (k >= end) continue;
      State running = Rule::combine(lower, before[q]);
      Quad<T> quad;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        running = Rule::combine(running, Rule::of(read[q].at[e]));
        quad.at[e] = Rule::get(running);
      }
      *reinterpret_cast<Quad<T>*>(to + (reverse ? -k : k)) = in_order(quad);
    }
  }
};

// A block for a row.
template <class T, class Rule>
__global__ void __launch_bounds__(row_threads, 4) scan_quads(ScanArguments<T> arguments) {
  using State = typename Rule::State;
  __shared__ State of_warps[2][QuadScan<T, Rule>::warps];
  for (std::int64_t row = blockIdx.x; row < arguments.outer; row += gridDim.x) {
    QuadScan<T, Rule> tile(arguments, row);
    State carry = Rule::none();
    Quad<T> next[quads];
    tile.load(0, next);
    int turn = 0;
    for (std::int64_t start = 0; start < tile.length; start += quad_tile, turn ^= 1) {
#pragma unroll
      for (int q = 0; q < quads; ++q) tile.read[q] = next[q];
      tile.load(start + quad_tile, next);
      State lower;
      const State all = tile.combine_warps(tile.scan(start), of_warps[turn], lower);
      tile.store(start, Rule::combine(carry, lower));
      carry = Rule::combine(carry, all);
    }
    __syncthreads();
  }
}

// ---- long rows in one pass: a block for a tile

// States that blocks pass to later ones. One that has not been published is all ones: a NaN that no
// operation gives.
using Published = unsigned long long;
__device__ __forceinline__ void publish(Published* to, double state) {
  const auto bits = static_cast<Published>(__double_as_longlong(state));
  *static_cast<volatile Published*>(to) = bits == ~Published{0} ? bits >> 1 : bits;
}
__device__ __forceinline__ double wait_for(const Published* from) {
  Published bits;
  do {
    bits = *static_cast<const volatile Published*>(from);
  } while (bits == ~Published{0});
  return __longlong_as_double(static_cast<long long>(bits));
}

// The tiles of which a block combines the totals; thread k takes the k-th of its group, and the
// last thread the state at the end of the group before, which that group's last tile published. All
// are combined in one fixed order.
constexpr int tiles_of_group = row_threads;

// The number of tickets, and the published states.
inline std::int64_t published_states(std::int64_t rows, std::int64_t tiles) {
  return 1 + rows * (tiles + divide_up(tiles, tiles_of_group));
}

// All of `published` is ones at first. Blocks take tiles in the order in which they start, so that
// a block waits only for blocks that run.
template <class T, class Rule>
__global__ void __launch_bounds__(row_threads, 4)
    scan_tiles(ScanArguments<T> arguments, std::int64_t tiles, Published* published) {
  using State = typename Rule::State;
  __shared__ State of_warps[QuadScan<T, Rule>::warps];
  __shared__ std::int64_t ticket;
  if (threadIdx.x == 0) ticket = static_cast<std::int64_t>(atomicAdd(published, 1ull) + 1);
  __syncthreads();
  const std::int64_t row = ticket / tiles, number = ticket % tiles;
  const std::int64_t groups = (tiles + tiles_of_group - 1) / tiles_of_group;
  Published* totals = published + 1 + row * (tiles + groups);
  Published* ends = totals + tiles;  // of groups
  QuadScan<T, Rule> tile(arguments, row);
  const std::int64_t start = number * quad_tile;
  tile.load(start, tile.read);
  State lower;
  const State all = tile.combine_warps(tile.scan(start), of_warps, lower);
  if (threadIdx.x == 0) publish(totals + number, all);
  const std::int64_t group_number = number / tiles_of_group;
  const std::int64_t of_thread = group_number * tiles_of_group + threadIdx.x;
  State carry = Rule::none();
  if (of_thread < number) {
    carry = wait_for(totals + of_thread);
  } else if (threadIdx.x == tiles_of_group - 1 && group_number > 0) {
    carry = wait_for(ends + group_number - 1);
  }
  Group<true> group;
  carry = group.reduce(carry, Rule::none(), Combine<Rule>());
  if (threadIdx.x == 0 && number % tiles_of_group == tiles_of_group - 1) {
    publish(ends + group_number, Rule::combine(carry, all));
  }
  tile.store(start, Rule::combine(carry, lower));
}

}  // namespace extensor::backend::cuda::scans
