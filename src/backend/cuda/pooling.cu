// Pooling of planes and of channels_last images. One thread computes one element of the result. The
// gradients gather: an element of x adds up the windows that it belongs to, in their order, so sums
// are reproducible.
#include <algorithm>
#include <limits>

#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

constexpr int pool_threads = 256;

// Means of float32 are computed in double, as on the CPU.
template <class T>
using Wide = std::conditional_t<is_half_type<T>, float, double>;

// NaN is larger than everything.
template <class C>
__device__ __forceinline__ bool is_better(C value, C best) {
  return value > best || value != value;
}

template <class C>
__device__ __forceinline__ C averaged_count(const PoolingWindow& rows,
                                            const PoolingWindow& columns) {
  const C count = static_cast<C>(rows.size) * static_cast<C>(columns.size);
  return count < C(1) ? C(1) : count;
}

// The geometry of a call. `x` offsets count elements of one image or plane.
struct Geometry {
  PoolingAxis rows, columns;
  std::int64_t row_step, column_step;
  std::int64_t in_height, in_width, out_height, out_width, channels;
  std::int64_t numel;  // of the result of the kernel

  __device__ std::int64_t in_image() const { return in_height * in_width * channels; }
  __device__ std::int64_t out_image() const { return out_height * out_width * channels; }
  __device__ std::int64_t in_pixel(std::int64_t row, std::int64_t column) const {
    return (row * in_width + column) * channels;
  }
};

// The number of the largest element of a window, counted in pixels of its image; −1 without one.
template <class T>
__device__ __forceinline__ std::int64_t largest_pixel(const Geometry& g, const T* x,
                                                      const PoolingWindow& rows,
                                                      const PoolingWindow& columns,
                                                      Compute<T>& best) {
  if (rows.begin >= rows.end || columns.begin >= columns.end) {
    best = -std::numeric_limits<Compute<T>>::infinity();
    return -1;
  }
  std::int64_t at = rows.begin * g.in_width + columns.begin;
  best = load_as_compute(x[at * g.channels]);
  for (std::int64_t r = rows.begin; r < rows.end; r += g.row_step) {
    for (std::int64_t c = columns.begin; c < columns.end; c += g.column_step) {
      const std::int64_t here = r * g.in_width + c;
      const Compute<T> value = load_as_compute(x[here * g.channels]);
      if (is_better(value, best)) {
        best = value;
        at = here;
      }
    }
  }
  return at;
}

// An element of the result as its image or plane, pixel and channel.
template <class Index>
struct Split {
  std::int64_t image;
  Index row, column, channel;

  __device__ Split(Index i, Index height, Index width, Index channels) {
    channel = channels == 1 ? 0 : i % channels;
    const Index pixel = channels == 1 ? i : i / channels;
    column = pixel % width;
    const Index line = pixel / width;
    row = line % height;
    image = static_cast<std::int64_t>(line / height);
  }
};

template <class Index>
__device__ __forceinline__ Index first_element() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <class Index>
__device__ __forceinline__ Index element_step() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

// `winners`, if there are any, receives the pixel of the largest element of every window; `out` the
// element itself.
template <class T, class Index>
__global__ void __launch_bounds__(pool_threads)
    pool_largest(const Geometry g, const T* x, T* out, Index* winners) {
  for (std::int64_t i = first_element<std::int64_t>(); i < g.numel;
       i += element_step<std::int64_t>()) {
    const Split<Index> at(static_cast<Index>(i), static_cast<Index>(g.out_height),
                          static_cast<Index>(g.out_width), static_cast<Index>(g.channels));
    Compute<T> best;
    const std::int64_t pixel = largest_pixel(g, x + at.image * g.in_image() + at.channel,
                                             g.rows[at.row], g.columns[at.column], best);
    if (winners != nullptr) {
      winners[i] = static_cast<Index>(pixel);
    } else {
      out[i] = store_from_compute<T>(best);
    }
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(pool_threads) pool_average(const Geometry g, const T* x, T* out) {
  using Sum = Wide<T>;
  for (std::int64_t i = first_element<std::int64_t>(); i < g.numel;
       i += element_step<std::int64_t>()) {
    const Split<Index> at(static_cast<Index>(i), static_cast<Index>(g.out_height),
                          static_cast<Index>(g.out_width), static_cast<Index>(g.channels));
    const T* from = x + at.image * g.in_image() + at.channel;
    const PoolingWindow rows = g.rows[at.row], columns = g.columns[at.column];
    Sum sum = 0;
    for (std::int64_t c = columns.begin; c < columns.end; ++c) {
      Sum of_column = 0;
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        of_column += static_cast<Sum>(load_as_compute(from[g.in_pixel(r, c)]));
      }
      sum += of_column;
    }
    out[i] = store_from_compute<T>(sum / averaged_count<Sum>(rows, columns));
  }
}

// The windows of an axis that may contain a position: first … last. Windows with a step between
// their positions may still miss it.
struct WindowRange {
  std::int64_t first, last;
};
__device__ __forceinline__ WindowRange windows_of(const PoolingAxis& axis, std::int64_t position) {
  if (axis.kernel == 0) {
    auto i = static_cast<std::int64_t>(static_cast<__int128>(position) * axis.count / axis.length);
    std::int64_t last = i;
    while (i > 0 && axis[i - 1].end > position) --i;
    while (last + 1 < axis.count && axis[last + 1].begin <= position) ++last;
    return {i, last};
  }
  // i · stride ≤ position + padding ≤ i · stride + (kernel − 1) · dilation
  const std::int64_t shifted = position + axis.padding;
  const std::int64_t reach = (axis.kernel - 1) * axis.dilation;
  const std::int64_t first =
      shifted <= reach ? 0 : (shifted - reach + axis.stride - 1) / axis.stride;
  const std::int64_t last = shifted / axis.stride;
  return {first, last < axis.count ? last : axis.count - 1};
}

template <class T, class Index>
__global__ void __launch_bounds__(pool_threads)
    spread_to_largest(const Geometry g, const Index* winners, const T* y, T* out) {
  for (std::int64_t i = first_element<std::int64_t>(); i < g.numel;
       i += element_step<std::int64_t>()) {
    const Split<Index> at(static_cast<Index>(i), static_cast<Index>(g.in_height),
                          static_cast<Index>(g.in_width), static_cast<Index>(g.channels));
    const WindowRange rows = windows_of(g.rows, at.row), columns = windows_of(g.columns, at.column);
    const Index pixel = at.row * static_cast<Index>(g.in_width) + at.column;
    const std::int64_t image = at.image * g.out_image() + at.channel;
    Compute<T> sum = 0;
    for (std::int64_t r = rows.first; r <= rows.last; ++r) {
      for (std::int64_t c = columns.first; c <= columns.last; ++c) {
        const std::int64_t window = image + (r * g.out_width + c) * g.channels;
        if (winners[window] == pixel) sum += load_as_compute(y[window]);
      }
    }
    out[i] = store_from_compute<T>(sum);
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(pool_threads)
    spread_average(const Geometry g, const T* y, T* out) {
  using Sum = Wide<T>;
  for (std::int64_t i = first_element<std::int64_t>(); i < g.numel;
       i += element_step<std::int64_t>()) {
    const Split<Index> at(static_cast<Index>(i), static_cast<Index>(g.in_height),
                          static_cast<Index>(g.in_width), static_cast<Index>(g.channels));
    const WindowRange rows = windows_of(g.rows, at.row), columns = windows_of(g.columns, at.column);
    const std::int64_t image = at.image * g.out_image() + at.channel;
    Sum sum = 0;
    for (std::int64_t r = rows.first; r <= rows.last; ++r) {
      const PoolingWindow row = g.rows[r];
      if (at.row < row.begin || at.row >= row.end) continue;
      for (std::int64_t c = columns.first; c <= columns.last; ++c) {
        const PoolingWindow column = g.columns[c];
        if (at.column < column.begin || at.column >= column.end) continue;
        const T share = y[image + (r * g.out_width + c) * g.channels];
        sum += static_cast<Sum>(load_as_compute(share)) / averaged_count<Sum>(row, column);
      }
    }
    out[i] = store_from_compute<T>(sum);
  }
}

template <class T, class Index>
void run(const PoolingCall& call, Geometry g, std::int64_t in_numel, std::int64_t out_numel) {
  const T* x = reinterpret_cast<const T*>(call.x);
  const T* y = reinterpret_cast<const T*>(call.y);
  T* out = reinterpret_cast<T*>(call.out);
  const auto launch = [&](auto kernel, std::int64_t numel, auto... arguments) {
    g.numel = numel;
    kernel<<<blocks_for(numel, pool_threads), pool_threads, 0, stream()>>>(g, arguments...);
    launched("pooling");
  };
  switch (call.op) {
    case PoolingOp::largest:
      return launch(pool_largest<T, Index>, out_numel, x, out, static_cast<Index*>(nullptr));
    case PoolingOp::average:
      return launch(pool_average<T, Index>, out_numel, x, out);
    case PoolingOp::largest_gradient: {
      if (out_numel == 0) break;
      const Scratch winners(static_cast<std::size_t>(out_numel) * sizeof(Index), "pooling");
      launch(pool_largest<T, Index>, out_numel, x, static_cast<T*>(nullptr), winners.as<Index>());
      return launch(spread_to_largest<T, Index>, in_numel, winners.as<const Index>(), y, out);
    }
    case PoolingOp::average_gradient:
      if (out_numel == 0) break;
      return launch(spread_average<T, Index>, in_numel, y, out);
  }
  check(cudaMemsetAsync(out, 0, static_cast<std::size_t>(in_numel) * sizeof(T), stream()),
        "pooling");
}

}  // namespace

void pooling(const PoolingCall& call) {
  const bool gradient =
      call.op == PoolingOp::largest_gradient || call.op == PoolingOp::average_gradient;
  const std::int64_t in_numel = call.planes * call.in_height * call.in_width;
  const std::int64_t out_numel = call.planes * call.out_height * call.out_width;
  if ((gradient ? in_numel : out_numel) == 0) return;
  Geometry g{};
  g.rows = call.rows;
  g.columns = call.columns;
  g.row_step = call.row_step;
  g.column_step = call.column_step;
  g.in_height = call.in_height;
  g.in_width = call.in_width;
  g.out_height = call.out_height;
  g.out_width = call.out_width;
  g.channels = call.channels;
  // Dividing 32-bit numbers takes much less time.
  const bool is_small = std::max(in_numel, out_numel) <= std::numeric_limits<std::int32_t>::max();
  with_float_type(call.dtype, [&]<class T>() {
    if (is_small) return run<T, std::uint32_t>(call, g, in_numel, out_numel);
    run<T, std::int64_t>(call, g, in_numel, out_numel);
  });
}

}  // namespace extensor::backend::cuda
