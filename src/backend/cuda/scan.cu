// Cumulative sums and products along an axis: float32 and halves in float64, float64 sums with a
// compensation for rounding errors, each result rounded once. Long rows are cut into chunks whose
// totals are computed first; the bounds depend on the shape alone, so results repeat exactly.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/scan_rows.cuh"

namespace extensor::backend::cuda {

namespace {

using namespace scans;

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
