// Rows of a table selected by number, and the sums of their gradients. The latter sorts the ids, so
// that each row of the table is written once and summed in the order of its positions.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/radix.h"

namespace extensor::backend::cuda {

namespace {

// first[r] is the first position with an id of at least r, for r = 0 … rows.
template <class Word>
__global__ void find_firsts(const Word* ids, std::int64_t count, std::int64_t rows, Word* first) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t r = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; r <= rows;
       r += step) {
    std::int64_t begin = 0, end = count;
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (static_cast<std::int64_t>(ids[middle]) < r) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    first[r] = static_cast<Word>(begin);
  }
}

constexpr int sum_threads = 256;

// A warp sums 32 packs of one row of the table.
template <class S, class Word, int width>
__global__ void __launch_bounds__(sum_threads)
    sum_rows(const S* values, const Word* positions, const Word* first, std::int64_t rows,
             std::int64_t columns, std::int64_t skipped, S* out) {
  using C = Compute<S>;
  constexpr int together = 4;
  const std::int64_t spans = (columns + 32 * width - 1) / (32 * width);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (sum_threads / 32);
  for (std::int64_t unit = blockIdx.x * (sum_threads / 32) + threadIdx.x / 32; unit < rows * spans;
       unit += warps) {
    const std::int64_t row = unit / spans;
    const std::int64_t column = (unit % spans * 32 + threadIdx.x % 32) * width;
    const std::int64_t begin = first[row], end = row == skipped ? begin : first[row + 1];
    double sums[width] = {};
    C single[width] = {};
    if (end - begin == 1) {
      load_pack<width>(values + positions[begin] * columns, column, columns, C(0), single);
    } else {
      for (std::int64_t at = begin; at < end; at += together) {
        C loaded[together][width];
#pragma unroll
        for (int k = 0; k < together; ++k) {
          const std::int64_t position = at + k < end ? positions[at + k] : 0;
          load_pack<width>(values + position * columns, column, at + k < end ? columns : 0, C(0),
                           loaded[k]);
        }
#pragma unroll
        for (int k = 0; k < together; ++k) {
#pragma unroll
          for (int e = 0; e < width; ++e) sums[e] += loaded[k][e];
        }
      }
#pragma unroll
      for (int e = 0; e < width; ++e) single[e] = static_cast<C>(sums[e]);
    }
    store_pack<width>(single, out + row * columns, column, columns);
  }
}

template <class S, class Word>
void sum_gradients(const EmbeddingCall& call) {
  const SortedIndices<Word> ids(call.ids, call.count, call.rows, "embedding");
  const Scratch first(static_cast<std::size_t>(call.rows + 1) * sizeof(Word), "embedding");
  find_firsts<<<blocks_for(call.rows + 1, 128), 128, 0, stream()>>>(ids.indices(), call.count,
                                                                    call.rows, first.as<Word>());
  launched("embedding");
  const bool vectors = call.width % pack_width<S> == 0 && are_aligned(call.values, call.out);
  const auto run = [&]<int width>() {
    const std::int64_t units = call.rows * divide_up(call.width, 32 * width);
    sum_rows<S, Word, width>
        <<<grid_for(divide_up(units, sum_threads / 32)), sum_threads, 0, stream()>>>(
            elements<S>(call.values), ids.positions(), first.as<Word>(), call.rows, call.width,
            call.skipped, elements<S>(call.out));
    launched("embedding");
  };
  if (vectors) {
    run.template operator()<pack_width<S>>();
  } else {
    run.template operator()<1>();
  }
}

}  // namespace

void embedding(const EmbeddingCall& call) {
  if (!call.backward) {
    return index({.op = IndexOp::take_rows,
                  .dtype = call.dtype,
                  .outer = 1,
                  .length = call.rows,
                  .count = call.count,
                  .inner = call.width,
                  .indices = call.ids,
                  .source = call.values,
                  .out = call.out});
  }
  if (call.rows == 0 || call.width == 0) return;
  with_float_type(call.dtype, [&]<class S>() {
    if (fits_32_bits(call.rows + 1) && fits_32_bits(call.count + 1)) {
      sum_gradients<S, std::uint32_t>(call);
    } else {
      sum_gradients<S, std::uint64_t>(call);
    }
  });
}

}  // namespace extensor::backend::cuda
