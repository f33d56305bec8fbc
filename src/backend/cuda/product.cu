// Chooses how to compute a product: cuBLASLt for floats, after copying operands with strides that
// it does not take; an own kernel for integers, small products and shapes that cuBLASLt refuses.
#include "backend/cuda/product.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "backend/cuda/activations.cuh"
#include "backend/cuda/context.h"
#include "backend/cuda/cublaslt.h"

namespace extensor::backend::cuda {

namespace {

// ---- the own kernel

constexpr int tile = 64;        // rows and columns of c that one block computes at a time
constexpr int tile_depth = 16;  // terms between two barriers
constexpr int own = 4;          // rows and columns of one thread
constexpr int tile_threads = (tile / own) * (tile / own);

template <class T>
struct SumOf {
  using type = Compute<T>;
};
// Sums modulo 2³² are right modulo any narrower width.
template <class T>
requires std::is_integral_v<T>
struct SumOf<T> {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};

template <class T>
__device__ __forceinline__ auto term_of(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<typename SumOf<T>::type>(value);
  } else {
    return load_as_compute(value);
  }
}

template <class T>
struct TileCall {
  std::int64_t m, n, k, batch;
  const T *a, *b;
  std::int64_t a_row, a_column, b_row, b_column, c_row;
  BatchOffsets a_offsets, b_offsets, c_offsets;
  const T* bias;
  typename SumOf<T>::type scale;
  Activation activation;
  bool accumulate;
};

template <class T, class C>
__global__ void __launch_bounds__(tile_threads) multiply_tiles(const TileCall<T> call, C* c) {
  using Sum = typename SumOf<T>::type;
  __shared__ Sum a_tile[tile_depth][tile + 1], b_tile[tile_depth][tile + 1];
  const std::int64_t tiles_m = (call.m + tile - 1) / tile, tiles_n = (call.n + tile - 1) / tile;
  const int thread = threadIdx.x;
  const int row = thread / (tile / own) * own, column = thread % (tile / own) * own;
  // Neighbouring threads read neighbouring elements.
  const bool a_by_rows = call.a_column == 1, b_by_rows = call.b_column == 1;
  for (std::int64_t work = blockIdx.x; work < call.batch * tiles_m * tiles_n; work += gridDim.x) {
    const std::int64_t product = work / (tiles_m * tiles_n), rest = work % (tiles_m * tiles_n);
    const std::int64_t first_row = rest / tiles_n * tile, first_column = rest % tiles_n * tile;
    const T* a = call.a + call.a_offsets[product];
    const T* b = call.b + call.b_offsets[product];
    Sum sums[own][own] = {};
    for (std::int64_t p = 0; p < call.k; p += tile_depth) {
      for (int at = thread; at < tile * tile_depth; at += tile_threads) {
        const int depth = a_by_rows ? at % tile_depth : at / tile;
        const int i = a_by_rows ? at / tile_depth : at % tile;
        const bool inside = first_row + i < call.m && p + depth < call.k;
        a_tile[depth][i] =
            inside ? term_of(a[(first_row + i) * call.a_row + (p + depth) * call.a_column])
                   : Sum(0);
      }
      for (int at = thread; at < tile * tile_depth; at += tile_threads) {
        const int depth = b_by_rows ? at / tile : at % tile_depth;
        const int j = b_by_rows ? at % tile : at / tile_depth;
        const bool inside = first_column + j < call.n && p + depth < call.k;
        b_tile[depth][j] =
            inside ? term_of(b[(p + depth) * call.b_row + (first_column + j) * call.b_column])
                   : Sum(0);
      }
      __syncthreads();
#pragma unroll
      for (int depth = 0; depth < tile_depth; ++depth) {
#pragma unroll
        for (int i = 0; i < own; ++i) {
#pragma unroll
          for (int j = 0; j < own; ++j) {
            if constexpr (std::is_same_v<T, bool>) {
              sums[i][j] |= a_tile[depth][row + i] & b_tile[depth][column + j];
            } else {
              sums[i][j] += a_tile[depth][row + i] * b_tile[depth][column + j];
            }
          }
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < own; ++i) {
      for (int j = 0; j < own; ++j) {
        const std::int64_t to_row = first_row + row + i, to_column = first_column + column + j;
        if (to_row >= call.m || to_column >= call.n) continue;
        C& to = c[call.c_offsets[product] + to_row * call.c_row + to_column];
        if constexpr (std::is_same_v<T, bool>) {
          to = sums[i][j] != 0;
        } else if constexpr (std::is_integral_v<T>) {
          to = static_cast<C>(sums[i][j]);
        } else {
          Sum value = sums[i][j] * call.scale;
          if (call.accumulate) value += static_cast<Sum>(load_as_compute(to));
          if (call.bias != nullptr) value += load_as_compute(call.bias[to_column]);
          to = store_from_compute<C>(activate(call.activation, value));
        }
      }
    }
  }
}

template <class T, class C>
void run_tiles(const Product& product, const char* operation) {
  TileCall<T> call{};
  call.m = product.m;
  call.n = product.n;
  call.k = product.k;
  call.batch = product.batch;
  call.a = reinterpret_cast<const T*>(product.a.data);
  call.b = reinterpret_cast<const T*>(product.b.data);
  call.a_row = product.a.row_stride;
  call.a_column = product.a.column_stride;
  call.b_row = product.b.row_stride;
  call.b_column = product.b.column_stride;
  call.c_row = product.c_row_stride;
  call.a_offsets = product.a.offsets;
  call.b_offsets = product.b.offsets;
  call.c_offsets = product.c_offsets;
  call.bias = reinterpret_cast<const T*>(product.bias);
  call.scale = static_cast<typename SumOf<T>::type>(product.scale);
  call.activation = product.activation;
  call.accumulate = product.accumulate;
  const std::int64_t tiles = (product.m + tile - 1) / tile * ((product.n + tile - 1) / tile);
  const int blocks = blocks_for(product.batch * tiles * tile_threads, tile_threads);
  multiply_tiles<T, C>
      <<<blocks, tile_threads, 0, stream()>>>(call, reinterpret_cast<C*>(product.c));
  launched(operation);
}

void multiply_tiled(const Product& product, const char* operation) {
  if (product.dtype == DType::bool_) return run_tiles<bool, bool>(product, operation);
  if (is_integer(product.dtype)) {  // signed and unsigned products agree modulo their width
    return with_bits_type(product.dtype, [&]<class T>() { run_tiles<T, T>(product, operation); });
  }
  with_float_type(product.dtype, [&]<class T>() {
    if constexpr (is_half_type<T>) {
      if (product.result == DType::float32) return run_tiles<T, float>(product, operation);
    }
    run_tiles<T, T>(product, operation);
  });
}

// ---- the steps around a product of cuBLASLt

// c = activation(from + bias), where `from` is dense, is c itself, or is null for zeros.
template <class From, class C>
__global__ void finish_elements(const From* from, C* c, const C* bias, Activation activation,
                                std::int64_t m, std::int64_t n, std::int64_t batch,
                                std::int64_t c_row, const BatchOffsets c_offsets) {
  using Sum = Compute<C>;
  const bool is_dense = batch == 1 && c_row == n && c_offsets.levels == 0;
  const bool in_place = static_cast<const void*>(from) == static_cast<const void*>(c);
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < batch * m * n; i += threads) {
    std::int64_t column = 0, at = i;
    if (!is_dense || bias != nullptr) {  // dividing takes longer than the rest
      column = i % n;
      const std::int64_t row = i / n;
      at = c_offsets[row / m] + row % m * c_row + column;
    }
    Sum value = 0;
    if (from != nullptr) value = static_cast<Sum>(load_as_compute(from[in_place ? at : i]));
    if (bias != nullptr) value += load_as_compute(bias[column]);
    c[at] = store_from_compute<C>(activate(activation, value));
  }
}

// `from` holds float32 if `product.dtype` is a half and it is not c.
void finish(const Product& product, const std::byte* from, const char* operation) {
  with_float_type(product.result, [&]<class C>() {
    C* const c = reinterpret_cast<C*>(product.c);
    // A result other than `dtype` has neither bias nor activation.
    const C* const bias =
        product.result == product.dtype ? reinterpret_cast<const C*>(product.bias) : nullptr;
    const auto run = [&](const auto* values) {
      constexpr int threads = 256;
      const int blocks = blocks_for(product.batch * product.m * product.n, threads);
      finish_elements<<<blocks, threads, 0, stream()>>>(values, c, bias, product.activation,
                                                        product.m, product.n, product.batch,
                                                        product.c_row_stride, product.c_offsets);
      launched(operation);
    };
    if (from == nullptr || from == product.c) {
      run(reinterpret_cast<const C*>(from));
    } else {
      run(reinterpret_cast<const Compute<C>*>(from));
    }
  });
}

template <class T>
__global__ void copy_matrices(const T* from, T* to, std::int64_t rows, std::int64_t columns,
                              std::int64_t count, std::int64_t row_stride,
                              std::int64_t column_stride, const BatchOffsets offsets) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count * rows * columns; i += threads) {
    const std::int64_t column = i % columns, row = i / columns;
    to[i] = from[offsets[row / rows] + row % rows * row_stride + column * column_stride];
  }
}

// The form in which cuBLASLt reads a matrix of rows × columns, if it can.
bool as_dense(const Matrix& x, std::int64_t rows, std::int64_t columns, DenseMatrix& dense) {
  dense.data = x.data;
  // The stride of a dimension of size 1 is not used.
  const std::int64_t row = rows == 1 ? columns : x.row_stride;
  const std::int64_t column = columns == 1 ? 1 : x.column_stride;
  if (column == 1 && row >= columns) {
    dense.transposed = false;
    dense.leading = row;
    return true;
  }
  const std::int64_t first = rows == 1 ? 1 : x.row_stride;
  const std::int64_t second = columns == 1 ? rows : x.column_stride;
  if (first == 1 && second >= rows) {
    dense.transposed = true;
    dense.leading = second;
    return true;
  }
  return false;
}

// Copies a matrix that cuBLASLt cannot read; all matrices of the batch unless they are the same.
std::unique_ptr<Scratch> make_dense(Matrix& x, std::int64_t rows, std::int64_t columns,
                                    std::int64_t batch, DType dtype, DenseMatrix& dense,
                                    const char* operation) {
  if (as_dense(x, rows, columns, dense)) return nullptr;
  const std::int64_t count = x.offsets.levels == 0 ? 1 : batch;
  auto memory = std::make_unique<Scratch>(
      static_cast<std::size_t>(count * rows * columns) * itemsize(dtype), operation);
  with_bits_type(dtype, [&]<class T>() {
    constexpr int threads = 256;
    copy_matrices<<<blocks_for(count * rows * columns, threads), threads, 0, stream()>>>(
        reinterpret_cast<const T*>(x.data), memory->as<T>(), rows, columns, count, x.row_stride,
        x.column_stride, x.offsets);
    launched(operation);
  });
  x.data = memory->as();
  x.row_stride = columns;
  x.column_stride = 1;
  if (count > 1) x.offsets = BatchOffsets(rows * columns);
  as_dense(x, rows, columns, dense);
  return memory;
}

// ---- batches

// The batch as nested loops, outermost first, with one stride per operand and loop.
struct Loops {
  static constexpr int most = 3 * BatchOffsets::max_levels + 1;
  int count = 0;
  std::int64_t sizes[most];
  std::int64_t a[most], b[most], c[most];
};

// Returns false if the operands divide the batch in ways that do not nest.
bool find_loops(const Product& product, Loops& loops) {
  const BatchOffsets* const operands[] = {&product.a.offsets, &product.b.offsets,
                                          &product.c_offsets};
  // Every level of an operand begins at a multiple of the sizes inside it.
  std::int64_t bounds[Loops::most + 1] = {1};
  int count = 1;
  for (const BatchOffsets* offsets : operands) {
    std::int64_t inside = 1;
    for (int level = offsets->levels - 1; level > 0; --level) {
      inside *= offsets->sizes[level];
      if (inside < product.batch) bounds[count++] = inside;
    }
  }
  std::sort(bounds, bounds + count);
  count = static_cast<int>(std::unique(bounds, bounds + count) - bounds);
  bounds[count] = product.batch;
  for (int i = 0; i < count; ++i) {
    if (bounds[i + 1] % bounds[i] != 0) return false;
  }
  for (int i = count - 1; i >= 0; --i) {
    const std::int64_t size = bounds[i + 1] / bounds[i];
    if (size == 1) continue;
    const std::int64_t steps[] = {product.a.offsets[bounds[i]], product.b.offsets[bounds[i]],
                                  product.c_offsets[bounds[i]]};
    const int outer = loops.count - 1;
    if (outer >= 0 && loops.a[outer] == steps[0] * size && loops.b[outer] == steps[1] * size &&
        loops.c[outer] == steps[2] * size) {
      loops.sizes[outer] *= size;
      loops.a[outer] = steps[0];
      loops.b[outer] = steps[1];
      loops.c[outer] = steps[2];
      continue;
    }
    loops.sizes[loops.count] = size;
    loops.a[loops.count] = steps[0];
    loops.b[loops.count] = steps[1];
    loops.c[loops.count++] = steps[2];
  }
  return true;
}

constexpr std::int64_t most_calls = 1024;  // of cuBLASLt for one product

// One call of cuBLASLt for the longest loop, repeated for the others. Returns false, with nothing
// written, if it does not take the product.
bool multiply_batch(const Product& product, DenseProduct& dense, const char* operation) {
  Loops loops;
  if (!find_loops(product, loops)) return false;
  int inner = 0;
  for (int i = 1; i < loops.count; ++i) {
    if (loops.sizes[i] >= loops.sizes[inner]) inner = i;
  }
  std::int64_t calls = 1;
  for (int i = 0; i < loops.count; ++i) {
    if (i == inner) continue;
    if (loops.sizes[i] > most_calls / calls) return false;
    calls *= loops.sizes[i];
  }
  dense.batch = 1;
  if (loops.count > 0) {
    dense.batch = loops.sizes[inner];
    dense.a.step = loops.a[inner];
    dense.b.step = loops.b[inner];
    dense.c_step = loops.c[inner];
    // Products with the same b and adjacent rows of a and c are one product.
    if (dense.b.step == 0 && !dense.a.transposed && dense.a.step == product.m * dense.a.leading &&
        dense.c_step == product.m * dense.c_leading) {
      dense.m = product.m * dense.batch;
      dense.batch = 1;
    }
  }
  if (dense.batch == 1) dense.a.step = dense.b.step = dense.c_step = 0;
  const auto size = static_cast<std::int64_t>(itemsize(product.dtype));
  const auto result_size = static_cast<std::int64_t>(itemsize(product.result));
  const std::int64_t a_first = product.a.offsets[0], b_first = product.b.offsets[0],
                     c_first = product.c_offsets[0];
  for (std::int64_t call = 0; call < calls; ++call) {
    std::int64_t rest = call, a = a_first, b = b_first, c = c_first;
    for (int i = loops.count - 1; i >= 0; --i) {
      if (i == inner) continue;
      const std::int64_t digit = rest % loops.sizes[i];
      rest /= loops.sizes[i];
      a += digit * loops.a[i];
      b += digit * loops.b[i];
      c += digit * loops.c[i];
    }
    dense.a.data = product.a.data + a * size;
    dense.b.data = product.b.data + b * size;
    dense.c = product.c + c * result_size;
    if (multiply_dense(dense, operation)) continue;
    if (call == 0) return false;
    // A later call has other alignments, for which there may be no algorithm.
    Product one = product;
    one.batch = dense.batch;
    one.m = dense.m;
    const auto strided = [](const DenseMatrix& x) {
      return Matrix{static_cast<const std::byte*>(x.data), x.transposed ? 1 : x.leading,
                    x.transposed ? x.leading : 1, BatchOffsets(x.step)};
    };
    one.a = strided(dense.a);
    one.b = strided(dense.b);
    one.c = static_cast<std::byte*>(dense.c);
    one.c_offsets = BatchOffsets(dense.c_step);
    multiply_tiled(one, operation);
  }
  return true;
}

// Products for which one launch of the own kernel takes less time than cuBLASLt needs to start.
bool is_small(const Product& product) {
  constexpr std::int64_t small_sum = 128, small_work = 1 << 16;
  if (product.k > small_sum || product.m > small_work || product.n > small_work ||
      product.batch > small_work) {
    return false;
  }
  const std::int64_t elements = product.m * product.n;
  return elements <= small_work && elements * product.batch * product.k <= small_work;
}

// `fuse` lets cuBLASLt add the bias.
void multiply_floats(const Product& product, bool fuse, const char* operation) {
  // cuBLASLt adds the bias before it rounds, and it rounds as a relu does not notice. Other
  // activations of halves read the float32 sums.
  const bool is_relu = product.activation == Activation::relu;
  const bool fused_bias = fuse && product.bias != nullptr && product.dtype != DType::float64 &&
                          (product.activation == Activation::none || is_relu);
  const bool separate =
      (product.bias != nullptr && !fused_bias) || product.activation != Activation::none;
  const bool wide = separate && is_half(product.result) && !is_relu;

  Product plain = product;
  plain.activation = Activation::none;
  if (!fused_bias) plain.bias = nullptr;
  std::unique_ptr<Scratch> sums;
  if (wide) {
    sums = std::make_unique<Scratch>(
        static_cast<std::size_t>(product.batch * product.m * product.n) * sizeof(float), operation);
    plain.result = DType::float32;
    plain.c = sums->as();
    plain.c_row_stride = product.n;
    plain.c_offsets = BatchOffsets(product.m * product.n);
  }
  DenseProduct dense{};
  dense.dtype = plain.dtype;
  dense.result = plain.result;
  dense.m = plain.m;
  dense.n = plain.n;
  dense.k = plain.k;
  dense.c_leading = plain.m == 1 ? std::max(plain.n, plain.c_row_stride) : plain.c_row_stride;
  dense.bias = plain.bias;
  dense.scale = plain.scale;
  dense.accumulate = plain.accumulate;
  const auto a_copy =
      make_dense(plain.a, plain.m, plain.k, plain.batch, plain.dtype, dense.a, operation);
  const auto b_copy =
      make_dense(plain.b, plain.k, plain.n, plain.batch, plain.dtype, dense.b, operation);
  if (!multiply_batch(plain, dense, operation)) {
    if (fused_bias) return multiply_floats(product, false, operation);
    Product whole = product;
    whole.a = plain.a;
    whole.b = plain.b;
    return multiply_tiled(whole, operation);
  }
  if (!separate) return;
  Product last = product;
  if (fused_bias) last.bias = nullptr;
  finish(last, wide ? sums->as() : product.c, operation);
}

}  // namespace

void multiply(const Product& product, const char* operation) {
  if (product.batch == 0 || product.m == 0 || product.n == 0) return;
  if (product.k == 0) {
    if (!product.accumulate && is_floating_point(product.dtype)) {
      return finish(product, nullptr, operation);
    }
    if (product.accumulate) return;
  }
  if (!is_floating_point(product.dtype) || is_small(product)) {
    return multiply_tiled(product, operation);
  }
  multiply_floats(product, true, operation);
}

}  // namespace extensor::backend::cuda
