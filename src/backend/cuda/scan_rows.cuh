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

// The four elements from position k in the order of the scan.
template <class T>
__device__ __forceinline__ Quad<T> load_quad(const ScanArguments<T>& arguments, const T* x,
                                             std::int64_t k) {
  const std::int64_t at = arguments.reverse ? arguments.length - 4 - k : k;
  Quad<T> quad = *reinterpret_cast<const Quad<T>*>(x + at);
  if (arguments.reverse) quad = {{quad.at[3], quad.at[2], quad.at[1], quad.at[0]}};
  return quad;
}
template <class T>
__device__ __forceinline__ void store_quad(const ScanArguments<T>& arguments, T* out,
                                           std::int64_t k, Quad<T> quad) {
  const std::int64_t at = arguments.reverse ? arguments.length - 4 - k : k;
  if (arguments.reverse) quad = {{quad.at[3], quad.at[2], quad.at[1], quad.at[0]}};
  *reinterpret_cast<Quad<T>*>(out + at) = quad;
}

template <class T, class Rule>
__global__ void __launch_bounds__(row_threads)
    quad_chunk_totals(ScanArguments<T> arguments, std::int64_t chunks, std::int64_t chunk,
                      typename Rule::State* totals) {
  using State = typename Rule::State;
  Group<true> group;
  for (std::int64_t unit = blockIdx.x; unit < arguments.outer * chunks; unit += gridDim.x) {
    const T* x = arguments.x + unit / chunks * arguments.length;
    const std::int64_t begin = unit % chunks * chunk, end = min(arguments.length, begin + chunk);
    State states[4] = {Rule::none(), Rule::none(), Rule::none(), Rule::none()};
    for (std::int64_t start = begin + threadIdx.x * 4; start < end; start += quad_tile) {
      Quad<T> read[quads];
#pragma unroll
      for (int q = 0; q < quads; ++q) {
        const std::int64_t k = start + q * row_threads * 4;
        if (k < end) read[q] = load_quad(arguments, x, k);
      }
#pragma unroll
      for (int q = 0; q < quads; ++q) {
        if (start + q * row_threads * 4 >= end) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          states[e] = Rule::combine(states[e], Rule::of(read[q].at[e]));
        }
      }
    }
    State state =
        Rule::combine(Rule::combine(states[0], states[1]), Rule::combine(states[2], states[3]));
    state = group.reduce(state, Rule::none(), Combine<Rule>());
    if (threadIdx.x == 0) totals[unit] = state;
  }
}

// A warp scans `quads` runs of 128 neighbouring elements; warps exchange their totals once a tile.
// The last units come first: their elements were read last and may still be in the cache.
template <class T, class Rule>
__global__ void __launch_bounds__(row_threads, 4)
    scan_quads(ScanArguments<T> arguments, std::int64_t chunks, std::int64_t chunk,
               const typename Rule::State* totals) {
  using State = typename Rule::State;
  constexpr int warps = row_threads / 32;
  __shared__ State of_warps[2][warps];
  Group<true> group;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t units = arguments.outer * chunks;
  for (std::int64_t unit = units - 1 - blockIdx.x; unit >= 0; unit -= gridDim.x) {
    const std::int64_t row = unit / chunks, begin = unit % chunks * chunk;
    const std::int64_t end = min(arguments.length, begin + chunk);
    const T* x = arguments.x + row * arguments.length;
    T* out = arguments.out + row * arguments.length;
    State carry = Rule::none();
    for (std::int64_t k = threadIdx.x; k < unit % chunks; k += row_threads) {
      carry = Rule::combine(carry, totals[row * chunks + k]);
    }
    carry = group.reduce(carry, Rule::none(), Combine<Rule>());
    const auto position = [&](std::int64_t start, int q) {
      return start + (warp * quads + q) * 128 + lane * 4;
    };
    Quad<T> next[quads];
    const auto load = [&](std::int64_t start) {
#pragma unroll
      for (int q = 0; q < quads; ++q) {
        if (position(start, q) < end) next[q] = load_quad(arguments, x, position(start, q));
      }
    };
    load(begin);
    int turn = 0;
    for (std::int64_t start = begin; start < end; start += quad_tile, turn ^= 1) {
      Quad<T> now[quads];
#pragma unroll
      for (int q = 0; q < quads; ++q) now[q] = next[q];
      load(start + quad_tile);
      State before[quads];
      State total = Rule::none();
#pragma unroll
      for (int q = 0; q < quads; ++q) {
        State own = Rule::none();
        if (position(start, q) < end) {
#pragma unroll
          for (int e = 0; e < 4; ++e) own = Rule::combine(own, Rule::of(now[q].at[e]));
        }
        State lower;
        const State sum = scan_threads<Rule, false>(own, lower);
        before[q] = Rule::combine(total, lower);
        total = Rule::combine(total, sum);
      }
      if (lane == 0) of_warps[turn][warp] = total;
      __syncthreads();
      State lower = carry;
#pragma unroll
      for (int k = 0; k < warps; ++k) {
        if (k == warp) lower = carry;
        carry = Rule::combine(carry, of_warps[turn][k]);
      }
#pragma unroll
      for (int q = 0; q < quads; ++q) {
        if (position(start, q) >= end) continue;
        State running = Rule::combine(lower, before[q]);
        Quad<T> quad;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          running = Rule::combine(running, Rule::of(now[q].at[e]));
          quad.at[e] = Rule::get(running);
        }
        store_quad(arguments, out, position(start, q), quad);
      }
    }
    __syncthreads();
  }
}

}  // namespace extensor::backend::cuda::scans
