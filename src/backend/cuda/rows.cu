// Softmax, log-softmax, logsumexp and their gradients along one axis. A short row stays in
// registers, so that its elements are read once; a longer one is read a second time, mostly from
// the cache. If there are few rows, several blocks share one.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

// Forward: the largest element m and Σ exp(x − m). Backward: a sum.
template <class C>
struct RowStatistics {
  C m;
  double sum;
};

template <class S, bool backward>
struct RowRule {
  using C = Compute<S>;
  using Statistics = RowStatistics<C>;

  static __device__ Statistics none() { return {-infinity<C>(), 0}; }
  static __device__ C filler() { return backward ? C(0) : -infinity<C>(); }

  // exp(x − m), where an infinite x equals an infinite m.
  static __device__ __forceinline__ C shifted(C x, C m) {
    return x == m ? C(1) : exponential<S>(x - m);
  }

  struct Merge {
    __device__ __forceinline__ Statistics operator()(Statistics a, Statistics b) const {
      if constexpr (backward) {
        return {C(0), a.sum + b.sum};
      } else {
        const C m = Largest()(a.m, b.m);
        return {m, a.sum * shifted(a.m, m) + b.sum * shifted(b.m, m)};
      }
    }
  };

  template <int n>
  static __device__ __forceinline__ void add(RowOp op, Statistics& statistics, const C (&x)[n],
                                             const C (&y)[n]) {
    C part = 0;
    if constexpr (backward) {
#pragma unroll
      for (int i = 0; i < n; ++i) part += op == RowOp::softmax_backward ? x[i] * y[i] : x[i];
    } else {
      C m = statistics.m;
#pragma unroll
      for (int i = 0; i < n; ++i) m = Largest()(m, x[i]);
      if (m > statistics.m) {
        statistics.sum *= shifted(statistics.m, m);
        statistics.m = m;
      }
#pragma unroll
      for (int i = 0; i < n; ++i) part += shifted(x[i], m);
    }
    statistics.sum += part;
  }

  // The numbers of a row that its results depend on.
  struct Coefficients {
    C a, b;
  };
  static __device__ Coefficients coefficients(RowOp op, Statistics statistics) {
    const double sum = statistics.sum;
    const C m = statistics.m;
    switch (op) {
      case RowOp::softmax:
        return {m, isinf(m) ? not_a_number<C>() : static_cast<C>(1 / sum)};
      case RowOp::log_softmax:
        return {m, isinf(m) ? not_a_number<C>() : static_cast<C>(log(sum))};
      case RowOp::logsumexp:
        if (isinf(m)) return {sum != sum ? not_a_number<C>() : m, 0};
        return {static_cast<C>(m + log(sum)), 0};
      case RowOp::softmax_backward: {
        // In two parts: g − Σ g·y cancels, and would magnify the rounding error of the sum.
        const C rounded = static_cast<C>(sum);
        return {rounded, static_cast<C>(sum - static_cast<double>(rounded))};
      }
      default:
        return {static_cast<C>(sum), 0};
    }
  }
  static __device__ __forceinline__ C result(RowOp op, C x, C y, Coefficients c) {
    if constexpr (backward) {
      if (op == RowOp::softmax_backward) return y * ((x - c.a) - c.b);
      return x - exponential<S>(y) * c.a;
    } else {
      if (op == RowOp::softmax) return exponential<S>(x - c.a) * c.b;
      return (x - c.a) - c.b;
    }
  }
};

template <class S>
struct RowArguments {
  RowOp op;
  std::int64_t rows, length;
  const S* x;
  const S* y;
  S* out;
};

// A row in `packs` packs per thread.
template <class S, bool backward, bool is_block, int width, int packs>
__global__ void __launch_bounds__(is_block ? 1024 : 256) short_rows(RowArguments<S> arguments) {
  using Rule = RowRule<S, backward>;
  using C = Compute<S>;
  Group<is_block> group;
  const RowOp op = arguments.op;
  const std::int64_t n = arguments.length;
  for (std::int64_t first = group.number() - group.number() % (is_block ? 1 : 8);
       first < arguments.rows; first += group.count()) {
    const std::int64_t row = first + (is_block ? 0 : threadIdx.x / 32);
    const std::int64_t end = row < arguments.rows ? n : 0;
    const S* x = arguments.x + row * n;
    const S* y = arguments.y + row * n;
    C values[packs][width], others[packs][width];
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const std::int64_t at = (p * group.size() + group.rank()) * width;
      load_pack<width>(x, at, end, Rule::filler(), values[p]);
      if constexpr (backward) load_pack<width>(y, at, end, C(0), others[p]);
    }
    // Sums of a few halves lose nothing in float, and its exchange is cheaper.
    using Sum = std::conditional_t<is_half_type<S>, float, double>;
    RowStatistics<C> statistics = Rule::none();
    Sum own = 0;
    if constexpr (backward) {
#pragma unroll
      for (int p = 0; p < packs; ++p) Rule::add(op, statistics, values[p], others[p]);
      own = static_cast<Sum>(statistics.sum);
    } else {
      C m = -infinity<C>();
#pragma unroll
      for (int p = 0; p < packs; ++p) {
#pragma unroll
        for (int k = 0; k < width; ++k) m = Largest()(m, values[p][k]);
      }
      m = group.reduce(m, -infinity<C>(), Largest());
      statistics.m = m;
      C shift = m;
      if (isinf(m)) {  // the same for all threads; where x equals m, the exponent is 0
        shift = 0;
#pragma unroll
        for (int p = 0; p < packs; ++p) {
#pragma unroll
          for (int k = 0; k < width; ++k) {
            values[p][k] = values[p][k] == m ? C(0) : values[p][k] - m;
          }
        }
      }
#pragma unroll
      for (int p = 0; p < packs; ++p) {
        C part = 0;
#pragma unroll
        for (int k = 0; k < width; ++k) {
          const C e = exponential<S>(values[p][k] - shift);
          if (op == RowOp::softmax) values[p][k] = e;
          part += e;
        }
        own += part;
      }
    }
    statistics.sum = static_cast<double>(group.reduce(own, Sum(0), Plus()));
    const auto c = Rule::coefficients(op, statistics);
    if (op == RowOp::logsumexp) {
      if (group.rank() == 0 && end != 0) arguments.out[row] = store_from_compute<S>(c.a);
      continue;
    }
#pragma unroll
    for (int p = 0; p < packs; ++p) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        values[p][k] = op == RowOp::softmax ? values[p][k] * c.b
                                            : Rule::result(op, values[p][k], others[p][k], c);
      }
      store_pack<width>(values[p], arguments.out + row * n,
                        (p * group.size() + group.rank()) * width, end);
    }
  }
}

// ---- long rows: `chunks` blocks for each

constexpr int long_row_threads = 512;
constexpr int together = 4;  // packs in flight

template <class S, bool backward, int width>
__device__ RowStatistics<Compute<S>> statistics_of(RowOp op, const S* x, const S* y,
                                                   std::int64_t begin, std::int64_t end) {
  using Rule = RowRule<S, backward>;
  using C = Compute<S>;
  RowStatistics<C> statistics = Rule::none();
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * width;
  for (std::int64_t at = begin + threadIdx.x * width; at < end; at += together * step) {
    C values[together][width], others[together][width];
#pragma unroll
    for (int p = 0; p < together; ++p) {
      load_pack<width>(x, at + p * step, end, Rule::filler(), values[p]);
      if (backward && op == RowOp::softmax_backward) {
        load_pack<width>(y, at + p * step, end, C(0), others[p]);
      }
    }
    // As one array.
    Rule::add(op, statistics, reinterpret_cast<C(&)[together * width]>(values),
              reinterpret_cast<C(&)[together * width]>(others));
  }
  return statistics;
}

template <class S, bool backward, int width>
__global__ void __launch_bounds__(long_row_threads)
    chunk_statistics(RowArguments<S> arguments, std::int64_t chunks, std::int64_t chunk,
                     RowStatistics<Compute<S>>* out) {
  using Rule = RowRule<S, backward>;
  Group<true> group;
  const std::int64_t n = arguments.length;
  for (std::int64_t unit = blockIdx.x; unit < arguments.rows * chunks; unit += gridDim.x) {
    const std::int64_t row = unit / chunks, begin = unit % chunks * chunk;
    const auto statistics = statistics_of<S, backward, width>(
        arguments.op, arguments.x + row * n, arguments.y + row * n, begin, min(n, begin + chunk));
    const auto total = group.reduce(statistics, Rule::none(), typename Rule::Merge());
    if (threadIdx.x == 0) out[unit] = total;
  }
}

template <class S, bool backward, int width>
__global__ void __launch_bounds__(long_row_threads)
    long_rows(RowArguments<S> arguments, std::int64_t chunks, std::int64_t chunk,
              const RowStatistics<Compute<S>>* parts) {
  using Rule = RowRule<S, backward>;
  using C = Compute<S>;
  Group<true> group;
  const RowOp op = arguments.op;
  const std::int64_t n = arguments.length;
  for (std::int64_t unit = blockIdx.x; unit < arguments.rows * chunks; unit += gridDim.x) {
    const std::int64_t row = unit / chunks;
    const std::int64_t begin = unit % chunks * chunk, end = min(n, begin + chunk);
    const S* x = arguments.x + row * n;
    const S* y = arguments.y + row * n;
    RowStatistics<C> statistics = Rule::none();
    if (chunks == 1) {
      statistics = statistics_of<S, backward, width>(op, x, y, begin, end);
    } else {
      for (std::int64_t k = threadIdx.x; k < chunks; k += blockDim.x) {
        statistics = typename Rule::Merge()(statistics, parts[row * chunks + k]);
      }
    }
    statistics = group.reduce(statistics, Rule::none(), typename Rule::Merge());
    const auto c = Rule::coefficients(op, statistics);
    if (op == RowOp::logsumexp) {
      if (threadIdx.x == 0 && begin == 0) arguments.out[row] = store_from_compute<S>(c.a);
      continue;
    }
    const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * width;
    for (std::int64_t at = begin + threadIdx.x * width; at < end; at += together * step) {
      C values[together][width], others[together][width];
#pragma unroll
      for (int p = 0; p < together; ++p) {
        load_pack<width>(x, at + p * step, end, C(0), values[p]);
        if constexpr (backward) load_pack<width>(y, at + p * step, end, C(0), others[p]);
      }
#pragma unroll
      for (int p = 0; p < together; ++p) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
          values[p][k] = Rule::result(op, values[p][k], others[p][k], c);
        }
        store_pack<width>(values[p], arguments.out + row * n, at + p * step, end);
      }
    }
  }
}

// ---- an axis that is not the last: threads side by side work on neighbouring columns

constexpr int column_threads = 256;

template <class S, bool backward>
__global__ void __launch_bounds__(column_threads)
    columns(RowArguments<S> arguments, std::int64_t inner, int lanes) {
  using Rule = RowRule<S, backward>;
  using C = Compute<S>;
  using Statistics = RowStatistics<C>;
  __shared__ Statistics shared[column_threads];
  const RowOp op = arguments.op;
  const int across = static_cast<int>(threadIdx.x) % lanes;
  const int down = static_cast<int>(threadIdx.x) / lanes, slices = column_threads / lanes;
  const std::int64_t spans = (inner + lanes - 1) / lanes;
  for (std::int64_t unit = blockIdx.x; unit < arguments.rows * spans; unit += gridDim.x) {
    const std::int64_t outer = unit / spans, column = unit % spans * lanes + across;
    const std::int64_t first = outer * arguments.length * inner + column;
    const std::int64_t end = column < inner ? arguments.length : 0;
    Statistics statistics = Rule::none();
    for (std::int64_t k = down; k < end; k += slices) {
      const C x[1] = {load_as_compute(arguments.x[first + k * inner])};
      const C y[1] = {backward ? load_as_compute(arguments.y[first + k * inner]) : C(0)};
      Rule::add(op, statistics, x, y);
    }
    __syncthreads();
    shared[threadIdx.x] = statistics;
    __syncthreads();
    statistics = shared[across];
    for (int k = 1; k < slices; ++k) {
      statistics = typename Rule::Merge()(statistics, shared[k * lanes + across]);
    }
    const auto c = Rule::coefficients(op, statistics);
    if (op == RowOp::logsumexp) {
      if (down == 0 && end != 0) {
        arguments.out[outer * inner + column] = store_from_compute<S>(c.a);
      }
      continue;
    }
    for (std::int64_t k = down; k < end; k += slices) {
      const std::int64_t at = first + k * inner;
      const C y = backward ? load_as_compute(arguments.y[at]) : C(0);
      arguments.out[at] =
          store_from_compute<S>(Rule::result(op, load_as_compute(arguments.x[at]), y, c));
    }
  }
}

// ---- launches

template <class S, bool backward>
class RowLauncher {
 public:
  explicit RowLauncher(const RowCall& call)
      : call_(call),
        arguments_{call.op,
                   call.outer,
                   call.length,
                   elements<S>(call.x),
                   elements<S>(backward ? call.y : call.x),
                   elements<S>(call.out)} {}

  void run() const {
    if (call_.inner != 1) return run_columns();
    const bool vectors = call_.length % pack_width<S> == 0 && are_aligned(call_.x, call_.y) &&
                         (call_.op == RowOp::logsumexp || are_aligned(call_.out));
    if (vectors) {
      run_rows<pack_width<S>>();
    } else {
      run_rows<1>();
    }
  }

 private:
  template <int width>
  void run_rows() const {
    // As many elements per thread as its registers hold.
    constexpr int most =
        width == 1 ? (backward || sizeof(S) == 8 ? 8 : 16) : (backward && is_half_type<S> ? 2 : 4);
    const std::int64_t packs = divide_up(call_.length, width);
    if (packs <= 32) return run_short<false, width, 1>(256);
    if (packs <= 32 * 4) return run_short<false, width, 4>(256);
    const std::int64_t blocks_that_fill = 2 * multiprocessors();
    if (packs <= 1024 * most && (call_.outer >= blocks_that_fill || packs <= 1024 * most / 2)) {
      constexpr int each = width == 1 ? most : backward && is_half_type<S> ? 2 : 4;
      if (packs <= 1024 * each) {
        return run_short<true, width, each>(static_cast<int>(divide_up(packs, 32 * each)) * 32);
      }
      return run_short<true, width, most>(static_cast<int>(divide_up(packs, 32 * most)) * 32);
    }
    run_long<width>();
  }

  template <bool is_block, int width, int packs>
  void run_short(int threads) const {
    const std::int64_t blocks = is_block ? call_.outer : divide_up(call_.outer, 8);
    short_rows<S, backward, is_block, width, packs>
        <<<grid_for(blocks), static_cast<unsigned>(threads), 0, stream()>>>(arguments_);
    launched("rows");
  }

  template <int width>
  void run_long() const {
    // Chunks of at least 16 K elements, as many as fill the device.
    constexpr std::int64_t shortest = 16384;
    const std::int64_t wanted = divide_up(4 * multiprocessors(), call_.outer);
    std::int64_t chunk = divide_up(call_.length, wanted);
    chunk = divide_up(chunk < shortest ? shortest : chunk, pack_width<S>) * pack_width<S>;
    const std::int64_t chunks = divide_up(call_.length, chunk);
    const unsigned grid = grid_for(call_.outer * chunks);
    using Statistics = RowStatistics<Compute<S>>;
    Scratch parts(
        chunks == 1 ? 0 : static_cast<std::size_t>(call_.outer * chunks) * sizeof(Statistics),
        "rows");
    if (chunks > 1) {
      chunk_statistics<S, backward, width><<<grid, long_row_threads, 0, stream()>>>(
          arguments_, chunks, chunk, parts.as<Statistics>());
      launched("rows");
    }
    long_rows<S, backward, width><<<grid, long_row_threads, 0, stream()>>>(
        arguments_, chunks, chunk, parts.as<Statistics>());
    launched("rows");
  }

  void run_columns() const {
    int lanes = 2;
    while (lanes < 32 && lanes < call_.inner) lanes *= 2;
    const std::int64_t spans = divide_up(call_.inner, lanes);
    columns<S, backward><<<grid_for(call_.outer * spans), column_threads, 0, stream()>>>(
        arguments_, call_.inner, lanes);
    launched("rows");
  }

  const RowCall& call_;
  const RowArguments<S> arguments_;
};

}  // namespace

void rows(const RowCall& call) {
  if (call.outer == 0 || call.length == 0 || call.inner == 0) return;
  const bool backward =
      call.op == RowOp::softmax_backward || call.op == RowOp::log_softmax_backward;
  with_float_type(call.dtype, [&]<class S>() {
    with_bool(backward, [&]<bool is_backward>() { RowLauncher<S, is_backward>(call).run(); });
  });
}

}  // namespace extensor::backend::cuda
