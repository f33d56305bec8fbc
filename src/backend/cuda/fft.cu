// The Fourier family: arranges numbers for cuFFT, whose transforms have neither a factor nor
// missing numbers, and which reads imaginary parts that have no meaning.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/cufft.h"
#include "backend/cuda/group.cuh"
#include "backend/cuda/iteration.h"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;
constexpr int tile = 32, tile_rows = 8;

// A complex number, aligned to its parts.
template <class Part>
struct Complex {
  Part re, im;
};

// The changes that a copy makes to the numbers.
struct Change {
  double scale = 1;
  // Of a spectrum of n real numbers: the numbers at 0 and at n / 2 of an even n become real. 0:
  // none.
  std::int64_t n = 0;
};

template <class Part>
__device__ __forceinline__ Part changed(const Change& change, Part value, std::int64_t) {
  return static_cast<Part>(value * change.scale);
}
template <class Part>
__device__ __forceinline__ Complex<Part> changed(const Change& change, Complex<Part> value,
                                                 std::int64_t k) {
  const bool is_real = change.n != 0 && (k == 0 || 2 * k == change.n);
  return {static_cast<Part>(value.re * change.scale),
          is_real ? Part(0) : static_cast<Part>(value.im * change.scale)};
}

// Copies [outer, length, inner] to [outer, n, inner]; missing numbers are 0.
template <class T>
__global__ void __launch_bounds__(threads)
    fit(const T* from, std::int64_t length, T* to, std::int64_t n, std::int64_t inner,
        std::int64_t total, Change change) {
  for (std::int64_t i = first_index(); i < total; i += index_step()) {
    const std::int64_t row = i / inner, column = i - row * inner;
    const std::int64_t outer = row / n, k = row - outer * n;
    T value{};
    if (k < length) value = changed(change, from[(outer * length + k) * inner + column], k);
    to[i] = value;
  }
}

// Copies [outer, rows, columns] to [outer, columns, to_rows]; missing rows are 0. `change` counts
// along rows, or along columns.
template <class T, bool along_columns>
__global__ void __launch_bounds__(tile* tile_rows)
    transpose(const T* from, std::int64_t rows, std::int64_t columns, T* to, std::int64_t to_rows,
              std::int64_t row_tiles, std::int64_t column_tiles, std::int64_t tiles,
              Change change) {
  __shared__ T values[tile][tile + 1];
  for (std::int64_t unit = blockIdx.x; unit < tiles; unit += gridDim.x) {
    const std::int64_t column_tile = unit % column_tiles, rest = unit / column_tiles;
    const std::int64_t first_row = rest % row_tiles * tile, first_column = column_tile * tile;
    const std::int64_t outer = rest / row_tiles;
    for (int j = static_cast<int>(threadIdx.y); j < tile; j += tile_rows) {
      const std::int64_t row = first_row + j, column = first_column + threadIdx.x;
      if (row < to_rows && column < columns) {
        T value{};
        if (row < rows) {
          value = changed(change, from[(outer * rows + row) * columns + column],
                          along_columns ? column : row);
        }
        values[j][threadIdx.x] = value;
      }
    }
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.y); j < tile; j += tile_rows) {
      const std::int64_t row = first_row + threadIdx.x, column = first_column + j;
      if (row < to_rows && column < columns) {
        to[(outer * columns + column) * to_rows + row] = values[threadIdx.x][j];
      }
    }
    __syncthreads();
  }
}

// Multiplies dense numbers, seen as parts, where they lie.
template <class Part>
__global__ void __launch_bounds__(threads)
    multiply_parts(Part* parts, std::int64_t total, double scale) {
  for (std::int64_t i = first_index(); i < total; i += index_step()) {
    parts[i] = static_cast<Part>(parts[i] * scale);
  }
}

// Clears the imaginary parts of the numbers at 0 and, if there are two ends, at length − 1 of
// [outer, length, inner]: cuFFT rounds them for some lengths. `rows` is outer · inner.
template <class Part>
__global__ void __launch_bounds__(threads)
    make_ends_real(Complex<Part>* numbers, std::int64_t length, std::int64_t inner,
                   std::int64_t rows, int ends) {
  for (std::int64_t i = first_index(); i < rows; i += index_step()) {
    const std::int64_t outer = i / inner, column = i - outer * inner;
    Complex<Part>* first = numbers + outer * length * inner + column;
    first->im = 0;
    if (ends == 2) first[(length - 1) * inner].im = 0;
  }
}

// Transforms of length 1, from [outer, length, inner] to [outer, 1, inner].
template <class In, class Out>
__global__ void __launch_bounds__(threads)
    copy_first(const In* from, std::int64_t length, std::int64_t inner, Out* to, std::int64_t total,
               double scale) {
  for (std::int64_t i = first_index(); i < total; i += index_step()) {
    const std::int64_t outer = i / inner, column = i - outer * inner;
    const In value = changed(Change{scale, 0}, from[outer * length * inner + column], 0);
    if constexpr (std::is_same_v<In, Out>) {
      to[i] = value;
    } else if constexpr (std::is_floating_point_v<In>) {
      to[i] = {value, 0};
    } else {
      to[i] = value.re;
    }
  }
}

int blocks_of(std::int64_t total) { return blocks_for(total, threads, whole_grid); }

template <class T, bool along_columns>
void launch_transpose(const T* from, std::int64_t outer, std::int64_t rows, std::int64_t columns,
                      T* to, std::int64_t to_rows, const Change& change) {
  const std::int64_t row_tiles = divide_up(to_rows, tile), column_tiles = divide_up(columns, tile);
  const std::int64_t tiles = outer * row_tiles * column_tiles;
  transpose<T, along_columns><<<grid_for(tiles), dim3(tile, tile_rows), 0, stream()>>>(
      from, rows, columns, to, to_rows, row_tiles, column_tiles, tiles, change);
  launched("fft");
}

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// At most this many launches of cuFFT with strides; further transforms are rearranged.
constexpr std::int64_t most_strided = 4;

template <class Part, class In, class Out>
void transform(const FftCall& call, std::int64_t in_count, std::int64_t out_count) {
  const auto* in = reinterpret_cast<const In*>(call.in);
  auto* out = reinterpret_cast<Out*>(call.out);
  const std::int64_t rows = call.outer * call.inner;
  const bool real_in = std::is_floating_point_v<In>, real_out = std::is_floating_point_v<Out>;
  if (call.n == 1) {
    copy_first<<<blocks_of(rows), threads, 0, stream()>>>(in, call.in_length, call.inner, out, rows,
                                                          call.scale);
    return launched("fft");
  }
  FftBatch batch{};
  batch.kind = call.kind;
  batch.is_double = call.is_double;
  batch.inverse = call.inverse;
  batch.n = call.n;
  // For the copies of x, and for what cuFFT computes; one of them has call.scale.
  Change before{1, real_out ? call.n : 0}, after{1, real_in ? call.n : 0};

  const std::int64_t loops = call.inner == 1 ? 1 : call.outer;
  bool rearranged = loops > most_strided || !is_aligned(out);
  const bool copies = real_out || call.in_length < in_count || !is_aligned(in);
  const std::int64_t in_length = copies ? in_count : call.in_length;
  const std::int64_t in_step = in_length * call.inner, out_step = out_count * call.inner;
  if (loops > 1) {
    // The parts begin at aligned addresses.
    rearranged = rearranged || in_step * static_cast<std::int64_t>(sizeof(In)) % 16 != 0 ||
                 out_step * static_cast<std::int64_t>(sizeof(Out)) % 16 != 0;
  }

  if (rearranged) {
    batch.batch = rows;
    batch.in_stride = batch.out_stride = 1;
    batch.in_distance = in_count;
    batch.out_distance = out_count;
    before.scale = call.scale;
    const Scratch x(static_cast<std::size_t>(rows * in_count) * sizeof(In), "fft");
    const Scratch y(static_cast<std::size_t>(rows * out_count) * sizeof(Out), "fft");
    launch_transpose<In, false>(in, call.outer, call.in_length, call.inner, x.as<In>(), in_count,
                                before);
    run_cufft(batch, x.as<void>(), y.as<void>());
    launch_transpose<Out, true>(y.as<Out>(), call.outer, call.inner, out_count, out, call.inner,
                                after);
    return;
  }

  batch.batch = call.inner == 1 ? call.outer : call.inner;
  batch.in_stride = batch.out_stride = call.inner;
  batch.in_distance = call.inner == 1 ? in_length : 1;
  batch.out_distance = call.inner == 1 ? out_count : 1;
  const auto run = [&](In* x) {
    for (std::int64_t part = 0; part < loops; ++part) {
      run_cufft(batch, x + part * in_step, out + part * out_step);
    }
  };
  if (copies) {
    before.scale = call.scale;
    const std::int64_t total = rows * in_count;
    const Scratch x(static_cast<std::size_t>(total) * sizeof(In), "fft");
    fit<<<blocks_of(total), threads, 0, stream()>>>(in, call.in_length, x.as<In>(), in_count,
                                                    call.inner, total, before);
    launched("fft");
    run(x.as<In>());
  } else {
    after.scale = call.scale;
    run(const_cast<In*>(in));  // cuFFT overwrites only what complex_to_real reads, which is a copy
  }
  if (after.scale != 1) {
    const std::int64_t parts = rows * out_count * (real_out ? 1 : 2);
    multiply_parts<<<blocks_of(parts), threads, 0, stream()>>>(reinterpret_cast<Part*>(out), parts,
                                                               after.scale);
    launched("fft");
  }
  if constexpr (std::is_floating_point_v<In>) {
    make_ends_real<<<blocks_of(rows), threads, 0, stream()>>>(out, out_count, call.inner, rows,
                                                              call.n % 2 == 0 ? 2 : 1);
    launched("fft");
  }
}

template <class Part>
void transform_parts(const FftCall& call) {
  const std::int64_t half = call.n / 2 + 1;
  switch (call.kind) {
    case FftKind::complex_to_complex:
      return transform<Part, Complex<Part>, Complex<Part>>(call, call.n, call.n);
    case FftKind::real_to_complex:
      return transform<Part, Part, Complex<Part>>(call, call.n, half);
    case FftKind::complex_to_real:
      return transform<Part, Complex<Part>, Part>(call, half, call.n);
  }
}

}  // namespace

void fft(const FftCall& call) {
  const std::int64_t rows = call.outer * call.inner;
  if (rows == 0) return;
  if (call.in_length == 0) {
    const std::int64_t part = call.is_double ? 8 : 4;
    const std::int64_t count = call.kind == FftKind::real_to_complex ? call.n / 2 + 1 : call.n;
    const std::int64_t size = call.kind == FftKind::complex_to_real ? part : 2 * part;
    check(cudaMemsetAsync(call.out, 0, static_cast<std::size_t>(rows * count * size), stream()),
          "fft");
    return;
  }
  call.is_double ? transform_parts<double>(call) : transform_parts<float>(call);
}

}  // namespace extensor::backend::cuda
