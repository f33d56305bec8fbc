// Cumulative sums and products along an axis: float32 and halves in float64, float64 sums with a
// compensation for rounding errors, each result rounded once. Long rows are cut into chunks whose
// totals are computed first; the bounds depend on the shape alone, so results repeat exactly.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

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

// ---- another axis: a thread for every chunk of a column

constexpr int column_threads = 128;

template <class T, class Rule, bool writes>
__global__ void __launch_bounds__(column_threads)
    scan_columns(ScanArguments<T> arguments, std::int64_t chunks, std::int64_t chunk,
                 typename Rule::State* totals) {
  const std::int64_t inner = arguments.inner, units = arguments.outer * chunks * inner;
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       unit < units; unit += grid) {
    const std::int64_t column = unit % inner, part = unit / inner % chunks;
    const std::int64_t outer = unit / inner / chunks;
    const std::int64_t first = outer * arguments.length * inner + column;
    const std::int64_t begin = part * chunk, end = min(arguments.length, begin + chunk);
    auto state = Rule::none();
    if constexpr (writes) {
      for (std::int64_t k = 0; k < part; ++k) {
        state = Rule::combine(state, totals[(outer * chunks + k) * inner + column]);
      }
    }
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t at = first + arguments.at(k) * inner;
      state = Rule::combine(state, Rule::of(arguments.x[at]));
      if constexpr (writes) arguments.out[at] = Rule::get(state);
    }
    if constexpr (!writes) totals[unit] = state;
  }
}

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

template <class T, class Rule>
void run(const ScanCall& call) {
  using State = typename Rule::State;
  const ScanArguments<T> arguments{call.outer,   call.length,         call.inner,
                                   call.reverse, elements<T>(call.x), elements<T>(call.out)};
  if (call.inner == 1 && call.length <= 1024) {
    scan_rows<T, Rule, false>
        <<<grid_for(divide_up(call.outer, row_threads / 32)), row_threads, 0, stream()>>>(
            arguments, 1, call.length, nullptr);
    return launched("scan");
  }
  const bool by_columns = call.inner != 1;
  // Enough chunks to fill the device, but not so short or so many that the totals matter.
  const std::int64_t shortest = by_columns ? 32 : 4096, most = by_columns ? 256 : 1024;
  const std::int64_t wanted = by_columns
                                  ? divide_up(multiprocessors() * 1024, call.outer * call.inner)
                                  : divide_up(multiprocessors() * 8, call.outer);
  std::int64_t chunk = divide_up(call.length, wanted < most ? wanted : most);
  if (chunk < shortest) chunk = shortest;
  bool by_quads = false;
  if constexpr (sizeof(T) <= 4) {
    by_quads = !by_columns && call.length % 4 == 0 && is_aligned(arguments.x, 4 * sizeof(T)) &&
               is_aligned(arguments.out, 4 * sizeof(T));
    if (by_quads) chunk = divide_up(chunk, quad_tile) * quad_tile;
  }
  const std::int64_t chunks = divide_up(call.length, chunk);
  const std::int64_t units = call.outer * chunks * call.inner;
  const Scratch totals(chunks > 1 ? static_cast<std::size_t>(units) * sizeof(State) : 1, "scan");
  if (by_columns) {
    const unsigned blocks = grid_for(divide_up(units, column_threads));
    if (chunks > 1) {
      scan_columns<T, Rule, false>
          <<<blocks, column_threads, 0, stream()>>>(arguments, chunks, chunk, totals.as<State>());
      launched("scan");
    }
    scan_columns<T, Rule, true>
        <<<blocks, column_threads, 0, stream()>>>(arguments, chunks, chunk, totals.as<State>());
    return launched("scan");
  }
  if constexpr (sizeof(T) <= 4) {
    if (by_quads) {
      if (chunks > 1) {
        quad_chunk_totals<T, Rule><<<grid_for(units), row_threads, 0, stream()>>>(
            arguments, chunks, chunk, totals.as<State>());
        launched("scan");
      }
      scan_quads<T, Rule><<<grid_for(units), row_threads, 0, stream()>>>(arguments, chunks, chunk,
                                                                         totals.as<State>());
      return launched("scan");
    }
  }
  if (chunks > 1) {
    row_chunk_totals<T, Rule><<<grid_for(units), row_threads, 0, stream()>>>(
        arguments, chunks, chunk, totals.as<State>());
    launched("scan");
  }
  scan_rows<T, Rule, true>
      <<<grid_for(units), row_threads, 0, stream()>>>(arguments, chunks, chunk, totals.as<State>());
  launched("scan");
}

// ---- the gradients of products, a thread for every column

// The product of the elements before k, times Σ over j ≥ k of g[j] · Π over k < i ≤ j of x[i],
// which is g[k] + x[k + 1] · the same at k + 1. It does not divide, so zeros need no special case.
template <class T>
__global__ void __launch_bounds__(column_threads)
    prod_backward(std::int64_t outer, std::int64_t length, std::int64_t inner, const T* x,
                  const T* g, double* before, T* out) {
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t column = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       column < outer * inner; column += grid) {
    const std::int64_t first = column / inner * length * inner + column % inner;
    double running = 1;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = first + k * inner;
      before[at] = running;
      running *= as_double(x[at]);
    }
    running = 0;
    for (std::int64_t k = length; k-- > 0;) {
      const std::int64_t at = first + k * inner;
      const double sum = as_double(g[at]) + running;
      out[at] = store_from_compute<T>(before[at] * sum);
      running = sum * as_double(x[at]);
    }
  }
}

// prod_backward is linear in g with the weights t[j] = Σ over k ≤ j of v[k] · Π over i ≤ j, i ≠ k
// of x[i] for the gradient v of its result. t[j] = t[j − 1] · x[j] + p[j − 1] · v[j], together with
// the product p[j] = p[j − 1] · x[j]. The gradient of x runs back through these two.
template <class T>
__global__ void __launch_bounds__(column_threads)
    prod_double_backward(std::int64_t outer, std::int64_t length, std::int64_t inner, const T* x,
                         const T* g, const T* v, double2* before, T* grad_x, T* grad_g) {
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t column = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       column < outer * inner; column += grid) {
    const std::int64_t first = column / inner * length * inner + column % inner;
    double product = 1, weight = 0;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = first + k * inner;
      const double element = as_double(x[at]);
      before[at] = {product, weight};
      weight = weight * element + product * as_double(v[at]);
      product *= element;
      grad_g[at] = store_from_compute<T>(weight);
    }
    double of_product = 0, of_running_weight = 0;
    for (std::int64_t k = length; k-- > 0;) {
      const std::int64_t at = first + k * inner;
      const double element = as_double(x[at]);
      const double2 last = before[at];
      const double of_weight = of_running_weight + as_double(g[at]);
      grad_x[at] = store_from_compute<T>(of_weight * last.y + of_product * last.x);
      of_product = of_product * element + of_weight * as_double(v[at]);
      of_running_weight = of_weight * element;
    }
  }
}

template <class T>
void run_gradient(const ScanCall& call) {
  const std::int64_t columns = call.outer * call.inner;
  const auto total = static_cast<std::size_t>(columns * call.length);
  const unsigned blocks = grid_for(divide_up(columns, column_threads));
  if (call.op == ScanOp::prod_backward) {
    const Scratch before(total * sizeof(double), "scan");
    prod_backward<<<blocks, column_threads, 0, stream()>>>(
        call.outer, call.length, call.inner, elements<T>(call.x), elements<T>(call.grad_output),
        before.as<double>(), elements<T>(call.out));
    return launched("scan");
  }
  const Scratch before(total * sizeof(double2), "scan");
  prod_double_backward<<<blocks, column_threads, 0, stream()>>>(
      call.outer, call.length, call.inner, elements<T>(call.x), elements<T>(call.grad_output),
      elements<T>(call.grad_gradient), before.as<double2>(), elements<T>(call.out),
      elements<T>(call.grad_grad_output));
  launched("scan");
}

}  // namespace

void scan(const ScanCall& call) {
  if (call.outer == 0 || call.length == 0 || call.inner == 0) return;
  if (call.dtype == DType::int64 || call.dtype == DType::uint64) {
    if (call.op == ScanOp::sum) return run<std::uint64_t, IntegerSum>(call);
    return run<std::uint64_t, IntegerProduct>(call);
  }
  with_float_type(call.dtype, [&]<class T>() {
    using Sum = std::conditional_t<std::is_same_v<T, double>, ExactSum, WideSum<T>>;
    if (call.op == ScanOp::sum) return run<T, Sum>(call);
    if (call.op == ScanOp::prod) return run<T, WideProduct<T>>(call);
    run_gradient<T>(call);
  });
}

}  // namespace extensor::backend::cuda
