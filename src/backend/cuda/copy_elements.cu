// Copies of elements: between dtypes, between layouts, and one element to many.
#include <cstring>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/elementwise_rows.cuh"
#include "core/convert.h"
#include "core/visit.h"

namespace extensor::backend::cuda {

namespace {

// ---- the same dtype

// Moves elements of one size; a number is the bits of an element.
template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    copy_bits(const __grid_constant__ StridedCall call) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[2];
    find_offsets(call.over, i, at);
    reinterpret_cast<T*>(call.data[0])[at[0]] =
        call.data[1] == nullptr ? static_cast<T>(call.number[1].natural)
                                : reinterpret_cast<const T*>(call.data[1])[at[1]];
  }
}

struct alignas(16) Words {
  std::uint64_t at[2];
};

__global__ void __launch_bounds__(elementwise_threads)
    fill_words(Words* out, std::int64_t count, Words value) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) out[i] = value;
}

// Neither is used again while it is in the cache.
__global__ void __launch_bounds__(elementwise_threads)
    copy_words(const uint4* from, uint4* to, std::int64_t count) {
  begin_overlapped();
  if (const std::int64_t i = first_index(); i < count) __stcs(to + i, __ldcs(from + i));
}

// [outer, rows, columns]: the result is dense along columns, the input along rows. Tiles pass
// through shared memory, so that both are read and written in order.
struct TransposeCall {
  const std::byte* from;
  std::byte* to;
  std::int64_t outer, rows, columns;
  std::int64_t from_outer, from_column, to_outer, to_row;  // strides; the other ones are 1
  std::int64_t row_tiles, column_tiles;
};

constexpr int tile_threads = 8;  // rows of 32 threads

// A thread moves `group` neighbouring elements at a time; tiles have a side of 32 · group.
template <class T, int group>
__global__ void __launch_bounds__(32 * tile_threads)
    transpose_tiles(const __grid_constant__ TransposeCall call) {
  struct alignas(sizeof(T) * group) Group {
    T at[group];
  };
  constexpr int side = 32 * group;
  __shared__ T values[side][side + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  const std::int64_t tiles = call.outer * call.row_tiles * call.column_tiles;
  for (std::int64_t unit = blockIdx.x; unit < tiles; unit += gridDim.x) {
    const std::int64_t outer = unit / (call.row_tiles * call.column_tiles);
    const std::int64_t rest = unit - outer * call.row_tiles * call.column_tiles;
    const std::int64_t first_row = rest / call.column_tiles * side;
    const std::int64_t first_column = rest % call.column_tiles * side;
    const T* from = reinterpret_cast<const T*>(call.from) + outer * call.from_outer;
    T* to = reinterpret_cast<T*>(call.to) + outer * call.to_outer;
    const int lane = threadIdx.x * group;
#pragma unroll
    for (int j = threadIdx.y; j < side; j += tile_threads) {
      const std::int64_t column = first_column + j, row = first_row + lane;
      if (row < call.rows && column < call.columns) {
        const Group read = *reinterpret_cast<const Group*>(from + row + column * call.from_column);
#pragma unroll
        for (int e = 0; e < group; ++e) values[j][lane + e] = read.at[e];
      }
    }
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < side; j += tile_threads) {
      const std::int64_t row = first_row + j, column = first_column + lane;
      if (row < call.rows && column < call.columns) {
        Group written;
#pragma unroll
        for (int e = 0; e < group; ++e) written.at[e] = values[lane + e][j];
        *reinterpret_cast<Group*>(to + row * call.to_row + column) = written;
      }
    }
    __syncthreads();
  }
}

template <class T, int group>
void launch_transpose(TransposeCall call) {
  constexpr std::int64_t side = 32 * group;
  call.row_tiles = (call.rows + side - 1) / side;
  call.column_tiles = (call.columns + side - 1) / side;
  const std::int64_t tiles = call.outer * call.row_tiles * call.column_tiles;
  transpose_tiles<T, group>
      <<<blocks_for(tiles, 1, whole_grid), dim3(32, tile_threads), 0, stream()>>>(call);
  launched("elementwise");
}

// Copies a transposed layout by tiles; false if the layout is another one.
template <class T>
bool run_transpose(const ElementwiseCall& call) {
  if (call.contiguous || call.inputs[0].is_number()) return false;
  const plan::ElementwisePlan plan = plan_of(call);
  const std::size_t rank = plan.sizes.size();
  if (plan.layout != plan::Layout::tiled || rank > 3) return false;
  const std::size_t column = rank - 1, row = rank - 2;
  if (plan.strides[0][column] != 1 || plan.strides[1][row] != 1) return false;
  TransposeCall passed{};
  passed.from = call.inputs[0].data;
  passed.to = call.out.data;
  passed.outer = rank == 3 ? plan.sizes[0] : 1;
  passed.rows = plan.sizes[row];
  passed.columns = plan.sizes[column];
  passed.from_outer = rank == 3 ? plan.strides[1][0] : 0;
  passed.to_outer = rank == 3 ? plan.strides[0][0] : 0;
  passed.from_column = plan.strides[1][column];
  passed.to_row = plan.strides[0][row];
  // Pairs, if every row and column begins at an address that they may have.
  constexpr std::size_t pair = 2 * sizeof(T);
  const bool pairs = (passed.rows | passed.columns | passed.from_outer | passed.to_outer |
                      passed.from_column | passed.to_row) %
                             2 ==
                         0 &&
                     reinterpret_cast<std::uintptr_t>(passed.from) % pair == 0 &&
                     reinterpret_cast<std::uintptr_t>(passed.to) % pair == 0;
  if constexpr (sizeof(T) < 8) {
    if (pairs) {
      launch_transpose<T, 2>(passed);
      return true;
    }
  }
  launch_transpose<T, 1>(passed);
  return true;
}

template <class T>
void run_bits(const ElementwiseCall& call, Number bits) {
  StridedCall passed{};
  passed.number[1] = bits;
  for_each_iteration(call, [&](const Iteration& over, const std::int64_t* offsets) {
    passed.over = over;
    const auto size = static_cast<std::int64_t>(sizeof(T));
    passed.data[0] = call.out.data + offsets[0] * size;
    passed.data[1] = call.inputs[0].is_number() ? nullptr : call.inputs[0].data + offsets[1] * size;
    copy_bits<T><<<blocks_for(over.count, elementwise_threads, whole_grid), elementwise_threads, 0,
                   stream()>>>(passed);
    launched("elementwise");
  });
}

// The bits of a number after conversion to the dtype of the result, in all of 64 bits.
template <class T>
Number bits_of(const ElementwiseCall& call) {
  Number number{};
  detail::visit_dtype(call.inputs[0].dtype, [&]<class From>() {
    From value;
    std::memcpy(&value, call.inputs[0].number, sizeof value);
    detail::visit_dtype(call.out.dtype, [&]<class To>() {
      if constexpr (sizeof(To) == sizeof(T)) {
        const To converted = detail::convert<To>(value);
        T bits;
        std::memcpy(&bits, &converted, sizeof bits);
        number.natural = bits;
        for (std::size_t width = 8 * sizeof(T); width < 64; width *= 2) {
          number.natural |= number.natural << width;
        }
      }
    });
  });
  return number;
}

// Fills dense memory.
bool fill(const ElementwiseCall& call, Number bits, std::size_t bytes) {
  if (!call.contiguous || reinterpret_cast<std::uintptr_t>(call.out.data) % 16 != 0) return false;
  if (bits.natural == 0) {
    check(cudaMemsetAsync(call.out.data, 0, bytes, stream()), "elementwise");
    return true;
  }
  if (bytes % 16 != 0) return false;
  const auto words = static_cast<std::int64_t>(bytes / 16);
  fill_words<<<blocks_for(words, elementwise_threads, whole_grid), elementwise_threads, 0,
               stream()>>>(reinterpret_cast<Words*>(call.out.data), words,
                           {{bits.natural, bits.natural}});
  launched("elementwise");
  return true;
}

// From here on, a kernel copies faster than CUDA.
constexpr std::size_t worth_copying = std::size_t{64} << 20;

template <class T>
void copy_same(const ElementwiseCall& call) {
  const std::size_t bytes = static_cast<std::size_t>(call.numel) * sizeof(T);
  if (call.inputs[0].is_number()) {
    const Number bits = bits_of<T>(call);
    if (!fill(call, bits, bytes)) run_bits<T>(call, bits);
    return;
  }
  if (call.contiguous && !call.repeats[0]) {
    const auto places = reinterpret_cast<std::uintptr_t>(call.out.data) |
                        reinterpret_cast<std::uintptr_t>(call.inputs[0].data) | bytes;
    if (bytes >= worth_copying && places % sizeof(uint4) == 0) {
      const auto words = static_cast<std::int64_t>(bytes / sizeof(uint4));
      launch_overlapped("elementwise", &copy_words,
                        static_cast<unsigned>((words + elementwise_threads - 1) /
                                              elementwise_threads),
                        elementwise_threads, 0,
                        reinterpret_cast<const uint4*>(call.inputs[0].data),
                        reinterpret_cast<uint4*>(call.out.data), words);
      return;
    }
    check(cudaMemcpyAsync(call.out.data, call.inputs[0].data, bytes, cudaMemcpyDeviceToDevice,
                          stream()),
          "elementwise");
    return;
  }
  if (!run_transpose<T>(call)) run_bits<T>(call, {});
}

// ---- another dtype

// Through double, int64 or uint64, each of which holds every element of its kind exactly.
template <class Through>
__global__ void __launch_bounds__(elementwise_threads)
    convert_elements(const __grid_constant__ StridedCall call) {
  for (std::int64_t i = first_index(); i < call.over.count; i += index_step()) {
    std::int64_t at[2];
    find_offsets(call.over, i, at);
    Through value;
    if constexpr (std::is_same_v<Through, double>) {
      value = convert_element<double>(call.data[1], call.dtype[1], at[1]);
    } else {
      value = convert_to_integer<Through>(call.data[1], call.dtype[1], at[1], 0);
    }
    store_element<Through>(call.data[0], call.dtype[0], at[0], value);
  }
}

template <class Through>
void run_convert(const ElementwiseCall& call) {
  StridedCall passed{};
  passed.dtype[0] = call.out.dtype;
  passed.dtype[1] = call.inputs[0].dtype;
  for_each_iteration(call, [&](const Iteration& over, const std::int64_t* offsets) {
    passed.over = over;
    passed.data[0] =
        call.out.data + offsets[0] * static_cast<std::int64_t>(itemsize(passed.dtype[0]));
    passed.data[1] =
        call.inputs[0].data + offsets[1] * static_cast<std::int64_t>(itemsize(passed.dtype[1]));
    convert_elements<Through><<<blocks_for(over.count, elementwise_threads, whole_grid),
                                elementwise_threads, 0, stream()>>>(passed);
    launched("elementwise");
  });
}

// Dense floats, eight at a time.
template <class From, class To>
__global__ void __launch_bounds__(elementwise_threads)
    convert_floats(const From* from, To* to, std::int64_t count) {
  constexpr int width = 8;
  struct alignas(sizeof(From) * width > 16 ? 16 : sizeof(From) * width) Read {
    From at[width];
  };
  struct alignas(sizeof(To) * width > 16 ? 16 : sizeof(To) * width) Written {
    To at[width];
  };
  const std::int64_t packs = count / width;
  for (std::int64_t p = first_index(); p < packs; p += index_step()) {
    const Read read = reinterpret_cast<const Read*>(from)[p];
    Written written;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      written.at[e] = store_from_compute<To>(load_as_compute(read.at[e]));
    }
    reinterpret_cast<Written*>(to)[p] = written;
  }
  const std::int64_t i = packs * width + first_index();
  if (i < count) to[i] = store_from_compute<To>(load_as_compute(from[i]));
}

bool convert_dense_floats(const ElementwiseCall& call) {
  const DType from = call.inputs[0].dtype, to = call.out.dtype;
  if (!call.contiguous || call.repeats[0]) return false;
  if (!is_floating_point(from) || !is_floating_point(to)) return false;
  if (reinterpret_cast<std::uintptr_t>(call.inputs[0].data) % 16 != 0) return false;
  if (reinterpret_cast<std::uintptr_t>(call.out.data) % 16 != 0) return false;
  with_float_type(from, [&]<class From>() {
    with_float_type(to, [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) {
        const int blocks = blocks_for(call.numel / 8 + 1, elementwise_threads, whole_grid);
        convert_floats<<<blocks, elementwise_threads, 0, stream()>>>(
            reinterpret_cast<const From*>(call.inputs[0].data),
            reinterpret_cast<To*>(call.out.data), call.numel);
      }
    });
  });
  launched("elementwise");
  return true;
}

}  // namespace

void copy_elements(const ElementwiseCall& call) {
  const Operand& input = call.inputs[0];
  if (input.is_number() || input.dtype == call.out.dtype) {
    return with_bits_type(call.out.dtype, [&]<class T>() { copy_same<T>(call); });
  }
  if (convert_dense_floats(call)) return;
  if (is_floating_point(input.dtype)) return run_convert<double>(call);
  if (is_signed_integer(input.dtype)) return run_convert<std::int64_t>(call);
  run_convert<std::uint64_t>(call);
}

}  // namespace extensor::backend::cuda
