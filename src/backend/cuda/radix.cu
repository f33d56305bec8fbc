#include "backend/cuda/radix.h"

#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/group.cuh"

namespace extensor::backend::cuda {

template <class Key, class Value>
void sort_pairs(SortBuffers<Key, Value>& buffers, std::int64_t count, int bits,
                const char* operation) {
  if (count < 2) return;
  cub::DoubleBuffer<Key> keys(buffers.keys, buffers.other_keys);
  cub::DoubleBuffer<Value> values(buffers.values, buffers.other_values);
  std::size_t bytes = 0;
  const auto run = [&](void* memory) {
    check(cub::DeviceRadixSort::SortPairs(memory, bytes, keys, values, count, 0, bits, stream()),
          operation);
  };
  run(nullptr);
  Scratch memory(bytes < 1 ? 1 : bytes, operation);
  run(memory.as<void>());
  buffers = {keys.Current(), keys.Alternate(), values.Current(), values.Alternate()};
}
template void sort_pairs(SortBuffers<std::uint32_t, std::uint32_t>&, std::int64_t, int,
                         const char*);
template void sort_pairs(SortBuffers<std::uint64_t, std::uint32_t>&, std::int64_t, int,
                         const char*);
template void sort_pairs(SortBuffers<std::uint64_t, std::uint64_t>&, std::int64_t, int,
                         const char*);

namespace {

template <class Word>
__global__ void number(const std::int64_t* indices, std::int64_t count, Word* keys,
                       Word* positions) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    keys[i] = static_cast<Word>(indices[i]);
    positions[i] = static_cast<Word>(i);
  }
}

}  // namespace

template <class Word>
SortedIndices<Word>::SortedIndices(const std::int64_t* indices, std::int64_t count,
                                   std::int64_t limit, const char* operation)
    : memory_(4 * static_cast<std::size_t>(count) * sizeof(Word), operation) {
  Word* first = memory_.as<Word>();
  buffers_ = {first, first + count, first + 2 * count, first + 3 * count};
  if (count == 0) return;
  number<<<blocks_for(count, 256), 256, 0, stream()>>>(indices, count, buffers_.keys,
                                                       buffers_.values);
  launched(operation);
  sort_pairs(buffers_, count, bits_below(limit), operation);
}
template class SortedIndices<std::uint32_t>;
template class SortedIndices<std::uint64_t>;

}  // namespace extensor::backend::cuda
