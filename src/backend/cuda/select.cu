// Reads and writes strided memory at offsets: the kernel of index expressions with tensors.
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/radix.h"

namespace extensor::backend::cuda {

namespace {

constexpr int threads = 256;

// The axes to iterate over, passed to kernels by value.
struct Axes {
  int rank = 0;
  std::int64_t numel = 1;
  std::int64_t size[max_rank], stride[max_rank];

  // Without axes of size 1, and with adjacent ones merged if one stride covers them.
  Axes(const Shape& shape, const Strides& strides) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      numel *= shape[d];
      if (shape[d] == 1) continue;
      if (rank > 0 && stride[rank - 1] == shape[d] * strides[d]) {
        size[rank - 1] *= shape[d];
        stride[rank - 1] = strides[d];
      } else {
        size[rank] = shape[d];
        stride[rank] = strides[d];
        ++rank;
      }
    }
  }

  template <class Index>
  __device__ std::int64_t offset(Index position) const {
    std::int64_t result = 0;
    for (int d = rank - 1; d > 0; --d) {
      const Index n = static_cast<Index>(size[d]);
      result += static_cast<std::int64_t>(position % n) * stride[d];
      position /= n;
    }
    return rank == 0 ? 0 : result + static_cast<std::int64_t>(position) * stride[0];
  }
};

template <class T>
struct SelectArguments {
  std::int64_t count;
  const std::int64_t* offsets;
  const bool* wins;   // null: every offset is written
  std::int64_t step;  // 0: one dense element is written everywhere
  T* strided;
  T* dense;
};

// Index is uint32 if it can number all elements.
template <bool writes, class T, class Index>
__global__ void __launch_bounds__(threads)
    move(const __grid_constant__ Axes outer, const __grid_constant__ Axes inner,
         SelectArguments<T> arguments) {
  const Index width = static_cast<Index>(inner.numel), count = static_cast<Index>(arguments.count);
  const std::uint64_t total = static_cast<std::uint64_t>(outer.numel) * count * width;
  const std::uint64_t grid = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x;
       i < total; i += grid) {
    const Index number = static_cast<Index>(i);
    const Index column = number % width, row = number / width;
    const Index j = row % count, o = row / count;
    if (writes && arguments.wins != nullptr && !arguments.wins[j]) continue;
    const std::int64_t at = outer.offset(o) + arguments.offsets[j] + inner.offset(column);
    if constexpr (writes) {
      arguments.strided[at] = arguments.dense[static_cast<std::int64_t>(i) * arguments.step];
    } else {
      arguments.dense[i] = arguments.strided[at];
    }
  }
}

// ---- offsets that occur more than once

__global__ void number_offsets(const std::int64_t* offsets, std::int64_t count, std::uint64_t* keys,
                               std::uint64_t* positions) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t j = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; j < count;
       j += step) {
    keys[j] = static_cast<std::uint64_t>(offsets[j]);
    positions[j] = static_cast<std::uint64_t>(j);
  }
}
// The last position of each offset wins.
__global__ void mark_winners(const std::uint64_t* keys, const std::uint64_t* positions,
                             std::int64_t count, bool* wins) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t j = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; j < count;
       j += step) {
    wins[positions[j]] = j + 1 == count || keys[j + 1] != keys[j];
  }
}

void find_winners(const SelectCall& call, bool* wins) {
  const auto count = static_cast<std::size_t>(call.count);
  const Scratch memory(4 * count * sizeof(std::uint64_t), "select");
  auto* keys = memory.as<std::uint64_t>();
  std::uint64_t* positions = keys + 2 * count;
  SortBuffers<std::uint64_t, std::uint64_t> buffers{keys, keys + count, positions,
                                                    positions + count};
  const int blocks = blocks_for(call.count, threads);
  number_offsets<<<blocks, threads, 0, stream()>>>(call.offsets, call.count, keys, positions);
  launched("select");
  sort_pairs(buffers, call.count, 64, "select");
  mark_winners<<<blocks, threads, 0, stream()>>>(buffers.keys, buffers.values, call.count, wins);
  launched("select");
}

template <bool writes, class T>
void run(const SelectCall& call) {
  const Axes outer(*call.outer_shape, *call.outer_strides);
  const Axes inner(*call.inner_shape, *call.inner_strides);
  const std::int64_t total = outer.numel * call.count * inner.numel;
  if (total == 0) return;
  const bool repeats = writes && !call.distinct && call.count > 1;
  const Scratch wins(repeats ? static_cast<std::size_t>(call.count) : 1, "select");
  if (repeats) find_winners(call, wins.as<bool>());
  const SelectArguments<T> arguments{call.count,
                                     call.offsets,
                                     repeats ? wins.as<bool>() : nullptr,
                                     call.single ? 0 : 1,
                                     elements<T>(call.strided),
                                     elements<T>(call.dense)};
  const int blocks = blocks_for(total, threads, 16);
  if (total < std::int64_t{1} << 31) {
    move<writes, T, std::uint32_t><<<blocks, threads, 0, stream()>>>(outer, inner, arguments);
  } else {
    move<writes, T, std::uint64_t><<<blocks, threads, 0, stream()>>>(outer, inner, arguments);
  }
  launched("select");
}

}  // namespace

void select(const SelectCall& call) {
  with_moved_type(call.dtype,
                  [&]<class T>() { call.writes ? run<true, T>(call) : run<false, T>(call); });
}

}  // namespace extensor::backend::cuda
